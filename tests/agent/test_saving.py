"""Saving of conversations: batches, adopted logs, accepted facts, and several conversations per manager."""

import asyncio
import gc
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.vaults import bodies

from memfs import Vault
from memfs.agent import Fact, IntervalTrigger, InvocationTrigger, MemoryManager, ScriptedModel, wait
from memfs.agent.extraction_queue.pending_log import PendingLog
from memfs.agent.extraction_queue.turns import BATCH_TOKENS
from memfs.agent.messages import estimate_tokens, text_of
from memfs.stores import Found, InMemoryStore, VaultStore

LIMIT = 30  # seconds for any wait


class BatchRecorder:
    """An extractor that records each batch and makes one fact per turn; its first `fails` calls fail."""

    def __init__(self, fails: int = 0) -> None:
        self.batches: list[list[str]] = []
        self._fails = fails

    async def extract(self, messages: Any, context: Any = None) -> list[Fact]:
        self.batches.append([text_of(message) for message in messages])
        if len(self.batches) <= self._fails:
            raise RuntimeError("the model is down")
        return [Fact(text[:40]) for text in self.batches[-1]]


def make_store(vault: Vault, extractor: Any, trigger: Any = None) -> VaultStore:
    return VaultStore(vault, "/facts", extraction={"trigger": trigger or InvocationTrigger(), "extractor": extractor})


def record_turns(chat: Any, *texts: str) -> None:
    for text in texts:
        chat.record({"role": "user", "content": text})


def write_orphan_log(vault: Vault, store: VaultStore, *records: dict[str, Any]) -> None:
    """Write the log of a process that is gone."""
    log = PendingLog(vault.root, [store.place])
    log.append(*records)
    log.close()


def test_a_long_backlog_is_saved_in_batches_that_a_model_can_read(vault: Vault) -> None:
    recorder = BatchRecorder(fails=1)
    words = [f"turn {number} " + "tea " * 5_000 for number in range(12)]

    async def main() -> None:
        async with MemoryManager([make_store(vault, recorder)]) as manager:
            chat = manager.attach()
            record_turns(chat, *words)
            await chat.end_turn()

    asyncio.run(main())

    assert [text for batch in recorder.batches[1:] for text in batch] == [word.strip() for word in words]
    assert len(recorder.batches) > 3
    assert max(sum(estimate_tokens(text) for text in batch) for batch in recorder.batches) <= BATCH_TOKENS
    assert len(bodies(vault)) == 12


def test_a_turn_longer_than_a_batch_is_a_batch_of_its_own(vault: Vault) -> None:
    recorder = BatchRecorder()

    async def main() -> None:
        async with MemoryManager([make_store(vault, recorder)]) as manager:
            record_turns(manager.attach(), "short", "tea " * BATCH_TOKENS, "short again")

    asyncio.run(main())

    assert [len(batch) for batch in recorder.batches] == [1, 1, 1]


def test_adopted_turns_are_tried_once_and_then_with_every_save(vault: Vault) -> None:
    recorder = BatchRecorder(fails=1)
    store = make_store(vault, recorder, IntervalTrigger(3))
    write_orphan_log(vault, store, {"turn": 0, "message": {"role": "user", "content": "left behind"}})

    async def main() -> None:
        manager = MemoryManager([store])
        chat = manager.attach()
        for number in range(2):
            record_turns(chat, f"turn {number}")
            await chat.end_turn()
            await manager.settle()
        assert recorder.batches == [["left behind"]]
        record_turns(chat, "turn 2")
        await chat.end_turn()
        await manager.settle()

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert recorder.batches == [["left behind"], ["left behind"], ["turn 0", "turn 1", "turn 2"]]
    assert bodies(vault) == ["left behind", "turn 0", "turn 1", "turn 2"]


def test_accepted_facts_of_a_dead_process_are_written_when_a_turn_ends(vault: Vault) -> None:
    store = VaultStore(vault, "/facts")
    write_orphan_log(
        vault, store, {"fact": "k", "content": "Alice likes tea.", "stores": [store.place], "metadata": None}
    )

    async def main() -> None:
        manager = MemoryManager([store])
        chat = manager.attach()
        assert manager.pending == 1
        await chat.end_turn()
        while manager.pending:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert bodies(vault) == ["Alice likes tea."]


