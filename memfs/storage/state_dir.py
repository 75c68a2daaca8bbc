"""The state directory `.memfs/`: gates, temporary files, and what came out of an exchange.

A writer's temporary files lie in a directory of its own, locked as long as it lives, so the next start can
tell what a killed one left. Bytes are unlinked only when they are proved to be ours and nobody has them open.
"""

import errno
import itertools
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from urllib.parse import unquote

from memfs.after_fork import Mutex
from memfs.data_types import Stamp, modification_time
from memfs.errors import MemoryChangedError, VaultError
from memfs.fs.files import (
    FILE_FLAGS,
    MAX_FILE_BYTES,
    PARTIAL_MODE,
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
from memfs.fs.handle_cache import MAX_STALE_HANDLES, HandleCache
from memfs.fs.locks import Lease, is_open_elsewhere, try_lock
from memfs.fs.syscalls import UNSUPPORTED_ERRNOS
from memfs.namespace import split_path

SETTLE = 0.25  # seconds to wait for an editor that is in the middle of a save
PATIENCE = 600.0  # seconds until a displaced file that cannot be leased is taken for closed
_ANY_SIZE = 64 * 1024 * 1024  # more than this is never read, nor dropped
_LATE = re.compile(r"(?P<moment>[0-9]{1,20})\.(?P<expected>[0-9a-f]{16})\.(?P<path>.+)")
_ROOMS = ("tmp", "locks", "late", "history", "index")
SCANNED = "scanned"
_SIGN = os.O_WRONLY | os.O_CREAT | FILE_FLAGS
_NAMELESS = os.O_WRONLY | getattr(os, "O_TMPFILE", 0) | getattr(os, "O_CLOEXEC", 0)

Keep = Callable[[str, bytes], None]


class Settled:
    """A file that was read when nobody was in the middle of writing it; whoever wants to write it now waits."""

    def __init__(self, fd: int, lease: Lease, content: FileContent) -> None:
        self._fd, self._lease, self.content = fd, lease, content

    def is_at(self, parent: int, name: str) -> bool:
        """Tell whether this file still has the name, and nobody waits to write it."""
        named = os.stat(name, dir_fd=parent, follow_symlinks=False)
        return os.path.samestat(os.fstat(self._fd), named) and not self._lease.has_waiting_writer()

    def close(self) -> None:
        """Let others write."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def settled(parent: int, name: str, limit: int = MAX_FILE_BYTES) -> Iterator[Settled]:
    """Read a file once nobody has it open for writing, or has had it for too long."""
    deadline = time.monotonic() + SETTLE
    while True:
        fd = os.open(name, READ_FLAGS, dir_fd=parent)
        lease = Lease(fd)
        if lease.take() or time.monotonic() > deadline:
            break
        os.close(fd)
        time.sleep(0.002)
    old = None
    try:
        old = Settled(fd, lease, read_fd(fd, limit))
        yield old
    finally:
        if old:
            old.close()
        else:
            os.close(fd)


class State:
    """One writer's hold on the state directory; opened by the first write."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._tmp = -1
        self._name = ""
        self._counter = itertools.count()
        self._locks = HandleCache(STATE_DIR, "locks", max_stale=MAX_STALE_HANDLES)
        self.is_made = False

    def make(self, root: int) -> None:
        """Make what is missing of the state directory; a symlink in it is refused."""
        make(root)
        self.is_made = True

    def close(self, root: int) -> None:
        """Give back what is held; a later write takes it anew."""
        self._locks.close()
        with self._mutex:
            if self._tmp >= 0:
                with suppress(OSError), open_directory(root, (STATE_DIR, "tmp")) as rooms:
                    os.rmdir(self._name, dir_fd=rooms)
                os.close(self._tmp)
                self._tmp = -1

    def gate(self, root: int, namespace: str) -> int:
        """The file at which writers of a namespace queue; it is made as needed."""
        return self._locks.open(root, digest(namespace.encode())[:2], os.O_RDWR | os.O_CREAT)

    @contextmanager
    def _room(self, root: int) -> Iterator[int]:
        """This writer's temporary directory, made anew if somebody deleted the state directory."""
        with self._mutex:
            if self._tmp >= 0 and not os.fstat(self._tmp).st_nlink:
                os.close(self._tmp)
                self._tmp = -1
            if self._tmp < 0:
                make(root)
                with open_directory(root, (STATE_DIR, "tmp")) as rooms:
                    while self._tmp < 0:
                        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
                        os.mkdir(self._name, dir_fd=rooms)
                        self._tmp = _claim(rooms, self._name)
            fd = os.dup(self._tmp)
        try:
            yield fd
        finally:
            os.close(fd)

    def create(self, root: int, parent: int, data: bytes, names: Iterable[str]) -> tuple[str, Stamp]:
        """Write a new file, durably, under the first of `names` that is free."""
        try:
            fd = os.open(".", _NAMELESS, 0o666, dir_fd=parent)
        except OSError as error:
            if error.errno not in UNSUPPORTED_ERRNOS:
                raise
            return self._create_named(root, parent, data, names)
        try:
            write_all(fd, data)
            written = os.fstat(fd)
            name = _first_free(names, partial(link_unnamed_file, fd, parent))
            return name, stamp_after_rename(written, os.fstat(fd))
        finally:
            os.close(fd)

    def _create_named(self, root: int, parent: int, data: bytes, names: Iterable[str]) -> tuple[str, Stamp]:
        part = f"{os.getpid()}.{next(self._counter)}.part"
        with self._room(root) as tmp:
            written = write(tmp, part, data)
            try:
                name = _first_free(names, partial(rename_without_replacing, tmp, part, parent))
            except BaseException:
                os.unlink(part, dir_fd=tmp)
                raise
        return name, stamp_after_rename(written, os.stat(name, dir_fd=parent, follow_symlinks=False))

    def replace(self, root: int, parent: int, path: str, old: Settled, data: bytes, keep: Keep) -> Stamp:
        """Put `data` where `old` was read. MemoryChangedError, and nothing changed, if it is not there any more."""
        name = path.rpartition("/")[2]
        swap = f"{os.getpid()}.{next(self._counter)}.{digest(data)}.{path_as_file_name(path)}"
        with self._room(root) as tmp:
            written = write(tmp, swap, data, like=old.content)
            try:
                if not old.is_at(parent, name):
                    raise MemoryChangedError(path)
                exchange(tmp, swap, parent, name)
            except BaseException:
                os.unlink(swap, dir_fd=tmp)
                raise
            out = _peek(tmp, swap)
            old.close()
            if out != old.content.data:
                data = self._undo(tmp, swap, parent, path, data, out or b"", keep)
                _discard(root, tmp, swap, path, data)
                raise MemoryChangedError(path)
            keep(path, out)
            _discard(root, tmp, swap, path, out)
        return stamp_after_rename(written, os.stat(name, dir_fd=parent, follow_symlinks=False))

    def erase(self, root: int, parent: int, name: str, old: Settled, data: bytes) -> None:
        """Put `data` where `old` was read, and keep nothing of that. MemoryChangedError if it is not there any more."""
        part = f"{os.getpid()}.{next(self._counter)}.part"  # of a killed writer it is dropped by the next one
        with self._room(root) as tmp:
            write(tmp, part, data, like=old.content)
            try:
                if not old.is_at(parent, name):
                    raise MemoryChangedError(name)
                exchange(tmp, part, parent, name)
                old.close()
                if not _holds(tmp, part, old.content.data):  # a person saved in between
                    exchange(tmp, part, parent, name)
                    if not _holds(tmp, part, data):  # and again: that is the newer one
                        exchange(tmp, part, parent, name)
                    raise MemoryChangedError(name)
            finally:
                os.unlink(part, dir_fd=tmp)
            os.fsync(tmp)

    def _undo(self, tmp: int, swap: str, parent: int, path: str, ours: bytes, theirs: bytes, keep: Keep) -> bytes:
        """Put back what a person saved in between; the bytes that are left over."""
        name = path.rpartition("/")[2]
        with suppress(OSError), settled(tmp, swap, _ANY_SIZE) as finished:
            theirs = finished.content.data
        keep(path, theirs)  # who reads our text now, and saves, does not know of it
        exchange(tmp, swap, parent, name)
        if _peek(tmp, swap) == ours:
            return ours
        exchange(tmp, swap, parent, name)  # another save came meanwhile: it is the newer one
        return theirs

    def late(self, root: int) -> list[tuple[str, str, bytes]]:
        """Saves that reached a file after it was displaced: name, path of the memory, content."""
        found = []
        with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "late")) as aside:
            for name in sorted(os.listdir(aside)):
                named, data = _LATE.fullmatch(name), _peek(aside, name)
                if named and data is not None and digest(data) != named["expected"]:
                    found.append((name, _path(named["path"]), data))
        return found

    def aside(self, root: int) -> list[str]:
        """The paths of memories whose displaced files are kept, for a program has them open."""
        with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "late")) as aside:
            named = [_LATE.fullmatch(name) for name in sorted(os.listdir(aside))]
            return [_path(one["path"]) for one in named if one]
        return []

    def rescue(self, root: int, save: Keep) -> None:
        """Hand every late save to `save`, and drop the displaced files that are done with."""
        with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "late")) as aside:
            for name in sorted(os.listdir(aside)):
                if not (named := _LATE.fullmatch(name)):
                    continue
                with suppress(OSError), open_file(aside, name) as fd:
                    busy, age = is_open_elsewhere(fd), time.time_ns() - int(named["moment"])
                    if busy or (busy is None and age < PATIENCE * 1e9):
                        continue
                    data = read_fd(fd, _ANY_SIZE).data
                    if digest(data) != named["expected"]:
                        save(_path(named["path"]), data)
                    os.unlink(name, dir_fd=aside)

    def sweep(self, root: int, keep: Keep) -> None:
        """Clear what killed writers left; a file they had displaced becomes a kept version."""
        with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "tmp")) as rooms:
            for room in os.listdir(rooms):
                with suppress(OSError, VaultError), open_directory(rooms, (room,)) as fd:
                    if try_lock(fd):
                        for name in os.listdir(fd):
                            _sweep_file(root, fd, name, keep)
                        os.rmdir(room, dir_fd=rooms)


