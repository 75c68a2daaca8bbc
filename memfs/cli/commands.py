"""The commands as a table, from which the parser, the help and the completion are made."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from memfs.errors import SettingsError

DESCRIPTION = "Long-term memory for agents as markdown files that people can read."
TYPES = ("fact", "preference", "summary", "episode", "reflection", "note")
STATUSES = ("draft", "stable", "deprecated")
KINDS = ("summary", "preferences", "facts", "episodes")
HIDDEN = ("archived", "expired", "deprecated", "superseded", "all")
ACTIONS = ("list", "show", "tail", "export")
FORMATS = ("jsonl", "markdown")
OPERATORS = ("EQUALS", "EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS", ">", ">=", "<", "<=")
FOOTER = """\
A memory (REF) is named by its path in the vault, with or without .md, or by its id.
A namespace (NS) is a directory of the vault, such as /facts/alice; {actorId} in it stands for MEMFS_ACTOR.
The vault is --vault DIR, else MEMFS_VAULT, else the nearest parent directory that is one.
`memfs COMMAND --help` shows the options of a command and an example."""
_LITERAL = "\0"  # marks a word behind `--`; no word of a command line holds one
_CONDITION = re.compile(
    r"(?P<key>[^\s<>=].*?)(?:\s+(?P<word>EQUALS|NOT_EXISTS|EXISTS|BEFORE|AFTER|CONTAINS)(?!\S)|\s*(?P<sign>[<>]=?|==?))"
    r"\s*(?P<value>.*)",
    re.IGNORECASE | re.DOTALL,
)


class Argument(NamedTuple):
    """An argument as argparse takes it, and what a shell completes it with."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    completes: str = ""

    @property
    def takes_value(self) -> bool:
        return self.options.get("action") != "store_true"


class Command(NamedTuple):
    """One command: `run_<name>` of the module `group`, a dash in the name being an underscore there."""

    name: str
    group: str
    summary: str
    arguments: tuple[Argument, ...]
    examples: str

    @property
    def function(self) -> str:
        return f"run_{self.name.replace('-', '_')}"


def argument(*names: str, completes: str = "", **options: Any) -> Argument:
    """Declare an argument."""
    return Argument(names, options, completes)


def several(*names: str, **options: Any) -> Argument:
    """Declare an option that may be repeated."""
    return argument(*names, action="append", default=[], **options)


def flag(*names: str, help: str) -> Argument:  # noqa: A002  argparse's own word
    """Declare an option without a value."""
    return argument(*names, action="store_true", help=help)