def test_an_accepted_fact_that_every_store_refuses_is_dropped_and_logged(
    vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    manager = MemoryManager([VaultStore(vault, "/facts")], add_tool_config={"wait_for_writes": False})

    async def main() -> None:
        await manager.call_tool("add_memory", {"entries": ["a\ud800b", "Alice likes tea."]})
        await manager.flush()

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert bodies(vault) == ["Alice likes tea."]
    assert manager.pending == 0
    assert "dropped" in caplog.text


def test_closing_a_manager_publishes_the_index_of_a_vault_given_by_path(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    Vault.init(root)

    async def main() -> None:
        async with MemoryManager([VaultStore(root, "/facts")]) as manager:
            await manager.add("Alice likes tea.")
            assert len(await manager.search("tea")) == 1

    asyncio.run(main())

    assert (root / ".memfs/index/current").exists()


class Hanging(InMemoryStore):
    async def search(self, query: str, options: Any = None) -> Sequence[Found]:
        await asyncio.Event().wait()
        return []


def test_a_hanging_store_does_not_block_the_model_call() -> None:
    chat = MemoryManager([Hanging()], injection={"max_seconds": 0.01}).attach()
    messages = [{"role": "user", "content": "Hello?"}]

    assert asyncio.run(asyncio.wait_for(chat.inject(messages), LIMIT)) == messages


@pytest.mark.parametrize("seconds", [0, -1, "5", True])
def test_max_seconds_is_a_number_above_0(seconds: Any) -> None:
    with pytest.raises(ValueError, match="max_seconds must be a number above 0"):
        MemoryManager([InMemoryStore()], injection={"max_seconds": seconds})


def test_pinned_memories_leave_entries_for_search_results(vault: Vault) -> None:
    for number in range(7):
        vault.add(f"Rule {number} of the house.", pinned=True)
    vault.add("Alice likes green tea.")
    chat = MemoryManager([VaultStore(vault)]).attach()

    injected = asyncio.run(chat.inject([{"role": "user", "content": "Which tea does Alice like?"}]))[-1]["content"]

    assert injected.count("of the house") == 3
    assert "Alice likes green tea." in injected


def test_two_stores_may_use_the_same_ids() -> None:
    class Numbered:
        description, max_search_results, writable, extraction = None, None, False, None

        def __init__(self, name: str, content: str) -> None:
            self.name, self.content = name, content

        async def search(self, query: str, options: Any = None) -> list[Found]:
            return [Found(self.content, id="1")]

    chat = MemoryManager([Numbered("a", "tea"), Numbered("b", "cake")]).attach()

    injected = asyncio.run(chat.inject([{"role": "user", "content": "What is there?"}]))[-1]["content"]

    assert ">tea<" in injected
    assert ">cake<" in injected


def test_a_tool_of_another_framework_has_a_spec_too() -> None:
    class Foreign:
        tool_name = "look_up"
        tool_spec = {  # noqa: RUF012  as in frameworks
            "name": "look_up",
            "description": "Look something up.",
            "inputSchema": {"json": {"type": "object", "properties": {}, "required": []}},
        }

    class Store(InMemoryStore):
        def get_tools(self) -> list[Any]:
            return [Foreign()]

    specs = MemoryManager([Store()]).tool_specs("openai")

    assert [spec["function"]["name"] for spec in specs] == ["search_memory", "look_up"]


def test_many_conversations_of_one_manager_stay_separate(vault: Vault) -> None:
    recorder = BatchRecorder()

    async def main() -> None:
        async with MemoryManager([make_store(vault, recorder, IntervalTrigger(100))]) as manager:
            chats = [manager.attach() for _ in range(50)]
            for number, (turn, chat) in enumerate(itertools.product(range(3), chats)):
                record_turns(chat, f"conversation {number % 50}, turn {turn}")

    asyncio.run(main())

    assert len(recorder.batches) == 50
    assert all(len({text.partition(",")[0] for text in batch}) == 1 for batch in recorder.batches)
    assert len(bodies(vault)) == 150


def test_a_scope_never_adopts_the_turns_of_another_scope(vault: Vault) -> None:
    recorder = BatchRecorder()
    for who in ("alice", "bob"):
        extraction = {"trigger": IntervalTrigger(100), "extractor": recorder}
        store = VaultStore(vault.scope(f"/facts/{who}"), extraction=extraction)
        chat = MemoryManager([store]).attach()
        if who == "alice":
            record_turns(chat, "my secret is 4711")
            chat.coordinator.close()  # type: ignore[union-attr]  # as if the process were gone
        else:
            asyncio.run(asyncio.wait_for(chat.flush(), LIMIT))

    assert recorder.batches == []
    assert bodies(vault) == []


def test_a_store_without_a_place_leaves_no_pending_turns(vault: Vault) -> None:
    """The stores of two people may have the same name."""

    class Own:
        description, max_search_results, writable = None, None, True
        name = "own"

        def __init__(self, trigger: Any) -> None:
            self.extraction = {"trigger": trigger, "extractor": BatchRecorder()}
            self.added: list[str] = []

        async def search(self, query: str, options: Any = None) -> list[Found]:
            return []

        async def add(self, content: str, metadata: Any = None) -> None:
            self.added.append(content)

    shared, seen = VaultStore(vault, "/facts/shared"), []
    for text in ("of alice", ""):
        own = Own(IntervalTrigger(100))
        manager = MemoryManager([shared, own])
        chat = manager.attach()
        if text:
            record_turns(chat, text)
        else:
            asyncio.run(asyncio.wait_for(manager.flush(), LIMIT))
        seen.append(own)

    assert [own.added for own in seen] == [[], []]


def test_one_conversation_can_be_closed_alone(vault: Vault) -> None:
    recorder = BatchRecorder()

    async def main() -> None:
        manager = MemoryManager([make_store(vault, recorder, IntervalTrigger(100))])
        other = manager.attach()
        record_turns(other, "another one")
        async with manager.attach() as chat:
            record_turns(chat, "this one")
        assert recorder.batches == [["this one"]]
        assert manager.pending == 1

    asyncio.run(asyncio.wait_for(main(), LIMIT))


def test_a_deleted_conversation_is_saved_when_another_begins(vault: Vault) -> None:
    recorder = BatchRecorder()

    async def main() -> None:
        manager = MemoryManager([make_store(vault, recorder, IntervalTrigger(100))])
        record_turns(manager.attach(), "left alone")
        gc.collect()
        manager.attach()
        while manager.pending:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert recorder.batches == [["left alone"]]


def test_concurrent_flushes_write_an_accepted_fact_once() -> None:
    class Slow(InMemoryStore):
        added: ClassVar[list[str]] = []

        async def add(self, content: str, metadata: Any = None) -> Any:
            await asyncio.sleep(0.01)
            self.added.append(content)
            return await super().add(content, metadata)

    manager = MemoryManager([Slow()], add_tool_config={"wait_for_writes": False})

    async def main() -> None:
        await manager.call_tool("add_memory", '{"entries": ["Alice likes tea."]}')
        await asyncio.gather(*(manager.flush() for _ in range(3)))
        await asyncio.to_thread(asyncio.run, manager.flush())

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert Slow.added == ["Alice likes tea."]


def test_a_message_is_recorded_as_it_was(vault: Vault) -> None:
    recorder = BatchRecorder()
    message: dict[str, Any] = {"role": "user", "content": [{"text": "I like tea."}]}

    async def main() -> None:
        async with MemoryManager([make_store(vault, recorder, IntervalTrigger(100))]) as manager:
            manager.attach().record(message)
            message["content"][0]["text"] += " <memory>told</memory>"
            message["content"].append({"text": "more"})

    asyncio.run(main())

    assert recorder.batches == [["I like tea."]]


def test_a_fact_that_is_true_again_is_no_echo(vault: Vault) -> None:
    vault.add("Alice lives in Berlin.", namespace="/facts")
    model = ScriptedModel(
        [
            [{"content": "Alice lives in Paris.", "action": "supersede", "target": 1}],
            [{"content": "Alice lives in Berlin."}],
        ]
    )
    store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})

    async def main() -> None:
        async with MemoryManager([store], model=model) as manager:
            chat = manager.attach()
            for text in ("Where does Alice live? She moved to Paris.", "Alice moved back to Berlin."):
                await chat.inject([{"role": "user", "content": text}])
                record_turns(chat, text)
                await chat.end_turn()
                await manager.flush()

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert "Alice lives in Berlin." in [hit.memory.body.strip() for hit in vault.search("where does Alice live")]


