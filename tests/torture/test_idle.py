"""Idle costs nothing: a watcher of many files that do not change."""

import os
import signal
from pathlib import Path

import pytest
from support.people import fill
from support.processes import TIMEOUT_SECONDS, Worker, WorkerPool
from support.searching import wait_for

from memfs import Vault

from .figures import figure

SMALL, FULL = 500, 100_000
SMALL_SECONDS, FULL_SECONDS = 2.0, 60.0
MAX_CPU_SHARE = 0.01  # of a core
MAX_WAKES_PER_SECOND = 12  # a few heartbeats, and those of the interpreter


@pytest.mark.parametrize(
    ("memories", "seconds"),
    [pytest.param(SMALL, SMALL_SECONDS), pytest.param(FULL, FULL_SECONDS, marks=pytest.mark.torture)],
)
def test_a_watcher_sleeps_while_nothing_happens(tmp_path: Path, memories: int, seconds: float) -> None:
    root = tmp_path / "vault"
    fill(root, memories)
    with Vault(root) as vault:
        vault.sync()
    with WorkerPool(tmp_path) as pool:
        watcher = pool.start(watch, str(root))
        wait_for(lambda: Vault(root).status().watcher, 2 * TIMEOUT_SECONDS)
        assert not watcher.ended(min(seconds, 5.0)), "the watcher ended"
        wakes, cpu = _wakes(watcher), _cpu(watcher)
        assert not watcher.ended(seconds), "the watcher ended"
        wakes, cpu = _wakes(watcher) - wakes, _cpu(watcher) - cpu

    assert wakes < MAX_WAKES_PER_SECOND * seconds
    if memories == FULL:
        assert cpu / seconds < MAX_CPU_SHARE
    figure(
        "idle costs nothing",
        f"a watcher of {memories} files for {seconds:.0f} s: {cpu / seconds:.2%} of a core, "
        f"{wakes / seconds:.1f} wake-ups per second",
    )


def watch(root: str) -> None:
    """Watch until killed."""
    with Vault(root, watch=True):
        signal.pause()


def _cpu(worker: Worker) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{worker.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wakes(worker: Worker) -> int:
    """Return how often the threads of a process went to sleep."""
    tasks = [(task / "status").read_text(encoding="utf-8") for task in Path(f"/proc/{worker.pid}/task").iterdir()]
    lines = [line for task in tasks for line in task.splitlines() if line.startswith("voluntary_ctxt_switches")]
    return sum(int(line.split()[1]) for line in lines)
