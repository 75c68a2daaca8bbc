"""Files and directories: stamped read, durable write, atomic exchange, walk, lock.

Every path is opened one component at a time, relative to an open directory and without following symlinks,
so nothing outside the root can be reached, whatever is swapped in meanwhile. The only importer of filelock.
"""

import ctypes
import errno
import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from filelock import lock_descriptor, unlock_descriptor

from memfs.errors import InvalidNamespaceError, LockTimeoutError, NoSpaceError, ReadOnlyError, VaultNotFoundError
from memfs.model import Stamp
from memfs.namespace import ARCHIVE, SESSIONS, fold

if sys.platform != "win32":
    import fcntl

MAX_FILE = 8 * 1024 * 1024
STATE = ".memfs"
PARTIAL = 0o200
POLL = 0.001  # seconds between two tries for a lock
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NOREPLACE, _EXCHANGE = 1, 2
_NOT_THERE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


class Content(NamedTuple):
    """The bytes of a file, and the stamp and mode it had when they were read."""

    data: bytes
    stamp: Stamp
    mode: int
    owner: tuple[int, int]


class Found(NamedTuple):
    """A name met on a walk: its directory is open as `folder` until the walk goes on."""

    path: str
    folder: int
    name: str
    reason: str = ""  # why it is not readable, if it is not


def digest(data: bytes) -> str:
    """A short name for a content."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def stamp_of(status: os.stat_result) -> Stamp:
    return Stamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Word the errors of the operating system that a person can do something about."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise ReadOnlyError(path, reason) from error
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoSpaceError(path, reason) from error
        raise


# --- directories --------------------------------------------------------------------------------------


def open_root(root: Path) -> int:
    """Open the vault's own directory."""
    try:
        return os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise VaultNotFoundError(str(root)) from None


