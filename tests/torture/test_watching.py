"""Outside changes are noticed: moved directories and watchers that die. Bursts and git are in test_search.py."""

import shutil
import time
from pathlib import Path

import pytest
from support.changes import make
from support.engines import EngineOf
from support.files import by_hand
from support.processes import WorkerPool
from support.searching import Words, assert_soon_right, found, searched, wait_for, watched

from memfs import Vault

from .figures import figure

SMALL, FULL = 60, 1_000
SMALL_MANY, FULL_MANY = 200, 20_000
NOTICE_SECONDS = 2.0  # the guarantee for a watcher
INDEXING_SECONDS = 30.0  # in which a slow machine reads and indexes all files


@pytest.mark.parametrize("number", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_moved_and_removed_directories_are_noticed(tmp_path: Path, pool: WorkerPool, number: int) -> None:
    """A process that follows a watcher notices a directory that is moved out, moved in, renamed and removed."""
    root, took = make(tmp_path / "vault"), dict[str, float]()
    with watched(pool, root), searched(root) as vault:
        _fill(root, "moved", number)
        assert_soon_right(vault, _here("moved", number), INDEXING_SECONDS)
        for verb, place, step in (
            ("moved out", "", lambda: (root / "moved").rename(tmp_path / "outside")),
            ("moved in", "moved", lambda: (tmp_path / "outside").rename(root / "moved")),
            ("renamed", "other", lambda: (root / "moved").rename(root / "other")),
            ("rm -rf", "", lambda: shutil.rmtree(root / "other")),
        ):
            step()
            took[verb] = assert_soon_right(vault, _here(place, number), NOTICE_SECONDS)
        assert Vault(root).doctor() == []
    figure(
        "outside changes are noticed: directories",
        f"{number} files, noticed by another process after: "
        + ", ".join(f"{verb} {s:.2f} s" for verb, s in took.items()),
    )


@pytest.mark.parametrize("number", [pytest.param(SMALL_MANY), pytest.param(FULL_MANY, marks=pytest.mark.torture)])
def test_changes_are_noticed_after_a_watcher_loses_its_source_or_dies(
    engine_of: EngineOf, tmp_path: Path, pool: WorkerPool, number: int
) -> None:
    """Its inotify descriptor is closed; then its process is killed, and `status` shows that."""
    root = make(tmp_path / "vault")
    with Vault(root, watch=True) as watcher, searched(root) as vault:
        source = engine_of(watcher).freshness.source
        assert source
        source.close()
        _fill(root, "many", number)
        began = time.monotonic()
        assert_soon_right(vault, _here("many", number), INDEXING_SECONDS)
        assert_soon_right(watcher, _here("many", number), INDEXING_SECONDS)
        closed = time.monotonic() - began
        wait_for(lambda: watcher.status().notices == "kernel")
        assert watcher.status().trouble == ""
    with watched(pool, root) as other, searched(root) as vault:
        assert vault.status().watcher
        other.kill()
        assert other.ended(NOTICE_SECONDS)
        shutil.rmtree(root / "many")
        began = time.monotonic()
        assert found(vault, "item7") == set()
        killed = time.monotonic() - began
        assert vault.status().watcher == ""
        assert_soon_right(vault, _here("", number), INDEXING_SECONDS)
    figure(
        "outside changes are noticed: a dead watcher",
        f"{number} files written while its source is closed: found after {closed:.2f} s, and it watches again; removed "
        f"as its process is killed: the next search ({killed:.2f} s) is right, and `status` names no watcher",
    )


def _fill(root: Path, place: str, number: int) -> None:
    for count in range(number):
        by_hand(root, f"{place}/{count % 10}/{count}.md", f"It was carried along as item{count}.")


def _here(place: str, number: int) -> Words:
    """Return the expected hits of some words if all files are in a directory, or nowhere."""
    return {
        f"item{count}": [f"{place}/{count % 10}/{count}.md"] if place else []
        for count in (0, 7, number // 2, number - 1)
    }
