"""No process is blocked: a writer that is stopped at any point delays others by at most the timeout."""

import random
import signal
import time
from pathlib import Path

import pytest
from support.processes import Log, WorkerPool, checksummed, tokens
from support.vaults import assert_cleaned_up

from memfs import Vault
from memfs.errors import LockTimeoutError

from .figures import figure

SMALL, FULL = 12, 200
LOCK_TIMEOUT_SECONDS, SLACK_SECONDS = 0.2, 5.0


@pytest.mark.parametrize("stops", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_a_stopped_writer_delays_others_by_at_most_the_timeout(tmp_path: Path, stops: int) -> None:
    """Others write, or get LockTimeoutError; reading and listing never wait; the stopped writer continues."""
    root, rng = tmp_path / "vault", random.Random(stops)
    with Vault.init(root) as vault:
        refs = [vault.add(f"Shared {number}.", "/shared").path for number in range(3)]
    slowest, log = 0.0, Log(tmp_path / "log")
    with WorkerPool(tmp_path) as pool:
        stopped = pool.start(write_for_ever, str(root), refs)
        for stop in range(stops):
            assert not stopped.ended(rng.uniform(0.005, 0.03)), "the writer ended"
            stopped.signal(signal.SIGSTOP)
            other = pool.start(write_once, str(root), rng.choice(refs), str(stop), str(tmp_path / "log"))
            began = time.monotonic()
            assert other.ended(LOCK_TIMEOUT_SECONDS + SLACK_SECONDS), "blocked by a stopped process"
            slowest = max(slowest, time.monotonic() - began)
            other.finish()
            stopped.signal(signal.SIGCONT)

    done = len(log.new())
    with Vault(root) as vault:
        found = [token for ref in refs for token in tokens(vault.read(ref).body)]
        assert vault.check() == []
    assert len([token for token in found if token.startswith("once-")]) == done
    assert_cleaned_up(root)
    figure(
        "no process is blocked: writing",
        f"{stops} stops of a writer: others wrote {done} times, timed out {stops - done} times, waited "
        f"{slowest:.2f} s at most with a timeout of {LOCK_TIMEOUT_SECONDS} s",
    )


def write_for_ever(root: str, refs: list[str]) -> None:
    """Do writes of all kinds until killed."""
    vault, number = Vault(root), 0
    while True:
        number += 1
        vault.append(refs[number % 3], checksummed(f"ever-{number}"))
        vault.update(refs[number % 3], last=number)
        vault.forget(vault.add(f"Note {number}.", "/own").path)


def write_once(root: str, ref: str, token: str, path: str) -> None:
    """Write once, read, list, and list versions."""
    with Vault(root, lock_timeout=LOCK_TIMEOUT_SECONDS) as vault:
        vault.read(ref)
        vault.list()
        vault.versions(ref)
        try:
            vault.append(ref, checksummed(f"once-{token}"))
        except LockTimeoutError:
            return
    Log(path).note(token=token)
