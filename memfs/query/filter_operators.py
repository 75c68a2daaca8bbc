"""Conditions on header keys: the ten operators of `where`. Pure."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import eq, ge, gt, le, lt
from types import MappingProxyType
from typing import Any, NamedTuple

from memfs.data_types import Memory, is_encrypted_value
from memfs.errors import InvalidSearchError
from memfs.namespace import fold, is_utf8_encodable
from memfs.query.keyword_terms import (
    BARE,
    KEYWORD_LIMIT,
    VALUED,
    AnyOf,
    Between,
    Clause,
    NoneOf,
    Value,
    ends_of,
    kinds_of,
    name_of,
    nfc,
    shown_value,
    text_of_value,
)

OPERATORS = ("EQUALS", "EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS", ">", ">=", "<", "<=")
EXISTENCE = ("EXISTS", "NOT_EXISTS")
_ORDER: Mapping[str, Any] = {">": gt, ">=": ge, "<": lt, "<=": le}
_DEFAULTS = {"type": "note", "status": "stable", "importance": 1, "pinned": False}
_OWN = frozenset({"id", "title", "path", "namespace", "created", "updated"})  # a memory has them without a header


class Condition(NamedTuple):
    """One condition of `where`: compares by `kinds`, and times by the `window` in which they begin."""

    key: str
    operator: str
    value: Any = None
    kinds: Mapping[str, Any] = MappingProxyType({})
    window: Between | None = None
    items: tuple["Condition", ...] | None = None  # of a list: an equal one has all of these, and nothing else

    @classmethod
    def make(cls, given: object) -> "Condition":
        """Check (key, operator, value), or (key, operator) of a question whether a key is there."""
        if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
            raise InvalidSearchError("where", f"{shown_value(given)} is not a condition (key, operator, value)")
        key, sign, value = (*given, None)[:3]
        if not isinstance(key, str) or not key or not is_utf8_encodable(key) or len(name_of(key)) >= KEYWORD_LIMIT:
            raise InvalidSearchError(
                "where", f"{shown_value(key)} is not a key of less than {KEYWORD_LIMIT} characters"
            )
        word = {"=": "EQUALS", "==": "EQUALS"}.get(sign, sign.upper()) if isinstance(sign, str) else ""
        if word not in OPERATORS:
            raise InvalidSearchError("where", f"unknown operator {shown_value(sign)}; known: {', '.join(OPERATORS)}")
        if (value is None) != (word in EXISTENCE):
            reason = "needs a value" if value is None else f"takes no value, not {shown_value(value)}"
            raise InvalidSearchError(f"where {key} {word}", reason)
        if word == "EQUALS" and isinstance(value, tuple | list):
            return cls(key, word, value, items=tuple([cls.make((key, word, item)) for item in value]))
        return cls(key, word) if value is None else cls._comparison(key, word, value)

    @classmethod
    def _comparison(cls, key: str, word: str, value: object) -> "Condition":
        subject, is_dated = f"where {key} {word}", word in ("BEFORE", "AFTER")
        ends, kinds = ends_of(value, subject if is_dated else ""), kinds_of(value, fold if word == "CONTAINS" else nfc)
        if not kinds or not is_utf8_encodable(kinds.get("text", "")) or (word in _ORDER and "flag" in kinds):
            allowed = "a text, a number or a time" if word in _ORDER else "a text, a number, a time, true or false"
            raise InvalidSearchError(subject, f"{shown_value(value)} is not {allowed}")
        first, last = ends or (0, 0)
        low = {">": last + 1, "AFTER": last + 1, "<": None, "<=": None, "BEFORE": None}.get(word, first)
        high = {"<": first - 1, "BEFORE": first - 1, "<=": last, ">": None, ">=": None, "AFTER": None}.get(word, first)
        return cls(key, word, value, {} if is_dated else kinds, Between(key, low, high) if ends else None)

    def miss(self, memory: Memory) -> str:
        """Say why a memory does not fulfil this; empty if it does."""
        found = _find(memory.header.values, self.key)
        if self.operator in EXISTENCE:
            there = found is not None
            return "" if there == (self.operator == "EXISTS") else f"has {'a' if there else 'no'} key {self.key!r}"
        if self.key in _OWN:
            found = str(memory.namespace) if self.key == "namespace" else getattr(memory, self.key)
        elif found is None and (found := _DEFAULTS.get(self.key)) is None:
            return f"has no key {self.key!r}"
        return (
            ""
            if self.holds(found)
            else f"{self.key} is {shown_value(found)}, not {self.operator} {shown_value(self.value)}"
        )

    def fulfilled_by(self, values: Mapping[str, Any]) -> bool:
        """Tell whether values that are no header's fulfil this."""
        found = _find(values, self.key)
        if self.operator in EXISTENCE:
            return (found is not None) == (self.operator == "EXISTS")
        return found is not None and self.holds(found)

    def holds(self, have: object) -> bool:
        """Tell whether a value compares as asked; an encrypted one never does, for the index does not have it."""
        if isinstance(have, list | tuple):
            if self.items is None:
                return self.operator in ("EQUALS", "CONTAINS") and any(self.meets(item) for item in have)
            known = all(any(one.meets(item) for one in self.items) for item in have)
            return known and all(one.holds(have) for one in self.items)
        if self.operator == "CONTAINS" and not is_encrypted_value(have):
            return isinstance(have, str) and "text" in self.kinds and self.kinds["text"] in fold(have)
        return self.meets(have)

    def meets(self, have: object) -> bool:
        """Tell whether one scalar compares as asked, without a look inside."""
        if is_encrypted_value(have):
            return False
        kinds, compare = kinds_of(have, fold if self.operator == "CONTAINS" else nfc), _ORDER.get(self.operator, eq)
        if self.window and "time" in kinds:
            return self.window.holds(kinds["time"])
        return any(compare(kinds[kind], self.kinds[kind]) for kind in kinds if kind in self.kinds)

    def clauses(self) -> tuple[Clause, ...]:
        """What an index can tell of this."""
        key, name = self.key, name_of(self.key)
        if self.operator in EXISTENCE and self.key in VALUED:
            return ()
        if self.operator in EXISTENCE:
            return (AnyOf((name,)) if self.operator == "EXISTS" else NoneOf((name,)),)
        if self.window and key in ("created", "updated"):
            return (self.window,)
        if key in ("title", "path", "namespace", "created", "updated"):
            return ()
        if key in BARE:
            return (AnyOf((name,)),)
        if key in ("importance", "pinned") and self.holds(_DEFAULTS[key]):
            return ()
        if self.items is not None:
            there = () if self.key in VALUED else (AnyOf((name,)),)
            return (*there, *[clause for one in self.items for clause in one.clauses()])
        if self.operator == "EQUALS" and not self.window:
            value = fold(self.value) if key == "tags" and isinstance(self.value, str) else self.value
            return (AnyOf((f"{name}={text_of_value(value)}",)),)
        return (Value(name, self._accepts),)

    def _accepts(self, text: str) -> bool:
        """Tell whether a value with this text in its term may be the one, or be an item of it."""
        return len(text) >= KEYWORD_LIMIT or any(self.holds(one) or self.holds([one]) for one in _readings(text))


def _find(values: Mapping[str, Any], key: str) -> Any:
    """The value of a key, or of a dotted path through mappings; None if there is none."""
    found, dot = values.get(key), key.find(".")
    while found is None and dot >= 0:
        inner = values.get(key[:dot])
        found = _find(inner, key[dot + 1 :]) if isinstance(inner, Mapping) else None
        dot = key.find(".", dot + 1)
    return found


def _readings(text: str) -> Iterator[object]:
    """The values that have this text in a term."""
    yield text
    if text in ("true", "false"):
        yield text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            yield kind(text)
