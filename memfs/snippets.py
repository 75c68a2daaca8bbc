"""The piece of a memory that shows why it was found, with the words of the question marked. Pure."""

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

LENGTH = 200  # characters
LEAD = 40  # of them before the first marked word
START = 3  # characters that a word and its stem have in common
MAX_TEXT = 100_000
MAX_FOUND = 200
_WORD = re.compile(r"[^\W_]+")
_word_at = _WORD.match
_SPACE = re.compile(r"\s")
_GAP = re.compile(r"[^\S ]\s*|  \s*")  # white space that is not one space

Found = tuple[int, int, str]  # from, to, and the term it is


class Snippet(NamedTuple):
    """A piece of text, and where the words stand in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


class Marker:
    """Marks the words of one question; `stem` gives the terms of a word."""

    def __init__(self, terms: Collection[str], stem: Callable[[str], Collection[str]]) -> None:
        self._terms, self._stem = terms, stem
        self._starts = {term[:START] for term in terms if term.isascii()}
        self._known: dict[str, str] = {}  # the term of a word, if it is one of the question's

    def snippet(self, body: str) -> Snippet:
        """A piece of about 200 characters from where most of the terms are, on one line."""
        text = body if len(body) <= MAX_TEXT else body[:MAX_TEXT]
        found = self._find(text)
        start, end = _window(text, found) if len(text) > LENGTH else (0, len(text))
        piece = text[start:end]
        line = _GAP.sub(" ", piece).strip()
        if line != piece:
            places = self._find(line)
        else:
            places = [(first - start, last - start, term) for first, last, term in found if start <= first < end]
        lead = 1 if start else 0
        marks = tuple([(first + lead, last + lead) for first, last, _ in places if last <= len(line)])
        return Snippet(f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}", marks)

    def _find(self, text: str) -> list[Found]:
        """Where words stand that are, by their stem, words of the question, in order."""
        found: list[Found] = []
        if not text.isascii():
            for word in _WORD.finditer(text):
                if term := self._term(word[0]):
                    _mark(text, word.start(), word.end(), term, found)
            return found
        lower = text.lower()
        for start in self._starts:
            at = lower.find(start)
            while at >= 0 and (word_there := _word_at(lower, at)):
                end = word_there.end()
                if (at == 0 or not lower[at - 1].isalnum()) and (term := self._term(lower[at:end])):
                    found.append((at, end, term))
                at = lower.find(start, end)
        found.sort()
        return found[:MAX_FOUND]

    def _term(self, word: str) -> str:
        term = self._known.get(word)
        if term is None:
            term = self._known[word] = next((term for term in self._stem(word) if term in self._terms), "")
        return term


def _mark(text: str, start: int, end: int, term: str, found: list[Found]) -> None:
    """Mark a word; in a script without spaces, where a word is a sentence, the characters of the question."""
    at = text.find(term, start, end) if not term.isascii() else -1
    if at < 0:
        found.append((start, end, term))
    while at >= 0 and len(found) < MAX_FOUND:
        found.append((at, at + len(term), term))
        at = text.find(term, at + len(term), end)


def _window(text: str, found: list[Found]) -> tuple[int, int]:
    """The first piece with all of the terms, else the one with the most, and of these with the most words."""
    best, start = (0, 0), found[0][0] if found else 0
    most = len({term for _, _, term in found})
    for number, (first, _, _) in enumerate(found if most > 1 else ()):
        inside = [term for _, last, term in found[number : number + 20] if last <= first + LENGTH - LEAD]
        if (count := (len(set(inside)), len(inside))) > best:
            best, start = count, first
            if best[0] == most:
                break
    start = max(0, min(start - LEAD, len(text) - LENGTH))
    end = start + LENGTH
    if start and (gap := _SPACE.search(text, start - 1, start + LEAD)):
        start = gap.end()
    if end < len(text) and (at := max(text.rfind(" ", end - LEAD, end + 1), text.rfind("\n", end - LEAD, end + 1))) > 0:
        end = at
    return start, end
