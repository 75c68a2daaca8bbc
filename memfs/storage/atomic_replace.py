"""Create, replace and erase files atomically, through temporary files in `.memfs/tmp/`.

Each writer has a temporary directory of its own, which it locks as long as it lives, so that crash_recovery can find
the files of killed writers. A replaced file is exchanged with the new one, never overwritten. It is unlinked only if it
has the expected content and no program has it open; `erase` does not wait for the latter.
"""

import errno
import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from memfs.after_fork import Mutex
from memfs.data_types import Stamp
from memfs.errors import MemoryChangedError
from memfs.fs.files import (
    MAX_FILE_BYTES,
    READ_FLAGS,
    STATE_DIR,
    FileContent,
    digest,
    exchange,
    link_unnamed_file,
    open_directory,
    open_file,
    path_as_file_name,
    read,
    read_fd,
    rename_without_replacing,
    stamp_after_rename,
    write,
    write_all,
)
from memfs.fs.locks import Lease, is_open_elsewhere, try_lock
from memfs.fs.syscalls import UNSUPPORTED_ERRNOS
from memfs.storage.crash_recovery import MAX_DISPLACED_BYTES, SaveVersion, read_if_readable, set_aside
from memfs.storage.state_dir import create_state_dir

SETTLE_SECONDS = 0.25  # how long to wait for an editor that is in the middle of a save
_UNNAMED_FLAGS = os.O_WRONLY | getattr(os, "O_TMPFILE", 0) | getattr(os, "O_CLOEXEC", 0)


class SettledFile:
    """A file that was read once no program was writing it. Its lease blocks other writers until it is closed.

    If a program had it open for longer than SETTLE_SECONDS, or on systems without leases, there is no lease.
    """

    def __init__(self, fd: int, lease: Lease, content: FileContent) -> None:
        self._fd, self._lease, self.content = fd, lease, content

    def is_at(self, parent: int, name: str) -> bool:
        """Return whether this file still has the name, and no program waits to write it. Raises FileNotFoundError."""
        named = os.stat(name, dir_fd=parent, follow_symlinks=False)
        return os.path.samestat(os.fstat(self._fd), named) and not self._lease.has_waiting_writer()

    def close(self) -> None:
        """Close the file, which releases the lease, so that other programs can write."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def open_settled(parent: int, name: str, limit: int = MAX_FILE_BYTES) -> Iterator[SettledFile]:
    """Read a file once no program has it open for writing, or SETTLE_SECONDS have passed. Raises OSError."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        fd = os.open(name, READ_FLAGS, dir_fd=parent)
        lease = Lease(fd)
        if lease.take() or time.monotonic() > deadline:
            break
        os.close(fd)
        time.sleep(0.002)
    old = None
    try:
        old = SettledFile(fd, lease, read_fd(fd, limit))
        yield old
    finally:
        if old:
            old.close()
        else:
            os.close(fd)


