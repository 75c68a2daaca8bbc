"""Sessions of Strands agents: the real Agent and RepositorySessionManager over a vault, offline."""

import copy
import itertools
import json
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from support.files import Snapshot

from memfs import Vault, errors
from memfs.agent.sessions import SessionLog, Sessions
from memfs.integrations.strands import MemoryManager, ScriptedModel, VaultSessionRepository, VaultStore

SECRET = "sk-live-4242-secret"


@tool
def picture(name: str) -> dict[str, Any]:
    """Show a picture.

    Args:
        name: which one
    """
    image = {"format": "png", "source": {"bytes": b"\x89PNG\x00\xff" + name.encode()}}
    return {"status": "success", "content": [{"text": name}, {"image": image}, {"json": {"memfs:bytes": "x"}}]}


def make_agent(vault: Vault, *replies: Any, session: str = "s-1", **options: Any) -> Agent:
    """Return an agent with a new session manager on a session of a vault, as after a restart."""
    model = ScriptedModel(itertools.chain(replies, itertools.repeat("ok")))
    if "session_manager" not in options:
        repository = VaultSessionRepository(vault)
        options["session_manager"] = RepositorySessionManager(session_id=session, session_repository=repository)
    return Agent(model=model, agent_id="main", tools=[picture], callback_handler=None, **options)


def make_agent_without_window(vault: Vault) -> Agent:
    """Return an agent that keeps all messages, also beyond the window of Strands."""
    return make_agent(vault, conversation_manager=NullConversationManager())


def make_session_agent(name: str, **state: Any) -> SessionAgent:
    return SessionAgent(agent_id=name, state=state, conversation_manager_state={})


def message(text: str, number: int) -> SessionMessage:
    return SessionMessage.from_message({"role": "user", "content": [{"text": text}]}, number)


@pytest.fixture
def repository(vault: Vault) -> VaultSessionRepository:
    made = VaultSessionRepository(vault, actor="alice")
    made.create_session(Session("s-1", SessionType.AGENT))
    made.create_agent("s-1", make_session_agent("main", key="value"))
    return made


# --- an agent continues after a restart --------------------------------------------------------------------


def test_a_restarted_agent_has_the_same_history(vault: Vault) -> None:
    agent = make_agent(vault, [{"tool": "picture", "input": {"name": "ü\u2028"}}, "Look:"], "That is it.")
    agent.state.set("mood", {"good": [1, 2.5, None]})
    agent("Show me a picture.")
    agent("And now?")

    again = make_agent(vault)

    assert again.messages == agent.messages
    assert len(agent.messages) == 6
    assert again.state.get() == {"mood": {"good": [1, 2.5, None]}}
    again("Go on.")
    assert make_agent(vault).messages == again.messages


def test_injected_memories_are_not_in_the_log(vault: Vault) -> None:
    vault.add("Alice keeps a zebra in the garden.", "/facts")
    manager = MemoryManager([VaultStore(vault, "/facts")], search_tool_config=True)
    agent = make_agent(
        vault, {"tool": "search_memory", "input": {"query": "zebra"}}, "A zebra.", memory_manager=manager
    )
    agent("What lives in the garden?")

    assert "keeps a zebra" in agent.model.calls[0].text  # type: ignore[attr-defined]
    log = SessionLog(vault, "s-1").messages()
    assert log == agent.messages
    assert "<memory>" not in json.dumps(log)
    assert make_agent(vault, memory_manager=MemoryManager([VaultStore(vault, "/facts")])).messages == agent.messages


PROGRAM = """
import itertools, sys
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.session.repository_session_manager import RepositorySessionManager
from memfs.integrations.strands import ScriptedModel, VaultSessionRepository

@tool
def look(at: str) -> str:
    "Look at something."
    return at * 2000

turn = itertools.cycle([{"tool": "look", "input": {"at": sys.argv[2]}}, "seen"])
sessions = RepositorySessionManager("s-1", VaultSessionRepository(sys.argv[1]))
options = {"conversation_manager": NullConversationManager(), "callback_handler": None}
agent = Agent(ScriptedModel(turn), agent_id="main", session_manager=sessions, tools=[look], **options)
print(len(agent.messages), flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    agent(f"{sys.argv[2]}:{number}")
    print(len(agent.messages), flush=True)
"""


