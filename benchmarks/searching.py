"""Questions to a vault, beside tantivy by itself that fetches as much, and beside other ways to search."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import cycle, islice, pairwise

from benchmarks import peers
from benchmarks.corpus import Question, texts
from benchmarks.floors import LIMIT, Fts, Raw
from benchmarks.measure import BLOCK, Row, Times, interleaved
from benchmarks.place import SCRATCH, Place
from benchmarks.processes import FailedError
from memfs import Vault
from memfs.model import Hit

GOAL = 1.5
FLOOR = "tantivy, 5 stored bodies and snippets"
SEARCH = "vault.search"
FTS_GOAL = 10
STRANDS_GOAL = 1_000
STRANDS_MOST = 10_000  # memories; it takes a second for them
LARGE = 10_000  # memories from which on the goals beside peers hold
PEER_ROUNDS = 5


def rows(place: Place) -> list[Row]:
    """A question alone, narrowed, and with changes that no index holds yet; then the peers."""
    root, raw = place.indexed, Raw(place.raw)
    with Vault(root) as vault:
        found = [_recall(place, vault, raw), *_questions(place, vault, raw)]
        found += [_pending(place, vault, raw, *numbers) for numbers in pairwise((0, *place.size.adds))]
    place.cleared()
    with Vault(root) as vault:
        found += _peers(place, vault)
    return found


def taken(hits: list[Hit]) -> list[tuple[str, str, str]]:
    """What an agent takes from hits."""
    return [(hit.memory.body, hit.snippet, hit.title) for hit in hits]


def asked(questions: list[Question], ask: Callable[[Question], object]) -> Callable[[], object]:
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


def _questions(place: Place, vault: Vault, raw: Raw) -> list[Row]:
    fts, questions = Fts(place.fts), place.questions
    times = interleaved(
        {
            "plain": asked(questions, lambda q: taken(vault.search(q.text, limit=LIMIT))),
            "narrowed": asked(
                questions, lambda q: taken(vault.search(q.text, q.namespace, type=q.about.type, limit=LIMIT))
            ),
            "floor": asked(questions, lambda q: raw.ask(q.text)),
            "fts": asked(questions, lambda q: fts.ask(q.words)),
        },
        place.size.questions,
    )
    goal = FTS_GOAL if place.size.memories >= LARGE else None
    return [
        Row("question", times["plain"], FLOOR, times["floor"], GOAL),
        Row("question, type and namespace given", times["narrowed"], FLOOR, times["floor"]),
        Row("SQLite FTS5, the same question", times["fts"], SEARCH, times["plain"], least=goal),
    ]


def _pending(place: Place, vault: Vault, raw: Raw, added: int, number: int) -> Row:
    """A question when so many memories were added since the index was published, if no search published it again."""
    new = islice(texts(6), added, number)
    vault.add_many({"text": text, "namespace": f"/{SCRATCH}"} for text in new)
    times = interleaved(
        {
            "ours": asked(place.questions, lambda q: taken(vault.search(q.text, limit=LIMIT))),
            "floor": asked(place.questions, lambda q: raw.ask(q.text)),
        },
        place.size.questions,
    )
    name = f"question after {number} adds, {vault.status().pending} of them pending"
    return Row(name, times["ours"], FLOOR, times["floor"])


def _peers(place: Place, vault: Vault) -> list[Row]:
    large = place.size.memories >= LARGE
    found = [_peer(place, vault, "ripgrep, lines with any of the words", peers.ripgrep, None)]
    if place.size.memories <= STRANDS_MOST:
        goal = STRANDS_GOAL if large else None
        found.append(_peer(place, vault, "strands FileMemoryStore, the same question", peers.strands, goal))
    else:
        place.notes.append(f"strands FileMemoryStore: left out above {STRANDS_MOST:,} memories")
    return [row for row in found if row]


def _peer(
    place: Place,
    vault: Vault,
    name: str,
    peer: Callable[[Place], AbstractContextManager[peers.Ask]],
    goal: float | None,
) -> Row | None:
    """One peer beside blocks of our own questions; None if it cannot be had."""
    if not place.peers:
        return None
    questions = place.questions
    try:
        with peer(place) as ask:
            ask(questions[0])
            rest = cycle(questions)
            subjects = {
                "peer": lambda: ask(next(rest)),
                "ours": asked(questions, lambda q: taken(vault.search(q.text, limit=LIMIT))),
            }
            times = interleaved(subjects, PEER_ROUNDS * BLOCK, slow=["peer"])
    except (OSError, FailedError) as error:
        place.notes.append(f"{name}: skipped: {error}")
        return None
    return Row(name, times["peer"], SEARCH, times["ours"], least=goal)
