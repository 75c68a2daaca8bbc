"""`memfs sessions`, `actors` and `expire`, and session logs in `memfs check`."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Memfs
from support.messages import text_message

from memfs import Vault
from memfs.agent.sessions import SessionLog, Sessions
from memfs.cli.completion import run_complete

NAME = "s-2026-11-15"


def test_sessions_are_listed_with_filters(memfs: Memfs, example: Path) -> None:
    SessionLog(example, "s/2", actor="bob").append(text_message("Hi."), time="2026-12-01T00:00:00Z")
    SessionLog(example, "s/2", "helper").append(text_message("Hi."), time="2026-12-02T00:00:00Z")

    listed = memfs("sessions")
    assert [line.split()[:2] for line in listed.out.splitlines()[1:3]] == [[NAME, "alice"], ["s/2", "bob"]]
    assert listed == memfs("sessions", "list")
    assert [one["session"] for one in json.loads(memfs("sessions", "--actor", "bob", "--json").out)] == ["s/2"]
    (found,) = json.loads(memfs("sessions", "list", "--where", "messages >= 4", "--json").out)
    assert found["session"] == NAME
    assert "1 older ones not shown" in memfs("sessions", "list", "--limit", "1").out
    assert memfs("sessions", "--actor", "nobody") == (1, "", "no sessions\n")
    assert json.loads(memfs("actors", "--json").out)[1]["name"] == "bob"


def test_a_session_is_shown_as_a_transcript(memfs: Memfs, example: Path) -> None:
    shown = memfs("sessions", "show", NAME)
    assert shown.code == 0
    assert '    [tool search_memory {"query": "sushi near the office"}]\n' in shown.out
    assert "user, 2026-11-15 10:30:00Z\n    I like sushi" in shown.out

    assert "helper" not in shown.out
    log = SessionLog(example, NAME, "helper")
    secret = log.append(text_message("\x1b[31mred\u202e"))
    assert "user (helper), " in memfs("sessions", "show", NAME).out
    assert "    \\x1b[31mred\\u202e\n" in memfs("sessions", "show", NAME, "--agent", "helper").out
    log.redact(secret.id, text_message("-"))
    assert "Z, redacted\n    -\n" in memfs("sessions", "show", NAME, "--agent", "helper").out
    log.fork("other", at=secret.id)
    log.append(text_message("another way"), branch="other")
    assert "another way" not in memfs("sessions", "show", NAME).out
    assert "another way" in memfs("sessions", "show", NAME, "--agent", "helper", "--branch", "other").out


def test_a_missing_session_agent_or_branch_is_an_error_with_a_hint(memfs: Memfs) -> None:
    for words, hint in (
        (["show", "nothing"], "List the sessions with `memfs sessions list`."),
        (["show", NAME, "--agent", "nothing"], "Its agents: main."),
        (["tail", NAME, "--branch", "nothing"], "Its branches: none."),
    ):
        done = memfs("sessions", *words)
        assert (done.code, done.out) == (1, "")
        assert "no such session" in done.err
        assert done.err.endswith(f"\nhint: {hint}\n")
    assert memfs("sessions", "export").code == 2
    assert memfs("sessions", "frobnicate").code == 2
    assert json.loads(memfs("sessions", "show", "nothing", "--json").err)["exit_code"] == 1


def test_no_matching_event_is_exit_code_1(memfs: Memfs) -> None:
    for action in ("show", "tail", "export"):
        done = memfs("sessions", action, NAME, "--where", "role = nope")
        assert (done.code, done.err) == (1, f"no event of {NAME} matches --where\n")
        assert memfs("sessions", action, NAME, "--where", "role = user").code == 0
    assert memfs("sessions", "show", NAME, "--where", "role = nope", "--json").value["events"] == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["show", NAME, "--format", "markdown"], "--format is for export, not for show"),
        (["export", NAME, "--follow"], "--follow is for tail, not for export"),
        (["show", NAME, "--actor", "nobody"], "--actor is for list, not for show"),
        (["list", "--agent", "main"], "--agent is for show and tail and export, not for list"),
    ],
)
def test_an_option_of_another_action_is_refused(memfs: Memfs, words: list[str], error: str) -> None:
    done = memfs("sessions", *words)

    assert (done.code, done.out) == (2, "")
    assert done.err == f"memfs: sessions: {error}\nhint: See `memfs sessions --help`.\n"


def test_an_export_prints_the_lines_of_the_log(memfs: Memfs, example: Path) -> None:
    SessionLog(example, NAME).append({"role": "user", "content": [{"image": {"bytes": b"\x00"}}, {"text": "ü"}]})
    lines = (example / f"sessions/{NAME}/main.agent.jsonl").read_text().splitlines()

    assert memfs("sessions", "export", NAME).out.splitlines() == lines[1:]
    assert memfs("sessions", "export", NAME, "--limit", "1").out.splitlines() == lines[-1:]
    page = memfs("sessions", "export", NAME, "--format", "markdown").out
    assert page.startswith(f"# Session {NAME}\n\n## user, 2026-11-15 10:30:00Z\n\nI like sushi")
    assert page.endswith("[image]\nü\n")


def test_tail_follows_until_it_is_stopped(example: Path) -> None:
    command = [sys.executable, "-m", "memfs", "--vault", str(example), "sessions", "tail", NAME, "-f", "--limit", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert "It opens at noon." in process.stdout.readline()

    SessionLog(example, NAME).append(text_message("more"))
    assert process.stdout.readline().endswith("Z user: more\n")
    SessionLog(example, NAME, "helper").append(text_message("and more"))
    assert process.stdout.readline().endswith("Z user (helper): and more\n")

    shutil.move(example / f"sessions/{NAME}", example / "aside")  # as git does when it checks out another branch
    SessionLog(example, NAME).append(text_message("started again"))
    assert process.stdout.readline().endswith("Z user: started again\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    process.stdout.close()


def test_a_session_without_an_action_gets_a_suggestion(memfs: Memfs, example: Path) -> None:
    for words in ([NAME], ["list", NAME]):
        done = memfs("sessions", *words)
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith(f"\nhint: Did you mean `memfs sessions show {NAME}`?\n")
    assert memfs("sessions", "ls").err.endswith("\nhint: See `memfs sessions --help`.\n")

    Sessions(example).expire(0)
    assert memfs("sessions", "show", NAME).err.endswith("\nhint: It is archived: add --archived.\n")


def test_tail_ends_when_its_reader_goes_away(example: Path) -> None:
    command = [sys.executable, "-m", "memfs", "--vault", str(example), "sessions", "tail", NAME, "-f", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert json.loads(process.stdout.readline())["agent"] == "main"

    process.stdout.close()

    assert process.wait(30) == 0


def test_expire_moves_sessions_only_with_yes(memfs: Memfs, example: Path) -> None:
    SessionLog(example, "today").append(text_message("Hi."))

    dry = memfs("expire", "0.0001", "--json")
    assert json.loads(dry.out)["moved"] is False
    assert [one["session"] for one in json.loads(dry.out)["sessions"]] == [NAME]
    assert (example / "sessions" / NAME).is_dir()
    assert "1 session would move" in memfs("expire", "0.0001").out
    assert memfs("expire", "0.0001", "--yes").out == f"moved to archive/sessions/{NAME}\n"
    assert memfs("expire", "0.0001").out == "no session is older than 0.0001 days\n"
    assert memfs("sessions", "show", NAME, "--archived").code == 0
    assert memfs("expire", "-1").code == memfs("expire", "soon").code == memfs("expire").code == 2


def test_check_shows_problems_in_session_logs(memfs: Memfs, example: Path) -> None:
    file = example / f"sessions/{NAME}/main.agent.jsonl"
    file.with_name("main.agent (copy).jsonl").write_bytes(file.read_bytes())
    with file.open("a") as stream:
        stream.write("<<<<<<< HEAD\n")

    done = memfs("check")

    assert done.code == 1
    assert f"sessions/{NAME}/main.agent.jsonl:6: a conflict marker of git: skipped\n" in done.out
    assert f"sessions/{NAME}/main.agent (copy).jsonl:1: a copy of a log, or a file of an editor: not read" in done.out
    assert "3 problems in 45 memories, 2 of them in archive/" in done.out
    assert memfs("sessions", "show", NAME).code == 0
    assert "sessions/" not in memfs("check", "/facts").out


def test_session_names_are_completed(
    vault: Vault, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    SessionLog(vault, "a b/c").append(text_message("x"))
    SessionLog(vault, "abc").append(text_message("x"))
    monkeypatch.chdir(vault.root)

    run_complete(["sessions", "t"])
    run_complete(["sessions", "tail", "a"])
    run_complete(["sessions", "export", "abc", "--format", "m"])

    assert capsys.readouterr().out.splitlines() == ["tail", "a b/c", "abc", "markdown"]


def test_events_of_several_agents_are_shown_in_order_of_time(memfs: Memfs, example: Path) -> None:
    one, two = SessionLog(example, "room", "one", actor="alice"), SessionLog(example, "room", "two", actor="bob")
    for number in range(3):
        one.append(text_message(f"one {number}"), id=f"zz-{9 - number}", time=f"2026-11-15T10:30:0{2 * number}Z")
        two.append(text_message(f"two {number}"), time=f"2026-11-15T10:30:0{2 * number + 1}Z")

    lines = memfs("sessions", "tail", "room").out.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["one 0", "two 0", "one 1", "two 1", "one 2", "two 2"]
    assert lines[0].endswith(" user (one): one 0")
    assert "## user (two), " in memfs("sessions", "export", "room", "--format", "markdown").out
    assert "with alice, bob, 6 messages" in memfs("sessions", "show", "room").out
    assert [line.split()[0] for line in memfs("actors").out.splitlines()[-2:]] == ["alice", "bob"]


def test_a_branch_is_shown_only_from_the_logs_that_have_it(memfs: Memfs, example: Path) -> None:
    one = SessionLog(example, "room", "one")
    one.fork("alt", at=one.append(text_message("trunk")).id)
    one.append(text_message("branch"), branch="alt")
    SessionLog(example, "room", "two").append(text_message("elsewhere"))

    assert memfs("sessions", "show", "room").out.startswith("session room, 3 messages; branches: alt\n")
    assert json.loads(memfs("sessions", "show", "room", "--json").out)["branches"] == ["alt"]
    shown = memfs("sessions", "show", "room", "--branch", "alt").out
    assert "branch" in shown
    assert "elsewhere" not in shown
    missed = memfs("sessions", "show", "room", "--branch", "none").err
    assert "'none': no such" in missed
    assert "hint: Its branches: alt." in missed


def test_an_invalid_number_of_days_has_a_hint(memfs: Memfs) -> None:
    assert "hint: Give a number from 0, such as 90." in memfs("expire", "-1").err
