"""Completion in shells: `completion` prints a script, which asks the hidden `__complete` for candidates.

`__complete` answers between two key strokes: it reads the table of commands and one directory, and opens no vault.
"""

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memfs.cli.arguments import COMMON, Argument, Command
from memfs.cli.command_table import COMMANDS
from memfs.cli.parser import BY_NAME

MARKS = ("memfs.yaml", ".memfs")
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


class Place(NamedTuple):
    """Where on a command line the cursor is."""

    command: Command | None
    option: Argument | None  # whose value is wanted
    position: int
    vault: str


def run_completion(args: argparse.Namespace) -> int:
    """Print the script of a shell."""
    script = SCRIPTS[args.shell]
    if args.json:
        from memfs.cli.output import print_json

        print_json({"shell": args.shell, "script": script})
    else:
        print(script, end="")
    return 0


def run_complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word, one a line, each with a tab and a description if it has one."""
    *done, last = _joined(words) or [""]
    *before, current = _apart(last)  # what stands before the value in the same word is a part of every candidate
    current, glued = _unquoted(current), "".join(f"{name}=" for name in before)
    for name, about in candidates(_place([part for word in done for part in _apart(word)] + before), current):
        if name.startswith(current) and name.isprintable():
            print(f"{glued}{name}\t{about}" if about else f"{glued}{name}")
    return 0


def candidates(place: Place, current: str) -> Iterator[tuple[str, str]]:
    """What could stand at a place."""
    if place.option is not None:
        yield from _values(place.option, place.vault, current)
    elif current.startswith("-"):
        own = place.command.arguments if place.command else ()
        for names, options, _ in (*own, *COMMON):
            yield from ((name, options["help"]) for name in names if name.startswith("--"))
        yield "--help", "show what there is"
    elif place.command is None:
        yield from ((command.name, command.summary) for command in COMMANDS)
    elif argument := _positional(place.command, place.position):
        yield from _values(argument, place.vault, current)


def _place(words: Sequence[str]) -> Place:
    """Read the words before the cursor."""
    place = Place(None, None, 0, "")
    for word in words:
        if place.option is not None:
            is_vault = "--vault" in place.option.names
            place = place._replace(option=None, vault=_unquoted(word) if is_vault else place.vault)
        elif word.startswith("-") and word != "-":
            place = place._replace(option=_option(place.command, word))
        elif place.command is None:
            place = place._replace(command=BY_NAME.get(word, Command(word, "", "", (), "")))
        else:
            place = place._replace(position=place.position + 1)
    return place


def _option(command: Command | None, word: str) -> Argument | None:
    """The option of this name, if it wants a value."""
    known = (*(command.arguments if command else ()), *COMMON)
    return next((option for option in known if word in option.names and option.takes_value), None)


def _positional(command: Command, position: int) -> Argument | None:
    found = [argument for argument in command.arguments if not argument.names[0].startswith("-")]
    if found and position >= len(found) and found[-1].options.get("nargs") == "+":
        return found[-1]
    return found[position] if position < len(found) else None


def _values(argument: Argument, vault: str, current: str) -> Iterator[tuple[str, str]]:
    if argument.completes == "folder":
        yield from ((name, "") for name in _entries(os.path.expanduser("~") if current[:1] == "~" else "", current))
    elif argument.completes == "session":
        from urllib.parse import unquote

        root = find_vault(vault)
        places = _entries(f"{root}/sessions", "") if root else []
        yield from ((unquote(place.removesuffix("/")), "") for place in places)
    elif argument.completes in {"ref", "namespace"}:
        root = find_vault(vault)
        if root:
            with_files = argument.completes == "ref"
            yield from ((name, "") for name in _entries(root, current, with_files=with_files))
    else:
        yield from ((word, "") for word in argument.completes.split())


def find_vault(named: str) -> str | None:
    """The vault as `Vault.find` finds it, without the price of importing it."""
    if where := named or os.environ.get("MEMFS_VAULT"):
        return os.path.expanduser(where)
    here = os.getcwd()
    while not os.path.isfile(f"{here}/{MARKS[0]}") and not os.path.isdir(f"{here}/{MARKS[1]}"):
        if here == os.path.dirname(here):
            return None
        here = os.path.dirname(here)
    return here


def _entries(root: str, current: str, *, with_files: bool = False) -> list[str]:
    """The directories, and memories, of the one directory that `current` has come to."""
    folder = current[: current.rfind("/") + 1]
    found = []
    try:
        with os.scandir(os.path.join(root, folder.removeprefix("/") if root else folder) or ".") as entries:
            for entry in entries:
                if entry.name[0] in ".~#" or (root and not folder and entry.name in {"sessions", "README.md"}):
                    continue
                if entry.is_dir(follow_symlinks=not root):
                    found.append(f"{folder}{entry.name}/")
                elif with_files and entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                    found.append(folder + entry.name)
    except OSError:
        return []
    return sorted(found)


def _joined(words: Sequence[str]) -> list[str]:
    """Undo bash's cut at `=`: an option keeps its value behind it, anything else is one word."""
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


def _apart(word: str) -> list[str]:
    """An option and the value behind its `=`, in shells that do not cut there."""
    return word.split("=", 1) if word.startswith("--") and "=" in word else [word]


def _unquoted(word: str) -> str:
    """A word as the shell will read it, also in the middle of a quotation."""
    for closing in ("", '"', "'"):
        try:
            return "".join(shlex.split(word + closing))
        except ValueError:
            continue
    return word.rstrip("\\")
