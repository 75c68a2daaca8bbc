"""VaultSessionManager: saves a session of Strands agents in a vault, distils it, and retrieves memories for it."""

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
from strands.models.model import Model as StrandsBaseModel
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.session import SessionAgent, SessionMessage

from memfs.agent.conversation_state import ConversationState
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
from memfs.integrations.strands.session_buffer import BufferedRepository
from memfs.integrations.strands.version_differences import before_model, model_of
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")
_TOOL_BLOCKS = {"toolUse", "toolResult"}


class VaultSessionManager(RepositorySessionManager):
    """Saves the session of `Agent(session_manager=...)` in a vault. It is also a context manager.

    Leaving the block, or `close()`, writes the buffered messages and distils them. Several agents may share a session.
    """

    def __init__(self, config: VaultMemoryConfig) -> None:
        if not isinstance(config, VaultMemoryConfig):
            raise InvalidSetupError("VaultSessionManager", f"config: {short_repr(config)} is not a VaultMemoryConfig")
        self.config = config
        self._long_term = LongTerm(config, agent_lends_model=True, manager=MemoryManager, adapt=as_memfs_model)
        self._turn_messages: dict[str, list[SessionMessage]] = {}  # of the current turn, by agent
        self._attachments: dict[str, ConversationState] = {}
        self._repository = _Repository(self._long_term.vault, config, self._amend)
        super().__init__(session_id=config.session_id, session_repository=self._repository)

    # --- the interface of a session manager of Strands

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register the hooks that save messages and states, and the one for the end of a turn."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AfterInvocationEvent, self._turn_ended, order=HookOrder.SDK_LAST - 1)

    def initialize(self, agent: Any, **kwargs: Any) -> None:
        """Load the history of the session into an agent, and set up recording and retrieval for it."""
        self._repository.assume(SessionAgent.from_agent(agent))
        super().initialize(agent, **kwargs)
        if self.config.filter_restored_tool_context:
            agent.messages = _without_tools(agent.messages)
        retriever = self._long_term.retriever()
        if retriever is not None and isinstance(agent, Agent):
            before_model(agent, partial(_inject, retriever))
        if self._long_term.manager is not None and isinstance(agent, Agent):
            manager = cast("MemoryManager", self._long_term.manager)
            model = self._long_term.model_for(model_of(agent))
            attachment = self._attachments[agent.agent_id] = manager.observe(agent, model=model)
            if attachment.coordinator is not None:
                attachment.coordinator.add_context(
                    [self._with_position(agent.agent_id, message) for message in self._restored(agent.agent_id)]
                )

    def append_message(self, message: Any, agent: Any, **kwargs: Any) -> None:
        """Save a message; it is distilled at the end of the turn, in the form it has then.

        A message that cannot be stored fails the turn, and is removed from the agent's history, so that the history
        stays the same as the one that is restored.
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
                self._turn_messages.setdefault(agent.agent_id, []).append(latest)

    def _turn_ended(self, event: AfterInvocationEvent) -> None:
        """Record and write the messages of the turn; a failing write must not hide the error of a failed call."""
        self._record(event.agent.agent_id)
        with _log_if_failing(sys.exception()):
            self._repository.flush()

    def _record(self, agent_id: str) -> None:
        """Record the messages of the turn for the strategies, in their redacted form if they were redacted."""
        for message in self._turn_messages.pop(agent_id, ()):
            self._attachments[agent_id].record(self._with_position(agent_id, message))

    def _amend(self, agent_id: str, message: SessionMessage) -> None:
        """Replace a message wherever it waits to be distilled."""
        pending = self._turn_messages.get(agent_id, [])
        pending[:] = [message if old.message_id == message.message_id else old for old in pending]
        self._long_term.amend(agent_id, message.message_id, cast("Any", message.to_message()))

    def _restored(self, agent_id: str) -> list[SessionMessage]:
        """Return the restored messages; older releases of Strands do not keep them, so they are read again."""
        restored: dict[str, list[SessionMessage]] = getattr(self, "_held_records", {})
        return restored[agent_id] if agent_id in restored else self._repository.list_messages(self.session_id, agent_id)

    def _with_position(self, agent_id: str, message: SessionMessage) -> Message:
        """Return a message with its session, number and agent, from which strategies derive sources."""
        return with_position(cast("Any", message.to_message()), self.session_id, message.message_id, agent_id)

    # --- buffered messages

    def pending_message_count(self) -> int:
        """Return the number of messages that are buffered in memory."""
        return self._repository.pending

    def flush(self) -> None:
        """Write the buffered messages; if that fails they stay buffered, in order, for the next flush."""
        self._repository.flush()

    def close(self) -> None:
        """Write and distil the messages, and close the vault if it was given as a path."""
        try:
            self._repository.close()
        finally:
            for agent_id in list(self._turn_messages):
                self._record(agent_id)
            wait(self._long_term.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _log_if_failing(error):
            self.close()


class _Repository(BufferedRepository):
    """A repository that calls `on_update` with each replaced message and its agent."""

    def __init__(
        self, vault: Vault, config: VaultMemoryConfig, on_update: Callable[[str, SessionMessage], None]
    ) -> None:
        super().__init__(vault, config)
        self._on_update = on_update

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        super().update_message(session_id, agent_id, session_message, **kwargs)
        self._on_update(agent_id, session_message)


@contextmanager
def _log_if_failing(error: BaseException | None) -> Iterator[None]:
    """Log an exception of the block, instead of raising it, if another error is being raised already."""
    try:
        yield
    except Exception as second_error:
        if error is None:
            raise
        log.error("messages of a session are not written: %s", second_error)


def as_memfs_model(model: Any) -> Any:
    """Return a model of Strands, or any object that `as_model` accepts, as a Model of memfs."""
    return StrandsModel(model) if isinstance(model, StrandsBaseModel) else as_model(model)


async def _inject(retriever: Retriever, context: Any) -> Any:
    """Return the context of a model call with memories added; the agent's own messages are not changed."""
    messages = await retriever.inject(context.messages)
    if messages == context.messages:
        return context
    changes: dict[str, Any] = {"messages": messages}
    if hasattr(context, "dynamic_trailing_blocks") and messages[-1] is not context.messages[-1]:
        changes["dynamic_trailing_blocks"] = context.dynamic_trailing_blocks + 1
    return replace(context, **changes)


def _without_tools(messages: Sequence[Any]) -> list[Any]:
    """Return messages without tool calls and tool results; messages that become empty are left out."""
    kept = ([block for block in message["content"] if not _TOOL_BLOCKS & block.keys()] for message in messages)
    return [{**message, "content": blocks} for message, blocks in zip(messages, kept, strict=True) if blocks]
