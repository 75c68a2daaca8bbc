"""The words of `strands.memory.extraction.types`, ours behind them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from strands.hooks.events import AfterInvocationEvent, MessageAddedEvent
from strands.hooks.registry import HookOrder

from memfs.agent.extraction.config import NO_TOOLS, Extractor, ExtractorContext, Fact, MessageFilter
from memfs.agent.messages import Message
from memfs.agent.triggers import Trigger, TriggerContext

__all__ = [
    "DEFAULT_MEMORY_MESSAGE_FILTER", "ExtractionConfig", "ExtractionResult", "ExtractionTrigger",
    "ExtractionTriggerContext", "Extractor", "ExtractorContext", "MemoryContentBlockType", "MemoryMessageFilter",
    "Metadata",
]  # fmt: skip

Metadata = dict[str, Any]
ExtractionResult = Fact
MemoryMessageFilter = MessageFilter
DEFAULT_MEMORY_MESSAGE_FILTER = NO_TOOLS
MemoryContentBlockType = Literal[
    "text",
    "toolUse",
    "toolResult",
    "image",
    "document",
    "reasoningContent",
    "video",
    "guardContent",
    "citationsContent",
    "cachePoint",
]


@dataclass
class ExtractionTriggerContext(TriggerContext):
    """What a trigger is attached to; what it listens to is the agent, unless somebody tells it otherwise."""

    on_turn_end: Any = None
    on_message: Any = None

    def __post_init__(self) -> None:
        self.on_turn_end = self.on_turn_end or self._at_turn_end
        self.on_message = self.on_message or self._at_message

    def _at_turn_end(self, listener: Callable[[], None]) -> None:
        self.agent.add_hook(lambda event: listener(), AfterInvocationEvent, order=HookOrder.SDK_LAST)

    def _at_message(self, listener: Callable[[Message], None]) -> None:
        self.agent.add_hook(lambda event: listener(event.message), MessageAddedEvent)


class ExtractionTrigger(ABC):
    """Says when. Subclasses listen to `context.agent` and call `context.fire()`."""

    name: str

    @abstractmethod
    def attach(self, context: Any) -> None:
        """Listen, from now on, on behalf of one store of one agent."""


class ExtractionConfig(TypedDict, total=False):
    """When, how and from what a store's facts are extracted."""

    trigger: Trigger | list[Trigger]
    extractor: Extractor
    filter: MemoryMessageFilter
