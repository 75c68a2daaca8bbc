"""Logs of turns and facts that are not in their stores yet, in `.memfs/pending`.

The logs of a process are in its own directory, which is locked as long as the process lives; a closed log moves to
`.memfs/pending` itself. A log without a live owner is taken over by the next agent with its stores: it renames the log
into its own directory, so of two agents only one gets it. Each line is a JSON object; a truncated line is skipped.
"""

import base64
import errno
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memfs.after_fork import Mutex
from memfs.agent.extraction_queue.process_dirs import (
    LOG_SUFFIX,
    NEW_PREFIX,
    PENDING,
    ProcessDirectory,
    open_state_dir,
    orphan_dirs,
    process_directory,
    remove_dir_if_empty,
)
from memfs.agent.extraction_queue.turns import MessageEdit
from memfs.agent.messages import Message
from memfs.errors import MemfsError, VaultError
from memfs.fs.files import STATE_DIR, open_directory, open_file, read

log = logging.getLogger("memfs.agent")
MAX_FILE_BYTES = 256 * 1024 * 1024  # of a file that is read
MAX_CACHED_LOGS = 10_000  # whose stores are cached
_BYTES_KEY = "memfs:bytes"
_stores_by_log: dict[tuple[Path, str], frozenset[str]] = {}


@dataclass
class AcceptedFact:
    """A fact that was accepted from a model and may not be in its stores yet."""

    content: str
    stores: Sequence[str]
    metadata: Mapping[str, Any] | None = None


