"""Finding the candidates of a search, from the index and from unpublished changes, in the order of their ranks."""

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
from memfs.search.conversation.gather import SearchRequest, gather_and_rerank
from memfs.search.conversation.rerank import Features, RankedCandidate
from memfs.storage.recall_log import NEVER_RECALLED, RecallLog, Recalls, id_hash
from memfs.storage.stat_scan import StampTuple

if TYPE_CHECKING:
    from memfs.search.semantic.semantic_index import SemanticIndex

GROWTH = 4  # times as many matches are fetched when too many of them were filtered out
WINDOW = 12  # candidates that are sorted by rank at a time
DECAY_CACHE_SECONDS = 3600  # decay factors hardly change within this time

Candidate = tuple[float, str, StampTuple, float, Features | None, int | None]
"""A memory that may be a hit: negative rank (negative score before ranks are computed), path, stamp, score, features if
it was re-ranked, and its row in the index (None if it is unpublished). Candidates sort best first."""


class DecayFactors(dict[int, float]):
    """The decay factor per index row, computed lazily; a rank is multiplied by it."""

    def __init__(self, table: RowTable, recalls: Mapping[int, Recalls], now: float, half_life_days: float) -> None:
        self._table, self._recalls, self._now, self._half_life_days = table, recalls, now, half_life_days

    def __missing__(self, row: int) -> float:
        factor = self[row] = self.compute(*self._table.decay_fields(row))
        return factor

    def compute(self, decay_inputs: int, id_hash: int) -> float:
        """Return the decay factor of a memory with these packed decay inputs and this hash of its id."""
        return packed_factor(decay_inputs, self._now, self._half_life_days, *self._recalls.get(id_hash, NEVER_RECALLED))


