"""SessionLog: appends of several processes, damaged lines, git merges, read and write errors."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.commands import Git, Script
from support.files import open_paths
from support.messages import text_message

from memfs import Vault, errors
from memfs.agent.sessions import SessionLog
from memfs.agent.sessions.events import format_time
from memfs.agent.sessions.log_parser import parse_log, select_lines
from memfs.ids import is_id, new_id

KEYS = ["memfs:bytes", "memfs::bytes", "memfs:::bytes", "id", "message"]
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text() | some.binary(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text() | some.sampled_from(KEYS), inner),
    max_leaves=20,
)


@pytest.fixture
def log(vault: Vault) -> SessionLog:
    return SessionLog(vault, "s-1", actor="alice")


def log_path(vault: Vault, log: SessionLog) -> Path:
    return vault.root / log.path


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Run Python text in a process of its own, with its streams open."""
    imports = "import sys, os; from memfs.agent.sessions import SessionLog\n"
    command = [sys.executable, "-c", imports + code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# --- appending and reading ------------------------------------------------------------------------


def test_a_message_is_a_line_of_json_in_the_vault(vault: Vault, log: SessionLog) -> None:
    event = log.append(text_message("Hello"), metadata={"channel": "web"})

    header, line = map(json.loads, log_path(vault, log).read_text().splitlines())
    assert log.path == "sessions/s-1/main.agent.jsonl"
    assert (header["memfs"], header["session"], header["agent"], header["actor"]) == (1, "s-1", "main", "alice")
    assert line == {
        "id": event.id, "time": line["time"], "message": text_message("Hello"), "metadata": {"channel": "web"},
    }  # fmt: skip


@given(JSON)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    from memfs.agent.sessions.line_encoder import encode_line

    line = encode_line({"id": "e-1", "time": "", "message": {"role": "user", "content": value}})

    assert line.count(b"\n") == 1
    (event,) = parse_log(line, "x").events
    assert repr(event.message["content"]) == repr(value)


def test_select_lines_yields_the_header_and_the_matching_lines() -> None:
    assert list(select_lines(b"header\na x\nb\nx c x\nd", b"x")) == [b"header", b"a x", b"x c x"]
    assert list(select_lines(b"header x\nx", b"x")) == [b"header x", b"x"]
    assert list(select_lines(b"header", b"x")) == [b"header"]
    assert list(select_lines(b"", b"x")) == [b""]


def test_a_lone_surrogate_survives(log: SessionLog) -> None:
    log.append(text_message("half \ud83d of it, \u2028 and \x00"))

    assert log.messages() == [text_message("half \ud83d of it, \u2028 and \x00")]


def test_the_same_id_is_appended_once(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("once"), id="turn-1")
    log.append(text_message("twice"), id="turn-1")
    SessionLog(vault, "s-1").append(text_message("thrice"), id="turn-1")
    log.append_many(
        [{"message": text_message("four"), "id": "turn-2"}, {"message": text_message("five"), "id": "turn-2"}]
    )

    assert log.messages() == [text_message("once"), text_message("four")]


def test_ids_sort_in_append_order_even_if_the_clock_goes_back(vault: Vault) -> None:
    times = iter([datetime(2026, 1, 1, 0, 0, 9 - second // 2, tzinfo=UTC) for second in range(20)])
    log = SessionLog(vault, "s-1", clock=lambda: next(times))

    ids = [log.append(text_message(str(number))).id for number in range(8)]

    assert ids == sorted(set(ids))
    assert [message["content"][0]["text"] for message in log.messages()] == list("01234567")


def test_an_unencodable_message_is_refused_before_anything_is_written(vault: Vault, log: SessionLog) -> None:
    circle: list[Any] = []
    circle.append(circle)
    for bad in ({"content": object()}, {"content": circle}, {"content": {1, 2}}):
        with pytest.raises(errors.InvalidMemoryError):
            log.append(bad)
    with pytest.raises(errors.InvalidMemoryError, match="message"):
        log.append("text")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidMemoryError, match="a reserved key of the log"):
        log.append(text_message("x"), redacted=True)
    with pytest.raises(errors.InvalidMemoryError, match="not a time"):
        log.append(text_message("x"), time="yesterday")

    assert not (vault.root / "sessions").exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "/", ".", "..", "con", "-x", "~x", " ", "x.md", "ü%41", "{0}", "a\\b"])
def test_any_session_name_becomes_one_path_segment(vault: Vault, name: str) -> None:
    if not name.strip():
        with pytest.raises(errors.InvalidNamespaceError):
            SessionLog(vault, name)
        return
    log = SessionLog(vault, name, name, actor=name)
    log.append(text_message("x"))

    found = [path for path in vault.root.rglob("*.jsonl") if path.is_file()]
    assert [path.parent.parent for path in found] == [vault.root / "sessions"]
    assert SessionLog(vault, name, name).messages() == [text_message("x")]


@pytest.mark.parametrize("name", ["", "x" * 300, "\ud800", None, 7])
def test_an_invalid_name_is_refused(vault: Vault, name: Any) -> None:
    with pytest.raises(errors.InvalidNamespaceError):
        SessionLog(vault, name)
    with pytest.raises(errors.InvalidNamespaceError):
        SessionLog(vault, "s-1", name)


def test_a_session_whose_name_differs_in_case_only_is_refused(vault: Vault) -> None:
    SessionLog(vault, "Alice").append(text_message("mine"))

    with pytest.raises(errors.InvalidNamespaceError, match="but for case"):
        SessionLog(vault, "alice").append(text_message("yours"))
    assert SessionLog(vault, "alice").messages() == []


def test_a_scope_has_no_access_to_sessions(vault: Vault) -> None:
    with pytest.raises(errors.InvalidNamespaceError, match="outside of this scope"):
        SessionLog(vault.scope("/facts"), "s-1")


# --- several processes --------------------------------------------------------------------------------

WRITER = """
log = SessionLog(sys.argv[1], "s-1", actor="alice")
print("ready", flush=True); sys.stdin.readline()
for number in range(int(sys.argv[3])):
    log.append({"role": "user", "content": [{"text": f"{sys.argv[2]}:{number}"}]})
"""


def test_four_processes_lose_no_message_and_keep_their_order(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("first:0"))
    writers = [start(WRITER, vault.root, name, 50) for name in "abcd"]
    for writer in writers:
        assert writer.stdout
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    log.append(text_message("last:0"))

    events = log.events()
    texts = [event.message["content"][0]["text"].split(":") for event in events]
    assert len({event.id for event in events}) == len(events) == 202
    assert [event.id for event in events] == sorted(event.id for event in events)
    for name in "abcd":
        assert [int(number) for writer_name, number in texts if writer_name == name] == list(range(50))
    assert (texts[0][0], texts[-1][0]) == ("first", "last")
    for writer in writers:
        for stream in (writer.stdin, writer.stdout):
            assert stream
            stream.close()


KILLED = """
log = SessionLog(sys.argv[1], "s-1")
number = 0
while True:
    log.append({"role": "user", "content": [{"text": f"{sys.argv[2]}:{number} " + "x" * 20000}]})
    print(number, flush=True)
    number += 1
"""


def test_an_acknowledged_message_survives_kill_9(vault: Vault, log: SessionLog) -> None:
    generator, acknowledged = random.Random(7), {}
    for turn in range(12):
        writer = start(KILLED, vault.root, turn)
        assert writer.stdout
        for _ in range(generator.randrange(1, 12)):
            acknowledged[turn] = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split("\n")
        acknowledged[turn] = max([acknowledged[turn], *(int(line) for line in rest[:-1])])
        writer.wait()
        writer.stdout.close()
        assert writer.stdin
        writer.stdin.close()
    log.append(text_message("after"))

    texts = [message["content"][0]["text"].split()[0] for message in log.messages()]
    for turn, last in acknowledged.items():
        got = [int(text.split(":")[1]) for text in texts if text.startswith(f"{turn}:")]
        assert got == list(range(len(got)))
        assert last < len(got) <= last + 2
    assert texts[-1] == "after"


def test_an_append_reads_only_the_part_that_others_appended(
    vault: Vault, log: SessionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        log.append(text_message(f"{number}"))
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or pread(fd, size, at))  # type: ignore[func-returns-value]

    log.append(text_message("mine"))
    assert read == []

    before = log_path(vault, log).stat().st_size
    SessionLog(vault, "s-1").append(text_message("another's"))
    read.clear()
    log.append(text_message("mine again"))
    assert sum(read) == log_path(vault, log).stat().st_size - before - len(line(vault, log, -1)) + 1


def line(vault: Vault, log: SessionLog, at: int) -> bytes:
    return log_path(vault, log).read_bytes().splitlines(keepends=True)[at]


def test_a_forked_child_appends_beside_its_parent(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("before"))
    child = os.fork()
    if not child:
        if any(path.endswith("sessions/s-1") for path in open_paths()):
            os._exit(1)  # it would hold its parent's lock when that is killed
        for number in range(20):
            log.append(text_message(f"child {number}"))
        os._exit(0)
    for number in range(20):
        log.append(text_message(f"parent {number}"))
    assert os.waitpid(child, 0)[1] == 0

    events = log.events()
    assert len(events) == len({event.id for event in events}) == 41


# --- damage by people, editors and git ------------------------------------------------------------


def test_a_torn_last_line_is_skipped_and_terminated(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("whole"))
    with log_path(vault, log).open("ab") as file:
        file.write(b'{"id":"e-x","time":"2026-01-01T00:00:00Z","message":{"role":"us')

    assert log.messages() == [text_message("whole")]
    log.append(text_message("next"))
    SessionLog(vault, "s-1").append(text_message("and next"))
    assert log.messages() == [text_message("whole"), text_message("next"), text_message("and next")]
    assert [(one.line, one.reason) for one in log.problems()] == [(3, "not JSON, or cut short: skipped")]


def test_a_last_line_without_a_newline_is_read_and_kept(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("one"))
    file = log_path(vault, log)
    file.write_bytes(file.read_bytes().rstrip(b"\n"))

    assert log.messages() == [text_message("one")]
    log.append(text_message("two"))
    assert log.messages() == [text_message("one"), text_message("two")]
    assert log.problems() == []


def test_invalid_lines_are_reported_and_skipped(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("good"))
    bad = [
        b"<<<<<<< HEAD", b"=======", b">>>>>>> other", b"not json", b"[1, 2]", b'{"no": "id"}', b'{"id": "x"}',
        b'{"id": 7, "message": {}}', b'{"id": "y", "message": "text"}', b'\xff\xfe{"id": "z"}', b'{"id": "n\x00"}',
        b"[" * 100_000, b'{"id": "d", "message": ' + b'{"a":' * 100_000,
        b'{"id": "i", "message": {"n": ' + b"9" * 5000 + b"}}",
    ]  # fmt: skip
    with log_path(vault, log).open("ab") as file:
        file.write(b"".join(line + b"\n" for line in bad))
    log.append(text_message("better"))

    assert log.messages() == [text_message("good"), text_message("better")]
    problems = log.problems()
    assert [one.line for one in problems] == list(range(3, 3 + len(bad)))
    assert {one.path for one in problems} == {log.path}
    assert "conflict marker" in problems[0].reason
    assert "merge=union" in problems[0].hint


def test_a_log_of_a_newer_memfs_is_refused(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("x"))
    file = log_path(vault, log)
    file.write_text(file.read_text().replace('"memfs":1', '"memfs":2'))

    with pytest.raises(errors.StorageError, match="made by a newer memfs") as caught:
        log.messages()
    assert "Install a later memfs" in caught.value.hint
    with pytest.raises(errors.StorageError, match="made by a newer memfs"):
        SessionLog(vault, "s-1").append(text_message("y"))


def test_a_byte_order_mark_does_not_hide_the_owner_of_a_log(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("mine"))
    file = log_path(vault, log)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())

    assert (log.messages(), log.problems(), log.owner) == ([text_message("mine")], [], "alice")
    with pytest.raises(errors.OtherActorError):
        SessionLog(vault, "s-1", actor="bob").messages()


