"""Programs and vaults of version 0.9 keep working: import paths, names, parameters, and every file in `.memfs`."""

import importlib
import inspect
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfs import MemoryManager, Vault, VaultStore, open_store
from memfs.agent import InvocationTrigger, ModelExtractor, ScriptedModel, wait
from memfs.agent.extraction_queue.failed_batches import list_failed
from memfs.agent.sessions import SessionLog, Sessions
from memfs.embedding import default_embedder
from memfs.fs.files import open_root
from memfs.hub.sync_state import open_sync_state

DATA = Path(__file__).parents[1] / "data"
NAMES: dict[str, dict[str, dict[str, list[str] | None]]] = json.loads((DATA / "public-names-0.9.json").read_text())
TEA = "facts/alice/alice-drinks-sencha-in-the-morning.md"
BOB = "facts/bob/bobs-allergy.md"


def parameters(function: Any) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters.values():
        yield parameter.name if parameter.kind is not parameter.VAR_KEYWORD else "**"


def missing(value: Any, members: dict[str, list[str] | None]) -> Iterator[str]:
    """Yield the documented members that a name has lost, and the documented parameters that a member has lost."""
    fields = {name for kind in getattr(value, "__mro__", ()) for name in getattr(kind, "__annotations__", ())}
    for member, wanted in members.items():
        if member != "()" and not hasattr(value, member) and member not in fields:
            yield member
        elif wanted is not None:
            present = set(parameters(value if member == "()" else getattr(value, member)))
            if "**" not in present:
                yield from (f"{member}({name}=)" for name in wanted if name not in present)


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_a_documented_name_is_importable_with_its_members_and_parameters(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)

    assert list(missing(value, NAMES[module][name])) == []


def test_an_old_import_path_gives_the_same_objects() -> None:
    from memfs.agent.distill import LongTerm
    from memfs.privacy.policy import Policy

    assert importlib.import_module("memfs.upkeep.redaction").Policy is Policy
    assert importlib.import_module("memfs.agent.session").LongTerm is LongTerm
    assert importlib.import_module("memfs.agent.session").SessionLog is SessionLog
    with pytest.raises(AttributeError, match=r"'memfs.retention' has no attribute 'Nothing'"):
        _ = importlib.import_module("memfs.retention").Nothing
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("memfs.not_there")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a vault that memfs 0.9 wrote, with every part of `.memfs`."""
    with tarfile.open(DATA / "vault-0.9.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "vault"


def test_memories_are_found_and_nothing_is_reported(old: Path) -> None:
    with Vault(old) as vault:
        assert [memory.path for memory in vault.list()] == [TEA, BOB, "memories/tea/kind.md"]
        assert vault.search("what does alice drink")[0].memory.path == TEA
        assert vault.check() == []


def test_the_index_is_opened_and_not_built_again(old: Path) -> None:
    """The extracted files have new stamps, so they are read again; the index keeps its generation."""
    generation = json.loads((old / ".memfs/index/current").read_bytes().partition(b"\n")[2])[0]
    with Vault(old) as vault:
        assert vault.search("peanuts")[0].memory.path == BOB
        assert (vault.status().generation, vault.status().trouble) == (generation, "")
        assert vault.doctor() == []


def test_kept_versions_are_listed_and_restored(old: Path) -> None:
    with Vault(old) as vault:
        assert len(vault.versions(TEA)) == 3
        vault.restore(TEA, vault.versions(TEA)[-1].hash)
        assert "oolong" not in vault.read(TEA).body
        vault.restore("facts/carol/carol-lives-in-lisbon.md")
        assert vault.read("facts/carol/carol-lives-in-lisbon.md").body.strip() == "Carol lives in Lisbon."


def test_recall_counts_are_continued(old: Path) -> None:
    with Vault(old) as vault:
        tea = vault.read(TEA).id
        vault.usage.recalled([tea])
        assert (vault.usage.of(tea).times, vault.usage.ratio().searches) == (2, 2)


def test_vectors_are_not_computed_again(old: Path) -> None:
    class Counted:
        """The default embedder, which records its texts."""

        def __init__(self) -> None:
            self.texts: list[str] = []
            self._embedder = default_embedder()
            self.name = self._embedder.name

        def embed(self, texts: Any) -> Any:
            self.texts += texts
            return self._embedder.embed(texts)

    counted = Counted()
    with Vault(old, embedder=counted) as vault:
        assert vault.search("peanut reaction")[0].memory.path == BOB
    assert not any("peanuts" in text for text in counted.texts)
    with open_store(f"vector:{old}") as store:
        assert store.search("herbal infusion")[0][0] == "tea/kind"


def test_a_session_can_be_continued(old: Path) -> None:
    with Vault(old) as vault:
        log = SessionLog(vault, "s-1", "main", actor="alice")
        assert [message["content"] for message in log.messages()] == ["I like tuna.", "Noted."]
        assert [message["content"] for message in log.messages(branch="salmon")] == ["I like tuna.", "Salmon, too?"]
        log.append({"role": "user", "content": "And rice."})
        assert len(log.messages()) == 3
        assert [session.actor for session in Sessions(vault).list()] == ["alice"]


def test_turns_and_failed_batches_of_a_killed_process_become_facts(old: Path) -> None:
    with Vault(old) as vault:
        model = ScriptedModel([[{"content": "Alice lives in Porto."}]])
        extraction = {"trigger": InvocationTrigger(), "extractor": ModelExtractor(model)}
        manager = MemoryManager(
            [VaultStore(vault, "/facts/{actorId}", actor="alice", name="facts", extraction=extraction)]
        )
        manager.attach()
        wait(manager.flush())
        assert [memory.body.strip() for memory in vault.list("/facts/alice")][1:] == ["Alice lives in Porto."]
        wait(manager.close())
        (failure,) = list_failed(vault.root)
        assert failure.messages[0]["content"][0]["text"] == "My cat is called Tofu."


def test_the_state_of_a_hub_is_read(old: Path) -> None:
    (hub,) = (old / ".memfs/hub").iterdir()
    root = open_root(old)
    with open_sync_state(root, hub.name) as state:
        assert (sorted(state.entries), state.last_seq("")) == ([TEA, BOB, "memories/tea/kind.md"], 3)
    os.close(root)
