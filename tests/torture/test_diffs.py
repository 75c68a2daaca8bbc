"""Small diffs at full scale: one key of a hand-made header.

The small scale is in tests/format/test_frontmatter_properties.py.
"""

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.commands import Git, commit_all
from support.memory_texts import edit_random_sample, random_sample

from memfs import Vault
from memfs.errors import MalformedMemoryError

from .figures import figure

EDITS, FILES = 30_000, 2_000

pytestmark = pytest.mark.torture


def test_an_edit_changes_only_the_lines_of_its_key() -> None:
    """Headers with comments, quotes, block and flow lists, odd keys and line endings; any key, any value."""
    outcomes = Counter(edit_random_sample(random.Random(seed)) for seed in range(100_000, 100_000 + EDITS))

    assert outcomes["refused"] < 0.01 * EDITS
    figure(
        "small diffs: any key of a hand-made header",
        f"{EDITS} edits, compared line by line: no line of another key, no comment, quote or line ending changed; "
        f"{outcomes['refused']} refused because the result could not be proved",
    )


def test_a_change_of_one_key_is_one_line_of_git_diff(tmp_path: Path, git: Git) -> None:
    root, paths = tmp_path / "vault", [f"n{number % 20}/{number}.md" for number in range(FILES)]
    for number, path in enumerate(paths):
        sample = random_sample(random.Random(number))
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes((sample.start + sample.text() + sample.end).encode())
    git(root, "init")
    git(root, "config", "core.autocrlf", "false")
    commit_all(root, git)
    with Vault(root) as vault:
        refused = _update_all(vault, paths, {"reviewed": "yes"})
        added = _diff(root, git)
        commit_all(root, git)
        _update_all(vault, [path for path in paths if path not in refused], {"reviewed": "no"})
        changed = _diff(root, git)

    assert set(added) == {("1", "0")}
    assert set(changed) == {("1", "1")}
    assert added.total() == changed.total() == FILES - len(refused)
    figure(
        "small diffs: `git diff` of one key",
        f"{FILES} hand-made headers: a key added is 1 line in {added.total()}, changed 1 line in {changed.total()}; "
        f"{len(refused)} refused",
    )


def _update_all(vault: Vault, paths: list[str], keys: Mapping[str, Any]) -> set[str]:
    """Set keys of all paths; return the paths that were refused."""
    refused = set()
    for path in paths:
        try:
            vault.update(path, **keys)
        except MalformedMemoryError:
            refused.add(path)
    return refused


def _diff(root: Path, git: Git) -> Counter[tuple[str, ...]]:
    """Return the numbers of added and removed lines of each changed file."""
    return Counter(tuple(line.split("\t")[:2]) for line in git(root, "diff", "--numstat").splitlines())