class CandidateFinder:
    """Finds the candidates of a search. The caller of any method holds the lock of freshness."""

    def __init__(
        self,
        freshness: Freshness,
        decay: DecaySettings,
        recall_log: RecallLog,
        semantic_index: "SemanticIndex | None" = None,
    ) -> None:
        self._freshness, self._decay, self._recall_log = freshness, decay, recall_log
        self._semantic_index = semantic_index
        self._factors: tuple[tuple[object, ...], DecayFactors] | None = None  # with the state that they are for

    def find(self, request: SearchRequest, page: Page, now: datetime) -> Iterator[Candidate]:
        """Yield the candidates that are relevant enough, best first; for a blank question, the newest first.

        They are sorted by score, and then, within each window, by rank, which is relevance times decay factor.
        """
        index, is_reranked = self._freshness.index, self._is_reranked(request.question)
        wanted = -(-(page.offset + page.limit) // WINDOW) * WINDOW  # rounded up to whole windows
        if request.question.is_empty or not self._decay.enabled:
            return _relevant(self._by_score(request, wanted), request.weights, page.min_relevance)
        if not self._freshness.unpublished.entries and not is_reranked:
            return self._published_by_rank(index, request, wanted, page.min_relevance, now)
        found = _relevant(self._by_score(request, wanted), request.weights, page.min_relevance)
        return self._by_rank(found, request.weights.information or 1.0, now)

    def is_single_window(self, question: Question, page: Page) -> bool:
        """Return whether the first window of the published index is enough for a page, if it has that many hits."""
        fits = page.limit <= WINDOW and not page.offset and not page.min_relevance and self._decay.enabled
        return fits and not (self._freshness.unpublished.entries or question.is_empty or self._is_reranked(question))

    def decay_reasons(self, path: str, row: int | None, now: datetime) -> list[Reason]:
        """Return how decay changed the rank of a memory, as a reason."""
        if not self._decay.enabled:
            return []
        decay_inputs, id_hash = self._decay_inputs(path, row)
        recalls = self._recall_log.by_id_hash().get(id_hash, NEVER_RECALLED)
        arguments = (decay_inputs, now.timestamp(), self._decay.half_life_days, *recalls)
        retention, factor = packed_retention(*arguments), packed_factor(*arguments)
        recalled = f", recalled {recalls.times} times" if recalls.times else ""
        return [Reason(f"retention {retention:.0%}{recalled}: rank x {factor:.2f}")]

    # --- by rank

    def _by_rank(self, found: Iterator[Candidate], information: float, now: datetime) -> Iterator[Candidate]:
        """Yield candidates that are sorted by score, each window of them sorted by rank."""
        factors = self.decay_factors(self._freshness.index, now)
        while window := [*islice(found, WINDOW)]:
            window_factors = [
                factors.compute(*self._decay_inputs(one[1], None)) if one[5] is None else factors[one[5]]
                for one in window
            ]
            ranked = [
                (-((-order / information) ** RELEVANCE_EXPONENT) * factor, path, stamp, score, features, row)
                for (order, path, stamp, score, features, row), factor in zip(window, window_factors, strict=True)
            ]
            ranked.sort(key=itemgetter(0, 1))
            yield from ranked

    def _published_by_rank(
        self, index: TantivyIndex, request: SearchRequest, wanted: int, min_relevance: float, now: datetime
    ) -> Iterator[Candidate]:
        """Yield the same without unpublished changes and re-ranking; a row is looked up only when it is needed."""
        factors, weights = self.decay_factors(index, now), request.weights
        information, path_and_stamp = weights.information or 1.0, index.row_table.path_and_stamp
        for found in _match_batches(index, request.question, request.clauses, wanted):
            for start in range(0, len(found), WINDOW):
                window = found[start : start + WINDOW]
                if min_relevance:
                    window = [pair for pair in window if weights.relevance(pair[0]) >= min_relevance]
                for rank, row, score in rank_matches(window, information, factors):
                    path, stamp = path_and_stamp(row)
                    yield -rank, path, stamp, score, None, row
                if len(window) < WINDOW:
                    return

    def decay_factors(self, index: TantivyIndex, now: datetime) -> DecayFactors:
        """Return the decay factors of an index, cached until recalls or the time change them."""
        seconds, recalls, table = now.timestamp(), self._recall_log.by_id_hash(), index.row_table
        key = (table, self._recall_log.version, seconds // DECAY_CACHE_SECONDS)
        if self._factors is None or self._factors[0] != key:
            self._factors = key, DecayFactors(table, recalls, seconds, self._decay.half_life_days)
        return self._factors[1]

    def _decay_inputs(self, path: str, row: int | None) -> tuple[int, int]:
        """Return the packed decay inputs of a memory, and the hash of its id."""
        if row is not None:
            return self._freshness.index.row_table.decay_fields(row)
        memory = self._freshness.unpublished.entries[path].memory
        assert memory is not None  # a removed memory is not a candidate
        return pack_decay_inputs(memory_moments(memory), memory.header.values), id_hash(memory.id)

    # --- by score

    def _is_reranked(self, question: Question) -> bool:
        """Return whether matches are re-ranked: by their conversations, or by similarity."""
        has_positions = self._freshness.unpublished.positions or self._freshness.index.has_positions
        return bool(has_positions or self._semantic_index is not None) and question.is_plain

    def _by_score(self, request: SearchRequest, wanted: int) -> Iterator[Candidate]:
        """Yield the re-ranked candidates, then the others by score."""
        (question, weights, clauses, *_), unpublished = request, self._freshness.unpublished
        if unpublished and not question.is_empty:
            question = question._replace(boosts=self._term_boosts(weights))
            request = request._replace(question=question)
        matches: Iterator[Candidate] = self._published_matches(question, clauses, wanted)
        if unpublished and (scores := self._unpublished_scores(question, weights)):
            matches = merge(matches, self._unpublished_matches(question, scores))
        if not self._is_reranked(question):
            return matches
        if self._semantic_index is not None:
            request = request._replace(semantic=self._semantic_index.embed_question(question, weights))
        return _reranked_first(gather_and_rerank(self._freshness.index, unpublished, request), matches)

    def _term_boosts(self, weights: Weights) -> dict[str, float]:
        """Return the factors that correct the term weights of the index, which lacks the unpublished memories."""
        index = self._freshness.index
        found = {term: (index.document_frequency(term), weight) for term, weight in weights.by_term.items()}
        return {term: weight / idf(count, index.memory_count) for term, (count, weight) in found.items() if count}

    def _published_matches(self, question: Question, clauses: Sequence[Clause], wanted: int) -> Iterator[Candidate]:
        index, unpublished = self._freshness.index, self._freshness.unpublished.entries
        path_and_stamp = index.row_table.path_and_stamp
        limit = wanted + (8 if unpublished else 0)  # some matches have unpublished changes, and are skipped
        for score, row in chain.from_iterable(_match_batches(index, question, clauses, limit)):
            path, stamp = path_and_stamp(row)
            if path not in unpublished:
                yield -score, path, stamp, score, None, row

    def _unpublished_scores(self, question: Question, weights: Weights) -> Mapping[str, float]:
        """Return the scores of unpublished memories by path; for a blank question their times of change."""
        unpublished = self._freshness.unpublished
        if not question.is_empty:
            mean_length = unpublished.combined_mean_length(self._freshness.index.mean_length)
            return unpublished.scores(weights.groups, weights.by_term, mean_length)
        changed = {path: entry.memory for path, entry in unpublished.entries.items() if entry.memory}
        return {path: memory_moments(memory)["updated"] for path, memory in changed.items()}

    def _unpublished_matches(self, question: Question, scores: Mapping[str, float]) -> Iterator[Candidate]:
        for order, path in sorted([(-score, path) for path, score in scores.items()]):
            memory, terms, *_ = self._freshness.unpublished.entries[path]
            if memory and (not question.phrases or has_all_phrases(terms, question.phrases)):
                yield order, path, memory.stamp, -order, None, None


def rank_matches(found: Matches, information: float, factors: DecayFactors) -> list[tuple[float, int, float]]:
    """Return matches sorted by rank, as (rank, row, score)."""
    ranked = [((score / information) ** RELEVANCE_EXPONENT * factors[row], row, score) for score, row in found]
    ranked.sort(key=itemgetter(0), reverse=True)
    return ranked


def _match_batches(index: TantivyIndex, question: Question, clauses: Sequence[Clause], limit: int) -> Iterator[Matches]:
    """Yield the (score, row) matches of an index in batches: the first `limit`, then more while they are needed."""
    seen = 0
    while True:
        found = index.newest(clauses, limit) if question.is_empty else index.find(question, clauses, limit)
        yield found[seen:]
        if len(found) < limit or limit >= index.memory_count:
            return
        seen, limit = len(found), limit * GROWTH


def _relevant(found: Iterator[Candidate], weights: Weights, min_relevance: float) -> Iterator[Candidate]:
    """Return the candidates whose relevance is at least `min_relevance`."""
    return found if not min_relevance else _filter_relevant(found, weights, min_relevance)


def _filter_relevant(found: Iterable[Candidate], weights: Weights, min_relevance: float) -> Iterator[Candidate]:
    for candidate in found:
        if weights.relevance(candidate[3]) >= min_relevance:
            yield candidate
        elif candidate[4] is None:  # not re-ranked, so all that follow have a lower score
            return


def _reranked_first(first: Sequence[RankedCandidate], rest: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the re-ranked candidates, then the others."""
    for rank, score, features, one in first:
        yield -rank, one.path, one.stamp, score, features, one.row
    paths = {one.candidate.path for one in first}
    yield from (candidate for candidate in rest if candidate[1] not in paths)
