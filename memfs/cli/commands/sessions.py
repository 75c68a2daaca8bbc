"""Commands about conversations: sessions, actors, expire."""

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
from memfs.cli.arguments import ACTIONS
from memfs.cli.inputs import conditions, open_vault
from memfs.cli.output import (
    columns,
    count,
    cut,
    paint,
    phrase,
    plain,
    plain_lines,
    print_json,
    print_table,
    settle_output,
)
from memfs.cli.parser import addressed, usage
from memfs.errors import SessionNotFoundError

PACE = 250  # milliseconds between two looks at a log that is followed
FACTS = tuple("session" if name == "name" else name for name in Session._fields)  # what a list can be asked for
LAST = 10  # events that `tail` shows
OPTIONS = {  # that only some actions take
    "actor": ("list",),
    "agent": ("show", "tail", "export"),
    "branch": ("show", "tail", "export"),
    "format": ("export",),
    "follow": ("tail",),
}

Turn = tuple[SessionLog, Event]


def run_sessions(args: argparse.Namespace) -> int:
    """List the sessions, or show, follow or export one."""
    with open_vault(args.vault) as vault:
        sessions = Sessions(vault, archived=args.archived)
        _check_options(args, sessions)
        if args.action == "list":
            return _list(sessions, args)
        if not args.session:
            raise usage("sessions", f"{args.action} wants the name of a session", "See `memfs sessions list`.")
        try:
            return {"show": _show, "tail": _tail, "export": _export}[args.action](sessions, args)
        except SessionNotFoundError as error:
            old = [] if args.archived else Sessions(vault, archived=True).list()
            if error.name == args.session and error.name in [one.name for one in old]:
                error.hint = "It expired: --archived finds it."
            raise


def _check_options(args: argparse.Namespace, sessions: Sessions) -> None:
    """Refuse what would have no effect."""
    if args.action not in ACTIONS:
        raise usage("sessions", f"{args.action!r} is none of {', '.join(ACTIONS)}", _meant(args, args.action, sessions))
    if args.action == "list" and args.session:
        raise usage("sessions", f"list takes no session: {args.session!r}", _meant(args, args.session, sessions))
    for name, actions in OPTIONS.items():
        if getattr(args, name) and args.action not in actions:
            raise usage("sessions", f"--{name} is for {' and '.join(actions)}, not for {args.action}")


def _meant(args: argparse.Namespace, session: str, sessions: Sessions) -> str:
    """What a session is shown by, where somebody names it alone."""
    if session not in [one.name for one in sessions.list()]:
        return ""
    return plain(addressed(f"Did you mean `memfs sessions show {quote(session)}`?", args.vault))


def run_actors(args: argparse.Namespace) -> int:
    """List who sessions are had with."""
    with open_vault(args.vault) as vault:
        actors = Sessions(vault).actors()
    if args.json:
        print_json([one._asdict() for one in actors])
    elif actors:
        rows = [[plain(one.name), str(one.sessions), str(one.messages), _when(one.updated)] for one in actors]
        print_table(("actor", "sessions", "messages", "last"), rows)
    else:
        print("no sessions with anybody", file=sys.stderr)
    return 0 if actors else 1


def run_expire(args: argparse.Namespace) -> int:
    """Tell which sessions are old; with --yes, move them to the archive."""
    with open_vault(args.vault) as vault:
        sessions = Sessions(vault)
        found = sessions.expire(args.days) if args.yes else sessions.expired(args.days)
    if args.json:
        print_json({"moved": bool(args.yes), "sessions": [_facts(one) for one in found]})
        return 0
    for one in found:
        print(f"moved to {plain(one.path)}" if args.yes else f"{plain(one.path)}, last used {_when(one.updated)}")
    if not found:
        print(f"no session is older than {args.days:g} days")
    elif not args.yes:
        does = plain(addressed(f"`memfs expire {args.days:g} --yes` does it", args.vault))
        print(f"{count(len(found), 'session')} would move to archive/sessions/; {does}")
    return 0


# --- list ---------------------------------------------------------------------------------------------


def _list(sessions: Sessions, args: argparse.Namespace) -> int:
    if unknown := [key for key, *_ in args.where if key not in FACTS]:
        raise usage("sessions", f"--where: {unknown[0]!r} is nothing of a session; keys: {', '.join(FACTS)}")
    found = sessions.list(actor=args.actor, where=conditions(args.where))
    shown = found[-args.limit :] if args.limit else found
    if args.json:
        print_json([_facts(one) for one in shown])
    elif shown:
        print_table(("session", "actor", "agents", "messages", "last"), [_row(one) for one in shown])
        hidden = len(found) - len(shown)
        print(f"\n{count(len(found), 'session')}" + (f", {hidden} older ones not shown" if hidden else ""))
    else:
        print("no sessions", file=sys.stderr)
    return 0 if shown else 1


def _row(one: Session) -> list[str]:
    actors, agents = plain(", ".join(one.actors)), plain(", ".join(one.agents))
    return [plain(one.name), actors or "-", agents, str(one.messages), _when(one.updated)]


def _facts(one: Session) -> dict[str, Any]:
    return one.facts


def _when(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}Z" if time.year > 1 else "never"


# --- one session --------------------------------------------------------------------------------------


def _turns(sessions: Sessions, args: argparse.Namespace) -> list[Turn]:
    """The events of a session that are asked for, in order, each with its log."""
    there = logs = sessions.logs(args.session)
    if args.agent:
        logs = [log for log in there if log.agent == args.agent]
        if not logs:
            raise _missing(f"{args.session}/{args.agent}", "agents", [log.agent for log in there])
    where = conditions(args.where)
    if branch := args.branch:
        logs = [log for log in logs if branch in _branches([log])]
        if not logs:
            raise _missing(branch, "branches", _branches(there))
    found = [[(log, event) for event in log.events(branch=branch or "", where=where)] for log in logs]
    return [turn for _, turn in merge(*map(_timed, found), key=itemgetter(0))]


