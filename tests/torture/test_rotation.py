"""A new key for a whole vault: whoever sets it is killed with -9 again and again, and nothing is lost or legible."""

import os
import random
import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memfs import Vault
from memfs.privacy.ciphertext_format import key_name_of
from memfs.privacy.field_encryption import Encryption

from .figures import figure
from .support import LIMIT, Crew, Log, swept

SMALL, FULL = 100, 1000
KILLS = 8
PACE = 0.001  # seconds between two looks at how far it is
KEYS = {"old": bytes(range(32)), "new": bytes(range(32, 64))}
NOTHING = {"rotate": b"enc:v1:old:", "conceal": b"secret"}


@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
@pytest.mark.parametrize("work", ["rotate", "conceal"])
def test_whoever_is_killed_goes_on_where_it_was(tmp_path: Path, work: str, memories: int) -> None:
    """Memories with a body and a field that are secret, each with kept versions, known to an index."""
    root = tmp_path / "vault"
    with Vault.init(root) as vault:
        ids = [
            vault.add(_text(number), f"/n{number % 7}", title=str(number), phone=f"secret-{number}")
            for number in range(memories)
        ]
        names = [added.id for added in ids]
        for name in names[:: max(1, memories // 50)]:
            vault.append(name, "And a secret more.")
        vault.sync()
        before = {name: vault.read(name).text for name in names}
        if work == "rotate":
            Encryption(vault, KEYS.get).encrypt_many(names, fields=["body", "phone"], key="old")

    kills = _torment(tmp_path, root, names, rotate if work == "rotate" else conceal)

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
    assert [path for path in root.rglob("*") if path.is_file() and NOTHING[work] in path.read_bytes()] == []
    assert kills >= KILLS // 2
    swept(root)
    done = "a new key" if work == "rotate" else "encrypted"
    nothing = "the old key used nowhere" if work == "rotate" else "no word legible in files, versions or index"
    figure(
        f"a secret stays one: {done}",
        f"{memories} memories with a body and a field, killed {kills} times: 0 lost, 0 torn, all decrypted, {nothing}",
    )


def _text(number: int) -> str:
    return f"A secret of {number}.\n\nIt is a secret."


def _torment(tmp_path: Path, root: Path, names: list[str], job: Callable[..., None]) -> int:
    """Run the job until it is done, killing it after a few memories, in the middle of one, or while it cleans up."""
    log, chance, kills, done = Log(tmp_path / "log"), random.Random(len(names)), 0, 0
    with Crew(tmp_path) as crew:
        while True:
            worker = crew.start(job, str(root), str(tmp_path / "log"), names)
            enough = done + chance.randint(1, max(1, len(names) // KILLS)) if kills < KILLS else 1 << 30
            deadline = time.monotonic() + 4 * LIMIT
            while done < enough and not select.select([worker.fd], [], [], PACE)[0]:
                assert time.monotonic() < deadline, f"only {done} of {len(names)}"
                done += len(log.new())
            if worker.ended():
                worker.finish()
                return kills
            worker.kill()
            assert worker.ended(LIMIT)
            kills += 1


def rotate(root: str, log: str, _: list[str]) -> None:
    """Change the key, and tell how far it is."""
    told = Log(log)
    with Vault(root) as vault:
        results = Encryption(vault, KEYS.get).rotate(
            "old", "new", progress=lambda *at: told.note(pid=os.getpid(), at=at)
        )
        assert [result for result in results if isinstance(result, Exception)] == []


def conceal(root: str, log: str, names: list[str]) -> None:
    """Encrypt all of it, and tell how far it is."""
    told = Log(log)
    with Vault(root) as vault:
        results = Encryption(vault, KEYS.get).encrypt_many(
            names, fields=["body", "phone"], key="old", progress=lambda *at: told.note(pid=os.getpid(), at=at)
        )
        assert [result for result in results if isinstance(result, Exception)] == []