class AtomicWriter:
    """Creates, replaces and erases files by its own directory in `.memfs/tmp/`, created when needed. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._tmp = -1  # descriptor of the temporary directory; -1 if there is none
        self._name = ""
        self._counter = itertools.count()

    def close(self, root: int) -> None:
        """Remove the temporary directory; a later write creates another one."""
        with self._mutex:
            if self._tmp >= 0:
                with suppress(OSError), open_directory(root, (STATE_DIR, "tmp")) as parent:
                    os.rmdir(self._name, dir_fd=parent)
                os.close(self._tmp)
                self._tmp = -1

    @contextmanager
    def _temporary_dir(self, root: int) -> Iterator[int]:
        """Yield a descriptor of this writer's temporary directory, created again if the state directory was deleted."""
        with self._mutex:
            if self._tmp >= 0 and not os.fstat(self._tmp).st_nlink:
                os.close(self._tmp)
                self._tmp = -1
            if self._tmp < 0:
                create_state_dir(root)
                with open_directory(root, (STATE_DIR, "tmp")) as parent:
                    while self._tmp < 0:
                        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
                        os.mkdir(self._name, dir_fd=parent)
                        self._tmp = _lock_directory(parent, self._name)
            fd = os.dup(self._tmp)
        try:
            yield fd
        finally:
            os.close(fd)

    def create(self, root: int, parent: int, data: bytes, names: Iterable[str]) -> tuple[str, Stamp]:
        """Write a new file under the first of `names` that is free, and return its name and stamp.

        The file is durable; the caller syncs the directory. Raises FileExistsError if no name is free.
        """
        try:
            fd = os.open(".", _UNNAMED_FLAGS, 0o666, dir_fd=parent)
        except OSError as error:
            if error.errno not in UNSUPPORTED_ERRNOS:
                raise
            return self._create_by_rename(root, parent, data, names)
        try:
            write_all(fd, data)
            written = os.fstat(fd)
            name = _first_free(names, partial(link_unnamed_file, fd, parent))
            return name, stamp_after_rename(written, os.fstat(fd))
        finally:
            os.close(fd)

    def _create_by_rename(self, root: int, parent: int, data: bytes, names: Iterable[str]) -> tuple[str, Stamp]:
        part = f"{os.getpid()}.{next(self._counter)}.part"
        with self._temporary_dir(root) as tmp:
            written = write(tmp, part, data)
            try:
                name = _first_free(names, partial(rename_without_replacing, tmp, part, parent))
            except BaseException:
                os.unlink(part, dir_fd=tmp)
                raise
        return name, stamp_after_rename(written, os.stat(name, dir_fd=parent, follow_symlinks=False))

    def replace(self, root: int, parent: int, path: str, old: SettledFile, data: bytes, keep: SaveVersion) -> Stamp:
        """Replace the content of `old` by `data` and return the new stamp; `keep` is called with the replaced content.

        Raise MemoryChangedError if the file is no longer the one that was read: then an editor's save stays in place.
        """
        name = path.rpartition("/")[2]
        # crash recovery parses this name: it detects by the digest whether the files were exchanged
        swap = f"{os.getpid()}.{next(self._counter)}.{digest(data)}.{path_as_file_name(path)}"
        with self._temporary_dir(root) as tmp:
            written = write(tmp, swap, data, like=old.content)
            try:
                if not old.is_at(parent, name):
                    raise MemoryChangedError(path)
                exchange(tmp, swap, parent, name)
            except BaseException:
                os.unlink(swap, dir_fd=tmp)
                raise
            displaced = read_if_readable(tmp, swap)
            old.close()
            if displaced != old.content.data:
                remaining = self._undo(tmp, swap, parent, path, data, displaced or b"", keep)
                _discard(root, tmp, swap, path, remaining)
                raise MemoryChangedError(path)
            keep(path, displaced)
            _discard(root, tmp, swap, path, displaced)
        return stamp_after_rename(written, os.stat(name, dir_fd=parent, follow_symlinks=False))

    def erase(self, root: int, parent: int, name: str, old: SettledFile, data: bytes) -> None:
        """Replace the content of `old` by `data`, and keep no copy of it.

        Raise MemoryChangedError if the file is no longer the one that was read.
        """
        part = f"{os.getpid()}.{next(self._counter)}.part"  # crash recovery deletes such a file
        with self._temporary_dir(root) as tmp:
            write(tmp, part, data, like=old.content)
            try:
                if not old.is_at(parent, name):
                    raise MemoryChangedError(name)
                exchange(tmp, part, parent, name)
                old.close()
                if not _has_content(tmp, part, old.content.data):  # an editor saved in between
                    exchange(tmp, part, parent, name)
                    if not _has_content(tmp, part, data):  # it saved once more: that save is the newer one
                        exchange(tmp, part, parent, name)
                    raise MemoryChangedError(name)
            finally:
                os.unlink(part, dir_fd=tmp)
            os.fsync(tmp)

    def _undo(
        self, tmp: int, swap: str, parent: int, path: str, new: bytes, displaced: bytes, keep: SaveVersion
    ) -> bytes:
        """Put back an editor's save that was displaced. Return the content of the file that remains under `swap`."""
        name = path.rpartition("/")[2]
        with suppress(OSError), open_settled(tmp, swap, MAX_DISPLACED_BYTES) as finished:
            displaced = finished.content.data
        keep(path, displaced)  # an editor may already have read the new text: its next save would not contain this one
        exchange(tmp, swap, parent, name)
        if read_if_readable(tmp, swap) == new:
            return new
        exchange(tmp, swap, parent, name)  # an editor saved once more meanwhile: that save is the newer one
        return displaced


def _first_free(names: Iterable[str], link: Callable[[str], None]) -> str:
    """Call `link` with each name until one is free, and return that. Raises FileExistsError if none is."""
    for name in names:
        try:
            link(name)
        except FileExistsError:
            continue
        return name
    raise FileExistsError(errno.EEXIST, "no free name")


def _discard(root: int, tmp: int, swap: str, path: str, expected: bytes) -> None:
    """Delete a displaced file if it has the expected content and is not open elsewhere; else `set_aside`."""
    with suppress(OSError), open_file(tmp, swap) as fd:
        if is_open_elsewhere(fd) is False and read_fd(fd, MAX_DISPLACED_BYTES).data == expected:
            os.unlink(swap, dir_fd=tmp)
            return
    set_aside(root, tmp, swap, path_as_file_name(path), expected)


def _has_content(parent: int, name: str, data: bytes) -> bool:
    """Return whether a file has exactly these bytes."""
    try:
        return read(parent, name, len(data)).data == data
    except OSError:
        return False


def _lock_directory(parent: int, name: str) -> int:
    """Open and lock a new directory and return its descriptor; -1 if crash recovery of another process removed it."""
    try:
        fd = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), dir_fd=parent)
    except FileNotFoundError:
        return -1
    if try_lock(fd) and os.fstat(fd).st_nlink:
        return fd
    os.close(fd)
    return -1
