"""Parse the text of a memory file into header and body; unknown keys are kept. Pure.

A flat header is parsed by `fast_header`. Any other header is read from YAML's parse events, with limits on size, number
of values and depth, so that no text can crash or exhaust the YAML library. The only importer of yaml.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from memfs.data_types import Header, ParsedFile, Problem
from memfs.errors import InvalidMemoryError, short_repr
from memfs.format.fast_header import parse_flat_header
from memfs.format.header_schema import KEY_CHECKS, resolve_plain_scalar

MAX_HEADER_CHARS = 64 * 1024
MAX_EVENTS = 2000
MAX_DEPTH = 12

_OPEN = re.compile(r"---[ \t]*(\r?\n)")
_CLOSE = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_CONFLICT_MARKER = re.compile(r"^<{7} ", re.MULTILINE)


class Fault(Exception):  # noqa: N818  callers that know the path turn it into a Problem or a MemfsError
    """A fault in a text, with its line, and the key and value at fault; both are empty if it concerns no single key."""

    def __init__(self, line: int, reason: str, key: str = "", value: object = "") -> None:
        super().__init__(line, reason, key, value)
        self.line, self.reason, self.key, self.value = line, reason, key, str(value)[:200]


class Parts(NamedTuple):
    """The parts of a text; joined, they are the text again. A part that the text does not have is empty."""

    bom: str  # byte order mark
    opening: str  # the line `---` before the header
    header: str
    closing: str  # the line `---` after the header
    lead: str  # the blank line before the body
    body: str
    tail: str  # the last line end

    @property
    def newline(self) -> str:
        """The line end of the first line of the file; a newline if it has none."""
        first = (self.opening or self.body + self.tail).partition("\n")
        return "\r\n" if first[1] and first[0].endswith("\r") else "\n"


class KeyLocation(NamedTuple):
    """The location of a top-level key and its value in the header text; spans are start and end index."""

    line: int
    name: tuple[int, int]
    value: tuple[int, int]
    style: str  # scalar, flow or block
    items: tuple[tuple[int, int], ...]  # the items of a list of scalars


class YamlLimits(NamedTuple):
    """The limits for parsing a YAML text, and its name in faults."""

    name: str = "header"
    size: int = MAX_HEADER_CHARS  # characters
    events: int = MAX_EVENTS  # parse events, about one per value
    is_file: bool = False  # a whole file, which may begin with a line `---`


class ListItem(NamedTuple):
    """A mapping that is an item of a YAML list, with line numbers of the parsed text."""

    line: int
    values: dict[str, Any]
    keys: Mapping[str, int]  # key -> its line
    items: Mapping[str, tuple[int, ...]]  # key -> the lines of its items, if its value is a list of scalars


class ParsedText(NamedTuple):
    """A parsed text; `values` has the keys without faults."""

    parts: Parts
    values: dict[str, Any]
    faults: tuple[Fault, ...]


def parse_file(path: str, data: bytes) -> ParsedFile:
    """Parse the bytes of a memory file; its header is parsed when it is first used. Faults become problems."""
    faults: tuple[Fault, ...] = ()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data.decode("latin-1")
        line = data.count(b"\n", 0, error.start) + 1
        faults = (Fault(line, "not UTF-8: read as Latin-1 and never rewritten"),)
    fence = _canonical_header_end(text)
    body = text[fence + 6 : -1] if fence > 0 else split(text).body
    return ParsedFile(body, lambda: _header_and_problems(path, text, faults))


def parse_canonical_layout(data: bytes) -> tuple[Mapping[str, Any], str] | None:
    """Return the values and the body of a file in the canonical layout with a flat header; None for any other file."""
    header, body = split_canonical_layout(data)
    values = parse_flat_header(header) if header else None
    return None if values is None else (values, body)


def split_canonical_layout(data: bytes) -> tuple[str, str]:
    """Return the header and the body of a file in the canonical layout; two empty texts for any other file.

    The canonical layout, which memfs writes: a line `---`, the header, a line `---`, a blank line, a body, a newline.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "", ""
    fence = _canonical_header_end(text)
    return (text[4 : fence + 1], text[fence + 6 : -1]) if fence > 0 else ("", "")


def _canonical_header_end(text: str) -> int:
    """Return the index of the last newline of the header if a text has the canonical layout, else -1."""
    fence = text.find("\n---", 3) if text.startswith("---\n") and text.endswith("\n") else -1
    return fence if text.startswith("\n---\n\n", fence) and len(text) > fence + 6 else -1


