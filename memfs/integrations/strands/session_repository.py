"""VaultSessionRepository: sessions of Strands agents as logs in a vault.

Use it as `RepositorySessionManager("s-1", VaultSessionRepository(vault))`.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Self, cast

from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memfs.after_fork import Mutex
from memfs.agent.messages import Message
from memfs.agent.sessions.branches import page
from memfs.agent.sessions.events import Event
from memfs.agent.sessions.line_encoder import EventDraft
from memfs.agent.sessions.paths import AGENT_LOG, MULTI_AGENT_LOG, SESSION_LOG, is_owned_by
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.transcript import is_message_content
from memfs.agent.sessions.vault_sessions import Sessions
from memfs.errors import InvalidMemoryError, OtherActorError, SessionNotFoundError
from memfs.fs.gc_pause import gc_paused
from memfs.privacy.policy import Policy
from memfs.vault.vault import Vault

AGENT_STATE = "agent"  # the name of the states in the log of an agent
_STATE_KEYS = frozenset({"agent_id", "state", "conversation_manager_state", "created_at", "updated_at"})


class VaultSessionRepository(SessionRepository):
    """Stores the sessions of Strands as logs in a vault. Any number of agents and processes may share a session.

    The number of a message is its position in the conversation as its writer saw it. If two processes wrote the same
    number, both messages are kept, and the later one gets the next number. With an `actor`, the logs of other actors
    are refused.
    """

    def __init__(
        self, vault: Vault | str | os.PathLike[str], *, actor: str = "", redaction: Policy | None = None
    ) -> None:
        self._vault, self._actor, self._redaction = vault, actor, redaction
        self._sessions = Sessions(vault)
        self._logs: dict[tuple[str, str, str], SessionLog] = {}
        self._written: set[tuple[str, str, int, str]] = set()  # messages that this repository created
        self._created: dict[tuple[str, str], str] = {}  # creation times of agents
        self._states: dict[tuple[str, str], EventDraft] = {}  # the latest of each agent
        self._missing: set[str] = set()  # sessions that did not exist when read: their caller is about to create them
        self._mutex = Mutex()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the logs; the repository can still be used."""
        with self._mutex:
            for log in self._logs.values():
                log.close()
            self._logs.clear()

    # --- sessions

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session; return the existing one if another process created it after it was read as missing.

        SessionException if it exists, and was never missing.
        """
        if existing := self.read_session(session.session_id):
            if session.session_id not in self._missing:
                raise SessionException(f"Session {session.session_id} already exists")
            return existing
        self._log(session.session_id, "", SESSION_LOG).set_state(session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session, or None."""
        state = self._log(session_id, "", SESSION_LOG).state()
        if isinstance(state, dict):
            return Session.from_dict({"session_id": session_id, "session_type": SessionType.AGENT, **state})
        try:
            logs = self._sessions.logs(session_id)
        except SessionNotFoundError:
            self._missing.add(session_id)
            return None
        created = min((log.created for log in logs), default="")
        return Session(session_id, SessionType.AGENT, created, created)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with all its logs; OtherActorError if one of them belongs to another actor.

        SessionException if there is no such session.
        """
        try:
            for log in self._sessions.logs(session_id) if self._actor else ():
                if not is_owned_by(log.owner, self._actor):
                    raise OtherActorError(log.path, log.owner, self._actor)
            self._sessions.remove(session_id)
        except SessionNotFoundError:
            raise SessionException(f"Session {session_id} does not exist") from None
        with self._mutex:
            for key in [key for key in self._logs if key[0] == session_id]:
                self._logs.pop(key).close()
            self._created = {key: time for key, time in self._created.items() if key[0] != session_id}
            self._states = {key: draft for key, draft in self._states.items() if key[0] != session_id}
            self._written = {key for key in self._written if key[0] != session_id}

    # --- agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create the log of an agent in a session; keep the existing one if another process created it meanwhile.

        SessionException if the session does not exist, or if it existed from the start and has such an agent.
        """
        self._require_session(session_id)
        if self._log(session_id, session_agent.agent_id).state(AGENT_STATE) is None:
            self._created[session_id, session_agent.agent_id] = session_agent.created_at
            self._append(session_id, session_agent.agent_id, [self._draft_state(session_id, session_agent)])
        elif session_id not in self._missing:
            raise SessionException(f"Agent {session_agent.agent_id} already exists in session {session_id}")

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return the latest state of an agent; None if its log has neither a state nor a message."""
        log = self._log(session_id, agent_id)
        state = log.state(AGENT_STATE)
        if not isinstance(state, dict):
            if not log.events(kinds=("message",), limit=1):
                return None
            state = {}
        if not state.keys() >= _STATE_KEYS:
            state = {**self._default_state(log), **state}
        agent = SessionAgent.from_dict(state)
        self._created[session_id, agent_id] = agent.created_at
        self._draft_state(session_id, agent)  # caches the state, for a log that has to be created again
        return agent

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Save a new state of an agent; SessionException if the agent does not exist."""
        if not self._log(session_id, session_agent.agent_id).exists():
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        self._append(session_id, session_agent.agent_id, [self._draft_state(session_id, session_agent)])

    def _default_state(self, log: SessionLog) -> dict[str, Any]:
        """Return the state of an agent whose log has messages but no state: that of a new Strands agent."""
        manager = {"__name__": SlidingWindowConversationManager.__name__, "removed_message_count": 0}
        created = log.created
        about = {"agent_id": log.agent, "created_at": created, "updated_at": created}
        return {**about, "state": {}, "conversation_manager_state": manager}

    def _draft_state(self, session_id: str, agent: SessionAgent) -> EventDraft:
        """Return the draft of an agent's state; SessionException if the agent does not exist."""
        key = session_id, agent.agent_id
        if key not in self._created and self.read_agent(*key) is None:
            raise SessionException(f"Agent {agent.agent_id} in session {session_id} does not exist")
        agent.created_at = self._created[key]
        draft = self._states[key] = self._log(*key).draft_state(asdict(agent), name=AGENT_STATE)
        return draft

    # --- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Append a message, unless this repository has written it already; durable when it returns.

        SessionException if the agent does not exist.
        """
        number, created = _number(session_message.message_id), session_message.created_at
        key = (session_id, agent_id, number, created)
        if not self._log(session_id, agent_id).exists() and key[:2] not in self._states:
            raise SessionException(f"Agent {agent_id} does not exist in session {session_id}")
        with self._mutex:
            if key not in self._written:
                self._append(session_id, agent_id, [self._draft_message(session_id, agent_id, session_message)])
                self._written.add(key)

    def _draft_message(self, session_id: str, agent_id: str, message: SessionMessage, **about: Any) -> EventDraft:
        """Return the draft of a message; InvalidMemoryError, which names the message, if it cannot be stored."""
        keys = {"time": message.created_at, "index": message.message_id, "updated": message.updated_at, **about}
        try:
            return self._log(session_id, agent_id).draft(cast("Message", message.to_message()), **keys)
        except InvalidMemoryError as error:
            subject = f"message {message.message_id} of agent {agent_id!r} in session {session_id!r}"
            refused = InvalidMemoryError(subject, error.reason)
            refused.hint = "The message was not saved in the session; send it without that part."
            raise refused from error

    def _append(self, session_id: str, agent_id: str, drafts: Sequence[EventDraft]) -> None:
        """Append to the log of an agent; a log that was moved or deleted is created again, with the agent's state."""
        log, state = self._log(session_id, agent_id), self._states.get((session_id, agent_id))
        if state is not None and state not in drafts and not log.exists():
            drafts = [state, *drafts]
        log.append_drafts(drafts)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        """Return a message by its number, or None."""
        wanted = _number(message_id)
        found = (event for number, event in self._numbered(session_id, agent_id) if number == wanted)
        event = next(found, None)
        return _message(wanted, event) if event else None

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message; nothing of the original is left in the vault. SessionException if there is none.

        If several processes wrote this number, the message with the same creation time is replaced.
        """
        number, created = _number(session_message.message_id), session_message.created_at
        found = list(self._numbered(session_id, agent_id))
        own = [
            event for _, event in found if (event.record.get("index"), event.record.get("time")) == (number, created)
        ]
        event = next(iter([*own, *(event for given, event in found if given == number)]), None)
        if event is None:
            raise SessionException(f"Message {number} does not exist in session {session_id}")
        session_message.created_at = str(event.record.get("time", ""))
        about = {"updated": session_message.updated_at}
        self._log(session_id, agent_id).redact(event.id, session_message.to_message(), **about)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """Return the messages of an agent in order, at most `limit`, without the first `offset` of the conversation."""
        with gc_paused():
            found = list(self._numbered(session_id, agent_id))
            first = found[0][0] if found else 0  # above 0 if the log was created again during the conversation
            found = page(
                found, limit, offset - min(offset, first) if isinstance(offset, int) and offset > 0 else offset
            )
            return [_message(number, event) for number, event in found]

    # --- several agents that work together

    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Save the state of several agents; SessionException if the session does not exist."""
        self._require_session(session_id)
        self._log(session_id, multi_agent.id, MULTI_AGENT_LOG).set_state(multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        """Return the latest state of several agents, or None."""
        state = self._log(session_id, multi_agent_id, MULTI_AGENT_LOG).state()
        return state if isinstance(state, dict) else None

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Save a new state of several agents; SessionException if they have none yet."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self._log(session_id, multi_agent.id, MULTI_AGENT_LOG).set_state(multi_agent.serialize_state())

    def _log(self, session_id: str, name: str, suffix: str = AGENT_LOG) -> SessionLog:
        with self._mutex:
            key = (session_id, name, suffix)
            if key not in self._logs:
                about: dict[str, Any] = {"actor": self._actor, "suffix": suffix, "redaction": self._redaction}
                self._logs[key] = SessionLog(self._vault, session_id, name, **about)
            return self._logs[key]

    def _require_session(self, session_id: str) -> None:
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")

    def _numbered(self, session_id: str, agent_id: str) -> Iterator[tuple[int, Event]]:
        """Yield the messages of an agent, each with a unique number: its own, unless that is taken.

        Content that a Strands agent cannot load is left out; plain text of another framework becomes a text block.
        """
        last = -1
        for event in self._log(session_id, agent_id).events(kinds=("message",)):
            content = event.record["message"].get("content")
            if content.__class__ is not list or len(content) != 1 or content[0].__class__ is not dict:
                if not is_message_content(content):
                    continue
                event = _in_blocks(event)  # noqa: PLW2901  most messages are one block, and skip this
            index = event.record.get("index")
            last = index if type(index) is int and index > last else last + 1
            yield last, event


def _in_blocks(event: Event) -> Event:
    if not isinstance(text := event.message["content"], str):
        return event
    message = {**event.message, "content": [{"text": text}]}
    return event._replace(record={**event.record, "message": message})


def _message(number: int, event: Event) -> SessionMessage:
    record = event.record
    created = record.get("time", "")
    return SessionMessage(record["message"], number, None, created, record.get("updated", created))


def _number(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise ValueError(f"message_id=<{given}> | message id must be an integer")
    return given
