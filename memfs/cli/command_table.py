"""The table of commands: the module, the summary, the arguments and the examples of each command."""

from memfs.cli.arguments import (
    AT_DATE,
    AUDIT_KINDS,
    EXPORT_FORMATS,
    LIST_VERSIONS,
    NAMESPACE_ARGUMENTS,
    QUESTION,
    REF,
    REFS,
    SEARCH_FILTERS,
    SEMANTIC,
    SESSION_ACTIONS,
    SET,
    SHELLS,
    STRATEGY_KINDS,
    TAG,
    TEXT,
    TYPE,
    TYPES,
    Command,
    argument,
    flag,
    parse_condition,
    parse_date_or_time,
    parse_fraction,
    parse_number,
    parse_positive,
    parse_tag,
    repeated,
    whole_number,
)

GRAPH_FORMATS = ("text", "json", "dot", "mermaid")
FIELD = repeated("--field", metavar="NAME", help="a header key, or body; may be repeated")
KEY = argument("--key", metavar="NAME", default="default", help="the name of the key (default: default)")
_HUB_ARGS = (
    argument("url", metavar="URL", nargs="?", help="the hub: postgresql://USER@HOST/DATABASE (default: MEMFS_HUB)"),
    *NAMESPACE_ARGUMENTS,
    argument("--tenant", metavar="ROLE", help="act for this role of the server (default: the user's own)"),
    flag("--dry-run", help="show what would be done, but change nothing"),
)

