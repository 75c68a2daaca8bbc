"""Searching at full scale: a search is right after any change of the files and any damage to derived data."""

import fcntl
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.changes import CHANGES, VERBS, Scene, after_a_burst, after_git, in_a_fork, make
from support.commands import Git
from support.damage import DAMAGES, OOLONG, WORDS, Mount, Trial, build, damage_files, fill_up, kill_while_building
from support.files import by_hand
from support.processes import TIMEOUT_SECONDS, WorkerPool
from support.searching import (
    POLL_SECONDS,
    WATCH_SECONDS,
    WriteScenario,
    assert_right,
    assert_soon_right,
    found,
    make_random_changes,
    read_your_writes,
    searched,
    watched,
)

from memfs import Vault
from memfs.index.publisher import RETRY_SECONDS

from .figures import figure

BURST, GIT_FILES, SAVES, KILLS, FORKS, MEMORIES = 20_000, 1_000, 300, 20, 100, 900
SEEDS, STEPS = 5, 400
INDEXING_SECONDS = 30.0  # in which a slow machine checks, reads and indexes 20,000 files

pytestmark = pytest.mark.torture


# --- freshness


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_a_burst_of_files_is_found(tmp_path: Path, is_watched: bool) -> None:
    began = time.monotonic()
    found_after, gone_after = after_a_burst(make(tmp_path / "vault"), BURST, INDEXING_SECONDS, is_watched=is_watched)
    figure(
        f"outside changes are noticed: a burst, {'watched' if is_watched else 'no watcher'}",
        f"{BURST} files written: all found after {found_after:.2f} s; deleted: none found after {gone_after:.2f} s, "
        f"index equals files (all in {time.monotonic() - began:.0f} s)",
    )


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_changes_by_git_are_found(tmp_path: Path, git: Git, is_watched: bool) -> None:
    took = {verb: after_git(make(tmp_path / verb), git, verb, GIT_FILES, is_watched=is_watched) for verb in VERBS}
    figure(
        f"outside changes are noticed: git, {'watched' if is_watched else 'no watcher'}",
        f"{GIT_FILES} files: " + ", ".join(f"{verb} right after {seconds:.2f} s" for verb, seconds in took.items()),
    )


