"""The piece of a memory that shows why it was found, with the words of the question marked. Pure."""

import re
from collections.abc import Callable, Collection
from typing import NamedTuple, Self

from memfs.query.tokens import EMOJI_PREFIX, UNSPACED, emoji_from_term, strip_accents

LENGTH = 200  # characters
LEAD = 40  # of them before the first marked word
REACH = LENGTH - LEAD
START = 2  # characters that a word and its stem have in common at least; mostly they differ by the last one
MAX_TEXT = 100_000
MAX_FOUND = 200
MAX_WORD = 80  # characters of a word
_WORD = re.compile(r"[^\W_]+")
_word_at = _WORD.match


class _Folding(dict[int, str]):
    """Characters and the small ones without accents that they are found by, as they are met: one for one, so that
    both stand at the same place."""

    def __missing__(self, code: int) -> str:
        plain = strip_accents(chr(code)).lower()
        self[code] = _BARRED.get(plain, plain) if len(plain) == 1 else chr(code)
        return self[code]


_BARRED = dict(zip("øłđðħŧıŋɓɗƙƴəɛɔ", "olddhtinbdkyaeo", strict=True))  # no accents to Unicode, yet folded
_FOLDING = _Folding()
_JOINED = {"ss": "ß", "ae": "æ", "oe": "œ", "th": "þ"}  # one letter here, two to the index
_JOINED |= {"ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ", "ffi": "ﬃ", "ffl": "ﬄ"}

Found = tuple[int, int, str]  # from, to, and the term it is
Snippet = tuple[str, tuple[tuple[int, int], ...]]  # a piece of text, and where the words stand in it


class Line(NamedTuple):
    """A text on one line, and the same in small letters without accents, character by character."""

    text: str
    folded: str

    @classmethod
    def of(cls, body: str) -> Self:
        """The line that a body is."""
        text = body[:MAX_TEXT].strip().replace("\n\n", " ").replace("\n", " ")
        if "  " in text or not text.isprintable():
            text = " ".join(text.split())
        return cls(text, text.lower() if text.isascii() else text.translate(_FOLDING))


class Marker:
    """Marks the words of one question; `stem` gives the terms of a word."""

    def __init__(self, terms: Collection[str], stem: Callable[[str], Collection[str]]) -> None:
        self._terms, self._stem = terms, stem
        starts: list[str] = []
        parts: list[str] = []
        for term in terms:
            if term.isascii() or not _is_part(term):
                starts.append(term[:-1] if len(term) > START else term)
                if term.startswith(EMOJI_PREFIX) and (sign := emoji_from_term(term)):
                    parts.append(sign)
            else:
                parts.append(term)
        self._starts, self._parts = _shortest(starts), parts
        self._joined: list[str] | None = None

    def snippet(self, line: Line) -> Snippet:
        """A piece of about 200 characters from where most of the terms are."""
        text, folded = line
        found = self._find(folded)
        if len(text) <= LENGTH:
            return text, tuple([(first, last) for first, last, _ in found])
        start, end = _window(text, found)
        before, after = "…" if start else "", "…" if end < len(text) else ""
        shift = len(before) - start
        marks = [(first + shift, last + shift) for first, last, _ in found if start <= first and last <= end]
        return f"{before}{text[start:end]}{after}", tuple(marks)

    def _find(self, folded: str) -> list[Found]:
        """Where words stand that are, by their stem, words of the question, in order."""
        found: list[Found] = []
        terms, stem, find = self._terms, self._stem, folded.find
        for start in self._starts if folded.isascii() else self._starts_and_joined():
            at = find(start)
            while at >= 0 and len(found) < MAX_FOUND and (match := _word_at(folded, at)):
                end = match.end()
                if end - at <= MAX_WORD and (at == 0 or not folded[at - 1].isalnum()):
                    for term in stem(match[0]):
                        if term in terms:
                            found.append((at, end, term))
                            break
                at = find(start, end)
        for part in self._parts:
            at = find(part)
            while at >= 0 and len(found) < MAX_FOUND:
                found.append((at, at + len(part), part))
                at = find(part, at + len(part))
        found.sort()
        return found

    def _starts_and_joined(self) -> list[str]:
        """What words begin with, also where two letters of a term are one."""
        if self._joined is None:
            found = [
                term[: match.start()] + sign
                for term in self._terms
                for pair, sign in _JOINED.items()
                for match in re.finditer(pair, term)
            ]
            self._joined = _shortest([*self._starts, *found])
        return self._joined


def _shortest(starts: list[str]) -> list[str]:
    """Those that no other one is the beginning of: a shorter one finds more."""
    last = " "
    starts.sort()
    return [last := start for start in starts if not start.startswith(last)]


def _is_part(term: str) -> bool:
    """Tell whether a term is looked for as it is: a pair, or one with signs that Python has in no word."""
    return bool(UNSPACED.match(term)) or not term.isalnum()


def _window(text: str, found: list[Found]) -> tuple[int, int]:
    """The piece around the best place to begin at, cut between words."""
    best = found[0][0] if found else 0
    if len(found) > 2 and found[-1][1] > best + REACH:
        best = _best(found)
    start, size = best - LEAD, len(text)
    if start > size - LENGTH:
        start = size - LENGTH
    if start <= 0:
        start, end = 0, LENGTH
    else:
        end = start + LENGTH
        if (at := text.find(" ", start - 1, start + LEAD)) >= 0:
            start = at + 1
    if end < size and (at := text.rfind(" ", end - LEAD, end + 1)) > 0:
        end = at
    return start, end


def _best(found: list[Found]) -> int:
    """Where the first piece with all of the terms begins, else the one with the most, and of these with most words."""
    best, start = (0, 0), found[0][0]
    most = len({term for _, _, term in found})
    for number, (first, _, _) in enumerate(found if most > 1 else ()):
        inside = [term for _, last, term in found[number : number + 20] if last <= first + REACH]
        if (count := (len(set(inside)), len(inside))) > best:
            best, start = count, first
            if best[0] == most:
                break
    return start
