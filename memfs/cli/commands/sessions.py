"""The commands `sessions`, `actors` and `expire`: conversations of agents."""

import argparse
import json
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter
from shlex import quote
from typing import Any

from memfs.agent.sessions.events import Event
from memfs.agent.sessions.line_encoder import encode_line
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.transcript import event_text, format_timestamp, render_markdown
from memfs.agent.sessions.vault_sessions import Session, Sessions
from memfs.cli.arguments import SESSION_ACTIONS
from memfs.cli.inputs import open_vault, parse_conditions
from memfs.cli.output import (
    count,
    flush_stdout,
    one_line,
    paint,
    print_json,
    print_table,
    safe_lines,
    safe_text,
    terminal_width,
    truncate,
)
from memfs.cli.parser import usage_error, with_vault_option
from memfs.errors import SessionNotFoundError

FOLLOW_POLL_MILLISECONDS = 250  # between two checks of a log that is followed
SESSION_KEYS = tuple("session" if name == "name" else name for name in Session._fields)  # for --where
TAIL_EVENTS = 10  # unless --limit is given
ACTION_OPTIONS = {  # options that only some actions take
    "actor": ("list",),
    "agent": ("show", "tail", "export"),
    "branch": ("show", "tail", "export"),
    "format": ("export",),
    "follow": ("tail",),
}

LoggedEvent = tuple[SessionLog, Event]


def run_sessions(args: argparse.Namespace) -> int:
    """List the sessions, or show, follow or export one."""
    with open_vault(args.vault) as vault:
        sessions = Sessions(vault, archived=args.archived)
        _check_options(args, sessions)
        if args.action == "list":
            return _list(sessions, args)
        if not args.session:
            raise usage_error("sessions", f"{args.action} needs the name of a session", "See `memfs sessions list`.")
        try:
            return {"show": _show, "tail": _tail, "export": _export}[args.action](sessions, args)
        except SessionNotFoundError as error:
            archived = [] if args.archived else Sessions(vault, archived=True).list()
            if error.name == args.session and error.name in [one.name for one in archived]:
                error.hint = "It is archived: add --archived."
            raise


def _check_options(args: argparse.Namespace, sessions: Sessions) -> None:
    """Raise a usage error for options and arguments that would have no effect."""
    if args.action not in SESSION_ACTIONS:
        raise usage_error(
            "sessions",
            f"{args.action!r} is none of {', '.join(SESSION_ACTIONS)}",
            _show_hint(args, args.action, sessions),
        )
    if args.action == "list" and args.session:
        raise usage_error(
            "sessions", f"list takes no session: {args.session!r}", _show_hint(args, args.session, sessions)
        )
    for name, actions in ACTION_OPTIONS.items():
        if getattr(args, name) and args.action not in actions:
            raise usage_error("sessions", f"--{name} is for {' and '.join(actions)}, not for {args.action}")


def _show_hint(args: argparse.Namespace, session: str, sessions: Sessions) -> str:
    """Return the command that shows a session, if the word is the name of one; else empty."""
    if session not in [one.name for one in sessions.list()]:
        return ""
    return safe_text(with_vault_option(f"Did you mean `memfs sessions show {quote(session)}`?", args.vault))


def run_actors(args: argparse.Namespace) -> int:
    """List the actors of all sessions."""
    with open_vault(args.vault) as vault:
        actors = Sessions(vault).actors()
    if args.json:
        print_json([one._asdict() for one in actors])
    elif actors:
        rows = [[safe_text(one.name), str(one.sessions), str(one.messages), _time_text(one.updated)] for one in actors]
        print_table(("actor", "sessions", "messages", "last"), rows)
    else:
        print("no sessions with an actor", file=sys.stderr)
    return 0 if actors else 1


def run_expire(args: argparse.Namespace) -> int:
    """List the sessions that were not used for so many days; with --yes, move them to the archive."""
    with open_vault(args.vault) as vault:
        sessions = Sessions(vault)
        found = sessions.expire(args.days) if args.yes else sessions.expired(args.days)
    if args.json:
        print_json({"moved": bool(args.yes), "sessions": [_session_json(one) for one in found]})
        return 0
    for one in found:
        print(
            f"moved to {safe_text(one.path)}"
            if args.yes
            else f"{safe_text(one.path)}, last used {_time_text(one.updated)}"
        )
    if not found:
        print(f"no session is older than {args.days:g} days")
    elif not args.yes:
        command = safe_text(with_vault_option(f"`memfs expire {args.days:g} --yes`", args.vault))
        them = "it" if len(found) == 1 else "them"
        print(f"{count(len(found), 'session')} would move to archive/sessions/; {command} moves {them}")
    return 0


