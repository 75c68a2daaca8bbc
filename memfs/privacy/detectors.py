"""Run detectors over a text. A finding has a kind and offsets, never the text itself. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Span = tuple[int, int]  # start and end offset
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
FindSpans = Callable[[str], Iterable[Span]]  # the matches in a text


@dataclass(frozen=True, slots=True)
class Finding:
    """One match of a detector in a text: its kind, its offsets and its line, from 1."""

    kind: str
    start: int
    end: int
    line: int = 1


class CharRun(NamedTuple):
    """A prefilter: a number of successive characters of one class.

    It translates all characters of the class to `a` and searches a run of `a`, which is faster than a regex.
    """

    table: bytes  # for bytes.translate: characters of the class become `a`, all others `~`
    run: bytes  # `a`, as often as characters are required

    @classmethod
    def of(cls, chars: bytes, length: int) -> "CharRun":
        """Return the prefilter for `length` successive bytes of `chars`."""
        return cls(bytes(b"~a"[byte in chars] for byte in range(256)), b"a" * length)

    def is_in(self, data: bytes) -> bool:
        """Return whether some bytes contain such a run."""
        return self.run in data.translate(self.table)


_DIGITS, _UPPER = b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TOKEN_RUN = CharRun.of(_DIGITS + _UPPER + _UPPER.lower() + b"_+/=-", 14)  # characters of tokens
GROUPED_RUN = CharRun.of(_DIGITS + _UPPER + " .\u00a0-".encode(), 13)  # digits and capitals, also in groups


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds one kind of secret or personal data, in time linear in the text.

    `find` is only called for a text that passes the prefilter: it contains one of the `words` in any case, or, if it
    contains the `required_run`, one of the `anchors` or a match of `pattern`. The prefilter also passes for the same
    text encoded as JSON. A detector without words, anchors and pattern runs on every text.
    """

    kind: str
    find: FindSpans
    anchors: Sequence[str] = ()
    words: Sequence[str] = ()
    pattern: re.Pattern[str] | None = None
    required_run: CharRun | None = None

    @property
    def is_unfiltered(self) -> bool:
        """Whether the detector has no prefilter."""
        return not (self.anchors or self.words or self.pattern)


def lower(text: str) -> str:
    """Return a text in lower case with the same length, so that offsets stay valid."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)


def find_all(detectors: Iterable[Detector], text: str) -> list[Finding]:
    """Return the findings in order of offset; overlapping ones are merged and get the kind of the first detector."""
    spans = [
        (max(start, 0), min(end, len(text)), rank, detector.kind)
        for rank, detector in enumerate(_prefiltered(detectors, text))
        for start, end in detector.find(text)
        if start < end
    ]
    return _with_lines(_merge_overlaps(sorted(spans)), text) if spans else []


def _prefiltered(detectors: Iterable[Detector], text: str) -> list[Detector]:
    """Return the detectors whose prefilter the text passes."""
    lowered, data = lower(text), text.encode(errors="surrogatepass")
    matches: dict[re.Pattern[str] | None, bool] = {None: False}
    chosen = []
    for one in detectors:
        if _contains_any(lowered, one.words) or one.is_unfiltered:
            chosen.append(one)
        elif not one.required_run or one.required_run.is_in(data):
            if (pattern := one.pattern) not in matches:
                matches[pattern] = pattern is not None and pattern.search(text) is not None
            if matches[pattern] or _contains_any(text, one.anchors):
                chosen.append(one)
    return chosen


def _contains_any(text: str, parts: Sequence[str]) -> bool:
    for part in parts:  # noqa: SIM110  a generator would cost more than the search
        if part in text:
            return True
    return False


def build_prefilter(detectors: Iterable[Detector]) -> Callable[[str], bool]:
    """Return a function that returns whether a text passes the prefilter of any detector; most texts pass none."""
    active = tuple(detectors)
    if any(one.is_unfiltered for one in active):
        return bool  # every text but the empty one
    words = tuple(dict.fromkeys(word for one in active for word in one.words))
    plain, searches = _anchors_and_searches(one for one in active if not one.required_run)
    runs = dict.fromkeys(one.required_run for one in active if one.required_run)
    by_run = tuple((*run, *_anchors_and_searches(one for one in active if one.required_run == run)) for run in runs)

    def may_find(text: str) -> bool:  # runs on every message: loops cost less than calls
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
        for table, run, anchors, run_searches in by_run:
            if run in data.translate(table) and (
                _contains_any(text, anchors) or any(search(text) for search in run_searches)
            ):
                return True
        return False

    return may_find


def _anchors_and_searches(detectors: Iterable[Detector]) -> tuple[tuple[str, ...], tuple[Callable[[str], object], ...]]:
    """Return the anchors of some detectors, and the search functions of their patterns."""
    some = tuple(detectors)
    patterns = dict.fromkeys(one.pattern for one in some if one.pattern)
    return tuple(anchor for one in some for anchor in one.anchors), tuple(pattern.search for pattern in patterns)


def _merge_overlaps(spans: Iterable[tuple[int, int, int, str]]) -> list[tuple[int, int, str]]:
    """Merge overlapping spans, which are sorted; a merged span has the kind of the lowest rank."""
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
    """Return the spans, which are sorted, as findings with their lines."""
    findings, line, before = [], 1, 0
    for start, end, kind in spans:
        line += text.count("\n", before, start)
        before = start
        findings.append(Finding(kind, start, end, line))
    return findings
