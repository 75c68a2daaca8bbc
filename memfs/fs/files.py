"""Files and directories: stamped read, durable write, atomic exchange, walk.

Every path is opened one component at a time, relative to an open directory and without following symlinks,
so nothing outside the root can be reached, whatever is swapped in meanwhile.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from memfs.data_types import Stamp
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    NoSpaceError,
    ReadOnlyError,
    StorageError,
    VaultNotFoundError,
    short_repr,
)
from memfs.fs.syscalls import RENAME_EXCHANGE, RENAME_NOREPLACE, open_beneath, rename_with_flags
from memfs.namespace import ARCHIVE, MAX_DEPTH, SESSIONS, fold, is_utf8_encodable

MAX_FILE_BYTES = 8 * 1024 * 1024
STATE_DIR = ".memfs"
PARTIAL_MODE = 0o200
OPEN_ATTEMPTS = 100
DIRECTORY_FLAGS = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
FILE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
READ_FLAGS = os.O_RDONLY | FILE_FLAGS
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS


class FileContent(NamedTuple):
    """The bytes of a file, and what the system said of it just before they were read."""

    data: bytes
    status: os.stat_result

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.status.st_mode)


class DirectoryListing(NamedTuple):
    """The memory files of one directory, which is open as `folder` until the walk goes on."""

    fd: int
    prefix: str
    names: list[str]
    unreadable: list[tuple[str, str]]  # path and reason


def raw_digest(data: bytes) -> bytes:
    """Eight bytes that tell a content from others."""
    return hashlib.blake2b(data, digest_size=8).digest()


def digest(data: bytes) -> str:
    """A short name for a content."""
    return raw_digest(data).hex()


def path_as_file_name(path: str) -> str:
    """A vault path as one file name, readable where it is not too long for that."""
    name = quote(path, safe=" ")
    return name if len(name) <= 180 else f"{name[:150]}~"


def stamp_after_rename(written: os.stat_result, named: os.stat_result) -> Stamp:
    """The stamp of a file we wrote and then named; if somebody saved it since, one that differs from the file's."""
    return Stamp.from_stat(written)._replace(ctime_ns=named.st_ctime_ns)


