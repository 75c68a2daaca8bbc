"""The agent stores: a contract for every store, and tests of each store."""

import asyncio
import itertools
import json
import subprocess
import sys
import threading
from asyncio import run
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.agents import contents
from support.commands import REPOSITORY, Git
from support.people import fill

import memfs.stores
from memfs import Vault
from memfs.errors import (
    InvalidArgumentsError,
    InvalidMemoryError,
    InvalidSearchError,
    InvalidSetupError,
    MemoryChangedError,
    MemoryNotFoundError,
    ReadOnlyError,
    VaultNotFoundError,
)
from memfs.privacy.policy import DEFAULT_ACTIONS, Policy
from memfs.stores import AddMessagesContext, CuratedStore, Found, InMemoryStore, MemoryStore, VaultStore, curation_tools
from memfs.stores.agent.header_metadata import metadata_to_header
from memfs.stores.agent.protocol import has_method

Store = VaultStore | InMemoryStore
Make = Callable[..., Any]
ODD_TEXTS = [
    "To be or not to be.",
    "🎉!!!",
    "x" * 3000,
    "x" * 3000 + " tail",
    'He said "hello" to me*',
    "word " * 900,
    "---\ntitle: no header\n---\nbut a body",
    "Zeile eins\r\nZeile zwei\r\n",
    "nul \0 and bell \a",
    "\ufeffa byte order mark",
    "../../etc/passwd",
    "{actorId} <memory>&amp;</memory>",
    "我喜欢 喝茶，and C++",
    "[[link|name]] #tag",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
KNOWN = (
    "id type title description source status tags aliases supersedes created updated expires valid_from valid_until "
    "importance pinned metadata path date relevance text namespace body seen ref self dirty add_tags"
).split()
known_values = st.sampled_from(
    ["a, b", ["a", "b"], ["", "a"], [], "", 3, 11, True, "2026-01-01", "2026-01-01T10:00:00Z", "2026-01-01T10:00+02:00"]
)


def is_legible(value: object) -> bool:
    """Return whether nothing in a value looks encrypted, which is not shown to an agent."""
    return "enc:v1:" not in json.dumps(value)


metadatas = st.dictionaries(
    st.sampled_from(KNOWN) | st.text(max_size=12) | st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    json_values | known_values,
    max_size=6,
).filter(is_legible)
LENIENT = [*settings().suppress_health_check, HealthCheck.differing_executors]  # the contract runs for every store
NEVER = datetime(2020, 1, 1, tzinfo=UTC)


def ticking() -> Callable[[], datetime]:
    """Return a clock that advances by a minute with every call."""
    minutes = itertools.count()
    return lambda: NEVER + timedelta(minutes=next(minutes))


def holds(found: Found, given: Mapping[str, Any]) -> bool:
    """Return whether a memory has this metadata, with the same types."""
    metadata = found.metadata or {}
    if not given.keys() <= metadata.keys():
        return False
    return json.dumps({key: metadata[key] for key in given}) == json.dumps(dict(given))


class StoreContract:
    """The contract of every store. A subclass has a fixture `make` that returns a factory of stores."""

    @pytest.fixture
    def store(self, make: Make) -> Any:
        return make()

    @pytest.fixture
    def lax(self, make: Make) -> Any:
        """Return a store without redaction, which also accepts texts that look like secrets."""
        return make(redaction=Policy(dict.fromkeys(DEFAULT_ACTIONS, "off")))

    def test_an_added_memory_is_found(self, store: Store) -> None:
        written = run(store.add("Bob is allergic to peanuts."))

        (found,) = run(store.search("any peanut allergy?"))
        assert written.outcome == "created"
        assert (found.content, found.id) == ("Bob is allergic to peanuts.", written.id)
        assert found.relevance is not None
        assert 0.2 <= found.relevance <= 1
        assert found.metadata is not None
        assert found.metadata["id"] == written.id
        assert found.metadata["relevance"] == round(found.relevance, 2)
        json.dumps(found.metadata)

    def test_the_best_hit_comes_first(self, store: Store) -> None:
        for text in ("Alice drinks tea.", "Alice drinks green tea at five.", "Bob has a car."):
            run(store.add(text))

        assert contents(run(store.search("green tea at five")))[0] == "Alice drinks green tea at five."
        assert "Bob has a car." not in contents(run(store.search("green tea")))

    def test_an_off_topic_query_finds_nothing(self, store: Store) -> None:
        run(store.add("Alice likes sushi with tuna and green tea."))

        assert run(store.search("quarterly revenue forecast for tuna fishing fleets in Norway")) == []

    def test_a_blank_query_lists_the_newest(self, store: Store) -> None:
        for number in range(4):
            run(store.add(f"Fact {number}."))

        found = run(store.search(" "))
        assert contents(found) == ["Fact 3.", "Fact 2.", "Fact 1."]
        assert {one.relevance for one in found} == {None}

    def test_the_limit_is_the_callers_then_the_stores_then_three(self, make: Make) -> None:
        store, wide = make(), make(max_search_results=5)
        for number in range(7):
            run(store.add(f"Tea number {number}."))
            run(wide.add(f"Tea number {number}."))

        assert len(run(store.search("tea"))) == 3
        assert len(run(wide.search("tea"))) == 5
        assert len(run(wide.search("tea", {"max_search_results": 6}))) == 6
        assert len(run(store.search("tea", {"max_search_results": None}))) == 3

    @pytest.mark.parametrize("limit", [0, -1, 1001, 2.5, "3", True])
    def test_an_invalid_limit_is_refused(self, store: Store, limit: object) -> None:
        with pytest.raises(InvalidSearchError, match="max_search_results"):
            run(store.search("tea", {"max_search_results": limit}))

    def test_a_query_that_is_not_a_text_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidSearchError, match="not a text"):
            run(store.search(5))  # type: ignore[arg-type]

    def test_the_same_text_is_stored_once(self, store: Store) -> None:
        first = run(store.add("Tea at  five."))
        again = run(store.add(" Tea at five.\n", {"x": 1}))

        assert (again.outcome, again.id) == ("duplicate", first.id)
        assert len(run(store.list())) == 1

    def test_texts_that_differ_in_punctuation_are_different(self, store: Store) -> None:
        outcomes = [run(store.add(f"User prefers {name}")).outcome for name in ("C", "C++", "C#", "c")]

        assert outcomes == ["created"] * 4

    @pytest.mark.parametrize("text", ["", " \n\t", "\ud800 alone", None, 5, ["a"]])
    def test_content_that_is_not_a_text_is_refused(self, store: Store, text: Any) -> None:
        known = run(store.add("Tea."))

        for write in (store.add(text), store.update(known.id, text), store.supersede(known.id, text)):
            with pytest.raises(InvalidMemoryError):
                run(write)
        assert contents(run(store.list())) == ["Tea."]

    @pytest.mark.parametrize("text", ODD_TEXTS)
    def test_odd_texts_are_read_back_and_recognized_as_forgotten(self, store: Store, text: str) -> None:
        run(store.forget(run(store.add("Something else was forgotten: tail, tea, word.")).id))
        written = run(store.add(text))

        assert run(store.get(written.id)).content == text.strip()
        assert run(store.add(text)).outcome == "duplicate"
        assert not run(store.is_forgotten(text))
        run(store.similar(text))
        run(store.forget(written.id))
        assert run(store.is_forgotten(text))

    @settings(max_examples=60, suppress_health_check=LENIENT)
    @given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80).filter(str.strip).filter(is_legible))
    def test_any_text_is_read_back(self, lax: Store, text: str) -> None:
        assert run(lax.get(run(lax.add(text)).id)).content.split() == text.split()

    @settings(max_examples=150, suppress_health_check=LENIENT)
    @given(metadata=metadatas)
    @example({"id": 4, "tags": "a, b", "created": "2024-01-01T00:00:00Z", "n": {"x": [1, {"é": "\ud800"}]}})
    @example({"namespace": "/elsewhere", "text": "x", "metadata": {"metadata": "{}"}, "": 0, "no": "no"})
    @example({"numbers": [*range(3000)], "type": "mine"})
    @example({f"key-{number}": number for number in range(1500)} | {"tags": ["a"], "importance": 9})
    @example({"description": "long " * 5000, "title": 'quoted "' * 2000, "type": "mine", "x": [1.0, 1, True]})
    def test_any_metadata_is_read_back_equal(self, lax: Store, metadata: dict[str, Any]) -> None:
        count = next(COUNT)
        written = run(lax.add(f"Unique number{count}.", metadata))

        assert holds(run(lax.get(written.id)), metadata)
        if not metadata.keys() & {"expires", "status", "supersedes"} and len(json.dumps(metadata)) < 1000:
            assert any(one.id == written.id and holds(one, metadata) for one in run(lax.search(f"number{count}")))

    @settings(max_examples=60, suppress_health_check=LENIENT)
    @given(before=metadatas, after=metadatas)
    @example({}, {"PWD": -1000000000000})
    def test_an_update_merges_metadata(self, lax: Store, before: dict[str, Any], after: dict[str, Any]) -> None:
        written = run(lax.add(f"Unique number{next(COUNT)}.", before))
        run(lax.update(written.id, f"Changed number{next(COUNT)}.", after))

        found = run(lax.get(written.id))
        assert holds(found, {**{key: value for key, value in before.items() if key not in TOUCHED}, **after})

    def test_metadata_that_is_not_a_mapping_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidMemoryError, match="not a mapping"):
            run(store.add("Tea.", ["a"]))  # type: ignore[arg-type]

    def test_metadata_is_copied(self, store: Store) -> None:
        given: dict[str, Any] = {"list": [1]}
        written = run(store.add("Tea.", given))
        given["list"].append(2)
        (run(store.get(written.id)).metadata or {})["list"].append(3)

        assert (run(store.get(written.id)).metadata or {})["list"] == [1]

    def test_a_list_has_the_newest_first_in_pages(self, store: Store) -> None:
        for number in range(5):
            run(store.add(f"Fact {number}."))

        assert contents(run(store.list(2))) == ["Fact 4.", "Fact 3."]
        assert contents(run(store.list(2, 3))) == ["Fact 1.", "Fact 0."]
        with pytest.raises(InvalidSearchError):
            run(store.list(0))

    def test_a_missing_memory_is_an_error(self, store: Store) -> None:
        refs: list[Any] = ["m-01k9zq6d0m2p3q4r5s6t7v8w9x", "nothing", "", "../x", "/etc/passwd", "\0", "\ud800", None]
        for ref in refs:
            for work in (store.get(ref), store.forget(ref), store.update(ref, "x"), store.supersede(ref, "x")):
                with pytest.raises(MemoryNotFoundError):
                    run(work)

    def test_an_update_replaces_the_text(self, store: Store) -> None:
        written = run(store.add("Tea at four.", {"type": "habit", "x": [1]}))
        outcome = run(store.update(written.id, "Tea at five.", {"y": None})).outcome

        found = run(store.get(written.id))
        assert (outcome, found.content) == ("updated", "Tea at five.")
        assert holds(found, {"type": "habit", "x": [1], "y": None})
        assert contents(run(store.search("tea"))) == ["Tea at five."]
        assert run(store.update(written.id, "Tea at five.")).outcome == "unchanged"

    def test_update_refuses_a_stale_stamp(self, store: Store) -> None:
        written = run(store.add("Tea at four."))
        seen = run(store.get(written.id)).seen
        run(store.update(written.id, "Tea at five.", seen=seen))

        with pytest.raises(MemoryChangedError):
            run(store.update(written.id, "Tea at six.", seen=seen))
        assert run(store.get(written.id)).content == "Tea at five."

    def test_a_forgotten_memory_is_gone_and_reported_as_forgotten(self, store: Store) -> None:
        kept = run(store.add("Tea at five."))
        gone = run(store.add("Tea at four."))
        assert run(store.forget(gone.id)).outcome == "archived"

        assert contents(run(store.search("tea"))) == ["Tea at five."]
        assert contents(run(store.list())) == contents(run(store.similar("tea at four"))) == ["Tea at five."]
        assert run(store.is_forgotten(" Tea  at four."))
        assert not run(store.is_forgotten("Tea at five."))
        assert not run(store.is_forgotten("Tea at four. And cake."))
        assert run(store.get(kept.id)).content == "Tea at five."
        for work in (store.get(gone.id), store.forget(gone.id), store.update(gone.id, "x")):
            with pytest.raises(MemoryNotFoundError):
                run(work)
        assert run(store.add("Tea at four.")).outcome == "created"

    def test_a_superseded_memory_is_kept_out_of_searches(self, store: Store) -> None:
        old = run(store.add("Alice lives in Rome."))
        new = run(store.supersede(old.id, "Alice lives in Paris.", {"tags": ["home"]}))

        assert new.outcome == "created"
        assert contents(run(store.search("where does Alice live?"))) == ["Alice lives in Paris."]
        assert contents(run(store.list())) == contents(run(store.similar("Alice lives"))) == ["Alice lives in Paris."]
        was, now = run(store.get(old.id)), run(store.get(new.id))
        assert was.content == "Alice lives in Rome."
        assert "valid_until" in (was.metadata or {})
        assert "supersedes" in (now.metadata or {})
        assert holds(now, {"tags": ["home"]})
        assert not run(store.is_forgotten("Alice lives in Rome."))

    def test_a_superseded_text_can_be_restored(self, store: Store) -> None:
        rome = run(store.add("Alice lives in Rome."))
        paris = run(store.supersede(rome.id, "Alice lives in Paris."))
        for place, other in (("Rome", paris), ("Paris", rome), ("Rome", paris)):
            assert run(store.supersede(other.id, f"Alice lives in {place}.")).outcome == "restored"

            assert contents(run(store.search("where does Alice live?"))) == [f"Alice lives in {place}."]
        assert run(store.add("Alice lives in Paris.")).outcome == "restored"
        assert len(run(store.search("Alice"))) == 2
        assert "valid_until" not in (run(store.get(rome.id)).metadata or {})

    def test_a_memory_is_not_superseded_by_its_own_text(self, store: Store) -> None:
        old = run(store.add("Tea at five."))

        assert run(store.supersede(old.id, "Tea  at five.")).outcome == "duplicate"
        assert contents(run(store.list())) == ["Tea at five."]

    def test_an_existing_memory_can_supersede_another(self, store: Store) -> None:
        old, new = run(store.add("Tea at four.")), run(store.add("Tea at five."))

        assert run(store.supersede(old.id, "Tea at five.")).id == new.id
        assert contents(run(store.list())) == ["Tea at five."]

    def test_pinned_memories_are_listed_separately(self, store: Store) -> None:
        run(store.add("Tea at four."))
        run(store.add("Call the user Al.", {"pinned": True}))
        run(store.add("Answer in French.", {"pinned": True}))

        assert contents(run(store.pinned())) == ["Answer in French.", "Call the user Al."]
        assert len(run(store.pinned(1))) == 1
        assert [one.pinned for one in run(store.list())] == [True, True, False]

    def test_similar_has_no_relevance_threshold(self, store: Store) -> None:
        run(store.add("Alice likes green tea."))
        run(store.add("Bob has a car."))

        long = 'A sentence about a great many other "things", and tea, which search alone would find too far away.'
        assert run(store.search(long)) == []
        assert contents(run(store.similar(long))) == ["Alice likes green tea."]
        assert run(store.similar("")) == []
        assert len(run(store.similar("Alice Bob", 1))) == 1

    def test_a_long_text_is_cut_with_a_note_and_get_returns_all_of_it(self, make: Make) -> None:
        store = make(max_chars=100)
        written = run(store.add("Alpha. " * 100))

        (found,) = run(store.search("alpha"))
        assert len(found.content) < 220
        assert f"[cut: 699 characters; the whole is memory {written.id}]" in found.content
        assert run(store.get(written.id)).content == ("Alpha. " * 100).strip()

    def test_a_read_only_store_refuses_writes(self, make: Make) -> None:
        store = make(writable=False)

        for work in (store.add("x"), store.update("x", "y"), store.supersede("x", "y"), store.forget("x")):
            with pytest.raises(ReadOnlyError, match="writable=False"):
                run(work)
        assert run(store.search("x")) == []

    @pytest.mark.parametrize(
        ("argument", "value"),
        [
            ("name", ""),
            ("name", 5),
            ("description", 5),
            ("max_search_results", 0),
            ("max_search_results", 1001),
            ("max_search_results", True),
            ("min_relevance", 1.5),
            ("min_relevance", "0.2"),
            ("max_chars", 0),
            ("writable", "no"),
            ("tools", "get"),
            ("tools", ["erase"]),
            ("tools", 5),
        ],
    )
    def test_a_wrong_argument_is_named(self, make: Make, argument: str, value: object) -> None:
        with pytest.raises(InvalidSetupError, match=rf"store .*{argument}: "):
            make(**{argument: value})

    def test_it_has_the_methods_of_a_curated_store(self, store: Store) -> None:
        names = [name for name in {**vars(CuratedStore), **vars(MemoryStore)} if not name.startswith("_")]

        assert {"search", "add", "pinned"} < set(names)
        assert all(has_method(store, name) for name in names)
        assert store.wants_facts

    def test_threads_with_an_event_loop_each_lose_nothing(self, store: Store) -> None:
        async def add(worker: int) -> None:
            for number in range(10):
                await asyncio.gather(store.add(f"Worker {worker} saw {number}."), store.add(f"All saw {number}."))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda worker: run(add(worker)), range(4)))
        assert len(run(store.list(100))) == 50

    def test_one_store_serves_several_event_loops_at_once(self, store: Store) -> None:
        meet = threading.Barrier(3)

        async def use(worker: int) -> list[str]:
            written = await store.add(f"Worker {worker} likes tea.")
            await asyncio.to_thread(meet.wait, 30)
            await store.update(written.id, f"Worker {worker} likes coffee.")
            found = await store.search(f"worker {worker}", {"max_search_results": 1})
            await asyncio.to_thread(meet.wait, 30)
            return contents(found)

        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda worker: run(use(worker)), range(3)))
        assert found == [[f"Worker {worker} likes coffee."] for worker in range(3)]

    # --- messages

    def test_messages_are_stored_as_one_episode(self, store: Store) -> None:
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": [{"text": "Hello."}, {"toolUse": {"name": "x"}}]},
            {"role": "assistant", "content": "First line.\n\nSecond line."},
            {"role": "user", "content": [{"toolResult": {}}]},
            {"role": "user", "content": None},
        ]
        written = run(store.add_messages(messages, AddMessagesContext([3, 4, 6, 9])))
        again = run(store.add_messages(messages, AddMessagesContext([3, 4, 6, 9])))

        (found,) = run(store.list())
        assert written is not None
        assert again is not None
        assert (again.id, again.outcome) == (written.id, "duplicate")
        assert found.content == "user: Hello.\nassistant: First line.\n  Second line."
        assert holds(found, {"type": "episode", "source": "messages 3-4, 6, 9"})

    def test_messages_without_text_or_sequence_numbers(self, make: Make) -> None:
        store = make()

        assert run(store.add_messages([{"role": "user", "content": []}])) is None
        run(store.add_messages([{"role": "user", "content": "Hello."}]))
        assert "source" not in run(store.list())[0].metadata
        with pytest.raises(ReadOnlyError):
            run(make(writable=False).add_messages([]))

    # --- the tools

    def test_there_are_no_tools_by_default(self, store: Store) -> None:
        assert store.get_tools() == []

    def test_the_tools_read_change_and_forget_memories(self, make: Make) -> None:
        store = make(tools=("get", "list", "update", "forget"))
        tools = {tool.name: tool for tool in store.get_tools()}
        written = run(store.add("Tea at four.", {"tags": ["drink"]}))

        (listed,) = run(tools["list_memories"]())
        read = run(tools["get_memory"](memory_id=written.id))
        assert listed["id"] == read["id"] == written.id
        assert (read["content"], read["store_name"]) == ("Tea at four.", store.name)
        assert read["metadata"]["tags"] == ["drink"]
        updated = run(tools["update_memory"](memory_id=written.id, content="Tea at five.", seen=read["seen"]))
        assert updated == {"id": written.id, "store_name": store.name, "outcome": "updated"}
        with pytest.raises(MemoryChangedError):
            run(tools["update_memory"](memory_id=written.id, content="Tea.", seen=read["seen"]))
        assert run(tools["forget_memory"](memory_id=written.id))["outcome"] == "archived"
        assert run(tools["list_memories"]()) == []
        json.dumps([listed, read, updated])
        assert [tool.name for tool in store.get_tools() if tool.writes] == ["update_memory", "forget_memory"]

    def test_the_tools_refuse_invalid_arguments(self, make: Make) -> None:
        store = make(tools=("get", "list", "update", "forget"))
        tools = {tool.name: tool for tool in store.get_tools()}
        written = run(store.add("Tea."))

        assert not any("namespace" in tool.parameters["properties"] for tool in tools.values())
        for arguments in ({}, {"memory_id": 5}, {"memory_id": "x", "namespace": "/"}):
            with pytest.raises(InvalidArgumentsError):
                run(tools["get_memory"](**arguments))
        for arguments in ({"limit": 0}, {"limit": 101}, {"offset": -1}, {"offset": 981}):
            with pytest.raises(InvalidArgumentsError, match=r"list_memories: (limit|offset)"):
                run(tools["list_memories"](**arguments))
        with pytest.raises(MemoryNotFoundError, match="'nothing': no such memory"):
            run(tools["forget_memory"](memory_id="nothing"))
        with pytest.raises(InvalidMemoryError, match="is empty"):
            run(tools["update_memory"](memory_id=written.id, content=" "))

    def test_a_list_for_a_model_is_short(self, make: Make) -> None:
        store = make(tools=["list"])
        run(store.add("Alpha. " * 100))

        (listed,) = run(store.get_tools()[0]())
        assert len(listed["content"]) < 350
        assert listed["content"].endswith("[699 characters]")

    def test_a_read_only_store_has_no_write_tools(self, make: Make) -> None:
        for name in ("update", "forget"):
            with pytest.raises(InvalidSetupError, match="read-only"):
                make(writable=False, tools=[name])
        assert [tool.name for tool in make(writable=False, tools=["get"]).get_tools()] == ["get_memory"]


