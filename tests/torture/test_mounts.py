"""Vaults on tmpfs, on overlayfs as in containers, on read-only mounts, and with unreadable files."""

import os
import subprocess
from pathlib import Path

import pytest
from support.commands import NOBODY
from support.damage import become_nobody
from support.files import Snapshot, mounted
from support.people import facts, fill
from support.processes import TIMEOUT_SECONDS, Barrier, Log, WorkerPool, checksummed, tokens
from support.searching import mistakes
from support.vaults import assert_cleaned_up, temporary_files_left

from memfs import Hit, MemfsError, Vault
from memfs.errors import ReadOnlyError

from .figures import figure

SMALL, FULL = 60, 5_000
SMALL_LINES, FULL_LINES = 80, 800
WRITERS = 4
FILE_SYSTEMS = {"tmpfs": "tmpfs", "overlay": "overlayfs"}  # type of the mount -> name


@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_a_read_only_mount_is_searched_and_reported(tmp_path: Path, snapshot: Snapshot, memories: int) -> None:
    disk, texts = tmp_path / "disk", list(facts(memories))
    with mounted("-t", "tmpfs", "-o", "size=512m", "memfs-test", at=disk):
        fill(disk / "vault", memories)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = snapshot(disk)
        with Vault(disk / "vault") as vault:
            for number in range(0, memories, max(1, memories // 100)):
                found = {hit.memory.path for hit in vault.search(f'"Card {number}"')}
                assert f"people/{texts[number][0]}/fact-{number}.md" in found
            refused = [_refused(vault, vault.list()[0].path, verb) for verb in ("add", "update", "append", "remove")]
            assert vault.status().where == "memory"
            assert "Read-only" in vault.status().trouble
        assert snapshot(disk) == before
    assert refused == ["ReadOnlyError"] * 4
    figure(
        "disk full, read-only, unreadable: a read-only mount",
        f"{memories} memories searched from memory, all found; 4 kinds of write refused with ReadOnlyError, `status` "
        "shows why",
    )


def _refused(vault: Vault, ref: str, verb: str) -> str:
    """Return the name of the error that a write raises."""
    arguments = {"add": ("Tea.", "/n"), "append": (ref, "Tea.")}.get(verb, (ref,))
    try:
        getattr(vault, verb)(*arguments, **{"importance": 3} if verb == "update" else {})
    except ReadOnlyError as error:
        return type(error).__name__
    return "written"


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.parametrize("lines", [pytest.param(SMALL_LINES), pytest.param(FULL_LINES, marks=pytest.mark.torture)])
def test_nothing_is_lost_on_tmpfs_and_overlayfs(tmp_path: Path, lines: int, kind: str) -> None:
    """Several processes append to a memory of the lower layer, set its keys, and add others."""
    disk, log = tmp_path / "disk", Log(tmp_path / "log")
    with mounted("-t", "tmpfs", "-o", "size=256m", "memfs-test", at=disk):
        for name in ("lower", "upper", "work"):
            (disk / name).mkdir()
        with Vault.init(disk / "lower/vault") as vault:
            ref = vault.add("The log.", "/shared").path
        layers = f"lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work"
        if kind == "overlay":
            with mounted("-t", "overlay", "-o", layers, "memfs-test", at=tmp_path / "layers"):
                _write_all(tmp_path, tmp_path / "layers/vault", ref, lines)
        else:
            _write_all(tmp_path, disk / "lower/vault", ref, lines)
    events = log.new()
    assert [event for event in events if "error" in event] == []
    figure(
        f"no lost update: on {FILE_SYSTEMS[kind]}",
        f"{WRITERS} processes, {lines} appends to one memory beside {lines} keys and adds: all kept once, index "
        "equals files, 0 temporary files",
    )


def _write_all(place: Path, root: Path, ref: str, lines: int) -> None:
    with WorkerPool(place) as pool:
        barrier = Barrier(place)
        share = lines // WRITERS
        jobs = [
            pool.start(write, str(root), ref, number, share, barrier.path, str(place / "log"))
            for number in range(WRITERS)
        ]
        barrier.release(WRITERS)
        for job in jobs:
            job.finish(TIMEOUT_SECONDS + lines)
    with Vault(root) as vault:
        found = tokens(vault.read(ref).body)
        assert len(found) == len(set(found)) == share * WRITERS
        assert len(vault.list("/own")) == share * WRITERS // 2
        assert mistakes(vault, {"log": [ref]}) == []
        assert vault.doctor() == []
        assert vault.check() == []
    assert_cleaned_up(root)
    assert temporary_files_left(root) == []


def write(root: str, ref: str, number: int, lines: int, barrier: str, path: str) -> None:
    """Do one process's share of the writes."""
    log = Log(path)
    with Vault(root) as vault:
        Barrier.wait(barrier)
        for line in range(lines):
            try:
                vault.append(ref, checksummed(f"{number}-{line}"))
                if line % 2:
                    vault.add(f"Own {number}-{line}.", "/own")
                else:
                    vault.update(ref, last=f"{number}-{line}")
            except MemfsError as error:
                log.note(error=repr(error))


@pytest.mark.parametrize("memories", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_unreadable_files_do_not_hide_others(public_path: Path, memories: int) -> None:
    fill(public_path / "vault", memories)
    with WorkerPool(public_path) as pool:
        subprocess.run(["chown", "-R", str(NOBODY), public_path], check=True)
        log = Log(public_path / "log")
        os.chmod(public_path / "log", 0o666)
        pool.start(search_as_nobody, str(public_path / "vault"), memories, str(public_path / "log")).finish(
            TIMEOUT_SECONDS + memories / 50
        )
    (event,) = log.new()
    figure(
        "disk full, read-only, unreadable: chmod 000",
        f"{event['unreadable']} of {memories} files and a directory unreadable: {event['found']} others found, none of "
        f"them, {event['problems']} problems; readable again: all found, index equals files",
    )


def search_as_nobody(path: str, memories: int, log: str) -> None:
    """Search as an ordinary user who cannot read a tenth of the files and one directory, and later can."""
    become_nobody()
    root = Path(path)
    files = sorted(root.rglob("*.md"))
    folder = files[1].parent
    unreadable = [file for file in files[::10] if file.parent != folder]
    hidden = {str(file.relative_to(root)) for file in (*unreadable, *folder.glob("*.md"))}
    there = {str(file.relative_to(root)) for file in files} - hidden
    with Vault(root) as vault:
        vault.sync()
        for file in unreadable:
            file.chmod(0)
        folder.chmod(0)
        assert {memory.path for memory in vault.list()} == there
        problems = {problem.path for problem in vault.check()}
        assert problems == {str(place.relative_to(root)) for place in (*unreadable, folder)}
        found = {hit.memory.path for place in {name.rpartition("/")[0] for name in there} for hit in _all(vault, place)}
        assert found == there
        folder.chmod(0o755)
        for file in unreadable:
            file.chmod(0o644)
        assert {memory.path for memory in vault.list()} == there | hidden
        assert {path for path in hidden if not vault.search(_last_words(root / path))} == set()
        assert vault.doctor() == []
    Log(log).note(unreadable=len(unreadable), found=len(found), problems=len(problems))


def _all(vault: Vault, place: str) -> list[Hit]:
    return vault.search("", f"/{place}", limit=1000)


def _last_words(file: Path) -> str:
    return f'"{" ".join(file.read_text(encoding="utf-8").split()[-2:])}"'
