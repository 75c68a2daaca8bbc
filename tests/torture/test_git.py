"""git never loses a memory: checkout -f, stash -u, reset --hard and clean -fdx during writes."""

import os
import subprocess
from itertools import count, cycle
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS, Event, Log, WorkerPool, checksummed, tokens
from support.vaults import assert_cleaned_up

from memfs import Vault
from memfs.errors import MemoryExistsError, MemoryNotFoundError

from .figures import figure

SMALL, FULL = 160, 1_200
WRITERS, VERSIONS = 2, 8
SETTINGS = {"memfs.yaml", ".gitignore", ".gitattributes"}
COMMANDS = (
    ("checkout", "-f", "other"),
    ("checkout", "-f", "main"),
    ("stash", "-u"),
    ("stash", "drop"),
    ("reset", "--hard"),
    ("add", "-A"),
    ("commit", "-qm", "all"),
    ("clean", "-fdx"),
)


@pytest.mark.parametrize("writes", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_every_acknowledged_version_can_be_restored_after_git(tmp_path: Path, writes: int) -> None:
    """Each version of each memory has a token; `restore` must bring back every acknowledged version."""
    root, log = tmp_path / "vault", Log(tmp_path / "log")
    _repository(root)
    with WorkerPool(tmp_path) as pool:
        writers = [
            pool.start(write, str(root), number, writes // WRITERS, str(tmp_path / "log")) for number in range(WRITERS)
        ]
        commands = 0
        for command in cycle(COMMANDS):
            if all(writer.ended() for writer in writers):
                break
            subprocess.run(["git", *command], cwd=root, capture_output=True, check=False, timeout=TIMEOUT_SECONDS)
            commands += 1
        for writer in writers:
            writer.finish()

    events = log.new()
    done = [event for event in events if event["event"] == "done"]
    restorable = _restorable(root, done)
    lost = [event for event in done if event["token"] not in restorable[event["path"]]]
    assert lost == []
    assert len(done) >= writes
    subprocess.run(["git", "add", "-A"], cwd=root, capture_output=True, check=True)
    staged = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    names = staged.split("\0")[:-1]
    assert [name for name in names if not name.endswith(".md") and name not in SETTINGS] == []
    assert_cleaned_up(root)
    refused = sum(event["event"] == "refused" for event in events)
    figure(
        "git never loses a memory",
        f"{len(done)} versions acknowledged during {commands} git commands: 0 not restorable; "
        f"{refused} writes refused because the file was gone; {len(names)} files staged, all .md or settings",
    )


def _repository(root: Path) -> None:
    """Create a vault with two branches that have different memories."""
    with Vault.init(root) as vault:
        vault.add("On both branches.", "/notes")
        for command in (
            ("init", "-q", "-b", "main"),
            ("config", "user.name", "memfs"),
            ("config", "user.email", "memfs@example.org"),
            ("add", "-A"),
            ("commit", "-qm", "start"),
            ("checkout", "-qb", "other"),
        ):
            subprocess.run(["git", *command], cwd=root, check=True)
        vault.add("On the other branch.", "/notes")
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        subprocess.run(["git", "commit", "-qm", "other"], cwd=root, check=True)
        subprocess.run(["git", "checkout", "-q", "main"], cwd=root, check=True)


def _restorable(root: Path, done: list[Event]) -> dict[str, set[str]]:
    """Return the tokens that `restore` brings back, by path."""
    found: dict[str, set[str]] = {}
    with Vault(root) as vault:
        for path in {event["path"] for event in done}:
            found[path] = set()
            for version in vault.versions(path):
                vault.restore(path, version.hash)
                memory = vault.read(path)
                found[path] |= {*tokens(memory.body), str(memory.header.get("last"))}
    return found


def write(root: str, number: int, writes: int, path: str) -> None:
    """Write a few versions of each memory; when git has deleted a memory, start another one."""
    log, numbers, done = Log(path), count(), 0
    with Vault(root) as vault:
        ref, left = "", 0
        while done < writes:
            token = f"{os.getpid()}-{next(numbers)}"
            try:
                if not left:
                    ref = vault.add(f"Note {token}.\n{checksummed(token)}", f"/writers/{number}").path
                    left = VERSIONS
                elif left % 2:
                    vault.append(ref, checksummed(token))
                else:
                    vault.update(ref, last=token)
            except (MemoryNotFoundError, MemoryExistsError) as error:
                log.note(event="refused", token=token, error=type(error).__name__)
                left = 0
                continue
            log.note(event="done", token=token, path=ref)
            left, done = left - 1, done + 1
