"""SyncState: the memories that a vault and a hub had in common after the last sync. A log in `.memfs/hub/<hub>`.

Each line has a checksum and is an entry (one memory, with the hash that both sides had) or a position (the number of
the hub's last change that was read). Of two entries with the same key, and of two positions, the later counts. The log
may be deleted: if it is missing or damaged, all memories are compared, and none is taken for removed.
"""

import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from memfs.data_types import Stamp
from memfs.errors import LockTimeoutError, NewerSchemaError
from memfs.fs.files import FILE_FLAGS, STATE_DIR, open_directory, read_fd, translate_os_error, write
from memfs.fs.locks import POLL_SECONDS, try_lock
from memfs.storage.state_dir import create_state_dir

HUB_DIR = "hub"
LOCK_TIMEOUT = 10.0  # seconds to wait for another push or pull of this vault
FORMAT = 1
HEADER = f"memfs hub {FORMAT}"
REWRITE_RATIO = 2  # lines per memory above which the log is rewritten
REWRITE_MIN_LINES = 1000  # lines that a log may have regardless of the ratio
TAIL_BYTES = 1 << 16  # end of the log that is searched for the last position
MAX_LOG_BYTES = 1 << 30
_FIRST_LINE = re.compile(rb'[0-9a-f]{8} "memfs hub ([0-9]{1,9})"\n')
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | FILE_FLAGS


class SyncedFile(NamedTuple):
    """One memory as both sides last had it. The stamp of the local file is None if it is not known or not reliable."""

    path: str
    hash: bytes
    id: str
    stamp: Stamp | None = None


class SyncPosition(NamedTuple):
    """The number of the hub's last change that was read, by key prefix, and the keys that could not be pulled yet."""

    positions: Mapping[str, int]
    pending: tuple[str, ...]


SyncedFiles = Iterable[tuple[str, SyncedFile | None]]  # by key; None for a memory that neither side has


