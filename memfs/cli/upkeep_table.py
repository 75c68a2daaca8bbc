"""The commands that look after a vault."""

from memfs.cli.arguments import Command, argument, number, positive

TABLE: tuple[Command, ...] = (
    Command(
        "eval", "evaluating", "Ask the questions of queries.yaml; exit code 1 if they do not find what they should.",
        (
            argument("--file", metavar="FILE", help="other questions than those of the vault; - reads stdin"),
            argument("--k", metavar="N", type=positive, help="count the first N hits of every question"),
            argument(
                "--min-recall", metavar="X", type=number, default=1.0,
                help="the share of what is expected that must be found, 0 to 1 (default: 1)",
            ),
        ),
        "memfs eval\nmemfs eval --k 1 --min-recall 0.8\nmemfs eval --json | jq .recall",
    ),
)  # fmt: skip
