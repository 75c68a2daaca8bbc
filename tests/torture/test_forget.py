"""Forget means it: what is forgotten lies in the archive alone, what is removed nowhere."""

import subprocess
from pathlib import Path

import pytest

from memfs import Vault

from .figures import figure
from .support import LIMIT, Crew

SMALL, FULL = 10, 400


@pytest.mark.parametrize("in_git", [True, False], ids=["git", "plain"])
@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_no_word_of_a_removed_memory_is_left(tmp_path: Path, memories: int, in_git: bool) -> None:
    """Memories with several versions, known to an index, moved about; some are kept, some forgotten, some removed."""
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
        with Crew(tmp_path) as crew:
            crew.start(search, str(root), memories).finish(LIMIT)
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

    left = {"kept": set[str](), "forgotten": set[str](), "removed": set[str]()}
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        data, place = file.read_bytes(), _place(file.relative_to(root).parts)
        for number in range(memories):
            words = (
                f"version0x{number}x",
                f"version1x{number}x",
                f"end{number}x",
                f"titled{number}x",
                f"source{number}x",
            )
            if any(word.encode() in data for word in words) or f"titled{number}x" in file.name:
                left[("kept", "forgotten", "removed")[number % 3]].add(place)
    assert left["removed"] == set()
    assert left["forgotten"] <= {"archive", "versions", "index"}
    figure(
        f"forget means it: {'git' if in_git else 'plain'} vault",
        f"{memories} memories of 3 versions, indexed, some moved: a third removed, its words in no file of the vault, "
        f"index, journal or versions; a third forgotten: out of the search, its words in {_and(left['forgotten'])}",
    )


def _text(number: int, version: int) -> str:
    return f"A secret: version{version}x{number}x."


def _place(parts: tuple[str, ...]) -> str:
    """What a file of a vault belongs to."""
    if parts[0] == "archive":
        return "archive"
    if parts[:2] in {(".git", "memfs"), (".memfs", "history")}:
        return "versions"
    return parts[1] if parts[0] == ".memfs" else parts[0]


def _and(places: set[str]) -> str:
    return " and ".join(sorted(places))


def search(root: str, memories: int) -> None:
    """Another process that knows all of them."""
    with Vault(root, watch=True) as vault:
        assert len(vault.search("secret", limit=1000)) == memories
