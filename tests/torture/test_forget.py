"""Forget and remove are complete: a forgotten memory is only in the archive, a removed one nowhere."""

import subprocess
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS, WorkerPool

from memfs import Vault

from .figures import figure

SMALL, FULL = 10, 400


@pytest.mark.parametrize("in_git", [True, False], ids=["git", "plain"])
@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_no_word_of_a_removed_memory_remains(tmp_path: Path, memories: int, in_git: bool) -> None:
    """Memories have several versions, are indexed, and some are moved; a third each is kept, forgotten and removed."""
    root = tmp_path / "vault"
    if in_git:
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    with Vault.init(root) as vault:
        ids = [
            vault.add(_text(number, 0), f"/n{number % 7}", title=f"titled{number}x").id for number in range(memories)
        ]
        for number, name in enumerate(ids):
            vault.update(name, body=_text(number, 1), source=f"source{number}x")
            vault.append(name, f"And an end{number}x.")
            if number % 4 == 0:
                vault.move(name, "/moved")
        vault.sync()
        with WorkerPool(tmp_path) as pool:
            pool.start(search, str(root), memories).finish(TIMEOUT_SECONDS)
        for number, name in enumerate(ids):
            if number % 3 == 1:
                vault.forget(name)
            elif number % 3 == 2:
                vault.remove(name)
        for number in range(memories):
            hits = [hit.memory.path for hit in vault.search(f"version1x{number}x")]
            assert len(hits) == (number % 3 == 0), hits
            archived = {hit.memory.path for hit in vault.search(f"version1x{number}x", include=["archived"])}
            assert len(archived) == (number % 3 != 2)

    remaining = {"kept": set[str](), "forgotten": set[str](), "removed": set[str]()}
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        data, part = file.read_bytes(), _part(file.relative_to(root).parts)
        for number in range(memories):
            words = (
                f"version0x{number}x",
                f"version1x{number}x",
                f"end{number}x",
                f"titled{number}x",
                f"source{number}x",
            )
            if any(word.encode() in data for word in words) or f"titled{number}x" in file.name:
                remaining[("kept", "forgotten", "removed")[number % 3]].add(part)
    assert remaining["removed"] == set()
    assert remaining["forgotten"] <= {"archive", "versions", "index"}
    figure(
        f"forget and remove are complete: {'git' if in_git else 'plain'} vault",
        f"{memories} memories of 3 versions, indexed, some moved: a third removed: its words are in no file of the "
        f"vault, index, journal or versions; a third forgotten: not found by a search, its "
        f"words are in {_and(remaining['forgotten'])}",
    )


def _text(number: int, version: int) -> str:
    return f"A secret: version{version}x{number}x."


def _part(parts: tuple[str, ...]) -> str:
    """Return the part of the vault that a file belongs to."""
    if parts[0] == "archive":
        return "archive"
    if parts[:2] in {(".git", "memfs"), (".memfs", "history")}:
        return "versions"
    return parts[1] if parts[0] == ".memfs" else parts[0]


def _and(parts: set[str]) -> str:
    return " and ".join(sorted(parts))


def search(root: str, memories: int) -> None:
    """Search in another process, which then has all memories in its index."""
    with Vault(root, watch=True) as vault:
        assert len(vault.search("secret", limit=1000)) == memories
