"""How long a process takes to start, beside bare python."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Row, Size, interleaved

FLOOR = "python -c pass"


def rows(size: Size, folder: Path) -> list[Row]:
    """Imports and the smallest command, each in a fresh process."""
    command = shutil.which("memfs", path=str(Path(sys.executable).parent)) or shutil.which("memfs")
    version = [command, "--version"] if command else [sys.executable, "-m", "memfs", "--version"]
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "import memfs": [sys.executable, "-c", "import memfs"],
        "import memfs; memfs.Vault": [sys.executable, "-c", "import memfs; memfs.Vault"],
        "memfs --version": version,
    }
    works = {name: line for name, line in commands.items() if _works(name, line, folder)}
    taken = interleaved({name: _run(line, folder) for name, line in works.items()}, size.starts, block=1)
    return [Row(name, taken[name], FLOOR, taken["bare"]) for name in works if name != "bare"]


def _works(name: str, command: list[str], folder: Path) -> bool:
    """Run a command once, which also warms its files; one that fails is said and left out."""
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return done.returncode == 0


def _run(command: list[str], folder: Path) -> Callable[[], object]:
    return lambda: subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
