"""Declare every command: its module, arguments, help text and example."""

from memfs.cli.arguments import (
    ACTIONS,
    AT,
    AUDITED,
    FILTERS,
    FORMATS,
    KINDS,
    LIST,
    QUESTION,
    REF,
    REFS,
    SEMANTIC,
    SET,
    SHELLS,
    TAG,
    TEXT,
    TYPE,
    TYPES,
    WITHIN,
    Command,
    argument,
    condition,
    flag,
    moment,
    number,
    positive,
    several,
    share,
    tag,
    whole,
)

DRAWINGS = ("text", "json", "dot", "mermaid")
FIELD = several("--field", metavar="NAME", help="a header key, or body; may be repeated")
KEY = argument("--key", metavar="NAME", default="default", help="the name of the key (default: default)")
_HUB = (
    argument("url", metavar="URL", nargs="?", help="the hub: postgresql://USER@HOST/DATABASE; else MEMFS_HUB"),
    *WITHIN,
    argument("--tenant", metavar="ROLE", help="for this role of the server (default: the user's own)"),
    flag("--dry-run", help="show what would be done, and do nothing"),
)

COMMANDS: tuple[Command, ...] = (
    Command(
        "init", "commands.init", "Make a vault of a directory, new or not; no file in it changes.",
        (argument("dir", metavar="DIR", nargs="?", help="the directory (default: this one)", completes="folder"),),
        "memfs init notes",
    ),
    Command(
        "add", "commands.write", "Add a memory.",
        (
            TEXT,
            argument("-n", "--namespace", metavar="NS", help="where it goes (default: /)", completes="namespace"),
            argument("--type", help=f"{', '.join(TYPES)} (the default), or your own", completes=" ".join(TYPES)),
            several("--tag", metavar="TAG", type=tag, help="a tag; may be repeated"),
            argument("--title", help="its title"),
            argument("--importance", metavar="N", type=whole(1, 10), help="1 to 10 (default: 1)"),
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
        "update", "commands.write", "Set header keys, tags or the body of a memory; nothing else in the file changes.",
        (
            REF,
            SET,
            several("--unset", metavar="KEY", help="remove a header key"),
            several("--tag", metavar="TAG", type=tag, help="add a tag"),
            several("--untag", metavar="TAG", type=tag, help="remove a tag"),
            argument("--body", metavar="TEXT", help="the new body; - reads it from stdin"),
            argument("--seen", metavar="STAMP", help="refuse if the file changed since `read --json` gave this stamp"),
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
        "forget", "commands.write", "Move memories to archive/: readable, and out of the way.", (REFS,),
        "memfs forget facts/alice/climbs-6b",
    ),
    Command(
        "remove", "commands.write", "Delete memories and their kept versions.",
        (REFS, flag("-y", "--yes", help="do not ask")),
        "memfs remove notes/dentist --yes",
    ),
    Command(
        "read", "commands.read", "Print a memory.",
        (
            REF,
            flag("--body", help="print the body alone"),
            flag("--reveal", help="decrypt what is encrypted in it; the file stays as it is"),
        ),
        "memfs read people/bob\nmemfs read people/bob --json | jq .header",
    ),
    Command(
        "list", "commands.list", "List the memories below a namespace.",
        (
            *WITHIN,
            TYPE,
            TAG,
            flag("--tree", help="as a tree of namespaces (the default)"),
            flag("--table", help="as a table"),
            flag("--paths", help="as one path a line"),
            flag("--archived", help="with the forgotten ones"),
            argument("--limit", metavar="N", type=positive, help="only the first N"),
        ),
        "memfs list /facts --table\n"
        "memfs list --type person --tag lyon\n"
        "memfs list --paths --archived | grep -c ^archive/",
    ),
    Command(
        "search", "commands.search", "Find the memories that answer a question.",
        (
            QUESTION, *FILTERS, SEMANTIC,
            flag("--explain", help="say why each was found"),
            flag("--paths", help="as one path a line"),
        ),
        "memfs search what is Bob allergic to\n"
        "memfs search climbing -n /facts/alice --type fact --updated 2026-01-01.. --explain\n"
        "memfs search --semantic which nuts make him ill\n"
        "memfs search deadline --where 'importance >= 5' --where 'project EQUALS atlas' --where 'source EXISTS'",
    ),
    Command(
        "explain-miss", "commands.search", "Say why a search does not return a memory, or why it does.",
        (REF, QUESTION, *FILTERS, SEMANTIC),
        "memfs explain-miss facts/alice/climbs-6b how well does Alice climb",
    ),
    Command(
        "check", "commands.check", "Show what in the vault could not be understood; exit code 1 if there is anything.",
        (*WITHIN, flag("--all", help="print every link that leads nowhere, however many")), "memfs check",
    ),
    Command(
        "versions", "commands.read", "List the kept versions of a memory, also of one whose file is gone.", (REF,),
        "memfs versions people/bob",
    ),
    Command(
        "restore", "commands.write", "Bring a kept version of a memory back; by default the last that differs.",
        (REF, argument("--version", metavar="HASH", help="the start of the hash that `memfs versions` shows"), LIST),
        "memfs restore people/bob --version 3f9a",
    ),
    Command(
        "sync", "commands.index", "Bring the search index up to date; searches do so by themselves.", (),
        "memfs sync",
    ),
    Command(
        "watch", "commands.index", "Print what changes in the vault as it happens, and keep the index up to date.", (),
        "memfs watch\nmemfs watch --json | jq --unbuffered -r .path",
    ),
    Command(
        "status", "commands.index", "Show how things stand with the index; changes nothing.", (),
        "memfs status",
    ),
    Command(
        "doctor", "commands.index",
        "Check what memfs derived from the files, and mend it; exit code 1 if problems are left.",
        (flag("--check", help="only tell what is wrong"),),
        "memfs doctor --check",
    ),
    Command(
        "retry", "commands.retry",
        "Show what agents have yet to save; have turns that no model made facts of tried again.",
        (
            argument("batches", metavar="BATCH", nargs="*", help="a batch, by the start of its name"),
            flag("--all", help="all batches"),
            flag("--drop", help="give them up instead; also what is pending, by its name"),
        ),
        "memfs retry --all",
    ),
    Command(
        "strategies", "commands.strategies", "Distil a session once more into summary, preferences and facts.",
        (
            argument("action", metavar="run", choices=("run",), help="what to do: run"),
            argument("session", metavar="SESSION", help="a session, by its name", completes="session"),
            several(
                "--strategy", metavar="KIND", choices=KINDS, completes=" ".join(KINDS),
                help=f"only this one: {', '.join(KINDS)}",
            ),
            argument("--actor", metavar="NAME", help="only what this actor said, and what is nobody's"),
            argument("--model", metavar="MODULE:NAME", help="a model, as a Python object; else MEMFS_MODEL"),
            argument("--script", metavar="FILE", help="a JSON array of a model's replies, to try it; - reads stdin"),
        ),
        "memfs strategies run s-2026-11-15\n"
        "memfs strategies run s-2026-11-15 --strategy facts --model my_models:claude",
    ),
    Command(
        "sessions", "commands.sessions",
        "List the sessions of agents; show one, follow it as it goes on, or export it.",
        (
            argument(
                "action", metavar="ACTION", nargs="?", default="list", completes=" ".join(ACTIONS),
                help="list (the default), show, tail or export",
            ),
            argument("session", metavar="SESSION", nargs="?", help="a session, by its name", completes="session"),
            argument("--actor", metavar="ACTOR", help="list: only those with this actor"),
            argument("--agent", metavar="AGENT", help="show, tail, export: only what this agent has"),
            argument("--branch", metavar="NAME", help="show, tail, export: the events of this branch"),
            several("--where", metavar="CONDITION", type=condition, help="'KEY OPERATOR VALUE' on what is listed"),
            argument("--limit", metavar="N", type=positive, help="only the last N"),
            argument("--format", choices=FORMATS, completes=" ".join(FORMATS),
                     help="export: jsonl (the default) or markdown"),
            flag("-f", "--follow", help="tail: go on with what comes, until Ctrl-C"),
            flag("--archived", help="of those that expired"),
        ),
        "memfs sessions list --actor alice --where 'updated AFTER 2026-11-01'\n"
        "memfs sessions show s-2026-11-15 --where 'role = user'\n"
        "memfs sessions tail s-2026-11-15 -f\n"
        "memfs sessions export s-2026-11-15 --format markdown > talk.md",
    ),
    Command(
        "actors", "commands.sessions", "List who sessions are had with.", (), "memfs actors",
    ),
    Command(
        "expire", "commands.sessions", "Show the sessions that nobody used for so many days; with --yes, archive them.",
        (
            argument("days", metavar="DAYS", type=number, help="how many days"),
            flag("-y", "--yes", help="move them to archive/sessions/"),
        ),
        "memfs expire 90\nmemfs expire 90 --yes",
    ),
    Command(
        "completion", "completion", "Print a script that completes memfs commands in a shell.",
        (argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish", completes=" ".join(SHELLS)),),
        "source <(memfs completion bash)\nmemfs completion fish | source",
    ),
    Command(
        "graph", "commands.graph",
        "Show how memories are linked: all of them, what is around one, or the way to another.",
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
        "eval", "commands.eval", "Ask the questions of queries.yaml; exit code 1 if they do not find what they should.",
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
        "stats", "commands.prune", "Show what is in the vault, how much of it has faded, and what agents recalled.",
        (*WITHIN, AT),
        "memfs stats\nmemfs stats /facts --json | jq .searches.ratio",
    ),
    Command(
        "prune", "commands.prune", "Show the memories that have faded; with --yes, move them to archive/.",
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
        "audit", "commands.audit", "Show memories that are there twice, out of date, unused or in contradiction.",
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
        "encrypt", "commands.encrypt", "Encrypt the bodies of memories, or header keys of them.",
        (REFS, FIELD, KEY, flag("--rename", help="name the file by its id, for its name may say what is in it")),
        "export MEMFS_KEY=$(memfs keygen)\n"
        "memfs encrypt facts/bob/allergic-to-peanuts --rename\n"
        "memfs encrypt people/bob --field phone --field birthday --key team",
    ),
    Command(
        "decrypt", "commands.encrypt", "Decrypt what is encrypted in memories, and write it back.", (REFS, FIELD),
        "memfs decrypt people/bob --field phone\nmemfs read people/bob --reveal  # shows it, and changes nothing",
    ),
    Command(
        "rotate", "commands.encrypt", "Encrypt with a new key what is encrypted with an old one.",
        (
            argument("--from", dest="old", metavar="OLD", required=True, help="the name of the old key"),
            argument("--to", dest="new", metavar="NEW", required=True, help="the name of the new key"),
            *WITHIN,
        ),
        "export MEMFS_KEY_NEXT=$(memfs keygen --key next)\nmemfs rotate --from default --to next",
    ),
    Command(
        "keygen", "commands.encrypt", "Print a new key for encryption, and how to set it.", (KEY,),
        "export MEMFS_KEY=$(memfs keygen)",
    ),
    Command(
        "scan", "commands.scan", "Show where files hold secrets, by path, line and kind; exit code 1 if any does.",
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
        "push", "commands.hub",
        "Send what changed to a hub, a PostgreSQL database that vaults share; exit code 3 on conflicts.",
        (*_HUB, flag("--all-removals", help="send removals also where most memories, or whole namespaces, are gone")),
        "memfs push postgresql://alice@db.example.org/memories\n"
        "MEMFS_HUB=postgresql://alice@db.example.org/memories memfs push /projects --dry-run",
    ),
    Command(
        "pull", "commands.hub",
        "Take what changed on a hub; where a memory changed here too, the hub's is put beside it.",
        _HUB,
        "memfs pull postgresql://alice@db.example.org/memories\n"
        "memfs pull postgresql://alice@db.example.org/memories /projects --json | jq .conflicts",
    ),
)  # fmt: skip
