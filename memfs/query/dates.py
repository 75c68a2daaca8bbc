"""Dates and times as moments, which filters compare and the index stores. Pure.

A moment is a number of microseconds since 1970-01-01, UTC. A date covers all moments of its day.
"""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

from memfs.data_types import as_time
from memfs.errors import InvalidSearchError
from memfs.query.typed_values import shown_value

DAY_MICROSECONDS = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
TimeSpan = str | date | tuple[str | date | None, str | date | None] | None


def to_moment(when: date) -> int:
    """Return the moment of a time, or the first moment of a date."""
    if not isinstance(when, datetime):
        return (when.toordinal() - EPOCH.toordinal()) * DAY_MICROSECONDS
    return (when - EPOCH) // MICROSECOND


def moment_range(value: object, subject: str = "") -> tuple[int, int] | None:
    """Return the first and the last moment of a date or time; both are the same for a time.

    Return None for any other value, or raise InvalidSearchError about `subject` if that is given.
    """
    with suppress(ValueError, OverflowError):
        if not isinstance(value, str) or value[4:5] == "-":  # some long numbers parse as times
            time = as_time(
                value.upper() if isinstance(value, str) else value
            )  # a tag is indexed with a lower-case t and z
            return to_moment(time), to_moment(time) + (0 if isinstance(time, datetime) else DAY_MICROSECONDS - 1)
    if subject:
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidSearchError(subject, f"{shown_value(value)} is not {allowed}")
    return None


def parse_span(subject: str, value: TimeSpan) -> tuple[int | None, int | None, str]:
    """Parse "A..B", "A..", "..B", "A" or a pair: return the first moment, the last moment and a text for messages.

    An open end is None; so are both ends of None. Raises InvalidSearchError about `subject`.
    """
    low: Any = value
    high: Any = value
    if isinstance(value, str) and ".." in value:
        low, high = (end.strip() or None for end in value.split("..", 1))
    elif isinstance(value, tuple | list):
        if len(value) != 2:
            raise InvalidSearchError(subject, f"{shown_value(value)} is not a pair (from, to)")
        low, high = value
    first = None if low is None else moment_range(low, subject)
    last = None if high is None else moment_range(high, subject)
    if first and last and first[0] > last[1]:
        raise InvalidSearchError(subject, f"{low} is after {high}")
    return first and first[0], last and last[1], str(value) if low is value else f"{low or ''}..{high or ''}"
