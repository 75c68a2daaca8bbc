"""What an agent has yet to save: turns and facts in `.memfs/pending`, batches no model could read in `.memfs/failed`.

The logs of a process lie in a directory of its own, locked as long as it lives; a log that was let go lies beside it.
What nobody holds is taken over by the next agent with its stores: it moves the log to its own directory, in one step,
so of two only one has it. A line is a JSON object; one that was cut short is skipped.
"""

import base64
import errno
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memfs.after_fork import Mutex
from memfs.agent.extraction_queue.process_dirs import (
    NEW,
    PENDING,
    SUFFIX,
    ProcessDirectory,
    remove_room,
    room_of,
    state_folder,
    unheld,
)
from memfs.agent.extraction_queue.turns import Amendment
from memfs.agent.messages import Message
from memfs.errors import MemfsError
from memfs.fs.files import STATE_DIR, open_directory, open_file, read, write

log = logging.getLogger("memfs.agent")
FAILED = "failed"
LARGEST = 256 * 1024 * 1024  # bytes of a log or a batch that is read
HEADS = 10_000  # of logs that are known
_BYTES = "memfs:bytes"
_heads: dict[tuple[Path, str], frozenset[str]] = {}


@dataclass
class Accepted:
    """A fact that a model was told is accepted, and that its stores may not have yet."""

    content: str
    stores: Sequence[str]
    metadata: Mapping[str, Any] | None = None


@dataclass
class Left:
    """What the log of a process that is gone holds: turns by number, how far each store has them, and facts."""

    log: "PendingLog"
    stores: set[str] = field(default_factory=set)
    turns: dict[int, Message] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Accepted] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.facts and not self.open_turns

    @property
    def open_turns(self) -> list[int]:
        """The turns that some store has yet to get; all of them, where nobody knows the stores."""
        mark = min((self.marks.get(store, -1) for store in self.stores), default=-1)
        return [number for number in self.turns if number > mark]

    def fresh(self, store: str) -> list[tuple[int, Message]]:
        """The turns that a store has yet to get, in order."""
        if store not in self.stores:
            return []
        mark = self.marks.get(store, -1)
        return [(number, self.turns[number]) for number in sorted(self.turns) if number > mark]

    def fit_for(self, stores: Set[str]) -> bool:
        """Tell whether some of it is for these stores."""
        return not self.part(self.log, self.stores & stores).is_empty

    def part(self, log: "PendingLog", stores: set[str]) -> "Left":
        """What of it is for some stores, as the content of a log."""
        facts = {
            key: Accepted(fact.content, [store for store in fact.stores if store in stores], fact.metadata)
            for key, fact in self.facts.items()
        }
        marks = {store: mark for store, mark in self.marks.items() if store in stores}
        turns = dict(self.turns) if stores else {}
        return Left(log, stores, turns, marks, {key: fact for key, fact in facts.items() if fact.stores})

    def records(self) -> list[dict[str, Any]]:
        """What is still to be done of it, as the lines of a log."""
        turns = [{"turn": number, "message": self.turns[number]} for number in sorted(self.open_turns)]
        marks = [{"store": store, "mark": mark} for store, mark in self.marks.items()]
        return [*turns, *marks, *({"fact": key, **asdict(fact)} for key, fact in self.facts.items())]

    def amend(self, change: Amendment) -> None:
        """Have another message in the place of one, or none."""
        kept = {number: change.of(message) for number, message in self.turns.items()}
        self.turns = {number: message for number, message in kept.items() if message is not None}
        self.log.amend(change)
        if self.is_empty:
            self.log.clear()
            self.log.close()


@dataclass(frozen=True)
class Failure:
    """A batch of turns that no model made facts of, kept for another try."""

    name: str
    store: str
    reason: str
    time: float
    messages: Sequence[Message]


@dataclass(frozen=True)
class Waiting:
    """A log that nobody holds; the next agent with its stores takes it over."""

    name: str
    stores: Sequence[str]
    turns: int
    facts: int
    time: float  # of its last line


