"""Flat headers, read in one pass: plain `key: value` lines, and block lists. Pure.

What a plain scalar stands for, and what a known key may hold, is the same for every header.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from memfs.errors import InvalidMemoryError, shown
from memfs.model import LIST_KEYS, TEXT_KEYS, TIME_KEYS, as_time

MAX_FLAT = 3000  # characters: a longer header goes the slow way, which counts its values
MAX_LINES = 4096
_CHARS = r"[^\x00-\x20\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff:#]+"
_QUOTED = r"\"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff\"\\]*\""
_FLAT_VALUE = rf"(?:{_QUOTED}|(?=[\w/(.+$]){_CHARS}(?:(?: +|:){_CHARS})*)"
_FLAT_LINE = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,99}}:(?: {_FLAT_VALUE})?")
_FLAT_ITEM = re.compile(rf"  -(?: {_FLAT_VALUE})?")
_BEGUN = object()  # the value of a key that nothing follows, perhaps a list
_OUR_ID = re.compile(r"id: m-[0-9a-z]{26}")
_OUR_TIME = re.compile(r"created: [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(\.[0-9]{1,30}(?:[eE][-+]?[0-9]{1,2})?)?")
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NULLS = frozenset(word for word, value in _WORDS.items() if value is None)
_WANTS_TEXT = TEXT_KEYS | LIST_KEYS | TIME_KEYS
_LINES: dict[str, tuple[str, Any]] = {}  # what lines say: one is often one of many like it


def read_flat(header: str) -> dict[str, Any] | None:
    """Read a flat header; None if it is not one, or a value does not fit."""
    if "\r\n" in header:
        header = header.replace("\r\n", "\n")
    if len(header) > MAX_FLAT or not header.endswith("\n"):
        return None
    values: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    empty: list[str] = []
    last = ""
    try:
        for line in header[:-1].split("\n"):
            key, value = _LINES.get(line) or _read_line(line)
            if not key:
                if last not in lists:
                    if values[last] is not _BEGUN:
                        return None
                    values[last] = lists[last] = []
                lists[last].append(value[last in _WANTS_TEXT])
                continue
            if key in values:
                return None
            values[key] = value
            last = key
            if value is None or value is _BEGUN:
                empty.append(key)
    except (InvalidMemoryError, KeyError, ValueError):
        return None
    for name, items in lists.items():
        if name in LIST_KEYS:  # whose items are texts
            values[name] = tuple([item for item in items if item])
        elif name in CHECKS:
            return None
    for name in empty:
        if values[name] is None or values[name] is _BEGUN:
            del values[name]
    return values


def _read_line(line: str) -> tuple[str, Any]:
    """Read one line: a key and its value; of an item of a list no key, and its value by whether the list wants texts.

    What it says is kept in `_LINES`, unless it is hardly ever twice the same.
    """
    if line[:6] == "id: m-" and _OUR_ID.fullmatch(line):
        return "id", line[4:]
    if line[:9] == "created: " and _OUR_TIME.fullmatch(line):
        return "created", datetime.fromisoformat(line[9:])
    said = _read_item(line) if line[:3] == "  -" else _read_pair(line)
    if len(_LINES) >= MAX_LINES:
        _LINES.clear()
    _LINES[line] = said
    return said


def _read_pair(line: str) -> tuple[str, Any]:
    if not _FLAT_LINE.fullmatch(line):
        raise ValueError(line)
    key, _, text = line.partition(":")
    if not text:
        return key, _BEGUN
    value = text[2:-1] if text[1:2] == '"' else resolve(key, text[1:])
    return key, CHECKS[key](key, value) if value is not None and key in CHECKS else value


def _read_item(line: str) -> tuple[str, Any]:
    if not _FLAT_ITEM.fullmatch(line):
        raise ValueError(line)
    if line[4:5] == '"':
        return "", (line[5:-1], line[5:-1])
    return "", (resolve("", line[4:]), resolve("tags", line[4:]))


def resolve(key: str, plain: str) -> Any:
    """Give a plain scalar its YAML 1.2 value; a key that wants text or a time keeps the text."""
    if key in _WANTS_TEXT:
        return None if plain in _NULLS else plain
    if plain in _WORDS:
        return _WORDS[plain]
    if found := NUMBER.fullmatch(plain):
        return float(plain) if found[1] else int(plain)
    return plain


# --- known keys ---------------------------------------------------------------------------------------


def _check_text(key: str, value: Any) -> str:
    if isinstance(value, str) and (value or key != "id"):
        return value
    raise InvalidMemoryError(key, f"{shown(value)} is not a text")


def _check_time(key: str, value: Any) -> date:
    try:
        return as_time(value)
    except (ValueError, OverflowError):
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidMemoryError(key, f"{shown(value)} is not {allowed}") from None


def _check_list(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        texts = [value] if key == "supersedes" else value.split(",")
        return tuple(text.strip() for text in texts if text.strip())
    if isinstance(value, list | tuple) and all(isinstance(item, str) or item is None for item in value):
        return tuple([item for item in value if item])
    raise InvalidMemoryError(key, f"{shown(value)} is not a list of texts")


def _check_flag(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidMemoryError(key, f"{shown(value)} is not true or false")


def _check_importance(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10:
        return value
    raise InvalidMemoryError(key, f"{shown(value)} is not a whole number from 1 to 10")


CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(TEXT_KEYS, _check_text),
    **dict.fromkeys(TIME_KEYS, _check_time),
    **dict.fromkeys(LIST_KEYS, _check_list),
    "pinned": _check_flag,
    "importance": _check_importance,
}
