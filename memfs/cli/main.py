"""Start of the command line: version, dispatch, wording of errors. Imports what a command needs when it runs."""

import importlib
import io
import os
import sys
from collections.abc import Sequence

from memfs import __version__
from memfs.errors import AggregateMemoryError, MemfsError

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: list[str] | None = None) -> int:
    """Run one command and tell the exit code. Data goes to stdout, messages to stderr; nothing is raised."""
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words[: words.index("--")] if "--" in words else "--json" in words
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    elif sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  as long as the process lives
    try:
        code = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from memfs.cli.output import settle_output

        settle_output()
        return BROKEN_PIPE
    except OSError as error:
        return _report([MemfsError(_wording(error)).with_hint(_way_on(error))], words, as_json=as_json)
    except AggregateMemoryError as error:
        return _report(error.errors, words, as_json=as_json)
    except MemfsError as error:
        return _report([error], words, as_json=as_json)
    return code


def _run(words: list[str]) -> int:
    before, name, after = split(words)
    if {"--version", "-V"} & set(before):
        return _version(as_json="--json" in before)
    if name == "__complete":
        from memfs.cli.completion import run_complete

        return run_complete(after)
    from memfs.cli import parser

    asked = name == "help" or bool({"--help", "-h"} & set(before))
    if not name and not asked:
        parser.check_before(before)
    if asked or not name:
        return parser.show_help("".join(after[:1]) if name == "help" else name, asked=asked)
    command = parser.find(name)
    try:
        args = parser.parse(command, [*before, *after])
    except SystemExit as end:  # argparse ends so after --help
        return int(end.code or 0)
    return int(getattr(importlib.import_module(f"memfs.cli.{command.group}"), command.function)(args))


def split(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Cut at the command: the options before it, its name or "", and what follows."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] == "--vault" else 1
    return list(words[:index]), words[index] if index < len(words) else "", list(words[index + 1 :])


def _version(*, as_json: bool) -> int:
    print(f'{{"version": "{__version__}"}}' if as_json else f"memfs {__version__}")
    return 0


def _wording(error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_nowhere():
        return "the current directory is gone: somebody removed it"
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return where + (error.strerror or str(error) or type(error).__name__).lower()


def _is_nowhere() -> bool:
    """Tell whether the current directory was removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _way_on(error: OSError) -> str:
    """What to do about a file that was named and cannot be had."""
    if error.filename is None:
        return ""
    kinds = {
        FileNotFoundError: "Check the name, and from which directory it is meant.",
        IsADirectoryError: "Name a file.",
        PermissionError: "Check the permissions.",
    }
    return kinds.get(type(error), "")


def _report(errors: Sequence[BaseException], words: Sequence[str], *, as_json: bool) -> int:
    """Word errors on stderr, and tell the highest exit code among them."""
    from memfs.cli.error_hints import hints_for
    from memfs.cli.output import dumps, plain, settle_output

    settle_output()
    codes = [getattr(error, "exit_code", 1) for error in errors]
    hints = hints_for(errors, words)
    for error, hint, code in zip(errors, hints, codes, strict=True):
        line = dumps({"error": str(error), "hint": hint, "exit_code": code}) if as_json else f"memfs: {plain(error)}"
        print(line, file=sys.stderr)
    for hint in dict.fromkeys(filter(None, hints)):
        if not as_json:
            print(f"hint: {plain(hint)}", file=sys.stderr)
    return max(codes)
