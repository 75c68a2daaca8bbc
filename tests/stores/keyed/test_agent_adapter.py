"""Keyed stores as agent stores: with the MemoryManager of memfs, and with the real one of Strands."""

import itertools
import json
from asyncio import run
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import strands.memory
from strands import Agent

from memfs import MemoryManager, as_agent_store, open_store
from memfs.agent import InvocationTrigger
from memfs.agent import ScriptedModel as OurModel
from memfs.errors import (
    InvalidMemoryError,
    InvalidSearchError,
    InvalidSetupError,
    MemoryChangedError,
    MemoryNotFoundError,
    ReadOnlyError,
    UnknownStoreError,
)
from memfs.integrations.strands import MemoryManager as StrandsManager
from memfs.integrations.strands import ScriptedModel
from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore, SqliteStore, VaultKeyedStore, VectorStore
from memfs.stores.keyed.agent_adapter import KeyedAgentStore


@pytest.fixture(params=["memory", "vault", "sqlite", "vector"])
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> KeyedStore[str]:
    """Return a keyed store of each kind."""
    factories: dict[str, Any] = {
        "memory": InMemoryKeyedStore,
        "vault": lambda: VaultKeyedStore(tmp_path / "vault"),
        "sqlite": lambda: SqliteStore(tmp_path / "x.db"),
        "vector": VectorStore,
    }
    store: KeyedStore[str] = factories[request.param]()
    return store


def test_a_memory_added_by_an_agent_is_stored_and_found(keyed: KeyedStore[str]) -> None:
    store = as_agent_store(keyed, name="facts", prefix="alice")
    added = run(store.add("Alice likes green tea.", {"importance": 3, "when": datetime(2026, 3, 1, tzinfo=UTC)}))
    again = run(store.add("  Alice  likes green tea.\n"))
    found: Any
    [found] = run(store.search("green tea"))

    assert (added.outcome, again.outcome, again.id) == ("created", "duplicate", added.id)
    assert added.id.startswith("alice/alice-likes-green-tea-")
    assert keyed.get(added.id) == "Alice likes green tea."
    assert keyed.meta(added.id) == {"importance": 3, "when": "2026-03-01 00:00:00+00:00"}
    assert (found.content, found.id) == ("Alice likes green tea.", added.id)
    assert found.metadata["importance"] == 3
    assert 0.2 <= found.relevance <= 1


def test_a_memory_is_read_corrected_and_forgotten(keyed: KeyedStore[str]) -> None:
    store = as_agent_store(keyed)
    ref = run(store.add("Alice lives in Lisbon.", {"source": "chat"})).id
    before = run(store.get(ref))
    run(store.update(ref, "Alice lives in Porto.", {"sure": True}, seen=before.seen))

    assert run(store.get(ref)).content == "Alice lives in Porto."
    assert keyed.meta(ref) == {"source": "chat", "sure": True}
    with pytest.raises(MemoryChangedError):
        run(store.update(ref, "Alice lives in Rome.", seen=before.seen))
    back = run(store.add("Alice lives in Lisbon."))
    assert (back.outcome, back.id) == ("created", f"{ref}-2")
    assert run(store.forget(ref)).outcome == "removed"
    for call in (store.get, store.forget, lambda gone: store.update(gone, "x")):
        with pytest.raises(MemoryNotFoundError):
            run(call(ref))
    assert keyed.keys() == [back.id]


def test_an_agent_sees_nothing_outside_its_prefix() -> None:
    keyed = InMemoryKeyedStore()
    for number in range(40):
        keyed.add(f"bob/{number}", "tea tea tea")
    keyed.add("alice/x", "Alice drinks a cup of tea in the morning, and another one in the afternoon.")
    keyed.add("alice2/x", "tea")
    store = as_agent_store(keyed, prefix="/alice/", min_relevance=0)

    assert [found.id for found in run(store.search("tea"))] == ["alice/x"]
    assert [found.id for found in run(store.similar("tea"))] == ["alice/x"]
    refs: list[Any] = ["bob/1", "alice2/x", "alice/../bob/1", "", 5]
    for ref in refs:
        with pytest.raises(MemoryNotFoundError):
            run(store.get(ref))


def test_memories_returned_to_an_agent_are_counted_as_recalls(tmp_path: Path) -> None:
    keyed = VectorStore(store=VaultKeyedStore(tmp_path / "vault"))
    keyed.add("tea", "Alice drinks green tea.")
    store = as_agent_store(keyed)

    run(store.search("who drinks green tea?"))
    run(store.similar("green tea"))

    usage = VaultKeyedStore(tmp_path / "vault").vault.usage
    assert [times for times, _ in usage.snapshot().values()] == [1]
    assert usage.ratio()[:2] == (1, 1)


def test_an_important_memory_below_the_threshold_does_not_hide_relevant_ones(tmp_path: Path) -> None:
    keyed = VaultKeyedStore(tmp_path / "vault")
    keyed.add("near", "Green tea at noon.", {"created": "2001-01-01"})
    for number in range(5):
        keyed.add(f"far{number}", "Alice drinks green tea, Bob noon.", {"importance": 10, "pinned": True})
    question = "green tea at noon"
    hits = keyed.search(question, top_k=9)
    assert hits[0][2] < hits[-1][2] == max(score for _, _, score in hits)  # ordered by rank, not by score

    (found,) = run(as_agent_store(keyed, min_relevance=hits[-1][2], max_search_results=1).search(question))
    assert found.id == hits[-1][0] == "near"


