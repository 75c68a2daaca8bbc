"""Memories that changed since the index was published, scored as the index scores. Pure.

The scores are BM25 with Tantivy's parameters over the statistics of the published index, so that the scores of both can
be compared.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memfs.data_types import Memory
from memfs.query.bm25 import bm25

_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


class UnpublishedChange(NamedTuple):
    """A memory as it is now, with its terms, or a memory that was removed (`memory` is None)."""

    memory: Memory | None
    terms: Sequence[str] = ()
    position: int | None = None  # in a conversation
    keywords: Sequence[str] = ()  # those that come with a position
    is_new: bool = True  # as far as known, the index has no earlier version of it


class UnpublishedChanges:
    """The changes that are not published yet, by path."""

    def __init__(self) -> None:
        self.entries: dict[str, UnpublishedChange] = {}
        self.version = 0  # increases with every change of the entries
        self.positions: dict[int, set[str]] = {}  # position -> paths
        self._counts: dict[str, Counter[str]] = {}  # path -> term -> occurrences
        self._postings: dict[str, dict[str, int]] = {}  # term -> path -> occurrences
        self._new_frequency: Counter[str] = Counter()  # term -> number of new memories with the term
        self._new = self._removed = self._term_total = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, path: str) -> bool:
        return path in self.entries

    @property
    def total_bytes(self) -> int:
        """The size of all changed memories."""
        return sum(len(change.memory.data) for change in self.entries.values() if change.memory)

    def put(self, path: str, change: UnpublishedChange) -> None:
        """Add a change, in place of an earlier one of the same path."""
        self.drop(path)
        self.version += 1
        self.entries[path] = change
        self._update_totals(change, 1)
        counts = self._counts[path] = Counter(change.terms)
        for term, count in counts.items():
            self._postings.setdefault(term, {})[path] = count
        if change.is_new:
            self._new_frequency.update(counts.keys())
        if change.position is not None:
            self.positions.setdefault(change.position, set()).add(path)

    def drop(self, path: str) -> None:
        """Remove the change of a path, if there is one, because it is published or replaced."""
        if (old := self.entries.pop(path, None)) is None:
            return
        self.version += 1
        self._update_totals(old, -1)
        counts = self._counts.pop(path)
        for term in counts:
            del self._postings[term][path]
            if not self._postings[term]:
                del self._postings[term], self._new_frequency[term]
        if old.is_new:
            self._new_frequency.subtract(counts.keys() & self._postings.keys())
        if old.position is not None:
            self.positions[old.position].discard(path)
            if not self.positions[old.position]:
                del self.positions[old.position]

    def _update_totals(self, change: UnpublishedChange, by: int) -> None:
        self._removed += by * (change.memory is None)
        self._new += by * (change.memory is not None and change.is_new)
        self._term_total += by * len(change.terms)

    def document_frequency(self, term: str) -> int:
        """Return the number of changed memories that have a term."""
        return len(self._postings.get(term, ()))

    def combined_frequency(self, published: int, term: str) -> int:
        """Return the document frequency of a term in index and changes together; `published` is that of the index.

        An edited memory counts once.
        """
        return max(published + self._new_frequency[term], self.document_frequency(term))

    def combined_total(self, published: int) -> int:
        """Return the number of memories in index and changes together; `published` is that of the index.

        An edited memory counts once.
        """
        return max(published + self._new - self._removed, len(self.entries) - self._removed)

    def combined_stamps(self, published: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
        """Return the stamps of all memories; `published` are those of the index."""
        if not self.entries:
            return published
        stamps = dict(published)
        for path, change in self.entries.items():
            if change.memory:
                stamps[path] = change.memory.stamp
            else:
                stamps.pop(path, None)
        return stamps

    def combined_mean_length(self, published: float) -> float:
        """Return the mean number of terms of a memory: that of the index if it has one, since its scores use it."""
        return published or self._term_total / max(len(self.entries) - self._removed, 1) or 1.0

    def count_lost(self, published: Container[str]) -> int:
        """Return how many fewer memories there are than in the index, whose paths these are; negative if more."""
        added = sum(change.memory is not None and path not in published for path, change in self.entries.items())
        return self._removed - added

    def terms_with_prefix(self, prefix: str) -> list[str]:
        """Return the terms of changed memories that start with a prefix."""
        return [term for term in self._postings if term.startswith(prefix)]

    def scores(
        self, groups: Iterable[Iterable[str]], weights: Mapping[str, float], mean_length: float
    ) -> dict[str, float]:
        """Return the scores of the changed memories that have one of the terms; a group counts by its best term."""
        scores: dict[str, float] = {}
        for group in groups:
            best: dict[str, float] = {}
            for term in group:
                weight = weights.get(term, 0.0)
                for path, count in self._postings.get(term, _NO_COUNTS).items() if weight else ():
                    score = bm25(count, len(self.entries[path].terms), mean_length, weight)
                    if score > best.get(path, 0.0):
                        best[path] = score
            for path, score in best.items():
                scores[path] = scores.get(path, 0.0) + score
        return scores

    def term_counts(self, path: str) -> Counter[str]:
        """Return the number of occurrences of each term of a changed memory."""
        return self._counts[path]
