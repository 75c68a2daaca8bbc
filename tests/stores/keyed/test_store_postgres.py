"""PostgresStore fulfils the contract of a keyed store, on a real server."""

import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from support.people import facts
from support.postgres_server import PASSWORD, Server

from memfs import open_store
from memfs.embedding import default_embedder
from memfs.errors import (
    AccessRefusedError,
    InvalidSetupError,
    MissingExtensionError,
    NewerSchemaError,
    ServerUnreachableError,
    StoreDamagedError,
)
from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore, PostgresStore
from memfs.testing import StoreContract

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'memfs'"
_NUMBERS = itertools.count(1)


class Letters:
    """An embedder that counts letters: texts with the same letters have the same vector."""

    def __init__(self, name: str = "letters", letters: str = "abcdefghijklmnopqrstuvwxyz") -> None:
        self.name, self._letters = name, letters
        self.embedded = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.embedded += len(texts)
        return [[float(text.lower().count(letter)) for letter in self._letters] for text in texts]


@pytest.fixture(scope="module")
def keeper(postgres: Server) -> Iterator[str]:
    """Yield the address of a database that all contract tests share, owned by an ordinary role."""
    with postgres.roles("keeper"):
        postgres.run("CREATE DATABASE contracts OWNER keeper")
        postgres.run("CREATE EXTENSION vector", database="contracts")
        yield postgres.url(user="keeper", database="contracts")
        postgres.run("DROP DATABASE contracts WITH (FORCE)")


class TestPostgresStore(StoreContract):
    """As a tenant, bound by the policy of the tables. Every test uses another store name."""

    by_score = revises_at_once = True

    @pytest.fixture
    def place(self, keeper: str) -> Any:
        return keeper, f"store-{next(_NUMBERS)}"

    def make_store(self, place: Any) -> KeyedStore[str]:
        url, name = place
        return PostgresStore(url, name=name, tenant="keeper")


class TestPostgresStoreByMeaning(TestPostgresStore):
    by_words = False

    def make_store(self, place: Any) -> KeyedStore[str]:
        url, name = place
        return PostgresStore(url, name=name, embedder=default_embedder())


class TestPostgresStoreOfAnAdministrator(TestPostgresStore):
    """As a role that bypasses the policy, so that the full-text index can be used."""

    @pytest.fixture
    def place(self, keeper: str, postgres: Server) -> Any:
        return postgres.url(database="contracts"), f"store-{next(_NUMBERS)}"

    def make_store(self, place: Any) -> KeyedStore[str]:
        url, name = place
        return PostgresStore(url, name=name)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_url) as made:
        yield made


# --- words


def test_scores_equal_those_of_the_store_in_memory(store: PostgresStore) -> None:
    other = InMemoryKeyedStore()
    for number, (_, text) in enumerate(facts(400)):
        store.add(f"n/{number}", text)
        other.add(f"n/{number}", text)

    questions = (
        "Who likes risotto?",
        "red wine in Porto",
        "Maria Silva",
        "Card 123",
        "judo on Friday",
        "Krakow pierogi",
    )
    for question in questions:
        found, expected = store.search(question, top_k=7), other.search(question, top_k=7)
        assert [key for key, _, _ in found] == [key for key, _, _ in expected], question
        assert [score for _, _, score in found] == pytest.approx([score for _, _, score in expected]), question


def test_a_rare_word_is_found_among_many_texts_with_common_words(store: PostgresStore) -> None:
    """More texts have all the common words than the store scores."""
    for number in range(250):
        store.add(f"n/{number}", "The cat sleeps on the warm mat in the morning sun.")
    store.add("rare", "A zebra.")

    assert store.search("Does the zebra sleep as the cat, on a warm mat in the morning?", top_k=1)[0][0] == "rare"


def test_a_text_with_more_words_than_the_server_indexes_is_stored_and_found(store: PostgresStore) -> None:
    value = "zebra " + "".join(chr(0x4E00 + number % 20_000) for number in range(99_000))
    store.add("long", value)
    store.add("often", "again " * 90_000)

    assert store.get("long") == value
    assert store.search("zebra")[0][0] == "long"
    assert store.search("again")[0][0] == "often"


def test_stores_with_different_names_are_independent(store: PostgresStore, postgres_url: str) -> None:
    store.add("tea", "Green tea.")
    with PostgresStore(postgres_url, name="other") as other:
        other.add("tea", "Black tea.")

        assert (store.get("tea"), other.get("tea")) == ("Green tea.", "Black tea.")
        assert [value for _, value, _ in other.search("tea")] == ["Black tea."]
        assert other.forget("tea") is True
        assert store.keys() == ["tea"]
        assert other.place != store.place