@dataclass
class OrphanLog:
    """The content of a log without a live owner: turns by number, the last saved turn per store, and facts by key.

    Stores are identified by their places (see `store_place`).
    """

    log: "PendingLog"
    stores: set[str] = field(default_factory=set)
    turns: dict[int, Message] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    facts: dict[str, AcceptedFact] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether every store has its turns and facts."""
        return not self.facts and not self.open_turns

    @property
    def open_turns(self) -> list[int]:
        """The numbers of the turns that some store does not have yet; all turns if the stores are unknown."""
        mark = min((self.marks.get(store, -1) for store in self.stores), default=-1)
        return [number for number in self.turns if number > mark]

    def unsaved_turns(self, store: str) -> list[tuple[int, Message]]:
        """Return the turns that a store does not have yet, in order."""
        if store not in self.stores:
            return []
        mark = self.marks.get(store, -1)
        return [(number, self.turns[number]) for number in sorted(self.turns) if number > mark]

    def is_for(self, stores: Set[str]) -> bool:
        """Return whether some of the content is for these stores."""
        return not self.part(self.log, self.stores & stores).is_empty

    def part(self, log: "PendingLog", stores: set[str]) -> "OrphanLog":
        """Return the content that is for some stores, as the content of another log."""
        facts = {
            key: AcceptedFact(fact.content, [store for store in fact.stores if store in stores], fact.metadata)
            for key, fact in self.facts.items()
        }
        marks = {store: mark for store, mark in self.marks.items() if store in stores}
        turns = dict(self.turns) if stores else {}
        return OrphanLog(log, stores, turns, marks, {key: fact for key, fact in facts.items() if fact.stores})

    def records(self) -> list[dict[str, Any]]:
        """Return the unsaved content as records of a log."""
        turns = [{"turn": number, "message": self.turns[number]} for number in sorted(self.open_turns)]
        marks = [{"store": store, "mark": mark} for store, mark in self.marks.items()]
        return [*turns, *marks, *({"fact": key, **asdict(fact)} for key, fact in self.facts.items())]

    def edit_message(self, edit: MessageEdit) -> None:
        """Replace or remove a message, here and in the file."""
        edited = {number: edit.apply(message) for number, message in self.turns.items()}
        self.turns = {number: message for number, message in edited.items() if message is not None}
        self.log.edit_message(edit)
        if self.is_empty:
            self.log.clear()
            self.log.close()


@dataclass(frozen=True)
class PendingSummary:
    """What a log without a live owner contains; the next agent with its stores takes it over."""

    name: str
    stores: Sequence[str]
    turns: int
    facts: int
    time: float  # of its last change


class PendingLog:
    """The log of one agent for some stores: a file that exists while something is pending. Thread-safe."""

    def __init__(self, root: Path, stores: Iterable[str] = ()) -> None:
        self._root, self._stores = root, sorted(stores)
        self._directory: ProcessDirectory | None = None
        self._name = ""
        self._mutex = Mutex()

    def append(self, *records: Mapping[str, Any]) -> None:
        """Append records; they survive this process, and after `sync` a crash of the machine."""
        lines = [_encode(record) for record in records]
        with self._mutex:
            fd = self._open()
            try:
                size = os.fstat(fd).st_size
                data = b"".join(lines if size else [_encode({"stores": self._stores}), *lines])
                if os.write(fd, data) < len(data):  # the disk is full
                    os.ftruncate(fd, size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(fd)

    def sync(self) -> None:
        """Fsync the log."""
        with self._mutex:
            directory, name = self._directory, self._name
        if directory:
            with suppress(FileNotFoundError):  # nothing is pending
                directory.sync(name)

    def clear(self) -> None:
        """Delete the file: nothing is pending any more."""
        with self._mutex:
            if self._directory:
                self._directory.remove(self._name)

    def edit_message(self, edit: MessageEdit) -> None:
        """Replace or remove a message; no byte of it stays in the file."""
        with self._mutex:
            if self._directory:
                self._directory.rewrite(self._name, lambda data: _edit_lines(data, edit))

    def close(self) -> None:
        """Release the file; its pending content waits for the next agent on the vault."""
        with self._mutex:
            if self._directory:
                self._directory.release(self._name)
                self._directory.remove_if_empty()
                self._directory, self._name = None, ""

    def take_over(self, source: int, name: str) -> bool:
        """Become the log of this name in an open directory; return False if another process took it over first."""
        with self._mutex, suppress(OSError, MemfsError):
            directory = process_directory(self._root)
            self._name, self._directory = directory.take_over(source, name), directory
            return True
        return False

    def __del__(self) -> None:
        with suppress(Exception):  # it was not closed. The directory stays: interrupted code may be about to use it
            if self._directory:
                self._directory.release(self._name)

    def _open(self) -> int:
        self._directory = self._directory or process_directory(self._root)
        self._name = self._name or self._directory.new_name()
        return self._directory.open(self._name)


def adopt_orphans(root: Path, stores: Set[str]) -> list[OrphanLog]:
    """Take over the logs for these stores whose processes have ended, and return their content."""
    adopted = []
    with suppress(OSError, MemfsError), open_state_dir(root, PENDING, create=False) as pending:
        for new in (name for name in os.listdir(pending) if name.startswith(NEW_PREFIX)):
            remove_dir_if_empty(pending, new)
        for directory, dir_name in orphan_dirs(pending):
            for name, orphan, _ in _read_logs(
                root,
                directory,
                lambda name: _may_be_for(stores, root, dir_name, directory, name),  # noqa: B023  called at once
            ):
                if orphan.is_empty:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=directory)
                elif orphan.is_for(stores) and orphan.log.take_over(directory, name):
                    adopted.append(orphan if orphan.stores <= stores else _split_off_others(root, orphan, stores))
            remove_dir_if_empty(pending, dir_name)
    return adopted


def _split_off_others(root: Path, orphan: OrphanLog, stores: Set[str]) -> OrphanLog:
    """Return the part of an adopted log that is for some stores; write the rest to a log of its own and release it."""
    others = orphan.stores - stores
    rest = orphan.part(PendingLog(root, others), others)
    if not rest.is_empty:
        rest.log.append(*rest.records())
        rest.log.sync()
        rest.log.close()
    mine = orphan.part(orphan.log, orphan.stores & stores)
    not_mine = orphan.facts.keys() - mine.facts.keys()
    orphan.log.append({"stores": sorted(mine.stores)}, *({"done": key} for key in not_mine))
    orphan.log.sync()
    return mine


def _may_be_for(stores: Set[str], root: Path, dir_name: str, directory: int, name: str) -> bool:
    """Return whether a log may be for some stores, by its first line, which is cached because it never changes."""
    key = (root, f"{dir_name}/{name}")
    if key not in _stores_by_log:
        if len(_stores_by_log) >= MAX_CACHED_LOGS:
            _stores_by_log.clear()
        _stores_by_log[key] = _read_stores(directory, name)
    return not _stores_by_log[key] or bool(_stores_by_log[key] & stores)


def _read_stores(directory: int, name: str) -> frozenset[str]:
    """Return the stores in the first line of a log; empty if the line has none."""
    with suppress(OSError, MemfsError, ValueError, RecursionError), open_file(directory, name) as fd:
        match json.loads(os.pread(fd, 65536, 0).strip().partition(b"\n")[0]):
            case {"stores": list(stores)}:
                return frozenset(map(str, stores))
    return frozenset()


def list_pending(root: Path) -> list[PendingSummary]:
    """Return the logs without a live owner, oldest first; none is taken over."""
    found = []
    with suppress(OSError, VaultError), open_state_dir(root, PENDING, create=False) as pending:
        for directory, dir_name in orphan_dirs(pending):
            for name, orphan, modified in _read_logs(root, directory):
                if not orphan.is_empty:
                    path = "/".join(filter(None, (dir_name, name.removesuffix(LOG_SUFFIX))))
                    counts = len(orphan.open_turns), len(orphan.facts)
                    found.append(PendingSummary(path, sorted(orphan.stores), *counts, modified))
    return sorted(found, key=lambda one: (one.time, one.name))


def edit_orphans(root: Path, edit: MessageEdit) -> None:
    """Replace or remove a message in the logs without a live owner."""
    with suppress(FileNotFoundError, NotADirectoryError), open_state_dir(root, PENDING, create=False) as pending:
        for directory, dir_name in orphan_dirs(pending):
            for name, orphan, _ in _read_logs(root, directory):
                if edit.affects(orphan.turns.values()) and orphan.log.take_over(directory, name):
                    orphan.edit_message(edit)
                    orphan.log.close()
            remove_dir_if_empty(pending, dir_name)


def drop_pending(root: Path, summary: PendingSummary) -> None:
    """Delete a log without a live owner; do nothing if it no longer exists."""
    *dir_names, name = summary.name.split("/")
    with (
        suppress(FileNotFoundError),
        open_state_dir(root, PENDING) as pending,
        open_directory(pending, tuple(dir_names)) as directory,
    ):
        os.unlink(name + LOG_SUFFIX, dir_fd=directory)
        remove_dir_if_empty(pending, "".join(dir_names))


# --- file contents


def _read_logs(
    root: Path, directory: int, wants: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, OrphanLog, float]]:
    """Yield the name, the content and the modification time of the logs in a directory whose names `wants` accepts."""
    for name in sorted(os.listdir(directory)):
        if name.endswith(LOG_SUFFIX) and wants(name):
            try:
                content = read(directory, name, MAX_FILE_BYTES)
            except (FileNotFoundError, PermissionError):
                continue
            except OSError as error:
                log.warning("%s/%s: %s is left alone: %s", STATE_DIR, PENDING, name, error)
                continue
            yield name, _parse_log(PendingLog(root), content.data), content.status.st_mtime


def _encode(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line; it starts with a line break, so that it is whole even after a truncated line."""
    return b"\n" + json.dumps(record, default=to_json).encode()


