"""A search sees the files as they are now, after changes by editors, git, other processes and this one."""

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from support.changes import (
    CHANGES,
    NONE,
    OOLONG,
    SWEET,
    VERBS,
    Scene,
    after_a_burst,
    after_git,
    as_vim_does,
    by_rename,
    by_sed,
    by_vim,
    in_a_fork,
    in_place,
    make,
    move_a_directory_in,
    swap_a_symlink_in,
    write_both,
)
from support.commands import Git
from support.engines import EngineOf
from support.files import by_hand
from support.processes import WorkerPool
from support.searching import (
    WATCH_SECONDS,
    Words,
    WriteScenario,
    assert_right,
    assert_soon_right,
    found,
    make_random_changes,
    mistakes,
    read_your_writes,
    searched,
    wait_for,
    watched,
)

from memfs import Vault
from memfs.after_fork import Mutex
from memfs.data_types import Change, lazy
from memfs.errors import VaultNotFoundError
from memfs.freshness.freshness import Freshness
from memfs.storage.stat_scan import is_racy

MANY, BURST, STEPS = 200, 2_000, 50


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "vault")


# --- changes, and the search results after each ----------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
def test_the_very_next_search_is_right_after_a_change(root: Path, pool: WorkerPool, name: str) -> None:
    change, words = CHANGES[name]
    with searched(root, "marzipan") as vault:
        change(Scene(root, vault, pool))

        assert mistakes(vault, words) == []
        assert_right(Vault(root), words)
        assert_right(vault, words)


@pytest.mark.parametrize("name", CHANGES)
def test_the_first_search_of_a_new_process_is_right_after_a_change(root: Path, pool: WorkerPool, name: str) -> None:
    change, words = CHANGES[name]
    change(Scene(root, Vault(root), pool))

    assert_right(Vault(root), words)


@pytest.mark.parametrize("name", CHANGES)
def test_a_follower_of_a_watcher_searches_right_within_a_second(root: Path, pool: WorkerPool, name: str) -> None:
    change, words = CHANGES[name]
    with Vault(root, watch=True) as watcher, searched(root, "marzipan") as vault:
        assert vault.status().notices == "watcher"
        change(Scene(root, watcher, pool))

        assert_soon_right(vault, words)
        assert_soon_right(Vault(root), words)
        assert_soon_right(watcher, words)
        assert watcher.doctor() == []
        assert mistakes(vault, words) == []


@pytest.mark.parametrize("name", ["written in place", "saved by rename", "a directory renamed", "deleted"])
def test_a_vault_watched_by_another_process_is_searched_right_within_a_second(
    root: Path, pool: WorkerPool, name: str
) -> None:
    change, words = CHANGES[name]
    with watched(pool, root), searched(root, "marzipan") as vault:
        assert vault.status().notices == "watcher"
        change(Scene(root, vault, pool))

        assert_soon_right(vault, words)
        assert_right(vault, words)


@pytest.fixture
def coarse(tmp_path: Path) -> Iterator[Path]:
    """Make a vault on a file system that stores whole seconds; most others store steps of some milliseconds."""
    image, where = tmp_path / "image", tmp_path / "disk"
    where.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-I", "128", image], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["mount", "-o", "loop", image, where], check=True)
    try:
        Vault.init(where / "vault").close()
        yield where / "vault"
    finally:
        subprocess.run(["umount", "-l", where], check=True)


@pytest.mark.parametrize("kind", ["searched once", "searched again and again", "watched", "new each time"])
def test_an_edit_right_after_a_search_is_found_with_coarse_times(coarse: Path, kind: str) -> None:
    note = coarse / "note.md"
    note.write_text("tea0\n")
    with Vault(coarse, watch=kind == "watched") as vault:
        for _ in range({"searched again and again": 3, "searched once": 1}.get(kind, 0)):
            assert found(vault, "tea0") == {"note.md"}
        for number in range(1, 10):  # of the same size each time
            with note.open("r+") as file:
                file.write(f"tea{number}\n")

            now = Vault(coarse) if kind == "new each time" else vault
            assert mistakes(now, {f"tea{number}": ["note.md"], f"tea{number - 1}": NONE}) == []
    assert Vault(coarse).doctor(repair=False) == []


def test_an_edit_right_after_publishing_is_found_on_a_mount_with_coarse_times(
    coarse: Path,
) -> None:
    root, note = coarse.parent.parent, coarse / "note.md"
    Vault.init(root).close()
    note.write_text("tea0\n")
    for number in range(1, 10):  # of the same size each time
        Vault(root).sync()
        with note.open("r+") as file:
            file.write(f"tea{number}\n")

        assert mistakes(Vault(root), {f"tea{number}": ["disk/vault/note.md"], f"tea{number - 1}": NONE}) == []


def test_a_watcher_finds_the_second_of_two_edits_within_a_second_without_an_event(
    engine_of: EngineOf, coarse: Path
) -> None:
    with Vault(coarse, watch=True) as vault:
        vault.create("linked.md", "Sencha one.\n")
        os.link(coarse / "linked.md", coarse.parent / "outside.md")
        wait_for(lambda: found(vault, "sencha") == {"linked.md"})
        fresh = engine_of(vault).freshness

        def edited_twice() -> bool:
            """Edit before and after a scan. Return False if both edits were not within one second."""
            (coarse.parent / "outside.md").write_text("Gyokuro one.\n")
            first = os.stat(coarse / "linked.md").st_ctime_ns
            scan_in_background(fresh)
            (coarse.parent / "outside.md").write_text("Hojicha one.\n")
            return os.stat(coarse / "linked.md").st_ctime_ns == first

        wait_for(edited_twice)
        scan_in_background(fresh)

        assert mistakes(vault, {"hojicha": ["linked.md"], "gyokuro": NONE}) == []


