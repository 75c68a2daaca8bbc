"""What a process knows of a namespace's names and texts: for free names, and to find a text that is there.

A directory is read once and remembered. That holds as long as its modification time is the one we left, and
the gate of the namespace names us as its last writer; an edit in place is noticed after a moment.
"""

import itertools
import os
import secrets
import struct
import time
import unicodedata
from collections.abc import Iterator
from contextlib import suppress

from memfs.data_types import Stamp
from memfs.format.frontmatter import parse_file
from memfs.fs.files import digest, read
from memfs.namespace import fold

FRESH = 2.0  # seconds for which an edit in place may go unnoticed
_SECRET = secrets.token_bytes(8)
_UNKNOWN = ((0, 0), "")


class Names:
    """The names and texts of one directory; every method wants its lock held."""

    def __init__(self) -> None:
        self._mtime_ns = -1
        self._scanned = 0.0
        self._ours = False
        self._taken: dict[str, tuple[tuple[int, int], str]] = {}  # folded name -> (inode, mtime), text
        self._texts: dict[str, str] = {}  # text -> name
        self._last: dict[str, int] = {}  # stem -> number of its last use

    def refresh(self, parent: int, gate: int) -> None:
        """Read the directory, unless it is as we left it."""
        mtime_ns, now = os.fstat(parent).st_mtime_ns, time.monotonic()
        deep = now - self._scanned > FRESH
        self._ours = os.pread(gate, 12, 0) == _token()
        if self._ours and self._mtime_ns == mtime_ns and not deep:
            return
        taken: dict[str, tuple[tuple[int, int], str]] = {}
        texts: dict[str, str] = {}
        with os.scandir(parent) as entries:
            for entry in entries:
                key = fold(entry.name)
                known = self._taken.get(key, _UNKNOWN)
                if not entry.name.endswith(".md") or not entry.is_file(follow_symlinks=False):
                    known = _UNKNOWN
                else:
                    identity = entry.inode(), _mtime_ns(entry) if deep else known[0][1]
                    if known[0] != identity:
                        known = identity, _text_of(parent, entry.name)
                    texts[known[1]] = entry.name
                taken[key] = known
        self._taken, self._texts, self._last = taken, texts, {}
        self._mtime_ns = mtime_ns
        if deep:
            self._scanned = now

    def with_text(self, text: str) -> str | None:
        """The name of a file with this text, as far as is known."""
        return self._texts.get(text)

    def has(self, name: str) -> bool:
        """Tell whether a name is taken, as far as is known."""
        return fold(name) in self._taken

    def free(self, stem: str) -> Iterator[str]:
        """The names `stem`, `stem-2`, `stem-3` ... that are not taken, as far as is known."""
        for number in itertools.count(self._last.get(stem, 0) + 1):
            name = f"{stem}-{number}.md" if number > 1 else f"{stem}.md"
            if fold(name) not in self._taken:
                self._last[stem] = number
                yield name

    def note(self, parent: int, gate: int, name: str, stamp: Stamp, text: str) -> None:
        """Remember a file of our own."""
        self._taken[fold(name)] = ((stamp.inode, stamp.mtime_ns), text)
        self._texts[text] = name
        self._mtime_ns = os.fstat(parent).st_mtime_ns
        if not self._ours:
            with suppress(OSError):  # on a full disk the next writer reads the directory again
                os.pwrite(gate, _token(), 0)


def text_key(text: str) -> str:
    """Equal for texts that differ only in normal form and in the white space of their lines."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return digest("\n".join([" ".join(line.split()) for line in lines]).encode())


def _text_of(parent: int, name: str) -> str:
    try:
        return text_key(parse_file(name, read(parent, name).data).body)
    except OSError:
        return ""


def _mtime_ns(entry: "os.DirEntry[str]") -> int:
    with suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_mtime_ns
    return 0


def _token() -> bytes:
    """This process; another one after a fork."""
    return _SECRET + struct.pack("<I", os.getpid())
