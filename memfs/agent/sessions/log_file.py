"""LogFile: the lines of a log on disk, appended and replaced under the lock of its directory.

What was appended by this process is known, so an append reads nothing; what others appended is read when the size of
the file tells of it, from there on.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from time import time_ns
from typing import Any

from memfs.after_fork import Mutex
from memfs.agent.sessions.cached_lock import KeptHold
from memfs.agent.sessions.erase import with_line
from memfs.agent.sessions.events import (
    KIND,
    VERSION,
    Draft,
    Event,
    Reading,
    last_id,
    line_of,
    lines_with,
    time_at,
    understand,
)
from memfs.agent.sessions.paths import LARGEST, check_file, is_of
from memfs.errors import (
    InvalidNamespaceError,
    MemoryChangedError,
    MemoryNotFoundError,
    OtherActorError,
    SessionNotFoundError,
    StorageError,
    VaultError,
)
from memfs.fs.files import FILE_FLAGS, OPEN_ATTEMPTS, open_directory, open_root, read_fd, translate_os_error, write_all
from memfs.fs.gc_pause import gc_paused
from memfs.fs.locks import release
from memfs.ids import id_at_milliseconds, is_id, unix_milliseconds
from memfs.protocols import Clock, system_clock
from memfs.storage.memory_files import LockedDirectory, MemoryFiles
from memfs.storage.state_dir import Settled, settled

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | FILE_FLAGS
_READ = os.O_RDONLY | FILE_FLAGS
MANY = 256 * 1024  # bytes of lines from which on reading them makes a great many values
Check = Callable[[Sequence[Event]], None]


class _Known:
    """What is known of the file as it was left: which one it is, how far it was read, and the ids in it."""

    def __init__(self) -> None:
        self.left = 0, 0  # inode and size
        self.last = ""
        self.ids: set[str] = set()

    def position(self, status: os.stat_result) -> int:
        """Where what is not known begins."""
        inode, size = self.left
        return size if inode == status.st_ino and size <= status.st_size else 0

    def add(self, events: Sequence[Event]) -> None:
        self.ids.update([event.id for event in events])
        self.last = max(self.last, last_id(events))


class LogFile:
    """A file of events in a directory of the vault. Thread-safe; any number of processes may append to it.

    With an `actor`, one whose first line names another is refused.
    """

    def __init__(
        self,
        root: Path,
        segments: tuple[str, ...],
        name: str,
        *,
        head: Callable[[], bytes],
        clock: Clock,
        timeout: float,
        actor: str = "",
    ) -> None:
        self._root, self._segments, self._name = root, segments, name
        self.path = "/".join((*segments, name))
        self._head, self._now, self._actor = head, _counting(clock), actor
        self._tree = MemoryFiles(root, clock=clock, lock_timeout=timeout)
        self._kept = KeptHold(self._tree, str(root), segments, timeout=timeout)
        self._known, self._mutex = _Known(), Mutex()
        self._is_named = False  # whether the name of the file is known to be on the disk

    def close(self) -> None:
        """Give back what writing holds; the file can still be used."""
        with self._mutex:
            self._kept.drop()
        self._tree.close()

    def exists(self) -> bool:
        """Tell whether there is such a file."""
        try:
            with self._folder() as parent:
                os.stat(self._name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable(self.path, error) from error
        return True

    def read(self, *, only: bytes = b"") -> Reading:
        """Everything the file says, or the lines that hold `only`; of no file, nothing. StorageError if it cannot."""
        try:
            with self._folder() as parent:
                return self._reading(parent, only)
        except FileNotFoundError:
            return Reading(None, [], [])
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def append(self, drafts: Sequence[Draft], check: Check | None = None) -> list[Event]:
        """Add events durably, all or none; `check` is shown all there are under the lock, and may raise."""
        with self._mutex:
            try:
                if hold := self._kept.take():
                    try:
                        return self._write(hold, drafts, check)
                    finally:
                        release(hold.parent)
            except OSError as error:
                raise translate_os_error(self.path, error) from error
            except _GoneError:
                pass
            return self._append_anew(drafts, check)

    def _append_anew(self, drafts: Sequence[Draft], check: Check | None) -> list[Event]:
        """Append where nothing is at hand, or is not there any more."""
        for _ in range(OPEN_ATTEMPTS):
            with suppress(_GoneError), self._held(create=True) as hold:
                events = self._write(hold, drafts, check)
                with suppress(OSError, VaultError):  # the events are there, also where no descriptor is left to keep
                    self._kept.keep(hold)
                return events
        raise StorageError(self.path, "its directory is deleted again and again")

    def replace(self, name: str, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Event:
        """Have another line in the place of an event's; nothing of the file as it was is left."""
        with self._mutex, self._held() as hold:
            for _ in range(OPEN_ATTEMPTS):
                with suppress(MemoryChangedError), self._settled(hold, name) as old:
                    event = find(self._understood(old.content.data).events, name)
                    if event.kind == "removed":
                        raise SessionNotFoundError(name)
                    record = change(event.record)
                    data = with_line(old.content.data, event, line_of(record))
                    if len(data) > LARGEST:
                        raise _full(self.path)
                    self._tree.state.erase(hold.root, hold.parent, self._name, old, data)
                    os.fsync(hold.parent)
                    self._known = _Known()
                    return Event(name, kind, record)
        raise MemoryChangedError(self.path)

    @contextmanager
    def _settled(self, hold: LockedDirectory, name: str) -> Iterator[Settled]:
        try:
            with settled(hold.parent, self._name, LARGEST) as old:
                yield old
        except FileNotFoundError:
            raise SessionNotFoundError(name) from None

    def _write(self, hold: LockedDirectory, drafts: Sequence[Draft], check: Check | None) -> list[Event]:
        """Append under the lock; what is durable is not reported as failed any more."""
        if check:
            check(self._reading(hold.parent).events)
        try:
            fd = os.open(self._name, _APPEND, 0o666, dir_fd=hold.parent)
        except FileNotFoundError:
            raise _GoneError(self._name) from None
        begun = False
        try:
            status = os.fstat(fd)
            size, seal = status.st_size, b""
            if not size or self._known.left != (status.st_ino, size):
                seal = self._catch_up(fd, status)
            events, lines = self._numbered(drafts)
            if not size:
                lines.insert(0, self._head())
            data = seal + b"".join(lines) if lines else b""
            if not self._is_named:
                os.fsync(hold.parent)
                self._is_named = True
            if size + len(data) > LARGEST:
                raise _full(self.path)
            if lines:
                begun = True
                write_all(fd, data)
            if lines or not seal:
                self._known.left = status.st_ino, size + len(data)
            return events
        except BaseException:
            self._known = _Known()  # it may have ids that are not there
            if begun:
                with suppress(OSError):
                    os.ftruncate(fd, size)
            raise
        finally:
            try:  # noqa: SIM105  this is cheaper, and done for every message
                os.close(fd)
            except OSError:
                pass

    def _numbered(self, drafts: Sequence[Draft]) -> tuple[list[Event], list[bytes]]:
        """Events with their ids and times, and the lines of those that are not there yet."""
        events, lines, known = [], [], self._known
        for draft in drafts:
            now = self._now()
            name, time = draft.id or id_at_milliseconds(now, KIND, known.last), draft.time or time_at(now)
            event, line = draft.numbered(name, time)
            events.append(event)
            if name not in known.ids:
                lines.append(line)
                known.ids.add(name)
                if name > known.last and (not draft.id or is_id(name, KIND)):
                    known.last = name
        return events, lines

    def _catch_up(self, fd: int, status: os.stat_result) -> bytes:
        """Take in what others appended, and no more; what to write first, where the last line was cut short."""
        check_file(status, self.path)
        start = self._known.position(status)
        if start and os.pread(fd, 1, start - 1) != b"\n":
            start = 0
        if not start:
            self._known = _Known()
        data = _span(fd, start, status.st_size)
        self._known.add(self._understood(data).events)
        return b"" if data.endswith(b"\n") or not data else b"\n"

    def _reading(self, parent: int, only: bytes = b"") -> Reading:
        fd = os.open(self._name, _READ, dir_fd=parent)
        try:
            check_file(os.fstat(fd), self.path)
            data, status = read_fd(fd, LARGEST)
        finally:
            os.close(fd)
        if only:
            return self._understood(b"\n".join(lines_with(data, only)))
        reading = self._understood(data)
        with self._mutex:
            if not self._known.left[0] and data.endswith(b"\n") and len(data) == status.st_size:
                self._known.add(reading.events)
                self._known.left = status.st_ino, status.st_size
        return reading

    def _understood(self, data: bytes) -> Reading:
        with gc_paused() if len(data) > MANY else nullcontext():
            reading = understand(data, self.path)
        if reading.head and reading.head.version > VERSION:
            error = StorageError(self.path, f"of schema version {reading.head.version}: made by a newer memfs")
            raise error.with_hint("Install a later memfs: pip install --upgrade memfs-vault.")
        if reading.head and self._actor and not is_of(reading.head.actor, self._actor):
            raise OtherActorError(self.path, reading.head.actor, self._actor)
        return reading

    @contextmanager
    def _folder(self) -> Iterator[int]:
        root = open_root(self._root)
        try:
            with open_directory(root, self._segments) as parent:
                yield parent
        finally:
            os.close(root)

    @contextmanager
    def _held(self, *, create: bool = False) -> Iterator[LockedDirectory]:
        """Lock the session's directory; one whose name differs in case only is another's."""
        try:
            with self._tree.hold(self._segments, create=create) as hold:
                if hold.segments != self._segments:
                    reason = f"the same name as {hold.segments[-1]!r} but for case"
                    raise InvalidNamespaceError(self._segments[-1], reason)
                yield hold
        except MemoryNotFoundError:
            raise SessionNotFoundError("/".join(self._segments)) from None
        except OSError as error:
            raise translate_os_error(self.path, error) from error


class _GoneError(VaultError):
    """The directory was deleted while its lock was held: by git, say, which has no empty ones."""


def _counting(clock: Clock) -> Callable[[], int]:
    """A clock that tells the milliseconds from 1970; that of the system does so for less."""
    return (lambda: time_ns() // 1_000_000) if clock is system_clock else lambda: unix_milliseconds(clock())


def _full(path: str) -> StorageError:
    error = StorageError(path, f"full: no log is larger than {LARGEST // (1024 * 1024)} MiB")
    error.hint = "Go on in another session."
    return error


def _unreadable(path: str, error: OSError) -> StorageError:
    return StorageError(path, f"cannot be read: {error.strerror or error}")


def find(events: Iterable[Event], name: str) -> Event:
    """The event with this id."""
    for event in events:
        if event.id == name:
            return event
    raise SessionNotFoundError(name)


def _span(fd: int, start: int, end: int) -> bytes:
    """The bytes of an open file from here to there."""
    pieces = []
    while start < end and (piece := os.pread(fd, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
