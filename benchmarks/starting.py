"""Whole processes: imports and commands, compared with bare Python."""

import sys
from collections.abc import Callable, Mapping
from itertools import count

from benchmarks.bench_run import SCRATCH, BenchRun
from benchmarks.measure import Row, Times
from benchmarks.processes import FailedError, ProcessCost, command, run_measured
from benchmarks.serving import HIT_LIMIT

BARE = "python -c pass"
COMMANDS = ("memfs search", "memfs add", "memfs list of a namespace")
SEARCH_CPU_SECONDS = 0.25
SEARCH_GOAL_MEMORIES = 10_000  # the largest size with that goal


def rows(run: BenchRun) -> list[Row]:
    """Return wall time of each whole process, and CPU time of the commands that use a vault."""
    number = count()
    vault = ["--vault", str(run.indexed)]
    commands: dict[str, Callable[[], list[str]]] = {
        BARE: lambda: _python("pass"),
        "python -c 'import tantivy'": lambda: _python("import tantivy"),
        "import memfs": lambda: _python("import memfs"),
        "import memfs; memfs.Vault": lambda: _python("import memfs; memfs.Vault"),
        "memfs --version": lambda: [*command(), "--version"],
        "memfs search": lambda: [*command(), "search", *vault, "--limit", str(HIT_LIMIT), run.questions[0].text],
        "memfs list of a namespace": lambda: [*command(), "list", *vault, run.questions[0].namespace],
    }
    writes = {
        BARE: commands[BARE],
        "memfs add": lambda: [*command(), "add", *vault, "-n", f"/{SCRATCH}", f"Text number {next(number)}."],
    }
    found = [*_runs(run, commands), *_runs(run, writes)]  # separately: a search after an add has more work
    run.clear_scratch()
    return found


def _runs(run: BenchRun, commands: Mapping[str, Callable[[], list[str]]]) -> list[Row]:
    taken: dict[str, list[ProcessCost]] = {name: [] for name in commands if _works(name, commands[name](), run)}
    for _ in range(run.size.starts):
        for name, runs in taken.items():
            runs.append(run_measured(commands[name]()))
    found = [_rows(name, runs, taken[BARE], run) for name, runs in taken.items() if name != BARE]
    return [row for some in found for row in some]


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _works(name: str, words: list[str], run: BenchRun) -> bool:
    """Run a command once, which also warms the page cache; one that fails is noted and left out."""
    try:
        run_measured(words)
    except FailedError as error:
        run.notes.append(f"{name}: {error}")
        return False
    return True


def _rows(name: str, runs: list[ProcessCost], bare: list[ProcessCost], run: BenchRun) -> list[Row]:
    wall = Row(f"{name}, wall", Times([one.wall for one in runs]), BARE, Times([one.wall for one in bare]))
    if name not in COMMANDS:
        return [wall]
    goal = SEARCH_CPU_SECONDS if name == "memfs search" and run.size.memories <= SEARCH_GOAL_MEMORIES else None
    cpu = Row(f"{name}, CPU", Times([one.cpu for one in runs]), BARE, Times([one.cpu for one in bare]), limit=goal)
    return [wall, cpu]
