"""Memories that changed since the index was published, scored as the index scores. Pure.

The formula is BM25 with tantivy's parameters, over the statistics of the published index, so that the scores
of both can be compared.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from memfs.data_types import Memory
from memfs.query.bm25 import bm25

NOBODY: Mapping[str, int] = MappingProxyType({})


class Pending(NamedTuple):
    """A memory as it is now, or that it is gone."""

    memory: Memory | None
    terms: Sequence[str] = ()
    place: int | None = None  # in a conversation
    spoken: Sequence[str] = ()  # the keywords that come with a place
    is_new: bool = True  # the index has no earlier version of it, as far as one knows


class UnpublishedChanges:
    """The changes that are not published yet, by path."""

    def __init__(self) -> None:
        self.entries: dict[str, Pending] = {}
        self.version = 0
        self._counts: dict[str, Counter[str]] = {}
        self._having: dict[str, dict[str, int]] = {}  # term -> path -> how often it has the term
        self._added: Counter[str] = Counter()  # term -> in how many memories the index knows nothing of
        self.places: dict[int, set[str]] = {}  # place -> paths
        self._new = self._gone = self._words = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, path: str) -> bool:
        return path in self.entries

    @property
    def size(self) -> int:
        """The bytes of all pending memories."""
        return sum(len(pending.memory.data) for pending in self.entries.values() if pending.memory)

    def put(self, path: str, pending: Pending) -> None:
        """Take in a change."""
        self.drop(path)
        self.version += 1
        self.entries[path] = pending
        self._count(pending, 1)
        counts = self._counts[path] = Counter(pending.terms)
        for term, count in counts.items():
            self._having.setdefault(term, {})[path] = count
        if pending.is_new:
            self._added.update(counts.keys())
        if pending.place is not None:
            self.places.setdefault(pending.place, set()).add(path)

    def drop(self, path: str) -> None:
        """Let go of a change that is published."""
        if (old := self.entries.pop(path, None)) is None:
            return
        self.version += 1
        self._count(old, -1)
        counts = self._counts.pop(path)
        for term in counts:
            del self._having[term][path]
            if not self._having[term]:
                del self._having[term], self._added[term]
        if old.is_new:
            self._added.subtract(counts.keys() & self._having.keys())
        if old.place is not None:
            self.places[old.place].discard(path)
            if not self.places[old.place]:
                del self.places[old.place]

    def _count(self, pending: Pending, by: int) -> None:
        self._gone += by * (pending.memory is None)
        self._new += by * (pending.memory is not None and pending.is_new)
        self._words += by * len(pending.terms)

    def frequency(self, term: str) -> int:
        """The number of pending memories that have a term."""
        return len(self._having.get(term, ()))

    def frequency_over(self, published: int, term: str) -> int:
        """The number of memories that have a term, if as many in the index have it: an edited one counts once."""
        return max(published + self._added[term], self.frequency(term))

    def total_over(self, published: int) -> int:
        """The number of memories, if as many are in the index: an edited one counts once."""
        return max(published + self._new - self._gone, len(self.entries) - self._gone)

    def stamps_over(self, published: Mapping[str, tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
        """The stamps of memories, if those in the index have these."""
        if not self.entries:
            return published
        known = dict(published)
        for path, pending in self.entries.items():
            if pending.memory:
                known[path] = pending.memory.stamp
            else:
                known.pop(path, None)
        return known

    def lost_from(self, published: Container[str]) -> int:
        """How many fewer memories there are than in the index, which has these paths; what was moved is not lost."""
        came = sum(pending.memory is not None and path not in published for path, pending in self.entries.items())
        return self._gone - came

    def mean_over(self, published: float) -> float:
        """The mean number of terms of a memory: that of the index, if it has any, for its scores are told by it."""
        return published or self._words / max(len(self.entries) - self._gone, 1) or 1.0

    def prefixed(self, prefix: str) -> list[str]:
        """The pending terms that begin so."""
        return [term for term in self._having if term.startswith(prefix)]

    def scores(self, groups: Iterable[Iterable[str]], worth: Mapping[str, float], mean: float) -> dict[str, float]:
        """The scores of the pending memories that have one of the terms; a group counts by the best of its terms."""
        scores: dict[str, float] = {}
        for group in groups:
            best: dict[str, float] = {}
            for term in group:
                weight = worth.get(term, 0.0)
                for path, count in self._having.get(term, NOBODY).items() if weight else ():
                    score = bm25(count, len(self.entries[path].terms), mean, weight)
                    if score > best.get(path, 0.0):
                        best[path] = score
            for path, score in best.items():
                scores[path] = scores.get(path, 0.0) + score
        return scores

    def counts(self, path: str) -> Counter[str]:
        """How often a pending memory has each of its terms."""
        return self._counts[path]
