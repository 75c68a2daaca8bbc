"""Sessions: list, check, expire and remove the sessions of a vault, and list their actors."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from memfs.agent.sessions.branches import parse_conditions
from memfs.agent.sessions.events import Event, parse_time
from memfs.agent.sessions.paths import (
    AGENT_LOG,
    decode_segment,
    is_owned_by,
    parse_log_file_name,
    session_segments,
    sessions_directory,
)
from memfs.agent.sessions.session_log import SessionLog, root_of
from memfs.agent.sessions.transcript import is_message_content, messages_in
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

NO_TIME = datetime.min.replace(tzinfo=UTC)
NOT_A_LOG = "a copy of a log, or a file of an editor: not read"


class Session(NamedTuple):
    """The summary of one session, for lists."""

    name: str
    actor: str
    agents: tuple[str, ...]
    messages: int
    created: datetime
    updated: datetime  # the time of its last event
    path: str
    actors: tuple[str, ...] = ()  # of all its logs; `actor` is the first

    @property
    def facts(self) -> dict[str, Any]:
        """The values that a filter can test."""
        return {"session" if key == "name" else key: value for key, value in self._asdict().items()}


class Actor(NamedTuple):
    """A person or program that takes part in sessions."""

    name: str
    sessions: int
    messages: int
    updated: datetime


SessionList = list[Session]  # inside the class, `list` is its method
Actors = list[Actor]
Logs = list[SessionLog]
Problems = list[Problem]
Names = list[str]
Stamps = list[Stamp]
Events = list[Event]
HeaderRecords = list[Mapping[str, Any]]


class Sessions:
    """The sessions of a vault, or with `archived` its expired ones."""

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

    def list(self, *, actor: str | None = None, where: Iterable[Any] = ()) -> SessionList:
        """Return the sessions, the one with the oldest last event first; `where` are conditions on fields of Session.

        With an `actor`, only the sessions with a log of this actor; an empty one means sessions whose logs name none.
        """
        conditions = parse_conditions(where)
        segments: Names = []
        with suppress(InvalidNamespaceError):  # not a directory: `check` reports it
            segments = self._entries(sessions_directory(archived=self._archived))
        names = filter(None, map(decode_segment, segments))
        found = [session for name in names if (session := self._session(name))]
        own = [session for session in found if actor is None or fold(actor) in map(fold, session.actors or ("",))]
        matching = [
            session for session in own if all(condition.matches_values(session.facts) for condition in conditions)
        ]
        return sorted(matching, key=lambda session: (session.updated, session.name))

    def read(self, session: str) -> Session:
        """Return one session by its name; SessionNotFoundError if there is none."""
        if found := self._session(session):
            return found
        raise SessionNotFoundError(session)

    def actors(self) -> Actors:
        """Return the actors of all sessions, by name."""
        found: dict[str, Actor] = {}
        for session in self.list():
            for name in session.actors:
                # Of a session with several actors, only this actor's messages count.
                own = (len(session.actors) > 1 and self._session(session.name, name)) or session
                old = found.get(name, Actor(name, 0, 0, NO_TIME))
                counts = old.sessions + 1, old.messages + own.messages
                found[name] = Actor(name, *counts, max(old.updated, own.updated))
        return [found[name] for name in sorted(found)]

    def logs(self, session: str, *, actor: str | None = None) -> Logs:
        """Return the logs of a session's agents, by name; with an actor, without those of other actors.

        SessionNotFoundError if there is no such session.
        """
        found = [log for log, suffix in self._logs(session) if suffix == AGENT_LOG]
        if not found and not self._session(session):
            raise SessionNotFoundError(session)
        return [log for log in found if actor is None or is_owned_by(log.owner, actor)]

    def stamp(self, session: str) -> Stamps:
        """Return a token that changes when a log of the session changes; empty if there is no such session."""
        directory = os.path.join(self._root, *session_segments(session, archived=self._archived))
        with suppress(OSError), os.scandir(directory) as entries:
            logs = [entry for entry in entries if parse_log_file_name(entry.name)]
            return sorted(Stamp.from_stat(entry.stat(follow_symlinks=False)) for entry in logs)
        return []

    def check(self) -> Problems:
        """Return the problems of all logs, and of files among them that are not logs."""
        directory = sessions_directory(archived=self._archived)
        try:
            segments = self._entries(directory)
        except (InvalidNamespaceError, StorageError) as error:
            return [Problem("/".join(directory), 1, f"{error.reason}: not read")]
        return [problem for segment in segments for problem in self._check(segment)]

    def expired(self, days: float) -> SessionList:
        """Return the sessions whose last event is older than `days` days; a session without a time never expires.

        InvalidSearchError if `days` is not a number from 0.
        """
        if not isinstance(days, int | float) or isinstance(days, bool) or not 0 <= days < 1e6:
            error = InvalidSearchError("days", f"{short_repr(days)} is not a number of days")
            error.hint = "Give a number from 0, such as 90."
            raise error
        oldest = self._clock() - timedelta(days=days)
        return [session for session in self.list() if NO_TIME < session.updated < oldest]

    def expire(self, days: float) -> SessionList:
        """Move the expired sessions to `archive/sessions/`; return them with their new paths, none if `archived`."""
        moved = []
        for session in self.expired(days) if not self._archived else ():
            with suppress(SessionNotFoundError), self._locked(session.name) as directory:
                if self._session(session.name) == session:  # not continued since it was listed
                    moved.append(session._replace(path=_archive(directory)))
        return moved

    def remove(self, session: str) -> None:
        """Delete a session with all its logs and every other file in its directory.

        SessionNotFoundError if there is no such session.
        """
        with self._locked(session) as directory, open_directory(directory.root, directory.segments[:-1]) as parent:
            shutil.rmtree(directory.segments[-1], dir_fd=parent)
            os.fsync(parent)

    # --- the directories

    def _session(self, name: str, actor: str | None = None) -> Session | None:
        """Return a session, or an actor's part of it; None if no log of it can be read."""
        headers: HeaderRecords = []
        events: Events = []
        agents: Names = []
        for log, suffix in self._logs(name):
            with suppress(StorageError):
                parsed = log.read()
                if actor is not None and (parsed.header is None or parsed.header.actor != actor):
                    continue
                headers.append(parsed.header.record if parsed.header else {})
                events += parsed.events
                agents += [log.agent] if suffix == AGENT_LOG else []
        if not headers:
            return None
        times = [event.time for event in events]
        starts = [time for header in headers if (time := parse_time(header.get("created"))) > NO_TIME] or times
        created = min(starts, default=NO_TIME)
        actors = tuple(dict.fromkeys(str(header["actor"]) for header in headers if header.get("actor")))
        messages = sum(len(messages_in(event)) for event in events)
        path = "/".join(session_segments(name, archived=self._archived))
        first = actors[0] if actors else ""
        return Session(name, first, tuple(agents), messages, created, max([*times, created]), path, actors)

    def _logs(self, session: str) -> Iterator[tuple[SessionLog, str]]:
        """Yield the logs in the directory of a session, each with its suffix."""
        try:
            entries = self._entries(session_segments(session, archived=self._archived))
        except InvalidNamespaceError:
            return
        for agent, suffix in filter(None, map(parse_log_file_name, entries)):
            yield self._log(session, agent, suffix), suffix

    def _log(self, session: str, agent: str, suffix: str) -> SessionLog:
        return SessionLog(
            self._root, session, agent, suffix=suffix,
            archived=self._archived, clock=self._clock, lock_timeout=self._timeout,
        )  # fmt: skip

    def _check(self, segment: str) -> Iterator[Problem]:
        """Yield the problems of one entry of the directory of sessions."""
        segments = (*sessions_directory(archived=self._archived), segment)
        path, session = "/".join(segments), decode_segment(segment)
        try:
            entries = self._entries(segments)
        except (InvalidNamespaceError, StorageError) as error:
            if isinstance(error, StorageError) or ".jsonl" in segment:
                yield Problem(path, 1, error.reason if isinstance(error, StorageError) else NOT_A_LOG)
            return
        for entry in (entry for entry in entries if ".jsonl" in entry):
            parts = parse_log_file_name(entry) if session else None
            if session and parts:
                yield from _problems(self._log(session, *parts))
            else:
                yield Problem(f"{path}/{entry}", 1, NOT_A_LOG, hint="Copy what you need, then remove it.")

    def _entries(self, segments: tuple[str, ...]) -> Names:
        """Return the names in a directory, sorted; none if it does not exist."""
        try:
            root = open_root(self._root)
            try:
                with open_directory(root, segments) as directory:
                    return sorted(os.listdir(directory))
            finally:
                os.close(root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError("/".join(segments), f"cannot be read: {error.strerror}") from error

    @contextmanager
    def _locked(self, session: str) -> Iterator[LockedDirectory]:
        """Lock the directory of a session; SessionNotFoundError if it does not exist."""
        files = MemoryFiles(self._root, clock=self._clock, lock_timeout=self._timeout)
        segments = session_segments(session, archived=self._archived)
        try:
            with files.locked(segments) as directory:
                if directory.segments != segments:
                    raise SessionNotFoundError(session)
                yield directory
        except MemoryNotFoundError:
            raise SessionNotFoundError(session) from None
        except OSError as error:
            raise translate_os_error("/".join(segments), error) from error
        finally:
            files.close()


def _problems(log: SessionLog) -> Problems:
    try:
        _, events, problems = log.read()
        return [*problems, *[_content_problem(log.path, event) for event in events if _has_invalid_content(event)]]
    except MemfsError as error:
        return [Problem(log.path, 1, str(error).removeprefix(f"{log.path}: "))]


def _has_invalid_content(event: Event) -> bool:
    return event.kind == "message" and not is_message_content(event.message.get("content"))


def _content_problem(path: str, event: Event) -> Problem:
    """Return the problem of a message, perhaps written by hand, that no agent can load."""
    content = short_repr(event.message.get("content"))
    return Problem(path, 0, f"message {event.id}: content {content} is neither a text nor a list of blocks: left out")


def _archive(directory: LockedDirectory) -> str:
    """Move a locked session to the archive, under a name that is free there; return its new path."""
    target, root, segments = sessions_directory(archived=True), directory.root, directory.segments
    with open_directory(root, target, create=True) as archive, open_directory(root, segments[:-1]) as parent:
        taken, name, number = {fold(other) for other in os.listdir(archive)}, segments[-1], 1
        while fold(name) in taken:
            number += 1
            name = f"{segments[-1]}-{number}"
        rename_without_replacing(parent, segments[-1], archive, name)
        os.fsync(archive)
        os.fsync(parent)
    return "/".join((*target, name))
