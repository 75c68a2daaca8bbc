"""Event operations of AgentCore: events are lines in the session logs of the vault."""

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
from memfs.integrations.agentcore.responses import PAGE_SIZE, Response, page, parse_filter, service_errors
from memfs.vault.vault import Vault

MAIN_BRANCH = "main"  # the trunk, which has no name in the log
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQUALS_TO": lambda found, wanted: found is not None and found == wanted,
    "EXISTS": lambda found, _: found is not None,
    "NOT_EXISTS": lambda found, _: found is None,
}
ROLES = ("ASSISTANT", "USER", "TOOL", "OTHER")


class MessageRecorder(Protocol):
    """Receives the messages of new events, and the numbers of deleted ones."""

    def has_strategies(self) -> bool: ...
    def record_messages(self, actor: str, session: str, messages: Sequence[Mapping[str, Any]], first: int) -> None: ...
    def retract_message(self, actor: str, session: str, number: int) -> None: ...


class EventsApi:
    """The event operations of a client; new messages are passed to a recorder, to be distilled."""

    def __init__(self, vault: Vault, recorder: MessageRecorder) -> None:
        self._vault, self._recorder = vault, recorder
        self._logs: dict[tuple[str, str], SessionLog] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._mutex = Mutex()

    @service_errors
    def create_event(
        self,
        *,
        memoryId: str,  # noqa: N803  the parameter names of the service
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
        """Append an event; a repeated `clientToken` returns the existing event.

        A branch that does not exist is created after its `rootEventId`. With the extraction mode SKIP, the messages are
        not distilled.
        """
        parts, values = _checked_payload(payload), _unwrapped_metadata(metadata)
        log = self._log(actorId, sessionId)
        with self._mutex:
            if clientToken and (existing := _find_event(log, clientToken)):
                return {"event": _event_response(existing, memoryId, log)}
            index = self._message_count(log)
            fields = {"time": eventTimestamp, "metadata": values, "branch": self._branch(log, branch)}
            event = log.append_payload(parts, id=clientToken, index=index, **fields)
            messages = messages_in(event)
            self._counts[actorId, sessionId] = index + len(messages)
        if messages and self._recorder.has_strategies() and extractionMode != "SKIP":
            self._recorder.record_messages(actorId, sessionId, messages, _first_number(log, event.id))
        return {"event": _event_response(event, memoryId, log)}

    @service_errors
    def list_events(
        self,
        *,
        memoryId: str,  # noqa: N803
        actorId: str,  # noqa: N803
        sessionId: str,  # noqa: N803
        includePayloads: bool = True,  # noqa: N803
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        maxResults: int | None = PAGE_SIZE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
    ) -> Response:
        """Return a page of the events of a session, the newest first."""
        log, wanted = self._log(actorId, sessionId), filter or {}
        conditions = [_condition(given) for given in wanted.get("eventMetadata") or ()]
        newest = sorted(_branch_events(log, wanted.get("branch")), key=lambda event: event.time)[::-1]
        # Other events stay in the list as None: their ids may be the tokens of earlier pages.
        found = [(event.id, event if _matches(event, conditions) else None) for event in newest]
        response = page("events", found, maxResults, nextToken)
        roots = {branch.name: branch.at for branch in log.branches()}
        events = [_event_response(event, memoryId, log, roots) for event in response["events"]]
        return response | {"events": events if includePayloads else [{**event, "payload": []} for event in events]}

    @service_errors
    def get_event(self, *, memoryId: str, actorId: str, sessionId: str, eventId: str) -> Response:  # noqa: N803
        """Return one event; ClientError if there is none, or if the id is of another kind of line."""
        log = self._log(actorId, sessionId)
        event = log.event(eventId)
        if event.kind != "payload":
            raise SessionNotFoundError(eventId)
        return {"event": _event_response(event, memoryId, log)}

    @service_errors
    def delete_event(self, *, memoryId: str, actorId: str, sessionId: str, eventId: str) -> Response:  # noqa: N803
        """Delete an event; only its id is left in the log, and its messages are not distilled any more."""
        log = self._log(actorId, sessionId)
        first, count = _first_number(log, eventId), len(messages_in(log.event(eventId)))
        log.remove(eventId)
        for number in range(first, first + count):
            self._recorder.retract_message(actorId, sessionId, number)
        return {"eventId": eventId}

    @service_errors
    def list_actors(
        self,
        *,
        memoryId: str,  # noqa: N803
        maxResults: int | None = PAGE_SIZE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
    ) -> Response:
        """Return a page of the actors that have sessions."""
        names = sorted({actor for actor, _, _ in self._sessions()})
        return page("actorSummaries", [(name, {"actorId": name}) for name in names], maxResults, nextToken)

    @service_errors
    def list_sessions(
        self,
        *,
        memoryId: str,  # noqa: N803
        actorId: str,  # noqa: N803
        maxResults: int | None = PAGE_SIZE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> Response:
        """Return a page of the sessions of an actor, the newest first."""
        own = {session: created for actor, session, created in self._sessions() if actor == actorId}
        newest = sorted(own, key=lambda session: own[session])[::-1]
        summaries = [(name, {"sessionId": name, "actorId": actorId, "createdAt": own[name]}) for name in newest]
        return page("sessionSummaries", summaries, maxResults, nextToken)

    def close(self) -> None:
        """Close the logs; they can still be used."""
        for log in self._logs.values():
            log.close()

    def _log(self, actor: str, session: str) -> SessionLog:
        with self._mutex:
            if (actor, session) not in self._logs:
                self._logs[actor, session] = SessionLog(self._vault, session, actor, actor=actor)
            return self._logs[actor, session]

    def _message_count(self, log: SessionLog) -> int:
        """Return the number that the next message of a log gets."""
        key = (log.agent, log.session)
        if key not in self._counts:
            self._counts[key] = max((first + len(messages_in(event)) for event, first in _numbered(log)), default=0)
        return self._counts[key]

    def _branch(self, log: SessionLog, given: Mapping[str, str] | None) -> str:
        """Return the name of the given branch in the log, and create it if it does not exist.

        InvalidMemoryError if it does not exist and has no root event.
        """
        name = (given or {}).get("name", MAIN_BRANCH)
        if given is None or name == MAIN_BRANCH:
            return ""
        if name not in {branch.name for branch in log.branches()}:
            root = given.get("rootEventId")
            if not root:
                raise InvalidMemoryError("branch", f"{name!r} does not exist; give rootEventId to create it")
            log.fork(name, at=root, parent=log.event(root).branch)
        return name

    def _sessions(self) -> Iterable[tuple[str, str, datetime]]:
        """Yield each actor, session, and creation time of the session."""
        sessions = Sessions(self._vault)
        for session in sessions.list():
            for log in sessions.logs(session.name):
                header = log.read().header
                if header is not None and header.actor:
                    yield header.actor, session.name, session.created


def _find_event(log: SessionLog, token: str) -> Event | None:
    """Return the event that was created with a token, or None."""
    with suppress(SessionNotFoundError):
        return log.event(token)
    return None


def _event_response(event: Event, memory_id: str, log: SessionLog, roots: Mapping[str, str] | None = None) -> Response:
    """Return an event in the format of the service.

    `roots` are the ids of the events after which branches start, by name; by default they are read from the log.
    """
    response = {
        "memoryId": memory_id,
        "actorId": log.agent,
        "sessionId": log.session,
        "eventId": event.id,
        "eventTimestamp": event.time,
        "payload": _parts(event),
    }
    if event.metadata:
        response["metadata"] = {key: {"stringValue": str(value)} for key, value in event.metadata.items()}
    if event.branch:
        forks = {branch.name: branch.at for branch in log.branches()} if roots is None else roots
        response["branch"] = {"name": event.branch, "rootEventId": forks.get(event.branch, "")}
    return response


def _numbered(log: SessionLog) -> Iterator[tuple[Event, int]]:
    """Yield the events of a log, each with the number of its first message.

    Numbers are unique, even if two processes wrote the same `index`.
    """
    next_number = 0
    for event in log.read().events:
        index = event.record.get("index")
        first = index if type(index) is int and index > next_number else next_number
        yield event, first
        next_number = first + len(messages_in(event))


def _first_number(log: SessionLog, event_id: str) -> int:
    """Return the number of the first message of an event; 0 if there is no such event."""
    return next((first for event, first in _numbered(log) if event.id == event_id), 0)


def _checked_payload(payload: Any) -> list[dict[str, Any]]:
    """Return the parts of an event; InvalidMemoryError if the service would not accept them."""
    if isinstance(payload, str | Mapping) or not isinstance(payload, Sequence):
        raise InvalidMemoryError("payload", f"{short_repr(payload)} is not a list of parts")
    for part in payload:
        if not isinstance(part, Mapping) or len(part) != 1:
            raise InvalidMemoryError(
                "payload", f"{short_repr(part)} is not one part, such as `conversational` or `blob`"
            )
        if "conversational" in part:
            _check_conversational(part["conversational"])
    return [dict(part) for part in payload]


def _check_conversational(part: Any) -> None:
    content = part.get("content") if isinstance(part, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(content.get("text"), str):
        raise InvalidMemoryError("payload", f'{short_repr(part)} has no "content": {{"text": ...}}')
    if part.get("role") not in ROLES:
        raise InvalidMemoryError("payload", f"role: {short_repr(part.get('role'))} is none of {', '.join(ROLES)}")


def _parts(event: Event) -> list[Any]:
    payload = event.record.get("payload")
    return [part for part in payload if isinstance(part, dict)] if isinstance(payload, list) else []


def _unwrapped_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata without the `stringValue` wrappers of the service."""
    if not isinstance(metadata, Mapping | None):
        raise InvalidMemoryError("metadata", f"{short_repr(metadata)} is not a mapping")
    return {
        key: value.get("stringValue", "") if isinstance(value, Mapping) else value
        for key, value in (metadata or {}).items()
    }


def _branch_events(log: SessionLog, wanted: Mapping[str, Any] | None) -> list[Event]:
    """Return the events of the wanted branch, none if it is unknown; those of all branches if `wanted` is None."""
    events = log.read().events
    if wanted is None:
        return events
    name = wanted.get("name", MAIN_BRANCH)
    try:
        return history(
            events, "" if name == MAIN_BRANCH else name, parents=bool(wanted.get("includeParentBranches", False))
        )
    except SessionNotFoundError:
        return []


def _condition(given: Any) -> Callable[[Event], bool]:
    """Return a predicate on events for a filter of the service."""
    key, operator, right = parse_filter("eventMetadata", given, _OPERATORS)
    test, value = _OPERATORS[operator], right.get("stringValue") if isinstance(right, Mapping) else None
    return lambda event: test(event.metadata.get(key), value)


def _matches(event: Event, conditions: Iterable[Callable[[Event], bool]]) -> bool:
    return event.kind == "payload" and all(condition(event) for condition in conditions)
