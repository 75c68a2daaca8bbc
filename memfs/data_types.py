"""The values that packages pass to each other, among them the public Memory, Header and Hit: frozen, without I/O."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, Self, TypeGuard, TypeVar, cast

from memfs.namespace import Namespace

T = TypeVar("T")
ENCRYPTED_PREFIX = "enc:v1:"  # an encrypted header value or body line begins with it
ENCRYPTED_LABEL = "[encrypted]"  # shown in place of an encrypted value
ENCRYPTED_LINE = re.compile(rf"^{ENCRYPTED_PREFIX}\S*", re.MULTILINE)
_HEADING = re.compile(r"^# +(\S.*)$", re.MULTILINE)
_FIRST_SENTENCE = re.compile(r"^(?!#)(\S.{0,300}?(?:[.!?](?=\s|$)|$))", re.MULTILINE)


def is_encrypted_value(value: object) -> TypeGuard[str]:
    """Return whether a header value is encrypted."""
    return isinstance(value, str) and value.startswith(ENCRYPTED_PREFIX)


def replace_encrypted_lines(text: str, replacement: str = "") -> str:
    """Return a text with each encrypted line replaced."""
    return ENCRYPTED_LINE.sub(replacement, text) if ENCRYPTED_PREFIX in text else text


def display_value(value: Any) -> Any:
    """Return a header value as it is displayed: `[encrypted]` replaces encrypted texts."""
    if isinstance(value, list | tuple):
        return [display_value(item) for item in value]
    return ENCRYPTED_LABEL if is_encrypted_value(value) else value


def copy_containers(value: Any) -> Any:
    """Return a header value with copies of its lists and mappings, which the caller may change."""
    if isinstance(value, list):
        return [copy_containers(item) for item in value]
    return {key: copy_containers(item) for key, item in value.items()} if isinstance(value, dict) else value


class Stamp(NamedTuple):
    """A token for one state of a file; it changes when the file changes."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    def __str__(self) -> str:
        return "-".join(f"{part:x}" for part in self)

    @classmethod
    def from_stat(cls, status: os.stat_result) -> Self:
        """Return the stamp of a file with this status."""
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str(stamp)` returned. Raises ValueError for any other text."""
        mtime, ctime, size, inode = (int(part, 16) for part in text.split("-"))
        return cls(mtime, ctime, size, inode)


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in a file, and where it is; the line is 0 if it concerns a whole file or namespace."""

    path: str
    line: int
    reason: str
    key: str = ""
    value: str = ""
    hint: str = ""

    @property
    def place(self) -> str:
        """The place in the form `path:line:`, which editors can open."""
        return f"{self.path}:{self.line}:" if self.line else f"{self.path}:"

    def __str__(self) -> str:
        return f"{self.place} {self.reason}"


_NO_TEXTS: tuple[str, ...] = ()
_NO_TEXT: str | None = None


def _header_property(name: str, default: T) -> T:
    """Return a property of Header: the value of a key, or the default if the key is missing."""
    return cast("T", property(lambda self: self.values.get(name, default)))


@dataclass(frozen=True, slots=True)
class Header:
    """The front-matter of a memory: known keys are typed, unknown ones have the value that YAML gives them."""

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
        """Return the value of any key, known or not."""
        return self.values.get(key, default)


class ParsedFile(NamedTuple):
    """The content of a memory file; the header is parsed on demand."""

    body: str
    parse_header: Callable[[], tuple[Header, tuple[Problem, ...]]]


class lazy(Generic[T]):  # noqa: N801  lower case, like `property`
    """A property that is computed on first use and cached in the instance.

    `functools.cached_property` takes a lock in Python 3.11. In a forked child, that lock may be held by a thread that
    exists only in the parent process, and is then never released.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, instance: object, owner: type) -> T:
        if instance is None:
            return cast("T", self)  # accessed on the class
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


@dataclass(frozen=True, init=False)
class Memory:
    """One markdown file as it was read; its bytes are parsed on demand."""

    path: str
    data: bytes = field(repr=False)
    status: os.stat_result = field(repr=False, compare=False)
    reader: Callable[[str, bytes], ParsedFile] = field(repr=False, compare=False)

    def __init__(
        self, path: str, data: bytes, status: os.stat_result, reader: Callable[[str, bytes], ParsedFile]
    ) -> None:
        values = self.__dict__  # faster than the generated constructor
        values["path"], values["data"], values["status"], values["reader"] = path, data, status, reader

    @lazy
    def _parsed_file(self) -> ParsedFile:
        return self.reader(self.path, self.data)

    @property
    def stamp(self) -> Stamp:
        return Stamp.from_stat(self.status)

    @property
    def text(self) -> str:
        """The text of the whole file; read as Latin-1 if it is not valid UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return self.data.decode("latin-1")

    @lazy
    def _header_and_problems(self) -> tuple[Header, tuple[Problem, ...]]:
        return self._parsed_file.parse_header()

    @lazy
    def _is_header_immutable(self) -> bool:
        """Return whether the header has no list or mapping, which a caller could change."""
        return not any(isinstance(value, list | dict) for value in self._header_and_problems[0].values.values())

    @property
    def header(self) -> Header:
        header = self._header_and_problems[0]  # shared: a caller must not change it for the others
        return header if self._is_header_immutable else Header(MappingProxyType(copy_containers(dict(header.values))))

    @lazy
    def body(self) -> str:
        return self._parsed_file.body

    @property
    def is_encrypted(self) -> bool:
        """Whether the body, or a line of it, is encrypted."""
        return self.legible != self.body

    @property
    def legible(self) -> str:
        """The body as it is displayed: `[encrypted]` replaces encrypted lines."""
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
        """Return the title in the header, else the first heading, else the file name without `.md`."""
        body = self.body
        head = self.data[: len(self.data) - len(body)]  # at least the whole header
        # Parsing a header is slow: do it only if there may be a title, perhaps escaped with a backslash.
        if (b"title" in head or b"\\" in head) and (title := self.header.values.get("title")):
            return ENCRYPTED_LABEL if is_encrypted_value(title) else str(title)
        heading = _HEADING.search(body) if "#" in body else None
        return heading[1].rstrip("\r #") if heading else self.path.rpartition("/")[2].removesuffix(".md")

    @property
    def description(self) -> str:
        """The description in the header, else the first sentence of the body; empty if there is none."""
        if description := self.header.description:
            return ENCRYPTED_LABEL if is_encrypted_value(description) else description
        sentence = _FIRST_SENTENCE.search(self.legible)
        return sentence[1].strip() if sentence else ""

    @property
    def created(self) -> datetime:
        """The time in the header, else the modification time of the file."""
        return self.header.created or modification_time(self.status)

    @property
    def updated(self) -> datetime:
        return self.header.updated or self.created


Outcome = Literal[
    "created", "duplicate", "updated", "unchanged", "moved", "archived", "removed", "restored",
    "encrypted", "decrypted", "rotated",
]  # fmt: skip
ChangeKind = Literal["created", "updated", "moved", "removed"]
Marks = tuple[tuple[int, int], ...]  # start and end of each query term in a snippet
Reasons = tuple["Reason", ...]


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write. The write is durable on disk when the result is returned."""

    id: str
    path: str
    outcome: Outcome
    stamp: Stamp | None = None  # of the file; None if it was removed, or is not known
    redacted: Mapping[str, int] = field(default_factory=dict, hash=False)  # kind -> number of redacted passages


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a memory in the vault."""

    kind: ChangeKind
    path: str
    old_path: str | None = None  # of a moved memory


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a memory was found or not, and its share of the score."""

    text: str
    score: float = 0.0


@dataclass(frozen=True, init=False)
class Hit:
    """A memory that was found. `relevance`, 0 to 1, is comparable between vaults; hits are ordered by `rank`."""

    memory: Memory
    relevance: float
    rank: float
    snippet: str
    marks: Marks = ()
    why: Reasons = ()  # only if the search was asked to explain

    def __init__(
        self, memory: Memory, relevance: float, rank: float, snippet: str, marks: Marks = (), why: Reasons = ()
    ) -> None:
        values = self.__dict__  # faster than the generated constructor
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
    """The result of a sync. `problems` has the files that could not be indexed, and other faults."""

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
    """The state of the index."""

    generation: str  # name of the published index; empty if there is none
    memories: int  # in the published index
    pending: int  # changes that are searched but not yet published
    where: str  # where the index is: disk, memory or none
    watcher: str  # process id of the live watcher of this vault, or empty
    notices: str  # how this process learns of changes: kernel, watcher, scan
    last_scan: datetime | None  # when a process last checked every file
    trouble: str = ""  # why the index is not on disk or could not be published, or another fault
    semantic: str = "off"  # the embedding model; "off", or "missing" if it is not installed


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One kept version of a memory."""

    time: datetime
    hash: str
    size: int = field(compare=False)


def memory_id(path: str, values: Mapping[str, Any]) -> str:
    """Return the id of a memory: the value of `id` in its header, or its path without suffix."""
    return values.get("id") or path.removesuffix(".md")


def as_time(value: object) -> date | datetime:
    """Return a date, or a time in UTC, from either or its ISO 8601 text; no zone means UTC. Raises ValueError."""
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
    """Return the modification time of a file, limited to the years 1 to 9999."""
    seconds = min(max(status.st_mtime_ns / 1e9, -62_135_596_800), 253_402_300_799)
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
