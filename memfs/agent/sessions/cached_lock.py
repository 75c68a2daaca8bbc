"""CachedLock: the lock of one directory whose descriptors stay open from one use to the next."""

import os
import time
from contextlib import ExitStack, suppress
from weakref import WeakSet

from memfs.after_fork import after_fork
from memfs.fs.files import open_directory_fd, open_root
from memfs.fs.locks import acquire
from memfs.storage.memory_files import LockedDirectory, MemoryFiles

_locks: "WeakSet[CachedLock]" = WeakSet()  # of this process


def _close_in_child() -> None:
    """Close the descriptors inherited by a forked child: a lock lasts as long as any process has its descriptor."""
    for lock in list(_locks):
        lock.close()


after_fork(_close_in_child)


class CachedLock:
    """Locks a directory of a vault repeatedly, and more cheaply than MemoryFiles.locked, with the same lock.

    Not thread-safe.
    """

    def __init__(self, files: MemoryFiles, root: str, segments: tuple[str, ...], *, timeout: float) -> None:
        self._files, self._root, self._segments, self._timeout = files, root, segments, timeout
        self._path, self._label = "/".join((root, *segments)), "/" + "/".join(segments)
        self._directory: LockedDirectory | None = None
        self._inode = (0, 0)
        _locks.add(self)

    def take(self) -> LockedDirectory | None:
        """Lock the directory until it is released; None if no descriptors are cached, or the directory was replaced."""
        directory = self._directory
        if directory is None:
            return None
        acquire(directory.parent, directory.lock_queue, self._label, self._timeout, time.monotonic() + self._timeout)
        try:
            status = os.stat(self._path)
            if (status.st_dev, status.st_ino) == self._inode:
                return directory
        except OSError:
            pass
        self.close()
        return None

    def cache(self, directory: LockedDirectory) -> None:
        """Open descriptors of a directory that is locked now, for the next use."""
        self.close()
        with ExitStack() as opened:
            root = open_root(self._root)
            opened.callback(os.close, root)
            parent = open_directory_fd(root, directory.segments)
            opened.callback(os.close, parent)
            status = os.fstat(parent)
            self._directory = LockedDirectory(root, parent, os.dup(directory.lock_queue), directory.segments)
            self._inode = status.st_dev, status.st_ino
            opened.pop_all()

    def close(self) -> None:
        """Close the cached descriptors, which also releases the lock."""
        directory, self._directory = self._directory, None
        if directory:
            for fd in directory[:3]:
                os.close(fd)

    def __del__(self) -> None:
        with suppress(Exception):  # of a log that was not closed
            self.close()
