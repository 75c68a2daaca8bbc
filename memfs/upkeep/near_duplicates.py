"""Texts that say nearly the same, among thousands. Pure.

Two texts are alike by the share of their words that both have. Only texts that have one of their rarest words in common
are compared: of n words, an alike text lacks at most n - ceil(LEAST x n), so with one more of them it is surely met.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

LEAST = 0.8  # of the words of two texts, together, both must have
ORDERED = 0.5  # and of the pairs of words that follow each other
SHORT = 12  # words; in a shorter text one that is replaced by another says something else
COMPARED = 200  # texts at most that one is compared with: those that share most of its rarest words
NEGATIONS = frozenset("not no never nicht kein keine nie ne pas non nunca não nao nu ikke inte niet не nem t".split())
_BOTH = 2 * LEAST / (1 + LEAST)  # of the words of the smaller of two alike texts, the other one has at least this share
_WORD = re.compile(r"[^\W_]+")


class Text(NamedTuple):
    """A text and its words, as an index cuts them."""

    name: str
    text: str
    words: tuple[str, ...]


class Twin(NamedTuple):
    """A text that says nearly what another one says."""

    name: str
    of: str
    share: float  # of the words of both together that both have


class _Bag(NamedTuple):
    """A text and its words, each once, the rarest first."""

    text: Text
    words: frozenset[str]
    rarest: list[str]


def twins(texts: Sequence[Text]) -> Iterator[Twin]:
    """Each text that is alike to one before it, by size and name, and to which."""
    leaders: list[_Bag] = []
    having: dict[str, list[int]] = defaultdict(list)  # rare word -> leaders
    for bag in _bags(texts):
        best = max(((likeness(bag, leaders[at]), -at) for at in _near(bag, leaders, having)), default=(0.0, 0))
        if best[0]:
            yield Twin(bag.text.name, leaders[-best[1]].text.name, best[0])
            continue
        size = len(bag.words)
        for word in bag.rarest[: size - ceil(_BOTH * size) + 1]:
            having[word].append(len(leaders))
        leaders.append(bag)


def _bags(texts: Sequence[Text]) -> list[_Bag]:
    """The words of texts, the smaller ones first."""
    sets = [(text, frozenset(text.words)) for text in texts]
    frequency = Counter(word for _, words in sets for word in words)
    order = {word: rank for rank, word in enumerate(sorted(frequency, key=lambda word: (frequency[word], word)))}
    bags = [_Bag(text, words, sorted(words, key=order.__getitem__)) for text, words in sets]
    return sorted(bags, key=lambda bag: (len(bag.words), bag.text.name))


def _near(bag: _Bag, leaders: Sequence[_Bag], having: dict[str, list[int]]) -> Sequence[int]:
    """The texts before one that may be alike to it."""
    size = len(bag.words)
    shared: Counter[int] = Counter()
    for word in bag.rarest[: size - ceil(LEAST * size) + 1]:
        places = having.get(word)
        if places:
            shared.update([at for at in places if len(leaders[at].words) >= LEAST * size])
    return [at for at, _ in shared.most_common(COMPARED)] if len(shared) > COMPARED else [*shared]


def likeness(one: _Bag, other: _Bag) -> float:
    """The share of words that both have; 0 if the texts do not say nearly the same."""
    both = len(one.words & other.words)
    share = both / (len(one.words) + len(other.words) - both)
    if share < LEAST:
        return 0.0
    ours, theirs = one.words - other.words, other.words - one.words
    if not NEGATIONS.isdisjoint(ours | theirs):
        return 0.0
    if ours and theirs and (min(len(one.words), len(other.words)) < SHORT or _differ_in_values(one, other)):
        return 0.0
    pairs, others = set(pairwise(one.text.words)), set(pairwise(other.text.words))
    return share if not pairs or not others or len(pairs & others) >= ORDERED * len(pairs | others) else 0.0


def _differ_in_values(one: _Bag, other: _Bag) -> bool:
    """Tell whether each has a number or a name that the other lacks."""
    ours, theirs = set(_WORD.findall(one.text.text)), set(_WORD.findall(other.text.text))
    return any(map(_is_value, ours - theirs)) and any(map(_is_value, theirs - ours))


def _is_value(word: str) -> bool:
    return word[0].isupper() or any(char.isdigit() for char in word)
