"""Text of a memory file <-> header and body. Pure; keeps what it does not know.

A flat header takes a fast path; any other one goes through YAML's parse events under a guard (size, count,
depth), so that no text can crash or exhaust the YAML library.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from memfs.errors import InvalidMemoryError, shown
from memfs.model import LIST_KEYS, TEXT_KEYS, TIME_KEYS, Header, Problem, Reading, as_time

MAX_HEADER = 64 * 1024
MAX_EVENTS = 2000
MAX_DEPTH = 12
MAX_FLAT = 3000  # characters: a longer header goes the slow way, which counts its values

_OPEN = re.compile(r"---[ \t]*(\r?\n)")
_CLOSE = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_CHARS = r"[^\x00-\x20\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff:#]+"
_QUOTED = r"\"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff\"\\]*\""
_FLAT_VALUE = rf"(?:{_QUOTED}|(?=[\w/(.+$]){_CHARS}(?:(?: +|:){_CHARS})*)"
_FLAT_LINE = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,99}}:(?: {_FLAT_VALUE})?")
_FLAT_ITEM = re.compile(rf"  -(?: {_FLAT_VALUE})?")
_BEGUN = object()  # the value of a key that nothing follows, perhaps a list
_OUR_ID = re.compile(r"id: m-[0-9a-z]{26}")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(\.[0-9]{1,30}(?:[eE][-+]?[0-9]{1,2})?)?")
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NULLS = frozenset(word for word, value in _WORDS.items() if value is None)
_WANTS_TEXT = TEXT_KEYS | LIST_KEYS | TIME_KEYS
_CONFLICT = re.compile(r"^<{7} ", re.MULTILINE)


class Fault(Exception):  # noqa: N818  it ends as a Problem or an error of the tree, which know the path
    """What is wrong with a text, at a line of it."""

    def __init__(self, line: int, reason: str, key: str = "", value: object = "") -> None:
        super().__init__(line, reason, key, value)
        self.line, self.reason, self.key, self.value = line, reason, key, str(value)[:200]


class Parts(NamedTuple):
    """A text cut where the format cuts it; joined again they are the text."""

    bom: str
    opening: str
    header: str
    closing: str
    lead: str
    body: str
    tail: str

    @property
    def newline(self) -> str:
        first = (self.opening or self.body + self.tail).partition("\n")
        return "\r\n" if first[1] and first[0].endswith("\r") else "\n"


class Entry(NamedTuple):
    """Where a top-level key and its value stand in the header text."""

    line: int
    name: tuple[int, int]
    value: tuple[int, int]
    style: str  # scalar, flow or block
    items: tuple[tuple[int, int], ...]  # of a list of scalars


class Parsed(NamedTuple):
    """A text understood as far as it can be."""

    parts: Parts
    values: dict[str, Any]
    faults: tuple[Fault, ...]


def understand(path: str, data: bytes) -> Reading:
    """Read a file's bytes; what is wrong with them becomes problems."""
    faults: tuple[Fault, ...] = ()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data.decode("latin-1")
        line = data.count(b"\n", 0, error.start) + 1
        faults = (Fault(line, "not UTF-8: read as Latin-1, and never rewritten"),)
    fence = text.find("\n---\n\n", 3) if text.startswith("---\n") and text.endswith("\n") else -1
    if fence > 0 and text.find("\n---", 3) == fence and len(text) > fence + 6:  # the layout memfs writes
        body = text[fence + 6 : -1]
    else:
        body = split(text).body
    return Reading(body, lambda: _understood(path, text, faults))


def _understood(path: str, text: str, faults: tuple[Fault, ...]) -> tuple[Header, tuple[Problem, ...]]:
    _, values, found = _parsed(text, split(text))
    if faults or found:
        problems = tuple([Problem(path, f.line, f.reason, f.key, f.value) for f in (*faults, *found)])
        return Header(MappingProxyType(values)), problems
    return Header(MappingProxyType(values)), ()


def parse(text: str) -> Parsed:
    """Cut the text and read its header. Never raises."""
    return _parsed(text, split(text))


def _parsed(text: str, parts: Parts) -> Parsed:
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    if parts.opening and parts.header:
        flat = _read_flat(parts.header)
        values, faults = (flat, []) if flat is not None else _read_any(parts.header)
    elif not parts.opening and _OPEN.match(parts.body + parts.tail):
        faults = [Fault(1, "header is not closed: no second line '---'")]
    if "\n>>>>>>> " in text and (found := _CONFLICT.search(text)):
        faults = [*faults, Fault(text.count("\n", 0, found.start()) + 1, "git conflict markers")]
    return Parsed(parts, values, tuple(faults))