class SyncState:
    """The sync state of one hub. `entries` are read on first use; `position` at once, if it is the last line."""

    def __init__(self, directory: int, name: str) -> None:
        self._directory, self._name = directory, name
        self._entries: dict[str, SyncedFile] | None = None
        self._lines = 0
        self._check_format()
        self.position = self._read_last_position() or self._load()

    @property
    def entries(self) -> Mapping[str, SyncedFile]:
        """The memories that both sides had, by key. Reading a damaged log resets `position` too."""
        if self._entries is None:
            self.position = self._load()
        assert self._entries is not None
        return self._entries

    def last_seq(self, prefix: str) -> int:
        """Return the number up to which all changes below a prefix were read; 0 if none were.

        A pull of a shorter prefix has read the changes below a longer one too.
        """
        return max((seq for read, seq in self.position.positions.items() if prefix.startswith(read)), default=0)

    def record(self, files: SyncedFiles) -> None:
        """Record the memories that both sides have now; None for one that neither has."""
        changed = [(key, new) for key, new in files if self.entries.get(key) != new]
        for key, new in changed:
            self._set(key, new)
        self._append(map(_entry_line, changed))

    def record_pull(self, prefix: str, seq: int, pending: Iterable[str]) -> None:
        """Record that all changes below a prefix were read up to a number, except for some pending keys."""
        others = {key for key in self.position.pending if not key.startswith(prefix)}
        kept = {
            read: number
            for read, number in self.position.positions.items()
            if not read.startswith(prefix) and number <= seq  # a hub restored from a backup invalidates larger numbers
        }
        self.position = SyncPosition(kept | {prefix: seq}, tuple(sorted(others.union(pending))))

    def record_push(self, before: int, after: int) -> None:
        """Record that the changes between two numbers are those of this vault, so that no pull needs to read them.

        A prefix that was not read up to `before` misses other changes, and keeps its position. On a new hub (`before`
        is 0) there are no others.
        """
        advanced = {read: after if seq == before else seq for read, seq in self.position.positions.items()}
        self.position = self.position._replace(positions=advanced if before else {"": after})

    def save_position(self) -> None:
        """Write the position to the end of the log, where it is found without reading the rest. Rewrite a long log."""
        if self._entries is not None and self._lines > REWRITE_RATIO * len(self._entries) + REWRITE_MIN_LINES:
            self._rewrite()
        elif self._read_last_position() != self.position:
            self._append([_position_line(self.position)])

    def _set(self, key: str, new: SyncedFile | None) -> None:
        assert self._entries is not None
        if new is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = new

    # --- the log

    def _check_format(self) -> None:
        """Raise NewerSchemaError if a later memfs wrote the log."""
        with self._open() as fd:
            found = _FIRST_LINE.match(os.pread(fd, 64, 0))
        if found and int(found[1]) > FORMAT:
            raise NewerSchemaError(f"{STATE_DIR}/{HUB_DIR}/{self._name}", int(found[1]), FORMAT)

    def _read_last_position(self) -> SyncPosition | None:
        """Read the position from the end of the log; None if the last line is not a position."""
        with suppress(OSError, ValueError, KeyError, TypeError), self._open() as fd:
            size = os.fstat(fd).st_size
            *_, line, rest = (b"\n" + os.pread(fd, TAIL_BYTES, max(size - TAIL_BYTES, 0))).split(b"\n")
            return _parse_position(_parse_line(line)) if not rest else None
        return None

    def _load(self) -> SyncPosition:
        """Read the whole log into `_entries`, and return the position. One damaged line discards all lines.

        A missing, damaged or incompletely written log is rewritten.
        """
        self._entries, self._lines, position = {}, 0, SyncPosition({}, ())
        with self._open() as fd:
            lines = read_fd(fd, MAX_LOG_BYTES).data.split(b"\n")
        is_torn = bool(lines.pop())  # the last line was not finished: its writer was killed
        try:
            for number, line in enumerate(lines):
                value = _parse_line(line)
                if number == 0:
                    if value != HEADER:
                        raise ValueError(value)
                elif found := _parse_position(value):
                    position = found
                else:
                    self._set(*_parse_entry(value))
            self._lines = len(lines)
        except (ValueError, TypeError, KeyError):
            self._entries, self._lines, position = {}, 0, SyncPosition({}, ())
        if is_torn or not self._lines:
            self.position = position
            self._rewrite()
        return position

    def _append(self, lines: Iterable[bytes]) -> None:
        if data := b"".join(lines):
            with self._open() as fd:
                os.write(fd, data)
            self._lines += data.count(b"\n")

    def _rewrite(self) -> None:
        entries = self._entries or {}
        data = b"".join([_line(HEADER), *map(_entry_line, entries.items()), _position_line(self.position)])
        with suppress(FileNotFoundError):
            os.unlink(f"{self._name}.new", dir_fd=self._directory)
        write(self._directory, f"{self._name}.new", data, durable=False)
        os.rename(f"{self._name}.new", self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._lines = len(entries) + 2

    @contextmanager
    def _open(self) -> Iterator[int]:
        fd = os.open(self._name, _FLAGS, 0o600, dir_fd=self._directory)
        try:
            yield fd
        finally:
            os.close(fd)


@contextmanager
def open_sync_state(root: int, hub: str) -> Iterator[SyncState]:
    """Yield the sync state of a hub, locked: one push or pull of a vault at a time. Save its position at the end.

    Raise LockTimeoutError if another one does not end in time. The position is not saved if the caller raises.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT
    try:
        create_state_dir(root)
        with open_directory(root, (STATE_DIR, HUB_DIR), create=True) as directory:
            while not try_lock(directory):
                if time.monotonic() > deadline:
                    raise LockTimeoutError("push or pull", LOCK_TIMEOUT)
                time.sleep(POLL_SECONDS)
            state = SyncState(directory, hub)
            yield state
            state.save_position()
    except OSError as error:
        raise translate_os_error(f"{STATE_DIR}/{HUB_DIR}", error) from error


# --- lines --------------------------------------------------------------------------------------------


def _line(value: Any) -> bytes:
    data = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(data), data)


def _parse_line(line: bytes) -> Any:
    """Return the JSON value of a line. Raise ValueError if its checksum is wrong."""
    if len(line) < 10 or line[:8] != b"%08x" % zlib.crc32(line[9:]):
        raise ValueError("a damaged line")
    return json.loads(line[9:])


def _entry_line(item: tuple[str, SyncedFile | None]) -> bytes:
    key, entry = item
    if entry is None:
        return _line([key])
    return _line([key, entry.path, entry.hash.hex(), entry.id, str(entry.stamp) if entry.stamp else ""])


def _parse_entry(value: Any) -> tuple[str, SyncedFile | None]:
    if len(value) == 1:
        return value[0], None
    key, path, hash_hex, id_, stamp = value
    return key, SyncedFile(path, bytes.fromhex(hash_hex), id_, Stamp.parse(stamp) if stamp else None)


def _position_line(position: SyncPosition) -> bytes:
    return _line({"positions": dict(position.positions), "unsettled": position.pending})


def _parse_position(value: Any) -> SyncPosition | None:
    return SyncPosition(value["positions"], tuple(value["unsettled"])) if isinstance(value, dict) else None
