"""Files in a vault: written by hand, compared with a snapshot, mounted or swapped."""

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memfs.fs.files import open_root

Snapshot = Callable[..., dict[str, tuple[object, ...]]]  # what the fixture `snapshot` is


def by_hand(root: Path, path: str, text: str) -> None:
    """Write a file as a person with an editor does, without memfs."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


@contextmanager
def opened_root(root: Path) -> Iterator[int]:
    """Open the directory of a vault and yield its descriptor."""
    fd = open_root(root)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def mounted(*arguments: str, at: Path) -> Iterator[None]:
    """Mount a file system for the block; needs root."""
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(at)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"mounting needs root: {done.stderr.strip()}"
    try:
        yield
    except BaseException:
        subprocess.run(["umount", "-l", str(at)], check=True)  # the failed block may still hold it
        raise
    subprocess.run(["umount", str(at)], check=True)


def exchange(one: Path, other: Path) -> None:
    """Exchange two names atomically."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2):
        raise OSError(ctypes.get_errno(), "renameat2")


def open_paths(root: Path | str = "") -> list[str]:
    """Return the paths that this process has open, of those that start with `root`."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(str(root))]
