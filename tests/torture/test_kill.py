"""An acknowledged write is never lost: eight writers, one of which is killed with SIGKILL every 50 ms."""

import os
import random
import re
import select
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS, Event, Log, Worker, WorkerPool, checksummed, tokens
from support.vaults import assert_cleaned_up

from memfs import Memory, Vault
from memfs.errors import LockTimeoutError, MemoryChangedError, MemoryNotFoundError

from .figures import figure

SMALL, FULL = 600, 8_000
WRITERS, KILL_SECONDS, SHARED = 8, 0.05, 12
SEARCHED_SHARE = 0.1  # of the added memories
LOCK_TIMEOUT_SECONDS = 10.0


@pytest.mark.parametrize("writes", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_every_acknowledged_write_survives_kills(tmp_path: Path, writes: int) -> None:
    """Writers log each write before it begins (`begun`) and when it is acknowledged, and are killed at any moment.

    An added or appended line must be in its memory, in the tree or in archive/, exactly once. A key must have its
    last value: that of a write after whose end no acknowledged write began. A forgotten memory must be in archive/.
    A write that was begun and not acknowledged may exist or not, but never in part.
    """
    root = tmp_path / "vault"
    with Vault.init(root) as vault:
        for number in range(SHARED):
            vault.add(f"Shared memory {number}.", f"/shared/{number % 3}")
    kills, events = _kill_repeatedly(tmp_path, root, writes)

    done = [event for event in events if event["event"] == "done"]
    with Vault(root) as vault:
        memories = {memory.id: memory for memory in vault.list(archived=True)}
        assert vault.check() == []
        vault.search("")
        assert vault.doctor() == []
    found = {id_: _whole_tokens(memory.body) for id_, memory in memories.items()}
    counts = Counter(token for texts in found.values() for token in texts)
    lost = [event for event in done if event["kind"] in {"add", "append", "body"} and not counts[event["token"]]]
    misplaced = [event for event in done if event["kind"] == "append" and event["token"] not in found[event["id"]]]
    assert (lost, misplaced) == ([], [])
    assert [token for token, number in counts.items() if number > 1] == []
    begun = {event["token"] for event in events if event["event"] == "begun"}
    assert set(counts) <= begun
    assert [event for event in done if event["kind"] == "forget" and not _archived(memories, event)] == []
    for id_, memory in memories.items():
        _assert_last_value(id_, memory.header.get("last"), events)
    assert [event for event in events if event["event"] == "refused" and event["error"] == "LockTimeoutError"] == []
    searched = [event["found"] for event in events if event["event"] == "searched"]
    assert all(searched), "an acknowledged memory was not found"
    slowest = max(event["time"] - event["began"] for event in done)
    assert slowest < LOCK_TIMEOUT_SECONDS
    assert_cleaned_up(root)
    figure(
        "an acknowledged write is never lost",
        f"{len(done)} acknowledged by {WRITERS} processes, {kills} killed: 0 lost, 0 doubled, 0 torn, index equals "
        f"files, {len(searched)} searches for a just added memory right, none blocked (slowest write "
        f"{slowest:.2f} s), 0 temporary files after the next start",
    )


def _kill_repeatedly(tmp_path: Path, root: Path, writes: int) -> tuple[int, list[Event]]:
    """Run writers; kill and replace one every 50 ms until enough writes are acknowledged."""
    log, rng, stop = Log(tmp_path / "log"), random.Random(writes), tmp_path / "stop"
    events: list[Event] = []
    kills = acknowledged = 0
    deadline = time.monotonic() + TIMEOUT_SECONDS + writes / 20
    with WorkerPool(tmp_path) as pool:

        def start() -> Worker:
            return pool.start(write_until_stopped, str(root), str(tmp_path / "log"), str(stop), rng.random())

        workers = [start() for _ in range(WRITERS)]
        while acknowledged < writes or kills < writes // 30:
            assert time.monotonic() < deadline, f"only {acknowledged} writes in time"
            died, _, _ = select.select([worker.fd for worker in workers], [], [], KILL_SECONDS)
            for worker in workers:
                if worker.fd in died:
                    worker.finish()
            victim = rng.randrange(WRITERS)
            workers[victim].kill()
            assert workers[victim].ended(TIMEOUT_SECONDS)
            kills += 1
            workers[victim] = start()
            new = log.new()
            acknowledged += sum(event["event"] == "done" for event in new)
            events += new
        stop.touch()
        for worker in workers:
            worker.finish()
    return kills, events + log.new()


def _whole_tokens(body: str) -> list[str]:
    """Return the tokens of a memory; raise AssertionError if a line is torn, or missing of those it was added with."""
    found = tokens(body)
    declared = re.match(r"Note \S+ of (\d+) lines", body)
    fillers = [token for token in found if "-filler-" in token]
    assert len(fillers) == (int(declared[1]) if declared else 0)
    return [token for token in found if "-filler-" not in token]


def _archived(memories: dict[str, Memory], event: Event) -> bool:
    return memories[event["id"]].path.startswith("archive/")


def _assert_last_value(id_: str, last: str | None, events: list[Event]) -> None:
    """Raise AssertionError if an acknowledged write of the key began after the write of its value had ended."""
    ends: dict[str, float] = {}
    begins: dict[str, float] = defaultdict(float)
    for event in events:
        if event.get("id") == id_ and event["kind"] == "key":
            if event["event"] == "begun":
                ends.setdefault(event["token"], float("inf"))
            elif event["event"] == "done":
                ends[event["token"]] = event["time"]
                begins[event["token"]] = event["began"]
            else:
                ends.pop(event["token"], None)
    if last is None:
        assert not begins, f"{id_}: {len(begins)} acknowledged values lost"
        return
    assert last in ends, f"{id_}: {last} was refused, but stored"
    later = [token for token, began in begins.items() if began > ends[last]]
    assert later == [], f"{id_}: {last} is older than {later}"


def write_until_stopped(root: str, path: str, stop: str, seed: float) -> None:
    """Do writes of all kinds until the file `stop` exists; log every write before and after."""
    log, rng = Log(path), random.Random(seed)
    with Vault(root, lock_timeout=LOCK_TIMEOUT_SECONDS) as vault:
        known = [(memory.id, memory.path) for memory in vault.list("/shared")]
        number = 0
        while not os.path.exists(stop):
            number += 1
            token = f"{os.getpid()}-{number}"
            kind = rng.choices(["add", "append", "key", "body", "forget"], [30, 30, 20, 15, 5])[0]
            id_, ref = ("", "") if kind == "add" else rng.choice(known[-20:] if kind == "forget" else known)
            if kind == "forget" and ref.startswith("shared/"):
                continue
            began = time.monotonic()
            log.note(event="begun", kind=kind, token=token, id=id_)
            try:
                id_, ref = _write(vault, rng, kind, ref, token)
            except (MemoryNotFoundError, MemoryChangedError, LockTimeoutError) as error:
                log.note(event="refused", kind=kind, token=token, id=id_, error=type(error).__name__)
                if isinstance(error, MemoryNotFoundError):
                    known = [(other, place) for other, place in known if other != id_]
                continue
            log.note(event="done", kind=kind, token=token, id=id_, began=began)
            if kind == "add":
                known.append((id_, ref))
                if rng.random() < SEARCHED_SHARE:
                    hits = [hit.memory.id for hit in vault.search(_word(token))]
                    log.note(event="searched", kind=kind, token=token, found=id_ in hits)
            if kind == "forget":
                known = [(other, place) for other, place in known if other != id_]


def _word(token: str) -> str:
    return f"word{token.replace('-', 'x')}x"


def _write(vault: Vault, rng: random.Random, kind: str, ref: str, token: str) -> tuple[str, str]:
    """Do one write; return the id and path of its memory."""
    if kind == "add":
        fillers = rng.choice([0, 0, 3, 400])
        filler = "".join(checksummed(f"{token}-filler-{line}") + "\n" for line in range(fillers))
        text = f"Note {token} of {fillers} lines, {_word(token)}.\n{filler}{checksummed(token)}"
        written = vault.add(text, f"/own/{rng.randrange(3)}")
    elif kind == "append":
        written = vault.append(ref, checksummed(token))
    elif kind == "key":
        written = vault.update(ref, last=token)
    elif kind == "body":
        memory = vault.read(ref)
        written = vault.update(ref, body=f"{memory.body}\n{checksummed(token)}", seen=memory.stamp)
    else:
        written = vault.forget(ref)
    return written.id, written.path
