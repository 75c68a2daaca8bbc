"""Sessions over time: redacted, branched, listed, checked, expired."""

import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.commands import Git
from support.files import Snapshot
from support.messages import text_message

from memfs import Vault, errors
from memfs.agent.sessions import Branch, SessionLog, Sessions

SECRET = "sk-live-4242-secret"


@pytest.fixture
def log(vault: Vault) -> SessionLog:
    return SessionLog(vault, "s-1", actor="alice")


def texts(log: SessionLog, **about: Any) -> list[str]:
    return [message["content"][0]["text"] for message in log.messages(**about)]


def files_containing(root: Path, text: str) -> list[str]:
    """Return the files below a directory that contain a text."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return [path.relative_to(root).as_posix() for path in files if text.encode() in path.read_bytes()]


# --- redaction ----------------------------------------------------------------------------------------


def test_redaction_leaves_no_byte_of_the_original(vault: Vault, log: SessionLog, git: Git) -> None:
    git(vault.root, "init", "-q")
    log.append(text_message("before"))
    event = log.append(text_message(SECRET), metadata={"channel": "web"}, index=1)
    log.append(text_message("after"))
    assert files_containing(vault.root, SECRET) == [log.path]

    redacted = log.redact(event.id, text_message("[redacted]"))

    assert files_containing(vault.root, SECRET) == []
    assert texts(log) == ["before", "[redacted]", "after"]
    assert redacted == log.event(event.id)
    assert (redacted.is_redacted, redacted.metadata, redacted.record["index"]) == (True, {"channel": "web"}, 1)
    log.append(text_message(SECRET), id=event.id)
    log.append(text_message("more"))
    assert texts(log) == ["before", "[redacted]", "after", "more"]


def test_a_removed_event_is_not_added_again(vault: Vault, log: SessionLog) -> None:
    event = log.append_payload({"blob": SECRET})
    log.append(text_message("after"))

    log.remove(event.id)

    assert files_containing(vault.root, SECRET) == []
    log.append_payload({"blob": SECRET}, id=event.id)
    assert [one.kind for one in log.events()] == ["message"]
    with pytest.raises(errors.SessionNotFoundError):
        log.redact(event.id, text_message("x"))
    with pytest.raises(errors.SessionNotFoundError):
        log.remove("e-nothing")
    with pytest.raises(errors.SessionNotFoundError):
        SessionLog(vault, "nothing").remove(event.id)
    assert not (vault.root / "sessions/nothing").exists()


def test_redaction_changes_no_other_byte(vault: Vault, log: SessionLog) -> None:
    event = log.append(text_message(SECRET))
    file = vault.root / log.path
    tail = b'not json\r\n{"id": "e-7",  "message" : {"role":"user"} }\n\xff\n\n<<<<<<< HEAD\ncut short'
    with file.open("ab") as stream:
        stream.write(tail)
    file.chmod(0o640)
    head = file.read_bytes().splitlines(keepends=True)[0]

    log.redact(event.id, text_message("-"))

    data = file.read_bytes()
    assert data.startswith(head)
    assert data.endswith(tail)
    assert data.count(b"\n") == head.count(b"\n") + 1 + tail.count(b"\n")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_partial_line_of_a_killed_append_is_redacted_too(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("before"))
    with (vault.root / log.path).open("ab") as file:
        file.write(
            b'{"id":"turn-1","time":"2026-01-01T00:00:00Z","message":{"role":"user","content":"' + SECRET.encode()
        )
    log.append(text_message(SECRET), id="turn-1")

    log.redact("turn-1", text_message("-"))

    assert files_containing(vault.root, SECRET) == []
    assert texts(log) == ["before", "-"]


@pytest.mark.parametrize("content", [f"the code is {SECRET}, ünder us", {"text": SECRET}, (SECRET * 9).encode()])
def test_fragments_of_a_damaged_line_are_redacted_too(vault: Vault, log: SessionLog, content: Any) -> None:
    file = vault.root / log.path
    log.append(text_message("before"))
    event = log.append({"role": "user", "content": content})
    other, line = file.read_bytes().splitlines()[1:]
    end, middle = line[40:], other[:40] + line[60:-4]  # the second starts with a part of another line
    file.write_bytes(b"\n".join([file.read_bytes() + end, middle, other[50:], b""]))

    SessionLog(vault, "s-1").redact(event.id, text_message("-"))

    assert end[20:] not in file.read_bytes()
    assert line[60:-4] not in file.read_bytes()
    assert files_containing(vault.root, SECRET) == []
    assert [log.event(event.id).is_redacted, len(log.messages())] == [True, 2]
    assert other[50:] in file.read_bytes()  # of another message
    assert [problem.reason for problem in Sessions(vault).check()] == ["not JSON, or cut short: skipped"]


@pytest.mark.parametrize("name", ["\ud800", "main", "s-1", "é", 'a"b\n'])
def test_redaction_of_an_event_with_any_id_changes_no_other_line(vault: Vault, log: SessionLog, name: str) -> None:
    log.append(text_message("before"))
    log.append(text_message(SECRET), id=name)
    before = (vault.root / log.path).read_bytes().splitlines()

    log.redact(name, text_message("-"))

    after = (vault.root / log.path).read_bytes().splitlines()
    assert after[:2] == before[:2]
    assert texts(log) == ["before", "-"]
    assert files_containing(vault.root, SECRET) == []


def test_a_merge_does_not_restore_a_redacted_message(vault: Vault, log: SessionLog, git: Git) -> None:
    git(vault.root, "init", "-q")
    event = log.append(text_message(SECRET))
    git(vault.root, "add", ".")
    git(vault.root, "commit", "-qm", "started")
    git(vault.root, "switch", "-qc", "laptop")
    log.append(text_message("laptop"))
    git(vault.root, "commit", "-qam", "laptop")
    git(vault.root, "switch", "-q", "main")
    log.redact(event.id, text_message("-"))
    git(vault.root, "commit", "-qam", "redacted")
    git(vault.root, "merge", "-q", "-m", "merged", "laptop")

    assert texts(log) == ["-", "laptop"]
    if SECRET in (vault.root / log.path).read_text():
        assert "which was redacted" in log.problems()[0].reason
        log.redact(event.id, text_message("-"))
    assert SECRET not in (vault.root / log.path).read_text()
    assert texts(log) == ["-", "laptop"]


REDACTOR = """
import sys
from memfs.agent.sessions import SessionLog
log = SessionLog(sys.argv[1], "s-1")
print("started", flush=True)
for event in log.events():
    log.redact(event.id, {"role": "user", "content": [{"text": "-"}]})
