"""Count how often and when each memory was given to an agent, and how many searches of agents found something.

`.memfs/usage/recalls` is a log to which every process appends lines, and which is compacted now and then. A torn or
malformed line is skipped. The log can be deleted at any time: the counters then start at zero. A line has fields that
are separated by tabs, the last of them a dot; times are seconds since 1970:

    r <time> <id> ...                  a recall of these memories
    s <time> <id> ...                  a search that returned these memories, or none
    c <id> <times> <last>              the recalls of one memory, after compaction
    t <searches> <found> <since>       all searches, after compaction
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
from memfs.errors import MemfsError, NewerSchemaError
from memfs.fs.files import STATE_DIR, open_directory, open_root, raw_digest, write
from memfs.fs.handle_cache import HandleCache
from memfs.fs.locks import release, try_lock, try_lock_shared
from memfs.protocols import Clock, system_clock
from memfs.storage.part_formats import format_check, log_once
from memfs.storage.state_dir import create_state_dir

DIRECTORY, LOG_FILE = "usage", "recalls"
COMPACT_BYTES = 1 << 16  # a larger log is compacted once it has doubled since the last compaction
MAX_COUNTER_BYTES = 8 << 20  # of lines that compaction writes, the memories recalled last first
MAX_LOG_BYTES = 64 << 20  # a larger log is not read, and compaction empties it
LOCK_TIMEOUT = 0.5  # seconds to wait while another process compacts the log; then the recall is not counted
REFRESH_SECONDS = 1.0  # between two reads of other processes' counts, for ranking
YIELD_LINES = 50  # parsed between two pauses for other threads, which Python otherwise lets wait for 5 ms
YIELD_SECONDS = 2e-5  # duration of such a pause
_APPEND = os.O_RDWR | os.O_APPEND
_LINE_END = b"."  # the last field of each line: a line without it is torn
_MAX_DIGITS = 15  # of a number
_MAX_TIME = 253_402_300_799  # seconds: the end of the year 9999


class Recalls(NamedTuple):
    """How often a memory was given to an agent, and when last, in seconds since 1970."""

    times: int = 0
    last: float = 0.0


class Ratio(NamedTuple):
    """The searches of agents: how many there were, how many found something, and when the first was, since 1970."""

    searches: int = 0
    found: int = 0
    since: float = 0.0

    @property
    def share(self) -> float | None:
        """The share that found something; None if there was no search."""
        return self.found / self.searches if self.searches else None


NEVER_RECALLED = Recalls()


def id_hash(name: str) -> int:
    """Return the 64-bit number under which an index stores an id."""
    return int.from_bytes(raw_digest(name.encode(errors="replace")), signed=True)


class RecallLog:
    """The counters of one vault, by memory id. Thread-safe; a recall that cannot be written is not counted."""

    def __init__(self, root: str | os.PathLike[str], clock: Clock = system_clock) -> None:
        self._root, self._clock = os.fspath(root), clock
        self._path = os.path.join(self._root, STATE_DIR, DIRECTORY, LOG_FILE)
        check = format_check(DIRECTORY)
        self._write_handles = HandleCache(STATE_DIR, DIRECTORY, check=check)
        self._read_handles = HandleCache(STATE_DIR, DIRECTORY, check=check)
        self._mutex, self._read_mutex = Mutex(), Mutex()
        self.version = 0  # changes whenever this process learns of new recalls
        self._read_state: tuple[int, int] | None  # inode and size of the log at the last read
        self._reset()

    def _reset(self) -> None:
        """Forget all counters; the next use reads the log from its start."""
        self.version += 1
        self._refresh_at = 0.0  # when to read the counts of other processes
        self._tally, self._read_state, self._inode, self._position = Tally(), None, 0, 0
        self._view, self._by_id_hash = MappingProxyType(self._tally.counts), MappingProxyType(self._tally.by_id_hash)

    # --- counting

    def recalled(self, ids: Iterable[str]) -> None:
        """Count one recall of each of these memories: they were given to an agent."""
        self._append(b"r", ids)

    def searched(self, ids: Iterable[str]) -> None:
        """Count one search by an agent, and one recall of each memory it returned."""
        self._append(b"s", ids)

    def _append(self, kind: bytes, ids: Iterable[str]) -> None:
        seconds = int(self._clock().timestamp())
        data = b"\n" + _line(kind, b"%d" % seconds, *map(_encode_id, ids))  # the newline ends a torn line before it
        try:
            with self._mutex:
                self._write(data)
        except NewerSchemaError as error:
            log_once(error, "recalls are not counted")
        except (OSError, MemfsError):
            pass
        self._refresh_at = 0.0

    def _write(self, data: bytes) -> None:
        fd = self._open_shared()
        try:
            os.write(fd, data)
            is_due = _is_compaction_due(fd)
        finally:
            release(fd)
        if is_due:
            self._compact(fd)

    def _open_shared(self) -> int:
        """Open the log for appending, with a shared lock against compaction. Raise TimeoutError after LOCK_TIMEOUT."""
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            fd = self._write_handles.cached_fd(LOG_FILE, self._path)
            fd = fd if fd >= 0 else self._open_or_create()
            while not try_lock_shared(fd):
                if time.monotonic() > deadline:
                    raise TimeoutError
                time.sleep(0.001)
            if os.fstat(fd).st_nlink:
                return fd  # else it was replaced by a compacted one meanwhile

    def _open_or_create(self) -> int:
        """Open the log, after creating it, and the state directory that git ignores, if missing."""
        with self._root_fd() as root:
            try:
                return self._write_handles.open(root, LOG_FILE, _APPEND)
            except FileNotFoundError:
                create_state_dir(root)
                return self._write_handles.open(root, LOG_FILE, _APPEND | os.O_CREAT)

    @contextmanager
    def _root_fd(self) -> Iterator[int]:
        root = open_root(self._root)
        try:
            yield root
        finally:
            os.close(root)

    def _compact(self, fd: int) -> None:
        """Replace the log by a compacted one, unless another process has it locked."""
        if not try_lock(fd):
            return
        try:
            status = os.fstat(fd)
            if status.st_nlink and _is_compaction_due(fd):
                tally = Tally()
                tally.add_lines(os.pread(fd, status.st_size, 0) if status.st_size <= MAX_LOG_BYTES else b"")
                lines = b"".join(tally.lines())
                with self._root_fd() as root, open_directory(root, (STATE_DIR, DIRECTORY)) as parent:
                    with suppress(FileNotFoundError):
                        os.unlink(f"{LOG_FILE}.new", dir_fd=parent)
                    write(parent, f"{LOG_FILE}.new", b"%d\n%b" % (len(lines), lines), durable=False)
                    os.rename(f"{LOG_FILE}.new", LOG_FILE, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            release(fd)

    # --- reading

    def of(self, name: str) -> Recalls:
        """Return how often and when last the memory with this id was recalled; NEVER_RECALLED if it was not."""
        return self.snapshot().get(name, NEVER_RECALLED)

    def ratio(self) -> Ratio:
        """Return how many searches of agents there were, and how many found something."""
        self.snapshot()
        return Ratio(self._tally.searches, self._tally.found, self._tally.since)

    def snapshot(self) -> Mapping[str, Recalls]:
        """Return the recalls by memory id, as a view that later calls update. Costs one stat if nothing changed."""
        if self._read_state is None and not os.access(self._path, os.F_OK):
            return self._view  # cheaper than the exception of os.stat
        try:
            status = os.stat(self._path)
            state: tuple[int, int] | None = (status.st_ino, status.st_size)
        except OSError:
            state = None
        if state != self._read_state:
            with self._read_mutex:
                self._catch_up()
                self._read_state = state
                self.version += 1
        return self._view

    def by_id_hash(self) -> Mapping[int, Recalls]:
        """Return the recalls by id hash, as a view that later calls update.

        Recalls in other processes appear within REFRESH_SECONDS.
        """
        if (now := time.monotonic()) >= self._refresh_at:
            self._refresh_at = now + REFRESH_SECONDS  # before the read: a recall meanwhile resets it to 0
            self.snapshot()
        return self._by_id_hash

    def _catch_up(self) -> None:
        """Read the new lines of the log. Start again from zero if the log was replaced, or cannot be read."""
        try:
            # the log stays open, so that no other file gets its inode
            fd = self._read_handles.cached_fd(LOG_FILE, self._path)
            if fd < 0:
                with self._root_fd() as root:
                    fd = self._read_handles.open(root, LOG_FILE, os.O_RDONLY)
            status = os.fstat(fd)
            if status.st_ino != self._inode or status.st_size < self._position:
                self._reset()
            self._inode = status.st_ino
            if status.st_size <= MAX_LOG_BYTES:
                data = os.pread(fd, status.st_size - self._position, self._position)
                data = data[: data.rfind(b"\n") + 1]  # the rest is still being written
                self._position += len(data)
                self._tally.add_lines(data)
        except (OSError, MemfsError):
            self._reset()

    def close(self) -> None:
        """Close the files. The next use opens and reads them again."""
        with self._mutex:
            self._write_handles.close()
        with self._read_mutex:
            self._read_handles.close()
            self._reset()


class Tally:
    """The sums of the lines of a log."""

    def __init__(self) -> None:
        self.counts: dict[str, Recalls] = {}
        self.by_id_hash: dict[int, Recalls] = {}
        self.searches = self.found = 0
        self.since = 0.0

    def add_lines(self, data: bytes) -> None:
        """Add the lines in some bytes of a log; malformed lines are skipped."""
        for number, line in enumerate(data.split(b"\n")):
            if number % YIELD_LINES == YIELD_LINES - 1 and threading.active_count() > 1:
                time.sleep(YIELD_SECONDS)
            kind, *fields = line.split(b"\t")
            if fields and fields.pop() == _LINE_END:
                with suppress(ValueError):
                    self._add_line(kind, fields)

    def _add_line(self, kind: bytes, fields: list[bytes]) -> None:
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
        before = self.counts.get(key, NEVER_RECALLED)
        recalls = Recalls(before.times + times, max(before.last, min(last, _MAX_TIME)))
        self.counts[key] = self.by_id_hash[id_hash(key)] = recalls

    def _add_searches(self, searches: int, found: int, since: float) -> None:
        self.searches += searches
        self.found += min(found, searches)
        self.since = min(self.since or since, since, _MAX_TIME)

    def lines(self) -> Iterator[bytes]:
        """Yield the sums as lines, up to MAX_COUNTER_BYTES: the memories recalled longest ago are left out."""
        free_bytes = MAX_COUNTER_BYTES
        if self.searches:
            yield _line(b"t", b"%d" % self.searches, b"%d" % self.found, b"%d" % self.since)
        for name, (times, last) in sorted(self.counts.items(), key=lambda item: -item[1].last):
            line = _line(b"c", _encode_id(name), b"%d" % times, b"%d" % last)
            free_bytes -= len(line)
            if free_bytes < 0:
                break
            yield line


def _line(*fields: bytes) -> bytes:
    return b"\t".join((*fields, _LINE_END)) + b"\n"


def _encode_id(name: str) -> bytes:
    """Return an id as a field of a line, percent-encoded if it contains separators."""
    plain = name.isprintable() and "%" not in name
    return (name if plain else quote(name, safe="/ ", errors="replace")).encode()


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _MAX_DIGITS:
        raise ValueError(digits)
    return int(digits)


def _is_compaction_due(fd: int) -> bool:
    """Return whether a log is large, and has doubled since a compaction wrote its size to the first line."""
    size = os.fstat(fd).st_size
    if size <= COMPACT_BYTES:
        return False
    first = os.pread(fd, _MAX_DIGITS + 1, 0).partition(b"\n")[0]
    return size > 2 * min(int(first), MAX_COUNTER_BYTES) if first.isdigit() else True
