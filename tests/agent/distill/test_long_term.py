"""VaultSessionManager with the real Agent and scripted models: written down, restored, distilled, told; offline."""

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
from conftest import Script
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from strands.multiagent.graph import Graph, GraphBuilder
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import EventLoopException
from support.searching import wait_for

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
LIKES = {"/preferences/{actorId}": RetrievalConfig(top_k=5, relevance_score=0.7)}


def config(vault: Vault | Path, session: str = "s-1", **settings: Any) -> VaultMemoryConfig:
    return VaultMemoryConfig(vault, session, "alice", **settings)


def agent(manager: VaultSessionManager, *replies: Any, **options: Any) -> Agent:
    options.setdefault("model", ScriptedModel(replies))
    return Agent(session_manager=manager, callback_handler=None, **options)


def texts(vault: Vault, session: str = "s-1", name: str = "default") -> list[str]:
    """What is written down of a session."""
    messages = SessionLog(vault, session, name).messages()
    return [block["text"] for message in messages for block in message["content"] if "text" in block]


def weather(look: Callable[[], Any] = lambda: None) -> Any:
    @tool(name="weather")
    def weather(city: str) -> str:
        """Tell the weather."""
        look()
        return f"Rain in {city}."

    return weather


CALL = {"tool": "weather", "input": {"city": "Porto"}}


@contextmanager
def in_the_way(vault: Vault, session: str = "s-1") -> Iterator[None]:
    """Have a file where the directory of a session should be, so that nothing can be written."""
    place, aside = vault.root / "sessions" / session, vault.root / "aside"
    shutil.move(place, aside)
    place.write_text("")
    try:
        yield
    finally:
        place.unlink()
        shutil.move(aside, place)


# --- written down and restored


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_what_is_restored_is_what_was_live_with_injection_and_tools(vault: Vault, batch_size: int) -> None:
    vault.add("The user likes sushi with tuna.", "/preferences/alice")
    model = ScriptedModel(["With tuna.", [CALL, {"tool": "weather", "input": {"city": "Rome"}}], "It rains.", "Bye."])
    settings = config(vault, retrieval_config=LIKES, batch_size=batch_size)
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


def test_a_session_goes_on_where_it_was_left(vault: Vault) -> None:
    for number in range(3):
        with VaultSessionManager(config(vault)) as manager:
            agent(manager, f"answer {number}")(f"question {number}")

    expected = [f"{what} {number}" for number in range(3) for what in ("question", "answer")]
    assert texts(vault) == expected


