"""The commands that look after a vault."""

from memfs.cli.arguments import Command, argument, flag

TABLE: tuple[Command, ...] = (
    Command(
        "scan", "scanning", "Show where files hold secrets, by path, line and kind; exit code 1 if any does.",
        (
            argument("paths", metavar="PATH", nargs="*", help="files, directories or namespaces (default: all files)",
                     completes="ref"),
            flag("--staged", help="look at what git has staged, as the next commit will have it"),
            flag("-z", "--zero", help="read further paths from stdin, each ended by a zero byte"),
            flag("--all", help="look for every kind, also what memfs.yaml leaves alone"),
        ),
        "memfs scan\nmemfs scan /facts/alice --all\ngit diff --name-only -z main | memfs scan -z",
    ),
)  # fmt: skip
