"""Check that searches are right, in scenarios that run small in tests and at full scale in `make torture`."""

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from memfs import MemfsError, Vault
from support.processes import Log, Worker, WorkerPool

PAGE_SIZE = 1_000
WATCH_SECONDS = 1.0  # within which a watcher makes an edit searchable
TIMEOUT = 30.0  # within which anything must end
POLL_SECONDS = 0.002  # between two checks while waiting
Words = Mapping[str, Collection[str]]  # a word, and the paths it finds


# --- whether a search is right


def found(vault: Vault, question: str, namespace: str | None = None) -> set[str]:
    """Return the paths that a question finds. Raise AssertionError if a hit differs from the file on disk."""
    hits = vault.search(question, namespace, limit=PAGE_SIZE)
    for hit in hits:
        path = vault.root / hit.memory.path
        assert path.is_file(), f"{question!r} finds {hit.memory.path}, which is not there"
        assert hit.memory.data == path.read_bytes(), f"{question!r} finds an old text of {hit.memory.path}"
    paths = {hit.memory.path for hit in hits}
    assert len(paths) == len(hits), f"{question!r} finds a path twice"
    return paths


def mistakes(vault: Vault, words: Words) -> list[str]:
    """Return the words for which a search is wrong, and the memories that a listing lacks or has too many."""
    wrong = []
    for word, paths in words.items():
        if (seen := found(vault, word)) != set(paths):
            wrong.append(f"{word!r} finds {sorted(seen)} and not {sorted(paths)}")
    there = {memory.path for memory in vault.list()}
    if len(there) <= PAGE_SIZE and (seen := found(vault, "")) != there:
        wrong.append(f"a listing lacks {sorted(there - seen)[:5]} and has {sorted(seen - there)[:5]} too many")
    return wrong


def assert_right(vault: Vault, words: Words) -> None:
    """Raise AssertionError if a search is wrong, or the index differs from the files."""
    for problems in (mistakes(vault, words), vault.doctor(), mistakes(vault, words)):
        assert not problems, problems


