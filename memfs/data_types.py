"""The values that travel between rooms: frozen, without I/O."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, Self, TypeGuard, TypeVar, cast

from memfs.namespace import Namespace

T = TypeVar("T")
ENCRYPTED_PREFIX = "enc:v1:"  # how an encrypted value begins, and a line of a body that is one
ENCRYPTED_LABEL = "[encrypted]"  # what is shown in its place
ENCRYPTED_LINE = re.compile(rf"^{ENCRYPTED_PREFIX}\S*", re.MULTILINE)
_HEADING = re.compile(r"^# +(\S.*)$", re.MULTILINE)
_FIRST_SENTENCE = re.compile(r"^(?!#)(\S.{0,300}?(?:[.!?](?=\s|$)|$))", re.MULTILINE)


def is_encrypted_value(value: object) -> TypeGuard[str]:
    """Tell whether a value is an encrypted one."""
    return isinstance(value, str) and value.startswith(ENCRYPTED_PREFIX)


def replace_encrypted_lines(text: str, instead: str = "") -> str:
    """A text without its encrypted lines."""
    return ENCRYPTED_LINE.sub(instead, text) if ENCRYPTED_PREFIX in text else text


def display_value(value: Any) -> Any:
    """A value as it is shown: `[encrypted]` stands for what is."""
    if isinstance(value, list | tuple):
        return [display_value(item) for item in value]
    return ENCRYPTED_LABEL if is_encrypted_value(value) else value


def copy_containers(value: Any) -> Any:
    """A value of a header as one may change it: its lists and mappings are copies."""
    if isinstance(value, list):
        return [copy_containers(item) for item in value]
    return {key: copy_containers(item) for key, item in value.items()} if isinstance(value, dict) else value


class Stamp(NamedTuple):
    """A token that differs when the file does."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    def __str__(self) -> str:
        return "-".join(f"{part:x}" for part in self)

    @classmethod
    def from_stat(cls, status: os.stat_result) -> Self:
        """The stamp of a file of which the system says this."""
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str(stamp)` wrote."""
        mtime, ctime, size, inode = (int(part, 16) for part in text.split("-"))
        return cls(mtime, ctime, size, inode)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that could not be understood, and where; of a whole namespace the line is 0."""

    path: str
    line: int
    reason: str
    key: str = ""
    value: str = ""
    hint: str = ""

    @property
    def place(self) -> str:
        """Where an editor finds it."""
        return f"{self.path}:{self.line}:" if self.line else f"{self.path}:"

    def __str__(self) -> str:
        return f"{self.place} {self.reason}"


_NO_TEXTS: tuple[str, ...] = ()
_NO_TEXT: str | None = None


def _header_property(name: str, default: T) -> T:
    """A property of the header: the value of a key, or its default."""
    return cast("T", property(lambda self: self.values.get(name, default)))


@dataclass(frozen=True, slots=True)
class Header:
    """The front-matter: known keys typed, unknown ones as YAML gave them."""

    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    type = _header_property("type", "note")
    description = _header_property("description", _NO_TEXT)
    tags = _header_property("tags", _NO_TEXTS)
    aliases = _header_property("aliases", _NO_TEXTS)
    supersedes = _header_property("supersedes", _NO_TEXTS)
    importance = _header_property("importance", 1)
    pinned = _header_property("pinned", False)
    source = _header_property("source", _NO_TEXT)
    status = _header_property("status", "stable")

    @property
    def created(self) -> datetime | None:
        return _start_of_day(self.values.get("created"))

    @property
    def updated(self) -> datetime | None:
        return _start_of_day(self.values.get("updated")) or self.created

    @property
    def valid_from(self) -> datetime | None:
        return _start_of_day(self.values.get("valid_from"))

    @property
    def valid_until(self) -> datetime | None:
        return _end_of_day(self.values.get("valid_until"))

    @property
    def expires(self) -> datetime | None:
        return _end_of_day(self.values.get("expires"))

    def get(self, key: str, default: object = None) -> Any:
        """The value of any key, known or not."""
        return self.values.get(key, default)


class ParsedFile(NamedTuple):
    """What a memory file's bytes say; the header is understood when it is asked for."""

    body: str
    parse_header: Callable[[], tuple[Header, tuple[Problem, ...]]]


class lazy(Generic[T]):  # noqa: N801  as `property` is
    """A property that is made when it is first asked for, and kept.

    A `cached_property` takes a lock, which a forked process finds held by a thread that it does not have.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    def __get__(self, instance: object, owner: type) -> T:
        if instance is None:
            return cast("T", self)  # of the class
        value = instance.__dict__[self._name] = self._make(instance)
        return value


@dataclass(frozen=True, init=False)
class Memory:
    """One markdown file as it was read; its bytes are understood when they are asked for."""

    path: str
    data: bytes = field(repr=False)
    status: os.stat_result = field(repr=False, compare=False)
    reader: Callable[[str, bytes], ParsedFile] = field(repr=False, compare=False)

    def __init__(
        self, path: str, data: bytes, status: os.stat_result, reader: Callable[[str, bytes], ParsedFile]
    ) -> None:
        values = self.__dict__  # as the generated one does, in less time
        values["path"], values["data"], values["status"], values["reader"] = path, data, status, reader

    @lazy
    def _parsed_file(self) -> ParsedFile:
        return self.reader(self.path, self.data)

    @property
    def stamp(self) -> Stamp:
        return Stamp.from_stat(self.status)

    @property
    def text(self) -> str:
        """The whole file."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return self.data.decode("latin-1")

    @lazy
    def _header_and_problems(self) -> tuple[Header, tuple[Problem, ...]]:
        return self._parsed_file.parse_header()

    @lazy
    def _is_header_immutable(self) -> bool:
        """Whether no value of the header can be changed."""
        return not any(isinstance(value, list | dict) for value in self._header_and_problems[0].values.values())

    @property
    def header(self) -> Header:
        header = self._header_and_problems[0]  # of several who were given this memory, none changes it for the others
        return header if self._is_header_immutable else Header(MappingProxyType(copy_containers(dict(header.values))))

    @lazy
    def body(self) -> str:
        return self._parsed_file.body

    @property
    def is_encrypted(self) -> bool:
        """Whether the body is encrypted, or a line of it."""
        return self.legible != self.body

    @property
    def legible(self) -> str:
        """The body as it is shown: `[encrypted]` stands for what is."""
        return replace_encrypted_lines(self.body, ENCRYPTED_LABEL)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._header_and_problems[1]

    @property
    def id(self) -> str:
        return memory_id(self.path, self.header.values)

    @property
    def namespace(self) -> Namespace:
        return Namespace(tuple(self.path.split("/")[:-1]))

    @lazy
    def title(self) -> str:
        body = self.body
        head = self.data[: len(self.data) - len(body)]  # all of the header, at least
        if (b"title" in head or b"\\" in head) and (title := self.header.values.get("title")):
            return ENCRYPTED_LABEL if is_encrypted_value(title) else str(title)  # a header takes a while to read
        heading = _HEADING.search(body) if "#" in body else None
        return heading[1].rstrip("\r #") if heading else self.path.rpartition("/")[2].removesuffix(".md")

    @property
    def description(self) -> str:
        if said := self.header.description:
            return ENCRYPTED_LABEL if is_encrypted_value(said) else said
        sentence = _FIRST_SENTENCE.search(self.legible)
        return sentence[1].strip() if sentence else ""

    @property
    def created(self) -> datetime:
        return self.header.created or modification_time(self.status)

    @property
    def updated(self) -> datetime:
        return self.header.updated or self.created


Outcome = Literal[
    "created", "duplicate", "updated", "unchanged", "moved", "archived", "removed", "restored",
    "encrypted", "decrypted", "rotated",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: what it concerns, and what became of it. On disk when it is returned."""

    id: str
    path: str
    outcome: Outcome
    stamp: Stamp | None = None
    redacted: Mapping[str, int] = field(
        default_factory=dict, hash=False
    )  # what an agent said and is not there, by kind


ChangeKind = Literal["created", "updated", "moved", "removed"]


@dataclass(frozen=True, slots=True)
class Change:
    """A memory that came, changed, went or was moved."""

    kind: ChangeKind
    path: str
    old_path: str | None = None  # of one that was moved


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a memory was found, or not: one fact of it in words, and what it counts for."""

    text: str
    score: float = 0.0


@dataclass(frozen=True, init=False)
class Hit:
    """A memory that was found: `relevance` 0..1 means the same in every vault; hits are ordered by `rank`."""

    memory: Memory
    relevance: float
    rank: float
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()  # where the words of the question stand in the snippet
    why: tuple[Reason, ...] = ()

    def __init__(
        self,
        memory: Memory,
        relevance: float,
        rank: float,
        snippet: str,
        marks: tuple[tuple[int, int], ...] = (),
        why: tuple[Reason, ...] = (),
    ) -> None:
        values = self.__dict__  # as the generated one does, in less time
        values["memory"], values["relevance"], values["rank"] = memory, relevance, rank
        values["snippet"], values["marks"], values["why"] = snippet, marks, why

    @property
    def title(self) -> str:
        return self.memory.title

    @property
    def date(self) -> datetime:
        return self.memory.updated


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did. `problems` are files that could not be indexed, and what else went wrong."""

    added: int
    updated: int
    removed: int
    unchanged: int
    seconds: float
    problems: tuple[Problem, ...] = ()

    @property
    def memories(self) -> int:
        return self.added + self.updated + self.unchanged


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How things stand with the index."""

    generation: str  # names the published index; empty if there is none
    memories: int  # in the published index
    pending: int  # changes that are searched, and not published yet
    where: str  # disk, memory or none
    watcher: str  # process id of the live watcher of this vault, or empty
    notices: str  # how this process learns of changes: kernel, watcher, scan
    last_scan: datetime | None  # when a process last looked at every file
    trouble: str = ""  # why the index is not on disk, or could not be published, or what else is wrong
    semantic: str = "off"  # the model by which meaning is searched; off, or missing if that is not installed


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One kept version of a memory."""

    time: datetime
    hash: str
    size: int = field(compare=False)


def memory_id(path: str, values: Mapping[str, Any]) -> str:
    """The id of a memory with such a header: the one that is written there, or its path."""
    return values.get("id") or path.removesuffix(".md")


def as_time(value: object) -> date | datetime:
    """Read a date or a time; without a zone it is UTC. ValueError if it is neither."""
    if isinstance(value, datetime):
        if value.tzinfo is UTC:
            return value
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or len(value) < 10:
        raise ValueError(value)
    return date.fromisoformat(value) if len(value) == 10 else as_time(datetime.fromisoformat(value))


def modification_time(status: os.stat_result) -> datetime:
    """When a file was written last."""
    seconds = min(max(status.st_mtime_ns / 1e9, -62_135_596_800), 253_402_300_799)  # of years 1 to 9999
    return datetime.fromtimestamp(seconds, UTC)


def _start_of_day(value: date | datetime | None) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _end_of_day(value: date | datetime | None) -> datetime | None:
    first = _start_of_day(value)
    if first is None or isinstance(value, datetime):
        return first
    return first + timedelta(days=1, microseconds=-1) if first.date() < date.max else first.replace(hour=23)