class PendingLog:
    """One agent's log for some stores: a file that is there while something is pending. Thread-safe."""

    def __init__(self, root: Path, stores: Iterable[str] = ()) -> None:
        self._root, self._stores = root, sorted(stores)
        self._room: ProcessDirectory | None = None
        self._name = ""
        self._mutex = Mutex()

    def append(self, *records: Mapping[str, Any]) -> None:
        """Add lines; they survive this process, and after `sync` the machine."""
        lines = [_line(record) for record in records]
        with self._mutex:
            fd = self._opened()
            try:
                size = os.fstat(fd).st_size
                data = b"".join(lines if size else [_line({"stores": self._stores}), *lines])
                if os.write(fd, data) < len(data):  # the disk is full
                    os.ftruncate(fd, size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(fd)

    def sync(self) -> None:
        """Have all lines on the disk."""
        with self._mutex:
            room, name = self._room, self._name
        if room:
            with suppress(FileNotFoundError):  # nothing is pending
                room.sync(name)

    def clear(self) -> None:
        """Nothing is pending any more."""
        with self._mutex:
            if self._room:
                self._room.remove(self._name)

    def amend(self, change: Amendment) -> None:
        """Have another message in the place of one, or none; no byte of it is left."""
        with self._mutex:
            if self._room:
                self._room.rewrite(self._name, lambda data: _amended(data, change))

    def close(self) -> None:
        """Let go; what is still pending waits for the next agent on the vault."""
        with self._mutex:
            if self._room:
                self._room.let_go(self._name)
                self._room.tidy()
                self._room, self._name = None, ""

    def take(self, place: int, name: str) -> bool:
        """Become the log of this name in an open directory, which nobody holds; False if somebody else took it."""
        with self._mutex, suppress(OSError, MemfsError):
            room = room_of(self._root)
            self._name, self._room = room.take(place, name), room
            return True
        return False

    def __del__(self) -> None:
        with suppress(Exception):  # nobody closed it. Whatever this interrupts may be about to use the room: it stays
            if self._room:
                self._room.let_go(self._name)

    def _opened(self) -> int:
        self._room = self._room or room_of(self._root)
        self._name = self._name or self._room.new_name()
        return self._room.open(self._name)


def orphans(root: Path, stores: Set[str]) -> list[Left]:
    """Take over what processes that are gone left for these stores."""
    taken = []
    with suppress(OSError, MemfsError), state_folder(root, PENDING, create=False) as top:
        for new in (name for name in os.listdir(top) if name.startswith(NEW)):
            remove_room(top, new)
        for place, room in unheld(top):
            for name, left, _ in _logs(root, place, lambda name: _may_be_for(stores, root, room, place, name)):  # noqa: B023  asked at once
                if left.is_empty:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=place)
                elif left.fit_for(stores) and left.log.take(place, name):
                    taken.append(left if left.stores <= stores else _parted(root, left, stores))
            remove_room(top, room)
    return taken


def _parted(root: Path, left: Left, stores: Set[str]) -> Left:
    """What of a log that was taken is for some stores; the rest waits for the others in a log of its own."""
    others = left.stores - stores
    rest = left.part(PendingLog(root, others), others)
    if not rest.is_empty:
        rest.log.append(*rest.records())
        rest.log.sync()
        rest.log.close()
    mine = left.part(left.log, left.stores & stores)
    left.log.append({"stores": sorted(mine.stores)}, *({"done": key} for key in left.facts.keys() - mine.facts.keys()))
    left.log.sync()
    return mine


def _may_be_for(stores: Set[str], root: Path, room: str, place: int, name: str) -> bool:
    """Tell by its first line whether a log may be for some stores; it is read once, for it stays."""
    key = (root, f"{room}/{name}")
    if key not in _heads:
        if len(_heads) >= HEADS:
            _heads.clear()
        _heads[key] = _head(place, name)
    return not _heads[key] or bool(_heads[key] & stores)


def _head(place: int, name: str) -> frozenset[str]:
    """The stores that a log is for; none if its first line does not say."""
    with suppress(OSError, MemfsError, ValueError, RecursionError), open_file(place, name) as fd:
        match json.loads(os.pread(fd, 65536, 0).strip().partition(b"\n")[0]):
            case {"stores": list(stores)}:
                return frozenset(map(str, stores))
    return frozenset()


def waiting(root: Path) -> list[Waiting]:
    """What nobody holds, as it is: the oldest first."""
    found = []
    with suppress(OSError, MemfsError), state_folder(root, PENDING, create=False) as top:
        for place, room in unheld(top):
            for name, left, moment in _logs(root, place):
                if not left.is_empty:
                    path = "/".join(filter(None, (room, name.removesuffix(SUFFIX))))
                    found.append(Waiting(path, sorted(left.stores), len(left.open_turns), len(left.facts), moment))
    return sorted(found, key=lambda one: (one.time, one.name))


def amend_unheld(root: Path, change: Amendment) -> None:
    """Have another message in the place of one, or none, in what nobody holds, and in what no model could read."""
    with suppress(FileNotFoundError, NotADirectoryError), state_folder(root, PENDING, create=False) as top:
        for place, room in unheld(top):
            for name, left, _ in _logs(root, place):
                if change.concerns(left.turns.values()) and left.log.take(place, name):
                    left.amend(change)
                    left.log.close()
            remove_room(top, room)
    for failure in failures(root):
        if change.concerns(failure.messages):
            if kept := change.among(failure.messages):
                keep_failed(root, failure.store, failure.reason, kept)
            drop(root, failure)


