"""The names of `strands.memory.extraction.types`, implemented by memfs."""

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
    """The context of a trigger; callbacks are registered as hooks of the agent, unless other functions are given."""

    on_turn_end: Any = None
    on_message: Any = None

    def __post_init__(self) -> None:
        self.on_turn_end = self.on_turn_end or self._on_agent_turn_end
        self.on_message = self.on_message or self._on_agent_message

    def _on_agent_turn_end(self, listener: Callable[[], None]) -> None:
        self.agent.add_hook(lambda event: listener(), AfterInvocationEvent, order=HookOrder.SDK_LAST)

    def _on_agent_message(self, listener: Callable[[Message], None]) -> None:
        self.agent.add_hook(lambda event: listener(event.message), MessageAddedEvent)


class ExtractionTrigger(ABC):
    """Decides when to extract. Subclasses observe `context.agent` and call `context.fire()`."""

    name: str

    @abstractmethod
    def attach(self, context: Any) -> None:
        """Start to observe one agent for one store."""


class ExtractionConfig(TypedDict, total=False):
    """When, how and from which messages a store's facts are extracted."""

    trigger: Trigger | list[Trigger]
    extractor: Extractor
    filter: MemoryMessageFilter
