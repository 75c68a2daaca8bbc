"""Whole processes: imports and commands, beside bare python."""

import sys
from collections.abc import Callable, Mapping
from itertools import count

from benchmarks.measure import Row, Times
from benchmarks.place import SCRATCH, Place
from benchmarks.processes import FailedError, Spent, command, spent
from benchmarks.serving import LIMIT

BARE = "python -c pass"
COMMANDS = ("memfs search", "memfs add", "memfs list of a namespace")
CPU_GOAL = 0.25  # seconds of a search
MOST = 10_000  # memories for which that is the goal


def rows(place: Place) -> list[Row]:
    """Wall time of each, from the start to the end of the process, and CPU time of the commands that do something."""
    number = count()
    vault = ["--vault", str(place.indexed)]
    commands: dict[str, Callable[[], list[str]]] = {
        BARE: lambda: _python("pass"),
        "python -c 'import tantivy'": lambda: _python("import tantivy"),
        "import memfs": lambda: _python("import memfs"),
        "import memfs; memfs.Vault": lambda: _python("import memfs; memfs.Vault"),
        "memfs --version": lambda: [*command(), "--version"],
        "memfs search": lambda: [*command(), "search", *vault, "--limit", str(LIMIT), place.questions[0].text],
        "memfs list of a namespace": lambda: [*command(), "list", *vault, place.questions[0].namespace],
    }
    writes = {
        BARE: commands[BARE],
        "memfs add": lambda: [*command(), "add", *vault, "-n", f"/{SCRATCH}", f"Text number {next(number)}."],
    }
    found = [*_runs(place, commands), *_runs(place, writes)]  # apart: a search after an add has more to do
    place.cleared()
    return found


def _runs(place: Place, commands: Mapping[str, Callable[[], list[str]]]) -> list[Row]:
    taken: dict[str, list[Spent]] = {name: [] for name in commands if _works(name, commands[name](), place)}
    for _ in range(place.size.starts):
        for name, runs in taken.items():
            runs.append(spent(commands[name]()))
    found = [_rows(name, runs, taken[BARE], place) for name, runs in taken.items() if name != BARE]
    return [row for some in found for row in some]


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _works(name: str, words: list[str], place: Place) -> bool:
    """Run a command once, which also warms its files; one that fails is said and left out."""
    try:
        spent(words)
    except FailedError as error:
        place.notes.append(f"{name}: {error}")
        return False
    return True


def _rows(name: str, runs: list[Spent], bare: list[Spent], place: Place) -> list[Row]:
    wall = Row(f"{name}, wall", Times([run.wall for run in runs]), BARE, Times([run.wall for run in bare]))
    if name not in COMMANDS:
        return [wall]
    goal = CPU_GOAL if name == "memfs search" and place.size.memories <= MOST else None
    cpu = Row(f"{name}, CPU", Times([run.cpu for run in runs]), BARE, Times([run.cpu for run in bare]), limit=goal)
    return [wall, cpu]