def test_a_git_merge_of_two_branches_keeps_every_message_of_a_session(vault: Vault, log: SessionLog, git: Git) -> None:
    git(vault.root, "init", "-q")
    log.append_many([{"message": text_message("one")}, {"message": text_message("two")}])
    git(vault.root, "add", ".")
    git(vault.root, "commit", "-qm", "started")
    git(vault.root, "switch", "-qc", "laptop")
    log.append(text_message("laptop 1"))
    log.append(text_message("laptop 2"))
    git(vault.root, "commit", "-qam", "laptop")
    git(vault.root, "switch", "-q", "main")
    log.append(text_message("desk 1"))
    git(vault.root, "commit", "-qam", "desk")
    git(vault.root, "merge", "-q", "-m", "merged", "laptop")
    log.append(text_message("after"))

    texts = [message["content"][0]["text"] for message in log.messages()]
    assert texts == ["one", "two", "laptop 1", "laptop 2", "desk 1", "after"]
    assert log.problems() == []
    ids = [event.id for event in log.events()]
    assert ids == sorted(set(ids))


def test_a_session_that_two_machines_created_is_merged_too(vault: Vault, git: Git) -> None:
    git(vault.root, "init", "-q")
    git(vault.root, "add", ".")
    git(vault.root, "commit", "-qm", "vault")
    for name in ("laptop", "desk"):
        git(vault.root, "switch", "-qc", name, "main")
        SessionLog(vault, "s-1", actor="alice").append_many(
            [{"message": text_message("common"), "id": "t-1"}, {"message": text_message(name)}]
        )
        git(vault.root, "add", "sessions")
        git(vault.root, "commit", "-qm", name)
    git(vault.root, "merge", "-q", "-m", "merged", "laptop")

    log = SessionLog(vault, "s-1")
    texts = [message["content"][0]["text"] for message in log.messages()]
    assert sorted(texts) == ["common", "desk", "laptop"]
    header = log.read().header
    assert header is not None
    assert header.actor == "alice"