def start(vault: Vault, name: str, turns: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, str(vault.root), name, str(turns)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start_together(*processes: "subprocess.Popen[str]") -> None:
    """Start the conversations of processes once all of them are ready."""
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.close()


def test_messages_before_a_kill_9_are_kept(vault: Vault) -> None:
    generator, acknowledged = random.Random(5), 0
    for turn in range(4):
        process = start(vault, str(turn), 1000)
        start_together(process)
        assert process.stdout
        for _ in range(generator.randrange(1, 4)):
            acknowledged = int(process.stdout.readline())
        with suppress(subprocess.TimeoutExpired):
            process.wait(generator.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
        process.wait()
        process.stdout.close()

        log = SessionLog(vault, "s-1")
        assert len(log.messages()) >= acknowledged
        restored = make_agent_without_window(vault)
        assert len(restored.messages) >= acknowledged
        assert len(log.problems()) <= 1  # a partial line

    restored("Is all well?")
    assert make_agent_without_window(vault).messages == restored.messages


def test_two_processes_on_one_session_lose_no_message(vault: Vault) -> None:
    make_agent_without_window(vault)
    processes = [start(vault, name, 5) for name in "ab"]
    start_together(*processes)
    assert [process.wait(60) for process in processes] == [0, 0]
    for process in processes:
        assert process.stdout
        process.stdout.close()

    found = VaultSessionRepository(vault).list_messages("s-1", "main")
    blocks = [block for one in found if one.message["role"] == "user" for block in one.message["content"]]
    texts = [block["text"] for block in blocks if "text" in block]
    assert [one.message_id for one in found] == list(range(40))
    for name in "ab":
        assert [text for text in texts if text.startswith(name)] == [f"{name}:{number}" for number in range(5)]
    events = SessionLog(vault, "s-1").events()
    assert len({event.id for event in events}) == 40


def test_two_processes_can_create_the_same_session(vault: Vault) -> None:
    one, other = VaultSessionRepository(vault), VaultSessionRepository(vault)
    assert one.read_session("s-1") is other.read_session("s-1") is None

    begun = one.create_session(Session("s-1", SessionType.AGENT))
    assert other.create_session(Session("s-1", SessionType.AGENT)) == begun
    one.create_agent("s-1", make_session_agent("main", key="value"))
    other.create_agent("s-1", make_session_agent("main"))

    state = other.read_agent("s-1", "main")
    assert state is not None
    assert state.state == {"key": "value"}
    with pytest.raises(SessionException, match="already exists"):
        VaultSessionRepository(vault).create_session(Session("s-1", SessionType.AGENT))
    with pytest.raises(SessionException, match="already exists"):
        VaultSessionRepository(vault).create_agent("s-1", make_session_agent("main"))


def test_several_agents_share_a_session(vault: Vault) -> None:
    repository = VaultSessionRepository(vault, actor="alice")
    sessions = RepositorySessionManager("s-1", repository)
    for name in ("main", "a b"):
        agent = Agent(ScriptedModel(["ok"]), agent_id=name, session_manager=sessions, callback_handler=None)
        agent("Hello.")

    (session,) = Sessions(vault).list()
    assert (session.agents, session.messages, session.actor) == (("a b", "main"), 4, "alice")


# --- the repository -----------------------------------------------------------------------------------


def test_the_repository_implements_the_interface_of_strands(repository: VaultSessionRepository) -> None:
    assert isinstance(repository, SessionRepository)
    session = repository.read_session(session_id="s-1")
    assert session is not None
    assert (session.session_id, session.session_type) == ("s-1", SessionType.AGENT)
    assert repository.read_session("nothing") is None
    assert repository.read_agent(session_id="s-1", agent_id="nothing") is None
    assert repository.read_message(session_id="s-1", agent_id="nothing", message_id=0) is None
    assert repository.list_messages(session_id="s-1", agent_id="nothing") == []
    assert repository.read_multi_agent(session_id="s-1", multi_agent_id="nothing") is None


def test_messages_are_returned_unchanged(repository: VaultSessionRepository, vault: Vault) -> None:
    given = [message(f"{number}", number) for number in range(10)]
    given[3].message["content"].append({"image": {"format": "png", "source": {"bytes": b"\x00\xff"}}})
    for one in given:
        repository.create_message("s-1", "main", copy.deepcopy(one))
    repository.create_message("s-1", "main", given[9])

    fresh = VaultSessionRepository(vault)
    assert fresh.list_messages("s-1", "main") == given
    assert fresh.list_messages("s-1", "main", limit=3) == given[:3]
    assert fresh.list_messages("s-1", "main", limit=3, offset=5) == given[5:8]
    assert fresh.list_messages("s-1", "main", offset=8) == given[8:]
    assert fresh.read_message("s-1", "main", 3) == given[3]
    for bad in ("1", None, True, "../x"):
        with pytest.raises(ValueError, match="must be an integer"):
            fresh.read_message("s-1", "main", bad)  # type: ignore[arg-type]


def test_a_redacted_message_is_nowhere_in_the_vault(vault: Vault) -> None:
    sessions = RepositorySessionManager(session_id="s-2", session_repository=VaultSessionRepository(vault))
    agent = make_agent(vault, session_manager=sessions)
    agent(SECRET)
    agent.messages.clear()
    sessions.append_message({"role": "user", "content": [{"text": f"again {SECRET}"}]}, agent)

    repository = VaultSessionRepository(vault)
    first = repository.list_messages("s-2", "main")[0]
    first.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s-2", "main", first)
    sessions.redact_latest_message({"role": "user", "content": [{"text": "[gone]"}]}, agent)

    assert [path for path in vault.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
    texts = [one.to_message()["content"][0]["text"] for one in repository.list_messages("s-2", "main")]
    assert texts == ["[redacted]", "ok", "[gone]"]


def test_of_two_messages_with_the_same_number_the_repositorys_own_is_redacted(
    vault: Vault, repository: VaultSessionRepository
) -> None:
    mine, theirs = message("mine", 0), message("theirs", 0)
    other = VaultSessionRepository(vault)
    repository.create_message("s-1", "main", mine)
    other.create_message("s-1", "main", theirs)

    theirs.redact_message = {"role": "user", "content": [{"text": "-"}]}
    other.update_message("s-1", "main", theirs)

    messages = repository.list_messages("s-1", "main")
    found = [(one.message_id, one.to_message()["content"][0]["text"]) for one in messages]
    assert found == [(0, "mine"), (1, "-")]


def test_updating_a_missing_object_raises(repository: VaultSessionRepository) -> None:
    with pytest.raises(SessionException):
        repository.update_message("s-1", "main", message("x", 7))
    with pytest.raises(SessionException):
        repository.update_agent("s-1", make_session_agent("nothing"))
    with pytest.raises(SessionException):
        repository.create_agent("nothing", make_session_agent("main"))
    with pytest.raises(SessionException):
        repository.create_message("s-1", "nothing", message("x", 0))
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("nothing")


def test_an_update_keeps_the_creation_time_of_an_agent(vault: Vault, repository: VaultSessionRepository) -> None:
    first = repository.read_agent("s-1", "main")
    assert first is not None

    VaultSessionRepository(vault).update_agent("s-1", make_session_agent("main", key="other", image=[1]))

    again = VaultSessionRepository(vault).read_agent("s-1", "main")
    assert again is not None
    assert (again.state, again.created_at) == ({"key": "other", "image": [1]}, first.created_at)


def test_the_state_of_several_agents_is_saved(vault: Vault, repository: VaultSessionRepository) -> None:
    class Swarm:
        id = "swarm/1"

        def __init__(self, **state: Any) -> None:
            self.state = state

        def serialize_state(self) -> dict[str, Any]:
            return self.state

    with pytest.raises(SessionException):
        repository.update_multi_agent("s-1", Swarm(a=1))
    repository.create_multi_agent("s-1", Swarm(a=1))
    repository.update_multi_agent("s-1", Swarm(a=2))

    assert VaultSessionRepository(vault).read_multi_agent("s-1", "swarm/1") == {"a": 2}
    assert [one.agents for one in Sessions(vault).list()] == [("main",)]


def test_a_deleted_session_is_gone_and_can_be_created_again(vault: Vault, repository: VaultSessionRepository) -> None:
    repository.create_message("s-1", "main", message("x", 0))

    repository.delete_session("s-1")

    assert not (vault.root / "sessions/s-1").exists()
    assert repository.read_session("s-1") is None
    agent = make_agent(vault)
    agent("Hello again.")
    assert len(repository.list_messages("s-1", "main")) == 2


def test_a_log_of_another_framework_can_be_restored(vault: Vault) -> None:
    SessionLog(vault, "s-9", actor="bob").append({"role": "user", "content": [{"text": "Hi."}]})

    repository = VaultSessionRepository(vault)
    session = repository.read_session("s-9")

    assert session is not None
    assert session.session_id == "s-9"
    assert [one.message_id for one in repository.list_messages("s-9", "main")] == [0]
    assert repository.read_agent("s-9", "nobody") is None
    assert [one["content"] for one in make_agent(vault, session="s-9").messages] == [[{"text": "Hi."}]]


def test_content_that_strands_cannot_load_does_not_prevent_a_restart(vault: Vault) -> None:
    log = SessionLog(vault, "s-9")
    content: Any
    for content in ("Hi.", None, 7, {}, [7], ["x"], [{"text": "Ho."}]):
        log.append({"role": "user", "content": content})
    log.append({"role": "user"})

    agent = make_agent(vault, session="s-9")
    agent("Go on.")
    agent("And on.")

    held = [one["content"] for one in agent.messages]
    assert held[:2] == [[{"text": "Hi."}], [{"text": "Ho."}]]
    problems = [str(problem) for problem in Sessions(vault).check()]
    assert len(problems) == 6
    assert all(one.startswith(f"{log.path}: message e-") and one.endswith("blocks: left out") for one in problems)
    assert [one["content"] for one in make_agent(vault, session="s-9").messages] == held


def test_a_read_error_prevents_a_restart(vault: Vault) -> None:
    make_agent(vault)("Remember me.")
    file = vault.root / "sessions/s-1/main.agent.jsonl"
    file.rename(file.with_name("aside"))
    file.symlink_to("aside")

    with pytest.raises(errors.StorageError, match="cannot be read"):
        make_agent(vault)


def test_an_editors_copy_does_not_prevent_a_restart(vault: Vault) -> None:
    agent = make_agent(vault)
    agent("Remember me.")
    file: Path = vault.root / "sessions/s-1/main.agent.jsonl"
    file.with_name("main.agent (copy).jsonl").write_bytes(file.read_bytes())
    with file.open("a") as stream:
        stream.write("<<<<<<< HEAD\nhalf a li")

    assert make_agent(vault).messages == agent.messages


# --- the owner of a session


def test_the_log_of_another_actor_is_refused(vault: Vault, snapshot: Snapshot) -> None:
    mine, theirs, anyone = (VaultSessionRepository(vault, actor=name) for name in ("alice", "bob", ""))
    mine.create_session(Session("s-1", SessionType.AGENT))
    mine.create_agent("s-1", make_session_agent("main"))
    mine.create_message("s-1", "main", message(SECRET, 0))
    before = snapshot(vault.root / "sessions")

    for attempt in (
        lambda: theirs.read_agent("s-1", "main"),
        lambda: theirs.create_agent("s-1", make_session_agent("main")),
        lambda: theirs.update_agent("s-1", make_session_agent("main")),
        lambda: theirs.list_messages("s-1", "main"),
        lambda: theirs.read_message("s-1", "main", 0),
        lambda: theirs.create_message("s-1", "main", message("mine now", 1)),
        lambda: theirs.update_message("s-1", "main", message("mine now", 0)),
        lambda: theirs.delete_session("s-1"),
        lambda: SessionLog(vault, "s-1", "main", actor="bob").append({"role": "user", "content": "x"}),
    ):
        with pytest.raises(errors.OtherActorError) as caught:
            attempt()
        assert str(caught.value) == "sessions/s-1/main.agent.jsonl: belongs to actor 'alice', not to 'bob'"
        assert "each actor" in caught.value.hint

    assert snapshot(vault.root / "sessions") == before
    assert len(anyone.list_messages("s-1", "main")) == len(mine.list_messages("s-1", "main")) == 1


def test_actor_names_are_compared_without_case(vault: Vault) -> None:
    log = SessionLog(vault, "room", actor="Zoë")
    log.append({"role": "user", "content": "mine"})

    assert SessionLog(vault, "room", actor="ZOE\u0308").messages() == log.messages()
    assert [one.name for one in Sessions(vault).list(actor="zoë")] == ["room"]
    assert [one.agent for one in Sessions(vault).logs("room", actor="zoë")] == ["main"]
    VaultSessionRepository(vault, actor="zoë").delete_session("room")
    assert Sessions(vault).list() == []


def test_a_session_lists_all_its_actors(vault: Vault) -> None:
    for name, count in (("alice", 1), ("bob", 2)):
        log = SessionLog(vault, "room", f"for-{name}", actor=name)
        for number in range(count):
            log.append({"role": "user", "content": f"{name} {number}"})
    SessionLog(vault, "room", "nobodys").append({"role": "user", "content": "x"})
    SessionLog(vault, "other", actor="bob").append({"role": "user", "content": "x"})
    sessions = Sessions(vault)

    assert sessions.read("room").actors == ("alice", "bob")
    assert [one.name for one in sessions.list(actor="alice")] == ["room"]
    assert [one.name for one in sessions.list(actor="bob")] == ["room", "other"]
    assert [one.name for one in sessions.list(actor="")] == []
    assert [(one.name, one.sessions, one.messages) for one in sessions.actors()] == [("alice", 1, 1), ("bob", 2, 3)]
    assert [log.agent for log in sessions.logs("room", actor="bob")] == ["for-bob", "nobodys"]
    assert [log.owner for log in sessions.logs("room")] == ["alice", "bob", ""]
