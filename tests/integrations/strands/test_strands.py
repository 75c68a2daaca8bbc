"""The Strands integration, with the real Agent and a scripted model: offline, on real vaults."""

import asyncio
import inspect
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import strands.memory
from strands import Agent
from strands.session.file_session_manager import FileSessionManager

import memfs.integrations.strands as memory
from memfs import Vault
from memfs.agent import wait
from memfs.integrations.strands import (
    ExtractionResult,
    InMemoryStore,
    IntervalTrigger,
    InvocationTrigger,
    MemoryManager,
    ModelExtractor,
    ScriptedModel,
    StrandsModel,
    VaultStore,
)

WAIT_SECONDS = 30  # the limit of any wait


class UserTextExtractor:
    """An extractor that returns the user's texts as facts, and records its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def extract(self, messages: Any, context: Any = None) -> list[ExtractionResult]:
        texts = [block["text"] for one in messages if one["role"] == "user" for block in one["content"]]
        self.batches.append(texts)
        return [ExtractionResult(text) for text in texts]


def endless_model(*replies: Any) -> ScriptedModel:
    """Return a model with these replies, and then "ok" forever."""
    return ScriptedModel(itertools.chain(replies, itertools.repeat("ok")))


def fact(text: str) -> str:
    return json.dumps([{"content": text}])


def make_agent(model: Any, manager: Any = None, **options: Any) -> Agent:
    return Agent(model=model, memory_manager=manager, callback_handler=None, **options)


def bodies(vault: Vault, namespace: str = "/facts") -> set[str]:
    return {found.body.strip() for found in vault.list(namespace)}


def as_json(messages: Any) -> str:
    return json.dumps(messages, ensure_ascii=False)


@pytest.fixture
def make_manager(vault: Vault) -> Iterator[Callable[..., tuple[MemoryManager, UserTextExtractor]]]:
    """Yield a function that makes a manager, which saves the user's texts after a number of turns in a vault."""
    made: list[MemoryManager] = []

    def manager(every: int = 1, **options: Any) -> tuple[MemoryManager, UserTextExtractor]:
        extractor = UserTextExtractor()
        store = VaultStore(vault, "/facts", extraction={"trigger": IntervalTrigger(every), "extractor": extractor})
        made.append(MemoryManager([store], injection=False, **options))
        return made[-1], extractor

    yield manager
    for one in made:
        wait(one.close())


# --- names


def test_every_name_of_strands_memory_is_there() -> None:
    assert set(strands.memory.__all__) <= set(memory.__all__)
    assert all(hasattr(memory, name) for name in memory.__all__)


def test_an_error_of_several_stores_is_a_subclass_of_both_aggregate_errors() -> None:
    from memfs.errors import AggregateMemoryError

    error = memory.AggregateMemoryError("adding failed", [ValueError("disk full")])

    assert isinstance(error, AggregateMemoryError)
    assert isinstance(error, strands.memory.AggregateMemoryError)
    assert "disk full" in str(error)


def test_methods_inherited_from_strands_protocol_are_not_capabilities() -> None:
    class Readable(strands.memory.MemoryStore):
        def __init__(self) -> None:
            self.name, self.description, self.max_search_results = "readable", None, None
            self.writable, self.extraction = False, None

        async def search(self, query: str, options: Any = None) -> list[Any]:
            return [strands.memory.MemoryEntry(content="Tea is at four.")]

    manager = MemoryManager([Readable()])

    assert [one.content for one in wait(manager.search("tea"))] == ["Tea is at four."]
    with pytest.raises(ValueError, match="no writable store matched"):
        wait(manager.add("Coffee is at ten."))


def test_a_typo_in_the_settings_is_an_error() -> None:
    store = InMemoryStore(extraction={"triggers": [InvocationTrigger()]})

    with pytest.raises(ValueError, match="unknown extraction key 'triggers'"):
        MemoryManager([store])
    with pytest.raises(ValueError, match="unknown key 'max_results'"):
        MemoryManager([InMemoryStore()], injection={"max_results": 3})


