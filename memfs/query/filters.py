"""Filters: which memories a search may return. Pure: no disk, and the caller passes the current time.

A filter can be applied in two ways: to a memory (`matches`), and as clauses to an index of keywords and moments
(`clauses`). The clauses accept every memory that matches; if the filter `is_exact`, they accept no other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self, TypedDict

from memfs.data_types import Memory, lazy
from memfs.errors import InvalidSearchError, short_repr
from memfs.format.header_schema import TIME_KEYS
from memfs.namespace import ARCHIVE, Namespace, fold, is_utf8_encodable
from memfs.query.dates import EPOCH, TimeSpan, moment_range, parse_span, to_moment
from memfs.query.filter_operators import EXISTENCE, Condition
from memfs.query.keyword_terms import (
    VALUE_ONLY_KEYS,
    AnyOf,
    Between,
    Clause,
    NoneOf,
    memory_keywords,
    memory_moments,
)
from memfs.query.typed_values import MAX_KEYWORD_CHARS, nfc, shown_value

INCLUDES = ("archived", "expired", "deprecated", "superseded")
Texts = str | Iterable[str] | None
Where = Mapping[str, Any] | Iterable[Sequence[Any]] | None
_ROOT = Namespace()


class SearchFilters(TypedDict, total=False):
    """The filters that `Vault.search` and `Vault.explain_miss` take as keyword arguments: see docs/search.md."""

    type: Texts  # one of these types
    tags: Texts  # all of these tags, in any case
    status: Texts  # one of these statuses
    not_status: Texts  # none of these statuses
    created: TimeSpan  # "2026-01-01..2026-01-31" with optional ends, a day, or a pair
    updated: TimeSpan
    valid: TimeSpan  # valid at some moment of this span
    where: Where  # conditions on header keys: {key: value}, or (key, operator, value) tuples
    include: Texts  # archived, expired, deprecated, superseded or all: excluded by default


FILTER_NAMES = SearchFilters.__optional_keys__


class Rule(NamedTuple):
    """A clause that decides exactly, and a function that returns why a memory does not pass it."""

    clause: AnyOf | NoneOf | Between
    reason: Callable[[Memory], str]

    def passes(self, keywords: frozenset[str], moments: Mapping[str, int]) -> bool:
        """Return whether a memory with these keywords and moments passes."""
        if isinstance(self.clause, Between):
            return self.clause.field not in moments or self.clause.contains(moments[self.clause.field])
        return keywords.isdisjoint(self.clause.terms) == isinstance(self.clause, NoneOf)


@dataclass(frozen=True)
class Filter:
    """The conditions of a search besides its question; `include` names the kinds of INCLUDES that it lets through."""

    rules: tuple[Rule, ...]
    where: tuple[Condition, ...]
    include: frozenset[str]
    scope: Namespace
    is_empty: bool  # only the default conditions

    @classmethod
    def make(
        cls,
        namespace: Namespace | None,
        *,
        scope: Namespace,
        type: Texts = None,  # noqa: A002  the key of the header
        tags: Texts = (),
        status: Texts = None,
        not_status: Texts = None,
        created: TimeSpan = None,
        updated: TimeSpan = None,
        valid: TimeSpan = None,
        where: Where = (),
        include: Texts = (),
    ) -> Self:
        """Return the filter of these arguments; no namespace means the scope. Raises InvalidSearchError."""
        subtree = namespace if namespace and namespace.segments else scope
        include_words, statuses = _texts("include", include), _texts("status", status)
        requested = (
            *_below(subtree, "not below", unless=scope),
            *_one_of("type", _texts("type", type)),
            *_one_of("status", statuses),
            *_none_of("status", _texts("not_status", not_status)),
            *[_tagged(tag) for tag in _texts("tags", tags, fold)],
            *_during("created", created),
            *_during("updated", updated),
            *_during("valid", valid),
        )
        conditions = tuple([_check_comparable(Condition.make(given)) for given in _where_list(where)])
        included = _included(include_words, subtree, statuses)
        rules = (*_below(scope, "outside the scope"), *_default_rules(included), *requested)
        return cls(rules, conditions, included, scope, not (requested or conditions or include_words))

    @lazy
    def is_exact(self) -> bool:
        """Return whether the clauses accept only memories that match."""
        return all(condition.operator in EXISTENCE and condition.key not in VALUE_ONLY_KEYS for condition in self.where)

    def clauses(self, now: datetime) -> tuple[Clause, ...]:
        """Return the clauses for an index, all of which must hold."""
        return self.lasting_clauses if "expired" in self.include else (_unexpired(now), *self.lasting_clauses)

    @lazy
    def lasting_clauses(self) -> tuple[Clause, ...]:
        """Return the clauses that do not depend on the current time."""
        rules = [rule.clause for rule in self.rules]
        return (*rules, *[clause for condition in self.where for clause in condition.clauses()])

    def matches(self, memory: Memory, now: datetime) -> bool:
        """Return whether a search may return this memory."""
        return next(self._mismatches(memory, now), None) is None

    def mismatches(self, memory: Memory, now: datetime) -> list[str]:
        """Return every reason why a search may not return this memory; an empty list if it may."""
        return [*self._mismatches(memory, now)]

    def _all_rules(self, now: datetime) -> Iterator[Rule]:
        yield from self.rules
        if "expired" not in self.include:
            yield _time_rule("expired on", _unexpired(now))

    def _mismatches(self, memory: Memory, now: datetime) -> Iterator[str]:
        keywords, moments = frozenset(memory_keywords(memory)), memory_moments(memory)
        yield from (rule.reason(memory) for rule in self._all_rules(now) if not rule.passes(keywords, moments))
        yield from (mismatch for condition in self.where if (mismatch := condition.mismatch(memory)))


def _check_comparable(condition: Condition) -> Condition:
    """Return the condition.

    Raises InvalidSearchError if it compares, with < or >, a key of times with no time, or `importance` with no number.
    """
    key, operator, value = condition[:3]
    if operator[0] in "<>" and key in TIME_KEYS and condition.window is None:
        moment_range(value, f"where {key} {operator}")  # raises the error
    if operator[0] in "<>" and key == "importance" and "number" not in condition.forms:
        raise InvalidSearchError(f"where {key} {operator}", f"{shown_value(value)} is not a number")
    return condition


def _included(words: tuple[str, ...], subtree: Namespace, statuses: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds that a search does not exclude: those in `include`, and those that its other arguments imply."""
    if unknown := [word for word in words if word not in (*INCLUDES, "all")]:
        raise InvalidSearchError("include", f"{short_repr(unknown[0])} is none of {', '.join(INCLUDES)}, all")
    implied = {"archived": _is_archived(subtree), "deprecated": "deprecated" in statuses}
    return frozenset([word for word in INCLUDES if "all" in words or word in words or implied.get(word)])


