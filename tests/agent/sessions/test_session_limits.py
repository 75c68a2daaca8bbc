"""Sessions at their limits: no free descriptors, logs and lines of maximum size."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from support.commands import Script
from support.messages import user

from memfs import Vault, errors
from memfs.agent.sessions import SessionLog
from memfs.agent.sessions.events import MAX_LINE_BYTES
from memfs.agent.sessions.paths import MAX_LOG_BYTES

SPARE = """
import os, resource, sys
from memfs.agent.sessions import SessionLog, Sessions
from memfs.errors import StorageError

vault, spare = sys.argv[1], int(sys.argv[2])
log, sessions, hard = SessionLog(vault, "s-1"), Sessions(vault), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if sys.argv[3] == "again":
    log.append({"role": "user", "content": "first"})
    log.close()
before = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for fd in taken[len(taken) - spare :]:
    os.close(fd)
try:
    log.append({"role": "user", "content": "x"})
    print("written", end=" ")
except StorageError:
    print("refused", end=" ")
if not spare:
    for call in (log.read, log.exists, sessions.list, lambda: sessions.remove("s-1")):
        try:
            call()
            print("returned", end=" ")
        except StorageError:
            pass
for fd in taken[: len(taken) - spare]:
    os.close(fd)
log.close()
print(len(os.listdir("/proc/self/fd")) - before)
"""


@pytest.mark.parametrize("when", ["first", "again"])
def test_without_descriptors_an_append_is_written_or_refused_and_leaks_none(
    vault: Vault, run_script: Script, when: str
) -> None:
    outcomes = set()
    for spare in range(9):
        done = run_script(SPARE, vault.root, spare, when)
        assert not done.stderr
        outcome, leaked = done.stdout.split()
        outcomes.add(outcome)

        written = [one["content"] for one in SessionLog(vault, "s-1").messages()]
        assert written.count("x") == (outcome == "written"), f"{spare} descriptors: {outcome}, {written}"
        assert leaked == "0"
        shutil.rmtree(vault.root / "sessions", ignore_errors=True)
    assert outcomes == {"written", "refused"}


def fill_log(path: Path, size: int) -> None:
    """Grow a log to this size with a few long lines, each a state."""
    with path.open("ab") as file:
        while (space := size - file.tell()) > 0:
            length = (
                min(space, MAX_LINE_BYTES) if space - MAX_LINE_BYTES > 1000 or space <= MAX_LINE_BYTES else space // 2
            )
            opening = f'{{"id":"filler-{file.tell()}","state":"'.encode()
            file.write(opening + b"x" * (length - len(opening) - 3) + b'"}\n')


def test_a_log_is_never_larger_than_can_be_read(vault: Vault) -> None:
    log = SessionLog(vault, "s-1")
    first = log.append(user("first"))
    fill_log(vault.root / log.path, MAX_LOG_BYTES - 1000)
    log.append(user("still fits"))

    for other in (log, SessionLog(vault, "s-1")):
        with pytest.raises(errors.StorageError, match=r"sessions/s-1/main\.agent\.jsonl: full") as caught:
            other.append(user("x" * 1000))
        assert caught.value.hint == "Continue in another session."
    with pytest.raises(errors.StorageError, match="full"):
        log.redact(first.id, user("y" * 2000))

    assert [one["content"] for one in SessionLog(vault, "s-1").messages()] == ["first", "still fits"]
    log.append(user("small"), id="own")
    assert os.stat(vault.root / log.path).st_size <= MAX_LOG_BYTES


@pytest.mark.parametrize("name", ["", "own", "\u00e9" * 500])
def test_the_longest_line_that_can_be_written_can_be_read(vault: Vault, name: str) -> None:
    log = SessionLog(vault, "s-1")
    known = log.append(user(""), id=name and f"{name}-")
    with (vault.root / log.path).open("rb") as file:
        short = len(file.read().splitlines()[-1]) + 1
    space = MAX_LINE_BYTES - short + bool(name)
    with pytest.raises(errors.InvalidMemoryError, match="larger than 32 MiB"):
        log.append(user("x" * (space + 1)), id=name)

    log.append(user("x" * space), id=name)

    assert [len(one["content"]) for one in SessionLog(vault, "s-1").messages()] == [0, space]
    assert known.id
    assert not log.problems()


@pytest.mark.parametrize("is_enabled", [True, False], ids=["enabled", "disabled"])
def test_reading_a_long_log_restores_the_state_of_the_garbage_collector(vault: Vault, is_enabled: bool) -> None:
    log = SessionLog(vault, "s-1")
    log.append_many({"message": user("x" * 100)} for _ in range(5000))
    generations: list[int] = []

    def count(phase: str, about: dict[str, int]) -> None:
        generations.append(about["generation"])

    before = gc.isenabled()
    gc.callbacks.append(count)
    try:
        gc.enable() if is_enabled else gc.disable()
        generations.clear()
        parsed = SessionLog(vault, "s-1").read()
        during, after = len(generations), gc.isenabled()
    finally:
        gc.enable() if before else gc.disable()
        gc.callbacks.remove(count)

    assert len(parsed.events) == 5000
    assert during <= 4  # a start and a stop each; without the pause, 5,000 events would trigger about forty collections
    assert after == is_enabled