def split(text: str) -> Parts:
    """Cut a text into byte order mark, header and body."""
    fence = text.find("\n---", 3) if text.startswith("---\n") else -1
    if fence > 0 and text.startswith("\n---\n", fence):  # the layout memfs writes, without a regular expression
        return _cut(text, "", "---\n", "\n", fence + 1, fence + 5)
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    start = _OPEN.match(text, len(bom))
    end = _CLOSE.search(text, start.end()) if start else None
    if start is None or end is None:
        newline = "\r\n" if text.partition("\n")[0].endswith("\r") and "\n" in text else "\n"
        tail = newline if text.endswith(newline) else ""
        return Parts(bom, "", "", "", "", text[len(bom) : len(text) - len(tail)], tail)
    return _cut(text, bom, start[0], start[1], end.start(), end.end())


def _cut(text: str, bom: str, opening: str, newline: str, end: int, first: int) -> Parts:
    """Cut a text with a header, which ends at `end`; its closing line ends at `first`."""
    lead = newline if text.startswith(newline, first) else ""
    start = first + len(lead)
    tail = newline if text.endswith(newline) and len(text) - len(newline) >= start else ""
    header = text[len(bom) + len(opening) : end]
    return Parts(bom, opening, header, text[end:first], lead, text[start : len(text) - len(tail)], tail)


# --- reading a header ---------------------------------------------------------------------------------


def _read_flat(header: str) -> dict[str, Any] | None:
    """Read a header of plain `key: value` lines and block lists; None if it is not one, or a value does not fit."""
    if "\r\n" in header:
        header = header.replace("\r\n", "\n")
    if len(header) > MAX_FLAT or not header.endswith("\n"):
        return None
    values: dict[str, Any] = {}
    key = ""
    try:
        for line in header[:-1].split("\n"):
            if line[:3] == "  -":
                if values[key] is _BEGUN:
                    values[key] = []
                elif type(values[key]) is not list:
                    return None
                values[key].append(_flat_item(key, line))
                continue
            if line[:6] == "id: m-" and _OUR_ID.fullmatch(line):
                key, value = "id", line[4:]
            elif line[:8] == "created:":  # hardly ever twice the same
                key, value = _read_line(line)
            else:
                key, value = _flat_line(line)
            if key in values:
                return None
            values[key] = value
        return {
            name: CHECKS[name](name, value) if type(value) is list and name in CHECKS else value
            for name, value in values.items()
            if value is not None and value is not _BEGUN
        }
    except (InvalidMemoryError, KeyError, ValueError):
        return None


def _read_line(line: str) -> tuple[str, Any]:
    """Read one line of a flat header."""
    if not _FLAT_LINE.fullmatch(line):
        raise ValueError(line)
    key, _, text = line.partition(":")
    if not text:
        return key, _BEGUN
    value = text[2:-1] if text[1:2] == '"' else _resolve(key, text[1:])
    return key, CHECKS[key](key, value) if value is not None and key in CHECKS else value


_flat_line = lru_cache(maxsize=4096)(_read_line)  # a line is often one of many like it


@lru_cache(maxsize=4096)
def _flat_item(key: str, line: str) -> Any:
    """Read one item of a list."""
    if not _FLAT_ITEM.fullmatch(line):
        raise ValueError(line)
    return line[5:-1] if line[4:5] == '"' else _resolve(key, line[4:])


def _resolve(key: str, plain: str) -> Any:
    """Give a plain scalar its YAML 1.2 value; a key that wants text or a time keeps the text."""
    if key in _WANTS_TEXT:
        return None if plain in _NULLS else plain
    if plain in _WORDS:
        return _WORDS[plain]
    if found := NUMBER.fullmatch(plain):
        return float(plain) if found[1] else int(plain)
    return plain


def _read_any(header: str) -> tuple[dict[str, Any], list[Fault]]:
    """Read any header; one that YAML refuses gives no values and one fault."""
    try:
        values, entries = scan(header)
    except Fault as fault:
        return {}, [fault]
    typed: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, value in values.items():
        try:
            typed |= _typed({key: value}, entries)
        except Fault as fault:
            faults.append(fault)
    return typed, faults


