"""BM25 with Tantivy's parameters, and phrase matching over lists of terms. Pure."""

import math
from collections.abc import Iterable, Sequence

K1 = 1.2
B = 0.75


def bm25(count: int, length: int, mean_length: float, weight: float) -> float:
    """Return the score of a term that occurs `count` times in a text of `length` terms; `weight` is its idf."""
    return weight * (K1 + 1) * count / (count + K1 * (1 - B + B * length / mean_length))


def idf(frequency: int, total: int) -> float:
    """Return the inverse document frequency of a term that `frequency` of `total` memories contain."""
    return math.log(1 + (max(total - frequency, 0) + 0.5) / (frequency + 0.5))


def idf_or_zero(frequency: int, total: int) -> float:
    """Return the inverse document frequency of a term, and 0 for a term that no memory contains."""
    return idf(frequency, total) if frequency else 0.0


def has_phrase(terms: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether a text has the terms of a phrase, which is not empty, one after the other."""
    first, size = phrase[0], len(phrase)
    return any(term == first and list(terms[start : start + size]) == list(phrase) for start, term in enumerate(terms))


def has_all_phrases(terms: Sequence[str], phrases: Iterable[Sequence[str]]) -> bool:
    """Return whether a text contains every phrase."""
    return all(has_phrase(terms, phrase) for phrase in phrases)