def test_the_totals_of_a_large_store_are_cached(store: PostgresStore, postgres: Server) -> None:
    store.add("zebra", "A zebra among many.")
    postgres.run(
        "INSERT INTO memfs.entries (store, key, value, meta, hash, length, words) SELECT 'memories', 'n/' || n, 'cat', "
        "'{}', 'x', 1, '''cat'':1'::tsvector FROM generate_series(1, 10500) AS n"
    )

    assert store.search("zebra", top_k=1)[0][0] == "zebra"
    before = store.statements_sent
    assert len(store.search("cat", top_k=50)) == 50
    assert store.statements_sent == before + 2, "it was counted just now"


# --- meaning


def test_an_embedder_finds_texts_without_a_common_word(postgres_url: str) -> None:
    with PostgresStore(postgres_url, embedder=default_embedder()) as store:
        store.add("food", "She likes sushi and ramen.")
        store.add("build", "The build of the release is red.")
        store.add("dinner", "Bob makes dinner for two.")

        hits = store.search("what does she eat for dinner?", top_k=3)
        assert [key for key, _, _ in hits][:2] == ["dinner", "food"], "matches by words and by meaning rank first"
        assert store.search("meal", top_k=1)[0][0] in {"food", "dinner"}
        assert all(0 < score <= 1 for _, _, score in hits)


def test_texts_added_without_an_embedder_are_embedded_by_the_next_search(
    store: PostgresStore, postgres_url: str
) -> None:
    for number in range(450):
        store.add(f"n/{number}", f"{'ab' * number}z")
    letters = Letters()
    with PostgresStore(postgres_url, embedder=letters) as meaning:
        meaning.add("x", "qqq")
        assert meaning.search("QQQQ!", top_k=1)[0][0] == "x"
        assert letters.embedded == 452
        meaning.search("QQ")
        assert letters.embedded == 453, "each text once"
        store.add("x", "vvv")
        store.forget("n/0")
        assert "x" not in [key for key, _, score in meaning.search("qqq") if score > 0.5]
        assert meaning.search("v", top_k=1)[0][0] == "x"


def test_a_search_stores_no_vector_of_a_text_forgotten_meanwhile(postgres: Server, postgres_url: str) -> None:
    with PostgresStore(postgres_url) as plain, PostgresStore(postgres_url, embedder=Letters()) as by_meaning:
        by_meaning.search("abc")
        for key in ("a", "b", "c"):
            plain.add(key, "abc")
        with (
            ThreadPoolExecutor(1) as pool,
            psycopg.connect(postgres_url) as other,
        ):
            other.execute("DELETE FROM memfs.entries WHERE key = 'b'")
            found = pool.submit(by_meaning.search, "cba")
            while postgres.run(WAITING) == [(0,)]:
                assert not found.done(), "the search did not wait"
            other.commit()
            assert [key for key, _, _ in found.result(60)] == ["a", "c"]
        assert postgres.run("SELECT key FROM memfs.vectors ORDER BY key") == [("a",), ("c",)]


def test_a_text_changed_directly_in_the_database_does_not_break_a_search(postgres: Server, postgres_url: str) -> None:
    with PostgresStore(postgres_url, embedder=Letters()) as store:
        store.add("a", "xyz")
        postgres.run("UPDATE memfs.entries SET value = 'abc', hash = 'other'")

        assert [(key, value) for key, value, _ in store.search("cba")] == [("a", "abc")]


def test_foreign_data_is_reported_as_damage(store: PostgresStore, postgres: Server) -> None:
    store.add("a", "abc", {"n": 1})
    postgres.run("UPDATE memfs.entries SET meta = '[1]'")

    with pytest.raises(StoreDamagedError, match="holds data that memfs did not write"):
        store.meta("a")
    assert store.get("a") == "abc"


def test_vectors_of_different_models_are_never_compared(postgres_url: str) -> None:
    one = PostgresStore(postgres_url, embedder=Letters())
    two = PostgresStore(postgres_url, embedder=Letters("vowels", "aeiou"))
    one.add("x", "qqq")

    assert two.search("aaa") == []
    assert one.search("q")[0][0] == "x"
    two.add("y", "aei")
    assert two.search("iea", top_k=1)[0][0] == "y"
    assert one.search("iea", top_k=1)[0][0] == "y"
    for store in (one, two):
        store.close()


def test_a_text_with_a_zero_vector_is_found_by_its_words(postgres_url: str) -> None:
    with PostgresStore(postgres_url, embedder=Letters()) as store:
        store.add("year", "2026")
        store.add("word", "abc")

        assert [key for key, _, _ in store.search("2026")] == ["year"]
        assert [key for key, _, _ in store.search("cab")] == ["word"]


@pytest.mark.parametrize("vectors", [[], [[float("nan")]], [[1.0], [2.0]]])
def test_an_embedder_that_returns_invalid_vectors_is_an_error(postgres_url: str, vectors: Any) -> None:
    class Odd(Letters):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return list(vectors)

    with PostgresStore(postgres_url, embedder=Odd()) as store, pytest.raises(InvalidSetupError, match="letters"):
        store.add("x", "One.")