def test_several_agents_have_a_session_together(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        cook, guide = (agent(manager, "ok", agent_id=name) for name in ("cook", "guide"))
        cook("cook this")
        guide("go there")

    assert texts(vault, name="cook") == ["cook this", "ok"]
    assert texts(vault, name="guide") == ["go there", "ok"]


@pytest.mark.parametrize("mode", PersistenceMode)
def test_agents_that_work_together_have_a_state_together(vault: Vault, mode: PersistenceMode) -> None:
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


def test_a_vault_may_be_given_by_its_path(tmp_path: Path) -> None:
    Vault.init(tmp_path / "notes")
    with VaultSessionManager(config(tmp_path / "notes")) as manager:
        agent(manager, "ok")("hello")

    assert texts(Vault(tmp_path / "notes")) == ["hello", "ok"]


def test_a_call_within_an_event_loop(vault: Vault) -> None:
    strategy = PreferenceStrategy(model=memfs.agent.ScriptedModel([SUSHI]))

    async def run_turn() -> None:
        with VaultSessionManager(config(vault, batch_size=10, strategies=[strategy])) as manager:
            await agent(manager, "ok").invoke_async("I like sushi with tuna")
            assert manager.pending_message_count() == 0

    asyncio.run(run_turn())

    assert texts(vault) == ["I like sushi with tuna", "ok"]
    assert len(vault.list("/preferences/alice")) == 1


def test_metadata_goes_along_with_every_message(vault: Vault) -> None:
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


def test_without_persistence_nothing_is_written_and_all_else_works(vault: Vault) -> None:
    vault.add("The user likes sushi with tuna.", "/preferences/alice")
    before = {path for path in vault.root.rglob("*") if ".memfs" not in path.parts}
    model = ScriptedModel(["With tuna.", "Yes."])
    settings = config(
        vault,
        persistence_mode=PersistenceMode.NONE,
        retrieval_config=LIKES,
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


def test_tools_may_be_left_out_of_what_is_restored(vault: Vault) -> None:
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


def test_a_session_that_cannot_be_read_is_an_error_and_not_an_empty_one(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        agent(manager, "ok")("hello")
    manager = VaultSessionManager(config(vault))
    log = vault.root / "sessions/s-1/default.agent.jsonl"
    log.unlink()
    log.mkdir()

    with pytest.raises(StorageError, match=r"default\.agent\.jsonl"):
        agent(manager)


def test_a_session_that_was_closed_can_go_on(vault: Vault) -> None:
    model = memfs.agent.ScriptedModel([[{"content": "The first."}], [{"content": "The second."}]])
    manager = VaultSessionManager(config(vault, batch_size=10, strategies=[FactStrategy(model=model)]))
    one = agent(manager, "ok", "ok")
    one("hello")
    manager.close()
    manager.close()
    one("hello again")
    manager.close()

    assert texts(vault) == ["hello", "ok", "hello again", "ok"]
    assert {memory.body.strip() for memory in vault.list("/facts")} == {"The first.", "The second."}


@pytest.mark.parametrize("given", [None, "notes", {"vault": "notes"}])
def test_settings_of_another_kind_are_refused(given: Any) -> None:
    with pytest.raises(InvalidSetupError, match=r"config: .* is not a VaultMemoryConfig"):
        VaultSessionManager(given)


# --- what waits


def test_messages_wait_for_a_full_batch(vault: Vault) -> None:
    seen: list[tuple[int, int]] = []
    with VaultSessionManager(config(vault, batch_size=3)) as manager:
        look = weather(lambda: seen.append((manager.pending_message_count(), len(texts(vault)))))
        agent(manager, ["First.", CALL], ["Second.", CALL], "Last.", tools=[look])("Weather?")
        assert manager.pending_message_count() == 0

    assert seen == [(2, 0), (1, 2)]
    assert texts(vault) == ["Weather?", "First.", "Second.", "Last."]


def test_messages_wait_no_longer_than_the_interval(vault: Vault) -> None:
    seen: list[list[str]] = []
    with VaultSessionManager(config(vault, batch_size=100, flush_interval_seconds=0.01)) as manager:

        def look() -> None:
            wait_for(lambda: manager.pending_message_count() == 0)
            seen.append(texts(vault))

        agent(manager, ["First.", CALL], "Last.", tools=[weather(look)])("Weather?")

    assert seen == [["Weather?", "First."]]


@pytest.mark.parametrize("leave", ["close", "block"])
def test_what_waits_is_written_at_the_end(vault: Vault, leave: str) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager)
    for text in ("one", "two"):
        manager.append_message({"role": "user", "content": [{"text": text}]}, one)
    assert (manager.pending_message_count(), texts(vault)) == (2, [])
    if leave == "close":
        manager.close()
    else:
        with manager:
            pass

    assert (manager.pending_message_count(), texts(vault)) == (0, ["one", "two"])


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_what_could_not_be_written_waits_in_its_order_at_the_front(vault: Vault, batch_size: int) -> None:
    manager = VaultSessionManager(config(vault, batch_size=batch_size))
    one = agent(manager)

    def say(text: str) -> None:
        manager.append_message({"role": "user", "content": [{"text": text}]}, one)

    with in_the_way(vault):
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

    assert texts(vault) == [f"word {number}" for number in range(5)]


def test_an_answer_that_could_not_be_written_is_live_and_is_written_later(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager, "ok", "ok again")
    with in_the_way(vault), pytest.raises(VaultError):
        one("hello")
    one("hello again")
    manager.close()

    assert texts(vault) == ["hello", "ok", "hello again", "ok again"]
    with VaultSessionManager(config(vault)) as restored:
        assert agent(restored).messages == one.messages


def test_closing_says_what_could_not_be_written(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    manager.append_message({"role": "user", "content": [{"text": "hello"}]}, agent(manager))
    with in_the_way(vault), pytest.raises(VaultError), manager:
        pass

    assert manager.pending_message_count() == 1


def test_the_error_of_the_block_wins(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager)
    with in_the_way(vault), pytest.raises(ZeroDivisionError), manager:  # noqa: PT012
        manager.append_message({"role": "user", "content": [{"text": "hello"}]}, one)
        raise ZeroDivisionError
    assert "not written" in caplog.text


def test_the_error_of_the_model_wins(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager, ZeroDivisionError("of the model"))
    with in_the_way(vault), pytest.raises(ZeroDivisionError):
        one("hello")

    assert manager.pending_message_count() == 1
    assert "not written" in caplog.text


def test_the_interval_tries_again_after_a_failure(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100, flush_interval_seconds=0.01))
    one = agent(manager)
    with in_the_way(vault):
        manager.append_message({"role": "user", "content": [{"text": "hello"}]}, one)
        wait_for(lambda: "not written yet" in caplog.text)
    wait_for(lambda: manager.pending_message_count() == 0)
    manager.close()

    assert texts(vault) == ["hello"]


def test_whoever_reads_messages_reads_those_that_wait_too(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, batch_size=100))
    one = agent(manager)
    for text in ("one", "two"):
        manager.append_message({"role": "user", "content": [{"text": text}]}, one)
    second = manager.session_repository.read_message("s-1", "default", 1)

    assert second is not None
    assert second.message["content"] == [{"text": "two"}]
    assert manager.pending_message_count() == 0


# --- redaction


class Guarded(ScriptedModel):
    """A model that has what it was asked redacted."""

    async def stream(self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **options: Any) -> Any:
        yield {"redactContent": {"redactUserContentMessage": "[taken out]"}}
        async for event in super().stream(messages, tool_specs, system_prompt, **options):
            yield event


@pytest.mark.parametrize("batch_size", [1, 100])
def test_what_was_redacted_is_nowhere_in_the_vault_and_is_not_distilled(vault: Vault, batch_size: int) -> None:
    heard = memfs.agent.ScriptedModel([[], []])
    settings = config(vault, batch_size=batch_size, strategies=[FactStrategy(model=heard)])
    with VaultSessionManager(settings) as manager:
        one = agent(manager, model=Guarded(["I cannot say.", "No."]))
        one("My password is xyzzyplugh")
        one("What was it?")

    assert texts(vault) == ["[taken out]", "I cannot say.", "[taken out]", "No."]
    assert "xyzzyplugh" not in heard.last_prompt
    assert "[taken out]" in heard.last_prompt
    assert all(b"xyzzyplugh" not in path.read_bytes() for path in vault.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("batch_size", [1, 100])
def test_what_was_redacted_by_another_message_is_distilled_as_that(vault: Vault, batch_size: int) -> None:
    heard = memfs.agent.ScriptedModel([[]])
    with VaultSessionManager(config(vault, batch_size=batch_size, strategies=[FactStrategy(model=heard)])) as manager:
        one = agent(manager)
        manager.append_message({"role": "user", "content": [{"text": "xyzzyplugh"}]}, one)
        manager.redact_latest_message({"role": "user", "content": [{"text": "[taken out]"}]}, one)

    assert texts(vault) == ["[taken out]"]
    assert "xyzzyplugh" not in heard.last_prompt
    assert all(b"xyzzyplugh" not in path.read_bytes() for path in vault.root.rglob("*") if path.is_file())


def redact(manager: VaultSessionManager, number: int = 0, name: str = "default") -> None:
    """Have another text in the place of a message that was written before."""
    repository = manager.session_repository
    message = repository.list_messages(manager.session_id, name)[number]
    message.redact_message = {"role": "user", "content": [{"text": "[taken out]"}]}
    repository.update_message(manager.session_id, name, message)


def files_with(vault: Vault, text: str) -> list[Path]:
    return [path for path in vault.root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("batch_size", [1, 100])
def test_a_turn_that_waits_to_be_distilled_is_redacted_with_its_message(vault: Vault, batch_size: int) -> None:
    heard = memfs.agent.ScriptedModel([[], []])
    with VaultSessionManager(config(vault, batch_size=batch_size, strategies=[FactStrategy(model=heard)])) as manager:
        one, two = agent(manager, "ok", agent_id="one"), agent(manager, "ok", agent_id="two")
        one("My password is xyzzyplugh")
        two("I live in Ghent")
        assert any(".memfs" in path.parts for path in files_with(vault, "xyzzyplugh"))
        redact(manager, name="one")
        assert not files_with(vault, "xyzzyplugh")

    asked = "".join(call.text for call in heard.calls)
    assert "xyzzyplugh" not in asked
    assert "[taken out]" in asked
    assert "I live in Ghent" in asked


def test_a_prompt_that_is_tried_again_is_redacted_as_one(vault: Vault) -> None:
    heard = memfs.agent.ScriptedModel([[]])
    with VaultSessionManager(config(vault, strategies=[FactStrategy(model=heard)])) as manager:
        one = agent(manager, model=ScriptedModel([RuntimeError("down")]))
        prompt: Any = [{"role": "user", "content": [{"text": "xyzzyplugh"}]}]
        with pytest.raises(RuntimeError, match="down"):
            one(prompt)
        one.model = Guarded(["No."])
        one(prompt)
        assert not files_with(vault, "xyzzyplugh")

    assert "xyzzyplugh" not in heard.last_prompt


def test_what_a_killed_process_left_to_distil_is_redacted_too(vault: Vault, run_script: Script) -> None:
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

    with VaultSessionManager(config(vault)) as manager:  # one that distils nothing itself
        redact(manager)
        assert not files_with(vault, "xyzzyplugh")
    heard = memfs.agent.ScriptedModel([[]])
    with VaultSessionManager(config(vault, strategies=[FactStrategy(model=heard)])) as manager:
        agent(manager)
    assert "[taken out]" in heard.last_prompt
    assert "xyzzyplugh" not in heard.last_prompt


# --- distilled and told


def test_a_preference_is_remembered_in_a_second_session(vault: Vault) -> None:
    with VaultSessionManager(
        config(vault, "monday", strategies=[PreferenceStrategy(model=memfs.agent.ScriptedModel([SUSHI]))])
    ) as manager:
        agent(manager, "I will keep that in mind.")("I like sushi with tuna")

    model = ScriptedModel(["With tuna."])
    with VaultSessionManager(config(vault, "tuesday", retrieval_config=LIKES)) as manager:
        agent(manager, model=model)("Which sushi do I like?")

    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session monday, message 0"
    assert f'<entry source="/preferences/alice" id="{memory.id}">The user likes sushi' in model.calls[0].text


def test_the_agent_lends_its_model(vault: Vault) -> None:
    model = ScriptedModel(["ok", json.dumps(SUSHI)])
    with VaultSessionManager(config(vault, strategies=[PreferenceStrategy()])) as manager:
        agent(manager, model=model)("I like sushi with tuna")

    assert len(vault.list("/preferences/alice")) == 1
    assert "I like sushi with tuna" in model.last_prompt


def test_a_strategy_may_have_a_model_of_strands(vault: Vault) -> None:
    own = ScriptedModel([json.dumps(SUSHI)])
    with VaultSessionManager(config(vault, strategies=[PreferenceStrategy(model=own)])) as manager:
        agent(manager, "ok")("I like sushi with tuna")

    assert len(vault.list("/preferences/alice")) == 1


def test_a_trigger_says_when_and_no_model_is_asked_twice_for_a_turn(vault: Vault) -> None:
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


def test_turns_of_a_session_that_was_not_closed_are_distilled_by_the_next(vault: Vault) -> None:
    manager = VaultSessionManager(config(vault, "monday", strategies=[PreferenceStrategy()]))
    agent(manager, "ok")("I like sushi with tuna")
    del manager
    gc.collect()

    model = memfs.agent.ScriptedModel([SUSHI])
    with VaultSessionManager(config(vault, "tuesday", strategies=[PreferenceStrategy(model=model)])) as manager:
        agent(manager, "ok")

    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session monday, message 0"


def test_turns_of_a_process_that_was_killed_are_distilled_by_the_next(vault: Vault, run_script: Script) -> None:
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

    assert texts(vault, "monday") == ["I like sushi with tuna", "ok"]
    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session monday, message 0"


def test_the_turns_before_go_along_when_a_session_goes_on(vault: Vault) -> None:
    heard = [memfs.agent.ScriptedModel([[]]) for _ in range(2)]
    for model, text in zip(heard, ("A friend comes on Friday.", "His name is Bob."), strict=True):
        with VaultSessionManager(config(vault, strategies=[FactStrategy(model=model)])) as manager:
            agent(manager, "ok")(text)

    earlier, _, new = heard[1].last_prompt.partition("<transcript>")
    assert "A friend comes on Friday." in earlier
    assert "A friend" not in new
    assert "His name is Bob." in new


def test_what_was_told_from_memory_is_not_distilled_once_more(vault: Vault) -> None:
    vault.add("The user likes sushi with tuna. It was said at lunch.", "/preferences/alice")
    model = memfs.agent.ScriptedModel([[{"content": "The user likes sushi with tuna."}, {"content": "It is Tuesday."}]])
    settings = config(vault, retrieval_config=LIKES, strategies=[PreferenceStrategy(model=model)])
    with VaultSessionManager(settings) as manager:
        agent(manager, "The user likes sushi with tuna.")("Which sushi do I like?")

    assert {memory.body.strip() for memory in vault.list("/preferences/alice")} == {
        "The user likes sushi with tuna. It was said at lunch.", "It is Tuesday.",
    }  # fmt: skip


def test_a_summary_numbers_messages_on_across_runs(vault: Vault) -> None:
    for topic in ("Lunch", "Work"):
        strategy = SummaryStrategy(model=memfs.agent.ScriptedModel([[{"topic": topic, "content": "x"}]]))
        with VaultSessionManager(config(vault, strategies=[strategy])) as manager:
            agent(manager, "ok")("hello")

    (memory,) = vault.list("/summaries/alice/s-1")
    assert memory.header.source == "session s-1, message 3"
    assert [line for line in memory.body.splitlines() if line.startswith("##")] == ["## Lunch", "## Work"]


# --- what cannot be stored, and what was there


@tool
def price() -> dict[str, Any]:
    """Tell the price."""
    return {"status": "success", "content": [{"json": {"price": Decimal("1.5")}}]}


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_message_that_cannot_be_stored_fails_its_turn_alone(vault: Vault, batch_size: int) -> None:
    big = [{"text": "see"}, {"image": {"format": "png", "source": {"bytes": b"\0" * (25 * 1024 * 1024)}}}]
    with VaultSessionManager(config(vault, batch_size=batch_size)) as manager:
        talker = agent(manager, "One.", "Two.", "Three.")
        talker("one")
        with pytest.raises(InvalidMemoryError) as caught:
            talker([{"text": "two"}, {"text": Decimal("1.5")}])  # type: ignore[arg-type]
        assert str(caught.value) == (
            "message 2 of agent 'default' in session 's-1': cannot be stored: message.content[1].text:"
            " JSON has no type for Decimal"
        )
        assert caught.value.hint == "The message was not saved in the session; send it without that part."
        with pytest.raises(
            InvalidMemoryError, match=r"32 MiB, most of it in message\.content\[1\]\.image\.source\.bytes"
        ):
            talker(big)  # type: ignore[arg-type]
        assert manager.pending_message_count() == 0
        talker("three")

    assert texts(vault) == ["one", "One.", "three", "Two."]
    with VaultSessionManager(config(vault)) as manager:
        assert agent(manager).messages == talker.messages
        assert [one.message_id for one in manager.session_repository.list_messages("s-1", "default")] == [0, 1, 2, 3]


def test_a_tool_result_that_cannot_be_stored_fails_its_turn_alone(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        talker = agent(manager, {"tool": "price", "input": {}}, "Never said.", tools=[price])
        with pytest.raises(EventLoopException, match=r"message 2 .*\.toolResult\.content\[0\]\.json\.price"):
            talker("what is it?")
        talker("and now?")

    with VaultSessionManager(config(vault)) as manager:
        assert agent(manager).messages == talker.messages
    assert texts(vault)[-2:] == ["and now?", "Never said."]


def test_a_message_that_cannot_be_stored_is_not_distilled(vault: Vault) -> None:
    model = ScriptedModel(["[]"])
    with VaultSessionManager(config(vault, strategies=[FactStrategy(model=model)])) as manager:
        talker = agent(manager, "One.", "Two.")
        with pytest.raises(InvalidMemoryError):
            talker([{"text": "hush"}, {"text": Decimal("1.5")}])  # type: ignore[arg-type]
        talker("two")

    assert ["hush" in call.text for call in model.calls] == [False]


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("gone", ["moved", "deleted"])
def test_a_log_that_a_live_agent_begins_anew_is_restored(vault: Vault, batch_size: int, gone: str) -> None:
    windowed = {"conversation_manager": SlidingWindowConversationManager(window_size=2)}
    with VaultSessionManager(config(vault, batch_size=batch_size)) as manager:
        talker = agent(manager, *"ABCD", **windowed)
        talker.state.set("mood", "good")
        talker("a")
        talker("b")
        if gone == "moved":
            Sessions(vault, clock=lambda: datetime(2100, 1, 1, tzinfo=UTC)).expire(1)
        else:
            shutil.rmtree(vault.root / "sessions" / "s-1")
        talker("c")
        talker.state.set("mood", "better")
        talker("d")

    with VaultSessionManager(config(vault)) as manager:
        again = agent(manager, conversation_manager=SlidingWindowConversationManager(window_size=2))
        assert again.messages == talker.messages
        assert again.state.get("mood") == "better"
    assert texts(vault) == ["c", "C", "d", "D"]


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_log_that_begins_anew_has_the_state_of_its_agent(vault: Vault, batch_size: int) -> None:
    with VaultSessionManager(config(vault, batch_size=batch_size)) as manager:
        talker = agent(manager, *"AB", conversation_manager=NullConversationManager())
        talker.state.set("mood", "good")
        talker("a")
        shutil.rmtree(vault.root / "sessions" / "s-1")
        talker("b")

    with VaultSessionManager(config(vault)) as manager:
        again = agent(manager, conversation_manager=NullConversationManager())
        assert again.state.get("mood") == "good"
        assert again.messages == talker.messages[2:]


@pytest.mark.parametrize("manager_of", [SlidingWindowConversationManager, NullConversationManager])
def test_messages_without_a_state_are_restored(vault: Vault, manager_of: Any) -> None:
    with VaultSessionManager(config(vault)) as manager:
        talker = agent(manager, "Yes.", conversation_manager=manager_of())
        talker("remember me")
    file = vault.root / SessionLog(vault, "s-1", "default").path
    lines = file.read_text().splitlines()
    file.write_text("".join(f"{line[:-5] if 'state' in line else line}\n" for line in lines))

    with VaultSessionManager(config(vault)) as manager:
        again = agent(manager, "Of course.", conversation_manager=manager_of())
        assert again.messages == talker.messages
        again("Really?")
    assert texts(vault) == ["remember me", "Yes.", "Really?", "Of course."]


def test_a_repository_knows_agents_by_their_messages(vault: Vault) -> None:
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


def test_a_forked_child_writes_nothing_of_what_waits(vault: Vault, run_script: Script) -> None:
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
    assert sorted(texts(vault)) == ["of the child", "of the parent"]


def test_a_child_that_is_forked_within_a_flush_can_flush(vault: Vault, run_script: Script) -> None:
    code = """
import threading
inside, leave = threading.Event(), threading.Event()
write = manager._repository._buffer._write
def slowly(batch):
    inside.set()
    leave.wait()
    return write(batch)
manager._repository._buffer._write = slowly
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
    assert sorted(texts(vault)) == ["of the child", "of the parent"]


@pytest.mark.parametrize("seconds", [1e10, 1e300])
def test_an_interval_may_be_longer_than_a_timer_can_be(vault: Vault, seconds: float) -> None:
    with VaultSessionManager(config(vault, batch_size=100, flush_interval_seconds=seconds)) as manager:
        manager.append_message({"role": "user", "content": [{"text": "x"}]}, agent(manager))
        (timer,) = (one for one in threading.enumerate() if one.name == "memfs-flush")

    timer.join()  # an exception in it fails the test
    assert texts(vault) == ["x"]


def test_another_actor_does_not_get_the_conversation(vault: Vault) -> None:
    with VaultSessionManager(config(vault)) as manager:
        agent(manager, "Kept.")("my PIN is 1234")

    with VaultSessionManager(VaultMemoryConfig(vault, "s-1", "bob")) as manager:
        with pytest.raises(OtherActorError, match="belongs to actor 'alice', not to 'bob'"):
            agent(manager)
        own = agent(manager, "Hello.", agent_id="for-bob")
        own("hi")

    assert texts(vault) == ["my PIN is 1234", "Kept."]
    assert texts(vault, name="for-bob") == ["hi", "Hello."]


def test_each_strategy_of_a_killed_process_gets_its_turns_in_the_next_session_it_shares(
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
    heard: dict[str, str] = {}
    for who, session in (("bob", "his"), ("alice", "tuesday"), ("alice", "monday")):
        models = [memfs.agent.ScriptedModel([[], []]) for _ in range(2)]
        strategies = [FactStrategy(model=models[0]), SummaryStrategy(model=models[1])]
        with VaultSessionManager(VaultMemoryConfig(vault, session, who, strategies=strategies)) as manager:
            agent(manager)
        heard[session] = "".join("FS"[at] for at, model in enumerate(models) if "Ghent" in str(model.calls))

    assert heard == {"his": "", "tuesday": "F", "monday": "S"}
