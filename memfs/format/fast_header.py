"""Flat headers, read in one pass: plain `key: value` lines, and block lists. Pure.

What a plain scalar stands for, and what a known key may hold, is the same for every header.
"""

import re
from datetime import datetime
from typing import Any, TypeVar

from memfs.errors import InvalidMemoryError
from memfs.format.header_schema import CHECKS, LIST_KEYS, resolve

T = TypeVar("T")
MAX_FLAT = 3000  # characters: a longer header goes the slow way, which counts its values
MAX_KNOWN = 4096
_CHARS = r"[^\x00-\x20\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff:#]+"
_QUOTED = r"\"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff\"\\]*\""
_FLAT_VALUE = rf"(?:{_QUOTED}|(?=[\w/(.+$]){_CHARS}(?:(?: +|:){_CHARS})*)"
_FLAT_LINE = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,99}}:(?: {_FLAT_VALUE})?")
_FLAT_ITEM = re.compile(rf"  -(?: {_FLAT_VALUE})?")
_NEXT = "\0"  # before an item of a list, in place of the newline
_OUR_TIME = len("created: 2026-11-15T10:30:00Z")
_UNLIKE = frozenset({"id", "created"})  # hardly ever those of two memories
UNFIT = (InvalidMemoryError, ValueError)
_KNOWN: dict[str, tuple[str, Any]] = {}  # what entries say: one is often one of many like it
_ITEMS: dict[str, tuple[Any, Any]] = {}  # and items of lists


def read_flat(header: str) -> dict[str, Any] | None:
    """Read a flat header; None if it is not one, or a value does not fit."""
    entries = entries_of(header)
    if entries is None:
        return None
    values: dict[str, Any] = {}
    try:
        for entry in entries:
            key, value = _KNOWN.get(entry) or _remembered(entry)
            values[key] = value
    except UNFIT:
        return None
    return settled(values) if len(values) == len(entries) else None


def settled(values: dict[str, Any]) -> dict[str, Any]:
    """The values without the keys that have none."""
    return {key: value for key, value in values.items() if value is not None} if None in values.values() else values


def entries_of(header: str) -> list[str] | None:
    """Cut a header into entries, each a key and what belongs to it; None if it is surely not flat."""
    if "\r\n" in header:
        header = header.replace("\r\n", "\n")
    if len(header) > MAX_FLAT or header[-1:] != "\n" or _NEXT in header:
        return None
    entries = header.replace("\n  -", _NEXT + "  -").split("\n")
    entries.pop()  # nothing follows the last newline
    return entries


def read_entry(entry: str) -> tuple[str, Any]:
    """Read one entry: a key and its value, None if it has none. One of `UNFIT` if it is not flat, or does not fit."""
    if _NEXT in entry:
        return _read_list(entry)
    if entry[:6] == "id: m-" and entry.isascii() and entry[6:].isalnum():
        return "id", entry[4:]
    if entry[:9] == "created: " and len(entry) == _OUR_TIME and entry[19] == "T" and entry[-1] == "Z":
        return "created", datetime.fromisoformat(entry[9:])
    return _read_pair(entry)


def _remembered(entry: str) -> tuple[str, Any]:
    said = read_entry(entry)
    return keep(_KNOWN, entry, said) if is_kept(*said) else said


def is_kept(key: str, value: object) -> bool:
    """Tell whether what an entry says is kept: it may be said again, and nobody can change it."""
    return key not in _UNLIKE and not isinstance(value, list)


def keep(known: dict[str, T], text: str, said: T) -> T:
    """Keep what a text says, among not too many others."""
    if len(known) >= MAX_KNOWN:
        known.clear()
    known[text] = said
    return said


def _read_list(entry: str) -> tuple[str, list[Any] | tuple[str, ...]]:
    """Read a list, which is one of texts where its key has one of them."""
    line, *lines = entry.split(_NEXT)
    key, value = _KNOWN.get(line) or _remembered(line)
    if value is not None or line[-1] != ":":
        raise ValueError(entry)
    items = [_ITEMS.get(line) or _read_item(line) for line in lines]
    if key in LIST_KEYS:
        return key, tuple([text for _, text in items if text])
    if key in CHECKS:
        raise ValueError(entry)
    return key, [value for value, _ in items]


def _read_pair(line: str) -> tuple[str, Any]:
    if not _FLAT_LINE.fullmatch(line):
        raise ValueError(line)
    key, _, text = line.partition(":")
    if not text:
        return key, None
    value = text[2:-1] if text[1:2] == '"' else resolve(key, text[1:])
    return key, CHECKS[key](key, value) if value is not None and key in CHECKS else value


def _read_item(line: str) -> tuple[Any, Any]:
    """Read an item of a list: its value, and its value where it is to be a text."""
    if not _FLAT_ITEM.fullmatch(line):
        raise ValueError(line)
    if line[4:5] == '"':
        return keep(_ITEMS, line, (line[5:-1], line[5:-1]))
    return keep(_ITEMS, line, (resolve("", line[4:]), resolve("tags", line[4:])))
