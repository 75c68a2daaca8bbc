"""The arguments of Vault's methods: header keys in `header=`, typed filters and typed outcomes."""

import inspect
import typing
from typing import Any, get_args

import pytest

import memfs
from memfs import Change, SearchFilters, Vault, Written
from memfs.data_types import ChangeKind, Outcome
from memfs.errors import InvalidMemoryError, InvalidSearchError
from memfs.query.filters import FILTER_NAMES, Filter

PARAMETERS = ("self", "dirty", "text", "namespace", "ref", "body", "add_tags", "remove_tags", "seen", "header")


def header_of(vault: Vault, ref: str) -> dict[str, Any]:
    return dict(vault.read(ref).header.values)


# --- header keys


@pytest.mark.parametrize("key", PARAMETERS)
def test_header_sets_a_key_that_is_the_name_of_a_parameter(vault: Vault, key: str) -> None:
    added = vault.add("Tea.", "n", header={key: "first"})
    assert header_of(vault, added.id)[key] == "first"

    assert vault.update(added.id, header={key: "second"}).outcome == "updated"
    assert header_of(vault, added.id)[key] == "second"

    vault.update(added.id, header={key: None})
    assert key not in header_of(vault, added.id)
    assert vault.read(added.id).body == "Tea."


def test_header_and_keyword_arguments_set_their_keys_together(vault: Vault) -> None:
    added = vault.add("Tea.", "n", type="fact", header={"title": "Drink", "tags": ["food"]})
    vault.update(added.id, importance=3, header={"namespace": "atlas"}, add_tags=["hot"])

    header = vault.read(added.id).header
    assert (header.type, header.get("title"), header.importance) == ("fact", "Drink", 3)
    assert header.get("namespace") == "atlas"
    assert header.tags == ("food", "hot")


def test_an_empty_header_changes_nothing(vault: Vault) -> None:
    added = vault.add("Tea.", "n", header={})

    assert vault.update(added.id, header={}).outcome == "unchanged"


def test_a_key_that_is_given_twice_is_refused_with_a_hint(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    for write in (vault.add, vault.update):
        with pytest.raises(InvalidMemoryError, match="title: is given twice") as raised:
            write(added.id, title="a", header={"title": "a"})
        assert "once" in raised.value.hint
    assert vault.list() == [vault.read(added.id)]
    assert "title" not in header_of(vault, added.id)


@pytest.mark.parametrize("header", ["text", 3, ["title"], [("title", "a")]])
def test_a_header_that_is_not_a_mapping_is_refused_with_a_hint(vault: Vault, header: Any) -> None:
    added = vault.add("Tea.", "n")
    for write in (vault.add, vault.update):
        with pytest.raises(InvalidMemoryError, match=r"header: .* is not a mapping") as raised:
            write(added.id, header=header)
        assert "header=" in raised.value.hint


@pytest.mark.parametrize("key", [1, None, ("a", "b"), "", "a b", "1st"])
def test_a_header_key_that_cannot_be_written_is_refused(vault: Vault, key: Any) -> None:
    added = vault.add("Tea.", "n")
    for write in (vault.add, vault.update):
        with pytest.raises(InvalidMemoryError):
            write(added.id, header={key: "x"})


def test_header_cannot_set_the_id(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    for write in (vault.add, vault.update):
        with pytest.raises(InvalidMemoryError, match="id: "):
            write(added.id, header={"id": "m-1"})


def test_items_of_a_batch_take_header(vault: Vault) -> None:
    good = {"text": "Tea.", "namespace": "n", "header": {"text": "x"}}
    bad = {"text": "Ale.", "title": "a", "header": {"title": "b"}}
    added, refused = vault.add_many([good, bad])
    assert isinstance(added, Written)
    assert isinstance(refused, InvalidMemoryError)
    assert header_of(vault, added.id)["text"] == "x"

    (updated,) = vault.update_many([{"ref": added.id, "header": {"ref": "y"}}])
    assert isinstance(updated, Written)
    assert header_of(vault, added.id)["ref"] == "y"


def test_a_scope_takes_header_and_filters_too(vault: Vault) -> None:
    scope = vault.scope("/facts")
    added = scope.add("Tea.", header={"seen": "atlas"})

    assert [hit.memory.id for hit in scope.search("tea", where={"seen": "atlas"})] == [added.id]
    assert scope.explain_miss(added.id, "tea", type="preference")[0].text == "type is 'note', not 'preference'"


# --- filters


def test_the_typed_filters_are_those_that_a_filter_takes() -> None:
    taken = set(inspect.signature(Filter.make).parameters) - {"namespace", "scope"}

    assert set(SearchFilters.__annotations__) == FILTER_NAMES == taken
    assert not SearchFilters.__required_keys__
    assert memfs.SearchFilters is SearchFilters


@pytest.mark.parametrize("method", [Vault.search, Vault.explain_miss])
def test_a_method_that_searches_has_typed_filters(method: Any) -> None:
    assert typing.get_type_hints(method)["filters"] == typing.Unpack[SearchFilters]


def test_filters_of_the_type_can_be_passed_on(vault: Vault) -> None:
    tea = vault.add("Tea.", "n", type="fact", tags=["food"])
    filters: SearchFilters = {"type": "fact", "tags": ["food"], "include": "all"}

    assert [hit.memory.id for hit in vault.search("tea", **filters)] == [tea.id]
    assert vault.explain_miss(tea.id, "tea", **filters)[0].text.startswith("it is hit 1")


def test_an_unknown_filter_is_refused_by_both_methods(vault: Vault) -> None:
    tea, unknown = vault.add("Tea.", "n"), {"typ": "fact"}
    message = "typ: no such filter; known: created, include"
    with pytest.raises(InvalidSearchError, match=message):
        vault.search("tea", **unknown)  # type: ignore[arg-type]
    with pytest.raises(InvalidSearchError, match=message):
        vault.explain_miss(tea.id, "tea", **unknown)  # type: ignore[arg-type]


# --- outcomes and kinds


def test_every_write_has_an_outcome_of_the_type(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    done = [
        added,
        vault.add("Tea.", "n"),
        vault.update(added.id, title="a"),
        vault.update(added.id, title="a"),
        vault.move(added.id, "/m"),
        vault.forget(added.id),
        vault.restore(added.id),
        vault.remove(added.id),
    ]

    assert [one.outcome for one in done] == [
        "created", "duplicate", "updated", "unchanged", "moved", "archived", "restored", "removed",
    ]  # fmt: skip
    assert {one.outcome for one in done} <= set(get_args(Outcome))
    assert typing.get_type_hints(Written)["outcome"] == Outcome


def test_every_change_has_a_kind_of_the_type(vault: Vault) -> None:
    changes: list[Change] = []
    vault.subscribe(changes.append)
    added = vault.add("Tea.", "n")
    vault.sync()
    vault.update(added.id, title="a")
    vault.sync()
    vault.move(added.id, "/m")
    vault.sync()
    vault.remove(added.id)
    vault.sync()

    assert [change.kind for change in changes] == list(get_args(ChangeKind))
    assert typing.get_type_hints(Change)["kind"] == ChangeKind
