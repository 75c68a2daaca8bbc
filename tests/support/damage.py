"""Damage of every kind to the state of a vault, and checks of the searches after it."""

import json
import os
import random
import re
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from memfs import Vault
from support.commands import NOBODY
from support.files import by_hand
from support.processes import Log, WorkerPool
from support.searching import (
    TIMEOUT,
    Words,
    mistakes,
    searched,
    wait_for,
)

Mount = Callable[[str], Path]


NONE: tuple[str, ...] = ()


OOLONG = "facts/alice-drinks-oolong.md"


WORDS: Words = {
    "oolong": [OOLONG],
    "sencha": [OOLONG],
    "item3": ["facts/3.md"],
    "item7": ["facts/7.md"],
    "changed": ["facts/5.md"],
    "item5": NONE,
    "item6": NONE,
    "word2999": ["long.md"],
    "pending": ["facts/pending.md"],
}


def build(root: Path, others: int = 0) -> None:
    """Make a vault with an index of several segments, deleted rows, a journal, versions and an unpublished change."""
    with Vault.init(root) as vault:
        for number in range(10):
            by_hand(root, f"facts/{number}.md", f"This is item{number}.")
        for number in range(others):
            by_hand(root, f"many/{number}.md", f"It is one of many, number {number}.")
        by_hand(root, "long.md", " ".join(f"word{number} " for number in range(3_000)))
        vault.sync()
        vault.add("Alice drinks oolong.", "/facts")
        by_hand(root, "facts/5.md", "This is changed.")
        (root / "facts/6.md").unlink()
        vault.sync()
        vault.append(OOLONG, "And sencha.")
    by_hand(root, "facts/pending.md", "This is pending.")


def state_of(root: Path) -> list[str]:
    """Return the files of the state directory, in an order that does not depend on random names."""
    files = [path.relative_to(root / ".memfs") for path in (root / ".memfs").rglob("*") if path.is_file()]
    return sorted(map(str, files), key=lambda path: (path.rpartition(".")[2], len(path), path))


def one_of_each(root: Path) -> list[str]:
    """Return the largest file of each kind among the state files that a search reads."""
    files = [path for path in state_of(root) if path.startswith(("index/", "journal")) and not path.endswith(".lock")]
    kinds = {re.sub(r"g-\w+/\w{32}|\d+", "", path): path for path in sorted(files, key=size(root))}
    return sorted(kinds.values())


def size(root: Path) -> Callable[[str], int]:
    return lambda path: (root / ".memfs" / path).stat().st_size


def flip(path: Path, share: float) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[min(int(len(data) * share), len(data) - 1)] ^= 0xFF
    path.write_bytes(data)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def zero_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


def flip_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 0xFF]) if byte else b"\0")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\nmore\n\0\xff")


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("Something.")


def symlink(path: Path) -> None:
    outside = path.parents[3] / "outside" if path.parent.name.startswith("g-") else path.parents[2] / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(outside)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda path: os.truncate(path, 0),
    "halved": lambda path: os.truncate(path, path.stat().st_size // 2),
    "first byte flipped": flip_in_place,
    "a byte flipped": lambda path: flip(path, 0.4),
    "last byte flipped": lambda path: flip(path, 1.0),
    "zeroed": zero,
    "zeroed in place": zero_in_place,
    "appended to": append,
    "a directory": directory,
    "a symlink": symlink,
    "a pipe": pipe,
}


class Trial(NamedTuple):
    """The damage to do to state files, and in which process: one that has the vault open, or a new one."""

    kind: str
    is_open: bool
    is_told: bool = False
    others: int = 0  # memories beside those that are searched for
    is_thorough: bool = False  # every file instead of one of each kind


def damage_files(pool: WorkerPool, folder: Path, trial: Trial) -> tuple[int, list[str]]:
    """Damage state files one by one, in processes that may die. Return their number and the faults."""
    log, done, wrong = Log(folder / "log"), 0, []
    while True:
        (folder / str(done)).mkdir()
        worker = pool.start(damage_each, str(folder), done, *trial)
        assert worker.ended(20 * TIMEOUT), "a process is blocked"
        events = log.new()
        wrong += [fault for event in events for fault in event.get("wrong", ())]
        done += sum("wrong" in event for event in events)
        if not events or "begun" not in events[-1]:
            worker.finish()
            return done, wrong
        wrong.append(f"{events[-1]['begun']}: the process died or hung")
        done += 1


