"""The commands: from their tables the parser, the help and the completion are made."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from memfs.cli import table, upkeep_table
from memfs.cli.arguments import COMMON, Command
from memfs.errors import SettingsError

DESCRIPTION = "Long-term memory for agents as markdown files that people can read."
FOOTER = """\
A memory (REF) is named by its path in the vault, with or without .md, or by its id.
A namespace (NS) is a directory of the vault, such as /facts/alice; {actorId} in it stands for MEMFS_ACTOR.
The vault is --vault DIR, else MEMFS_VAULT, else the nearest parent directory that is one.
`memfs COMMAND --help` shows the options of a command and an example."""
_LITERAL = "\0"  # marks a word behind `--`; no word of a command line holds one

COMMANDS = (*table.TABLE, *upkeep_table.TABLE)
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
    """Every command in a line, by chapter."""
    chapters = [f"{title}:\n{_lines(names.split())}" for title, names in CHAPTERS.items()]
    return "\n".join([f"usage: memfs [--vault DIR] [--json] COMMAND ...\n\n{DESCRIPTION}\n", *chapters, f"{FOOTER}\n"])


def _lines(names: Sequence[str]) -> str:
    return "".join(f"  {name:<14}{BY_NAME[name].summary}\n" for name in names)
