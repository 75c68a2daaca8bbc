"""Keywords: the exact terms that an index stores for a memory besides its words, and clauses over them. Pure.

A keyword is `key` (the header has the key), `key=value`, or `in=/facts/alice` for each directory above a memory. An
index also stores the times of a memory as moments (see `dates`).
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from memfs.data_types import Header, Memory, is_encrypted_value, modification_time
from memfs.format.fast_header import PARSE_ERRORS, cache_parsed, is_cacheable, parse_entry, split_entries, without_nulls
from memfs.format.header_schema import TIME_KEYS
from memfs.namespace import fold
from memfs.query.dates import to_moment
from memfs.query.typed_values import MAX_KEYWORD_CHARS, value_text

NAME_ONLY_KEYS = TIME_KEYS | {"title", "description"}  # no `key=value`: times are moments, these texts rarely repeat
VALUE_ONLY_KEYS = frozenset({"id", "type", "tags", "importance", "status"})  # no `key`: nearly every memory has them
_ESCAPES = {" ": "\x1fs", "\t": "\x1ft", "\n": "\x1fn", "\f": "\x1ff", "\r": "\x1fr", "\x1f": "\x1f\x1f"}
_UNESCAPES = {escaped: space for space, escaped in _ESCAPES.items()}
_SPACE, _ESCAPED = re.compile("[ \t\n\f\r\x1f]"), re.compile("\x1f.")
_OPTIONAL_TIME_KEYS = ("expires", "valid_from", "valid_until")
_entry_cache: dict[str, tuple[str, Any, str]] = {}  # header entry -> key, value, keywords: many memories share entries


class AnyOf(NamedTuple):
    """Accepts a memory that has at least one of these keywords."""

    terms: tuple[str, ...]


class NoneOf(NamedTuple):
    """Accepts a memory that has none of these keywords."""

    terms: tuple[str, ...]


class Between(NamedTuple):
    """Accepts a memory whose moment is from `low` to `high`, both included, or that lacks the field."""

    field: str
    low: int | None
    high: int | None

    def contains(self, moment: int) -> bool:
        return (self.low is None or self.low <= moment) and (self.high is None or moment <= self.high)


class MatchingValue(NamedTuple):
    """Accepts a memory with a keyword `key=text` whose text `accepts` returns True for; `key` is escaped."""

    key: str
    accepts: Callable[[str], bool]


Clause = AnyOf | NoneOf | Between | MatchingValue


# --- keywords and moments of a memory -----------------------------------------------------------------


def memory_keywords(memory: Memory) -> list[str]:
    """Return the keywords of a memory."""
    return header_keywords(memory.path, memory.header.values)


def header_keywords(path: str, values: Mapping[str, Any]) -> list[str]:
    """Return the keywords of a memory with this path and these header values."""
    keywords = [*_ancestor_keywords(path.rpartition("/")[0]), *_default_keywords(path, values)]
    for key, value in values.items():
        keywords += _entry_keywords(key, value)
    return keywords


def _default_keywords(path: str, values: Mapping[str, Any]) -> list[str]:
    """Return the keywords of the default type, status and id, for those keys that the header lacks."""
    keywords = [] if "type" in values else ["type=note"]
    if "status" not in values:
        keywords.append("status=stable")
    if "id" not in values:
        keywords.append("id=" + value_text(path.removesuffix(".md")))
    return keywords


def _entry_keywords(key: str, value: object) -> Iterable[str]:
    """Return the keywords of a key and its value."""
    if key in NAME_ONLY_KEYS:
        return (key,)
    if key == "id" and isinstance(value, str) and value.isascii():  # unique, so not worth caching
        return ("id=" + value[:MAX_KEYWORD_CHARS],)
    if key == "tags" and isinstance(value, tuple):
        return filter(None, map(_tag_keyword, value))
    return _cached_value_keywords(key, value) if isinstance(value, str | int) else _value_keywords(key, value)


def parse_keywords(path: str, header: str) -> tuple[dict[str, Any], list[str]] | None:
    """Parse a flat header: return its values, and the keywords of a memory with this path and header.

    The keywords are escaped and joined as `join_keywords` does, so one text may be several keywords. Return None for a
    header that is not flat.
    """
    entries = split_entries(header)
    if entries is None:
        return None
    values: dict[str, Any] = {}
    keywords = [_joined_ancestors(path.rpartition("/")[0])]
    try:
        for entry in entries:
            key, value, joined = _entry_cache.get(entry) or _parse_entry(entry)
            values[key] = value
            keywords.append(joined)
    except PARSE_ERRORS:
        return None
    if len(values) != len(entries):  # a key occurs twice
        return None
    if "" in keywords:  # a value is null, or the memory is in the root directory
        values, keywords = without_nulls(values), [*filter(None, keywords)]
    keywords += map(escape_keyword, _default_keywords(path, values))
    return values, keywords


def _parse_entry(entry: str) -> tuple[str, Any, str]:
    """Return the key, the value and the joined keywords of a header entry, cached if others may share it."""
    key, value = parse_entry(entry)
    if key in NAME_ONLY_KEYS:
        return key, value, "" if value is None else key
    parsed = key, value, "" if value is None else join_keywords([*_entry_keywords(key, value)])
    return cache_parsed(_entry_cache, entry, parsed) if is_cacheable(key, value) else parsed


@lru_cache(maxsize=4096)
def _joined_ancestors(directory: str) -> str:
    return join_keywords([*_ancestor_keywords(directory)])


@lru_cache(maxsize=4096)
def _tag_keyword(tag: str) -> str:
    """Return the keyword of a tag, empty for an encrypted one."""
    return "" if is_encrypted_value(tag) else "tags=" + fold(tag)[:MAX_KEYWORD_CHARS]


def _value_keywords(key: str, value: object) -> tuple[str, ...]:
    """Return the keywords of a key and a value of any type."""
    keywords = [] if key in VALUE_ONLY_KEYS else [escape_key(key)]
    if key not in NAME_ONLY_KEYS:
        _add_value_keywords(key, value, keywords)
    return tuple(keywords)


_cached_value_keywords = lru_cache(maxsize=4096, typed=True)(_value_keywords)  # many memories share values


def _add_value_keywords(key: str, value: object, keywords: list[str]) -> None:
    """Append the keywords of a value: of each item of a list, and of each key in a mapping."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if inner is not None:
                keywords.append(escape_key(f"{key}.{name}"))
                _add_value_keywords(f"{key}.{name}", inner, keywords)
    elif isinstance(value, list | tuple):
        for item in value:
            if not isinstance(item, Mapping):
                _add_value_keywords(key, item, keywords)
    elif isinstance(value, str | int | float | date) and not is_encrypted_value(value):
        keywords.append(f"{escape_key(key)}={value_text(value)}")


