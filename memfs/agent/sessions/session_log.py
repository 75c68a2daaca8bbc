"""SessionLog: one agent's append-only log of one session, `sessions/<session>/<agent>.agent.jsonl` in a vault."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from memfs.agent.messages import Message
from memfs.agent.sessions.branches import SPOKEN, Branch, branches, conditions, history, matching, page, state_of
from memfs.agent.sessions.events import KINDS, RESERVED, Draft, Event, Reading, head_line, moment, time_text
from memfs.agent.sessions.log_file import LogFile, find
from memfs.agent.sessions.paths import LOG, SESSION, file_of, segments_of
from memfs.data_types import Problem
from memfs.errors import InvalidMemoryError, InvalidNamespaceError, MemoryExistsError, SessionNotFoundError, short_repr
from memfs.privacy.policy import Policy, report
from memfs.protocols import Clock, system_clock
from memfs.vault.vault import LOCK_TIMEOUT, Vault

MAX_NAME = 1000  # characters of an id, or of the name of a branch
_SPELLING, _ESCAPE = '"memfs:', "\\u"  # bytes, and signs that UTF-8 cannot hold, as they stand in a line


class SessionLog:
    """The events of one agent in one session. Thread-safe; any number of processes may append to one log.

    With an `actor`, a log that was begun for another is refused (OtherActorError); without, any is read.
    """

    def __init__(
        self,
        vault: Vault | str | os.PathLike[str],
        session: str,
        agent: str = "main",
        *,
        actor: str = "",
        suffix: str = LOG,
        archived: bool = False,
        clock: Clock = system_clock,
        lock_timeout: float = LOCK_TIMEOUT,
        redaction: Policy | None = None,
    ) -> None:
        whole = _whole(vault)
        self._root, self._redaction = whole.root, redaction or Policy.of(whole)
        self.session, self.agent, self.actor = session, agent, actor
        self._clock = clock
        place, name = segments_of(session, archived=archived), file_of(agent, suffix)
        owner = actor if suffix != SESSION else ""  # a session may have logs of several actors
        self._file = LogFile(self._root, place, name, head=self._head, clock=clock, timeout=lock_timeout, actor=owner)
        self.path = self._file.path

    def __repr__(self) -> str:
        return f"SessionLog({str(self._root)!r}, {self.session!r}, {self.agent!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what appending holds; the log can still be used."""
        self._file.close()

    # --- appending

    def append(self, message: Message, *, id: str = "", **about: Any) -> Event:  # noqa: A002  the word of the line
        """Add a message; durable when it returns. One whose `id` is there already is not added again.

        `about` may hold `metadata`, `branch`, `time`, and facts of one's own, which the line then has too.
        """
        held = _message(message)
        if id or about:
            draft = self._draft("message", held, id=id, **about)
        else:
            draft = self._clean(Draft.make("message", {"message": held}))
        return self._file.append([draft])[0]

    def append_drafts(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add what was drafted before, at once, all or none."""
        return self._file.append(drafts)

    def draft(self, message: Message, **about: Any) -> Draft:
        """A message as it is to be appended; InvalidMemoryError, which names the part, if it cannot be."""
        return self._draft("message", _message(message), **about)

    def draft_state(self, state: Any, *, name: str = "") -> Draft:
        """A state as it is to be appended."""
        about: dict[str, Any] = {"name": name} if name else {}
        return self._draft("state", state, **about)

    def append_many(self, items: Iterable[Mapping[str, Any]]) -> list[Event]:
        """Add messages at once, all or none: each item holds `message`, and what else `append` takes."""
        drafts = []
        for item in items:
            if not isinstance(item, Mapping):
                raise InvalidMemoryError("item", f"{short_repr(item)} is not a mapping with a message")
            about = {key: value for key, value in item.items() if key != "message"}
            drafts.append(self._draft("message", _message(item.get("message")), **about))
        return self._file.append(drafts)

    def append_payload(self, payload: Any, *, id: str = "", **about: Any) -> Event:  # noqa: A002
        """Add any JSON value as an event."""
        return self._file.append([self._draft("payload", payload, id=id, **about)])[0]

    def set_state(self, state: Any, *, name: str = "", **about: Any) -> Event:
        """Add what a state is from now on."""
        if name:
            about["name"] = name
        return self._file.append([self._draft("state", state, **about)])[0]

    def fork(self, branch: str, *, at: str, parent: str = "") -> Branch:
        """Begin a branch behind an event of its parent; events appended with `branch=` are its own."""
        if not isinstance(branch, str) or not branch:
            raise InvalidMemoryError("branch", f"{short_repr(branch)} is not a name")

        def check(events: Sequence[Event]) -> None:
            if branch in branches(events):
                raise MemoryExistsError(f"{self.path}: branch {branch!r}")
            find(history(events, parent), at)

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
        kinds: Iterable[str] | None = SPOKEN,
        where: Iterable[Any] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Event]:
        """The events of a branch in order; `where` are conditions on metadata, as a search takes them."""
        wanted = conditions(where)
        found = history(self.read().events, branch, parents=parents)
        if kinds is not None:
            chosen = frozenset(kinds)
            found = [event for event in found if event.kind in chosen]
        return page(matching(found, wanted), limit, offset)

    def messages(self, *, branch: str = "", limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]:
        """The messages of a branch in order, as they were given."""
        found = self.events(branch=branch, kinds=("message",), limit=limit, offset=offset)
        return [event.record["message"] for event in found]

    def event(self, id: str) -> Event:  # noqa: A002
        """One event by its id."""
        return find(self.read().events, id)

    def state(self, name: str = "") -> Any:
        """The last state of this name; None if there is none."""
        found = state_of(self._file.read(only=b'"state"').events, name)
        return None if found is None else found.record["state"]

    def branches(self) -> list[Branch]:
        """The branches, the trunk first."""
        return list(branches(self.read().events).values())

    def problems(self) -> list[Problem]:
        """What in the log could not be understood."""
        return self.read().problems

    @property
    def created(self) -> str:
        """When the log was begun, as its first line says; empty if it does not."""
        head = self._file.read(only=b'"memfs"').head
        return str(head.record.get("created", "")) if head else ""

    @property
    def owner(self) -> str:
        """The actor whose log it is, as its first line says; empty if it does not."""
        head = self._file.read(only=b'"memfs"').head
        return head.actor if head else ""

    def exists(self) -> bool:
        """Tell whether there is such a log."""
        return self._file.exists()

    def read(self) -> Reading:
        """Everything the log says; of none at all, nothing. StorageError if it is there and cannot be read."""
        return self._file.read()

    # --- taking back

    def redact(self, id: str, message: Message, **about: Any) -> Event:  # noqa: A002
        """Have another message in the place of one; nothing of the original is left in the vault.

        Metadata and other facts of the line stay, but for those that `about` gives anew.
        """
        fresh = self._draft("message", _message(message), **about).fields

        def redacted(old: dict[str, Any]) -> dict[str, Any]:
            kept = {key: value for key, value in old.items() if key not in KINDS}
            return kept | fresh | {"redacted": time_text(self._clock())}

        return self._file.replace(id, "message", redacted)

    def remove(self, id: str) -> Event:  # noqa: A002
        """Take an event out; its id stays, so that it is not added again."""
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
    ) -> Draft:
        """An event before it has its id, checked."""
        fields = {kind: value}
        if facts:
            if taken := facts.keys() & RESERVED:
                raise InvalidMemoryError(min(taken), "is a word of the log itself")
            fields |= facts
        if metadata:
            fields["metadata"] = dict(metadata)
        if branch:
            fields["branch"] = _name("branch", branch)
        draft = Draft.make(kind, fields, id=_name("id", id) if id else "", time=_time(time) if time else "")
        return self._clean(draft)

    def _clean(self, draft: Draft) -> Draft:
        """An event without what is not to be kept; what was said cannot be refused."""
        text = draft.body
        if not (_SPELLING in text or _ESCAPE in text or self._redaction.may_find(text)):
            return draft
        fields, counts = self._redaction.redact(draft.fields)
        report(f"session {self.session}", counts)
        return Draft.make(draft.kind, fields, id=draft.id, time=draft.time) if counts else draft

    def _head(self) -> bytes:
        now = time_text(self._clock())
        return head_line(session=self.session, agent=self.agent, actor=self.actor, created=now)


def root_of(vault: Vault | str | os.PathLike[str]) -> Path:
    """The directory of a vault; a scope handle reaches no sessions."""
    return _whole(vault).root


def _whole(vault: Vault | str | os.PathLike[str]) -> Vault:
    if isinstance(vault, Vault) and vault.namespace.segments:
        raise InvalidNamespaceError(str(vault.namespace), "sessions lie outside of this scope")
    return vault if isinstance(vault, Vault) else Vault(vault)


def _name(subject: str, given: object) -> str:
    if not isinstance(given, str) or len(given) > MAX_NAME:
        raise InvalidMemoryError(subject, f"{short_repr(given)} is not a text of at most {MAX_NAME} characters")
    return given


def _time(given: object) -> str:
    """A time as it stands in the line: one that is text stays as it is."""
    if isinstance(given, datetime):
        return time_text(given)
    if not isinstance(given, str) or moment(given) == moment(None):
        raise InvalidMemoryError("time", f"{short_repr(given)} is not a time")
    return given


def _message(given: object) -> dict[str, Any]:
    if not isinstance(given, (dict, Mapping)):  # a dict, as most are, is known at once
        raise InvalidMemoryError("message", f"{short_repr(given)} is not a mapping")
    return dict(given)
