"""What an agent has yet to save: turns and facts in `.memfs/pending`, batches no model could read in `.memfs/failed`.

A log is locked as long as its owner lives. One that nobody holds is of a process that is gone: the next agent on
the vault takes it over. A line is a JSON object; one that was cut short is skipped.
"""

import base64
import errno
import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memfs.agent.messages import Message
from memfs.errors import MemfsError
from memfs.files import FILE, STATE, folder, open_root, read, read_open, write
from memfs.locks import Mutex, try_lock

log = logging.getLogger("memfs.agent")
PENDING, FAILED = "pending", "failed"
LARGEST = 256 * 1024 * 1024  # bytes of a log or a batch that is read
_SUFFIX = ".jsonl"
_FLAGS = os.O_RDWR | os.O_APPEND | FILE
_BYTES = "memfs:bytes"


@dataclass
class Accepted:
    """A fact that a model was told is accepted, and that its stores may not have yet."""

    content: str
    stores: Sequence[str]
    metadata: Mapping[str, Any] | None = None


@dataclass
class Left:
    """What the log of a process that is gone holds: turns by number, how far each store has them, and facts."""

    log: "Log"
    stores: set[str] = field(default_factory=set)
    turns: dict[int, Message] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Accepted] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.facts and not any(self.fresh(store) for store in self.stores)

    def fresh(self, store: str) -> list[tuple[int, Message]]:
        """The turns that a store has yet to get, in order."""
        if store not in self.stores:
            return []
        mark = self.marks.get(store, -1)
        return [(number, self.turns[number]) for number in sorted(self.turns) if number > mark]


@dataclass(frozen=True)
class Failure:
    """A batch of turns that no model made facts of, kept for another try."""

    name: str
    store: str
    reason: str
    time: float
    messages: Sequence[Message]


class Log:
    """One agent's log for some stores. Thread-safe; a forked child begins one of its own."""

    def __init__(self, root: Path, stores: Iterable[str] = (), *, name: str = "") -> None:
        self._root, self.name, self._stores = root, name, sorted(stores)
        self._fd, self._pid, self._size = -1, os.getpid(), 0
        self._mutex = Mutex()

    def append(self, *records: Mapping[str, Any]) -> None:
        """Add lines; they survive this process, and after `sync` the machine."""
        with self._mutex:
            fd = self._opened()
            head = [] if self._size else [{"stores": self._stores}]
            data = b"".join(json.dumps(one, default=_plain).encode() + b"\n" for one in (*head, *records))
            if os.write(fd, data) < len(data):  # the disk is full: a piece of a line would spoil the next one
                os.ftruncate(fd, self._size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._size += len(data)

    def sync(self) -> None:
        """Have all lines on the disk."""
        with self._mutex:
            if self._fd >= 0 and self._pid == os.getpid():
                os.fsync(self._fd)

    def clear(self) -> None:
        """Nothing is pending any more."""
        with self._mutex:
            if self._fd >= 0 and self._pid == os.getpid() and self._size:
                os.ftruncate(self._fd, 0)
                self._size = 0

    def close(self) -> None:
        """Let go; what is still pending waits for the next agent on the vault."""
        with self._mutex:
            if self._fd < 0:
                return
            if self._pid == os.getpid() and not os.fstat(self._fd).st_size:
                with suppress(OSError, MemfsError), _room(self._root, PENDING) as room:
                    os.unlink(self.name, dir_fd=room)
            os.close(self._fd)
            self._fd = -1

    def take(self, stores: Set[str]) -> Left | None:
        """Take over a log that nobody holds; None if somebody does, if it is empty, or for other stores."""
        with self._mutex, _room(self._root, PENDING) as room:
            try:
                fd = os.open(self.name, _FLAGS, dir_fd=room)
            except OSError:
                return None
            if not try_lock(fd) or not os.fstat(fd).st_nlink:
                os.close(fd)
                return None
            try:
                data = read_open(fd, LARGEST).data
            except OSError as error:
                log.warning("%s/%s/%s is left alone: %s", STATE, PENDING, self.name, error)
                os.close(fd)
                return None
            self._fd, self._pid, self._size = fd, os.getpid(), len(data)
        left = _understood(self, data)
        if left.is_empty and (left.stores or not left.turns):
            self.clear()
        elif left.stores and left.stores <= stores:
            return left
        self.close()
        return None

    def __del__(self) -> None:
        if self._fd >= 0:  # nobody closed it: what is pending is for the next agent on the vault
            with suppress(OSError):
                os.close(self._fd)

    def _opened(self) -> int:
        if self._fd >= 0 and self._pid == os.getpid() and os.fstat(self._fd).st_nlink:
            return self._fd
        if self._fd >= 0:  # a parent's, or deleted with the state directory
            os.close(self._fd)
            self._fd = -1
        with _room(self._root, PENDING) as room:
            while True:
                self.name = f"{os.getpid()}-{secrets.token_hex(6)}{_SUFFIX}"
                fd = os.open(self.name, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=room)
                if try_lock(fd) and os.fstat(fd).st_nlink:
                    break
                os.close(fd)
            os.fsync(room)
        self._fd, self._pid, self._size = fd, os.getpid(), 0
        return fd


def orphans(root: Path, stores: Set[str]) -> list[Left]:
    """Take over what processes that are gone left for these stores."""
    with suppress(OSError, MemfsError), _room(root, PENDING, create=False) as room:
        names = sorted(name for name in os.listdir(room) if name.endswith(_SUFFIX))
        return [left for name in names if (left := Log(root, name=name).take(stores))]
    return []


def keep_failed(root: Path, store: str, reason: str, messages: Sequence[Message]) -> str:
    """Keep a batch that no model made facts of; its name."""
    name = f"{time.time_ns()}-{secrets.token_hex(3)}.json"
    value = {"store": store, "reason": reason, "time": time.time(), "messages": messages}
    with _room(root, FAILED) as room:
        text = json.dumps(value, ensure_ascii=False, indent=1, default=_plain)
        write(room, name, text.encode("utf-8", "surrogatepass"))
        os.fsync(room)
    return name


def failures(root: Path) -> list[Failure]:
    """The batches that were kept, oldest first."""
    with suppress(OSError, MemfsError), _room(root, FAILED, create=False) as room:
        return [found for name in sorted(os.listdir(room)) if (found := _failure(room, name))]
    return []


def retry(root: Path, failure: Failure) -> None:
    """Put a batch back to what is pending: the next agent on the vault takes it up."""
    log = Log(root, [failure.store])
    log.append(*({"turn": at, "message": one} for at, one in enumerate(failure.messages)))
    log.sync()
    log.close()
    drop(root, failure)


def drop(root: Path, failure: Failure) -> None:
    """Give a batch up."""
    with suppress(FileNotFoundError), _room(root, FAILED) as room:
        os.unlink(failure.name, dir_fd=room)


@contextmanager
def _room(root: Path, name: str, *, create: bool = True) -> Iterator[int]:
    top = open_root(root)
    try:
        with folder(top, (STATE, name), create=create) as room:
            yield room
    finally:
        os.close(top)


def _understood(log: Log, data: bytes) -> Left:
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
