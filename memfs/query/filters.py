"""Which memories a search may return. Pure: no disk, and what time it is comes from outside.

A filter decides twice, with one meaning: on a memory (`matches`), and as clauses for an index of `keywords` and
`moments`. The clauses let through all that matches; where the filter is `exact`, nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self, TypedDict

from memfs.data_types import Memory, lazy
from memfs.errors import InvalidSearchError, short_repr
from memfs.format.header_schema import TIME_KEYS
from memfs.namespace import ARCHIVE, Namespace, fold, is_utf8_encodable
from memfs.query.filter_operators import EXISTENCE, Condition
from memfs.query.keyword_terms import (
    EPOCH,
    KEYWORD_LIMIT,
    VALUED,
    AnyOf,
    Between,
    Clause,
    NoneOf,
    Times,
    ends_of,
    keywords,
    moment,
    moments,
    nfc,
    shown_value,
    span_of,
)

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
    created: Times  # "2026-01-01..2026-01-31" with optional ends, a day, or a pair
    updated: Times
    valid: Times  # valid at some moment of this span
    where: Where  # conditions on header keys: {key: value}, or (key, operator, value) tuples
    include: Texts  # archived, expired, deprecated, superseded or all: excluded by default


FILTER_NAMES = SearchFilters.__optional_keys__


class Rule(NamedTuple):
    """A clause that is the whole truth, and why a memory does not pass it."""

    clause: AnyOf | NoneOf | Between
    why: Callable[[Memory], str]

    def passes(self, terms: frozenset[str], times: Mapping[str, int]) -> bool:
        if isinstance(self.clause, Between):
            return self.clause.field not in times or self.clause.holds(times[self.clause.field])
        return terms.isdisjoint(self.clause.terms) == isinstance(self.clause, NoneOf)


@dataclass(frozen=True)
class Filter:
    """What a search asks for beside its question; `include` is what it lets in that is out by default."""

    rules: tuple[Rule, ...]
    where: tuple[Condition, ...]
    include: frozenset[str]
    scope: Namespace
    is_empty: bool  # nothing is asked for beyond the default

    @classmethod
    def make(
        cls,
        namespace: Namespace | None,
        *,
        scope: Namespace,
        type: Texts = None,  # noqa: A002  the word of the header
        tags: Texts = (),
        status: Texts = None,
        not_status: Texts = None,
        created: Times = None,
        updated: Times = None,
        valid: Times = None,
        where: Where = (),
        include: Texts = (),
    ) -> Self:
        """Check what is asked for; anything wrong is an InvalidSearchError."""
        place = namespace if namespace and namespace.segments else scope
        words, statuses = _texts("include", include), _texts("status", status)
        asked = (
            *_below(place, "not below", unless=scope),
            *_one_of("type", _texts("type", type)),
            *_one_of("status", statuses),
            *_none_of("status", _texts("not_status", not_status)),
            *[_tagged(tag) for tag in _texts("tags", tags, fold)],
            *_during("created", created),
            *_during("updated", updated),
            *_during("valid", valid),
        )
        conditions = tuple([_comparable(Condition.make(given)) for given in _listed(where)])
        included = _included(words, place, statuses)
        rules = (*_below(scope, "outside the scope"), *_usual(included), *asked)
        return cls(rules, conditions, included, scope, not (asked or conditions or words))

    @lazy
    def exact(self) -> bool:
        """The clauses let through nothing that does not match."""
        return all(condition.operator in EXISTENCE and condition.key not in VALUED for condition in self.where)

    def clauses(self, now: datetime) -> tuple[Clause, ...]:
        """What an index asks of a memory; all of it must hold."""
        return self.lasting if "expired" in self.include else (_unexpired(now), *self.lasting)

    @lazy
    def lasting(self) -> tuple[Clause, ...]:
        """The clauses that stay the same as time goes by."""
        rules = [rule.clause for rule in self.rules]
        return (*rules, *[clause for condition in self.where for clause in condition.clauses()])

    def matches(self, memory: Memory, now: datetime) -> bool:
        """Tell whether a search may return this memory."""
        return next(self._misses(memory, now), None) is None

    def misses(self, memory: Memory, now: datetime) -> list[str]:
        """Say why a search may not return this memory: every reason, none if it may."""
        return [*self._misses(memory, now)]

    def _rules(self, now: datetime) -> Iterator[Rule]:
        yield from self.rules
        if "expired" not in self.include:
            yield _timed("expired on", _unexpired(now))

    def _misses(self, memory: Memory, now: datetime) -> Iterator[str]:
        terms, times = frozenset(keywords(memory)), moments(memory)
        yield from (rule.why(memory) for rule in self._rules(now) if not rule.passes(terms, times))
        yield from (miss for condition in self.where if (miss := condition.miss(memory)))


def _comparable(condition: Condition) -> Condition:
    """Refuse to ask for more or less than a text where memfs knows that there are numbers or times."""
    key, operator, value = condition[:3]
    if operator[0] in "<>" and key in TIME_KEYS and condition.window is None:
        ends_of(value, f"where {key} {operator}")
    if operator[0] in "<>" and key == "importance" and "number" not in condition.kinds:
        raise InvalidSearchError(f"where {key} {operator}", f"{shown_value(value)} is not a number")
    return condition


def _included(words: tuple[str, ...], place: Namespace, statuses: tuple[str, ...]) -> frozenset[str]:
    """What is let in: what is named, and what the rest of the question speaks of."""
    if unknown := [word for word in words if word not in (*INCLUDES, "all")]:
        raise InvalidSearchError("include", f"{short_repr(unknown[0])} is none of {', '.join(INCLUDES)}, all")
    spoken_of = {"archived": _is_archived(place), "deprecated": "deprecated" in statuses}
    return frozenset([word for word in INCLUDES if "all" in words or word in words or spoken_of.get(word)])


def _usual(included: frozenset[str]) -> list[Rule]:
    """The rules that hold unless a search lets more in."""
    rules = {
        "archived": Rule(NoneOf((f"in=/{ARCHIVE}",)), lambda _: f"forgotten: it is in {ARCHIVE}/"),
        "deprecated": Rule(NoneOf(("status=deprecated",)), lambda _: "deprecated: its status says so"),
    }
    return [rule for word, rule in rules.items() if word not in included]


def _is_archived(namespace: Namespace) -> bool:
    return Namespace((ARCHIVE,)).holds(namespace.segments)


def _below(place: Namespace, words: str, unless: Namespace = _ROOT) -> list[Rule]:
    """To lie in a namespace, or to be forgotten from it."""
    name = fold(str(place))
    terms = (f"in={name}",) if _is_archived(place) else (f"in={name}", f"in=/{ARCHIVE}{name}")
    rule = Rule(AnyOf(terms), lambda memory: f"lies in {memory.namespace}, {words} {place}")
    return [rule] if place != unless else []


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


def _timed(words: str, clause: Between, rest: str = "") -> Rule:
    def why(memory: Memory) -> str:
        return f"{words} {(EPOCH + timedelta(microseconds=moments(memory)[clause.field])).date()}{rest}"

    return Rule(clause, why)


def _unexpired(now: datetime) -> Between:
    return Between("expires", moment(now), None)


def _during(field: str, given: Times) -> list[Rule]:
    """To be created or updated in a span of time, or to be valid at some moment of it."""
    low, high, text = span_of(field, given)
    spans = {f"{field} on": Between(field, low, high)}
    if field == "valid":
        spans = {"valid from": Between("valid_from", None, high), "valid until": Between("valid_until", low, None)}
    return [_timed(words, span, f", not in {text}") for words, span in spans.items() if span[1:] != (None, None)]


def _texts(subject: str, given: Texts, form: Callable[[str], str] = nfc) -> tuple[str, ...]:
    """One text or several in a normal form; none so long that an index has it cut."""
    if given is not None and not isinstance(given, Iterable):
        raise InvalidSearchError(subject, f"{shown_value(given)} is not a text, or several")
    texts = [given] if isinstance(given, str) else [*(given or ())]
    for text in texts:
        if (
            not isinstance(text, str)
            or not text.strip()
            or not is_utf8_encodable(text)
            or len(form(text)) >= KEYWORD_LIMIT
        ):
            raise InvalidSearchError(
                subject, f"{shown_value(text)} is not a text of 1 to {KEYWORD_LIMIT - 1} characters"
            )
    return tuple([form(text) for text in texts])


def _listed(where: Where) -> list[object]:
    """The conditions of `where`: a mapping, one condition, or several."""
    if isinstance(where, Mapping):
        return [(key, "EQUALS", value) for key, value in where.items()]
    if isinstance(where, str) or not isinstance(where, Iterable | None):
        return [where]
    found: list[object] = [*(where or ())]
    return [found] if found and isinstance(found[0], str) else found
