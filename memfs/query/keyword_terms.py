"""Keywords: what an index holds of a memory beside its words, and the clauses it can be asked by. Pure.

A term is `key` (the header has it), `key=value`, or `in=/facts/alice` for each directory a memory lies below.
A moment is a number of microseconds since 1970, UTC.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from memfs.data_types import Header, Memory, as_time, is_encrypted_value, modification_time
from memfs.errors import InvalidSearchError, short_repr
from memfs.format.fast_header import PARSE_ERRORS, cache_parsed, is_cacheable, parse_entry, split_entries, without_nulls
from memfs.format.header_schema import TIME_KEYS
from memfs.namespace import fold

KEYWORD_LIMIT = 100  # longer values are indexed cut to this length
DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
BARE = TIME_KEYS | {"title", "description"}  # no `key=value`: times are moments, and these texts are never alike
VALUED = frozenset({"id", "type", "tags", "importance", "status"})  # nearly every memory has them: no bare `key`
_SPELLING = {" ": "\x1fs", "\t": "\x1ft", "\n": "\x1fn", "\f": "\x1ff", "\r": "\x1fr", "\x1f": "\x1f\x1f"}
_READING = {spelled: space for space, spelled in _SPELLING.items()}
_SPACE, _SPELLED = re.compile("[ \t\n\f\r\x1f]"), re.compile("\x1f.")
_LATER = ("expires", "valid_from", "valid_until")
_SAID: dict[str, tuple[str, Any, str]] = {}  # what entries of headers say: one is often one of many like it
Times = str | date | tuple[str | date | None, str | date | None] | None


class AnyOf(NamedTuple):
    """At least one of these terms."""

    terms: tuple[str, ...]


class NoneOf(NamedTuple):
    """None of these terms."""

    terms: tuple[str, ...]


class Between(NamedTuple):
    """A moment from `low` to `high`, both included; a memory without the field passes."""

    field: str
    low: int | None
    high: int | None

    def holds(self, moment: int) -> bool:
        return (self.low is None or self.low <= moment) and (self.high is None or moment <= self.high)


class Value(NamedTuple):
    """A term `key=text` whose text is accepted; `key` is spelled as in the terms."""

    key: str
    accepts: Callable[[str], bool]


Clause = AnyOf | NoneOf | Between | Value


# --- what an index holds ------------------------------------------------------------------------------


def keywords(memory: Memory) -> list[str]:
    """The terms a memory is indexed by."""
    return terms_of(memory.path, memory.header.values)


def terms_of(path: str, values: Mapping[str, Any]) -> list[str]:
    """The terms of a memory with this path, and these values in its header."""
    terms = [*_ancestors(path.rpartition("/")[0]), *_unsaid(path, values)]
    for key, value in values.items():
        terms += _terms_of(key, value)
    return terms


def _unsaid(path: str, values: Mapping[str, Any]) -> list[str]:
    """The terms of keys that every memory has, where the header does not have them."""
    terms = [] if "type" in values else ["type=note"]
    if "status" not in values:
        terms.append("status=stable")
    if "id" not in values:
        terms.append("id=" + text_of_value(path.removesuffix(".md")))
    return terms


def _terms_of(key: str, value: object) -> Iterable[str]:
    """The terms of a key and its value."""
    if key in BARE:
        return (key,)
    if key == "id" and isinstance(value, str) and value.isascii():
        return ("id=" + value[:KEYWORD_LIMIT],)
    if key == "tags" and isinstance(value, tuple):
        return filter(None, map(_tag, value))
    return _terms(key, value) if isinstance(value, str | int) else _spread_terms(key, value)


def read_terms(path: str, header: str) -> tuple[dict[str, Any], list[str]] | None:
    """The values of a flat header, and the terms of a memory with this path and that header, as `joined` has them and
    several in a text; None of any other header."""
    entries = split_entries(header)
    if entries is None:
        return None
    values: dict[str, Any] = {}
    terms = [_below(path.rpartition("/")[0])]
    try:
        for entry in entries:
            key, value, spelled = _SAID.get(entry) or _say(entry)
            values[key] = value
            terms.append(spelled)
    except PARSE_ERRORS:
        return None
    if len(values) != len(entries):
        return None
    if "" in terms:
        values, terms = without_nulls(values), [*filter(None, terms)]
    terms += map(spell, _unsaid(path, values))
    return values, terms


def _say(entry: str) -> tuple[str, Any, str]:
    """The key, the value and the terms of an entry."""
    key, value = parse_entry(entry)
    if key in BARE:
        return key, value, "" if value is None else key
    said = key, value, "" if value is None else joined([*_terms_of(key, value)])
    return cache_parsed(_SAID, entry, said) if is_cacheable(key, value) else said


@lru_cache(maxsize=4096)
def _below(directory: str) -> str:
    return joined([*_ancestors(directory)])


@lru_cache(maxsize=4096)
def _tag(tag: str) -> str:
    """The term of a tag; none of one that is encrypted."""
    return "" if is_encrypted_value(tag) else "tags=" + fold(tag)[:KEYWORD_LIMIT]


def _spread_terms(key: str, value: object) -> tuple[str, ...]:
    """The terms of a key and its value."""
    terms = [] if key in VALUED else [name_of(key)]
    if key not in BARE:
        _spread(key, value, terms)
    return tuple(terms)


_terms = lru_cache(maxsize=4096, typed=True)(_spread_terms)  # a value is often one of many like it


def moments(memory: Memory) -> dict[str, int]:
    """The integer fields of a memory: `created` and `updated` always, the other times when it has them."""
    return moments_of(memory.header.values, memory.status)


def moments_of(values: Mapping[str, Any], status: os.stat_result) -> dict[str, int]:
    """The integer fields of a memory with these values in its header, of a file of which the system says this."""
    created = moment(values["created"] if "created" in values else modification_time(status))
    found = {"created": created, "updated": moment(values["updated"]) if "updated" in values else created}
    for key in _LATER:
        if key in values:
            found[key] = moment(getattr(Header(values), key))
    return found


@lru_cache(maxsize=4096)
def _ancestors(directory: str) -> tuple[str, ...]:
    return (*_ancestors(directory.rpartition("/")[0]), "in=/" + fold(directory)) if directory else ()


@lru_cache(maxsize=4096)
def name_of(key: str) -> str:
    """A key as terms spell it: it holds no `=`, and is not `in`."""
    return "%in" if key == "in" else key.replace("%", "%25").replace("=", "%3D")[:KEYWORD_LIMIT]


def _spread(key: str, value: object, terms: list[str]) -> None:
    """Add the terms of a value: of each item of a list, and of each key below a mapping."""
    if isinstance(value, Mapping):
        for below, inner in value.items():
            if inner is not None:
                terms.append(name_of(f"{key}.{below}"))
                _spread(f"{key}.{below}", inner, terms)
    elif isinstance(value, list | tuple):
        for item in value:
            if not isinstance(item, Mapping):
                _spread(key, item, terms)
    elif isinstance(value, str | int | float | date) and not is_encrypted_value(value):
        terms.append(f"{name_of(key)}={text_of_value(value)}")


def text_of_value(value: str | float | date) -> str:
    """The text of a scalar in a term: the same for values that are equal, but for texts that read as times."""
    if isinstance(value, str):
        return nfc(value)[:KEYWORD_LIMIT]
    if isinstance(value, date):
        return as_time(value).isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    try:
        return str(number)[:KEYWORD_LIMIT]
    except ValueError:  # more digits than Python writes out
        return hex(int(number))[:KEYWORD_LIMIT]


def moment(when: date) -> int:
    if not isinstance(when, datetime):
        return (when.toordinal() - EPOCH.toordinal()) * DAY
    return (when - EPOCH) // MICROSECOND


# --- terms as an index spells them -------------------------------------------------------------------


def joined(terms: list[str]) -> str:
    """Terms as one text, to be cut at its spaces: an index takes it in less time than many texts."""
    text = " ".join(terms)
    return text if text.split() == terms else " ".join(map(spell, terms))


@lru_cache(maxsize=4096)
def spell(term: str) -> str:
    """A term without spaces, of which `unspell` makes it again."""
    return _SPACE.sub(lambda found: _SPELLING[found[0]], term)


def unspell(spelled: str) -> str:
    return _SPELLED.sub(lambda found: _READING[found[0]], spelled)


# --- values -------------------------------------------------------------------------------------------


def nfc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def shown_value(value: object) -> str:
    try:
        return value.isoformat() if isinstance(value, date) else short_repr(value)
    except ValueError:  # more digits than Python writes out
        return "a huge number"


def ends_of(value: object, subject: str = "") -> tuple[int, int] | None:
    """The first and the last moment of what reads as a date or a time; with a subject it must."""
    with suppress(ValueError, OverflowError):
        if not isinstance(value, str) or value[4:5] == "-":  # some long numbers read as times
            time = as_time(value.upper() if isinstance(value, str) else value)  # tags are indexed in lower case
            return moment(time), moment(time) + (0 if isinstance(time, datetime) else DAY - 1)
    if subject:
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidSearchError(subject, f"{shown_value(value)} is not {allowed}")
    return None


def span_of(subject: str, value: Times) -> tuple[int | None, int | None, str]:
    """Read "A..B", "A..", "..B", "A" or a pair: the first moment, the last one, and words for it."""
    low: Any = value
    high: Any = value
    if isinstance(value, str) and ".." in value:
        low, high = (end.strip() or None for end in value.split("..", 1))
    elif isinstance(value, tuple | list):
        if len(value) != 2:
            raise InvalidSearchError(subject, f"{shown_value(value)} is not a pair (from, to)")
        low, high = value
    first = None if low is None else ends_of(low, subject)
    last = None if high is None else ends_of(high, subject)
    if first and last and first[0] > last[1]:
        raise InvalidSearchError(subject, f"{low} is after {high}")
    return first and first[0], last and last[1], str(value) if low is value else f"{low or ''}..{high or ''}"


def kinds_of(value: object, form: Callable[[str], str]) -> dict[str, Any]:
    """What a scalar can be compared as; a text that reads as a time is both. Nothing for other values."""
    if isinstance(value, bool):
        return {"flag": value}
    if isinstance(value, int | float):
        return {"number": value}
    kinds: dict[str, Any] = {"text": form(value)} if isinstance(value, str) else {}
    if ends := ends_of(value):
        kinds["time"] = ends[0]
    return kinds