def keep_failed(root: Path, store: str, reason: str, messages: Sequence[Message]) -> str:
    """Keep a batch that no model made facts of; its name."""
    name = f"{time.time_ns()}-{secrets.token_hex(3)}.json"
    value = {"store": store, "reason": reason, "time": time.time(), "messages": messages}
    with state_folder(root, FAILED) as room:
        text = json.dumps(value, ensure_ascii=False, indent=1, default=_plain)
        write(room, name, text.encode("utf-8", "surrogatepass"))
        os.chmod(name, 0o600, dir_fd=room)
        os.fsync(room)
    return name


def failures(root: Path) -> list[Failure]:
    """The batches that were kept, oldest first."""
    with suppress(OSError, MemfsError), state_folder(root, FAILED, create=False) as room:
        return [found for name in sorted(os.listdir(room)) if (found := _failure(room, name))]
    return []


def retry(root: Path, failure: Failure) -> None:
    """Put a batch back to what is pending: the next agent on the vault takes it up."""
    log = PendingLog(root, [failure.store])
    log.append(*({"turn": at, "message": one} for at, one in enumerate(failure.messages)))
    log.sync()
    log.close()
    drop(root, failure)


def drop(root: Path, kept: Failure | Waiting) -> None:
    """Give a batch up, or what nobody holds."""
    with suppress(FileNotFoundError):
        if isinstance(kept, Failure):
            with state_folder(root, FAILED) as room:
                os.unlink(kept.name, dir_fd=room)
            return
        *room_name, name = kept.name.split("/")
        with state_folder(root, PENDING) as top, open_directory(top, tuple(room_name)) as room:
            os.unlink(name + SUFFIX, dir_fd=room)
            remove_room(top, "".join(room_name))


def _logs(root: Path, place: int, wants: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, Left, float]]:
    """The logs in an open directory: name, what it holds, and the time of its last line."""
    for name in sorted(os.listdir(place)):
        if name.endswith(SUFFIX) and wants(name):
            try:
                content = read(place, name, LARGEST)
            except (FileNotFoundError, PermissionError):
                continue
            except OSError as error:
                log.warning("%s/%s: %s is left alone: %s", STATE_DIR, PENDING, name, error)
                continue
            yield name, _understood(PendingLog(root), content.data), content.status.st_mtime


def _line(record: Mapping[str, Any]) -> bytes:
    """A record on a line of its own, also behind one that was cut short."""
    return b"\n" + json.dumps(record, default=_plain).encode()


def _amended(data: bytes, change: Amendment) -> bytes:
    """The lines of a log with another message in the place of one, or none; what cannot be read is left out."""
    lines = []
    for line in filter(None, data.split(b"\n")):
        with suppress(ValueError, RecursionError):
            record = json.loads(line, object_hook=_bytes_again)
            message = record.get("message") if isinstance(record, dict) else None
            kept = change.of(message) if isinstance(message, dict) else message
            if kept is message:
                lines.append(b"\n" + line)
            elif kept is not None:
                lines.append(_line({**record, "message": kept}))
    return b"".join(lines)


def _understood(log: PendingLog, data: bytes) -> Left:
    left = Left(log)
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):
            _take_in(left, json.loads(line, object_hook=_bytes_again))
    return left


def _take_in(left: Left, record: Any) -> None:
    match record:
        case {"turn": int(number), "message": {"role": str(), "content": str() | list() | None} as message}:
            left.turns[number] = message
        case {"store": str(store), "mark": int(mark)}:
            left.marks[store] = mark
        case {"fact": str(key), "content": str(content), "stores": list(stores), "metadata": dict() | None as metadata}:
            left.facts[key] = Accepted(content, [str(store) for store in stores], metadata)
        case {"done": str(key)}:
            left.facts.pop(key, None)
        case {"stores": list(stores)} if len(record) == 1:
            left.stores = {str(store) for store in stores}


def _failure(room: int, name: str) -> Failure | None:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, MemfsError):
        value = json.loads(read(room, name, LARGEST).data, object_hook=_bytes_again)
        messages = [message for message in value["messages"] if isinstance(message, dict)]
        return Failure(name, str(value["store"]), str(value["reason"]), float(value["time"]), messages)
    return None


def _plain(value: object) -> object:
    """What JSON has no word for: bytes of an image, say, and else its text."""
    if isinstance(value, bytes | bytearray):
        return {_BYTES: base64.b64encode(value).decode()}
    return dict(value) if isinstance(value, Mapping) else str(value)


def _bytes_again(value: dict[str, Any]) -> object:
    with suppress(ValueError, TypeError):
        return base64.b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value
    return value
