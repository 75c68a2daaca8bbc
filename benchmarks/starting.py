"""How long a process takes to start, beside bare python."""

import subprocess
import sys
from collections.abc import Callable

from benchmarks.measure import Row, interleaved
from benchmarks.place import Place
from benchmarks.processes import CHECKOUT, command

FLOOR = "python -c pass"


def rows(place: Place) -> list[Row]:
    """Imports and the smallest command, each in a fresh process."""
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "import memfs": [sys.executable, "-c", "import memfs"],
        "import memfs; memfs.Vault": [sys.executable, "-c", "import memfs; memfs.Vault"],
        "memfs --version": [*command(), "--version"],
    }
    works = {name: line for name, line in commands.items() if _works(name, line, place)}
    taken = interleaved({name: _run(line) for name, line in works.items()}, place.size.starts, block=1)
    return [Row(name, taken[name], FLOOR, taken["bare"]) for name in works if name != "bare"]


def _works(name: str, words: list[str], place: Place) -> bool:
    """Run a command once, which also warms its files; one that fails is said and left out."""
    done = subprocess.run(words, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    if done.returncode:
        place.notes.append(f"{name}: exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return done.returncode == 0


def _run(words: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run(words, cwd=CHECKOUT, check=True, stdout=subprocess.DEVNULL)
