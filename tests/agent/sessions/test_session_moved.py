"""A log that is written again and again while others replace, remove and move it, and what a process holds of it."""

import fcntl
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Script

from memfs import Vault
from memfs.agent.sessions import SessionLog
from memfs.errors import LockTimeoutError

OTHER = """
import os, sys
from memfs.agent.sessions import SessionLog

root, path, what = sys.argv[1:]
folder = os.path.dirname(path)
if what == "replaced":
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("".join(lines[:-1]) + lines[-1].replace("second", "SECOND").rstrip())  # as long, but for the end
    os.rename(path + ".new", path)
elif what == "removed":
    os.unlink(path)
elif what == "moved":
    os.rename(folder, folder + "-moved")
elif what == "another":
    os.rename(folder, folder + "-moved")
    SessionLog(root, "s-1").append({"role": "user", "content": "another's"})
"""


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(log: SessionLog) -> list[str]:
    return [str(message["content"]) for message in log.messages()]


@pytest.fixture
def log(vault: Vault) -> SessionLog:
    """A log of two messages, whose next one costs the least."""
    log = SessionLog(vault, "s-1")
    log.append(said("first"))
    log.append(said("second"))
    return log


def held(vault: Vault) -> list[str]:
    """What this process has open in a vault."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(str(vault.root))]


@pytest.mark.parametrize(
    ("what", "there"),
    [
        ("replaced", ["first", "SECOND", "third", "fourth"]),
        ("removed", ["third", "fourth"]),
        ("moved", ["third", "fourth"]),
        ("another", ["another's", "third", "fourth"]),
    ],
)
def test_the_next_message_is_in_the_log_of_that_name(
    vault: Vault, log: SessionLog, run_script: Script, what: str, there: list[str]
) -> None:
    done = run_script(OTHER, vault.root, vault.root / log.path, what)
    assert not done.stderr

    log.append(said("third"))
    log.append(said("fourth"))
    assert texts(SessionLog(vault, "s-1")) == there
    assert log.problems() == []
    if what in ("moved", "another"):
        assert texts(SessionLog(vault, "s-1-moved")) == ["first", "second"]


def test_a_directory_with_the_same_file_that_was_put_in_its_place_is_the_one_that_is_locked(
    vault: Vault, log: SessionLog
) -> None:
    hasty, path = SessionLog(vault, "s-1", lock_timeout=0.05), vault.root / log.path
    hasty.append(said("third"))
    copy = Path(f"{path.parent}-copy")
    copy.mkdir()
    os.link(path, copy / path.name)
    path.parent.rename(f"{path.parent}-old")
    copy.rename(path.parent)

    fd = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(LockTimeoutError):
        hasty.append(said("while another writes"))
    os.close(fd)
    hasty.append(said("fourth"))
    assert texts(log) == ["first", "second", "third", "fourth"]


def test_no_log_is_open_between_two_messages(vault: Vault, log: SessionLog) -> None:
    """One that is would keep who redacts a message waiting, and what is redacted on the disk."""
    assert [path for path in held(vault) if path.endswith(".jsonl")] == []
    assert held(vault)  # its directory

    log.close()
    assert held(vault) == []
    log.append(said("third"))
    assert texts(log) == ["first", "second", "third"]


def test_the_clock_of_the_system_tells_the_time_of_an_event(vault: Vault, log: SessionLog) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    event = log.append(said("third"))

    assert before < event.time <= datetime.now(UTC)
    assert event.id > log.events()[1].id


@pytest.mark.parametrize("about", [{}, {"metadata": {"channel": "web"}}, {"id": "own"}, {"branch": ""}])
def test_a_secret_is_redacted_however_a_message_is_appended(
    vault: Vault, log: SessionLog, about: dict[str, Any]
) -> None:
    log.append(said("The password is Tea4two!x"), **about)

    assert "Tea4two" not in (vault.root / log.path).read_text()
    assert texts(log)[-1] == "The password is [redacted: password]"
