"""Where memfs is better than Strands' own manager: each scenario passes with memfs, and fails with Strands' own."""

import asyncio
import itertools
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import strands.memory as reference
from strands import Agent
from strands.storage.local_file_storage import LocalFileStorage
from strands.vended_memory_stores.file_memory_store import FileMemoryStore
from support.commands import REPOSITORY
from support.people import CODING

import memfs.integrations.strands as ours
from memfs import Vault
from memfs.integrations.strands import ScriptedModel, VaultStore

WAIT_SECONDS = 30  # the limit of any wait
Scenario = Callable[..., None]


def passes_only_with_memfs(scenario: Scenario) -> Callable[[Path], None]:
    """Return a test that a scenario passes with memfs, and fails with Strands' own manager."""

    def test(tmp_path: Path) -> None:
        scenario(ours, tmp_path / "ours")
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            scenario(reference, tmp_path / "reference")

    return test


class RecordingStore:
    """A store that records its writes; `hold` makes a save wait, and `fails` are the writes that fail."""

    description, max_search_results, writable = None, None, True

    def __init__(self, name: str = "kept", extraction: Any = None, fails: tuple[int, ...] = ()) -> None:
        self.name, self.extraction = name, extraction
        self.saved: list[str] = []
        self.found: list[Any] = []
        self.hold: asyncio.Event | None = None
        self.started = 0
        self._fails, self._writes = fails, itertools.count()

    async def search(self, query: str, options: Any = None) -> list[Any]:
        return self.found[: (options or {}).get("max_search_results", 3)]


class Turns(RecordingStore):
    async def add_messages(self, messages: Any, context: Any = None) -> None:
        self.started += 1
        if self.hold is not None:
            await self.hold.wait()
        self.saved += [block["text"] for message in messages for block in message["content"]]


class Facts(RecordingStore):
    async def add(self, content: str, metadata: Any = None) -> None:
        if self.hold is not None:
            await asyncio.sleep(0.05)
        if next(self._writes) in self._fails:
            raise RuntimeError("the disk is full")
        self.saved.append(content)


def model(*replies: Any) -> ScriptedModel:
    return ScriptedModel(itertools.chain(replies, itertools.repeat("[]")))


def agent(manager: Any, *replies: Any) -> Agent:
    return Agent(model=model(*replies), memory_manager=manager, callback_handler=None)


def first_prompt_of(one: Agent) -> str:
    """Return the first prompt of the agent's model."""
    assert isinstance(one.model, ScriptedModel)
    return one.model.calls[0].text


def make_store(memory: ModuleType, root: Path, **options: Any) -> Any:
    """Return the file store of memfs, or of Strands."""
    if memory is ours:
        return VaultStore(Vault.init(root), "/facts", **options)
    return FileMemoryStore(storage=LocalFileStorage(str(root)), name="facts", writable=True, **options)


def texts(root: Path) -> str:
    return "\n".join(file.read_text() for file in sorted(root.rglob("*.*")) if ".memfs" not in file.parts)


# --- no lost writes


def _a_cancelled_save(memory: ModuleType, _: Path) -> None:
    store = Turns(extraction={"trigger": memory.InvocationTrigger()})
    manager = memory.MemoryManager([store])
    one = agent(manager, "fine", "fine too")

    async def call(words: str, *, hold: bool) -> None:
        store.hold = asyncio.Event() if hold else None
        await one.invoke_async(words)
        if hold:
            await asyncio.sleep(0)  # the save starts, and its event loop is closed
        else:
            await asyncio.wait_for(manager.flush(), WAIT_SECONDS)

    asyncio.run(call("the first words", hold=True))
    asyncio.run(call("the second words", hold=False))

    assert store.saved.count("the first words") == store.saved.count("the second words") == 1


def _an_accepted_fact(memory: ModuleType, _: Path) -> None:
    store = Facts()
    store.hold = asyncio.Event()
    manager = memory.MemoryManager([store], add_tool_config={"wait_for_writes": False})

    async def accept() -> None:
        add = next(tool for tool in manager.tools if tool.tool_name == "add_memory")
        assert await add(entries=["Alice likes tea."]) == {"accepted": 1}
        await manager.flush()
        assert store.saved == ["Alice likes tea."]

    asyncio.run(accept())


