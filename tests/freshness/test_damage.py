"""The state directory may be damaged in any way: the next search is right without help, and no memory is lost."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import NOBODY
from support.damage import (
    DAMAGES,
    NONE,
    OOLONG,
    WORDS,
    Mount,
    Trial,
    become_nobody,
    build,
    damage_files,
    described,
    fill_up,
    flip,
    kill_while_building,
    memories,
    one_of_each,
    state_of,
    zero_in_place,
)
from support.files import by_hand
from support.processes import WorkerPool
from support.searching import (
    Words,
    assert_right,
    assert_soon_right,
    found,
    mistakes,
    searched,
    watched,
)

from memfs import Vault
from memfs.index.generations import Generation

KILLS = 4
STALE = 1.2  # seconds: a little more than the time between two scans


RARE = ("first byte flipped", "last byte flipped", "zeroed")  # similar to the others: at full scale only


# --- each file in turn ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
@pytest.mark.parametrize("kind", [kind for kind in DAMAGES if kind not in RARE])
def test_a_search_is_right_after_any_damage_to_a_state_file(
    mount_tmpfs: Mount, pool: WorkerPool, kind: str, is_open: bool
) -> None:
    files, wrong = damage_files(pool, mount_tmpfs("size=64m"), Trial(kind, is_open))

    assert wrong == []
    assert files > 9


@pytest.mark.parametrize("kind", ["emptied", "halved", "zeroed in place"])
def test_a_process_that_follows_a_watcher_searches_right_after_any_damage_to_the_index(
    mount_tmpfs: Mount, pool: WorkerPool, kind: str
) -> None:
    assert damage_files(pool, mount_tmpfs("size=64m"), Trial(kind, is_open=True, is_told=True))[1] == []


# --- directories of the state, and paths that lead elsewhere --------------------------------------------

STATE_DIRECTORIES = ["", "index", "index/g", "history", "locks", "tmp", "late"]


def by_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("Something else.")


def by_a_symlink(path: Path) -> None:
    outside = path.parents[len(path.parts) - path.parts.index("vault") - 1] / "outside"
    shutil.copytree(path, outside)
    shutil.rmtree(path)
    path.symlink_to(outside)


def state_directory(root: Path, name: str) -> Path:
    return next((root / ".memfs/index").glob("g-*")) if name == "index/g" else root / ".memfs" / name


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
@pytest.mark.parametrize("replace", [shutil.rmtree, by_a_file, by_a_symlink])
def test_a_search_is_right_after_any_damage_to_a_state_directory(
    tmp_path: Path, replace: Callable[[Path], object], is_open: bool
) -> None:
    root, spare, outside = tmp_path / "vault", tmp_path / "spare", tmp_path / "outside"
    build(root)
    before = memories(root)
    shutil.copytree(root / ".memfs", spare)
    for name in STATE_DIRECTORIES:
        with searched(root, "oolong") if is_open else Vault(root) as vault:
            replace(state_directory(root, name))
            there = everything(outside)

            assert mistakes(vault, WORDS) == [], name
            assert mistakes(Vault(root), WORDS) == [], name
        assert memories(root) == before
        assert everything(outside) == there, f"{name}: it was written through a symlink"
        shutil.rmtree(outside, ignore_errors=True)
        if (root / ".memfs").is_dir() and not (root / ".memfs").is_symlink():
            shutil.rmtree(root / ".memfs")
        else:
            (root / ".memfs").unlink()
        shutil.copytree(spare, root / ".memfs")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def seal(text: bytes) -> bytes:
    return b"%d\n%b" % (zlib.crc32(text), text)


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "new"])
def test_a_search_is_right_with_any_content_of_the_file_current(tmp_path: Path, is_open: bool) -> None:
    root = tmp_path / "vault"
    build(root)
    before = memories(root)
    name, kind, journal, files = described(root)
    other = {"../../../outside": next(iter(files.values()))}
    says: list[tuple[object, object]] = [
        (place, files) for place in ("../../..", "..", "", "/etc", "g-0", "x" * 5000, 7)
    ]
    lists: list[object] = [{}, other, {**files, "../x": [0, 0, 0, 0]}, [], None]
    says += [(name, names) for names in lists]
    texts = [seal(json.dumps([place, kind, journal, names]).encode()) for place, names in says]
    texts += [seal(text) for text in (b"", b"{}", b"null", b"[" * 100_000, b"\xff\xfe", b"[1,2,3,{}]")]
    texts += [b"", b"-1\n[]", b"9" * 5000 + b"\n[]", os.urandom(500)]
    secret = tmp_path / "outside"
    secret.write_text("Something else.")
    with searched(root, "oolong") if is_open else Vault(root) as vault:
        for text in texts:
            (root / ".memfs/index/current").write_bytes(text)

            assert found(vault if is_open else Vault(root), "oolong") == {OOLONG}, text[:80]
        assert_right(vault, WORDS)
    assert secret.read_text() == "Something else."
    assert memories(root) == before


def test_paths_in_the_journal_are_always_checked_against_the_files(tmp_path: Path, pool: WorkerPool) -> None:
    (tmp_path / "secret.md").write_text("Outside there is plutonium.")
    root = tmp_path / "vault"
    build(root)
    lines = [
        "../secret.md",
        "/etc/passwd",
        f"{tmp_path}/secret.md",
        "facts/../../secret.md",
        "%2e%2e/secret.md",
        "x" * 9000,
    ]
    lines += [
        "facts/3.md",
        "facts/none.md",
        ".memfs/x.md",
        "\0.md",
        "facts/3.md/x.md",
        "sessions/a.md",
        "%",
        "%ff.md",
        "é.md",
    ]
    with watched(pool, root), searched(root) as vault:
        vault.add("It has a journal now.", "/facts")
        vault.search("journal")
        for line in lines:
            with (root / ".memfs/journal").open("ab") as journal:
                journal.write(f"\n{line}\n".encode() + os.urandom(20) + b"\n")

            assert mistakes(vault, {**WORDS, "plutonium": NONE}) == []
        assert_right(vault, {**WORDS, "plutonium": NONE})


def test_an_old_state_directory_that_is_put_back_does_not_mislead(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    build(root)
    with searched(root, "oolong") as vault:
        shutil.copytree(root / ".memfs", tmp_path / "old")
        vault.remove("facts/3.md")
        vault.update("facts/7.md", body="This is halva.")
        vault.add("A kiwi.", "/facts")
        vault.sync()
        words: Words = {**WORDS, "item3": NONE, "item7": NONE, "halva": ["facts/7.md"], "kiwi": ["facts/a-kiwi.md"]}
        shutil.rmtree(root / ".memfs")
        shutil.copytree(tmp_path / "old", root / ".memfs")

        assert mistakes(Vault(root), words) == []
        assert_right(vault, words)


def test_a_copied_or_moved_vault_is_searched_right(tmp_path: Path) -> None:
    build(tmp_path / "copy")
    with searched(tmp_path / "copy") as vault:
        (tmp_path / "copy").rename(tmp_path / "moved")
        shutil.copytree(tmp_path / "moved", tmp_path / "copy")
        by_hand(tmp_path / "copy", "facts/3.md", "This is halva.")

        assert_right(vault, {**WORDS, "item3": NONE, "halva": ["facts/3.md"]})
        assert_right(Vault(tmp_path / "moved"), WORDS)


def test_a_vault_put_in_the_place_of_another_has_its_own_journal_and_kept_versions(tmp_path: Path) -> None:
    root, old = tmp_path / "vault", tmp_path / "old"
    build(root)
    with searched(root) as vault:
        vault.append("facts/3.md", "With milk.")
        root.rename(old)
        shutil.copytree(old, root)
        before = {file: (old / ".memfs" / file).read_bytes() for file in state_of(old)}

        vault.append("facts/3.md", "With sugar.")

        assert {file: (old / ".memfs" / file).read_bytes() for file in state_of(old)} == before
        assert "facts/3.md" in (root / ".memfs/journal").read_text().split("\n")[-2:]
        assert Vault(root).versions("facts/3.md")[0].hash == vault.versions("facts/3.md")[0].hash
        assert len(Vault(root).versions("facts/3.md")) == len(Vault(old).versions("facts/3.md")) + 1


def test_a_flipped_byte_that_no_stamp_shows_is_found_by_the_doctor(tmp_path: Path) -> None:
    build(tmp_path / "vault")
    with Vault(tmp_path / "vault") as vault:
        vault.sync()
    files = [file for file in state_of(vault.root) if re.search(r"g-.*\.(term|pos|idx|fast)$|rows-", file)]
    for file in files:
        path = vault.root / ".memfs" / file
        if path.exists():
            status = path.stat()
            flip(path, 0.5)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

            assert Vault(vault.root).doctor() != [], file
            assert_right(Vault(vault.root), WORDS)


def flip_unseen(path: Path, share: float) -> None:
    """Flip a byte in place, and restore the modification time."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(int(status.st_size * share))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0x01]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("is_open", [True, False], ids=["while it is open", "before it is opened"])
