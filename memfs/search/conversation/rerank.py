"""Re-ranking of memories that come from conversations: the messages around a memory count for its rank. Pure.

The rank of a memory is its own score plus a weighted sum of features. For a memory with a position in a conversation,
the features are the share of the question's terms that it has, the terms that only messages around it have, the terms
of a question right before it, and whether the question names its speaker. With semantic search, the similarity to the
question is a feature of every memory. `benchmarks.fitting` fits the weights.
"""

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from memfs.data_types import Reason
from memfs.query.question import Weights

MAX_MATCHES = 30  # best matches that are re-ranked
MAX_SIMILAR = 20  # nearest neighbours that are re-ranked too
MAX_WITH_CONTEXT = 10  # matches, and nearest neighbours, whose surrounding messages are gathered
CONTEXT_OFFSETS = (-2, -1, 1, 2)  # from a message to those around it
SHORT_BYTES = 600  # the conversation counts less for a longer memory, which is clearer by itself
MAX_TERMS, MAX_SPEAKERS = 20, 3  # one bit each, and one more, in a 32-bit float, which has 24
CONTEXT_SHARES = {-2: 0.25, -1: 0.5, 1: 0.5, 2: 0.25}  # of the vectors around a message in its own vector, by offset
MIN_SIMILARITY = 0.2  # from which on a memory without any term of the question is a hit
ANSWER_SHARE = 0.5  # of the terms asked right before a message that count for its relevance


class Features(NamedTuple):
    """The re-ranking features of a memory beside its score; 1 is the whole question."""

    covered: float  # terms that it has, whatever its length, beyond its score
    nearby: float  # terms that only the messages around it have
    answered: float  # terms of a question right before it
    speaker: float  # 1 if the question names its speaker
    similarity: float = 0.0  # of its vector, blended with those around it, to the question's
    is_question: float = 0.0  # 1 if it is a question itself, with semantic search


NO_FEATURES = Features(0.0, 0.0, 0.0, 0.0)
FEATURE_WEIGHTS = Features(covered=0.82, nearby=0.61, answered=0.45, speaker=0.38, similarity=0.88, is_question=-0.11)


class RerankCandidate(NamedTuple):
    """A memory to re-rank: a possible hit, or a message around one; described without reading its file."""

    path: str
    stamp: tuple[int, ...]
    score: float
    position: int | None  # in a conversation
    term_bits: int  # one bit for each term of the question that it has
    is_speaker_named: bool
    is_question: bool
    row: int | None = None  # in the index; None for an unpublished memory
    similarity: float = 0.0  # of its own vector to the question's, 0..1
    blended_similarity: float | None = None  # of its vector blended with those around it; None without semantic search


class RankedCandidate(NamedTuple):
    """A candidate with its rank, the score that its relevance is computed from, and its features."""

    rank: float
    score: float
    features: Features
    candidate: RerankCandidate


def top_term_weights(weights: Weights) -> dict[str, float]:
    """Return the rarest terms of a question with their weights, in the order of their bits: the rarest last."""
    best = sorted(weights.by_term, key=weights.by_term.__getitem__)[-MAX_TERMS:]
    return {term: weights.by_term[term] for term in best}


def weight_of_bits(term_bits: int, term_weights: Sequence[float]) -> float:
    """Return the sum of the weights of the terms whose bits are set."""
    return sum(weight for bit, weight in enumerate(term_weights) if term_bits >> bit & 1)


def with_context(positions: Sequence[int]) -> set[int]:
    """Return the positions, and those of the messages around them."""
    return {position + offset for position in positions for offset in (0, *CONTEXT_OFFSETS)}


class ConversationContext:
    """The terms of the question at each position of a conversation; computes the features of a candidate from them."""

    def __init__(
        self, candidates: Sequence[RerankCandidate], term_weights: Sequence[float], information: float
    ) -> None:
        self._term_weights, self._information = term_weights, information or 1.0
        self._shares: dict[int, float] = {}  # term bits -> share of the question, computed once
        self._terms_at: dict[int, int] = {}  # position -> term bits
        self._question_terms_at: dict[int, int] = {}  # the same, of messages that are questions
        for one in candidates:
            if one.position is not None:
                self._terms_at[one.position] = self._terms_at.get(one.position, 0) | one.term_bits
                if one.is_question:
                    asked = self._question_terms_at.get(one.position, 0)
                    self._question_terms_at[one.position] = asked | one.term_bits

    def features(self, candidate: RerankCandidate) -> Features:
        """Return the features of a candidate; the longer it is, the less its conversation counts."""
        position, similarity = candidate.position, candidate.blended_similarity
        if position is None:
            return NO_FEATURES if similarity is None else NO_FEATURES._replace(similarity=similarity)
        nearby_bits = 0
        for offset in CONTEXT_OFFSETS:
            nearby_bits |= self._terms_at.get(position + offset, 0)
        factor = min(1.0, SHORT_BYTES / max(candidate.stamp[2], 1)) ** 2
        own, nearby = self._share(candidate.term_bits), self._share(nearby_bits & ~candidate.term_bits)
        answered = self._share(self._question_terms_at.get(position - 1, 0))
        covered = max(0.0, own - candidate.score / self._information)
        speaker = factor * candidate.is_speaker_named
        if similarity is None:
            return Features(factor * covered, factor * nearby, factor * answered, speaker)
        is_question = factor * candidate.is_question
        return Features(factor * covered, factor * nearby, factor * answered, speaker, similarity, is_question)

    def _share(self, term_bits: int) -> float:
        """Return the share of the question's information that these terms hold."""
        if term_bits not in self._shares:
            self._shares[term_bits] = weight_of_bits(term_bits, self._term_weights) / self._information
        return self._shares[term_bits]


def rerank(
    candidates: Sequence[RerankCandidate],
    term_weights: Sequence[float],
    information: float,
    weights: Features = FEATURE_WEIGHTS,
) -> list[RankedCandidate]:
    """Return the candidates that are hits, best first.

    A candidate without any term of the question is a hit only if it follows a question that has some, or is similar
    enough.
    """
    context, ranked = ConversationContext(candidates, term_weights, information), []
    for one in candidates:
        features = context.features(one)
        if one.score or one.term_bits or features.answered or one.similarity >= MIN_SIMILARITY:
            rank = max(one.score + information * sum(map(mul, weights, features)), 0.0)
            score = max(one.score + ANSWER_SHARE * features.answered * information, one.similarity * information)
            ranked.append(RankedCandidate(rank, score, features, one))
    return sorted(ranked, key=lambda one: (-one.rank, one.candidate.path))


def feature_reasons(features: Features | None, information: float) -> list[Reason]:
    """Return the features that changed the rank of a hit, as reasons."""
    if features is None:
        return []
    texts = (
        f"in a conversation, all of its words count more: {features.covered:+.0%}",
        f"words in messages around it: {features.nearby:.0%} of the question",
        f"words of the question right before it: {features.answered:.0%} of the question",
        "the question names its speaker",
        f"similarity: {features.similarity:.2f}",
        "it is a question itself",
    )
    weighted = map(mul, FEATURE_WEIGHTS, features)
    return [Reason(text, weight * information) for text, weight in zip(texts, weighted, strict=True) if weight]
