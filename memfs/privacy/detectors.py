"""Findings: where a text holds what should not be kept, by kind and place, never the text itself. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Span = tuple[int, int]
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
Find = Callable[[str], Iterable[Span]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in a text: what kind of thing is there, and on which line, from 1."""

    kind: str
    start: int
    end: int
    line: int = 1


class Shape(NamedTuple):
    """A run of so many signs of a kind, found faster in the outline of a text than a pattern is in the text."""

    outlines: bytes  # a table for bytes.translate
    run: bytes

    @classmethod
    def of(cls, signs: bytes, length: int) -> "Shape":
        return cls(bytes(b"~a"[byte in signs] for byte in range(256)), b"a" * length)

    def is_in(self, data: bytes) -> bool:
        return self.run in data.translate(self.outlines)


_DIGITS, _UPPER = b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RUN = Shape.of(_DIGITS + _UPPER + _UPPER.lower() + b"_+/=-", 14)  # of what tokens are made of
BLOCK = Shape.of(_DIGITS + _UPPER + " .\u00a0-".encode(), 13)  # of digits and capitals, also in groups


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds one kind of thing, in time linear in the text.

    A text with none of its signs holds none: `anchors` as they stand, `pattern`, `words` in whatever case. Anchors and
    pattern are looked for only where the text has the `shape`. All this is there also where it is spelled as JSON.
    A detector without any sign looks at every text.
    """

    kind: str
    find: Find
    anchors: Sequence[str] = ()
    words: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None
    shape: Shape | None = None

    @property
    def is_blind(self) -> bool:
        """Tell whether it has no sign."""
        return not (self.anchors or self.words or self.pattern)


def lower(text: str) -> str:
    """A text in lower case, sign by sign: none becomes two."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_LOWER)


def found_by(detectors: Iterable[Detector], text: str) -> list[Finding]:
    """What detectors find, in order and apart from each other; of two that overlap, the first detector names both."""
    spans = [
        (max(start, 0), min(end, len(text)), rank, detector.kind)
        for rank, detector in enumerate(_worth_a_look(detectors, text))
        for start, end in detector.find(text)
        if start < end
    ]
    return _with_lines(_apart(sorted(spans)), text) if spans else []


def _worth_a_look(detectors: Iterable[Detector], text: str) -> list[Detector]:
    """The detectors of which the text has a sign, and those without any."""
    lowered, data = lower(text), text.encode(errors="surrogatepass")
    seen: dict[re.Pattern[str] | None, bool] = {None: False}
    chosen = []
    for one in detectors:
        if _has(lowered, one.words) or one.is_blind:
            chosen.append(one)
        elif not one.shape or one.shape.is_in(data):
            if (pattern := one.pattern) not in seen:
                seen[pattern] = pattern is not None and pattern.search(text) is not None
            if seen[pattern] or _has(text, one.anchors):
                chosen.append(one)
    return chosen


def _has(text: str, signs: Sequence[str]) -> bool:
    for sign in signs:  # noqa: SIM110  a generator would cost more than the search
        if sign in text:
            return True
    return False


def first_look(detectors: Iterable[Detector]) -> Callable[[str], bool]:
    """A function that tells whether a text has a sign of any of them; most texts have none."""
    active = tuple(detectors)
    if any(one.is_blind for one in active):
        return bool
    words = tuple(dict.fromkeys(word for one in active for word in one.words))
    plain, searches = _signs(one for one in active if not one.shape)
    shapes = dict.fromkeys(one.shape for one in active if one.shape)
    gates = tuple((*shape, *_signs(one for one in active if one.shape == shape)) for shape in shapes)

    def may_find(text: str) -> bool:  # of every message that is said: loops cost less than calls
        lowered = text.lower()
        for word in words:
            if word in lowered:
                return True
        for anchor in plain:
            if anchor in text:
                return True
        for search in searches:
            if search(text):
                return True
        data = text.encode(errors="surrogatepass")
        for outlines, run, anchors, behind in gates:
            if run in data.translate(outlines) and (_has(text, anchors) or any(search(text) for search in behind)):
                return True
        return False

    return may_find


def _signs(detectors: Iterable[Detector]) -> tuple[tuple[str, ...], tuple[Callable[[str], object], ...]]:
    """The anchors of some detectors, and the searches for their patterns."""
    some = tuple(detectors)
    patterns = dict.fromkeys(one.pattern for one in some if one.pattern)
    return tuple(anchor for one in some for anchor in one.anchors), tuple(pattern.search for pattern in patterns)


def _apart(spans: Iterable[tuple[int, int, int, str]]) -> list[tuple[int, int, str]]:
    """Spans in order of their start, with those that overlap made one."""
    merged: list[tuple[int, int, int, str]] = []
    for span in spans:
        if merged and span[0] < merged[-1][1]:
            start, end, *_ = merged[-1]
            rank, kind = min(merged[-1][2:], span[2:])
            merged[-1] = (start, max(end, span[1]), rank, kind)
        else:
            merged.append(span)
    return [(start, end, kind) for start, end, _, kind in merged]


def _with_lines(spans: Iterable[tuple[int, int, str]], text: str) -> list[Finding]:
    findings, line, before = [], 1, 0
    for start, end, kind in spans:
        line += text.count("\n", before, start)
        before = start
        findings.append(Finding(kind, start, end, line))
    return findings
