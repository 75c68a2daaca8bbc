"""The doctor: compares what is derived with the files, byte by byte, and has it built anew where it differs."""

import os
from collections.abc import Iterator

from memfs.data_types import Memory, Problem
from memfs.freshness.freshness import Freshness
from memfs.fs.files import STATE_DIR, digest
from memfs.index.generations import CURRENT, Generation
from memfs.index.publisher import INDEX_DIR
from memfs.index.row_table import IncompatibleIndexError, IndexDamagedError
from memfs.index.tantivy_index import TantivyIndex, open_index
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.stat_scan import read_all, read_one, scan

MENDED = "It was built anew from the files."
Fault = tuple[str, str]  # path of a memory, or nothing, and what is wrong
HINT = "Run `memfs doctor` to build it anew from the files."
UNWRITABLE = "Make the vault writable, or free some space; until then searches use an index in memory."


def examine(fresh: Freshness, tree: MemoryFiles, *, repair: bool) -> list[Problem]:
    """Every fault of the index. With `repair` it is made equal to the files, and else nothing is written."""
    faults = list(_faults(fresh, tree, is_synced=False, is_told=not repair))  # what can be written now is no fault
    hint = HINT
    if repair:
        fresh.refresh()  # who subscribed is told of what changed, before all is built anew
        if faults:
            fresh.rebuild()
        fresh.sync()
        left = list(_faults(fresh, tree, is_synced=True))
        if left:  # somebody may be writing
            fresh.sync()
            left = [fault for fault in _faults(fresh, tree, is_synced=True) if fault in left]
        hint = HINT if left else MENDED
        faults += [fault for fault in left if fault not in faults]
    if fresh.published.trouble:
        hint = UNWRITABLE
    return [Problem(path or f"{STATE_DIR}/{INDEX_DIR}", 1, fault, hint=hint) for path, fault in faults]


def _faults(fresh: Freshness, tree: MemoryFiles, *, is_synced: bool, is_told: bool = True) -> Iterator[Fault]:
    """What is wrong with the index; one that is not synced may lack what changed since it was published."""
    folder = fresh.published.folder
    if is_told and fresh.published.trouble:
        yield "", fresh.published.trouble
    if not os.path.lexists(os.path.join(folder, CURRENT)):
        return
    try:
        Generation.read(folder).verify(checksums=True)
        if not os.access(folder, os.W_OK):  # to open it a lock must be written
            return
        index = open_index(folder, fresh.analyzer.language)
        rows = index.row_table.rows_by_path()
        if sorted(rows.values()) != sorted(index.all_rows()):
            yield "", "its documents are not the ones it lists"
    except IncompatibleIndexError:  # of another memfs, or for another language: a search makes it anew by itself
        if is_synced:
            yield "", "made by another memfs, or for another language"
        return
    except IndexDamagedError as error:
        yield "", f"damaged: {error}"
        return
    yield from _differences(index, rows, tree, is_synced=is_synced)


def _differences(index: TantivyIndex, rows: dict[str, int], tree: MemoryFiles, *, is_synced: bool) -> Iterator[Fault]:
    with tree.opened() as root:
        there = scan(root)
        if is_synced:
            for path in sorted(rows.keys() ^ there.stamps.keys()):
                if path in rows and not there.hides(path):
                    yield path, "indexed and not there"
                elif path not in rows and isinstance(read_one(root, path), Memory):
                    yield path, "not indexed"
        for path, memory in read_all(root, sorted(rows)):
            if isinstance(memory, Memory):
                row = index.row_table.row(rows[path])
                if row.digest.hex() != digest(memory.data) and (is_synced or row.stamp == memory.stamp):
                    yield path, "indexed with another text"