def test_a_forgotten_fact_does_not_return_as_an_update_of_another(vault: Vault) -> None:
    vault.forget(vault.add("Alice smokes.", namespace="/facts").id)
    vault.add("Alice lives well.", namespace="/facts")
    answer = [{"content": "Alice smokes.", "action": "supersede", "target": 1}]
    store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})

    async def main() -> None:
        async with MemoryManager([store], model=ScriptedModel([answer])) as manager:
            record_turns(manager.attach(), "How does Alice live?")

    asyncio.run(main())

    assert bodies(vault) == ["Alice lives well."]


def test_a_turn_that_is_too_long_for_any_model_is_shown_in_part(vault: Vault) -> None:
    model = ScriptedModel([[]])
    store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})

    async def main() -> None:
        async with MemoryManager([store], model=model) as manager:
            record_turns(manager.attach(), "the beginning " + "x" * 10_000_000 + " the end")

    asyncio.run(main())

    assert len(model.last_prompt) < 60_000
    assert "the beginning" in model.last_prompt
    assert "the end" in model.last_prompt
    assert "characters are left out" in model.last_prompt


def test_synchronous_models_leave_the_threads_of_the_loop_to_stores(vault: Vault) -> None:
    vault.add("Alice likes tea.", namespace="/facts")
    release = threading.Event()

    def model(messages: Any) -> str:
        release.wait(LIMIT)
        return "[]"

    store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})

    async def main() -> list[Any]:
        async with MemoryManager([store], model=model) as manager:
            for number in range(40):
                chat = manager.attach()
                record_turns(chat, f"turn {number}")
                await chat.end_turn()
            await asyncio.sleep(0.05)
            shown = await chat.inject([{"role": "user", "content": "Does Alice like tea?"}])
            release.set()
            return shown

    shown = asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert "Alice likes tea." in shown[-1]["content"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: MemoryManager(InMemoryStore()), r"stores: .* is not a list; give \[store\]"),  # type: ignore[arg-type]
        (lambda: MemoryManager("notes"), "stores: 'notes' is not a list"),
        (lambda: MemoryManager([InMemoryStore]), "is not a store; VaultStore"),
        (lambda: MemoryManager([InMemoryStore()], read_tools="get"), "read_tools: 'get' is not a list"),
        (lambda: MemoryManager([InMemoryStore()], read_tools=True), "read_tools: True is not a list"),  # type: ignore[arg-type]
        (lambda: MemoryManager([InMemoryStore()], add_tool_config={"stores": "memory"}), "'memory' is not a list"),
        (lambda: MemoryManager([InMemoryStore(extraction={"trigger": 5})]), "trigger: 5 is not a trigger"),
        (lambda: MemoryManager([InMemoryStore(extraction={"trigger": IntervalTrigger})]), "is not a trigger such as"),
        (
            lambda: MemoryManager([InMemoryStore(extraction={"extractor": BatchRecorder})]),
            "extractor: .* is not one such as",
        ),
        (lambda: MemoryManager([InMemoryStore(extraction={"filter": ["text"]})]), "filter: .* is not a MessageFilter"),
        (lambda: MemoryManager([InMemoryStore(extraction=True)]).attach(), "no model configured"),
        (lambda: MemoryManager([InMemoryStore(extraction=True)], model="gpt").attach(), "is not a model"),
        (lambda: MemoryManager([InMemoryStore()]).attach().record("hello"), "is no message; give"),  # type: ignore[arg-type]
        (lambda: wait(MemoryManager([InMemoryStore()]).attach().inject("hello")), "is not a list of messages"),  # type: ignore[arg-type]
        (lambda: wait(MemoryManager([InMemoryStore()]).search(None)), "None is not a text"),  # type: ignore[arg-type]
        (lambda: wait(MemoryManager([InMemoryStore()]).search("x", ["memory"])), "is not a mapping such as"),  # type: ignore[arg-type]
        (lambda: wait(MemoryManager([InMemoryStore()]).search("x", {"stores": "memory"})), "is not a list of names"),
        (lambda: wait(MemoryManager([InMemoryStore()]).call_tool("search_memory", "{")), "are not JSON"),
        (lambda: wait(MemoryManager([InMemoryStore()]).call_tool("search_memory", "[1]")), "not an object"),
        (lambda: wait(MemoryManager([InMemoryStore()]).call_tool("search_memory")), "'query' is missing"),
    ],
)
def test_a_likely_mistake_is_named_in_the_error(wrong: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        wrong()


def test_stores_may_come_from_a_generator(vault: Vault) -> None:
    vault.add("Alice likes tea.")

    assert len(wait(MemoryManager(store for store in [VaultStore(vault)]).search("tea"))) == 1  # type: ignore[arg-type]


def test_an_update_does_not_truncate_a_memory_that_was_shown_in_part(vault: Vault) -> None:
    long = vault.add("Tea. " * 2_000)
    manager = MemoryManager([VaultStore(vault)], read_tools=["get"], write_tools=["update"])
    found = wait(manager.search("tea"))[0]

    with pytest.raises(ValueError, match="longer than what a search shows"):
        wait(manager.call_tool("update_memory", {"memory_id": long.id, "content": found.content + " Coffee."}))
    whole = wait(manager.call_tool("get_memory", {"memory_id": long.id}))
    arguments = {"memory_id": long.id, "content": whole["content"] + " Coffee.", "seen": whole["seen"]}
    wait(manager.call_tool("update_memory", arguments))

    assert vault.read(long.id).body.strip() == ("Tea. " * 2_000).strip() + " Coffee."


def test_the_result_of_a_tool_is_not_extracted_again(vault: Vault) -> None:
    memory = vault.add("Alice likes tea in the morning. She takes no sugar.", namespace="/facts")
    store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})

    async def main() -> None:
        model = ScriptedModel([[{"content": "She takes no sugar."}]])
        async with MemoryManager([store], model=model, read_tools=["get"]) as manager:
            await manager.call_tool("get_memory", {"memory_id": memory.id})
            record_turns(manager.attach(), "How does Alice take her tea?")

    asyncio.run(main())

    assert len(bodies(vault)) == 1


