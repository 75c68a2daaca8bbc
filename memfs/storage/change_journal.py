"""The journal `.memfs/journal`: the paths of memories that changed, a line each.

Every writer appends to it before it answers, and so does a watcher; every process reads on from where it was. It
holds nothing that the files do not: one that is lost costs a look at all files.
"""

import os
import secrets
import zlib
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import quote, unquote

from memfs.after_fork import Mutex
from memfs.errors import MemfsError
from memfs.fs.files import STATE_DIR
from memfs.fs.handle_cache import HandleCache

NAME = "journal"
LOST = -1  # in the place of an inode: where to read on from is not known
LARGE = 1 << 20  # bytes, from which a new one is begun when the index is published
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND


class ChangeJournal:
    """One process's place in the journal. Thread-safe."""

    def __init__(self) -> None:
        self._place = HandleCache(STATE_DIR)
        self._mutex = Mutex()
        self._inode = 0
        self._position = 0

    def note(self, root: int, paths: Iterable[str]) -> bool:
        """Append paths; False where that is not possible, and others find the change by looking."""
        data = "".join([f"\n{_line(path)}\n" for path in paths]).encode()
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._place.open(root, NAME, _FLAGS)
            is_whole = os.write(fd, data) == len(data)
            if not os.fstat(fd).st_nlink:  # a new one was begun meanwhile
                is_whole = os.write(self._place.open(root, NAME, _FLAGS), data) == len(data)
            return is_whole
        return False

    def begin(self, root: int) -> None:
        """Have a journal, so that there is a place to go on from."""
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._place.open(root, NAME, _FLAGS)
            if not os.fstat(fd).st_size:
                os.write(fd, f"\n#{secrets.token_hex(8)}\n".encode())
            if self._inode <= 0:
                self._inode, self._position = os.fstat(fd).st_ino, 0

    def read(self, root: int) -> list[str] | None:
        """The paths that were appended since the last call; None if that cannot be told."""
        with self._mutex:
            try:
                fd = self._place.open(root, NAME, _FLAGS & ~os.O_CREAT)
                status = os.fstat(fd)
                known = self._inode == status.st_ino and self._position <= status.st_size
                if not known:
                    self._inode, self._position = status.st_ino, _end(fd, status.st_size)
                    return None
                data = os.pread(fd, status.st_size - self._position, self._position) if status.st_size else b""
                data = data[: data.rfind(b"\n") + 1]  # what follows is being written
                self._position += len(data)
            except (OSError, MemfsError):
                known, self._inode, self._position = self._inode == 0, 0, 0
                return [] if known else None
        return [unquote(line) for line in data.decode(errors="replace").split("\n") if line]

    def start_at(self, root: int, cursor: str) -> bool:
        """Read on from a cursor of another process; False if that place is not there any more."""
        with self._mutex:
            try:
                inode, crc, position = (int(part, 16) for part in cursor.split("-"))
                fd = self._place.open(root, NAME, _FLAGS & ~os.O_CREAT)
            except (OSError, MemfsError, ValueError):
                return False
            status = os.fstat(fd)
            if status.st_ino != inode or status.st_size < position or _first_line(fd) != crc:
                return False
            self._inode, self._position = inode, position
            return True

    def cursor(self, root: int) -> str:
        """The place up to which this process has read."""
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._place.open(root, NAME, _FLAGS & ~os.O_CREAT)
            if os.fstat(fd).st_ino == self._inode:
                return f"{self._inode:x}-{_first_line(fd):x}-{self._position:x}"
        return ""

    def is_large(self) -> bool:
        return self._position > LARGE

    @property
    def is_there(self) -> bool:
        """Whether there was a journal when it was last read."""
        return self._inode > 0

    def begin_anew(self, root: int) -> None:
        """Have another journal in the place of one that is long, or says too much; every process then looks at all
        files once. There is one at any time but for a moment: who finds none twice cannot tell what was in between."""
        with self._mutex:
            with suppress(OSError):
                os.unlink(f"{STATE_DIR}/{NAME}", dir_fd=root)
            self.begin(root)
            self._inode, self._position = LOST, 0  # what was not read of the old one

    def close(self) -> None:
        """Give back what is held; another journal may have the same inode then."""
        with self._mutex:
            self._place.close()
            self._inode = LOST if self._inode else 0


def _line(path: str) -> str:
    return path if path.isprintable() and "%" not in path else quote(path)


def _end(fd: int, size: int) -> int:
    """The end of the last line that is whole."""
    start = max(0, size - 8192)
    return start + os.pread(fd, size - start, start).rfind(b"\n") + 1


def _first_line(fd: int) -> int:
    """What tells two journals apart that had the same inode."""
    return zlib.crc32(os.pread(fd, 4096, 0).lstrip(b"\n").partition(b"\n")[0])
