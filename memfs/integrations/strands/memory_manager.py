"""MemoryManager for Strands agents: `Agent(memory_manager=...)`, or one of `Agent(plugins=[...])`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from strands.hooks.events import AfterInvocationEvent, MessageAddedEvent
from strands.hooks.registry import HookOrder
from strands.memory import MemoryManager as StrandsManager
from strands.telemetry.tracer import get_tracer

from memfs.agent.conversation_state import ConversationState
from memfs.agent.injection import DEFAULT_MAX_ENTRIES as MAX_ENTRIES
from memfs.agent.injection import render
from memfs.agent.manager import MemoryManager as MemfsManager
from memfs.agent.messages import Message, append_text
from memfs.agent.store_search import DEFAULT_SEARCH_RESULTS
from memfs.agent.telemetry import Telemetry
from memfs.argument_checks import Toggle, expand_toggle
from memfs.integrations.strands.errors import AggregateMemoryError
from memfs.integrations.strands.extraction.coordinator import ExtractionCoordinator
from memfs.integrations.strands.extraction.model_extractor import ModelExtractor
from memfs.integrations.strands.extraction.types import ExtractionTriggerContext
from memfs.integrations.strands.telemetry import StrandsTelemetry
from memfs.integrations.strands.tool import as_strands_tool
from memfs.integrations.strands.types import AnyStore
from memfs.integrations.strands.version_differences import before_model, ends_with_call, flushing_agent, model_of
from memfs.stores.agent.protocol import MemoryStore

DEFAULT_MAX_SEARCH_RESULTS = DEFAULT_SEARCH_RESULTS
DEFAULT_MAX_ENTRIES = MAX_ENTRIES


if TYPE_CHECKING:

    class _Manager(MemfsManager, StrandsManager):  # type: ignore[misc]
        """For the type checker only; at run time, MemoryManager is registered as a subclass of Strands' own."""

else:
    _Manager = MemfsManager


class MemoryManager(_Manager):
    """Gives Strands agents tools, extraction and injection on stores.

    A synchronous call waits for the running saves; turns that are due later stay pending in the vault. Leaving a
    `with agent` block, `agent.shutdown()` and `flush()` save everything.
    """

    name = "strands:memory-manager"
    aggregate = AggregateMemoryError
    extractor = ModelExtractor
    coordinator = ExtractionCoordinator
    trigger_context = ExtractionTriggerContext

    def __init__(
        self,
        stores: Sequence[AnyStore],
        search_tool_config: Toggle = True,
        add_tool_config: Toggle = False,
        injection: Toggle = True,
        *,
        read_tools: Sequence[str] = (),
        write_tools: Sequence[str] = (),
        tools: str = "each",
        model: Any = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        super().__init__(
            cast("Sequence[MemoryStore]", stores),
            search_tool_config,
            add_tool_config,
            injection,
            read_tools=read_tools,
            write_tools=write_tools,
            tools=tools,
            model=model,
            telemetry=telemetry or StrandsTelemetry(_tracer),
        )
        add_config = expand_toggle(add_tool_config) or {}
        self._saves_later = bool(self._bindings) or not add_config.get("wait_for_writes", True)
        self._attachments: WeakValueDictionary[int, ConversationState] = WeakValueDictionary()  # by the id of the agent
        self._extraction_stores: Any = self._bindings  # the attribute of Strands' own manager
        self._injection_config: Any = False if self.injection is None else self.injection

    # --- the plugin interface of Strands

    @property
    def hooks(self) -> list[Any]:
        """Empty: `init_agent` adds the hooks."""
        return []

    async def init_agent(self, agent: Any) -> None:
        """Initialize the stores, record the messages of an agent, and inject memories into its model calls."""
        await self.initialize()
        attachment = self.observe(agent, model=self._model if self._model is not None else model_of(agent))
        if self._bindings:
            agent.add_hook(lambda event: attachment.record(event.message), MessageAddedEvent)
        if self.injection is not None:
            before_model(agent, partial(_inject, attachment))

    def observe(self, agent: Any, *, model: Any) -> ConversationState:
        """Attach to an agent and observe the end of its turns; recording its messages is left to the caller."""
        attachment = self.attach(agent, model=model)
        self._attachments[id(agent)] = attachment
        if self._bindings:
            agent.add_hook(lambda event: attachment.turn_ended(), AfterInvocationEvent, order=HookOrder.SDK_LAST)
        if self._saves_later:
            agent.add_hook(self._finish_saves, AfterInvocationEvent, order=HookOrder.SDK_LAST + 1)
        return attachment

    hear = observe  # the name in version 0.9

    async def flush(self) -> None:
        """Save every turn and every accepted fact, and wait for it.

        At the end of a synchronous agent call, only wait for the saves that are running.
        """
        agent = flushing_agent()
        await (super().flush() if agent is None else self._wait_for_saves(agent))

    async def _finish_saves(self, event: AfterInvocationEvent) -> None:
        """Wait for the running saves if the event loop ends with the call."""
        if ends_with_call():
            await self._wait_for_saves(event.agent)

    async def _wait_for_saves(self, agent: Any) -> None:
        """Wait for the running saves of one agent, but not for those of other agents."""
        attachment = self._attachments.get(id(agent))
        if attachment is not None and attachment.coordinator is not None:
            await attachment.coordinator.settle()
        await self._accepted_facts.flush()

    # --- differences to the manager of memfs

    def _find_stores(
        self, names: Sequence[str], *, writable: bool = False, subject: str = "stores"
    ) -> list[MemoryStore]:
        """Return the named stores; as in Strands, an empty list is valid for a search, and means no store."""
        return super()._find_stores(names, writable=writable, subject=subject) if names or writable else []

    def _adapt_tool(self, tool: Any) -> Any:
        return as_strands_tool(tool)

    # --- private names of Strands' manager that other code may use

    async def _provide_memory_context(self, messages: Sequence[Message], config: Mapping[str, Any]) -> str | None:
        return await self.injector.provide(messages, config)

    def _default_injection_format(self, entries: Any) -> str:
        return render(entries)


StrandsManager.register(MemoryManager)


def _tracer() -> Any:
    """Return Strands' current tracer."""
    return get_tracer()


async def _inject(attachment: ConversationState, context: Any) -> Any:
    """Return the context of a model call with memories added; the agent's own messages are not changed."""
    text = await attachment.context(context.messages)
    if not text or not text.strip():
        return context
    messages = append_text(context.messages, text)
    changes: dict[str, Any] = {"messages": messages}
    if hasattr(context, "dynamic_trailing_blocks") and messages[-1] is not context.messages[-1]:
        changes["dynamic_trailing_blocks"] = context.dynamic_trailing_blocks + 1
    return replace(context, **changes)
