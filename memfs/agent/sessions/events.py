"""Events: the lines of a session's log, as values and as text. Pure.

A line is a JSON object. The first one says whose log it is; each other is an event with an `id`, a `time` and one of
`message`, `state`, `payload`, `fork` and `removed`. Bytes are spelled `{"memfs:bytes": base64}`.
"""

import base64
import json
import json.encoder
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from operator import lt
from types import MappingProxyType
from typing import Any, NamedTuple

from memfs.agent.messages import Message
from memfs.data_types import Problem, as_time
from memfs.errors import InvalidMemoryError
from memfs.ids import is_id, unix_milliseconds

VERSION = 1
KIND = "e"  # begins the id of an event
MAX_LINE = 32 * 1024 * 1024
_SAFE = MAX_LINE // 8  # signs of an event whose line is not too long, whatever its id
KINDS = ("message", "state", "payload", "fork", "removed")
RESERVED = frozenset({*KINDS, "memfs", "id", "time", "metadata", "branch", "redacted"})
_SOME_ID, _SOME_TIME = f"{KIND}-{'0' * 26}", "2026-11-15T10:30:00.000Z"  # as long as any that memfs makes
_MARKER = '"memfs:'  # begins a spelling of ours, and a key that looks like one
_SPELLED = re.compile("memfs:+bytes")
_DEEPEST = 50  # parts within parts that an error names
_BOM = "\ufeff"  # some editors begin a file with it
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """One line of a log: a message, a state, a payload of one's own, a fork, or what is left of a removed one."""

    id: str
    kind: str
    record: dict[str, Any]  # the line

    @property
    def time(self) -> datetime:
        """When it happened."""
        return moment(self.record.get("time"))

    @property
    def message(self) -> Message:
        found: Message = self.record.get("message", _NOTHING)
        return found

    @property
    def role(self) -> str:
        """Who said it; empty of what nobody said, or several."""
        return str(self.message.get("role") or self.record.get("role") or _role_in(self.record.get("payload")))

    @property
    def metadata(self) -> Mapping[str, Any]:
        found = self.record.get("metadata")
        return found if isinstance(found, dict) else _NOTHING

    @property
    def branch(self) -> str:
        return str(self.record.get("branch", ""))

    @property
    def is_redacted(self) -> bool:
        return "redacted" in self.record

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a filter can ask for: metadata, and else the role, kind, time, id and branch."""
        own = {"id": self.id, "kind": self.kind, "role": self.role, "time": self.time, "branch": self.branch}
        return {**own, **self.metadata}


def _role_in(payload: object) -> str:
    """Who said what a payload in the form of AgentCore holds."""
    parts = [part.get("conversational") for part in payload if type(part) is dict] if type(payload) is list else ()
    roles = {str(said.get("role", "")).lower() for said in parts if type(said) is dict}
    return roles.pop() if len(roles) == 1 else ""


_event_of: Callable[[tuple[str, str, dict[str, Any]]], Event]
_event_of = partial(tuple.__new__, Event)  # what Event() does, for less: of every line


class Head(NamedTuple):
    """What the first line of a log says: its schema, and whose log it is."""

    version: int
    record: Mapping[str, Any]

    @property
    def actor(self) -> str:
        return str(self.record.get("actor", ""))


class Reading(NamedTuple):
    """What the lines of a log say: events in order, each once, and what could not be understood."""

    head: Head | None
    events: list[Event]
    problems: list[Problem]


def moment(value: object) -> datetime:
    """A time as it was written; the first of all where it says none."""
    with suppress(ValueError, OverflowError):
        found = as_time(value)
        return found if isinstance(found, datetime) else datetime(found.year, found.month, found.day, tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


def time_text(time: datetime) -> str:
    """A time as memfs writes it in a log."""
    return time_at(unix_milliseconds(time))


def time_at(time: int) -> str:
    """The text of a time that is so many milliseconds behind 1970."""
    return f"{_second(time // 1000)}.{str(1000 + time % 1000)[1:]}Z"


@lru_cache(maxsize=1)
def _second(time: int) -> str:
    """The text of a second, which many events share."""
    return (_EPOCH + timedelta(seconds=time)).isoformat()[:19]


# --- writing ------------------------------------------------------------------------------------------


class Draft(NamedTuple):
    """An event before it has its id and its time, with the text of the rest of its line."""

    kind: str
    fields: dict[str, Any]
    body: str
    id: str = ""
    time: str = ""

    @classmethod
    def make(cls, kind: str, fields: dict[str, Any], *, id: str = "", time: str = "") -> "Draft":  # noqa: A002
        """Render an event; InvalidMemoryError if it is no line that can be read again."""
        text = _text(fields)[1:]
        draft = tuple.__new__(cls, (kind, fields, text, id, time))
        if len(text) > _SAFE and len(draft.numbered(id or _SOME_ID, time or _SOME_TIME)[1]) > MAX_LINE:
            raise _too_large(fields)
        return draft

    def numbered(self, name: str, time: str) -> tuple[Event, bytes]:
        """The event, now that it has its id and its time, and its line."""
        line = f'{{"id":{_quoted(name)},"time":{_quoted(time)},{self.body}\n'
        return _event_of((name, self.kind, {"id": name, "time": time, **self.fields})), line.encode()


_quoted = json.encoder.encode_basestring_ascii


def head_line(**facts: str) -> bytes:
    """The first line of a log."""
    return line_of({"memfs": VERSION, **{key: value for key, value in facts.items() if value}})


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as a line; InvalidMemoryError if JSON has no word for something in it."""
    return _text(record).encode() + b"\n"


