"""Clock jumps are harmless: the wall clock and file times jump back and forth by hours and years."""

import os
import random
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS, Log, WorkerPool
from support.searching import found

from memfs import Vault
from memfs.protocols import system_clock
from memfs.storage.memory_files import MemoryFiles

from .figures import figure

SMALL, FULL = 60, 1_500
WRITERS = 2
YEAR = 365 * 86_400
JUMPS = (0.5, 60, 3_600, 86_400, 20 * YEAR)  # seconds, either way
START = 1_800_000_000


@pytest.mark.parametrize("steps", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_clock_jumps_in_both_directions_are_harmless(tmp_path: Path, steps: int) -> None:
    """Each process has its own clock, which jumps before every step; files get past and future times."""
    root, path = tmp_path / "vault", str(tmp_path / "log")
    Vault.init(root).close()
    with WorkerPool(tmp_path) as pool:
        writers = [
            pool.start(write_while_the_clock_jumps, str(root), number, steps // WRITERS, path)
            for number in range(WRITERS)
        ]
        for writer in writers:
            writer.finish(TIMEOUT_SECONDS + steps)

    events = Log(path).new()
    expected = {event["path"]: event["text"] for event in events if event["kind"] == "present"}
    gone = {event["path"] for event in events if event["kind"] == "gone"}
    assert [event["wrong"] for event in events if event["kind"] == "wrong"] == []
    with Vault(root) as vault:
        assert {memory.path: memory.body for memory in vault.list()} == expected
        assert gone.isdisjoint(expected)
        assert vault.check() == []
        assert vault.doctor() == []
    jumps, searches = (sum(event["kind"] == kind for event in events) for kind in ("jump", "search"))
    figure(
        "clock jumps are harmless",
        f"{jumps} jumps of up to 20 years back and forth in {WRITERS} processes, of file times too: "
        f"{len(expected)} memories exactly as written, {searches} searches right, versions in the order of writing",
    )


def write_while_the_clock_jumps(root: str, number: int, steps: int, path: str) -> None:
    """Write, edit by hand, search and compare versions, while the clock of this process jumps."""
    log, rng, clock = Log(path), random.Random(number), _Clock()
    time.time, time.time_ns = clock.time, clock.time_ns
    texts: dict[str, list[str]] = {}  # path -> every version
    words = count()
    with Vault(root, clock=clock.now) as vault:
        for step in range(steps):
            clock.jump(rng)
            log.note(kind="jump")
            word, verb = f"word{number}x{next(words)}x", rng.choice(["add", "append", "update", "hand", "remove"])
            ref = rng.choice(sorted(texts)) if texts and verb != "add" else ""
            if not ref:
                ref = vault.add(f"There is {word}.", f"/n{number}", title=word).path
                texts[ref] = [f"There is {word}."]
            elif verb == "append":
                vault.append(ref, f"And {word}.")
                texts[ref].append(f"{texts[ref][-1]}\nAnd {word}.")
            elif verb == "update":
                vault.update(ref, body=f"Now {word}.")
                texts[ref].append(f"Now {word}.")
            elif verb == "hand":
                _save_by_hand(Path(root, ref), texts[ref][-1], f"Hand {word}.", clock.time())
                texts[ref].append(f"Hand {word}.")
            elif len(texts) > 5:
                vault.remove(ref)
                del texts[ref]
                log.note(kind="gone", path=ref)
                continue
            wrong = _mistakes(vault, ref, texts[ref], {word: [ref] if word in texts[ref][-1] else []}, step)
            log.note(kind="search")
            if wrong:
                log.note(kind="wrong", wrong=f"{verb} {ref}: {wrong}")
        for ref, versions in texts.items():
            log.note(kind="present", path=ref, text=versions[-1])


class _Clock:
    """A wall clock that jumps."""

    def __init__(self) -> None:
        self._monotonic, self._shift = time.monotonic, float(START)

    def time(self) -> float:
        return self._shift + self._monotonic()

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def jump(self, rng: random.Random) -> None:
        """Jump back or forth, at most 20 years back and 40 forward from START."""
        self._shift += rng.choice(JUMPS) * rng.choice([-1, 1])
        self._shift = min(max(self._shift, START - 20 * YEAR), START + 40 * YEAR)


def _save_by_hand(file: Path, old: str, new: str, moment: float) -> None:
    """Save as an editor does, with a modification time from the jumping clock."""
    text = file.read_bytes().decode().replace(old, new)
    file.write_text(text, encoding="utf-8", newline="")
    os.utime(file, (moment, moment))


def _mistakes(vault: Vault, ref: str, versions: list[str], words: dict[str, list[str]], step: int) -> list[str]:
    """Return the faults of a memory after a step: its text, the searches for it and, every ten steps, its versions."""
    wrong = [] if vault.read(ref).body == versions[-1] else ["the text differs"]
    for word, paths in words.items():
        if [hit.memory.path for hit in vault.search(word)] != paths:
            wrong.append(f"{word} has wrong hits")
    if step % 10 == 0:
        place = f"/{ref.partition('/')[0]}"
        if found(vault, "", place) != {memory.path for memory in vault.list(place)}:
            wrong.append("a listing differs from the files")
        bodies = [_body(vault, ref, version.hash) for version in vault.versions(ref)]
        places = [max(at for at, text in enumerate(versions) if text == body) for body in bodies if body in versions]
        if places != sorted(places, reverse=True):
            wrong.append(f"versions are not in order: {places}")
    return wrong


def _body(vault: Vault, ref: str, code: str) -> str:
    """Return the body of a kept version."""
    version = next(version for version in vault.versions(ref) if version.hash == code)
    data = MemoryFiles(vault.root, clock=system_clock, lock_timeout=TIMEOUT_SECONDS).version_data(ref, version)
    return data.decode().partition("---\n\n")[2].removesuffix("\n")
