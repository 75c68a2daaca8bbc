"""What a vault and a hub had in common when they last met: `.memfs/hub/<hub>`, a log of lines.

For each memory the hash that both had; and the number of the hub's change up to which it was read. It is derived: where
it is missing or damaged, all memories are compared, and nothing is known to have been removed.
"""

import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from memfs.data_types import Stamp
from memfs.errors import LockTimeoutError
from memfs.fs.files import FILE_FLAGS, STATE_DIR, open_directory, read_fd, translate_os_error, write
from memfs.fs.locks import POLL_SECONDS, try_lock
from memfs.storage.state_dir import make

ROOM = "hub"
PATIENCE = 10.0  # seconds to wait for another push or pull of this vault
HEAD = "memfs hub 1"
SPARSE = 2  # lines for each memory, from which the log is written anew
MANY = 1000  # lines that it may have anyway
TAIL = 1 << 16  # bytes, in which the last position is looked for
LARGEST = 1 << 30
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | FILE_FLAGS


class Shared(NamedTuple):
    """A memory as both sides had it: its path here, and the stamp of the file, where that is to be relied on."""

    path: str
    hash: bytes
    id: str
    stamp: Stamp | None = None


class Place(NamedTuple):
    """Up to which change each namespace was read, and the memories that could not be settled by then."""

    positions: Mapping[str, int]
    unsettled: tuple[str, ...]


Notes = Iterable[tuple[str, Shared | None]]


class Ancestor:
    """What is remembered of one hub. `entries` are read when they are asked for, `place` at once."""

    def __init__(self, room: int, name: str) -> None:
        self._room, self._name = room, name
        self._entries: dict[str, Shared] | None = None
        self._lines = 0
        self.place = self._last_place() or self._load()

    @property
    def entries(self) -> Mapping[str, Shared]:
        """The memories that both had, by key."""
        if self._entries is None:
            self.place = self._load()
        assert self._entries is not None
        return self._entries

    def position(self, prefix: str) -> int:
        """The change up to which a namespace was read, by itself or with a larger one; 0 if never."""
        return max((seq for read, seq in self.place.positions.items() if prefix.startswith(read)), default=0)

    def note(self, notes: Notes) -> None:
        """Remember memories that both have; None for one that neither has."""
        changed = [(key, new) for key, new in notes if self.entries.get(key) != new]
        for key, new in changed:
            self._set(key, new)
        self._append(map(_entry_line, changed))

    def arrive(self, prefix: str, seq: int, unsettled: Iterable[str]) -> None:
        """Remember that a namespace was read up to a change, but for some memories."""
        others = {key for key in self.place.unsettled if not key.startswith(prefix)}
        kept = {
            read: number
            for read, number in self.place.positions.items()
            if not read.startswith(prefix) and number <= seq  # of a hub that was set back, none is true any more
        }
        self.place = Place(kept | {prefix: seq}, tuple(sorted(others.union(unsettled))))

    def advance(self, before: int, after: int) -> None:
        """Remember that the changes between two numbers are our own: whoever read up to the first has them."""
        moved = {read: after if seq == before else seq for read, seq in self.place.positions.items()}
        self.place = self.place._replace(positions=moved if before else {"": after})

    def end(self) -> None:
        """Have the place stand at the end of the log, where it is found at once."""
        if self._entries is not None and self._lines > SPARSE * len(self._entries) + MANY:
            self._rewrite()
        elif self._last_place() != self.place:
            self._append([_place_line(self.place)])

    def _set(self, key: str, new: Shared | None) -> None:
        assert self._entries is not None
        if new is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = new

    # --- the log

    def _last_place(self) -> Place | None:
        """The place, from the end of the log alone; None if it does not stand there."""
        with suppress(OSError, ValueError, KeyError, TypeError), self._opened() as fd:
            size = os.fstat(fd).st_size
            *_, line, rest = (b"\n" + os.pread(fd, TAIL, max(size - TAIL, 0))).split(b"\n")
            return _place(_value(line)) if not rest else None
        return None

    def _load(self) -> Place:
        """Read the whole log; what is damaged in it makes all of it worth nothing."""
        self._entries, self._lines, place = {}, 0, Place({}, ())
        with self._opened() as fd:
            lines = read_fd(fd, LARGEST).data.split(b"\n")
        is_torn = bool(lines.pop())  # by a writer that was killed
        try:
            for number, line in enumerate(lines):
                value = _value(line)
                if number == 0:
                    if value != HEAD:
                        raise ValueError(value)
                elif found := _place(value):
                    place = found
                else:
                    self._set(*_entry(value))
            self._lines = len(lines)
        except (ValueError, TypeError, KeyError):
            self._entries, self._lines, place = {}, 0, Place({}, ())
        if is_torn or not self._lines:
            self.place = place
            self._rewrite()
        return place

    def _append(self, lines: Iterable[bytes]) -> None:
        if data := b"".join(lines):
            with self._opened() as fd:
                os.write(fd, data)
            self._lines += data.count(b"\n")

    def _rewrite(self) -> None:
        entries = self._entries or {}
        data = b"".join([_line(HEAD), *map(_entry_line, entries.items()), _place_line(self.place)])
        with suppress(FileNotFoundError):
            os.unlink(f"{self._name}.new", dir_fd=self._room)
        write(self._room, f"{self._name}.new", data, durable=False)
        os.rename(f"{self._name}.new", self._name, src_dir_fd=self._room, dst_dir_fd=self._room)
        self._lines = len(entries) + 2

    @contextmanager
    def _opened(self) -> Iterator[int]:
        fd = os.open(self._name, _FLAGS, 0o600, dir_fd=self._room)
        try:
            yield fd
        finally:
            os.close(fd)


@contextmanager
def remembered(root: int, hub: str) -> Iterator[Ancestor]:
    """What is remembered of a hub, for one push or pull of the vault at a time."""
    deadline = time.monotonic() + PATIENCE
    try:
        make(root)
        with open_directory(root, (STATE_DIR, ROOM), create=True) as room:
            while not try_lock(room):
                if time.monotonic() > deadline:
                    raise LockTimeoutError("push or pull", PATIENCE)
                time.sleep(POLL_SECONDS)
            ancestor = Ancestor(room, hub)
            yield ancestor
            ancestor.end()
    except OSError as error:
        raise translate_os_error(f"{STATE_DIR}/{ROOM}", error) from error


# --- lines --------------------------------------------------------------------------------------------


def _line(value: Any) -> bytes:
    data = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(data), data)


def _value(line: bytes) -> Any:
    """What a line says; ValueError if it is not as it was written."""
    if len(line) < 10 or line[:8] != b"%08x" % zlib.crc32(line[9:]):
        raise ValueError("a damaged line")
    return json.loads(line[9:])


def _entry_line(noted: tuple[str, Shared | None]) -> bytes:
    key, entry = noted
    if entry is None:
        return _line([key])
    return _line([key, entry.path, entry.hash.hex(), entry.id, str(entry.stamp) if entry.stamp else ""])


def _entry(value: Any) -> tuple[str, Shared | None]:
    if len(value) == 1:
        return value[0], None
    key, path, code, id_, stamp = value
    return key, Shared(path, bytes.fromhex(code), id_, Stamp.parse(stamp) if stamp else None)


def _place_line(place: Place) -> bytes:
    return _line({"positions": dict(place.positions), "unsettled": place.unsettled})


def _place(value: Any) -> Place | None:
    return Place(value["positions"], tuple(value["unsettled"])) if isinstance(value, dict) else None
