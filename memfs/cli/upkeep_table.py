"""The commands that look after a vault."""

from memfs.cli.arguments import Command, argument, flag

_HUB = (
    argument("url", metavar="URL", nargs="?", help="the hub: postgresql://USER@HOST/DATABASE; else MEMFS_HUB"),
    argument("namespace", metavar="NS", nargs="?", help="only what lies below it", completes="namespace"),
    argument("--tenant", metavar="ROLE", help="for this role of the server (default: the user's own)"),
    flag("--dry-run", help="show what would be done, and do nothing"),
)

TABLE: tuple[Command, ...] = (
    Command(
        "push", "hub", "Send what changed to a hub, a PostgreSQL database that vaults share; exit code 3 on conflicts.",
        (*_HUB, flag("--all-removals", help="send removals also where most memories are gone")),
        "memfs push postgresql://alice@db.example.org/memories\n"
        "MEMFS_HUB=postgresql://alice@db.example.org/memories memfs push /projects --dry-run",
    ),
    Command(
        "pull", "hub", "Take what changed on a hub; where a memory changed here too, the hub's is put beside it.",
        _HUB,
        "memfs pull postgresql://alice@db.example.org/memories\n"
        "memfs pull postgresql://alice@db.example.org/memories /projects --json | jq .conflicts",
    ),
)  # fmt: skip
