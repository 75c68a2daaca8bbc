"""VaultSessionManager with the real Agent and scripted models, offline: saving, restoring, distilling, retrieving."""

import asyncio
import copy
import gc
import json
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from strands.multiagent.graph import Graph, GraphBuilder
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import EventLoopException
from support.commands import Script
from support.searching import wait_for
from support.strands_agents import Guarded, agent

import memfs.agent
from memfs import Vault
from memfs.agent import InvocationTrigger
from memfs.agent.distill.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
from memfs.agent.distill.strategies import FactStrategy, PreferenceStrategy, SummaryStrategy
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.vault_sessions import Sessions
from memfs.errors import InvalidMemoryError, InvalidSetupError, OtherActorError, StorageError, VaultError
from memfs.integrations.strands import ScriptedModel, VaultSessionRepository
from memfs.integrations.strands.session_manager import VaultSessionManager

SUSHI = [{"content": "The user likes sushi with tuna.", "context": "Said at lunch.", "categories": ["food"]}]
RETRIEVAL = {"/preferences/{actorId}": RetrievalConfig(top_k=5, relevance_score=0.7)}


def config(vault: Vault | Path, session: str = "s-1", **settings: Any) -> VaultMemoryConfig:
    return VaultMemoryConfig(vault, session, "alice", **settings)


def saved_texts(vault: Vault, session: str = "s-1", name: str = "default") -> list[str]:
    """Return the texts in the log of a session."""
    messages = SessionLog(vault, session, name).messages()
    return [block["text"] for message in messages for block in message["content"] if "text" in block]


def weather(look: Callable[[], Any] = lambda: None) -> Any:
    @tool(name="weather")
    def weather(city: str) -> str:
        """Return the weather."""
        look()
        return f"Rain in {city}."

    return weather


CALL = {"tool": "weather", "input": {"city": "Porto"}}


@contextmanager
def blocked_log(vault: Vault, session: str = "s-1") -> Iterator[None]:
    """Put a file in place of the directory of a session, so that nothing can be written."""
    directory, aside = vault.root / "sessions" / session, vault.root / "aside"
    shutil.move(directory, aside)
    directory.write_text("")
    try:
        yield
    finally:
        directory.unlink()
        shutil.move(aside, directory)


# --- saving and restoring


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_restored_messages_equal_the_live_ones_with_injection_and_tools(vault: Vault, batch_size: int) -> None:
    vault.add("The user likes sushi with tuna.", "/preferences/alice")
    model = ScriptedModel(["With tuna.", [CALL, {"tool": "weather", "input": {"city": "Rome"}}], "It rains.", "Bye."])
    settings = config(vault, retrieval_config=RETRIEVAL, batch_size=batch_size)
    with VaultSessionManager(settings) as manager:
        one = agent(manager, model=model, tools=[weather()])
        one("Which sushi do I like?")
        one.state.set("mood", "hungry")
        one("And the weather?")
        live = copy.deepcopy(one.messages)

    with VaultSessionManager(settings) as manager:
        two = agent(manager, tools=[weather()])
        assert two.messages == live
        assert two.state.get("mood") == "hungry"
    assert "<user_context>" in model.calls[0].text
    assert "user_context" not in json.dumps(live)
    assert all("user_context" not in path.read_text() for path in vault.root.rglob("*.jsonl"))


def test_a_session_continues_in_a_new_process(vault: Vault) -> None:
    for number in range(3):
        with VaultSessionManager(config(vault)) as manager:
            agent(manager, f"answer {number}")(f"question {number}")

    expected = [f"{kind} {number}" for number in range(3) for kind in ("question", "answer")]
    assert saved_texts(vault) == expected