def _edit_lines(data: bytes, edit: MessageEdit) -> bytes:
    """Return the lines of a log after an edit; lines that cannot be parsed are left out."""
    lines = []
    for line in filter(None, data.split(b"\n")):
        with suppress(ValueError, RecursionError):
            record = json.loads(line, object_hook=from_json)
            message = record.get("message") if isinstance(record, dict) else None
            edited = edit.apply(message) if isinstance(message, dict) else message
            if edited is message:
                lines.append(b"\n" + line)
            elif edited is not None:
                lines.append(_encode({**record, "message": edited}))
    return b"".join(lines)


def _parse_log(log: PendingLog, data: bytes) -> OrphanLog:
    orphan = OrphanLog(log)
    for line in data.split(b"\n"):
        with suppress(ValueError, RecursionError):
            _apply_record(orphan, json.loads(line, object_hook=from_json))
    return orphan


def _apply_record(orphan: OrphanLog, record: Any) -> None:
    match record:
        case {"turn": int(number), "message": {"role": str(), "content": str() | list() | None} as message}:
            orphan.turns[number] = message
        case {"store": str(store), "mark": int(mark)}:
            orphan.marks[store] = mark
        case {"fact": str(key), "content": str(content), "stores": list(stores), "metadata": dict() | None as metadata}:
            orphan.facts[key] = AcceptedFact(content, [str(store) for store in stores], metadata)
        case {"done": str(key)}:
            orphan.facts.pop(key, None)
        case {"stores": list(stores)} if len(record) == 1:
            orphan.stores = {str(store) for store in stores}


def to_json(value: object) -> object:
    """Return a JSON form of a value that JSON has no type for: bytes in base64, a mapping as a dict, else its text."""
    if isinstance(value, bytes | bytearray):
        return {_BYTES_KEY: base64.b64encode(value).decode()}
    return dict(value) if isinstance(value, Mapping) else str(value)


def from_json(value: dict[str, Any]) -> object:
    """Return the bytes that `to_json` encoded, and any other object unchanged; an `object_hook` of json."""
    with suppress(ValueError, TypeError):
        return base64.b64decode(value[_BYTES_KEY]) if value.keys() == {_BYTES_KEY} else value
    return value
