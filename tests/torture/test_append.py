"""No lost update: several processes append to one memory."""

import time
from pathlib import Path

import pytest
from support.processes import Barrier, Log, WorkerPool, checksummed, tokens

from memfs import MemfsError, Vault

from .figures import figure

SMALL, FULL = 120, 1_000


@pytest.mark.parametrize("processes", [2, 4, 8])
@pytest.mark.parametrize("lines", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_concurrent_appends_are_all_kept_once(tmp_path: Path, lines: int, processes: int) -> None:
    """All lines exist once, in the order of their process; no append is refused; no process starves."""
    root, log = tmp_path / "vault", Log(tmp_path / "log")
    with Vault.init(root) as vault:
        ref = vault.add("The log.", "/shared").path
    with WorkerPool(tmp_path) as pool:
        barrier = Barrier(tmp_path)
        share = lines // processes
        jobs = [
            pool.start(append_lines, str(root), ref, number, share, barrier.path, str(tmp_path / "log"))
            for number in range(processes)
        ]
        barrier.release(processes)
        for job in jobs:
            job.finish(120)

    found = tokens(Vault(root).read(ref).body)
    events = log.new()
    assert [event["error"] for event in events if "error" in event] == []
    assert len(found) == len(set(found)) == share * processes
    for number in range(processes):
        own = [token for token in found if token.startswith(f"{number}-")]
        assert own == [f"{number}-{line}" for line in range(share)]
    taken = [event["seconds"] for event in events if "seconds" in event]
    ratio = max(taken) / min(taken)
    figure(
        f"no lost update: {processes} processes",
        f"{len(found)} of {share * processes} appends kept, 0 rejected, 0 doubled, slowest {ratio:.2f}x the fastest "
        f"({max(taken) / share * 1e3:.1f} ms per append)",
    )
    if lines == FULL:
        assert ratio <= 3


def append_lines(root: str, ref: str, number: int, lines: int, barrier: str, path: str) -> None:
    """Append one process's share of lines, timed from the common start."""
    log, vault = Log(path), Vault(root)
    vault.read(ref)
    Barrier.wait(barrier)
    start = time.monotonic()
    for line in range(lines):
        try:
            vault.append(ref, checksummed(f"{number}-{line}"))
        except MemfsError as error:
            log.note(error=repr(error))
    log.note(seconds=time.monotonic() - start)
    vault.close()
