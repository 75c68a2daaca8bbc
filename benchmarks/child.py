"""python -m benchmarks.child ACTION ...: what is measured in a process of its own. Prints figures as JSON."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.serving import LIMIT, timed


def build(root: str) -> None:
    """A whole index, by memfs; every module is loaded before, as tantivy alone has it."""
    from memfs import Vault

    with Vault(root) as vault:
        vault.status()
        timed(vault.sync)


def build_raw(root: str, target: str) -> None:
    """A whole index, by tantivy alone."""
    from benchmarks.floors import Raw

    timed(lambda: Raw.build(Path(root), Path(target)))


def build_fts(root: str, target: str) -> None:
    """A whole index, by SQLite."""
    from benchmarks.floors import Fts

    timed(lambda: Fts.build(Path(root), Path(target)))


def first(root: str, other: str, question: str) -> None:
    """The first answer of a process; every module is loaded by a question to another vault."""
    from memfs import Vault

    with Vault(other) as vault:
        vault.search(question, limit=LIMIT)

    def ask() -> None:
        with Vault(root) as vault:
            assert vault.search(question, limit=LIMIT)

    timed(ask)


def hold(root: str, *questions: str) -> None:
    """The memory that a process takes which has searched."""
    from memfs import Vault

    with Vault(root) as vault:
        for question in questions:
            _ = [(hit.memory.body, hit.snippet) for hit in vault.search(question, limit=LIMIT)]
        print(_peak())


def embed(root: str) -> None:
    """All memories of a vault that has its index; the model is loaded before."""
    from memfs import Vault
    from memfs.embedding import default_embedder

    embedder = default_embedder()
    with Vault(root, embedder=embedder) as vault:
        vault.status()
        timed(vault.sync)


def hold_meaning(root: str, *questions: str) -> None:
    """The memory that a process takes which has searched by meaning."""
    from memfs import Vault
    from memfs.embedding import default_embedder

    with Vault(root, embedder=default_embedder()) as vault:
        for question in questions:
            _ = [(hit.memory.body, hit.snippet) for hit in vault.search(question, limit=LIMIT)]
        print(_peak())


def hold_raw(folder: str, *questions: str) -> None:
    """The same, with tantivy alone."""
    from benchmarks.floors import Raw

    raw = Raw(Path(folder))
    for question in questions:
        raw.ask(question)
    print(_peak())


def hold_fts(file: str, *questions: str) -> None:
    """The same, with SQLite."""
    from benchmarks.floors import Fts

    fts = Fts(Path(file))
    for question in questions:
        fts.ask(question.replace(",", "").rstrip("?").split())
    print(_peak())


def _peak() -> int:
    """The most memory this process had, in bytes; the usage that the system counts holds the parent's too."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def answer(root: str) -> None:
    """Search for every line that comes, and tell the path of the best hit."""
    from memfs import Vault

    with Vault(root) as vault:
        for line in sys.stdin:
            hits = vault.search(line.rstrip("\n"), limit=1)
            print(hits[0].memory.path if hits else "", flush=True)


def idle(root: str, seconds: str) -> None:
    """Watch a vault in which nothing happens."""
    from memfs import Vault

    with Vault(root, watch=True) as vault:
        vault.search("anything")
        time.sleep(1)  # the watcher has started, and what follows on a start is over
        timed(lambda: time.sleep(float(seconds)))


ACTIONS: dict[str, Callable[..., None]] = {
    action.__name__: action
    for action in (build, build_raw, build_fts, embed, first, hold, hold_meaning, hold_raw, hold_fts, answer, idle)
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](*sys.argv[2:])
