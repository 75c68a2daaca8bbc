"""Files and directories: read with a stamp, durable write, atomic exchange, directory walk.

Paths below the root are opened without following symlinks: by one system call if the kernel has one for that, else one
component at a time, each relative to its open parent directory. So nothing outside the root can be reached, even if a
component is replaced by a symlink meanwhile.
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
PARTIAL_MODE = 0o200  # of a file that gets the mode of another one when it is complete
OPEN_ATTEMPTS = 100  # to create a directory or file that another process deletes again and again
DIRECTORY_FLAGS = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
FILE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
READ_FLAGS = os.O_RDONLY | FILE_FLAGS
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS


class FileContent(NamedTuple):
    """The bytes of a file, and its status just before they were read."""

    data: bytes
    status: os.stat_result

    @property
    def mode(self) -> int:
        """The permission bits."""
        return stat.S_IMODE(self.status.st_mode)


class DirectoryListing(NamedTuple):
    """The memory files of one directory; `fd` is open until the walk continues, and -1 if it could not be opened."""

    fd: int
    prefix: str
    names: list[str]
    unreadable: list[tuple[str, str]]  # path and reason


def raw_digest(data: bytes) -> bytes:
    """Return a digest of eight bytes."""
    return hashlib.blake2b(data, digest_size=8).digest()


def digest(data: bytes) -> str:
    """Return a digest of 16 hex digits."""
    return raw_digest(data).hex()


def path_as_file_name(path: str) -> str:
    """Return a vault path, percent-encoded, as one file name; a long name is cut, ends in `~` and may not be unique."""
    name = quote(path, safe=" ")
    return name if len(name) <= 180 else f"{name[:150]}~"


def stamp_after_rename(written: os.stat_result, named: os.stat_result) -> Stamp:
    """Return the stamp of a file that memfs wrote, then named; it does not match if a program saved it in between."""
    return Stamp.from_stat(written)._replace(ctime_ns=named.st_ctime_ns)


def fine_timestamp_device(directory: str) -> int:
    """Return the device of a directory if its timestamps are fine enough that a write after a stat always changes the
    stamp; -1 if they are not, or that cannot be tested."""
    try:
        fd = os.open(directory, os.O_RDWR | getattr(os, "O_TMPFILE", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError:
        return -1
    try:
        is_fine = all(_changes_ctime(fd) for _ in range(3))  # a coarse clock may tick during one of them
        return os.fstat(fd).st_dev if is_fine else -1
    except OSError:
        return -1
    finally:
        os.close(fd)


def _changes_ctime(fd: int) -> bool:
    """Return whether a write changes the ctime of a file that was written just before."""
    os.write(fd, b"1")
    before = os.fstat(fd).st_ctime_ns
    os.write(fd, b"2")
    return os.fstat(fd).st_ctime_ns != before


def translate_os_error(path: str, error: OSError) -> StorageError:
    """Return the memfs error for an OSError: ReadOnlyError, NoSpaceError or StorageError."""
    reason = error.strerror or str(error)
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return ReadOnlyError(path, reason)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return NoSpaceError(path, reason)
    return StorageError(path, reason)


# --- directories --------------------------------------------------------------------------------------


def open_root(root: Path | str) -> int:
    """Open the root directory of a vault, which may be a symlink. Raises VaultNotFoundError or ReadOnlyError."""
    try:
        return os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise VaultNotFoundError(str(root)) from None
    except PermissionError as error:
        raise translate_os_error(str(root), error) from None


def open_directory_fd(root: int, segments: tuple[str, ...], *, create: bool = False) -> int:
    """Open a directory below an open one; `create` durably creates missing directories. The caller closes it.
    Raises InvalidNamespaceError if a segment is a file or a symlink, FileNotFoundError if it is missing."""
    for _ in range(OPEN_ATTEMPTS if create else 0):
        with suppress(FileNotFoundError):  # git may remove an empty directory as soon as it is created
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
    """Open a directory below an open one for the block; `create` durably creates missing directories."""
    fd = open_directory_fd(root, segments, create=create)
    try:
        yield fd
    finally:
        os.close(fd)


def is_directory_at(root: int, segments: tuple[str, ...], fd: int) -> bool:
    """Return whether an open directory is still the one at this path."""
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
    """Return the segments in the case and normal form of the names on disk; a missing segment stays as given."""
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
    """Yield the listing of each directory from here down that may contain memories, sorted by path.
    From the root, sessions are skipped, and the archive too unless `archived`."""
    pending = [segments]
    while pending:
        segments = pending.pop()
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
        pending += [(*segments, name) for name in reversed(below)]


def _list_directory(fd: int, prefix: str) -> tuple[DirectoryListing, list[str]]:
    """Return the listing and the subdirectories of a directory; `*.md` that is not a regular file is unreadable."""
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
    """Read a regular file. Raises OSError: EFBIG if it is too large, EINVAL if it is not a regular file."""
    return FileContent(*read_as_tuple(parent, name, limit))


def read_as_tuple(parent: int, name: str, limit: int = MAX_FILE_BYTES) -> tuple[bytes, os.stat_result]:
    """Read a file as `read` does, but return a plain tuple, which is cheaper for many files."""
    return _read_and_close(os.open(name, READ_FLAGS, dir_fd=parent), limit)


def read_path(root: int, path: str) -> tuple[bytes, os.stat_result]:
    """Read the regular file at a path below an open directory. Raises as `read` and `open_directory_fd` do."""
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
    """Open a file for reading, and close it after the block."""
    fd = os.open(name, READ_FLAGS, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)


def read_fd(fd: int, limit: int = MAX_FILE_BYTES) -> FileContent:
    """Read an open file from its start. Raises OSError as `read` does."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // (1024 * 1024)} MiB")
    os.lseek(fd, 0, os.SEEK_SET)
    data = os.read(fd, status.st_size + 1)
    if len(data) != status.st_size:  # another process is writing it
        while len(data) <= limit and (more := os.read(fd, 1 << 20)):
            data += more
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"larger than {limit // (1024 * 1024)} MiB")
    return FileContent(data, status)