def _default_rules(included: frozenset[str]) -> list[Rule]:
    """Return the rules that apply unless a search includes more."""
    rules = {
        "archived": Rule(NoneOf((f"in=/{ARCHIVE}",)), lambda _: f"forgotten: it is in {ARCHIVE}/"),
        "deprecated": Rule(NoneOf(("status=deprecated",)), lambda _: "its status is deprecated"),
    }
    return [rule for word, rule in rules.items() if word not in included]


def _is_archived(namespace: Namespace) -> bool:
    return Namespace((ARCHIVE,)).holds(namespace.segments)


def _below(subtree: Namespace, relation: str, unless: Namespace = _ROOT) -> list[Rule]:
    """Return the rule that a memory is, or was before it was archived, in a namespace; no rule for `unless`.

    `relation` is for the reason, which is "is in ..., <relation> ...".
    """
    name = fold(str(subtree))
    terms = (f"in={name}",) if _is_archived(subtree) else (f"in={name}", f"in=/{ARCHIVE}{name}")
    rule = Rule(AnyOf(terms), lambda memory: f"is in {memory.namespace}, {relation} {subtree}")
    return [rule] if subtree != unless else []


def _one_of(key: str, texts: tuple[str, ...]) -> list[Rule]:
    wanted, terms = " or ".join(map(short_repr, texts)), tuple([f"{key}={text}" for text in texts])
    rule = Rule(AnyOf(terms), lambda memory: f"{key} is {short_repr(getattr(memory.header, key))}, not {wanted}")
    return [rule] if texts else []


def _none_of(key: str, texts: tuple[str, ...]) -> list[Rule]:
    rule = Rule(
        NoneOf(tuple([f"{key}={text}" for text in texts])),
        lambda memory: f"{key} is {short_repr(getattr(memory.header, key))}",
    )
    return [rule] if texts else []


def _tagged(tag: str) -> Rule:
    return Rule(AnyOf((f"tags={tag}",)), lambda _: f"has no tag {short_repr(tag)}")


def _time_rule(label: str, clause: Between, suffix: str = "") -> Rule:
    def reason(memory: Memory) -> str:
        return f"{label} {(EPOCH + timedelta(microseconds=memory_moments(memory)[clause.field])).date()}{suffix}"

    return Rule(clause, reason)


def _unexpired(now: datetime) -> Between:
    return Between("expires", to_moment(now), None)


def _during(field: str, given: TimeSpan) -> list[Rule]:
    """Return the rules that a memory was created or updated in a time span, or is valid at some moment of it."""
    low, high, text = parse_span(field, given)
    spans = {f"{field} on": Between(field, low, high)}
    if field == "valid":
        spans = {"valid from": Between("valid_from", None, high), "valid until": Between("valid_until", low, None)}
    return [_time_rule(label, span, f", not in {text}") for label, span in spans.items() if span[1:] != (None, None)]


def _texts(subject: str, given: Texts, normalize: Callable[[str], str] = nfc) -> tuple[str, ...]:
    """Return one text or several, normalized.

    Raises InvalidSearchError for a text that is blank, not encodable, or so long that the index has it only in part.
    """
    if given is not None and not isinstance(given, Iterable):
        raise InvalidSearchError(subject, f"{shown_value(given)} is not a text or a list of texts")
    texts = [given] if isinstance(given, str) else [*(given or ())]
    for text in texts:
        if (
            not isinstance(text, str)
            or not text.strip()
            or not is_utf8_encodable(text)
            or len(normalize(text)) >= MAX_KEYWORD_CHARS
        ):
            raise InvalidSearchError(
                subject, f"{shown_value(text)} is not a text of 1 to {MAX_KEYWORD_CHARS - 1} characters"
            )
    return tuple([normalize(text) for text in texts])


def _where_list(where: Where) -> list[object]:
    """Return the conditions of `where`, which is a mapping, one condition or several. `Condition.make` checks each."""
    if isinstance(where, Mapping):
        return [(key, "EQUALS", value) for key, value in where.items()]
    if isinstance(where, str) or not isinstance(where, Iterable | None):
        return [where]
    found: list[object] = [*(where or ())]
    return [found] if found and isinstance(found[0], str) else found
