"""Questions to a vault, beside tantivy by itself that fetches as much."""

from collections.abc import Callable, Sequence
from itertools import cycle, islice, pairwise
from typing import TypeVar

from benchmarks.corpus import texts
from benchmarks.floors import Raw
from benchmarks.measure import BLOCK, Row, Times, interleaved
from benchmarks.place import SCRATCH, Place
from benchmarks.serving import LIMIT
from memfs import Vault
from memfs.data_types import Hit

GOAL = 1.5
FLOOR = "tantivy, 5 stored bodies and snippets"
T = TypeVar("T")


def rows(place: Place) -> list[Row]:
    """A question, also with changes that no index holds yet."""
    root, raw = place.indexed, Raw(place.raw)
    with Vault(root) as vault:
        first = _first(place, vault, raw)
        found = [_recall(place, vault, raw), _question(place, vault, raw), first]
        found += [_pending(place, vault, raw, *numbers) for numbers in pairwise((0, *place.size.adds))]
    place.cleared()
    return found


def taken(hits: list[Hit]) -> list[tuple[str, str, str]]:
    """What an agent takes from hits."""
    return [(hit.memory.body, hit.snippet, hit.title) for hit in hits]


def asked(questions: Sequence[T], ask: Callable[[T], object]) -> Callable[[], object]:
    """Ask one question a call, from the first on; some are asked before, to warm what wants to be warm."""
    for question in questions[: 2 * BLOCK]:
        ask(question)
    rest = cycle(questions)
    return lambda: ask(next(rest))


def _recall(place: Place, vault: Vault, raw: Raw) -> Row:
    """Both must find the same, or comparing them says nothing."""
    ours = [q.about.path in [hit.memory.path for hit in vault.search(q.text, limit=LIMIT)] for q in place.questions]
    floor = [q.about.path in [path for path, _, _ in raw.ask(q.text)] for q in place.questions]
    shares = [Times([sum(found) / len(found)]) for found in (ours, floor)]
    return Row(f"questions whose memory is among {LIMIT} hits", shares[0], FLOOR, shares[1], unit="share")


def _first(place: Place, vault: Vault, raw: Raw) -> Row:
    """A question about memories most of which this vault has not read before."""
    times = _beside(place, vault, raw)
    return Row("question, for the first time", times["ours"], FLOOR, times["floor"])


def _question(place: Place, vault: Vault, raw: Raw) -> Row:
    """A question about memories that were read before, as those are which tantivy has stored."""
    times = _beside(place, vault, raw)
    return Row("question", times["ours"], FLOOR, times["floor"], GOAL)


def _beside(place: Place, vault: Vault, raw: Raw) -> dict[str, Times]:
    return interleaved(
        {
            "ours": asked(place.questions, lambda q: taken(vault.search(q.text, limit=LIMIT))),
            "floor": asked(place.questions, lambda q: raw.ask(q.text)),
        },
        place.size.questions,
    )


def _pending(place: Place, vault: Vault, raw: Raw, added: int, number: int) -> Row:
    """A question when so many memories were added since the index was published, if no search published it again."""
    new = islice(texts(6), added, number)
    vault.add_many({"text": text, "namespace": f"/{SCRATCH}"} for text in new)
    times = _beside(place, vault, raw)
    name = f"question after {number} adds, {vault.status().pending} of them pending"
    return Row(name, times["ours"], FLOOR, times["floor"])
