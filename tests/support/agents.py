"""Stores that record what they are given, and short conversations with a manager."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from memfs.agent import (
    ConversationState,
    InvocationTrigger,
    MemoryManager,
)
from memfs.agent.messages import text_of
from memfs.stores import AddMessagesContext, Found
from support.messages import user

LIMIT = 10.0


class SearchableStore:
    """A store that can only be searched."""

    def __init__(self, name: str = "shelf", *found: str, fails: bool = False, **settings: Any) -> None:
        self.name, self.found, self.fails = name, found, fails
        self.description: str | None = settings.get("description")
        self.max_search_results: int | None = settings.get("most")
        self.writable: bool = settings.get("writable", False)
        self.extraction: Any = settings.get("extraction")
        self.searches: list[tuple[str, Any]] = []

    async def search(self, query: str, options: Any = None) -> Sequence[Any]:
        self.searches.append((query, options))
        if self.fails:
            raise OSError("the shelf fell down")
        return [Found(text, metadata={"at": place}) for place, text in enumerate(self.found)]


class Facts(SearchableStore):
    """A store with `add`."""

    def __init__(self, name: str = "facts", *found: str, **settings: Any) -> None:
        super().__init__(name, *found, **{"writable": True, **settings})
        self.added: list[tuple[str, Any]] = []

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        if self.fails:
            raise OSError("the pen is dry")
        self.added.append((content, metadata))


class Turns(SearchableStore):
    """A store with `add_messages`, whose first `failures` calls fail."""

    def __init__(self, name: str = "turns", failures: int = 0, **settings: Any) -> None:
        super().__init__(name, **{"writable": True, "extraction": {"trigger": InvocationTrigger()}, **settings})
        self.batches: list[list[str]] = []
        self.numbers: list[list[int]] = []
        self.failures, self.tries = failures, 0

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    async def add_messages(self, messages: Sequence[Any], context: AddMessagesContext | None = None) -> None:
        self.tries += 1
        await asyncio.sleep(0)
        self.numbers.append(list((context and context.sequence_numbers) or []))
        if self.tries <= self.failures:
            raise OSError("not now")
        self.batches.append([text_of(message) for message in messages])


class StepwiseStore(Turns):
    """A store whose writes take several steps, between which they can be cancelled."""

    async def add_messages(self, messages: Sequence[Any], context: AddMessagesContext | None = None) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await super().add_messages(messages, context)


def managed(stores: Sequence[Any], *toggles: Any, **settings: Any) -> MemoryManager:
    """Return a manager of stores that match the protocol by their methods."""
    return MemoryManager(stores, *toggles, **settings)


def run_turns(manager: MemoryManager, *texts: str) -> None:
    """Run a conversation with one turn per text, in one event loop."""

    async def talk() -> None:
        chat = manager.attach()
        for text in texts:
            chat.record(user(text))
            await chat.end_turn()
            await wait_idle(chat)
        await manager.settle()

    asyncio.run(talk())


def say(chat: ConversationState, *texts: str) -> None:
    for text in texts:
        chat.record(user(text))


async def wait_idle(chat: ConversationState) -> None:
    """Wait for the saves that triggers started."""
    assert chat.coordinator is not None
    await chat.coordinator.wait_idle()


def contents(found: Sequence[Any]) -> list[str]:
    """Return the texts of what a store or a manager found."""
    return [entry.content for entry in found]