def scan(header: str) -> tuple[dict[str, Any], dict[str, Entry]]:
    """Read a header by YAML's parse events: its values, and where each key stands. Raises Fault."""
    if len(header) > MAX_HEADER:
        raise Fault(1, f"header is longer than {MAX_HEADER} characters")
    events = _guarded(header)
    values: dict[str, Any] = {}
    entries: dict[str, Entry] = {}
    root = next(events, None)
    if root is None:
        return values, entries
    if not isinstance(root, yaml.MappingStartEvent):
        raise Fault(_line(header, root.start_mark.index), "header is not a mapping of keys to values")
    while not isinstance(name := next(events), yaml.MappingEndEvent):
        line, key = _line(header, name.start_mark.index), _key(header, name, values)
        spans: list[tuple[int, int]] = []
        values[key] = _value(header, events, first := next(events), key, spans)
        end = spans[-1][1]
        style = "block" if isinstance(first, yaml.CollectionStartEvent) else "scalar"
        if root.flow_style or getattr(first, "flow_style", False):
            style = "flow"
        nested = isinstance(values[key], dict) or any(isinstance(item, list | dict) for item in _items(values[key]))
        items = () if nested or not isinstance(values[key], list) else tuple(spans[:-1])
        place = (name.start_mark.index, name.end_mark.index)
        entries[key] = Entry(line, place, (first.start_mark.index, end), style, items)
    next(events, None)  # whatever follows the mapping is a fault
    return values, entries


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _guarded(header: str) -> Iterator[Any]:
    """The events of the header's one document, bounded in number and depth, without anchors and tags."""
    depth = count = documents = 0
    try:
        for event in yaml.parse(header, Loader=yaml.CSafeLoader):
            count += 1
            where = event.start_mark.index
            if count > MAX_EVENTS:
                raise Fault(_line(header, where), "header has too many values")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise Fault(_line(header, where), "anchors and aliases are not allowed")
            if getattr(event, "tag", None):
                raise Fault(_line(header, where), f"the tag {shown(event.tag)} is not allowed")
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if event.explicit or documents > 1:
                    raise Fault(_line(header, where), "header is more than one document")
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > MAX_DEPTH:
                    raise Fault(_line(header, where), f"header is nested deeper than {MAX_DEPTH}")
                yield event
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        reason = f"bad YAML: {error.problem or error.context}"
        raise Fault(_line(header, mark.index if mark else 0), reason) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = _line(header, getattr(error, "position", 0))
        raise Fault(line, f"bad YAML: {getattr(error, 'reason', error)}") from None


def _key(header: str, event: Any, known: Mapping[str, Any]) -> str:
    line = _line(header, event.start_mark.index)
    if not isinstance(event, yaml.ScalarEvent):
        raise Fault(line, "a key is not a text")
    if event.value in known:
        raise Fault(line, f"duplicate key {shown(event.value)}", event.value)
    return str(event.value)


def _value(header: str, events: Iterator[Any], event: Any, key: str, spans: list[tuple[int, int]]) -> Any:
    """Build one value, noting where its scalars stand and last where it ends."""
    start: int = event.start_mark.index
    if isinstance(event, yaml.ScalarEvent):
        end: Any = event.end_mark
        spans.append((start, end.index))
        return event.value if event.style else _resolve(key, event.value)
    built: Any
    if isinstance(event, yaml.SequenceStartEvent):
        built = []
        while not isinstance(item := next(events), yaml.SequenceEndEvent):
            built.append(_value(header, events, item, key, spans))
    else:
        built = {}
        while not isinstance(item := next(events), yaml.MappingEndEvent):
            name = _key(header, item, built)
            built[name] = _value(header, events, next(events), "", spans)
    last = item.end_mark.index if event.flow_style else spans[-1][1] if spans else start
    spans.append((start, last))
    return built


def _line(header: str, index: int) -> int:
    """The line in the file of a place in the header."""
    return header.count("\n", 0, index) + 2


# --- known keys ---------------------------------------------------------------------------------------


def _typed(values: Mapping[str, Any], entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Give known keys their types; a null is as good as no key. Raises Fault at the first misfit."""
    typed = {}
    for key, value in values.items():
        if value is None:
            continue
        try:
            typed[key] = CHECKS[key](key, value) if key in CHECKS else value
        except InvalidMemoryError as error:
            line = entries[key].line if key in entries else 0
            raise Fault(line, str(error), key, value) from None
    return typed


def _check_text(key: str, value: Any) -> str:
    if isinstance(value, str) and (value or key != "id"):
        return value
    raise InvalidMemoryError(key, f"{shown(value)} is not a text")


def _check_time(key: str, value: Any) -> date:
    try:
        return as_time(value)
    except (ValueError, OverflowError):
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidMemoryError(key, f"{shown(value)} is not {allowed}") from None


def _check_list(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        texts = [value] if key == "supersedes" else value.split(",")
        return tuple(text.strip() for text in texts if text.strip())
    if isinstance(value, list | tuple) and all(isinstance(item, str) or item is None for item in value):
        return tuple([item for item in value if item])
    raise InvalidMemoryError(key, f"{shown(value)} is not a list of texts")


def _check_flag(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidMemoryError(key, f"{shown(value)} is not true or false")


def _check_importance(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10:
        return value
    raise InvalidMemoryError(key, f"{shown(value)} is not a whole number from 1 to 10")


CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(TEXT_KEYS, _check_text),
    **dict.fromkeys(TIME_KEYS, _check_time),
    **dict.fromkeys(LIST_KEYS, _check_list),
    "pinned": _check_flag,
    "importance": _check_importance,
}
