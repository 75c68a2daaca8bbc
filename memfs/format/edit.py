"""The text of a memory file: compose a new one, and edit an existing one with the smallest change. Pure.

An edit changes only the lines of the given keys, or the body. Everything else in the header (comments, quotes, order,
unknown keys, line ends) is copied unchanged; parsing the result again verifies that.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from types import NoneType
from typing import Any

from memfs.data_types import as_time
from memfs.errors import InvalidMemoryError, short_repr
from memfs.format.frontmatter import Fault, KeyLocation, ParsedText, Parts, parse, scan_header
from memfs.format.header_schema import KEY_CHECKS, NUMBER_PATTERN
from memfs.namespace import fold, is_utf8_encodable
from memfs.protocols import Clock

_KEY = re.compile(r"[^\W\d][\w-]{0,99}")
_PLAIN_SCALAR = re.compile(r"[^\W\d_](?:[\w./()+'-]| (?=[\w./()+'-]))*")
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_ESCAPED_CHARS = re.compile(r"[\\\"\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_BARE_NEWLINE = re.compile(r"(?<!\r)\n")


def compose(values: Mapping[str, Any], body: str) -> str:
    """Return the text of a new memory in the canonical layout."""
    lines = "".join([f"{key}:{render_value(key, value, chr(10))}\n" for key, value in values.items()])
    return f"---\n{lines}---\n\n{body}\n"


def canonical_value(key: str, value: Any) -> Any:
    """Return the value as it will be read back from the file. Raises InvalidMemoryError if it cannot be written."""
    if not _KEY.fullmatch(key):
        raise InvalidMemoryError(short_repr(key), "a key is letters, digits, '_' and '-', and begins with a letter")
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, list | tuple | dict) or (isinstance(text, str) and not is_utf8_encodable(text)):
            raise InvalidMemoryError(key, f"{short_repr(text)} cannot be written as one value")
    if key in KEY_CHECKS:
        value = KEY_CHECKS[key](key, value)
        return value.replace(microsecond=0) if isinstance(value, datetime) else value
    if isinstance(value, list | tuple):
        return [canonical_value(key, item) for item in value]
    if isinstance(value, bool | str):
        return value
    if isinstance(value, date):
        return _time_text(value)
    if isinstance(value, int | float) and NUMBER_PATTERN.fullmatch(_number_text(value)):
        return value
    raise InvalidMemoryError(key, f"{short_repr(value)} is not a text, number, date, true, false, or a list of these")


def render_value(key: str, value: Any, newline: str) -> str:
    """Return the text after `key:` for a value as `canonical_value` returns it, without the last line end."""
    if isinstance(value, list | tuple):
        return "".join(f"{newline}  - {render_scalar(key, item)}" for item in value) or " []"
    return " " + render_scalar(key, value)


def render_scalar(key: str, value: Any) -> str:
    """Return one value as YAML on one line; a text is double-quoted unless every YAML parser reads it as a text."""
    if isinstance(value, str):
        if _PLAIN_SCALAR.fullmatch(value) and value.lower() not in _YAML_WORDS:
            return value
        return f'"{_ESCAPED_CHARS.sub(_escaped, value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return _time_text(value)
    return _number_text(value)


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _time_text(value: date) -> str:
    if isinstance(value, datetime):
        return f"{as_time(value).replace(microsecond=0).isoformat().removesuffix('+00:00')}Z"  # type: ignore[call-arg]
    return value.isoformat()


def _number_text(value: float) -> str:
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


# --- editing ------------------------------------------------------------------------------------------


def edit(text: str, changes: Mapping[str, Any], body: str | None = None, *, is_exact: bool = False) -> str:
    """Return the text with the keys of `changes` set (None removes a key), and with this body unless it is None.

    The body gets the line ends of the file unless `is_exact`. Raises Fault if the edit would change more of the file
    than that, and InvalidMemoryError if a value cannot be written.
    """
    before = parse(text)
    wanted = {key: None if value is None else canonical_value(key, value) for key, value in changes.items()}
    wanted = {key: value for key, value in wanted.items() if not _has_value(before, key, value)}
    parts = _set_keys(before, wanted)
    if body is not None:
        parts = parts._replace(body=body if is_exact else _with_line_ends_of(before.parts, body))
    # a body that begins or ends with a line end is read back unchanged only between a blank line and a last line end
    for candidate in (parts, parts._replace(lead=parts.newline if parts.opening else "", tail=parts.newline)):
        result = "".join(candidate)
        if _changes_only(before, parse(result), wanted, parts.body):
            return result
    line = next((fault.line for fault in before.faults), 1)
    names = ", ".join([*wanted, *(["the body"] if body is not None else [])])
    raise Fault(line, f"cannot change {names} without changing more of the file")


def edit_and_touch(text: str, changes: Mapping[str, Any], body: str | None, clock: Clock) -> str:
    """Edit a text as `edit` does; if a body is given and the text changes, set `updated` to the current time too.

    `updated` is not set if `changes` has it, or if the header has neither `id` nor `updated`: memfs did not write it.
    """
    new = edit(text, changes, body)
    is_managed = bool(parse(text).values.keys() & {"id", "updated"})
    if body is not None and new != text and is_managed and "updated" not in changes:
        return edit(text, {**changes, "updated": clock()}, body)
    return new


def changed_tags(text: str, keys: Mapping[str, Any], added: Iterable[str], dropped: Iterable[str]) -> list[str]:
    """Return the tags of `keys`, or of the text if `keys` has none, without `dropped` and with `added`.

    Tags that differ only in case or normal form are equal. Raises Fault if the text's tags are needed and malformed.
    """
    _, values, faults = parse(text)
    if "tags" not in keys and (bad := [fault for fault in faults if fault.key == "tags"]):
        raise bad[0]
    tags = canonical_value("tags", keys.get("tags", values.get("tags", ())) or ())
    dropped_names = {fold(tag) for tag in dropped}
    kept = [tag for tag in tags if fold(tag) not in dropped_names]
    kept_names = {fold(tag) for tag in kept}
    return kept + [tag for tag in distinct_tags(added) if fold(tag) not in kept_names]


def distinct_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the first of all tags that differ only in case or normal form, which a search ignores."""
    by_folded: dict[str, str] = {}
    for tag in tags:
        by_folded.setdefault(fold(tag), tag)
    return tuple(by_folded.values())


