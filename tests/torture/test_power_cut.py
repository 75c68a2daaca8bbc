"""Power loss: a file system on a loop image is shut down right after the acknowledgement."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.files import mounted
from support.processes import TIMEOUT_SECONDS, Barrier, WorkerPool, checksummed

from memfs import Vault
from memfs.errors import MemoryNotFoundError

from .figures import figure

ROUNDS = 15
IMAGE_BYTES = {"ext4": 64 << 20, "xfs": 320 << 20}
SHUTDOWN_IOCTL = 0x8004587D  # the same for ext4 and xfs
NO_LOG_FLUSH = struct.pack("I", 2)  # data that is not yet in the journal on disk is lost
CONTROL = "control without fsync of the directory"


@pytest.mark.torture
@pytest.mark.parametrize("system", ["ext4", "xfs"])
def test_an_acknowledged_write_survives_a_power_cut(tmp_path: Path, system: str) -> None:
    """Write, wait for the acknowledgement, cut; the control proves that a cut loses unsynced data."""
    image, at = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES[system])
    subprocess.run([f"mkfs.{system}", "-q", str(image)], check=True)
    with mounted("-o", "loop", str(image), at=at), Vault.init(at / "vault") as vault:
        for number in range(ROUNDS):
            vault.add(f"Memory {number}.", "/notes")
            vault.add(f"To forget {number}.", "/notes")
    survived = {}
    with WorkerPool(tmp_path) as pool:
        barrier = Barrier(tmp_path)
        for name, (_, is_there) in WRITES.items():
            survived[name] = 0
            for number in range(ROUNDS):
                with mounted("-o", "loop", str(image), at=at):
                    worker = pool.start(write, str(at / "vault"), name, number, barrier.path)
                    barrier.ready(1)
                    cut(at)
                    worker.kill()
                    assert worker.ended(TIMEOUT_SECONDS)
                with (
                    mounted("-o", "loop", str(image), at=at),
                    Vault(at / "vault") as vault,
                    suppress(MemoryNotFoundError),
                ):
                    survived[name] += is_there(vault, number)
    figure(f"power loss: {system}, of {ROUNDS} present", ", ".join(f"{name} {kept}" for name, kept in survived.items()))
    assert survived.pop(CONTROL) < ROUNDS, "this cut proves nothing"
    assert set(survived.values()) == {ROUNDS}


def cut(at: Path) -> None:
    """Cut the power: no later write reaches the disk."""
    fd = os.open(at, os.O_RDONLY)
    fcntl.ioctl(fd, SHUTDOWN_IOCTL, NO_LOG_FLUSH)
    os.close(fd)


def write(root: str, name: str, number: int, barrier: str) -> None:
    """Do one write; waiting at the barrier signals its acknowledgement."""
    vault = Vault(root)
    WRITES[name][0](vault, number)
    Barrier.wait(barrier)


def _write_without_directory_fsync(vault: Vault, number: int) -> None:
    """Write as many programs do: the file is durable, its name is not."""
    final = vault.root / f"control-{number}.md"
    with open(f"{final}.part", "w", encoding="utf-8") as file:
        file.write(checksummed(f"control-{number}"))
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{final}.part", final)


def _many(vault: Vault, number: int) -> None:
    vault.add_many({"text": f"Many {number}, {part}.", "namespace": f"/many/{number}/{part % 2}"} for part in range(6))


WRITES: dict[str, tuple[Callable[[Vault, int], object], Callable[[Vault, int], bool]]] = {
    "add": (
        lambda vault, number: vault.add(f"Added {number}.", "/notes"),
        lambda vault, number: vault.read(f"notes/added-{number}.md").body == f"Added {number}.",
    ),
    "add in a new namespace": (
        lambda vault, number: vault.add("New.", f"/new/{number}/deep"),
        lambda vault, number: vault.read(f"new/{number}/deep/new.md").body == "New.",
    ),
    "add_many": (_many, lambda vault, number: len(vault.list(f"/many/{number}")) == 6),
    "update": (
        lambda vault, number: vault.update(f"notes/memory-{number}.md", body="Newest.", step=number),
        lambda vault, number: vault.read(f"notes/memory-{number}.md").body == "Newest.",
    ),
    "append": (
        lambda vault, number: vault.append("notes/memory-0.md", checksummed(f"append-{number}")),
        lambda vault, number: all(
            checksummed(f"append-{line}") in vault.read("notes/memory-0.md").body for line in range(number + 1)
        ),
    ),
    "forget": (
        lambda vault, number: vault.forget(f"notes/to-forget-{number}.md"),
        lambda vault, number: (
            [memory.body for memory in vault.list("/notes", archived=True)].count(f"To forget {number}.") == 1
            and vault.read(f"archive/notes/to-forget-{number}.md").body == f"To forget {number}."
        ),
    ),
    "remove": (
        lambda vault, number: vault.remove(f"notes/added-{number}.md"),
        lambda vault, number: f"notes/added-{number}.md" not in {memory.path for memory in vault.list()},
    ),
    CONTROL: (_write_without_directory_fsync, lambda vault, number: (vault.root / f"control-{number}.md").exists()),
}