@contextmanager
def folder(root: int, segments: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """Open a directory below an open one; `create` makes what is missing, durably."""
    fd = os.dup(root)
    try:
        for segment in segments:
            fd, parent = _step(fd, segment, segments, create=create), fd
            os.close(parent)
        yield fd
    finally:
        os.close(fd)


def _step(parent: int, segment: str, segments: tuple[str, ...], *, create: bool) -> int:
    try:
        return os.open(segment, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise InvalidNamespaceError("/".join(segments), f"{segment!r} is not a directory of the vault") from None
        raise
    with suppress(FileExistsError):
        os.mkdir(segment, dir_fd=parent)
        os.fsync(parent)
    return _step(parent, segment, segments, create=False)


def spelled(root: int, segments: tuple[str, ...]) -> tuple[str, ...]:
    """The segments as they are spelled on disk, where they differ in case or normal form; the rest as given."""
    for depth, segment in enumerate(segments):
        try:
            with folder(root, segments[:depth]) as parent:
                names = os.listdir(parent)
        except (FileNotFoundError, InvalidNamespaceError):
            break
        if segment not in names:
            twin = next((name for name in names if fold(name) == fold(segment)), segment)
            segments = (*segments[:depth], twin, *segments[depth + 1 :])
    return segments


def walk(root: int, segments: tuple[str, ...] = (), *, archived: bool = False) -> Iterator[Found]:
    """Every memory file below a directory, sorted; what is named like one and cannot be read has a reason."""
    try:
        with folder(root, segments) as fd:
            with os.scandir(fd) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
            prefix = "".join(f"{segment}/" for segment in segments)
            below = []
            for entry in entries:
                name = entry.name
                if name[0] in ".~#":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    below.append(name)
                elif name.endswith(".md") and (segments or name != "README.md"):
                    is_file = entry.is_file(follow_symlinks=False)
                    reason = "" if is_file else "a symlink" if entry.is_symlink() else "not a regular file"
                    yield Found(prefix + name, fd, name, reason)
    except FileNotFoundError:
        return
    except PermissionError as error:
        yield Found("/".join(segments), -1, "", error.strerror)
        return
    for name in below:
        if segments or name not in {ARCHIVE, SESSIONS} or (archived and name == ARCHIVE):
            yield from walk(root, (*segments, name), archived=archived)


# --- files --------------------------------------------------------------------------------------------


def read(parent: int, name: str, limit: int = MAX_FILE) -> Content:
    """Read a regular file; OSError EFBIG or EINVAL if it is too large or not one."""
    fd = os.open(name, _READ, dir_fd=parent)
    try:
        return read_open(fd, limit)
    finally:
        os.close(fd)


@contextmanager
def open_file(parent: int, name: str) -> Iterator[int]:
    """Open a file for reading."""
    fd = os.open(name, _READ, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


def read_open(fd: int, limit: int = MAX_FILE) -> Content:
    """Read an open file from its start."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // (1024 * 1024)} MiB")
    data = os.read(fd, status.st_size + 1)
    while len(data) > status.st_size or 0 < len(data) < status.st_size:
        more = os.read(fd, limit + 1 - len(data))
        if not more or len(data) + len(more) > limit:
            break
        data += more
    return Content(data, stamp_of(status), stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))


def write(parent: int | None, name: str, data: bytes, *, like: Content | None = None, durable: bool = True) -> None:
    """Write a new file, with the mode and owner of `like`; until it is whole such a file has mode 0200."""
    fd = os.open(name, _CREATE, 0o666 if like is None else PARTIAL, dir_fd=parent)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if like:
            if os.geteuid() == 0:
                os.fchown(fd, *like.owner)
            os.fchmod(fd, like.mode)
        if durable:
            os.fsync(fd)
    except BaseException:
        os.unlink(name, dir_fd=parent)
        raise
    finally:
        os.close(fd)


def rename_new(parent: int, name: str, to_parent: int, to_name: str) -> None:
    """Rename to a name that must be free: FileExistsError if it is not."""
    if not _rename(parent, name, to_parent, to_name, _NOREPLACE):
        os.link(name, to_name, src_dir_fd=parent, dst_dir_fd=to_parent, follow_symlinks=False)
        os.unlink(name, dir_fd=parent)


def exchange(parent: int, name: str, with_parent: int, with_name: str) -> None:
    """Swap two files in one step.

    Where the file system cannot, the first replaces the second, which is linked aside before: a save by
    rename in between is lost.
    """
    if not _rename(parent, name, with_parent, with_name, _EXCHANGE):
        os.link(with_name, name + ".out", src_dir_fd=with_parent, dst_dir_fd=parent, follow_symlinks=False)
        os.rename(name, with_name, src_dir_fd=parent, dst_dir_fd=with_parent)
        os.rename(name + ".out", name, src_dir_fd=parent, dst_dir_fd=parent)


@cache
def _renameat2() -> "ctypes._NamedFuncPointer | None":
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None


def _rename(parent: int, name: str, to_parent: int, to_name: str, flags: int) -> bool:
    """Rename with flags; False where there is no such call."""
    call = _renameat2()
    if call is None:
        return False
    if call(parent, os.fsencode(name), to_parent, os.fsencode(to_name), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_THERE:
        return False
    raise OSError(code, os.strerror(code), to_name)


def in_use(fd: int, *, by_writers: bool = False) -> bool:
    """Tell whether somebody else has the open file open (for writing); True where nobody can tell.

    A lease is granted only when nobody has. It is given back at once; an open that comes between is held
    up for that moment, and its signal is one that is ignored by default.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, 23)  # SIGURG
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK if by_writers else fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (OSError, AttributeError, NameError) as error:
        return not by_writers or getattr(error, "errno", 0) == errno.EAGAIN
    return False


class Dirty:
    """Directories whose new entries must reach the disk: each at once, or a batch of them by `flush`."""

    def __init__(self, *, batch: bool = False) -> None:
        self._batch = batch
        self._open: dict[int, int] = {}

    def sync(self, fd: int) -> None:
        """Make a directory's entries durable, now or with the batch."""
        if not self._batch:
            os.fsync(fd)
        elif (inode := os.fstat(fd).st_ino) not in self._open:
            self._open[inode] = os.dup(fd)

    def flush(self) -> None:
        """Make the batch durable."""
        while self._open:
            _, fd = self._open.popitem()
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


# --- locks --------------------------------------------------------------------------------------------


@contextmanager
def locked(fd: int, gate: int, what: str, timeout: float) -> Iterator[None]:
    """Hold the lock on an open directory.

    Whoever waits for it stands at the gate, so that the one who just let go queues up again behind them.
    """
    deadline = time.monotonic() + timeout
    _acquire(gate, what, timeout, deadline)
    try:
        _acquire(fd, what, timeout, deadline)
    finally:
        unlock_descriptor(gate)
    try:
        yield
    finally:
        unlock_descriptor(fd)


def _acquire(fd: int, what: str, timeout: float, deadline: float) -> None:
    while not lock_descriptor(fd, blocking=False):
        if time.monotonic() > deadline:
            raise LockTimeoutError(what, timeout)
        time.sleep(POLL)


def try_lock(fd: int) -> bool:
    """Take a lock if it is free; it is held until the descriptor is closed."""
    return lock_descriptor(fd, blocking=False)
