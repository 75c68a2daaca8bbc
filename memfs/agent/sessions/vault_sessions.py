"""Sessions: all the sessions of a vault: which there are, whose, what is wrong with them, and which have expired."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from memfs.agent.sessions.branches import conditions
from memfs.agent.sessions.events import Event, moment
from memfs.agent.sessions.paths import LOG, is_of, name_of, parts_of, place_of, segments_of
from memfs.agent.sessions.session_log import SessionLog, root_of
from memfs.agent.sessions.transcript import is_content, said_in
from memfs.data_types import Problem, Stamp
from memfs.errors import (
    InvalidNamespaceError,
    InvalidSearchError,
    MemfsError,
    MemoryNotFoundError,
    SessionNotFoundError,
    StorageError,
    short_repr,
)
from memfs.fs.files import open_directory, open_root, rename_without_replacing, translate_os_error
from memfs.namespace import fold
from memfs.protocols import Clock, system_clock
from memfs.storage.memory_files import LockedDirectory, MemoryFiles
from memfs.vault.vault import LOCK_TIMEOUT, Vault

NEVER = datetime.min.replace(tzinfo=UTC)
COPY = "a copy of a log, or a file of an editor: not read"


class Session(NamedTuple):
    """One conversation, as a listing tells of it."""

    name: str
    actor: str
    agents: tuple[str, ...]
    messages: int
    created: datetime
    updated: datetime  # when its last event happened
    path: str
    actors: tuple[str, ...] = ()  # all that its logs name; `actor` is the first

    @property
    def facts(self) -> dict[str, Any]:
        """What a filter can ask for."""
        return {"session" if key == "name" else key: value for key, value in self._asdict().items()}


class Actor(NamedTuple):
    """Somebody sessions are had with."""

    name: str
    sessions: int
    messages: int
    updated: datetime


Found = list[Session]  # inside of the class, `list` is its method
Actors = list[Actor]
Logs = list[SessionLog]
Problems = list[Problem]
Names = list[str]
Stamps = list[Stamp]
Events = list[Event]
Heads = list[Mapping[str, Any]]


class Sessions:
    """The sessions of a vault; of those that expired, with `archived`."""

    def __init__(
        self,
        vault: Vault | str | os.PathLike[str],
        *,
        archived: bool = False,
        clock: Clock = system_clock,
        lock_timeout: float = LOCK_TIMEOUT,
    ) -> None:
        self._root, self._archived = root_of(vault), archived
        self._clock, self._timeout = clock, lock_timeout

    def list(self, *, actor: str | None = None, where: Iterable[Any] = ()) -> Found:
        """The sessions, by the time of their last event; `where` are conditions on what a listing tells."""
        wanted = conditions(where)
        segments: Names = []
        with suppress(InvalidNamespaceError):  # not a directory: a problem that `check` tells
            segments = self._entries(place_of(archived=self._archived))
        found = [one for segment in segments if (name := name_of(segment)) and (one := self._session(name))]
        own = [one for one in found if actor is None or fold(actor) in map(fold, one.actors or ("",))]
        kept = [one for one in own if all(it.fulfilled_by(one.facts) for it in wanted)]
        return sorted(kept, key=lambda one: (one.updated, one.name))

    def read(self, session: str) -> Session:
        """One session by its name."""
        if found := self._session(session):
            return found
        raise SessionNotFoundError(session)

    def actors(self) -> Actors:
        """Who sessions are had with, by name."""
        found: dict[str, Actor] = {}
        for session in self.list():
            for name in session.actors:
                said = (len(session.actors) > 1 and self._session(session.name, name)) or session
                old = found.get(name, Actor(name, 0, 0, NEVER))
                counts = old.sessions + 1, old.messages + said.messages
                found[name] = Actor(name, *counts, max(old.updated, said.updated))
        return [found[name] for name in sorted(found)]

    def logs(self, session: str, *, actor: str | None = None) -> Logs:
        """The logs of a session's agents, by name; with an actor, those that name no other."""
        found = [log for log, suffix in self._logs(session) if suffix == LOG]
        if not found and not self._session(session):
            raise SessionNotFoundError(session)
        return [log for log in found if actor is None or is_of(log.owner, actor)]

    def stamp(self, session: str) -> Stamps:
        """A token that differs when a log of a session does."""
        place = os.path.join(self._root, *segments_of(session, archived=self._archived))
        with suppress(OSError), os.scandir(place) as entries:
            logs = [entry for entry in entries if parts_of(entry.name)]
            return sorted(Stamp.from_stat(entry.stat(follow_symlinks=False)) for entry in logs)
        return []

    def check(self) -> Problems:
        """What in the logs could not be understood, and what lies among them that is none."""
        try:
            segments = self._entries(place_of())
        except (InvalidNamespaceError, StorageError) as error:
            return [Problem("/".join(place_of()), 1, f"{error.reason}: not read")]
        return [one for segment in segments for one in self._check(segment)]

    def expired(self, days: float) -> Found:
        """The sessions whose last event is older than so many days."""
        if not isinstance(days, int | float) or isinstance(days, bool) or not 0 <= days < 1e6:
            error = InvalidSearchError("days", f"{short_repr(days)} is not a number of days")
            error.hint = "Give a number from 0, such as 90."
            raise error
        oldest = self._clock() - timedelta(days=days)
        return [one for one in self.list() if NEVER < one.updated < oldest]

    def expire(self, days: float) -> Found:
        """Move them to `archive/sessions/`; what was moved, with its new path."""
        moved = []
        for one in self.expired(days):
            with suppress(SessionNotFoundError), self._held(one.name) as hold:
                if self._session(one.name) == one:  # nobody went on with it meanwhile
                    moved.append(one._replace(path=_archive(hold)))
        return moved

    def remove(self, session: str) -> None:
        """Delete a session with all its logs, and whatever lies beside them."""
        with self._held(session) as hold, open_directory(hold.root, hold.segments[:-1]) as top:
            shutil.rmtree(hold.segments[-1], dir_fd=top)
            os.fsync(top)

    # --- the directories

    def _session(self, name: str, actor: str | None = None) -> Session | None:
        """What there is to know of a session, or of an actor's part in it; None if no log of it can be read."""
        heads: Heads = []
        events: Events = []
        agents: Names = []
        for log, suffix in self._logs(name):
            with suppress(StorageError):
                reading = log.read()
                if actor is not None and (reading.head is None or reading.head.actor != actor):
                    continue
                heads.append(reading.head.record if reading.head else {})
                events += reading.events
                agents += [log.agent] if suffix == LOG else []
        if not heads:
            return None
        times = [event.time for event in events]
        begun = [time for head in heads if (time := moment(head.get("created"))) > NEVER] or times
        created = min(begun, default=NEVER)
        actors = tuple(dict.fromkeys(str(head["actor"]) for head in heads if head.get("actor")))
        messages = sum(len(said_in(event)) for event in events)
        path = "/".join(segments_of(name, archived=self._archived))
        whose = actors[0] if actors else ""
        return Session(name, whose, tuple(agents), messages, created, max([*times, created]), path, actors)

    def _logs(self, session: str) -> Iterator[tuple[SessionLog, str]]:
        """The logs in the directory of a session, and what kind of log each is."""
        try:
            entries = self._entries(segments_of(session, archived=self._archived))
        except InvalidNamespaceError:
            return
        for agent, suffix in filter(None, map(parts_of, entries)):
            yield self._log(session, agent, suffix), suffix

    def _log(self, session: str, agent: str, suffix: str) -> SessionLog:
        return SessionLog(
            self._root, session, agent, suffix=suffix,
            archived=self._archived, clock=self._clock, lock_timeout=self._timeout,
        )  # fmt: skip

    def _check(self, segment: str) -> Iterator[Problem]:
        """What is wrong in one entry of `sessions/`."""
        path, session = "/".join((*place_of(), segment)), name_of(segment)
        try:
            entries = self._entries((*place_of(), segment))
        except (InvalidNamespaceError, StorageError) as error:
            if isinstance(error, StorageError) or ".jsonl" in segment:
                yield Problem(path, 1, error.reason if isinstance(error, StorageError) else COPY)
            return
        for entry in (entry for entry in entries if ".jsonl" in entry):
            parts = parts_of(entry) if session else None
            if session and parts:
                yield from _problems(self._log(session, *parts))
            else:
                yield Problem(f"{path}/{entry}", 1, COPY, hint="Take over what you need, then remove it.")

    def _entries(self, segments: tuple[str, ...]) -> Names:
        """The names in a directory, sorted; none if it is not there."""
        try:
            root = open_root(self._root)
            try:
                with open_directory(root, segments) as place:
                    return sorted(os.listdir(place))
            finally:
                os.close(root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError("/".join(segments), f"cannot be read: {error.strerror}") from error

    @contextmanager
    def _held(self, session: str) -> Iterator[LockedDirectory]:
        """Lock a session's directory."""
        tree, segments = MemoryFiles(self._root, clock=self._clock, lock_timeout=self._timeout), segments_of(session)
        try:
            with tree.hold(segments) as hold:
                if hold.segments != segments:
                    raise SessionNotFoundError(session)
                yield hold
        except MemoryNotFoundError:
            raise SessionNotFoundError(session) from None
        except OSError as error:
            raise translate_os_error("/".join(segments), error) from error
        finally:
            tree.close()


def _problems(log: SessionLog) -> Problems:
    try:
        _, events, problems = log.read()
        return [*problems, *[_unheld(log.path, event) for event in events if _is_odd(event)]]
    except MemfsError as error:
        return [Problem(log.path, 1, str(error).removeprefix(f"{log.path}: "))]


def _is_odd(event: Event) -> bool:
    return event.kind == "message" and not is_content(event.message.get("content"))


def _unheld(path: str, event: Event) -> Problem:
    """A message that somebody wrote by hand, perhaps, and that no agent can be told."""
    said = short_repr(event.message.get("content"))
    return Problem(path, 0, f"message {event.id}: content {said} is neither a text nor a list of blocks: left out")


def _archive(hold: LockedDirectory) -> str:
    """Move a locked session to the archive, under a name that is free there; its new path."""
    place = place_of(archived=True)
    with open_directory(hold.root, place, create=True) as archive, open_directory(hold.root, hold.segments[:-1]) as top:
        taken, name, number = {fold(other) for other in os.listdir(archive)}, hold.segments[-1], 1
        while fold(name) in taken:
            number += 1
            name = f"{hold.segments[-1]}-{number}"
        rename_without_replacing(top, hold.segments[-1], archive, name)
        os.fsync(archive)
        os.fsync(top)
    return "/".join((*place, name))
