"""Event: one line of a session log as a value, and the format of its times. Pure.

A line is a JSON object. The first line is the header, which names the owner of the log. Each other line is an event: it
has an `id`, a `time` and one of `message`, `state`, `payload`, `fork` and `removed`. line_encoder writes lines,
log_parser reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

from memfs.agent.messages import Message
from memfs.data_types import as_time
from memfs.ids import is_id, unix_milliseconds

SCHEMA_VERSION = 1
EVENT_ID_KIND = "e"  # the first part of an event id
MAX_LINE_BYTES = 32 * 1024 * 1024
EVENT_KINDS = ("message", "state", "payload", "fork", "removed")
RESERVED_KEYS = frozenset({*EVENT_KINDS, "memfs", "id", "time", "metadata", "branch", "redacted"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Event(NamedTuple):
    """One line of a log: a message, a state, a custom payload, a fork, or the placeholder of a removed event."""

    id: str
    kind: str
    record: dict[str, Any]  # the line

    @property
    def time(self) -> datetime:
        """The time of the event; the earliest datetime if the line has no valid one."""
        return parse_time(self.record.get("time"))

    @property
    def message(self) -> Message:
        """The message; empty for events of other kinds."""
        found: Message = self.record.get("message", _EMPTY)
        return found

    @property
    def role(self) -> str:
        """The role of the speaker; empty if the event has none, or several."""
        return str(self.message.get("role") or self.record.get("role") or _payload_role(self.record.get("payload")))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata; empty if the line has none."""
        found = self.record.get("metadata")
        return found if isinstance(found, dict) else _EMPTY

    @property
    def branch(self) -> str:
        """The name of its branch; empty for the trunk."""
        return str(self.record.get("branch", ""))

    @property
    def is_redacted(self) -> bool:
        """Whether another message replaced the original one."""
        return "redacted" in self.record

    @property
    def facts(self) -> Mapping[str, Any]:
        """The values that a filter can test: id, kind, role, time and branch, and metadata, which takes precedence."""
        own = {"id": self.id, "kind": self.kind, "role": self.role, "time": self.time, "branch": self.branch}
        return {**own, **self.metadata}


def _payload_role(payload: object) -> str:
    """Return the one role in a payload of AgentCore's form, or an empty text."""
    parts = [part.get("conversational") for part in payload if type(part) is dict] if type(payload) is list else ()
    roles = {str(part.get("role", "")).lower() for part in parts if type(part) is dict}
    return roles.pop() if len(roles) == 1 else ""


new_event: Callable[[tuple[str, str, dict[str, Any]]], Event]
new_event = partial(tuple.__new__, Event)  # the same as Event(), but cheaper: it is called for every line


def is_erased(event: Event) -> bool:
    """Return whether the original content of an event was removed or redacted."""
    return event.kind == "removed" or event.is_redacted


def last_id(events: Sequence[Event]) -> str:
    """Return the last id that memfs generated, given events in order; empty if there is none."""
    return next((event.id for event in reversed(events) if is_id(event.id, EVENT_ID_KIND)), "")


def parse_time(value: object) -> datetime:
    """Return a time of a log; the earliest datetime if the value is not a time."""
    with suppress(ValueError, OverflowError):
        found = as_time(value)
        return found if isinstance(found, datetime) else datetime(found.year, found.month, found.day, tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)


def format_time(time: datetime) -> str:
    """Return a time as memfs writes it in a log."""
    return format_milliseconds(unix_milliseconds(time))


def format_milliseconds(time: int) -> str:
    """Return the text of a time given in milliseconds since 1970."""
    return f"{_format_second(time // 1000)}.{str(1000 + time % 1000)[1:]}Z"


@lru_cache(maxsize=1)
def _format_second(time: int) -> str:
    """Return the text of a second; cached, because many events share it."""
    return (_EPOCH + timedelta(seconds=time)).isoformat()[:19]
