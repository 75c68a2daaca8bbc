"""A clock may jump: the time of day goes back and forth by hours and years, and so do the times of files."""

import os
import random
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from support.searching import found

from memfs import Vault

from .figures import figure
from .support import LIMIT, Crew, Log

SMALL, FULL = 60, 1_500
WRITERS = 2
YEAR = 365 * 86_400
JUMPS = (0.5, 60, 3_600, 86_400, 20 * YEAR)  # seconds, either way
START = 1_800_000_000


@pytest.mark.parametrize("steps", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_nothing_depends_on_a_clock_that_goes_forward(tmp_path: Path, steps: int) -> None:
    """Each process has a time of its own that jumps before every step; files get times of the past and the future."""
    root, path = tmp_path / "vault", str(tmp_path / "log")
    Vault.init(root).close()
    with Crew(tmp_path) as crew:
        writers = [crew.start(live, str(root), number, steps // WRITERS, path) for number in range(WRITERS)]
        for writer in writers:
            writer.finish(LIMIT + steps)

    events = Log(path).new()
    expected = {event["path"]: event["text"] for event in events if event["kind"] == "there"}
    gone = {event["path"] for event in events if event["kind"] == "gone"}
    assert [event["wrong"] for event in events if event["kind"] == "wrong"] == []
    with Vault(root) as vault:
        assert {memory.path: memory.body for memory in vault.list()} == expected
        assert gone.isdisjoint(expected)
        assert vault.check() == []
        assert vault.doctor() == []
    jumps, looks = (sum(event["kind"] == kind for event in events) for kind in ("jump", "look"))
    figure(
        "a clock may jump",
        f"{jumps} jumps of up to 20 years back and forth in {WRITERS} processes, times of files alike: "
        f"{len(expected)} memories as they were written, {looks} searches right, versions in the order of writing",
    )


def live(root: str, number: int, steps: int, path: str) -> None:
    """Write, edit by hand, search and look at versions, while the time of this process jumps."""
    log, pick, clock = Log(path), random.Random(number), _Clock()
    time.time, time.time_ns = clock.time, clock.time_ns
    texts: dict[str, list[str]] = {}  # path -> every version
    words = count()
    with Vault(root, clock=clock.now) as vault:
        for step in range(steps):
            clock.jump(pick)
            log.note(kind="jump")
            word, verb = f"word{number}x{next(words)}x", pick.choice(["add", "append", "update", "hand", "remove"])
            ref = pick.choice(sorted(texts)) if texts and verb != "add" else ""
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
                _by_hand(Path(root, ref), texts[ref][-1], f"Hand {word}.", clock.time())
                texts[ref].append(f"Hand {word}.")
            elif len(texts) > 5:
                vault.remove(ref)
                del texts[ref]
                log.note(kind="gone", path=ref)
                continue
            wrong = _mistakes(vault, ref, texts[ref], {word: [ref] if word in texts[ref][-1] else []}, step)
            log.note(kind="look")
            if wrong:
                log.note(kind="wrong", wrong=f"{verb} {ref}: {wrong}")
        for ref, versions in texts.items():
            log.note(kind="there", path=ref, text=versions[-1])


class _Clock:
    """A time of day that jumps."""

    def __init__(self) -> None:
        self._monotonic, self._shift = time.monotonic, float(START)

    def time(self) -> float:
        return self._shift + self._monotonic()

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def jump(self, pick: random.Random) -> None:
        """Go some way back or forth, and never out of this century."""
        self._shift += pick.choice(JUMPS) * pick.choice([-1, 1])
        self._shift = min(max(self._shift, START - 20 * YEAR), START + 40 * YEAR)


def _by_hand(file: Path, old: str, new: str, moment: float) -> None:
    """An editor saves, and the file has a time of its machine."""
    text = file.read_bytes().decode().replace(old, new)
    file.write_text(text, encoding="utf-8", newline="")
    os.utime(file, (moment, moment))


def _mistakes(vault: Vault, ref: str, versions: list[str], words: dict[str, list[str]], step: int) -> list[str]:
    """What is wrong about a memory after a step: its text, what finds it, and now and then its versions."""
    wrong = [] if vault.read(ref).body == versions[-1] else ["the text is another one"]
    for word, paths in words.items():
        if [hit.memory.path for hit in vault.search(word)] != paths:
            wrong.append(f"{word} is not found rightly")
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
    """The body of a kept version."""
    with vault._files.opened() as root:
        version = next(version for version in vault.versions(ref) if version.hash == code)
        data = vault._files.versions.read(root, ref, version)
    return data.decode().partition("---\n\n")[2].removesuffix("\n")
