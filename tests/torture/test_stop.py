"""Nobody is blocked: a writer that is stopped in the middle of anything holds others up for the timeout at most."""

import random
import signal
import time
from pathlib import Path

import pytest

from memfs import Vault
from memfs.errors import LockTimeoutError

from .figures import figure
from .support import Crew, Log, sealed, swept, tokens

SMALL, FULL = 12, 200
TIMEOUT, SLACK = 0.2, 5.0


@pytest.mark.parametrize("stops", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_a_stopped_writer_holds_nobody_up_for_longer_than_the_timeout(tmp_path: Path, stops: int) -> None:
    """Others get their write done, or LockTimeoutError; reading and listing never wait; the stopped one goes on."""
    root, chance = tmp_path / "vault", random.Random(stops)
    with Vault.init(root) as vault:
        refs = [vault.add(f"Shared {number}.", "/shared").path for number in range(3)]
    slowest, log = 0.0, Log(tmp_path / "log")
    with Crew(tmp_path) as crew:
        stopped = crew.start(write_for_ever, str(root), refs)
        for stop in range(stops):
            assert not stopped.ended(chance.uniform(0.005, 0.03)), "the writer ended by itself"
            stopped.signal(signal.SIGSTOP)
            other = crew.start(write_once, str(root), chance.choice(refs), str(stop), str(tmp_path / "log"))
            began = time.monotonic()
            assert other.ended(TIMEOUT + SLACK), "blocked by a stopped process"
            slowest = max(slowest, time.monotonic() - began)
            other.finish()
            stopped.signal(signal.SIGCONT)

    done = len(log.new())
    with Vault(root) as vault:
        found = [token for ref in refs for token in tokens(vault.read(ref).body)]
        assert vault.check() == []
    assert len([token for token in found if token.startswith("once-")]) == done
    swept(root)
    figure(
        "nobody is blocked: writing",
        f"{stops} stops of a writer: others wrote {done} times, had a timeout {stops - done} times, waited "
        f"{slowest:.2f} s at most with a timeout of {TIMEOUT} s",
    )


def write_for_ever(root: str, refs: list[str]) -> None:
    """Write all kinds of things, until killed."""
    vault, number = Vault(root), 0
    while True:
        number += 1
        vault.append(refs[number % 3], sealed(f"ever-{number}"))
        vault.update(refs[number % 3], last=number)
        vault.forget(vault.add(f"Note {number}.", "/own").path)


def write_once(root: str, ref: str, token: str, path: str) -> None:
    """Write once, read, list, ask for versions."""
    with Vault(root, lock_timeout=TIMEOUT) as vault:
        vault.read(ref)
        vault.list()
        vault.versions(ref)
        try:
            vault.append(ref, sealed(f"once-{token}"))
        except LockTimeoutError:
            return
    Log(path).note(token=token)
