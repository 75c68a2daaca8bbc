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

    A text with none of its signs holds none: `anchors` as they stand, `words` in whatever case, `pattern`. Each of them
    is in the text also where that is spelled as JSON. A detector without any sign looks at every text.
    """

    kind: str
    find: Find
    anchors: Sequence[str] = ()
    words: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None

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
    lowered = lower(text)
    seen: dict[re.Pattern[str] | None, bool] = {None: False}
    chosen = []
    for detector in detectors:
        pattern = detector.pattern
        if pattern not in seen:
            seen[pattern] = bool(pattern and pattern.search(text))
        if seen[pattern] or _has(text, detector.anchors) or _has(lowered, detector.words) or detector.is_blind:
            chosen.append(detector)
    return chosen


def _has(text: str, signs: Sequence[str]) -> bool:
    for sign in signs:  # noqa: SIM110  a generator would cost more than the search
        if sign in text:
            return True
    return False


def first_look(detectors: Iterable[Detector]) -> Callable[[str], bool]:
    """A function that tells whether a text has a sign of any of them; most texts have none."""
    active = tuple(detectors)
    anchors = tuple(dict.fromkeys(anchor for one in active for anchor in one.anchors))
    words = tuple(dict.fromkeys(word for one in active for word in one.words))
    searches = tuple(pattern.search for pattern in dict.fromkeys(one.pattern for one in active if one.pattern))
    if any(one.is_blind for one in active):
        return bool

    def may_find(text: str) -> bool:
        if _has(text, anchors) or _has(lower(text), words):
            return True
        for search in searches:  # noqa: SIM110
            if search(text):
                return True
        return False

    return may_find


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