def test_an_empty_list_of_stores_means_none_in_a_search_and_all_for_a_tool() -> None:
    store = InMemoryStore()
    manager = MemoryManager([store])
    wait(store.add("Alice likes tea."))

    assert wait(manager.search("tea", {"stores": []})) == []
    assert [one["content"] for one in wait(manager.tools[0](query="tea", stores=[]))] == ["Alice likes tea."]


# --- tools


def tool_results(agent: Agent) -> list[tuple[str, Any]]:
    """Return the tool results in a conversation: the status, and the result or the error."""
    results: list[tuple[str, Any]] = []
    for message in agent.messages:
        for block in message["content"]:
            if "toolResult" in block:
                text = block["toolResult"]["content"][0]["text"]
                status = block["toolResult"]["status"]
                results.append((status, json.loads(text) if status == "success" else text))
    return results


def test_a_model_adds_and_searches(vault: Vault) -> None:
    model = ScriptedModel(
        [
            {"tool": "add_memory", "input": {"entries": ["Alice likes tea.", "Alice has a cat."]}},
            {"tool": "search_memory", "input": {"query": "tea"}},
            "She likes tea.",
        ]
    )
    agent = make_agent(model, MemoryManager([VaultStore(vault, "/facts/alice")], add_tool_config=True))

    agent("Remember that, and tell me what Alice drinks.")

    added, found = tool_results(agent)
    assert added == ("success", {"stored": 2})
    assert [one["content"] for one in found[1]] == ["Alice likes tea."]
    assert bodies(vault) == {"Alice likes tea.", "Alice has a cat."}
    assert [spec["name"] for spec in model.calls[0].tool_specs] == ["search_memory", "add_memory"]


def test_a_model_reads_lists_corrects_and_forgets(vault: Vault) -> None:
    kept = vault.add("Alice likes tea.", namespace="/facts")
    model = ScriptedModel(
        [
            {"tool": "list_memories", "input": {}},
            {"tool": "get_memory", "input": {"memory_id": kept.id}},
            {"tool": "update_memory", "input": {"memory_id": kept.id, "content": "Alice likes coffee."}},
            {"tool": "forget_memory", "input": {"memory_id": kept.id}},
            {"tool": "get_memory", "input": {"memory_id": kept.id}},
            "Done.",
        ]
    )
    manager = MemoryManager(
        [VaultStore(vault, "/facts")], read_tools=["get", "list"], write_tools=["update", "forget"], injection=False
    )
    agent = make_agent(model, manager)

    agent("Tidy up.")

    listed, read, updated, forgotten, gone = tool_results(agent)
    assert [one["id"] for one in listed[1]] == [kept.id]
    assert read[1]["content"] == "Alice likes tea."
    assert (updated[0], forgotten[0]) == ("success", "success")
    assert gone[0] == "error"
    assert kept.id in gone[1]
    assert bodies(vault) == set()


def test_one_tool_can_replace_all_others(vault: Vault) -> None:
    model = ScriptedModel(
        [
            {"tool": "memory", "input": {"action": "add", "entries": ["Alice likes tea."]}},
            {"tool": "memory", "input": {"action": "search", "query": "tea"}},
            "Done.",
        ]
    )
    manager = MemoryManager([VaultStore(vault, "/facts")], add_tool_config=True, tools="single")
    agent = make_agent(model, manager)

    agent("Remember that.")

    assert [spec["name"] for spec in model.calls[0].tool_specs] == ["memory"]
    assert tool_results(agent)[1][1][0]["content"] == "Alice likes tea."


def test_an_invalid_argument_is_returned_to_the_model_as_an_error(vault: Vault) -> None:
    model = ScriptedModel([{"tool": "search_memory", "input": {"query": "tea", "namespace": "/bob"}}, "Sorry."])
    agent = make_agent(model, MemoryManager([VaultStore(vault)]))

    agent("What does Bob like?")

    assert tool_results(agent)[0][0] == "error"
    assert "unknown argument 'namespace'" in tool_results(agent)[0][1]


