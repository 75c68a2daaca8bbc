"""Candidates: whatever may be a hit, from the index and from what is pending, in the order in which hits are shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from memfs.data_types import Reason
from memfs.decay import DecaySettings, pack_decay_inputs, packed_factor, packed_retention
from memfs.freshness.freshness import Freshness
from memfs.index.row_table import RowTable
from memfs.index.tantivy_index import Matches, TantivyIndex
from memfs.query.bm25 import has_all_phrases, idf
from memfs.query.keyword_terms import Clause, memory_moments
from memfs.query.question import RELEVANCE_EXPONENT, Page, Question, Weights
from memfs.search.conversation.gather import Asked, in_order
from memfs.search.conversation.rerank import Ranked, Support
from memfs.storage.recall_log import NEVER, RecallLog, Recalls, mark_of
from memfs.storage.stat_scan import Marks

if TYPE_CHECKING:
    from memfs.search.semantic.semantic_index import SemanticIndex

MORE = 4  # times as many candidates are asked for when too many fell away
WINDOW = 12  # candidates that are put in the order of their ranks at a time
HOUR = 3600  # seconds in which what is left of a memory hardly changes

Candidate = tuple[float, str, Marks, float, Support | None, int | None]
"""A memory that may be a hit: negative rank, path, stamp, score, what else speaks for it, row unless it is pending; the
best is the least."""


class Left(dict[int, float]):
    """What time has left of memories, as what their ranks are multiplied by: by row, made when it is asked for."""

    def __init__(self, row_table: RowTable, recalled: Mapping[int, Recalls], now: float, days: float) -> None:
        self._catalog, self._recalled, self._now, self._days = row_table, recalled, now, days

    def __missing__(self, row: int) -> float:
        factor = self[row] = self.of(*self._catalog.decay_fields(row))
        return factor

    def of(self, life: int, mark: int) -> float:
        """The same of a memory of such a life and mark."""
        return packed_factor(life, self._now, self._days, *self._recalled.get(mark, NEVER))


class Candidates:
    """Finds what may be hits. Every method wants the lock of freshness held."""

    def __init__(
        self, fresh: Freshness, forgetting: DecaySettings, usage: RecallLog, meaning: "SemanticIndex | None" = None
    ) -> None:
        self._fresh, self._forgetting, self._usage, self._meaning = fresh, forgetting, usage, meaning
        self._known: tuple[tuple[object, ...], Left] | None = None

    def find(self, asked: Asked, page: Page, now: datetime) -> Iterator[Candidate]:
        """Whatever is relevant enough, by rank: its relevance, times what time has left of it."""
        index, is_led = self._fresh.index, self._is_led(asked.question)
        wanted = -(-(page.offset + page.limit) // WINDOW) * WINDOW
        if asked.question.is_empty or not self._forgetting.enabled:
            return _relevant(self._by_score(asked, wanted), asked.weights, page.min_relevance)
        if not self._fresh.unpublished.entries and not is_led:
            return self._published_by_rank(index, asked, wanted, page.min_relevance, now)
        found = _relevant(self._by_score(asked, wanted), asked.weights, page.min_relevance)
        return self._by_rank(found, asked.weights.information or 1.0, now)

    def are_first(self, question: Question, page: Page) -> bool:
        """Tell whether the hits of a page are the best of the index by rank, as far as there are enough."""
        is_first = page.limit <= WINDOW and not page.offset and not page.min_relevance and self._forgetting.enabled
        return is_first and not (self._fresh.unpublished.entries or question.is_empty or self._is_led(question))

    def fading(self, path: str, row: int | None, now: datetime) -> list[Reason]:
        """What became of the rank of a memory with time, in words."""
        if not self._forgetting.enabled:
            return []
        life, mark = self._life(path, row)
        recalls = self._usage.marked().get(mark, NEVER)
        lived = (life, now.timestamp(), self._forgetting.half_life_days, *recalls)
        often = f", recalled {recalls.times} times" if recalls.times else ""
        return [Reason(f"{packed_retention(*lived):.0%} of it is left{often}: rank x {packed_factor(*lived):.2f}")]

    # --- by rank

    def _by_rank(self, found: Iterator[Candidate], information: float, now: datetime) -> Iterator[Candidate]:
        left = self.left(self._fresh.index, now)
        while window := [*islice(found, WINDOW)]:
            factors = [left.of(*self._life(one[1], None)) if one[5] is None else left[one[5]] for one in window]
            ranked = [
                (-((-order / information) ** RELEVANCE_EXPONENT) * factor, path, stamp, score, support, row)
                for (order, path, stamp, score, support, row), factor in zip(window, factors, strict=True)
            ]
            ranked.sort(key=itemgetter(0, 1))
            yield from ranked

    def _published_by_rank(
        self, index: TantivyIndex, asked: Asked, wanted: int, floor: float, now: datetime
    ) -> Iterator[Candidate]:
        """The same where nothing is pending and nothing comes from a conversation: a row is known when it is wanted."""
        left, weights, information = self.left(index, now), asked.weights, asked.weights.information or 1.0
        known = index.row_table.path_and_stamp
        for found in _rows(index, asked.question, asked.clauses, wanted):
            for start in range(0, len(found), WINDOW):
                window = found[start : start + WINDOW]
                if floor:
                    window = [pair for pair in window if weights.relevance(pair[0]) >= floor]
                for rank, row, score in by_rank(window, information, left):
                    path, stamp = known(row)
                    yield -rank, path, stamp, score, None, row
                if len(window) < WINDOW:
                    return

    def left(self, index: TantivyIndex, now: datetime) -> "Left":
        """What the ranks of memories are multiplied by."""
        seconds, recalled, row_table = now.timestamp(), self._usage.marked(), index.row_table
        key = (row_table, self._usage.version, seconds // HOUR)
        if self._known is None or self._known[0] != key:
            self._known = key, Left(row_table, recalled, seconds, self._forgetting.half_life_days)
        return self._known[1]

    def _life(self, path: str, row: int | None) -> tuple[int, int]:
        """When a memory was new and how much it matters, and the mark of its id."""
        if row is not None:
            return self._fresh.index.row_table.decay_fields(row)
        memory = self._fresh.unpublished.entries[path].memory
        assert memory is not None  # it is a candidate
        return pack_decay_inputs(memory_moments(memory), memory.header.values), mark_of(memory.id)

    # --- by score

    def _is_led(self, question: Question) -> bool:
        """Tell whether more than its score may speak for a memory: what was said around it, or what it means."""
        is_more = self._meaning is not None or self._fresh.unpublished.positions or self._fresh.index.has_positions
        return bool(is_more) and question.is_plain

    def _by_score(self, asked: Asked, wanted: int) -> Iterator[Candidate]:
        """Whatever may be a hit, best first."""
        (question, weights, clauses, *_), unpublished = asked, self._fresh.unpublished
        if unpublished and not question.is_empty:
            question = question._replace(boosts=self._boosts(weights))
            asked = asked._replace(question=question)
        matches: Iterator[Candidate] = self._published(question, clauses, wanted)
        if unpublished and (scores := self._scores(question, weights)):
            matches = merge(matches, self._pending(question, scores))
        if not self._is_led(question):
            return matches
        if self._meaning is not None:
            asked = asked._replace(meant=self._meaning.ask(question, weights))
        return _led(in_order(self._fresh.index, unpublished, asked), matches)

    def _boosts(self, weights: Weights) -> dict[str, float]:
        """What brings the terms of an index, which knows nothing of what is pending, to what they are worth."""
        index = self._fresh.index
        found = {term: (index.document_frequency(term), weight) for term, weight in weights.by_term.items()}
        return {term: weight / idf(count, index.memory_count) for term, (count, weight) in found.items() if count}

    def _published(self, question: Question, clauses: Sequence[Clause], wanted: int) -> Iterator[Candidate]:
        index, pending = self._fresh.index, self._fresh.unpublished.entries
        known = index.row_table.path_and_stamp
        for score, number in chain.from_iterable(_rows(index, question, clauses, wanted + (8 if pending else 0))):
            path, stamp = known(number)
            if path not in pending:
                yield -score, path, stamp, score, None, number

    def _scores(self, question: Question, weights: Weights) -> Mapping[str, float]:
        """What pending memories have to do with a question: their scores, or of a blank one when they were changed."""
        unpublished = self._fresh.unpublished
        if not question.is_empty:
            return unpublished.scores(
                weights.groups, weights.by_term, unpublished.combined_mean_length(self._fresh.index.mean_length)
            )
        changed = {path: pending.memory for path, pending in unpublished.entries.items() if pending.memory}
        return {path: memory_moments(memory)["updated"] for path, memory in changed.items()}

    def _pending(self, question: Question, scores: Mapping[str, float]) -> Iterator[Candidate]:
        for order, path in sorted([(-score, path) for path, score in scores.items()]):
            memory, terms, *_ = self._fresh.unpublished.entries[path]
            if memory and (not question.phrases or has_all_phrases(terms, question.phrases)):
                yield order, path, memory.stamp, -order, None, None


def by_rank(found: Matches, information: float, left: Left) -> list[tuple[float, int, float]]:
    """Some matches by rank, as (rank, row, score)."""
    ranked = [((score / information) ** RELEVANCE_EXPONENT * left[row], row, score) for score, row in found]
    ranked.sort(key=itemgetter(0), reverse=True)
    return ranked


def _rows(index: TantivyIndex, question: Question, clauses: Sequence[Clause], limit: int) -> Iterator[Matches]:
    """The scores and rows of an index, more of them when so many were not enough."""
    seen = 0
    while True:
        found = index.newest(clauses, limit) if question.is_empty else index.find(question, clauses, limit)
        yield found[seen:]
        if len(found) < limit or limit >= index.memory_count:
            return
        seen, limit = len(found), limit * MORE


def _relevant(found: Iterator[Candidate], weights: Weights, floor: float) -> Iterator[Candidate]:
    """The candidates that answer enough of a question; those that nothing else speaks for come in that order."""
    return found if not floor else _above(found, weights, floor)


def _above(found: Iterable[Candidate], weights: Weights, floor: float) -> Iterator[Candidate]:
    for candidate in found:
        if weights.relevance(candidate[3]) >= floor:
            yield candidate
        elif candidate[4] is None:
            return


def _led(first: Sequence[Ranked], rest: Iterable[Candidate]) -> Iterator[Candidate]:
    """Memories that are in order, and then the others."""
    for rank, score, support, witness in first:
        yield -rank, witness.path, witness.stamp, score, support, witness.row
    paths = {one.witness.path for one in first}
    yield from (candidate for candidate in rest if candidate[1] not in paths)
