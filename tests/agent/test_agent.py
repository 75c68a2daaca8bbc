"""MemoryManager without a framework: construction, search and add, extraction, and several event loops."""

import asyncio
import gc
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.agents import (
    LIMIT,
    Facts,
    SearchableStore,
    StepwiseStore,
    Turns,
    contents,
    managed,
    run_turns,
    say,
    wait_idle,
)
from support.messages import user

from memfs import Vault
from memfs.agent import (
    ConversationState,
    EvictionTrigger,
    IntervalTrigger,
    InvocationTrigger,
    ScriptedModel,
)
from memfs.agent.extraction.config import MessageFilter
from memfs.agent.extraction_queue.backoff import FAILURES_BEFORE_BACKOFF
from memfs.agent.messages import text_of
from memfs.agent.triggers import TriggerContext
from memfs.errors import AggregateMemoryError, InvalidSetupError
from memfs.stores import AddMessagesContext, Found, InMemoryStore, MemoryStore, Tool, VaultStore


class ReadOnlyStore(MemoryStore):
    """A store that is marked writable but has only inherited methods."""

    name, description, max_search_results, writable, extraction = "inherits", None, None, True, None


# --- construction


@pytest.mark.parametrize(
    ("stores", "reason"),
    [
        ([], "at least one store"),
        ([SearchableStore("a"), SearchableStore("a")], "duplicate store name 'a'"),
        ([SearchableStore("a", writable=True)], "'a': is writable but has no add or add_messages"),
        ([ReadOnlyStore()], "'inherits': is writable but has no add"),  # type: ignore[abstract]
        ([Facts("a", extraction=True, writable=False)], "'a': has extraction config but is not writable"),
        ([Facts("a", extraction={"trigger": []})], "'a': has extraction config but no triggers"),
        ([Turns("a", extraction={"extractor": ScriptedModel()})], "'a': has an extractor but no add method"),
        ([Facts("a", extraction={"tigger": 1})], "'a': unknown extraction key 'tigger'"),
        ([Facts("a", extraction="yes")], "'a': extraction is 'yes'"),
    ],
)
def test_invalid_stores_are_refused_by_name(stores: Sequence[Any], reason: str) -> None:
    with pytest.raises(InvalidSetupError, match=reason) as caught:
        managed(stores)

    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"search_tool_config": {"nmae": "x"}}, "unknown key 'nmae'"),
        ({"add_tool_config": {"wait": False}}, "unknown key 'wait'"),
        ({"add_tool_config": {"stores": []}}, "stores is empty"),
        ({"add_tool_config": {"stores": ["c"]}}, "store 'c' not found; there are: a, b, raw"),
        ({"add_tool_config": {"stores": ["b"]}}, "store 'b' is not writable"),
        ({"add_tool_config": {"stores": ["raw"]}}, "store 'raw' has no add method"),
        ({"injection": {"trigger": "sometimes"}}, "trigger must be"),
        ({"injection": {"query": "tea"}}, "query must be a function"),
        ({"injection": {"format": "<b>"}}, "format must be a function"),
        ({"injection": {"max_entries": True}}, "max_entries must be"),
        ({"injection": {"max_tokens": 0}}, "max_tokens must be"),
        ({"injection": {"min_relevance": 2}}, "min_relevance must be from 0 to 1"),
        ({"injection": {"floor": 2}}, "unknown key 'floor'"),
        ({"read_tools": ["forget"]}, "'forget' is not one of get, list, graph"),
        ({"write_tools": ["get"]}, "'get' is not one of update, forget"),
        ({"tools": "both"}, "'both' is not 'each' or 'single'"),
        ({"search_tool_config": {"name": "add_memory"}, "add_tool_config": True}, "two tools have the name"),
    ],
)
def test_an_unknown_setting_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSetupError, match=reason):
        managed([Facts("a"), SearchableStore("b"), Turns("raw")], **arguments)


