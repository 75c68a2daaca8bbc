"""Each part of `.memfs` has a format number; a part with a newer number is left alone, and the message names it."""

import json
import logging
import os
import zlib
from pathlib import Path

import pytest
from support.commands import Git

from memfs import MemoryManager, Vault, VaultStore, open_store
from memfs.agent import InvocationTrigger, ScriptedModel, wait
from memfs.agent.extraction_queue.failed_batches import list_failed
from memfs.agent.extraction_queue.pending_log import list_pending
from memfs.embedding import default_embedder
from memfs.errors import NewerSchemaError
from memfs.fs.files import open_root
from memfs.hub.sync_state import open_sync_state
from memfs.storage.part_formats import FORMATS, FORMATS_FILE


def set_format(root: Path, part: str, number: int = 99, *, directory: str = ".memfs") -> None:
    path = root / directory / FORMATS_FILE
    numbers = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**numbers, part: number}))


def content(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return {str(file): file.read_bytes() for file in files if file.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a vault with every part that the core writes."""
    with Vault.init(tmp_path / "vault") as vault:
        tea = vault.add("Alice drinks sencha.", "/facts")
        vault.update(tea.id, importance=3)
        vault.usage.recalled([tea.id])
        vault.sync()
    with Vault(vault.root, embedder=default_embedder()) as vault:
        assert vault.search("sencha")
    return vault.root


def test_a_new_state_directory_records_the_numbers(root: Path) -> None:
    assert json.loads((root / ".memfs" / FORMATS_FILE).read_text()) == FORMATS


def test_a_state_directory_without_numbers_gets_them_and_is_used(root: Path) -> None:
    (root / ".memfs" / FORMATS_FILE).unlink()

    with Vault(root) as vault:
        assert len(vault.versions("facts/alice-drinks-sencha.md")) == 2
        vault.append("facts/alice-drinks-sencha.md", "Every day.")
    assert json.loads((root / ".memfs" / FORMATS_FILE).read_text()) == FORMATS


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"history": "x"}', '{"history": null}', "[" * 100_000])
def test_a_damaged_file_of_numbers_counts_as_that_of_the_first_version(root: Path, text: str) -> None:
    (root / ".memfs" / FORMATS_FILE).write_text(text)

    with Vault(root) as vault:
        assert len(vault.versions("facts/alice-drinks-sencha.md")) == 2


def test_newer_kept_versions_are_not_read_written_or_dropped(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    set_format(root, "history")
    before = content(root / ".memfs/history")

    with Vault(root) as vault, caplog.at_level(logging.WARNING, "memfs"):
        vault.append("facts/alice-drinks-sencha.md", "Every day.")
        assert vault.versions("facts/alice-drinks-sencha.md") == []
        with pytest.raises(NewerSchemaError, match=r"\.memfs/history: has schema version 99") as caught:
            vault.remove("facts/alice-drinks-sencha.md")
        assert "pip install --upgrade" in caught.value.hint
        assert "Every day." in vault.read("facts/alice-drinks-sencha.md").body
        vault.move("facts/alice-drinks-sencha.md", "/tea")
    assert content(root / ".memfs/history") == before
    assert "versions are neither kept nor listed. Install a later memfs" in caplog.text


def test_kept_versions_in_a_git_work_tree_have_their_own_number(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "-q")
    with Vault.init(tmp_path) as vault:
        tea = vault.add("Alice drinks sencha.", "/facts")
    set_format(tmp_path, "history", directory=".git/memfs")

    with Vault(tmp_path) as vault, pytest.raises(NewerSchemaError, match=r"\.git/memfs/history"):
        vault.remove(tea.id)


def test_a_newer_journal_is_left_alone_and_searches_stay_right(root: Path) -> None:
    set_format(root, "journal")
    before = content(root / ".memfs/journal")

    with Vault(root) as vault, Vault(root) as other:
        assert vault.search("sencha")
        vault.add("Bob drinks oolong.", "/facts")
        assert other.search("oolong")
        (root / "facts/cocoa.md").write_text("Carol drinks cocoa.\n")
        assert vault.search("cocoa")
        assert other.search("cocoa")
        vault.remove("facts/cocoa.md")
        assert not other.search("cocoa")
    assert content(root / ".memfs/journal") == before


def test_newer_recall_counts_are_left_alone(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    set_format(root, "usage")
    before = content(root / ".memfs/usage")

    with Vault(root) as vault, caplog.at_level(logging.WARNING, "memfs"):
        tea = vault.read("facts/alice-drinks-sencha.md").id
        vault.usage.recalled([tea])
        assert vault.usage.of(tea).times == 0
    assert content(root / ".memfs/usage") == before
    assert "recalls are not counted" in caplog.text


def test_newer_vectors_are_left_alone_and_search_works(root: Path) -> None:
    set_format(root, "vectors")
    before = content(root / ".memfs/vectors")

    with Vault(root, embedder=default_embedder()) as vault:
        vault.add("Bob takes the train.", "/facts")
        assert vault.search("railway")[0].memory.path == "facts/bob-takes-the-train.md"
    assert content(root / ".memfs/vectors") == before


def test_newer_vectors_of_a_keyed_store_are_left_alone(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(f"vector:{root}") as store:
        store.add("tea", "Dora prefers rooibos.")
        assert store.search("herbal infusion")
    set_format(root, "text-vectors")
    before = content(root / ".memfs/text-vectors")

    with open_store(f"vector:{root}") as store, caplog.at_level(logging.WARNING, "memfs"):
        store.add("train", "Bob takes the train.")
        assert store.search("railway")[0][0] == "train"
        store.forget("train")
    assert content(root / ".memfs/text-vectors") == before


def test_a_newer_index_is_left_alone_and_searches_use_one_in_memory(root: Path) -> None:
    current = root / ".memfs/index/current"
    name, index_format, journal, files = json.loads(current.read_bytes().partition(b"\n")[2])
    number, _, rest = index_format.partition("/")
    text = json.dumps([name, f"{int(number) + 1}/{rest}", journal, files]).encode()
    current.write_bytes(b"%d\n%b" % (zlib.crc32(text), text))
    before = content(root / ".memfs/index")

    with Vault(root) as vault:
        vault.add("Bob drinks oolong.", "/facts")
        assert vault.search("oolong")
        assert vault.search("sencha")
        vault.sync()
        assert vault.status().where == "memory"
        assert "a later memfs made it" in vault.status().trouble
        assert any("a later memfs" in str(problem) for problem in vault.doctor())
    assert content(root / ".memfs/index") == before


def test_an_older_index_is_rebuilt(root: Path) -> None:
    current = root / ".memfs/index/current"
    name, index_format, journal, files = json.loads(current.read_bytes().partition(b"\n")[2])
    text = json.dumps([name, f"1/{index_format.partition('/')[2]}", journal, files]).encode()
    current.write_bytes(b"%d\n%b" % (zlib.crc32(text), text))

    with Vault(root) as vault:
        assert vault.search("sencha")
        assert vault.status().where == "disk"


def test_a_newer_state_of_a_hub_is_refused(root: Path) -> None:
    value = b'"memfs hub 2"'
    path = root / ".memfs/hub/some-hub"
    path.parent.mkdir()
    path.write_bytes(b"%08x %b\n" % (zlib.crc32(value), value))
    before, fd = content(path), open_root(root)

    with pytest.raises(NewerSchemaError, match=r"\.memfs/hub/some-hub"), open_sync_state(fd, "some-hub"):
        pass
    os.close(fd)
    assert content(path) == before


def test_newer_pending_turns_are_left_alone_and_turns_stay_in_memory(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / ".memfs/pending/1-other").mkdir(parents=True)
    (root / ".memfs/pending/1-other/1.jsonl").write_text('{"stores": ["facts:/facts"]}\n')
    set_format(root, "pending")
    before = content(root / ".memfs/pending")

    with Vault(root) as vault, caplog.at_level(logging.WARNING, "memfs"):
        store = VaultStore(vault, "/facts", extraction={"trigger": InvocationTrigger()})
        manager = MemoryManager([store], model=ScriptedModel([[{"content": "Bob drinks oolong."}]]))
        manager.attach().record({"role": "user", "content": "I drink oolong."})
        wait(manager.close())
        assert vault.search("oolong")
        with pytest.raises(NewerSchemaError, match=r"\.memfs/pending"):
            list_pending(root)
    assert content(root / ".memfs/pending") == before
    assert "pending turns are in memory only: .memfs/pending" in caplog.text


def test_newer_failed_batches_are_left_alone_and_listing_them_is_refused(root: Path) -> None:
    set_format(root, "failed")

    with pytest.raises(NewerSchemaError, match=r"\.memfs/failed"):
        list_failed(root)


@pytest.mark.parametrize("part", FORMATS)
def test_the_doctor_names_a_newer_part(root: Path, part: str) -> None:
    set_format(root, part)

    with Vault(root) as vault:
        problems = [problem for problem in vault.doctor() if problem.path == f".memfs/{part}"]
    assert [problem.reason for problem in problems] == ["has format 99, newer than this memfs (1)"]
