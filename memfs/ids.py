"""Ids of memories and session events: a letter for the kind, and a ULID, so that ids sort by time."""

import os
import re
from datetime import UTC, datetime, timedelta

_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = re.compile(f"[a-z]-[0-7][{_BASE32}]{{25}}")
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_BYTE_TO_BASE32 = (_BASE32 * 8).encode()  # maps a random byte to the digit of its lower five bits


def new_id(now: datetime, *, kind: str = "m", after: str = "") -> str:
    """Return a new id that sorts behind the id `after`, unless that is the greatest possible id.

    It is `m-` (or another `kind`) and a ULID: 48 bits of milliseconds and 80 random bits, in lower-case base32.
    """
    return id_at_milliseconds(unix_milliseconds(now), kind, after)


def unix_milliseconds(time: datetime) -> int:
    """Return the milliseconds from 1970 to a time; a time without a zone is local."""
    return ((time if time.tzinfo else time.astimezone(UTC)) - _EPOCH) // _MILLISECOND


def id_at_milliseconds(time: int, kind: str, after: str) -> str:
    """Return a new id as `new_id` does, for a time in Unix milliseconds."""
    time = max(time, 0)
    first = f"{_PAIRS[time >> 40]}{_PAIRS[time >> 30 & 1023]}{_PAIRS[time >> 20 & 1023]}"
    random_part = os.urandom(16).translate(_BYTE_TO_BASE32).decode()
    created = f"{kind}-{first}{_PAIRS[time >> 10 & 1023]}{_PAIRS[time & 1023]}{random_part}"
    return created if created > after else _next_id(after) or created


def _next_id(previous: str) -> str:
    """Return the first id that sorts behind `previous`; empty if there is none."""
    head = previous.rstrip("z")
    if head[2:] == "7":  # the greatest ULID: 7 and then only z
        return ""
    return f"{head[:-1]}{_BASE32[_BASE32.index(head[-1]) + 1]}{'0' * (len(previous) - len(head))}"


def is_id(text: object, kind: str) -> bool:
    """Return whether `text` is an id of this kind, in the form that `new_id` returns."""
    return isinstance(text, str) and text[:2] == f"{kind}-" and _ID.fullmatch(text) is not None