def test_a_file_is_racy_if_its_next_change_may_not_show_in_its_times() -> None:
    def changed(at: int) -> os.stat_result:
        return os.stat_result(range(10), {"st_ctime_ns": at})

    second, milli = 10**9, 10**6
    now = 1000 * second + 7

    assert not is_racy(changed(now - 101 * milli), now, now)
    assert is_racy(changed(now - 99 * milli), now, now)
    assert is_racy(changed(now + milli), now, now + 2 * milli)  # changed while it was read
    assert not is_racy(changed(now + 60 * second), now, now)  # the clock was set back
    assert is_racy(changed(999 * second), now, now)  # times in whole seconds
    assert not is_racy(changed(997 * second), now, now)


def test_a_write_to_a_file_with_two_names_is_found_under_both(root: Path) -> None:
    os.link(root / "top.md", root / "facts/twin.md")
    with searched(root, "marzipan") as vault:
        (root / "top.md").write_text("Nougat is for later.\n")

        assert mistakes(vault, {"nougat": ["facts/twin.md", "top.md"], "marzipan": NONE}) == []


def test_a_file_with_two_names_that_is_written_constantly_is_searched(root: Path) -> None:
    os.link(root / "top.md", root / "facts/twin.md")
    writing = "import os, sys; fd = os.open(sys.argv[1], 2); print(flush=True)\nwhile True: os.pwrite(fd, b'On', 0)"
    writer = subprocess.Popen([sys.executable, "-c", writing, root / "top.md"], stdout=subprocess.PIPE)
    try:
        assert writer.stdout
        assert writer.stdout.readline()
        with searched(root, "marzipan") as vault:
            for _ in range(1000):
                vault.search("marzipan")
    finally:
        writer.kill()
        writer.communicate()

    assert found(Vault(root), "marzipan") == {"facts/twin.md", "top.md"}


def test_a_vault_that_is_deleted_and_created_again_is_searched_and_watched(root: Path) -> None:
    with Vault(root, watch=True) as watcher, searched(root) as vault:
        shutil.rmtree(root)
        with pytest.raises(VaultNotFoundError):
            vault.search("marzipan")
        by_hand(root, "top.md", "At the top there is halva.")

        assert mistakes(vault, SWEET) == []
        by_hand(root, "top.md", "At the top there is nougat.")
        assert_soon_right(watcher, {"halva": NONE, "nougat": ["top.md"]})
        wait_for(lambda: vault.status().watcher)
        assert watcher.status().trouble == ""


def test_concurrent_first_searches_are_right(tmp_path: Path, pool: WorkerPool) -> None:
    for number in range(500):
        by_hand(tmp_path, f"many/{number % 7}/{number}.md", f"It is item{number}.")
    workers = [pool.start(find_and_add, str(tmp_path), number) for number in range(6)]
    for worker in workers:
        worker.finish()

    with Vault(tmp_path) as vault:
        assert_right(vault, {"own": [f"own/the-own-of-{number}.md" for number in range(6)]})
    assert len(os.listdir(tmp_path / ".memfs/index")) == 2


def find_and_add(root: str, number: int) -> None:
    """Search as the first process, and write."""
    with Vault(root) as vault:
        for count in (0, number, 499):
            assert found(vault, f"item{count}") == {f"many/{count % 7}/{count}.md"}
        assert found(vault, "own") <= {f"own/the-own-of-{other}.md" for other in range(6)}
        vault.add(f"The own of {number}.", "/own")
        assert f"own/the-own-of-{number}.md" in found(vault, "own")


def test_processes_that_follow_a_watcher_find_every_edit_of_a_file(root: Path, pool: WorkerPool) -> None:
    with watched(pool, root), searched(root) as vault:
        for number in range(6):
            assert vault.status().notices == "watcher"
            if number % 2:
                Vault(root).update("top.md", body=f"Now there is sour{number}.")
                assert found(vault, f"sour{number}") == {"top.md"}
            by_hand(root, "top.md", f"Now there is sweet{number}.")

            wait_for(partial(found, vault, f"sweet{number}"), WATCH_SECONDS)


def test_a_search_between_two_edits_is_right_every_time(root: Path) -> None:
    with searched(root) as vault:
        for number in range(50):
            by_hand(root, "top.md", f"Now there is sweet{number}.")
            if number % 5 == 0:
                vault.add(f"Now there is sour{number}.", "/facts")

            assert found(vault, f"sweet{number}") == {"top.md"}
            assert found(vault, f"sweet{number - 1}") == set()
            assert len(found(vault, f"sour{number - number % 5}")) == 1
        assert_right(vault, {})


def test_a_memory_that_is_rewritten_constantly_is_found(root: Path, pool: WorkerPool) -> None:
    writer = pool.start(rewrite, str(root))
    with searched(root) as vault:
        wait_for(lambda: is_found(vault, "fidget"))

        assert [number for number in range(200) if not is_found(vault, "fidget")] == []
    writer.kill()