def test_accepted_facts_are_in_the_vault_after_a_synchronous_call(vault: Vault) -> None:
    call = {"tool": "add_memory", "input": {"entries": ["Alice likes tea."]}}
    for mode in ("memory_manager", "plugins"):
        manager = MemoryManager([VaultStore(vault, f"/facts/{mode}")], add_tool_config={"wait_for_writes": False})
        given: Any = {"memory_manager": manager} if mode == "memory_manager" else {"plugins": [manager]}
        agent = Agent(model=ScriptedModel([call, "ok"]), callback_handler=None, **given)

        agent("Remember that.")

        assert tool_results(agent) == [("success", {"accepted": 1})]
        assert bodies(vault, f"/facts/{mode}") == {"Alice likes tea."}


# --- injection


def test_memories_are_injected_for_the_model_and_not_kept_in_the_conversation(vault: Vault, tmp_path: Path) -> None:
    vault.add("Alice is allergic to peanuts.", namespace="/facts")
    model = endless_model()
    sessions = FileSessionManager("s1", storage_dir=str(tmp_path / "sessions"))
    agent = make_agent(model, MemoryManager([VaultStore(vault, "/facts")]), session_manager=sessions)

    agent("Is Alice allergic to peanuts?")

    assert "<memory>" in as_json(model.calls[0].messages)
    assert "Alice is allergic to peanuts." in as_json(model.calls[0].messages)
    assert "<memory>" not in as_json(agent.messages)
    stored = [path.read_text(encoding="utf-8") for path in (tmp_path / "sessions").rglob("*.json")]
    assert any("Is Alice allergic" in text for text in stored)
    assert not any("<memory>" in text for text in stored)


def test_a_tool_turn_gets_no_memories_unless_every_turn_does(vault: Vault) -> None:
    vault.add("Alice likes green tea.", namespace="/facts")
    replies: list[Any] = [["Green tea.", {"tool": "search_memory", "input": {"query": "green tea"}}], "Green tea."]
    is_injected = {}
    for trigger in ("userTurn", "everyTurn"):
        model = ScriptedModel(replies)
        make_agent(model, MemoryManager([VaultStore(vault, "/facts")], injection={"trigger": trigger}))("green tea?")
        is_injected[trigger] = ["<memory>" in as_json(call.messages[-1]) for call in model.calls]

    assert is_injected == {"userTurn": [True, False], "everyTurn": [True, True]}


def test_an_unrelated_question_gets_no_memories(vault: Vault) -> None:
    vault.add("Alice is allergic to peanuts.", namespace="/facts")
    model = endless_model()

    make_agent(model, MemoryManager([VaultStore(vault, "/facts")]))("When does the train to Basel leave?")

    assert "<memory>" not in as_json(model.calls[0].messages)


# --- extraction


def test_synchronous_calls_respect_the_trigger_interval(vault: Vault) -> None:
    aux = ScriptedModel([fact("Alice likes tea."), fact("Alice has a cat.")])
    manager = MemoryManager([VaultStore(vault, "/facts", extraction=True)])
    agent = make_agent(endless_model(), manager, aux_model=aux)
    call_counts = []
    for number in range(10):
        agent(f"This is turn {number}.")
        call_counts.append(len(aux.calls))

    assert call_counts == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2]
    assert bodies(vault) == {"Alice likes tea.", "Alice has a cat."}
    assert all(f"turn {number}." in aux.calls[0].text for number in range(5))


def test_pending_turns_are_on_the_disk_after_each_synchronous_call(
    vault: Vault, make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]]
) -> None:
    manager, _ = make_manager(5)
    agent = make_agent(endless_model(), manager)

    agent("Alice likes tea.")

    logs = [path.read_text() for path in (vault.root / ".memfs" / "pending").rglob("*.jsonl")]
    assert ["Alice likes tea." in log for log in logs] == [True]


def test_asynchronous_calls_respect_the_trigger_interval(
    make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]],
) -> None:
    manager, words = make_manager(5)
    agent = make_agent(endless_model(), manager)

    async def talk() -> list[int]:
        batch_counts = []
        for number in range(5):
            await agent.invoke_async(f"This is turn {number}.")
            batch_counts.append(len(words.batches))
        await manager.settle()
        return [*batch_counts, len(words.batches)]

    assert asyncio.run(talk())[-1] == 1
    assert words.batches == [[f"This is turn {number}." for number in range(5)]]


