"""Other programs that search the same files, compared with `vault.search` in the same run."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from statistics import median

from benchmarks.baselines import SqliteFts
from benchmarks.bench_run import STATE, BenchRun
from benchmarks.corpus import Question
from benchmarks.measure import BLOCK, MeasuredSeconds, Row, Times, interleaved
from benchmarks.peers import PEERS, Peer, Running, ripgrep
from benchmarks.processes import CHILD, FailedError, Helper, run_measured
from benchmarks.searching import ask_in_turn, read_hits
from benchmarks.serving import HIT_LIMIT
from memfs import Vault
from memfs.query.tokens import STOP_WORDS

SEARCH, BUILD = "vault.search", "memfs, cold build"
FTS = "SQLite FTS5"
FTS_GOAL = 10
PEER_GOAL_MEMORIES = 10_000  # goals against peers apply from this size on
SLOW_SECONDS = 0.02  # a program that takes longer gets one question per round
ROUNDS = 20
CHECKED_QUESTIONS = 40  # whose hits are checked
Ask = Callable[[Question], tuple[MeasuredSeconds, list[str]]]


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of SQLite, ripgrep and the peers: builds, questions, and the share of memories found."""
    found = _fts(run)
    if run.peers:
        found += _ripgrep(run)
        for peer in PEERS:
            found += peer_rows(run, peer)
    return found


def _fts(run: BenchRun) -> list[Row]:
    """Time FTS5, which has no stop words: with the question as typed, and without memfs' stop words."""
    target = run.folder / "fts.db"
    found = _builds(run, FTS, json.loads(run_measured([*CHILD, "build_fts", str(run.root), str(target)]).output))
    fts = SqliteFts(target)
    goal = FTS_GOAL if run.size.memories >= PEER_GOAL_MEMORIES else None
    with Vault(run.indexed) as vault:
        found += _questions(run, vault, f"{FTS}: the question as typed", _clocked(fts, _typed), goal)
        found += _questions(run, vault, f"{FTS}: without memfs' stop words", _clocked(fts, _without_stop_words))
    return [*found, _memory(run, target)]


def _typed(question: Question) -> list[str]:
    return question.typed


def _without_stop_words(question: Question) -> list[str]:
    return [word for word in question.typed if word.lower() not in STOP_WORDS]


def _clocked(fts: SqliteFts, words: Callable[[Question], list[str]]) -> Ask:
    def ask(question: Question) -> tuple[MeasuredSeconds, list[str]]:
        start = time.perf_counter()
        found = fts.ask(words(question))
        return MeasuredSeconds(time.perf_counter() - start), [path for path, _, _ in found]

    return ask


def _memory(run: BenchRun, target: Path) -> Row:
    texts = [question.text for question in run.questions[:CHECKED_QUESTIONS]]
    memory = [
        Times([float(run_measured([*CHILD, action, str(where), *texts]).output)])
        for action, where in (("hold_fts", target), ("hold", run.indexed))
    ]
    return Row(f"{FTS}: memory of a process after searches", memory[0], "memfs", memory[1], unit="bytes")


def _ripgrep(run: BenchRun) -> list[Row]:
    name = "ripgrep: lines with any of the words"
    try:
        ask = ripgrep(run)
        ask(run.questions[0])
    except (OSError, FailedError) as error:
        run.notes.append(f"{name}: left out: {error}")
        return []
    rest = cycle(run.questions)
    with Vault(run.indexed) as vault:
        times = _interleave(run, vault, lambda: ask(next(rest)), slow=True)
    return [Row(name, times["peer"], SEARCH, times["memfs"])]


def peer_rows(run: BenchRun, peer: Peer) -> list[Row]:
    """Return the rows of one peer; none, with a note, if it cannot be installed or started."""
    if run.size.memories > peer.max_memories:
        run.notes.append(f"{peer.name}: left out above {peer.max_memories:,} memories: takes minutes")
        return []
    state = run.folder / peer.name
    state.mkdir()
    goal = peer.goal if run.size.memories >= PEER_GOAL_MEMORIES else None
    try:
        with Helper(peer.start(run, state)) as helper, Vault(run.indexed) as vault:
            running = Running(helper)
            found = _builds(run, peer.name, running.build) if peer.builds else []
            for name, way in peer.ways.items():
                found += _questions(run, vault, f"{peer.name}: {name}", _ask_peer(running, way), goal)
            return found
    except (OSError, FailedError) as error:
        run.notes.append(f"{peer.name}: left out: {error}")
        return []


def _ask_peer(running: Running, way: Callable[[Question], str]) -> Ask:
    return lambda question: running.ask(way(question))


def _builds(run: BenchRun, name: str, peer: Mapping[str, float]) -> list[Row]:
    """Return the cost of a build, compared with a memfs build that is run now."""
    shutil.rmtree(run.root / STATE, ignore_errors=True)
    own = json.loads(run_measured([*CHILD, "build", str(run.root)]).output)
    return [
        Row(f"{name}: build, {words}", Times([peer[key]]), BUILD, Times([own[key]]))
        for key, words in (("wall", "wall"), ("cpu", "CPU"))
    ]


def _questions(run: BenchRun, vault: Vault, name: str, ask: Ask, goal: float | None = None) -> list[Row]:
    """Time the questions, and return the share whose hits contain the memory they are about."""
    checked = run.questions[:: len(run.questions) // CHECKED_QUESTIONS or 1]
    found_by_memfs = [
        q.about.path in [hit.memory.path for hit in vault.search(q.text, limit=HIT_LIMIT)] for q in checked
    ]
    results = [ask(question) for question in checked]
    found_by_peer = [question.about.path in paths for question, (_, paths) in zip(checked, results, strict=True)]
    rest = cycle(run.questions)
    slow = median(seconds for seconds, _ in results) > SLOW_SECONDS
    times = _interleave(run, vault, lambda: ask(next(rest))[0], slow=slow)
    shares = [Times([sum(found) / len(found)]) for found in (found_by_peer, found_by_memfs)]
    return [
        Row(name, times["peer"], SEARCH, times["memfs"], least=goal),
        Row(f"{name}, memory among {HIT_LIMIT} hits", shares[0], SEARCH, shares[1], unit="share"),
    ]


def _interleave(run: BenchRun, vault: Vault, peer: Callable[[], object], *, slow: bool) -> dict[str, Times]:
    """Time blocks of questions to a peer and to memfs."""
    memfs = ask_in_turn(run.questions, lambda q: read_hits(vault.search(q.text, limit=HIT_LIMIT)))
    return interleaved({"peer": peer, "memfs": memfs}, ROUNDS * BLOCK, slow=["peer"] if slow else [])
