"""VectorStore fulfils the contract of a keyed store, and finds texts by meaning."""

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.commands import Git, Script

from memfs import Vault, open_store
from memfs.embedding import default_embedder
from memfs.errors import InvalidSetupError
from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore, SqliteStore, VaultKeyedStore, VectorStore
from memfs.testing import StoreContract


class Counting:
    """The embedder of the extra, which records the texts that it embeds."""

    def __init__(self, name: str = "counting") -> None:
        self.name, self.embedded = name, list[str]()

    def embed(self, texts: Sequence[str]) -> Any:
        self.embedded += texts
        return default_embedder().embed(texts)


class TestVectorStore(StoreContract):
    by_score = revises_at_once = True
    lasts, by_words = False, False

    def make_store(self, place: Any) -> KeyedStore[str]:
        return VectorStore()


class TestVectorStoreOverAFile(StoreContract):
    by_score = revises_at_once = True
    by_words = False

    def make_store(self, place: Any) -> KeyedStore[str]:
        return VectorStore(store=SqliteStore(place / "x.db"), cache=place / "vectors")


def cached(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("*.vectors"))


def test_a_text_with_the_same_meaning_is_found_without_a_common_word() -> None:
    plain, store = InMemoryKeyedStore(), VectorStore()
    for one in (plain, store):
        one.add("food", "She likes sushi and ramen.")
        one.add("build", "The build of the release is red.")
        one.add("car", "He drives a lorry to the quarry.")

    assert plain.search("what does she eat for dinner?") == []
    assert store.search("what does she eat for dinner?")[0][0] == "food"
    assert store.search("which vehicle, a truck?")[0][0] == "car"


def test_a_key_that_is_added_again_is_found_once() -> None:
    """The guide's class appends: it finds a key twice, once with an outdated text."""
    store = VectorStore()
    for text in ("Alice lives in Lisbon.", "Alice lives in Porto."):
        store.add("city", text)

    assert [(key, value) for key, value, _ in store.search("where does Alice live?")] == [
        ("city", "Alice lives in Porto.")
    ]
    assert store.search("Alice lives in Porto.")[0][2] == pytest.approx(1.0, abs=1e-5)


def test_with_a_cache_a_text_is_embedded_only_once(tmp_path: Path) -> None:
    first, second, other = Counting(), Counting(), Counting("another model")
    for embedder in (first, second, other):
        store = VectorStore(embedder=embedder, cache=tmp_path / "vectors")
        for key in ("a", "b", "a"):
            store.add(key, "Green tea.")
        store.add("c", "Black coffee.")
        store.close()

    assert first.embedded == other.embedded == ["Green tea.", "Black coffee."]
    assert second.embedded == []
    assert (tmp_path / "vectors" / ".gitignore").read_text() == "*\n"


def test_two_stores_share_a_cache_while_both_are_open(tmp_path: Path) -> None:
    one, two = Counting(), Counting()
    first, second = (VectorStore(embedder=each, cache=tmp_path) for each in (one, two))
    for number in range(20):
        first.add(f"n/{number}", f"Text number {number}.")
    for number in range(25):
        second.add(f"n/{number}", f"Text number {number}.")

    assert len(one.embedded) == 20
    assert two.embedded == [f"Text number {number}." for number in range(20, 25)]


def test_the_cache_of_a_store_is_apart_from_the_vectors_of_its_vault(tmp_path: Path) -> None:
    """The semantic index keeps the files of three models in its directory, and removes all others."""
    address = f"vector:file://{tmp_path}/vault"
    with open_store(address) as store:
        store.add("food", "She likes sushi and ramen.")
        assert not (tmp_path / "vault/.memfs/vectors").exists()

    for number in range(5):
        with Vault(tmp_path / "vault", embedder=Counting(f"model {number}")) as vault:
            assert vault.search("ramen")
    assert len(list((tmp_path / "vault/.memfs/vectors").iterdir())) == 3
    assert cached(tmp_path / "vault/.memfs/text-vectors")


def test_a_read_only_vault_is_searched_by_meaning(mount_tmpfs: Any) -> None:
    disk = mount_tmpfs("size=3m")
    with VaultKeyedStore(disk / "vault") as store:
        store.add("food", "She likes sushi and ramen.")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    with open_store(f"vector:file://{disk}/vault") as by_meaning:
        assert [key for key, _, _ in by_meaning.search("what does she eat for dinner?")] == ["food"]


def test_a_damaged_cache_only_costs_time(tmp_path: Path) -> None:
    with VectorStore(embedder=Counting(), cache=tmp_path) as store:
        for number in range(3):
            store.add(f"n/{number}", f"Text number {number}.")
    [file] = tmp_path.glob("*.vectors")
    good = file.read_bytes()

    for data, again in (
        (good[:-7], 1),
        (b"rubbish" * 500, 3),
        (good[:100] + b"x" + good[101:], 3),
        (b"", 3),
        (good, 0),
    ):
        file.write_bytes(data)
        embedder = Counting()
        with VectorStore(embedder=embedder, cache=tmp_path) as store:
            for number in range(3):
                store.add(f"n/{number}", f"Text number {number}.")
            assert store.search("Text number 2.")[0][0] == "n/2"
        assert len(embedder.embedded) - 1 == again
        assert sorted(file.read_bytes()) == sorted(good)


