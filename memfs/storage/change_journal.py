"""The journal `.memfs/journal`: the paths of memories that changed, one per line.

Every writer appends to it before its call returns, and so does a watcher; every process reads on from its own position.
It contains no information that the files do not contain: if it is lost, each process scans all files once.
"""

import os
import secrets
import zlib
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import quote, unquote

from memfs.after_fork import Mutex
from memfs.errors import MemfsError, NewerSchemaError
from memfs.fs.files import STATE_DIR
from memfs.fs.handle_cache import HandleCache
from memfs.storage.part_formats import format_check, log_once

JOURNAL_FILE = "journal"
POSITION_LOST = -1  # instead of an inode: there was a journal, but the position to read on from is unknown
RESTART_BYTES = 1 << 20  # a larger journal is restarted when the index is published
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND


class ChangeJournal:
    """The journal, and the position up to which this process has read it. Thread-safe."""

    def __init__(self) -> None:
        self._check = format_check(JOURNAL_FILE)
        self._handles = HandleCache(STATE_DIR, check=self._check)
        self._mutex = Mutex()
        self._inode = 0  # of the journal that `_position` belongs to; 0 if there was none, or POSITION_LOST
        self._position = 0  # offset up to which this process has read

    def append(self, root: int, paths: Iterable[str]) -> bool:
        """Append paths. Return False if that is not possible: other processes then find the change by a scan."""
        # the newline before a path ends a line that another writer left incomplete
        data = "".join([f"\n{_encode_path(path)}\n" for path in paths]).encode()
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._handles.open(root, JOURNAL_FILE, _FLAGS)
            is_whole = os.write(fd, data) == len(data)
            if not os.fstat(fd).st_nlink:  # the journal was restarted meanwhile
                is_whole = os.write(self._handles.open(root, JOURNAL_FILE, _FLAGS), data) == len(data)
            return is_whole
        return False

    def create(self, root: int) -> None:
        """Create the journal if there is none, so that there is a position to read on from. Errors are ignored.

        Its first line is random, for `_first_line_checksum`; readers take it for a path at which no memory is.
        """
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._handles.open(root, JOURNAL_FILE, _FLAGS)
            if not os.fstat(fd).st_size:
                os.write(fd, f"\n#{secrets.token_hex(8)}\n".encode())
            if self._inode <= 0:
                self._inode, self._position = os.fstat(fd).st_ino, 0

    def read(self, root: int) -> list[str] | None:
        """Return the paths that were appended since the last call; None if some may have been missed.

        None also on the first call if there is a journal, and if a later memfs wrote it. Lines may be anything.
        """
        with self._mutex:
            try:
                fd = self._handles.open(root, JOURNAL_FILE, _FLAGS & ~os.O_CREAT)
                status = os.fstat(fd)
                is_known = self._inode == status.st_ino and self._position <= status.st_size
                if not is_known:
                    self._inode, self._position = status.st_ino, _end_of_last_line(fd, status.st_size)
                    return None
                data = os.pread(fd, status.st_size - self._position, self._position) if status.st_size else b""
                data = data[: data.rfind(b"\n") + 1]  # the rest is still being written
                self._position += len(data)
            except NewerSchemaError as error:
                log_once(error, "each search compares all files")
                return None
            except (OSError, MemfsError):
                had_none, self._inode, self._position = self._inode == 0, 0, 0
                return [] if had_none else None
        return [unquote(line) for line in data.decode(errors="replace").split("\n") if line]

    def start_at(self, root: int, cursor: str) -> bool:
        """Read on from a position that `cursor` returned, also in another process. Return False if it is not valid."""
        with self._mutex:
            try:
                inode, crc, position = (int(part, 16) for part in cursor.split("-"))
                fd = self._handles.open(root, JOURNAL_FILE, _FLAGS & ~os.O_CREAT)
            except (OSError, MemfsError, ValueError):
                return False
            status = os.fstat(fd)
            if status.st_ino != inode or status.st_size < position or _first_line_checksum(fd) != crc:
                return False
            self._inode, self._position = inode, position
            return True

    def cursor(self, root: int) -> str:
        """Return the position up to which this process has read, for `start_at`; empty if it is unknown."""
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._handles.open(root, JOURNAL_FILE, _FLAGS & ~os.O_CREAT)
            if os.fstat(fd).st_ino == self._inode:
                return f"{self._inode:x}-{_first_line_checksum(fd):x}-{self._position:x}"
        return ""

    def is_large(self) -> bool:
        """Return whether this process has read more than RESTART_BYTES of the journal."""
        return self._position > RESTART_BYTES

    @property
    def is_present(self) -> bool:
        """Whether there was a journal when it was last read."""
        return self._inode > 0

    def restart(self, root: int) -> None:
        """Replace the journal by an empty one, because it is too long, or contains paths that must be forgotten.

        Every process then scans all files once. The new journal is created at once: a process that finds none twice in
        a row cannot know whether there was one in between.
        """
        with self._mutex:
            with suppress(OSError, NewerSchemaError):
                self._check(root)
                os.unlink(f"{STATE_DIR}/{JOURNAL_FILE}", dir_fd=root)
            self.create(root)
            self._inode, self._position = POSITION_LOST, 0  # the old journal may have had unread lines

    def close(self) -> None:
        """Close the file. The position is lost, because another journal may get the same inode."""
        with self._mutex:
            self._handles.close()
            self._inode = POSITION_LOST if self._inode else 0


def _encode_path(path: str) -> str:
    return path if path.isprintable() and "%" not in path else quote(path)


def _end_of_last_line(fd: int, size: int) -> int:
    """Return the offset after the last complete line."""
    start = max(0, size - 8192)
    return start + os.pread(fd, size - start, start).rfind(b"\n") + 1


def _first_line_checksum(fd: int) -> int:
    """Return a checksum of the first line, which differs between two journals with the same inode."""
    return zlib.crc32(os.pread(fd, 4096, 0).lstrip(b"\n").partition(b"\n")[0])
