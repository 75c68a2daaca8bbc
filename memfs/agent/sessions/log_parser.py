"""Parsing of session logs: the header, the events in order, and the problems of lines that were skipped. Pure."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import lt
from typing import Any, NamedTuple

from memfs.agent.sessions.events import EVENT_ID_KIND, EVENT_KINDS, MAX_LINE_BYTES, Event, is_erased, new_event
from memfs.agent.sessions.line_encoder import BYTES_KEY, ESCAPE_MARKER
from memfs.data_types import Problem
from memfs.ids import is_id

_BYTE_ORDER_MARK = "\ufeff"  # some editors write it at the start of a file
_GIT_CONFLICT_MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")


class LogHeader(NamedTuple):
    """The first line of a log: its schema version, session, agent and owner."""

    version: int
    record: Mapping[str, Any]

    @property
    def actor(self) -> str:
        """The owner of the log; empty if the header names none."""
        return str(self.record.get("actor", ""))


class ParsedLog(NamedTuple):
    """The content of a log: its header, its events in order, each id once, and the problems of skipped lines."""

    header: LogHeader | None
    events: list[Event]
    problems: list[Problem]


def _unescape(value: dict[str, Any]) -> Any:
    """Decode the bytes and the escaped mappings that line_encoder wrote; return any other value unchanged."""
    if len(value) == 1:
        (key,) = value
        if key == "memfs:bytes":
            with suppress(ValueError, TypeError):
                return base64.b64decode(value[key], validate=True)
        elif BYTES_KEY.fullmatch(key):
            return {key.replace("::", ":", 1): value[key]}
    return value


# The scanner that json.loads uses, called directly because that is faster.
_scan: Any = vars(json.JSONDecoder())["scan_once"]
_scan_escaped: Any = vars(json.JSONDecoder(object_hook=_unescape))["scan_once"]


def parse_log(data: bytes, path: str, *, first: int = 1) -> ParsedLog:
    """Parse the lines of a log; a faulty line is skipped and reported, and does not affect the other lines.

    `path` and `first`, the number of the first line, are for the reported problems.
    """
    header: LogHeader | None = None
    events: list[Event] = []
    problems: list[Problem] = []
    positions: dict[str, int] = {}
    for number, line in enumerate(_split_lines(data), first):
        if (event := _parse_plain_message(line)) is None:
            if not line or line == "\r":
                continue
            try:
                found = _parse_line(line)
            except _InvalidLineError as fault:
                problems.append(Problem(path, number, str(fault), hint=fault.hint))
                continue
            if isinstance(found, LogHeader):
                header = header or found
                continue
            event = found
        if (position := positions.setdefault(event[0], len(events))) == len(events):
            events.append(event)
        elif event.record != events[position].record:
            problem = Problem(path, number, f"another event with the id {event.id!r}")
            problems += _resolve_duplicate(events, position, event, problem)
    return ParsedLog(header, _sorted_by_id(events), problems)


def _parse_plain_message(line: str | bytes) -> Event | None:
    """Parse the most frequent kind of line in one pass; None for any other line."""
    try:
        record, end = _scan(line, 0)
        if end == len(line) <= MAX_LINE_BYTES and record["message"].__class__ is dict and ESCAPE_MARKER not in line:
            name = record["id"]
            return new_event((name, "message", record)) if name.__class__ is str and name else None
    except (TypeError, KeyError, StopIteration, ValueError, RecursionError):
        pass
    return None


def _split_lines(data: bytes) -> Sequence[str | bytes]:
    """Return the lines: texts if all of the data is UTF-8, else bytes."""
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        return data.split(b"\n")


class _InvalidLineError(Exception):
    hint = ""


def _parse_line(line: str | bytes) -> Event | LogHeader:
    if isinstance(line, bytes):
        try:
            line = line.decode()
        except UnicodeDecodeError as error:
            raise _InvalidLineError(f"not UTF-8 at byte {error.start}: skipped") from None
    record = _parse_json(line.removeprefix(_BYTE_ORDER_MARK))
    if type(record) is not dict:
        raise _InvalidLineError("not a JSON object: skipped")
    if type(name := record.get("id")) is str and name:
        if type(record.get("message")) is dict:
            return Event(name, "message", record)
        for kind in EVENT_KINDS[1:]:
            if kind in record:
                return Event(name, kind, record)
        raise _InvalidLineError(f"an event without any of {', '.join(EVENT_KINDS)}: skipped")
    if type(version := record.get("memfs")) is int:
        return LogHeader(version, record)
    raise _InvalidLineError("an event without an id: skipped")


def _parse_json(line: str) -> Any:
    """Return the JSON value of a line; _InvalidLineError if it has none."""
    try:
        if len(line) > MAX_LINE_BYTES:
            raise _InvalidLineError(f"longer than {MAX_LINE_BYTES // (1024 * 1024)} MiB: skipped")
        value, end = (_scan_escaped if ESCAPE_MARKER in line else _scan)(line, 0)
        if end == len(line) or not line[end:].strip():
            return value
    except (StopIteration, ValueError):
        pass
    except RecursionError:
        raise _InvalidLineError("nested too deep: skipped") from None
    if line.startswith(_GIT_CONFLICT_MARKERS):
        fault = _InvalidLineError("a conflict marker of git: skipped")
        fault.hint = "Delete the line; .gitattributes with `sessions/**/*.jsonl merge=union` keeps git from adding one."
        raise fault
    raise _InvalidLineError("not JSON, or cut short: skipped") from None


def _resolve_duplicate(events: list[Event], position: int, other: Event, problem: Problem) -> list[Problem]:
    """Keep the first of two events with the same id, or the erased one, at `position`; return what to report."""
    kept = events[position]
    if is_erased(other) and not is_erased(kept):
        events[position], kept, other = other, other, kept
    if not is_erased(kept):
        return [problem]
    if is_erased(other):
        return []
    return [Problem(problem.path, problem.line, f"{problem.reason}, which was redacted", hint="Redact it again.")]


def _sorted_by_id(events: list[Event]) -> list[Event]:
    """Return the events by id; one whose id memfs did not generate stays after its predecessor."""
    ids = [event.id for event in events]
    if all(map(lt, ids, ids[1:])):
        return events
    last = ""
    keys = [last := event.id if is_id(event.id, EVENT_ID_KIND) else last for event in events]
    return [events[position] for position in sorted(range(len(events)), key=keys.__getitem__)]


def select_lines(data: bytes, part: bytes) -> Iterator[bytes]:
    """Yield the first line of a log, and each other line that contains these bytes."""
    end = data.find(b"\n")
    yield data if end < 0 else data[:end]
    while end >= 0 and (found := data.find(part, end)) >= 0:
        start, end = data.rfind(b"\n", 0, found) + 1, data.find(b"\n", found)
        yield data[start:] if end < 0 else data[start:end]
