"""Settings: what memfs.yaml may say, and how it is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memfs import Vault
from memfs.errors import SettingsError
from memfs.vault.settings import load


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "version: 1\n", "version: 1 # the first\n", "{}\n"])
def test_everything_is_optional(text: str) -> None:
    assert set(load(text)) <= {"version"}


def test_only_the_keys_that_are_set_are_returned() -> None:
    text = "version: 1\nactor: alice\nnamespaces:\n  facts: /facts/{actorId}\n  log: '/log/{session_id}'\n"

    assert load(text) == {
        "version": 1,
        "actor": "alice",
        "namespaces": {"facts": "/facts/{actorId}", "log": "/log/{session_id}"},
    }
    assert load("actor: 東京\n") == {"actor": "東京"}
    assert load("forgetting:\n  enabled: false\n  half_life_days: 7\n  prune_below: 0\n") == {
        "forgetting": {"enabled": False, "half_life_days": 7.0, "prune_below": 0.0}
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 2\n", "memfs.yaml: version 2 was made by a newer memfs; this one knows up to 1"),
        ("version: 99999999999\n", "made by a newer memfs"),
        ("version: 0\n", "version: 0 is not a whole number from 1"),
        ("version: -1\n", "version: -1 is not a whole number from 1"),
        ("version: '1'\n", "version: '1' is not a whole number from 1"),
        ("version: true\n", "version: True is not a whole number from 1"),
        ("version: 1.0\n", "version: 1.0 is not a whole number from 1"),
        ("version: [1]\n", "is not a whole number from 1"),
        ("colour: red\n", "unknown key 'colour'; known keys: version, actor, namespaces"),
        ("actor: ''\n", "actor: "),
        ("actor: 7\n", "actor: "),
        ("actor: [a]\n", "actor: "),
        ("namespaces: /facts\n", "namespaces: "),
        ("namespaces: [a]\n", "namespaces: "),
        ("namespaces:\n  facts: 7\n", "namespaces.facts: "),
        ("namespaces:\n  facts: /facts/{actor}\n", "unknown placeholder {actor}"),
        ("namespaces:\n  facts: /../{actorId}\n", "'/../x': a name that leaves the tree"),
        ("namespaces:\n  facts: '/{'\n", "a brace that is not part of a placeholder"),
        ("forgetting: 3\n", "forgetting: "),
        ("forgetting:\n  half_life: 3\n", "unknown key 'forgetting.half_life'; known keys: enabled, half_life_days, "),
        ("forgetting:\n  half_life_days: 0\n", "forgetting.half_life_days: Input should be greater than 0"),
        ("forgetting:\n  half_life_days: .inf\n", "forgetting.half_life_days: "),
        ("forgetting:\n  half_life_days: soon\n", "forgetting.half_life_days: "),
        ("forgetting:\n  prune_below: 1.01\n", "forgetting.prune_below: "),
        ("forgetting:\n  prune_below: -0.1\n", "forgetting.prune_below: "),
        ("forgetting:\n  enabled: 1\n", "forgetting.enabled: "),
        ("- a\n", "memfs.yaml:1: "),
        ("just text\n", "memfs.yaml:1: "),
        ("version: 1\nversion: 1\n", "memfs.yaml:2: duplicate key 'version'"),
        ("version: 1\n\nactor: [\n", "memfs.yaml:"),
        ("actor: &a x\n", "memfs.yaml:1: anchors and aliases are not allowed"),
        ("actor: !!str x\n", "memfs.yaml:1: the tag"),
        ("version: 1\n---\nversion: 1\n", "memfs.yaml:"),
        ("a: " + "x" * 70_000, "memfs.yaml:"),
        ("a: " + "[" * 50_000, "memfs.yaml:1: "),
        ("\0", "memfs.yaml:1: "),
        ("a:\n\t- b\n", "memfs.yaml:2: "),
    ],
)
def test_an_error_names_its_place_and_reason(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(text)

    assert reason in str(caught.value)
    assert str(caught.value).startswith("memfs.yaml")
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_a_vault_is_not_opened_with_wrong_settings(tmp_path: Path) -> None:
    (tmp_path / "memfs.yaml").write_text("version: 7\n")
    (tmp_path / "a.md").write_text("Text.")

    with pytest.raises(SettingsError):
        Vault(tmp_path)
    (tmp_path / "memfs.yaml").unlink()
    assert Vault(tmp_path).settings == {}


def test_settings_in_any_encoding_are_read(tmp_path: Path) -> None:
    (tmp_path / "memfs.yaml").write_bytes("\ufeffversion: 1\r\nactor: zoë\r\n".encode())

    assert Vault(tmp_path).settings == {"version": 1, "actor": "zoë"}


@pytest.mark.parametrize("kind", ["directory", "link", "dangling"])
def test_settings_that_are_not_a_regular_file_are_ignored(tmp_path: Path, kind: str) -> None:
    (tmp_path / "elsewhere.yaml").write_text("version: 7\n")
    root = tmp_path / "vault"
    root.mkdir()
    makers: dict[str, Callable[[Path], object]] = {
        "directory": lambda path: path.mkdir(),
        "link": lambda path: path.symlink_to("../elsewhere.yaml"),
        "dangling": lambda path: path.symlink_to("nowhere"),
    }
    makers[kind](root / "memfs.yaml")

    assert Vault(root).settings == {}
