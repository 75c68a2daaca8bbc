"""The state directory `.memfs/`: gates, temporary files, and what came out of an exchange.

A writer's temporary files lie in a directory of its own, locked as long as it lives, so the next start can
tell what a killed one left. Bytes are unlinked only when they are proved to be ours and nobody has them open.
"""

import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote, unquote

from memfs.errors import MemoryChangedError
from memfs.files import (
    PARTIAL,
    STATE,
    Content,
    digest,
    exchange,
    folder,
    in_use,
    read,
    read_open,
    rename_new,
    try_lock,
    write,
)

PATIENCE = 600.0  # seconds until a displaced file that cannot be leased is taken for closed
_ANY_SIZE = 1 << 40
_ROOMS = ("tmp", "locks", "late", "history")
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
_GATE = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

Keep = Callable[[str, bytes], None]


class State:
    """One writer's hold on the state directory; opened by the first write."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._tmp = -1
        self._name = ""
        self._counter = itertools.count()

    @property
    def is_new(self) -> bool:
        """True until the first write."""
        return self._tmp < 0

    def close(self, root: int) -> None:
        """Give the temporary directory back; a later write makes a new one."""
        with self._mutex:
            if self._tmp >= 0:
                with suppress(OSError), folder(root, (STATE, "tmp")) as rooms:
                    os.rmdir(self._name, dir_fd=rooms)
                os.close(self._tmp)
                self._tmp = -1

    def tmp(self, root: int) -> int:
        """This writer's temporary directory, made anew if somebody deleted the state directory."""
        with self._mutex:
            if self._tmp >= 0:
                if os.fstat(self._tmp).st_nlink:
                    return self._tmp
                os.close(self._tmp)
                self._tmp = -1
            make(root)
            with folder(root, (STATE, "tmp")) as rooms:
                while self._tmp < 0:
                    self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
                    os.mkdir(self._name, dir_fd=rooms)
                    self._tmp = _claim(rooms, self._name)
            return self._tmp

    def gate(self, root: int, namespace: str) -> int:
        """Open the file at which writers of a namespace queue; it is created as needed."""
        self.tmp(root)
        return os.open(f"{STATE}/locks/{digest(namespace.encode())[:2]}", _GATE, 0o666, dir_fd=root)

    def stage(self, root: int, data: bytes) -> str:
        """Write a new file, durably, under a temporary name."""
        name = f"{os.getpid()}.{next(self._counter)}.part"
        write(self.tmp(root), name, data)
        return name

    def place(self, root: int, staged: str, parent: int, name: str) -> None:
        """Give a staged file its name, which must be free."""
        rename_new(self.tmp(root), staged, parent, name)

    def unstage(self, root: int, staged: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=self.tmp(root))

    def replace(self, root: int, parent: int, path: str, old: Content, data: bytes, keep: Keep) -> None:
        """Put `data` where `old` was read. MemoryChangedError, and nothing changed, if it is not there any more."""
        name, tmp = path.rpartition("/")[2], self.tmp(root)
        swap = f"{os.getpid()}.{next(self._counter)}.{digest(data)}.{_quoted(path)}"
        write(tmp, swap, data, like=old)
        try:
            exchange(tmp, swap, parent, name)
        except BaseException:
            os.unlink(swap, dir_fd=tmp)
            raise
        out = _peek(tmp, swap)
        if out == old.data:
            keep(path, out)
            self._discard(root, swap, path, out)
            return
        exchange(tmp, swap, parent, name)
        if _peek(tmp, swap) != data:
            exchange(tmp, swap, parent, name)
            data = out or b""
            keep(path, data)
        self._discard(root, swap, path, data)
        raise MemoryChangedError(path)

    def _discard(self, root: int, swap: str, path: str, expected: bytes) -> None:
        """Drop a displaced file if it is as expected and nobody has it open; else set it aside."""
        tmp = self.tmp(root)
        with suppress(OSError):
            fd = os.open(swap, _READ, dir_fd=tmp)
            try:
                if not in_use(fd) and read_open(fd, _ANY_SIZE).data == expected:
                    os.unlink(swap, dir_fd=tmp)
                    return
            finally:
                os.close(fd)
        with folder(root, (STATE, "late"), create=True) as aside:
            name = f"{time.time_ns()}.{digest(expected)}.{_quoted(path)}"
            os.rename(swap, name, src_dir_fd=tmp, dst_dir_fd=aside)

    def late(self, root: int) -> list[tuple[str, str, bytes]]:
        """Saves that reached a file after it was displaced: name, path of the memory, content."""
        found = []
        with suppress(FileNotFoundError), folder(root, (STATE, "late")) as aside:
            for name in sorted(os.listdir(aside)):
                _, expected, path = name.split(".", 2)
                data = _peek(aside, name)
                if data is not None and digest(data) != expected:
                    found.append((name, unquote(path), data))
        return found

    def rescue(self, root: int, save: Keep) -> None:
        """Hand every late save to `save`, and drop the displaced files that are done with."""
        late = {name: (path, data) for name, path, data in self.late(root)}
        with suppress(FileNotFoundError), folder(root, (STATE, "late")) as aside:
            for name in sorted(os.listdir(aside)):
                fd = os.open(name, _READ, dir_fd=aside)
                try:
                    busy = in_use(fd) and time.time_ns() - int(name.split(".")[0]) < PATIENCE * 1e9
                finally:
                    os.close(fd)
                if busy:
                    continue
                if name in late:
                    save(*late[name])
                os.unlink(name, dir_fd=aside)

    def sweep(self, root: int, keep: Keep) -> None:
        """Clear what killed writers left; a file they had displaced becomes a kept version."""
        with suppress(FileNotFoundError), folder(root, (STATE, "tmp")) as rooms:
            for room in os.listdir(rooms):
                with suppress(OSError), folder(rooms, (room,)) as fd:
                    if try_lock(fd):
                        for name in os.listdir(fd):
                            _sweep_file(fd, name, keep)
                        os.rmdir(room, dir_fd=rooms)


def make(root: int) -> None:
    """Make the state directory, with a .gitignore of its own."""
    with folder(root, (STATE,), create=True) as state:
        for room in _ROOMS:
            with suppress(FileExistsError):
                os.mkdir(room, dir_fd=state)
            with folder(state, (room,)):  # a symlink in its place is refused here
                pass
        with suppress(FileExistsError):
            write(state, ".gitignore", b"*\n", durable=False)


def _peek(parent: int, name: str) -> bytes | None:
    """The bytes under a name, or None if it is not a readable file."""
    try:
        return read(parent, name, _ANY_SIZE).data
    except OSError:
        return None


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


def _sweep_file(parent: int, name: str, keep: Keep) -> None:
    content = read(parent, name, _ANY_SIZE)
    parts = name.split(".", 3)
    if content.mode != PARTIAL and len(parts) == 4 and parts[2] != digest(content.data):
        keep(unquote(parts[3]), content.data)
    os.unlink(name, dir_fd=parent)


def _quoted(path: str) -> str:
    """A path as one file name; one that is too long for that is kept as `unclaimed.md`."""
    name = quote(path, safe=" ")
    return name if len(name) <= 180 else "unclaimed.md"