def write(
    parent: int, name: str, data: bytes, *, like: FileContent | None = None, durable: bool = True
) -> os.stat_result:
    """Write a new file and return its status; `durable` syncs it, but not its directory. Raises FileExistsError.
    It gets the mode of `like` when it is complete, PARTIAL_MODE until then, and as root the owner of `like`."""
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
    """Write all data to an open new file; `like` and `durable` as in `write`."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])
    if like:
        if os.geteuid() == 0:
            os.fchown(fd, like.status.st_uid, like.status.st_gid)
        os.fchmod(fd, like.mode)
    if durable:
        os.fsync(fd)


def link_unnamed_file(fd: int, parent: int, name: str) -> None:
    """Give a name to a file that was opened without one. Raises FileExistsError."""
    os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=parent, follow_symlinks=True)


def rename_without_replacing(parent: int, name: str, to_parent: int, to_name: str) -> None:
    """Rename a file without replacing another one. Raises FileExistsError."""
    if not rename_with_flags(parent, name, to_parent, to_name, RENAME_NOREPLACE):
        os.link(name, to_name, src_dir_fd=parent, dst_dir_fd=to_parent, follow_symlinks=False)
        os.unlink(name, dir_fd=parent)


def exchange(parent: int, name: str, with_parent: int, with_name: str) -> None:
    """Exchange two files atomically.

    If the file system cannot do that, the second file gets another name, the first replaces it, and then the second is
    renamed. A save by rename between these steps is lost.
    """
    if not rename_with_flags(parent, name, with_parent, with_name, RENAME_EXCHANGE):
        os.link(with_name, name + ".out", src_dir_fd=with_parent, dst_dir_fd=parent, follow_symlinks=False)
        os.rename(name, with_name, src_dir_fd=parent, dst_dir_fd=with_parent)
        os.rename(name + ".out", name, src_dir_fd=parent, dst_dir_fd=parent)


class DirectorySync:
    """Directories whose changed entries must be synced to disk: each immediately, or with `batch` all by `flush`."""

    def __init__(self, *, batch: bool = False) -> None:
        self._batch = batch
        self._open: dict[int, int] = {}

    def sync(self, fd: int) -> None:
        """Make the entries of a directory durable, now or, with `batch`, by the next `flush`."""
        if not self._batch:
            os.fsync(fd)
        elif (inode := os.fstat(fd).st_ino) not in self._open:
            self._open[inode] = os.dup(fd)

    def flush(self) -> None:
        """Make the entries of all directories of the batch durable."""
        while self._open:
            _, fd = self._open.popitem()
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def encode_text(text: str, subject: str) -> bytes:
    """Return a text as bytes. Raises InvalidMemoryError if it cannot be stored, or if the subject "text" is blank."""
    if not isinstance(text, str):
        raise InvalidMemoryError(subject, f"{short_repr(text)} is not a text")
    if subject == "text" and not text.strip():
        raise InvalidMemoryError(subject, "is empty").with_hint("Give a text with at least one word.")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMemoryError(subject, f"holds a lone surrogate at character {error.start}") from None
    if len(data) > MAX_FILE_BYTES - 64 * 1024:  # the rest is for the header
        raise InvalidMemoryError(subject, f"is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB")
    return data
