"""Every error has a message, a hint and an exit code, can be pickled, and is in the tree of the module docstring."""

import builtins
import inspect
import pickle
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from memfs import MemfsError, Vault, errors

CLASSES: list[type[MemfsError]] = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, MemfsError)
]
FACTS = {
    "path": "facts/alice/tea.md", "ref": "m-1", "line": 3, "reason": "is wrong", "subject": "importance",
    "extra": "semantic", "place": "notes.db", "scheme": "mongo", "installed": ("file",), "extras": ("sql",),
    "plugin": "mem-mongo",
    "found": 3, "known": 2, "actor": "alice", "wanted": "bob",
    "name": "../x", "tool": "add_memory", "model": "ScriptedModel",
    "field": "body", "key": "default",
    "namespace": "/facts/alice", "seconds": 2.5, "where": "memfs.yaml", "message": "2 of 3 failed",
    "paths": ("facts/alice/tea.md", "facts/bob/tea.md"),
    "kind": "github-token", "version": "3f9a",
    "errors": (errors.MemoryNotFoundError("m-1"), errors.SettingsError("memfs.yaml", "is wrong")),
}  # fmt: skip


def sample(kind: type[MemfsError]) -> MemfsError:
    """Return an error of this class, with a sample value for each constructor argument."""
    wanted = list(inspect.signature(kind).parameters.values())
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in wanted):
        return kind("facts/alice: is wrong")
    return kind(*(FACTS[parameter.name] for parameter in wanted))


def test_the_tree_in_the_module_docstring_matches_the_classes() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([│ ├└─]*)(\w+Error)\b", line):
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            drawn[found[2]] = above[depth - 1] if depth else "Exception"

    assert drawn == {kind.__name__: (kind.__base__ or object).__name__ for kind in CLASSES}
    assert all(name.endswith("Error") for name in drawn)


def test_every_leaf_of_the_tree_has_a_description() -> None:
    parents = {kind.__base__ for kind in CLASSES}
    leaves = {kind.__name__ for kind in CLASSES if kind not in parents}

    described = dict(re.findall(r"(\w+Error) {2,}(\S.*)", errors.__doc__ or ""))
    assert leaves <= set(described) <= {kind.__name__ for kind in CLASSES}


CONCRETE = [
    kind for kind in CLASSES if kind not in {MemfsError, errors.VaultError, errors.SearchError, errors.StoreError}
]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_can_be_pickled(kind: type[MemfsError]) -> None:
    error = sample(kind)

    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert {key: str(value) for key, value in vars(copy).items()} == {
        key: str(value) for key, value in vars(error).items()
    }


@pytest.mark.parametrize("kind", CLASSES)
def test_the_message_of_an_error_is_one_line_of_subject_and_reason(kind: type[MemfsError]) -> None:
    message = str(sample(kind))

    assert re.fullmatch(r"\S[^\n]*: [^\n]+", message)
    assert not message.endswith(".")
    assert message.rpartition(": ")[2][0].islower()


@pytest.mark.parametrize("kind", CONCRETE)
def test_an_error_has_a_hint_and_an_exit_code(kind: type[MemfsError]) -> None:
    error = sample(kind)

    assert re.fullmatch(r"[A-Zd][^\n]+\.", error.hint)
    assert error.exit_code in range(1, 10)
    assert kind.__doc__


@pytest.mark.parametrize("kind", CONCRETE)
def test_an_error_has_its_arguments_as_attributes(kind: type[MemfsError]) -> None:
    error = sample(kind)

    for name in inspect.signature(kind).parameters:
        assert getattr(error, name) == FACTS[name]


@pytest.mark.parametrize("fact", ["{0.__class__}", "{}", "%s", "\x1b[2J", "a\nb", "日本", "\ud800"])
@pytest.mark.parametrize("kind", [errors.MemoryNotFoundError, errors.InvalidNamespaceError])
def test_a_name_from_outside_is_quoted_in_an_error(kind: type[MemfsError], fact: str) -> None:
    facts: list[Any] = [fact, "is wrong"][: len(inspect.signature(kind).parameters)]

    message = str(kind(*facts))
    assert message.startswith(repr(fact))
    assert "\n" not in message
    assert "\x1b" not in message


def test_an_aggregate_error_lists_its_errors(vault: Vault) -> None:
    several = [errors.MemoryNotFoundError("a"), errors.MemoryExistsError("b.md")]
    error = errors.AggregateMemoryError("2 of 5 failed", several)

    assert str(error) == "2 of 5 failed: 'a': no such memory; b.md: already exists"
    assert error.errors == tuple(several)


def test_memfs_error_catches_every_intended_error(vault: Vault, tmp_path: Path) -> None:
    for attempt in (
        lambda: vault.read("nothing"),
        lambda: vault.add("", "n"),
        lambda: vault.add("Text.", ".."),
        lambda: Vault(tmp_path / "nothing"),
    ):
        with pytest.raises(MemfsError) as caught:
            attempt()
        assert "memfs.errors" in "".join(traceback.format_exception_only(caught.value))


def test_no_error_has_the_name_of_a_built_in_error() -> None:
    assert not {kind.__name__ for kind in CLASSES} & set(dir(builtins))
