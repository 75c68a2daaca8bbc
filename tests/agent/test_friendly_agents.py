"""Mistakes of an agent's author: nothing is lost, duplicated, or shown to another person."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from support.messages import user

from memfs import Vault
from memfs.agent import InvocationTrigger, MemoryManager, ScriptedModel
from memfs.errors import MemfsError
from memfs.stores import VaultStore

LIMIT = 30.0
EACH_TURN = {"trigger": InvocationTrigger()}


def bodies(vault: Vault, namespace: str = "/") -> set[str]:
    return {memory.body.strip() for memory in vault.list(namespace)}


class ListStore:
    """A custom store that keeps every added text, also duplicates."""

    name, description, max_search_results, writable, extraction = "box", None, None, True, None

    def __init__(self, failures: int = 0) -> None:
        self.added: list[str] = []
        self.failures = failures

    async def search(self, query: str, options: Any = None) -> Sequence[Any]:
        return []

    async def add(self, content: str, metadata: Any = None) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise OSError("not now")
        self.added.append(content)


CRASH = """
import asyncio, os, sys
from memfs import Vault
from memfs.agent import MemoryManager, ScriptedModel
from memfs.stores import VaultStore

async def main():
    store = VaultStore(Vault(sys.argv[1]).scope("/facts/alice"), extraction=True)
    manager = MemoryManager([store], model=ScriptedModel())
    chat = manager.attach()
    chat.record({"role": "user", "content": "I am alice."})
    os._exit(7)

