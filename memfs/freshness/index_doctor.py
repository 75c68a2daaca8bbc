"""The doctor: compares the index with the digests of all files, and rebuilds it if it differs."""

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
from memfs.storage.part_formats import newer_parts
from memfs.storage.stat_scan import read_all, read_one, scan

REPAIRED = "It was rebuilt from the files."
Fault = tuple[str, str]  # path of a memory, or empty for the whole index, and the fault
HINT = "Run `memfs doctor` to rebuild it from the files."
UNWRITABLE = "Make the vault writable, or free some space; until then searches use an index in memory."


def examine(fresh: Freshness, files: MemoryFiles, *, repair: bool) -> list[Problem]:
    """Return every fault of the index, and parts of `.memfs` that a later memfs wrote.

    With `repair` the index is made equal to the files; otherwise nothing is written.
    """
    # a repair shows whether the index can be written: earlier trouble is no fault then
    faults = list(find_faults(fresh, files, is_synced=False, with_trouble=not repair))
    hint = HINT
    if repair:
        fresh.refresh()  # reports changes to subscribers before the index is rebuilt
        if faults:
            fresh.rebuild()
        fresh.sync()
        remaining = list(find_faults(fresh, files, is_synced=True))
        if remaining:  # a file may have been written meanwhile
            fresh.sync()
            remaining = [fault for fault in find_faults(fresh, files, is_synced=True) if fault in remaining]
        hint = HINT if remaining else REPAIRED
        faults += [fault for fault in remaining if fault not in faults]
    if fresh.published.trouble:
        hint = UNWRITABLE
    problems = [Problem(path or f"{STATE_DIR}/{INDEX_DIR}", 1, fault, hint=hint) for path, fault in faults]
    return problems + _newer_parts(files)


def _newer_parts(files: MemoryFiles) -> list[Problem]:
    """Return a problem for each part of the state directory that a later memfs wrote; the part is not changed."""
    with files.opened() as root:
        return [
            Problem(error.place, 1, f"has format {error.found}, newer than this memfs ({error.known})", hint=error.hint)
            for error in newer_parts(root)
        ]


def find_faults(fresh: Freshness, files: MemoryFiles, *, is_synced: bool, with_trouble: bool = True) -> Iterator[Fault]:
    """Yield the faults of the index; none if there is no index.

    Unless it `is_synced`, the index may lack changes since it was published: these are no faults.
    """
    directory = fresh.published.directory
    if with_trouble and fresh.published.trouble:
        yield "", fresh.published.trouble
    if not os.path.lexists(os.path.join(directory, CURRENT)):
        return
    try:
        Generation.read(directory).verify(checksums=True)
        if not os.access(directory, os.W_OK):  # opening it writes a lock file
            return
        index = open_index(directory, fresh.analyzer.language)
        rows = index.row_table.rows_by_path()
        if sorted(rows.values()) != sorted(index.all_rows()):
            yield "", "its documents are not the ones it lists"
    except IncompatibleIndexError:  # of another memfs version or language: a search rebuilds it anyway
        if is_synced:
            yield "", "made by another memfs, or for another language"
        return
    except IndexDamagedError as error:
        yield "", f"damaged: {error}"
        return
    yield from find_differences(index, rows, files, is_synced=is_synced)


def find_differences(
    index: TantivyIndex, rows: dict[str, int], files: MemoryFiles, *, is_synced: bool
) -> Iterator[Fault]:
    """Yield the memories that differ between the index and the files; `rows` maps indexed paths to rows."""
    with files.opened() as root:
        found = scan(root)
        if is_synced:
            for path in sorted(rows.keys() ^ found.stamps.keys()):
                if path in rows and not found.is_unreadable(path):
                    yield path, "indexed, but there is no such file"
                elif path not in rows and isinstance(read_one(root, path), Memory):
                    yield path, "not indexed"
        for path, memory in read_all(root, sorted(rows)):
            if isinstance(memory, Memory):
                row = index.row_table.row(rows[path])
                if row.digest.hex() != digest(memory.data) and (is_synced or row.stamp == memory.stamp):
                    yield path, "indexed with another text"
