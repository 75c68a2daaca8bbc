"""Two machines edit one vault, and git merges: no value is lost, and conflicts are reported."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Git, commit_all

from memfs import Vault

from .figures import figure

SMALL, FULL = 1, 25
NOTE = "notes/alice.md"
TEXT = "---\ntype: fact\ntags:\n  - food\nimportance: 2\nsource: a dinner\n---\n\nAlice likes tea.\n\nShe lives here.\n"
Edit = Callable[[Vault, str], object]
# the edits of two machines, and whether git must merge them without a conflict
EDITS: dict[str, tuple[Edit, Edit, bool]] = {
    "each adds a memory": (
        lambda vault, word: vault.add(f"Left is {word}left.", "/notes"),
        lambda vault, word: vault.add(f"Right is {word}right.", "/notes"),
        True,
    ),
    "each adds one of the same name": (
        lambda vault, word: vault.add(f"Left is {word}left.", "/notes", title="Plan"),
        lambda vault, word: vault.add(f"Right is {word}right.", "/notes", title="Plan"),
        False,
    ),
    "two keys of one memory": (
        lambda vault, word: vault.update(NOTE, type=f"{word}left"),
        lambda vault, word: vault.update(NOTE, source=f"{word}right"),
        True,
    ),
    "a key and the body of one memory": (
        lambda vault, word: vault.update(NOTE, type=f"{word}left"),
        lambda vault, word: vault.append(NOTE, f"Right is {word}right."),
        True,
    ),
    "each appends a line to one memory": (
        lambda vault, word: vault.append(NOTE, f"Left is {word}left."),
        lambda vault, word: vault.append(NOTE, f"Right is {word}right."),
        False,
    ),
}


@pytest.mark.parametrize("rounds", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_a_merge_of_two_machines_loses_no_value(tmp_path: Path, git: Git, rounds: int) -> None:
    merged, reported = Counter[str](), Counter[str]()
    for number in range(rounds):
        for name, (left, right, is_clean) in EDITS.items():
            word = f"word{number}x"
            root = _two_machines(tmp_path / "round", git, left, right, word)
            done = subprocess.run(
                ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "pull", "-q", "--no-rebase"],
                cwd=root,
                capture_output=True,
                check=False,
            )
            with Vault(root) as vault:
                problems = vault.check()
                for value in (f"{word}left", f"{word}right"):
                    memory = next((memory for memory in vault.list() if value in memory.text), None)
                    assert memory, f"{name}: {value} is lost"
                    if value in memory.body:
                        assert memory.path in {hit.memory.path for hit in vault.search(value)}, f"{name}: not found"
            assert (done.returncode == 0) == (problems == []), f"{name}: an unreported conflict"
            assert is_clean <= (done.returncode == 0), f"{name}: {done.stderr!r}"
            (reported if problems else merged)[name] += 1
            shutil.rmtree(tmp_path / "round")
    figure(
        "git never loses a memory: merges",
        f"{rounds} rounds of {len(EDITS)} ordinary edits on two machines: 0 values lost; merged by git: "
        f"{', '.join(merged)}; a conflict that `check` reports, both values kept: {', '.join(reported) or 'none'}",
    )


def _two_machines(place: Path, git: Git, left: Edit, right: Edit, word: str) -> Path:
    """Create a vault and its clone, each edited and committed; return the clone, which has to pull."""
    one, other = place / "one", place / "other"
    with Vault.init(one) as vault:
        (one / NOTE).parent.mkdir()
        (one / NOTE).write_text(TEXT, encoding="utf-8")
        git(one, "init")
        commit_all(one, git)
        git(place, "clone", "-q", "one", "other")
        left(vault, word)
        commit_all(one, git)
    with Vault(other) as vault:
        right(vault, word)
        commit_all(other, git)
    return other