def test_several_agents_share_a_session(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        cook, guide = (agent(manager, "ok", agent_id=name) for name in ("cook", "guide"))
        cook("cook this")
        guide("go there")

    assert saved_texts(vault, name="cook") == ["cook this", "ok"]
    assert saved_texts(vault, name="guide") == ["go there", "ok"]


@pytest.mark.parametrize("mode", PersistenceMode)
def test_a_graph_of_agents_saves_its_state_only_with_persistence(vault: Vault, mode: PersistenceMode) -> None:
    def graph(manager: VaultSessionManager) -> Graph:
        builder = GraphBuilder()
        for name in ("cook", "guide"):
            builder.add_node(Agent(model=ScriptedModel(["ok"]), callback_handler=None), name)
        builder.add_edge("cook", "guide")
        builder.set_max_node_executions(5)
        builder.set_session_manager(manager)
        return builder.build()

    with VaultSessionManager(config(vault, persistence_mode=mode)) as manager:
        result = graph(manager)("Dinner, then a walk")

    assert [node.node_id for node in result.execution_order] == ["cook", "guide"]
    logs = list(vault.root.glob("sessions/s-1/*.multi.jsonl"))
    assert len(logs) == (mode is PersistenceMode.FULL)


def test_a_vault_can_be_given_as_a_path(tmp_path: Path) -> None:
    Vault.init(tmp_path / "notes")
    with VaultSessionManager(config(tmp_path / "notes")) as manager:
        agent(manager, "ok")("hello")

    assert saved_texts(Vault(tmp_path / "notes")) == ["hello", "ok"]


def test_an_agent_can_be_called_within_an_event_loop(vault: Vault) -> None:
    strategy = PreferenceStrategy(model=memfs.agent.ScriptedModel([SUSHI]))

    async def run_turn() -> None:
        with VaultSessionManager(config(vault, batch_size=10, strategies=[strategy])) as manager:
            await agent(manager, "ok").invoke_async("I like sushi with tuna")
            assert manager.pending_message_count() == 0

    asyncio.run(run_turn())

    assert saved_texts(vault) == ["I like sushi with tuna", "ok"]
    assert len(vault.list("/preferences/alice")) == 1


def test_every_message_is_saved_with_metadata(vault: Vault) -> None:
    numbers = iter(range(9))
    settings = config(vault, default_metadata={"place": "Porto"}, metadata_provider=lambda: {"run": next(numbers)})
    with VaultSessionManager(settings) as manager:
        one = agent(manager, "ok")
        one("hello")

    log = SessionLog(vault, "s-1", "default")
    assert [event.metadata for event in log.events()] == [{"place": "Porto", "run": run} for run in range(2)]
    assert len(log.events(where=[("run", "EQUALS", 1)])) == 1
    with VaultSessionManager(settings) as manager:
        assert agent(manager).messages == one.messages


def test_without_persistence_nothing_is_written_and_retrieval_works(vault: Vault) -> None:
    vault.add("The user likes sushi with tuna.", "/preferences/alice")
    before = {path for path in vault.root.rglob("*") if ".memfs" not in path.parts}
    model = ScriptedModel(["With tuna.", "Yes."])
    settings = config(
        vault,
        persistence_mode=PersistenceMode.NONE,
        retrieval_config=RETRIEVAL,
        strategies=[SummaryStrategy()],
        batch_size=5,
    )
    with VaultSessionManager(settings) as manager:
        one = agent(manager, model=model)
        one("Which sushi do I like?")
        one("Really?")
        assert manager.pending_message_count() == 0

    assert "tuna" in model.calls[0].text
    assert len(one.messages) == 4
    assert {path for path in vault.root.rglob("*") if ".memfs" not in path.parts} == before


def test_tool_blocks_can_be_left_out_of_restored_messages(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        agent(manager, ["One moment.", CALL], "It rains.", tools=[weather()])("Weather?")
    with VaultSessionManager(config(vault, filter_restored_tool_context=True)) as manager:
        two = agent(manager, "Still.", tools=[weather()])
        assert [message["content"] for message in two.messages] == [
            [{"text": "Weather?"}], [{"text": "One moment."}], [{"text": "It rains."}],
        ]  # fmt: skip
        two("And now?")
    with VaultSessionManager(config(vault)) as manager:
        assert len(agent(manager).messages) == 6


def test_an_unreadable_session_raises_instead_of_being_empty(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        agent(manager, "ok")("hello")
    manager = VaultSessionManager(config(vault))
    log = vault.root / "sessions/s-1/default.agent.jsonl"
    log.unlink()
    log.mkdir()

    with pytest.raises(StorageError, match=r"default\.agent\.jsonl"):
        agent(manager)


def test_a_closed_session_can_continue(vault: Vault) -> None:
    model = memfs.agent.ScriptedModel([[{"content": "The first."}], [{"content": "The second."}]])
    manager = VaultSessionManager(config(vault, batch_size=10, strategies=[FactStrategy(model=model)]))
    one = agent(manager, "ok", "ok")
    one("hello")
    manager.close()
    manager.close()
    one("hello again")
    manager.close()

    assert saved_texts(vault) == ["hello", "ok", "hello again", "ok"]
    assert {memory.body.strip() for memory in vault.list("/facts")} == {"The first.", "The second."}


@pytest.mark.parametrize("given", [None, "notes", {"vault": "notes"}])
def test_a_config_of_another_type_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSetupError, match=r"config: .* is not a VaultMemoryConfig"):
        VaultSessionManager(given)


# --- buffered messages


def test_messages_are_buffered_until_the_batch_is_full(vault: Vault) -> None:
    seen: list[tuple[int, int]] = []
    with VaultSessionManager(config(vault, batch_size=3)) as manager:
        look = weather(lambda: seen.append((manager.pending_message_count(), len(saved_texts(vault)))))
        agent(manager, ["First.", CALL], ["Second.", CALL], "Last.", tools=[look])("Weather?")
        assert manager.pending_message_count() == 0

    assert seen == [(2, 0), (1, 2)]
    assert saved_texts(vault) == ["Weather?", "First.", "Second.", "Last."]


def test_messages_are_flushed_after_the_interval(vault: Vault) -> None:
    seen: list[list[str]] = []
    with VaultSessionManager(config(vault, batch_size=100, flush_interval_seconds=0.01)) as manager:

        def look() -> None:
            wait_for(lambda: manager.pending_message_count() == 0)
            seen.append(saved_texts(vault))

        agent(manager, ["First.", CALL], "Last.", tools=[weather(look)])("Weather?")

    assert seen == [["Weather?", "First."]]


@pytest.mark.parametrize("leave", ["close", "block"])
def test_buffered_messages_are_written_on_close(vault: Vault, leave: str) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager)
    for text in ("one", "two"):
        manager.append_message({"role": "user", "content": [{"text": text}]}, one)
    assert (manager.pending_message_count(), saved_texts(vault)) == (2, [])
    if leave == "close":
        manager.close()
    else:
        with manager:
            pass

    assert (manager.pending_message_count(), saved_texts(vault)) == (0, ["one", "two"])


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_messages_of_a_failed_write_stay_buffered_in_order(vault: Vault, batch_size: int) -> None:
    manager = VaultSessionManager(config(vault, batch_size=batch_size))
    one = agent(manager)

    def say(text: str) -> None:
        manager.append_message({"role": "user", "content": [{"text": text}]}, one)

    with blocked_log(vault):
        for number in range(4):
            try:
                say(f"word {number}")
            except VaultError:
                assert number % batch_size == batch_size - 1 or number >= batch_size
        assert manager.pending_message_count() == 4
        with pytest.raises(VaultError):
            manager.flush()
    say("word 4")
    manager.close()

    assert saved_texts(vault) == [f"word {number}" for number in range(5)]


def test_a_reply_whose_write_failed_stays_in_the_history_and_is_written_later(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager, "ok", "ok again")
    with blocked_log(vault), pytest.raises(VaultError):
        one("hello")
    one("hello again")
    manager.close()

    assert saved_texts(vault) == ["hello", "ok", "hello again", "ok again"]
    with VaultSessionManager(config(vault)) as restored:
        assert agent(restored).messages == one.messages


def test_close_raises_if_messages_cannot_be_written(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    manager.append_message({"role": "user", "content": [{"text": "hello"}]}, agent(manager))
    with blocked_log(vault), pytest.raises(VaultError), manager:
        pass

    assert manager.pending_message_count() == 1


def test_an_error_of_the_with_block_is_not_replaced_by_a_write_error(
    vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager)
    with blocked_log(vault), pytest.raises(ZeroDivisionError), manager:  # noqa: PT012
        manager.append_message({"role": "user", "content": [{"text": "hello"}]}, one)
        raise ZeroDivisionError
    assert "not written" in caplog.text


def test_an_error_of_the_model_is_not_replaced_by_a_write_error(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager, ZeroDivisionError("of the model"))
    with blocked_log(vault), pytest.raises(ZeroDivisionError):
        one("hello")

    assert manager.pending_message_count() == 1
    assert "not written" in caplog.text


def test_a_failed_flush_is_retried_after_the_interval(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100, flush_interval_seconds=0.01))
    one = agent(manager)
    with blocked_log(vault):
        manager.append_message({"role": "user", "content": [{"text": "hello"}]}, one)
        wait_for(lambda: "not written yet" in caplog.text)
    wait_for(lambda: manager.pending_message_count() == 0)
    manager.close()

    assert saved_texts(vault) == ["hello"]


def test_reading_messages_includes_the_buffered_ones(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager)
    for text in ("one", "two"):
        manager.append_message({"role": "user", "content": [{"text": text}]}, one)
    second = manager.session_repository.read_message("s-1", "default", 1)

    assert second is not None
    assert second.message["content"] == [{"text": "two"}]
    assert manager.pending_message_count() == 0


# --- redaction


@pytest.mark.parametrize("batch_size", [1, 100])
def test_redacted_text_is_nowhere_in_the_vault_and_is_not_distilled(vault: Vault, batch_size: int) -> None:
    model = memfs.agent.ScriptedModel([[], []])
    settings = config(vault, batch_size=batch_size, strategies=[FactStrategy(model=model)])
    with VaultSessionManager(settings) as manager:
        one = agent(manager, model=Guarded(["I cannot say.", "No."]))
        one("My password is xyzzyplugh")
        one("What was it?")

    assert saved_texts(vault) == ["[taken out]", "I cannot say.", "[taken out]", "No."]
    assert "xyzzyplugh" not in model.last_prompt
    assert "[taken out]" in model.last_prompt
    assert all(b"xyzzyplugh" not in path.read_bytes() for path in vault.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("batch_size", [1, 100])
def test_a_redacted_message_is_distilled_in_its_redacted_form(vault: Vault, batch_size: int) -> None:
    model = memfs.agent.ScriptedModel([[]])
    with VaultSessionManager(config(vault, batch_size=batch_size, strategies=[FactStrategy(model=model)])) as manager:
        one = agent(manager)
        manager.append_message({"role": "user", "content": [{"text": "xyzzyplugh"}]}, one)
        manager.redact_latest_message({"role": "user", "content": [{"text": "[taken out]"}]}, one)

    assert saved_texts(vault) == ["[taken out]"]
    assert "xyzzyplugh" not in model.last_prompt
    assert all(b"xyzzyplugh" not in path.read_bytes() for path in vault.root.rglob("*") if path.is_file())


def redact(manager: VaultSessionManager, number: int = 0, name: str = "default") -> None:
    """Replace the text of a saved message."""
    repository = manager.session_repository
    message = repository.list_messages(manager.session_id, name)[number]
    message.redact_message = {"role": "user", "content": [{"text": "[taken out]"}]}
    repository.update_message(manager.session_id, name, message)


def files_with(vault: Vault, text: str) -> list[Path]:
    return [path for path in vault.root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("batch_size", [1, 100])
def test_redacting_a_message_redacts_its_pending_turn_too(vault: Vault, batch_size: int) -> None:
    model = memfs.agent.ScriptedModel([[], []])
    with VaultSessionManager(config(vault, batch_size=batch_size, strategies=[FactStrategy(model=model)])) as manager:
        one, two = agent(manager, "ok", agent_id="one"), agent(manager, "ok", agent_id="two")
        one("My password is xyzzyplugh")
        two("I live in Ghent")
        assert any(".memfs" in path.parts for path in files_with(vault, "xyzzyplugh"))
        redact(manager, name="one")
        assert not files_with(vault, "xyzzyplugh")

    prompts = "".join(call.text for call in model.calls)
    assert "xyzzyplugh" not in prompts
    assert "[taken out]" in prompts
    assert "I live in Ghent" in prompts


def test_a_retried_prompt_is_redacted_everywhere(vault: Vault) -> None:
    model = memfs.agent.ScriptedModel([[]])
    with VaultSessionManager(config(vault, strategies=[FactStrategy(model=model)])) as manager:
        one = agent(manager, model=ScriptedModel([RuntimeError("down")]))
        prompt: Any = [{"role": "user", "content": [{"text": "xyzzyplugh"}]}]
        with pytest.raises(RuntimeError, match="down"):
            one(prompt)
        one.model = Guarded(["No."])
        one(prompt)
        assert not files_with(vault, "xyzzyplugh")

    assert "xyzzyplugh" not in model.last_prompt


def test_pending_turns_of_a_killed_process_are_redacted_too(vault: Vault, run_script: Script) -> None:
    code = """
import signal
from memfs.integrations.strands import FactStrategy, ScriptedModel, VaultMemoryConfig, VaultSessionManager
from strands import Agent
config = VaultMemoryConfig(sys.argv[1], "s-1", "alice", strategies=[FactStrategy()])
agent = Agent(model=ScriptedModel(["ok"]), session_manager=VaultSessionManager(config), callback_handler=None)
agent("xyzzyplugh")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_script(code, vault.root).returncode == -signal.SIGKILL
    assert any(".memfs" in path.parts for path in files_with(vault, "xyzzyplugh"))

    with VaultSessionManager(config(vault)) as manager:  # it has no strategies itself
        redact(manager)
        assert not files_with(vault, "xyzzyplugh")
    model = memfs.agent.ScriptedModel([[]])
    with VaultSessionManager(config(vault, strategies=[FactStrategy(model=model)])) as manager:
        agent(manager)
    assert "[taken out]" in model.last_prompt
    assert "xyzzyplugh" not in model.last_prompt


# --- distilling and retrieving


def test_a_preference_is_retrieved_in_a_second_session(vault: Vault) -> None:
    with VaultSessionManager(
        config(vault, "monday", strategies=[PreferenceStrategy(model=memfs.agent.ScriptedModel([SUSHI]))])
    ) as manager:
        agent(manager, "I will keep that in mind.")("I like sushi with tuna")

    model = ScriptedModel(["With tuna."])
    with VaultSessionManager(config(vault, "tuesday", retrieval_config=RETRIEVAL)) as manager:
        agent(manager, model=model)("Which sushi do I like?")

    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session monday, message 0"
    assert f'<entry source="/preferences/alice" id="{memory.id}">The user likes sushi' in model.calls[0].text


def test_a_strategy_without_a_model_uses_the_agents_model(vault: Vault) -> None:
    model = ScriptedModel(["ok", json.dumps(SUSHI)])
    with VaultSessionManager(config(vault, strategies=[PreferenceStrategy()])) as manager:
        agent(manager, model=model)("I like sushi with tuna")

    assert len(vault.list("/preferences/alice")) == 1
    assert "I like sushi with tuna" in model.last_prompt


def test_a_strategy_can_have_a_model_of_strands(vault: Vault) -> None:
    own = ScriptedModel([json.dumps(SUSHI)])
    with VaultSessionManager(config(vault, strategies=[PreferenceStrategy(model=own)])) as manager:
        agent(manager, "ok")("I like sushi with tuna")

    assert len(vault.list("/preferences/alice")) == 1


def test_a_trigger_decides_when_and_each_turn_is_distilled_once(vault: Vault) -> None:
    often = memfs.agent.ScriptedModel([[], [], []])
    seldom = memfs.agent.ScriptedModel([[]])
    strategies = [
        FactStrategy("often", "/a", model=often, trigger=InvocationTrigger()),
        FactStrategy("seldom", "/b", model=seldom),
    ]
    with VaultSessionManager(config(vault, strategies=strategies)) as manager:
        one = agent(manager, "ok", "ok", "ok")
        for number in range(3):
            one(f"word {number}")
            assert (len(often.calls), len(seldom.calls)) == (number + 1, 0)

    assert (len(often.calls), len(seldom.calls)) == (3, 1)
    transcripts = [model.last_prompt.partition("<transcript>")[2] for model in (seldom, often)]
    assert [number for number in range(3) if f"word {number}" in transcripts[0]] == [0, 1, 2]
    assert [number for number in range(3) if f"word {number}" in transcripts[1]] == [2]


def test_turns_of_an_unclosed_session_are_distilled_by_the_next(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, "monday", strategies=[PreferenceStrategy()]))
    agent(manager, "ok")("I like sushi with tuna")
    del manager
    gc.collect()

    model = memfs.agent.ScriptedModel([SUSHI])
    with VaultSessionManager(config(vault, "tuesday", strategies=[PreferenceStrategy(model=model)])) as manager:
        agent(manager, "ok")

    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session monday, message 0"


def test_turns_of_a_killed_process_are_distilled_by_the_next_session(vault: Vault, run_script: Script) -> None:
    code = """
import signal
from memfs.integrations.strands import PreferenceStrategy, ScriptedModel, VaultMemoryConfig, VaultSessionManager
from strands import Agent
config = VaultMemoryConfig(sys.argv[1], "monday", "alice", strategies=[PreferenceStrategy()], batch_size=10)
agent = Agent(model=ScriptedModel(["ok"]), session_manager=VaultSessionManager(config), callback_handler=None)
agent("I like sushi with tuna")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_script(code, vault.root).returncode == -signal.SIGKILL

    model = memfs.agent.ScriptedModel([SUSHI])
    with VaultSessionManager(config(vault, "tuesday", strategies=[PreferenceStrategy(model=model)])) as manager:
        agent(manager)

    assert saved_texts(vault, "monday") == ["I like sushi with tuna", "ok"]
    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session monday, message 0"


def test_earlier_turns_are_context_when_a_session_continues(vault: Vault) -> None:
    models = [memfs.agent.ScriptedModel([[]]) for _ in range(2)]
    for model, text in zip(models, ("A friend comes on Friday.", "His name is Bob."), strict=True):
        with VaultSessionManager(config(vault, strategies=[FactStrategy(model=model)])) as manager:
            agent(manager, "ok")(text)

    earlier, _, new = models[1].last_prompt.partition("<transcript>")
    assert "A friend comes on Friday." in earlier
    assert "A friend" not in new
    assert "His name is Bob." in new


def test_retrieved_memories_are_not_distilled_again(vault: Vault) -> None:
    vault.add("The user likes sushi with tuna. It was said at lunch.", "/preferences/alice")
    model = memfs.agent.ScriptedModel([[{"content": "The user likes sushi with tuna."}, {"content": "It is Tuesday."}]])
    settings = config(vault, retrieval_config=RETRIEVAL, strategies=[PreferenceStrategy(model=model)])
    with VaultSessionManager(settings) as manager:
        agent(manager, "The user likes sushi with tuna.")("Which sushi do I like?")

    assert {memory.body.strip() for memory in vault.list("/preferences/alice")} == {
        "The user likes sushi with tuna. It was said at lunch.", "It is Tuesday.",
    }  # fmt: skip


def test_message_numbers_continue_across_runs(vault: Vault) -> None:
    for topic in ("Lunch", "Work"):
        strategy = SummaryStrategy(model=memfs.agent.ScriptedModel([[{"topic": topic, "content": "x"}]]))
        with VaultSessionManager(config(vault, strategies=[strategy])) as manager:
            agent(manager, "ok")("hello")

    (memory,) = vault.list("/summaries/alice/s-1")
    assert memory.header.source == "session s-1, message 3"
    assert [line for line in memory.body.splitlines() if line.startswith("##")] == ["## Lunch", "## Work"]


# --- messages that cannot be stored, and logs without a state


@tool
def price() -> dict[str, Any]:
    """Return the price."""
    return {"status": "success", "content": [{"json": {"price": Decimal("1.5")}}]}


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_message_that_cannot_be_stored_fails_only_its_turn(vault: Vault, batch_size: int) -> None:
    big = [{"text": "see"}, {"image": {"format": "png", "source": {"bytes": b"\0" * (25 * 1024 * 1024)}}}]
    with VaultSessionManager(config(vault, batch_size=batch_size)) as manager:
        one = agent(manager, "One.", "Two.", "Three.")
        one("one")
        with pytest.raises(InvalidMemoryError) as caught:
            one([{"text": "two"}, {"text": Decimal("1.5")}])  # type: ignore[arg-type]
        assert str(caught.value) == (
            "message 2 of agent 'default' in session 's-1': cannot be stored: message.content[1].text:"
            " JSON has no type for Decimal"
        )
        assert caught.value.hint == "The message was not saved in the session; send it without that part."
        with pytest.raises(
            InvalidMemoryError, match=r"32 MiB, most of it in message\.content\[1\]\.image\.source\.bytes"
        ):
            one(big)  # type: ignore[arg-type]
        assert manager.pending_message_count() == 0
        one("three")

    assert saved_texts(vault) == ["one", "One.", "three", "Two."]
    with VaultSessionManager(config(vault)) as manager:
        assert agent(manager).messages == one.messages
        assert [one.message_id for one in manager.session_repository.list_messages("s-1", "default")] == [0, 1, 2, 3]


def test_a_tool_result_that_cannot_be_stored_fails_only_its_turn(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        one = agent(manager, {"tool": "price", "input": {}}, "Never said.", tools=[price])
        with pytest.raises(EventLoopException, match=r"message 2 .*\.toolResult\.content\[0\]\.json\.price"):
            one("what is it?")
        one("and now?")

    with VaultSessionManager(config(vault)) as manager:
        assert agent(manager).messages == one.messages
    assert saved_texts(vault)[-2:] == ["and now?", "Never said."]


def test_a_message_that_cannot_be_stored_is_not_distilled(vault: Vault) -> None:
    model = ScriptedModel(["[]"])
    with VaultSessionManager(config(vault, strategies=[FactStrategy(model=model)])) as manager:
        one = agent(manager, "One.", "Two.")
        with pytest.raises(InvalidMemoryError):
            one([{"text": "hush"}, {"text": Decimal("1.5")}])  # type: ignore[arg-type]
        one("two")

    assert ["hush" in call.text for call in model.calls] == [False]


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_log_that_was_created_again_by_a_live_agent_is_restored(vault: Vault, batch_size: int, how: str) -> None:
    windowed = {"conversation_manager": SlidingWindowConversationManager(window_size=2)}
    with VaultSessionManager(config(vault, batch_size=batch_size)) as manager:
        one = agent(manager, *"ABCD", **windowed)
        one.state.set("mood", "good")
        one("a")
        one("b")
        if how == "moved":
            Sessions(vault, clock=lambda: datetime(2100, 1, 1, tzinfo=UTC)).expire(1)
        else:
            shutil.rmtree(vault.root / "sessions" / "s-1")
        one("c")
        one.state.set("mood", "better")
        one("d")

    with VaultSessionManager(config(vault)) as manager:
        again = agent(manager, conversation_manager=SlidingWindowConversationManager(window_size=2))
        assert again.messages == one.messages
        assert again.state.get("mood") == "better"
    assert saved_texts(vault) == ["c", "C", "d", "D"]


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_log_that_was_created_again_has_the_state_of_its_agent(vault: Vault, batch_size: int) -> None:
    with VaultSessionManager(config(vault, batch_size=batch_size)) as manager:
        one = agent(manager, *"AB", conversation_manager=NullConversationManager())
        one.state.set("mood", "good")
        one("a")
        shutil.rmtree(vault.root / "sessions" / "s-1")
        one("b")

    with VaultSessionManager(config(vault)) as manager:
        again = agent(manager, conversation_manager=NullConversationManager())
        assert again.state.get("mood") == "good"
        assert again.messages == one.messages[2:]


@pytest.mark.parametrize("manager_of", [SlidingWindowConversationManager, NullConversationManager])
def test_messages_without_a_state_are_restored(vault: Vault, manager_of: Any) -> None:
    with VaultSessionManager(config(vault)) as manager:
        one = agent(manager, "Yes.", conversation_manager=manager_of())
        one("remember me")
    file = vault.root / SessionLog(vault, "s-1", "default").path
    lines = file.read_text().splitlines()
    file.write_text("".join(f"{line[:-5] if 'state' in line else line}\n" for line in lines))

    with VaultSessionManager(config(vault)) as manager:
        again = agent(manager, "Of course.", conversation_manager=manager_of())
        assert again.messages == one.messages
        again("Really?")
    assert saved_texts(vault) == ["remember me", "Yes.", "Really?", "Of course."]


def test_an_agent_without_a_state_is_restored_from_its_messages(vault: Vault) -> None:
    SessionLog(vault, "s-1", "main").append({"role": "user", "content": [{"text": "hello"}]})
    sessions = RepositorySessionManager("s-1", VaultSessionRepository(vault))

    assert [one["content"] for one in Agent(agent_id="main", session_manager=sessions).messages] == [
        [{"text": "hello"}]
    ]


FORKS = """
from strands import Agent
from memfs.integrations.strands import ScriptedModel, VaultMemoryConfig, VaultSessionManager

config = VaultMemoryConfig(sys.argv[1], "s-1", "alice", batch_size=100, flush_interval_seconds=float(sys.argv[2]))
manager = VaultSessionManager(config)
agent = Agent(model=ScriptedModel(["ok"] * 9), session_manager=manager, callback_handler=None)
"""


def test_a_forked_child_does_not_write_its_parents_buffer(vault: Vault, run_script: Script) -> None:
    code = """
manager.append_message({"role": "user", "content": [{"text": "of the parent"}]}, agent)
child = os.fork()
if not child:
    pending = manager.pending_message_count()
    manager.append_message({"role": "user", "content": [{"text": "of the child"}]}, agent)
    manager.flush()
    os._exit(pending)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert manager.pending_message_count() == 1
manager.close()
"""
    done = run_script(FORKS + code, vault.root, 1e10)

    assert done.stderr == ""
    assert sorted(saved_texts(vault)) == ["of the child", "of the parent"]


def test_a_child_forked_during_a_flush_can_flush(vault: Vault, run_script: Script) -> None:
    code = """
import threading
from memfs.agent.sessions import SessionLog
inside, leave = threading.Event(), threading.Event()
write = SessionLog.append_drafts
def slowly(*arguments):
    inside.set()
    leave.wait()
    return write(*arguments)
SessionLog.append_drafts = slowly
manager.append_message({"role": "user", "content": [{"text": "of the parent"}]}, agent)
thread = threading.Thread(target=manager.flush)
thread.start()
inside.wait()
child = os.fork()
if not child:
    leave.set()
    manager.append_message({"role": "user", "content": [{"text": "of the child"}]}, agent)
    manager.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
leave.set()
thread.join()
manager.close()
"""
    done = run_script(FORKS + code, vault.root, 60)

    assert done.stderr == ""
    assert sorted(saved_texts(vault)) == ["of the child", "of the parent"]


@pytest.mark.parametrize("seconds", [1e10, 1e300])
def test_an_interval_can_exceed_the_maximum_of_a_timer(vault: Vault, seconds: float) -> None:
    with VaultSessionManager(config(vault, batch_size=100, flush_interval_seconds=seconds)) as manager:
        manager.append_message({"role": "user", "content": [{"text": "x"}]}, agent(manager))
        (timer,) = (one for one in threading.enumerate() if one.name == "memfs-flush")

    timer.join()  # an exception in it fails the test
    assert saved_texts(vault) == ["x"]


def test_another_actor_cannot_restore_the_conversation(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        agent(manager, "Kept.")("my PIN is 1234")

    with VaultSessionManager(VaultMemoryConfig(vault, "s-1", "bob")) as manager:
        with pytest.raises(OtherActorError, match="belongs to actor 'alice', not to 'bob'"):
            agent(manager)
        own = agent(manager, "Hello.", agent_id="for-bob")
        own("hi")

    assert saved_texts(vault) == ["my PIN is 1234", "Kept."]
    assert saved_texts(vault, name="for-bob") == ["hi", "Hello."]


def test_pending_turns_go_to_the_next_session_with_the_same_strategy_and_namespace(
    vault: Vault, run_script: Script
) -> None:
    code = """
import signal
from memfs.integrations.strands import FactStrategy, ScriptedModel, SummaryStrategy
from memfs.integrations.strands import VaultMemoryConfig, VaultSessionManager
from strands import Agent
config = VaultMemoryConfig(sys.argv[1], "monday", "alice", strategies=[FactStrategy(), SummaryStrategy()])
agent = Agent(model=ScriptedModel(["ok"]), session_manager=VaultSessionManager(config), callback_handler=None)
agent("I live in Ghent.")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_script(code, vault.root).returncode == -signal.SIGKILL
    received: dict[str, str] = {}
    for actor, session in (("bob", "his"), ("alice", "tuesday"), ("alice", "monday")):
        models = [memfs.agent.ScriptedModel([[], []]) for _ in range(2)]
        strategies = [FactStrategy(model=models[0]), SummaryStrategy(model=models[1])]
        with VaultSessionManager(VaultMemoryConfig(vault, session, actor, strategies=strategies)) as manager:
            agent(manager)
        received[session] = "".join("FS"[at] for at, model in enumerate(models) if "Ghent" in str(model.calls))

    assert received == {"his": "", "tuesday": "F", "monday": "S"}
