"""`memfs strategies run`: distil a session again."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Memfs

from memfs import Vault
from memfs.agent.sessions.session_log import SessionLog

SUSHI = {"content": "Alice likes sushi with tuna.", "context": "Said at lunch.", "categories": ["food"]}


@pytest.fixture
def session(example: Path) -> Vault:
    """The example vault, with a session of two agents."""
    vault = Vault(example)
    for name, texts in {
        "main": ["I like sushi with tuna.", "Noted, sushi it is."],
        "aside": ["It rains in Porto."],
    }.items():
        with SessionLog(vault, "s-9", name, actor="alice") as log:
            for number, text in enumerate(texts):
                log.append({"role": "assistant" if number else "user", "content": [{"text": text}]}, index=number + 4)
    return vault


def script(folder: Path, *replies: Any) -> str:
    path = folder / "replies.json"
    path.write_text(json.dumps(replies))
    return str(path)


def test_without_a_model_the_summary_is_extractive_and_the_others_are_off(memfs: Memfs, session: Vault) -> None:
    ran = memfs("strategies", "run", "s-9")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "s-9: 3 messages of alice",
        "summary /summaries/alice/s-9: extractive, because there is no model",
        "  created summaries/alice/s-9/summary.md",
        "preferences /preferences/alice: off: it needs a model; give one with --model",
        "facts /facts/alice: off: it needs a model; give one with --model",
    ]
    body = session.read("summaries/alice/s-9/summary.md").body
    assert "- user: I like sushi with tuna." in body
    assert "- user: It rains in Porto." in body


def test_running_a_strategy_again_changes_nothing(memfs: Memfs, session: Vault) -> None:
    memfs("strategies", "run", "s-9")
    before = session.read("summaries/alice/s-9/summary.md").text

    assert "  " not in memfs("strategies", "run", "s-9", "--strategy", "summary").out
    assert session.read("summaries/alice/s-9/summary.md").text == before


def test_a_script_replaces_a_model_and_json_has_stable_keys(memfs: Memfs, session: Vault, tmp_path: Path) -> None:
    replies = script(tmp_path, [], [SUSHI])
    ran = memfs("strategies", "run", "s-9", "--strategy", "preferences", "--script", replies, "--json")

    (memory,) = [memory for memory in session.list("/preferences/alice") if "Said at lunch" in memory.body]
    assert ran.code == 0
    assert ran.value == {
        "session": "s-9",
        "actor": "alice",
        "messages": 3,
        "model": "ScriptedModel",
        "strategies": [
            {
                "actor": "alice",
                "name": "preferences",
                "namespace": "/preferences/alice",
                "state": "done",
                "changes": [{"outcome": "created", "path": memory.path}],
            }
        ],
    }
    assert memory.header.source == "session s-9, message 4"


def test_a_model_is_named_by_its_module_or_by_the_environment(
    memfs: Memfs, session: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my_models.py").write_text("def quiet(messages):\n    return '[]'\n\nnothing = 3\n")
    monkeypatch.setenv("MEMFS_MODEL", "my_models:quiet")

    assert memfs("strategies", "run", "s-9", "--json").value["model"] == "quiet"
    assert memfs("strategies", "run", "s-9", "--model", "my_models:quiet").code == 0
    wrong = {"my_models": "is not MODULE:NAME", "my_models:nothing": "is not a model"}
    missing = dict.fromkeys(("my_models:gone", "no_such:x"), "cannot be imported")
    for odd, reason in {**wrong, **missing}.items():
        ran = memfs("strategies", "run", "s-9", "--model", odd)
        assert ran.code == 2
        assert reason in ran.err


def test_turns_with_an_unreadable_reply_are_kept_and_reported(memfs: Memfs, session: Vault, tmp_path: Path) -> None:
    replies = script(tmp_path, "prose", "more prose", "prose", "and more")
    ran = memfs("strategies", "run", "s-9", "--strategy", "facts", "--script", replies)

    assert ran.code == 1
    assert "failed: its turns are kept, see `memfs retry`" in ran.out
    assert len(memfs("retry", "--json").value["failed"]) == 2


def test_episodes_come_with_reflections(memfs: Memfs, session: Vault, tmp_path: Path) -> None:
    ran = memfs(
        "strategies", "run", "s-9", "--strategy", "episodes", "--script", script(tmp_path, [], [], [], []), "--json"
    )

    assert [(one["name"], one["namespace"]) for one in ran.value["strategies"]] == [
        ("episodes", "/episodes/alice/s-9"), ("episodes-reflections", "/episodes/alice"),
    ]  # fmt: skip


def test_namespace_templates_come_from_the_settings(memfs: Memfs, session: Vault) -> None:
    Path("memfs.yaml").write_text('namespaces:\n  summary: "/short/{sessionId}"\n')

    assert "  created short/s-9/summary.md" in memfs("strategies", "run", "s-9", "--strategy", "summary").out


def test_a_missing_session_or_one_without_an_actor_is_an_error(memfs: Memfs, session: Vault) -> None:
    Path("memfs.yaml").write_text("version: 1\n")
    SessionLog(session, "anonymous").append({"role": "user", "content": "hello"})

    ran = memfs("strategies", "run", "nothing")
    assert ran.code == 1
    assert ran.err.startswith("memfs: 'nothing': no such session")
    ran = memfs("strategies", "run", "anonymous")
    assert ran.code == 2
    assert "hint: Give --actor NAME" in ran.err
    assert memfs("strategies", "run", "anonymous", "--actor", "bob").out.startswith("anonymous: 1 message of bob")


def test_each_actors_messages_are_distilled_only_for_that_actor(memfs: Memfs, session: Vault) -> None:
    for who in ("alice", "bob"):
        SessionLog(session, "room", f"for-{who}", actor=who).append(
            {"role": "user", "content": f"Code of {who} is 99."}
        )

    ran = memfs("strategies", "run", "room", "--strategy", "summary")
    assert [line for line in ran.out.splitlines() if line.startswith("room")] == [
        "room: 1 message of alice", "room: 1 message of bob",
    ]  # fmt: skip
    for who, other in (("alice", "bob"), ("bob", "alice")):
        body = session.read(f"summaries/{who}/room/summary.md").body
        assert f"Code of {who}" in body
        assert other not in body
    value = memfs("strategies", "run", "room", "--strategy", "summary", "--json").value
    assert (value["actor"], [one["actor"] for one in value["strategies"]]) == (None, ["alice", "bob"])


def test_the_actor_option_selects_its_own_logs_and_those_without_an_actor(memfs: Memfs, session: Vault) -> None:
    Path("memfs.yaml").write_text("version: 1\n")
    for name, who in {"a": "alice", "b": "bob", "c": ""}.items():
        SessionLog(session, "room", name, actor=who).append({"role": "user", "content": f"Said by {name}."})

    ran = memfs("strategies", "run", "room")
    assert ran.code == 2
    assert "the log of 'c' names no actor" in ran.err
    assert "hint: Give --actor NAME" in ran.err
    assert not list(session.list("/summaries/bob/room"))
    assert memfs("strategies", "run", "room", "--actor", "bob").out.startswith("room: 2 messages of bob")
    assert not list(session.list("/summaries/alice/room"))
    ran = memfs("strategies", "run", "s-9", "--actor", "bob")
    assert ran.code == 2
    assert "hint: The session belongs to alice." in ran.err


def test_messages_of_agentcore_are_distilled_too(memfs: Memfs, session: Vault) -> None:
    part = {"conversational": {"role": "USER", "content": {"text": "Code of alice is 99."}}}
    SessionLog(session, "core", "alice", actor="alice").append_payload([part, {"blob": "x"}])

    assert memfs("strategies", "run", "core").out.startswith("core: 1 message of alice")
    assert "Code of alice" in session.read("summaries/alice/core/summary.md").body


@pytest.mark.parametrize("text", ["{", "{}", '"x"'])
def test_an_invalid_script_is_an_error(memfs: Memfs, session: Vault, tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    ran = memfs("strategies", "run", "s-9", "--script", str(tmp_path / "odd.json"))

    assert ran.code == 2
    assert "odd.json" in ran.err


def test_a_session_without_a_message_is_no_error(memfs: Memfs, session: Vault) -> None:
    SessionLog(session, "silent", actor="alice").set_state({"mood": "quiet"})

    for more in ((), ("--actor", "alice")):
        ran = memfs("strategies", "run", "silent", *more)
        assert (ran.code, ran.out) == (0, "silent: no messages\n")
