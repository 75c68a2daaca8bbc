"""SessionLog: one agent's append-only log of one session, `sessions/<session>/<agent>.agent.jsonl` in a vault."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from memfs.agent.messages import Message
from memfs.agent.sessions.branches import (
    CONVERSATION_KINDS,
    Branch,
    branches,
    filter_events,
    history,
    last_state,
    page,
    parse_conditions,
)
from memfs.agent.sessions.events import EVENT_KINDS, RESERVED_KEYS, Event, format_time, parse_time
from memfs.agent.sessions.line_encoder import ESCAPE_MARKER, EventDraft, header_line
from memfs.agent.sessions.log_file import LogFile, find_event
from memfs.agent.sessions.log_parser import ParsedLog
from memfs.agent.sessions.paths import AGENT_LOG, SESSION_LOG, log_file_name, session_segments
from memfs.data_types import Problem
from memfs.errors import InvalidMemoryError, InvalidNamespaceError, MemoryExistsError, SessionNotFoundError, short_repr
from memfs.privacy.policy import Policy, log_redactions
from memfs.protocols import Clock, system_clock
from memfs.vault.vault import LOCK_TIMEOUT, Vault

MAX_NAME_CHARS = 1000  # of an id, or of the name of a branch
_UNICODE_ESCAPE = "\\u"  # of characters that UTF-8 cannot encode


class SessionLog:
    """The events of one agent in one session. Thread-safe; any number of processes may append to one log.

    With an `actor`, a log that was created for another actor is refused (OtherActorError); without, any log is read.
    """

    def __init__(
        self,
        vault: Vault | str | os.PathLike[str],
        session: str,
        agent: str = "main",
        *,
        actor: str = "",
        suffix: str = AGENT_LOG,
        archived: bool = False,
        clock: Clock = system_clock,
        lock_timeout: float = LOCK_TIMEOUT,
        redaction: Policy | None = None,
    ) -> None:
        whole_vault = _whole_vault(vault)
        self._root, self._redaction = whole_vault.root, redaction or Policy.of(whole_vault)
        self.session, self.agent, self.actor = session, agent, actor
        self._clock = clock
        segments, name = session_segments(session, archived=archived), log_file_name(agent, suffix)
        owner = actor if suffix != SESSION_LOG else ""  # a session may have logs of several actors
        self._file = LogFile(
            self._root,
            segments,
            name,
            make_header=self._header,
            clock=clock,
            timeout=lock_timeout,
            actor=owner,
        )
        self.path = self._file.path

    def __repr__(self) -> str:
        return f"SessionLog({str(self._root)!r}, {self.session!r}, {self.agent!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptors that are cached for appending; the log can still be used."""
        self._file.close()

    # --- appending

    def append(self, message: Message, *, id: str = "", **about: Any) -> Event:  # noqa: A002  the key in the line
        """Append a message; durable when it returns. A message whose `id` is in the log already is not appended again.

        `about` may contain `metadata`, `branch`, `time`, and custom keys, which are written to the line too.
        """
        copy = _checked_message(message)
        if id or about:
            draft = self._draft("message", copy, id=id, **about)
        else:
            draft = self._redacted(EventDraft.make("message", {"message": copy}))
        return self._file.append([draft])[0]

    def append_drafts(self, drafts: Sequence[EventDraft]) -> list[Event]:
        """Append drafts at once, all or none; durable when it returns."""
        return self._file.append(drafts)

    def draft(self, message: Message, **about: Any) -> EventDraft:
        """Return a message as a draft; InvalidMemoryError, which names the part, if it cannot be stored."""
        return self._draft("message", _checked_message(message), **about)

    def draft_state(self, state: Any, *, name: str = "") -> EventDraft:
        """Return a state as a draft; InvalidMemoryError if it cannot be stored."""
        about: dict[str, Any] = {"name": name} if name else {}
        return self._draft("state", state, **about)

    def append_many(self, items: Iterable[Mapping[str, Any]]) -> list[Event]:
        """Append messages at once, all or none: each item has `message`, and the other arguments of `append`."""
        drafts = []
        for item in items:
            if not isinstance(item, Mapping):
                raise InvalidMemoryError("item", f"{short_repr(item)} is not a mapping with a message")
            about = {key: value for key, value in item.items() if key != "message"}
            drafts.append(self._draft("message", _checked_message(item.get("message")), **about))
        return self._file.append(drafts)

    def append_payload(self, payload: Any, *, id: str = "", **about: Any) -> Event:  # noqa: A002
        """Append any JSON value as an event."""
        return self._file.append([self._draft("payload", payload, id=id, **about)])[0]

    def set_state(self, state: Any, *, name: str = "", **about: Any) -> Event:
        """Append a state, which replaces the earlier ones of its name."""
        if name:
            about["name"] = name
        return self._file.append([self._draft("state", state, **about)])[0]

    def fork(self, branch: str, *, at: str, parent: str = "") -> Branch:
        """Create a branch after the event `at` of its parent; events appended with `branch=` belong to it.

        MemoryExistsError if the branch exists; SessionNotFoundError if the log, the parent or the event is missing.
        """
        if not isinstance(branch, str) or not branch:
            raise InvalidMemoryError("branch", f"{short_repr(branch)} is not a name")

        def check(events: Sequence[Event]) -> None:
            if branch in branches(events):
                raise MemoryExistsError(f"{self.path}: branch {branch!r}")
            find_event(history(events, parent), at)

        if not self.exists():
            raise SessionNotFoundError(self.path)
        self._file.append([self._draft("fork", {"branch": branch, "from": parent, "at": at})], check)
        return Branch(branch, parent, at)

    # --- reading

    def events(
        self,
        *,
        branch: str = "",
        parents: bool = True,
        kinds: Iterable[str] | None = CONVERSATION_KINDS,
        where: Iterable[Any] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Event]:
        """Return the events of a branch in order; `where` are conditions on metadata, as in a search.

        Without `parents`, events before the fork are left out. `kinds=None` returns events of all kinds.
        SessionNotFoundError if there is no such branch.
        """
        conditions = parse_conditions(where)
        found = history(self.read().events, branch, parents=parents)
        if kinds is not None:
            wanted = frozenset(kinds)
            found = [event for event in found if event.kind in wanted]
        return page(filter_events(found, conditions), limit, offset)

    def messages(self, *, branch: str = "", limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]:
        """Return the messages of a branch in order, as they were appended."""
        found = self.events(branch=branch, kinds=("message",), limit=limit, offset=offset)
        return [event.record["message"] for event in found]

    def event(self, id: str) -> Event:  # noqa: A002
        """Return one event by its id; SessionNotFoundError if there is none."""
        return find_event(self.read().events, id)

    def state(self, name: str = "") -> Any:
        """Return the last state of this name, or None."""
        found = last_state(self._file.read(only=b'"state"').events, name)
        return None if found is None else found.record["state"]

    def branches(self) -> list[Branch]:
        """Return the branches, the trunk first."""
        return list(branches(self.read().events).values())

    def problems(self) -> list[Problem]:
        """Return the problems of the lines that could not be parsed."""
        return self.read().problems

    @property
    def created(self) -> str:
        """The creation time in the header; empty if it is missing."""
        header = self._file.read(only=b'"memfs"').header
        return str(header.record.get("created", "")) if header else ""

    @property
    def owner(self) -> str:
        """The actor in the header; empty if it is missing."""
        header = self._file.read(only=b'"memfs"').header
        return header.actor if header else ""

    def exists(self) -> bool:
        """Return whether the log exists."""
        return self._file.exists()

    def read(self) -> ParsedLog:
        """Parse the whole log; a missing one is empty. StorageError if it exists and cannot be read."""
        return self._file.read()

    # --- redacting and removing

    def redact(self, id: str, message: Message, **about: Any) -> Event:  # noqa: A002
        """Replace a message by another one; nothing of the original is left in the vault.

        Metadata and custom keys of the line stay, except those that are given in `about`. SessionNotFoundError if there
        is no such event, or it was removed.
        """
        new_fields = self._draft("message", _checked_message(message), **about).fields

        def redacted(old: dict[str, Any]) -> dict[str, Any]:
            kept = {key: value for key, value in old.items() if key not in EVENT_KINDS}
            return kept | new_fields | {"redacted": format_time(self._clock())}

        return self._file.replace(id, "message", redacted)

    def remove(self, id: str) -> Event:  # noqa: A002
        """Remove an event; its id stays in the log, so that it is not appended again.

        SessionNotFoundError if there is no such event, or it was removed already.
        """
        return self._file.replace(id, "removed", lambda old: {"id": id, "time": old.get("time", ""), "removed": True})

    def _draft(
        self,
        kind: str,
        value: Any,
        *,
        id: str = "",  # noqa: A002
        time: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        branch: str = "",
        **facts: Any,
    ) -> EventDraft:
        """Return a checked and redacted draft of an event."""
        fields = {kind: value}
        if facts:
            if taken := facts.keys() & RESERVED_KEYS:
                raise InvalidMemoryError(min(taken), "is a reserved key of the log")
            fields |= facts
        if metadata:
            fields["metadata"] = dict(metadata)
        if branch:
            fields["branch"] = _checked_name("branch", branch)
        draft = EventDraft.make(
            kind, fields, id=_checked_name("id", id) if id else "", time=_time_text(time) if time else ""
        )
        return self._redacted(draft)

    def _redacted(self, draft: EventDraft) -> EventDraft:
        """Return a draft without secrets; unlike a memory, a message is never refused for one."""
        text = draft.body
        # Without escapes the encoded text shows the values themselves, so one cheap search covers all of them.
        if not (ESCAPE_MARKER in text or _UNICODE_ESCAPE in text or self._redaction.may_find(text)):
            return draft
        fields, counts = self._redaction.redact(draft.fields)
        log_redactions(f"session {self.session}", counts)
        return EventDraft.make(draft.kind, fields, id=draft.id, time=draft.time) if counts else draft

    def _header(self) -> bytes:
        now = format_time(self._clock())
        return header_line(session=self.session, agent=self.agent, actor=self.actor, created=now)


