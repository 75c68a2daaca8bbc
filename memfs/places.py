"""Places: files of ours in the state directory that stay open between uses."""

import errno
import os
import stat
from contextlib import suppress

from memfs.files import FILE, TRIES, folder
from memfs.locks import Mutex


class Place:
    """Files in a directory below the root that stay open between uses; both are made anew when they were deleted, or
    others are in their place."""

    def __init__(self, *segments: str) -> None:
        self.segments = segments
        self._open: dict[str, int] = {}
        self._mutex = Mutex()
        self._pid = os.getpid()

    def file(self, root: int, name: str, flags: int) -> int:
        """The descriptor of a file, which belongs to the place."""
        with self._mutex:
            fd = self._known(name)
            if fd < 0 or not self._is_at(root, name, fd):  # a vault may be put in the place of another
                self._close(name)
                fd = self._open[name] = self._opened(root, name, flags)
            return fd

    def held(self, name: str) -> int:
        """The descriptor of a file that is open already, and still there; else -1."""
        fd = self._known(name)
        return fd if fd >= 0 and os.fstat(fd).st_nlink else -1

    def _known(self, name: str) -> int:
        if self._pid != os.getpid():  # a fork shares descriptors, and with them locks
            self.close()
            self._pid = os.getpid()
        return self._open.get(name, -1)

    def close(self) -> None:
        with self._mutex:
            for name in [*self._open]:
                self._close(name)

    def __del__(self) -> None:
        with suppress(Exception):  # of a vault that nobody closed
            self.close()

    def _opened(self, root: int, name: str, flags: int) -> int:
        create = bool(flags & os.O_CREAT)
        for _ in range(TRIES if create else 1):
            with folder(root, self.segments, create=create) as parent, suppress(FileNotFoundError):
                fd = _open_regular(parent, name, flags)
                if fd >= 0:
                    return fd
                if not create:
                    break
                _clear(parent, name)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def _is_at(self, root: int, name: str, fd: int) -> bool:
        """Tell whether an open file is the one with this name below the root."""
        with suppress(OSError):
            there = os.stat("/".join((*self.segments, name)), dir_fd=root, follow_symlinks=False)
            return os.path.samestat(there, os.fstat(fd))
        return False

    def _close(self, name: str) -> None:
        if name in self._open:
            os.close(self._open.pop(name))


def _open_regular(parent: int, name: str, flags: int) -> int:
    """Open a regular file; -1 if something else is in its place."""
    try:
        fd = os.open(name, flags | FILE, 0o666, dir_fd=parent)
    except OSError as error:
        if error.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
            raise
        return -1
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


def _clear(parent: int, name: str) -> None:
    """Have out of the way what stands in the place of a file of ours; a directory with something in it is kept."""
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):
        os.rename(name, f"{name}.aside", src_dir_fd=parent, dst_dir_fd=parent)
