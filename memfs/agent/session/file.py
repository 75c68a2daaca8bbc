"""LogFile: the lines of a log on disk, appended and replaced under the lock of its directory.

What was appended by this process is known, so an append reads nothing; what others appended is read when the size of
the file tells of it, from there on.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memfs.agent.session.erasing import with_line
from memfs.agent.session.events import (
    KIND,
    VERSION,
    Draft,
    Event,
    Reading,
    last_id,
    line_of,
    lines_with,
    time_text,
    understand,
)
from memfs.agent.session.hold import KeptHold
from memfs.agent.session.names import LARGEST, check_file
from memfs.errors import (
    InvalidNamespaceError,
    MemoryChangedError,
    MemoryNotFoundError,
    OtherActorError,
    SessionNotFoundError,
    StorageError,
    VaultError,
)
from memfs.files import FILE, TRIES, folder, open_root, read_open, worded, write_all
from memfs.locks import Mutex
from memfs.namespace import is_id, new_id
from memfs.protocols import Clock
from memfs.state import Settled, settled
from memfs.tree import Hold, Tree

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | FILE
_READ = os.O_RDONLY | FILE
Check = Callable[[Sequence[Event]], None]


class _Known:
    """What is known of the file as it was left: which one it is, how far it was read, and the ids in it."""

    def __init__(self) -> None:
        self.inode, self.position = 0, 0
        self.last = ""
        self.ids: set[str] = set()

    def is_all_of(self, status: os.stat_result) -> bool:
        return self.inode == status.st_ino and self.position == status.st_size

    def may_go_on(self, status: os.stat_result) -> bool:
        return self.inode == status.st_ino and 0 < self.position <= status.st_size

    def add(self, events: Sequence[Event]) -> None:
        self.ids.update([event.id for event in events])
        self.last = max(self.last, last_id(events))

    def remember(self, inode: int, position: int) -> None:
        self.inode, self.position = inode, position


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
        self._head, self._clock, self._actor = head, clock, actor
        self._tree = Tree(root, clock=clock, lock_timeout=timeout)
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
            for _ in range(TRIES):
                try:
                    return self._append(drafts, check)
                except _GoneError:
                    continue
        raise StorageError(self.path, "its directory is deleted again and again")

    def _append(self, drafts: Sequence[Draft], check: Check | None) -> list[Event]:
        try:
            hold = self._kept.take()
            if hold is not None:
                try:
                    return self._write(hold, drafts, check)
                finally:
                    self._kept.give()
        except OSError as error:
            raise worded(self.path, error) from error
        with self._held(create=True) as hold:
            events = self._write(hold, drafts, check)
            with suppress(OSError, VaultError):  # the events are there, also where no descriptor is left to keep
                self._kept.keep(hold)
            return events

    def replace(self, name: str, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Event:
        """Have another line in the place of an event's; nothing of the file as it was is left."""
        with self._mutex, self._held() as hold:
            for _ in range(TRIES):
                with suppress(MemoryChangedError), self._settled(hold, name) as old:
                    event = find(self._understood(old.content.data).events, name)
                    if event.kind == "removed":
                        raise SessionNotFoundError(name)
                    record = change(event.record)
                    data = with_line(old.content.data, event, line_of(record))
                    self._check_size(len(data))
                    self._tree.state.erase(hold.root, hold.parent, self._name, old, data)
                    os.fsync(hold.parent)
                    self._known = _Known()
                    return Event(name, kind, record)
        raise MemoryChangedError(self.path)

    @contextmanager
    def _settled(self, hold: Hold, name: str) -> Iterator[Settled]:
        try:
            with settled(hold.parent, self._name, LARGEST) as old:
                yield old
        except FileNotFoundError:
            raise SessionNotFoundError(name) from None

    def _write(self, hold: Hold, drafts: Sequence[Draft], check: Check | None) -> list[Event]:
        """Append under the lock; what is durable is not reported as failed any more."""
        if check:
            check(self._reading(hold.parent).events)
        fd = _opened(hold.parent, self._name)
        try:
            status = os.fstat(fd)
            seal = self._catch_up(fd, status)
            events, lines = self._numbered(drafts)
            if not status.st_size:
                lines.insert(0, self._head())
            data = seal + b"".join(lines) if lines else b""
            if not self._is_named:
                os.fsync(hold.parent)
                self._is_named = True
            if lines:
                self._put(fd, status.st_size, data)
            if lines or not seal:
                self._known.remember(status.st_ino, status.st_size + len(data))
            return events
        except BaseException:
            self._known = _Known()  # it may have ids that are not there
            raise
        finally:
            with suppress(OSError):
                os.close(fd)

    def _put(self, fd: int, size: int, data: bytes) -> None:
        """Append durably, or leave the file as it was."""
        self._check_size(size + len(data))
        try:
            write_all(fd, data)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise

    def _check_size(self, size: int) -> None:
        """Refuse to make a log that nobody could read."""
        if size > LARGEST:
            error = StorageError(self.path, f"full: no log is larger than {LARGEST // (1024 * 1024)} MiB")
            error.hint = "Go on in another session."
            raise error

    def _numbered(self, drafts: Sequence[Draft]) -> tuple[list[Event], list[bytes]]:
        """Events with their ids and times, and the lines of those that are not there yet."""
        events, lines, known = [], [], self._known
        for draft in drafts:
            now = self._clock()
            name, time = draft.id or new_id(now, kind=KIND, after=known.last), draft.time or time_text(now)
            events.append(draft.event(name, time))
            if name not in known.ids:
                lines.append(draft.line(name, time))
                known.ids.add(name)
                if not draft.id or is_id(name, KIND):
                    known.last = max(known.last, name)
        return events, lines

    def _catch_up(self, fd: int, status: os.stat_result) -> bytes:
        """Take in what others appended, and no more; what to write first, where the last line was cut short."""
        check_file(status, self.path)
        if self._known.is_all_of(status):
            return b""
        start = self._known.position if self._known.may_go_on(status) else 0
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
            data, status = read_open(fd, LARGEST)
        finally:
            os.close(fd)
        if only:
            return self._understood(b"\n".join(lines_with(data, only)))
        reading = self._understood(data)
        with self._mutex:
            if not self._known.inode and data.endswith(b"\n") and len(data) == status.st_size:
                self._known.add(reading.events)
                self._known.remember(status.st_ino, status.st_size)
        return reading

    def _understood(self, data: bytes) -> Reading:
        reading = understand(data, self.path)
        if reading.head and reading.head.version > VERSION:
            raise StorageError(self.path, f"of schema version {reading.head.version}: made by a newer memfs")
        if reading.head and self._actor and reading.head.actor not in ("", self._actor):
            raise OtherActorError(self.path, reading.head.actor, self._actor)
        return reading

    @contextmanager
    def _folder(self) -> Iterator[int]:
        root = open_root(self._root)
        try:
            with folder(root, self._segments) as parent:
                yield parent
        finally:
            os.close(root)

    @contextmanager
    def _held(self, *, create: bool = False) -> Iterator[Hold]:
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
            raise worded(self.path, error) from error


class _GoneError(VaultError):
    """The directory was deleted while its lock was held: by git, say, which has no empty ones."""


def _unreadable(path: str, error: OSError) -> StorageError:
    return StorageError(path, f"cannot be read: {error.strerror or error}")


def find(events: Iterable[Event], name: str) -> Event:
    """The event with this id."""
    for event in events:
        if event.id == name:
            return event
    raise SessionNotFoundError(name)


def _opened(parent: int, name: str) -> int:
    try:
        return os.open(name, _APPEND, 0o666, dir_fd=parent)
    except FileNotFoundError:
        raise _GoneError(name) from None


def _span(fd: int, start: int, end: int) -> bytes:
    """The bytes of an open file from here to there."""
    pieces = []
    while start < end and (piece := os.pread(fd, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
