"""The piece of a memory that shows why it was found, with the words of the question marked. Pure."""

import re
import unicodedata
from collections.abc import Callable, Collection
from typing import NamedTuple

from memfs.words import UNSPACED

LENGTH = 200  # characters
LEAD = 40  # of them before the first marked word
REACH = LENGTH - LEAD
START = 2  # characters that a word and its stem have in common at least; mostly they differ by the last one
MAX_TEXT = 100_000
MAX_FOUND = 200
MAX_WORD = 80  # characters of a word
_WORD = re.compile(r"[^\W_]+")
_word_at = _WORD.match
_SPACE = re.compile(r"\s")
_PLAIN = {  # letters with an accent, and the same without
    code: plain[0]
    for code in range(0xC0, 0x250)
    if len(plain := unicodedata.normalize("NFD", chr(code))) > 1 and plain[0].isascii()
}

Found = tuple[int, int, str]  # from, to, and the term it is


class Snippet(NamedTuple):
    """A piece of text, and where the words stand in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


class Marker:
    """Marks the words of one question; `stem` gives the terms of a word."""

    def __init__(self, terms: Collection[str], stem: Callable[[str], Collection[str]]) -> None:
        self._terms, self._stem = terms, stem
        self._pairs = [term for term in terms if not term.isascii() and UNSPACED.match(term)]
        words = [term for term in terms if term not in self._pairs] if self._pairs else terms
        self._starts = {term[: max(len(term) - 1, START)] for term in words}
        self._known: dict[str, str] = {}  # the term of a word, if it is one of the question's

    def snippet(self, body: str) -> Snippet:
        """A piece of about 200 characters from where most of the terms are, on one line."""
        text = body[:MAX_TEXT].replace("\n", " ")
        found = self._find(text)
        start, end = _window(text, found) if len(text) > LENGTH else (0, len(text))
        before, after = "…" if start else "", "…" if end < len(text) else ""
        line = text[start:end].replace("  ", " ")  # between paragraphs
        if "  " in line or not line.isprintable() or line != line.strip():
            text = line = " ".join(line.split())
            found, start, end = self._find(line), 0, len(line)
        shift, marks = len(before) - start, []
        for first, last, _ in found:
            if start <= first and last <= end:
                moved = shift - text.count("  ", start, first)
                marks.append((first + moved, last + moved))
        return Snippet(f"{before}{line}{after}", tuple(marks))

    def _find(self, text: str) -> list[Found]:
        """Where words stand that are, by their stem, words of the question, in order."""
        found: list[Found] = []
        lower = text.lower() if text.isascii() else text.translate(_PLAIN).lower()
        if len(lower) != len(text):  # a letter whose small one is two
            lower = text
        known = self._known
        for start in self._starts:
            at = lower.find(start)
            while at >= 0 and len(found) < MAX_FOUND and (match := _word_at(lower, at)):
                end = match.end()
                if at == 0 or not lower[at - 1].isalnum():
                    word = lower[at:end]
                    if term := known[word] if word in known else self._term(word):
                        found.append((at, end, term))
                at = lower.find(start, end)
        for pair in self._pairs:
            at = lower.find(pair)
            while at >= 0 and len(found) < MAX_FOUND:
                found.append((at, at + len(pair), pair))
                at = lower.find(pair, at + len(pair))
        found.sort()
        return found

    def _term(self, word: str) -> str:
        self._known[word] = ""
        for term in self._stem(word) if len(word) <= MAX_WORD else ():
            if term in self._terms:
                self._known[word] = term
                break
        return self._known[word]


def _window(text: str, found: list[Found]) -> tuple[int, int]:
    """The piece around the best place to begin at, cut between words."""
    start = max(0, min(_best(found) - LEAD, len(text) - LENGTH))
    end = start + LENGTH
    if start and (gap := _SPACE.search(text, start - 1, start + LEAD)):
        start = gap.end()
    if end < len(text) and (at := text.rfind(" ", end - LEAD, end + 1)) > 0:
        end = at
    return start, end


def _best(found: list[Found]) -> int:
    """Where the first piece with all of the terms begins, else the one with the most, and of these with most words."""
    if len(found) < 3 or found[-1][1] <= found[0][0] + REACH:
        return found[0][0] if found else 0
    best, start = (0, 0), found[0][0]
    most = len({term for _, _, term in found})
    for number, (first, _, _) in enumerate(found if most > 1 else ()):
        inside = [term for _, last, term in found[number : number + 20] if last <= first + REACH]
        if (count := (len(set(inside)), len(inside))) > best:
            best, start = count, first
            if best[0] == most:
                break
    return start
