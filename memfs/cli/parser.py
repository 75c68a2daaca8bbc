"""The commands: from their tables the parser, the help and the completion are made."""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from memfs.cli.arguments import COMMON, Command
from memfs.cli.command_table import COMMANDS
from memfs.errors import SettingsError

DESCRIPTION = "Long-term memory for agents as markdown files that people can read."
FOOTER = """\
A memory (REF) is named by its path in the vault, with or without .md, or by its id.
A namespace (NS) is a directory of the vault, such as /facts/alice; {actorId} in it stands for MEMFS_ACTOR.
The vault is --vault DIR, else MEMFS_VAULT, else the nearest parent directory that is one.
`memfs COMMAND --help` shows the options of a command and an example."""
_LITERAL = "\0"  # marks a word behind `--`; no word of a command line holds one

BY_NAME = {command.name: command for command in COMMANDS}
CHAPTERS = {
    "start": "init completion",
    "find and look": "search explain-miss list read graph check",
    "write": "add append update edit move forget remove versions restore",
    "look after a vault": "stats audit prune eval sync watch status doctor",
    "secrets and keys": "scan keygen encrypt decrypt rotate",
    "agents and their conversations": "sessions actors expire strategies retry",
    "share with other vaults": "push pull",
}
SYNONYMS = {  # what other programs call them
    word: name
    for name, words in {
        "read": "cat get open print show view", "search": "ask find grep query recall", "list": "dir ls tree",
        "add": "create insert new note put remember save write", "update": "change set tag", "move": "mv rename",
        "forget": "archive", "remove": "del delete erase rm unlink", "restore": "revert rollback undo",
        "versions": "history log", "check": "lint validate verify", "doctor": "fix repair", "sync": "index reindex",
        "explain-miss": "explain why", "graph": "links related", "init": "setup start", "prune": "clean gc",
    }.items()
    for word in words.split()
}  # fmt: skip
AWAY = ("init", "completion", "keygen")  # commands that are about no vault, or about another one
_SUGGESTED = re.compile(
    rf"\bmemfs (?=(?:{'|'.join(command.name for command in COMMANDS if command.name not in AWAY)})\b(?! --help))"
)


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
    near = meant(name, BY_NAME, SYNONYMS)
    raise usage(repr(name), "no such command", f"Did you mean `memfs {near}`?" if near else "See `memfs --help`.")


def meant(word: str, known: Iterable[str], synonyms: Mapping[str, str] = MappingProxyType({})) -> str:
    """The known word that somebody seems to mean; empty if none is near."""
    from difflib import get_close_matches

    return synonyms.get(word.lower()) or next(iter(get_close_matches(word.lower(), known, 1)), "")


def addressed(text: str, vault: str | None) -> str:
    """A text whose commands can be copied where `--vault` named the vault: they name it too."""
    return _SUGGESTED.sub(lambda found: f"{found[0]}{vault_option(vault or '')} ", text) if vault else text


def vault_option(vault: str) -> str:
    """The option that names a vault, as a shell reads it."""
    return f"--vault {shlex.quote(f'./{vault}' if vault.startswith('-') else vault)}"


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
        made.add_argument(*names, **options if names[0].startswith("-") else {**options, "type": _reader(options)})
    return made


def _reader(options: Mapping[str, Any]) -> Callable[[str], Any]:
    """What reads a word that may have stood behind `--`."""
    read = options.get("type", str)
    return lambda text: read(_word(text))


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Read a command's arguments; options may stand among the words of a text, and behind `--` there are none."""
    end = words.index("--") if "--" in words else len(words)
    taken = [*words[:end], *(_LITERAL + word for word in words[end + 1 :])]
    args, left = parser(command).parse_known_intermixed_args(taken)
    if left:
        raise _surplus(command, left)
    if getattr(args, "within", None) is not None:
        if args.namespace is not None:
            raise usage(command.name, f"two namespaces: {args.namespace!r} and {args.within!r}")
        args.namespace = args.within
    return args


def _surplus(command: Command, words: Sequence[str]) -> SettingsError:
    """What to say of words that a command does not take."""
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    if not option:
        return usage(command.name, f"more than it takes: {' '.join(map(_word, words))}")
    names = [name for one in (*command.arguments, *COMMON) for name in one.names if name.startswith("--")]
    near = meant(option, names) if option.startswith("--") else ""
    return usage(command.name, f"no such option: {option}", f"Did you mean `{near}`?" if near else "")


def check_before(words: Sequence[str]) -> None:
    """Refuse options that no command follows, where one lacks its value."""
    if words[-1:] == ["--vault"]:
        raise usage("--vault", "expected one argument", "Name the directory of the vault: --vault DIR.")
    if words[-2:-1] == ["--vault"] and words[-1] in BY_NAME:
        hint = f"Name the vault before the command: `memfs --vault DIR {words[-1]}`."
        raise usage("--vault", f"no command, for {words[-1]!r} was taken for the directory", hint)


def _word(text: str) -> str:
    return text.removeprefix(_LITERAL)


def show_help(name: str, *, asked: bool) -> int:
    """Print the help of a command, or of all; unasked it is a usage error."""
    text = parser(find(name)).format_help() if name else overview()
    print(text, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def overview() -> str:
    """Every command in a line, by chapter."""
    chapters = [f"{title}:\n{_lines(names.split())}" for title, names in CHAPTERS.items()]
    return "\n".join([f"usage: memfs [--vault DIR] [--json] COMMAND ...\n\n{DESCRIPTION}\n", *chapters, f"{FOOTER}\n"])


def _lines(names: Sequence[str]) -> str:
    return "".join(f"  {name:<14}{BY_NAME[name].summary}\n" for name in names)