@pytest.mark.parametrize("end", ["with", "async with", "shutdown", "flush"])
def test_the_end_of_an_agent_saves_the_remaining_turns(
    vault: Vault, make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]], end: str
) -> None:
    manager, _ = make_manager(5)
    agent = make_agent(endless_model(), manager)

    async def leave() -> None:
        async with agent:
            await agent.invoke_async("Alice likes tea.")

    match end:
        case "with":
            with agent:
                agent("Alice likes tea.")
        case "async with":
            asyncio.run(leave())
        case "shutdown":
            agent("Alice likes tea.")
            agent.shutdown()
        case "flush":
            agent("Alice likes tea.")
            asyncio.run(manager.flush())

    assert bodies(vault) == {"Alice likes tea."}
    assert manager.pending == 0


def test_a_flush_called_by_a_tool_saves_everything(
    vault: Vault, make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]]
) -> None:
    manager, _ = make_manager(5)

    @strands.tool
    async def save_now() -> str:
        """Save now."""
        await manager.flush()
        return "saved"

    agent = make_agent(ScriptedModel([{"tool": "save_now"}, "ok"]), manager, tools=[save_now])

    agent("Alice likes tea.")

    assert bodies(vault) == {"Alice likes tea."}


def test_a_subclass_that_overrides_flush_respects_the_trigger_interval(vault: Vault) -> None:
    class Counting(MemoryManager):
        flushes = 0

        async def flush(self) -> None:
            self.flushes += 1
            await super().flush()

    words = UserTextExtractor()
    store = VaultStore(vault, "/facts", extraction={"trigger": IntervalTrigger(5), "extractor": words})
    manager = Counting([store], injection=False)
    agent = make_agent(endless_model(), manager)

    agent("Alice likes tea.")

    assert (manager.flushes, words.batches) == (1, [])
    agent.shutdown()
    assert words.batches == [["Alice likes tea."]]


def test_a_model_that_fails_loses_no_turn(
    vault: Vault, make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]]
) -> None:
    manager, _ = make_manager()
    agent = make_agent(ScriptedModel([RuntimeError("the model is down")]), manager)

    with pytest.raises(RuntimeError, match="the model is down"):
        agent("Alice likes tea.")

    assert bodies(vault) == {"Alice likes tea."}


def test_without_a_vault_a_synchronous_call_saves_everything() -> None:
    words = UserTextExtractor()
    store = InMemoryStore(extraction={"trigger": IntervalTrigger(5), "extractor": words})

    make_agent(endless_model(), MemoryManager([store], injection=False))("Alice likes tea.")

    assert words.batches == [["Alice likes tea."]]


def test_the_model_of_the_manager_takes_precedence_over_the_agents(vault: Vault) -> None:
    own = ScriptedModel([fact("Alice likes tea.")])
    agent = make_agent(endless_model(), MemoryManager([VaultStore(vault, "/facts", extraction=True)], model=own))

    with agent:
        agent("I am Alice, and I like tea.")

    assert len(own.calls) == 1
    assert bodies(vault) == {"Alice likes tea."}


def test_injected_memories_are_not_stored_again(vault: Vault) -> None:
    vault.add("Alice likes green tea. It is from Uji.", namespace="/facts")
    aux = ScriptedModel(['[{"content": "Alice likes green tea."}, {"content": "Alice moved to Kyoto."}]'])
    agent = make_agent(endless_model(), MemoryManager([VaultStore(vault, "/facts", extraction=True)]), aux_model=aux)

    with agent:
        agent("Does Alice like green tea? She moved to Kyoto.")

    assert bodies(vault) == {"Alice likes green tea. It is from Uji.", "Alice moved to Kyoto."}


# --- plugins, and Strands' own manager


@pytest.mark.parametrize("trigger", [InvocationTrigger, strands.memory.InvocationTrigger])
def test_as_a_plugin_a_synchronous_call_waits_for_its_saves(vault: Vault, trigger: Any) -> None:
    words = UserTextExtractor()
    store = VaultStore(vault, "/facts", extraction={"trigger": trigger(), "extractor": words})
    manager = MemoryManager([store], injection=False)
    agent = Agent(model=endless_model(), plugins=[manager], callback_handler=None)

    agent("Alice likes tea.")
    agent("Alice has a cat.")

    assert words.batches == [["Alice likes tea."], ["Alice has a cat."]]
    assert bodies(vault) == {"Alice likes tea.", "Alice has a cat."}