# --- list ---------------------------------------------------------------------------------------------


def _list(sessions: Sessions, args: argparse.Namespace) -> int:
    if unknown := [key for key, *_ in args.where if key not in SESSION_KEYS]:
        raise usage_error(
            "sessions", f"--where: {unknown[0]!r} is no key of a session; keys: {', '.join(SESSION_KEYS)}"
        )
    found = sessions.list(actor=args.actor, where=parse_conditions(args.where))
    shown = found[-args.limit :] if args.limit else found
    if args.json:
        print_json([_session_json(one) for one in shown])
    elif shown:
        print_table(("session", "actor", "agents", "messages", "last"), [_row(one) for one in shown])
        hidden = len(found) - len(shown)
        print(f"\n{count(len(found), 'session')}" + (f", {hidden} older ones not shown" if hidden else ""))
    else:
        print("no sessions", file=sys.stderr)
    return 0 if shown else 1


def _row(one: Session) -> list[str]:
    actors, agents = safe_text(", ".join(one.actors)), safe_text(", ".join(one.agents))
    return [safe_text(one.name), actors or "-", agents, str(one.messages), _time_text(one.updated)]


def _session_json(session: Session) -> dict[str, Any]:
    return session.facts


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}Z" if time.year > 1 else "never"


# --- one session --------------------------------------------------------------------------------------


def _read_events(sessions: Sessions, args: argparse.Namespace) -> list[LoggedEvent]:
    """Return the selected events of a session in order of time, each with its log."""
    all_logs = logs = sessions.logs(args.session)
    if args.agent:
        logs = [log for log in all_logs if log.agent == args.agent]
        if not logs:
            raise _not_found(f"{args.session}/{args.agent}", "agents", [log.agent for log in all_logs])
    where = parse_conditions(args.where)
    if branch := args.branch:
        logs = [log for log in logs if branch in _branches([log])]
        if not logs:
            raise _not_found(branch, "branches", _branches(all_logs))
    found = [[(log, event) for event in log.events(branch=branch or "", where=where)] for log in logs]
    return [logged for _, logged in merge(*map(_with_sort_times, found), key=itemgetter(0))]


def _branches(logs: Iterable[SessionLog]) -> list[str]:
    """Return the names of the branches of some logs."""
    return sorted({one.name for log in logs for one in log.branches() if one.name})


def _not_found(name: str, kind: str, available: Sequence[str]) -> SessionNotFoundError:
    return SessionNotFoundError(name).with_hint(f"Its {kind}: {', '.join(available) or 'none'}.")


def _with_sort_times(events: Sequence[LoggedEvent]) -> list[tuple[datetime, LoggedEvent]]:
    """Return the events of one log, each with the latest time up to it, so that merging logs keeps their order."""
    latest = datetime.min.replace(tzinfo=UTC)
    return [(latest := max(latest, event.time), (log, event)) for log, event in events]


def _show(sessions: Sessions, args: argparse.Namespace) -> int:
    """Print a session with its actors and branches, and its events in full."""
    events, session = _last(_read_events(sessions, args), args.limit), sessions.read(args.session)
    branches = _branches(sessions.logs(args.session))
    if args.json:
        print_json(
            {**_session_json(session), "branches": branches, "events": [_event_json(logged) for logged in events]}
        )
        return _exit_code(events, args)
    actor = f" with {safe_text(', '.join(session.actors))}" if session.actors else ""
    others = f"; branches: {safe_text(', '.join(branches))}" if branches else ""
    print(f"session {safe_text(session.name)}{actor}, {count(session.messages, 'message')}{others}")
    for logged in events:
        heading = _heading(logged, has_several_agents=len(session.agents) > 1)
        print(f"\n{paint(safe_text(heading), 'bold')}")
        print("".join(f"    {line}\n" for line in safe_lines(event_text(logged[1])).split("\n")), end="")
    return _exit_code(events, args)


