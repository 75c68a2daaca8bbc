"""Ids of memories and events: a kind letter and a ULID, which sorts by time. Pure."""

import os
import re
from datetime import UTC, datetime, timedelta

_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_ID = re.compile(f"[a-z]-[0-7][{_BASE32}]{{25}}")
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_SIGNS = (_BASE32 * 8).encode()  # of a byte: five bits of it


def new_id(now: datetime, *, kind: str = "m", after: str = "") -> str:
    """`m-` and a ULID: 48 bits of milliseconds, 80 of chance, in lower-case base32; it sorts behind the id `after`."""
    return id_at_milliseconds(unix_milliseconds(now), kind, after)


def unix_milliseconds(time: datetime) -> int:
    """The milliseconds from 1970 to a time."""
    return ((time if time.tzinfo else time.astimezone(UTC)) - _EPOCH) // _MILLISECOND


def id_at_milliseconds(time: int, kind: str, after: str) -> str:
    """The id that `new_id` makes, at so many milliseconds."""
    time = max(time, 0)
    first = f"{_PAIRS[time >> 40]}{_PAIRS[time >> 30 & 1023]}{_PAIRS[time >> 20 & 1023]}"
    made = f"{kind}-{first}{_PAIRS[time >> 10 & 1023]}{_PAIRS[time & 1023]}{os.urandom(16).translate(_SIGNS).decode()}"
    return made if made > after else _next_id(after) or made


def _next_id(name: str) -> str:
    """The first id that sorts behind one; empty if there is none."""
    head = name.rstrip("z")
    if head[2:] == "7":
        return ""
    return f"{head[:-1]}{_BASE32[_BASE32.index(head[-1]) + 1]}{'0' * (len(name) - len(head))}"


def is_id(text: object, kind: str) -> bool:
    """Tell whether this is an id that `new_id` may have made."""
    return isinstance(text, str) and text[:2] == f"{kind}-" and _ID.fullmatch(text) is not None