def _header_and_problems(path: str, text: str, faults: tuple[Fault, ...]) -> tuple[Header, tuple[Problem, ...]]:
    """Parse the header of a text; return it, and problems for the given faults and for those found."""
    _, values, found = _parse_parts(text, split(text))
    if faults or found:
        problems = tuple([Problem(path, f.line, f.reason, f.key, f.value) for f in (*faults, *found)])
        return Header(MappingProxyType(values)), problems
    return Header(MappingProxyType(values)), ()


def parse(text: str) -> ParsedText:
    """Split a text and parse its header. Never raises: faults are part of the result."""
    return _parse_parts(text, split(text))


def _parse_parts(text: str, parts: Parts) -> ParsedText:
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    if parts.opening and parts.header:
        flat = parse_flat_header(parts.header)
        values, faults = (flat, []) if flat is not None else read_yaml_header(parts.header)
    elif not parts.opening and _OPEN.match(parts.body + parts.tail):
        faults = [Fault(1, "header is not closed: no second line '---'")]
    if "\n>>>>>>> " in text and (found := _CONFLICT_MARKER.search(text)):
        faults = [*faults, Fault(text.count("\n", 0, found.start()) + 1, "git conflict markers")]
    return ParsedText(parts, values, tuple(faults))


def split(text: str) -> Parts:
    """Split a text into its parts; a text without a complete header is all body."""
    fence = text.find("\n---", 3) if text.startswith("---\n") else -1
    if fence > 0 and text.startswith("\n---\n", fence):  # as memfs writes it: faster than the regular expressions
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
    """Split a text whose header ends at index `end`, and whose closing line ends at index `first`."""
    lead = newline if text.startswith(newline, first) else ""
    start = first + len(lead)
    tail = newline if text.endswith(newline) and len(text) - len(newline) >= start else ""
    header = text[len(bom) + len(opening) : end]
    return Parts(bom, opening, header, text[end:first], lead, text[start : len(text) - len(tail)], tail)


# --- reading a header ---------------------------------------------------------------------------------


def read_yaml_header(header: str) -> tuple[dict[str, Any], list[Fault]]:
    """Return the values of any header without the faulty ones, and the faults; only one fault if YAML refuses it."""
    try:
        values, locations = scan_header(header)
    except Fault as fault:
        return {}, [Fault(*fault.args)]  # a copy: the raised fault and its frames form a reference cycle
    typed: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, value in values.items():
        try:
            typed |= _check_known_keys({key: value}, locations)
        except Fault as fault:
            faults.append(Fault(*fault.args))
    return typed, faults


def scan_header(header: str) -> tuple[dict[str, Any], dict[str, KeyLocation]]:
    """Return the values of a header and the location of each key, from YAML's parse events. Raises Fault."""
    events = _bounded_events(header, YamlLimits())
    root = next(events, None)
    if root is None:
        return {}, {}
    if not isinstance(root, yaml.MappingStartEvent):
        raise Fault(_line_in_file(header, root.start_mark.index), "header is not a mapping of keys to values")
    mapping = _read_mapping(header, events, is_flow=bool(root.flow_style))
    next(events, None)  # raises if anything follows the mapping
    return mapping


def scan_list(text: str, limits: YamlLimits) -> list[ListItem]:
    """Parse a YAML list of mappings with the limits given. Raises Fault, with a line of the text."""
    try:
        return _read_items(text, _bounded_events(text, limits), limits)
    except Fault as fault:
        # as in _read_items: `_line_in_file` counts a line `---` before the text
        raise Fault(max(1, fault.line - 1), fault.reason, fault.key, fault.value) from None


def _read_items(text: str, events: Iterator[Any], limits: YamlLimits) -> list[ListItem]:
    """Read a list of mappings. Raises Fault, with a line that is too large by one."""
    root = next(events, None)
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceStartEvent):
        raise Fault(_line_in_file(text, root.start_mark.index), f"{limits.name} is not a list")
    found = []
    while not isinstance(item := next(events), yaml.SequenceEndEvent):
        line = _line_in_file(text, item.start_mark.index)
        if not isinstance(item, yaml.MappingStartEvent):
            raise Fault(line, "an item is not a mapping of keys to values")
        values, locations = _read_mapping(text, events, is_flow=bool(item.flow_style))
        keys = {key: location.line - 1 for key, location in locations.items()}
        items = {
            key: tuple(_line_in_file(text, start) - 1 for start, _ in location.items)
            for key, location in locations.items()
        }
        found.append(ListItem(line - 1, values, keys, items))
    next(events, None)  # raises if anything follows the list
    return found


