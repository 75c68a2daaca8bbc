"""Nothing outside the vault is touched: a namespace is swapped with a symlink during writes."""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from support.files import exchange
from support.processes import TIMEOUT_SECONDS, Log, WorkerPool, checksummed, tokens
from support.vaults import assert_cleaned_up

from memfs import MemfsError, Vault
from memfs.errors import InvalidNamespaceError

from .figures import figure

SMALL, FULL = 200, 2_000
SECRET = "A secret outside the vault."
WRITERS = 3
MAX_PAUSE_SECONDS = 0.004  # between two swaps


@pytest.mark.parametrize("deep", [False, True], ids=["namespace", "its parent"])
@pytest.mark.parametrize("swaps", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_no_byte_leaves_the_vault_through_a_swapped_symlink(tmp_path: Path, swaps: int, deep: bool) -> None:
    """The outside directory has the same names as the namespace, and must not change."""
    root, outside, path = tmp_path / "vault", tmp_path / "outside", str(tmp_path / "log")
    with Vault.init(root) as vault:
        ref = vault.add("Shared.", "/team/alice").path
    below = outside / "alice" if deep else outside
    below.mkdir(parents=True)
    (below / Path(ref).name).write_text(SECRET, encoding="utf-8")
    before = _everything(outside)
    log, stop = Log(path), tmp_path / "stop"
    target = root / "team" if deep else root / "team" / "alice"
    with WorkerPool(tmp_path) as pool:
        writers = [pool.start(write, str(root), ref, number, path, str(stop)) for number in range(WRITERS)]
        swapper = pool.start(swap, str(target), str(outside), swaps)
        swapper.finish(TIMEOUT_SECONDS + swaps / 20)
        stop.touch()
        for writer in writers:
            writer.finish()

    assert _everything(outside) == before
    events = log.new()
    done = {event["token"] for event in events if event["event"] == "done"}
    with Vault(root) as vault:
        found = [token for memory in vault.list() for token in tokens(memory.body)]
        assert vault.check() == []
    assert len(found) == len(set(found))
    assert done - set(found) == set()
    assert done
    assert_cleaned_up(root)
    refused = Counter(event["error"] for event in events if event["event"] == "refused")
    assert set(refused) <= {"InvalidNamespaceError", "MemoryNotFoundError"}
    figure(
        f"nothing outside the vault is touched: {'its parent' if deep else 'a namespace'} swapped for a symlink",
        f"{swaps} swaps, {len(done)} writes acknowledged and kept, {refused.total()} refused: 0 bytes outside, 0 read",
    )


def _everything(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return all files below a directory, with modification times and inode numbers."""
    found = {}
    for path in folder.rglob("*"):
        status = path.stat()
        found[str(path)] = (path.read_bytes() if path.is_file() else b"", status.st_mtime_ns, status.st_ino)
    return found


def swap(target: str, outside: str, swaps: int) -> None:
    """Exchange a directory with a symlink to the outside and back, with a pause for the writers."""
    link, rng = Path(f"{target}.link"), random.Random(swaps)
    link.symlink_to(outside)
    for _ in range(swaps):
        exchange(Path(target), link)
        time.sleep(rng.random() * MAX_PAUSE_SECONDS / 4)
        exchange(Path(target), link)
        time.sleep(rng.random() * MAX_PAUSE_SECONDS)
    link.unlink()


def write(root: str, ref: str, number: int, path: str, stop: str) -> None:
    """Add, append and read until the file `stop` exists."""
    log, count = Log(path), 0
    with Vault(root) as vault:
        while not os.path.exists(stop):
            count += 1
            token = f"{number}-{count}"
            try:
                if count % 3 == 0:
                    vault.add(f"Note {token}.\n{checksummed(token)}", "/team/alice")
                elif count % 3 == 1:
                    vault.append(ref, checksummed(token))
                else:
                    assert SECRET not in vault.read(ref).text
                    assert all(SECRET not in memory.text for memory in vault.list("/team/alice"))
                    continue
            except MemfsError as error:
                log.note(event="refused", token=token, error=type(error).__name__)
                if not isinstance(error, InvalidNamespaceError) and "no such memory" not in str(error):
                    raise
            else:
                log.note(event="done", token=token)
