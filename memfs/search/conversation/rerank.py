"""The order of hits that come from conversations: what was said around a memory speaks for it. Pure.

A memory counts by its own score. If it has a place in a conversation, it counts beyond that by how many of the words
it has, by those that stand only around it, by what it is the answer to, and by who said it. Where meaning is searched,
any memory counts by how much it means what is asked, too. `benchmarks.fitting` finds the weights.
"""

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from memfs.data_types import Reason
from memfs.query.question import Weights

POOL = 30  # of the best matches are put in order
SIMILAR = 20  # of those that mean most what is asked are, too
CLOSEST = 10  # of them bring the memories around them along
STEPS = (-2, -1, 1, 2)  # to the messages around one
SHORT = 600  # bytes; a longer memory tells more by itself, and needs the others less
MAX_WORDS, MAX_NAMES = 20, 3  # a bit each, in a number that a float holds exactly
BESIDE = {-2: 0.25, -1: 0.5, 1: 0.5, 2: 0.25}  # shares that the messages around one have in what it means
ALIKE = 0.2  # share of the meaning from which on a memory is a hit without any word of the question
ANSWERED = 0.5  # share of its worth that a word counts for the relevance of an answer which was asked before it


class Support(NamedTuple):
    """What speaks for a memory beside its own score, as shares of the question."""

    covered: float  # the words it has, however long it is, beyond its score
    near: float  # words that stand only around it, in other messages
    answered: float  # words that were asked right before it
    named: float  # 1 if the question names who said it
    meant: float = 0.0  # how much it means what is asked, with what was said around it
    asks: float = 0.0  # 1 if it asks something itself, where meaning is searched


NONE = Support(0.0, 0.0, 0.0, 0.0)
WEIGHTS = Support(covered=0.82, near=0.61, answered=0.45, named=0.38, meant=0.88, asks=-0.11)


class Witness(NamedTuple):
    """A memory that may be a hit, and what is known without reading it."""

    path: str
    stamp: tuple[int, ...]
    score: float
    place: int | None
    has: int  # a bit for each word of the question that it has
    is_named: bool  # the question has the name of who said it
    asks: bool  # it is a question itself
    row: int | None = None  # in the index; None of a pending one
    alike: float = 0.0  # how much it means what is asked, by itself
    meant: float | None = None  # the same, with what was said around it; None if meaning is not searched


class Ranked(NamedTuple):
    """A memory in its order, the score by which its relevance is told, and what spoke for it."""

    rank: float
    score: float
    support: Support
    witness: Witness


def worths_of(weights: Weights) -> dict[str, float]:
    """The words of a question that are told apart, the rarest of them, in the order of their bits: the rarest last."""
    best = sorted(weights.by_term, key=weights.by_term.__getitem__)[-MAX_WORDS:]
    return {term: weights.by_term[term] for term in best}


def worth(has: int, worths: Sequence[float]) -> float:
    """What the words are worth that a memory has."""
    return sum(worth for bit, worth in enumerate(worths) if has >> bit & 1)


def around(places: Sequence[int]) -> set[int]:
    """The places that are close to some."""
    return {place + step for place in places for step in (0, *STEPS)}


class Conversation:
    """What the memories that may be hits say of each other."""

    def __init__(self, witnesses: Sequence[Witness], worths: Sequence[float], information: float) -> None:
        self._worths, self._information = worths, information or 1.0
        self._shares: dict[int, float] = {}
        self._said: dict[int, int] = {}  # place -> words
        self._asked: dict[int, int] = {}
        for witness in witnesses:
            if witness.place is not None:
                self._said[witness.place] = self._said.get(witness.place, 0) | witness.has
                if witness.asks:
                    self._asked[witness.place] = self._asked.get(witness.place, 0) | witness.has

    def support(self, witness: Witness) -> Support:
        """What speaks for a memory; the longer it is, the less its conversation does."""
        place, meant = witness.place, witness.meant
        if place is None:
            return NONE if meant is None else NONE._replace(meant=meant)
        around = 0
        for step in STEPS:
            around |= self._said.get(place + step, 0)
        short = min(1.0, SHORT / max(witness.stamp[2], 1)) ** 2
        own, beside = self._share(witness.has), self._share(around & ~witness.has)
        asked = self._share(self._asked.get(place - 1, 0))
        covered = max(0.0, own - witness.score / self._information)
        if meant is None:
            return Support(short * covered, short * beside, short * asked, short * witness.is_named)
        asks = short * witness.asks
        return Support(short * covered, short * beside, short * asked, short * witness.is_named, meant, asks)

    def _share(self, has: int) -> float:
        """The share of the question's information that some of its words hold."""
        if has not in self._shares:
            self._shares[has] = worth(has, self._worths) / self._information
        return self._shares[has]


def ranked(
    witnesses: Sequence[Witness], worths: Sequence[float], information: float, weights: Support = WEIGHTS
) -> list[Ranked]:
    """The memories in the order in which they are shown; one without a word of the question must answer or mean it."""
    conversation, found = Conversation(witnesses, worths, information), []
    for witness in witnesses:
        support = conversation.support(witness)
        if witness.score or witness.has or support.answered or witness.alike >= ALIKE:
            rank = max(witness.score + information * sum(map(mul, weights, support)), 0.0)
            score = max(witness.score + ANSWERED * support.answered * information, witness.alike * information)
            found.append(Ranked(rank, score, support, witness))
    return sorted(found, key=lambda one: (-one.rank, one.witness.path))


def told(support: Support | None, information: float) -> list[Reason]:
    """What spoke for a memory beside its own words, in words."""
    if support is None:
        return []
    words = (
        f"in a conversation, all of its words count more: {support.covered:+.0%}",
        f"said around it: {support.near:.0%} of the question",
        f"asked right before it: {support.answered:.0%} of the question",
        "said by whom the question names",
        f"means alike: {support.meant:.2f}",
        "asks something itself",
    )
    weights = map(mul, WEIGHTS, support)
    return [Reason(text, weight * information) for text, weight in zip(words, weights, strict=True) if weight]
