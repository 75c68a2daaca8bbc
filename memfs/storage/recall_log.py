"""What agents were given: how often and when each memory was recalled, and how many of their searches found something.

`.memfs/usage/recalls` is a log of lines that every process appends to, and that is made shorter now and then. A line
that is torn or means nothing costs itself. Nothing of it is needed: deleted, the counters begin anew.
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from memfs.after_fork import Mutex
from memfs.errors import MemfsError
from memfs.fs.files import STATE_DIR, open_directory, open_root, raw_digest, write
from memfs.fs.handle_cache import HandleCache
from memfs.fs.locks import release, try_lock, try_lock_shared
from memfs.protocols import Clock, system_clock
from memfs.storage.state_dir import make

ROOM, NAME = "usage", "recalls"
COMPACT = 1 << 16  # bytes; a log is made shorter when it has doubled since, and is larger than this
MOST = 8 << 20  # bytes of counters that are kept: of those recalled last
LARGEST = 64 << 20  # bytes; a larger log is not ours
PATIENCE = 0.5  # seconds to wait for one who makes the log shorter; what comes later is not counted
PAUSE = 1.0  # seconds between two looks at what others counted, for a rank
AT_ONCE, TURN = 50, 2e-5  # lines until other threads have their turn, and seconds of it: by itself Python waits 5 ms
_APPEND = os.O_RDWR | os.O_APPEND
_END = b"."  # of each line: one without it was cut
_DIGITS = 15  # at most, of a number
_LATEST = 253_402_300_799  # seconds: the end of the year 9999


class Recalls(NamedTuple):
    """How often a memory was given to an agent, and when last, in seconds since 1970."""

    times: int = 0
    last: float = 0.0


class Ratio(NamedTuple):
    """The searches of agents: how many there were and found something, and since when they are counted."""

    searches: int = 0
    found: int = 0
    since: float = 0.0

    @property
    def share(self) -> float | None:
        """The share that found something; None if there was no search."""
        return self.found / self.searches if self.searches else None


NEVER = Recalls()


def mark_of(name: str) -> int:
    """What an index knows an id by: a number of 64 bits."""
    return int.from_bytes(raw_digest(name.encode(errors="replace")), signed=True)


class RecallLog:
    """The counters of one vault, keyed by the ids of memories. Thread-safe; what cannot be written is not counted."""

    def __init__(self, root: str | os.PathLike[str], clock: Clock = system_clock) -> None:
        self._root, self._clock = os.fspath(root), clock
        self._path = os.path.join(self._root, STATE_DIR, ROOM, NAME)
        self._writing, self._reading = HandleCache(STATE_DIR, ROOM), HandleCache(STATE_DIR, ROOM)
        self._mutex, self._looking = Mutex(), Mutex()
        self.version = 0  # is another one when something was recalled since, as far as this process knows
        self._known: tuple[int, int] | None  # inode and size of the log, when it was last looked at
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.version += 1
        self._due = 0.0  # when to look at what others counted
        self._tally, self._known, self._inode, self._position = Tally(), None, 0, 0
        self._view, self._marked = MappingProxyType(self._tally.counts), MappingProxyType(self._tally.marked)

    # --- counting

    def recalled(self, ids: Iterable[str]) -> None:
        """Count that an agent was given these memories."""
        self._note(b"r", ids)

    def searched(self, ids: Iterable[str]) -> None:
        """Count a search of an agent, which was given these memories, or none."""
        self._note(b"s", ids)

    def _note(self, kind: bytes, ids: Iterable[str]) -> None:
        seconds = int(self._clock().timestamp())
        data = b"\n" + _line(kind, b"%d" % seconds, *map(_spelled, ids))  # also behind a line that was cut
        with suppress(OSError, MemfsError), self._mutex:
            fd = self._shared()
            try:
                os.write(fd, data)
                is_due = _is_due(fd)
            finally:
                release(fd)
            if is_due:
                self._compact(fd)
        self._due = 0.0

    def _shared(self) -> int:
        """The log, open for appending, while nobody makes it shorter."""
        deadline = time.monotonic() + PATIENCE
        while True:
            fd = self._writing.cached_fd(NAME, self._path)
            fd = fd if fd >= 0 else self._opened()
            while not try_lock_shared(fd):
                if time.monotonic() > deadline:
                    raise TimeoutError
                time.sleep(0.001)
            if os.fstat(fd).st_nlink:
                return fd  # else it was replaced meanwhile

    def _opened(self) -> int:
        """The log, made in a state directory that git does not see, if it is missing."""
        with self._rooted() as root:
            try:
                return self._writing.open(root, NAME, _APPEND)
            except FileNotFoundError:
                make(root)
                return self._writing.open(root, NAME, _APPEND | os.O_CREAT)

    @contextmanager
    def _rooted(self) -> Iterator[int]:
        root = open_root(self._root)
        try:
            yield root
        finally:
            os.close(root)

    def _compact(self, fd: int) -> None:
        """Write a shorter log in the place of a long one, unless somebody is at it."""
        if not try_lock(fd):
            return
        try:
            status = os.fstat(fd)
            if status.st_nlink and _is_due(fd):
                tally = Tally()
                tally.take(os.pread(fd, status.st_size, 0) if status.st_size <= LARGEST else b"")
                lines = b"".join(tally.lines())
                with self._rooted() as root, open_directory(root, (STATE_DIR, ROOM)) as room:
                    with suppress(FileNotFoundError):
                        os.unlink(f"{NAME}.new", dir_fd=room)
                    write(room, f"{NAME}.new", b"%d\n%b" % (len(lines), lines), durable=False)
                    os.rename(f"{NAME}.new", NAME, src_dir_fd=room, dst_dir_fd=room)
        finally:
            release(fd)

    # --- looking

    def of(self, name: str) -> Recalls:
        """How often and when last a memory was recalled, by its id."""
        return self.snapshot().get(name, NEVER)

    def ratio(self) -> Ratio:
        """How many searches of agents found something."""
        self.snapshot()
        return Ratio(self._tally.searches, self._tally.found, self._tally.since)

    def snapshot(self) -> Mapping[str, Recalls]:
        """What was recalled, by id; a live view. Costs a look at the log's size if nothing changed."""
        if self._known is None and not os.access(self._path, os.F_OK):
            return self._view  # an exception takes longer
        try:
            status = os.stat(self._path)
            now: tuple[int, int] | None = (status.st_ino, status.st_size)
        except OSError:
            now = None
        if now != self._known:
            with self._looking:
                self._catch_up()
                self._known = now
                self.version += 1
        return self._view

    def marked(self) -> Mapping[int, Recalls]:
        """What was recalled, by the marks of the ids; what others count is here within a second."""
        if (now := time.monotonic()) >= self._due:
            self._due = now + PAUSE  # not after the look: what is counted meanwhile is due at once
            self.snapshot()
        return self._marked

    def _catch_up(self) -> None:
        """Read on where the log was read up to; a log that is another one, or gone, is begun with anew."""
        try:
            fd = self._reading.cached_fd(NAME, self._path)  # it stays open, so no other file gets its inode
            if fd < 0:
                with self._rooted() as root:
                    fd = self._reading.open(root, NAME, os.O_RDONLY)
            status = os.fstat(fd)
            if status.st_ino != self._inode or status.st_size < self._position:
                self._begin_anew()
            self._inode = status.st_ino
            if status.st_size <= LARGEST:
                data = os.pread(fd, status.st_size - self._position, self._position)
                data = data[: data.rfind(b"\n") + 1]  # what follows is being written
                self._position += len(data)
                self._tally.take(data)
        except (OSError, MemfsError):
            self._begin_anew()

    def close(self) -> None:
        """Give back what is held; the counters can still be used."""
        with self._mutex:
            self._writing.close()
        with self._looking:
            self._reading.close()
            self._begin_anew()