def test_turns_that_a_conversation_could_not_save_are_saved_once_by_the_next(vault: Vault) -> None:
    recorder = BatchRecorder(fails=1)

    async def main() -> None:
        manager = MemoryManager([make_store(vault, recorder, IntervalTrigger(100))])
        async with manager.attach() as chat:
            record_turns(chat, "said once")
        assert bodies(vault) == []
        manager.attach()
        await manager.flush()

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert recorder.batches == [["said once"], ["said once"]]
    assert bodies(vault) == ["said once"]


def test_deleted_conversations_are_tried_once_while_a_model_is_down(vault: Vault) -> None:
    recorder = BatchRecorder(fails=1_000)

    async def main() -> None:
        manager = MemoryManager([make_store(vault, recorder, IntervalTrigger(100))])
        for number in range(20):
            record_turns(manager.attach(), f"turn {number}")
            gc.collect()
            await asyncio.sleep(0)
        assert manager.pending == 20

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert len(recorder.batches) <= 20


def test_adopted_turns_are_saved_once_while_their_loop_is_blocked(vault: Vault) -> None:
    held = threading.Event()

    class Slow(BatchRecorder):
        async def extract(self, messages: Any, context: Any = None) -> list[Fact]:
            await asyncio.sleep(0)
            held.set()
            await asyncio.sleep(0.01)
            return await super().extract(messages, context)

    recorder = Slow()
    store = make_store(vault, recorder, IntervalTrigger(100))
    write_orphan_log(vault, store, {"turn": 0, "message": {"role": "user", "content": "left behind"}})

    async def main() -> None:
        manager = MemoryManager([store])
        chat = manager.attach()
        await chat.end_turn()
        while not held.is_set():
            await asyncio.sleep(0)
        wait(manager.flush())  # this loop is blocked meanwhile
        await manager.flush()

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert recorder.batches == [["left behind"]]


def test_an_invalid_list_of_tool_calls_stops_nothing(vault: Vault) -> None:
    recorder = BatchRecorder()

    async def main() -> None:
        async with MemoryManager([make_store(vault, recorder)]) as manager:
            manager.attach().record({"role": "assistant", "content": "fine", "tool_calls": 5})

    asyncio.run(main())

    assert recorder.batches == [["fine"]]


def test_a_fact_that_a_custom_extractor_skips_is_not_stored(vault: Vault) -> None:
    class Skipping:
        async def extract(self, messages: Any, context: Any = None) -> list[Fact]:
            return [Fact("Known already.", action="skip"), Fact("New.")]

    async def main() -> None:
        async with MemoryManager([make_store(vault, Skipping())]) as manager:
            chat = manager.attach()
            record_turns(chat, "a turn")
            await chat.end_turn()

    asyncio.run(main())

    assert bodies(vault) == ["New."]