def test_the_vector_of_a_text_is_removed_from_the_cache_with_its_last_key(tmp_path: Path) -> None:
    with VectorStore(cache=tmp_path) as store:
        store.add("a", "Green tea.")
        store.add("b", "Green tea.")
        store.add("c", "Black coffee.")
        store.forget("a")
    both = cached(tmp_path)
    with VectorStore(cache=tmp_path) as store:
        store.add("b", "Green tea.")
        store.add("c", "Black coffee.")
        store.add("c", "White coffee.")
        store.forget("b")

    assert len(cached(tmp_path)) == len(both) // 2
    with VectorStore(embedder=(embedder := Counting(default_embedder().name)), cache=tmp_path) as store:
        for text in ("Green tea.", "Black coffee.", "White coffee."):
            store.add(text, text)
    assert embedder.embedded == ["Green tea.", "Black coffee."]


def test_the_texts_of_any_store_are_found_by_meaning(vault: Vault, git: Git) -> None:
    git(vault.root, "init", "-q")
    inner = VaultKeyedStore(vault)
    store = VectorStore(store=inner, cache=vault.root / ".memfs" / "vectors")
    store.add("food", "She likes sushi and ramen.", {"importance": 3})
    inner.add("car", "He drives a lorry to the quarry.")
    (vault.root / "memories" / "pet.md").write_text("They have an old greyhound.\n")

    assert [store.search(query)[0][0] for query in ("dinner", "truck", "a dog")] == ["food", "car", "pet"]
    assert (store.meta("food"), inner.get("food")) == ({"importance": 3}, "She likes sushi and ramen.")
    inner.add("car", "He rides a bicycle.")
    inner.forget("food")
    assert {value for _, value, _ in store.search("truck", top_k=9)} <= {
        "He rides a bicycle.",
        "They have an old greyhound.",
    }
    assert "vectors" not in git(vault.root, "status", "--porcelain", "-uall")


def test_concurrent_replacements_leave_a_searchable_store() -> None:
    store = VectorStore()
    texts = ["Green tea.", "Black coffee.", "Red wine."]

    def work(number: int) -> None:
        for turn in range(60):
            store.add(f"k/{turn % 4}", texts[(number + turn) % 3])
            store.forget(f"k/{(turn + number) % 4}")
            store.search("tea")
        store.add(f"last/{number}", texts[number % 3])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(store.keys("last")) == 6
    for text in texts:
        found = {key: value for key, value, score in store.search(text, top_k=50) if score > 0.999}
        assert found == {key: value for key, value in store.items() if value == text}


def test_the_model_is_selected_by_name_or_passed_as_an_embedder() -> None:
    name = default_embedder().name

    assert repr(name) in repr(VectorStore(model_name=name))
    assert repr(name) in repr(VectorStore(name.partition("/")[2]))
    assert "counting" in repr(VectorStore(embedder=Counting()))
    with pytest.raises(InvalidSetupError, match=r"'all-MiniLM-L6-v2' is not available: .*embedder="):
        VectorStore(model_name="all-MiniLM-L6-v2")


class Bad:
    name = "bad"

    def __init__(self, result: Any) -> None:
        self.result = result

    def embed(self, texts: Sequence[str]) -> Any:
        return self.result


@pytest.mark.parametrize("answer", [[], [1.0, 2.0], [[1.0], [2.0]], [[float("nan")]], [[[1.0]]]])
def test_an_embedder_that_returns_invalid_vectors_is_named_and_nothing_is_added(answer: Any) -> None:
    store = VectorStore(embedder=Bad(answer))

    with pytest.raises(InvalidSetupError, match="embedder 'bad'"):
        store.add("x", "Green tea.")
    assert store.keys() == []


def test_vectors_may_be_plain_lists_of_any_length() -> None:
    store = VectorStore(embedder=Bad([[3, 4]]))
    store.add("x", "Green tea.")

    assert store.search("anything")[0][2] == pytest.approx(1.0)


@pytest.mark.parametrize("options", [{"embedder": 5}, {"embedder": object()}, {"store": "x"}, {"store": {}}])
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetupError, match=next(iter(options))):
        VectorStore(**options)


def test_an_invalid_cache_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(InvalidSetupError, match="cache"):
        VectorStore(cache=tmp_path / "file" / "x")


@pytest.mark.parametrize("package", ["wordllama", "numpy", "tokenizers"])
def test_without_the_extra_there_is_one_clear_error(run_script: Script, package: str) -> None:
    code = """
sys.modules[sys.argv[1]] = None
from memfs.stores.keyed import VectorStore
try:
    VectorStore()
except errors.MissingExtraError as error:
    print(error, error.hint)
"""
    done = run_script(code, package)

    assert "needs the extra 'semantic'" in done.stdout, done.stderr
    assert "pip install 'memfs-vault[semantic]'" in done.stdout