def test_an_edit_is_found_soon_if_another_process_watches(tmp_path: Path, pool: WorkerPool) -> None:
    """Editors save in every way; a process that follows another process's watcher finds each save."""
    took = []
    for number in range(SAVES):
        if number % 50 == 0:
            root = make(tmp_path / f"vault{number}")
        names = ("written in place", "saved by rename", "saved as vim does", "saved by sed")
        change, words = CHANGES[names[number % 4]]
        by_hand(root, "top.md", "At the top there is marzipan.")
        with watched(pool, root), searched(root, "marzipan") as vault:
            change(Scene(root, vault, pool))
            took.append(until(lambda: found(vault, "halva"), WATCH_SECONDS))
            assert_soon_right(vault, words)
    took.sort()
    figure(
        "outside changes are noticed: until an edit is found",
        f"{SAVES} saves in place, by rename, by sed and as vim does: median {took[SAVES // 2] * 1000:.0f} ms, p99 "
        f"{took[SAVES * 99 // 100] * 1000:.0f} ms, slowest {took[-1] * 1000:.0f} ms",
    )


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(WriteScenario(4, 250, namespaces=4), id="one namespace per process"),
        pytest.param(WriteScenario(4, 250, namespaces=1), id="one namespace"),
        pytest.param(WriteScenario(4, 250, namespaces=1, publishing=True), id="while another publishes"),
        pytest.param(WriteScenario(4, 250, namespaces=2, watched=True), id="watched"),
        pytest.param(WriteScenario(4, 250, namespaces=2, publishing=True, watched=True), id="all at once"),
    ],
)
def test_acknowledged_writes_are_found_at_once(tmp_path: Path, scenario: WriteScenario) -> None:
    began = time.monotonic()
    searches, misses = read_your_writes(tmp_path, scenario)

    assert misses == []
    with Vault(tmp_path / "vault") as vault:
        assert_right(vault, {})
    figure(
        f"a search is up to date: own writes and others'{', published meanwhile' * scenario.publishing}"
        f"{', watched' * scenario.watched}, {scenario.namespaces} namespaces",
        f"{scenario.processes * scenario.writes} adds by {scenario.processes} processes, "
        f"{scenario.namespaces} namespaces, {searches} "
        f"searches for own and others' words: 0 misses ({time.monotonic() - began:.1f} s)",
    )


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_searches_are_right_after_random_changes(tmp_path: Path, is_watched: bool) -> None:
    for seed in range(100, 100 + SEEDS):
        make_random_changes(tmp_path / str(seed), seed, STEPS, is_watched=is_watched)
    figure(
        f"a search is up to date: random changes, {'watched' if is_watched else 'no watcher'}",
        f"{SEEDS} walks of {STEPS} random changes by hand, by memfs and to derived data: every search of three "
        "vaults right, listing equals files",
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_never_hangs(tmp_path: Path) -> None:
    root, stop = make(tmp_path / "vault"), threading.Event()

    def churn(vault: Vault) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            by_hand(root, f"facts/churn{number % 20}.md", f"Churn {number}.")
            vault.search("churn")

    with Vault(root, watch=True) as vault:
        vault.search("marzipan")
        threads = [threading.Thread(target=churn, args=(vault,)) for _ in range(3)]
        for thread in threads:
            thread.start()

        def job() -> None:
            assert "top.md" in {hit.memory.path for hit in vault.search("marzipan")}
            vault.append("top.md", "Child.")

        ends = [in_a_fork(job) for _ in range(FORKS)]
        stop.set()
        for thread in threads:
            thread.join()
    assert ends == [0] * FORKS
    figure(
        "no process is blocked: forks",
        f"{FORKS} forks while 3 threads and a watcher work: 0 hung, all searched and wrote",
    )


# --- damage


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
def test_a_search_is_right_after_damage_to_any_file_of_the_state(
    tmp_path: Path, pool: WorkerPool, is_open: bool
) -> None:
    files, wrong = 0, list[str]()
    for kind in DAMAGES:
        (tmp_path / kind).mkdir()
        trial = Trial(kind, is_open, others=MEMORIES, is_thorough=True)
        number, faults = damage_files(pool, tmp_path / kind, trial)
        files, wrong = files + number, [*wrong, *faults]
        shutil.rmtree(tmp_path / kind)

    assert wrong == []
    figure(
        f"the index is a cache: vault {'open' if is_open else 'opened afterwards'}",
        f"{files} files of .memfs ({', '.join(DAMAGES)}): the next search "
        "right, no process died, no memory changed, index on disk again",
    )


def test_a_search_is_right_after_a_kill_while_the_index_is_built(tmp_path: Path, pool: WorkerPool) -> None:
    build(tmp_path / "vault", 3 * MEMORIES)
    remains = kill_while_building(pool, tmp_path / "vault", KILLS, 1.5)

    with Vault(tmp_path / "vault") as vault:
        assert_right(vault, WORDS)
    figure(
        "the index is a cache: kill -9 while rebuilding",
        f"{KILLS} kills in builds of {3 * MEMORIES} memories ({remains} left files): the next search right, "
        "only one index after the next publish",
    )


def test_a_search_does_not_wait_long_for_a_stopped_builder(tmp_path: Path, pool: WorkerPool) -> None:
    root, began = tmp_path / "vault", time.monotonic()
    build(root)
    shutil.rmtree(root / ".memfs/index")
    stopped = pool.start(hold_the_lock, str(root))
    until((root / ".memfs/index/held").exists, TIMEOUT_SECONDS)
    stopped.signal(signal.SIGSTOP)

    pool.start(search_once, str(root)).finish(TIMEOUT_SECONDS)
    figure(
        "no process is blocked: searching",
        f"a search waits {time.monotonic() - began:.0f} s for a stopped process that builds the index",
    )
    stopped.kill()


def hold_the_lock(root: str) -> None:
    """Hold the publish lock until killed."""
    place = Path(root, ".memfs/index")
    place.mkdir()
    fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX)
    (place / "held").touch()
    signal.pause()


def search_once(root: str) -> None:
    """Search once, like a command."""
    with Vault(root) as vault:
        assert found(vault, "oolong") == {OOLONG}


def test_an_index_is_published_again_once_there_is_space(mount_tmpfs: Mount) -> None:
    disk = mount_tmpfs("size=12m")
    build(disk / "vault", MEMORIES)
    with searched(disk / "vault", "oolong") as vault:
        shutil.rmtree(disk / "vault/.memfs/index")
        fill_up(disk)
        for number in range(MEMORIES // 3):
            (vault.root / f"many/{number}.md").rename(vault.root / f"many/other{number}.md")
        assert len(found(vault, "number")) == MEMORIES
        assert vault.status().where == "memory"
        assert "No space left" in vault.status().trouble
        (disk / "ballast").unlink()
        took = until(lambda: vault.search("oolong") and vault.status().where == "disk", RETRY_SECONDS + TIMEOUT_SECONDS)
        assert vault.status().trouble == ""
        assert_right(vault, {})
    assert took < 2 * RETRY_SECONDS
    figure(
        "disk full, read-only, unreadable: searching on a full disk",
        f"{MEMORIES} memories searched from memory, published again {took:.1f} s after there was space",
    )


def until(condition: Callable[[], object], limit: float) -> float:
    """Wait until a condition holds; return the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began