def test_tools_are_ordered_search_add_curation_and_store_tools() -> None:
    class Own(Facts):
        def get_tools(self) -> list[Any]:
            return [Tool(f"{self.name}_tool", "", {"properties": {}, "required": []}, self.search)]

    stores = [Own("x"), Own("y"), InMemoryStore()]
    manager = managed(stores, True, True, read_tools=["get"], write_tools=["forget"])

    names = [tool.name for tool in manager.tools]
    assert names == ["search_memory", "add_memory", "get_memory", "forget_memory", "x_tool", "y_tool"]
    assert managed([Own("x")], False).tool_specs()[0]["name"] == "x_tool"


# --- search and add


def test_a_search_covers_all_stores_and_names_the_store_of_each_entry() -> None:
    manager = managed([SearchableStore("a", "tea", "cake"), SearchableStore("b", "milk")])

    found = asyncio.run(manager.search("?"))
    assert [(entry.store_name, entry.content) for entry in found] == [("a", "tea"), ("b", "milk"), ("a", "cake")]
    assert found[2].metadata == {"at": 1}


def test_the_limit_is_the_callers_or_the_stores_or_three() -> None:
    few, many = SearchableStore("few"), SearchableStore("many", most=7)
    manager = managed([few, many])

    asyncio.run(manager.search("tea"))
    asyncio.run(manager.search("tea", {"max_search_results": 2, "stores": ["many"]}))
    assert few.searches == [("tea", {"max_search_results": 3})]
    assert many.searches == [("tea", {"max_search_results": 7}), ("tea", {"max_search_results": 2})]


@pytest.mark.parametrize("options", [{"stores": ["a", "nobody"]}, {"stores": []}, {"limit": 3}])
def test_a_search_of_unknown_stores_reaches_no_store(options: dict[str, Any]) -> None:
    searchable = SearchableStore("a")

    with pytest.raises(ValueError, match=r"nobody|empty|unknown option 'limit'"):
        asyncio.run(managed([searchable]).search("tea", options))
    assert searchable.searches == []


def test_a_store_that_fails_is_left_out_of_a_search(caplog: pytest.LogCaptureFixture) -> None:
    class Old(SearchableStore):
        async def search(self, query: str) -> Sequence[Any]:  # type: ignore[override]
            return []

    class Odd(SearchableStore):
        async def search(self, query: str, options: Any = None) -> Any:
            return None

    manager = managed([SearchableStore("a", fails=True), Old("old"), Odd("odd"), SearchableStore("b", "milk")])

    assert contents(asyncio.run(manager.search("?"))) == ["milk"]
    assert "a: search failed: the shelf fell down" in caplog.text
    assert "old: search failed" in caplog.text
    assert "odd: search failed" in caplog.text


def test_stores_are_searched_at_the_same_time() -> None:
    class Meets(SearchableStore):
        async def search(self, query: str, options: Any = None) -> Sequence[Any]:
            await asyncio.wait_for(barrier.wait(), LIMIT)
            return [Found(self.name)]

    async def both() -> Sequence[Any]:
        return await managed([Meets("a"), Meets("b")]).search("?")

    barrier = asyncio.Barrier(2)
    assert contents(asyncio.run(both())) == ["a", "b"]


def test_a_memory_is_added_to_every_store_that_can_add() -> None:
    one, two = Facts("one"), Facts("two")
    manager = managed([one, SearchableStore(), Turns(), two])

    asyncio.run(manager.add("tea", {"metadata": {"tags": ["drink"]}}))
    asyncio.run(manager.add("milk", {"stores": ["two"]}))
    assert (one.added, two.added) == ([("tea", {"tags": ["drink"]})], [("tea", {"tags": ["drink"]}), ("milk", None)])


@pytest.mark.parametrize("name", ["shelf", "turns", "nobody"])
def test_nothing_is_added_if_a_store_cannot_add(name: str) -> None:
    facts = Facts()

    with pytest.raises(ValueError, match=f"store '{name}'"):
        asyncio.run(managed([facts, SearchableStore(), Turns()]).add("tea", {"stores": ["facts", name]}))
    with pytest.raises(ValueError, match="no writable store"):
        asyncio.run(managed([SearchableStore()]).add("tea"))
    with pytest.raises(ValueError, match="no writable stores implement add"):
        managed([SearchableStore(), Turns()], add_tool_config=True)
    assert facts.added == []


