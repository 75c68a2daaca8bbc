"""The memories that may answer a question and those around them, from the index and from what is pending, in order."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple, Protocol

from memfs.data_types import Memory
from memfs.index.conversation_position import IS_QUESTION, SPEAKER_PREFIX, name_words
from memfs.index.tantivy_index import TantivyIndex
from memfs.index.unpublished_changes import UnpublishedChanges
from memfs.query.keyword_terms import Clause
from memfs.query.question import Question, Weights
from memfs.query.tokens import STOP_WORDS
from memfs.search.conversation.rerank import (
    CLOSEST,
    MAX_NAMES,
    POOL,
    SIMILAR,
    Ranked,
    Witness,
    around,
    ranked,
    worth,
    worths_of,
)

FEWER = 6  # times as many are looked at where a filter lets few through


class Sought(NamedTuple):
    """The words of a question that are told apart, and the keywords of those who may have said something."""

    worths: dict[str, float]
    names: list[str]

    def read(self, bits: int) -> tuple[int, bool, bool]:
        """The bits of words; whether the question names who said something; whether that asks something itself."""
        words, names = len(self.worths), len(self.names)
        rest = bits >> words
        return bits & ((1 << words) - 1), rest & ((1 << names) - 1) > 0, rest >> names > 0


class Meant(Protocol):
    """What tells which memories mean what is asked: see `meaning`."""

    def rows(self, limit: int, among: Sequence[int] | None = None) -> list[int]: ...

    def paths(self) -> list[str]: ...

    def judged(self, witnesses: Sequence[Witness]) -> list[Witness]: ...


class Asked(NamedTuple):
    """A question to an index and what is pending on top of it: what it asks for, and what may answer it."""

    question: Question
    weights: Weights
    clauses: Sequence[Clause]  # what the index asks of a memory
    accepts: Callable[[Memory], bool]  # the same, of a pending one
    meant: Meant | None = None  # what it means, where meaning is searched


class Alike(NamedTuple):
    """Memories that mean what is asked: published and pending ones, the best first, and the places of the closest."""

    rows: list[int]
    paths: list[str]
    places: list[int]


NO_ALIKE = Alike([], [], [])


def in_order(index: TantivyIndex, unpublished: UnpublishedChanges, asked: Asked) -> list[Ranked]:
    """The best matches of a question, what means it, and the memories around them; where meaning is not searched,
    nothing if none comes from a conversation."""
    sought = sought_of(index, unpublished, asked)
    return ranked(gather(index, unpublished, asked, sought), [*sought.worths.values()], asked.weights.information)


def sought_of(index: TantivyIndex, unpublished: UnpublishedChanges, asked: Asked) -> Sought:
    """What to look for in the memories that may be hits."""
    return Sought(worths_of(asked.weights), _names(index, unpublished, asked.question))


def gather(index: TantivyIndex, unpublished: UnpublishedChanges, asked: Asked, sought: Sought) -> list[Witness]:
    """The memories that may be hits, as they come."""
    known, clauses, meant = index.row_table.path_and_stamp, asked.clauses, asked.meant
    mean_length = unpublished.combined_mean_length(index.mean_length)
    found = index.find_with_positions(asked.question, clauses, POOL + (8 if unpublished else 0))
    found = [one for one in found if known(one[1])[0] not in unpublished] if unpublished else found
    published = {row: (score, place) for score, row, place in found}
    waiting = _waiting(unpublished, asked, sought, mean_length)
    matches = [*published.values(), *((one.score, one.place) for one in waiting)]
    matches = sorted(matches, key=itemgetter(0), reverse=True)[:POOL]
    if meant is None and all(place is None for _, place in matches):
        return []
    alike = NO_ALIKE if meant is None else _alike(index, unpublished, asked, meant)
    least = matches[-1][0] if matches else 0.0
    close = around([place for _, place in matches[:CLOSEST] if place is not None] + alike.places)
    places = close.union(place for _, place in matches if place is not None)
    rows = {row for row, (score, place) in published.items() if place is None and score >= least}.union(alike.rows)
    seen = index.find_at_positions(
        [*sought.worths], [*sought.names, IS_QUESTION], positions=places, rows=rows, clauses=clauses
    )
    crowded_out = published.keys() - {row for _, row, _ in seen}  # by hundreds of others at the same places
    seen += [(0, row, published[row][1]) for row in crowded_out if published[row][0] >= least]
    if meant:  # beside what has no word of the question, an estimate would count for too much
        others = [row for bits, row, _ in seen if bits and row not in published]
        scores = index.find(asked.question, (), len(others), others) if others else ()
        published |= {row: (score, None) for score, row in scores}
    witnesses = [one for one in waiting if one.score >= least]
    for bits, row, place in seen:
        path, stamp = known(row)
        if path not in unpublished:
            has, is_named, asks = sought.read(bits)
            score = published[row][0] if row in published else min(worth(has, [*sought.worths.values()]), least)
            witnesses.append(Witness(path, stamp, score, place, has, is_named, asks, row))
    there = {one.path for one in witnesses}
    beside = {path for place in places for path in unpublished.positions.get(place, ())}.union(alike.paths) - there
    witnesses += _pending(unpublished, beside, asked, sought, mean_length)
    return witnesses if meant is None else meant.judged(witnesses)


def _alike(index: TantivyIndex, unpublished: UnpublishedChanges, asked: Asked, meant: Meant) -> Alike:
    """Of the memories that the question may be answered by, those that mean most what it asks."""
    known, rows, placed = index.row_table.path_and_stamp, list[int](), dict[int, int | None]()
    for times in (1, FEWER, 0):  # if a filter lets few of the first ones through, all that it does are compared
        limit = SIMILAR * (times or 1) + len(unpublished)
        found = meant.rows(limit, None if times else index.all_rows(asked.clauses))
        rows = [row for row in found if known(row)[0] not in unpublished] if unpublished else found
        seen = index.find_at_positions((), (), positions=(), rows=rows[: SIMILAR * FEWER], clauses=asked.clauses)
        placed = {row: place for _, row, place in seen}
        if len(placed) >= SIMILAR or len(found) < limit:
            break
    rows = [row for row in rows if row in placed][:SIMILAR]
    entries = ((path, unpublished.entries[path]) for path in meant.paths())
    waiting = [(path, entry.position) for path, entry in entries if entry.memory and asked.accepts(entry.memory)][
        :SIMILAR
    ]
    places = [placed[row] for row in rows[:CLOSEST]] + [place for _, place in waiting[:CLOSEST]]
    return Alike(rows, [path for path, _ in waiting], [place for place in places if place is not None])


def _waiting(unpublished: UnpublishedChanges, asked: Asked, sought: Sought, mean_length: float) -> list[Witness]:
    """The best of the pending memories that match."""
    scores = unpublished.scores(asked.weights.groups, asked.weights.by_term, mean_length)
    found = sorted((-score, path) for path, score in scores.items())
    made = (_pending(unpublished, [path], asked, sought, mean_length) for _, path in found)
    return list(islice(chain.from_iterable(made), POOL))


def _pending(
    unpublished: UnpublishedChanges, paths: Iterable[str], asked: Asked, sought: Sought, mean_length: float
) -> list[Witness]:
    """Pending memories as witnesses: those that are there, and that the question may be answered by."""
    found = []
    for path in paths:
        entry, counts = unpublished.entries[path], unpublished.term_counts(path)
        if entry.memory is not None and asked.accepts(entry.memory):
            has = sum(1 << bit for bit, term in enumerate(sought.worths) if term in counts)
            score = asked.weights.score(counts, len(entry.terms), mean_length)
            is_named = not set(sought.names).isdisjoint(entry.keywords)
            found.append(
                Witness(path, entry.memory.stamp, score, entry.position, has, is_named, IS_QUESTION in entry.keywords)
            )
    return found


def _names(index: TantivyIndex, unpublished: UnpublishedChanges, question: Question) -> list[str]:
    """The keywords of those among who said something whose name the question has."""
    pending = (
        {name for entry in unpublished.entries.values() for name in entry.keywords} if unpublished.positions else ()
    )
    words = (SPEAKER_PREFIX + word for word in dict.fromkeys(name_words(question.text)) if word not in STOP_WORDS)
    return [word for word in words if word in pending or index.has_keyword(word)][:MAX_NAMES]
