"""Published generations of an index: merging, linking, verifying and reopening."""

import os
import subprocess
from pathlib import Path

import pytest
from support.engines import EngineOf

from memfs import Vault
from memfs.fs.files import digest
from memfs.index.generations import MAX_CHUNKS, Generation, link_or_copy
from memfs.index.row_table import IndexDamagedError


def test_chunks_of_many_publications_are_merged(vault: Vault) -> None:
    for number in range(MAX_CHUNKS + 3):
        vault.add(f"Number {number} is here.", "n")
        vault.sync()

    generation = Generation.read(str(vault.root / ".memfs/index"))
    assert len(generation.read_rows().chunks) < MAX_CHUNKS
    assert len(vault.search("number", limit=100)) == MAX_CHUNKS + 3
    assert vault.doctor() == []


@pytest.mark.parametrize("text", [b"", b"x", b"0\n[]", b'1\n["../..", "k", "", {}]'])
def test_an_invalid_current_file_raises_index_damaged(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "current").write_bytes(text)

    with pytest.raises(IndexDamagedError):
        Generation.read(str(tmp_path))


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    other = Path("/dev/shm") / f"memfs-test-{os.getpid()}"
    try:
        link_or_copy(str(tmp_path / "a"), str(other))  # another file system
        assert other.read_text() == "x"
    finally:
        other.unlink()
    with pytest.raises(FileNotFoundError):
        link_or_copy(str(tmp_path / "none"), str(tmp_path / "b"))


def test_a_rewritten_current_of_the_same_generation_does_not_reopen_the_index(
    engine_of: EngineOf, vault: Vault
) -> None:
    vault.add("Alice drinks oolong.")
    vault.sync()
    index, current = engine_of(vault).freshness.index, vault.root / ".memfs/index/current"
    for _ in range(3):
        (vault.root / "again").write_bytes(current.read_bytes())
        (vault.root / "again").replace(current)

        assert len(vault.search("oolong")) == 1
        assert engine_of(vault).freshness.index is index
    current.unlink()

    assert len(vault.search("oolong")) == 1
    assert engine_of(vault).freshness.index is not index


def test_a_search_leaves_git_status_clean(vault: Vault) -> None:
    (vault.root / "tea.md").write_text("Tea.")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=vault.root, check=True)

    assert [hit.memory.path for hit in vault.search("tea")] == ["tea.md"]
    vault.sync()

    done = subprocess.run(["git", "status", "--porcelain"], cwd=vault.root, check=True, capture_output=True)
    assert done.stdout == b""
    assert digest((vault.root / "tea.md").read_bytes()) == digest(b"Tea.")