def test_as_a_plugin_it_has_tools_injection_and_extraction(vault: Vault) -> None:
    vault.add("Alice likes green tea.", namespace="/facts")
    model, aux = endless_model(), ScriptedModel(["[]"])
    manager = MemoryManager([VaultStore(vault, "/facts", extraction=True)])
    agent = Agent(model=model, aux_model=aux, plugins=[manager], callback_handler=None)

    for _ in range(5):
        agent("Which tea does Alice like?")

    assert agent.tool_names == ["search_memory"]
    assert "<memory>" in as_json(model.calls[0].messages)
    assert len(aux.calls) == 1


def test_an_agent_called_by_another_saves_before_the_call_ends(
    vault: Vault, make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]]
) -> None:
    manager, _ = make_manager()
    helper = make_agent(endless_model(), manager, name="helper")

    @strands.tool
    async def ask_helper(question: str) -> str:
        """Ask."""
        return str(await helper.invoke_async(question))

    caller = make_agent(
        ScriptedModel([{"tool": "ask_helper", "input": {"question": "Does tea help?"}}, "ok"]), tools=[ask_helper]
    )

    caller("Ask the helper.")

    assert bodies(vault) == {"Does tea help?"}


def test_a_manager_in_both_places_is_an_error(vault: Vault) -> None:
    manager = MemoryManager([VaultStore(vault)])

    with pytest.raises(ValueError, match="already registered via plugins"):
        make_agent(endless_model(), manager, plugins=[manager])


@pytest.mark.parametrize("form", ["manager", "config"])
def test_a_vault_store_works_with_strands_own_manager(vault: Vault, form: str) -> None:
    kept = vault.add("Alice likes green tea.", namespace="/facts")
    words = UserTextExtractor()
    store: Any = VaultStore(
        vault, "/facts", tools=["get"], extraction={"trigger": IntervalTrigger(2), "extractor": words}
    )
    given: Any = {"stores": [store], "add_tool_config": True}
    model = endless_model(
        {"tool": "get_memory", "input": {"memory_id": kept.id}},
        {"tool": "add_memory", "input": {"entries": ["Alice has a cat."]}},
    )
    agent = make_agent(model, strands.memory.MemoryManager(**given) if form == "manager" else given)

    agent("Which green tea does Alice like?")

    assert type(agent.memory_manager) is strands.memory.MemoryManager
    assert "Alice likes green tea." in as_json(model.calls[0].messages[-1])
    assert tool_results(agent)[0][1]["content"] == "Alice likes green tea."
    assert {"Alice has a cat.", "Which green tea does Alice like?"} <= bodies(vault)


def test_a_config_dict_creates_a_manager_of_memfs(vault: Vault) -> None:
    config: memory.MemoryManagerConfig = {"stores": [VaultStore(vault)], "injection": {"max_tokens": 200}}

    agent = make_agent(endless_model(), MemoryManager(**config))

    assert isinstance(agent.memory_manager, MemoryManager)


# --- agents, loops and processes


def test_one_manager_records_two_agents(make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]]) -> None:
    manager, words = make_manager(2)
    first, second = make_agent(endless_model(), manager), make_agent(endless_model(), manager)

    first("A is for apple.")
    second("B is for bear.")
    second("B is for bread.")
    first("A is for ant.")

    assert words.batches == [["B is for bear.", "B is for bread."], ["A is for apple.", "A is for ant."]]


def test_a_synchronous_call_does_not_wait_for_the_saves_of_another_agent(vault: Vault) -> None:
    begun, let_go = threading.Event(), threading.Event()

    async def hang(messages: Any) -> str:
        begun.set()
        await asyncio.to_thread(let_go.wait, WAIT_SECONDS)
        return fact("Alice likes tea.")

    aux = ScriptedModel([hang, fact("Bob has a dog.")])
    store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})
    manager = MemoryManager([store], injection=False)
    slow, quick = (make_agent(endless_model(), manager, aux_model=aux) for _ in range(2))
    thread = threading.Thread(target=slow, args=("I am Alice, and I like tea.",))
    thread.start()
    assert begun.wait(WAIT_SECONDS)

    quick("I am Bob, and I have a dog.")

    assert bodies(vault) == {"Bob has a dog."}
    let_go.set()
    thread.join(WAIT_SECONDS)
    assert bodies(vault) == {"Alice likes tea.", "Bob has a dog."}


