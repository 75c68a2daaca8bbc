"""Power loss: a file system on a loop image is cut off right after the answer."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from memfs import Vault
from memfs.errors import MemoryNotFoundError

from .figures import figure
from .support import LIMIT, Barrier, Crew, mounted, sealed

ROUNDS = 15
SIZE = {"ext4": 64 << 20, "xfs": 320 << 20}
GOING_DOWN = 0x8004587D  # the same call for ext4 and xfs
WITHOUT_LOG = struct.pack("I", 2)  # what is not in the journal on disk by now is gone
CONTROL = "control without fsync of the directory"


@pytest.mark.torture
@pytest.mark.parametrize("system", ["ext4", "xfs"])
def test_the_newest_version_is_there_after_a_power_cut(tmp_path: Path, system: str) -> None:
    """Write, hear the answer, cut; the control shows that the cut is one."""
    image, at = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(SIZE[system])
    subprocess.run([f"mkfs.{system}", "-q", str(image)], check=True)
    with mounted("-o", "loop", str(image), at=at), Vault.init(at / "vault") as vault:
        for number in range(ROUNDS):
            vault.add(f"Memory {number}.", "/notes")
            vault.add(f"To forget {number}.", "/notes")
    there = {}
    with Crew(tmp_path) as crew:
        barrier = Barrier(tmp_path)
        for name, (_, is_there) in WRITES.items():
            there[name] = 0
            for number in range(ROUNDS):
                with mounted("-o", "loop", str(image), at=at):
                    worker = crew.start(write, str(at / "vault"), name, number, barrier.path)
                    barrier.ready(1)
                    cut(at)
                    worker.kill()
                    assert worker.ended(LIMIT)
                with (
                    mounted("-o", "loop", str(image), at=at),
                    Vault(at / "vault") as vault,
                    suppress(MemoryNotFoundError),
                ):
                    there[name] += is_there(vault, number)
    figure(f"power loss: {system}, of {ROUNDS} there", ", ".join(f"{name} {kept}" for name, kept in there.items()))
    assert there.pop(CONTROL) < ROUNDS, "this cut proves nothing"
    assert set(there.values()) == {ROUNDS}


def cut(at: Path) -> None:
    """Cut the power: nothing reaches the disk from here on."""
    fd = os.open(at, os.O_RDONLY)
    fcntl.ioctl(fd, GOING_DOWN, WITHOUT_LOG)
    os.close(fd)


def write(root: str, name: str, number: int, barrier: str) -> None:
    """Do one write; its answer is told by standing at the barrier."""
    vault = Vault(root)
    WRITES[name][0](vault, number)
    Barrier.wait(barrier)


def _without_directory(vault: Vault, number: int) -> None:
    """What many programs do: the file is durable, its name is not."""
    final = vault.root / f"control-{number}.md"
    with open(f"{final}.part", "w", encoding="utf-8") as file:
        file.write(sealed(f"control-{number}"))
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
        lambda vault, number: vault.append("notes/memory-0.md", sealed(f"append-{number}")),
        lambda vault, number: all(
            sealed(f"append-{line}") in vault.read("notes/memory-0.md").body for line in range(number + 1)
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
    CONTROL: (_without_directory, lambda vault, number: (vault.root / f"control-{number}.md").exists()),
}