def test_without_pgvector_an_embedder_is_refused_and_word_search_works(postgres: Server, postgres_url: str) -> None:
    with postgres.roles("guest") as [url]:
        postgres.run("GRANT CREATE ON DATABASE postgres TO guest")
        with PostgresStore(url, embedder=Letters()) as store, pytest.raises(MissingExtensionError) as caught:
            store.add("x", "One.")
        assert "CREATE EXTENSION vector" in caught.value.hint
        with PostgresStore(url) as store:
            store.add("x", "One.")
            assert store.search("one")[0][0] == "x"


# --- tenants


def test_each_tenant_has_its_own_texts(postgres: Server, postgres_url: str) -> None:
    with postgres.roles("acme", "globex") as urls, PostgresStore(postgres_url, embedder=Letters()) as admin:
        admin.add("tea", "Tea of the administrator.")
        postgres.run(
            "GRANT USAGE ON SCHEMA memfs TO acme, globex",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON memfs.entries, memfs.vectors TO acme, globex",
        )
        one, two = (PostgresStore(url, embedder=Letters()) for url in urls)
        one.add("tea", "Secret tea of Acme.")
        two.add("tea", "Secret tea of Globex.")

        for store, value in ((one, "Secret tea of Acme."), (two, "Secret tea of Globex.")):
            assert store.items() == [("tea", value)]
            assert [found for _, found, _ in store.search("secret tea of the administrator")] == [value]
        for table in ("entries", "vectors"):
            assert postgres.run(f"SELECT DISTINCT tenant FROM memfs.{table}", user="acme") == [("acme",)]
            assert postgres.run(f"SELECT count(*) FROM memfs.{table}") == [(3,)]
        assert two.forget("tea") is True
        assert (one.get("tea"), admin.items()) == ("Secret tea of Acme.", [("tea", "Tea of the administrator.")])
        assert one.place != two.place
        one.close()
        two.close()


def test_a_role_that_may_not_create_tables_gets_a_clear_error(postgres: Server, postgres_url: str) -> None:
    with postgres.roles("guest") as [url], PostgresStore(url) as store, pytest.raises(AccessRefusedError):
        store.add("x", "One.")


# --- addresses, errors and connections


def test_an_address_may_hold_options_of_the_server_and_of_the_store(postgres: Server, postgres_url: str) -> None:
    with open_store(f"{postgres_url}&name=agents&application_name=my%20agent") as store:
        assert isinstance(store, PostgresStore)
        store.add("tea", "Green tea.")

        assert postgres.run("SELECT store FROM memfs.entries") == [("agents",)]
        assert ("my agent",) in postgres.run("SELECT application_name FROM pg_stat_activity")
    with pytest.raises(InvalidSetupError, match="no option 'nmae'"):
        open_store(f"{postgres_url}&nmae=x")


def test_no_output_contains_the_password(postgres: Server) -> None:
    store = PostgresStore(postgres.loopback(password=f"{PASSWORD}-wrong"))
    with pytest.raises(AccessRefusedError) as caught:
        store.get("x")

    assert PASSWORD not in f"{store!r}{store.place}{store.address}{caught.value!r}{caught.value.hint}"


def test_a_store_connects_on_first_use() -> None:
    store = PostgresStore("postgresql://127.0.0.1:1/nothing")

    with pytest.raises(ServerUnreachableError):
        store.search("x")


@pytest.mark.parametrize("options", [{"name": ""}, {"name": "x" * 101}, {"name": 5}, {"embedder": "letters"}])
def test_invalid_options_are_refused_at_setup(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetupError, match=next(iter(options))):
        PostgresStore("postgresql://localhost/x", **options)


def test_tables_of_a_later_version_are_left_alone(store: PostgresStore, postgres: Server, postgres_url: str) -> None:
    store.add("x", "One.")
    postgres.run("UPDATE memfs.schema_versions SET version = 99 WHERE part = 'store'")

    with PostgresStore(postgres_url) as later, pytest.raises(NewerSchemaError, match="has schema version 99"):
        later.get("x")


def test_a_store_reconnects_after_the_server_closed_the_connection(store: PostgresStore, postgres: Server) -> None:
    store.add("x", "One.")
    postgres.run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'memfs'"
    )  # fmt: skip

    assert store.get("x") == "One."


def test_a_store_works_on_both_sides_of_a_fork(store: PostgresStore) -> None:
    store.add("before", "One.")
    child = os.fork()
    for turn in range(20):
        store.add(f"{'parent' if child else 'child'}/{turn}", "Two.")
    if not child:
        store.close()
        os._exit(0)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(store.keys()) == 41
