"""A new key for a whole vault: the process is killed repeatedly, and nothing is lost or legible."""

import os
import random
import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS, Log, WorkerPool
from support.vaults import assert_cleaned_up

from memfs import Vault
from memfs.privacy.ciphertext_format import key_name_of
from memfs.privacy.field_encryption import Encryption

from .figures import figure

SMALL, FULL = 100, 1000
KILLS = 8
POLL_SECONDS = 0.001  # between two checks of the progress
KEYS = {"old": bytes(range(32)), "new": bytes(range(32, 64))}
FORBIDDEN_BYTES = {"rotate": b"enc:v1:old:", "encrypt": b"secret"}


@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
@pytest.mark.parametrize("work", ["rotate", "encrypt"])
def test_a_killed_encryption_is_resumed(tmp_path: Path, work: str, memories: int) -> None:
    """Memories have a secret body and a secret field, kept versions, and are indexed."""
    root = tmp_path / "vault"
    with Vault.init(root) as vault:
        ids = [
            vault.add(_text(number), f"/n{number % 7}", title=str(number), phone=f"secret-{number}")
            for number in range(memories)
        ]
        names = [added.id for added in ids]
        for name in names[:: max(1, memories // 50)]:
            vault.append(name, "And another secret.")
        vault.sync()
        before = {name: vault.read(name).text for name in names}
        if work == "rotate":
            Encryption(vault, KEYS.get).encrypt_many(names, fields=["body", "phone"], key="old")

    kills = _kill_repeatedly(tmp_path, root, names, rotate if work == "rotate" else encrypt)

    key = "new" if work == "rotate" else "old"
    with Vault(root) as vault:
        encryption = Encryption(vault, {key: KEYS[key]}.get)
        found = {memory.id: memory for memory in vault.list(archived=True)}
        assert {name: encryption.reveal(memory).text for name, memory in found.items()} == before
        assert {key_name_of(memory.body) for memory in found.values()} == {key}
        assert vault.check() == []
        assert vault.search("secret") == []
        assert vault.doctor() == []
        for name in names[::10]:
            for version in vault.versions(name):
                vault.restore(name, version.hash)
                assert _text(int(found[name].title)) in encryption.reveal(vault.read(name)).body
    assert [path for path in root.rglob("*") if path.is_file() and FORBIDDEN_BYTES[work] in path.read_bytes()] == []
    assert kills >= KILLS // 2
    assert_cleaned_up(root)
    done = "a new key" if work == "rotate" else "encrypted"
    result = "the old key is not used anywhere" if work == "rotate" else "no word legible in files, versions or index"
    figure(
        f"secrets stay secret: {done}",
        f"{memories} memories with a body and a field, killed {kills} times: 0 lost, 0 torn, all decrypted, {result}",
    )


def _text(number: int) -> str:
    return f"A secret of {number}.\n\nIt is a secret."


def _kill_repeatedly(tmp_path: Path, root: Path, names: list[str], job: Callable[..., None]) -> int:
    """Run the job until it completes; kill it after a few memories, in the middle of one, or during its cleanup."""
    log, rng, kills, done = Log(tmp_path / "log"), random.Random(len(names)), 0, 0
    with WorkerPool(tmp_path) as pool:
        while True:
            worker = pool.start(job, str(root), str(tmp_path / "log"), names)
            enough = done + rng.randint(1, max(1, len(names) // KILLS)) if kills < KILLS else 1 << 30
            deadline = time.monotonic() + 4 * TIMEOUT_SECONDS
            while done < enough and not select.select([worker.fd], [], [], POLL_SECONDS)[0]:
                assert time.monotonic() < deadline, f"only {done} of {len(names)}"
                done += len(log.new())
            if worker.ended():
                worker.finish()
                return kills
            worker.kill()
            assert worker.ended(TIMEOUT_SECONDS)
            kills += 1


def rotate(root: str, log: str, _: list[str]) -> None:
    """Rotate the key, and log the progress."""
    progress_log = Log(log)
    with Vault(root) as vault:
        results = Encryption(vault, KEYS.get).rotate(
            "old", "new", progress=lambda *at: progress_log.note(pid=os.getpid(), at=at)
        )
        assert [result for result in results if isinstance(result, Exception)] == []


def encrypt(root: str, log: str, names: list[str]) -> None:
    """Encrypt all memories, and log the progress."""
    progress_log = Log(log)
    with Vault(root) as vault:
        results = Encryption(vault, KEYS.get).encrypt_many(
            names, fields=["body", "phone"], key="old", progress=lambda *at: progress_log.note(pid=os.getpid(), at=at)
        )
        assert [result for result in results if isinstance(result, Exception)] == []