def test_three_event_loops_in_three_threads_lose_no_turn(
    vault: Vault, make_manager: Callable[..., tuple[MemoryManager, UserTextExtractor]]
) -> None:
    manager, _ = make_manager()
    together = threading.Barrier(3, timeout=WAIT_SECONDS)

    async def talk(name: str) -> None:
        agent = make_agent(endless_model(), manager)
        together.wait()
        for number in range(4):
            await agent.invoke_async(f"{name} says {number}.")
        await manager.flush()

    threads = [threading.Thread(target=asyncio.run, args=(talk(name),)) for name in ("Ada", "Bob", "Cyd")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)

    assert bodies(vault) == {f"{name} says {number}." for name in ("Ada", "Bob", "Cyd") for number in range(4)}
    assert manager.pending == 0


def test_a_save_whose_event_loop_was_closed_is_retried(vault: Vault) -> None:
    begun = asyncio.Event()

    async def hang(messages: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "[]"

    aux = ScriptedModel([hang, fact("Alice likes tea and has a cat.")])
    manager = MemoryManager([VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})], injection=False)
    agent = make_agent(endless_model(), manager, aux_model=aux)

    async def cut_short() -> None:
        await agent.invoke_async("I like tea.")
        async with asyncio.timeout(WAIT_SECONDS):
            await begun.wait()

    asyncio.run(cut_short())
    assert bodies(vault) == set()
    agent("I have a cat.")

    assert "I like tea." in aux.last_prompt
    assert "I have a cat." in aux.last_prompt
    assert bodies(vault) == {"Alice likes tea and has a cat."}
    assert manager.pending == 0


PROGRAM = """
import itertools, os, signal, sys
from memfs.integrations.strands import *
from strands import Agent

class UserTextExtractor:
    async def extract(self, messages, context=None):
        return [ExtractionResult(b["text"]) for m in messages if m["role"] == "user" for b in m["content"]]

root, name, every, count, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
store = VaultStore(root, "/facts", extraction={"trigger": IntervalTrigger(every), "extractor": UserTextExtractor()})
manager = MemoryManager([store], injection=False)
agent = Agent(model=ScriptedModel(itertools.repeat("ok")), memory_manager=manager, callback_handler=None)
for number in range(count):
    agent(f"{name} says {number}.")
if end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
agent.shutdown()
"""


def start(vault: Vault, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, str(vault.root), *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for_exit(process: "subprocess.Popen[str]") -> int:
    _, errors = process.communicate(timeout=4 * WAIT_SECONDS)
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode


def test_a_killed_agent_loses_no_turn(vault: Vault) -> None:
    assert wait_for_exit(start(vault, "Ada", 5, 3, "kill")) == -signal.SIGKILL
    assert bodies(vault) == set()

    assert wait_for_exit(start(vault, "Bob", 5, 1, "shutdown")) == 0

    assert bodies(vault) == {"Ada says 0.", "Ada says 1.", "Ada says 2.", "Bob says 0."}
    assert not any(path.stat().st_size for path in (vault.root / ".memfs" / "pending").iterdir())


def test_two_agents_in_two_processes_lose_no_turn(vault: Vault) -> None:
    for process in [start(vault, name, 2, 6, "shutdown") for name in ("Ada", "Bob")]:
        assert wait_for_exit(process) == 0

    assert bodies(vault) == {f"{name} says {number}." for name in ("Ada", "Bob") for number in range(6)}


# --- spans

SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))

from memfs.integrations.strands import *
from strands import Agent

