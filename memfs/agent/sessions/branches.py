"""Branches of a log: the events of one branch, and their filters, pages and states. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from memfs.agent.sessions.events import Event
from memfs.argument_checks import is_int
from memfs.errors import InvalidSearchError, SessionNotFoundError, short_repr
from memfs.query.filter_operators import Condition

T = TypeVar("T")
CONVERSATION_KINDS = ("message", "payload")  # the kinds of events that make up a conversation


class Branch(NamedTuple):
    """A branch of a log: its name, the branch it was forked from, and the last event that both share."""

    name: str
    parent: str = ""
    at: str = ""


def branches(events: Iterable[Event]) -> dict[str, Branch]:
    """Return the branches of a log by name; the trunk has an empty name, and the first fork of a name counts.

    A branch whose first event is not preceded by its fork shares no events with a parent.
    """
    found = {"": Branch("")}
    for event in events:
        match event.record.get("fork"):
            case {"branch": str(name), "from": str(parent), "at": str(at)} if event.kind == "fork":
                found.setdefault(name, Branch(name, parent, at))
        if event.branch not in found:
            found[event.branch] = Branch(event.branch)
    return found


def history(events: Sequence[Event], branch: str = "", *, parents: bool = True) -> list[Event]:
    """Return the events of a branch: its parent's up to the fork, then its own; SessionNotFoundError if it is unknown.

    Without `parents`, only its own.
    """
    if not any("branch" in event.record or event.kind == "fork" for event in events):
        if branch:
            raise SessionNotFoundError(branch)
        return list(events)
    known = branches(events)
    if branch not in known:
        raise SessionNotFoundError(branch)
    positions = {event.id: position for position, event in enumerate(events)}
    ends, end = {branch: len(events)}, len(events)  # the last position that belongs to the history, by branch
    while parents and branch and (fork := known[branch]).parent in known and fork.parent not in ends:
        end = min(end, positions.get(fork.at, -1))
        branch = fork.parent
        ends[branch] = end
    return [event for position, event in enumerate(events) if position <= ends.get(event.branch, -1)]


def parse_conditions(where: Iterable[Any]) -> list[Condition]:
    """Return conditions on metadata; InvalidSearchError if one is not valid."""
    return [Condition.make(given) for given in where]


def filter_events(events: Iterable[Event], conditions: Sequence[Condition]) -> list[Event]:
    """Return the events whose metadata, role, kind or time meet every condition."""
    if not conditions:
        return list(events)
    return [event for event in events if all(condition.matches_values(event.facts) for condition in conditions)]


def page(found: list[T], limit: int | None, offset: int) -> list[T]:
    """Return at most `limit` items from `offset` on; InvalidSearchError if one is not a whole number from 0."""
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and not is_int(value, 0):
            raise InvalidSearchError(name, f"{short_repr(value)} is not a whole number from 0")
    return found[offset:] if limit is None else found[offset : offset + limit]


def last_state(events: Sequence[Event], name: str) -> Event | None:
    """Return the last state event with this name, or None."""
    found = (event for event in reversed(events) if event.kind == "state" and event.record.get("name", "") == name)
    return next(found, None)
