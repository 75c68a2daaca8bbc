"""A repository of one session whose messages wait in memory to be written together."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any

from strands.types.session import Session, SessionAgent, SessionMessage

from memfs.agent.distill.config import PersistenceMode, VaultMemoryConfig
from memfs.agent.sessions.line_encoder import EventDraft
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.write_buffer import WriteBuffer
from memfs.integrations.strands.session import VaultSessionRepository
from memfs.vault.vault import Vault


@dataclass(frozen=True)
class PendingLine:
    """A line on its way to the log of an agent: a message with its number and metadata, or a state, which has none."""

    agent_id: str
    draft: EventDraft
    number: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class BufferedRepository(VaultSessionRepository):
    """Writes the messages of one session in batches; without persistence, nothing. Reading them writes first."""

    def __init__(self, vault: Vault, config: VaultMemoryConfig) -> None:
        super().__init__(vault, actor=config.actor_id, redaction=config.redaction)
        self._config = config
        self._defaults: dict[str, dict[str, Any]] = {}  # of agents whose state is not known
        self._writes = config.persistence_mode is PersistenceMode.FULL
        self._buffer: WriteBuffer[PendingLine] = WriteBuffer(
            self._write, config.batch_size, config.flush_interval_seconds
        )

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

    def assume(self, agent: SessionAgent) -> None:
        """Have an agent be this, where its log has its messages and not its state."""
        self._defaults[agent.agent_id] = asdict(agent)

    def _assumed(self, log: SessionLog) -> dict[str, Any]:
        return {**super()._assumed(log), **self._defaults.get(log.agent, {})}

    def _write(self, batch: Sequence[PendingLine]) -> int:
        """Write some from the front, all or none of them; how many."""
        agent_id = batch[0].agent_id
        together = [one.draft for one in takewhile(lambda one: one.agent_id == agent_id, batch)]
        self._append(self._config.session_id, agent_id, together)
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
            agent_id = session_agent.agent_id
            state = PendingLine(agent_id, self._stated(session_id, session_agent))
            self._buffer.add(state, counts=False, replaces=lambda old: (old.agent_id, old.number) == (agent_id, None))

    # --- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        if self._writes:
            metadata = self._config.metadata()
            draft = self._drafted(session_id, agent_id, session_message, metadata=metadata)
            self._buffer.add(PendingLine(agent_id, draft, session_message.message_id, metadata))

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        self.flush()
        return super().read_message(session_id, agent_id, message_id, **kwargs)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Have another text of a message; of one that waits, nothing of the first is ever written."""
        if self._writes and not self._buffer.update(lambda one: self._changed(one, agent_id, session_message)):
            super().update_message(session_id, agent_id, session_message, **kwargs)

    def _changed(self, waiting: PendingLine, agent_id: str, message: SessionMessage) -> PendingLine:
        """What waits, with the text that a message has now."""
        if (waiting.agent_id, waiting.number) != (agent_id, message.message_id):
            return waiting
        draft = self._drafted(self._config.session_id, agent_id, message, metadata=waiting.metadata)
        return replace(waiting, draft=draft)

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
