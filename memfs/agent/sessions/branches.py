"""History: which events of a log a branch has, and which of them were asked for. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from memfs.agent.sessions.events import Event
from memfs.errors import InvalidSearchError, SessionNotFoundError, short_repr
from memfs.query.filter_operators import Condition

T = TypeVar("T")
SPOKEN = ("message", "payload")  # the kinds of events that a conversation is made of


class Branch(NamedTuple):
    """A way on from an event: its name, the branch it left, and the last event that both have."""

    name: str
    parent: str = ""
    at: str = ""


def branches(events: Iterable[Event]) -> dict[str, Branch]:
    """The branches of a log by name, the first fork of a name counting; the trunk is the one without a name."""
    found = {"": Branch("")}
    for event in events:
        match event.record.get("fork"):
            case {"branch": str(name), "from": str(parent), "at": str(at)} if event.kind == "fork":
                found.setdefault(name, Branch(name, parent, at))
        if event.branch not in found:
            found[event.branch] = Branch(event.branch)
    return found


def history(events: Sequence[Event], branch: str = "", *, parents: bool = True) -> list[Event]:
    """The events of a branch: its parent's up to the fork, then its own."""
    if not any("branch" in event.record or event.kind == "fork" for event in events):
        if branch:
            raise SessionNotFoundError(branch)
        return list(events)
    known = branches(events)
    if branch not in known:
        raise SessionNotFoundError(branch)
    places = {event.id: place for place, event in enumerate(events)}
    ends, end = {branch: len(events)}, len(events)
    while parents and branch and (fork := known[branch]).parent in known and fork.parent not in ends:
        end = min(end, places.get(fork.at, -1))
        branch = fork.parent
        ends[branch] = end
    return [event for place, event in enumerate(events) if place <= ends.get(event.branch, -1)]


def conditions(where: Iterable[Any]) -> list[Condition]:
    """Conditions on metadata, checked."""
    return [Condition.make(one) for one in where]


def matching(events: Iterable[Event], wanted: Sequence[Condition]) -> list[Event]:
    """The events whose metadata, role, kind or time fulfil every condition."""
    if not wanted:
        return list(events)
    return [event for event in events if all(one.fulfilled_by(event.facts) for one in wanted)]


def page(found: list[T], limit: int | None, offset: int) -> list[T]:
    """Some of many."""
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise InvalidSearchError(name, f"{short_repr(value)} is not a whole number from 0")
    return found[offset:] if limit is None else found[offset : offset + limit]


def state_of(events: Sequence[Event], name: str) -> Event | None:
    """The last state of this name."""
    found = (one for one in reversed(events) if one.kind == "state" and one.record.get("name", "") == name)
    return next(found, None)
