"""The test helpers that memfs ships: the fixture `vault`, and StoreContract."""

import subprocess
import sys
from pathlib import Path

import pytest

from memfs.testing import StoreContract

SUITE = """
from memfs import Vault

def test_a_vault_is_empty(vault):
    assert isinstance(vault, Vault)
    assert vault.list() == []
    vault.add("Green tea.", "/facts")

def test_each_test_gets_a_new_vault(vault, tmp_path):
    assert vault.list() == []
    assert tmp_path in vault.root.parents
"""
OVERRIDING = """
import pytest

@pytest.fixture
def vault():
    return "mine"
"""
CONTRACT = """
from memfs.stores.keyed import InMemoryKeyedStore
from memfs.testing import StoreContract

class Forgetful(InMemoryKeyedStore):
    def forget(self, key):
        return True

class TestForgetful(StoreContract):
    lasts = False

    def make_store(self, place):
        return Forgetful()
"""

RANKED = """
from memfs.stores.keyed import InMemoryKeyedStore
from memfs.testing import StoreContract

class Ranked(InMemoryKeyedStore):
    def search(self, query, top_k=5):
        first, rest = super().search(query, top_k)[:1], super().search(query, top_k)[1:]
        return [*first, *sorted(rest)]

class TestRanked(StoreContract):
    lasts = False

    def make_store(self, place):
        return Ranked()

class TestRankedWithByScore(TestRanked):
    by_score = True
"""


def run_suite(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest as in a project that uses memfs, with the plugin registered as by an installation."""
    site = folder / "site"
    info = site / "memfs_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: memfs-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nmemfs-plugin = memfs.testing.plugin\n")
    blocked = ["-p", "no:memfs"]  # the plugin of this environment, which may be registered or not
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *blocked, *arguments]
    environment = {"PYTHONPATH": f"{site}:{Path(__file__).parents[2]}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_the_plugin_provides_the_vault_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(SUITE)
    done = run_suite(tmp_path)

    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("place", ["", "tests"])
def test_a_project_can_override_the_vault_fixture(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "conftest.py").write_text(OVERRIDING)
    (tmp_path / place / "test_theirs.py").write_text("def test_it(vault):\n    assert vault == 'mine'\n")
    done = run_suite(tmp_path)

    assert "1 passed" in done.stdout, done.stdout


def test_the_plugin_imports_nothing_heavy_when_pytest_starts(tmp_path: Path) -> None:
    code = """
import sys

def test_it():
    heavy = {"memfs.vault.vault", "memfs.stores", "memfs.testing.contract", "tantivy", "yaml", "pydantic", "filelock"}
    assert "memfs.testing.plugin" in sys.modules
    assert heavy & sys.modules.keys() == set()
"""
    (tmp_path / "test_theirs.py").write_text(code)
    done = run_suite(tmp_path)

    assert "1 passed" in done.stdout, done.stdout


def test_a_broken_store_fails_the_matching_contract_tests(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(CONTRACT)
    done = run_suite(tmp_path)

    failed = {line.partition("::test_")[2].partition(" ")[0] for line in done.stdout.splitlines() if "FAILED" in line}
    assert {"a_missing_key_has_no_value_and_no_meta", "a_forgotten_key_is_gone_at_once"} <= {
        name.partition("[")[0] for name in failed
    }
    assert "assert True is False" in done.stdout
    assert " passed" in done.stdout


def test_descending_scores_are_required_only_with_by_score(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(RANKED)
    done = run_suite(tmp_path)

    failed = [line.partition(" - ")[0] for line in done.stdout.splitlines() if "FAILED" in line]
    name = "test_the_best_match_comes_first"
    assert failed == [f"FAILED test_theirs.py::TestRankedWithByScore::{name}"], done.stdout


def test_a_contract_without_make_store_names_the_missing_method(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="make_store"):
        StoreContract().make_store(tmp_path)