def is_found(vault: Vault, word: str) -> bool:
    return any(word.encode() in hit.memory.data for hit in vault.search(word))


def rewrite(root: str) -> None:
    """Rewrite a memory by rename and in place, until killed."""
    file, number = Path(root, "top.md"), 0
    while True:
        number += 1
        file.with_name(".new").write_text(f"Always a fidget, {number} times.", encoding="utf-8")
        file.with_name(".new").replace(file)
        with file.open("r+", encoding="utf-8") as opened:
            opened.write("Always a fidget")


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
@pytest.mark.parametrize("seed", range(2))
def test_searches_are_right_after_random_changes(tmp_path: Path, seed: int, is_watched: bool) -> None:
    make_random_changes(tmp_path / "vault", seed, STEPS, is_watched=is_watched)


# --- many at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
@pytest.mark.parametrize("verb", VERBS)
def test_changes_by_git_are_searched(root: Path, git: Git, verb: str, is_watched: bool) -> None:
    after_git(root, git, verb, MANY, is_watched=is_watched)


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_a_burst_of_files_is_searched(root: Path, is_watched: bool) -> None:
    after_a_burst(root, BURST, 2 * WATCH_SECONDS if is_watched else 0.0, is_watched=is_watched)


# --- watchers that fail ---------------------------------------------------------------------------------


def test_a_watcher_continues_without_its_event_source(engine_of: EngineOf, root: Path) -> None:
    with Vault(root, watch=True) as watcher, searched(root) as vault:
        for number in range(3):
            source = engine_of(watcher).freshness.source
            assert source
            source.close()
            by_hand(root, "top.md", f"Now there is sweet{number}.")

            assert_soon_right(vault, {f"sweet{number}": ["top.md"], f"sweet{number - 1}": NONE})
            assert_soon_right(watcher, {f"sweet{number}": ["top.md"]})
            wait_for(lambda: watcher.status().notices == "kernel")
        assert watcher.status().trouble == ""


def test_a_watcher_finds_a_write_through_a_link_outside_of_the_vault(engine_of: EngineOf, root: Path) -> None:
    path = root / "linked.md"
    with Vault(root, watch=True) as vault:
        path.write_text("Hojicha.\n", encoding="utf-8")
        os.link(path, root.parent / "outside.md")
        wait_for(lambda: found(vault, "hojicha") == {"linked.md"})
        (root.parent / "outside.md").write_text("Gyokuro.\n", encoding="utf-8")
        received: list[Change] = []
        vault.subscribe(received.append)
        scan_in_background(engine_of(vault).freshness)

        assert found(vault, "gyokuro") == {"linked.md"}
        assert found(vault, "hojicha") == set()
        assert received == [Change("updated", "linked.md")]


class Delayed(Mutex):
    """A lock that calls a function before it is taken."""

    def __init__(self, first: Callable[[], object]) -> None:
        super().__init__()
        self._before = [first]

    def __enter__(self) -> bool:
        if self._before:
            self._before.pop()()
        return bool(super().__enter__())


def scan_in_background(fresh: Freshness) -> None:
    """Scan all files in the background, as soon as a scan is due."""
    before = fresh.scanned_at

    def has_scanned() -> bool:
        fresh.scan_in_background(every=0.0)
        return fresh.scanned_at > before

    wait_for(has_scanned)


def test_the_duration_of_a_scan_does_not_include_waiting_for_a_search(engine_of: EngineOf, root: Path) -> None:
    with searched(root) as vault:
        fresh = engine_of(vault).freshness
        fresh.lock = Delayed(lambda: time.sleep(1.0))
        scan_in_background(fresh)

        assert fresh.scan_seconds < 0.5


def test_a_vault_that_is_replaced_during_a_background_scan_is_searched(
    engine_of: EngineOf, root: Path, tmp_path: Path
) -> None:
    Vault.init(tmp_path / "other").create("top.md", "At the top there is nougat.\n")
    with searched(root) as vault:

        def replace() -> None:
            root.rename(tmp_path / "former")
            (tmp_path / "other").rename(root)
            assert found(vault, "nougat") == {"top.md"}

        fresh = engine_of(vault).freshness
        fresh.lock = Delayed(replace)
        scan_in_background(fresh)

        assert mistakes(vault, {"nougat": ["top.md"], "marzipan": NONE, "luthier": NONE}) == []


def test_a_search_is_right_while_the_watcher_is_suspended(root: Path, pool: WorkerPool) -> None:
    with watched(pool, root) as watcher, searched(root) as vault:
        assert vault.status().notices == "watcher"
        watcher.signal(signal.SIGSTOP)
        by_rename(Scene(root, vault, pool))
        by_hand(root, "new.md", "There is nougat too.")
        words = {**SWEET, "nougat": ["new.md"]}

        assert_soon_right(vault, words)
        assert_right(Vault(root), words)
        watcher.signal(signal.SIGCONT)
        by_hand(root, "top.md", "It goes on.")
        assert_soon_right(vault, {"halva": NONE, "goes": ["top.md"]})


