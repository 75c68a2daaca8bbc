"""Places: files of ours in the state directory that stay open between uses."""

import errno
import os
import stat
from contextlib import suppress

from memfs.after_fork import Mutex
from memfs.fs.files import FILE_FLAGS, OPEN_ATTEMPTS, open_directory

MAX_STALE_HANDLES = 16  # descriptors of files that are gone which stay open where threads share them


class HandleCache:
    """Files in a directory below the root that stay open between uses; both are made anew when they were deleted, or
    others are in their place. What is gone is closed, for it may be large, or erased; where threads share a descriptor,
    some of these stay open, as another thread may be using one for a moment."""

    def __init__(self, *segments: str, max_stale: int = 0) -> None:
        self.segments, self._prefix = segments, "".join(f"{segment}/" for segment in segments)
        self._open: dict[str, tuple[int, int, int]] = {}  # descriptor, device and inode
        self._stale: list[int] = []  # descriptors, the oldest first, of files that are not there any more
        self._max_stale = max_stale
        self._mutex = Mutex()
        self._pid = os.getpid()

    def open(self, root: int, name: str, flags: int) -> int:
        """The descriptor of a file, which belongs to the place."""
        with self._mutex:
            fd = self.cached_fd(name, self._prefix + name, root)
            if fd < 0:
                fd = self._open_file(root, name, flags)
                self._retire(name)  # not before: a new file would get its inode
                status = os.fstat(fd)
                self._open[name] = fd, status.st_dev, status.st_ino
            return fd

    def cached_fd(self, name: str, path: str, root: int | None = None) -> int:
        """The descriptor of a file that is open already, and still at this path; else -1."""
        if self._pid != os.getpid():  # a fork shares descriptors, and with them locks
            self.close()
            self._pid = os.getpid()
        fd, device, inode = self._open.get(name, (-1, 0, 0))
        if fd < 0:
            return -1
        try:
            there = os.stat(path, dir_fd=root, follow_symlinks=False)
        except OSError:
            return -1
        return fd if there.st_ino == inode and there.st_dev == device else -1  # a vault may be in the place of another

    def _retire(self, name: str) -> None:
        if name in self._open:
            self._stale.append(self._open.pop(name)[0])
        if len(self._stale) > self._max_stale:
            os.close(self._stale.pop(0))

    def close(self) -> None:
        with self._mutex:
            files = [*self._stale, *(fd for fd, *_ in self._open.values())]
            self._open, self._stale = {}, []
            for fd in files:
                os.close(fd)

    def __del__(self) -> None:
        with suppress(Exception):  # of a vault that nobody closed
            self.close()

    def _open_file(self, root: int, name: str, flags: int) -> int:
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


def _open_regular(parent: int, name: str, flags: int) -> int:
    """Open a regular file; -1 if something else is in its place."""
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
    """Have out of the way what stands in the place of a file of ours; a directory with something in it is kept."""
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):
        os.rename(name, f"{name}.aside", src_dir_fd=parent, dst_dir_fd=parent)