COUNT = itertools.count()
TOUCHED = {"created", "updated"}


class TestInMemoryStore(StoreContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda **arguments: InMemoryStore(clock=ticking(), **{"name": "memory", **arguments})

    def test_memories_lists_the_current_memories(self) -> None:
        store = InMemoryStore()
        run(store.add("Tea.", {"x": 1}))
        run(store.add("Cake."))

        assert contents(store.memories) == ["Tea.", "Cake."]
        assert store.name == "memory"

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ("allergies", "Bob's allergy is peanuts."),
            ("liking", "She likes it."),
            ("Café", "The cafe is closed."),
            ("C++", "Writes C++ by night."),
            ("茶", "我喜欢喝茶"),
            ("喝茶", "我喜欢喝茶"),
        ],
    )
    def test_words_match_in_other_forms(self, question: str, text: str) -> None:
        store = InMemoryStore()
        run(store.add(text))

        assert contents(run(store.search(question))) == [text]


class TestVaultStore(StoreContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Iterator[Make]:
        made: list[Vault] = []

        def make(**arguments: Any) -> VaultStore:
            root = tmp_path / f"vault-{len(made)}"
            Vault.init(root)
            made.append(Vault(root, clock=ticking()))
            return VaultStore(made[-1], "/facts/{actorId}", actor="alice", **arguments)

        yield make
        for vault in made:
            vault.close()

    def test_a_memory_is_a_file_of_its_namespace(self, make: Make) -> None:
        store = make()
        metadata = {"type": "habit", "tags": ["a"], "importance": 7, "source": "chat", "expires": "2999-01-01", "x": 1}
        written = run(store.add("Tea at five.", metadata))

        text = (store.vault.root / written.path).read_text()
        assert written.path == "facts/alice/tea-at-five.md"
        assert "type: habit\ntags:\n  - a\nimportance: 7\nsource: chat\nexpires: 2999-01-01\nx: 1\ncreated: " in text
        assert "type: fact\n" in (store.vault.root / run(store.add("Cake.")).path).read_text()

    def test_metadata_that_does_not_fit_is_kept_under_one_key(self, make: Make) -> None:
        store = make()
        written = run(store.add("Tea.", {"id": "x", "importance": 99, "user id": None, "tags": ["a"]}))

        header = store.vault.read(written.id).header
        assert json.loads(header.get("metadata")) == {"id": "x", "importance": 99, "user id": None}
        assert (header.tags, header.importance) == (("a",), 1)

    def test_an_edit_of_the_header_wins_over_stored_metadata(self, make: Make) -> None:
        store = make()
        written = run(store.add("Tea.", {"tags": "a, b", "x": 1}))
        store.vault.update(written.id, tags=["c"], x=2, mood="good")

        assert holds(run(store.get(written.id)), {"tags": ["c"], "x": 2, "mood": "good"})

    def test_the_nested_metadata_of_another_tool_stays(self, make: Make) -> None:
        store = make()
        path = store.vault.root / "facts/alice/claude.md"
        path.parent.mkdir(parents=True)
        path.write_text("---\nmetadata:\n  node_type: memory\n  n: 1\n---\nTea.\n")

        assert holds(run(store.get("facts/alice/claude")), {"metadata": {"node_type": "memory", "n": 1}})
        run(store.update("facts/alice/claude", "Cake.", {"x": 1}))
        assert path.read_text() == "---\nmetadata:\n  node_type: memory\n  n: 1\nx: 1\n---\nCake.\n"
        run(store.update("facts/alice/claude", "Cake.", {"y": None}))
        assert holds(run(store.get("facts/alice/claude")), {"metadata": {"node_type": "memory", "n": 1}, "y": None})

    def test_metadata_beyond_what_a_header_holds_is_refused(self, make: Make) -> None:
        store = make()

        with pytest.raises(InvalidMemoryError, match="longer than the header"):
            run(store.add("Tea.", {"x": "x" * 70_000}))
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(InvalidMemoryError, match="metadata: cannot be written"):
            run(store.add("Tea.", {"x": circle}))
        assert run(store.list()) == []

    def test_values_that_json_lacks_become_text(self, make: Make) -> None:
        store = make()
        written = run(store.add("Tea.", {"when": datetime(2026, 1, 2, tzinfo=UTC), "path": Path("a/b"), 5: "five"}))

        assert holds(run(store.get(written.id)), {"when": "2026-01-02T00:00:00Z", "path": "a/b", "5": "five"})

    @given(metadata=metadatas)
    def test_metadata_is_valid_in_a_header(self, metadata: dict[str, Any]) -> None:
        assert not metadata_to_header(metadata).keys() & {"id", "namespace", "text"}

    # --- namespace

    @pytest.mark.parametrize(
        ("namespace", "name"),
        [
            ("/", "vault"),
            ("/facts/{actorId}", "facts"),
            ("facts/{actor_id}/", "facts"),
            ("/{actorId}", "vault"),
            ("/users/{actorId}/notes", "users/notes"),
            ("/user-{actorId}", "user"),
        ],
    )
    def test_the_default_name_is_the_namespace_without_placeholders(
        self, vault: Vault, namespace: str, name: str
    ) -> None:
        assert VaultStore(vault, namespace, actor="alice").name == name
        assert VaultStore(vault, namespace, actor="alice", name="mine").name == "mine"

    def test_actor_and_session_fill_the_template(self, vault: Vault) -> None:
        store = VaultStore(vault, "/episodes/{actorId}/{sessionId}", actor="alice", session="s-1")

        assert run(store.add("Tea.")).path == "episodes/alice/s-1/tea.md"
        run(store.add_messages([{"role": "user", "content": "Hello."}], AddMessagesContext([3])))
        assert holds(run(store.search("hello"))[0], {"source": "session s-1, messages 3"})
        assert store.namespace == "/episodes/alice/s-1"
        assert store.vault_root == vault.root
        assert store.place == "episodes:/episodes/alice/s-1"

    def test_a_missing_actor_is_that_of_the_vault_or_of_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Vault.init(tmp_path)
        with pytest.raises(InvalidSetupError, match=r"store 'facts': namespace: .*no value for \{actorId\}.*actor="):
            VaultStore(tmp_path, "/facts/{actorId}")
        monkeypatch.setenv("MEMFS_ACTOR", "eve")
        assert VaultStore(tmp_path, "/facts/{actorId}").namespace == "/facts/eve"
        (tmp_path / "memfs.yaml").write_text("actor: dan\n")
        assert VaultStore(tmp_path, "/facts/{actorId}").namespace == "/facts/dan"
        assert VaultStore(tmp_path, "/facts/{actorId}", actor="al").namespace == "/facts/al"
        with pytest.raises(InvalidSetupError, match="actor: '' is not a text"):
            VaultStore(tmp_path, "/facts/{actorId}", actor="")

    @pytest.mark.parametrize(
        "arguments",
        [
            {"namespace": "/facts/{user}"},
            {"namespace": "/facts/{actorId"},
            {"namespace": "/../x"},
            {"namespace": "/archive/x"},
            {"namespace": "/sessions"},
            {"namespace": "/s/{sessionId}"},
            {"namespace": "/s/{memoryStrategyId}"},
            {"namespace": 5},
            {"namespace": "/{actorId}", "actor": "a" * 200},
            {"namespace": "/{actorId}", "actor": 5},
            {"session": ""},
            {"type": ""},
            {"type": 5},
        ],
    )
    def test_an_invalid_namespace_is_a_setup_error(self, vault: Vault, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidSetupError, match="store '"):
            VaultStore(vault, **arguments)

    def test_a_missing_vault_is_a_clear_error(self, tmp_path: Path) -> None:
        with pytest.raises(VaultNotFoundError, match="nowhere: no vault here"):
            VaultStore(tmp_path / "nowhere")
        with pytest.raises(InvalidSetupError, match="vault: 5 is not"):
            VaultStore(5)  # type: ignore[arg-type]
        store = VaultStore(Vault.init(tmp_path / "vault"))
        (tmp_path / "vault").rename(tmp_path / "moved")
        with pytest.raises(VaultNotFoundError):
            run(store.initialize())

    def test_a_store_on_a_path_can_be_closed_and_used_again(self, tmp_path: Path) -> None:
        Vault.init(tmp_path)
        store = VaultStore(str(tmp_path))
        run(store.initialize())
        run(store.add("Tea."))
        store.close()

        assert contents(run(store.search("tea"))) == ["Tea."]
        store.close()
        assert contents(run(VaultStore(store.vault).search("tea"))) == ["Tea."]

    @pytest.mark.parametrize("actor", ["../bob", "bob/../..", "/bob", "{sessionId}", "..", "bob\0", "BOB", "bob.md"])
    def test_a_hostile_actor_stays_below_its_namespace(self, vault: Vault, actor: str) -> None:
        vault.add("Bob's secret tea.", "/facts/bob2")
        vault.add("A secret tea.", "/")
        store = VaultStore(vault, "/facts/{actorId}", actor=actor)
        written = run(store.add("My tea."))

        assert written.path.startswith("facts/")
        assert written.path.count("/") == 2
        assert contents(run(store.search("tea"))) == contents(run(store.list())) == ["My tea."]

    def test_a_ref_cannot_leave_the_scope(self, vault: Vault, tmp_path: Path) -> None:
        secret = vault.add("Bob's secret tea.", "/facts/bob", x=1)
        gone = vault.add("Bob's old secret.", "/facts/bob")
        archived = vault.forget(gone.id)
        (tmp_path / "outside.md").write_text("Outside.\n")
        store = VaultStore(vault, "/facts/{actorId}", actor="alice", tools=["get", "update", "forget"])
        tools = {tool.name: tool for tool in store.get_tools()}
        mine = run(store.add("My tea."))

        refs = [secret.id, secret.path, f"/{secret.path}", "../bob/bobs-secret-tea", archived.path, gone.id]
        refs += ["facts/alice/../bob/bobs-secret-tea.md", str(vault.root / secret.path), "../../outside.md"]
        for ref in refs:
            for work in (store.get(ref), store.update(ref, "x"), store.forget(ref), store.supersede(ref, "x")):
                with pytest.raises(MemoryNotFoundError):
                    run(work)
            with pytest.raises(MemoryNotFoundError):
                run(tools["forget_memory"](memory_id=ref))
        assert not run(store.is_forgotten("Bob's old secret."))
        assert run(store.pinned()) == []
        assert contents(run(store.similar("secret tea"))) == ["My tea."]
        assert vault.read(secret.id).body == "Bob's secret tea."
        assert run(store.get(mine.path)).content == "My tea."

    def test_metadata_cannot_choose_the_namespace(self, vault: Vault) -> None:
        store = VaultStore(vault, "/facts/{actorId}", actor="alice")

        written = run(store.add("Tea.", {"namespace": "/facts/alice/deeper", "path": "/facts/bob/x.md"}))
        assert written.path == "facts/alice/tea.md"

    def test_a_scoped_handle_works_as_a_vault(self, vault: Vault) -> None:
        vault.add("Bob's tea.", "/facts/bob")
        store = VaultStore(vault.scope("/facts/alice"))
        written = run(store.add("My tea."))

        assert written.path == "facts/alice/my-tea.md"
        assert contents(run(store.search("tea"))) == ["My tea."]
        run(store.forget(written.id))
        assert run(store.is_forgotten("My tea."))

    def test_superseding_links_the_old_file(self, make: Make) -> None:
        store = make()
        old = run(store.add("Atlas is due in October."))
        new = run(store.supersede(old.id, "Atlas is due in November."))

        assert store.vault.read(new.id).header.supersedes == ("[[facts/alice/atlas-is-due-in-october]]",)
        until = store.vault.read(old.id).header.valid_until
        assert until is not None
        assert abs(until - datetime.now(UTC)) < timedelta(minutes=1)

    def test_superseding_works_with_hand_written_files(self, make: Make) -> None:
        store = make()
        run(store.add("Other."))
        folder = store.vault.root / "facts/alice"
        (folder / "c#.md").write_text("---\nid: m-01k9zq6d0m2p3q4r5s6t7v8w9x\n---\nWrites C# code.\n")
        (folder / "broken.md").write_text("---\nx: [\n---\nWrites broken code.\n")
        run(store.supersede("facts/alice/c#", "Writes Rust code."))
        run(store.supersede("facts/alice/broken", "Writes Go code."))

        assert sorted(contents(run(store.search("code")))) == ["Writes Go code.", "Writes Rust code."]

    # --- files

    def test_a_huge_file_is_cut_around_the_match(self, vault: Vault) -> None:
        text = (
            "filler words here\n" * 2000 + "The password  hint\nis a blue elephant.\n" + "more filler words\n" * 32_000
        )
        vault.add(text, "/facts")
        store = VaultStore(vault, "/facts", min_relevance=0)

        (found,) = run(store.search("blue elephant"))
        assert "The password  hint\nis a blue elephant." in found.content
        assert len(found.content) < 4200
        assert found.content.startswith("…")
        assert found.content.endswith(f"\n[cut: {len(text.strip()):,} characters; the whole is memory {found.id}]")
        assert len(contents(run(store.list()))[0]) < 4200
        assert len(run(store.get(str(found.id))).content) == len(text.strip()) > 600_000

    def test_300_chinese_facts_are_300_files(self, vault: Vault) -> None:
        store = VaultStore(vault, "/facts")
        for number in range(300):
            assert (
                run(store.add(f"用户喜欢喝第{number}种茶，每天下午五点在办公室里和同事一起喝。")).outcome == "created"
            )

        assert len(list((vault.root / "facts").iterdir())) == 300
        assert "第217种" in run(store.search("第217种茶"))[0].content

    def test_an_edit_from_outside_is_found_at_once(self, make: Make) -> None:
        store = make()
        written = run(store.add("Tea at four."))
        run(store.search("tea"))
        seen = run(store.get(written.id)).seen
        path = store.vault.root / written.path
        path.write_text(path.read_text().replace("four", "midnight"))

        assert contents(run(store.search("midnight"))) == ["Tea at midnight."]
        with pytest.raises(MemoryChangedError):
            run(store.update(written.id, "Tea at six.", seen=seen))

    def test_an_update_is_a_small_diff(self, make: Make, git: Git) -> None:
        store = make()
        written = run(store.add("Tea at four.", {"x": 1, "odd": None}))
        git(store.vault.root, "init", "-q")
        git(store.vault.root, "add", ".")
        git(store.vault.root, "commit", "-qm", "x")
        run(store.update(written.id, "Tea at five.", {"x": 2}))

        diff = git(store.vault.root, "diff", "-U0").splitlines()
        changed = [line for line in diff if line[0] in "+-" and not line.startswith(("+++", "---"))]
        assert [line.partition(": ")[0] for line in changed] == [
            "-x",
            "+x",
            "+updated",
            "-Tea at four.",
            "+Tea at five.",
        ]

    def test_four_processes_on_one_topic_lose_nothing(self, vault: Vault) -> None:
        code = f"""
import asyncio, sys
from memfs.stores import VaultStore
async def main():
    store = VaultStore({str(vault.root)!r}, "/facts")
    for number in range(50):
        await store.add(f"Tea with friends, seen by {{sys.argv[1]}} for the {{number}}th time.")
        await store.add(f"Tea is good, says proverb {{number}}.")
asyncio.run(main())
"""
        jobs = [subprocess.Popen([sys.executable, "-c", code, str(job)], cwd=REPOSITORY) for job in range(4)]
        assert [job.wait(120) for job in jobs] == [0] * 4

        store = VaultStore(vault, "/facts")
        found = contents(run(store.search("tea with friends", {"max_search_results": 1000})))
        assert len({text for text in found if "friends" in text}) == 200
        assert len(vault.list("/facts")) == 250

    def test_forgotten_texts_are_recognized_in_a_large_vault(self, tmp_path: Path) -> None:
        fill(tmp_path, 3000)
        fill(tmp_path / "archive", 3000, seed=2)
        with Vault(tmp_path) as vault:
            store = VaultStore(vault)
            run(store.initialize())
            gone = [memory.body for memory in vault.list("/archive", archived=True)][:50]

            assert all(run(store.is_forgotten(text)) for text in gone)
            assert not any(run(store.is_forgotten(text.replace("Card", "Kard"))) for text in gone)


class TestSeveralStores:
    """The tools over several stores at once."""

    def test_a_ref_is_looked_up_in_each_store(self, vault: Vault) -> None:
        mine, ours = InMemoryStore("mine"), VaultStore(vault, "/ours")
        first, second = run(mine.add("Mine.")), run(ours.add("Ours."))
        get, listing, forget = curation_tools([mine, ours], ["get", "list", "forget"])

        assert run(get(memory_id=first.id))["store_name"] == "mine"
        assert run(get(memory_id=second.id))["store_name"] == "ours"
        assert {one["content"] for one in run(listing())} == {"Mine.", "Ours."}
        assert len(run(listing(limit=1, offset=1))) == 1
        assert run(forget(memory_id=second.id)) == {
            "id": second.id,
            "store_name": "ours",
            "outcome": "archived",
        }

    def test_a_memory_in_a_read_only_store_is_not_changed(self, vault: Vault) -> None:
        known = vault.add("Shared.", "/shared")
        shared, mine = VaultStore(vault, "/shared", writable=False), VaultStore(vault, "/mine")
        (update,) = curation_tools([shared, mine], ["update"])
        written = run(mine.add("Mine."))

        with pytest.raises(InvalidArgumentsError, match="'shared', which is read-only"):
            run(update(memory_id=known.id, content="Changed."))
        assert run(update(memory_id=written.id, content="Changed."))["outcome"] == "updated"
        assert vault.read(known.id).body == "Shared."

    def test_tools_that_no_store_supports_are_refused(self, vault: Vault) -> None:
        class Bare:
            name, description, max_search_results, writable, extraction = "bare", None, None, True, None

            async def search(self, query: str, options: Any = None) -> list[Any]:
                return []

        for stores in ([VaultStore(vault, writable=False)], [Bare()], []):
            with pytest.raises(InvalidSetupError):
                curation_tools(stores, ["forget"])  # type: ignore[arg-type]
        with pytest.raises(InvalidSetupError, match="the store does not support 'get'"):
            curation_tools([Bare()], ["get"])  # type: ignore[list-item]
        assert curation_tools([Bare()], []) == []  # type: ignore[list-item]


# --- the real strands-agents --------------------------------------------------------------------------


def scripted(*answers: dict[str, Any]) -> Any:
    """Return a Strands model that replies with these answers and records the messages that it receives."""
    from strands.models import Model

    class Scripted(Model):
        def __init__(self) -> None:
            self.received: list[Any] = []
            self.answers = iter(answers)

        def update_config(self, **model_config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *arguments: Any, **named: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *arguments: Any, **named: Any) -> AsyncGenerator[Any, None]:
            self.received.append(json.loads(json.dumps(messages)))
            answer = next(self.answers)
            yield {"messageStart": {"role": "assistant"}}
            if "text" in answer:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": answer["text"]}}}
            else:
                use = {"name": answer["tool"], "toolUseId": "t-1"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(answer["input"])}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if "text" in answer else "tool_use"}}

    return Scripted()