def _first_free(names: Iterable[str], place: Callable[[str], None]) -> str:
    for name in names:
        try:
            place(name)
        except FileExistsError:
            continue
        return name
    raise FileExistsError(errno.EEXIST, "no free name")


def _discard(root: int, tmp: int, swap: str, path: str, expected: bytes) -> None:
    """Drop a displaced file if it is as expected and nobody has it open; else set it aside."""
    with suppress(OSError), open_file(tmp, swap) as fd:
        if is_open_elsewhere(fd) is False and read_fd(fd, _ANY_SIZE).data == expected:
            os.unlink(swap, dir_fd=tmp)
            return
    _set_aside(root, tmp, swap, path_as_file_name(path), expected)


def make(root: int) -> None:
    """Make the state directory, with a .gitignore of its own."""
    with open_directory(root, (STATE_DIR,), create=True) as state:
        for room in _ROOMS:
            with suppress(FileExistsError):
                os.mkdir(room, dir_fd=state)
            with open_directory(state, (room,)):  # a symlink in its place is refused here
                pass
        with suppress(FileExistsError):
            write(state, ".gitignore", b"*\n", durable=False)


def note_scan(root: int, moment: float) -> None:
    """Have every process know when every file was looked at last, where that can be written."""
    with suppress(OSError, VaultError), open_directory(root, (STATE_DIR,)) as state:
        fd = os.open(SCANNED, _SIGN, 0o666, dir_fd=state)
        try:
            os.utime(fd, (moment, moment))
        finally:
            os.close(fd)


