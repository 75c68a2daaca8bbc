"""Shell completion: `memfs completion` prints a script, which runs the hidden command `__complete` for candidates.

`__complete` must be fast: it reads the command table and one directory, and opens no vault.
"""

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memfs.cli.arguments import COMMON, Argument, Command
from memfs.cli.command_table import COMMANDS
from memfs.cli.parser import COMMANDS_BY_NAME

VAULT_MARKERS = ("memfs.yaml", ".memfs")  # a directory is a vault if it has this file or this directory
SCRIPTS = {
    "bash": r"""_memfs() {
    local line paths=
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        [[ $line == */ || $line == *.md ]] && paths=yes
        [[ -d $line ]] && line=${line%/}
        COMPREPLY+=("$line")
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ $paths ]] && compopt -o filenames 2>/dev/null
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _memfs memfs memfs-vault
""",
    "zsh": r"""_memfs() {
    local line
    local -a names shown open
    while IFS= read -r line; do
        if [[ ${line%%$'\t'*} == */ ]]; then
            open+=("${line%%$'\t'*}")
        else
            names+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  }")
        fi
    done < <("${(Q)words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    compadd -l -d shown -a names
    compadd -S '' -a open
}
compdef _memfs memfs memfs-vault
""",
    "fish": r"""function __memfs_complete
    set -l words (commandline -opc) (commandline -ct)
    command $words[1] __complete $words[2..-1] 2>/dev/null
end
complete -c memfs -c memfs-vault -f -a '(__memfs_complete)'
""",
}


class CursorPosition(NamedTuple):
    """The position of the cursor on a command line: which word is being completed."""

    command: Command | None  # None before the command; without a summary if there is no such command
    option: Argument | None  # the option whose value is being completed; None for any other word
    position: int  # number of positional arguments before the cursor
    vault: str  # the value of --vault, or ""