def root_of(vault: Vault | str | os.PathLike[str]) -> Path:
    """Return the directory of a vault; InvalidNamespaceError for a scope, which has no access to sessions."""
    return _whole_vault(vault).root


def _whole_vault(vault: Vault | str | os.PathLike[str]) -> Vault:
    if isinstance(vault, Vault) and vault.namespace.segments:
        raise InvalidNamespaceError(str(vault.namespace), "sessions are outside of this scope")
    return vault if isinstance(vault, Vault) else Vault(vault)


def _checked_name(subject: str, given: object) -> str:
    if not isinstance(given, str) or len(given) > MAX_NAME_CHARS:
        raise InvalidMemoryError(subject, f"{short_repr(given)} is not a text of at most {MAX_NAME_CHARS} characters")
    return given


def _time_text(given: object) -> str:
    """Return a time as it is written in the line; a text stays as it is."""
    if isinstance(given, datetime):
        return format_time(given)
    if not isinstance(given, str) or parse_time(given) == parse_time(None):
        raise InvalidMemoryError("time", f"{short_repr(given)} is not a time")
    return given


def _checked_message(given: object) -> dict[str, Any]:
    if not isinstance(given, (dict, Mapping)):  # dict is tested first because that is cheap, and most messages are one
        raise InvalidMemoryError("message", f"{short_repr(given)} is not a mapping")
    return dict(given)
