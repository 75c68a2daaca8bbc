"""The memories that may answer a question and those around them, from the index and from what is pending, in order."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from memfs.index import Index
from memfs.keywords import Clause
from memfs.model import Memory
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


class Asked(NamedTuple):
    """A question to an index and what is pending on top of it: what it asks for, and what may answer it."""

    question: Question
    weights: Weights
    clauses: Sequence[Clause]  # what the index asks of a memory
    accepts: Callable[[Memory], bool]  # the same, of a pending one
    stretch: float = 1.0  # by which the scores of the index are multiplied


def in_order(index: Index, overlay: Overlay, asked: Asked) -> list[Ranked]:
    """The best matches of a question and the memories around them; nothing if none comes from a conversation."""
    sought = sought_of(index, overlay, asked)
    return ranked(gather(index, overlay, asked, sought), [*sought.worths.values()], asked.weights.information)


def sought_of(index: Index, overlay: Overlay, asked: Asked) -> Sought:
    """What to look for in the memories that may be hits."""
    return Sought(worths_of(asked.weights), _names(index, overlay, asked.question))


def gather(index: Index, overlay: Overlay, asked: Asked, sought: Sought) -> list[Witness]:
    """The memories that may be hits, as they come."""
    known, clauses = index.catalog.known, asked.clauses
    found = index.placed(asked.question, clauses, POOL + (8 if overlay else 0))
    found = [one for one in found if known(one[1])[0] not in overlay] if overlay else found
    published = {row: (score * asked.stretch, place) for score, row, place in found}
    waiting = _waiting(overlay, asked, sought, index.mean_length)
    matches = [*published.values(), *((one.score, one.place) for one in waiting)]
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
    witnesses = [one for one in waiting if one.score >= least]
    for bits, row, place in seen:
        path, stamp = known(row)
        if path not in overlay:
            has, is_named, asks = sought.read(bits)
            score = published[row][0] if row in published else min(worth(has, [*sought.worths.values()]), least)
            witnesses.append(Witness(path, stamp, score, place, has, is_named, asks, row))
    there = {one.path for one in witnesses}
    beside = {path for place in places for path in overlay.places.get(place, ())} - there
    return witnesses + _pending(overlay, beside, asked, sought, index.mean_length)


def _waiting(overlay: Overlay, asked: Asked, sought: Sought, mean_length: float) -> list[Witness]:
    """The best of the pending memories that match."""
    weights, found = asked.weights, []
    for path in overlay.having(weights.of):
        score = weights.score(overlay.counts(path), len(overlay.entries[path].terms), mean_length)
        found.append((-score, path))
    made = (_pending(overlay, [path], asked, sought, mean_length) for _, path in sorted(found))
    return list(islice(chain.from_iterable(made), POOL))


def _pending(overlay: Overlay, paths: Iterable[str], asked: Asked, sought: Sought, mean_length: float) -> list[Witness]:
    """Pending memories as witnesses: those that are there, and that the question may be answered by."""
    found = []
    for path in paths:
        entry, counts = overlay.entries[path], overlay.counts(path)
        if entry.memory is not None and asked.accepts(entry.memory):
            has = sum(1 << bit for bit, term in enumerate(sought.worths) if term in counts)
            score = asked.weights.score(counts, len(entry.terms), mean_length)
            is_named = not set(sought.names).isdisjoint(entry.spoken)
            found.append(Witness(path, entry.memory.stamp, score, entry.place, has, is_named, ASKS in entry.spoken))
    return found


def _names(index: Index, overlay: Overlay, question: Question) -> list[str]:
    """The keywords of those among who said something whose name the question has."""
    pending = {name for entry in overlay.entries.values() for name in entry.spoken} if overlay.places else ()
    words = (SAID_BY + word for word in dict.fromkeys(words_of(question.text)) if word not in STOP_WORDS)
    return [word for word in words if word in pending or index.has_keyword(word)][:MAX_NAMES]
