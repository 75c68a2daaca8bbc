"""Other ways to search the same files, beside `vault.search` in the same run."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from statistics import median

from benchmarks.corpus import Question
from benchmarks.floors import Fts
from benchmarks.measure import BLOCK, Row, Taken, Times, interleaved
from benchmarks.peers import PEERS, Peer, Running, ripgrep
from benchmarks.place import STATE, Place
from benchmarks.processes import CHILD, FailedError, Helper, spent
from benchmarks.searching import asked, taken
from benchmarks.serving import LIMIT
from memfs import Vault
from memfs.query.tokens import STOP_WORDS

SEARCH, BUILD = "vault.search", "memfs, cold build"
FTS = "SQLite FTS5"
FTS_GOAL = 10
LARGE = 10_000  # memories from which on the goals beside peers hold
SLOW = 0.02  # seconds; of what takes longer, a round is one question
ROUNDS = 20
SHARE = 40  # questions whose answers are looked at
Ask = Callable[[Question], tuple[Taken, list[str]]]


def rows(place: Place) -> list[Row]:
    """What SQLite takes, then what is installed for this: builds, questions, and how often they find."""
    found = _fts(place)
    if place.peers:
        found += _ripgrep(place)
        for peer in PEERS:
            found += peer_rows(place, peer)
    return found


def _fts(place: Place) -> list[Row]:
    """FTS5 knows no stop words: it is asked the question as it is typed, and helped with those of memfs."""
    target = place.folder / "fts.db"
    found = _builds(place, FTS, json.loads(spent([*CHILD, "build_fts", str(place.root), str(target)]).output))
    fts = Fts(target)
    goal = FTS_GOAL if place.size.memories >= LARGE else None
    with Vault(place.indexed) as vault:
        found += _questions(place, vault, f"{FTS}: the question as typed", _clocked(fts, _typed), goal)
        found += _questions(place, vault, f"{FTS}: without memfs' stop words", _clocked(fts, _helped))
    return [*found, _held(place, target)]


def _typed(question: Question) -> list[str]:
    return question.typed


def _helped(question: Question) -> list[str]:
    return [word for word in question.typed if word.lower() not in STOP_WORDS]


def _clocked(fts: Fts, words: Callable[[Question], list[str]]) -> Ask:
    def ask(question: Question) -> tuple[Taken, list[str]]:
        start = time.perf_counter()
        found = fts.ask(words(question))
        return Taken(time.perf_counter() - start), [path for path, _, _ in found]

    return ask


def _held(place: Place, target: Path) -> Row:
    texts = [question.text for question in place.questions[:SHARE]]
    held = [
        Times([float(spent([*CHILD, action, str(where), *texts]).output)])
        for action, where in (("hold_fts", target), ("hold", place.indexed))
    ]
    return Row(f"{FTS}: memory of a process that has searched", held[0], "memfs", held[1], unit="bytes")


def _ripgrep(place: Place) -> list[Row]:
    name = "ripgrep: lines with any of the words"
    try:
        ask = ripgrep(place)
        ask(place.questions[0])
    except (OSError, FailedError) as error:
        place.notes.append(f"{name}: left out: {error}")
        return []
    rest = cycle(place.questions)
    with Vault(place.indexed) as vault:
        times = _beside(place, vault, lambda: ask(next(rest)), slow=True)
    return [Row(name, times["peer"], SEARCH, times["ours"])]


def peer_rows(place: Place, peer: Peer) -> list[Row]:
    """What one peer takes; nothing if it cannot be had."""
    if place.size.memories > peer.most:
        place.notes.append(f"{peer.name}: left out above {peer.most:,} memories, which take it minutes")
        return []
    state = place.folder / peer.name
    state.mkdir()
    goal = peer.goal if place.size.memories >= LARGE else None
    try:
        with Helper(peer.start(place, state)) as helper, Vault(place.indexed) as vault:
            running = Running(helper)
            found = _builds(place, peer.name, running.build) if peer.builds else []
            for name, way in peer.ways.items():
                found += _questions(place, vault, f"{peer.name}: {name}", _through(running, way), goal)
            return found
    except (OSError, FailedError) as error:
        place.notes.append(f"{peer.name}: left out: {error}")
        return []


def _through(running: Running, way: Callable[[Question], str]) -> Ask:
    return lambda question: running.ask(way(question))


def _builds(place: Place, name: str, theirs: Mapping[str, float]) -> list[Row]:
    """What a build took, beside one of ours that is made now."""
    shutil.rmtree(place.root / STATE, ignore_errors=True)
    ours = json.loads(spent([*CHILD, "build", str(place.root)]).output)
    return [
        Row(f"{name}: build, {words}", Times([theirs[key]]), BUILD, Times([ours[key]]))
        for key, words in (("wall", "wall"), ("cpu", "CPU"))
    ]


def _questions(place: Place, vault: Vault, name: str, ask: Ask, goal: float | None = None) -> list[Row]:
    """How long an answer takes, and how often it holds the memory that was asked for."""
    asked_for = place.questions[:: len(place.questions) // SHARE or 1]
    ours = [q.about.path in [hit.memory.path for hit in vault.search(q.text, limit=LIMIT)] for q in asked_for]
    answers = [ask(question) for question in asked_for]
    theirs = [question.about.path in paths for question, (_, paths) in zip(asked_for, answers, strict=True)]
    rest = cycle(place.questions)
    slow = median(seconds for seconds, _ in answers) > SLOW
    times = _beside(place, vault, lambda: ask(next(rest))[0], slow=slow)
    shares = [Times([sum(found) / len(found)]) for found in (theirs, ours)]
    return [
        Row(name, times["peer"], SEARCH, times["ours"], least=goal),
        Row(f"{name}, memory among {LIMIT} hits", shares[0], SEARCH, shares[1], unit="share"),
    ]


def _beside(place: Place, vault: Vault, peer: Callable[[], object], *, slow: bool) -> dict[str, Times]:
    """Blocks of a peer's questions and of ours."""
    ours = asked(place.questions, lambda q: taken(vault.search(q.text, limit=LIMIT)))
    return interleaved({"peer": peer, "ours": ours}, ROUNDS * BLOCK, slow=["peer"] if slow else [])
