"""Locks of directories that another process holds."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from support.files import Snapshot

from memfs import Vault, Written
from memfs.errors import (
    LockTimeoutError,
)

HOLD = """
import sys
from filelock import lock_descriptor
import os
fd = os.open(sys.argv[1], os.O_RDONLY)
assert lock_descriptor(fd, blocking=False)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(vault: Vault) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock of /n until its input ends."""
    vault.add("Tea.", "n")
    command = [sys.executable, "-c", HOLD, str(vault.root / "n")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_writer_times_out_when_another_one_holds_the_namespace(
    vault: Vault, holder: "subprocess.Popen[str]", snapshot: Snapshot
) -> None:
    hasty = Vault(vault.root, lock_timeout=0.2)
    before = snapshot(vault.root, ".memfs")

    tries: list[Callable[[], object]] = [
        lambda: hasty.add("Coffee.", "n"),
        lambda: hasty.update("n/tea.md", importance=2),
        lambda: hasty.forget("n/tea.md"),
        lambda: hasty.remove("n/tea.md"),
    ]
    for attempt in tries:
        with pytest.raises(LockTimeoutError, match=r"/n: still locked by another writer after 0\.2 s"):
            attempt()
    assert snapshot(vault.root, ".memfs") == before
    assert hasty.add("Coffee.", "m").outcome == "created"
    assert hasty.read("n/tea.md").body == "Tea."


def test_a_writer_continues_when_the_lock_holder_is_killed(vault: Vault, holder: "subprocess.Popen[str]") -> None:
    patient = Vault(vault.root, lock_timeout=30)
    written: list[Written] = []
    thread = threading.Thread(target=lambda: written.append(patient.add("Coffee.", "n")))
    thread.start()
    holder.kill()
    holder.wait()
    thread.join()

    assert written[0].outcome == "created"
