"""ConversationState: records one conversation for a MemoryManager, and injects memories into its model calls."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memfs.agent.extraction_queue.coordinator import Coordinator
from memfs.agent.injection import DEFAULT_MAX_SECONDS, InjectionContext, should_inject
from memfs.agent.messages import Message, append_text, as_mappings
from memfs.agent.triggers import TriggerContext
from memfs.errors import InvalidArgumentsError, short_repr
from memfs.stores.agent.protocol import MemoryStore

if TYPE_CHECKING:
    from memfs.agent.manager import MemoryManager

log = logging.getLogger("memfs.agent")


class ConversationState:
    """The state of one conversation, or of one agent, on a manager. Its other name is `memfs.agent.Attachment`.

    An agent loop calls `record` with each message, `inject` before the model, and `end_turn` after its reply.
    """

    def __init__(self, manager: "MemoryManager", coordinator: Coordinator | None, agent: Any = None) -> None:
        self._manager, self._agent = manager, agent
        self.coordinator = coordinator
        self._turn_end_listeners: list[Callable[[], None]] = []
        self._message_listeners: list[Callable[[Message], None]] = []

    def listen(self, store: MemoryStore, trigger: Any, context: type[TriggerContext] = TriggerContext) -> None:
        """Attach a trigger that decides when the turns are saved to a store; `context` is the class of its context."""
        coordinator = self.coordinator
        assert coordinator is not None
        trigger.attach(
            context(
                self._agent,
                lambda: coordinator.schedule(store),
                self._turn_end_listeners.append,
                self._message_listeners.append,
            )
        )

    def record(self, message: Message) -> None:
        """Record a message of the conversation; raise InvalidArgumentsError if it is not a message."""
        message = as_mappings(message)
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            reason = f"{short_repr(message)} is no message; give {{'role': 'user', 'content': ...}}"
            raise InvalidArgumentsError("record", reason)
        if self.coordinator is not None:
            self.coordinator.record(message)
        for listener in self._message_listeners:
            _call_listener(listener, message)

    async def inject(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages to send to the model for this call, with memories; `messages` is not changed."""
        if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
            raise InvalidArgumentsError("inject", f"{short_repr(messages)} is not a list of messages")
        text = await self.context(messages)
        return append_text(messages, text) if text else list(messages)

    async def context(self, messages: Sequence[Message]) -> str | None:
        """Return the text with memories for this model call, or None. Never raises."""
        config = self._manager.injection
        if config is None:
            return None
        try:
            mappings = [as_mappings(message) for message in messages]
            state = getattr(self._agent, "state", None)
            if not should_inject(config, InjectionContext(mappings, state, self._agent)):
                return None
            async with asyncio.timeout(config.get("max_seconds", DEFAULT_MAX_SECONDS)):
                return await self._manager.injector.provide(mappings, config)
        except Exception as error:
            log.warning("skipping injection: %s", str(error) or type(error).__name__)
            return None

    def turn_ended(self) -> None:
        """Notify the triggers of the end of a turn. The saves they start run in the background of the event loop.

        Without a running event loop no save starts: the turns wait for `flush`.
        """
        self._manager.resume(self.coordinator)
        for listener in self._turn_end_listeners:
            _call_listener(listener)

    async def end_turn(self) -> None:
        """Do the same as `turn_ended`; as a coroutine it always runs in an event loop."""
        self.turn_ended()

    async def flush(self) -> None:
        """Save every turn of this conversation, and wait for it. Never raises."""
        if self.coordinator is not None:
            await self.coordinator.flush()

    async def close(self) -> None:
        """Save the turns of the conversation and release its log; unsaved turns wait in the vault for the next run."""
        await self.flush()
        if self.coordinator is not None:
            self.coordinator.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _call_listener(listener: Callable[..., None], *arguments: Any) -> None:
    """Call a trigger; an exception is logged, so that it stops neither the agent nor the other triggers."""
    try:
        listener(*arguments)
    except Exception:
        log.warning("a trigger raised", exc_info=True)
