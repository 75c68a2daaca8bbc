"""open_store: built-in addresses, plugins, and the errors for unknown addresses."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.commands import REPOSITORY

from memfs import Vault, open_store
from memfs.errors import InvalidSetupError, MemfsError, SettingsError, UnknownStoreError
from memfs.stores import keyed
from memfs.stores.keyed import InMemoryKeyedStore, RedisStore, SqliteStore, VaultKeyedStore, VectorStore
from memfs.stores.keyed.registry import BUILT_IN_STORES, without_password


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_directory_is_a_vault(here: Path) -> None:
    addresses: list[Any] = ["one", here / "two", "./three", f"file://{here}/four", "file:five", "vault:s%20x"]
    for number, address in enumerate(addresses):
        store = open_store(address)
        assert isinstance(store, VaultKeyedStore)
        store.add("tea", f"Green tea {number}.")

    names = sorted(path.parent.parent.name for path in here.glob("*/memories/tea.md"))
    assert names == sorted(["one", "two", "three", "four", "five", "s x"])


def test_a_vault_has_options_in_its_address(here: Path) -> None:
    store = open_store("file:notes?namespace=/agents/a&archive=no")
    store.add("tea", "Green tea.")
    store.forget("tea")

    assert open_store(here / "notes", namespace="/agents/a").keys() == []
    assert Vault(here / "notes").list(archived=True) == []


def test_a_file_of_sqlite_is_relative_or_absolute(here: Path) -> None:
    for address in ("sqlite:///one.db", f"sqlite:///{here}/two.db", "sqlite:three.db", "SQLITE:///four.db?timeout=2.5"):
        store = open_store(address)
        assert isinstance(store, SqliteStore)
        store.add("tea", "Green tea.")
        store.close()

    assert sorted(path.name for path in here.glob("*.db")) == ["four.db", "one.db", "three.db", "two.db"]


def test_each_memory_address_opens_a_new_store() -> None:
    one, two = open_store("memory:"), open_store("memory://")
    one.add("tea", "Green tea.")

    assert isinstance(one, InMemoryKeyedStore)
    assert two.keys() == []


def test_a_server_has_options_in_its_address(redis_url: str) -> None:
    store = open_store(f"{redis_url}?ttl=60&refresh_on_read=true&prefix=a%20b&db=3")
    store.add("tea", "Green tea.")

    assert isinstance(store, RedisStore)
    assert RedisStore(redis_url, prefix="a b").keys() == []
    assert RedisStore(redis_url.replace("/0", "/3"), prefix="a b").get("tea") == "Green tea."
    assert open_store(redis_url, prefix="other", ttl=5).keys() == []


def test_a_vector_address_wraps_the_store_of_another_address(here: Path, redis_url: str) -> None:
    for address in ("vector:", "vector:sqlite:///x.db", "vector:notes", f"vector:{redis_url}?ttl=60&cache=elsewhere"):
        store = open_store(address)
        assert isinstance(store, VectorStore)
        store.add("food", "She likes sushi and ramen.")
        assert store.search("dinner")[0][0] == "food"
        store.close()

    assert [*(here / "notes" / ".memfs" / "text-vectors").glob("*.vectors")]
    assert [*(here / "elsewhere").glob("*.vectors")]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "not the address"),
        (None, "not the address"),
        (5, "not the address"),
        ("memory:x", "nothing may follow"),
        ("sqlite://x.db", r"sqlite:///memories\.db"),
        ("sqlite:///:memory:", "not the path"),
        ("sqlite:", "not the path"),
        ("file://host/x", "file:///path"),
        ("file:", "file:///path"),
        ("redis://h/0?tll=60", r"no option 'tll'; known: prefix, ttl"),
        ("redis://h/0?ttl=soon", "ttl: 'soon' is not a number"),
        ("redis://h/0?refresh_on_read=maybe", "true or false"),
        ("redis://h/0?ttl=-5", "ttl"),
        ("sqlite:///x.db?x", "no option 'x'; known: timeout"),
        ("memory:?ttl=5", "no option 'ttl'; it has none"),
        ("file:x?archiv=no", "known: namespace, archive"),
        ("vector:?embedder=x", "cannot be given in an address"),
        ("vector:memory:?ttl=5", "no option 'ttl'"),
        ("no\0tes", "is not the address"),
        ("file:///no\0tes", "is not the address"),
        ("\ud800", "is not the address"),
        ("sqlite:///\ud800.db", "is not the address"),
        ("file:///notes#1", "file:///path"),
    ],
)
def test_an_invalid_address_is_an_error_with_a_reason(address: Any, reason: str) -> None:
    with pytest.raises(InvalidSetupError, match=reason):
        open_store(address)


def test_an_unknown_keyword_option_is_refused(here: Path) -> None:
    for address in ("notes", "memory:", "sqlite:///x.db"):
        with pytest.raises(InvalidSetupError, match="no option 'color'"):
            open_store(address, color="red")
    assert [*here.iterdir()] == []


def test_the_case_of_a_scheme_does_not_matter(here: Path) -> None:
    assert isinstance(open_store("MEMORY:"), InMemoryKeyedStore)
    assert isinstance(open_store("Vector:Memory:"), VectorStore)
    with open_store("SQLite:///X.db") as store:
        assert isinstance(store, SqliteStore)
        assert store.path == here / "X.db"
    assert repr(open_store("REDIS://h:1/0")) == "RedisStore('redis://h:1/0', prefix='memfs')"
    assert repr(open_store("PostgreSQL://h:1/D")) == "PostgresStore('postgresql://h:1/D', name='memories')"


def test_a_directory_whose_name_is_not_utf8_is_opened(here: Path) -> None:
    with open_store(os.fsdecode(b"caf\xe9")) as store:
        store.add("tea", "Green tea.")

    assert os.path.isdir(b"caf\xe9")


def test_a_path_that_is_too_long_is_an_error(here: Path) -> None:
    for address in ("x" * 5000, f"sqlite:///{'x' * 5000}"):
        with pytest.raises(MemfsError):
            open_store(address)


def test_a_file_is_not_opened_as_a_vault(here: Path) -> None:
    (here / "x.db").write_bytes(b"")

    with pytest.raises(InvalidSetupError, match=r"'x\.db': is a file, not a vault; .*sqlite:///x\.db"):
        open_store("x.db")


def test_no_password_is_ever_shown() -> None:
    whole = ("redis://u:s3cret@h:1/0?tll=s3cret", "mongo://u:s3cret@h/x", "redis://u:s3cret@h:port/0")
    not_encoded = ("redis://:s3cret/x@h/0?tll=1", "redis://:x/s3cret@h/0?tll=1", "postgresql://u:x?s3cret@h/d?y=1",
                   "postgresql://u:1/s3cret@h/d", "redis://:1#s3cret@h/0", "redis://:1?db=s3cret@h/0")  # fmt: skip
    for address in (*whole, *not_encoded, *(f"vector:{address}" for address in not_encoded)):
        with pytest.raises((SettingsError, UnknownStoreError)) as caught:
            open_store(address)
        assert "s3cret" not in f"{caught.value} {caught.value!r} {caught.value.hint}"
    assert without_password("redis://u:p@h:1/0?password=x") == "redis://h:1/0"


def test_the_error_for_an_unknown_scheme_lists_the_available_ones() -> None:
    with pytest.raises(UnknownStoreError, match=r"mongo: no store .*; there are file:, memory:") as caught:
        open_store("mongo://host/db")
    assert "redis:, rediss:, sqlite:, vault:, vector:" in str(caught.value)
    assert "memfs.stores" in caught.value.hint


def test_the_schemes_are_entry_points_of_the_distribution() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["memfs.stores"] == BUILT_IN_STORES


# --- plugins: real distributions, installed into a temporary directory

PLUGIN = """
from memfs.stores.keyed import InMemoryKeyedStore