"""


def test_a_killed_redaction_leaves_the_old_line_or_the_new(vault: Vault, log: SessionLog) -> None:
    generator, number = random.Random(3), 0
    for _ in range(12):
        for _ in range(6):
            log.append(text_message(f"{number} {SECRET} " + "x" * 200_000))
            number += 1
        process = subprocess.Popen([sys.executable, "-c", REDACTOR, vault.root], stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(generator.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

        assert len(log.events()) == number
        assert log.problems() == []
        for event in SessionLog(vault, "s-1").events():
            log.redact(event.id, text_message("-"))
        SessionLog(vault, "s-1").append(text_message("the next writer removes the temporary files of the killed one"))
        number += 1
        assert files_containing(vault.root, SECRET) == []


# --- branches -----------------------------------------------------------------------------------------


def test_a_branch_has_its_parents_events_up_to_the_fork_and_its_own(log: SessionLog) -> None:
    one, two = log.append(text_message("1")), log.append(text_message("2"))
    log.append(text_message("3"))

    log.fork("other", at=two.id)
    a = log.append(text_message("a"), branch="other")
    log.append(text_message("4"))
    log.append(text_message("b"), branch="other")
    log.fork("third", at=a.id, parent="other")
    log.append(text_message("x"), branch="third")
    log.fork("early", at=one.id, parent="third")

    assert texts(log) == ["1", "2", "3", "4"]
    assert texts(log, branch="other") == ["1", "2", "a", "b"]
    assert texts(log, branch="third") == ["1", "2", "a", "x"]
    assert texts(log, branch="early") == ["1"]
    assert [event.message["content"][0]["text"] for event in log.events(branch="other", parents=False)] == ["a", "b"]
    assert log.branches() == [
        Branch(""), Branch("other", "", two.id), Branch("third", "other", a.id), Branch("early", "third", one.id),
    ]  # fmt: skip
    assert texts(log, branch="other", limit=2, offset=1) == ["2", "a"]


def test_a_branch_starts_at_an_event_of_its_parent(log: SessionLog) -> None:
    with pytest.raises(errors.SessionNotFoundError):
        log.fork("x", at="e-1")
    one = log.append(text_message("1"))
    log.fork("other", at=one.id)
    own = log.append(text_message("a"), branch="other")

    with pytest.raises(errors.SessionNotFoundError):
        log.fork("third", at=own.id)
    with pytest.raises(errors.SessionNotFoundError):
        log.fork("third", at=one.id, parent="nothing")
    with pytest.raises(errors.MemoryExistsError):
        log.fork("other", at=one.id)
    with pytest.raises(errors.SessionNotFoundError):
        log.messages(branch="nothing")
    assert texts(log, branch="other") == ["1", "a"]


def test_circular_forks_do_not_loop_forever(vault: Vault, log: SessionLog) -> None:
    one = log.append(text_message("1"))
    with (vault.root / log.path).open("a") as file:
        for name, parent in (("a", "b"), ("b", "a")):
            file.write(f'{{"id":"{name}","fork":{{"branch":"{name}","from":"{parent}","at":"{one.id}"}}}}\n')

    assert texts(log, branch="a") == []
    assert texts(log) == ["1"]


# --- events and their metadata ------------------------------------------------------------------------


def test_events_are_filtered_by_metadata_role_and_time(log: SessionLog) -> None:
    log.append(text_message("1"), metadata={"channel": "web", "score": 3}, time="2026-01-01T10:00:00Z")
    log.append(text_message("2", "assistant"), metadata={"channel": "mail"}, time=datetime(2026, 1, 2, tzinfo=UTC))
    log.append(text_message("3"), metadata={"score": 7, "tags": ["a", "b"]}, time="2026-01-03T10:00:00+02:00")
    log.append_payload([1, 2])

    def found(*where: Any) -> list[str]:
        return [event.message["content"][0]["text"] for event in log.events(kinds=["message"], where=where)]

    assert found(("channel", "EQUALS", "web")) == ["1"]
    assert found(("score", "EXISTS")) == ["1", "3"]
    assert found(("score", "NOT_EXISTS")) == ["2"]
    assert found(("score", ">", 3)) == ["3"]
    assert found(("score", "<=", 3), ("channel", "CONTAINS", "EB")) == ["1"]
    assert found(("tags", "CONTAINS", "a")) == ["3"]
    assert found(("role", "EQUALS", "assistant")) == ["2"]
    assert found(("time", "AFTER", "2026-01-01"), ("time", "BEFORE", "2026-01-03")) == ["2"]
    assert [event.record["payload"] for event in log.events(kinds=["payload"])] == [[1, 2]]
    with pytest.raises(errors.InvalidSearchError):
        log.events(where=[("score", "LIKE", 3)])
    with pytest.raises(errors.InvalidSearchError):
        log.events(limit=-1)


def test_the_last_state_of_a_name_counts(log: SessionLog) -> None:
    assert log.state() is None
    log.set_state({"turn": 1})
    log.set_state([1], name="plan")
    log.set_state({"turn": 2})

    assert (log.state(), log.state("plan"), log.state("nothing")) == ({"turn": 2}, [1], None)
    assert log.messages() == []


# --- all sessions of a vault --------------------------------------------------------------------------


def three_sessions(vault: Vault) -> Sessions:
    """Create three sessions of two actors, in January, February and March."""
    for month, (session, actor) in enumerate((("s-1", "alice"), ("s/2", "bob"), ("s-3", "alice")), 1):
        now = datetime(2026, month, 1, tzinfo=UTC)
        log = SessionLog(vault, session, actor=actor, clock=lambda: now)  # noqa: B023  used at once
        log.append(text_message("one"))
        log.append(text_message("two", "assistant"), metadata={"channel": "web"})
    SessionLog(vault, "s-3", "helper", clock=lambda: datetime(2026, 3, 2, tzinfo=UTC)).append(text_message("three"))
    return Sessions(vault, clock=lambda: datetime(2026, 3, 10, tzinfo=UTC))


def test_sessions_and_actors_are_listed(vault: Vault) -> None:
    sessions = three_sessions(vault)

    assert [(one.name, one.actor, one.agents, one.messages) for one in sessions.list()] == [
        ("s-1", "alice", ("main",), 2), ("s/2", "bob", ("main",), 2), ("s-3", "alice", ("helper", "main"), 3),
    ]  # fmt: skip
    assert [one.name for one in sessions.list(actor="alice")] == ["s-1", "s-3"]
    assert [one.name for one in sessions.list(where=[("updated", "AFTER", "2026-02-15")])] == ["s-3"]
    assert [one.name for one in sessions.list(where=[("messages", ">=", 3)])] == ["s-3"]
    assert [(one.name, one.sessions, one.messages) for one in sessions.actors()] == [("alice", 2, 5), ("bob", 1, 2)]
    assert sessions.read("s/2").path == "sessions/s%2F2"
    assert [log.agent for log in sessions.logs("s-3")] == ["helper", "main"]
    for name in ("nothing", "", "../x"):
        with pytest.raises(errors.SessionNotFoundError):
            sessions.read(name)


def test_sessions_are_not_memories(vault: Vault, snapshot: Snapshot) -> None:
    vault.add("Alice likes tuna.", "/facts")
    three_sessions(vault)
    (vault.root / "sessions/s-1/note.md").write_text("A zebra.\n")

    assert vault.search("zebra") == vault.search("one two") == []
    assert len(vault.list()) == vault.sync().memories == 1
    with pytest.raises(errors.VaultError):
        vault.read("sessions/s-1/note.md")
    before = snapshot(vault.root, ".memfs")
    Sessions(vault).list()
    Sessions(vault).check()
    assert snapshot(vault.root, ".memfs") == before


def test_copies_of_logs_are_reported_and_not_read(vault: Vault) -> None:
    sessions = three_sessions(vault)
    place = vault.root / "sessions/s-1"
    copies = [
        "main.agent (copy).jsonl", "main.agent.jsonl~", ".main.agent.jsonl.swp", "main (copy).agent.jsonl",
        "#main.agent.jsonl#", "main.agent.jsonl.orig",
    ]  # fmt: skip
    for name in copies:
        shutil.copy(place / "main.agent.jsonl", place / name)
    shutil.copytree(place, vault.root / "sessions/s-1 (copy)")
    (place / ".gitkeep").touch()
    (vault.root / "sessions/main.agent.jsonl").touch()
    with (place / "main.agent.jsonl").open("a") as file:
        file.write("<<<<<<< HEAD\n")

    assert [one.name for one in sessions.list()] == ["s-1", "s/2", "s-3"]
    assert sessions.read("s-1").messages == 2
    found = [(problem.path.removeprefix("sessions/"), problem.line) for problem in sessions.check()]
    assert {(f"s-1/{name}", 1) for name in copies} < set(found)
    assert ("s-1/main.agent.jsonl", 4) in found
    assert ("main.agent.jsonl", 1) in found
    assert len(found) == len(copies) + 1 + 1 + len(copies) + 1


def test_an_unreadable_log_does_not_hide_the_others(vault: Vault) -> None:
    sessions = three_sessions(vault)
    bad = vault.root / "sessions/s-3/helper.agent.jsonl"
    bad.unlink()
    os.mkfifo(bad)

    assert [(one.name, one.messages) for one in sessions.list()] == [("s-1", 2), ("s/2", 2), ("s-3", 2)]
    (problem,) = sessions.check()
    assert (problem.path, problem.reason) == ("sessions/s-3/helper.agent.jsonl", "cannot be read: not a regular file")


@pytest.mark.parametrize("kind", ["file", "symlink"])
def test_a_file_or_symlink_named_sessions_is_reported(vault: Vault, tmp_path: Path, kind: str) -> None:
    elsewhere = Vault.init(tmp_path / "elsewhere")
    three_sessions(elsewhere)
    if kind == "file":
        (vault.root / "sessions").write_text("mine")
    else:
        (vault.root / "sessions").symlink_to(elsewhere.root / "sessions")

    assert Sessions(vault).list() == []
    assert [problem.path for problem in Sessions(vault).check()] == ["sessions"]
    log = SessionLog(vault, "s-1")
    with pytest.raises(errors.InvalidNamespaceError, match="not a directory of the vault"):
        log.messages()
    with pytest.raises(errors.InvalidNamespaceError, match="not a directory of the vault"):
        log.append(text_message("x"))
    assert len(SessionLog(elsewhere, "s-1").messages()) == 2


def test_expired_sessions_are_moved_to_the_archive_whole(vault: Vault) -> None:
    sessions = three_sessions(vault)
    before = (vault.root / "sessions/s-1/main.agent.jsonl").read_bytes()
    SessionLog(vault, "s/2", clock=lambda: datetime(2026, 3, 9, tzinfo=UTC)).append(text_message("still talking"))

    assert [one.name for one in sessions.expired(30)] == ["s-1"]
    assert [one.name for one in sessions.list()] == ["s-1", "s-3", "s/2"]
    assert [(one.name, one.path) for one in sessions.expire(30)] == [("s-1", "archive/sessions/s-1")]
    assert (vault.root / "archive/sessions/s-1/main.agent.jsonl").read_bytes() == before
    assert [one.name for one in sessions.list()] == ["s-3", "s/2"]
    assert [one.name for one in Sessions(vault, archived=True).list()] == ["s-1"]
    assert len(SessionLog(vault, "s-1", archived=True).messages()) == 2
    assert vault.list(archived=True) == []
    assert sessions.expire(30) == []

    SessionLog(vault, "s-1", clock=lambda: datetime(2026, 1, 5, tzinfo=UTC)).append(text_message("again"))
    assert [one.path for one in sessions.expire(30)] == ["archive/sessions/s-1-2"]
    for days in (-1, True, "7", float("nan")):
        with pytest.raises(errors.InvalidSearchError):
            sessions.expire(days)  # type: ignore[arg-type]


def test_a_session_that_continues_after_expiry_gets_a_new_log(vault: Vault) -> None:
    log = SessionLog(vault, "s-1")
    log.append(text_message("one"))
    sessions = Sessions(vault, clock=lambda: datetime.now(UTC) + timedelta(days=1))

    assert [one.name for one in sessions.expire(0.5)] == ["s-1"]
    log.append(text_message("two"))
    assert texts(log) == ["two"]
    assert texts(SessionLog(vault, "s-1", archived=True)) == ["one"]


def test_sessions_of_the_archive_are_removed_and_checked_there(vault: Vault) -> None:
    SessionLog(vault, "s-1").append(text_message("one"))
    Sessions(vault, clock=lambda: datetime.now(UTC) + timedelta(days=1)).expire(0.5)
    SessionLog(vault, "s-1").append(text_message("two"))
    (vault.root / "archive/sessions/s-1/main.agent.jsonl~").write_text("")
    archive = Sessions(vault, archived=True, clock=lambda: datetime.now(UTC) + timedelta(days=1))

    assert [problem.path for problem in archive.check()] == ["archive/sessions/s-1/main.agent.jsonl~"]
    assert archive.expire(0.5) == []
    archive.remove("s-1")
    assert archive.list() == []
    assert texts(SessionLog(vault, "s-1")) == ["two"]


def test_a_session_is_removed_with_all_files_in_its_directory(vault: Vault) -> None:
    sessions = three_sessions(vault)
    shutil.copy(vault.root / "sessions/s-3/main.agent.jsonl", vault.root / "sessions/s-3/main.agent.jsonl~")

    sessions.remove("s-3")

    assert not (vault.root / "sessions/s-3").exists()
    assert [one.name for one in sessions.list()] == ["s-1", "s/2"]
    with pytest.raises(errors.SessionNotFoundError):
        sessions.remove("s-3")


def test_a_session_is_removed_with_directories_in_it(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("gone"))
    backup = vault.root / "sessions/s-1/.backup/old"
    backup.mkdir(parents=True)
    (backup / "copy").write_text("gone")
    (vault.root / "kept.md").write_text("Kept.")
    (backup / "link").symlink_to(vault.root, target_is_directory=True)

    Sessions(vault).remove("s-1")

    assert not (vault.root / "sessions/s-1").exists()
    assert (vault.root / "kept.md").read_text() == "Kept."