def damage_each(folder: str, start: int, *trial: Any) -> None:
    """Damage each file from index `start` on, and check the searches after each."""
    log, what = Log(Path(folder, "log")), Trial(*trial)
    root, spare = Path(folder, str(start), "vault"), Path(folder, str(start), "spare")
    build(root, what.others)
    shutil.copytree(root / ".memfs", spare)
    files = state_of(root) if what.is_thorough else one_of_each(root)
    for file in files[start:]:
        shutil.rmtree(root / ".memfs")
        shutil.copytree(spare, root / ".memfs")
        log.note(begun=file)
        signal.alarm(10)
        try:
            with Vault(root, watch=what.is_told):
                faults = damaged(root, file, what)
        except Exception as error:
            faults = [repr(error)]
        signal.alarm(0)
        log.note(wrong=[f"{file}: {fault}" for fault in faults])


def damaged(root: Path, file: str, trial: Trial) -> list[str]:
    """Return the faults of a vault after one of its state files was damaged."""
    vault = searched(root, "oolong") if trial.is_open else Vault(root)
    before = memories(root)
    if trial.is_open:
        assert vault.status().pending <= 2, "the index is not used"
    wait_for(is_calm)
    DAMAGES[trial.kind](root / ".memfs" / file)
    wrong = mistakes(vault, WORDS)
    vault.add("Afterwards there is a kiwi.", "/facts")
    after: Words = {**WORDS, "kiwi": ["facts/afterwards-there-is-a-kiwi.md"]}
    wrong += mistakes(vault, after) + mistakes(Vault(root), after)
    vault.doctor()
    wrong += [str(problem) for problem in vault.doctor()] + mistakes(vault, after)
    if vault.status().where != "disk":
        wrong.append(f"the index is not on disk again: {vault.status().trouble}")
    vault.close()
    (root / "facts/afterwards-there-is-a-kiwi.md").unlink()
    if memories(root) != before:
        wrong.append("a memory was changed")
    return wrong


def is_calm() -> bool:
    """Return whether the threads sleep with which tantivy reads an index once more just after it is opened.

    A process whose files are truncated in that moment cannot be saved.
    """
    try:
        tasks = [(task / "stat").read_text() for task in Path("/proc/self/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # a thread has just ended
        return False
    return not any("(watch-" in task or ("(thread-" in task and ") S " not in task) for task in tasks)


def memories(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


def described(root: Path) -> tuple[str, str, str, dict[str, list[int]]]:
    """Return the fields of `current`: name of the generation, kind, journal cursor and files."""
    name, kind, journal, files = json.loads((root / ".memfs/index/current").read_bytes().partition(b"\n")[2])
    return name, kind, journal, files


def rebuild_forever(root: str) -> None:
    """Rebuild the index again and again, until killed."""
    number = 0
    while True:
        number += 1
        vault = Vault(root)
        if number % 2:
            shutil.rmtree(Path(root, ".memfs/index"), ignore_errors=True)
            vault.search("oolong")
        else:
            Path(root, "facts/churn.md").write_text(f"It is churn {number}.", encoding="utf-8")
            vault.sync()


def kill_while_building(pool: WorkerPool, root: Path, kills: int, longest: float) -> int:
    """Kill processes that build the index. Return how often one left files behind."""
    chance, remains = random.Random(kills), 0
    for _ in range(kills):
        worker = pool.start(rebuild_forever, str(root))
        assert not worker.ended(chance.uniform(0.01, longest)), "it ended by itself"
        worker.kill()
        assert worker.ended(TIMEOUT)
        remains += len(leftovers_in_the_index(root)) > 0
        with Vault(root) as vault:
            faults = mistakes(vault, WORDS)
            assert not faults, faults
            (root / "facts/churn.md").unlink(missing_ok=True)
            by_hand(root, "facts/again.md", f"It is published again in {remains}.")
            vault.sync()
        assert leftovers_in_the_index(root) == []
    return remains


def leftovers_in_the_index(root: Path) -> list[str]:
    """Return the entries of the index directory other than `current` and the generation it names."""
    names = os.listdir(root / ".memfs/index") if (root / ".memfs/index").exists() else []
    named = described(root)[0] if "current" in names else ""
    return [name for name in names if name not in {"current", named}]


def fill_up(disk: Path) -> None:
    """Write until the disk is full."""
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    ballast.write(b"\0" * size)


def become_nobody() -> None:
    """Become an ordinary user, after the imports that this user may be unable to do."""
    import memfs.freshness.index_doctor
    import memfs.search.search  # noqa: F401

    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
