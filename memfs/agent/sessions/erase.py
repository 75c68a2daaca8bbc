"""Erasing: the bytes of a log without one event, also without its remnants in damaged lines. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memfs.agent.sessions.events import EVENT_KINDS, Event
from memfs.agent.sessions.line_encoder import encode_line
from memfs.agent.sessions.log_parser import parse_log

PIECE_BYTES = 16  # length of a piece of text that identifies a damaged line as a remnant
MIN_TEXT_BYTES = 8  # a shorter text is too common to identify a remnant


def replace_line(data: bytes, event: Event, line: bytes) -> bytes:
    """Return the bytes of a log in which `line` replaces the event.

    Further lines with the event's id, and damaged lines with its id or some of its text, are left out.
    """
    lines, is_placed = [], False
    matcher = _RemnantMatcher(event)
    damaged = {problem.line for problem in parse_log(data, "").problems}
    for number, old in enumerate(data.split(b"\n"), 1):
        parsed = parse_log(old, "") if number in damaged or matcher.has_id(old) else None
        events = parsed.events if parsed else []
        is_other = parsed is None or parsed.header or (events and events[0].id != event.id)
        if is_other or not (events or matcher.is_remnant(old)):
            lines.append(old)
        elif events and not is_placed:
            lines.append(line.removesuffix(b"\n"))
            is_placed = True
    return b"\n".join(lines)


class _RemnantMatcher:
    """Recognises lines that contain parts of one event."""

    def __init__(self, event: Event) -> None:
        self._ids = {b'"%b"' % encoded for encoded in _encodings(event.id)}
        self._line = encode_line(event.record)
        texts = {found for kind in EVENT_KINDS for text in _texts(event.record.get(kind)) for found in _encodings(text)}
        self._short = {text for text in texts if MIN_TEXT_BYTES <= len(text) < PIECE_BYTES}
        starts = ((text, start) for text in texts for start in range(0, len(text) - PIECE_BYTES + 1, PIECE_BYTES))
        self._pieces = {text[start : start + PIECE_BYTES] for text, start in starts}

    def has_id(self, line: bytes) -> bool:
        """Return whether the line contains the event's id."""
        return any(encoded in line for encoded in self._ids)

    def is_remnant(self, line: bytes) -> bool:
        """Return whether a line that is not an event contains a part of the event."""
        if not line.strip():
            return False
        if self.has_id(line) or line.strip() in self._line or any(text in line for text in self._short):
            return True
        starts = range(len(line) - PIECE_BYTES + 1)
        return any(line[start : start + PIECE_BYTES] in self._pieces for start in starts)


def _encodings(text: str) -> set[bytes]:
    """Return the ways in which a text can be encoded in a line."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="surrogatepass")
    return {json.dumps(text)[1:-1].encode(), plain}


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, and bytes in their encoded form."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes | bytearray):
        yield encode_line({"": value}).decode().rpartition(":")[2].strip('"}\n')
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
