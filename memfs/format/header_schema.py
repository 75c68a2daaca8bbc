"""The schema of a header: its known keys, the values each may have, and the types of plain YAML scalars. Pure."""

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from memfs.data_types import as_time
from memfs.errors import InvalidMemoryError, short_repr

TEXT_KEYS = frozenset({"id", "type", "title", "description", "source", "status"})
LIST_KEYS = frozenset({"tags", "aliases", "supersedes"})
TIME_KEYS = frozenset({"created", "updated", "expires", "valid_from", "valid_until"})
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(\.[0-9]{1,30}(?:[eE][-+]?[0-9]{1,2})?)?")
_PLAIN_CONSTANTS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NULLS = frozenset(word for word, value in _PLAIN_CONSTANTS.items() if value is None)
_STRING_TYPED_KEYS = TEXT_KEYS | LIST_KEYS | TIME_KEYS


def resolve_plain_scalar(key: str, plain: str) -> Any:
    """Return the YAML 1.2 value of a plain scalar; for keys of texts, lists and times, the text itself or None."""
    if key in _STRING_TYPED_KEYS:
        return None if plain in _NULLS else plain
    if plain in _PLAIN_CONSTANTS:
        return _PLAIN_CONSTANTS[plain]
    if found := NUMBER_PATTERN.fullmatch(plain):
        return float(plain) if found[1] else int(plain)
    return plain


def _check_text(key: str, value: Any) -> str:
    if isinstance(value, str) and (value or key != "id"):
        return value
    raise InvalidMemoryError(key, f"{short_repr(value)} is not a text")


def _check_time(key: str, value: Any) -> date:
    try:
        return as_time(value)
    except (ValueError, OverflowError):
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidMemoryError(key, f"{short_repr(value)} is not {allowed}") from None


def _check_list(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        texts = [value] if key == "supersedes" else value.split(",")  # a reference may contain a comma
        return tuple(text.strip() for text in texts if text.strip())
    if isinstance(value, list | tuple) and all(isinstance(item, str) or item is None for item in value):
        return tuple([item for item in value if item])
    raise InvalidMemoryError(key, f"{short_repr(value)} is not a list of texts")


def _check_flag(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidMemoryError(key, f"{short_repr(value)} is not true or false")


def _check_importance(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10:
        return value
    raise InvalidMemoryError(key, f"{short_repr(value)} is not a whole number from 1 to 10")


# Each takes the key and a value, and returns the typed value or raises InvalidMemoryError.
KEY_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(TEXT_KEYS, _check_text),
    **dict.fromkeys(TIME_KEYS, _check_time),
    **dict.fromkeys(LIST_KEYS, _check_list),
    "pinned": _check_flag,
    "importance": _check_importance,
}