@lru_cache(maxsize=4096)
def _ancestor_keywords(directory: str) -> tuple[str, ...]:
    return (*_ancestor_keywords(directory.rpartition("/")[0]), "in=/" + fold(directory)) if directory else ()


def memory_moments(memory: Memory) -> dict[str, int]:
    """Return the moments of a memory: `created` and `updated` always, the other times if it has them."""
    return header_moments(memory.header.values, memory.status)


def header_moments(values: Mapping[str, Any], status: os.stat_result) -> dict[str, int]:
    """Return the moments of a memory with these header values and this file status."""
    created = to_moment(values["created"] if "created" in values else modification_time(status))
    moments = {"created": created, "updated": to_moment(values["updated"]) if "updated" in values else created}
    for key in _OPTIONAL_TIME_KEYS:
        if key in values:
            moments[key] = to_moment(getattr(Header(values), key))
    return moments


# --- keywords as the index spells them ----------------------------------------------------------------


@lru_cache(maxsize=4096)
def escape_key(key: str) -> str:
    """Return a key as keywords spell it: without `=`, and never `in`, which is for directories."""
    return "%in" if key == "in" else key.replace("%", "%25").replace("=", "%3D")[:MAX_KEYWORD_CHARS]


def join_keywords(keywords: list[str]) -> str:
    """Return keywords as one text that is split at spaces: the index takes one text faster than many."""
    text = " ".join(keywords)
    return text if text.split() == keywords else " ".join(map(escape_keyword, keywords))


@lru_cache(maxsize=4096)
def escape_keyword(keyword: str) -> str:
    """Return a keyword without white space; `unescape_keyword` is the inverse."""
    return _SPACE.sub(lambda match: _ESCAPES[match[0]], keyword)


def unescape_keyword(escaped: str) -> str:
    """Return the keyword that `escape_keyword` turned into this text."""
    return _ESCAPED.sub(lambda match: _UNESCAPES[match[0]], escaped)