@pytest.mark.parametrize("ending", ["term", "idx", "fast", "rows-0"])
def test_a_search_is_right_after_a_byte_is_flipped_and_the_time_restored(
    tmp_path: Path, ending: str, is_open: bool
) -> None:
    for tenth in range(1, 10):
        root = tmp_path / str(tenth)
        build(root)
        vault = searched(root) if is_open else None
        flip_unseen(root / ".memfs" / next(file for file in one_of_each(root) if file.endswith(ending)), tenth / 10)

        assert mistakes(vault or Vault(root), WORDS) == [], tenth


def test_files_linked_from_the_previous_index_are_recognised_by_their_times(tmp_path: Path) -> None:
    build(tmp_path / "vault")
    with searched(tmp_path / "vault") as vault:
        vault.sync()
    published = Generation.read(str(tmp_path / "vault/.memfs/index"))

    for name, (
        (*_, mtime_ns, ctime_ns),
        _,
    ) in published.files.items():  # else the whole index is read whenever it is opened
        status = (Path(published.path) / name).stat()
        assert (mtime_ns, ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns), name


@pytest.mark.parametrize("ending", ["term", "pos", "idx", "fast", "del", "rows-0"])
def test_damage_is_not_carried_into_the_next_index(tmp_path: Path, ending: str) -> None:
    root = tmp_path / "vault"
    build(root)
    vault = Vault(root)
    vault.search("oolong")
    zero_in_place(root / ".memfs" / next(file for file in one_of_each(root) if file.endswith(ending)))
    by_hand(root, "facts/3.md", "This is halva.")
    vault.sync()

    assert_right(Vault(root), {**WORDS, "item3": NONE, "halva": ["facts/3.md"]})
    assert_right(vault, {**WORDS, "item3": NONE, "halva": ["facts/3.md"]})