def _has_value(before: ParsedText, key: str, value: Any) -> bool:
    """Return whether a key has this value already, so that its line stays as it is.

    False for None, which removes the key, and for the list of a known key, whose items are compared one by one later.
    """
    old = before.values.get(key)
    return not isinstance(value, tuple | NoneType) and type(old) is type(value) and bool(old == value)


def _with_line_ends_of(parts: Parts, body: str) -> str:
    """Return the body with CRLF line ends if the first line of the file and all lines of its body have them."""
    if parts.newline == "\n" or _BARE_NEWLINE.search(parts.body):
        return body
    return _BARE_NEWLINE.sub("\r\n", body)


def _changes_only(before: ParsedText, after: ParsedText, wanted: Mapping[str, Any], body: str) -> bool:
    """Return whether `after` differs from `before` only in the wanted keys and the body."""
    values = {key: value for key, value in before.values.items() if key not in wanted}
    values |= {key: value for key, value in wanted.items() if value is not None}
    return (
        after.values == values
        and after.parts.body == body
        and (not wanted or _untouched_values(before, wanted) == _untouched_values(after, wanted))
        and _header_faults(before, wanted) == _header_faults(after, wanted)
    )


def _untouched_values(parsed: ParsedText, wanted: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the keys that must not change, in order, with their YAML values."""
    try:
        values, _ = scan_header(parsed.parts.header)
    except Fault:
        return []
    return [(key, value) for key, value in values.items() if key not in wanted]


def _header_faults(parsed: ParsedText, wanted: Mapping[str, Any]) -> list[str]:
    """Return the faults of keys that must not change."""
    return [fault.reason for fault in parsed.faults if fault.key and fault.key not in wanted]


def _set_keys(before: ParsedText, wanted: Mapping[str, Any]) -> Parts:
    """Return the parts with the wanted keys set or removed; a text without a header gets one. Raises Fault."""
    parts, newline = before.parts, before.parts.newline
    if not wanted:
        return parts
    if not parts.opening:
        if before.faults and "not closed" in before.faults[0].reason:
            raise before.faults[0]
        lines = "".join(f"{key}:{render_value(key, value, newline)}{newline}" for key, value in _values_to_set(wanted))
        fence = "---" + newline
        return parts._replace(opening=fence, header=lines, closing=fence, lead=newline) if lines else parts
    header = parts.header
    for key, value in wanted.items():
        values, locations = scan_header(header)
        if key in locations:
            header = _change_key(header, key, locations[key], values[key], value, newline)
        elif value is not None:
            header += f"{_indent(header, locations)}{key}:{render_value(key, value, newline)}{newline}"
    return parts._replace(header=header)


def _values_to_set(wanted: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in wanted.items() if value is not None]


def _indent(header: str, locations: Mapping[str, KeyLocation]) -> str:
    """Return the white space before the keys of a header."""
    start = min((location.name[0] for location in locations.values()), default=0)
    before = header[_line_start(header, start) : start]
    return "" if before.strip() else before


def _change_key(header: str, key: str, location: KeyLocation, old: Any, new: Any, newline: str) -> str:
    """Return the header text with the value of one key replaced, or the key removed."""
    end = location.value[0] + len(header[slice(*location.value)].rstrip(" \t\r\n"))
    if new is None:
        return header[: _line_start(header, location.name[0])] + header[_line_end(header, end) :]
    colon = header.index(":", location.name[1]) + 1
    if isinstance(new, list | tuple) and isinstance(old, list):
        if location.style == "flow":
            items = ", ".join(render_scalar(key, item) for item in new)
            return f"{header[: location.value[0]]}[{items}]{header[end:]}"
        if changed := _change_items(header, key, location, old, list(new), newline):
            return changed
    if location.style == "scalar" and not isinstance(new, list | tuple) and location.value[0] > colon:
        return header[: location.value[0]] + render_scalar(key, new) + header[end:]
    return header[:colon] + render_value(key, new, newline) + header[max(end, colon) :]


def _change_items(
    header: str, key: str, location: KeyLocation, old: list[Any], new: list[Any], newline: str
) -> str | None:
    """Return the header with items of a block list removed, and others appended to it.

    None if the change needs more than that, for example another order of the items.
    """
    kept = [item for item in old if item in new]
    added = new[len(kept) :]
    if not kept or new[: len(kept)] != kept or len(location.items) != len(old):
        return None
    spans = [(start, start + len(header[start:end].rstrip(" \t\r\n"))) for start, end in location.items]
    lines = [(_line_start(header, start), _line_end(header, end)) for start, end in spans]
    prefix = header[lines[0][0] : spans[0][0]]
    if not re.fullmatch(r"[ ]*-[ ]+", prefix):
        return None
    last = max(number for number, item in enumerate(old) if item in new)
    for number in reversed(range(len(old))):
        start, end = lines[number]
        if number == last:
            more = "".join(f"{prefix}{render_scalar(key, item)}{newline}" for item in added)
            header = header[:end] + more + header[end:]
        elif old[number] not in new:
            header = header[:start] + header[end:]
    return header


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1
