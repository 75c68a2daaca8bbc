"""VaultSessionManager: a session of Strands agents in a vault, written down, distilled, and told what is remembered."""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

from strands import Agent
from strands.hooks.events import AfterInvocationEvent
from strands.hooks.registry import HookOrder, HookRegistry
from strands.models.model import Model as TheirModel
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.session import SessionAgent, SessionMessage

from memfs.agent.conversation_state import Attachment
from memfs.agent.distill.config import VaultMemoryConfig
from memfs.agent.distill.distiller import with_position
from memfs.agent.distill.long_term import LongTerm
from memfs.agent.distill.retrieval import Retriever
from memfs.agent.messages import Message
from memfs.agent.models.clients import as_model
from memfs.agent.run_sync import wait
from memfs.errors import InvalidMemoryError, InvalidSetupError, short_repr
from memfs.integrations.strands.memory_manager import MemoryManager
from memfs.integrations.strands.model import StrandsModel
from memfs.integrations.strands.releases import before_model, model_of
from memfs.integrations.strands.session_buffer import BufferedRepository
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")
_TOOLS = {"toolUse", "toolResult"}


class VaultSessionManager(RepositorySessionManager):
    """Keeps the session of `Agent(session_manager=...)` in a vault, as a VaultMemoryConfig says; a context manager too.

    Leaving the block, or `close()`, writes what waits and distils what was said. Several agents may be in a session.
    """

    def __init__(self, config: VaultMemoryConfig) -> None:
        if not isinstance(config, VaultMemoryConfig):
            raise InvalidSetupError("VaultSessionManager", f"config: {short_repr(config)} is not a VaultMemoryConfig")
        self.config = config
        self._long_term = LongTerm(config, lends=True, manager=MemoryManager, adapt=adapted)
        self._said: dict[str, list[SessionMessage]] = {}  # by agent, of the turn that goes on
        self._attachments: dict[str, Attachment] = {}
        self._buffer = _Repository(self._long_term.vault, config, self._amended)
        super().__init__(session_id=config.session_id, session_repository=self._buffer)

    # --- what Strands asks of a session manager

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Have every message and state written, and each turn's end heard."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AfterInvocationEvent, self._turn_ended, order=HookOrder.SDK_LAST - 1)

    def initialize(self, agent: Any, **kwargs: Any) -> None:
        """Give an agent the history of the session, and begin to hear and to tell it."""
        self._buffer.assume(SessionAgent.from_agent(agent))
        super().initialize(agent, **kwargs)
        if self.config.filter_restored_tool_context:
            agent.messages = _without_tools(agent.messages)
        retriever = self._long_term.retriever()
        if retriever is not None and isinstance(agent, Agent):
            before_model(agent, partial(_inject, retriever))
        if self._long_term.manager is not None and isinstance(agent, Agent):
            manager = cast("MemoryManager", self._long_term.manager)
            model = self._long_term.model_for(model_of(agent))
            attachment = self._attachments[agent.agent_id] = manager.hear(agent, model=model)
            if attachment.coordinator is not None:
                attachment.coordinator.recall(
                    [self._noted(agent.agent_id, one) for one in self._restored(agent.agent_id)]
                )

    def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
        """Have a message written; it is distilled when the turn is over, as it is then.

        One that cannot be stored fails the turn, and leaves the agent's history, which stays what is restored.
        """
        before = self._latest_agent_message[agent.agent_id]
        try:
            super().append_message(message, agent, **kwargs)
        except InvalidMemoryError:
            self._latest_agent_message[agent.agent_id] = before
            if agent.messages and agent.messages[-1] is message:
                agent.messages.pop()
            raise
        finally:
            latest = self._latest_agent_message[agent.agent_id]
            if agent.agent_id in self._attachments and latest is not None and latest is not before:
                self._said.setdefault(agent.agent_id, []).append(latest)

    def _turn_ended(self, event: AfterInvocationEvent) -> None:
        self._record(event.agent.agent_id)
        with _second_to(sys.exception()):
            self._buffer.flush()

    def _record(self, agent_id: str) -> None:
        """Have what was said distilled; what was redacted meanwhile is recorded as that."""
        for said in self._said.pop(agent_id, ()):
            self._attachments[agent_id].record(self._noted(agent_id, said))

    def _amended(self, agent_id: str, message: SessionMessage) -> None:
        """Have nothing distilled of what a message was before."""
        said = self._said.get(agent_id, [])
        said[:] = [message if one.message_id == message.message_id else one for one in said]
        self._long_term.amend(agent_id, message.message_id, cast("Any", message.to_message()))

    def _restored(self, agent_id: str) -> list[SessionMessage]:
        """What was said before; older releases of Strands do not keep it."""
        held: dict[str, list[SessionMessage]] = getattr(self, "_held_records", {})
        return held[agent_id] if agent_id in held else self._buffer.list_messages(self.session_id, agent_id)

    def _noted(self, agent_id: str, said: SessionMessage) -> Message:
        """A message as strategies are given it."""
        return with_position(cast("Any", said.to_message()), self.session_id, said.message_id, agent_id)

    # --- what waits

    def pending_message_count(self) -> int:
        """How many messages wait in memory to be written."""
        return self._buffer.pending

    def flush(self) -> None:
        """Write what waits; what fails stays, in its order, and is tried again with the next flush."""
        self._buffer.flush()

    def close(self) -> None:
        """Write what waits, distil what was said, and let go of the vault if it was given by its path."""
        try:
            self._buffer.close()
        finally:
            for agent_id in list(self._said):
                self._record(agent_id)
            wait(self._long_term.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _second_to(error):
            self.close()


class _Repository(BufferedRepository):
    """Tells of each message that is another one now, with its agent."""

    def __init__(self, vault: Vault, config: VaultMemoryConfig, amended: Callable[[str, SessionMessage], None]) -> None:
        super().__init__(vault, config)
        self._amended = amended

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        super().update_message(session_id, agent_id, session_message, **kwargs)
        self._amended(agent_id, session_message)


@contextmanager
def _second_to(error: BaseException | None) -> Iterator[None]:
    """Have what goes wrong meanwhile only logged, where an error is on its way already."""
    try:
        yield
    except Exception as second:
        if error is None:
            raise
        log.error("messages of a session are not written: %s", second)


def adapted(model: Any) -> Any:
    """What was given as a model as one, also a model of Strands."""
    return StrandsModel(model) if isinstance(model, TheirModel) else as_model(model)


async def _inject(retriever: Retriever, context: Any) -> Any:
    """The context of a model call with what is remembered; the agent's own messages stay as they are."""
    messages = await retriever.inject(context.messages)
    if messages == context.messages:
        return context
    changes: dict[str, Any] = {"messages": messages}
    if hasattr(context, "dynamic_trailing_blocks") and messages[-1] is not context.messages[-1]:
        changes["dynamic_trailing_blocks"] = context.dynamic_trailing_blocks + 1
    return replace(context, **changes)


def _without_tools(messages: Sequence[Any]) -> list[Any]:
    """Messages without what tools were told and answered; those with nothing left are gone."""
    kept = ([block for block in one["content"] if not _TOOLS & block.keys()] for one in messages)
    return [{**one, "content": blocks} for one, blocks in zip(messages, kept, strict=True) if blocks]
