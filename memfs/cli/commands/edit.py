"""The command `edit`: edit a memory in an editor. On any error the edited text is kept."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from memfs.cli.inputs import is_stdin_terminal, normalize_ref, open_vault
from memfs.cli.output import print_written, safe_text
from memfs.cli.parser import usage_error
from memfs.data_types import Memory, Written
from memfs.errors import MalformedMemoryError, MemfsError, SettingsError
from memfs.namespace import slug
from memfs.vault.vault import Vault


def run_edit(args: argparse.Namespace) -> int:
    """Edit a copy of a memory's file, and replace the file unless it changed meanwhile."""
    with open_vault(args.vault) as vault:
        memory = vault.read(normalize_ref(vault, args.ref))
        _check_editable(memory)
        command = editor_command()
        copy = _copy(memory)
        try:
            _edit(command, copy)
            written = _save(vault, memory, copy.read_bytes())
        except (MemfsError, OSError) as error:
            raise _with_kept_copy(error, copy, memory) from error
        except KeyboardInterrupt:
            print(f"Your text is kept in {copy}.", file=sys.stderr)
            raise
        copy.unlink()
        print_written(written, as_json=args.json)
        _print_problems(vault.read(written.path))
    return 0


def _check_editable(memory: Memory) -> None:
    """Raise MalformedMemoryError if the file is not UTF-8."""
    try:
        memory.data.decode()
    except UnicodeDecodeError:
        raise MalformedMemoryError(memory.path, 1, "not UTF-8, so memfs never rewrites it") from None


def _copy(memory: Memory) -> Path:
    """Return a temporary copy of a memory's file that only its owner can read."""
    stem = slug(memory.path.rpartition("/")[2].removesuffix(".md"))
    fd, name = tempfile.mkstemp(prefix=f"{stem}-", suffix=".md")
    with open(fd, "wb") as file:
        file.write(memory.data)
    return Path(name)


def editor_command() -> list[str]:
    """Return the command of VISUAL or EDITOR, else vi; raise a usage error if vi would have no terminal."""
    configured = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if not configured and not (is_stdin_terminal() and sys.stdout.isatty()):
        raise usage_error(
            "edit", "vi needs a terminal, and there is none",
            "Set VISUAL or EDITOR to an editor that needs none, or use `memfs update` or `memfs append`.",
        )  # fmt: skip
    command = configured or "vi"
    try:
        return shlex.split(command)
    except ValueError as error:
        raise _editor_error(command, str(error)) from None


def _edit(command: list[str], copy: Path) -> None:
    """Run the editor and wait for its end; while it runs, only the editor reacts to Ctrl-C."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.call([*command, str(copy)])
    except OSError as error:
        raise _editor_error(command[0], error.strerror or str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        failed = MemfsError(f"editor {command[0]!r} ended with exit code {code}: nothing was changed")
        failed.hint = "Try again, or set VISUAL or EDITOR to another editor."
        raise failed


def _editor_error(name: str, reason: str) -> SettingsError:
    error = SettingsError(f"editor {name!r}", reason.lower())
    error.hint = "Set VISUAL or EDITOR to an editor that is installed, such as EDITOR=nano."
    return error


def _save(vault: Vault, memory: Memory, data: bytes) -> Written:
    """Replace the file of a memory by the edited bytes. Raise MemfsError if they are empty or not UTF-8."""
    if data == memory.data:
        return Written(memory.id, memory.path, "unchanged", memory.stamp)
    if not data.strip():
        raise MemfsError(f"{memory.path}: the edited text is empty: nothing was changed")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MemfsError(f"{memory.path}: the edited text is not UTF-8: nothing was changed") from None
    return vault.replace(memory.path, text, seen=memory.stamp)


def _with_kept_copy(error: MemfsError | OSError, copy: Path, memory: Memory) -> MemfsError:
    """Return the error, as a MemfsError, with the path of the edited copy as its hint; remove an unchanged copy."""
    if not isinstance(error, MemfsError):
        error = MemfsError(f"{copy}: {(error.strerror or str(error)).lower()}")
    if not copy.is_file():
        return error
    if copy.read_bytes() == memory.data:
        copy.unlink()
    else:
        error.hint = f"Your text is kept in {copy}."
    return error


def _print_problems(memory: Memory) -> None:
    for problem in memory.problems:
        print(safe_text(problem), file=sys.stderr)
