"""How soon there is an answer: after a pause, in a new process, after a write elsewhere, from the command line."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice

from benchmarks.corpus import texts, word
from benchmarks.floors import LIMIT, Raw
from benchmarks.measure import Row, Times, interleaved
from benchmarks.place import SCRATCH, Place
from benchmarks.processes import CHILD, FailedError, Helper, command, spent
from benchmarks.searching import FLOOR, asked, taken
from benchmarks.writing import FLOOR as WRITE
from benchmarks.writing import durable
from memfs import Vault

FIRST = 0.010  # seconds
SEEN = 1.5
COMMAND_CPU = 0.25  # seconds
COMMAND_MOST = 10_000  # memories for which that is the goal
IDLE_SHARE = 0.01
PAUSE = 1.1  # seconds
WATCH_LIMIT = 60.0  # seconds until a watcher must watch


def rows(place: Place) -> list[Row]:
    """The first answers, a write that another process sees, one command, and a watcher with nothing to do."""
    found = [_after_a_pause(place)]
    with suppress(FailedError), _watched(place):
        found.append(_new_process(place))
    return [*found, _seen_elsewhere(place), *_commands(place), _idle(place)]


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
                place.notes.append("first answer of a new process, `memfs watch` running: skipped: it did not start")
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


def _seen_elsewhere(place: Place) -> Row:
    """From before the add to the answer of a process that was told of it and asked; that answer must be the memory."""
    new, number = iter(list(islice(texts(7), place.size.writes + 2))), count(900_000)
    floor = place.folder / "floor"
    floor.mkdir()
    with Helper([*CHILD, "answer", str(place.indexed)]) as other, Vault(place.indexed) as vault:

        def add() -> None:
            name = word(next(number))
            path = vault.add(f"About {name}: {next(new)}", f"/{SCRATCH}").path
            if (seen := other.ask(f"what about {name}?")) != path:
                raise FailedError(f"{path} was added, {seen or 'nothing'} was found")

        def plain() -> None:
            durable(floor, f"{next(number)}.md", next(new).encode())

        subjects = {"ours": add, "floor": plain}
        for subject in subjects.values():
            subject()
        times = interleaved(subjects, place.size.writes // 2)
    place.cleared()
    return Row("vault.add, until another process finds it", times["ours"], WRITE, times["floor"], SEEN)


def _commands(place: Place) -> list[Row]:
    """CPU time of whole processes."""
    search = [*command(), "search", "--vault", str(place.indexed), "--limit", str(LIMIT), place.questions[0].text]
    commands = {
        "memfs search": search,
        "import tantivy": [sys.executable, "-c", "import tantivy"],
        "pass": [sys.executable, "-c", "pass"],
    }
    times: dict[str, Times] = {name: Times([]) for name in commands}
    for turn in range(place.size.starts + 1):
        for name, words in commands.items():
            cpu = spent(words).cpu
            if turn:
                times[name].rounds.append(cpu)
    goal = COMMAND_CPU if place.size.memories <= COMMAND_MOST else None
    bare = "python -c pass, CPU"
    return [
        Row("memfs search, CPU of the command", times["memfs search"], bare, times["pass"], limit=goal),
        Row("python -c 'import tantivy', CPU", times["import tantivy"], bare, times["pass"]),
    ]


def _idle(place: Place) -> Row:
    seconds = place.size.idle
    figures = json.loads(spent([*CHILD, "idle", str(place.indexed), str(seconds)]).output)
    share = Times([figures["cpu"] / figures["wall"]])
    return Row(f"watching for {seconds:g} s, CPU of a core", share, limit=IDLE_SHARE, unit="share")