class Tally:
    """What the lines of a log add up to."""

    def __init__(self) -> None:
        self.counts: dict[str, Recalls] = {}
        self.marked: dict[int, Recalls] = {}
        self.searches = self.found = 0
        self.since = 0.0

    def take(self, data: bytes) -> None:
        """Add up some lines; one that cannot be read is passed over."""
        for number, line in enumerate(data.split(b"\n")):
            if number % AT_ONCE == AT_ONCE - 1 and threading.active_count() > 1:
                time.sleep(TURN)
            kind, *fields = line.split(b"\t")
            if fields and fields.pop() == _END:
                with suppress(ValueError):
                    self._take(kind, fields)

    def _take(self, kind: bytes, fields: list[bytes]) -> None:
        if kind in {b"r", b"s"} and fields:
            seconds, *names = fields
            last = _number(seconds)
            for name in names:
                self._count(name, 1, last)
            if kind == b"s":
                self._add_searches(1, bool(names), last)
        elif kind == b"c" and len(fields) == 3:
            self._count(fields[0], _number(fields[1]), _number(fields[2]))
        elif kind == b"t" and len(fields) == 3:
            self._add_searches(*map(_number, fields))

    def _count(self, name: bytes, times: int, last: float) -> None:
        key = unquote(name) if b"%" in name else name.decode()
        before = self.counts.get(key, NEVER)
        now = Recalls(before.times + times, max(before.last, min(last, _LATEST)))
        self.counts[key] = self.marked[mark_of(key)] = now

    def _add_searches(self, searches: int, found: int, since: float) -> None:
        self.searches += searches
        self.found += min(found, searches)
        self.since = min(self.since or since, since, _LATEST)

    def lines(self) -> Iterator[bytes]:
        """The same in as few lines as may be; what was not recalled for long is left out where it is too much."""
        room = MOST
        if self.searches:
            yield _line(b"t", b"%d" % self.searches, b"%d" % self.found, b"%d" % self.since)
        for name, (times, last) in sorted(self.counts.items(), key=lambda item: -item[1].last):
            line = _line(b"c", _spelled(name), b"%d" % times, b"%d" % last)
            room -= len(line)
            if room < 0:
                break
            yield line


def _line(*fields: bytes) -> bytes:
    return b"\t".join((*fields, _END)) + b"\n"


def _spelled(name: str) -> bytes:
    """An id in a line: one that holds what ends a field or a line is percent-encoded."""
    plain = name.isprintable() and "%" not in name
    return (name if plain else quote(name, safe="/ ", errors="replace")).encode()


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _DIGITS:
        raise ValueError(digits)
    return int(digits)


def _is_due(fd: int) -> bool:
    """Tell whether a log is twice as long as when it was last made shorter, which its first line tells."""
    size = os.fstat(fd).st_size
    if size <= COMPACT:
        return False
    first = os.pread(fd, _DIGITS + 1, 0).partition(b"\n")[0]
    return size > 2 * min(int(first), MOST) if first.isdigit() else True
