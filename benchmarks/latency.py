"""Latency of a search after a pause, in a new process, and after a write elsewhere; cost of an idle watcher."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from statistics import median

from benchmarks.baselines import PlainTantivy
from benchmarks.bench_run import SCRATCH, BenchRun
from benchmarks.corpus import texts, word
from benchmarks.measure import BLOCK, MeasuredSeconds, Row, Times, interleaved
from benchmarks.processes import CHILD, FailedError, Helper, command, run_measured
from benchmarks.searching import BASELINE, ask_in_turn, read_hits
from benchmarks.serving import HIT_LIMIT
from benchmarks.writing import BASELINE as WRITE
from benchmarks.writing import durable
from memfs import Vault

FIRST_SEARCH_SECONDS = 0.010
VISIBLE_GOAL = 1.5
ROUND_TRIP = "a durable write, a known answer over a pipe"
IDLE_SHARE = 0.01
PAUSE_SECONDS = 1.1
WATCHER_START_SECONDS = 60.0  # at most


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of first searches, of a write that another process finds, and of an idle watcher."""
    found = [_after_a_pause(run)]
    with suppress(FailedError), _watched(run):
        found.append(_new_process(run))
    return [*found, *visible_elsewhere(run, [*CHILD, "answer", str(run.indexed)]), _idle(run)]


def _after_a_pause(run: BenchRun) -> Row:
    times: dict[str, Times] = {"memfs": Times([]), "baseline": Times([])}
    raw = PlainTantivy(run.raw)
    with Vault(run.indexed) as vault:
        subjects = {
            "memfs": ask_in_turn(run.questions, lambda q: read_hits(vault.search(q.text, limit=HIT_LIMIT))),
            "baseline": ask_in_turn(run.questions, lambda q: raw.ask(q.text)),
        }
        for _ in range(run.size.waits):
            for name, subject in subjects.items():
                time.sleep(PAUSE_SECONDS)
                times[name].rounds.append(_clock(subject))
    return Row("question after an idle second", times["memfs"], BASELINE, times["baseline"], limit=FIRST_SEARCH_SECONDS)


def _clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def _watched(run: BenchRun) -> Iterator[None]:
    """Run `memfs watch` on the vault during the block."""
    with Helper([*command(), "watch", "--vault", str(run.indexed)]) as helper, Vault(run.indexed) as vault:
        end = time.monotonic() + WATCHER_START_SECONDS
        while not vault.status().watcher:
            if helper.process.poll() is not None or time.monotonic() > end:
                run.notes.append("first search of a new process, memfs watch running: left out: it did not start")
                raise FailedError
            time.sleep(0.05)
        yield


def _new_process(run: BenchRun) -> Row:
    with Vault.init(run.folder / "other") as other:
        other.add("Alice likes sushi with tuna.")
        other.sync()
    times = []
    for question in run.questions[: run.size.waits]:
        words = [*CHILD, "first", str(run.indexed), str(run.folder / "other"), question.text]
        times.append(float(json.loads(run_measured(words).output)["wall"]))
    return Row("first search of a new process, memfs watch running", Times(times), limit=FIRST_SEARCH_SECONDS)


def visible_elsewhere(run: BenchRun, words: Sequence[str]) -> list[Row]:
    """Time an add that another process must find at once, and the add together with that process's answer."""
    calls = run.size.writes // 2
    new, number = iter(list(islice(texts(7), 2 * (calls + BLOCK)))), count(900_000)
    baseline = run.indexed / ".baseline"  # beside the namespace: the cost of a new file depends on its directory
    baseline.mkdir(exist_ok=True)
    known_question = run.questions[0].text
    with Helper(words) as other, Vault(run.indexed) as vault:

        def add() -> MeasuredSeconds:
            name = word(next(number))
            text = f"About {name}: {next(new)}"
            start = time.perf_counter()
            path = vault.add(text, f"/{SCRATCH}").path
            seconds = MeasuredSeconds(time.perf_counter() - start)
            if (found := other.send(f"what about {name}?")) != path:
                raise FailedError(f"{path} was added, {found or 'nothing'} was found")
            return seconds

        def plain() -> MeasuredSeconds:
            name, data = f"{next(number)}.md", next(new).encode()
            start = time.perf_counter()
            durable(baseline, name, data)
            seconds = MeasuredSeconds(time.perf_counter() - start)
            other.send(known_question)
            return seconds

        subjects = {"memfs": add, "baseline": plain}
        for subject in subjects.values():
            subject()
        times = _rounds(subjects, calls)
    shutil.rmtree(baseline)
    run.clear_scratch()
    (add_times, add_and_answer), (write_times, write_and_answer) = times["memfs"], times["baseline"]
    return [
        Row("vault.add, visible to another process", add_times, WRITE, write_times, VISIBLE_GOAL),
        Row("the same, with that process's answer over a pipe", add_and_answer, ROUND_TRIP, write_and_answer),
    ]


def _rounds(subjects: Mapping[str, Callable[[], MeasuredSeconds]], calls: int) -> dict[str, tuple[Times, Times]]:
    """Run blocks of each subject; return its own measurement and the time of the whole call."""
    whole: dict[str, list[float]] = {name: [] for name in subjects}

    def clocked(name: str) -> Callable[[], MeasuredSeconds]:
        def call() -> MeasuredSeconds:
            start = time.perf_counter()
            seconds = subjects[name]()
            whole[name].append(time.perf_counter() - start)
            return seconds

        return call

    measured = interleaved({name: clocked(name) for name in subjects}, calls)
    block = min(BLOCK, calls)
    rounds = {
        name: Times([median(values[start : start + block]) for start in range(0, len(values), block)])
        for name, values in whole.items()
    }
    return {name: (measured[name], rounds[name]) for name in subjects}


def _idle(run: BenchRun) -> Row:
    seconds = run.size.idle
    figures = json.loads(run_measured([*CHILD, "idle", str(run.indexed), str(seconds)]).output)
    share = Times([figures["cpu"] / figures["wall"]])
    return Row(f"watching for {seconds:g} s, share of a core", share, limit=IDLE_SHARE, unit="share")