def pair(text: str) -> tuple[str, str]:
    """Read `key=value`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def positive(text: str) -> int:
    """Read a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def whole(text: str) -> int:
    """Read a whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def condition(text: str) -> tuple[str, str, str | None]:
    """Read `KEY OPERATOR VALUE`, or `KEY EXISTS`; `=` is EQUALS, and operators may be in lower case."""
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY OPERATOR VALUE; operators: {' '.join(OPERATORS)}")
    operator = (found["word"] or found["sign"]).upper()
    operator = "EQUALS" if operator in {"=", "=="} else operator
    if operator.endswith("EXISTS") == bool(found["value"]):
        wants = "takes no value" if found["value"] else "wants a value"
        raise argparse.ArgumentTypeError(f"{text!r}: {operator} {wants}")
    return found["key"], operator, found["value"] or None


VAULT = argument("--vault", metavar="DIR", help="the vault; else MEMFS_VAULT or the nearest parent", completes="folder")
COMMON = (VAULT, flag("--json", help="print JSON, and errors as JSON too"))
REF = argument("ref", metavar="REF", help="a memory, by path or id", completes="ref")
REFS = argument("refs", metavar="REF", nargs="+", help="memories, by path or id", completes="ref")
TEXT = argument("text", metavar="TEXT", nargs="+", help="the text; - reads it from stdin")
WITHIN = argument("namespace", metavar="NS", nargs="?", help="only what lies below it", completes="namespace")
SET = several("--set", metavar="KEY=VALUE", type=pair, help="set a header key")
LIST = flag("--list", help="show the kept versions, and change nothing")
QUESTION = argument("question", metavar="QUESTION", nargs="+", help="what you want to know; - reads it from stdin")
WHERE = f"'KEY OPERATOR VALUE' on any header key, where the operator is one of {' '.join(OPERATORS)}"
FILTERS = (
    argument("-n", "--namespace", metavar="NS", help="only what lies below it", completes="namespace"),
    argument("--limit", metavar="N", type=positive, default=10, help="at most N hits (default: 10)"),
    argument("--offset", metavar="N", type=whole, default=0, help="without the first N hits"),
    argument("--min-relevance", metavar="X", type=number, default=0.0, help="only hits at least this relevant, 0 to 1"),
    several("--type", help="only this type; repeated: any of them", completes=" ".join(TYPES)),
    several("--tag", metavar="TAG", help="only with this tag; repeated: all of them"),
    several("--status", help="only this status; repeated: any of them", completes=" ".join(STATUSES)),
    argument("--created", metavar="SPAN", help="created then: 2026-01-01..2026-02-01, 2026-01-01.., ..2026-02-01"),
    argument("--updated", metavar="SPAN", help="updated then"),
    argument("--valid", metavar="SPAN", help="true then: a date, or a span of which some moment counts"),
    several("--where", metavar="CONDITION", type=condition, help=WHERE),
    several(
        "--include", metavar="WHAT", choices=HIDDEN, completes=" ".join(HIDDEN),
        help=f"also what is {', '.join(HIDDEN[:-1])}, or all of these",
    ),
)  # fmt: skip

COMMANDS = (
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
            several("--tag", metavar="TAG", help="a tag; may be repeated"),
            argument("--title", help="its title"),
            argument("--importance", metavar="N", type=positive, help="1 to 10 (default: 1)"),
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
            several("--tag", metavar="TAG", help="add a tag"),
            several("--untag", metavar="TAG", help="remove a tag"),
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
        "read", "reading", "Print a memory.", (REF, flag("--body", help="print the body alone")),
        "memfs read people/bob\nmemfs read people/bob --json | jq .header",
    ),
    Command(
        "list", "listing", "List the memories below a namespace.",
        (
            WITHIN,
            flag("--tree", help="as a tree of namespaces (the default)"),
            flag("--table", help="as a table"),
            flag("--paths", help="as one path a line"),
            flag("--archived", help="with the forgotten ones"),
            argument("--limit", metavar="N", type=positive, help="only the first N"),
        ),
        "memfs list /facts --table\nmemfs list --paths --archived | grep -c ^archive/",
    ),
    Command(
        "search", "searching", "Find the memories that answer a question.",
        (
            QUESTION, *FILTERS,
            flag("--explain", help="say why each was found"),
            flag("--paths", help="as one path a line"),
        ),
        "memfs search what is Bob allergic to\n"
        "memfs search climbing -n /facts/alice --type fact --updated 2026-01-01.. --explain\n"
        "memfs search deadline --where 'importance >= 5' --where 'project EQUALS atlas' --where 'source EXISTS'",
    ),
    Command(
        "explain-miss", "searching", "Say why a search does not return a memory, or why it does.",
        (REF, QUESTION, *FILTERS),
        "memfs explain-miss facts/alice/climbs-6b how well does Alice climb",
    ),
    Command(
        "check", "reading", "Show what in the vault could not be understood; exit code 1 if there is anything.",
        (WITHIN,), "memfs check",
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
                "action", metavar="ACTION", nargs="?", choices=ACTIONS, default="list", completes=" ".join(ACTIONS),
                help="list (the default), show, tail or export",
            ),
            argument("session", metavar="SESSION", nargs="?", help="a session, by its name", completes="session"),
            argument("--actor", metavar="ACTOR", help="list: only those with this actor"),
            argument("--agent", metavar="AGENT", help="only what this agent has"),
            argument("--branch", metavar="NAME", help="the events of this branch"),
            several("--where", metavar="CONDITION", type=condition, help="'KEY OPERATOR VALUE' on what is listed"),
            argument("--limit", metavar="N", type=positive, help="only the last N"),
            argument("--format", choices=FORMATS, default=FORMATS[0], completes=" ".join(FORMATS),
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
        (argument("shell", metavar="SHELL", choices=("bash",), help="bash", completes="bash"),),
        "source <(memfs completion bash)",
    ),
)  # fmt: skip
BY_NAME = {command.name: command for command in COMMANDS}


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are errors of ours."""

    def error(self, message: str) -> NoReturn:
        raise usage(self.prog.removeprefix("memfs "), message)


def usage(where: str, message: str, hint: str = "") -> SettingsError:
    """A mistake on the command line, and the way on."""
    error = SettingsError(where, message)
    error.hint = hint or f"See `memfs {where} --help`."
    return error


def find(name: str) -> Command:
    """The command of this name; a slip gets a suggestion."""
    if name in BY_NAME:
        return BY_NAME[name]
    from difflib import get_close_matches

    near = get_close_matches(name, BY_NAME, 1)
    raise usage(repr(name), "no such command", f"Did you mean `memfs {near[0]}`?" if near else "See `memfs --help`.")


def parser(command: Command) -> Parser:
    """The parser of one command's arguments."""
    made = Parser(
        prog=f"memfs {command.name}",
        description=command.summary,
        epilog="example:\n" + "".join(f"  {line}\n" for line in command.examples.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for names, options, _ in (*command.arguments, *COMMON):
        made.add_argument(*names, **options if names[0].startswith("-") else {"type": _word, **options})
    return made


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Read a command's arguments; options may stand among the words of a text, and behind `--` there are none."""
    end = words.index("--") if "--" in words else len(words)
    return parser(command).parse_intermixed_args([*words[:end], *(_LITERAL + word for word in words[end + 1 :])])


def _word(text: str) -> str:
    return text.removeprefix(_LITERAL)


def show_help(name: str, *, asked: bool) -> int:
    """Print the help of a command, or of all; unasked it is a usage error."""
    text = parser(find(name)).format_help() if name else overview()
    print(text, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def overview() -> str:
    """Every command in a line."""
    lines = [f"  {command.name:<14}{command.summary}\n" for command in COMMANDS]
    head = f"usage: memfs [--vault DIR] [--json] COMMAND ...\n\n{DESCRIPTION}\n\ncommands:\n"
    return head + "".join(lines) + f"\n{FOOTER}\n"