def last_scan(root: int) -> datetime | None:
    """When a process looked at every file last; None if none has written it down."""
    try:
        return modification_time(os.stat(f"{STATE_DIR}/{SCANNED}", dir_fd=root, follow_symlinks=False))
    except OSError:
        return None


def _peek(parent: int, name: str) -> bytes | None:
    """The bytes under a name, or None if it is not a readable file."""
    try:
        return read(parent, name, _ANY_SIZE).data
    except OSError:
        return None


def _holds(parent: int, name: str, data: bytes) -> bool:
    """Tell whether a file has these bytes."""
    try:
        return read(parent, name, len(data)).data == data
    except OSError:
        return False


def _claim(rooms: int, name: str) -> int:
    """Open and lock a new directory; -1 if a sweep took it first."""
    try:
        fd = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), dir_fd=rooms)
    except FileNotFoundError:
        return -1
    if try_lock(fd) and os.fstat(fd).st_nlink:
        return fd
    os.close(fd)
    return -1


def _sweep_file(root: int, parent: int, name: str, keep: Keep) -> None:
    """Keep what a killed writer displaced; drop what is ours."""
    with open_file(parent, name) as fd:
        content = read_fd(fd, _ANY_SIZE)
        parts = name.split(".", 3)
        if content.mode != PARTIAL_MODE and len(parts) == 4 and parts[2] != digest(content.data):
            keep(_path(parts[3]), content.data)
            if is_open_elsewhere(fd) is not False:
                _set_aside(root, parent, name, parts[3], content.data)
                return
    os.unlink(name, dir_fd=parent)


def _set_aside(root: int, parent: int, name: str, quoted: str, expected: bytes) -> None:
    """Move a displaced file to where late saves are looked for."""
    with open_directory(root, (STATE_DIR, "late"), create=True) as aside:
        late = f"{time.time_ns()}.{digest(expected)}.{quoted}"
        os.rename(name, late, src_dir_fd=parent, dst_dir_fd=aside)


def _path(name: str) -> str:
    """The path of which this is the file name; one that was cut is unclaimed."""
    path = unquote(name)
    return path if path.endswith(".md") and split_path(path) else "unclaimed.md"
