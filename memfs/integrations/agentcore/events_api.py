"""Events: what was said in a session by an actor, in a log of the vault."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from memfs.after_fork import Mutex
from memfs.agent.sessions.branches import history
from memfs.agent.sessions.events import Event
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.transcript import messages_in
from memfs.agent.sessions.vault_sessions import Sessions
from memfs.errors import InvalidMemoryError, SessionNotFoundError, short_repr
from memfs.integrations.agentcore.responses import PAGE, Response, page, parts_of, service_errors
from memfs.vault.vault import Vault

MAIN = "main"  # the branch without a name
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQUALS_TO": lambda found, wanted: found is not None and found == wanted,
    "EXISTS": lambda found, _: found is not None,
    "NOT_EXISTS": lambda found, _: found is None,
}
ROLES = ("ASSISTANT", "USER", "TOOL", "OTHER")


class Listener(Protocol):
    """Who hears of what is said, and of what is taken back."""

    def listens(self) -> bool: ...
    def hear(self, actor: str, session: str, messages: Sequence[Mapping[str, Any]], first: int) -> None: ...
    def take_back(self, actor: str, session: str, number: int) -> None: ...


class EventsApi:
    """The events of a vault; a listener is told actor, session and messages of each, and the number of the first."""

    def __init__(self, vault: Vault, listener: Listener) -> None:
        self._vault, self._listener = vault, listener
        self._logs: dict[tuple[str, str], SessionLog] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._mutex = Mutex()

    @service_errors
    def create_event(
        self,
        *,
        memoryId: str,  # noqa: N803  the words of the service
        actorId: str,  # noqa: N803
        eventTimestamp: datetime,  # noqa: N803
        payload: Sequence[Mapping[str, Any]],
        sessionId: str = "default",  # noqa: N803
        branch: Mapping[str, str] | None = None,
        clientToken: str = "",  # noqa: N803
        metadata: Mapping[str, Any] | None = None,
        extractionMode: str | None = None,  # noqa: N803
        **_: Any,
    ) -> Response:
        """Write an event down; the same `clientToken` again is the same event."""
        parts, values = _checked(payload), _plain(metadata)
        log = self._log(actorId, sessionId)
        with self._mutex:
            if clientToken and (known := _known(log, clientToken)):
                return {"event": _told(known, memoryId, log)}
            index = self._count(log)
            about = {"time": eventTimestamp, "metadata": values, "branch": self._branch(log, branch)}
            event = log.append_payload(parts, id=clientToken, index=index, **about)
            messages = messages_in(event)
            self._counts[actorId, sessionId] = index + len(messages)
        if messages and self._listener.listens() and extractionMode != "SKIP":
            self._listener.hear(actorId, sessionId, messages, _first(log, event.id))
        return {"event": _told(event, memoryId, log)}

    @service_errors
    def list_events(
        self,
        *,
        memoryId: str,  # noqa: N803
        actorId: str,  # noqa: N803
        sessionId: str,  # noqa: N803
        includePayloads: bool = True,  # noqa: N803
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        maxResults: int | None = PAGE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
    ) -> Response:
        """The events of a session, the newest first."""
        log, wanted = self._log(actorId, sessionId), filter or {}
        conditions = [_condition(one) for one in wanted.get("eventMetadata") or ()]
        newest = sorted(_of_branch(log, wanted.get("branch")), key=lambda event: event.time)[::-1]
        found = [(event.id, event if _is_wanted(event, conditions) else None) for event in newest]
        answer = page("events", found, maxResults, nextToken)
        roots = {branch.name: branch.at for branch in log.branches()}
        told = [_told(event, memoryId, log, roots) for event in answer["events"]]
        return answer | {"events": told if includePayloads else [{**one, "payload": []} for one in told]}

    @service_errors
    def get_event(self, *, memoryId: str, actorId: str, sessionId: str, eventId: str) -> Response:  # noqa: N803
        """One event."""
        log = self._log(actorId, sessionId)
        event = log.event(eventId)
        if event.kind != "payload":
            raise SessionNotFoundError(eventId)
        return {"event": _told(event, memoryId, log)}

    @service_errors
    def delete_event(self, *, memoryId: str, actorId: str, sessionId: str, eventId: str) -> Response:  # noqa: N803
        """Take an event out; nothing of it is left in the log."""
        log = self._log(actorId, sessionId)
        first, count = _first(log, eventId), len(messages_in(log.event(eventId)))
        log.remove(eventId)
        for number in range(first, first + count):
            self._listener.take_back(actorId, sessionId, number)
        return {"eventId": eventId}

    @service_errors
    def list_actors(self, *, memoryId: str, maxResults: int | None = PAGE, nextToken: str | None = None) -> Response:  # noqa: N803
        """Whom sessions are had with."""
        names = sorted({actor for actor, _, _ in self._sessions()})
        return page("actorSummaries", [(name, {"actorId": name}) for name in names], maxResults, nextToken)

    @service_errors
    def list_sessions(
        self,
        *,
        memoryId: str,  # noqa: N803
        actorId: str,  # noqa: N803
        maxResults: int | None = PAGE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> Response:
        """The sessions of an actor, the newest first."""
        own = {session: created for actor, session, created in self._sessions() if actor == actorId}
        newest = sorted(own, key=lambda session: own[session])[::-1]
        told = [(name, {"sessionId": name, "actorId": actorId, "createdAt": own[name]}) for name in newest]
        return page("sessionSummaries", told, maxResults, nextToken)

    def close(self) -> None:
        """Give back what the logs hold."""
        for log in self._logs.values():
            log.close()

    # ---

    def _log(self, actor: str, session: str) -> SessionLog:
        with self._mutex:
            if (actor, session) not in self._logs:
                self._logs[actor, session] = SessionLog(self._vault, session, actor, actor=actor)
            return self._logs[actor, session]

    def _count(self, log: SessionLog) -> int:
        """How many messages were said so far."""
        key = (log.agent, log.session)
        if key not in self._counts:
            self._counts[key] = max((first + len(messages_in(event)) for event, first in _numbered(log)), default=0)
        return self._counts[key]

    def _branch(self, log: SessionLog, given: Mapping[str, str] | None) -> str:
        """The name of a branch, which is begun if there is none."""
        name = (given or {}).get("name", MAIN)
        if given is None or name == MAIN:
            return ""
        if name not in {branch.name for branch in log.branches()}:
            root = given.get("rootEventId")
            if not root:
                raise InvalidMemoryError(
                    "branch", f"{name!r} is not there, and rootEventId does not say where it begins"
                )
            log.fork(name, at=root, parent=log.event(root).branch)
        return name

    def _sessions(self) -> Iterable[tuple[str, str, datetime]]:
        """Every actor, with the sessions it has, and when each began."""
        sessions = Sessions(self._vault)
        for session in sessions.list():
            for log in sessions.logs(session.name):
                head = log.read().header
                if head is not None and head.actor:
                    yield head.actor, session.name, session.created


def _known(log: SessionLog, token: str) -> Event | None:
    """The event that was written with a token before."""
    with suppress(SessionNotFoundError):
        return log.event(token)
    return None


def _told(event: Event, memory_id: str, log: SessionLog, roots: Mapping[str, str] | None = None) -> Response:
    """An event in the words of the service; `roots` are the events that branches begin behind."""
    told = {
        "memoryId": memory_id,
        "actorId": log.agent,
        "sessionId": log.session,
        "eventId": event.id,
        "eventTimestamp": event.time,
        "payload": _parts(event),
    }
    if event.metadata:
        told["metadata"] = {key: {"stringValue": str(value)} for key, value in event.metadata.items()}
    if event.branch:
        known = {branch.name: branch.at for branch in log.branches()} if roots is None else roots
        told["branch"] = {"name": event.branch, "rootEventId": known.get(event.branch, "")}
    return told


def _numbered(log: SessionLog) -> Iterator[tuple[Event, int]]:
    """The events of a log, each with the number of its first message; no other has it, also if two processes write."""
    following = 0
    for event in log.read().events:
        own = event.record.get("index")
        first = own if type(own) is int and own > following else following
        yield event, first
        following = first + len(messages_in(event))


def _first(log: SessionLog, event_id: str) -> int:
    """The number of the first message of an event."""
    return next((first for event, first in _numbered(log) if event.id == event_id), 0)


def _checked(payload: Any) -> list[dict[str, Any]]:
    """The parts of an event, as the service takes them."""
    if isinstance(payload, str | Mapping) or not isinstance(payload, Sequence):
        raise InvalidMemoryError("payload", f"{short_repr(payload)} is not a list of parts")
    for part in payload:
        if not isinstance(part, Mapping) or len(part) != 1:
            raise InvalidMemoryError(
                "payload", f"{short_repr(part)} is not one part, such as `conversational` or `blob`"
            )
        if "conversational" in part:
            _check_said(part["conversational"])
    return [dict(part) for part in payload]


def _check_said(said: Any) -> None:
    content = said.get("content") if isinstance(said, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(content.get("text"), str):
        raise InvalidMemoryError("payload", f'{short_repr(said)} has no "content": {{"text": ...}}')
    if said.get("role") not in ROLES:
        raise InvalidMemoryError("payload", f"role: {short_repr(said.get('role'))} is none of {', '.join(ROLES)}")


def _parts(event: Event) -> list[Any]:
    payload = event.record.get("payload")
    return [part for part in payload if isinstance(part, dict)] if isinstance(payload, list) else []


def _plain(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata without the wrapping of the service."""
    if not isinstance(metadata, Mapping | None):
        raise InvalidMemoryError("metadata", f"{short_repr(metadata)} is not a mapping")
    return {
        key: value.get("stringValue", "") if isinstance(value, Mapping) else value
        for key, value in (metadata or {}).items()
    }


def _of_branch(log: SessionLog, wanted: Mapping[str, Any] | None) -> list[Event]:
    """The events of a branch; of all, where none is asked for."""
    events = log.read().events
    if wanted is None:
        return events
    name = wanted.get("name", MAIN)
    try:
        return history(events, "" if name == MAIN else name, parents=bool(wanted.get("includeParentBranches", False)))
    except SessionNotFoundError:
        return []


def _condition(given: Any) -> Callable[[Event], bool]:
    """A filter of the service, as a question to an event."""
    key, sign, right = parts_of("eventMetadata", given, _OPERATORS)
    test, value = _OPERATORS[sign], right.get("stringValue") if isinstance(right, Mapping) else None
    return lambda event: test(event.metadata.get(key), value)


def _is_wanted(event: Event, conditions: Iterable[Callable[[Event], bool]]) -> bool:
    return event.kind == "payload" and all(holds(event) for holds in conditions)
