"""What is saved of a conversation, in which portions, and when."""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memfs import Vault
from memfs.agent import Fact, IntervalTrigger, InvocationTrigger, MemoryManager
from memfs.agent.coordinator import BATCH
from memfs.agent.messages import text_of, tokens
from memfs.agent.pending import Log
from memfs.stores import Found, InMemoryStore, VaultStore

LIMIT = 30  # seconds that any wait may take


class Portions:
    """An extractor that keeps what it was given at once, and makes a fact of each turn; it can be made to fail."""

    def __init__(self, fails: int = 0) -> None:
        self.portions: list[list[str]] = []
        self._fails = fails

    async def extract(self, messages: Any, context: Any = None) -> list[Fact]:
        self.portions.append([text_of(message) for message in messages])
        if len(self.portions) <= self._fails:
            raise RuntimeError("the model is down")
        return [Fact(text[:40]) for text in self.portions[-1]]


def store_of(vault: Vault, extractor: Any, trigger: Any = None) -> VaultStore:
    return VaultStore(vault, "/facts", extraction={"trigger": trigger or InvocationTrigger(), "extractor": extractor})


def said(chat: Any, *texts: str) -> None:
    for text in texts:
        chat.record({"role": "user", "content": text})


def bodies(vault: Vault) -> list[str]:
    return sorted(memory.body.strip() for memory in vault.list())


def left_behind(vault: Vault, store: VaultStore, *records: dict[str, Any]) -> None:
    """The log of a process that is gone."""
    log = Log(vault.root, [store.place])
    log.append(*records)
    log.close()


def test_a_long_backlog_is_saved_in_portions_that_a_model_can_take(vault: Vault) -> None:
    portions = Portions(fails=1)
    words = [f"turn {number} " + "tea " * 5_000 for number in range(12)]

    async def main() -> None:
        async with MemoryManager([store_of(vault, portions)]) as manager:
            chat = manager.attach()
            said(chat, *words)
            await chat.end_turn()

    asyncio.run(main())

    assert [text for portion in portions.portions[1:] for text in portion] == [word.strip() for word in words]
    assert len(portions.portions) > 3
    assert max(sum(tokens(text) for text in portion) for portion in portions.portions) <= BATCH
    assert len(bodies(vault)) == 12


def test_a_turn_that_is_longer_than_a_portion_is_one(vault: Vault) -> None:
    portions = Portions()

    async def main() -> None:
        async with MemoryManager([store_of(vault, portions)]) as manager:
            said(manager.attach(), "short", "tea " * BATCH, "short again")

    asyncio.run(main())

    assert [len(portion) for portion in portions.portions] == [1, 1, 1]


def test_what_another_agent_left_is_tried_once_and_then_with_every_save(vault: Vault) -> None:
    portions = Portions(fails=1)
    store = store_of(vault, portions, IntervalTrigger(3))
    left_behind(vault, store, {"turn": 0, "message": {"role": "user", "content": "left behind"}})

    async def main() -> None:
        manager = MemoryManager([store])
        chat = manager.attach()
        for number in range(2):
            said(chat, f"turn {number}")
            await chat.end_turn()
            await manager.settle()
        assert portions.portions == [["left behind"]]
        said(chat, "turn 2")
        await chat.end_turn()
        await manager.settle()

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert portions.portions == [["left behind"], ["left behind"], ["turn 0", "turn 1", "turn 2"]]
    assert bodies(vault) == ["left behind", "turn 0", "turn 1", "turn 2"]


def test_facts_that_a_dead_process_had_accepted_are_written_when_a_turn_ends(vault: Vault) -> None:
    store = VaultStore(vault, "/facts")
    left_behind(vault, store, {"fact": "k", "content": "Alice likes tea.", "stores": [store.place], "metadata": None})

    async def main() -> None:
        manager = MemoryManager([store])
        chat = manager.attach()
        assert manager.pending == 1
        await chat.end_turn()
        while manager.pending:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), LIMIT))

    assert bodies(vault) == ["Alice likes tea."]


def test_an_accepted_fact_that_no_store_takes_is_dropped_and_said(
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


def test_closing_a_manager_publishes_the_index_of_a_vault_it_was_given_by_path(tmp_path: Path) -> None:
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


def test_a_store_that_hangs_does_not_hold_up_the_call() -> None:
    chat = MemoryManager([Hanging()], injection={"max_seconds": 0.01}).attach()
    messages = [{"role": "user", "content": "Hello?"}]

    assert asyncio.run(asyncio.wait_for(chat.inject(messages), LIMIT)) == messages


@pytest.mark.parametrize("seconds", [0, -1, "5", True])
def test_a_limit_of_time_is_a_number_above_0(seconds: Any) -> None:
    with pytest.raises(ValueError, match="max_seconds must be a number above 0"):
        MemoryManager([InMemoryStore()], injection={"max_seconds": seconds})


def test_pinned_memories_leave_room_for_what_was_asked_for(vault: Vault) -> None:
    for number in range(7):
        vault.add(f"Rule {number} of the house.", pinned=True)
    vault.add("Alice likes green tea.")
    chat = MemoryManager([VaultStore(vault)]).attach()

    told = asyncio.run(chat.inject([{"role": "user", "content": "Which tea does Alice like?"}]))[-1]["content"]

    assert told.count("of the house") == 3
    assert "Alice likes green tea." in told


def test_two_stores_may_use_the_same_ids() -> None:
    class Numbered:
        description, max_search_results, writable, extraction = None, None, False, None

        def __init__(self, name: str, content: str) -> None:
            self.name, self.content = name, content

        async def search(self, query: str, options: Any = None) -> list[Found]:
            return [Found(self.content, id="1")]

    chat = MemoryManager([Numbered("a", "tea"), Numbered("b", "cake")]).attach()

    told = asyncio.run(chat.inject([{"role": "user", "content": "What is there?"}]))[-1]["content"]

    assert ">tea<" in told
    assert ">cake<" in told


def test_a_tool_of_another_framework_is_described_too() -> None:
    class Foreign:
        tool_name = "look_up"
        tool_spec = {  # noqa: RUF012  as frameworks have it
            "name": "look_up",
            "description": "Look something up.",
            "inputSchema": {"json": {"type": "object", "properties": {}, "required": []}},
        }

    class Store(InMemoryStore):
        def get_tools(self) -> list[Any]:
            return [Foreign()]

    specs = MemoryManager([Store()]).tool_specs("openai")

    assert [spec["function"]["name"] for spec in specs] == ["search_memory", "look_up"]


def test_many_conversations_of_one_manager_keep_to_themselves(vault: Vault) -> None:
    portions = Portions()

    async def main() -> None:
        async with MemoryManager([store_of(vault, portions, IntervalTrigger(100))]) as manager:
            chats = [manager.attach() for _ in range(50)]
            for number, (turn, chat) in enumerate(itertools.product(range(3), chats)):
                said(chat, f"conversation {number % 50}, turn {turn}")

    asyncio.run(main())

    assert len(portions.portions) == 50
    assert all(len({text.partition(",")[0] for text in portion}) == 1 for portion in portions.portions)
    assert len(bodies(vault)) == 150
