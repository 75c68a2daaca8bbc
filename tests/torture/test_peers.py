"""The same tests for other programs, each in its own environment, as far as they have the operation."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from support.editor import TOKEN, edit_by_hand
from support.processes import TIMEOUT_SECONDS, Log, WorkerPool, tokens
from support.questions import ODD, odd_questions
from support.vaults import history

from benchmarks.peers import installed
from benchmarks.processes import FailedError

from .figures import COMPARISON, REPOSITORY, figure
from .peer_side import FILES, LINES, large

SCRIPT = Path(__file__).with_name("peer_side.py")
WRITERS, LINES_EACH, SAVES, KILLS, QUESTIONS = 4, 100, 300, 20, 2_000
KILL_AFTER_SECONDS = (0.05, 1.0)
HEADER = '---\n# facts about her\ntitle: "Alice"   # as she writes it\ntags: [food, tea]\nimportance: 3\n---\n\nTea.\n'

pytestmark = pytest.mark.torture


class Peer(NamedTuple):
    """A program, the interpreter of its environment, and its title on the page."""

    name: str
    python: str
    title: str

    @property
    def file(self) -> str:
        return FILES[self.name]

    def command(self, root: Path, *words: object) -> list[str]:
        return [self.python, str(SCRIPT), self.name, str(root), *map(str, words)]

    def run(self, root: Path, *words: object) -> str:
        """Run a job, and return its output."""
        done = subprocess.run(self.command(root, *words), capture_output=True, text=True, timeout=10 * TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip()

    @contextmanager
    def started(self, root: Path, *words: object) -> Iterator["subprocess.Popen[str]"]:
        """Start a job and wait until it is ready; kill it at the end of the block."""
        process = subprocess.Popen(
            self.command(root, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.communicate()

    def create_memory(self, root: Path, text: str) -> Path:
        """Create a directory with the memory that the jobs use; return the file."""
        file = root / self.file
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        return file

    def report(self, task: str, text: str) -> None:
        figure(f"{COMPARISON}: {task}: {self.title}", text)


@pytest.fixture(params=list(FILES), scope="module")
def peer(request: pytest.FixtureRequest) -> Peer:
    """Return each program in turn; skip one that cannot be installed, with a row that gives the reason."""
    name = str(request.param)
    if name == "memfs":
        return Peer(name, sys.executable, "memfs")
    try:
        python = str(installed(REPOSITORY / ".bench", name) / "python")
    except FailedError as error:
        figure(f"{COMPARISON}: left out: {name}", str(error))
        pytest.skip(f"{name} cannot be installed: {error}")
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return Peer(name, python, f"{name} {version}")


def test_appends_of_several_processes(peer: Peer, tmp_path: Path) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    file = peer.create_memory(root, "# Log\n")
    started = [peer.started(root, "append", number, LINES_EACH, log) for number in range(WRITERS)]
    processes = [one.__enter__() for one in started]
    try:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.wait(10 * TIMEOUT_SECONDS)
    finally:
        for one in started:
            one.__exit__(None, None, None)

    events = Log(log).new()
    done = {event["token"] for event in events if event["kind"] == "append"}
    lost = done - set(tokens(file.read_text(encoding="utf-8")))
    refused = sum(event["kind"] == "refused" for event in events)
    peer.report(
        f"{WRITERS} processes append {WRITERS * LINES_EACH} lines to one memory",
        f"{len(lost)} of {len(done)} acknowledged lost ({len(lost) / max(1, len(done)):.0%}), {refused} refused",
    )


def test_kills_in_large_writes(peer: Peer, tmp_path: Path) -> None:
    """Writes new memories, and one repeatedly if the program can; the files are checked after each kill."""
    root, log, rng = tmp_path / "root", tmp_path / "log", random.Random(KILLS)
    file, torn, left = peer.create_memory(root, large(0)), 0, 0
    for kill in range(KILLS):
        with peer.started(root, "write", (kill + 1) * 1_000, log) as process:
            with pytest.raises(subprocess.TimeoutExpired):  # the writer never ends
                process.wait(rng.uniform(*KILL_AFTER_SECONDS))
            process.kill()
        for path in [path for path in root.rglob("*") if path.is_file() and ".memfs" not in path.parts]:
            torn += path.suffix == ".md" and not _is_whole(path.read_text(encoding="utf-8"))
            left += path.suffix != ".md"
            if path != file:
                path.unlink()
    done = len(Log(log).new())
    peer.report(
        f"{KILLS} kills (SIGKILL) in writes of 3 MB",
        f"{torn} memories torn; {left} temporary files left among the memories ({done} writes done)",
    )


def _is_whole(text: str) -> bool:
    lines = text.rstrip().split("\n")
    begin = next((at for at, line in enumerate(lines) if line.startswith("begin ")), -1)
    return begin >= 0 and lines[-1] == "end" and len(lines) - begin == LINES + 2


def test_an_editor_beside_updates(peer: Peer, tmp_path: Path) -> None:
    """The editor of test_editor.py saves in place and by rename while an agent appends."""
    root, path, stop = tmp_path / "root", tmp_path / "log", tmp_path / "stop"
    file = peer.create_memory(root, "# Log\n")
    with WorkerPool(tmp_path) as pool, peer.started(root, "update", stop, path) as agent:
        pool.start(edit_by_hand, str(file), SAVES, "", str(path)).finish(TIMEOUT_SECONDS + SAVES)
        stop.touch()
        agent.wait(TIMEOUT_SECONDS)

    events = Log(path).new()
    saved = [event for event in events if event["kind"] == "save"]
    done = [event for event in events if event["kind"] == "append"]
    texts = [found.read_text(encoding="utf-8") for found in root.rglob("*.md")]
    there = set(TOKEN.findall("\n".join(texts) + history(root).decode(errors="replace")))
    there |= {token for event in saved for token in event["removed"]}
    lost = [sum(event["token"] not in there for event in kind) for kind in (saved, done)]
    peer.report(
        f"an editor saves {SAVES} times beside appends",
        f"{lost[0]} of {len(saved)} saves and {lost[1]} of {len(done)} acknowledged appends lost without a trace",
    )


def test_the_diff_of_one_key(peer: Peer, tmp_path: Path, git: Callable[..., str]) -> None:
    ways = {"set_key": "", "set_key_whole": " by a write with front-matter"}
    if peer.name == "strands-agents":
        peer.report("changed lines when one header key is set", "no such operation")
        return
    diffs = []
    for method, how in ways.items():
        if method == "set_key" or peer.name == "markdown-vault-mcp":
            root = tmp_path / method
            peer.create_memory(root, HEADER)
            git(root, "init")
            git(root, "add", "-A")
            git(root, "commit", "-qm", "start")
            peer.run(root, "call", method)
            plus, minus, _ = git(root, "diff", "--numstat").split("\t")
            diffs.append(f"{plus} added, {minus} removed{how}")
    peer.report("changed lines when one header key is set", "; ".join(diffs))


def test_indexing_a_vault_written_by_hand(peer: Peer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(REPOSITORY / "example-vault", root)
    if peer.name in {"strands-agents", "anthropic"}:
        peer.report("changed files when a vault is indexed", "no index")
        return
    before = _files(root)
    peer.run(root, "call", "index")
    after = _files(root)
    changed = sum(after.get(path) != data for path, data in before.items())
    new = sorted({path.split("/")[0] for path in after.keys() - before.keys()})
    peer.report(
        "changed files when a vault is indexed",
        f"{changed} of {len(before)}" + (f"; {', '.join(new)} is created, which git ignores" if new else ""),
    )


def _files(root: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_odd_questions(peer: Peer, tmp_path: Path) -> None:
    if peer.name == "anthropic":
        peer.report("odd questions that raise an error", "no search")
        return
    root, file = tmp_path / "root", tmp_path / "questions"
    place = peer.create_memory(root, "# Log\n").parent
    for number, text in enumerate(ODD.values()):
        (place / f"odd-{number}.md").write_text(f"{text}\n", encoding="utf-8")
    questions = [*ODD, *(text for text in odd_questions(QUESTIONS, 1) if text.isprintable())]
    file.write_text(json.dumps(questions), encoding="utf-8")
    result = json.loads(peer.run(root, "search", file))
    kinds = ", ".join(f"{name} {number}" for name, number in result["raised"].items())
    peer.report(
        "odd questions that raise an error",
        f"{sum(result['raised'].values())} of {len(questions)}{f' ({kinds})' if kinds else ''}, slowest "
        f"{result['slowest'] * 1000:.0f} ms",
    )
