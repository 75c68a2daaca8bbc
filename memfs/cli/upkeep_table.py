"""The commands that look after a vault."""

from memfs.cli.arguments import AT, AUDITED, WITHIN, Command, argument, flag, number, several

TABLE: tuple[Command, ...] = (
    Command(
        "stats", "forgetting", "Show what is in the vault, how much of it has faded, and what agents recalled.",
        (WITHIN, AT),
        "memfs stats\nmemfs stats /facts --json | jq .searches.ratio",
    ),
    Command(
        "prune", "forgetting", "Show the memories that have faded; with --yes, move them to archive/.",
        (
            WITHIN,
            argument("--below", metavar="X", type=number, help="less than this is left, 0 to 1 (default: 0.05)"),
            AT,
            flag("-y", "--yes", help="move them to archive/"),
        ),
        "memfs prune\nmemfs prune /facts --below 0.1 --yes",
    ),
    Command(
        "audit", "auditing", "Show memories that are there twice, out of date, unused or in contradiction.",
        (
            WITHIN,
            several(
                "--kind", choices=AUDITED, completes=" ".join(AUDITED), metavar="KIND",
                help=f"only this one; repeated: any of them: {', '.join(AUDITED)}",
            ),
            flag("--all", help="all of them, not only the first of each kind"),
            AT,
        ),
        "memfs audit\nmemfs audit /facts --kind duplicate --kind contradiction",
    ),
)  # fmt: skip
