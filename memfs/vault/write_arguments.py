"""Checks of the arguments that the writing methods of a vault take: header keys and stamps."""

from collections.abc import Mapping
from typing import Any

from memfs.data_types import Stamp
from memfs.errors import InvalidMemoryError, short_repr


def merge_header(header: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of `header` and the keyword arguments `keys` as one mapping.

    Raises InvalidMemoryError if `header` is not a mapping with text keys, or if a key is given in both ways.
    """
    if not isinstance(header, Mapping):
        error = InvalidMemoryError("header", f"{short_repr(header)} is not a mapping of header keys")
        raise error.with_hint('Give a mapping; a key that is called "header" is header={"header": ...}.')
    for key in header:
        if not isinstance(key, str):
            raise InvalidMemoryError(short_repr(key), "a header key is a text")
        if key in keys:
            error = InvalidMemoryError(key, "is given twice: in `header` and as a keyword argument")
            raise error.with_hint("Give the key once, in `header` or as a keyword argument.")
    return {**header, **keys}


def parse_seen(seen: Stamp | str | None) -> Stamp | None:
    """Return `seen` as a stamp, or None. Raises InvalidMemoryError if a text is not a stamp."""
    if not isinstance(seen, str):
        return seen
    try:
        return Stamp.parse(seen)
    except ValueError:
        raise InvalidMemoryError("seen", f"{seen!r} is not a stamp") from None