def test_a_failing_store_does_not_stop_the_write_to_others() -> None:
    class Narrow(Facts):
        async def add(self, content: str) -> None:  # type: ignore[override]
            pass

    sound = Facts("sound")

    with pytest.raises(AggregateMemoryError, match="store writes failed: dry, narrow") as caught:
        asyncio.run(managed([Facts("dry", fails=True), Narrow("narrow"), sound]).add("tea"))
    assert [type(error) for error in caught.value.errors] == [OSError, TypeError]
    assert sound.added == [("tea", None)]


# --- extraction


def test_turns_go_to_a_store_after_every_turn_or_every_few() -> None:
    each, few, default = Turns("each"), Turns("few", extraction={"trigger": IntervalTrigger(2)}), Turns("five")
    default.extraction = True
    manager = managed([each, few, default])

    run_turns(manager, *"abcdef")
    assert each.batches == [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]
    assert few.batches == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert default.batches == [["a", "b", "c", "d", "e"], ["f"]]  # settle without a vault saves the remaining turns too


def test_a_turn_recorded_during_a_save_waits_for_its_own_trigger() -> None:
    store = StepwiseStore(extraction={"trigger": IntervalTrigger(2)})

    async def talk() -> None:
        chat = manager.attach()
        for text in "abc":
            say(chat, text)
            await chat.end_turn()
            await asyncio.sleep(0)
        await wait_idle(chat)

    manager = managed([store])
    asyncio.run(talk())
    assert (store.batches, manager.pending) == ([["a", "b"]], 1)


def test_turns_are_saved_before_they_leave_the_window() -> None:
    store = Turns(extraction={"trigger": EvictionTrigger(10)})

    async def talk() -> None:
        chat = manager.attach()
        for text in ("x" * 20, "y" * 20, "z" * 20):
            chat.record(user(text))
        await wait_idle(chat)

    manager = managed([store])
    asyncio.run(talk())
    assert store.batches == [["x" * 20, "y" * 20, "z" * 20]]  # triggered by the second, ran with the third