def _two_agents(memory: ModuleType, _: Path) -> None:
    store = Turns(extraction={"trigger": memory.IntervalTrigger(turns=100)})
    manager = memory.MemoryManager([store])
    first, second = agent(manager, "one"), agent(manager, "two")

    async def talk() -> None:
        await first.invoke_async("from the first")
        await second.invoke_async("from the second")
        await manager.flush()

    asyncio.run(talk())

    assert {"from the first", "from the second"} <= set(store.saved)


def _the_trigger_interval(memory: ModuleType, root: Path) -> None:
    extraction = {"trigger": memory.IntervalTrigger(turns=5), "extractor": memory.ModelExtractor(used_model := model())}
    store = VaultStore(Vault.init(root), "/facts", extraction=extraction)
    one = agent(memory.MemoryManager([store]), *["fine"] * 5)
    for number in range(5):
        one(f"words {number}")

    assert len(used_model.calls) == 1


CRASH = """
import importlib, itertools, os, signal, sys
from memfs.integrations.strands import ScriptedModel, VaultStore
from strands import Agent
memory = importlib.import_module(sys.argv[1])
store = VaultStore(sys.argv[2], "/facts", extraction={"trigger": memory.IntervalTrigger(turns=100),
                                                      "extractor": memory.ModelExtractor(ScriptedModel(["[]"]))})
agent = Agent(model=ScriptedModel(itertools.repeat("fine")), callback_handler=None)
import asyncio
async def main():
    manager = memory.MemoryManager([store])
    agent = Agent(model=ScriptedModel(itertools.repeat("fine")), memory_manager=manager, callback_handler=None)
    for number in range(7):
        await agent.invoke_async(f"turn {number}")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def _a_crash(memory: ModuleType, root: Path) -> None:
    Vault.init(root)
    killed = subprocess.run([sys.executable, "-c", CRASH, memory.__name__, str(root)], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    extractor = memory.ModelExtractor(used_model := model())
    store = VaultStore(Vault(root), "/facts", extraction={"extractor": extractor})
    with agent(memory.MemoryManager([store]), "fine") as one:
        one("hello again")

    prompts = "\n".join(call.text for call in used_model.calls)
    assert all(f"turn {number}" in prompts for number in range(7))


def _a_partial_failure(memory: ModuleType, root: Path) -> None:
    facts = json.dumps([{"content": "# Tea\nAlice likes tea."}, {"content": "# Milk\nBob likes milk."}])
    extraction = {"trigger": memory.InvocationTrigger(), "extractor": memory.ModelExtractor(model(facts, facts))}
    store = make_store(memory, root, extraction=extraction)
    add, writes = store.add, itertools.count()

    async def failing(content: str, metadata: Any = None) -> Any:
        if next(writes) == 1:
            raise RuntimeError("the disk is full")
        return await add(content, metadata)

    type(store).add, before = lambda self, *given: failing(*given), type(store).add
    try:
        one = agent(memory.MemoryManager([store]), "fine", "fine")
        one("We talked of tea and milk.")
        one("And again.")
    finally:
        type(store).add = before

    assert texts(root).count("Alice likes tea.") == texts(root).count("Bob likes milk.") == 1


# --- extraction


def _prose_from_the_model(memory: ModuleType, root: Path) -> None:
    good = '[{"content": "Alice likes tea."}]'
    extraction = {"trigger": memory.InvocationTrigger(), "extractor": memory.ModelExtractor(model("Sure! Tea.", good))}
    store = VaultStore(Vault.init(root), "/facts", extraction=extraction)
    agent(memory.MemoryManager([store]), "fine")("I like tea.")

    assert "Alice likes tea." in texts(root)


def _a_fact_across_turns(memory: ModuleType, root: Path) -> None:
    extraction = {"trigger": memory.InvocationTrigger(), "extractor": memory.ModelExtractor(used_model := model())}
    store = VaultStore(Vault.init(root), "/facts", extraction=extraction)
    one = agent(memory.MemoryManager([store]), "fine", "fine")
    one("A friend of mine moves to Rome.")
    one("His name is Bob.")

    assert "A friend of mine" in used_model.calls[1].text
    assert "His name is Bob" in used_model.calls[1].text


def _a_fact_that_changed(memory: ModuleType, root: Path) -> None:
    answer = '[{"content": "Alice lives in Paris.", "action": "supersede", "target": 1}]'
    extraction = {
        "trigger": memory.InvocationTrigger(),
        "extractor": memory.ModelExtractor(used_model := model(answer)),
    }
    store = VaultStore(vault := Vault.init(root), "/facts", extraction=extraction)
    old = vault.add("Alice lives in Rome.", namespace="/facts")
    agent(memory.MemoryManager([store]), "fine")("I live in Paris now, no longer in Rome.")

    assert "Alice lives in Rome." in used_model.calls[0].text
    assert [hit.memory.body.strip() for hit in vault.search("where does Alice live")] == ["Alice lives in Paris."]
    assert vault.read(old.id).header.valid_until is not None
    assert vault.search("Alice")[0].memory.header.supersedes == (f"[[{old.path.removesuffix('.md')}]]",)


def _a_forgotten_fact(memory: ModuleType, root: Path) -> None:
    answer = '[{"content": "Alice smokes."}]'
    extraction = {"trigger": memory.InvocationTrigger(), "extractor": memory.ModelExtractor(model(answer))}
    store = VaultStore(vault := Vault.init(root), "/facts", extraction=extraction)
    vault.forget(vault.add("Alice smokes.", namespace="/facts").id)
    agent(memory.MemoryManager([store]), "fine")("Do you remember that I smoke?")

    assert vault.list() == []


def _a_recall_loop(memory: ModuleType, root: Path) -> None:
    echo = '[{"content": "alice likes green tea in the morning!"}, {"content": "She takes no sugar."}]'
    extraction = {"trigger": memory.InvocationTrigger(), "extractor": memory.ModelExtractor(model(echo))}
    store = VaultStore(vault := Vault.init(root), "/facts", extraction=extraction)
    vault.add("Alice likes green tea in the morning. She takes no sugar.", namespace="/facts")
    agent(memory.MemoryManager([store]), "You like green tea.")("Which tea does Alice like?")

    assert len(vault.list()) == 1


# --- injection


def _injected_text(memory: ModuleType, store: Any, words: str, **injection: Any) -> str:
    one = agent(memory.MemoryManager([store], injection=injection or True), "fine")
    one(words)
    prompt = first_prompt_of(one)
    return str(prompt).partition("<memory>")[2].partition("</memory>")[0]


def _prompts_about_something_else(memory: ModuleType, root: Path) -> None:
    store = make_store(memory, root)
    for file in sorted((REPOSITORY / "example-vault").rglob("*.md")):
        asyncio.run(store.add(file.read_text().rpartition("---\n")[2].strip() or file.stem))

    injected = [question for question in CODING if _injected_text(memory, store, question)]

    assert len(CODING) == 20
    assert len(injected) <= 2


def _a_long_memory(memory: ModuleType, root: Path) -> None:
    store = make_store(memory, root)
    asyncio.run(store.add("Alice likes tea. " + "And so on. " * 55_000))

    injected = _injected_text(memory, store, "Does Alice like tea?")

    assert "Alice likes tea." in injected
    assert len(injected) < 10_000
    assert "cut: " in injected


def _a_second_store(memory: ModuleType, _: Path) -> None:
    first, second = RecordingStore("first"), RecordingStore("second")
    first.writable = second.writable = False
    first.found = [memory.MemoryEntry(content=f"fact {number}") for number in range(5)]
    second.found = [memory.MemoryEntry(content="the one that matters")]
    one = agent(memory.MemoryManager([first, second]), "fine")
    one("Tell me.")

    assert "the one that matters" in first_prompt_of(one)


# --- settings


def _typos_and_clashes(memory: ModuleType, _: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"injection": {"max_entrys": 3}},
        {"search_tool_config": {"nam": "recall"}},
        {"add_tool_config": {"store": ["kept"]}},
        {"add_tool_config": {"stores": []}},
        {"search_tool_config": {"name": "memory"}, "add_tool_config": {"name": "memory"}},
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match=r"unknown key|empty|two tools"):
            memory.MemoryManager([Facts()], **arguments)
    with pytest.raises(ValueError, match="unknown extraction key 'triggers'"):
        memory.MemoryManager([Facts(extraction={"triggers": []})])


test_a_cancelled_save_loses_nothing_and_later_saves_work = passes_only_with_memfs(_a_cancelled_save)
test_an_accepted_fact_is_stored_after_a_flush = passes_only_with_memfs(_an_accepted_fact)
test_two_agents_of_one_manager_keep_their_turns = passes_only_with_memfs(_two_agents)
test_synchronous_calls_respect_the_trigger_interval = passes_only_with_memfs(_the_trigger_interval)
test_pending_turns_of_a_killed_process_are_extracted_at_the_next_start = passes_only_with_memfs(_a_crash)
test_a_partly_failed_batch_is_stored_once = passes_only_with_memfs(_a_partial_failure)
test_a_reply_in_prose_is_requested_again = passes_only_with_memfs(_prose_from_the_model)
test_earlier_turns_are_context_for_a_fact = passes_only_with_memfs(_a_fact_across_turns)
test_a_changed_fact_replaces_the_old_one = passes_only_with_memfs(_a_fact_that_changed)
test_a_forgotten_fact_stays_forgotten = passes_only_with_memfs(_a_forgotten_fact)
test_injected_memories_are_not_stored_again = passes_only_with_memfs(_a_recall_loop)
test_unrelated_prompts_get_no_memories = passes_only_with_memfs(_prompts_about_something_else)
test_a_memory_of_600_000_characters_is_shortened = passes_only_with_memfs(_a_long_memory)
test_no_store_crowds_out_another = passes_only_with_memfs(_a_second_store)
test_typos_and_clashes_are_errors = passes_only_with_memfs(_typos_and_clashes)


def test_a_model_cannot_choose_a_namespace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vault = Vault.init(tmp_path / "vault")
    secret = vault.add("Bob's salary is 90,000.", namespace="/facts/bob")
    store = VaultStore(vault, "/facts/{actorId}", actor="alice")
    manager = ours.MemoryManager(
        [store], add_tool_config=True, read_tools=["get", "list"], write_tools=["update", "forget"]
    )
    calls = [
        {"tool": "add_memory", "input": {"entries": ["Alice likes tea."], "namespace": "/facts/bob"}},
        {"tool": "search_memory", "input": {"query": "salary", "namespace": "/"}},
        {"tool": "get_memory", "input": {"memory_id": secret.id}},
        {"tool": "get_memory", "input": {"memory_id": "../bob/" + Path(secret.path).name}},
        {"tool": "forget_memory", "input": {"memory_id": secret.path}},
        {"tool": "search_memory", "input": {"query": "salary"}},
    ]
    with caplog.at_level(logging.CRITICAL):
        one = agent(manager, *calls, "done")
        one("Go on.")

    results = [block["toolResult"] for turn in one.messages for block in turn["content"] if "toolResult" in block]
    assert [result["status"] for result in results] == ["error"] * 5 + ["success"]
    assert "salary is" not in json.dumps(results)
    assert "unknown argument 'namespace'" in json.dumps(results[0])
    assert [memory.path for memory in vault.list()] == [secret.path]


WRITER = """
import itertools, json, sys
from memfs.integrations.strands import InvocationTrigger, MemoryManager, ModelExtractor, ScriptedModel, VaultStore
from strands import Agent
facts = [f"Alice said on topic tea, agent {sys.argv[2]}, remark {number}." for number in range(50)]
extractor = ModelExtractor(ScriptedModel([json.dumps([{"content": fact}]) for fact in facts]))
store = VaultStore(sys.argv[1], "/facts/alice", extraction={"trigger": InvocationTrigger(), "extractor": extractor})
with Agent(model=ScriptedModel(itertools.repeat("fine")), memory_manager=MemoryManager([store]),
           callback_handler=None) as agent:
    for fact in facts:
        agent(fact)
"""


def test_four_processes_keep_200_facts_about_one_topic(tmp_path: Path) -> None:
    vault = Vault.init(tmp_path / "vault")
    agents = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(vault.root), str(number)], stderr=subprocess.PIPE)
        for number in range(4)
    ]
    for process in agents:
        _, output = process.communicate(timeout=300)
        assert process.returncode == 0, output.decode()

    assert len({memory.body for memory in vault.list("/facts/alice")}) == 200
