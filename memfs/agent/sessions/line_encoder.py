"""Encoding of log lines: an event, or the header, as one line of JSON. Pure.

Bytes are written as `{"memfs:bytes": base64}`. A mapping that already looks like that is escaped by a second colon, so
that log_parser restores it unchanged.
"""

import base64
import json
import json.encoder
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

from memfs.agent.sessions.events import EVENT_ID_KIND, MAX_LINE_BYTES, SCHEMA_VERSION, Event, new_event
from memfs.errors import InvalidMemoryError

ESCAPE_MARKER = '"memfs:'  # starts the key of encoded bytes, and of an escaped mapping
BYTES_KEY = re.compile("memfs:+bytes")
_MAX_UNCHECKED_CHARS = MAX_LINE_BYTES // 8  # an event of this length fits into a line with any id
_SAMPLE_ID, _SAMPLE_TIME = f"{EVENT_ID_KIND}-{'0' * 26}", "2026-11-15T10:30:00.000Z"  # as long as any that memfs makes
_MAX_PATH_DEPTH = 50  # nested parts that an error message names


class EventDraft(NamedTuple):
    """An event that has no id and no time yet, with the encoded rest of its line."""

    kind: str
    fields: dict[str, Any]
    body: str
    id: str = ""
    time: str = ""

    @classmethod
    def make(cls, kind: str, fields: dict[str, Any], *, id: str = "", time: str = "") -> "EventDraft":  # noqa: A002
        """Encode an event; InvalidMemoryError if JSON cannot represent it, or its line would be too long to be read."""
        text = _encode(fields)[1:]
        draft = tuple.__new__(cls, (kind, fields, text, id, time))
        if len(text) > _MAX_UNCHECKED_CHARS:
            line = draft.finish(id or _SAMPLE_ID, time or _SAMPLE_TIME)[1]
            if len(line) > MAX_LINE_BYTES:
                raise _too_large_error(fields)
        return draft

    def finish(self, name: str, time: str) -> tuple[Event, bytes]:
        """Return the event with this id and time, and its line."""
        line = f'{{"id":{_quoted(name)},"time":{_quoted(time)},{self.body}\n'
        return new_event((name, self.kind, {"id": name, "time": time, **self.fields})), line.encode()


_quoted = json.encoder.encode_basestring_ascii


def header_line(**facts: str) -> bytes:
    """Return the first line of a log; empty values are left out."""
    return encode_line({"memfs": SCHEMA_VERSION, **{key: value for key, value in facts.items() if value}})


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line; InvalidMemoryError if JSON cannot represent a value in it, or the line is too long."""
    return _encode(record).encode() + b"\n"


def _encode(record: Mapping[str, Any]) -> str:
    """Return the text of a line, which is always valid in UTF-8."""
    try:
        text = "".join(_chunks(record, 0))
        if ESCAPE_MARKER in text:
            text = _dumps(_escaped(record))
        length = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate has to be escaped by JSON
        text = _dumps_ascii(_escaped(record))
        length = len(text)
    except (TypeError, ValueError) as error:
        where = _path_to(record, _is_unencodable)
        raise InvalidMemoryError("event", f"cannot be stored: {where and f'{where}: '}{error}") from None
    except RecursionError:
        raise InvalidMemoryError("event", "is nested too deep, or within itself") from None
    if length >= MAX_LINE_BYTES:
        raise _too_large_error(record)
    return text


def _too_large_error(record: Mapping[str, Any]) -> InvalidMemoryError:
    where = _path_to(record, lambda value: len(_dumps(value)) > MAX_LINE_BYTES // 2)
    reason = f"is larger than {MAX_LINE_BYTES // (1024 * 1024)} MiB{where and f', most of it in {where}'}"
    return InvalidMemoryError("event", reason)


def _path_to(value: Any, is_wanted: Callable[[Any], bool]) -> str:
    """Return the path of the innermost wanted part, such as `message.content[1]`; empty if it cannot be found."""
    path, inner = "", value
    for _ in range(_MAX_PATH_DEPTH):
        parts = inner.items() if isinstance(inner, Mapping) else enumerate(inner) if isinstance(inner, list) else ()
        found = next(((key, part) for key, part in parts if is_wanted(part)), None)
        if found is None:
            return path.removeprefix(".")
        key, inner = found
        path += f".{key}" if isinstance(key, str) else f"[{key!r}]"
    return ""


def _is_unencodable(value: Any) -> bool:
    try:
        _dumps(value)
    except (TypeError, ValueError):
        return True
    return False


def _encode_other(value: object) -> object:
    """Return a JSON value for a type that the json module does not know."""
    if isinstance(value, bytes | bytearray):
        return {"memfs:bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"JSON has no type for {type(value).__name__}")


def _make_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return the C encoder, which json would create for each value; a value within itself raises RecursionError."""
    if (make := getattr(json.encoder, "c_make_encoder", None)) is None:
        return lambda value, _: [_dumps(value)]
    encoder: Callable[[Any, int], Iterable[str]] = make(
        None, _encode_other, json.encoder.encode_basestring, None, ":", ",", False, False, True
    )
    return encoder


_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_encode_other).encode
_chunks = _make_encoder()
_dumps_ascii = json.JSONEncoder(separators=(",", ":"), default=_encode_other).encode


def _escaped(value: Any) -> Any:
    """Return a value in which a mapping that looks like encoded bytes is escaped."""
    if isinstance(value, Mapping):
        if len(value) == 1 and isinstance(key := next(iter(value)), str) and BYTES_KEY.fullmatch(key):
            return {key.replace(":", "::", 1): _escaped(value[key])}
        return {key: _escaped(inner) for key, inner in value.items()}
    return [_escaped(inner) for inner in value] if isinstance(value, list | tuple) else value