def test_a_custom_trigger_receives_the_events_of_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    class OnGoodbye:
        name = "goodbye"

        def attach(self, context: TriggerContext) -> None:
            self.agent = context.agent
            context.on_message(lambda message: context.fire() if "bye" in text_of(message) else None)

    class Broken:
        name = "broken"

        def attach(self, context: TriggerContext) -> None:
            context.on_message(lambda _: 1 // 0)  # type: ignore[arg-type]
            context.on_turn_end(lambda: 1 // 0)  # type: ignore[arg-type]

    trigger, store, agent = OnGoodbye(), Turns(), object()
    store.extraction = {"trigger": [Broken(), trigger]}
    manager = managed([store])

    async def talk() -> None:
        chat = manager.attach(agent)
        for text in ("hello", "good bye"):
            chat.record(user(text))
            await chat.end_turn()
        await asyncio.sleep(0)
        await manager.settle()

    asyncio.run(talk())
    assert store.batches == [["hello", "good bye"]]
    assert trigger.agent is agent
    assert "a trigger raised" in caplog.text


def test_tool_results_are_left_out_and_keep_their_number() -> None:
    store = Turns()
    manager = managed([store])
    messages: list[dict[str, Any]] = [
        user("a"),
        {"role": "assistant", "content": [{"text": "b"}, {"toolUse": {"name": "t"}}]},
        {"role": "user", "content": [{"toolResult": {"content": [{"text": "secret"}]}}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "secret"},
        {"role": "tool", "content": [{"type": "text", "text": "secret"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "input": {}}, {"type": "text", "text": "c"}]},
        {"role": "user", "content": [{"type": "web_search_tool_result", "content": "secret"}]},
    ]

    async def talk() -> None:
        chat = manager.attach()
        for message in messages:
            chat.record(message)
        await manager.flush()

    asyncio.run(talk())
    assert store.batches == [["a", "b", "c"]]
    assert store.numbers == [[0, 1, 6]]
    assert messages[1]["content"][1] == {"toolUse": {"name": "t"}}


def test_a_custom_filter_excludes_the_kinds_it_names() -> None:
    class Whole(Turns):
        async def add_messages(self, messages: Sequence[Any], context: AddMessagesContext | None = None) -> None:
            received.extend(messages)

    received: list[Any] = []
    called = {"role": "assistant", "content": "look", "tool_calls": [{"id": "1"}], "name": "alice"}
    picture = {"role": "user", "content": [{"image": {}}, {"text": "see"}], "metadata": {"at": 1}}
    manager = managed([Whole(extraction={"filter": MessageFilter(["image"])})])

    async def talk() -> None:
        chat = manager.attach()
        chat.record(called)
        chat.record(picture)
        await manager.flush()

    asyncio.run(talk())
    assert received == [called, {"role": "user", "content": [{"text": "see"}], "metadata": {"at": 1}}]


def test_facts_are_extracted_by_the_model_and_added() -> None:
    model = ScriptedModel([[{"content": "Alice drinks tea.", "metadata": {"tags": ["drink"]}}], []])
    store = Facts(extraction={"trigger": InvocationTrigger()})
    manager = managed([store], model=model)

    run_turns(manager, "I drink tea", "bye")
    assert [content for content, _ in store.added] == ["Alice drinks tea."]
    assert "I drink tea" in model.calls[0].text
    assert "I drink tea" in model.calls[1].text  # as context of the new turns


def test_without_a_model_facts_cannot_be_extracted() -> None:
    manager = managed([Facts(extraction=True)])

    with pytest.raises(ValueError, match="no model configured"):
        manager.attach()


def test_a_store_that_failed_gets_the_same_turns_with_the_same_numbers_again() -> None:
    store = Turns(failures=1)
    manager = managed([store])

    run_turns(manager, "a", "b")
    assert store.numbers == [[0], [0, 1]]
    assert store.batches == [["a", "b"]]
    assert manager.pending == 0


def test_a_store_that_fails_often_is_tried_every_third_time_until_it_works(caplog: pytest.LogCaptureFixture) -> None:
    store = Turns(failures=FAILURES_BEFORE_BACKOFF + 1)
    manager = managed([store])

    async def talk(turns: int) -> list[int]:
        tries = []
        for _ in range(turns):
            chat.record(user("x"))
            await chat.end_turn()
            await wait_idle(chat)
            tries.append(store.tries)
        return tries

    chat = manager.attach()
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(talk(FAILURES_BEFORE_BACKOFF)) == list(range(1, FAILURES_BEFORE_BACKOFF + 1))
        assert asyncio.run(talk(3)) == [10, 10, 11]
        assert asyncio.run(talk(3)) == [11, 11, 12]
        assert asyncio.run(talk(2)) == [13, 14]
    assert len(store.texts) == FAILURES_BEFORE_BACKOFF + 8
    warnings = ["WARNING"] * (FAILURES_BEFORE_BACKOFF - 1)
    assert [record.levelname for record in caplog.records] == [*warnings, "ERROR", "ERROR"]


def test_a_flush_tries_a_store_in_backoff() -> None:
    store = Turns(failures=FAILURES_BEFORE_BACKOFF)
    manager = managed([store])

    run_turns(manager, *("x" * (FAILURES_BEFORE_BACKOFF - 1)))
    asyncio.run(manager.flush())
    assert (manager.pending, len(store.texts)) == (0, FAILURES_BEFORE_BACKOFF - 1)


def test_a_failing_store_does_not_block_another() -> None:
    sound, broken = Turns("sound"), Turns("broken", failures=100)
    manager = managed([sound, broken])

    run_turns(manager, "a", "b")
    broken.failures = 0
    asyncio.run(manager.flush())
    assert (sound.texts, broken.texts, manager.pending) == (["a", "b"], ["a", "b"], 0)


# --- event loops that are closed, blocked, or several


def test_a_loop_that_is_closed_during_a_save_loses_nothing() -> None:
    store, loop = StepwiseStore(), asyncio.new_event_loop()
    manager = managed([store])
    chat = manager.attach()
    say(chat, "a")

    async def begin() -> None:
        await chat.end_turn()
        for _ in range(3):
            await asyncio.sleep(0)

    loop.run_until_complete(begin())
    loop.close()
    say(chat, "b")
    asyncio.run(manager.flush())
    assert (store.batches, manager.pending) == ([["a", "b"]], 0)
    del loop
    gc.collect()  # the end of the coroutine changes nothing
    say(chat, "c")
    asyncio.run(manager.flush())
    assert store.batches == [["a", "b"], ["c"]]


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_a_blocked_loop_is_not_waited_for_and_finishes_its_save_later() -> None:
    store, loop = StepwiseStore(), asyncio.new_event_loop()
    manager = managed([store])
    chat = manager.attach()
    say(chat, "a")
    loop.run_until_complete(chat.end_turn())
    loop.run_until_complete(asyncio.sleep(0))

    say(chat, "b")
    asyncio.run(asyncio.wait_for(manager.flush(), LIMIT))
    assert (store.batches, manager.pending) == ([["b"]], 2)
    loop.run_until_complete(manager.flush())
    loop.close()
    assert (store.batches, manager.pending) == ([["b"], ["a"]], 0)


def test_three_loops_in_three_threads_save_every_turn_once() -> None:
    store, other = StepwiseStore("one"), Turns("two", extraction={"trigger": IntervalTrigger(3)})
    manager = managed([store, other])
    chat = manager.attach()

    async def talk(who: int) -> None:
        for number in range(50):
            say(chat, f"{who}-{number}")
            await chat.end_turn()
            await asyncio.sleep(0)
        await manager.flush()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda who: asyncio.run(talk(who)), range(3), timeout=LIMIT))
    expected = sorted(f"{who}-{number}" for who in range(3) for number in range(50))
    assert sorted(store.texts) == sorted(other.texts) == expected
    assert [number for numbers in store.numbers for number in numbers] == list(range(150))
    assert manager.pending == 0


async def end_turn(chat: ConversationState, store: SearchableStore) -> "set[asyncio.Task[Any]]":
    """End a turn. Return the saves to a store that this started."""
    before = asyncio.all_tasks()
    await chat.end_turn()
    return {task for task in asyncio.all_tasks() - before if task.get_name() == f"memfs: save to {store.name}"}


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("step", range(8))
def test_a_save_that_is_cancelled_at_any_step_loses_nothing(vault: Vault, step: int, has_log: bool) -> None:
    slow, fast = StepwiseStore("slow"), Turns("fast")
    manager = managed([slow, fast, *([VaultStore(vault)] if has_log else [])])
    chat = manager.attach()

    async def cut_off() -> None:
        say(chat, "a")
        await chat.end_turn()
        for _ in range(step):
            await asyncio.sleep(0)
        say(chat, "b")
        (last_save,) = await end_turn(chat, slow)
        last_save.cancel()
        await asyncio.sleep(0)
        say(chat, "c")

    asyncio.run(cut_off())  # its end cancels the running tasks
    asyncio.run(asyncio.wait_for(manager.flush(), LIMIT))
    assert set(slow.texts) == set(fast.texts) == {"a", "b", "c"}
    assert manager.pending == 0


def test_a_save_cancelled_before_it_started_blocks_no_other_loop() -> None:
    store = Turns()
    manager = managed([store])
    chat = manager.attach()

    async def main() -> None:
        say(chat, "a")
        (save,) = await end_turn(chat, store)
        save.cancel()
        await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.to_thread(lambda: asyncio.run(manager.flush())), LIMIT)

    asyncio.run(main())
    assert store.texts == ["a"]
