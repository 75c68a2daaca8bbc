"""Choose a free file name in a namespace. Caches the names and text keys of each directory that this process writes to.

The cache of a directory is valid as long as the directory's modification time is the one this process left, and the
lock queue file of the namespace names this process as its last writer. An edit in place changes neither: it is found
after RECHECK_SECONDS, when the files' own modification times are compared.
"""

import itertools
import os
import secrets
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

from memfs.data_types import Stamp
from memfs.namespace import fold
from memfs.storage.exact_duplicates import file_text_key

RECHECK_SECONDS = 2.0  # how long an edit in place may stay undetected
_PROCESS_SECRET = secrets.token_bytes(8)
_NO_MEMORY = ((0, 0), "")  # for an entry that is not a memory: its name is taken all the same


class DirectoryNames:
    """The file names and text keys of one directory. The caller of every method holds the lock of the namespace."""

    def __init__(self) -> None:
        self._mtime_ns = -1
        self._rechecked_at = 0.0
        self._is_last_writer = False
        self._taken: dict[str, tuple[tuple[int, int], str]] = {}  # folded name -> (inode, mtime), text key
        self._names_by_text: dict[str, str] = {}  # text key -> name
        self._last_numbers: dict[str, int] = {}  # stem -> the last number appended to it

    def refresh(self, parent: int, lock_queue: int) -> None:
        """List the directory and read its new and changed files, unless it is as this process last left it."""
        mtime_ns, now = os.fstat(parent).st_mtime_ns, time.monotonic()
        is_recheck = now - self._rechecked_at > RECHECK_SECONDS
        self._is_last_writer = os.pread(lock_queue, 12, 0) == _process_token()
        if self._is_last_writer and self._mtime_ns == mtime_ns and not is_recheck:
            return
        taken: dict[str, tuple[tuple[int, int], str]] = {}
        names_by_text: dict[str, str] = {}
        with os.scandir(parent) as entries:
            for entry in entries:
                folded = fold(entry.name)
                known = self._taken.get(folded, _NO_MEMORY)
                if not entry.name.endswith(".md") or not entry.is_file(follow_symlinks=False):
                    known = _NO_MEMORY
                else:
                    identity = entry.inode(), _mtime_ns(entry) if is_recheck else known[0][1]
                    if known[0] != identity:
                        known = identity, file_text_key(parent, entry.name)
                    names_by_text[known[1]] = entry.name
                taken[folded] = known
        self._taken, self._names_by_text, self._last_numbers = taken, names_by_text, {}
        self._mtime_ns = mtime_ns
        if is_recheck:
            self._rechecked_at = now

    def name_with_text(self, key: str) -> str | None:
        """Return the name of a file whose text has this key, or None; the file may have changed since `refresh`."""
        return self._names_by_text.get(key)

    def is_taken(self, name: str) -> bool:
        """Return whether a name was taken at the last `refresh`, in any case or normal form."""
        return fold(name) in self._taken

    def free_names(self, stem: str) -> Iterator[str]:
        """Yield the names among `stem.md`, `stem-2.md`, `stem-3.md` ... that were free at the last `refresh`.

        A name that was yielded is not yielded again until `refresh` lists the directory.
        """
        for number in itertools.count(self._last_numbers.get(stem, 0) + 1):
            name = f"{stem}-{number}.md" if number > 1 else f"{stem}.md"
            if fold(name) not in self._taken:
                self._last_numbers[stem] = number
                yield name

    def record(self, parent: int, lock_queue: int, name: str, stamp: Stamp, key: str) -> None:
        """Record a file that this process has just created, with the key of its text."""
        self._taken[fold(name)] = ((stamp.inode, stamp.mtime_ns), key)
        self._names_by_text[key] = name
        self._mtime_ns = os.fstat(parent).st_mtime_ns
        if not self._is_last_writer:
            with suppress(OSError):  # on a full disk the next writer reads the directory again
                os.pwrite(lock_queue, _process_token(), 0)


def _mtime_ns(entry: "os.DirEntry[str]") -> int:
    with suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_mtime_ns
    return 0


def _process_token() -> bytes:
    """Return a token of this process; a forked child has another one."""
    return _PROCESS_SECRET + struct.pack("<I", os.getpid())
