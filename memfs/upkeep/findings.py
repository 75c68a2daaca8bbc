"""Findings: where a text holds what should not be kept, by kind and place, never the text itself. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds one kind of thing, in time linear in the text.

    A text with none of its signs holds none: `anchors` as they stand, `pattern`, `words` in whatever case. Anchors and
    pattern are looked for only where the outline of the text has one of the `shapes`. All this is there also where the
    text is spelled as JSON. A detector without any sign looks at every text.
    """

    kind: str
    find: Find
    anchors: Sequence[str] = ()
    words: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None
    shapes: Sequence[bytes] = ()

    @property
    def is_blind(self) -> bool:
        """Tell whether it has no sign."""
        return not (self.anchors or self.words or self.pattern)


RUN = b"a" * 14  # in the outline of a text with a long run of what tokens are made of
NUMBER = b"0" * 12  # of one with many digits, whatever stands between them
CAPITALS = b"AA"  # of one with two capital letters
_DIGITS, _UPPER = b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BETWEEN = " .\u00a0-".encode()  # groups of digits


def outline(text: str) -> bytes:
    """A text in few letters, twice, in which a shape is found faster than a pattern is in the text."""
    return b"".join(_outlines(text))


def _outlines(text: str) -> tuple[bytes, bytes]:
    """Where runs are, and where numbers and capitals are."""
    data = text.encode(errors="surrogatepass")
    return data.translate(_RUNS), data.translate(_GROUPS, _BETWEEN)


def _table(**letters: bytes) -> bytes:
    marks = {byte: mark for mark, group in letters.items() for byte in group}
    return "".join(marks.get(byte, "~") for byte in range(256)).encode()


_RUNS = _table(a=_DIGITS + _UPPER + _UPPER.lower() + b"_+/=-")
_GROUPS = _table(**{"0": _DIGITS, "A": _UPPER})


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
    lowered, lines = lower(text), outline(text)
    seen: dict[re.Pattern[str] | None, bool] = {None: False}
    chosen = []
    for one in detectors:
        if _has(lowered, one.words) or one.is_blind:
            chosen.append(one)
        elif not one.shapes or any(shape in lines for shape in one.shapes):
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
    plain, searches = _signs(one for one in active if not one.shapes)
    shapes = dict.fromkeys(shape for one in active for shape in one.shapes)
    gates = tuple((shape != RUN, shape, *_signs(one for one in active if shape in one.shapes)) for shape in shapes)

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
        lines = _outlines(text)
        for which, shape, anchors, behind in gates:
            if shape in lines[which] and (_has(text, anchors) or any(search(text) for search in behind)):
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