def _read_mapping(
    header: str, events: Iterator[Any], *, is_flow: bool
) -> tuple[dict[str, Any], dict[str, KeyLocation]]:
    """Read the mapping whose start event was read; return its values and the location of each key."""
    values: dict[str, Any] = {}
    locations: dict[str, KeyLocation] = {}
    while not isinstance(name := next(events), yaml.MappingEndEvent):
        line, key = _line_in_file(header, name.start_mark.index), _read_key(header, name, values)
        spans: list[tuple[int, int]] = []
        values[key] = _read_value(header, events, first := next(events), key, spans)
        end = spans[-1][1]
        style = "block" if isinstance(first, yaml.CollectionStartEvent) else "scalar"
        if is_flow or getattr(first, "flow_style", False):
            style = "flow"
        is_nested = isinstance(values[key], dict) or any(
            isinstance(item, list | dict) for item in _list_items(values[key])
        )
        items = () if is_nested or not isinstance(values[key], list) else tuple(spans[:-1])
        name_span = (name.start_mark.index, name.end_mark.index)
        locations[key] = KeyLocation(line, name_span, (first.start_mark.index, end), style, items)
    return values, locations


def _list_items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _bounded_events(header: str, limits: YamlLimits) -> Iterator[Any]:
    """Yield the parse events of the only document of a text. Raises Fault for anchors, tags, or exceeded limits."""
    depth = count = documents = 0
    name = limits.name
    if len(header) > limits.size:
        raise Fault(1, f"{name} is longer than {limits.size} characters")
    events: Iterator[Any] = yaml.parse(header, Loader=yaml.CSafeLoader)
    try:
        for event in events:
            count += 1
            start = event.start_mark.index
            if count > limits.events:
                raise Fault(_line_in_file(header, start), f"{name} has too many values")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise Fault(_line_in_file(header, start), "anchors and aliases are not allowed")
            if getattr(event, "tag", None):
                raise Fault(_line_in_file(header, start), f"the tag {short_repr(event.tag)} is not allowed")
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if (event.explicit and not limits.is_file) or documents > 1:
                    raise Fault(_line_in_file(header, start), f"{name} is more than one document")
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > MAX_DEPTH:
                    raise Fault(_line_in_file(header, start), f"{name} is nested deeper than {MAX_DEPTH}")
                yield event
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        reason = f"bad YAML: {error.problem or error.context}"
        raise Fault(_line_in_file(header, mark.index if mark else 0), reason) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = _line_in_file(header, getattr(error, "position", 0))
        raise Fault(line, f"bad YAML: {getattr(error, 'reason', error)}") from None


def _read_key(header: str, event: Any, earlier: Mapping[str, Any]) -> str:
    line = _line_in_file(header, event.start_mark.index)
    if not isinstance(event, yaml.ScalarEvent):
        raise Fault(line, "a key is not a text")
    if event.value in earlier:
        raise Fault(line, f"duplicate key {short_repr(event.value)}", event.value)
    return str(event.value)


def _read_value(header: str, events: Iterator[Any], event: Any, key: str, spans: list[tuple[int, int]]) -> Any:
    """Return the value that begins with `event`. Append to `spans` the span of each value in it, and its own last."""
    start: int = event.start_mark.index
    if isinstance(event, yaml.ScalarEvent):
        end: Any = event.end_mark
        spans.append((start, end.index))
        return event.value if event.style else resolve_plain_scalar(key, event.value)
    built: Any
    if isinstance(event, yaml.SequenceStartEvent):
        built = []
        while not isinstance(item := next(events), yaml.SequenceEndEvent):
            built.append(_read_value(header, events, item, key, spans))
    else:
        built = {}
        while not isinstance(item := next(events), yaml.MappingEndEvent):
            name = _read_key(header, item, built)
            built[name] = _read_value(header, events, next(events), "", spans)
    last = item.end_mark.index if event.flow_style else spans[-1][1] if spans else start
    spans.append((start, last))
    return built


def _line_in_file(header: str, index: int) -> int:
    """Return the line in the file of an index in the header, which begins on line 2."""
    return header.count("\n", 0, index) + 2


# --- known keys ---------------------------------------------------------------------------------------


def _check_known_keys(values: Mapping[str, Any], locations: Mapping[str, KeyLocation]) -> dict[str, Any]:
    """Return the values with known keys converted to their types, and without nulls. Raises Fault for a wrong value."""
    typed = {}
    for key, value in values.items():
        if value is None:
            continue
        try:
            typed[key] = KEY_CHECKS[key](key, value) if key in KEY_CHECKS else value
        except InvalidMemoryError as error:
            line = locations[key].line if key in locations else 0
            raise Fault(line, str(error), key, value) from None
    return typed
