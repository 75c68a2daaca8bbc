"""The doctor: differences between the index and the files."""

from support.engines import EngineOf

from memfs import Vault
from memfs.freshness.index_doctor import find_differences, find_faults
from memfs.index.document_builder import build_document
from memfs.index.row_table import Row
from memfs.index.tantivy_index import publish
from memfs.protocols import system_clock
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.stat_scan import read_one
from memfs.vault.vault import LOCK_TIMEOUT


def test_the_doctor_finds_differences_between_index_and_files(engine_of: EngineOf, vault: Vault) -> None:
    kept, other = vault.add("Tea.", "n"), vault.add("Coffee.", "n")
    vault.sync()
    engine = engine_of(vault)
    index = engine.freshness.index
    files = MemoryFiles(vault.root, clock=system_clock, lock_timeout=LOCK_TIMEOUT)
    with files.opened() as root:
        memory = read_one(root, kept.path)
    assert memory is not None
    wrong = build_document(memory)._replace(row=Row(kept.path, memory.stamp, bytes(8)))  # type: ignore[arg-type, union-attr]
    gone = build_document(memory)._replace(row=Row("n/gone.md", memory.stamp, bytes(8)))  # type: ignore[arg-type, union-attr]
    rows = index.row_table.rows_by_path()
    edits = [(rows[kept.path], wrong), (rows[other.path], None), (None, gone)]
    folder = engine.freshness.published.directory
    damaged = publish(folder, index, edits, language="english", journal="", is_large=False)

    differences = set(find_differences(damaged, damaged.row_table.rows_by_path(), files, is_synced=True))
    faults = list(find_faults(engine.freshness, files, is_synced=False))

    assert differences == {
        (kept.path, "indexed with another text"),
        (other.path, "not indexed"),
        ("n/gone.md", "indexed, but there is no such file"),
    }
    assert faults == [(kept.path, "indexed with another text")]
    assert [problem.path for problem in vault.doctor()] == [kept.path]
    assert vault.doctor() == []
    assert len(vault.search("tea coffee")) == 2


def test_the_doctor_without_repair_changes_nothing(vault: Vault) -> None:
    (vault.root / "tea.md").write_text("Tea.")

    assert vault.doctor(repair=False) == []
    assert not (vault.root / ".memfs/index/current").exists()