def assert_soon_right(vault: Vault, words: Words, limit: float = WATCH_SECONDS) -> float:
    """Search until all results are right, and return the seconds. Raise AssertionError after the limit."""
    began = time.monotonic()
    for word, paths in words.items():  # first one by one: a listing would detect the changes
        while found(vault, word) != set(paths) and time.monotonic() - began < limit:
            time.sleep(POLL_SECONDS)
    while wrong := mistakes(vault, words):
        assert time.monotonic() - began < limit, f"after {time.monotonic() - began:.2f} s: {wrong}"
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def wait_for(happened: Callable[[], object], limit: float = TIMEOUT) -> float:
    """Wait until a condition holds, and return the seconds. Raise AssertionError after the limit."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < limit, "it did not happen"
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def searched(root: Path, *words: str) -> Vault:
    """Open a vault and search it several times."""
    vault = Vault(root)
    for word in (*words, "", "nothing", "")[:3]:
        vault.search(word)
    return vault


# --- other processes


@contextmanager
def watched(pool: WorkerPool, root: Path) -> Iterator[Worker]:
    """Watch a vault in another process."""
    worker = pool.start(watch, str(root))
    wait_for(lambda: Vault(root).status().watcher)
    yield worker
    worker.kill()
    worker.ended(TIMEOUT)


def watch(root: str) -> None:
    """Watch a vault, until killed."""
    with Vault(root, watch=True):
        wait_for(lambda: False, 10 * TIMEOUT)


def write(root: str, verb: str, *arguments: str) -> None:
    """Do one write."""
    with Vault(root) as vault:
        getattr(vault, verb)(*arguments)


def publish(root: str, stop: str) -> None:
    """Publish again and again, until the file `stop` exists."""
    vault = Vault(root)
    while not os.path.exists(stop):
        vault.sync()


# --- read your writes


class WriteScenario(NamedTuple):
    """How many processes write and search, how often each, and what else runs meanwhile."""

    processes: int
    writes: int
    namespaces: int
    publishing: bool = False
    watched: bool = False


def read_your_writes(folder: Path, scenario: WriteScenario) -> tuple[int, list[str]]:
    """Start processes that add memories, and search at once for their own and the latest of others.

    Return the number of searches, and the misses.
    """
    root, path, stop = folder / "vault", str(folder / "log"), folder / "stop"
    with Vault.init(root) as vault:
        vault.add("It is here from the beginning.", "/first")
        vault.sync()
    with WorkerPool(folder) as pool, watched(pool, root) if scenario.watched else nullcontext():
        publisher = pool.start(publish, str(root), str(stop)) if scenario.publishing else None
        writers = [
            pool.start(add_and_find, str(root), path, number, scenario.writes, scenario.namespaces)
            for number in range(scenario.processes)
        ]
        for writer in writers:
            writer.finish(TIMEOUT + scenario.writes)
        stop.touch()
        if publisher:
            publisher.finish()
    events = Log(path).new()
    return sum(event["searches"] for event in events if "searches" in event), [e["miss"] for e in events if "miss" in e]


def add_and_find(root: str, path: str, number: int, writes: int, namespaces: int) -> None:
    """Add a word, search for it, and for the last one that another process has logged."""
    mine, others, searches, last = Log(path), Log(path), 0, ""
    with Vault(root) as vault:
        for count in range(writes):
            word = f"w{number}x{count}"
            vault.add(f"{word} is the word of a note that nobody else writes.", f"/own/{count % namespaces}")
            mine.note(added=word)
            if not vault.search(word):
                mine.note(miss=f"{word}, its own")
            last = next((e["added"] for e in reversed(others.new()) if e.get("added", word) != word), last)
            if last and not vault.search(last):
                mine.note(miss=f"{last}, looked for after {word}")
            searches += 1 + bool(last)
    mine.note(searches=searches)


# --- random changes


class RandomChanges:
    """Makes random changes to a vault, and knows what searches must find afterwards."""

    def __init__(self, root: Path, rng: random.Random, vaults: Sequence[Vault]) -> None:
        self._root, self._random, self._vaults = root, rng, vaults
        self._word = 0
        self.steps: list[str] = []
        self._actions = [
            *[self._make, self._write, self._save, self._rename] * 3,
            *[self._add, self._update, self._append, self._forget, self._remove, self._move] * 2,
            *[self._delete, self._restore_the_time, self._swap, self._rename_a_directory, self._sync, self._damage],
            *[self._delete_a_directory, self._close, self._lose_the_journal, self._lose_the_state],
        ]

    def step(self) -> Words:
        """Make a change, and return what some words must find afterwards."""
        before = self._words()
        action = self._random.choice(self._actions)
        self.steps.append(action.__name__.strip("_"))
        action()
        after = self._words()
        changed = {word for word in before.keys() | after.keys() if before.get(word) != after.get(word)}
        new_first = sorted(
            changed, key=lambda word: word not in after
        )  # a search for an old one would detect the change
        some = self._random.sample(sorted(after), min(len(after), 3))
        return {word: [path for path in [after.get(word)] if path] for word in (*new_first, *some)}

    def _words(self) -> dict[str, str]:
        """Return the word of every memory that is not archived, with its path."""
        found = {}
        for path in self._files():
            if word := re.search(r"word\d+", path.read_text(encoding="utf-8")):
                found[word[0]] = path.relative_to(self._root).as_posix()
        return {word: path for word, path in found.items() if not path.startswith("archive/")}

    def _files(self) -> list[Path]:
        return sorted(path for path in self._root.rglob("*.md") if path.is_file() and not path.is_symlink())

    def _file(self) -> Path:
        """Return a random memory file, or the path of a new one."""
        files = [path for path in self._files() if "archive" not in path.parts]
        return self._random.choice(files) if files else self._place()

    def _place(self) -> Path:
        names = [self._random.choice("abcd") for _ in range(self._random.randrange(1, 4))]
        place = self._root.joinpath(*names[:-1])
        return (place if self._is_free(place) else self._root) / f"{names[-1]}{self._random.randrange(30)}.md"

    def _is_free(self, place: Path) -> bool:
        """Return whether a directory may be made here: no part of the path is a symlink."""
        return not any(path.is_symlink() for path in (place, *place.parents))

    def _ref(self) -> str:
        return self._file().relative_to(self._root).as_posix()

    def _text(self) -> str:
        self._word += 1
        return f"Here is word{self._word} with some others{' more' * self._random.randrange(4)}."

    def _vault(self) -> Vault:
        return self._random.choice(self._vaults)

    def _make(self) -> None:
        path = self._place()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink() and not path.is_dir():
            path.write_text(self._text(), encoding="utf-8")

    def _write(self) -> None:
        path = self._file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._text(), encoding="utf-8")

    def _save(self) -> None:
        path = self._file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(".save").write_text(self._text(), encoding="utf-8")
        path.with_name(".save").replace(path)

    def _restore_the_time(self) -> None:
        if (path := self._file()).exists():
            status = path.stat()
            self._word += 1
            text = re.sub(r"word\d+", f"word{self._word}", path.read_text(encoding="utf-8"))
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _rename(self) -> None:
        old, new = self._file(), self._place()
        if old.exists() and not new.is_dir():
            new.parent.mkdir(parents=True, exist_ok=True)
            old.replace(new)

    def _delete(self) -> None:
        self._file().unlink(missing_ok=True)

    def _swap(self) -> None:
        """Replace a memory by a symlink or a directory, and remove all symlinks but two."""
        path = self._file()
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._random.random() < 0.5:
            path.symlink_to("/etc/hostname")
        else:
            (path / "deep").mkdir(parents=True)
            (path / "deep/inside.md").write_text(self._text(), encoding="utf-8")
        for link in [link for link in self._root.rglob("*.md") if link.is_symlink()][2:]:
            link.unlink()

    def _directory(self) -> Path | None:
        found = [path for path in self._root.rglob("*") if path.is_dir() and ".memfs" not in path.parts]
        return self._random.choice(sorted(found)) if found else None

    def _rename_a_directory(self) -> None:
        if old := self._directory():
            new = self._root / f"{self._random.choice('abcd')}{self._random.randrange(30)}"
            if not new.exists():
                old.rename(new)

    def _delete_a_directory(self) -> None:
        if place := self._directory():
            shutil.rmtree(place)

    def _add(self) -> None:
        self._vault().add(
            self._text(), f"/{self._random.choice('abcd')}", title="a note"
        )  # so that its name contains no word of the text

    def _update(self) -> None:
        with suppress(MemfsError):
            self._vault().update(self._ref(), body=self._text())

    def _append(self) -> None:
        with suppress(MemfsError):
            self._vault().append(self._ref(), "And more.")

    def _forget(self) -> None:
        with suppress(MemfsError):
            self._vault().forget(self._ref())

    def _remove(self) -> None:
        with suppress(MemfsError):
            self._vault().remove(self._ref())

    def _move(self) -> None:
        with suppress(MemfsError):
            self._vault().move(self._ref(), f"/{self._random.choice('abcd')}")

    def _sync(self) -> None:
        self._vault().sync()

    def _close(self) -> None:
        self._vault().close()

    def _damage(self) -> None:
        """Delete a file of the index, or replace it by noise."""
        files = [path for path in sorted((self._root / ".memfs/index").glob("*/*")) if path.is_file()]
        if files:
            path = self._random.choice(files)
            noise = self._random.randbytes(path.stat().st_size)
            path.unlink()
            if self._random.random() < 0.5:
                path.write_bytes(noise)

    def _lose_the_journal(self) -> None:
        (self._root / ".memfs/journal").unlink(missing_ok=True)

    def _lose_the_state(self) -> None:
        shutil.rmtree(self._root / ".memfs", ignore_errors=True)


def make_random_changes(root: Path, seed: int, steps: int, *, is_watched: bool) -> None:
    """Make random changes to a vault. Raise AssertionError if a search of one of several Vault objects is wrong."""
    rng = random.Random(seed)
    with Vault.init(root) as vault:
        vault.add("Here is word0 from the beginning.", "/a", title="the first")
        vault.sync()
    with Vault(root, watch=is_watched) as here, searched(root) as there:
        changes = RandomChanges(root, rng, [here, there, Vault(root)])
        for number in range(steps):
            words = changes.step()
            try:
                for vault in (there, Vault(root), here):
                    assert_soon_right(vault, words, WATCH_SECONDS if is_watched else 0.0)
                if number % 20 == 0:
                    assert (faults := there.doctor()) == [] or changes.steps[-1] == "damage", faults
            except Exception as error:
                raise AssertionError(f"seed {seed}, after {changes.steps[-12:]}: {error}") from error
        assert_right(there, {})
