"""Watching heals: directories that come and go, and watchers that die; bursts and git are in test_search.py."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.searching import Words, assert_soon_right, found, searched, wait_for, watched
from test_freshness import by_hand, make

from memfs import Vault

from .figures import figure
from .support import Crew

SMALL, FULL = 60, 1_000
SMALL_MANY, FULL_MANY = 200, 20_000
WITHIN = 2.0  # seconds that the promise gives a watcher
PATIENT = 30.0  # for as many files as a machine reads and indexes in that time


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    with Crew(tmp_path) as made:
        yield made


@pytest.mark.parametrize("number", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_directories_that_come_and_go_are_searched(tmp_path: Path, crew: Crew, number: int) -> None:
    """Moved out, moved in, renamed, removed with all that is in it; seen by one who is told by a watcher."""
    root, took = make(tmp_path / "vault"), dict[str, float]()
    with watched(crew, root), searched(root) as vault:
        _fill(root, "moved", number)
        assert_soon_right(vault, _here("moved", number), PATIENT)
        for verb, place, step in (
            ("moved out", "", lambda: (root / "moved").rename(tmp_path / "outside")),
            ("moved in", "moved", lambda: (tmp_path / "outside").rename(root / "moved")),
            ("renamed", "other", lambda: (root / "moved").rename(root / "other")),
            ("rm -rf", "", lambda: shutil.rmtree(root / "other")),
        ):
            step()
            took[verb] = assert_soon_right(vault, _here(place, number), WITHIN)
        assert Vault(root).doctor() == []
    figure(
        "watching heals: directories",
        f"{number} files, seen by another process: " + ", ".join(f"{verb} {s:.2f} s" for verb, s in took.items()),
    )


@pytest.mark.parametrize("number", [pytest.param(SMALL_MANY), pytest.param(FULL_MANY, marks=pytest.mark.torture)])
def test_a_watcher_that_loses_its_source_or_its_life_is_made_up_for(tmp_path: Path, crew: Crew, number: int) -> None:
    """Its source in the kernel is closed under it; then its process is killed, which is said."""
    root = make(tmp_path / "vault")
    with Vault(root, watch=True) as watcher, searched(root) as vault:
        source = watcher._engine.freshness._source
        assert source
        source.close()
        _fill(root, "many", number)
        began = time.monotonic()
        assert_soon_right(vault, _here("many", number), PATIENT)
        assert_soon_right(watcher, _here("many", number), PATIENT)
        closed = time.monotonic() - began
        wait_for(lambda: watcher.status().notices == "kernel")
        assert watcher.status().trouble == ""
    with watched(crew, root) as other, searched(root) as vault:
        assert vault.status().watcher
        other.kill()
        assert other.ended(WITHIN)
        shutil.rmtree(root / "many")
        began = time.monotonic()
        assert found(vault, "item7") == set()
        killed = time.monotonic() - began
        assert vault.status().watcher == ""
        assert_soon_right(vault, _here("", number), PATIENT)
    figure(
        "watching heals: a dead watcher",
        f"{number} files come while its source is closed: found after {closed:.2f} s, and it watches again; they go "
        f"as its process is killed: the next search ({killed:.2f} s) is right, and `status` names no watcher",
    )


def _fill(root: Path, place: str, number: int) -> None:
    for count in range(number):
        by_hand(root, f"{place}/{count % 10}/{count}.md", f"It was carried along as item{count}.")


def _here(place: str, number: int) -> Words:
    """What some words find if all is in a place, or nowhere."""
    return {
        f"item{count}": [f"{place}/{count % 10}/{count}.md"] if place else []
        for count in (0, 7, number // 2, number - 1)
    }