vault = Vault(sys.argv[1])
vault.add("The secret is a walrus.", namespace="/facts")
store = VaultStore(vault, "/facts", extraction=True)
aux = ScriptedModel(['[{"content": "The walrus has tusks."}]'])
model = ScriptedModel([{"tool": "add_memory", "input": {"entries": ["A walrus is large."]}}, "ok"])
manager = MemoryManager([store], add_tool_config=True)
with Agent(model=model, aux_model=aux, memory_manager=manager, callback_handler=None) as agent:
    agent("What is the secret walrus?")

found = spans.get_finished_spans()
saves = {span.context.trace_id for span in found if span.name == "memory.extract"}
ours = [span for span in found if span.name.startswith("memory.") or span.context.trace_id in saves]
print(json.dumps([[span.name, span.to_json()] for span in ours]))
"""


@pytest.mark.parametrize("is_captured", [False, True])
def test_spans_have_texts_only_if_content_capture_is_on(
    vault: Vault, run_script: Any, monkeypatch: pytest.MonkeyPatch, is_captured: bool
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", str(is_captured).lower())

    done = run_script(SPANS, vault.root)

    spans = json.loads(done.stdout or done.stderr)
    names = [name for name, _ in spans]
    assert {"memory.search", "memory.add", "memory.inject", "memory.extract", "chat"} <= set(names)
    assert any("walrus" in text.lower() for _, text in spans) == is_captured
    inject = json.loads(dict(spans)["memory.inject"])
    assert inject["attributes"]["memory.entry.count"] == 1


# --- models


def test_a_scripted_model_records_its_calls_and_raises_when_it_has_no_reply_left() -> None:
    model = ScriptedModel([lambda messages: f"You said {len(messages)} thing."])
    agent = make_agent(model, system_prompt="Be brief.")

    assert str(agent("Hello.")).strip() == "You said 1 thing."
    assert model.last_prompt == "Be brief.\nuser: Hello."
    with pytest.raises(ValueError, match="no reply left for call 2"):
        agent("Hello again.")


def test_a_scripted_model_returns_whole_messages_and_structured_output() -> None:
    from pydantic import BaseModel

    class Taste(BaseModel):
        drink: str

    whole = {"role": "assistant", "content": [{"text": "Tea."}]}
    agent = make_agent(ScriptedModel([whole, {"tool": "Taste", "input": {"drink": "tea"}}, "ok"]))

    assert str(agent("What do I like?")).strip() == "Tea."
    assert agent("Say it again.", structured_output_model=Taste).structured_output == Taste(drink="tea")


def test_a_strands_model_replies_in_text_or_by_a_tool_call() -> None:
    schema = {"type": "object", "properties": {"facts": {"type": "array"}}}
    model = ScriptedModel(["plain", {"tool": "answer", "input": {"facts": []}}])
    messages: Sequence[Any] = [{"role": "user", "content": "Well?"}]

    assert wait(StrandsModel(model).complete(messages, system="Be brief.", schema=schema)) == "plain"
    assert wait(StrandsModel(model, structured=True).complete(messages, schema=schema)) == {"facts": []}
    assert [len(call.tool_specs) for call in model.calls] == [0, 1]


def test_an_unreadable_reply_is_requested_once_more_and_then_the_turn_is_kept(vault: Vault) -> None:
    aux = ScriptedModel(["I would rather not.", "Really not."])
    agent = make_agent(endless_model(), MemoryManager([VaultStore(vault, "/facts", extraction=True)]), aux_model=aux)

    with agent:
        agent("Alice likes tea.")

    kept = [path.read_text() for path in (vault.root / ".memfs" / "failed").iterdir()]
    assert len(aux.calls) == 2
    assert len(kept) == 1
    assert "Alice likes tea." in kept[0]


def test_an_extractor_accepts_a_model_of_strands_or_any_other(vault: Vault) -> None:
    from memfs.agent import ScriptedModel as PlainModel

    for model in (ScriptedModel([fact("Alice likes tea.")]), PlainModel([fact("Alice likes tea.")])):
        found = wait(ModelExtractor(model).extract([{"role": "user", "content": [{"text": "I like tea."}]}]))
        assert found == [ExtractionResult("Alice likes tea.")]


def test_init_agent_and_flush_are_asynchronous() -> None:
    assert inspect.iscoroutinefunction(MemoryManager.init_agent)
    assert inspect.iscoroutinefunction(MemoryManager.flush)
