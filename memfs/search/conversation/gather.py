"""Gathering the candidates of a re-ranking: the best matches, nearest neighbours, and the messages around them.

They come from the published index and from the changes that are not published yet.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple, Protocol

from memfs.data_types import Memory
from memfs.index.conversation_position import IS_QUESTION, SPEAKER_PREFIX, name_words
from memfs.index.tantivy_index import TantivyIndex
from memfs.index.unpublished_changes import UnpublishedChanges
from memfs.query.keyword_terms import Clause
from memfs.query.question import Question, Weights
from memfs.query.tokens import STOP_WORDS
from memfs.search.conversation.rerank import (
    MAX_MATCHES,
    MAX_SIMILAR,
    MAX_SPEAKERS,
    MAX_WITH_CONTEXT,
    RankedCandidate,
    RerankCandidate,
    rerank,
    top_term_weights,
    weight_of_bits,
    with_context,
)

FILTERED_FACTOR = 6  # times as many nearest neighbours are taken if a filter lets few of them through


class QueryTerms(NamedTuple):
    """The terms to look up in each candidate: the rarest terms of the question, and the speakers that it names."""

    term_weights: dict[str, float]
    speakers: list[str]  # keywords of the index

    def split_bits(self, bits: int) -> tuple[int, bool, bool]:
        """Split bits of the index: the term bits, whether the speaker is named, whether it is a question itself."""
        terms, speakers = len(self.term_weights), len(self.speakers)
        rest = bits >> terms
        return bits & ((1 << terms) - 1), rest & ((1 << speakers) - 1) > 0, rest >> speakers > 0


class SemanticQuery(Protocol):
    """An embedded question: see `semantic_index.EmbeddedQuestion`."""

    def nearest_rows(self, limit: int, among: Sequence[int] | None = None) -> list[int]: ...

    def nearest_unpublished(self) -> list[str]: ...

    def with_similarities(self, candidates: Sequence[RerankCandidate]) -> list[RerankCandidate]: ...


class SearchRequest(NamedTuple):
    """A question with its term weights, and the filter that hits must pass."""

    question: Question
    weights: Weights
    clauses: Sequence[Clause]  # the filter for the index
    accepts: Callable[[Memory], bool]  # the same filter for an unpublished memory
    semantic: SemanticQuery | None = None  # None without semantic search


class SimilarMemories(NamedTuple):
    """The nearest neighbours of a question, nearest first, and the conversation positions of the first ones."""

    rows: list[int]  # published memories
    paths: list[str]  # unpublished memories
    positions: list[int]


NO_SIMILAR = SimilarMemories([], [], [])


def gather_and_rerank(
    index: TantivyIndex, unpublished: UnpublishedChanges, request: SearchRequest
) -> list[RankedCandidate]:
    """Return the re-ranked best matches, nearest neighbours and messages around them.

    Empty without semantic search if no match comes from a conversation.
    """
    terms = query_terms_of(index, unpublished, request)
    candidates = gather(index, unpublished, request, terms)
    return rerank(candidates, [*terms.term_weights.values()], request.weights.information)


def query_terms_of(index: TantivyIndex, unpublished: UnpublishedChanges, request: SearchRequest) -> QueryTerms:
    """Return the terms and speakers to look up in the candidates."""
    return QueryTerms(top_term_weights(request.weights), _named_speakers(index, unpublished, request.question))


def gather(
    index: TantivyIndex, unpublished: UnpublishedChanges, request: SearchRequest, terms: QueryTerms
) -> list[RerankCandidate]:
    """Return the candidates, in no order; none without semantic search if no match comes from a conversation."""
    clauses, semantic = request.clauses, request.semantic
    path_and_stamp = index.row_table.path_and_stamp
    mean_length = unpublished.combined_mean_length(index.mean_length)
    found = index.find_with_positions(request.question, clauses, MAX_MATCHES + (8 if unpublished else 0))
    found = [one for one in found if path_and_stamp(one[1])[0] not in unpublished] if unpublished else found
    published = {row: (score, position) for score, row, position in found}
    best_unpublished = _best_unpublished(unpublished, request, terms, mean_length)
    matches = [*published.values(), *((one.score, one.position) for one in best_unpublished)]
    matches = sorted(matches, key=itemgetter(0), reverse=True)[:MAX_MATCHES]
    if semantic is None and all(position is None for _, position in matches):
        return []
    similar = NO_SIMILAR if semantic is None else _similar(index, unpublished, request, semantic)
    min_score = matches[-1][0] if matches else 0.0
    first_positions = [position for _, position in matches[:MAX_WITH_CONTEXT] if position is not None]
    positions = with_context(first_positions + similar.positions)
    positions = positions.union(position for _, position in matches if position is not None)
    rows = {row for row, (score, position) in published.items() if position is None and score >= min_score}
    rows = rows.union(similar.rows)
    seen = index.find_at_positions(
        [*terms.term_weights], [*terms.speakers, IS_QUESTION], positions=positions, rows=rows, clauses=clauses
    )
    crowded_out = published.keys() - {row for _, row, _ in seen}  # by hundreds of others at the same positions
    seen += [(0, row, published[row][1]) for row in crowded_out if published[row][0] >= min_score]
    if semantic:  # an estimated score would outweigh memories without any term of the question
        others = [row for bits, row, _ in seen if bits and row not in published]
        scores = index.find(request.question, (), len(others), others) if others else ()
        published |= {row: (score, None) for score, row in scores}
    candidates = [one for one in best_unpublished if one.score >= min_score]
    term_weights = [*terms.term_weights.values()]
    for bits, row, position in seen:
        path, stamp = path_and_stamp(row)
        if path not in unpublished:
            term_bits, is_speaker_named, is_question = terms.split_bits(bits)
            score = published[row][0] if row in published else min(weight_of_bits(term_bits, term_weights), min_score)
            candidates.append(
                RerankCandidate(path, stamp, score, position, term_bits, is_speaker_named, is_question, row)
            )
    gathered = {one.path for one in candidates}
    nearby = {path for position in positions for path in unpublished.positions.get(position, ())}
    nearby = nearby.union(similar.paths) - gathered
    candidates += _unpublished_candidates(unpublished, nearby, request, terms, mean_length)
    return candidates if semantic is None else semantic.with_similarities(candidates)


def _similar(
    index: TantivyIndex, unpublished: UnpublishedChanges, request: SearchRequest, semantic: SemanticQuery
) -> SimilarMemories:
    """Return the nearest neighbours that pass the filter."""
    path_and_stamp, rows, position_of = index.row_table.path_and_stamp, list[int](), dict[int, int | None]()
    for factor in (1, FILTERED_FACTOR, 0):  # 0: few neighbours pass the filter, so compare all rows that pass it
        limit = MAX_SIMILAR * (factor or 1) + len(unpublished)
        found = semantic.nearest_rows(limit, None if factor else index.all_rows(request.clauses))
        rows = [row for row in found if path_and_stamp(row)[0] not in unpublished] if unpublished else found
        first = rows[: MAX_SIMILAR * FILTERED_FACTOR]
        passed = index.find_at_positions((), (), positions=(), rows=first, clauses=request.clauses)
        position_of = {row: position for _, row, position in passed}
        if len(position_of) >= MAX_SIMILAR or len(found) < limit:
            break
    rows = [row for row in rows if row in position_of][:MAX_SIMILAR]
    entries = ((path, unpublished.entries[path]) for path in semantic.nearest_unpublished())
    accepted = [(path, entry.position) for path, entry in entries if entry.memory and request.accepts(entry.memory)]
    accepted = accepted[:MAX_SIMILAR]
    positions = [position_of[row] for row in rows[:MAX_WITH_CONTEXT]]
    positions += [position for _, position in accepted[:MAX_WITH_CONTEXT]]
    known_positions = [position for position in positions if position is not None]
    return SimilarMemories(rows, [path for path, _ in accepted], known_positions)


def _best_unpublished(
    unpublished: UnpublishedChanges, request: SearchRequest, terms: QueryTerms, mean_length: float
) -> list[RerankCandidate]:
    """Return the best matches among the unpublished memories."""
    scores = unpublished.scores(request.weights.groups, request.weights.by_term, mean_length)
    found = sorted((-score, path) for path, score in scores.items())
    candidates = (_unpublished_candidates(unpublished, [path], request, terms, mean_length) for _, path in found)
    return list(islice(chain.from_iterable(candidates), MAX_MATCHES))


def _unpublished_candidates(
    unpublished: UnpublishedChanges,
    paths: Iterable[str],
    request: SearchRequest,
    terms: QueryTerms,
    mean_length: float,
) -> list[RerankCandidate]:
    """Return the unpublished memories at these paths that exist and pass the filter."""
    found = []
    for path in paths:
        entry, counts = unpublished.entries[path], unpublished.term_counts(path)
        if entry.memory is not None and request.accepts(entry.memory):
            bits = sum(1 << bit for bit, term in enumerate(terms.term_weights) if term in counts)
            score = request.weights.score(counts, len(entry.terms), mean_length)
            is_named = not set(terms.speakers).isdisjoint(entry.keywords)
            is_question = IS_QUESTION in entry.keywords
            found.append(RerankCandidate(path, entry.memory.stamp, score, entry.position, bits, is_named, is_question))
    return found


def _named_speakers(index: TantivyIndex, unpublished: UnpublishedChanges, question: Question) -> list[str]:
    """Return the keywords of speakers whose names are words of the question."""
    entries = unpublished.entries.values() if unpublished.positions else ()
    pending = {keyword for entry in entries for keyword in entry.keywords}
    words = (SPEAKER_PREFIX + word for word in dict.fromkeys(name_words(question.text)) if word not in STOP_WORDS)
    return [word for word in words if word in pending or index.has_keyword(word)][:MAX_SPEAKERS]
