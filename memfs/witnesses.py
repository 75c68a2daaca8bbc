"""The memories that may answer a question and those around them, from the index and from what is pending, in order."""

from collections.abc import Sequence
from typing import NamedTuple

from memfs.index import Index
from memfs.keywords import Clause
from memfs.origins import SAID_BY, words_of
from memfs.overlay import Overlay
from memfs.query import Question, Weights
from memfs.ranking import CLOSEST, MAX_NAMES, POOL, Ranked, Witness, around, ranked, worth, worths_of
from memfs.words import STOP_WORDS


class Sought(NamedTuple):
    """The words of a question that are told apart, and the keywords of those who may have said something."""

    worths: dict[str, float]
    names: list[str]

    @property
    def words(self) -> int:
        """The bits of words; above them stand those of names."""
        return (1 << len(self.worths)) - 1


def in_order(
    index: Index, overlay: Overlay, question: Question, weights: Weights, clauses: Sequence[Clause], stretch: float
) -> list[Ranked]:
    """The best matches of a question and the memories around them; nothing if none comes from a conversation."""
    sought = Sought(worths_of(weights), _names(index, overlay, question))
    worths = [*sought.worths.values()]
    published = {
        row: (score * stretch, place)
        for score, row, place in index.placed(question, clauses, POOL + (8 if overlay else 0))
    }
    waiting = {path: _pending(overlay, path, sought, weights, index.mean_length) for path in overlay.having(weights.of)}
    matches = [*published.values(), *((one.score, one.place) for one in waiting.values() if one)]
    matches = sorted(matches, key=lambda match: match[0], reverse=True)[:POOL]
    if all(place is None for _, place in matches):
        return []
    least = matches[-1][0]
    close = around([place for _, place in matches[:CLOSEST] if place is not None])
    places = close.union(place for _, place in matches if place is not None)
    rows = [row for row, (score, place) in published.items() if place is None and score >= least]
    witnesses = []
    for bits, row, place in index.sighted([*sought.worths], sought.names, places=places, rows=rows, clauses=clauses):
        path, stamp = index.catalog.known(row)
        if path not in overlay:
            has = bits & sought.words
            score = published[row][0] if row in published else min(worth(has, worths), least)
            witnesses.append(Witness(path, stamp, score, place, has, bits > sought.words))
    for path in {path for place in close for path in overlay.places.get(place, ())} - waiting.keys():
        waiting[path] = _pending(overlay, path, sought, weights, index.mean_length)
    witnesses += [one for one in waiting.values() if one and (one.score >= least or one.place in places)]
    return ranked(witnesses, worths, weights.information)


def _pending(overlay: Overlay, path: str, sought: Sought, weights: Weights, mean_length: float) -> Witness | None:
    """A pending memory as a witness; None if it is gone."""
    entry, counts = overlay.entries[path], overlay.counts(path)
    if entry.memory is None:
        return None
    has = sum(1 << bit for bit, term in enumerate(sought.worths) if term in counts)
    score = weights.score(counts, len(entry.terms), mean_length)
    is_named = not set(sought.names).isdisjoint(entry.said_by)
    return Witness(path, entry.memory.stamp, score, entry.place, has, is_named)


def _names(index: Index, overlay: Overlay, question: Question) -> list[str]:
    """The keywords of those among who said something whose name the question has."""
    pending = {name for entry in overlay.entries.values() for name in entry.said_by} if overlay.places else ()
    words = (SAID_BY + word for word in dict.fromkeys(words_of(question.text)) if word not in STOP_WORDS)
    return [word for word in words if word in pending or index.has_keyword(word)][:MAX_NAMES]
