"""BufferedRepository: a repository of one session that writes its messages in batches."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any

from strands.types.session import Session, SessionAgent, SessionMessage

from memfs.agent.distill.config import PersistenceMode, VaultMemoryConfig
from memfs.agent.sessions.line_encoder import EventDraft
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.write_buffer import WriteBuffer
from memfs.integrations.strands.session_repository import VaultSessionRepository
from memfs.vault.vault import Vault


@dataclass(frozen=True)
class PendingLine:
    """A buffered line for the log of an agent: a message with its number and metadata, or a state without them."""

    agent_id: str
    draft: EventDraft
    number: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class BufferedRepository(VaultSessionRepository):
    """Writes the messages of one session in batches, and nothing with PersistenceMode.NONE.

    Reading messages flushes first.
    """

    def __init__(self, vault: Vault, config: VaultMemoryConfig) -> None:
        super().__init__(vault, actor=config.actor_id, redaction=config.redaction)
        self._config = config
        self._defaults: dict[str, dict[str, Any]] = {}  # for agents whose state is not in the log
        self._writes = config.persistence_mode is PersistenceMode.FULL
        self._buffer: WriteBuffer[PendingLine] = WriteBuffer(
            self._write, config.batch_size, config.flush_interval_seconds
        )

    @property
    def pending(self) -> int:
        """The number of buffered messages."""
        return self._buffer.count

    def flush(self) -> None:
        """Write the buffered lines; if that raises, the lines that are not written stay buffered."""
        self._buffer.flush()

    def close(self) -> None:
        """Write the buffered lines, and close the logs."""
        try:
            self._buffer.close()
        finally:
            super().close()

    def assume(self, agent: SessionAgent) -> None:
        """Use this as the state of an agent whose log has messages but no state."""
        self._defaults[agent.agent_id] = asdict(agent)

    def _default_state(self, log: SessionLog) -> dict[str, Any]:
        return {**super()._default_state(log), **self._defaults.get(log.agent, {})}

    def _write(self, batch: Sequence[PendingLine]) -> int:
        """Write the first lines of a batch that are of the same agent, all or none; return how many."""
        agent_id = batch[0].agent_id
        drafts = [line.draft for line in takewhile(lambda line: line.agent_id == agent_id, batch)]
        self._append(self._config.session_id, agent_id, drafts)
        return len(drafts)

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
            state = PendingLine(agent_id, self._draft_state(session_id, session_agent))
            self._buffer.add(state, counts=False, replaces=lambda old: (old.agent_id, old.number) == (agent_id, None))

    # --- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        if self._writes:
            metadata = self._config.metadata()
            draft = self._draft_message(session_id, agent_id, session_message, metadata=metadata)
            self._buffer.add(PendingLine(agent_id, draft, session_message.message_id, metadata))

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        self.flush()
        return super().read_message(session_id, agent_id, message_id, **kwargs)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message; if it is still buffered, its original text is never written."""
        if self._writes and not self._buffer.update(lambda line: self._updated(line, agent_id, session_message)):
            super().update_message(session_id, agent_id, session_message, **kwargs)

    def _updated(self, line: PendingLine, agent_id: str, message: SessionMessage) -> PendingLine:
        """Return a buffered line, with the new text if it is this message."""
        if (line.agent_id, line.number) != (agent_id, message.message_id):
            return line
        draft = self._draft_message(self._config.session_id, agent_id, message, metadata=line.metadata)
        return replace(line, draft=draft)

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
