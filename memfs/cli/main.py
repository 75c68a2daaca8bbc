"""Entry point of the command line: dispatch, --version, and how errors are printed. Imports a command when it runs."""

import importlib
import io
import os
import sys
from collections.abc import Sequence

from memfs import __version__
from memfs.errors import AggregateMemoryError, MemfsError

INTERRUPTED = 130  # exit codes as of a shell: 128 + the number of the signal, here SIGINT
BROKEN_PIPE = 141  # SIGPIPE


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. Data goes to stdout, messages to stderr; no error is raised."""
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
        from memfs.cli.output import flush_stdout

        flush_stdout()
        return BROKEN_PIPE
    except OSError as error:
        wrapped = MemfsError(_os_error_message(error)).with_hint(_os_error_hint(error))
        return _print_errors([wrapped], words, as_json=as_json)
    except AggregateMemoryError as error:
        return _print_errors(error.errors, words, as_json=as_json)
    except MemfsError as error:
        return _print_errors([error], words, as_json=as_json)
    return code


def _run(words: list[str]) -> int:
    """Run the command of a command line, or print the version or help; return the exit code."""
    before, name, after = split_at_command(words)
    if {"--version", "-V"} & set(before):
        return _print_version(as_json="--json" in before)
    if name == "__complete":
        from memfs.cli.completion import run_complete

        return run_complete(after)
    from memfs.cli import parser

    is_help = name == "help" or bool({"--help", "-h"} & set(before))
    if not name and not is_help:
        parser.check_vault_option(before)
    if is_help or not name:
        return parser.print_help("".join(after[:1]) if name == "help" else name, is_requested=is_help)
    command = parser.find_command(name)
    try:
        args = parser.parse_arguments(command, [*before, *after])
    except SystemExit as end:  # argparse exits after --help
        return int(end.code or 0)
    return int(getattr(importlib.import_module(f"memfs.cli.{command.module}"), command.function)(args))


def split_at_command(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Return the options before the command, its name or "", and the words after it."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] == "--vault" else 1
    return list(words[:index]), words[index] if index < len(words) else "", list(words[index + 1 :])


def _print_version(*, as_json: bool) -> int:
    print(f'{{"version": "{__version__}"}}' if as_json else f"memfs {__version__}")
    return 0


def _os_error_message(error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_current_directory_gone():
        return "the current directory does not exist any more"
    prefix = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return prefix + (error.strerror or str(error) or type(error).__name__).lower()


def _is_current_directory_gone() -> bool:
    """Return whether the current directory was removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _os_error_hint(error: OSError) -> str:
    """Return a hint for a file named on the command line that cannot be opened; empty if there is none."""
    if error.filename is None:
        return ""
    kinds = {
        FileNotFoundError: "Check the name; a relative path starts at the current directory.",
        IsADirectoryError: "Name a file.",
        PermissionError: "Check the permissions.",
    }
    return kinds.get(type(error), "")


def _print_errors(errors: Sequence[BaseException], words: Sequence[str], *, as_json: bool) -> int:
    """Print errors and their hints on stderr, and return the highest exit code among them."""
    from memfs.cli.error_hints import hints_for
    from memfs.cli.output import flush_stdout, json_text, safe_text
    from memfs.json_output import error_json

    flush_stdout()
    codes = [getattr(error, "exit_code", 1) for error in errors]
    hints = hints_for(errors, words)
    for error, hint, code in zip(errors, hints, codes, strict=True):
        line = json_text(error_json(str(error), hint, code)) if as_json else f"memfs: {safe_text(error)}"
        print(line, file=sys.stderr)
    for hint in dict.fromkeys(filter(None, hints)):
        if not as_json:
            print(f"hint: {safe_text(hint)}", file=sys.stderr)
    return max(codes)
