"""An attachment: what a manager is to one agent, or to one conversation of a loop of one's own."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memfs.agent.extraction_queue.coordinator import Coordinator
from memfs.agent.injection import SECONDS, InjectionContext, wants
from memfs.agent.messages import Message, appended, plain
from memfs.agent.triggers import TriggerContext
from memfs.errors import InvalidArgumentsError, short_repr
from memfs.stores.agent.protocol import MemoryStore

if TYPE_CHECKING:
    from memfs.agent.manager import MemoryManager

log = logging.getLogger("memfs.agent")


class Attachment:
    """Hears the turns of one agent, and tells it what is remembered.

    A loop calls `record` with each message, `inject` before the model, and `end_turn` when it has answered.
    """

    def __init__(self, manager: "MemoryManager", coordinator: Coordinator | None, agent: Any = None) -> None:
        self._manager, self._agent = manager, agent
        self.coordinator = coordinator
        self._at_turn_end: list[Callable[[], None]] = []
        self._at_message: list[Callable[[Message], None]] = []

    def listen(self, store: MemoryStore, trigger: Any, context: type[TriggerContext] = TriggerContext) -> None:
        """Have a trigger say when a store is to get its turns."""
        coordinator = self.coordinator
        assert coordinator is not None
        trigger.attach(
            context(self._agent, lambda: coordinator.schedule(store), self._at_turn_end.append, self._at_message.append)
        )

    def record(self, message: Message) -> None:
        """Take a message of the conversation down."""
        message = plain(message)
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            reason = f"{short_repr(message)} is no message; give {{'role': 'user', 'content': ...}}"
            raise InvalidArgumentsError("record", reason)
        if self.coordinator is not None:
            self.coordinator.record(message)
        for listener in self._at_message:
            _tell(listener, message)

    async def inject(self, messages: Sequence[Message]) -> list[Message]:
        """The conversation as the model should see it for this call; the one that was given stays as it is."""
        if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
            raise InvalidArgumentsError("inject", f"{short_repr(messages)} is not a list of messages")
        text = await self.context(messages)
        return appended(messages, text) if text else list(messages)

    async def context(self, messages: Sequence[Message]) -> str | None:
        """The text to tell the model before this call, or None. Never raises."""
        config = self._manager.injection
        if config is None:
            return None
        try:
            seen = [plain(message) for message in messages]
            state = getattr(self._agent, "state", None)
            if not wants(config, InjectionContext(seen, state, self._agent)):
                return None
            async with asyncio.timeout(config.get("max_seconds", SECONDS)):
                return await self._manager.injector.provide(seen, config)
        except Exception as error:
            log.warning("skipping injection: %s", str(error) or type(error).__name__)
            return None

    def turn_ended(self) -> None:
        """Tell the triggers; what they call for runs in the background."""
        self._manager.resume(self.coordinator)
        for listener in self._at_turn_end:
            _tell(listener)

    async def end_turn(self) -> None:
        """Tell the triggers that the agent has answered, from within an event loop."""
        self.turn_ended()

    async def flush(self) -> None:
        """Save every turn of this conversation, and wait for it. Never raises."""
        if self.coordinator is not None:
            await self.coordinator.flush()

    async def close(self) -> None:
        """End the conversation: save its turns, and let go; what could not be saved waits in the vault."""
        await self.flush()
        if self.coordinator is not None:
            self.coordinator.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _tell(listener: Callable[..., None], *what: Any) -> None:
    """Tell a trigger; one that raises is not in the way of the agent, nor of other triggers."""
    try:
        listener(*what)
    except Exception:
        log.warning("a trigger raised", exc_info=True)