def _exit_code(events: Sequence[LoggedEvent], args: argparse.Namespace) -> int:
    """Return the exit code: 1, with a message on stderr, if no event matches --where."""
    if events or not args.where:
        return 0
    flush_stdout()
    print(f"no event of {safe_text(args.session)} matches --where", file=sys.stderr)
    return 1


def _speaker(logged: LoggedEvent, *, has_several_agents: bool) -> str:
    """Return the role of an event; with the agent if the session has several."""
    log, event = logged
    return f"{event.role or event.kind}{f' ({log.agent})' if has_several_agents else ''}"


def _has_several_agents(sessions: Sessions, args: argparse.Namespace) -> bool:
    """Return whether a session has several agents; False if the session does not exist any more."""
    with suppress(SessionNotFoundError):
        return len(sessions.logs(args.session)) > 1
    return False


def _heading(logged: LoggedEvent, *, has_several_agents: bool) -> str:
    """Return the speaker and the time of an event."""
    event, speaker = logged[1], _speaker(logged, has_several_agents=has_several_agents)
    return f"{speaker}, {format_timestamp(event.time)}{', redacted' if event.is_redacted else ''}"


def _last(events: list[LoggedEvent], limit: int | None) -> list[LoggedEvent]:
    return events[-limit:] if limit else events


def _export(sessions: Sessions, args: argparse.Namespace) -> int:
    """Print a session as the JSON lines of its log, or as a markdown page."""
    events = _last(_read_events(sessions, args), args.limit)
    is_terminal = sys.stdout.isatty()
    if args.format == "markdown" and not args.json:
        several = _has_several_agents(sessions, args)
        headed = [(_heading(logged, has_several_agents=several), logged[1]) for logged in events]
        page = render_markdown(f"Session {args.session}", headed)
        print(safe_lines(page) if is_terminal else page, end="")
        return _exit_code(events, args)
    for _, event in events:
        line = encode_line(event.record).decode().removesuffix("\n")
        print(safe_text(line) if is_terminal else line)
    return _exit_code(events, args)


# --- tail ---------------------------------------------------------------------------------------------


def _tail(sessions: Sessions, args: argparse.Namespace) -> int:
    """Print the last events, one per line; with --follow, also new ones until the reader of stdout goes away."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        events = _read_events(sessions, args)
        tail = _last(events, args.limit or TAIL_EVENTS)
        _print_events(tail, args, has_several_agents=_has_several_agents(sessions, args))
        if not args.follow:
            return _exit_code(events, args)
        for new in _follow(sessions, args, events):
            _print_events(new, args, has_several_agents=_has_several_agents(sessions, args))
    except (KeyboardInterrupt, BrokenPipeError):
        flush_stdout()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _follow(sessions: Sessions, args: argparse.Namespace, events: Sequence[LoggedEvent]) -> Iterator[list[LoggedEvent]]:
    """Yield new events after the given ones, until the reader of stdout goes away."""
    known_ids, last_stamp = {event.id for _, event in events}, None
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    while not poll.poll(FOLLOW_POLL_MILLISECONDS):
        stamp = sessions.stamp(args.session)
        if stamp == last_stamp:
            continue
        last_stamp, new = stamp, []
        with suppress(SessionNotFoundError):  # git may remove a session for a while, and an agent may start it again
            new = [logged for logged in _read_events(sessions, args) if logged[1].id not in known_ids]
        if new:
            known_ids.update(event.id for _, event in new)
            yield new


def _print_events(events: Sequence[LoggedEvent], args: argparse.Namespace, *, has_several_agents: bool) -> None:
    width = terminal_width()
    for logged in events:
        event = logged[1]
        if args.json:
            print_json(_event_json(logged))
        else:
            speaker = safe_text(_speaker(logged, has_several_agents=has_several_agents))
            print(truncate(f"{format_timestamp(event.time)} {speaker}: {one_line(event_text(event))}", width))
    sys.stdout.flush()


def _event_json(logged: LoggedEvent) -> dict[str, Any]:
    """Return an event as it is in the log, with the agent of the log."""
    log, event = logged
    record: dict[str, Any] = json.loads(encode_line(event.record))
    return {"agent": log.agent, **record}