def run_completion(args: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    script = SCRIPTS[args.shell]
    if args.json:
        from memfs.cli.output import print_json

        print_json({"shell": args.shell, "script": script})
    else:
        print(script, end="")
    return 0


def run_complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word, one per line, followed by a tab and a description if there is one."""
    *done, last = _join_split_options(words) or [""]
    *option, current = _split_option_value(last)
    current, prefix = _unquote(current), "".join(f"{name}=" for name in option)  # shells replace the whole word
    cursor = _parse_cursor([part for word in done for part in _split_option_value(word)] + option)
    for name, description in candidates(cursor, current):
        if name.startswith(current) and name.isprintable():
            print(f"{prefix}{name}\t{description}" if description else f"{prefix}{name}")
    return 0


def candidates(cursor: CursorPosition, current: str) -> Iterator[tuple[str, str]]:
    """Yield the words that fit at the cursor, each with a description or ""; the caller selects by `current`."""
    if cursor.option is not None:
        yield from _value_candidates(cursor.option, cursor.vault, current)
    elif current.startswith("-"):
        arguments = cursor.command.arguments if cursor.command else ()
        for names, options, _ in (*arguments, *COMMON):
            yield from ((name, options["help"]) for name in names if name.startswith("--"))
        yield "--help", "show the options"
    elif cursor.command is None:
        yield from ((command.name, command.summary) for command in COMMANDS)
    elif argument := _positional(cursor.command, cursor.position):
        yield from _value_candidates(argument, cursor.vault, current)


def _parse_cursor(words: Sequence[str]) -> CursorPosition:
    """Return the cursor position after these words."""
    cursor = CursorPosition(None, None, 0, "")
    for word in words:
        if cursor.option is not None:
            is_vault = "--vault" in cursor.option.names
            cursor = cursor._replace(option=None, vault=_unquote(word) if is_vault else cursor.vault)
        elif word.startswith("-") and word != "-":
            cursor = cursor._replace(option=_option(cursor.command, word))
        elif cursor.command is None:
            cursor = cursor._replace(command=COMMANDS_BY_NAME.get(word, Command(word, "", "", (), "")))
        else:
            cursor = cursor._replace(position=cursor.position + 1)
    return cursor


def _option(command: Command | None, word: str) -> Argument | None:
    """Return the option of this name if it takes a value; else None."""
    known = (*(command.arguments if command else ()), *COMMON)
    return next((option for option in known if word in option.names and option.takes_value), None)


def _positional(command: Command, position: int) -> Argument | None:
    """Return the positional argument at a position; None if the command takes no more."""
    found = [argument for argument in command.arguments if not argument.names[0].startswith("-")]
    if found and position >= len(found) and found[-1].options.get("nargs") == "+":
        return found[-1]
    return found[position] if position < len(found) else None


def _value_candidates(argument: Argument, vault: str, current: str) -> Iterator[tuple[str, str]]:
    """Yield the values that an argument may have; nothing if they are in a vault and there is none."""
    if argument.completes == "directory":
        root = os.path.expanduser("~") if current[:1] == "~" else ""
        yield from ((name, "") for name in _list_directory(root, current))
    elif argument.completes == "session":
        from urllib.parse import unquote

        vault_root = find_vault(vault)
        directories = _list_directory(f"{vault_root}/sessions", "") if vault_root else []
        yield from ((unquote(name.removesuffix("/")), "") for name in directories)
    elif argument.completes in {"ref", "namespace"}:
        if vault_root := find_vault(vault):
            with_files = argument.completes == "ref"
            yield from ((name, "") for name in _list_directory(vault_root, current, with_files=with_files))
    else:
        yield from ((word, "") for word in argument.completes.split())


def find_vault(vault_option: str) -> str | None:
    """Return the vault of the option, else of MEMFS_VAULT, else the nearest parent directory that is one, else None.

    The last is the same as `Vault.find`, which takes too long to import here.
    """
    if path := vault_option or os.environ.get("MEMFS_VAULT"):
        return os.path.expanduser(path)
    here = os.getcwd()
    while not os.path.isfile(f"{here}/{VAULT_MARKERS[0]}") and not os.path.isdir(f"{here}/{VAULT_MARKERS[1]}"):
        if here == os.path.dirname(here):
            return None
        here = os.path.dirname(here)
    return here


def _list_directory(root: str, current: str, *, with_files: bool = False) -> list[str]:
    """Return the directories, and with `with_files` the memories, in the directory part of `current`.

    `root` is the vault; if it is empty, `current` is any path of the file system. Return [] if it cannot be listed.
    """
    directory = current[: current.rfind("/") + 1]
    found = []
    try:
        with os.scandir(os.path.join(root, directory.removeprefix("/") if root else directory) or ".") as entries:
            for entry in entries:
                if entry.name[0] in ".~#" or (root and not directory and entry.name in {"sessions", "README.md"}):
                    continue
                if entry.is_dir(follow_symlinks=not root):
                    found.append(f"{directory}{entry.name}/")
                elif with_files and entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                    found.append(directory + entry.name)
    except OSError:
        return []
    return sorted(found)


def _join_split_options(words: Sequence[str]) -> list[str]:
    """Undo bash's split at `=`: the parts of `key=value` become one word again, `--option=value` becomes two."""
    joined: list[str] = []
    for word in words:
        if word == "=" and joined and joined[-1].startswith("--"):
            joined.append("")
        elif word == "=" and joined:
            joined[-1] += "="
        elif joined and (joined[-1].endswith("=") or (joined[-1] == "" and word)):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _split_option_value(word: str) -> list[str]:
    """Return `--option=value` as two words, for shells that do not split at `=`."""
    return word.split("=", 1) if word.startswith("--") and "=" in word else [word]


def _unquote(word: str) -> str:
    """Return a word without the shell's quotes, even if a quote is not closed yet."""
    for closing in ("", '"', "'"):
        try:
            return "".join(shlex.split(word + closing))
        except ValueError:
            continue
    return word.rstrip("\\")