def _text(record: Mapping[str, Any]) -> str:
    """The text of a line, which UTF-8 can hold."""
    try:
        text = "".join(_chunks(record, 0))
        if _MARKER in text:
            text = _dumps(_spelled(record))
        length = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate is spelled by JSON
        text = _dumps_ascii(_spelled(record))
        length = len(text)
    except (TypeError, ValueError) as error:
        where = _part(record, _is_unknown)
        raise InvalidMemoryError("event", f"cannot be stored: {where and f'{where}: '}{error}") from None
    except RecursionError:
        raise InvalidMemoryError("event", "is nested too deep, or within itself") from None
    if length >= MAX_LINE:
        raise _too_large(record)
    return text


def _too_large(record: Mapping[str, Any]) -> InvalidMemoryError:
    where = _part(record, lambda value: len(_dumps(value)) > MAX_LINE // 2)
    reason = f"is larger than {MAX_LINE // (1024 * 1024)} MiB{where and f', most of it in {where}'}"
    return InvalidMemoryError("event", reason)


def _part(value: Any, is_meant: Callable[[Any], bool]) -> str:
    """The innermost part that is meant, as a path such as `message.content[1]`; empty if it cannot be told."""
    path, inner = "", value
    for _ in range(_DEEPEST):
        parts = inner.items() if isinstance(inner, Mapping) else enumerate(inner) if isinstance(inner, list) else ()
        found = next(((key, one) for key, one in parts if is_meant(one)), None)
        if found is None:
            return path.removeprefix(".")
        key, inner = found
        path += f".{key}" if isinstance(key, str) else f"[{key!r}]"
    return ""


def _is_unknown(value: Any) -> bool:
    try:
        _dumps(value)
    except (TypeError, ValueError):
        return True
    return False


def _default(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return {"memfs:bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"JSON has no word for {type(value).__name__}")


def _prepared() -> Callable[[Any, int], Iterable[str]]:
    """The encoder that json makes anew for each value, once and for all; of what is within itself, a RecursionError."""
    if (make := getattr(json.encoder, "c_make_encoder", None)) is None:
        return lambda value, _: [_dumps(value)]
    found: Callable[[Any, int], Iterable[str]] = make(
        None, _default, json.encoder.encode_basestring, None, ":", ",", False, False, True
    )
    return found


_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_default).encode
_chunks = _prepared()
_dumps_ascii = json.JSONEncoder(separators=(",", ":"), default=_default).encode


def _spelled(value: Any) -> Any:
    """A value in which a mapping that looks like bytes of ours is not taken for one."""
    if isinstance(value, Mapping):
        if len(value) == 1 and isinstance(key := next(iter(value)), str) and _SPELLED.fullmatch(key):
            return {key.replace(":", "::", 1): _spelled(value[key])}
        return {key: _spelled(inner) for key, inner in value.items()}
    return [_spelled(inner) for inner in value] if isinstance(value, list | tuple) else value


# --- reading ------------------------------------------------------------------------------------------


def _unspelled(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        (key,) = value
        if key == "memfs:bytes":
            with suppress(ValueError, TypeError):
                return base64.b64decode(value[key], validate=True)
        elif _SPELLED.fullmatch(key):
            return {key.replace("::", ":", 1): value[key]}
    return value


_scan: Any = vars(json.JSONDecoder())["scan_once"]
_scan_spelled: Any = vars(json.JSONDecoder(object_hook=_unspelled))["scan_once"]


def understand(data: bytes, path: str, *, first: int = 1) -> Reading:
    """Read the lines of a log; what is wrong with one costs that line alone."""
    head: Head | None = None
    events: list[Event] = []
    problems: list[Problem] = []
    known: dict[str, int] = {}
    for number, line in enumerate(_lines(data), first):
        if (event := _plain_message(line)) is None:
            if not line or line == "\r":
                continue
            try:
                found = _event(line)
            except _NotAnEventError as fault:
                problems.append(Problem(path, number, str(fault), hint=fault.hint))
                continue
            if isinstance(found, Head):
                head = head or found
                continue
            event = found
        if (at := known.setdefault(event[0], len(events))) == len(events):
            events.append(event)
        elif event.record != events[at].record:
            problems += _settle(events, at, event, Problem(path, number, f"another event with the id {event.id!r}"))
    return Reading(head, _in_order(events), problems)


def _plain_message(line: str | bytes) -> Event | None:
    """The event of a line as most are, in one pass; None of any other."""
    try:
        record, end = _scan(line, 0)
        if end == len(line) <= MAX_LINE and record["message"].__class__ is dict and _MARKER not in line:
            name = record["id"]
            return _event_of((name, "message", record)) if name.__class__ is str and name else None
    except (TypeError, KeyError, StopIteration, ValueError, RecursionError):
        pass
    return None


def _lines(data: bytes) -> Sequence[str | bytes]:
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        return data.split(b"\n")


class _NotAnEventError(Exception):
    hint = ""


def _event(line: str | bytes) -> Event | Head:
    if isinstance(line, bytes):
        try:
            line = line.decode()
        except UnicodeDecodeError as error:
            raise _NotAnEventError(f"not UTF-8 at byte {error.start}: skipped") from None
    record = _value(line.removeprefix(_BOM))
    if type(record) is not dict:
        raise _NotAnEventError("not a JSON object: skipped")
    if type(name := record.get("id")) is str and name:
        if type(record.get("message")) is dict:
            return Event(name, "message", record)
        for kind in KINDS[1:]:
            if kind in record:
                return Event(name, kind, record)
        raise _NotAnEventError(f"an event without any of {', '.join(KINDS)}: skipped")
    if type(version := record.get("memfs")) is int:
        return Head(version, record)
    raise _NotAnEventError("an event without an id: skipped")


def _value(line: str) -> Any:
    """The JSON value of a line."""
    try:
        if len(line) > MAX_LINE:
            raise _NotAnEventError(f"longer than {MAX_LINE // (1024 * 1024)} MiB: skipped")
        value, end = (_scan_spelled if _MARKER in line else _scan)(line, 0)
        if end == len(line) or not line[end:].strip():
            return value
    except (StopIteration, ValueError):
        pass
    except RecursionError:
        raise _NotAnEventError("nested too deep: skipped") from None
    if line.startswith(_CONFLICT):
        fault = _NotAnEventError("a conflict marker of git: skipped")
        fault.hint = "Delete the line; .gitattributes with `sessions/**/*.jsonl merge=union` keeps git from adding one."
        raise fault
    raise _NotAnEventError("not JSON, or cut short: skipped") from None


def _settle(events: list[Event], at: int, other: Event, problem: Problem) -> list[Problem]:
    """Have one of two events with one id: what was redacted or removed stays so."""
    one = events[at]
    if is_final(other) and not is_final(one):
        events[at], one, other = other, other, one
    if not is_final(one):
        return [problem]
    if is_final(other):
        return []
    return [Problem(problem.path, problem.line, f"{problem.reason}, which was redacted", hint="Redact it again.")]


def is_final(event: Event) -> bool:
    """Tell whether nothing of the original is left in an event."""
    return event.kind == "removed" or event.is_redacted


def _in_order(events: list[Event]) -> list[Event]:
    """The events by id; one with an id of another kind stays behind the one it follows."""
    ids = [event.id for event in events]
    if all(map(lt, ids, ids[1:])):
        return events
    last = ""
    keys = [last := event.id if is_id(event.id, KIND) else last for event in events]
    return [events[at] for at in sorted(range(len(events)), key=keys.__getitem__)]


def last_id(events: Sequence[Event]) -> str:
    """The last of the ids that memfs made, of events in order; empty if there is none."""
    return next((event.id for event in reversed(events) if is_id(event.id, KIND)), "")


def lines_with(data: bytes, part: bytes) -> Iterator[bytes]:
    """The first line of a log, and those others that hold these bytes."""
    end = data.find(b"\n")
    yield data if end < 0 else data[:end]
    while end >= 0 and (found := data.find(part, end)) >= 0:
        start, end = data.rfind(b"\n", 0, found) + 1, data.find(b"\n", found)
        yield data[start:] if end < 0 else data[start:end]
