"""Editing a memory in a person's editor: edit. Whatever goes wrong, the person's text is kept."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from memfs.cli.inputs import at_terminal, open_vault, reference
from memfs.cli.output import plain, print_written
from memfs.cli.parser import usage
from memfs.data_types import Memory, Written
from memfs.errors import MalformedMemoryError, MemfsError, SettingsError
from memfs.namespace import slug
from memfs.vault.vault import Vault


def run_edit(args: argparse.Namespace) -> int:
    """Edit a copy of a memory's file, and replace the file if nobody changed it meanwhile."""
    with open_vault(args.vault) as vault:
        memory = vault.read(reference(vault, args.ref))
        _check_editable(memory)
        command = editor()
        copy = _copy(memory)
        try:
            _edit(command, copy)
            written = _save(vault, memory, copy.read_bytes())
        except (MemfsError, OSError) as error:
            raise _keeping(error, copy, memory) from error
        except KeyboardInterrupt:
            print(f"Your text is kept in {copy}.", file=sys.stderr)
            raise
        copy.unlink()
        print_written(written, as_json=args.json)
        _print_problems(vault.read(written.path))
    return 0


def _check_editable(memory: Memory) -> None:
    try:
        memory.data.decode()
    except UnicodeDecodeError:
        raise MalformedMemoryError(memory.path, 1, "not UTF-8, so memfs never rewrites it") from None


def _copy(memory: Memory) -> Path:
    """A temporary copy that only its owner can read."""
    stem = slug(memory.path.rpartition("/")[2].removesuffix(".md"))
    fd, name = tempfile.mkstemp(prefix=f"{stem}-", suffix=".md")
    with open(fd, "wb") as file:
        file.write(memory.data)
    return Path(name)


def editor() -> list[str]:
    """The command that edits a file; unless one is named it is vi, which wants a terminal."""
    named = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if not named and not (at_terminal() and sys.stdout.isatty()):
        raise usage(
            "edit", "vi wants a terminal, and there is none",
            "Set VISUAL or EDITOR to what edits a file without one, or use `memfs update` or `memfs append`.",
        )  # fmt: skip
    named = named or "vi"
    try:
        return shlex.split(named)
    except ValueError as error:
        raise _no_editor(named, str(error)) from None


def _edit(command: list[str], copy: Path) -> None:
    """Wait for the editor; Ctrl-C is its own while it runs."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.call([*command, str(copy)])
    except OSError as error:
        raise _no_editor(command[0], error.strerror or str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        failed = MemfsError(f"editor {command[0]!r} ended with exit code {code}: nothing was changed")
        failed.hint = "Repeat, or set VISUAL or EDITOR to another editor."
        raise failed


def _no_editor(name: str, reason: str) -> SettingsError:
    made = SettingsError(f"editor {name!r}", reason.lower())
    made.hint = "Set VISUAL or EDITOR to an editor that is installed, such as EDITOR=nano."
    return made


def _save(vault: Vault, memory: Memory, data: bytes) -> Written:
    if data == memory.data:
        return Written(memory.id, memory.path, "unchanged", memory.stamp)
    if not data.strip():
        raise MemfsError(f"{memory.path}: the edited text is empty: nothing was changed")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MemfsError(f"{memory.path}: the edited text is not UTF-8: nothing was changed") from None
    return vault.replace(memory.path, text, seen=memory.stamp)


def _keeping(error: MemfsError | OSError, copy: Path, memory: Memory) -> MemfsError:
    """The error, with the place where the person's text is, if there is any."""
    told = error if isinstance(error, MemfsError) else MemfsError(f"{copy}: {(error.strerror or str(error)).lower()}")
    if not copy.is_file():
        return told
    if copy.read_bytes() == memory.data:
        copy.unlink()
    else:
        told.hint = f"Your text is kept in {copy}."
    return told


def _print_problems(memory: Memory) -> None:
    for problem in memory.problems:
        print(plain(problem), file=sys.stderr)
