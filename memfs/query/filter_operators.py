"""Conditions on header keys: the ten operators of `where`. Pure."""

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt
from types import MappingProxyType
from typing import Any, NamedTuple

from memfs.data_types import Memory, is_encrypted_value
from memfs.errors import InvalidSearchError
from memfs.namespace import fold, is_utf8_encodable
from memfs.query.dates import moment_range
from memfs.query.keyword_terms import (
    NAME_ONLY_KEYS,
    VALUE_ONLY_KEYS,
    AnyOf,
    Between,
    Clause,
    MatchingValue,
    NoneOf,
    escape_key,
)
from memfs.query.typed_values import MAX_KEYWORD_CHARS, nfc, shown_value, value_text, values_with_text

OPERATORS = ("EQUALS", "EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS", ">", ">=", "<", "<=")
EXISTENCE = ("EXISTS", "NOT_EXISTS")
_ORDER: Mapping[str, Any] = {">": gt, ">=": ge, "<": lt, "<=": le}
_DEFAULTS = {"type": "note", "status": "stable", "importance": 1, "pinned": False}
_ATTRIBUTE_KEYS = frozenset(
    {"id", "title", "path", "namespace", "created", "updated"}
)  # memories without the key have them too


class Condition(NamedTuple):
    """One condition of `where` on a header key.

    Values are compared in the kinds of `forms` that both have. A time, however, must start in the `window`, if there is
    one.
    """

    key: str
    operator: str
    value: Any = None
    forms: Mapping[str, Any] = MappingProxyType({})
    window: Between | None = None
    items: tuple["Condition", ...] | None = None  # one per item of a list; an equal list meets each of them

    @classmethod
    def make(cls, given: object) -> "Condition":
        """Return the condition of (key, operator, value), or of (key, operator) for the operators of existence.

        Raise InvalidSearchError if it is not valid.
        """
        if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
            raise InvalidSearchError("where", f"{shown_value(given)} is not a condition (key, operator, value)")
        key, sign, value = (*given, None)[:3]
        if (
            not isinstance(key, str)
            or not key
            or not is_utf8_encodable(key)
            or len(escape_key(key)) >= MAX_KEYWORD_CHARS
        ):
            raise InvalidSearchError(
                "where", f"{shown_value(key)} is not a key of less than {MAX_KEYWORD_CHARS} characters"
            )
        operator = {"=": "EQUALS", "==": "EQUALS"}.get(sign, sign.upper()) if isinstance(sign, str) else ""
        if operator not in OPERATORS:
            raise InvalidSearchError("where", f"unknown operator {shown_value(sign)}; known: {', '.join(OPERATORS)}")
        if (value is None) != (operator in EXISTENCE):
            reason = "needs a value" if value is None else f"takes no value, not {shown_value(value)}"
            raise InvalidSearchError(f"where {key} {operator}", reason)
        if operator == "EQUALS" and isinstance(value, tuple | list):
            return cls(key, operator, value, items=tuple([cls.make((key, operator, item)) for item in value]))
        return cls(key, operator) if value is None else cls._comparison(key, operator, value)

    @classmethod
    def _comparison(cls, key: str, operator: str, value: object) -> "Condition":
        """Return a condition with a scalar value; raise InvalidSearchError if the operator does not allow the value."""
        subject, is_dated = f"where {key} {operator}", operator in ("BEFORE", "AFTER")
        moments = moment_range(value, subject if is_dated else "")
        forms = _comparable_forms(value, fold if operator == "CONTAINS" else nfc)
        if not forms or not is_utf8_encodable(forms.get("text", "")) or (operator in _ORDER and "flag" in forms):
            allowed = "a text, a number or a time" if operator in _ORDER else "a text, a number, a time, true or false"
            raise InvalidSearchError(subject, f"{shown_value(value)} is not {allowed}")
        first, last = moments or (0, 0)  # a date covers its whole day
        low = {">": last + 1, "AFTER": last + 1, "<": None, "<=": None, "BEFORE": None}.get(operator, first)
        high = {"<": first - 1, "BEFORE": first - 1, "<=": last, ">": None, ">=": None, "AFTER": None}.get(
            operator, first
        )
        return cls(key, operator, value, {} if is_dated else forms, Between(key, low, high) if moments else None)

    def mismatch(self, memory: Memory) -> str:
        """Return why a memory does not meet this condition, empty if it does."""
        found = _lookup(memory.header.values, self.key)
        if self.operator in EXISTENCE:
            has_key = found is not None
            return "" if has_key == (self.operator == "EXISTS") else f"has {'a' if has_key else 'no'} key {self.key!r}"
        if self.key in _ATTRIBUTE_KEYS:
            found = str(memory.namespace) if self.key == "namespace" else getattr(memory, self.key)
        elif found is None and (found := _DEFAULTS.get(self.key)) is None:
            return f"has no key {self.key!r}"
        return (
            ""
            if self.matches(found)
            else f"{self.key} is {shown_value(found)}, not {self.operator} {shown_value(self.value)}"
        )

    def matches_values(self, values: Mapping[str, Any]) -> bool:
        """Return whether a mapping meets this condition; unlike a memory, it has no defaults."""
        found = _lookup(values, self.key)
        if self.operator in EXISTENCE:
            return (found is not None) == (self.operator == "EXISTS")
        return found is not None and self.matches(found)

    def matches(self, value: object) -> bool:
        """Return whether a value meets this condition; an encrypted value never does, because the index lacks it.

        A list meets EQUALS or CONTAINS if one of its items does; compared with a list, it must have the same items.
        """
        if isinstance(value, list | tuple):
            if self.items is None:
                return self.operator in ("EQUALS", "CONTAINS") and any(self.matches_scalar(item) for item in value)
            has_no_other = all(any(one.matches_scalar(item) for one in self.items) for item in value)
            return has_no_other and all(one.matches(value) for one in self.items)
        if self.operator == "CONTAINS" and not is_encrypted_value(value):
            return isinstance(value, str) and "text" in self.forms and self.forms["text"] in fold(value)
        return self.matches_scalar(value)

    def matches_scalar(self, value: object) -> bool:
        """Return whether a scalar as a whole meets this condition: CONTAINS means equality here, without case."""
        if is_encrypted_value(value):
            return False
        forms = _comparable_forms(value, fold if self.operator == "CONTAINS" else nfc)
        compare = _ORDER.get(self.operator, eq)
        if self.window and "time" in forms:
            return self.window.contains(forms["time"])
        return any(compare(forms[kind], self.forms[kind]) for kind in forms if kind in self.forms)

    def clauses(self) -> tuple[Clause, ...]:
        """Return the clauses that an index can check; they accept every memory that meets this condition."""
        key, escaped = self.key, escape_key(self.key)
        if self.operator in EXISTENCE and self.key in VALUE_ONLY_KEYS:
            return ()
        if self.operator in EXISTENCE:
            return (AnyOf((escaped,)) if self.operator == "EXISTS" else NoneOf((escaped,)),)
        if self.window and key in ("created", "updated"):
            return (self.window,)
        if key in ("title", "path", "namespace", "created", "updated"):
            return ()  # a memory may have these without a keyword
        if key in NAME_ONLY_KEYS:
            return (AnyOf((escaped,)),)
        if key in ("importance", "pinned") and self.matches(_DEFAULTS[key]):
            return ()  # a memory without the key meets the condition too
        if self.items is not None:
            has_key = () if self.key in VALUE_ONLY_KEYS else (AnyOf((escaped,)),)
            return (*has_key, *[clause for one in self.items for clause in one.clauses()])
        if self.operator == "EQUALS" and not self.window:
            value = fold(self.value) if key == "tags" and isinstance(self.value, str) else self.value
            return (AnyOf((f"{escaped}={value_text(value)}",)),)
        return (MatchingValue(escaped, self._may_match_text),)

    def _may_match_text(self, text: str) -> bool:
        """Return whether a value with this text in its keyword, or a list with that value, may meet this condition."""
        if len(text) >= MAX_KEYWORD_CHARS:  # cut: the whole value is not known
            return True
        return any(self.matches(one) or self.matches([one]) for one in values_with_text(text))


def _comparable_forms(value: object, normalize: Callable[[str], str]) -> dict[str, Any]:
    """Return the forms a scalar is compared in, by kind: flag, number, text or time.

    A text that reads as a time has both forms. Return nothing for a value that is not a scalar.
    """
    if isinstance(value, bool):
        return {"flag": value}
    if isinstance(value, int | float):
        return {"number": value}
    forms: dict[str, Any] = {"text": normalize(value)} if isinstance(value, str) else {}
    if moments := moment_range(value):
        forms["time"] = moments[0]
    return forms


def _lookup(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or of a dotted path through mappings; None if there is none."""
    found, dot = values.get(key), key.find(".")
    while found is None and dot >= 0:
        inner = values.get(key[:dot])
        found = _lookup(inner, key[dot + 1 :]) if isinstance(inner, Mapping) else None
        dot = key.find(".", dot + 1)
    return found
