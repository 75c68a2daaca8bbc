"""Parse a command line by the command table, and print help. Usage errors suggest what was probably meant."""

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
_LITERAL = "\0"  # put before each word after `--`, so that argparse takes none for an option; no word has a zero byte

COMMANDS_BY_NAME = {command.name: command for command in COMMANDS}
HELP_SECTIONS = {
    "start": "init completion",
    "search and read": "search explain-miss list read graph check",
    "write": "add append update edit move forget remove versions restore",
    "maintain a vault": "stats audit prune eval sync watch status doctor",
    "secrets and keys": "scan keygen encrypt decrypt rotate",
    "agents and conversations": "sessions actors expire strategies retry",
    "share with other vaults": "push pull",
}
SYNONYMS = {  # names that other programs use
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
COMMANDS_WITHOUT_VAULT = ("init", "completion", "keygen")  # they need no --vault
_VAULT_COMMANDS = "|".join(name for name in COMMANDS_BY_NAME if name not in COMMANDS_WITHOUT_VAULT)
_VAULT_COMMAND = re.compile(rf"\bmemfs (?=(?:{_VAULT_COMMANDS})\b(?! --help))")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises SettingsError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise usage_error(self.prog.removeprefix("memfs "), message)


def usage_error(subject: str, message: str, hint: str = "") -> SettingsError:
    """Return the error for a mistake in a command or an option; the default hint is the help of the command."""
    error = SettingsError(subject, message)
    error.hint = hint or f"See `memfs {subject} --help`."
    return error


def find_command(name: str) -> Command:
    """Return the command of this name; the error for an unknown name suggests a similar one."""
    if name in COMMANDS_BY_NAME:
        return COMMANDS_BY_NAME[name]
    similar = closest_word(name, COMMANDS_BY_NAME, SYNONYMS)
    hint = f"Did you mean `memfs {similar}`?" if similar else "See `memfs --help`."
    raise usage_error(repr(name), "no such command", hint)


def closest_word(word: str, known: Iterable[str], synonyms: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the known word that a word is a synonym of, else the most similar one; empty if none is similar."""
    from difflib import get_close_matches

    return synonyms.get(word.lower()) or next(iter(get_close_matches(word.lower(), known, 1)), "")


def with_vault_option(text: str, vault: str | None) -> str:
    """Return a text with --vault added to its `memfs` commands, so that they can be copied; unchanged without one."""
    return _VAULT_COMMAND.sub(lambda found: f"{found[0]}{vault_option(vault or '')} ", text) if vault else text


def vault_option(vault: str) -> str:
    """Return the option that names a vault, quoted for a shell."""
    return f"--vault {shlex.quote(f'./{vault}' if vault.startswith('-') else vault)}"


def build_parser(command: Command) -> Parser:
    """Return the parser of one command's arguments."""
    parser = Parser(
        prog=f"memfs {command.name}",
        description=command.summary,
        epilog="example:\n" + "".join(f"  {line}\n" for line in command.examples.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for names, options, _ in (*command.arguments, *COMMON):
        is_option = names[0].startswith("-")
        parser.add_argument(*names, **options if is_option else {**options, "type": _positional_type(options)})
    return parser


def _positional_type(options: Mapping[str, Any]) -> Callable[[str], Any]:
    """Return the argparse type of a positional argument, which removes the mark of a word after `--`."""
    parse = options.get("type", str)
    return lambda text: parse(_without_mark(text))


def parse_arguments(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Parse a command's arguments. Options may come between the words of a text; after `--` no word is an option.

    A namespace is in `namespace`, whether it was given as an argument or as an option.
    """
    end = words.index("--") if "--" in words else len(words)
    marked = [*words[:end], *(_LITERAL + word for word in words[end + 1 :])]
    args, unexpected = build_parser(command).parse_known_intermixed_args(marked)
    if unexpected:
        raise _unexpected_words(command, unexpected)
    if getattr(args, "within", None) is not None:
        if args.namespace is not None:
            raise usage_error(command.name, f"two namespaces: {args.namespace!r} and {args.within!r}")
        args.namespace = args.within
    return args


def _unexpected_words(command: Command, words: Sequence[str]) -> SettingsError:
    """Return the error for words that a command does not take."""
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
    if not option:
        return usage_error(command.name, f"unexpected arguments: {' '.join(map(_without_mark, words))}")
    names = [name for one in (*command.arguments, *COMMON) for name in one.names if name.startswith("--")]
    similar = closest_word(option, names) if option.startswith("--") else ""
    return usage_error(command.name, f"no such option: {option}", f"Did you mean `{similar}`?" if similar else "")


def check_vault_option(words: Sequence[str]) -> None:
    """Raise a usage error if there is no command because --vault has no value, or took the command for its value."""
    if words[-1:] == ["--vault"]:
        raise usage_error("--vault", "expected one argument", "Name the directory of the vault: --vault DIR.")
    if words[-2:-1] == ["--vault"] and words[-1] in COMMANDS_BY_NAME:
        hint = f"Name the vault before the command: `memfs --vault DIR {words[-1]}`."
        raise usage_error("--vault", f"no command: {words[-1]!r} was read as the directory", hint)


def _without_mark(text: str) -> str:
    return text.removeprefix(_LITERAL)


def print_help(name: str, *, is_requested: bool) -> int:
    """Print the help of a command, or the overview if the name is empty; return the exit code.

    Help that was not requested is for a usage error: it goes to stderr, and the exit code is 2.
    """
    text = build_parser(find_command(name)).format_help() if name else format_overview()
    print(text, end="", file=sys.stdout if is_requested else sys.stderr)
    return 0 if is_requested else 2


def format_overview() -> str:
    """Return the help of all commands: one line per command, by section."""
    sections = [f"{title}:\n{_summary_lines(names.split())}" for title, names in HELP_SECTIONS.items()]
    return "\n".join([f"usage: memfs [--vault DIR] [--json] COMMAND ...\n\n{DESCRIPTION}\n", *sections, f"{FOOTER}\n"])


def _summary_lines(names: Sequence[str]) -> str:
    return "".join(f"  {name:<14}{COMMANDS_BY_NAME[name].summary}\n" for name in names)