# --- read and write errors -------------------------------------------------------------------


def test_a_read_error_raises_instead_of_returning_an_empty_history(vault: Vault, log: SessionLog) -> None:
    log.append(text_message("there"))
    file = log_path(vault, log)
    file.rename(file.with_suffix(".aside"))
    file.symlink_to(file.with_suffix(".aside"))
    with pytest.raises(errors.StorageError, match="cannot be read"):
        log.messages()

    file.unlink()
    os.mkfifo(file)
    with pytest.raises(errors.StorageError, match="not a regular file"):
        log.messages()
    with pytest.raises(errors.StorageError, match="not a regular file"):
        log.append(text_message("x"))

    file.unlink()
    file.mkdir()
    with pytest.raises(errors.StorageError):
        log.messages()


def test_a_log_without_read_permission_raises(public_path: Path, run_script: Script) -> None:
    vault = Vault.init(public_path / "vault")
    SessionLog(vault, "s-1").append(text_message("there"))
    (vault.root / "sessions/s-1/main.agent.jsonl").chmod(0)

    done = run_script(
        "from memfs.agent.sessions import SessionLog\n"
        "try: print(SessionLog(sys.argv[1], 's-1').messages())\n"
        "except errors.StorageError as error: print('raised', error)",
        vault.root, ordinary=True,
    )  # fmt: skip

    assert done.stdout.startswith("raised sessions/s-1/main.agent.jsonl: cannot be read"), done.stderr


