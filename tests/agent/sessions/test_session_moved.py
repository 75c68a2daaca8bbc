"""A SessionLog whose file is replaced, removed or moved between appends, and the descriptors that it keeps open."""

import fcntl
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.commands import Script
from support.files import open_paths
from support.messages import user

from memfs import Vault
from memfs.agent.sessions import SessionLog
from memfs.errors import LockTimeoutError

OTHER = """
import os, sys
from memfs.agent.sessions import SessionLog

root, path, action = sys.argv[1:]
folder = os.path.dirname(path)
if action == "replaced":
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("".join(lines[:-1]) + lines[-1].replace("second", "SECOND").rstrip())  # no newline
    os.rename(path + ".new", path)
elif action == "removed":
    os.unlink(path)
elif action == "moved":
    os.rename(folder, folder + "-moved")
elif action == "another":
    os.rename(folder, folder + "-moved")
    SessionLog(root, "s-1").append({"role": "user", "content": "another's"})
"""


def texts(log: SessionLog) -> list[str]:
    return [str(message["content"]) for message in log.messages()]


@pytest.fixture
def log(vault: Vault) -> SessionLog:
    """Return a log of two messages, whose lock is cached."""
    log = SessionLog(vault, "s-1")
    log.append(user("first"))
    log.append(user("second"))
    return log


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("replaced", ["first", "SECOND", "third", "fourth"]),
        ("removed", ["third", "fourth"]),
        ("moved", ["third", "fourth"]),
        ("another", ["another's", "third", "fourth"]),
    ],
)
def test_the_next_message_is_appended_to_the_log_that_has_the_name_now(
    vault: Vault, log: SessionLog, run_script: Script, action: str, expected: list[str]
) -> None:
    done = run_script(OTHER, vault.root, vault.root / log.path, action)
    assert not done.stderr

    log.append(user("third"))
    log.append(user("fourth"))
    assert texts(SessionLog(vault, "s-1")) == expected
    assert log.problems() == []
    if action in ("moved", "another"):
        assert texts(SessionLog(vault, "s-1-moved")) == ["first", "second"]


def test_a_directory_that_replaced_the_old_one_is_the_one_that_is_locked(vault: Vault, log: SessionLog) -> None:
    impatient, path = SessionLog(vault, "s-1", lock_timeout=0.05), vault.root / log.path
    impatient.append(user("third"))
    copy = Path(f"{path.parent}-copy")
    copy.mkdir()
    os.link(path, copy / path.name)
    path.parent.rename(f"{path.parent}-old")
    copy.rename(path.parent)

    fd = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(LockTimeoutError):
        impatient.append(user("while another writes"))
    os.close(fd)
    impatient.append(user("fourth"))
    assert texts(log) == ["first", "second", "third", "fourth"]


def test_no_log_file_is_open_between_two_messages(vault: Vault, log: SessionLog) -> None:
    """An open file would block redaction, and keep the redacted bytes on the disk."""
    assert [path for path in open_paths(vault.root) if path.endswith(".jsonl")] == []
    assert open_paths(vault.root)  # its directory

    log.close()
    assert open_paths(vault.root) == []
    log.append(user("third"))
    assert texts(log) == ["first", "second", "third"]


def test_an_event_has_the_time_of_the_system_clock(vault: Vault, log: SessionLog) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    event = log.append(user("third"))

    assert before < event.time <= datetime.now(UTC)
    assert event.id > log.events()[1].id


@pytest.mark.parametrize("about", [{}, {"metadata": {"channel": "web"}}, {"id": "own"}, {"branch": ""}])
def test_a_secret_is_redacted_however_a_message_is_appended(
    vault: Vault, log: SessionLog, about: dict[str, Any]
) -> None:
    log.append(user("The password is Tea4two!x"), **about)

    assert "Tea4two" not in (vault.root / log.path).read_text()
    assert texts(log)[-1] == "The password is [redacted: password]"