asyncio.run(main())
"""


def test_pending_turns_of_one_person_never_reach_another(vault: Vault) -> None:
    crashed = subprocess.run([sys.executable, "-c", CRASH, str(vault.root)], timeout=LIMIT)
    assert crashed.returncode == 7
    models = {"bob": ScriptedModel([[], []]), "alice": ScriptedModel([[], []])}

    async def talk(who: str) -> str:
        store = VaultStore(vault.scope(f"/facts/{who}"), extraction=True)
        async with MemoryManager([store], model=models[who]) as manager:
            manager.attach().record(user("Hello."))
        return "".join(call.text for call in models[who].calls)

    assert "alice" not in asyncio.run(talk("bob"))
    assert "I am alice." in asyncio.run(talk("alice"))


def test_a_memory_that_was_shown_in_part_is_not_truncated(vault: Vault) -> None:
    whole = "\n".join(f"Line {number} of the plan of the garden." for number in range(800))
    (vault.root / "facts").mkdir()
    (vault.root / "facts" / "plan.md").write_text(whole, encoding="utf-8")
    manager = MemoryManager([VaultStore(vault, "/facts")], read_tools=["get"], write_tools=["update"])

    async def correct() -> None:
        shown = (await manager.call_tool("search_memory", {"query": "garden plan"}))[0]
        changed = {"memory_id": shown["metadata"]["id"], "content": shown["content"].replace("garden", "yard")}
        with pytest.raises(MemfsError):
            await manager.call_tool("update_memory", changed)

    asyncio.run(correct())
    assert (vault.root / "facts" / "plan.md").read_text(encoding="utf-8") == whole


def test_an_accepted_fact_is_written_once_by_concurrent_flushes() -> None:
    box = ListStore(failures=1)

    async def main() -> None:
        manager = MemoryManager([box], add_tool_config={"wait_for_writes": False})
        await manager.call_tool("add_memory", {"entries": ["Alice likes tea."]})
        while box.failures:
            await asyncio.sleep(0)
        await asyncio.gather(*(manager.flush() for _ in range(3)))

    asyncio.run(asyncio.wait_for(main(), LIMIT))
    assert box.added == ["Alice likes tea."]


def test_stores_may_come_from_a_generator() -> None:
    manager = MemoryManager(store for store in [ListStore()])  # type: ignore[arg-type]

    asyncio.run(manager.add("Alice likes tea."))


def test_a_tool_accepts_arguments_as_openai_sends_them() -> None:
    box = ListStore()
    manager = MemoryManager([box], add_tool_config=True)

    asyncio.run(manager.call_tool("add_memory", json.dumps({"entries": ["Alice likes tea."]})))
    assert box.added == ["Alice likes tea."]


@pytest.mark.parametrize("message", ["hello", None, ("user", "hi"), {"role": "user", "content": 5}])
def test_an_invalid_message_does_not_stop_the_extraction_of_a_conversation(vault: Vault, message: Any) -> None:
    def model(messages: Any) -> Any:
        return [{"content": "Alice likes tea."}]

    async def talk() -> None:
        manager = MemoryManager([VaultStore(vault, "/facts", extraction=EACH_TURN)], model=model)
        chat = manager.attach()
        with suppress(MemfsError):
            chat.record(message)
        chat.record(user("I like tea."))
        await manager.flush()
        assert manager.pending == 0

    asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert bodies(vault) == {"Alice likes tea."}


def test_a_turn_too_long_for_the_model_does_not_block_the_rest(vault: Vault) -> None:
    async def model(messages: Any) -> Any:
        if len(messages[-1]["content"]) > 400_000:
            raise RuntimeError("context length exceeded")
        return [{"content": "Alice likes tea."}]

    async def talk() -> None:
        async with MemoryManager([VaultStore(vault, "/facts", extraction=EACH_TURN)], model=model) as manager:
            chat = manager.attach()
            chat.record(user("a line of a log. " * 60_000))
            for number in range(20):
                chat.record(user(f"I like tea {number}."))
                await manager.flush()

    asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert bodies(vault) == {"Alice likes tea."}


@pytest.mark.parametrize("action", ["update", "supersede"])
def test_a_forgotten_fact_does_not_return_in_place_of_another(vault: Vault, action: str) -> None:
    vault.forget(vault.add("Alice lives at 5 Elm Street.", namespace="/facts").id)
    vault.add("Alice lives in Springfield.", namespace="/facts")
    model = ScriptedModel([[{"content": "Alice lives at 5 Elm Street.", "action": action, "target": 1}]])

    async def talk() -> None:
        async with MemoryManager([VaultStore(vault, "/facts", extraction=True)], model=model) as manager:
            manager.attach().record(user("Alice lives in Springfield, at 5 Elm Street."))

    asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert bodies(vault) == {"Alice lives in Springfield."}


def test_pinned_memories_of_several_stores_leave_entries_for_search_results(vault: Vault) -> None:
    for namespace in ("/a", "/b", "/c"):
        for number in range(4):
            vault.add(f"Pinned {namespace} {number}.", namespace=namespace, pinned=True)
    vault.add("Alice likes green tea.", namespace="/a")
    manager = MemoryManager([VaultStore(vault, namespace) for namespace in ("/a", "/b", "/c")])

    seen = asyncio.run(manager.attach().inject([user("Which green tea does Alice like?")]))
    assert "Alice likes green tea." in seen[-1]["content"]


def test_a_fact_that_becomes_true_again_is_stored_again(vault: Vault) -> None:
    vault.add("Alice lives in Berlin.", namespace="/facts")
    paris = [{"content": "Alice lives in Paris.", "action": "supersede", "target": 1}]
    model = ScriptedModel([paris, [{"content": "Alice lives in Berlin."}]])

    async def talk() -> list[Any]:
        async with MemoryManager([VaultStore(vault, "/facts", extraction=EACH_TURN)], model=model) as manager:
            chat = manager.attach()
            for text in ("Alice no longer lives in Berlin, but in Paris.", "Alice lives in Berlin again."):
                chat.record(user(text))
                await chat.inject([user(text)])
                await manager.flush()
            return await manager.search("where does Alice live")

    assert "Alice lives in Berlin." in {found.content for found in asyncio.run(asyncio.wait_for(talk(), LIMIT))}


def test_a_message_is_extracted_as_it_was_when_recorded(vault: Vault) -> None:
    model = ScriptedModel([[]])

    async def talk() -> None:
        async with MemoryManager([VaultStore(vault, "/facts", extraction=True)], model=model) as manager:
            chat, message = manager.attach(), user("I like tea.")
            chat.record(message)
            message["content"] += "<memory>Alice likes coffee.</memory>"

    asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert "coffee" not in model.last_prompt


def test_concurrent_people_with_separate_managers_get_only_their_own_memories(vault: Vault) -> None:
    async def talk(number: int) -> str:
        who = f"user-{number}"
        store = VaultStore(vault, "/facts/{actorId}", actor=who, extraction=EACH_TURN)
        model = ScriptedModel([[{"content": f"The number of {who} is {number}."}], []])
        async with MemoryManager([store], model=model) as manager:
            chat = manager.attach()
            chat.record(user(f"I am {who}, my number is {number}."))
            await manager.flush()
            seen = await chat.inject([user("What is the number of the user?")])
            return str(seen[-1]["content"])

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(talk(number) for number in range(20)))

    for number, text in enumerate(asyncio.run(asyncio.wait_for(all_of_them(), LIMIT))):
        assert text.count("The number of") == 1
        assert f"The number of user-{number} is {number}." in text


def test_the_state_directory_can_be_deleted_between_two_turns(vault: Vault) -> None:
    model = ScriptedModel([[{"content": "Alice likes tea."}]])

    async def talk() -> None:
        async with MemoryManager([VaultStore(vault, "/facts", extraction=True)], model=model) as manager:
            chat = manager.attach()
            chat.record(user("I like tea."))
            shutil.rmtree(vault.root / ".memfs" / "pending", ignore_errors=True)
            chat.record(user("With milk."))

    asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert "With milk." in model.last_prompt
    assert bodies(vault) == {"Alice likes tea."}
