"""Tokenizing and scoring for keyed stores, the same as in a vault, whatever the backend. Pure.

A score is the fraction of the query's information that a text has. A rare word counts more than a frequent one, so that
0.8 means the same among ten texts and among ten thousand.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from memfs.query.bm25 import idf_or_zero
from memfs.query.question import compute_weights
from memfs.query.tokens import MAX_QUESTION_CHARS, MAX_TERMS

if TYPE_CHECKING:
    from memfs.index.tantivy_analyzer import Analyzer

LANGUAGE = "english"
MAX_INDEXED_CHARS = 100_000  # of a value


class Candidate(NamedTuple):
    """A text that has terms of a query: the count of each term, and the length of the text in terms."""

    key: str
    counts: Mapping[str, int]
    length: int


def text_terms(text: str) -> list[str]:
    """Return the terms of a text, in order."""
    return _analyzer().terms(text[:MAX_INDEXED_CHARS])


def query_terms(query: str) -> list[str]:
    """Return the terms of a query without duplicates. Any text is a query."""
    text = query[:MAX_QUESTION_CHARS].encode("utf-8", "replace").decode()
    return list(dict.fromkeys(_analyzer().question_terms(text)))[:MAX_TERMS] if text.strip() else []


def rank(
    terms: Sequence[str],
    candidates: Iterable[Candidate],
    *,
    frequency: Callable[[str], int],
    total: int,
    mean_length: float,
) -> list[tuple[str, float]]:
    """Return the keys of the candidates with their scores, best first; equal scores are sorted by key."""
    weights = compute_weights([(term,) for term in terms], lambda term: idf_or_zero(frequency(term), total), total)
    found = []
    for key, counts, length in candidates:
        if score := weights.score(counts, length, mean_length):
            found.append((key, weights.relevance(score)))
    return sorted(found, key=lambda hit: (-hit[1], hit[0]))


@cache
def _analyzer() -> "Analyzer":
    from memfs.index.tantivy_analyzer import Analyzer

    return Analyzer(LANGUAGE)


class TermIndex:
    """An inverted index in RAM: which texts have which terms. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._keys: dict[str, set[str]] = {}  # by term
        self._total_length = 0

    def put(self, key: str, terms: Sequence[str]) -> None:
        """Index the terms of a text, replacing those that the key had."""
        self.drop(key)
        counts = self._counts[key] = Counter(terms)
        self._total_length += counts.total()
        for term in counts:
            self._keys.setdefault(term, set()).add(key)

    def drop(self, key: str) -> None:
        """Remove a text from the index."""
        counts = self._counts.pop(key, Counter())
        self._total_length -= counts.total()
        for term in counts:
            self._keys[term].discard(key)
            if not self._keys[term]:
                del self._keys[term]

    def find(self, terms: Sequence[str]) -> list[tuple[str, float]]:
        """Return the keys of the texts that have one of the terms, with their scores, best first."""
        keys = {key for term in terms for key in self._keys.get(term, ())}
        return rank(
            terms,
            (Candidate(key, self._counts[key], self._counts[key].total()) for key in keys),
            frequency=lambda term: len(self._keys.get(term, ())),
            total=len(self._counts),
            mean_length=self._total_length / max(len(self._counts), 1),
        )
