"""A cache of open file handles, for files of memfs (logs, locks) that are used again and again."""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from memfs.after_fork import Mutex
from memfs.fs.files import FILE_FLAGS, OPEN_ATTEMPTS, open_directory

MAX_STALE_HANDLES = 16  # descriptors of replaced files that stay open, if threads share the descriptors of a cache


class HandleCache:
    """The files of one directory below the root that stay open between uses.

    A file or directory that was deleted or replaced is opened, and if necessary created, again. The handle of the old
    file is closed, because the file may be large, or was erased on purpose. If threads share handles, the `max_stale`
    newest handles of old files stay open, because another thread may still be using one.
    """

    def __init__(self, *segments: str, max_stale: int = 0, check: Callable[[int], None] | None = None) -> None:
        self.segments, self._prefix = segments, "".join(f"{segment}/" for segment in segments)
        self._open: dict[str, tuple[int, int, int]] = {}  # name -> descriptor, device and inode
        self._stale: list[int] = []  # descriptors of files that were deleted or replaced, the oldest first
        self._max_stale = max_stale
        self.check = check or _allow  # called with the root before a file is opened; raises to refuse it
        self._mutex = Mutex()
        self._pid = os.getpid()

    def open(self, root: int, name: str, flags: int) -> int:
        """Return the descriptor of a file, opening it if necessary. The cache owns it: do not close it.

        Raises FileNotFoundError if the file is missing and `flags` do not create it, and what `check` raises.
        """
        with self._mutex:
            fd = self.cached_fd(name, self._prefix + name, root)
            if fd < 0:
                fd = self._open_file(root, name, flags)
                self._retire(name)  # only now: before, a new file could get the inode of the old one
                status = os.fstat(fd)
                self._open[name] = fd, status.st_dev, status.st_ino
            return fd

    def cached_fd(self, name: str, path: str, root: int | None = None) -> int:
        """Return the descriptor of a file that is open and still at this path; -1 if there is none.

        The path is relative to `root`, or absolute if `root` is None.
        """
        if self._pid != os.getpid():  # after a fork: shared descriptors also share locks
            self.close()
            self._pid = os.getpid()
        fd, device, inode = self._open.get(name, (-1, 0, 0))
        if fd < 0:
            return -1
        try:
            current = os.stat(path, dir_fd=root, follow_symlinks=False)
        except OSError:
            return -1
        return fd if current.st_ino == inode and current.st_dev == device else -1  # the vault may have been replaced

    def _retire(self, name: str) -> None:
        """Move the handle of a replaced file to the stale handles, and close the oldest if there are too many."""
        if name in self._open:
            self._stale.append(self._open.pop(name)[0])
        if len(self._stale) > self._max_stale:
            os.close(self._stale.pop(0))

    def close(self) -> None:
        """Close all files; the next use opens them again."""
        with self._mutex:
            descriptors = [*self._stale, *(fd for fd, *_ in self._open.values())]
            self._open, self._stale = {}, []
            for fd in descriptors:
                os.close(fd)

    def __del__(self) -> None:
        with suppress(Exception):  # the vault was not closed explicitly
            self.close()

    def _open_file(self, root: int, name: str, flags: int) -> int:
        self.check(root)
        create = bool(flags & os.O_CREAT)
        for _ in range(OPEN_ATTEMPTS if create else 1):
            with open_directory(root, self.segments, create=create) as parent, suppress(FileNotFoundError):
                fd = _open_regular(parent, name, flags)
                if fd >= 0:
                    return fd
                if not create:
                    break
                _remove_obstacle(parent, name)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _allow(root: int) -> None:
    """Refuse nothing."""


def _open_regular(parent: int, name: str, flags: int) -> int:
    """Open a regular file; return -1 if something else has its name."""
    try:
        fd = os.open(name, flags | FILE_FLAGS, 0o666, dir_fd=parent)
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
            raise
        return -1
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


def _remove_obstacle(parent: int, name: str) -> None:
    """Remove a symlink or special file that has the name of a memfs file; rename a directory, to keep its content."""
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):
        os.rename(name, f"{name}.aside", src_dir_fd=parent, dst_dir_fd=parent)
