"""Find near-duplicate texts among thousands. Pure.

The similarity of two texts is the share of their words that both have (Jaccard). Only texts that share one of their
rarest words are compared (prefix filtering): of the n words of a text, a similar one lacks at most
n - ceil(MIN_SHARED_WORDS x n), so of one word more than that it has at least one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

MIN_SHARED_WORDS = 0.8  # share of all words of two texts that both have
MIN_SHARED_PAIRS = 0.5  # the same for pairs of adjacent words
SHORT_TEXT_WORDS = 12  # in a shorter text, one different word changes the meaning
MAX_COMPARISONS = 200  # per text: with those that share most of its rarest words
NEGATIONS = frozenset("not no never nicht kein keine nie ne pas non nunca não nao nu ikke inte niet не nem t".split())
# The larger of two similar texts has at least this share of the words of the smaller one.
_MIN_OVERLAP = 2 * MIN_SHARED_WORDS / (1 + MIN_SHARED_WORDS)
_WORD = re.compile(r"[^\W_]+")


class Text(NamedTuple):
    """A text and its terms, as the analyzer of the index splits it."""

    name: str
    text: str
    words: tuple[str, ...]


class NearDuplicate(NamedTuple):
    """A text that is nearly the same as another one."""

    name: str
    original: str
    share: float  # of the words of both texts that both have


class _WordSet(NamedTuple):
    """A text with its distinct words, also sorted by rarity."""

    text: Text
    words: frozenset[str]
    rarest_first: list[str]


def find_near_duplicates(texts: Sequence[Text]) -> Iterator[NearDuplicate]:
    """Yield each text that is similar to an original, with the most similar one.

    Texts are taken in order of size and name; a text that is similar to none before it is an original.
    """
    originals: list[_WordSet] = []
    by_rare_word: dict[str, list[int]] = defaultdict(list)  # rare word -> positions in `originals`
    for word_set in _word_sets(texts):
        best = max(
            ((similarity(word_set, originals[at]), -at) for at in _candidates(word_set, originals, by_rare_word)),
            default=(0.0, 0),
        )
        if best[0]:
            yield NearDuplicate(word_set.text.name, originals[-best[1]].text.name, best[0])
            continue
        size = len(word_set.words)
        for word in word_set.rarest_first[: size - ceil(_MIN_OVERLAP * size) + 1]:
            by_rare_word[word].append(len(originals))
        originals.append(word_set)


def _word_sets(texts: Sequence[Text]) -> list[_WordSet]:
    """Return the word sets of texts, the smaller ones first."""
    sets = [(text, frozenset(text.words)) for text in texts]
    frequency = Counter(word for _, words in sets for word in words)
    order = {word: rank for rank, word in enumerate(sorted(frequency, key=lambda word: (frequency[word], word)))}
    word_sets = [_WordSet(text, words, sorted(words, key=order.__getitem__)) for text, words in sets]
    return sorted(word_sets, key=lambda word_set: (len(word_set.words), word_set.text.name))


def _candidates(word_set: _WordSet, originals: Sequence[_WordSet], by_rare_word: dict[str, list[int]]) -> Sequence[int]:
    """Return the positions of the originals that may be similar to a text."""
    size = len(word_set.words)
    shared: Counter[int] = Counter()
    for word in word_set.rarest_first[: size - ceil(MIN_SHARED_WORDS * size) + 1]:
        places = by_rare_word.get(word)
        if places:
            shared.update([at for at in places if len(originals[at].words) >= MIN_SHARED_WORDS * size])
    return [at for at, _ in shared.most_common(MAX_COMPARISONS)] if len(shared) > MAX_COMPARISONS else [*shared]


def similarity(one: _WordSet, other: _WordSet) -> float:
    """Return the share of words that both texts have; 0 if they are not near-duplicates."""
    both = len(one.words & other.words)
    share = both / (len(one.words) + len(other.words) - both)
    if share < MIN_SHARED_WORDS:
        return 0.0
    only_one, only_other = one.words - other.words, other.words - one.words
    if not NEGATIONS.isdisjoint(only_one | only_other):
        return 0.0
    if (
        only_one
        and only_other
        and (min(len(one.words), len(other.words)) < SHORT_TEXT_WORDS or _differ_in_values(one, other))
    ):
        return 0.0
    pairs, others = set(pairwise(one.text.words)), set(pairwise(other.text.words))
    return share if not pairs or not others or len(pairs & others) >= MIN_SHARED_PAIRS * len(pairs | others) else 0.0


def _differ_in_values(one: _WordSet, other: _WordSet) -> bool:
    """Return whether each text has a number or a name that the other lacks."""
    one_words, other_words = set(_WORD.findall(one.text.text)), set(_WORD.findall(other.text.text))
    return any(map(_is_value, one_words - other_words)) and any(map(_is_value, other_words - one_words))


def _is_value(word: str) -> bool:
    return word[0].isupper() or any(char.isdigit() for char in word)