def test_a_search_is_right_after_the_watcher_is_killed(root: Path, pool: WorkerPool) -> None:
    with watched(pool, root) as watcher, searched(root) as vault:
        watcher.kill()
        assert watcher.ended(WATCH_SECONDS)
        by_rename(Scene(root, vault, pool))

        assert mistakes(vault, SWEET) == []
        assert_right(vault, SWEET)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_status_shows_that_a_subscriber_ended_the_watcher(root: Path) -> None:
    with Vault(root, watch=True) as vault:
        (watcher,) = (thread for thread in threading.enumerate() if thread.name == "memfs-watcher")
        stop = vault.subscribe(lambda _: sys.exit())
        by_hand(root, "top.md", "Now there is halva.")
        watcher.join(WATCH_SECONDS)
        stop()

        assert not watcher.is_alive()
        assert (vault.status().watcher, "the watcher ended" in vault.status().trouble) == ("", True)
        assert found(vault, "halva") == {"top.md"}


def test_a_watcher_without_a_writable_journal_is_not_relied_on(root: Path) -> None:
    with Vault(root, watch=True), searched(root) as vault:
        (root / ".memfs/journal").unlink(missing_ok=True)
        (root / ".memfs/journal").mkdir()
        vault.search("marzipan")
        by_hand(root, "top.md", "Now there is halva.")

        assert_soon_right(vault, SWEET)
        by_hand(root, "top.md", "Now there is nougat.")
        assert_soon_right(vault, {"halva": NONE, "nougat": ["top.md"]})


def test_a_second_watcher_takes_over(root: Path, pool: WorkerPool) -> None:
    with watched(pool, root) as first, Vault(root, watch=True), searched(root) as vault:
        first.kill()
        assert first.ended(WATCH_SECONDS)
        wait_for(lambda: vault.status().watcher == str(os.getpid()))
        by_hand(root, "top.md", "Now there is halva.")

        assert_soon_right(vault, SWEET)


def moved_state(here: Path, other: Path) -> None:
    (here / ".memfs").rename(other / ".memfs")


def moved_index(here: Path, other: Path) -> None:
    (other / ".memfs").mkdir()
    (here / ".memfs/index").rename(other / ".memfs/index")


@pytest.mark.parametrize("take", [None, moved_state, moved_index])
def test_a_vault_put_in_the_place_of_another_is_the_one_searched(
    tmp_path: Path, take: Callable[[Path, Path], None] | None
) -> None:
    here, other, away = tmp_path / "here", tmp_path / "other", tmp_path / "away"
    vault = searched(make(here / "vault"), "oolong")
    by_hand(other / "vault", "zoo.md", "The zoo has an okapi.")
    if take:
        take(here / "vault", other / "vault")
    here.rename(away)
    other.rename(here)
    assert_right(vault, {"okapi": {"zoo.md"}, "oolong": NONE, "marzipan": NONE})


def test_a_hard_linked_copy_put_in_the_place_of_a_vault_is_the_one_searched(tmp_path: Path) -> None:
    here, copy = tmp_path / "here", tmp_path / "copy"
    make(here / "vault")
    shutil.copytree(here, copy, copy_function=os.link)
    vault = searched(here / "vault", "oolong")
    here.rename(tmp_path / "away")
    copy.rename(here)
    by_hand(here / "vault", "zoo.md", "The zoo has an okapi.")
    assert found(vault, "okapi") == {"zoo.md"}


# --- read your writes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(WriteScenario(4, 25, namespaces=4), id="a namespace each"),
        pytest.param(WriteScenario(4, 25, namespaces=1), id="one namespace"),
        pytest.param(WriteScenario(4, 25, namespaces=1, publishing=True), id="while another publishes"),
        pytest.param(WriteScenario(4, 25, namespaces=2, watched=True), id="watched"),
        pytest.param(WriteScenario(4, 85, namespaces=3), id="many pending"),
    ],
)
def test_acknowledged_writes_are_found_at_once(tmp_path: Path, scenario: WriteScenario) -> None:
    searches, misses = read_your_writes(tmp_path, scenario)

    assert misses == []
    assert searches > scenario.processes * scenario.writes
    with Vault(tmp_path / "vault") as vault:
        assert_right(vault, {"w0x0": ["own/0/w0x0-is-the-word-of-a-note-that-nobody-else-writes.md"]})


def test_a_process_that_removes_finds_the_writes_of_others(root: Path, pool: WorkerPool) -> None:
    with watched(pool, root), searched(root) as vault, Vault(root) as other:
        for number in range(5):
            added = other.add(f"Here is a kiwi{number}.", "/facts")
            vault.remove(vault.add(f"Away with {number}.", "/facts").path)

            assert found(vault, f"kiwi{number}") == {added.path}


def test_a_memory_that_was_gone_for_a_moment_unseen_by_the_watcher_is_found(
    root: Path, pool: WorkerPool, tmp_path: Path
) -> None:
    by_hand(root, "trip/zurich.md", "The night train leaves at nine.")
    with Vault(root) as first:
        first.sync()
    with watched(pool, root) as watcher, Vault(root) as vault:
        assert found(vault, "train") == {"trip/zurich.md"}
        assert vault.status().notices == "watcher"
        watcher.signal(signal.SIGSTOP)
        (root / "trip").rename(tmp_path / "outside")
        assert found(vault, "train") == set()
        (tmp_path / "outside").rename(root / "trip")
        watcher.signal(signal.SIGCONT)

        assert_soon_right(vault, {"train": ["trip/zurich.md"]})


