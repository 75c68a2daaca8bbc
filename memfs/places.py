"""Places: files of ours in the state directory that stay open between uses."""

import errno
import os
import stat
from contextlib import suppress

from memfs.files import FILE, TRIES, folder
from memfs.locks import Mutex

ASIDE = 16  # descriptors of files that are gone which stay open


class Place:
    """Files in a directory below the root that stay open between uses; both are made anew when they were deleted, or
    others are in their place."""

    def __init__(self, *segments: str) -> None:
        self.segments, self._prefix = segments, "".join(f"{segment}/" for segment in segments)
        self._open: dict[str, tuple[int, int, int]] = {}  # descriptor, device and inode
        self._former: list[int] = []  # descriptors, the oldest first, of files that are not there any more
        self._mutex = Mutex()
        self._pid = os.getpid()

    def file(self, root: int, name: str, flags: int) -> int:
        """The descriptor of a file, which belongs to the place."""
        with self._mutex:
            fd, device, inode = self._known(name)
            if fd >= 0:
                try:
                    there = os.stat(self._prefix + name, dir_fd=root, follow_symlinks=False)
                    if there.st_ino == inode and there.st_dev == device:  # else a vault may be in the place of another
                        return fd
                except OSError:
                    pass
                self._set_aside(name)
            fd = self._opened(root, name, flags)
            status = os.fstat(fd)
            self._open[name] = fd, status.st_dev, status.st_ino
            return fd

    def held(self, name: str) -> int:
        """The descriptor of a file that is open already, and still there; else -1."""
        fd, *_ = self._known(name)
        return fd if fd >= 0 and os.fstat(fd).st_nlink else -1

    def _known(self, name: str) -> tuple[int, int, int]:
        if self._pid != os.getpid():  # a fork shares descriptors, and with them locks
            self.close()
            self._pid = os.getpid()
        return self._open.get(name, (-1, 0, 0))

    def _set_aside(self, name: str) -> None:
        """Let go of a file that is not there any more; another thread may be using it for a moment."""
        self._former.append(self._open.pop(name)[0])
        if len(self._former) > ASIDE:
            os.close(self._former.pop(0))

    def close(self) -> None:
        with self._mutex:
            files = [*self._former, *(fd for fd, *_ in self._open.values())]
            self._open, self._former = {}, []
            for fd in files:
                os.close(fd)

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
