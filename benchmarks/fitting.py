"""Fit the weights of the conversation re-ranking to questions with known answers: `benchmarks.locomo --fit`.

For each question memfs gathers the candidates, each with its score and its features. The weights maximise the
likelihood of the answers if a hit is chosen by its rank, a weighted sum of score and features (softmax, fitted by
gradient ascent). They are scored on conversations that they were not fitted to; first by words alone, then by meaning
too. The latter is compared with reciprocal-rank fusion of the order by words and the order by meaning.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.locomo import MAX_HITS, UNANSWERED, fill, questions_of, turns_of
from memfs.query.question import compute_weights, parse_question
from memfs.search.conversation.gather import SearchRequest, gather, query_terms_of
from memfs.search.conversation.rerank import FEATURE_WEIGHTS, MIN_SIMILARITY, ConversationContext

STEPS, RATE, DECAY = 150, 0.5, 0.002  # DECAY keeps weights without effect small
SCALE = 8.0  # inverse temperature of the softmax; a rank of 1 is the information of the whole question
WORD_FEATURES = 5  # leading elements of a vector that need no embedding
SIMILARITY = 1 + FEATURE_WEIGHTS._fields.index("similarity")
FUSION_OFFSET = 10  # added to each position, as in reciprocal-rank fusion
NAMES = ("score", *FEATURE_WEIGHTS._fields)

Vector = tuple[float, ...]  # the score, and the `Features`
Numbers = NDArray[np.float64]


class Case(NamedTuple):
    """One question: the vectors of the candidates, which of them are answers, and the number of all answers."""

    vectors: Sequence[Vector]
    is_answer: Sequence[bool]
    answers: int


def cases_of(sample: Mapping[str, Any], *, semantic: bool = False) -> list[Case]:
    """Return the questions of a conversation that have an answer."""
    cases = []
    texts = list(turns_of(sample))
    with tempfile.TemporaryDirectory() as folder, fill(texts, Path(folder) / "texts", semantic=semantic) as vault:
        names = {memory.path: str(memory.header.get("name")) for memory in vault.list()}
        vault.search("anything")
        engine = vault._engine  # noqa: SLF001  the features of a ranking are not public
        fresh, (_, semantic_index) = engine.freshness, engine.searchers
        for question in questions_of(sample, texts):
            if question.category != UNANSWERED:
                words = parse_question(question.text, fresh.analyzer)
                weights = compute_weights([(term,) for term in words.terms], fresh.index.idf, fresh.index.memory_count)
                embedded = semantic_index.embed_question(words, weights) if semantic_index else None
                request = SearchRequest(words, weights, (), lambda _: True, semantic=embedded)
                terms = query_terms_of(fresh.index, fresh.unpublished, request)
                found = gather(fresh.index, fresh.unpublished, request, terms)
                context = ConversationContext(found, [*terms.term_weights.values()], weights.information)
                ranked = [
                    (one, features)
                    for one, features in ((one, context.features(one)) for one in found)
                    if one.score or one.term_bits or features.answered or one.similarity >= MIN_SIMILARITY
                ]
                size = None if embedded else WORD_FEATURES
                vectors = [(one.score / weights.information, *features)[:size] for one, features in ranked]
                is_answer = [names[one.path] in question.answers for one, _ in ranked]
                cases.append(Case(vectors, is_answer, len(question.answers)))
    return cases


def fit(cases: Sequence[Case]) -> Vector:
    """Return the fitted weights, scaled so that the weight of the score is 1."""
    answerable = [case for case in cases if any(case.is_answer)]
    most = max(len(case.vectors) for case in answerable)
    size = len(answerable[0].vectors[0])
    vectors, answers = np.zeros((len(answerable), most, size)), np.zeros((len(answerable), most))
    absent = np.full((len(answerable), most), -np.inf)
    for at, case in enumerate(answerable):
        there = len(case.vectors)
        vectors[at, :there], answers[at, :there], absent[at, :there] = case.vectors, case.is_answer, 0.0
    weights = np.array([1.0, *[0.5] * (size - 1)])
    for _ in range(STEPS):
        weights += RATE * (_gradient(vectors, answers, absent, weights) - DECAY * weights)
    return tuple((weights / weights[0]).tolist())


def _gradient(vectors: Numbers, answers: Numbers, absent: Numbers, weights: Numbers) -> Numbers:
    """Return the gradient of the mean log-likelihood of the answers."""
    ranks = SCALE * (vectors @ weights) + absent
    odds = np.exp(ranks - ranks.max(axis=1, keepdims=True))
    right = odds * answers
    differences = right / right.sum(axis=1, keepdims=True) - odds / odds.sum(axis=1, keepdims=True)
    gradient: Numbers = np.einsum("qm,qmf->f", differences, vectors) / len(vectors)
    return gradient


def score(cases: Sequence[Case], weights: Vector) -> tuple[float, float]:
    """Return recall at 5 and 10 with these weights."""
    return _recall(cases, [[-sum(map(float.__mul__, weights, one)) for one in case.vectors] for case in cases])


def fused(cases: Sequence[Case]) -> tuple[float, float]:
    """Return recall at 5 and 10 of reciprocal-rank fusion of the order by words and the order by meaning."""
    orders = []
    for case in cases:
        by_words = _positions(
            [sum(map(float.__mul__, (1.0, *FEATURE_WEIGHTS), one[:WORD_FEATURES])) for one in case.vectors]
        )
        by_meaning = _positions([one[SIMILARITY] for one in case.vectors])
        both = zip(by_words, by_meaning, strict=True)
        orders.append([-sum(1 / (FUSION_OFFSET + position) for position in positions) for positions in both])
    return _recall(cases, orders)


def _positions(ranks: Sequence[float]) -> list[int]:
    positions = [0] * len(ranks)
    for position, at in enumerate(sorted(range(len(ranks)), key=lambda at: -ranks[at])):
        positions[at] = position
    return positions


def _recall(cases: Sequence[Case], orders: Sequence[Sequence[float]]) -> tuple[float, float]:
    at_5, at_10 = 0.0, 0.0
    for case, order in zip(cases, orders, strict=True):
        best = sorted(range(len(order)), key=order.__getitem__)[:MAX_HITS]
        found = [case.is_answer[at] for at in best]
        at_5, at_10 = at_5 + sum(found[:5]) / case.answers, at_10 + sum(found) / case.answers
    return at_5 / len(orders), at_10 / len(orders)


def report(samples: Sequence[Mapping[str, Any]]) -> str:
    """Return the report: weights fitted without each conversation and scored on it, and weights fitted to all."""
    words = _report([cases_of(sample) for sample in samples], "weights of the others")
    sets = [cases_of(sample, semantic=True) for sample in samples]
    cases = [case for cases in sets for case in cases]
    meaning = _report(sets, "semantic, of the others")
    return f"{words}\n{meaning}\n{'semantic, rank fusion':<30}{_row(len(cases), fused(cases))}"


def _report(sets: Sequence[Sequence[Case]], name: str) -> str:
    lines, found, number = [], [0.0, 0.0], 0
    for left_out, cases in enumerate(sets):
        weights = fit([case for at, others in enumerate(sets) if at != left_out for case in others])
        shares = score(cases, weights)
        found = [total + share * len(cases) for total, share in zip(found, shares, strict=True)]
        number += len(cases)
        lines.append(f"{f'{name}, no. {left_out + 1}':<30}{_row(len(cases), shares)}  {_format(weights)}")
    fitted = fit([case for cases in sets for case in cases])
    lines.append(f"{name:<30}{_row(number, [total / number for total in found])}")
    in_use = _format((1.0, *FEATURE_WEIGHTS)[: len(fitted)])
    lines.append(f"fitted to all: {_format(fitted)}; in memfs.search.conversation.rerank: {in_use}")
    return "\n".join(lines)


def _row(questions: int, shares: Sequence[float]) -> str:
    return f"{questions:>9}  " + "  ".join(f"{share:9.3f}" for share in shares)


def _format(weights: Sequence[float]) -> str:
    return ", ".join(f"{name} {weight:.2f}" for name, weight in zip(NAMES, weights, strict=False))