def test_an_edit_while_a_watcher_publishes_is_found_by_a_later_process(root: Path) -> None:
    late = [lambda: by_hand(root, "top.md", "And then there is nougat.")]

    def progress(done: int, total: int) -> None:
        if done == total and late:
            late.pop()()

    with Vault(root, watch=True) as watcher:
        by_hand(root, "top.md", "Now there is halva.")
        assert found(watcher, "halva") == {"top.md"}
        watcher.sync(progress)
        by_hand(root, "mark.md", "A mark.")
        wait_for(lambda: found(Vault(root), "mark") == {"mark.md"})

        with Vault(root) as vault:
            assert vault.status().notices == "watcher"
            assert found(vault, "nougat") == {"top.md"}


def test_unpublished_changes_of_another_process_are_found_by_a_later_process(
    engine_of: EngineOf, root: Path, pool: WorkerPool
) -> None:
    with searched(root) as vault, watched(pool, root):
        added = Vault(root).add("A kiwi.", "/facts")
        assert found(vault, "kiwi") == {added.path}
        source = engine_of(vault).freshness.source
        assert source
        source.close()
        for number in range(400):
            by_hand(root, f"bulk/{number}.md", f"Bulk item{number}.")
        assert len(found(vault, "bulk")) == 400

        assert found(Vault(root), "kiwi") == {added.path}


# --- subscribers ----------------------------------------------------------------------------------------


