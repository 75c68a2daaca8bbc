"""A repository of one session whose messages wait in memory to be written together."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from strands.types.session import Session, SessionAgent, SessionMessage

from memfs.agent.session.batching import Buffer
from memfs.agent.session.config import PersistenceMode, VaultMemoryConfig
from memfs.integrations.strands.session import VaultSessionRepository
from memfs.vault import Vault


@dataclass(frozen=True)
class Said:
    """A message on its way, with its metadata."""

    agent_id: str
    message: SessionMessage
    metadata: dict[str, Any]


@dataclass(frozen=True)
class State:
    """What an agent's state is from then on."""

    agent: SessionAgent


class BufferedRepository(VaultSessionRepository):
    """Writes the messages of one session in batches; without persistence, nothing. Reading them writes first."""

    def __init__(self, vault: Vault, config: VaultMemoryConfig) -> None:
        super().__init__(vault, actor=config.actor_id)
        self._config = config
        self._writes = config.persistence_mode is PersistenceMode.FULL
        self._buffer: Buffer[Said | State] = Buffer(self._write, config.batch_size, config.flush_interval_seconds)

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return self._buffer.count

    def flush(self) -> None:
        """Write what waits."""
        self._buffer.flush()

    def close(self) -> None:
        """Write what waits, and let go."""
        try:
            self._buffer.close()
        finally:
            super().close()

    def _write(self, batch: Sequence[Said | State]) -> int:
        """Write some from the front, all or none of them; how many."""
        first = batch[0]
        if isinstance(first, State):
            super().update_agent(self._config.session_id, first.agent)
            return 1
        together = list(takewhile(lambda one: isinstance(one, Said) and one.agent_id == first.agent_id, batch))
        log = self._log(self._config.session_id, first.agent_id)
        log.append_many(_line(one) for one in together if isinstance(one, Said))
        return len(together)

    # --- sessions and agents

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        return super().create_session(session, **kwargs) if self._writes else session

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        if self._writes:
            self.flush()
            super().create_agent(session_id, session_agent, **kwargs)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        if self._writes:
            state = State(copy.deepcopy(session_agent))
            self._buffer.add(state, counts=False, instead_of=lambda old: _is_state_of(old, session_agent.agent_id))

    # --- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        if self._writes:
            self._buffer.add(Said(agent_id, copy.deepcopy(session_message), self._config.metadata()))

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        self.flush()
        return super().read_message(session_id, agent_id, message_id, **kwargs)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Have another text of a message; of one that waits, nothing of the first is ever written."""
        if self._writes and not self._buffer.change(lambda one: _changed(one, agent_id, session_message)):
            super().update_message(session_id, agent_id, session_message, **kwargs)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        self.flush()
        return super().list_messages(session_id, agent_id, limit, offset, **kwargs)

    # --- several agents that work together

    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        if self._writes:
            super().create_multi_agent(session_id, multi_agent, **kwargs)

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        if self._writes:
            super().update_multi_agent(session_id, multi_agent, **kwargs)


def _line(said: Said) -> dict[str, Any]:
    """A message as the log takes it, in the form in which the repository reads it."""
    message = said.message
    facts = {"time": message.created_at, "index": message.message_id, "updated": message.updated_at}
    return {"message": message.to_message(), **facts, "metadata": said.metadata}


def _is_state_of(thing: Said | State, agent_id: str) -> bool:
    return isinstance(thing, State) and thing.agent.agent_id == agent_id


def _changed(thing: Said | State, agent_id: str, message: SessionMessage) -> Said | State:
    """What waits, with the text that a message has now."""
    if isinstance(thing, State) or (thing.agent_id, thing.message.message_id) != (agent_id, message.message_id):
        return thing
    text = copy.deepcopy(message.to_message())
    return replace(thing, message=replace(thing.message, message=text, updated_at=message.updated_at))
