"""KeptHold: the lock of one directory, with its descriptors kept at hand from one use to the next."""

import os
import time
from contextlib import ExitStack, suppress
from weakref import WeakSet

from memfs.after_fork import after_fork
from memfs.fs.files import open_directory_fd, open_root
from memfs.fs.locks import acquire
from memfs.storage.memory_files import LockedDirectory, MemoryFiles

_kept: "WeakSet[KeptHold]" = WeakSet()  # of this process


def _forked() -> None:
    """Have a child hold nothing of its parent's: a lock lasts as long as anybody has its descriptor."""
    for one in list(_kept):
        one.drop()


after_fork(_forked)


class KeptHold:
    """Locks a directory of a vault again and again, for less than `Tree.hold`, whose lock it is. Not thread-safe."""

    def __init__(self, tree: MemoryFiles, root: str, segments: tuple[str, ...], *, timeout: float) -> None:
        self._tree, self._root, self._segments, self._timeout = tree, root, segments, timeout
        self._path, self._label = "/".join((root, *segments)), "/" + "/".join(segments)
        self._hold: LockedDirectory | None = None
        self._inode = (0, 0)
        _kept.add(self)

    def take(self) -> LockedDirectory | None:
        """Lock it, until it is released; None if it has to be opened first."""
        hold = self._hold
        if hold is None:
            return None
        acquire(hold.parent, hold.gate, self._label, self._timeout, time.monotonic() + self._timeout)
        try:
            there = os.stat(self._path)
            if (there.st_dev, there.st_ino) == self._inode:
                return hold
        except OSError:
            pass
        self.drop()
        return None

    def keep(self, hold: LockedDirectory) -> None:
        """Have descriptors for the next time, of a directory that is locked now."""
        self.drop()
        with ExitStack() as opened:
            root = open_root(self._root)
            opened.callback(os.close, root)
            parent = open_directory_fd(root, hold.segments)
            opened.callback(os.close, parent)
            status = os.fstat(parent)
            self._hold = LockedDirectory(root, parent, os.dup(hold.gate), hold.segments)
            self._inode = status.st_dev, status.st_ino
            opened.pop_all()

    def drop(self) -> None:
        """Have nothing at hand."""
        hold, self._hold = self._hold, None
        if hold:
            for fd in hold[:3]:
                os.close(fd)

    def __del__(self) -> None:
        with suppress(Exception):  # of a log that nobody closed
            self.drop()
