"""The seams: what the core takes from outside, by shape alone."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time, in UTC."""

    def __call__(self) -> datetime: ...


def system_clock() -> datetime:
    return datetime.now(UTC)