@pytest.fixture(params=["vault", "memory"])
def any_store(request: pytest.FixtureRequest, vault: Vault) -> Store:
    return VaultStore(vault, "/facts") if request.param == "vault" else InMemoryStore()


def test_the_manager_of_strands_searches_and_adds(any_store: Store) -> None:
    from strands.memory import MemoryManager

    manager = MemoryManager([any_store], add_tool_config=True)  # type: ignore[list-item]
    run(manager.add("Bob is allergic to peanuts.", {"metadata": {"x": 1}}))

    (entry,) = run(manager.search("peanut allergy"))
    assert (entry.content, entry.store_name) == ("Bob is allergic to peanuts.", any_store.name)
    assert (entry.metadata or {})["x"] == 1
    locked = MemoryManager([InMemoryStore("locked", writable=False)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="read-only"):
        run(locked.add("x", {"stores": ["locked"]}))


def test_a_strands_agent_adds_with_its_tool_and_gets_the_memory_injected(any_store: Store) -> None:
    from strands import Agent
    from strands.memory import MemoryManager

    model = scripted(
        {"tool": "add_memory", "input": {"entries": ["Bob is allergic to peanuts."]}},
        {"text": "Noted."},
        {"text": "No peanuts."},
    )
    manager = MemoryManager([any_store], add_tool_config=True)  # type: ignore[list-item]
    agent = Agent(model=model, memory_manager=manager, callback_handler=None)
    agent("Remember that Bob is allergic to peanuts.")
    agent("Which allergy does Bob have?")

    assert contents(run(any_store.list())) == ["Bob is allergic to peanuts."]
    assert "stored" in json.dumps(model.received[1][-1])
    assert f'<entry source=\\"{any_store.name}\\">Bob is allergic to peanuts.' in json.dumps(model.received[2][-1])
    assert "<memory>" not in json.dumps(agent.messages)


def test_the_manager_of_strands_passes_turns_to_a_vault(vault: Vault) -> None:
    from strands import Agent
    from strands.memory import MemoryManager

    store = VaultStore(vault, "/episodes", extraction=True)
    manager = MemoryManager([store], injection=False)  # type: ignore[list-item]
    Agent(model=scripted({"text": "Hi."}), memory_manager=manager, callback_handler=None)("Hello.")

    (memory,) = vault.list("/episodes")
    assert memory.body == "user: Hello.\nassistant: Hi."
    assert memory.header.source == "messages 0-1"


# --- the package --------------------------------------------------------------------------------------


def test_the_public_names_exist_and_have_docstrings() -> None:
    assert all(getattr(memfs.stores, name).__doc__ for name in memfs.stores.__all__)
    assert sorted(memfs.stores.__all__) == dir(memfs.stores)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = memfs.stores.Nothing


def test_importing_the_stores_is_cheap() -> None:
    code = (
        "import sys, memfs.stores; print(*sys.modules); import memfs.stores.agent.in_memory_store; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    first, second = (set(line.split()) for line in done.stdout.splitlines())

    assert first & {"asyncio", "tantivy", "yaml", "pydantic", "strands", "memfs.vault.vault"} == set()
    assert second & {"asyncio", "tantivy", "pydantic", "strands", "memfs.vault.vault"} == set()
