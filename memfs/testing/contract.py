"""StoreContract: the tests that every KeyedStore passes. The tests of a backend subclass it.

    class TestMyStore(StoreContract):
        def make_store(self, place):
            return MyStore(place / "memories.db")

`place` is a temporary directory of the test. For a store that keeps its data elsewhere, override the fixture `place` to
return whatever `make_store` needs. `make_store` with the same place opens the same data.
"""

import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memfs.stores.keyed.base import KeyedStore
from memfs.testing import samples


class StoreContract:
    """The tests that every KeyedStore passes; see the module for how to use it. The flags describe the store."""

    lasts = True  # the data outlives the store: the next store on the same place has it
    by_score = False  # hits are sorted by score; False for a store that also ranks by other criteria
    revises_at_once = False  # `revise` is atomic: of several concurrent revisions one succeeds, the others return False
    by_words = True  # a value is found only by its words, never by its meaning

    def make_store(self, place: Any) -> KeyedStore[str]:
        """Open the store under test."""
        raise NotImplementedError(f"{type(self).__name__} has no make_store(place)")

    @pytest.fixture
    def place(self, tmp_path: Path) -> Any:
        """Return the place of the store, which no other test uses."""
        return tmp_path

    @pytest.fixture
    def store(self, place: Any) -> Iterator[KeyedStore[str]]:
        """Yield a new, empty store."""
        with self.make_store(place) as made:
            yield made

    @pytest.fixture
    def people(self, store: KeyedStore[str]) -> KeyedStore[str]:
        """Return a store with some facts."""
        for key, value in samples.PEOPLE.items():
            store.add(key, value)
        return store

    # --- keys and values

    def test_a_new_store_is_empty(self, store: KeyedStore[str]) -> None:
        assert store.keys() == []
        assert store.search("anything") == []

    def test_a_value_is_returned_by_its_key(self, store: KeyedStore[str]) -> None:
        store.add("tea", "Alice likes green tea.")

        assert store.get("tea") == "Alice likes green tea."
        assert store.meta("tea") == {}
        assert store.keys() == ["tea"]

    def test_a_missing_key_has_no_value_and_no_meta(self, store: KeyedStore[str]) -> None:
        store.add("tea", "Alice likes green tea.")

        assert store.get("coffee") is None
        assert store.meta("coffee") == {}
        assert store.forget("coffee") is False

    def test_adding_again_replaces_value_and_meta(self, store: KeyedStore[str]) -> None:
        store.add("city", "Alice lives in Lisbon.", {"source": "chat", "importance": 2})
        store.add("city", "Alice lives in Porto.", {"importance": 3})

        assert store.get("city") == "Alice lives in Porto."
        assert store.meta("city") == {"importance": 3}
        assert store.keys() == ["city"]
        store.add("city", "Alice lives in Porto.")
        assert store.meta("city") == {}

    def test_revise_changes_a_value_only_if_it_is_the_known_one(self, people: KeyedStore[str]) -> None:
        known = samples.PEOPLE["bob/car"]
        assert people.revise("bob/car", "A bicycle.", {"n": 1}, known=known)
        assert not people.revise("bob/car", "A train.", known=known)
        assert (people.get("bob/car"), people.meta("bob/car")) == ("A bicycle.", {"n": 1})
        for other in ("", "\0", "a\ud800", "\ud800", f"{known}\0", known.lower()):
            assert not people.revise("bob/car", "A train.", known=other)
        assert people.get("bob/car") == "A bicycle."
        assert not people.revise("bob/none", "A train.", known=known)
        assert people.get("bob/none") is None

    def test_two_keys_may_have_the_same_value(self, store: KeyedStore[str]) -> None:
        store.add("one", "The same words.")
        store.add("two", "The same words.", {"second": True})

        assert store.get("one") == store.get("two") == "The same words."
        assert store.forget("one") is True
        assert store.get("one") is None
        assert store.get("two") == "The same words."
        assert store.meta("two") == {"second": True}

    @pytest.mark.parametrize("meta", samples.METAS, ids=lambda meta: next(iter(meta)))
    def test_meta_is_returned_unchanged(self, store: KeyedStore[str], meta: dict[str, Any]) -> None:
        store.add("tea", "Alice likes green tea.", meta)

        assert _is_same(store.meta("tea"), meta)
        assert store.get("tea") == "Alice likes green tea."
        assert [key for key, _, _ in store.search("green tea")] == ["tea"]

    def test_meta_is_a_copy(self, store: KeyedStore[str]) -> None:
        given: dict[str, Any] = {"tags": ["food"]}
        store.add("tea", "Alice likes green tea.", given)
        given["tags"].append("late")
        store.meta("tea")["tags"].append("later")

        assert store.meta("tea") == {"tags": ["food"]}

    @pytest.mark.parametrize("value", samples.UNUSUAL_VALUES.values(), ids=samples.UNUSUAL_VALUES)
    def test_any_text_is_returned_unchanged(self, store: KeyedStore[str], value: str) -> None:
        store.add("odd", value, {"kept": True})

        assert store.get("odd") == value
        assert store.meta("odd") == {"kept": True}
        assert all(found == value for _, found, _ in store.search(value))

    def test_a_megabyte_is_returned_unchanged_and_found(self, store: KeyedStore[str]) -> None:
        value = "The zebra begins it.\n" + "All work and no play makes Jack a dull boy.\n" * 24_000
        store.add("long", value)

        assert store.get("long") == value
        if self.by_words:
            assert store.search("zebra")[0][:2] == ("long", value)

    def test_unusual_keys_do_not_collide(self, store: KeyedStore[str]) -> None:
        for number, key in enumerate(samples.UNUSUAL_KEYS):
            store.add(key, f"value {number}")

        assert {key: store.get(key) for key in samples.UNUSUAL_KEYS} == {
            key: f"value {n}" for n, key in enumerate(samples.UNUSUAL_KEYS)
        }
        assert store.keys() == sorted(samples.UNUSUAL_KEYS)
        for number, key in enumerate(samples.UNUSUAL_KEYS):
            assert store.forget(key) is True, key
            assert len(store.keys()) == len(samples.UNUSUAL_KEYS) - number - 1, key

    @pytest.mark.parametrize("key", samples.INVALID_KEYS, ids=lambda key: repr(key)[:12])
    def test_an_invalid_key_raises_value_error(self, people: KeyedStore[str], key: Any) -> None:
        for call in (lambda: people.add(key, "x"), lambda: people.get(key), lambda: people.meta(key)):
            with pytest.raises(ValueError, match="key"):
                call()
        with pytest.raises(ValueError, match="key"):
            people.forget(key)
        assert people.keys() == sorted(samples.PEOPLE)

    @pytest.mark.parametrize("value", samples.INVALID_VALUES, ids=lambda value: repr(value)[:12])
    def test_an_invalid_value_raises_value_error(self, people: KeyedStore[str], value: Any) -> None:
        with pytest.raises(ValueError, match="value"):
            people.add("bob/car", value)
        assert people.get("bob/car") == samples.PEOPLE["bob/car"]

    @pytest.mark.parametrize("meta", samples.INVALID_METAS, ids=lambda meta: repr(meta)[:12])
    def test_invalid_meta_raises_value_error(self, people: KeyedStore[str], meta: Any) -> None:
        with pytest.raises(ValueError, match="meta"):
            people.add("bob/car", "Something else.", meta)
        assert people.get("bob/car") == samples.PEOPLE["bob/car"]

    # --- forgetting

    def test_a_forgotten_key_is_gone_at_once(self, people: KeyedStore[str]) -> None:
        assert people.forget("alice/allergy") is True

        assert people.get("alice/allergy") is None
        assert people.meta("alice/allergy") == {}
        assert "alice/allergy" not in people.keys()  # noqa: SIM118  a method of the store
        assert "alice/allergy" not in [key for key, _, _ in people.search("allergic to peanuts")]
        assert people.forget("alice/allergy") is False

    def test_a_forgotten_key_can_be_added_again(self, people: KeyedStore[str]) -> None:
        for text in ("Alice is over it.", samples.PEOPLE["alice/allergy"], samples.PEOPLE["alice/allergy"]):
            assert people.forget("alice/allergy") is True
            people.add("alice/allergy", text, {"again": True})
            assert people.get("alice/allergy") == text
            assert people.meta("alice/allergy") == {"again": True}
        assert people.search("allergic to peanuts")[0][0] == "alice/allergy"

    # --- searching

    @pytest.mark.parametrize(
        ("question", "key"),
        [
            ("peanut allergy", "alice/allergy"),
            ("Is anybody allergic to peanuts?", "alice/allergy"),
            ("TRUCK", "bob/car"),
            ("tomato", "carol/garden"),
            ("which orchestra?", "bob/music"),
        ],
    )
    def test_a_query_finds_values_that_contain_its_words(
        self, people: KeyedStore[str], question: str, key: str
    ) -> None:
        hits = people.search(question)

        assert hits[0][:2] == (key, samples.PEOPLE[key])
        assert 0 < hits[0][2] <= 1

    def test_the_best_match_comes_first(self, people: KeyedStore[str]) -> None:
        hits = people.search("Alice lives near the red truck in Lisbon", top_k=5)

        scores = [score for _, _, score in hits]
        assert hits[0][0] == "alice/city"
        assert all(isinstance(score, float) and 0 <= score <= 1 for score in scores)
        assert scores[0] == max(scores) > min(scores)
        assert not self.by_score or scores == sorted(scores, reverse=True)
        assert len({key for key, _, _ in hits}) == len(hits)
        assert {key: value for key, value, _ in hits} == {key: samples.PEOPLE[key] for key, _, _ in hits}
        assert people.search("Alice lives near the red truck in Lisbon", top_k=5) == hits

    def test_a_word_is_found_across_accents_case_and_scripts(self, store: KeyedStore[str]) -> None:
        store.add("one", "Zoé mag das CAFÉ am Fluss.")
        store.add("two", "彼女は東京に住んでいます。")
        store.add("three", "Something else, of trains and hills.")

        assert store.search("cafe zoe", top_k=1)[0][0] == "one"
        assert store.search(unicodedata.normalize("NFD", "café"), top_k=1)[0][0] == "one"
        assert store.search("東京", top_k=1)[0][0] == "two"

    def test_an_unknown_word_finds_nothing(self, people: KeyedStore[str]) -> None:
        if self.by_words:
            assert people.search("xylophone") == []
        assert people.search("") == people.search("  \n") == []

    def test_replaced_text_is_no_longer_found(self, people: KeyedStore[str]) -> None:
        people.add("bob/car", "He rides a bicycle.")

        hits = people.search("red truck to the quarry")
        assert samples.PEOPLE["bob/car"] not in [value for _, value, _ in hits]
        assert people.search("bicycle")[0][:2] == ("bob/car", "He rides a bicycle.")
        if self.by_words:
            assert hits == []

    def test_top_k_limits_the_hits(self, store: KeyedStore[str]) -> None:
        for number in range(12):
            store.add(f"n/{number}", f"The cat number {number} sleeps.")

        assert len(store.search("cat")) == 5
        assert len(store.search("cat", top_k=1)) == len(store.search("cat", 1)) == 1
        assert len({key for key, _, _ in store.search("cat", top_k=50)}) == 12
        assert len(store.search("cat", top_k=10**12)) == 12

    @pytest.mark.parametrize("top_k", [0, -1, True, False, "5", 2.0, None, [1]])
    def test_an_invalid_top_k_raises_value_error(self, people: KeyedStore[str], top_k: Any) -> None:
        with pytest.raises(ValueError, match="top_k"):
            people.search("peanuts", top_k=top_k)

    @pytest.mark.parametrize("query", [None, 5, b"x", ["x"]])
    def test_an_invalid_query_raises_value_error(self, people: KeyedStore[str], query: Any) -> None:
        with pytest.raises(ValueError, match="query"):
            people.search(query)

    def test_any_text_is_a_valid_query(self, people: KeyedStore[str]) -> None:
        for question in samples.questions():
            hits = people.search(question, top_k=2)
            assert len(hits) <= 2, question
            assert all(samples.PEOPLE[key] == value and 0 <= score <= 1 for key, value, score in hits), question
        for operator in samples.QUERY_SYNTAX:
            if "peanut" not in operator:
                assert people.search(f"peanuts allergic injector {operator}")[0][0] == "alice/allergy", operator
        assert people.keys() == sorted(samples.PEOPLE)

    # --- keys

    def test_a_prefix_matches_whole_segments(self, store: KeyedStore[str]) -> None:
        for key in ("a", "a/b", "a/b/c", "a/bc", "a/b c", "a/b.c", "ab", "A/b", "b/a", "a%/b", "a_/b"):
            store.add(key, "x")

        assert store.keys("a/b") == ["a/b", "a/b/c"]
        assert store.keys("a") == ["a", "a/b", "a/b c", "a/b.c", "a/b/c", "a/bc"]
        assert store.keys("a/b/") == ["a/b/c"]
        assert store.keys("a%") == ["a%/b"]
        assert store.keys("_") == store.keys("nothing") == []
        assert len(store.keys()) == len(store.keys("")) == 11

    def test_keys_are_returned_in_pages(self, store: KeyedStore[str]) -> None:
        keys = sorted([*(f"n/{number:02}" for number in range(25)), "m", "o/1", "n"])
        for key in keys:
            store.add(key, "x")

        assert _all_pages(lambda after: store.keys(after=after, limit=7)) == keys
        assert _all_pages(lambda after: store.keys("n", after=after, limit=10)) == [
            key for key in keys if key[0] == "n"
        ]
        assert store.keys("n", after="zzz") == []
        assert store.keys("n", after="n/23x") == ["n/24"]
        assert store.keys("n", after="a", limit=1) == ["n"]
        assert len(store.keys(limit=10**12)) == len(keys)

    def test_items_are_paged_like_keys(self, people: KeyedStore[str]) -> None:
        assert people.items() == sorted(samples.PEOPLE.items())
        assert [key for key, _ in people.items("bob")] == ["bob/car", "bob/music"]
        assert people.items("bob", after="bob/car", limit=1) == [("bob/music", samples.PEOPLE["bob/music"])]
        assert people.items("bob", after="bob/music") == people.items("nobody") == []

    @pytest.mark.parametrize("options", [{"limit": 0}, {"limit": True}, {"limit": "1"}, {"after": 5}, {"prefix": None}])
    def test_an_invalid_page_raises_value_error(self, people: KeyedStore[str], options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(options))):
            people.keys(**options)

    # --- concurrency, closing and reopening

    def test_concurrent_threads_lose_no_writes(self, store: KeyedStore[str]) -> None:
        def work(number: int) -> None:
            for turn in range(50):
                store.add(f"t{number}/{turn}", f"thread{number} says turn{turn}", {"turn": turn})
                store.add("shared", f"written by thread{number}")
                if turn % 10 == 0:
                    store.search(f"turn{turn}")

        _run_together([partial(work, number) for number in range(8)])
        assert len(store.keys()) == 8 * 50 + 1
        assert all(store.get(f"t{n}/{turn}") == f"thread{n} says turn{turn}" for n in range(8) for turn in range(50))
        assert len(store.search("turn7 turn8", top_k=100)) >= 16
        assert (store.get("shared") or "").startswith("written by thread")

    def test_only_one_of_several_concurrent_revisions_succeeds(self, store: KeyedStore[str]) -> None:
        if not self.revises_at_once:
            return
        store.add("count", "0 times")

        def count() -> None:
            revisions = 0
            while revisions < 20:
                known = store.get("count") or ""
                revisions += store.revise("count", f"{int(known.split()[0]) + 1} times", known=known)

        _run_together([count] * 4)
        assert store.get("count") == "80 times"

    def test_values_survive_closing_and_reopening(self, place: Any, people: KeyedStore[str]) -> None:
        people.add("bob/car", "He rides a bicycle.", {"since": 2025})
        people.forget("carol/garden")
        people.close()

        with self.make_store(place) as again:
            if self.lasts:
                assert again.keys() == sorted(samples.PEOPLE.keys() - {"carol/garden"})
                assert (again.get("bob/car"), again.meta("bob/car")) == ("He rides a bicycle.", {"since": 2025})
                assert again.search("bicycle")[0][0] == "bob/car"
                assert "carol/garden" not in [key for key, _, _ in again.search("tomatoes and beans")]
            else:
                assert again.keys() == []

    def test_two_stores_on_one_place_see_each_others_changes(self, place: Any, people: KeyedStore[str]) -> None:
        if self.lasts:
            with self.make_store(place) as other:
                assert other.get("bob/car") == samples.PEOPLE["bob/car"]
                assert other.search("truck")[0][0] == "bob/car"
                other.add("bob/car", "He rides a bicycle.")
                other.forget("alice/city")
                people.add("new", "A new thing about sailing.")
                assert other.search("sailing")[0][0] == "new"
            assert people.get("bob/car") == "He rides a bicycle."
            assert people.search("bicycle")[0][0] == "bob/car"
            assert people.get("alice/city") is None
            assert "alice/city" not in [key for key, _, _ in people.search("Lisbon river")]

    def test_a_store_can_be_closed_twice_and_used_again(self, people: KeyedStore[str]) -> None:
        people.close()
        people.close()

        assert people.get("bob/car") == samples.PEOPLE["bob/car"]
        assert people.search("truck")[0][0] == "bob/car"
        people.add("later", "Still there.")
        people.close()
        assert people.forget("later") is True


def _is_same(one: object, other: object) -> bool:
    """Return whether two values are equal and of the same types: 1 is not True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _run_together(tasks: Sequence[Callable[[], None]]) -> None:
    """Run each task in a thread of its own, and raise the exception of one that fails."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()


def _all_pages(page: Callable[[str], list[str]]) -> list[str]:
    found: list[str] = []
    while more := page(found[-1] if found else ""):
        found += more
    return found