def fine_timestamp_device(place: str) -> int:
    """The device of a directory, if a file on it that was looked at, and then changes, always has another stamp; else
    -1."""
    try:
        fd = os.open(place, os.O_RDWR | getattr(os, "O_TMPFILE", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError:
        return -1
    try:
        is_fine = all(_changes_ctime(fd) for _ in range(3))  # one of them may be right when a clock ticks
        return os.fstat(fd).st_dev if is_fine else -1
    except OSError:
        return -1
    finally:
        os.close(fd)


def _changes_ctime(fd: int) -> bool:
    os.write(fd, b"1")
    before = os.fstat(fd).st_ctime_ns
    os.write(fd, b"2")
    return os.fstat(fd).st_ctime_ns != before


def translate_os_error(path: str, error: OSError) -> StorageError:
    """An error of the operating system, in words that a person can do something about."""
    reason = error.strerror or str(error)
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return ReadOnlyError(path, reason)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return NoSpaceError(path, reason)
    return StorageError(path, reason)


# --- directories --------------------------------------------------------------------------------------


def open_root(root: Path | str) -> int:
    """Open the vault's own directory."""
    try:
        return os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise VaultNotFoundError(str(root)) from None
    except PermissionError as error:
        raise translate_os_error(str(root), error) from None


def open_directory_fd(root: int, segments: tuple[str, ...], *, create: bool = False) -> int:
    """Open a directory below an open one; `create` makes what is missing, durably."""
    for _ in range(OPEN_ATTEMPTS if create else 0):
        with suppress(FileNotFoundError):  # git may remove an empty directory as soon as it is made
            return _descend(root, segments, create=True)
    return _descend(root, segments, create=create)


def _descend(root: int, segments: tuple[str, ...], *, create: bool) -> int:
    fd = root
    try:
        for segment in segments:
            fd, parent = _open_segment(fd, segment, segments, create=create), fd
            if parent != root:
                os.close(parent)
    except BaseException:
        if fd != root:
            os.close(fd)
        raise
    return os.dup(root) if fd == root else fd


@contextmanager
def open_directory(root: int, segments: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """Have a directory below an open one open."""
    fd = open_directory_fd(root, segments, create=create)
    try:
        yield fd
    finally:
        os.close(fd)


def is_directory_at(root: int, segments: tuple[str, ...], fd: int) -> bool:
    """Tell whether an open directory is still the one with this name."""
    try:
        return os.path.samestat(os.stat("/".join(segments) or ".", dir_fd=root), os.fstat(fd))
    except FileNotFoundError:
        return False


def _open_segment(parent: int, segment: str, segments: tuple[str, ...], *, create: bool) -> int:
    try:
        return os.open(segment, DIRECTORY_FLAGS, dir_fd=parent)
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
    return _open_segment(parent, segment, segments, create=False)


def spelling_on_disk(root: int, segments: tuple[str, ...]) -> tuple[str, ...]:
    """The segments as they are spelled on disk, where they differ in case or normal form; the rest as given."""
    for depth, segment in enumerate(segments):
        try:
            with open_directory(root, segments[:depth]) as parent:
                names = os.listdir(parent)
        except (FileNotFoundError, InvalidNamespaceError):
            break
        if segment not in names:
            twin = next((name for name in names if fold(name) == fold(segment)), segment)
            segments = (*segments[:depth], twin, *segments[depth + 1 :])
    return segments


def walk(root: int, segments: tuple[str, ...] = (), *, archived: bool = False) -> Iterator[DirectoryListing]:
    """Every directory from here down that may hold memories, sorted."""
    waiting = [segments]
    while waiting:
        segments = waiting.pop()
        prefix = "".join(f"{segment}/" for segment in segments)
        if len(segments) > MAX_DEPTH and len(segments) > MAX_DEPTH + (fold(segments[0]) == ARCHIVE):
            yield DirectoryListing(-1, prefix, [], [(prefix.rstrip("/"), f"more than {MAX_DEPTH} directories deep")])
            continue
        try:
            with open_directory(root, segments) as fd:
                listing, below = _list_directory(fd, prefix)
                yield listing
        except FileNotFoundError:
            continue
        except PermissionError as error:
            yield DirectoryListing(-1, prefix, [], [(prefix.rstrip("/"), error.strerror or "unreadable")])
            continue
        if not segments:
            below = [name for name in below if fold(name) not in ({SESSIONS} if archived else {SESSIONS, ARCHIVE})]
        waiting += [(*segments, name) for name in reversed(below)]


def _list_directory(fd: int, prefix: str) -> tuple[DirectoryListing, list[str]]:
    """Sort what is in a directory: memory files, what only looks like one, and directories."""
    names, below, unreadable = [], [], []
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name
            if name[0] in ".~#":
                continue
            if not is_utf8_encodable(name):
                unreadable.append((prefix + name, "a name that is not UTF-8"))
            elif entry.is_dir(follow_symlinks=False):
                below.append(name)
            elif name.endswith(".md") and (prefix or fold(name) != "readme.md"):
                if entry.is_file(follow_symlinks=False):
                    names.append(name)
                else:
                    unreadable.append((prefix + name, "a symlink" if entry.is_symlink() else "not a regular file"))
    return DirectoryListing(fd, prefix, sorted(names), sorted(unreadable)), sorted(below)


# --- files --------------------------------------------------------------------------------------------


def read(parent: int, name: str, limit: int = MAX_FILE_BYTES) -> FileContent:
    """Read a regular file; OSError EFBIG or EINVAL if it is too large or not one."""
    return FileContent(*read_as_tuple(parent, name, limit))


def read_as_tuple(parent: int, name: str, limit: int = MAX_FILE_BYTES) -> tuple[bytes, os.stat_result]:
    """As `read`, but as a plain tuple, which costs less to make: for many files."""
    return _read_and_close(os.open(name, READ_FLAGS, dir_fd=parent), limit)


def read_path(root: int, path: str) -> tuple[bytes, os.stat_result]:
    """Read the regular file at a path below an open directory."""
    fd = open_beneath(root, path, READ_FLAGS)
    if fd is not None:
        return _read_and_close(fd, MAX_FILE_BYTES)
    *segments, name = path.split("/")
    with open_directory(root, tuple(segments)) as parent:
        return read(parent, name)


def _read_and_close(fd: int, limit: int) -> tuple[bytes, os.stat_result]:
    try:
        status = os.fstat(fd)
        size = status.st_size
        if size <= limit and stat.S_ISREG(status.st_mode):
            data = os.read(fd, size + 1)
            if len(data) == size:
                return data, status
        return read_fd(fd, limit)
    finally:
        os.close(fd)


@contextmanager
def open_file(parent: int, name: str) -> Iterator[int]:
    """Open a file for reading."""
    fd = os.open(name, READ_FLAGS, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


def read_fd(fd: int, limit: int = MAX_FILE_BYTES) -> FileContent:
    """Read an open file from its start."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // (1024 * 1024)} MiB")
    os.lseek(fd, 0, os.SEEK_SET)
    data = os.read(fd, status.st_size + 1)
    if len(data) != status.st_size:  # it is being written
        while len(data) <= limit and (more := os.read(fd, 1 << 20)):
            data += more
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"larger than {limit // (1024 * 1024)} MiB")
    return FileContent(data, status)


def write(
    parent: int, name: str, data: bytes, *, like: FileContent | None = None, durable: bool = True
) -> os.stat_result:
    """Write a new file, with the mode and owner of `like`; until it is whole such a file has mode 0200."""
    fd = os.open(name, _CREATE_FLAGS, 0o666 if like is None else PARTIAL_MODE, dir_fd=parent)
    try:
        write_all(fd, data, like=like, durable=durable)
        return os.fstat(fd)
    except BaseException:
        os.unlink(name, dir_fd=parent)
        raise
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes, *, like: FileContent | None = None, durable: bool = True) -> None:
    """Write an open new file."""
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, data[done:])
    if like:
        if os.geteuid() == 0:
            os.fchown(fd, like.status.st_uid, like.status.st_gid)
        os.fchmod(fd, like.mode)
    if durable:
        os.fsync(fd)


def link_unnamed_file(fd: int, parent: int, name: str) -> None:
    """Give a file that was opened without a name one, which must be free."""
    os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=parent, follow_symlinks=True)


def rename_without_replacing(parent: int, name: str, to_parent: int, to_name: str) -> None:
    """Rename to a name that must be free: FileExistsError if it is not."""
    if not rename_with_flags(parent, name, to_parent, to_name, RENAME_NOREPLACE):
        os.link(name, to_name, src_dir_fd=parent, dst_dir_fd=to_parent, follow_symlinks=False)
        os.unlink(name, dir_fd=parent)


def exchange(parent: int, name: str, with_parent: int, with_name: str) -> None:
    """Swap two files in one step.

    Where the file system cannot, the first replaces the second, which is linked aside before: a save by
    rename in between is lost.
    """
    if not rename_with_flags(parent, name, with_parent, with_name, RENAME_EXCHANGE):
        os.link(with_name, name + ".out", src_dir_fd=with_parent, dst_dir_fd=parent, follow_symlinks=False)
        os.rename(name, with_name, src_dir_fd=parent, dst_dir_fd=with_parent)
        os.rename(name + ".out", name, src_dir_fd=parent, dst_dir_fd=parent)


class DirectorySync:
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


def encode_text(text: str, subject: str) -> bytes:
    """Text as bytes; refused before the disk is touched if it cannot be stored."""
    if not isinstance(text, str):
        raise InvalidMemoryError(subject, f"{short_repr(text)} is not a text")
    if subject == "text" and not text.strip():
        raise InvalidMemoryError(subject, "is empty").with_hint("Give a text with at least one word.")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMemoryError(subject, f"holds a lone surrogate at character {error.start}") from None
    if len(data) > MAX_FILE_BYTES - 64 * 1024:
        raise InvalidMemoryError(subject, f"is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB")
    return data
