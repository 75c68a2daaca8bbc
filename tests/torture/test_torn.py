"""Never torn: kill -9 in the middle of large updates, during reads."""

import os
import random
from pathlib import Path

import pytest
from support.processes import Log, WorkerPool
from support.vaults import assert_cleaned_up

from memfs import Vault

from .figures import figure

SMALL, FULL = 8, 100
LINES = 333_334  # of nine bytes: 3 MB
READERS = 2


@pytest.mark.parametrize("kills", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_a_reader_sees_the_old_or_the_new_text(tmp_path: Path, kills: int) -> None:
    """Every text has one number only, and numbers never decrease, for readers and at the end."""
    root, path, stop, rng = tmp_path / "vault", str(tmp_path / "log"), tmp_path / "stop", random.Random(kills)
    log = Log(path)
    with Vault.init(root) as vault:
        ref = vault.add(_text(0), "/large").path
    with WorkerPool(tmp_path) as pool:
        readers = [pool.start(read_repeatedly, str(root), ref, path, str(stop)) for _ in range(READERS)]
        for kill in range(kills):
            writer = pool.start(update, str(root), ref, path, (kill + 1) * 1_000)
            assert not writer.ended(rng.uniform(0.02, 0.5)), "the writer ended"
            writer.kill()
            assert writer.ended(10)
        stop.touch()
        for reader in readers:
            reader.finish()

    events = log.new()
    begun = [event["begun"] for event in events if "begun" in event]
    done = [event["done"] for event in events if "done" in event]
    reads = sum(event["reads"] for event in events if "reads" in event)
    with Vault(root) as vault:
        assert vault.check() == []
        number = _number(vault.read(ref).body)
        assert number >= max(done, default=0)
        assert number in {0, *begun}
        versions = vault.versions(ref)[:15]  # restoring adds versions, and the oldest are dropped
        for version in versions:
            vault.restore(ref, version.hash)
            assert _number(vault.read(ref).body) in {0, *begun}
    assert_cleaned_up(root)
    figure(
        "never torn",
        f"{kills} kills in {len(begun)} updates of 3 MB ({len(begun) - len(done)} cut short), {reads} reads: all old "
        f"or new; {len(versions)} kept versions whole",
    )


def _text(number: int) -> str:
    return "\n".join([f"{number:08d}"] * LINES)


def _number(body: str) -> int:
    """Return the number of a text; raise AssertionError if it mixes several."""
    first = body[:8]
    assert body == "\n".join([first] * LINES), "a mixture of texts"
    return int(first)


def update(root: str, ref: str, path: str, number: int) -> None:
    """Replace the text repeatedly until killed."""
    log, vault = Log(path), Vault(root)
    while True:
        number += 1
        log.note(begun=number)
        vault.update(ref, body=_text(number))
        log.note(done=number)


def read_repeatedly(root: str, ref: str, path: str, stop: str) -> None:
    """Read with memfs and directly, alternately, until the file `stop` exists."""
    log, vault, last, reads = Log(path), Vault(root), 0, 0
    while not os.path.exists(stop):
        if reads % 2:
            number = _number(vault.read(ref).body)
        else:
            number = _number(Path(root, ref).read_text(encoding="utf-8").split("---\n\n", 1)[1].removesuffix("\n"))
        assert number >= last, "an older text came back"
        last, reads = number, reads + 1
    log.note(reads=reads)