COMMANDS: tuple[Command, ...] = (
    Command(
        "init", "commands.init", "Make a vault in a new or existing directory; no file in it changes.",
        (argument("dir", metavar="DIR", nargs="?", help="the directory (default: this one)", completes="directory"),),
        "memfs init notes",
    ),
    Command(
        "add", "commands.write", "Add a memory.",
        (
            TEXT,
            argument("-n", "--namespace", metavar="NS", help="the namespace (default: /)", completes="namespace"),
            argument("--type", help=f"{', '.join(TYPES)} (the default), or any other", completes=" ".join(TYPES)),
            repeated("--tag", metavar="TAG", type=parse_tag, help="a tag; may be repeated"),
            argument("--title", help="the title"),
            argument("--importance", metavar="N", type=whole_number(1, 10), help="1 to 10 (default: 1)"),
            SET,
        ),
        "memfs add 'Alice likes sushi with tuna.' -n /preferences/alice --type preference --tag food\n"
        "memfs add - -n /notes --set source='talk with Bob' < talk.md",
    ),
    Command(
        "append", "commands.write", "Add lines to the end of a memory.", (REF, TEXT),
        "memfs append people/bob 'Back from Tokyo on 20 December.'",
    ),
    Command(
        "update", "commands.write",
        "Change header keys, tags or the body of a memory; nothing else in the file changes.",
        (
            REF,
            SET,
            repeated("--unset", metavar="KEY", help="remove a header key"),
            repeated("--tag", metavar="TAG", type=parse_tag, help="add a tag"),
            repeated("--untag", metavar="TAG", type=parse_tag, help="remove a tag"),
            argument("--body", metavar="TEXT", help="the new body; - reads it from stdin"),
            argument("--seen", metavar="STAMP", help="fail if the file changed since `read --json` printed this stamp"),
        ),
        "memfs update people/bob --set importance=7 --set pinned=true --tag team --unset source",
    ),
    Command(
        "edit", "commands.edit", "Edit a memory in $VISUAL or $EDITOR.", (REF,),
        "EDITOR='code --wait' memfs edit people/bob",
    ),
    Command(
        "move", "commands.write", "Move a memory to a namespace, or to a path that ends in .md; its id stays.",
        (REF, argument("to", metavar="TO", help="a namespace or a path", completes="namespace")),
        "memfs move notes/dentist /health",
    ),
    Command(
        "forget", "commands.write", "Move memories to archive/, where searches do not find them by default.", (REFS,),
        "memfs forget facts/alice/climbs-6b",
    ),
    Command(
        "remove", "commands.write", "Delete memories and their kept versions.",
        (REFS, flag("-y", "--yes", help="do not ask for confirmation")),
        "memfs remove notes/dentist --yes",
    ),
    Command(
        "read", "commands.read", "Print a memory.",
        (
            REF,
            flag("--body", help="print only the body"),
            flag("--reveal", help="decrypt it for this output; the file does not change"),
        ),
        "memfs read people/bob\nmemfs read people/bob --json | jq .header",
    ),
    Command(
        "list", "commands.list", "List the memories in a namespace.",
        (
            *NAMESPACE_ARGUMENTS,
            TYPE,
            TAG,
            flag("--tree", help="as a tree of namespaces (the default)"),
            flag("--table", help="as a table"),
            flag("--paths", help="one path per line"),
            flag("--archived", help="include archived memories"),
            argument("--limit", metavar="N", type=parse_positive, help="only the first N"),
        ),
        "memfs list /facts --table\n"
        "memfs list --type person --tag lyon\n"
        "memfs list --paths --archived | grep -c ^archive/",
    ),
    Command(
        "search", "commands.search", "Find the memories that answer a question.",
        (
            QUESTION, *SEARCH_FILTERS, SEMANTIC,
            flag("--explain", help="explain why each memory was found"),
            flag("--paths", help="one path per line"),
        ),
        "memfs search what is Bob allergic to\n"
        "memfs search climbing -n /facts/alice --type fact --updated 2026-01-01.. --explain\n"
        "memfs search --semantic which nuts make him ill\n"
        "memfs search deadline --where 'importance >= 5' --where 'project EQUALS atlas' --where 'source EXISTS'",
    ),
    Command(
        "explain-miss", "commands.search", "Explain why a search does not return a memory, or why it does.",
        (REF, QUESTION, *SEARCH_FILTERS, SEMANTIC),
        "memfs explain-miss facts/alice/climbs-6b how well does Alice climb",
    ),
    Command(
        "check", "commands.check", "Show problems in the files of the vault; exit code 1 if there are any.",
        (*NAMESPACE_ARGUMENTS, flag("--all", help="print all broken links, not only the first 20")), "memfs check",
    ),
    Command(
        "versions", "commands.read", "List the kept versions of a memory, even if its file is gone.", (REF,),
        "memfs versions people/bob",
    ),
    Command(
        "restore", "commands.write",
        "Restore a kept version of a memory; by default the last that differs from the file.",
        (REF, argument("--version", metavar="HASH", help="the start of a hash from `memfs versions`"), LIST_VERSIONS),
        "memfs restore people/bob --version 3f9a",
    ),
    Command(
        "sync", "commands.index", "Bring the search index up to date; every search does this anyway.", (),
        "memfs sync",
    ),
    Command(
        "watch", "commands.watch", "Print changes in the vault as they happen, and keep the index up to date.", (),
        "memfs watch\nmemfs watch --json | jq --unbuffered -r .path",
    ),
    Command(
        "status", "commands.index", "Show the state of the index; changes nothing.", (),
        "memfs status",
    ),
    Command(
        "doctor", "commands.index",
        "Compare the index with the files and repair it; exit code 1 if problems remain.",
        (flag("--check", help="only report problems"),),
        "memfs doctor --check",
    ),
    Command(
        "retry", "commands.retry",
        "Show the turns that agents have not saved yet; retry those for which extraction failed.",
        (
            argument("batches", metavar="BATCH", nargs="*", help="a batch, by the start of its name"),
            flag("--all", help="all batches"),
            flag("--drop", help="drop them instead; also a pending log, by its name"),
        ),
        "memfs retry --all",
    ),
    Command(
        "strategies", "commands.strategies", "Distil a session again into a summary, preferences and facts.",
        (
            argument("action", metavar="run", choices=("run",), help="what to do: run"),
            argument("session", metavar="SESSION", help="a session, by its name", completes="session"),
            repeated(
                "--strategy", metavar="KIND", choices=STRATEGY_KINDS, completes=" ".join(STRATEGY_KINDS),
                help=f"only this one: {', '.join(STRATEGY_KINDS)}",
            ),
            argument("--actor", metavar="NAME", help="only the logs of this actor, and those that name no actor"),
            argument("--model", metavar="MODULE:NAME", help="the model, as a Python object (default: MEMFS_MODEL)"),
            argument("--script", metavar="FILE", help="a JSON array of replies instead of a model; - reads stdin"),
        ),
        "memfs strategies run s-2026-11-15\n"
        "memfs strategies run s-2026-11-15 --strategy facts --model my_models:claude",
    ),
    Command(
        "sessions", "commands.sessions",
        "List the sessions of agents; show, follow or export one.",
        (
            argument(
                "action", metavar="ACTION", nargs="?", default="list", completes=" ".join(SESSION_ACTIONS),
                help="list (the default), show, tail or export",
            ),
            argument("session", metavar="SESSION", nargs="?", help="a session, by its name", completes="session"),
            argument("--actor", metavar="ACTOR", help="list: only sessions with this actor"),
            argument("--agent", metavar="AGENT", help="show, tail, export: only the log of this agent"),
            argument("--branch", metavar="NAME", help="show, tail, export: the events of this branch"),
            repeated("--where", metavar="CONDITION", type=parse_condition,
                     help="a condition 'KEY OPERATOR VALUE' on sessions or events"),
            argument("--limit", metavar="N", type=parse_positive, help="only the last N"),
            argument("--format", choices=EXPORT_FORMATS, completes=" ".join(EXPORT_FORMATS),
                     help="export: jsonl (the default) or markdown"),
            flag("-f", "--follow", help="tail: print new events until Ctrl-C"),
            flag("--archived", help="the archived sessions"),
        ),
        "memfs sessions list --actor alice --where 'updated AFTER 2026-11-01'\n"
        "memfs sessions show s-2026-11-15 --where 'role = user'\n"
        "memfs sessions tail s-2026-11-15 -f\n"
        "memfs sessions export s-2026-11-15 --format markdown > talk.md",
    ),
    Command(
        "actors", "commands.sessions", "List the actors of all sessions.", (), "memfs actors",
    ),
    Command(
        "expire", "commands.sessions", "Show the sessions not used for DAYS days; with --yes, archive them.",
        (
            argument("days", metavar="DAYS", type=parse_number, help="the number of days"),
            flag("-y", "--yes", help="move them to archive/sessions/"),
        ),
        "memfs expire 90\nmemfs expire 90 --yes",
    ),
    Command(
        "completion", "completion", "Print a shell script that completes memfs commands.",
        (argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish", completes=" ".join(SHELLS)),),
        "source <(memfs completion bash)\nmemfs completion fish | source",
    ),
    Command(
        "graph", "commands.graph",
        "Show the links between memories: all, those of one memory, or the path to another.",
        (
            argument("ref", metavar="REF", nargs="?", completes="ref",
                     help="a memory, by path, id, title or alias (default: an overview)"),
            argument("--depth", metavar="N", type=parse_positive, default=1, help="up to N links away (default: 1)"),
            argument("--to", metavar="REF", help="show the shortest path to this memory", completes="ref"),
            argument("--as-of", metavar="DATE", type=parse_date_or_time,
                     help="only links valid on this date or at this time"),
            argument("--relation", metavar="R", help="only links with this relation, such as owned_by or mentions"),
            flag("--orphans", help="list the memories without links"),
            argument("--format", choices=GRAPH_FORMATS, default=GRAPH_FORMATS[0], completes=" ".join(GRAPH_FORMATS),
                     help="text (the default), json, dot (Graphviz) or mermaid"),
        ),
        "memfs graph\n"
        "memfs graph 'Bob Tanaka' --depth 2 --as-of 2026-06-01\n"
        "memfs graph people/emma --to people/yuki\n"
        "memfs graph projects/atlas/Atlas --format dot | dot -Tsvg > atlas.svg",
    ),
    Command(
        "eval", "commands.eval", "Run the questions of queries.yaml; exit code 1 if expected memories are not found.",
        (
            argument("--file", metavar="FILE", help="questions from this file instead; - reads stdin"),
            argument("--k", metavar="N", type=parse_positive, help="count the first N hits of each question"),
            argument(
                "--min-recall", metavar="X", type=parse_fraction, default=1.0,
                help="the share of expected memories that must be found, 0 to 1 (default: 1)",
            ),
        ),
        "memfs eval\nmemfs eval --k 1 --min-recall 0.8\nmemfs eval --json | jq .recall",
    ),
    Command(
        "stats", "commands.stats", "Show counts of memories, how much they have faded, and what agents recalled.",
        (*NAMESPACE_ARGUMENTS, AT_DATE),
        "memfs stats\nmemfs stats /facts --json | jq .searches.ratio",
    ),
    Command(
        "prune", "commands.prune", "Show the memories that have faded; with --yes, move them to archive/.",
        (
            *NAMESPACE_ARGUMENTS,
            argument("--below", metavar="X", type=parse_fraction, help="retention below this, 0 to 1 (default: 0.05)"),
            AT_DATE,
            flag("--all", help="show all of them, not only the first 20"),
            flag("-y", "--yes", help="move them to archive/"),
        ),
        "memfs prune\nmemfs prune /facts --below 0.1 --yes",
    ),
    Command(
        "audit", "commands.audit",
        "Show memories that are duplicate, contradictory, stale, unused, too long or hold a secret.",
        (
            *NAMESPACE_ARGUMENTS,
            repeated(
                "--kind", choices=AUDIT_KINDS, completes=" ".join(AUDIT_KINDS), metavar="KIND",
                help=f"only this kind; may be repeated: {', '.join(AUDIT_KINDS)}",
            ),
            flag("--all", help="show all of them, not only the first 20 of each kind"),
            AT_DATE,
        ),
        "memfs audit\nmemfs audit /facts --kind duplicate --kind contradiction",
    ),
    Command(
        "encrypt", "commands.encrypt", "Encrypt the bodies or header keys of memories.",
        (REFS, FIELD, KEY, flag("--rename", help="rename the file to its id, as its name may reveal the content")),
        "export MEMFS_KEY=$(memfs keygen)\n"
        "memfs encrypt facts/bob/allergic-to-peanuts --rename\n"
        "memfs encrypt people/bob --field phone --field birthday --key team",
    ),
    Command(
        "decrypt", "commands.encrypt", "Decrypt memories and write them back.", (REFS, FIELD),
        "memfs decrypt people/bob --field phone\nmemfs read people/bob --reveal  # shows it, and changes nothing",
    ),
    Command(
        "rotate", "commands.encrypt", "Replace an old key: decrypt with it and encrypt with a new one.",
        (
            argument("--from", dest="old", metavar="OLD", required=True, help="the name of the old key"),
            argument("--to", dest="new", metavar="NEW", required=True, help="the name of the new key"),
            *NAMESPACE_ARGUMENTS,
        ),
        "export MEMFS_KEY_NEXT=$(memfs keygen --key next)\nmemfs rotate --from default --to next",
    ),
    Command(
        "keygen", "commands.encrypt", "Print a new key for encryption, and how to set it.", (KEY,),
        "export MEMFS_KEY=$(memfs keygen)",
    ),
    Command(
        "scan", "commands.scan", "Find secrets in files, by path, line and kind; exit code 1 if there are any.",
        (
            argument("paths", metavar="PATH", nargs="*", help="files, directories or namespaces (default: all files)",
                     completes="ref"),
            repeated("-n", "--namespace", metavar="NS", help="a namespace; may be repeated", completes="namespace"),
            flag("--staged", help="scan the staged content of git, as the next commit will have it"),
            flag("-z", "--zero", help="read paths from stdin, each ended by a zero byte; skip missing files"),
            flag("--all", help="find every kind, also those that memfs.yaml turns off"),
        ),
        "memfs scan\nmemfs scan /facts/alice --all\ngit diff --name-only --relative -z main | memfs scan -z",
    ),
    Command(
        "push", "commands.hub",
        "Send changes to a hub, a PostgreSQL database that vaults share; exit code 3 on conflicts.",
        (*_HUB_ARGS, flag("--all-removals", help="send removals even if most memories, or whole namespaces, are gone")),
        "memfs push postgresql://alice@db.example.org/memories\n"
        "MEMFS_HUB=postgresql://alice@db.example.org/memories memfs push /projects --dry-run",
    ),
    Command(
        "pull", "commands.hub",
        "Receive changes from a hub; if a memory changed here too, keep the hub's version beside it.",
        _HUB_ARGS,
        "memfs pull postgresql://alice@db.example.org/memories\n"
        "memfs pull postgresql://alice@db.example.org/memories /projects --json | jq .conflicts",
    ),
)  # fmt: skip
