"""Erasing: the bytes of a log without an event, and without what damage left of its line elsewhere. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memfs.agent.sessions.events import KINDS, Event, line_of, understand

PIECE = 16  # bytes of a text by which a damaged line is known to hold some of it
SHORT = 8  # a text below this says too little to be known by


def with_line(data: bytes, event: Event, line: bytes) -> bytes:
    """The bytes of a log with one line in the place of all that have the id of an event, or hold some of its text."""
    lines, is_placed = [], False
    left = _Left(event)
    damaged = {problem.line for problem in understand(data, "").problems}
    for number, old in enumerate(data.split(b"\n"), 1):
        found = understand(old, "") if number in damaged or left.names(old) else None
        events = found.events if found else []
        if found is None or found.head or (events and events[0].id != event.id) or not (events or left.is_in(old)):
            lines.append(old)
        elif events and not is_placed:
            lines.append(line.removesuffix(b"\n"))
            is_placed = True
    return b"\n".join(lines)


class _Left:
    """Knows what is left of the line of an event."""

    def __init__(self, event: Event) -> None:
        self._ids = {b'"%b"' % one for one in _spellings(event.id)}
        self._line = line_of(event.record)
        said = {one for kind in KINDS for text in _texts(event.record.get(kind)) for one in _spellings(text)}
        self._short = {one for one in said if SHORT <= len(one) < PIECE}
        self._pieces = {one[at : at + PIECE] for one in said for at in range(0, len(one) - PIECE + 1, PIECE)}

    def names(self, line: bytes) -> bool:
        """Tell whether the id is in a line."""
        return any(one in line for one in self._ids)

    def is_in(self, line: bytes) -> bool:
        """Tell whether a line that is no event holds some of the event."""
        if not line.strip():
            return False
        if self.names(line) or line.strip() in self._line or any(one in line for one in self._short):
            return True
        return any(line[at : at + PIECE] in self._pieces for at in range(len(line) - PIECE + 1))


def _spellings(text: str) -> set[bytes]:
    """A text as it may stand in a line."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="surrogatepass")
    return {json.dumps(text)[1:-1].encode(), plain}


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, bytes as they are spelled."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes | bytearray):
        yield line_of({"": value}).decode().rpartition(":")[2].strip('"}\n')
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
