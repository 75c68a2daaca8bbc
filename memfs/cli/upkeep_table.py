"""The commands that look after a vault."""

from memfs.cli.arguments import AT, AUDITED, REFS, WITHIN, Command, argument, flag, moment, positive, several, share

DRAWINGS = ("text", "json", "dot", "mermaid")
FIELD = several("--field", metavar="NAME", help="a header key, or body; may be repeated")
KEY = argument("--key", metavar="NAME", default="default", help="the name of the key (default: default)")
_HUB = (
    argument("url", metavar="URL", nargs="?", help="the hub: postgresql://USER@HOST/DATABASE; else MEMFS_HUB"),
    *WITHIN,
    argument("--tenant", metavar="ROLE", help="for this role of the server (default: the user's own)"),
    flag("--dry-run", help="show what would be done, and do nothing"),
)

TABLE: tuple[Command, ...] = (
    Command(
        "graph", "graph", "Show how memories are linked: all of them, what is around one, or the way to another.",
        (
            argument("ref", metavar="REF", nargs="?", completes="ref",
                     help="a memory, by path, id, title or alias (default: an overview)"),
            argument("--depth", metavar="N", type=positive, default=1, help="up to N links away (default: 1)"),
            argument("--to", metavar="REF", help="the shortest way to this memory", completes="ref"),
            argument("--as-of", metavar="DATE", type=moment, help="only what held then: a day, or a time"),
            argument("--relation", metavar="R", help="only links that say this, such as owned_by or mentions"),
            flag("--orphans", help="list the memories without a link in or out"),
            argument("--format", choices=DRAWINGS, default=DRAWINGS[0], completes=" ".join(DRAWINGS),
                     help="text (the default), json, dot (Graphviz) or mermaid"),
        ),
        "memfs graph\n"
        "memfs graph 'Bob Tanaka' --depth 2 --as-of 2026-06-01\n"
        "memfs graph people/emma --to people/yuki\n"
        "memfs graph projects/atlas/Atlas --format dot | dot -Tsvg > atlas.svg",
    ),
    Command(
        "eval", "evaluating", "Ask the questions of queries.yaml; exit code 1 if they do not find what they should.",
        (
            argument("--file", metavar="FILE", help="other questions than those of the vault; - reads stdin"),
            argument("--k", metavar="N", type=positive, help="count the first N hits of every question"),
            argument(
                "--min-recall", metavar="X", type=share, default=1.0,
                help="the share of what is expected that must be found, 0 to 1 (default: 1)",
            ),
        ),
        "memfs eval\nmemfs eval --k 1 --min-recall 0.8\nmemfs eval --json | jq .recall",
    ),
    Command(
        "stats", "forgetting", "Show what is in the vault, how much of it has faded, and what agents recalled.",
        (*WITHIN, AT),
        "memfs stats\nmemfs stats /facts --json | jq .searches.ratio",
    ),
    Command(
        "prune", "forgetting", "Show the memories that have faded; with --yes, move them to archive/.",
        (
            *WITHIN,
            argument("--below", metavar="X", type=share, help="less than this is left, 0 to 1 (default: 0.05)"),
            AT,
            flag("--all", help="show all of them, not only the first 20"),
            flag("-y", "--yes", help="move them to archive/"),
        ),
        "memfs prune\nmemfs prune /facts --below 0.1 --yes",
    ),
    Command(
        "audit", "auditing", "Show memories that are there twice, out of date, unused or in contradiction.",
        (
            *WITHIN,
            several(
                "--kind", choices=AUDITED, completes=" ".join(AUDITED), metavar="KIND",
                help=f"only this one; repeated: any of them: {', '.join(AUDITED)}",
            ),
            flag("--all", help="all of them, not only the first of each kind"),
            AT,
        ),
        "memfs audit\nmemfs audit /facts --kind duplicate --kind contradiction",
    ),
    Command(
        "encrypt", "encryption", "Encrypt the bodies of memories, or header keys of them.",
        (REFS, FIELD, KEY, flag("--rename", help="name the file by its id, for its name may say what is in it")),
        "export MEMFS_KEY=$(memfs keygen)\n"
        "memfs encrypt facts/bob/allergic-to-peanuts --rename\n"
        "memfs encrypt people/bob --field phone --field birthday --key team",
    ),
    Command(
        "decrypt", "encryption", "Decrypt what is encrypted in memories, and write it back.", (REFS, FIELD),
        "memfs decrypt people/bob --field phone\nmemfs read people/bob --reveal  # shows it, and changes nothing",
    ),
    Command(
        "rotate", "encryption", "Encrypt with a new key what is encrypted with an old one.",
        (
            argument("--from", dest="old", metavar="OLD", required=True, help="the name of the old key"),
            argument("--to", dest="new", metavar="NEW", required=True, help="the name of the new key"),
            *WITHIN,
        ),
        "export MEMFS_KEY_NEXT=$(memfs keygen --key next)\nmemfs rotate --from default --to next",
    ),
    Command(
        "keygen", "encryption", "Print a new key for encryption, and how to set it.", (KEY,),
        "export MEMFS_KEY=$(memfs keygen)",
    ),
    Command(
        "scan", "scanning", "Show where files hold secrets, by path, line and kind; exit code 1 if any does.",
        (
            argument("paths", metavar="PATH", nargs="*", help="files, directories or namespaces (default: all files)",
                     completes="ref"),
            several("-n", "--namespace", metavar="NS", help="a namespace; may be repeated", completes="namespace"),
            flag("--staged", help="look at what git has staged, as the next commit will have it"),
            flag("-z", "--zero", help="read paths from stdin, each ended by a zero byte; pass over what is not there"),
            flag("--all", help="look for every kind, also what memfs.yaml leaves alone"),
        ),
        "memfs scan\nmemfs scan /facts/alice --all\ngit diff --name-only --relative -z main | memfs scan -z",
    ),
    Command(
        "push", "hub", "Send what changed to a hub, a PostgreSQL database that vaults share; exit code 3 on conflicts.",
        (*_HUB, flag("--all-removals", help="send removals also where most memories, or whole namespaces, are gone")),
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