# --- killed while it is built ---------------------------------------------------------------------------


def test_a_search_is_right_after_a_kill_while_the_index_is_built(tmp_path: Path, pool: WorkerPool) -> None:
    build(tmp_path / "vault", 300)

    kill_while_building(pool, tmp_path / "vault", KILLS, 0.3)
    with Vault(tmp_path / "vault") as vault:
        assert_right(vault, WORDS)


def test_an_index_of_another_kind_is_no_fault_for_the_doctor(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "memfs.yaml").write_text("retrieval:\n  language: german\n")

    assert Vault(tmp_path).doctor(repair=False) == []
    assert Vault(tmp_path).doctor() == []
    assert_right(Vault(tmp_path), WORDS)


# --- vaults that are not writable ------------------------------------------------------------------------


@pytest.mark.parametrize("is_indexed", [True, False], ids=["indexed", "not indexed"])
def test_a_read_only_vault_is_searched(tmp_path: Path, mount_tmpfs: Mount, is_indexed: bool) -> None:
    disk, seen = mount_tmpfs("size=8m"), tmp_path / "seen"
    seen.mkdir()
    build(disk / "vault")
    if not is_indexed:
        shutil.rmtree(disk / "vault/.memfs")
    subprocess.run(["mount", "--bind", disk, seen], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", seen], check=True)
        with searched(seen / "vault", "oolong") as vault:
            assert mistakes(vault, WORDS) == []
            by_hand(disk / "vault", "facts/3.md", "This is halva.")
            (disk / "vault/facts/7.md").unlink()
            words: Words = {**WORDS, "item3": NONE, "item7": NONE, "halva": ["facts/3.md"]}
            assert mistakes(vault, words) == []
            assert mistakes(Vault(seen / "vault"), words) == []
            for number in range(400):
                by_hand(disk / "vault", f"many/{number}.md", f"It is one of many, number {number}.")
            assert len(found(vault, "many")) == 400
            assert vault.status().where == "memory"
            assert "Read-only file system" in vault.status().trouble
        assert "index in memory" in Vault(seen / "vault").status().trouble
        assert Vault(seen / "vault").doctor(repair=False) == []
        (problem,) = Vault(seen / "vault").doctor()
        assert problem.reason == "the index cannot be written: Read-only file system"
        assert "`memfs doctor`" not in problem.hint
    finally:
        subprocess.run(["umount", "-l", seen], check=True)


@pytest.mark.parametrize("is_lost", [False, True], ids=["with an index", "without one"])
def test_a_search_goes_on_while_the_disk_is_full(mount_tmpfs: Mount, is_lost: bool) -> None:
    disk = mount_tmpfs("size=3m")
    root = disk / "vault"
    build(root)
    with searched(root, "oolong") as vault:
        fill_up(disk)
        if is_lost:
            shutil.rmtree(root / ".memfs/index")
            fill_up(disk)
        with (root / "facts/3.md").open("r+") as file:
            file.write("It is halva.")
        (root / "facts/7.md").unlink()
        for number in range(400):
            os.link(root / "facts/5.md", root / f"facts/5-{number}.md")
        words: Words = {word: paths for word, paths in WORDS.items() if word not in {"item3", "changed"}}
        words = {**words, "halva": ["facts/3.md"], "item7": NONE}

        assert mistakes(vault, words) == []
        assert mistakes(Vault(root), words) == []
        assert len(found(vault, "changed")) == 401
        assert vault.sync().problems != ()
        assert vault.status().trouble == "the index cannot be written: No space left on device"
        assert vault.status().trouble in [problem.reason for problem in vault.doctor()]
        assert vault.doctor(repair=False) != []
        (disk / "ballast").unlink()
        assert vault.sync().problems == ()
        assert (vault.status().where, vault.status().trouble) == ("disk", "")
        assert_right(vault, words)


# --- an ordinary user -----------------------------------------------------------------------------------


def test_a_search_is_right_within_a_second_without_events(public_path: Path) -> None:
    build(public_path / "vault")
    with WorkerPool(public_path) as pool:
        subprocess.run(["chown", "-R", str(NOBODY), public_path], check=True)
        pool.start(search_without_events, str(public_path / "vault")).finish()


def search_without_events(path: str) -> None:
    """Use up the inotify instances of a user, and search."""
    become_nobody()
    root = Path(path)
    libc = ctypes.CDLL(None)
    while libc.inotify_init() >= 0:
        pass
    with searched(root, "oolong") as vault, Vault(root) as other:
        assert vault.status().notices == "scan"
        assert mistakes(vault, WORDS) == []
        added = other.add("A kiwi.", "/facts")
        assert found(vault, "kiwi") == {added.path}
        by_hand(root, "facts/3.md", "This is halva.")
        by_hand(root, "facts/new.md", "This is nougat.")
        words: Words = {**WORDS, "item3": NONE, "halva": ["facts/3.md"], "nougat": ["facts/new.md"]}
        assert_soon_right(vault, words, STALE)
        assert mistakes(Vault(root), words) == []
        os.truncate(next(root.glob(".memfs/index/g-*/*.term")), 0)
        assert mistakes(vault, words) == []
    with Vault(root, watch=True), searched(root, "oolong") as vault:
        by_hand(root, "facts/new.md", "This is marzipan.")
        assert_soon_right(vault, {"nougat": NONE, "marzipan": ["facts/new.md"]}, 2 * STALE)


def test_an_unreadable_memory_is_found_once_it_is_readable(public_path: Path) -> None:
    build(public_path / "vault")
    with WorkerPool(public_path) as pool:
        subprocess.run(["chown", "-R", str(NOBODY), public_path], check=True)
        pool.start(search_unreadable_files, str(public_path / "vault")).finish()


def search_unreadable_files(path: str) -> None:
    """Make files and directories unreadable, then readable again, and search."""
    become_nobody()
    root = Path(path)
    with searched(root, "oolong") as vault:
        for name, words in {
            "facts/3.md": {"item3": NONE, "item7": ["facts/7.md"]},
            "facts": {"item3": NONE, "item7": NONE, "word2999": ["long.md"]},
            ".memfs": WORDS,
            ".memfs/index": WORDS,
        }.items():
            mode = (root / name).stat().st_mode
            (root / name).chmod(0)
            faults = mistakes(vault, words) + mistakes(Vault(root), words)
            (root / name).chmod(mode)
            assert not faults, (name, faults)
            assert_right(vault, WORDS)
            assert_right(Vault(root), WORDS)
