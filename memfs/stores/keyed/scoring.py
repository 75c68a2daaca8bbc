"""How texts are cut into words, and how near to a question they are: as in a vault, whatever keeps them. Pure.

A score is the share of the question's information that a text has: a rare word counts more than one that is
everywhere, so that 0.8 means the same among ten texts and among ten thousand.
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
MAX_INDEXED = 100_000  # characters of a value that are searched


class Candidate(NamedTuple):
    """A text that has words of a question: how often each, and how many words it has in all."""

    key: str
    counts: Mapping[str, int]
    length: int


def terms_of(text: str) -> list[str]:
    """The terms of a text, in order."""
    return _analyzer().terms(text[:MAX_INDEXED])


def asked_terms(query: str) -> list[str]:
    """The terms that a question asks for, each once; any text is a question."""
    text = query[:MAX_QUESTION_CHARS].encode("utf-8", "replace").decode()
    return list(dict.fromkeys(_analyzer().question_terms(text)))[:MAX_TERMS] if text.strip() else []


def rank(
    asked: Sequence[str],
    candidates: Iterable[Candidate],
    *,
    frequency: Callable[[str], int],
    total: int,
    mean_length: float,
) -> list[tuple[str, float]]:
    """The keys of the candidates with their scores, best first; of two that are as near, by key."""
    weights = compute_weights([(term,) for term in asked], lambda term: idf_or_zero(frequency(term), total), total)
    found = []
    for key, counts, length in candidates:
        if score := weights.score(counts, length, mean_length):
            found.append((key, weights.relevance(score)))
    return sorted(found, key=lambda hit: (-hit[1], hit[0]))


@cache
def _analyzer() -> "Analyzer":
    from memfs.index.tantivy_analyzer import Analyzer

    return Analyzer(LANGUAGE)


class Words:
    """Which texts have which words, in RAM. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._having: dict[str, set[str]] = {}  # term -> keys
        self._length = 0

    def put(self, key: str, terms: Sequence[str]) -> None:
        """Take in the terms of a text, in the place of those that the key had."""
        self.drop(key)
        counts = self._counts[key] = Counter(terms)
        self._length += counts.total()
        for term in counts:
            self._having.setdefault(term, set()).add(key)

    def drop(self, key: str) -> None:
        """Let go of a text."""
        counts = self._counts.pop(key, Counter())
        self._length -= counts.total()
        for term in counts:
            self._having[term].discard(key)
            if not self._having[term]:
                del self._having[term]

    def find(self, asked: Sequence[str]) -> list[tuple[str, float]]:
        """The keys of the texts that have one of the terms, with their scores, best first."""
        keys = {key for term in asked for key in self._having.get(term, ())}
        return rank(
            asked,
            (Candidate(key, self._counts[key], self._counts[key].total()) for key in keys),
            frequency=lambda term: len(self._having.get(term, ())),
            total=len(self._counts),
            mean_length=self._length / max(len(self._counts), 1),
        )
