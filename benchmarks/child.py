"""python -m benchmarks.child ACTION ...: an action that is measured in its own process. Prints figures as JSON."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.serving import HIT_LIMIT, timed


def build(root: str) -> None:
    """Build an index with memfs; modules are loaded before, as in the baseline."""
    from memfs import Vault

    with Vault(root) as vault:
        vault.status()
        timed(vault.sync)


def build_raw(root: str, target: str) -> None:
    """Build an index with tantivy alone."""
    from benchmarks.baselines import PlainTantivy

    timed(lambda: PlainTantivy.build(Path(root), Path(target)))


def build_fts(root: str, target: str) -> None:
    """Build an index with SQLite."""
    from benchmarks.baselines import SqliteFts

    timed(lambda: SqliteFts.build(Path(root), Path(target)))


def first(root: str, other: str, question: str) -> None:
    """Time the first search of a process; a search in another vault loads the modules before."""
    from memfs import Vault

    with Vault(other) as vault:
        vault.search(question, limit=HIT_LIMIT)

    def search() -> None:
        with Vault(root) as vault:
            assert vault.search(question, limit=HIT_LIMIT)

    timed(search)


def hold(root: str, *questions: str) -> None:
    """Print the memory of a process after searches."""
    from memfs import Vault

    with Vault(root) as vault:
        for question in questions:
            _ = [(hit.memory.body, hit.snippet) for hit in vault.search(question, limit=HIT_LIMIT)]
        print(_peak())


def embed(root: str) -> None:
    """Embed all memories of an indexed vault; the model is loaded before."""
    from memfs import Vault
    from memfs.embedding import default_embedder

    embedder = default_embedder()
    with Vault(root, embedder=embedder) as vault:
        vault.status()
        timed(vault.sync)


def hold_semantic(root: str, *questions: str) -> None:
    """Print the memory of a process after searches by meaning."""
    from memfs import Vault
    from memfs.embedding import default_embedder

    with Vault(root, embedder=default_embedder()) as vault:
        for question in questions:
            _ = [(hit.memory.body, hit.snippet) for hit in vault.search(question, limit=HIT_LIMIT)]
        print(_peak())


def hold_raw(folder: str, *questions: str) -> None:
    """Print the memory of a process after searches with tantivy alone."""
    from benchmarks.baselines import PlainTantivy

    raw = PlainTantivy(Path(folder))
    for question in questions:
        raw.ask(question)
    print(_peak())


def hold_fts(file: str, *questions: str) -> None:
    """Print the memory of a process after searches with SQLite."""
    from benchmarks.baselines import SqliteFts

    fts = SqliteFts(Path(file))
    for question in questions:
        fts.ask(question.replace(",", "").rstrip("?").split())
    print(_peak())


def _peak() -> int:
    """Return the peak memory of this process in bytes; getrusage would include the parent's."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def answer(root: str) -> None:
    """Search for every line of standard input, and print the path of the best hit."""
    from memfs import Vault

    with Vault(root) as vault:
        for line in sys.stdin:
            hits = vault.search(line.rstrip("\n"), limit=1)
            print(hits[0].memory.path if hits else "", flush=True)


def idle(root: str, seconds: str) -> None:
    """Watch a vault that does not change."""
    from memfs import Vault

    with Vault(root, watch=True) as vault:
        vault.search("anything")
        time.sleep(1)  # until the watcher has started and done its first work
        timed(lambda: time.sleep(float(seconds)))


ACTIONS: dict[str, Callable[..., None]] = {
    action.__name__: action
    for action in (build, build_raw, build_fts, embed, first, hold, hold_semantic, hold_raw, hold_fts, answer, idle)
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](*sys.argv[2:])