class JarStore(InMemoryKeyedStore):
    def __init__(self, label: str = "", *, lid: bool = False, size: int = 3) -> None:
        super().__init__()
        self.label, self.lid, self.size = label, lid, size

    @classmethod
    def from_url(cls, url, **options):
        return cls(url.partition("://")[2], **options)

class NoStore:
    pass
"""
SHOW = """
import sys, memfs
from memfs import MemfsError, open_store
for address in sys.argv[1:]:
    try:
        store = open_store(address)
        store.add("tea", "Green tea.")
        print(type(store).__name__, vars(store).get("label"), vars(store).get("lid"), vars(store).get("size"))
    except MemfsError as error:
        print(type(error).__name__, error)
"""


def install(site: Path, name: str, points: str, code: str = "") -> None:
    """Write the files of a distribution as `pip install --target` does."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    (site / f"{name.replace('-', '_')}.py").write_text(code)


def open_in_subprocess(site: Path, *addresses: str) -> list[str]:
    environment = {"PYTHONPATH": f"{site}:{REPOSITORY}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "error", "-c", SHOW, *addresses]
    done = subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_installed_plugin_adds_its_scheme(tmp_path: Path) -> None:
    install(tmp_path, "agents-mem-jar", "[memfs.stores]\njar = agents_mem_jar:JarStore\n", PLUGIN)

    available = ", ".join(sorted(f"{scheme}:" for scheme in (*BUILT_IN_STORES, "jar")))
    assert open_in_subprocess(tmp_path, "jar://shelf?lid=yes&size=7", "jar://x", "jar://x?top=1", "nix://x") == [
        "JarStore shelf True 7",
        "JarStore x False 3",
        "InvalidSetupError store 'jar://x': no option 'top'; known: lid, size",
        f"UnknownStoreError nix: no store handles such addresses; there are {available}",
    ]


def test_a_broken_plugin_is_named_and_does_not_hide_others(tmp_path: Path) -> None:
    install(tmp_path, "a-broken", "[memfs.stores]\nbroken = a_broken:Store\n", "import not_installed_at_all")
    install(tmp_path, "b-torn", "[memfs.stores]\nno equals sign in this line\n")
    install(tmp_path, "c-typo", "[memfs.stores]\ntypo = c_typo:Nothing\n")
    install(tmp_path, "d-other", "[memfs.stores]\nother = d_other:NoStore\n", PLUGIN)
    install(tmp_path, "z-jar", "[memfs.stores]\njar = z_jar:JarStore\n", PLUGIN)

    found = open_in_subprocess(tmp_path, "jar://shelf", "broken://x", "typo://x", "other://x", "memory:", "b://x")
    assert found[0] == "JarStore shelf False 3"
    assert found[1].startswith("StorePluginError broken: the plugin a-broken cannot be loaded: ModuleNotFoundError: ")
    assert found[2].startswith("StorePluginError typo: the plugin c-typo cannot be loaded: AttributeError: ")
    assert "d_other:NoStore is not a class derived from memfs.stores.keyed.KeyedStore" in found[3]
    assert found[4].startswith("InMemoryKeyedStore")
    assert "broken:, file:, jar:, memory:, other:," in found[5]


def test_a_plugin_cannot_replace_a_built_in_store(tmp_path: Path) -> None:
    points = "[memfs.stores]\nmemory = a_thief:JarStore\nMemory = a_thief:JarStore\n"
    install(tmp_path, "a-thief", points, PLUGIN)

    assert open_in_subprocess(tmp_path, "memory:") == ["InMemoryKeyedStore None None None"]


def test_without_the_extras_the_hint_shows_how_to_install_them(tmp_path: Path) -> None:
    code = """
import sys
for name in ("sqlalchemy", "redis", "wordllama", "psycopg"):
    sys.modules[name] = None
from memfs import MemfsError, open_store
for address in ("mongo://x", "sqlite:///x.db", "redis://x", "vector:", "memory:"):
    try:
        print(open_store(address))
    except MemfsError as error:
        print(error, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()

    assert "there are file:, memory:, vault:" in lines[0], done.stderr
    for line, extra in zip((*lines[1:4], lines[0]), ("sql", "redis", "semantic", "postgres"), strict=True):
        assert f"pip install 'memfs-vault[{extra}]'" in line
    assert lines[4] == "InMemoryKeyedStore(0 keys)"


def test_opening_a_store_imports_only_its_backend(tmp_path: Path) -> None:
    code = "import sys; from memfs import open_store; open_store('memory:'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    heavy = {"sqlalchemy", "redis", "numpy", "psycopg", "pytest", "memfs.stores.keyed.vault_store", "strands"}
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & heavy == set()


def test_postgres_settings_with_a_password_create_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidSetupError, match=r"^store: PostgreSQL settings are not an address") as caught:
        open_store("host=db password=hunter2 dbname=x")
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("InMemoryStore", "InMemoryKeyedStore"),
        ("MemoryStore", "KeyedStore"),
        ("VaultStore", "VaultKeyedStore"),
        ("VectorMemoryStore", "VectorStore"),
    ],
)
def test_an_alias_is_the_same_class(alias: str, name: str) -> None:
    assert getattr(keyed, alias) is getattr(keyed, name)
