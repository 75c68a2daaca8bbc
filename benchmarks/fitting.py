"""The weights of `memfs.ranking`, found by what answers the questions of conversations: `benchmarks.locomo --fit`.

For each question memfs gathers the memories that may be hits; each speaks for itself by its score and by its support.
The weights are those under which the answers are likeliest, if a hit is drawn by its rank: a sum of a few shares,
fitted by gradient ascent. They are scored on conversations that they were not fitted to.
"""

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.locomo import MOST, UNANSWERED, fill, questions_of, turns_of
from memfs.query import understand, weigh
from memfs.ranking import WEIGHTS, Conversation
from memfs.witnesses import Asked, gather, sought_of

STEPS, RATE, HOLD = 150, 0.5, 0.002  # HOLD keeps weights small that change nothing
SCALE = 8.0  # how much likelier a memory is to be drawn whose rank is higher by the whole question

Vector = tuple[float, ...]  # the score, and what is in `Support`


class Case(NamedTuple):
    """A question: what speaks for each memory that may be a hit, which of them answer, of how many that do."""

    vectors: Sequence[Vector]
    is_answer: Sequence[bool]
    answers: int


def cases_of(sample: Mapping[str, Any]) -> list[Case]:
    """The questions of a conversation that have an answer."""
    cases = []
    texts = list(turns_of(sample))
    with tempfile.TemporaryDirectory() as folder, fill(texts, Path(folder) / "texts") as vault:
        names = {memory.path: str(memory.header.get("name")) for memory in vault.list()}
        vault.search("anything")
        fresh = vault._finder.fresh  # noqa: SLF001  the features of a ranking are nobody else's business
        for question in questions_of(sample, texts):
            if question.category != UNANSWERED:
                words = understand(question.text, fresh.analyzer)
                weights = weigh([(term,) for term in words.terms], fresh.index.frequency, fresh.index.memories)
                asked = Asked(words, weights, (), lambda _: True)
                sought = sought_of(fresh.index, fresh.overlay, asked)
                found = gather(fresh.index, fresh.overlay, asked, sought)
                said = Conversation(found, [*sought.worths.values()], weights.information)
                vectors = [(one.score / weights.information, *said.support(one)) for one in found]
                is_answer = [names[one.path] in question.answers for one in found]
                cases.append(Case(vectors, is_answer, len(question.answers)))
    return cases


def fit(cases: Sequence[Case]) -> Vector:
    """The weights, beside a score that counts once."""
    weights = [1.0, *[0.5] * len(WEIGHTS)]
    known = [case for case in cases if any(case.is_answer)]
    for _ in range(STEPS):
        slope = [-HOLD * weight for weight in weights]
        for case in known:
            for at, pull in enumerate(_pull(case, weights)):
                slope[at] += pull / len(known)
        weights = [weight + RATE * rise for weight, rise in zip(weights, slope, strict=True)]
    return tuple(weight / weights[0] for weight in weights)


def _pull(case: Case, weights: Sequence[float]) -> list[float]:
    """In which direction the weights should go for the answers of a question to be likelier."""
    ranks = [SCALE * sum(map(float.__mul__, weights, vector)) for vector in case.vectors]
    top = max(ranks)
    odds = [math.exp(rank - top) for rank in ranks]
    total, right = sum(odds), sum(odd for odd, answers in zip(odds, case.is_answer, strict=True) if answers)
    pulls = [(odd / right if answers else 0.0) - odd / total for odd, answers in zip(odds, case.is_answer, strict=True)]
    return [
        sum(pull * vector[at] for pull, vector in zip(pulls, case.vectors, strict=True)) for at in range(len(weights))
    ]


def score(cases: Iterable[Case], weights: Vector) -> tuple[float, float]:
    """Recall among the first 5 and 10, with these weights."""
    at_5, at_10, number = 0.0, 0.0, 0
    for case in cases:
        ranks = [sum(map(float.__mul__, weights, vector)) for vector in case.vectors]
        order = sorted(range(len(ranks)), key=lambda at: -ranks[at])
        found = [case.is_answer[at] for at in order[:MOST]]
        at_5, at_10, number = at_5 + sum(found[:5]) / case.answers, at_10 + sum(found) / case.answers, number + 1
    return at_5 / number, at_10 / number


def report(samples: Sequence[Mapping[str, Any]]) -> str:
    """The weights fitted without each conversation, scored on it; and those fitted to all."""
    sets = [cases_of(sample) for sample in samples]
    lines, found, number = [], [0.0, 0.0], 0
    for left_out, cases in enumerate(sets):
        weights = fit([case for at, others in enumerate(sets) if at != left_out for case in others])
        shares = score(cases, weights)
        found = [total + share * len(cases) for total, share in zip(found, shares, strict=True)]
        number += len(cases)
        lines.append(f"{f'weights of the others, no. {left_out + 1}':<30}{_row(len(cases), shares)}  {_shown(weights)}")
    every = fit([case for cases in sets for case in cases])
    lines.append(f"{'weights of the others':<30}{_row(number, [total / number for total in found])}")
    lines.append(f"fitted to all: {_shown(every)}; in memfs.ranking: {_shown((1.0, *WEIGHTS))}")
    return "\n".join(lines)


def _row(questions: int, shares: Sequence[float]) -> str:
    return f"{questions:>9}  " + "  ".join(f"{share:9.3f}" for share in shares)


def _shown(weights: Sequence[float]) -> str:
    names = ("score", *WEIGHTS._fields)
    return ", ".join(f"{name} {weight:.2f}" for name, weight in zip(names, weights, strict=True))
