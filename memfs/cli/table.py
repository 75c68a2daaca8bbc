"""The commands for memories, the index and sessions."""

from memfs.cli.arguments import (
    ACTIONS,
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
    number,
    positive,
    several,
    tag,
    whole,
)

TABLE = (
    Command(
        "init", "starting", "Make a vault of a directory, new or not; no file in it changes.",
        (argument("dir", metavar="DIR", nargs="?", help="the directory (default: this one)", completes="folder"),),
        "memfs init notes",
    ),
    Command(
        "add", "writing", "Add a memory.",
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
        "append", "writing", "Add lines to the end of a memory.", (REF, TEXT),
        "memfs append people/bob 'Back from Tokyo on 20 December.'",
    ),
    Command(
        "update", "writing", "Set header keys, tags or the body of a memory; nothing else in the file changes.",
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
        "edit", "editing", "Edit a memory in $VISUAL or $EDITOR.", (REF,),
        "EDITOR='code --wait' memfs edit people/bob",
    ),
    Command(
        "move", "writing", "Move a memory to a namespace, or to a path that ends in .md; its id stays.",
        (REF, argument("to", metavar="TO", help="a namespace or a path", completes="namespace")),
        "memfs move notes/dentist /health",
    ),
    Command(
        "forget", "writing", "Move memories to archive/: readable, and out of the way.", (REFS,),
        "memfs forget facts/alice/climbs-6b",
    ),
    Command(
        "remove", "writing", "Delete memories and their kept versions.",
        (REFS, flag("-y", "--yes", help="do not ask")),
        "memfs remove notes/dentist --yes",
    ),
    Command(
        "read", "reading", "Print a memory.",
        (
            REF,
            flag("--body", help="print the body alone"),
            flag("--reveal", help="decrypt what is encrypted in it; the file stays as it is"),
        ),
        "memfs read people/bob\nmemfs read people/bob --json | jq .header",
    ),
    Command(
        "list", "listing", "List the memories below a namespace.",
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
        "search", "searching", "Find the memories that answer a question.",
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
        "explain-miss", "searching", "Say why a search does not return a memory, or why it does.",
        (REF, QUESTION, *FILTERS, SEMANTIC),
        "memfs explain-miss facts/alice/climbs-6b how well does Alice climb",
    ),
    Command(
        "check", "checking", "Show what in the vault could not be understood; exit code 1 if there is anything.",
        (*WITHIN, flag("--all", help="print every link that leads nowhere, however many")), "memfs check",
    ),
    Command(
        "versions", "reading", "List the kept versions of a memory, also of one whose file is gone.", (REF,),
        "memfs versions people/bob",
    ),
    Command(
        "restore", "writing", "Bring a kept version of a memory back; by default the last that differs.",
        (REF, argument("--version", metavar="HASH", help="the start of the hash that `memfs versions` shows"), LIST),
        "memfs restore people/bob --version 3f9a",
    ),
    Command(
        "sync", "indexing", "Bring the search index up to date; searches do so by themselves.", (),
        "memfs sync",
    ),
    Command(
        "watch", "indexing", "Print what changes in the vault as it happens, and keep the index up to date.", (),
        "memfs watch\nmemfs watch --json | jq --unbuffered -r .path",
    ),
    Command(
        "status", "indexing", "Show how things stand with the index; changes nothing.", (),
        "memfs status",
    ),
    Command(
        "doctor", "indexing", "Check what memfs derived from the files, and mend it; exit code 1 if problems are left.",
        (flag("--check", help="only tell what is wrong"),),
        "memfs doctor --check",
    ),
    Command(
        "retry", "agents", "Show what agents have yet to save; have turns that no model made facts of tried again.",
        (
            argument("batches", metavar="BATCH", nargs="*", help="a batch, by the start of its name"),
            flag("--all", help="all batches"),
            flag("--drop", help="give them up instead; also what is pending, by its name"),
        ),
        "memfs retry --all",
    ),
    Command(
        "strategies", "strategies", "Distil a session once more into summary, preferences and facts.",
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
        "sessions", "sessions", "List the sessions of agents; show one, follow it as it goes on, or export it.",
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
        "actors", "sessions", "List who sessions are had with.", (), "memfs actors",
    ),
    Command(
        "expire", "sessions", "Show the sessions that nobody used for so many days; with --yes, archive them.",
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
)  # fmt: skip
