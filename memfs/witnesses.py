"""The memories that may answer a question and those around them, from the index and from what is pending, in order."""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from memfs.index import Index
from memfs.keywords import Clause
from memfs.origins import ASKS, SAID_BY, words_of
from memfs.overlay import Overlay
from memfs.query import Question, Weights
from memfs.ranking import CLOSEST, MAX_NAMES, POOL, Ranked, Witness, around, ranked, worth, worths_of
from memfs.words import STOP_WORDS


class Sought(NamedTuple):
    """The words of a question that are told apart, and the keywords of those who may have said something."""

    worths: dict[str, float]
    names: list[str]

    def read(self, bits: int) -> tuple[int, bool, bool]:
        """The bits of words; whether the question names who said something; whether that asks something itself."""
        words, names = len(self.worths), len(self.names)
        rest = bits >> words
        return bits & ((1 << words) - 1), rest & ((1 << names) - 1) > 0, rest >> names > 0


def in_order(
    index: Index, overlay: Overlay, question: Question, weights: Weights, clauses: Sequence[Clause], stretch: float
) -> list[Ranked]:
    """The best matches of a question and the memories around them; nothing if none comes from a conversation."""
    sought = sought_of(index, overlay, question, weights)
    witnesses = gather(index, overlay, question, weights, clauses, stretch, sought)
    return ranked(witnesses, [*sought.worths.values()], weights.information)


def sought_of(index: Index, overlay: Overlay, question: Question, weights: Weights) -> Sought:
    """What to look for in the memories that may be hits."""
    return Sought(worths_of(weights), _names(index, overlay, question))


def gather(
    index: Index,
    overlay: Overlay,
    question: Question,
    weights: Weights,
    clauses: Sequence[Clause],
    stretch: float,
    sought: Sought,
) -> list[Witness]:
    """The memories that may be hits, as they come; the scores of the index are multiplied by `stretch`."""
    found = index.placed(question, clauses, POOL + (8 if overlay else 0))
    known = index.catalog.known
    found = [one for one in found if known(one[1])[0] not in overlay] if overlay else found
    published = {row: (score * stretch, place) for score, row, place in found}
    waiting = {path: _pending(overlay, path, sought, weights, index.mean_length) for path in overlay.having(weights.of)}
    matches = [*published.values(), *((one.score, one.place) for one in waiting.values() if one)]
    matches = sorted(matches, key=itemgetter(0), reverse=True)[:POOL]
    if all(place is None for _, place in matches):
        return []
    least = matches[-1][0]
    close = around([place for _, place in matches[:CLOSEST] if place is not None])
    places = close.union(place for _, place in matches if place is not None)
    rows = [row for row, (score, place) in published.items() if place is None and score >= least]
    seen = index.sighted([*sought.worths], [*sought.names, ASKS], places=places, rows=rows, clauses=clauses)
    crowded_out = published.keys() - {row for _, row, _ in seen}  # by hundreds of others at the same places
    seen += [(0, row, published[row][1]) for row in crowded_out if published[row][0] >= least]
    witnesses = []
    for bits, row, place in seen:
        path, stamp = known(row)
        if path not in overlay:
            has, is_named, asks = sought.read(bits)
            score = published[row][0] if row in published else min(worth(has, [*sought.worths.values()]), least)
            witnesses.append(Witness(path, stamp, score, place, has, is_named, asks))
    for path in {path for place in close for path in overlay.places.get(place, ())} - waiting.keys():
        waiting[path] = _pending(overlay, path, sought, weights, index.mean_length)
    return witnesses + [one for one in waiting.values() if one and (one.score >= least or one.place in places)]


def _pending(overlay: Overlay, path: str, sought: Sought, weights: Weights, mean_length: float) -> Witness | None:
    """A pending memory as a witness; None if it is gone."""
    entry, counts = overlay.entries[path], overlay.counts(path)
    if entry.memory is None:
        return None
    has = sum(1 << bit for bit, term in enumerate(sought.worths) if term in counts)
    score = weights.score(counts, len(entry.terms), mean_length)
    is_named = not set(sought.names).isdisjoint(entry.spoken)
    return Witness(path, entry.memory.stamp, score, entry.place, has, is_named, ASKS in entry.spoken)


def _names(index: Index, overlay: Overlay, question: Question) -> list[str]:
    """The keywords of those among who said something whose name the question has."""
    pending = {name for entry in overlay.entries.values() for name in entry.spoken} if overlay.places else ()
    words = (SAID_BY + word for word in dict.fromkeys(words_of(question.text)) if word not in STOP_WORDS)
    return [word for word in words if word in pending or index.has_keyword(word)][:MAX_NAMES]
