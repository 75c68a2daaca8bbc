"""Reading changes nothing: searching, listing and reading leave every byte and time that git sees unchanged."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Git
from support.files import Snapshot
from support.people import facts, fill
from support.processes import TIMEOUT_SECONDS, WorkerPool

from memfs import Vault

from .figures import figure

SMALL, FULL = 60, 5_000
READERS = 3


@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_reading_leaves_a_git_vault_clean(tmp_path: Path, git: Git, snapshot: Snapshot, memories: int) -> None:
    """Several processes at once, one of them watching, then the command line."""
    root = tmp_path / "vault"
    fill(root, memories)
    git(root, "init")
    git(root, "add", "-A")
    git(root, "commit", "-m", "start")
    before = snapshot(root, ".memfs", ".git")

    with WorkerPool(tmp_path) as pool:
        readers = [pool.start(read, str(root), memories, number == 0) for number in range(READERS)]
        for reader in readers:
            reader.finish(TIMEOUT_SECONDS + memories / 20)
    for words in (["search", "who plays chess?"], ["list"], ["check"], ["doctor"], ["status"]):
        command = [sys.executable, "-m", "memfs", "--vault", str(root), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)

    assert git(root, "status", "--porcelain") == ""
    assert snapshot(root, ".memfs", ".git") == before
    figure(
        "reading changes nothing",
        f"{READERS} processes (one watches) search, list, read, check and explain {memories} memories in a git vault, "
        "then the command line does: `git status` empty, every byte, mode and time unchanged",
    )


def read(root: str, memories: int, watch: bool) -> None:
    """Call every method that only reads."""
    with Vault(root, watch=watch) as vault:
        for _, text in list(facts(memories))[:: max(1, memories // 200)]:
            vault.search(text, explain=True)
        for memory in vault.list(archived=True):
            assert vault.read(memory.path).body == memory.body
            assert vault.versions(memory.path) == []
        vault.check()
        vault.explain_miss(memory.path, "who plays chess?")
        vault.sync()
        vault.doctor()
        vault.status()
