"""Snippets: the part of a memory that shows why it matched, with the words of the question marked. Pure."""

import re
from collections.abc import Callable, Collection
from typing import NamedTuple, Self

from memfs.query.tokens import EMOJI_PREFIX, UNSPACED, emoji_from_term, strip_accents

SNIPPET_CHARS = 200
LEAD_CHARS = 40  # of a snippet, before the first marked word
REACH_CHARS = SNIPPET_CHARS - LEAD_CHARS
MIN_SHARED_CHARS = 2  # of a word and its stem; of a longer stem, only the last character may differ from the word
MAX_TEXT_CHARS = 100_000
MAX_MATCHES = 200
MAX_WORD_CHARS = 80
_WORD = re.compile(r"[^\W_]+")
_word_at = _WORD.match


class _Folding(dict[int, str]):
    """Maps each character to lower case without accents, computed lazily; one for one, so that offsets stay."""

    def __missing__(self, code: int) -> str:
        plain = strip_accents(chr(code)).lower()
        self[code] = _BARRED.get(plain, plain) if len(plain) == 1 else chr(code)
        return self[code]


_BARRED = dict(zip("øłđðħŧıŋɓɗƙƴəɛɔ", "olddhtinbdkyaeo", strict=True))  # the index folds them like accents
_FOLDING = _Folding()
_LIGATURES = {"ss": "ß", "ae": "æ", "oe": "œ", "th": "þ"}  # one character in the text, two in the index
_LIGATURES |= {"ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ", "ffi": "ﬃ", "ffl": "ﬄ"}

Match = tuple[int, int, str]  # start, end and term
Snippet = tuple[str, tuple[tuple[int, int], ...]]  # a text, and the offsets of the marked words in it


class Line(NamedTuple):
    """A text on one line, and the same in lower case without accents; offsets are the same in both."""

    text: str
    folded: str

    @classmethod
    def from_body(cls, body: str) -> Self:
        """Return a body on one line."""
        text = body[:MAX_TEXT_CHARS].strip().replace("\n\n", " ").replace("\n", " ")
        if "  " in text or not text.isprintable():
            text = " ".join(text.split())
        return cls(text, text.lower() if text.isascii() else text.translate(_FOLDING))


class SnippetMarker:
    """Cuts snippets out of texts and marks the words of one question; `stem` returns the terms of a word."""

    def __init__(self, terms: Collection[str], stem: Callable[[str], Collection[str]]) -> None:
        self._terms, self._stem = terms, stem
        prefixes: list[str] = []
        literals: list[str] = []
        for term in terms:
            if term.isascii() or not _is_literal(term):
                prefixes.append(term[:-1] if len(term) > MIN_SHARED_CHARS else term)
                if term.startswith(EMOJI_PREFIX) and (emoji := emoji_from_term(term)):
                    literals.append(emoji)
            else:
                literals.append(term)
        self._prefixes, self._literals = _shortest(prefixes), literals
        self._prefixes_with_ligatures: list[str] | None = None

    def snippet(self, line: Line) -> Snippet:
        """Return about 200 characters around the part with the most terms, and the offsets of the marked words."""
        text, folded = line
        found = self._find_matches(folded)
        if len(text) <= SNIPPET_CHARS:
            return text, tuple([(first, last) for first, last, _ in found])
        start, end = _window(text, found)
        before, after = "…" if start else "", "…" if end < len(text) else ""
        shift = len(before) - start
        marks = [(first + shift, last + shift) for first, last, _ in found if start <= first and last <= end]
        return f"{before}{text[start:end]}{after}", tuple(marks)

    def _find_matches(self, folded: str) -> list[Match]:
        """Return the words whose stem is a term of the question, in order."""
        found: list[Match] = []
        terms, stem, find = self._terms, self._stem, folded.find
        for prefix in self._prefixes if folded.isascii() else self._with_ligatures():
            at = find(prefix)
            while at >= 0 and len(found) < MAX_MATCHES and (match := _word_at(folded, at)):
                end = match.end()
                if end - at <= MAX_WORD_CHARS and (at == 0 or not folded[at - 1].isalnum()):
                    for term in stem(match[0]):
                        if term in terms:
                            found.append((at, end, term))
                            break
                at = find(prefix, end)
        for literal in self._literals:
            at = find(literal)
            while at >= 0 and len(found) < MAX_MATCHES:
                found.append((at, at + len(literal), literal))
                at = find(literal, at + len(literal))
        found.sort()
        return found

    def _with_ligatures(self) -> list[str]:
        """Return the prefixes, and also those in which a ligature replaces two letters of a term."""
        if self._prefixes_with_ligatures is None:
            found = [
                term[: match.start()] + sign
                for term in self._terms
                for pair, sign in _LIGATURES.items()
                for match in re.finditer(pair, term)
            ]
            self._prefixes_with_ligatures = _shortest([*self._prefixes, *found])
        return self._prefixes_with_ligatures


def _shortest(prefixes: list[str]) -> list[str]:
    """Return the prefixes that do not begin with another prefix: the shorter prefix finds the same words and more."""
    last = " "
    prefixes.sort()
    return [last := prefix for prefix in prefixes if not prefix.startswith(last)]


def _is_literal(term: str) -> bool:
    """Return whether a term is searched as it is: a pair of characters, or a term that is not one `_WORD`."""
    return bool(UNSPACED.match(term)) or not term.isalnum()


def _window(text: str, found: list[Match]) -> tuple[int, int]:
    """Return the start and end of the snippet, cut between words."""
    best = found[0][0] if found else 0
    if len(found) > 2 and found[-1][1] > best + REACH_CHARS:
        best = _best_start(found)
    start, size = best - LEAD_CHARS, len(text)
    if start > size - SNIPPET_CHARS:
        start = size - SNIPPET_CHARS
    if start <= 0:
        start, end = 0, SNIPPET_CHARS
    else:
        end = start + SNIPPET_CHARS
        if (at := text.find(" ", start - 1, start + LEAD_CHARS)) >= 0:
            start = at + 1
    if end < size and (at := text.rfind(" ", end - LEAD_CHARS, end + 1)) > 0:
        end = at
    return start, end


def _best_start(found: list[Match]) -> int:
    """Return the start of the first part with all terms, else of that with the most terms, then the most words."""
    best, start = (0, 0), found[0][0]
    most = len({term for _, _, term in found})
    for number, (first, _, _) in enumerate(found if most > 1 else ()):
        inside = [term for _, last, term in found[number : number + 20] if last <= first + REACH_CHARS]
        if (count := (len(set(inside)), len(inside))) > best:
            best, start = count, first
            if best[0] == most:
                break
    return start
