"""Flat headers, read in one pass: plain `key: value` lines, and block lists. Pure.

What a plain scalar stands for, and what a known key may hold, is the same for every header.
"""

import re
from datetime import datetime
from typing import Any, TypeVar

from memfs.errors import InvalidMemoryError
from memfs.format.header_schema import KEY_CHECKS, LIST_KEYS, resolve_plain_scalar

T = TypeVar("T")
MAX_FLAT_CHARS = 3000  # characters: a longer header goes the slow way, which counts its values
MAX_CACHED = 4096
_CHARS = r"[^\x00-\x20\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff:#]+"
_QUOTED = r"\"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff\"\\]*\""
_FLAT_VALUE = rf"(?:{_QUOTED}|(?=[\w/(.+$]){_CHARS}(?:(?: +|:){_CHARS})*)"
_FLAT_LINE = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,99}}:(?: {_FLAT_VALUE})?")
_FLAT_ITEM = re.compile(rf"  -(?: {_FLAT_VALUE})?")
_ITEM_MARK = "\0"  # before an item of a list, in place of the newline
_CREATED_LINE_LENGTH = len("created: 2026-11-15T10:30:00Z")
_UNIQUE_KEYS = frozenset({"id", "created"})  # hardly ever those of two memories
PARSE_ERRORS = (InvalidMemoryError, ValueError)
_entry_cache: dict[str, tuple[str, Any]] = {}  # what entries say: one is often one of many like it
_item_cache: dict[str, tuple[Any, Any]] = {}  # and items of lists


def parse_flat_header(header: str) -> dict[str, Any] | None:
    """Read a flat header; None if it is not one, or a value does not fit."""
    entries = split_entries(header)
    if entries is None:
        return None
    values: dict[str, Any] = {}
    try:
        for entry in entries:
            key, value = _entry_cache.get(entry) or _parse_and_cache(entry)
            values[key] = value
    except PARSE_ERRORS:
        return None
    return without_nulls(values) if len(values) == len(entries) else None


def without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """The values without the keys that have none."""
    return {key: value for key, value in values.items() if value is not None} if None in values.values() else values


def split_entries(header: str) -> list[str] | None:
    """Cut a header into entries, each a key and what belongs to it; None if it is surely not flat."""
    if "\r\n" in header:
        header = header.replace("\r\n", "\n")
    if len(header) > MAX_FLAT_CHARS or header[-1:] != "\n" or _ITEM_MARK in header:
        return None
    entries = header.replace("\n  -", _ITEM_MARK + "  -").split("\n")
    entries.pop()  # nothing follows the last newline
    return entries


def parse_entry(entry: str) -> tuple[str, Any]:
    """Read one entry: a key and its value, None if it has none. One of `UNFIT` if it is not flat, or does not fit."""
    if _ITEM_MARK in entry:
        return _parse_list(entry)
    if entry[:6] == "id: m-" and entry.isascii() and entry[6:].isalnum():
        return "id", entry[4:]
    if entry[:9] == "created: " and len(entry) == _CREATED_LINE_LENGTH and entry[19] == "T" and entry[-1] == "Z":
        return "created", datetime.fromisoformat(entry[9:])
    return _parse_pair(entry)


def _parse_and_cache(entry: str) -> tuple[str, Any]:
    said = parse_entry(entry)
    return cache_parsed(_entry_cache, entry, said) if is_cacheable(*said) else said


def is_cacheable(key: str, value: object) -> bool:
    """Tell whether what an entry says is kept: it may be said again, and nobody can change it."""
    return key not in _UNIQUE_KEYS and not isinstance(value, list)


def cache_parsed(known: dict[str, T], text: str, said: T) -> T:
    """Keep what a text says, among not too many others."""
    if len(known) >= MAX_CACHED:
        known.clear()
    known[text] = said
    return said


def _parse_list(entry: str) -> tuple[str, list[Any] | tuple[str, ...]]:
    """Read a list, which is one of texts where its key has one of them."""
    line, *lines = entry.split(_ITEM_MARK)
    key, value = _entry_cache.get(line) or _parse_and_cache(line)
    if value is not None or line[-1] != ":":
        raise ValueError(entry)
    items = [_item_cache.get(line) or _parse_item(line) for line in lines]
    if key in LIST_KEYS:
        return key, tuple([text for _, text in items if text])
    if key in KEY_CHECKS:
        raise ValueError(entry)
    return key, [value for value, _ in items]


def _parse_pair(line: str) -> tuple[str, Any]:
    if not _FLAT_LINE.fullmatch(line):
        raise ValueError(line)
    key, _, text = line.partition(":")
    if not text:
        return key, None
    value = text[2:-1] if text[1:2] == '"' else resolve_plain_scalar(key, text[1:])
    return key, KEY_CHECKS[key](key, value) if value is not None and key in KEY_CHECKS else value


def _parse_item(line: str) -> tuple[Any, Any]:
    """Read an item of a list: its value, and its value where it is to be a text."""
    if not _FLAT_ITEM.fullmatch(line):
        raise ValueError(line)
    if line[4:5] == '"':
        return cache_parsed(_item_cache, line, (line[5:-1], line[5:-1]))
    return cache_parsed(_item_cache, line, (resolve_plain_scalar("", line[4:]), resolve_plain_scalar("tags", line[4:])))
