"""The order of hits that come from conversations: what was said around a memory speaks for it. Pure.

A memory counts by its own score, and beyond it by the words of the question that stand only around it, and by who said
it. `benchmarks.fitting` finds the weights. Without a conversation nothing is added.
"""

from collections.abc import Sequence
from typing import NamedTuple

from memfs.model import Reason
from memfs.query import Weights

POOL = 30  # of the best matches are put in order
CLOSEST = 10  # of them bring the memories around them along
REACH = 2  # messages before and after
SHORT = 600  # bytes; a longer memory tells more by itself, and needs the others less
MAX_WORDS, MAX_NAMES = 20, 4  # a bit each, in a number that a float holds exactly
BESIDE = 0.5  # share of its worth that a word around a memory counts for its relevance


class Support(NamedTuple):
    """What speaks for a memory beside its own words: the share of the question around it, and who said it."""

    near: float
    named: float


WEIGHTS = Support(near=0.6, named=0.37)


class Witness(NamedTuple):
    """A memory that may be a hit, and what is known without reading it."""

    path: str
    stamp: tuple[int, ...]
    score: float
    place: int | None
    has: int  # a bit for each word of the question that it has
    is_named: bool  # the question has the name of who said it


class Ranked(NamedTuple):
    """A memory in its order, the score by which its relevance is told, and what spoke for it."""

    rank: float
    score: float
    support: Support
    witness: Witness


def worths_of(weights: Weights) -> dict[str, float]:
    """The words of a question that are told apart, the rarest of them, in the order of their bits."""
    best = sorted(weights.of, key=weights.of.__getitem__, reverse=True)[:MAX_WORDS]
    return {term: weights.of[term] for term in best}


def worth(has: int, worths: Sequence[float]) -> float:
    """What the words are worth that a memory has."""
    return sum(worth for bit, worth in enumerate(worths) if has >> bit & 1)


def around(places: Sequence[int]) -> set[int]:
    """The places that are close to some."""
    return {place + step for place in places for step in range(-REACH, REACH + 1)}


def supports(witnesses: Sequence[Witness], worths: Sequence[float], information: float) -> list[Support]:
    """What speaks for each of the memories; the less from around it, the longer it is."""
    there: dict[int, int] = {}
    for witness in witnesses:
        if witness.place is not None:
            there[witness.place] = there.get(witness.place, 0) | witness.has
    known: dict[int, float] = {}
    found = []
    for witness in witnesses:
        only_around = 0
        for place in around([witness.place]) if witness.place is not None else ():
            only_around |= there.get(place, 0)
        only_around &= ~witness.has
        if only_around not in known:
            known[only_around] = worth(only_around, worths) / (information or 1.0)
        short = min(1.0, SHORT / max(witness.stamp[2], 1))
        found.append(Support(short * known[only_around], float(witness.is_named)))
    return found


def ranked(
    witnesses: Sequence[Witness], worths: Sequence[float], information: float, weights: Support = WEIGHTS
) -> list[Ranked]:
    """The memories in the order in which they are shown."""
    found = []
    for witness, support in zip(witnesses, supports(witnesses, worths, information), strict=True):
        rank = witness.score + information * (weights.near * support.near + weights.named * support.named)
        found.append(Ranked(rank, witness.score + BESIDE * support.near * information, support, witness))
    return sorted(found, key=lambda one: (-one.rank, one.witness.path))


def told(support: Support | None, information: float) -> list[Reason]:
    """What spoke for a memory beside its own words, in words."""
    if support is None:
        return []
    reasons = {
        f"said around it: {support.near:.0%} of the question": WEIGHTS.near * support.near,
        "said by whom the question names": WEIGHTS.named * support.named,
    }
    return [Reason(words, weight * information) for words, weight in reasons.items() if weight]
