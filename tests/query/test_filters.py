"""Filters: matching a memory, the clauses for an index, and the reasons of a mismatch."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from memfs.data_types import Header, Memory
from memfs.errors import InvalidSearchError
from memfs.format.frontmatter import parse_file
from memfs.format.header_schema import TIME_KEYS
from memfs.namespace import ARCHIVE, Namespace, fold
from memfs.query.filter_operators import OPERATORS
from memfs.query.filters import INCLUDES, Filter
from memfs.query.keyword_terms import AnyOf, Between, Clause, MatchingValue, NoneOf, memory_keywords, memory_moments
from memfs.query.typed_values import MAX_KEYWORD_CHARS

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
FILE_TIME = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
ROOT = Namespace()
FULL = settings().max_examples
Clauses = Iterable[Clause]


def stat(when: datetime = FILE_TIME) -> os.stat_result:
    seconds = int(when.timestamp())
    status = (0o100644, 1, 1, 1, 0, 0, 10, seconds, seconds, seconds)
    return os.stat_result(status, {"st_mtime_ns": seconds * 10**9, "st_ctime_ns": seconds * 10**9})


def memory(header: str = "", path: str = "facts/alice/tea.md", body: str = "Alice likes tea.") -> Memory:
    """Return a memory as it is read from a file."""
    text = f"---\n{header}\n---\n\n{body}\n" if header else f"{body}\n"
    return Memory(path, text.encode(), stat(), parse_file)


class MemoryWithValues(Memory):
    """A memory with header values that YAML cannot express."""

    def __init__(self, values: Mapping[str, Any], path: str = "facts/alice/tea.md") -> None:
        super().__init__(path, b"Alice likes tea.", stat(), parse_file)
        self.__dict__["values"] = values

    @property
    def header(self) -> Header:
        return Header(self.__dict__["values"])


def make(namespace: str | None = None, *, scope: str = "/", **arguments: Any) -> Filter:
    return Filter.make(
        None if namespace is None else Namespace.parse(namespace), scope=Namespace.parse(scope), **arguments
    )


def micros(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def passes_clauses(clauses: Clauses, one: Memory) -> bool:
    """Return whether a memory passes all clauses: the simplest possible index."""
    terms, times = memory_keywords(one), memory_moments(one)
    for clause in clauses:
        match clause:
            case AnyOf(wanted):
                passes = any(term in wanted for term in terms)
            case NoneOf(unwanted):
                passes = not any(term in unwanted for term in terms)
            case Between(field, low, high):
                moment = times.get(field)
                passes = moment is None or ((low is None or moment >= low) and (high is None or moment <= high))
            case MatchingValue(key, accepts):
                passes = any(term.startswith(f"{key}=") and accepts(term[len(key) + 1 :]) for term in terms)
        if not passes:
            return False
    return True


def is_found(search_filter: Filter, one: Memory, now: datetime = NOW) -> bool:
    """Return whether a filter matches a memory, and assert what is true of every filter and memory."""
    matches, mismatches, through = (
        search_filter.matches(one, now),
        search_filter.mismatches(one, now),
        passes_clauses(search_filter.clauses(now), one),
    )
    assert matches == (not mismatches)
    assert all(isinstance(mismatch, str) and mismatch for mismatch in mismatches)
    assert through or not matches, (search_filter.clauses(now), memory_keywords(one), memory_moments(one))
    if search_filter.is_exact:
        assert through == matches, (search_filter.clauses(now), memory_keywords(one), mismatches)
    return matches


# --- keywords and moments -----------------------------------------------------------------------------


def test_keywords_are_the_keys_values_and_directories() -> None:
    header = "id: m-1\ntype: fact\ntags:\n  - Food\n  - Überall\ncreated: 2026-11-15\nimportance: 3\ntitle: T\nx: y\n"

    assert memory_keywords(memory(header.strip(), "Facts/Alice/tea.md")) == [
        "in=/facts", "in=/facts/alice", "status=stable", "id=m-1", "type=fact", "tags=food",
        "tags=überall", "created", "importance=3", "title", "x", "x=y",
    ]  # fmt: skip


def test_a_memory_without_a_header_is_indexed_by_its_defaults() -> None:
    assert memory_keywords(memory("", "tea.md")) == ["type=note", "status=stable", "id=tea"]
    assert memory_keywords(memory("", "a/tea.md")) == ["in=/a", "type=note", "status=stable", "id=a/tea"]


@pytest.mark.parametrize(
    ("value", "terms"),
    [
        ("true", ["x", "x=true"]),
        ("3", ["x", "x=3"]),
        ("3.0", ["x", "x=3"]),
        ("-0.0", ["x", "x=0"]),
        ("0.25", ["x", "x=0.25"]),
        ("1.5e3", ["x", "x=1500"]),
        ("2026-11-15", ["x", "x=2026-11-15"]),
        ('"a\\nb"', ["x", "x=a\nb"]),
        ("e\u0301", ["x", "x=\u00e9"]),
        ("a" * 150, ["x", "x=" + "a" * MAX_KEYWORD_CHARS]),
        ("[a, 1, [b, [c]], {d: e}]", ["x", "x=a", "x=1", "x=b", "x=c"]),
        ("{a: 1, b: {c: [d, e]}, f: null}", ["x", "x.a", "x.a=1", "x.b", "x.b.c", "x.b.c=d", "x.b.c=e"]),
        ("[]", ["x"]),
        ("{}", ["x"]),
        ("null", []),
    ],
)
def test_the_keywords_of_a_value(value: str, terms: list[str]) -> None:
    assert memory_keywords(memory(f"x: {value}", "t.md"))[3:] == terms


@pytest.mark.parametrize("header", ["in: /archive", '"in=/archive": x', '"status=deprecated": x', "in: {}"])
def test_no_header_key_is_mistaken_for_a_directory_or_another_key(header: str) -> None:
    assert {"in=/archive", "status=deprecated"}.isdisjoint(memory_keywords(memory(header)))
    assert is_found(make(), memory(header))


@pytest.mark.parametrize("key", ["in", "a=b", "a%3Db", "50%", "ü", "a b"])
def test_any_header_key_can_be_searched(key: str) -> None:
    one = memory(f"{json.dumps(key, ensure_ascii=False)}: 5")

    assert is_found(make(where=[(key, "EXISTS")]), one)
    assert not is_found(make(where=[(key, "NOT_EXISTS")]), one)
    assert is_found(make(where={key: 5}), one)
    assert is_found(make(where=[(key, ">", 4)]), one)
    assert not is_found(make(where=[(key, ">", 5)]), one)


def test_moments_are_microseconds() -> None:
    header = (
        "created: 2026-11-15\nupdated: 2026-11-16T10:00:00.000001+02:00\nexpires: 2027-01-01\n"
        "valid_from: 2026-01-01\nvalid_until: 2026-12-31"
    )

    assert memory_moments(memory(header)) == {
        "created": micros(datetime(2026, 11, 15, tzinfo=UTC)),
        "updated": micros(datetime(2026, 11, 16, 8, 0, 0, 1, tzinfo=UTC)),
        "expires": micros(datetime(2027, 1, 2, tzinfo=UTC)) - 1,
        "valid_from": micros(datetime(2026, 1, 1, tzinfo=UTC)),
        "valid_until": micros(datetime(2027, 1, 1, tzinfo=UTC)) - 1,
    }
    assert memory_moments(memory()) == {"created": micros(FILE_TIME), "updated": micros(FILE_TIME)}


# --- excluded by default ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "one", "mismatch"),
    [
        ("archived", memory("", "archive/facts/alice/tea.md"), "forgotten: it is in archive/"),
        ("archived", memory("", "Archive/tea.md"), "forgotten: it is in archive/"),
        ("expired", memory("expires: 2026-11-16"), "expired on 2026-11-16"),
        ("deprecated", memory("status: deprecated"), "its status is deprecated"),
    ],
)
def test_memories_excluded_by_default_can_be_included(word: str, one: Memory, mismatch: str) -> None:
    assert not is_found(make(), one)
    assert make().mismatches(one, NOW) == [mismatch]
    assert not is_found(make(include=[other for other in INCLUDES if other != word]), one)
    assert is_found(make(include=word), one)
    assert is_found(make(include=[word, "superseded"]), one)
    assert is_found(make(include="all"), one)


@pytest.mark.parametrize(
    ("expires", "now", "is_in"),
    [
        ("2026-11-17", NOW, True),
        ("2026-11-17", datetime(2026, 11, 17, 23, 59, 59, 999_999, tzinfo=UTC), True),
        ("2026-11-17", datetime(2026, 11, 18, tzinfo=UTC), False),
        ("2026-11-17T12:00:00Z", NOW, True),
        ("2026-11-17T12:00:00Z", NOW + timedelta(microseconds=1), False),
        ("2026-11-17T14:00:00+02:00", NOW.astimezone(timezone(timedelta(hours=-8))), True),
        ("9999-12-31", NOW, True),
        ("0001-01-01", NOW, False),
    ],
)
def test_a_memory_expires_after_its_last_moment(expires: str, now: datetime, is_in: bool) -> None:
    assert is_found(make(), memory(f"expires: {expires}"), now) == is_in


def test_a_filter_accepts_drafts_and_leaves_superseded_memories_to_the_search() -> None:
    assert is_found(make(), memory("status: draft"))
    assert make(include="superseded").include == {"superseded"}
    assert make(include=["all"]).include == set(INCLUDES)


def test_status_deprecated_includes_deprecated_memories() -> None:
    one = memory("status: deprecated")

    assert is_found(make(status="deprecated"), one)
    assert is_found(make(status=["stable", "deprecated"]), one)
    assert not is_found(make(status="stable"), one)


def test_a_filter_without_conditions_is_empty() -> None:
    assert make().is_empty
    assert make("/", scope="/facts").is_empty
    assert make("/facts", scope="/facts", where=None, tags=None, created=(None, None), updated="..").is_empty
    arguments: list[dict[str, Any]] = [
        {"namespace": "/facts"}, {"type": "note"}, {"status": "stable"}, {"tags": "a"}, {"created": "2026-01-01.."},
        {"updated": "2026-01-01"}, {"valid": "..2026-01-01"}, {"where": {"x": 1}}, {"where": [("x", "EXISTS")]},
        {"include": "superseded"},
    ]  # fmt: skip
    assert not any(make(**one).is_empty for one in arguments)


# --- namespaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "path", "is_in"),
    [
        ("/", "tea.md", True),
        ("/actors/alice", "actors/alice/tea.md", True),
        ("/actors/alice", "actors/alice/2026/tea.md", True),
        ("/actors/alice", "actors/alice2/tea.md", False),
        ("/actors/alice", "actors/tea.md", False),
        ("/actors/alice", "x/actors/alice/tea.md", False),
        ("/actors/alice", "Actors/ALICE/tea.md", True),
        ("/Actors/ALICE", "actors/alice/tea.md", True),
        ("/actors/z\u00e9", "actors/ze\u0301/tea.md", True),
        ("/actors/STRASSE", "actors/straße/tea.md", True),
        ("/actors", "tea.md", False),
    ],
)
def test_a_namespace_is_a_subtree_of_whole_names(namespace: str, path: str, is_in: bool) -> None:
    assert is_found(make(namespace), memory("", path)) == is_in
    assert is_found(make(scope=namespace), memory("", path)) == is_in


@pytest.mark.parametrize(
    ("arguments", "is_in"),
    [
        ({"namespace": "/facts/alice"}, False),
        ({"namespace": "/facts/alice", "include": "archived"}, True),
        ({"namespace": "/facts", "include": "all"}, True),
        ({"namespace": "/facts/bob", "include": "all"}, False),
        ({"namespace": "/archive"}, True),
        ({"namespace": "/ARCHIVE/Facts/alice"}, True),
        ({"namespace": "/archive/facts/bob"}, False),
        ({"namespace": "/archive/facts/alice", "scope": "/facts/alice"}, True),
        ({"namespace": "/archive", "scope": "/facts/alice"}, True),
        ({"namespace": "/archive", "scope": "/facts/bob"}, False),
        ({"scope": "/facts/alice"}, False),
        ({"scope": "/facts/alice", "include": "archived"}, True),
        ({"scope": "/facts/bob", "include": "archived"}, False),
        ({"namespace": "/facts", "scope": "/facts/alice", "include": "archived"}, True),
    ],
)
def test_an_archived_memory_still_belongs_to_its_former_namespace(arguments: dict[str, Any], is_in: bool) -> None:
    assert is_found(make(**arguments), memory("", "archive/facts/alice/tea.md")) == is_in


def test_the_scope_restricts_any_namespace() -> None:
    one = memory("", "facts/bob/tea.md")

    assert not is_found(make("/facts", scope="/facts/alice", include="all"), one)
    assert not is_found(make("/facts/bob", scope="/facts/alice"), one)
    assert not is_found(make("/archive", scope="/facts/bob"), one)
    assert is_found(make("/facts", scope="/facts/bob"), one)


# --- type, status, tags -------------------------------------------------------------------------------


def test_type_and_status_are_one_of_several_texts() -> None:
    fact, plain = memory("type: fact\nstatus: draft"), memory()

    assert is_found(make(type="fact"), fact)
    assert is_found(make(type=["fact", "note"], status=("draft", "stable")), fact)
    assert is_found(make(not_status="draft"), plain)
    assert not is_found(make(not_status=["draft", "odd"]), fact)
    assert is_found(make(type=("fact", "note"), status="stable"), plain)
    assert not is_found(make(type="Fact"), fact)
    assert not is_found(make(type="note"), fact)
    assert not is_found(make(status="stable"), fact)
    assert is_found(make(type="caf\u00e9"), memory("type: cafe\u0301"))
    assert is_found(make(type="cafe\u0301"), memory("type: caf\u00e9"))
    assert not is_found(make(type="t" * 99), memory(f"type: {'t' * 150}"))


def test_all_tags_must_match_in_any_case() -> None:
    one = memory("tags: [Food, Straße, éa]")

    assert is_found(make(tags="food"), one)
    assert is_found(make(tags=["FOOD", "STRASSE", "e\u0301A"]), one)
    assert not is_found(make(tags=["food", "japan"]), one)
    assert not is_found(make(tags="foo"), one)
    assert not is_found(make(tags="food"), memory())
    assert is_found(make(tags="b"), memory("tags: a, b"))
    assert not is_found(make(tags="t" * 99), memory(f"tags: {'t' * 150}"))


# --- times --------------------------------------------------------------------------------------------

DAY = "created: 2026-11-15T10:30:00Z"


@pytest.mark.parametrize(
    ("span", "is_in"),
    [
        ("2026-11-15", True),
        ("2026-11-14", False),
        ("2026-11-15..2026-11-15", True),
        ("2026-11-01..2026-11-15", True),
        ("2026-11-01..2026-11-14", False),
        ("2026-11-15..", True),
        ("2026-11-16..", False),
        ("..2026-11-15", True),
        (" .. 2026-11-14 ", False),
        ("..2026-11-15T10:30:00Z", True),
        ("..2026-11-15T10:29:59Z", False),
        ("2026-11-15T11:30:00+01:00", True),
        ("2026-11-15T10:30", True),
        ("2026-11-15T10:30:00.000001Z..", False),
        (date(2026, 11, 15), True),
        (datetime(2026, 11, 15, 10, 30), True),  # noqa: DTZ001  no zone means UTC
        (datetime(2026, 11, 15, 10, 30, tzinfo=timezone(timedelta(hours=1))), False),
        ((None, "2026-11-15"), True),
        (["2026-11-15", None], True),
        ((date(2026, 11, 16), None), False),
        ((date(2026, 1, 1), datetime(2026, 11, 15, 10, 30, tzinfo=UTC)), True),
        (("0001-01-01", "9999-12-31"), True),
        ((None, None), True),
        (None, True),
    ],
)
def test_a_memory_is_created_and_updated_in_a_span(span: Any, is_in: bool) -> None:
    assert is_found(make(created=span), memory(DAY)) == is_in
    assert is_found(make(updated=span), memory(DAY)) == is_in
    assert is_found(make(updated=span), memory(f"created: 2020-01-01\nupdated{DAY[7:]}")) == is_in


def test_the_file_time_replaces_missing_header_times() -> None:
    assert is_found(make(created="2026-11-01", updated="2026-11-01"), memory())
    assert not is_found(make(created="2026-11-02.."), memory())


@pytest.mark.parametrize("moment", [datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC)])
def test_moment_zero_compares_like_any_other(moment: datetime) -> None:
    one = memory(f"created: {moment.isoformat()}")

    assert is_found(make(created=(moment, moment)), one)
    assert not is_found(make(created=(None, moment - timedelta(seconds=1))), one)
    assert not is_found(make(created=(moment + timedelta(seconds=1), None)), one)
    assert is_found(make(where=[("created", "<=", moment)]), one)


@pytest.mark.parametrize(
    ("header", "span", "is_in"),
    [
        ("", "2026-11-15", True),
        ("valid_from: 2026-11-15", "2026-11-15", True),
        ("valid_from: 2026-11-15", "2026-11-14", False),
        ("valid_from: 2026-11-15", "2026-01-01..", True),
        ("valid_until: 2026-11-15", "2026-11-15T23:59:59Z", True),
        ("valid_until: 2026-11-15", "2026-11-16", False),
        ("valid_until: 2026-11-15", "..2030-01-01", True),
        ("valid_from: 2026-02-01\nvalid_until: 2026-03-01", "2026-01-01..2026-02-01", True),
        ("valid_from: 2026-02-01\nvalid_until: 2026-03-01", "2026-03-01..2026-04-01", True),
        ("valid_from: 2026-02-01\nvalid_until: 2026-03-01", "2026-01-01..2026-12-31", True),
        ("valid_from: 2026-02-01\nvalid_until: 2026-03-01", "2026-03-02..2026-12-31", False),
        ("valid_from: 2026-02-01\nvalid_until: 2026-03-01", "2026-01-01..2026-01-31", False),
    ],
)
def test_a_memory_is_valid_at_some_moment_of_a_span(header: str, span: str, is_in: bool) -> None:
    assert is_found(make(valid=span), memory(header)) == is_in


# --- where --------------------------------------------------------------------------------------------

OPERATIONS: list[tuple[str, str, str, Any, bool]] = [
    ("x: tea", "x", "EQUALS", "tea", True),
    ("x: tea", "x", "EQUALS", "Tea", False),
    ("x: tea", "x", "EQUALS", "te", False),
    ("x: cafe\u0301", "x", "EQUALS", "caf\u00e9", True),
    ("x: 3", "x", "EQUALS", 3.0, True),
    ("x: 3.0", "x", "EQUALS", 3, True),
    ("x: 3", "x", "EQUALS", "3", False),
    ('x: "3"', "x", "EQUALS", 3, False),
    ("x: 1", "x", "EQUALS", True, False),
    ("x: true", "x", "EQUALS", 1, False),
    ("x: true", "x", "EQUALS", True, True),
    ("x: false", "x", "EQUALS", True, False),
    ("x: true", "x", "EQUALS", "true", False),
    ("x: 123456789012345678", "x", "EQUALS", 123456789012345677, False),
    ("x: 2026-11-15", "x", "EQUALS", "2026-11-15", True),
    ("x: 2026-11-15", "x", "EQUALS", date(2026, 11, 15), True),
    ("x: 2026-11-15T01:00:00+01:00", "x", "EQUALS", date(2026, 11, 15), True),
    ("x: 2026-11-15", "x", "EQUALS", "2026-11-15T00:00:00Z", True),
    ("x: 2026-11-15T10:30:00Z", "x", "EQUALS", "2026-11-15", False),
    ("x: 20261115901", "x", "EQUALS", "20261115801", False),
    ('x: "20261115901"', "x", "EQUALS", "20261115801", False),
    ("x: [a, b]", "x", "EQUALS", "a", True),
    ("x: [a, b]", "x", "EQUALS", "c", False),
    ("x: [a, b]", "x", "EQUALS", ["b", "a"], True),
    ("x: [a, b]", "x", "EQUALS", ("a", "b"), True),
    ("x: [a, b]", "x", "EQUALS", ["a"], False),
    ("x: [a, b]", "x", "EQUALS", ["a", "b", "c"], False),
    ("x: [1, 2026-11-15]", "x", "EQUALS", [1.0, date(2026, 11, 15)], True),
    ("x: a", "x", "EQUALS", ["a"], False),
    ("x: []", "x", "EQUALS", [], True),
    ("x: [[a]]", "x", "EQUALS", "a", False),
    ("x: {a: b}", "x", "EQUALS", "a", False),
    ("tags: [Food]", "tags", "EQUALS", "Food", True),
    ("tags: [Food]", "tags", "EQUALS", "food", False),
    ("tags: [a, b]", "tags", "EQUALS", ["b", "a"], True),
    ("tags: [2026-11-15T10:00:00Z]", "tags", "EQUALS", "2026-11-15T11:00:00+01:00", True),
    ("", "x", "EQUALS", "a", False),
    ("x: a", "x", "EXISTS", None, True),
    ("x: false", "x", "EXISTS", None, True),
    ("x: null", "x", "EXISTS", None, False),
    ("", "x", "EXISTS", None, False),
    ("", "type", "EXISTS", None, False),
    ("", "created", "EXISTS", None, False),
    ("", "path", "EXISTS", None, False),
    ("created: 2026-11-15", "created", "EXISTS", None, True),
    ("metadata: {author: bob, role: null}", "metadata.author", "EXISTS", None, True),
    ("metadata: {author: bob, role: null}", "metadata.role", "EXISTS", None, False),
    ("x: a", "x", "NOT_EXISTS", None, False),
    ("x: null", "x", "NOT_EXISTS", None, True),
    ("metadata: {author: bob, role: null}", "metadata.role", "NOT_EXISTS", None, True),
    ("", "importance", "NOT_EXISTS", None, True),
    ("due: 2026-11-15", "due", "BEFORE", "2026-11-16", True),
    ("due: 2026-11-15", "due", "BEFORE", "2026-11-15", False),
    ("due: 2026-11-15", "due", "BEFORE", "2026-11-15T00:00:01Z", True),
    ("due: soon", "due", "BEFORE", "2026-11-15", False),
    ("due: 5", "due", "BEFORE", "2026-11-15", False),
    ("due: [2026-11-15]", "due", "BEFORE", "2026-11-16", False),
    ("", "due", "BEFORE", "2026-11-15", False),
    ("due: 2026-11-15", "due", "AFTER", "2026-11-14", True),
    ("due: 2026-11-15T23:59:59Z", "due", "AFTER", "2026-11-15", False),
    ("due: 2026-11-15T10:00:01Z", "due", "AFTER", datetime(2026, 11, 15, 10, tzinfo=UTC), True),
    ("due: soon", "due", "AFTER", "2026-11-15", False),
    ("created: 2026-11-15", "created", "BEFORE", "2026-11-16", True),
    ("created: 2026-11-15", "created", "AFTER", "2026-11-15", False),
    ("created: 2026-11-15", "created", "EQUALS", "2026-11-15", True),
    ("", "created", "AFTER", "2026-10-31", True),
    ("", "updated", "<", FILE_TIME, False),
    ("", "updated", "<=", FILE_TIME, True),
    ("", "created", "EQUALS", "yesterday", False),
    ("", "created", "CONTAINS", "2026", False),
    ("expires: 2027-01-01", "expires", "EQUALS", "2027-01-01", True),
    ("expires: 2027-01-01", "expires", "BEFORE", "2027-01-02", True),
    ("expires: 2027-01-01", "expires", "AFTER", "2027-01-01", False),
    ("expires: 2027-01-01", "expires", "AFTER", "2026-12-31", True),
    ("", "expires", "BEFORE", "2030-01-01", False),
    ("valid_from: 2026-01-01", "valid_from", "<=", "2026-01-01", True),
    ("valid_until: 9999-12-31", "valid_until", "EQUALS", "9999-12-31", True),
    ("x: Green Tea", "x", "CONTAINS", "tea", True),
    ("x: STRASSE", "x", "CONTAINS", "straße", True),
    ("x: green", "x", "CONTAINS", "tea", False),
    ("x: [Green, Tea]", "x", "CONTAINS", "tea", True),
    ("x: [Green, Teapot]", "x", "CONTAINS", "tea", False),
    ("x: [1, 2]", "x", "CONTAINS", 2.0, True),
    ("x: [1, true]", "x", "CONTAINS", True, True),
    ("x: [1]", "x", "CONTAINS", True, False),
    ("x: 12", "x", "CONTAINS", 1, False),
    ("x: 12", "x", "CONTAINS", "1", False),
    ("x: [2026-11-15T10:00:00Z]", "x", "CONTAINS", "2026-11-15T11:00:00+01:00", True),
    ("x: due 2026-11-15 at noon", "x", "CONTAINS", "2026-11-15", True),
    ("x: 2026-11-15T10:00:00Z", "x", "CONTAINS", "2026-11-15", True),
    ("tags: [Food]", "tags", "CONTAINS", "FOOD", True),
    ("tags: [2026-11-15T10:00:00Z]", "tags", "CONTAINS", "2026-11-15T11:00:00+01:00", True),
    ("description: About Tea", "description", "CONTAINS", "tea", True),
    ("", "description", "CONTAINS", "Alice", False),
    ("x: 3", "x", ">", 2, True),
    ("x: 3", "x", ">", 3, False),
    ("x: 2.5", "x", ">", 2, True),
    ("x: true", "x", ">", 0, False),
    ('x: "3"', "x", ">", 2, False),
    ("x: b", "x", ">", "a", True),
    ("x: B", "x", ">", "a", False),
    ("x: 3", "x", ">", "2", False),
    ("x: [3]", "x", ">", 2, False),
    ("x: 2026-11-15T10:00:00+05:00", "x", ">", "2026-11-15T06:00:00Z", False),
    ("x: 2026-11-15T12:00:00Z", "x", ">", "2026-11-15", False),
    ("x: soon", "x", ">", "2026-11-15", True),
    ("x: soon", "x", ">", date(2026, 11, 15), False),
    ("x: 3", "x", ">=", 3.0, True),
    ("x: 2", "x", ">=", 3, False),
    ("x: 2026-11-15T12:00:00Z", "x", ">=", "2026-11-15", True),
    ("x: 2", "x", "<", 3, True),
    ("x: 3", "x", "<", 3, False),
    ("x: 2026-11-15", "x", "<", "2026-11-15T12:00:00Z", True),
    ("x: 3", "x", "<=", 3, True),
    ("x: 4", "x", "<=", 3, False),
    ("x: 2026-11-15T12:00:00Z", "x", "<=", "2026-11-15", True),
    ("x: 2026-11-16", "x", "<=", "2026-11-15", False),
    ("", "importance", "EQUALS", 1, True),
    ("", "importance", "<", 5, True),
    ("", "importance", ">=", 5, False),
    ("importance: 7", "importance", ">=", 5, True),
    ("importance: 10", "importance", ">", 9, True),
    ("", "pinned", "EQUALS", False, True),
    ("pinned: true", "pinned", "EQUALS", True, True),
    ("", "pinned", "EQUALS", True, False),
    ("", "type", "EQUALS", "note", True),
    ("", "type", "CONTAINS", "OT", True),
    ("", "status", "EQUALS", "stable", True),
    ("id: m-1", "id", "EQUALS", "m-1", True),
    ("", "id", "EQUALS", "facts/alice/tea", True),
    ("", "id", "CONTAINS", "ALICE", True),
    ("id: m-1", "id", "CONTAINS", "alice", False),
    ("title: Green", "title", "EQUALS", "Green", True),
    ("", "title", "EQUALS", "tea", True),
    ("", "title", "CONTAINS", "coffee", False),
    ("", "path", "EQUALS", "facts/alice/tea.md", True),
    ("path: x", "path", "EQUALS", "x", False),
    ("", "path", "CONTAINS", "/Alice/", True),
    ("", "namespace", "EQUALS", "/facts/alice", True),
    ("", "namespace", "EQUALS", "/facts", False),
    ("metadata: {author: bob}", "metadata.author", "EQUALS", "bob", True),
    ("metadata: {author: {name: bob}}", "metadata.author.name", "CONTAINS", "BO", True),
    ("metadata: {author: bob}", "metadata.author.name", "EQUALS", "bob", False),
    ("metadata: {author: bob}", "author", "EQUALS", "bob", False),
    ('"a.b": {c: 1}', "a.b.c", "EQUALS", 1, True),
    ('"a.b": 1', "a.b", ">", 0, True),
    ("a: {b: null}\n'a.b': 2", "a.b", "EQUALS", 2, True),
    ("a.b: {c: null}\na: {'b.c': 3}", "a.b.c", "EQUALS", 3, True),
]


@pytest.mark.parametrize(("header", "key", "operator", "value", "is_in"), OPERATIONS)
def test_a_condition_on_a_header_key(header: str, key: str, operator: str, value: Any, is_in: bool) -> None:
    condition = (key, operator) if operator in {"EXISTS", "NOT_EXISTS"} else (key, operator, value)

    assert is_found(make(where=[condition]), memory(header)) == is_in
    assert is_found(make(where=[(key, operator.lower(), value)]), memory(header)) == is_in


def test_every_operator_has_a_matching_and_a_failing_case() -> None:
    assert {(operator, is_in) for _, _, operator, _, is_in in OPERATIONS} == {
        (operator, is_in) for operator in OPERATORS for is_in in (True, False)
    }


def test_where_is_a_mapping_one_condition_or_several() -> None:
    one = memory("x: 1\ny: [a]")

    assert is_found(make(where={"x": 1, "y": "a"}), one)
    assert not is_found(make(where={"x": 1, "y": "b"}), one)
    assert is_found(make(where=("x", "=", 1)), one)
    assert is_found(make(where=["x", "EXISTS"]), one)
    assert is_found(make(where=[("x", "==", 1), ["y", "contains", "A"]]), one)
    assert is_found(make(where=iter([("x", ">", 0), ("z", "NOT_EXISTS")])), one)


@pytest.mark.parametrize("length", [99, 100, 101, 150])
@pytest.mark.parametrize("operator", ["EQUALS", "CONTAINS", ">", ">=", "<", "<="])
def test_long_values_are_compared_whole(length: int, operator: str) -> None:
    value = "é" * length
    compare: dict[str, Callable[[str], bool]] = {
        "EQUALS": lambda want: value == want, "CONTAINS": lambda want: want in value,
        ">": lambda want: value > want, ">=": lambda want: value >= want,
        "<": lambda want: value < want, "<=": lambda want: value <= want,
    }  # fmt: skip
    for want in (value, value + "é", value[:-1], value[:-1] + "a", value[:-1] + "ü", "a", "ü"):
        assert is_found(make(where=[("x", operator, want)]), memory(f"x: {value}")) == compare[operator](want)
        assert is_found(make(where=[("x.y", operator, want)]), memory(f"x: {{y: {value}}}")) == compare[operator](want)


def test_a_filter_is_exact_unless_it_compares_values() -> None:
    assert make("/facts", type="a", tags="b", created="2026-01-01", where=[("x", "EXISTS")]).is_exact
    assert not make(where={"x": 1}).is_exact
    assert passes_clauses(make(where={"x": 1}).clauses(NOW), memory('x: "1"'))


@pytest.mark.parametrize(
    ("arguments", "clauses"),
    [
        ({"where": {"x": 3.0}}, [AnyOf(("x=3",))]),
        ({"where": {"x": "a" * 150}}, [AnyOf(("x=" + "a" * 100,))]),
        ({"where": {"tags": ["A", "b"]}}, [AnyOf(("tags=a",)), AnyOf(("tags=b",))]),
        ({"where": {"importance": 1}}, []),
        ({"where": {"importance": 2}}, [AnyOf(("importance=2",))]),
        ({"where": {"title": "a"}}, []),
        ({"where": {"description": "a"}}, [AnyOf(("description",))]),
        ({"where": [("expires", "BEFORE", "2026-01-01")]}, [AnyOf(("expires",))]),
        ({"where": [("created", ">=", "1970-01-01T00:00:01Z")]}, [Between("created", 1_000_000, None)]),
        ({"type": ["a", "b"]}, [AnyOf(("type=a", "type=b"))]),
        ({"tags": ["A", "b"]}, [AnyOf(("tags=a",)), AnyOf(("tags=b",))]),
        ({"namespace": "/A"}, [AnyOf(("in=/a", "in=/archive/a"))]),
        ({"created": "..1970-01-01"}, [Between("created", None, 86_400_000_000 - 1)]),
    ],
)
def test_a_filter_has_these_clauses_for_an_index(arguments: dict[str, Any], clauses: list[Clause]) -> None:
    usual = [NoneOf(("in=/archive",)), NoneOf(("status=deprecated",)), Between("expires", micros(NOW), None)]

    assert [clause for clause in make(**arguments).clauses(NOW) if clause not in usual] == clauses


# --- messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "header", "mismatches"),
    [
        ({"type": "preference"}, "", ["type is 'note', not 'preference'"]),
        ({"type": ["a", "b"], "status": "draft"}, "type: c",
         ["type is 'c', not 'a' or 'b'", "status is 'stable', not 'draft'"]),
        ({"not_status": ["draft", "stable"]}, "type: c", ["status is 'stable'"]),
        ({"tags": ["food", "Japan"]}, "tags: [Food]", ["has no tag 'japan'"]),
        ({"namespace": "/facts/bob"}, "", ["is in /facts/alice, not below /facts/bob"]),
        ({"scope": "/facts/bob"}, "", ["is in /facts/alice, outside the scope /facts/bob"]),
        ({"created": "2026-11-16..2026-11-20"}, DAY, ["created on 2026-11-15, not in 2026-11-16..2026-11-20"]),
        ({"updated": (None, date(2026, 1, 1))}, DAY, ["updated on 2026-11-15, not in ..2026-01-01"]),
        ({"valid": "2026-11-16"}, "valid_until: 2026-11-15", ["valid until 2026-11-15, not in 2026-11-16"]),
        ({"valid": "2026-11-14"}, "valid_from: 2026-11-15", ["valid from 2026-11-15, not in 2026-11-14"]),
        ({}, "expires: 2026-01-01\nstatus: deprecated", ["its status is deprecated", "expired on 2026-01-01"]),
        ({"where": [("x", "EXISTS")]}, "", ["has no key 'x'"]),
        ({"where": [("x", "NOT_EXISTS")]}, "x: 1", ["has a key 'x'"]),
        ({"where": {"x": 1}}, "", ["has no key 'x'"]),
        ({"where": [("importance", ">=", 5)]}, "", ["importance is 1, not >= 5"]),
        ({"where": [("created", "BEFORE", date(2026, 1, 1))]}, DAY,
         ["created is 2026-11-15T10:30:00+00:00, not BEFORE 2026-01-01"]),
        ({"where": {"x": "b" * 200}}, "x: a", [f"x is 'a', not EQUALS '{'b' * 96}..."]),
    ],
)  # fmt: skip
def test_mismatches_state_the_reasons(arguments: dict[str, Any], header: str, mismatches: list[str]) -> None:
    assert make(**arguments).mismatches(memory(header), NOW) == mismatches


TEN = "known: EQUALS, EXISTS, NOT_EXISTS, BEFORE, AFTER, CONTAINS, >, >=, <, <="
SCALAR = "is not a text, a number, a time, true or false"
TIME = "is not a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": 3}, "type: 3 is not a text or a list of texts"),
        ({"type": ["a", 3]}, "type: 3 is not a text of 1 to 99 characters"),
        ({"type": ""}, "type: '' is not a text of 1 to 99 characters"),
        ({"status": [" "]}, "status: ' ' is not a text of 1 to 99 characters"),
        ({"tags": [None]}, "tags: None is not a text of 1 to 99 characters"),
        ({"tags": "\ud800"}, "tags: '\\ud800' is not a text of 1 to 99 characters"),
        ({"tags": "a" * 100}, f"tags: '{'a' * 96}... is not a text of 1 to 99 characters"),
        ({"tags": "ß" * 50}, f"tags: '{'ß' * 50}' is not a text of 1 to 99 characters"),
        ({"include": "archive"}, "include: 'archive' is none of archived, expired, deprecated, superseded, all"),
        ({"created": "soon"}, f"created: 'soon' {TIME}"),
        ({"created": ""}, f"created: '' {TIME}"),
        ({"created": "2026-13-45"}, f"created: '2026-13-45' {TIME}"),
        ({"created": 5}, f"created: 5 {TIME}"),
        ({"created": "2026-01-01...2026-01-02"}, f"created: '.2026-01-02' {TIME}"),
        ({"updated": "2026-01-01..x"}, f"updated: 'x' {TIME}"),
        ({"updated": "2026-02-01..2026-01-01"}, "updated: 2026-02-01 is after 2026-01-01"),
        ({"valid": (date(2026, 2, 1), "2026-01-01")}, "valid: 2026-02-01 is after 2026-01-01"),
        ({"valid": ("2026-01-01",)}, "valid: ('2026-01-01',) is not a pair (from, to)"),
        ({"valid": "0001-01-01T00:00:00+23:00"}, f"valid: '0001-01-01T00:00:00+23:00' {TIME}"),
        ({"where": "x"}, "where: 'x' is not a condition (key, operator, value)"),
        ({"where": 3}, "where: 3 is not a condition (key, operator, value)"),
        ({"where": [("x",)]}, "where: ('x',) is not a condition (key, operator, value)"),
        ({"where": [("x", "EQUALS", 1, 2)]}, "where: ('x', 'EQUALS', 1, 2) is not a condition (key, operator, value)"),
        ({"where": {"": 1}}, "where: '' is not a key of less than 100 characters"),
        ({"where": {3: 1}}, "where: 3 is not a key of less than 100 characters"),
        ({"where": {"k" * 100: 1}}, f"where: '{'k' * 96}... is not a key of less than 100 characters"),
        ({"where": [("x", "LIKE", 1)]}, f"where: unknown operator 'LIKE'; {TEN}"),
        ({"where": [("x", "!=", 1)]}, f"where: unknown operator '!='; {TEN}"),
        ({"where": [("x", [], 1)]}, f"where: unknown operator []; {TEN}"),
        ({"where": [("x", "EXISTS", 1)]}, "where x EXISTS: takes no value, not 1"),
        ({"where": [("x", "EQUALS")]}, "where x EQUALS: needs a value"),
        ({"where": {"x": None}}, "where x EQUALS: needs a value"),
        ({"where": {"x": [None]}}, "where x EQUALS: needs a value"),
        ({"where": {"x": {"a": 1}}}, f"where x EQUALS: {{'a': 1}} {SCALAR}"),
        ({"where": {"x": "\ud800"}}, f"where x EQUALS: '\\ud800' {SCALAR}"),
        ({"where": [("x", "CONTAINS", ["a"])]}, f"where x CONTAINS: ['a'] {SCALAR}"),
        ({"where": [("x", ">", True)]}, "where x >: True is not a text, a number or a time"),
        ({"where": [("x", "<=", [])]}, "where x <=: [] is not a text, a number or a time"),
        ({"where": [("x", "BEFORE", "soon")]}, f"where x BEFORE: 'soon' {TIME}"),
        ({"where": [("x", "AFTER", 5)]}, f"where x AFTER: 5 {TIME}"),
        ({"where": [("importance", ">", "high")]}, "where importance >: 'high' is not a number"),
        ({"where": [("valid_from", "<=", "soon")]}, f"where valid_from <=: 'soon' {TIME}"),
        ({"where": [("created", ">", 5)]}, f"where created >: 5 {TIME}"),
    ],
)  # fmt: skip
def test_invalid_arguments_raise_an_error_with_the_reason(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSearchError) as caught:
        make(**arguments)

    assert str(caught.value) == message


# --- properties ---------------------------------------------------------------------------------------

TEXTS = [
    "tea", "Tea", "TEA", "te", "3", "3.0", "true", "false", "nan", "inf", "2026-11-15", "2026-11-15T00:00:00Z",
    "2026-11-15t00:00:00z", "2026-11-15T01:00:00+01:00", "2026-11-16", "2026-W46-7", "20261115T10", "\u00e9", "e\u0301",
    "É", "straße", "STRASSE", "a=b", "in", "/archive", "deprecated", "a\nb", "x" * 99, "x" * 100, "x" * 101, "x" * 150,
    "é" * 150, "2026-11-15T00:00:00." + "0" * 100, "\U0001f375", "0x1f", "1e3", "1000",
]  # fmt: skip
KEYS = [
    "x", "x.y", "x.y.z", "metadata", "metadata.author", "in", "a=b", "a", "%in", "k" * 99, "k" * 100, "k" * 150, "due",
]  # fmt: skip
DATES = ["2026-11-15", "2026-11-15T00:00:00Z", "2026-11-18T01:00:00+02:00", "1970-01-01", "0001-01-01", "9999-12-31"]
KNOWN: dict[str, list[Any]] = {
    "id": ["m-1", "m-2", "2026-11-15"], "type": ["fact", "note", "x" * 150],
    "status": ["draft", "deprecated", "stable"], "title": ["tea"], "description": ["Tea."],
    "tags": [["tea"], ["TEA", "straße"], ["x" * 150, "3"], []], "aliases": [["tea", "Tea"]],
    "importance": [1, 3, 10], "pinned": [True, False],
    "created": DATES, "updated": DATES, "expires": DATES, "valid_from": DATES, "valid_until": DATES,
}  # fmt: skip
PATHS = ["tea.md", "facts/alice/tea.md", "Facts/Alice2/t.md", "archive/facts/alice/t.md", "Archive/t.md", "é/a.md"]
PLACES = ["/", "/facts", "/facts/alice", "/FACTS/alice", "/archive", "/archive/facts", "/a"]

texts = st.sampled_from(TEXTS) | st.text(max_size=4)
scalars = st.one_of(texts, texts, st.booleans(), st.integers(-3, 12), st.integers(), st.floats(allow_nan=False))
below = st.sampled_from(["y", "z", "author", "y.z"])
yaml_values = st.recursive(
    scalars | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(below, inner, max_size=3),
    max_leaves=5,
)
times = st.sampled_from(["2026-11-15", "2026-11-14", "2026-11-15T00:00:00Z", "1970-01-01", date(2026, 11, 17), NOW])


@st.composite
def headers(draw: st.DrawFn, values: st.SearchStrategy[Any] = yaml_values) -> dict[str, Any]:
    known = draw(st.lists(st.sampled_from(sorted(KNOWN)), max_size=4, unique=True))
    return {
        **draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=4)),
        **{key: draw(st.sampled_from(KNOWN[key])) for key in known},
    }


@st.composite
def read_memories(draw: st.DrawFn) -> Memory:
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in draw(headers()).items()]
    return memory("\n".join(lines), draw(st.sampled_from(PATHS)))


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Any, ...]:
    key = draw(st.sampled_from([*KEYS[:10], *KNOWN, "path", "namespace", "metadata.y", "x.author", "due"]))
    operator = draw(st.sampled_from(OPERATORS))
    if operator in {"EXISTS", "NOT_EXISTS"}:
        return key, operator
    if operator in {"BEFORE", "AFTER"}:
        return key, operator, draw(times)
    known = [item for values in KNOWN.get(key, []) for item in (values if isinstance(values, list) else [values])]
    places = [*PATHS, *PLACES] if key in {"path", "namespace", "id", "title"} else []
    near = st.sampled_from([*known, *places]) if known or places else scalars
    values = near | scalars | times
    if operator[0] in "<>":
        values = values.map(lambda value: int(value) if isinstance(value, bool) else value)
        values = st.integers(-3, 12) if key == "importance" else times if key in TIME_KEYS else values
    return key, operator, draw(values | st.lists(values, max_size=3) if operator == "EQUALS" else values)


def several(choices: Iterable[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(choices)), max_size=2)


def spans() -> st.SearchStrategy[Any]:
    return st.none() | times | times.map(lambda low: (low, None)) | times.map(lambda high: (None, high))


@st.composite
def search_filters(draw: st.DrawFn) -> Filter:
    arguments: dict[str, Any] = {"scope": draw(st.sampled_from(["/", "/", "/facts/alice"]))}
    arguments |= {"where": draw(st.lists(conditions(), max_size=2)), "include": draw(several([*INCLUDES, "all"]))}
    if draw(st.booleans()):
        arguments |= {
            "type": draw(several(["note", "fact"])),
            "status": draw(several(["draft", "stable", "deprecated"])),
        }
        arguments |= {"not_status": draw(several(["draft", "stable"]))}
    if draw(st.booleans()):
        arguments |= {
            "tags": draw(several(["tea", "TEA", "strasse"])),
            "created": draw(spans()),
            "valid": draw(spans()),
        }
        arguments |= {"updated": draw(spans())}
    return make(draw(st.none() | st.sampled_from(PLACES)), **arguments)


@given(search_filters(), read_memories())
@settings(max_examples=5 * FULL)
def test_the_clauses_accept_every_match(search_filter: Filter, one: Memory) -> None:
    event(f"matches: {is_found(search_filter, one)}, exact: {search_filter.is_exact}")


VALUES: list[Any] = [
    *TEXTS, True, False, 0, 1, 3, 3.0, 0.5, -1, 10**17 + 1, 1e17, 10**99, 1e99, 10**150, 10**5000, 1000, float("inf"),
    float("nan"), date(2026, 11, 15), NOW, datetime(2026, 11, 15, tzinfo=timezone(timedelta(hours=1))), date.max,
]  # fmt: skip


@pytest.mark.parametrize("operator", [word for word in OPERATORS if "EXISTS" not in word])
def test_every_value_compares_with_every_other(operator: str) -> None:
    texts = [value for value in VALUES if isinstance(value, str)]
    held: dict[str, list[Memory]] = {
        "x": [MemoryWithValues({"x": form(value)}) for value in VALUES for form in FORMS],
        "tags": [MemoryWithValues({"tags": (text, "other")}) for text in texts],
        "id": [MemoryWithValues({"id": text}) for text in texts],
        "type": [MemoryWithValues({"type": text}) for text in texts],
    }
    count = 0
    for wanted in [*VALUES, ["tea", "Tea"], ["2026-11-15", 3]]:
        for key, memories in held.items():
            try:
                search_filter = make(where=[(key, operator, wanted)], include="all")
            except InvalidSearchError:
                continue
            count += sum([is_found(search_filter, one) for one in memories])
    assert count > 50


FORMS: list[Callable[[Any], Any]] = [
    lambda value: value, lambda value: [value, "other"], lambda value: [[value]], lambda value: ({"x": value}, value),
]  # fmt: skip


@given(read_memories(), st.data())
@settings(max_examples=3 * FULL)
def test_a_memory_is_found_by_its_own_values(one: Memory, data: st.DataObject) -> None:
    own = [(key, item) for key, value in one.header.values.items() for item in items_of(value)]
    if not own:
        return
    key, item = data.draw(st.sampled_from(own))
    if len(key) >= MAX_KEYWORD_CHARS or key in ("created", "updated"):
        return

    assert is_found(make(where=[(key, "EXISTS")], include="all"), one)
    assert is_found(make(where={key: item}, include="all"), one)
    if isinstance(one.header.values[key], list | tuple | str):
        assert is_found(make(where=[(key, "CONTAINS", item)], include="all"), one)
    elif not isinstance(item, bool):
        assert is_found(make(where=[(key, ">=", item), (key, "<=", item)], include="all"), one)


def items_of(value: object) -> list[Any]:
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if not isinstance(item, list | dict | None)]


@given(st.sampled_from(PATHS), st.sampled_from(PLACES), st.sampled_from(PLACES[:4]), st.booleans())
def test_namespaces_are_decided_as_in_the_vault(path: str, place: str, scope: str, archived: bool) -> None:
    segments = tuple(path.split("/")[:-1])
    is_forgotten = bool(segments) and fold(segments[0]) == ARCHIVE
    home = segments[1:] if is_forgotten else segments
    names_archive = place.startswith("/archive")
    is_in_place = Namespace.parse(place).holds(segments if names_archive else home)
    is_allowed = archived or names_archive or not is_forgotten

    search_filter = make(place, scope=scope, include="archived" if archived else ())

    assert is_found(search_filter, memory("", path)) == (
        is_in_place and Namespace.parse(scope).holds(home) and is_allowed
    )


huge = st.sampled_from([1, -1]).map(lambda sign: sign * 10**5000)  # more digits than Python converts
odd = st.one_of(
    scalars,
    st.none(),
    st.floats(),
    st.sampled_from([10**99, 1e99, 10**400, float("nan"), float("inf"), b"\xff", {1}]),
    huge,
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
)
odd_values = st.recursive(
    odd,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(below, inner, max_size=2),
    max_leaves=6,
)


@given(search_filters(), st.dictionaries(st.sampled_from(KEYS), odd_values, max_size=4), st.sampled_from(PATHS))
@settings(max_examples=3 * FULL)
def test_no_header_value_raises(search_filter: Filter, values: dict[str, Any], path: str) -> None:
    is_found(search_filter, MemoryWithValues(values, path))


@given(
    st.dictionaries(st.sampled_from(["x"]), odd_values, min_size=1),
    st.sampled_from(["EQUALS", "CONTAINS", ">", ">=", "<", "<="]),
    odd | st.integers(10**98, 10**102),
)
@settings(max_examples=3 * FULL)
def test_no_accepted_value_raises_later(values: dict[str, Any], operator: str, wanted: Any) -> None:
    try:
        search_filter = make(where=[("x", operator, wanted)])
    except InvalidSearchError:
        return
    is_found(search_filter, MemoryWithValues(values))
    if wanted == wanted and operator in {"EQUALS", ">=", "<="}:
        assert is_found(search_filter, MemoryWithValues({"x": wanted}))


@given(st.text(), st.text(max_size=2))
def test_folding_twice_is_folding_once(text: str, other: str) -> None:
    assert fold(fold(text + other)) == fold(text + other)


def test_the_root_and_no_namespace_match_every_memory() -> None:
    assert is_found(Filter.make(None, scope=ROOT), memory("", "tea.md"))
    assert is_found(Filter.make(ROOT, scope=ROOT), memory())