def test_a_log_on_a_read_only_disk_can_be_read(mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=4m")
    vault = Vault.init(disk / "vault")
    with SessionLog(vault, "s-1") as writer:
        writer.append(text_message("there"))
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    log = SessionLog(vault, "s-1")
    assert log.messages() == [text_message("there")]
    with pytest.raises(errors.ReadOnlyError):
        log.append(text_message("x"))


def test_a_full_disk_loses_no_message_and_leaves_no_partial_line(mount_tmpfs: Callable[[str], Path]) -> None:
    vault = Vault.init(mount_tmpfs("size=1m") / "vault")
    log = SessionLog(vault, "s-1")
    acknowledged: list[str] = []

    def fill() -> None:
        while True:
            acknowledged.append(log.append(text_message(f"{len(acknowledged)} " + "x" * 50_000)).id)

    with pytest.raises(errors.NoSpaceError):
        fill()

    assert [event.id for event in log.events()] == acknowledged
    assert log.problems() == []
    log.append(text_message("there is space for a little"))
    assert len(log.events()) == len(acknowledged) + 1


def test_a_hostile_log_of_50_mb_does_not_exhaust_memory(vault: Vault, run_script: Script) -> None:
    SessionLog(vault, "s-1").append(text_message("good"))
    with (vault.root / "sessions/s-1/main.agent.jsonl").open("ab") as file:
        file.write(b'{"id":"long","message":{"content":"' + b"x" * (34 << 20) + b'"}}\n')
        file.write(b'{"id":"%d","message":{"content":"' % 1 + b"\x00" * 1_000_000 + b'"}}\n')
        file.write(b"[" * 5_000_000 + b"\n" + b"\xff" * 5_000_000 + b"\n" + b"\n" * 5_000_000)

    done = run_script(
        "from memfs.agent.sessions import SessionLog\n"
        "log = SessionLog(sys.argv[1], 's-1')\n"
        "log.append({'role': 'user', 'content': 'more'})\n"
        "print(len(log.messages()), [one.line for one in log.problems()])",
        vault.root, memory=2 << 30,
    )  # fmt: skip

    assert done.stdout == "2 [3, 4, 5, 6]\n", done.stderr


def test_events_stay_in_order_under_a_clock_before_1970(vault: Vault) -> None:
    now = [datetime(1969, 7, 20, tzinfo=UTC)]
    log = SessionLog(vault, "s-1", clock=lambda: now[0])
    log.append(text_message("landed"))
    log.append(text_message("walked"))
    now[0] = datetime(2026, 11, 15, tzinfo=UTC)
    log.append(text_message("back"))

    events = SessionLog(vault, "s-1").events()
    assert [event.message["content"][0]["text"] for event in events] == ["landed", "walked", "back"]
    assert [event.id for event in events] == sorted(event.id for event in events)
    assert all(is_id(event.id, "e") for event in events)


@pytest.mark.parametrize(
    ("after", "then"),
    [
        ("e-7" + "y" * 25, "e-7" + "y" * 24 + "z"),
        ("e-7" + "y" * 24 + "z", "e-7" + "y" * 23 + "z0"),
        ("e-7h" + "z" * 24, "e-7j" + "0" * 24),
        ("e-0" + "z" * 25, "e-1" + "0" * 25),
    ],
)
def test_an_id_sorts_directly_after_a_later_one(after: str, then: str) -> None:
    assert new_id(datetime(1970, 1, 1, tzinfo=UTC), kind="e", after=after) == then


def test_no_id_sorts_after_the_last_possible_one() -> None:
    last = "e-7" + "z" * 25

    assert new_id(datetime(2026, 11, 17, tzinfo=UTC), kind="e", after=last) < last


@given(some.datetimes(timezones=some.just(UTC) | some.timezones()))
def test_an_id_and_a_time_have_millisecond_precision(now: datetime) -> None:
    text, name = format_time(now), new_id(now)

    assert text == now.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    since = (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    digits = str.maketrans("0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv")
    assert is_id(name, "m")
    assert int(name[2:12].translate(digits), 32) == max(since, 0)


def test_a_clock_without_a_time_zone_is_taken_as_local_time(vault: Vault) -> None:
    now = datetime(2026, 11, 17, 10, 30, 15, 123456, tzinfo=UTC).replace(tzinfo=None)
    event = SessionLog(vault, "s-1", clock=lambda: now).append(text_message("Hello"))

    assert event.time == now.astimezone(UTC).replace(microsecond=123000)
    assert event.id[:12] == new_id(now.astimezone(UTC), kind="e")[:12]