def _branches(logs: Iterable[SessionLog]) -> list[str]:
    """The names of the branches that logs have."""
    return sorted({one.name for log in logs for one in log.branches() if one.name})


def _missing(name: str, what: str, there: Sequence[str]) -> SessionNotFoundError:
    return SessionNotFoundError(name).with_hint(f"Its {what}: {', '.join(there) or 'none'}.")


def _timed(turns: Sequence[Turn]) -> list[tuple[datetime, Turn]]:
    """Turns of one log, each with when it was said, which is no earlier than the one before."""
    latest = datetime.min.replace(tzinfo=UTC)
    return [(latest := max(latest, event.time), (log, event)) for log, event in turns]


def _show(sessions: Sessions, args: argparse.Namespace) -> int:
    turns, session = _limited(_turns(sessions, args), args.limit), sessions.read(args.session)
    branches = _branches(sessions.logs(args.session))
    if args.json:
        print_json({**_facts(session), "branches": branches, "events": [_event_facts(turn) for turn in turns]})
        return _found(turns, args)
    actor = f" with {plain(', '.join(session.actors))}" if session.actors else ""
    others = f"; branches: {plain(', '.join(branches))}" if branches else ""
    print(f"session {plain(session.name)}{actor}, {count(session.messages, 'message')}{others}")
    for turn in turns:
        print(f"\n{paint(plain(_heading(turn, are_several=len(session.agents) > 1)), 'bold')}")
        print("".join(f"    {line}\n" for line in plain_lines(event_text(turn[1])).split("\n")), end="")
    return _found(turns, args)


def _found(turns: Sequence[Turn], args: argparse.Namespace) -> int:
    """The exit code: 1, and a word on stderr, where nothing fulfils the conditions."""
    if turns or not args.where:
        return 0
    settle_output()
    print(f"nothing in {plain(args.session)} fulfils --where", file=sys.stderr)
    return 1


def _speaker(turn: Turn, *, are_several: bool) -> str:
    """Who said it: with the agent, in a session of several."""
    log, event = turn
    return f"{event.role or event.kind}{f' ({log.agent})' if are_several else ''}"


def _are_several(sessions: Sessions, args: argparse.Namespace) -> bool:
    """Tell whether a session has several agents; one that is gone meanwhile has not."""
    with suppress(SessionNotFoundError):
        return len(sessions.logs(args.session)) > 1
    return False


def _heading(turn: Turn, *, are_several: bool) -> str:
    """Who said it, and when."""
    event, who = turn[1], _speaker(turn, are_several=are_several)
    return f"{who}, {format_timestamp(event.time)}{', redacted' if event.is_redacted else ''}"


def _limited(turns: list[Turn], limit: int | None) -> list[Turn]:
    return turns[-limit:] if limit else turns


def _export(sessions: Sessions, args: argparse.Namespace) -> int:
    """Print a session as JSON lines, as they are in its log, or as a markdown page."""
    turns = _limited(_turns(sessions, args), args.limit)
    is_seen = sys.stdout.isatty()
    if args.format == "markdown" and not args.json:
        are_several = _are_several(sessions, args)
        headed = [(_heading(turn, are_several=are_several), turn[1]) for turn in turns]
        page = render_markdown(f"Session {args.session}", headed)
        print(plain_lines(page) if is_seen else page, end="")
        return _found(turns, args)
    for _, event in turns:
        line = encode_line(event.record).decode().removesuffix("\n")
        print(plain(line) if is_seen else line)
    return _found(turns, args)


# --- tail ---------------------------------------------------------------------------------------------


def _tail(sessions: Sessions, args: argparse.Namespace) -> int:
    """Print the last events, one a line; with --follow, also those that come, until nobody reads them."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        turns = _turns(sessions, args)
        _print_turns(_limited(turns, args.limit or LAST), args, are_several=_are_several(sessions, args))
        if not args.follow:
            return _found(turns, args)
        for fresh in _follow(sessions, args, turns):
            _print_turns(fresh, args, are_several=_are_several(sessions, args))
    except (KeyboardInterrupt, BrokenPipeError):
        settle_output()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _follow(sessions: Sessions, args: argparse.Namespace, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """What comes after what is known, until whoever reads stdout goes away."""
    known, seen = {event.id for _, event in turns}, None
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    while not poll.poll(PACE):
        stamp = sessions.stamp(args.session)
        if stamp == seen:
            continue
        seen, fresh = stamp, []
        with suppress(SessionNotFoundError):  # git takes a session away for a while, and it may begin anew
            fresh = [turn for turn in _turns(sessions, args) if turn[1].id not in known]
        if fresh:
            known.update(event.id for _, event in fresh)
            yield fresh


def _print_turns(turns: Sequence[Turn], args: argparse.Namespace, *, are_several: bool) -> None:
    room = columns()
    for turn in turns:
        event = turn[1]
        if args.json:
            print_json(_event_facts(turn))
        else:
            who = plain(_speaker(turn, are_several=are_several))
            print(cut(f"{format_timestamp(event.time)} {who}: {phrase(event_text(event))}", room))
    sys.stdout.flush()


def _event_facts(turn: Turn) -> dict[str, Any]:
    """An event as the log has it, and whose log that is."""
    log, event = turn
    facts: dict[str, Any] = json.loads(encode_line(event.record))
    return {"agent": log.agent, **facts}