def test_irrelevant_hits_are_dropped_and_long_ones_are_cut(keyed: KeyedStore[str]) -> None:
    store = as_agent_store(keyed, min_relevance=0.99, max_chars=50, max_search_results=2)
    keyed.add("long", "green tea " * 1000)
    keyed.add("far", "Something about green hills, trains, harbours and the weather of last week.")

    found = run(store.search("green tea"))
    assert [one.id for one in found] in (["long"], [])
    assert len(run(store.similar("green tea", 1))[0].content) < 150
    assert run(store.search("")) == []
    with pytest.raises(InvalidSearchError):
        run(store.search("tea", {"max_search_results": 0}))


def test_invalid_content_raises_the_errors_of_an_agent_store() -> None:
    store, closed = as_agent_store("memory:"), as_agent_store("memory:", writable=False)

    for content, metadata in (("", None), ("\0", None), (5, None), ("x", {"a": "\0"}), ("x", {"long": "z" * 20_000})):
        with pytest.raises(InvalidMemoryError):
            run(store.add(content, metadata))  # type: ignore[arg-type]
    with pytest.raises(ReadOnlyError):
        run(closed.add("Green tea."))
    assert store.store.keys() == []


@pytest.mark.parametrize("given", [5, None, {}, "mongo://x"])
def test_as_agent_store_refuses_what_is_not_a_keyed_store(given: Any) -> None:
    reasons = "not a KeyedStore|no store handles such addresses"
    with pytest.raises((InvalidSetupError, UnknownStoreError), match=reasons):
        as_agent_store(given)


def test_the_place_identifies_a_store(tmp_path: Path) -> None:
    assert as_agent_store(f"sqlite:///{tmp_path}/x.db", name="facts").place == f"facts:{tmp_path}/x.db"
    assert not hasattr(as_agent_store("memory:"), "place")


def test_a_store_that_was_opened_by_its_address_is_closed_with_the_manager(tmp_path: Path) -> None:
    mine = SqliteStore(tmp_path / "mine.db")
    for store in (as_agent_store(f"sqlite:///{tmp_path}/x.db"), as_agent_store(mine)):
        assert isinstance(store, KeyedAgentStore)
        run(store.add("Green tea."))
        store.close()
        assert [found.content for found in run(store.search("tea"))] == ["Green tea."]


# --- managers


def test_the_manager_of_memfs_searches_adds_and_extracts(tmp_path: Path) -> None:
    answer = json.dumps([{"content": "Alice is allergic to peanuts."}])
    model = OurModel(itertools.chain([answer], itertools.repeat("[]")))
    store = as_agent_store(
        f"sqlite:///{tmp_path}/x.db", name="facts", extraction={"trigger": InvocationTrigger()}, tools=["get", "forget"]
    )

    async def talk() -> Any:
        manager = MemoryManager([store], add_tool_config=True)
        agent = manager.attach(model=model)
        await manager.call_tool("add_memory", {"entries": ["Alice likes green tea."]})
        agent.record({"role": "user", "content": [{"text": "I am allergic to peanuts!"}]})
        agent.record({"role": "assistant", "content": [{"text": "Noted."}]})
        await agent.end_turn()
        await manager.flush()
        found = await manager.call_tool("search_memory", {"query": "peanut allergy"})
        whole = await manager.call_tool("get_memory", {"memory_id": found[0]["metadata"]["id"]})
        return found, whole

    found, whole = run(talk())
    assert found[0]["content"] == whole["content"] == "Alice is allergic to peanuts."
    assert found[0]["store_name"] == "facts"
    kept = dict(open_store(f"sqlite:///{tmp_path}/x.db").items())
    assert sorted(kept.values()) == ["Alice is allergic to peanuts.", "Alice likes green tea."]


@pytest.mark.parametrize("manager", [strands.memory.MemoryManager, StrandsManager], ids=["strands", "memfs"])
def test_a_strands_agent_adds_and_searches(keyed: KeyedStore[str], manager: Any) -> None:
    model = ScriptedModel(
        [
            {"tool": "add_memory", "input": {"entries": ["Alice likes green tea."]}},
            {"tool": "search_memory", "input": {"query": "green tea"}},
            "Green tea.",
        ]
    )
    stores = [as_agent_store(keyed, name="facts", description="What is known of Alice.")]
    agent = Agent(
        model=model, memory_manager=manager(stores=stores, add_tool_config=True, injection=False), callback_handler=None
    )
    agent("Remember that, and tell me what Alice drinks.")

    blocks = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    assert [block["status"] for block in blocks] == ["success", "success"]
    assert "Alice likes green tea." in json.dumps(blocks[1]["content"])
    assert [value for _, value in keyed.items()] == ["Alice likes green tea."]
    assert "What is known of Alice." in json.dumps(model.calls[0].tool_specs)


def test_a_strands_agent_gets_memories_injected() -> None:
    keyed = InMemoryKeyedStore()
    keyed.add("alice/tea", "Alice likes green tea.")
    model = ScriptedModel(["Green tea."])
    store: Any = as_agent_store(keyed, name="facts")
    manager = strands.memory.MemoryManager(stores=[store])
    Agent(model=model, memory_manager=manager, callback_handler=None)("Which tea does Alice like?")

    assert "Alice likes green tea." in json.dumps(model.calls[0].messages)