class RecordedChanges:
    """A subscriber that records the changes it is called with."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def __call__(self, change: Change) -> None:
        self.changes.append(change)

    def soon(self, *changes: Change) -> None:
        """Raise AssertionError unless exactly these changes arrive within a second; then clear the record."""
        with suppress(AssertionError):
            wait_for(lambda: len(self.changes) >= len(changes), WATCH_SECONDS)
        assert Counter(self.changes) == Counter(changes)
        self.changes.clear()


def created(path: str) -> Change:
    return Change("created", path)


def updated(path: str) -> Change:
    return Change("updated", path)


def moved(path: str, old: str) -> Change:
    return Change("moved", path, old)


def removed(path: str) -> Change:
    return Change("removed", path)


TOLD: dict[str, tuple[Callable[[Scene], object], list[Change]]] = {
    "added here": (lambda s: s.vault.add("A kiwi.", "/facts"), [created("facts/a-kiwi.md")]),
    "updated here": (lambda s: s.vault.update(OOLONG, body="Sencha."), [updated(OOLONG)]),
    "moved here": (lambda s: s.vault.move("top.md", "/attic"), [moved("attic/top.md", "top.md")]),
    "forgotten here": (lambda s: s.vault.forget("top.md"), [moved("archive/top.md", "top.md")]),
    "removed here": (lambda s: s.vault.remove("top.md"), [removed("top.md")]),
    "added elsewhere": (lambda s: s.elsewhere("add", "A kiwi.", "/new"), [created("new/a-kiwi.md")]),
    "appended elsewhere": (lambda s: s.elsewhere("append", OOLONG, "And sencha."), [updated(OOLONG)]),
    "moved elsewhere": (lambda s: s.elsewhere("move", "top.md", "/attic"), [moved("attic/top.md", "top.md")]),
    "removed elsewhere": (lambda s: s.elsewhere("remove", "top.md"), [removed("top.md")]),
    "written in place": (in_place, [updated("top.md")]),
    "saved by rename": (by_rename, [updated("top.md")]),
    "saved as vim does": (as_vim_does, [updated("top.md")]),
    "saved by vim": (by_vim, [updated("top.md")]),
    "saved by sed": (by_sed, [updated("top.md")]),
    "made by hand": (lambda s: by_hand(s.root, "new/a.md", "A kiwi."), [created("new/a.md")]),
    "deleted": (lambda s: (s.root / "top.md").unlink(), [removed("top.md")]),
    "another case": (lambda s: (s.root / "top.md").rename(s.root / "Top.md"), [moved("Top.md", "top.md")]),
    "a directory moved in": (move_a_directory_in, [created("facts/carol/a/one.md"), created("facts/carol/two.md")]),
    "a directory moved out": (
        lambda s: (s.root / "facts/bob").rename(s.root.parent / "out"),
        [removed("facts/bob/home.md"), removed("facts/bob/work.md")],
    ),
    "a directory renamed": (
        lambda s: (s.root / "facts/bob").rename(s.root / "facts/rob"),
        [moved("facts/rob/home.md", "facts/bob/home.md"), moved("facts/rob/work.md", "facts/bob/work.md")],
    ),
    "a directory deleted": (
        lambda s: shutil.rmtree(s.root / "facts/bob"),
        [removed("facts/bob/home.md"), removed("facts/bob/work.md")],
    ),
    "a symlink in its place": (swap_a_symlink_in, [removed("top.md")]),
    "read only": (lambda s: s.vault.read("top.md").text, []),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_subscriber_gets_each_change_once_within_a_second(root: Path, pool: WorkerPool, name: str) -> None:
    change, expected = TOLD[name]
    received = RecordedChanges()
    with Vault(root, watch=True) as vault:
        vault.subscribe(received)
        change(Scene(root, vault, pool))
        by_hand(root, "mark.md", "This is the last one.")

        received.soon(*expected, created("mark.md"))


def test_a_subscriber_gets_each_change_by_git_once(root: Path, git: Git) -> None:
    many = write_both(root, git, MANY)
    received = RecordedChanges()
    with Vault(root, watch=True) as vault:
        vault.subscribe(received)
        git(root, "checkout", "other")
        wait_for(
            lambda: {change.path for change in received.changes} >= {*many, "only-other.md", "only-main.md"},
            WATCH_SECONDS,
        )
        by_hand(root, "mark.md", "This is the last one.")
        wait_for(lambda: created("mark.md") in received.changes, WATCH_SECONDS)

    assert {change.path for change in received.changes} == {*many, "only-other.md", "only-main.md", "mark.md"}
    last = {change.path: change.kind for change in received.changes}
    assert (last.pop("only-other.md"), last.pop("only-main.md"), last.pop("mark.md")) == (
        "created",
        "removed",
        "created",
    )


def after_a_scan(late: list[Callable[[], None]]) -> datetime:
    """Return the time, after a call of the function in `late`: a vault reads its clock right after a scan."""
    if late:
        late.pop()()
    return datetime.now(UTC)


def test_changes_that_another_process_publishes_during_delivery_are_delivered(root: Path) -> None:
    received: list[tuple[str, str]] = []
    with Vault(root) as vault, Vault(root) as other:
        found(vault, "oolong")

        def receive(change: Change) -> None:
            received.append((change.kind, change.path))
            if change.path == "first.md":
                by_hand(root, "second.md", "A second one.")
                by_hand(root, "top.md", "It is other now.")
                other.sync()

        vault.subscribe(receive)
        by_hand(root, "first.md", "A first one.")
        other.sync()
        for _ in range(2):
            found(vault, "second")

    assert sorted(received) == [("created", "first.md"), ("created", "second.md"), ("updated", "top.md")]


def test_changes_that_another_process_publishes_between_scan_and_publication_are_delivered(root: Path) -> None:
    received, late = RecordedChanges(), list[Callable[[], None]]()
    with Vault(root, clock=partial(after_a_scan, late)) as vault, Vault(root) as other:

        def another_one() -> None:
            by_hand(root, "late.md", "A late one.")
            other.sync()

        vault.subscribe(received)
        paths = [f"many/{number}.md" for number in range(2 * MANY)]
        for path in paths:
            by_hand(root, path, "One of many.")
        late.append(another_one)
        vault.sync()

        received.soon(*map(created, paths), created("late.md"))


def test_a_vault_without_a_watcher_notifies_subscribers_when_it_is_searched(root: Path, pool: WorkerPool) -> None:
    received = RecordedChanges()
    with searched(root) as vault:
        vault.subscribe(received)
        in_place(Scene(root, vault, pool))
        (root / "facts/bob/home.md").unlink()
        assert received.changes == []
        vault.search("anything")

        assert Counter(received.changes) == Counter([updated("top.md"), removed("facts/bob/home.md")])
        vault.search("anything")
        assert len(received.changes) == 2


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
@pytest.mark.parametrize(
    "name", ["deleted", "damaged", "examined", "published by another", "closed", "without an event"]
)
def test_a_subscriber_gets_all_changes_after_any_damage_to_the_index(
    engine_of: EngineOf, root: Path, name: str, is_watched: bool
) -> None:
    received = RecordedChanges()
    with Vault(root, watch=is_watched) as vault:
        vault.search("marzipan")
        vault.subscribe(received)
        by_hand(root, "top.md", "Now there is halva.")
        if name == "deleted":
            shutil.rmtree(root / ".memfs/index")
        if name in {"damaged", "examined"}:
            (root / ".memfs/empty").write_bytes(
                b""
            )  # replaced, not truncated: truncating a mapped file kills the process
            (root / ".memfs/empty").replace(next(root.glob(".memfs/index/g-*/*.term")))
        if name == "examined":
            vault.doctor()
        if name == "published by another":
            Vault(root).sync()
        if name == "closed":
            vault.close()
        if name == "without an event" and (source := engine_of(vault).freshness.source):
            source.close()
        vault.search("marzipan")

        received.soon(updated("top.md"))


def test_a_failing_subscriber_does_not_affect_others(root: Path) -> None:
    def fail(change: Change) -> None:
        raise RuntimeError(change.path)

    received = RecordedChanges()
    with Vault(root, watch=True) as vault:
        vault.subscribe(fail)
        vault.subscribe(received)
        for number in range(3):
            by_hand(root, "top.md", f"Now there is sweet{number}.")
            received.soon(updated("top.md"))

        assert found(vault, "sweet2") == {"top.md"}
        assert vault.status().trouble == ""


def test_an_unsubscribed_callback_is_not_called(root: Path) -> None:
    stays, leaves = RecordedChanges(), RecordedChanges()
    with Vault(root, watch=True) as vault:
        vault.subscribe(stays)
        leave = vault.subscribe(leaves)
        by_hand(root, "top.md", "Now there is halva.")
        stays.soon(updated("top.md"))
        leaves.soon(updated("top.md"))
        leave()
        leave()
        by_hand(root, "top.md", "Now there is nougat.")

        stays.soon(updated("top.md"))
        leaves.soon()


def test_a_subscriber_may_search_write_and_unsubscribe(root: Path) -> None:
    received: list[str] = []
    with Vault(root, watch=True) as vault:

        def receive(change: Change) -> None:
            leave()
            vault.add("A kiwi.", "/facts")
            received.extend(found(vault, "halva"))

        leave = vault.subscribe(receive)
        by_hand(root, "top.md", "Now there is halva.")

        wait_for(lambda: received, WATCH_SECONDS)
        assert received == ["top.md"]
        assert found(vault, "kiwi") == {"facts/a-kiwi.md"}


def test_changes_are_delivered_in_order_though_a_subscriber_writes_and_searches(root: Path) -> None:
    first, second = RecordedChanges(), RecordedChanges()
    with searched(root) as vault:

        def receive(change: Change) -> None:
            first(change)
            if change == created("new/0.md"):
                (root / "new/1.md").unlink()
                vault.search("anything")

        vault.subscribe(receive)
        vault.subscribe(second)
        for number in range(3):
            by_hand(root, f"new/{number}.md", "A kiwi.")
        vault.search("anything")

        assert first.changes == [*map(created, ("new/0.md", "new/1.md", "new/2.md")), removed("new/1.md")]
        assert second.changes == first.changes


def test_a_callback_unsubscribed_during_delivery_is_not_called_again(root: Path) -> None:
    first, second = RecordedChanges(), RecordedChanges()
    with searched(root) as vault:

        def receive(change: Change) -> None:
            first(change)
            for leave in leaving:
                leave()

        leaving = [vault.subscribe(receive), vault.subscribe(second)]
        for number in range(3):
            by_hand(root, f"new/{number}.md", "A kiwi.")
        vault.search("anything")

        assert (first.changes, second.changes) == ([created("new/0.md")], [])


def test_an_interrupted_subscriber_costs_the_others_no_change(root: Path) -> None:
    received = RecordedChanges()

    def interrupt(change: Change) -> None:
        if change == created("new/0.md"):
            raise KeyboardInterrupt

    with searched(root) as vault:
        vault.subscribe(interrupt)
        vault.subscribe(received)
        for number in range(3):
            by_hand(root, f"new/{number}.md", "A kiwi.")
        with pytest.raises(KeyboardInterrupt):
            vault.search("anything")
        vault.search("anything")

        received.soon(*(created(f"new/{number}.md") for number in range(3)))


def test_a_later_subscriber_takes_no_change_from_earlier_ones(root: Path) -> None:
    first, late = RecordedChanges(), RecordedChanges()
    with searched(root) as vault, Vault(root) as other:

        def receive(change: Change) -> None:
            first(change)
            if change == created("one.md"):
                by_hand(root, "two.md", "A second one.")
                other.sync()
                vault.status()

        vault.subscribe(receive)
        by_hand(root, "one.md", "A first one.")
        vault.subscribe(late)
        vault.search("anything")

        assert (first.changes, late.changes) == ([created("one.md"), created("two.md")], [])


def test_an_edit_after_a_scan_that_cannot_be_published_is_delivered(root: Path) -> None:
    received, late = RecordedChanges(), list[Callable[[], None]]()
    with Vault(root, clock=partial(after_a_scan, late)) as vault:
        vault.subscribe(received)
        by_hand(root, "top.md", "Now there is halva.")
        vault.search("anything")
        received.soon(updated("top.md"))
        lock = os.open(root / ".memfs/index", os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # like a process that stopped while publishing
        os.utime(lock, (0, 0))
        late.append(lambda: by_hand(root, "top.md", "And then there is nougat."))
        vault.sync()
        os.close(lock)
        vault.search("anything")

        received.soon(updated("top.md"))


def test_a_scope_gets_the_changes_of_its_subtree_only(root: Path) -> None:
    alice, everything = RecordedChanges(), RecordedChanges()
    with Vault(root, watch=True) as vault:
        vault.subscribe(everything)
        vault.scope("/facts/alice").subscribe(alice)
        by_hand(root, "facts/alice/home.md", "Alice moved to Lisbon.")
        by_hand(root, "facts/alice2/home.md", "Another Alice.")
        by_hand(root, "facts/bob/home.md", "Bob stays.")
        everything.soon(updated("facts/alice/home.md"), created("facts/alice2/home.md"), updated("facts/bob/home.md"))
        alice.soon(updated("facts/alice/home.md"))
        vault.forget("facts/alice/home.md")
        vault.forget("facts/bob/home.md")
        (root / "facts/bob/work.md").rename(root / "facts/alice/work.md")
        everything.soon(
            moved("archive/facts/alice/home.md", "facts/alice/home.md"),
            moved("archive/facts/bob/home.md", "facts/bob/home.md"),
            moved("facts/alice/work.md", "facts/bob/work.md"),
        )

        assert moved("archive/facts/alice/home.md", "facts/alice/home.md") in alice.changes
        assert {change.path for change in alice.changes} == {"archive/facts/alice/home.md", "facts/alice/work.md"}


# --- threads, forks, opening and closing ----------------------------------------------------------------


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_threads_search_and_write_in_one_vault(root: Path, is_watched: bool) -> None:
    failures: list[str] = []

    def work(vault: Vault, number: int) -> None:
        try:
            for count in range(15):
                word = f"t{number}x{count}"
                if count % 3:
                    path = vault.add(f"{word} is written by a thread.", f"/threads/{number % 2}").path
                else:
                    path = f"threads/hand{number}-{count}.md"
                    by_hand(root, path, f"{word} is written by hand.")
                if {hit.memory.path for hit in vault.search(word)} != {path}:
                    failures.append(word)
        except Exception as error:
            failures.append(repr(error))

    (root / "threads").mkdir()
    with Vault(root, watch=is_watched) as vault:
        threads = [threading.Thread(target=work, args=(vault, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failures == []
        assert_right(vault, {"t3x3": ["threads/hand3-3.md"]})


def test_a_process_that_follows_a_watcher_misses_no_change_though_the_journal_restarts_each_time(
    root: Path, pool: WorkerPool
) -> None:
    with watched(pool, root) as watcher, searched(root) as vault, Vault(root) as other:
        assert vault.status().notices == "watcher"
        watcher.signal(signal.SIGSTOP)  # so that it reports nothing more
        for number in range(5):
            added = other.add(f"Here is a kiwi{number}.", "/facts")
            other.remove(other.add(f"Away with {number}.", "/facts").path)

            assert found(vault, f"kiwi{number}") == {added.path}
        watcher.signal(signal.SIGCONT)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_a_forked_process_searches_and_writes(root: Path, is_watched: bool) -> None:
    with Vault(root, watch=is_watched) as vault:
        found(vault, "marzipan")
        added = vault.add("A kiwi.", "/facts")

        def job() -> None:
            with vault:
                assert found(vault, "kiwi") == {added.path}
                vault.add("A papaya.", "/facts")
                assert found(vault, "papaya") == {"facts/a-papaya.md"}
                by_hand(root, "top.md", "Now there is halva.")
                assert mistakes(vault, SWEET) == []
            assert found(vault, "papaya") == {"facts/a-papaya.md"}

        assert in_a_fork(job) == 0
        by_hand(root, "facts/bob/home.md", "Bob moved to Bergen.")
        words: Words = {**SWEET, "papaya": ["facts/a-papaya.md"], "bergen": ["facts/bob/home.md"], "tromso": NONE}
        assert mistakes(vault, words) == []
        assert_soon_right(Vault(root), words)
        assert vault.doctor() == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_others_search_does_not_hang(root: Path) -> None:
    stop = threading.Event()

    def search() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            by_hand(root, f"facts/churn{number % 20}.md", f"Churn {number}.")
            vault.search("churn")

    with Vault(root, watch=True) as vault:
        vault.search("marzipan")
        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()

        def job() -> None:
            assert "top.md" in {hit.memory.path for hit in vault.search("marzipan")}
            vault.append(OOLONG, "Child.")

        ends = [in_a_fork(job) for _ in range(8)]
        stop.set()
        for thread in threads:
            thread.join()
    assert ends == [0] * 8


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", [".tantivy-meta.lock", ".tantivy-writer.lock"])
def test_a_forked_process_holds_no_lock_of_an_index(root: Path, name: str) -> None:
    with Vault(root) as vault:
        found(vault, "marzipan")
        (file,) = (root / ".memfs/index").glob(f"*/{name}")
        lock = os.open(file, os.O_RDWR)  # like a thread that is just opening the index
        fcntl.flock(lock, fcntl.LOCK_EX)

        def job() -> None:
            lock_again = os.open(file, os.O_RDWR)
            fcntl.flock(lock_again, fcntl.LOCK_EX)
            os.close(lock_again)
            assert found(vault, "marzipan") == {"top.md"}

        assert in_a_fork(job, meanwhile=lambda: os.close(lock)) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    parent, began, end = os.getpid(), threading.Event(), threading.Event()

    class Made:
        @lazy
        def number(self) -> int:
            if os.getpid() == parent:
                began.set()
                end.wait(20)
            return 7

    made = Made()
    thread = threading.Thread(target=lambda: made.number)
    thread.start()
    began.wait(20)

    def job() -> None:
        assert made.number == 7

    status = in_a_fork(job)
    end.set()
    thread.join()
    assert status == 0


def test_a_vault_that_is_closed_can_be_searched_again(root: Path) -> None:
    vault = Vault(root, watch=True)
    for number in range(3):
        with vault:
            by_hand(root, "top.md", f"Now there is sweet{number}.")
            assert found(vault, f"sweet{number}") == {"top.md"}
            assert vault.status().watcher == str(os.getpid())
        by_hand(root, "top.md", f"Now there is sour{number}.")
        assert mistakes(vault, {f"sour{number}": ["top.md"], f"sweet{number}": NONE}) == []
        assert vault.status().watcher == ""
        vault.close()
        assert_right(vault, {f"sour{number}": ["top.md"]})
    vault.close()


@pytest.mark.parametrize("is_watched", [False, True], ids=["unwatched", "watched"])
def test_opening_and_closing_leaks_nothing(root: Path, is_watched: bool) -> None:
    def use() -> None:
        with Vault(root, watch=is_watched) as vault:
            vault.subscribe(lambda change: None)
            for _ in range(3):
                vault.search("marzipan")
            vault.update("top.md", add_tags=["seen"])
            vault.update("top.md", remove_tags=["seen"])
            vault.search("marzipan")

    use()
    gc.collect()  # frees vaults that were not closed
    descriptors, threads = open_count("fd"), threading.enumerate()
    for _ in range(50):
        use()

    assert open_count("fd") <= descriptors
    assert threading.enumerate() == threads
    wait_for(lambda: open_count("task") < 20)  # threads of tantivy take a moment to end


def open_count(what: str) -> int:
    """Return the number of descriptors (`fd`) or of native threads (`task`) of this process."""
    return len(os.listdir(f"/proc/self/{what}"))
