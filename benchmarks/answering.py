"""How soon there is an answer: after a pause, in a new process, after a write elsewhere."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from statistics import median

from benchmarks.corpus import texts, word
from benchmarks.floors import Raw
from benchmarks.measure import BLOCK, Row, Taken, Times, interleaved
from benchmarks.place import SCRATCH, Place
from benchmarks.processes import CHILD, FailedError, Helper, command, spent
from benchmarks.searching import FLOOR, asked, taken
from benchmarks.serving import LIMIT
from benchmarks.writing import FLOOR as WRITE
from benchmarks.writing import durable
from memfs import Vault

FIRST = 0.010  # seconds
SEEN = 1.5
ROUND_TRIP = "a durable write, a known answer over a pipe"
IDLE_SHARE = 0.01
PAUSE = 1.1  # seconds
WATCH_LIMIT = 60.0  # seconds until a watcher must watch


def rows(place: Place) -> list[Row]:
    """The first answers, a write that another process finds, and a watcher with nothing to do."""
    found = [_after_a_pause(place)]
    with suppress(FailedError), _watched(place):
        found.append(_new_process(place))
    return [*found, *seen_elsewhere(place, [*CHILD, "answer", str(place.indexed)]), _idle(place)]


def _after_a_pause(place: Place) -> Row:
    times: dict[str, Times] = {"ours": Times([]), "floor": Times([])}
    raw = Raw(place.raw)
    with Vault(place.indexed) as vault:
        subjects = {
            "ours": asked(place.questions, lambda q: taken(vault.search(q.text, limit=LIMIT))),
            "floor": asked(place.questions, lambda q: raw.ask(q.text)),
        }
        for _ in range(place.size.waits):
            for name, subject in subjects.items():
                time.sleep(PAUSE)
                times[name].rounds.append(_clock(subject))
    return Row("question after an idle second", times["ours"], FLOOR, times["floor"], limit=FIRST)


def _clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def _watched(place: Place) -> Iterator[None]:
    """The vault, with `memfs watch` running on it."""
    with Helper([*command(), "watch", "--vault", str(place.indexed)]) as helper, Vault(place.indexed) as vault:
        end = time.monotonic() + WATCH_LIMIT
        while not vault.status().watcher:
            if helper.process.poll() is not None or time.monotonic() > end:
                place.notes.append("first answer of a new process, memfs watch running: left out: it did not start")
                raise FailedError
            time.sleep(0.05)
        yield


def _new_process(place: Place) -> Row:
    with Vault.init(place.folder / "other") as other:
        other.add("Alice likes sushi with tuna.")
        other.sync()
    times = []
    for question in place.questions[: place.size.waits]:
        words = [*CHILD, "first", str(place.indexed), str(place.folder / "other"), question.text]
        times.append(float(json.loads(spent(words).output)["wall"]))
    return Row("first answer of a new process, memfs watch running", Times(times), limit=FIRST)


def seen_elsewhere(place: Place, words: Sequence[str]) -> list[Row]:
    """An add, after which a process that answers with paths must find the memory; and all of that, its answer too."""
    calls = place.size.writes // 2
    new, number = iter(list(islice(texts(7), 2 * (calls + BLOCK)))), count(900_000)
    floor = place.indexed / ".floor"  # beside the namespace: what a new file costs depends on its place on the disk
    floor.mkdir(exist_ok=True)
    known = place.questions[0].text
    with Helper(words) as other, Vault(place.indexed) as vault:

        def add() -> Taken:
            name = word(next(number))
            text = f"About {name}: {next(new)}"
            start = time.perf_counter()
            path = vault.add(text, f"/{SCRATCH}").path
            seconds = Taken(time.perf_counter() - start)
            if (seen := other.ask(f"what about {name}?")) != path:
                raise FailedError(f"{path} was added, {seen or 'nothing'} was found")
            return seconds

        def plain() -> Taken:
            name, data = f"{next(number)}.md", next(new).encode()
            start = time.perf_counter()
            durable(floor, name, data)
            seconds = Taken(time.perf_counter() - start)
            other.ask(known)
            return seconds

        subjects = {"ours": add, "floor": plain}
        for subject in subjects.values():
            subject()
        times = _rounds(subjects, calls)
    shutil.rmtree(floor)
    place.cleared()
    (add_times, all_of_it), (write_times, all_of_that) = times["ours"], times["floor"]
    return [
        Row("vault.add, until another process can find it", add_times, WRITE, write_times, SEEN),
        Row("the same, and its answer over a pipe", all_of_it, ROUND_TRIP, all_of_that),
    ]


def _rounds(subjects: Mapping[str, Callable[[], Taken]], calls: int) -> dict[str, tuple[Times, Times]]:
    """Blocks of each subject: what it says it took, and what the whole of it took."""
    whole: dict[str, list[float]] = {name: [] for name in subjects}

    def clocked(name: str) -> Callable[[], Taken]:
        def call() -> Taken:
            start = time.perf_counter()
            seconds = subjects[name]()
            whole[name].append(time.perf_counter() - start)
            return seconds

        return call

    told = interleaved({name: clocked(name) for name in subjects}, calls)
    block = min(BLOCK, calls)
    rounds = {
        name: Times([median(values[start : start + block]) for start in range(0, len(values), block)])
        for name, values in whole.items()
    }
    return {name: (told[name], rounds[name]) for name in subjects}


def _idle(place: Place) -> Row:
    seconds = place.size.idle
    figures = json.loads(spent([*CHILD, "idle", str(place.indexed), str(seconds)]).output)
    share = Times([figures["cpu"] / figures["wall"]])
    return Row(f"watching for {seconds:g} s, CPU of a core", share, limit=IDLE_SHARE, unit="share")
