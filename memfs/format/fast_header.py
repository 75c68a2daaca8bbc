"""A one-pass parser of flat headers: `key: value` lines and block lists of scalars. Pure.

It returns the values that the YAML parser of `frontmatter` returns, or None for a header that it does not support.
"""

import re
from datetime import datetime
from typing import Any, TypeVar

from memfs.errors import InvalidMemoryError
from memfs.format.header_schema import KEY_CHECKS, LIST_KEYS, resolve_plain_scalar

T = TypeVar("T")
MAX_FLAT_CHARS = 3000  # a longer header is left to the YAML parser, which limits the number of values
MAX_CACHED = 4096  # entries per cache; a full cache is cleared
# a value is a double-quoted text without escapes, or a plain scalar without '#' and with ':' only inside a word
_CHARS = r"[^\x00-\x20\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff:#]+"
_QUOTED = r"\"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff\"\\]*\""
_FLAT_VALUE = rf"(?:{_QUOTED}|(?=[\w/(.+$]){_CHARS}(?:(?: +|:){_CHARS})*)"
_FLAT_LINE = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,99}}:(?: {_FLAT_VALUE})?")
_FLAT_ITEM = re.compile(rf"  -(?: {_FLAT_VALUE})?")
_ITEM_MARK = "\0"  # replaces the newline before an item of a list
_CREATED_LINE_LENGTH = len("created: 2026-11-15T10:30:00Z")
_UNIQUE_KEYS = frozenset({"id", "created"})  # two memories hardly ever share a value, so caching it is useless
PARSE_ERRORS = (InvalidMemoryError, ValueError)  # raised for an entry that is not flat, or not valid
_entry_cache: dict[str, tuple[str, Any]] = {}  # text of an entry -> key and value: many memories share entries
_item_cache: dict[str, tuple[Any, Any]] = {}  # text of a list item -> what _parse_item returns for it


def parse_flat_header(header: str) -> dict[str, Any] | None:
    """Parse a flat header; return None if it is not flat, has a key twice, or the value of a known key is not valid."""
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
    """Return the values without the keys whose value is None."""
    return {key: value for key, value in values.items() if value is not None} if None in values.values() else values


def split_entries(header: str) -> list[str] | None:
    """Split a header into entries, each a key with its value or list; return None if it is certainly not flat."""
    if "\r\n" in header:
        header = header.replace("\r\n", "\n")
    if len(header) > MAX_FLAT_CHARS or header[-1:] != "\n" or _ITEM_MARK in header:
        return None
    entries = header.replace("\n  -", _ITEM_MARK + "  -").split("\n")
    entries.pop()  # nothing follows the last newline
    return entries


def parse_entry(entry: str) -> tuple[str, Any]:
    """Return the key and the value of an entry; the value is None if there is none.

    Raises one of PARSE_ERRORS if the entry is not flat, or the value of a known key is not valid.
    """
    if _ITEM_MARK in entry:
        return _parse_list(entry)
    if entry[:6] == "id: m-" and entry.isascii() and entry[6:].isalnum():
        return "id", entry[4:]
    if entry[:9] == "created: " and len(entry) == _CREATED_LINE_LENGTH and entry[19] == "T" and entry[-1] == "Z":
        return "created", datetime.fromisoformat(entry[9:])
    return _parse_pair(entry)


def _parse_and_cache(entry: str) -> tuple[str, Any]:
    parsed = parse_entry(entry)
    return cache_parsed(_entry_cache, entry, parsed) if is_cacheable(*parsed) else parsed


def is_cacheable(key: str, value: object) -> bool:
    """Return whether a parsed entry is worth caching, and safe to share: it may occur again, and is immutable."""
    return key not in _UNIQUE_KEYS and not isinstance(value, list)


def cache_parsed(cache: dict[str, T], text: str, parsed: T) -> T:
    """Add the parsed form of a text to a cache of limited size, and return it."""
    if len(cache) >= MAX_CACHED:
        cache.clear()
    cache[text] = parsed
    return parsed


def _parse_list(entry: str) -> tuple[str, list[Any] | tuple[str, ...]]:
    """Return the key and the items of a list; they are texts if the key is one of LIST_KEYS."""
    key_line, *lines = entry.split(_ITEM_MARK)
    key, value = _entry_cache.get(key_line) or _parse_and_cache(key_line)
    if value is not None or key_line[-1] != ":":
        raise ValueError(entry)
    items = [_item_cache.get(line) or _parse_item(line) for line in lines]
    if key in LIST_KEYS:
        return key, tuple([text for _, text in items if text])
    if key in KEY_CHECKS:
        raise ValueError(entry)
    return key, [value for value, _ in items]


def _parse_pair(line: str) -> tuple[str, Any]:
    """Return the key and the value of a line `key: value`."""
    if not _FLAT_LINE.fullmatch(line):
        raise ValueError(line)
    key, _, text = line.partition(":")
    if not text:
        return key, None
    value = text[2:-1] if text[1:2] == '"' else resolve_plain_scalar(key, text[1:])
    return key, KEY_CHECKS[key](key, value) if value is not None and key in KEY_CHECKS else value


def _parse_item(line: str) -> tuple[Any, Any]:
    """Return the YAML value of a list item, and its value in a list of texts."""
    if not _FLAT_ITEM.fullmatch(line):
        raise ValueError(line)
    if line[4:5] == '"':
        return cache_parsed(_item_cache, line, (line[5:-1], line[5:-1]))
    return cache_parsed(_item_cache, line, (resolve_plain_scalar("", line[4:]), resolve_plain_scalar("tags", line[4:])))
