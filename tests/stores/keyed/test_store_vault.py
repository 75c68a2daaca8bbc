"""VaultKeyedStore fulfils the contract of a keyed store, in files that people may read and edit."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.files import Snapshot

from memfs import Vault
from memfs.errors import InvalidSetupError
from memfs.namespace import fold
from memfs.stores.keyed import KeyedStore
from memfs.stores.keyed.key_paths import is_hashed, key_to_path, path_to_key
from memfs.stores.keyed.vault_store import VaultKeyedStore
from memfs.testing import StoreContract
from memfs.testing.samples import UNUSUAL_KEYS

LETTERS = 'aAbéÉ\u0301\u0307ßſ東😀 .-~#%25/\\:*?"<>|{}dmMDconCON0_\u200d'


class TestVaultKeyedStore(StoreContract):
    revises_at_once = True

    def make_store(self, place: Any) -> KeyedStore[str]:
        return VaultKeyedStore(place / "vault")


class TestVaultKeyedStoreThatDeletes(StoreContract):
    revises_at_once = True

    def make_store(self, place: Any) -> KeyedStore[str]:
        return VaultKeyedStore(place / "vault", "/agents/a", archive=False)


def files(vault: Vault) -> list[str]:
    found = [path.relative_to(vault.root).as_posix() for path in vault.root.rglob("*.md")]
    return sorted(path for path in found if not path.startswith("."))


def test_a_key_is_a_file_with_a_header(vault: Vault) -> None:
    store = VaultKeyedStore(vault)
    store.add("alice/allergy", "Alice is allergic to peanuts.", {"importance": 3, "tags": ["health"]})

    assert files(vault) == ["memories/alice/allergy.md"]
    memory = vault.read("memories/alice/allergy.md")
    assert memory.body == "Alice is allergic to peanuts."
    assert (memory.header.importance, memory.header.tags) == (3, ("health",))
    assert vault.check() == []


def test_a_replaced_value_keeps_its_file_its_id_and_its_creation_date(vault: Vault) -> None:
    store = VaultKeyedStore(vault)
    store.add("city", "Lisbon.", {"importance": 3})
    before = vault.read("memories/city.md")
    store.add("city", "Porto.")
    after = vault.read("memories/city.md")

    assert files(vault) == ["memories/city.md"]
    assert (after.id, after.header.created) == (before.id, before.header.created)
    assert "importance" not in after.header.values
    assert [version.hash for version in vault.versions("memories/city.md")][1:]


def test_an_edit_of_the_file_is_the_new_value(vault: Vault) -> None:
    store = VaultKeyedStore(vault)
    store.add("city", "Lisbon.", {"importance": 3})
    file = vault.root / "memories" / "city.md"
    file.write_text(file.read_text().replace("Lisbon.", "Porto, since May.").replace("3", "5"))
    (vault.root / "memories" / "Tea.md").write_text("Green tea.\n")

    assert (store.get("city"), store.meta("city")) == ("Porto, since May.", {"importance": 5})
    assert store.search("May")[0][:2] == ("city", "Porto, since May.")
    assert store.keys() == ["city", "tea"]
    assert store.get("tea") == "Green tea."
    store.add("tea", "Black tea.")
    assert files(vault) == ["memories/Tea.md", "memories/city.md"]
    assert store.get("tea") == "Black tea."


def test_a_file_whose_name_is_not_a_key_is_ignored(vault: Vault) -> None:
    store = VaultKeyedStore(vault)
    for name in ("My Note.md", "%zz.md", "%FF.md", "x.conflict-20260101T000000Z.md", "%long/abc.md"):
        path = vault.root / "memories" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Something about sailing.\n")
    store.add("mine", "I like sailing.")

    assert store.keys() == ["mine"]
    assert [key for key, _, _ in store.search("sailing", top_k=1)] == ["mine"]


def test_forgotten_values_are_archived_or_deleted(vault: Vault) -> None:
    store, other = VaultKeyedStore(vault), VaultKeyedStore(vault, "/other", archive=False)
    for text in ("One.", "Two."):
        store.add("x", text)
        other.add("x", text)
        store.forget("x")
        other.forget("x")

    assert files(vault) == ["archive/memories/x-2.md", "archive/memories/x.md"]
    assert store.keys() == other.keys() == []
    assert store.search("one two") == other.search("one two") == []


def test_no_key_leaves_the_namespace(tmp_path: Path, snapshot: Snapshot) -> None:
    vault = Vault.init(tmp_path / "deep" / "vault")
    vault.add("Somebody else's.", "/secret")
    store = VaultKeyedStore(vault, "/memories/a")
    store.add("x", "First.")
    before = snapshot(tmp_path, "deep/vault/.memfs", "deep/vault/memories/a")
    for key in (
        *UNUSUAL_KEYS,
        "../b/x",
        "../../secret/somebody-elses",
        "/secret/x",
        "..",
        "%2e%2e/secret",
        "a/../../../b",
    ):
        store.add(key, f"The value of {key[:20]}.")

    assert snapshot(tmp_path, "deep/vault/.memfs", "deep/vault/memories/a") == before
    assert vault.check() == []


def test_stores_with_different_namespaces_are_independent(vault: Vault) -> None:
    one, two = VaultKeyedStore(vault, "/memories/al"), VaultKeyedStore(vault, "/memories/alice")
    one.add("x", "Of al, about tea.")
    two.add("x", "Of alice, about tea.")

    assert one.search("tea") == [("x", "Of al, about tea.", one.search("tea")[0][2])]
    assert one.forget("x") is True
    assert two.get("x") == "Of alice, about tea."


@pytest.mark.parametrize("namespace", ["/", "", "/archive", "/sessions", "a/../b", "/{actorId}", 5])
def test_an_unusable_namespace_is_refused(vault: Vault, namespace: Any) -> None:
    with pytest.raises(InvalidSetupError, match="namespace"):
        VaultKeyedStore(vault, namespace)


def test_a_scope_is_accepted_as_the_namespace(vault: Vault) -> None:
    store = VaultKeyedStore(vault.scope("/agents/a"), "/")
    store.add("x", "One.")

    assert files(vault) == ["agents/a/x.md"]


def test_a_missing_vault_is_created_and_a_non_path_is_refused(tmp_path: Path) -> None:
    VaultKeyedStore(tmp_path / "new").add("x", "One.")

    assert (tmp_path / "new" / "memories" / "x.md").is_file()
    with pytest.raises(InvalidSetupError, match="5"):
        VaultKeyedStore(5)  # type: ignore[arg-type]


@given(st.lists(st.text(LETTERS, min_size=1, max_size=12), min_size=2, max_size=2, unique=True))
def test_two_keys_never_share_a_file(keys: list[str]) -> None:
    one, two = map(key_to_path, keys)

    assert fold(one) != fold(two)
    assert all(is_hashed(key_to_path(key)) or path_to_key(key_to_path(key)) == key for key in keys)


def test_concurrent_processes_lose_no_write(tmp_path: Path) -> None:
    code = """
import sys
from memfs.stores.keyed.vault_store import VaultKeyedStore
with VaultKeyedStore(sys.argv[1]) as store:
    for turn in range(100):
        store.add(f"p{sys.argv[2]}/{turn}", f"process {sys.argv[2]} turn {turn}")
        if turn % 5 == 0:
            store.add("shared", f"last by {sys.argv[2]}")
"""
    Vault.init(tmp_path / "vault")
    running = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "vault", str(n)]) for n in range(4)]
    assert [process.wait(timeout=300) for process in running] == [0] * 4

    with VaultKeyedStore(tmp_path / "vault") as store:
        assert len(store.keys()) == 401
        assert store.get("p3/99") == "process 3 turn 99"
        assert (store.get("shared") or "").startswith("last by")
