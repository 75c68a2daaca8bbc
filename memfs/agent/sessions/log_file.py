"""LogFile: the lines of a log on disk, appended and replaced under the lock of its directory.

The process caches the ids and the end of the file after its own append, so the next append reads nothing. If other
processes appended since, the file has grown, and only the new part is read.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from time import time_ns
from typing import Any

from memfs.after_fork import Mutex
from memfs.agent.sessions.cached_lock import CachedLock
from memfs.agent.sessions.erase import replace_line
from memfs.agent.sessions.events import EVENT_ID_KIND, SCHEMA_VERSION, Event, format_milliseconds, last_id
from memfs.agent.sessions.line_encoder import EventDraft, encode_line
from memfs.agent.sessions.log_parser import ParsedLog, parse_log, select_lines
from memfs.agent.sessions.paths import MAX_LOG_BYTES, check_log_file, is_owned_by
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
from memfs.storage.atomic_replace import SettledFile, open_settled
from memfs.storage.memory_files import LockedDirectory, MemoryFiles

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | FILE_FLAGS
_READ = os.O_RDONLY | FILE_FLAGS
_GC_PAUSE_BYTES = 256 * 1024  # the garbage collector is paused while more is parsed: so many new objects trigger it
AppendCheck = Callable[[Sequence[Event]], None]


class _FileState:
    """The file as this process last saw it: its inode, the offset up to which it was read, and the ids in it."""

    def __init__(self) -> None:
        self.end = 0, 0  # inode and size
        self.last_id = ""
        self.ids: set[str] = set()

    def unread_offset(self, status: os.stat_result) -> int:
        """Return the offset of the part that was not read yet; 0 if the file is another one or was shortened."""
        inode, size = self.end
        return size if inode == status.st_ino and size <= status.st_size else 0

    def add(self, events: Sequence[Event]) -> None:
        """Add the ids of events that were read."""
        self.ids.update([event.id for event in events])
        self.last_id = max(self.last_id, last_id(events))


class LogFile:
    """A file of events in a directory of the vault. Thread-safe; any number of processes may append to it.

    With an `actor`, a file whose header names another actor is refused (OtherActorError).
    """

    def __init__(
        self,
        root: Path,
        segments: tuple[str, ...],
        name: str,
        *,
        make_header: Callable[[], bytes],
        clock: Clock,
        timeout: float,
        actor: str = "",
    ) -> None:
        self._root, self._segments, self._name = root, segments, name
        self.path = "/".join((*segments, name))
        self._make_header, self._now, self._actor = make_header, _millisecond_clock(clock), actor
        self._files = MemoryFiles(root, clock=clock, lock_timeout=timeout)
        self._lock = CachedLock(self._files, str(root), segments, timeout=timeout)
        self._state, self._mutex = _FileState(), Mutex()
        self._is_entry_synced = False  # whether the directory was fsynced after the file was created

    def close(self) -> None:
        """Close the cached descriptors; the file can still be used."""
        with self._mutex:
            self._lock.close()
        self._files.close()

    def exists(self) -> bool:
        """Return whether the file exists; StorageError if that cannot be determined."""
        try:
            with self._open_directory() as parent:
                os.stat(self._name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable_error(self.path, error) from error
        return True

    def read(self, *, only: bytes = b"") -> ParsedLog:
        """Parse the file, or its header and the lines that contain `only`; a missing file is empty.

        StorageError if the file cannot be read.
        """
        try:
            with self._open_directory() as parent:
                return self._read(parent, only)
        except FileNotFoundError:
            return ParsedLog(None, [], [])
        except OSError as error:
            raise _unreadable_error(self.path, error) from error

    def append(self, drafts: Sequence[EventDraft], check: AppendCheck | None = None) -> list[Event]:
        """Append events durably, all or none, except those whose ids the file already has; return all of them.

        `check` is called under the lock with the events in the file, and raises to prevent the append.
        """
        with self._mutex:
            try:
                if directory := self._lock.take():
                    try:
                        return self._write(directory, drafts, check)
                    finally:
                        release(directory.parent)
            except OSError as error:
                raise translate_os_error(self.path, error) from error
            except _DirectoryDeletedError:
                pass
            return self._append_uncached(drafts, check)

    def _append_uncached(self, drafts: Sequence[EventDraft], check: AppendCheck | None) -> list[Event]:
        """Append with a new lock, because none is cached or the cached directory was deleted."""
        for _ in range(OPEN_ATTEMPTS):
            with suppress(_DirectoryDeletedError), self._locked(create=True) as directory:
                events = self._write(directory, drafts, check)
                with suppress(OSError, VaultError):  # the events are written, even if there are no free descriptors
                    self._lock.cache(directory)
                return events
        raise StorageError(self.path, "its directory was deleted again after each attempt")

    def replace(self, name: str, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Event:
        """Replace the line of an event durably; nothing of the original file is left on the disk.

        `name` is the id of the event, and `kind` its kind after `change`. SessionNotFoundError if there is no such
        event, or it was removed; MemoryChangedError if another program changes the file during every attempt.
        """
        with self._mutex, self._locked() as directory:
            for _ in range(OPEN_ATTEMPTS):
                with suppress(MemoryChangedError), self._stable_file(directory, name) as old:
                    event = find_event(self._parse(old.content.data).events, name)
                    if event.kind == "removed":
                        raise SessionNotFoundError(name)
                    record = change(event.record)
                    data = replace_line(old.content.data, event, encode_line(record))
                    if len(data) > MAX_LOG_BYTES:
                        raise _log_full_error(self.path)
                    self._files.writer.erase(directory.root, directory.parent, self._name, old, data)
                    os.fsync(directory.parent)
                    self._state = _FileState()
                    return Event(name, kind, record)
        raise MemoryChangedError(self.path)

    @contextmanager
    def _stable_file(self, directory: LockedDirectory, name: str) -> Iterator[SettledFile]:
        """Open the file for a replacement; SessionNotFoundError, which names the event, if it is missing."""
        try:
            with open_settled(directory.parent, self._name, MAX_LOG_BYTES) as old:
                yield old
        except FileNotFoundError:
            raise SessionNotFoundError(name) from None

    def _write(
        self, directory: LockedDirectory, drafts: Sequence[EventDraft], check: AppendCheck | None
    ) -> list[Event]:
        """Append under the lock; once the events are durable, no error is raised any more."""
        if check:
            check(self._read(directory.parent).events)
        try:
            fd = os.open(self._name, _APPEND, 0o666, dir_fd=directory.parent)
        except FileNotFoundError:
            raise _DirectoryDeletedError(self._name) from None
        has_started = False
        try:
            status = os.fstat(fd)
            size, separator = status.st_size, b""
            if not size or self._state.end != (status.st_ino, size):
                separator = self._read_appended(fd, status)
            events, lines = self._assign_ids(drafts)
            if not size:
                lines.insert(0, self._make_header())
            data = separator + b"".join(lines) if lines else b""
            if not self._is_entry_synced:
                os.fsync(directory.parent)
                self._is_entry_synced = True
            if size + len(data) > MAX_LOG_BYTES:
                raise _log_full_error(self.path)
            if lines:
                has_started = True
                write_all(fd, data)
            if lines or not separator:  # else the file still ends in a line that was cut short: read it again
                self._state.end = status.st_ino, size + len(data)
            return events
        except BaseException:
            self._state = _FileState()  # it may contain ids that are not in the file
            if has_started:
                with suppress(OSError):
                    os.ftruncate(fd, size)
            raise
        finally:
            try:  # noqa: SIM105  cheaper than suppress(), and runs for every message
                os.close(fd)
            except OSError:
                pass

    def _assign_ids(self, drafts: Sequence[EventDraft]) -> tuple[list[Event], list[bytes]]:
        """Return the events with their ids and times, and the lines of those that are not in the file yet."""
        events, lines, state = [], [], self._state
        for draft in drafts:
            now = self._now()
            name = draft.id or id_at_milliseconds(now, EVENT_ID_KIND, state.last_id)
            event, line = draft.finish(name, draft.time or format_milliseconds(now))
            events.append(event)
            if name not in state.ids:
                lines.append(line)
                state.ids.add(name)
                if name > state.last_id and (not draft.id or is_id(name, EVENT_ID_KIND)):
                    state.last_id = name
        return events, lines

    def _read_appended(self, fd: int, status: os.stat_result) -> bytes:
        """Read the part that others appended; return a newline to write first if the last line was cut short."""
        check_log_file(status, self.path)
        start = self._state.unread_offset(status)
        if start and os.pread(fd, 1, start - 1) != b"\n":  # the file was changed in place: read all of it
            start = 0
        if not start:
            self._state = _FileState()
        data = _read_range(fd, start, status.st_size)
        self._state.add(self._parse(data).events)
        return b"" if data.endswith(b"\n") or not data else b"\n"

    def _read(self, parent: int, only: bytes = b"") -> ParsedLog:
        """Parse the file; the first read of the whole file also saves the next append from reading it."""
        fd = os.open(self._name, _READ, dir_fd=parent)
        try:
            check_log_file(os.fstat(fd), self.path)
            data, status = read_fd(fd, MAX_LOG_BYTES)
        finally:
            os.close(fd)
        if only:
            return self._parse(b"\n".join(select_lines(data, only)))
        parsed = self._parse(data)
        with self._mutex:
            if not self._state.end[0] and data.endswith(b"\n") and len(data) == status.st_size:
                self._state.add(parsed.events)
                self._state.end = status.st_ino, status.st_size
        return parsed

    def _parse(self, data: bytes) -> ParsedLog:
        """Parse lines; StorageError if a newer memfs wrote them, OtherActorError if they belong to another actor."""
        with gc_paused() if len(data) > _GC_PAUSE_BYTES else nullcontext():
            parsed = parse_log(data, self.path)
        header = parsed.header
        if header and header.version > SCHEMA_VERSION:
            error = StorageError(self.path, f"of schema version {header.version}: made by a newer memfs")
            raise error.with_hint("Install a later memfs: pip install --upgrade memfs-vault.")
        if header and self._actor and not is_owned_by(header.actor, self._actor):
            raise OtherActorError(self.path, header.actor, self._actor)
        return parsed

    @contextmanager
    def _open_directory(self) -> Iterator[int]:
        root = open_root(self._root)
        try:
            with open_directory(root, self._segments) as parent:
                yield parent
        finally:
            os.close(root)

    @contextmanager
    def _locked(self, *, create: bool = False) -> Iterator[LockedDirectory]:
        """Lock the session's directory; SessionNotFoundError if it is missing and `create` is False.

        InvalidNamespaceError if there is one whose name differs only in case.
        """
        try:
            with self._files.locked(self._segments, create=create) as directory:
                if directory.segments != self._segments:
                    reason = f"the same name as {directory.segments[-1]!r} but for case"
                    raise InvalidNamespaceError(self._segments[-1], reason)
                yield directory
        except MemoryNotFoundError:
            raise SessionNotFoundError("/".join(self._segments)) from None
        except OSError as error:
            raise translate_os_error(self.path, error) from error


class _DirectoryDeletedError(VaultError):
    """The directory was deleted while its lock was held, for example by git, which removes empty directories."""


def _millisecond_clock(clock: Clock) -> Callable[[], int]:
    """Return a clock in milliseconds since 1970; for the system clock without a datetime, which is faster."""
    return (lambda: time_ns() // 1_000_000) if clock is system_clock else lambda: unix_milliseconds(clock())


def _log_full_error(path: str) -> StorageError:
    error = StorageError(path, f"full: a log may have {MAX_LOG_BYTES // (1024 * 1024)} MiB at most")
    error.hint = "Continue in another session."
    return error


def _unreadable_error(path: str, error: OSError) -> StorageError:
    return StorageError(path, f"cannot be read: {error.strerror or error}")


def find_event(events: Iterable[Event], name: str) -> Event:
    """Return the event with this id; SessionNotFoundError if there is none."""
    for event in events:
        if event.id == name:
            return event
    raise SessionNotFoundError(name)


def _read_range(fd: int, start: int, end: int) -> bytes:
    """Read the bytes of an open file between two offsets."""
    pieces = []
    while start < end and (piece := os.pread(fd, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)
