"""Scans of a vault, and differences between two states."""

import os
from pathlib import Path

from memfs import Stamp
from memfs.fs.files import MAX_FILE_BYTES, open_root
from memfs.index.row_table import Chunk, Row, RowTable
from memfs.storage.stat_scan import Changes, diff, read_one, scan


def test_a_diff_lists_added_changed_and_removed_paths() -> None:
    assert diff({"a": (1,), "b": (2,)}, {"b": (3,), "c": (4,)}) == Changes(["a"], ["b"], ["c"])
    assert diff({"a": (1,)}, {"a": (1,)}) == Changes([], [], [])


def test_a_scan_counts_unchanged_directories_and_lists_the_rest(tmp_path: Path) -> None:
    for path in ("same/a.md", "same/b.md", "changed/a.md", "less/a.md", "less/b.md", "mixed/a.md", "mixed/m/a.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("Tea.")
    root = open_root(tmp_path)
    try:
        before = scan(root).stamps
        (tmp_path / "changed/a.md").write_text("Sencha.")
        (tmp_path / "less/b.md").unlink()
        (tmp_path / "less/c.md").symlink_to("a.md")
        rows = [Row(path, Stamp(*before[path]), bytes(8)) for path in sorted(before)]
        table = RowTable([Chunk(Chunk.encode(0, rows, []))])
        found, all_of_it = scan(root, known=table.directory), scan(root)
    finally:
        os.close(root)

    assert found.unchanged == {"same": 2, "mixed/m": 1}
    assert found.stamps == {path: all_of_it.stamps[path] for path in ("changed/a.md", "less/a.md", "mixed/a.md")}
    assert found.problems == all_of_it.problems != []
    assert (found.memories, all_of_it.memories) == (6, 6)


def test_a_scan_lists_memories_and_reports_files_that_are_not(tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n/tea.md").write_text("Tea.")
    (tmp_path / "n/é.md").write_text("Tea.")
    (tmp_path / "readme.md").write_text("no memory")
    (tmp_path / "n/link.md").symlink_to(tmp_path / "n/tea.md")
    os.mkfifo(tmp_path / "n/pipe.md")
    with (tmp_path / "n/large.md").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (tmp_path / "n" / os.fsdecode(b"\xff.md")).write_text("x")
    deep = tmp_path.joinpath(*[f"d{number}" for number in range(34)])
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("x")
    root = open_root(tmp_path)
    try:
        found, names = scan(root), scan(root, names_only=True)
        assert read_one(root, "n/link.md") is None
        assert read_one(root, "n/none.md") is None
    finally:
        os.close(root)

    assert {*found.stamps} == {"n/tea.md", "n/é.md"}
    assert {*names.stamps} == {"n/tea.md", "n/é.md", "n/large.md"}  # reading it is refused
    assert {problem.reason.partition(":")[0] for problem in found.problems} == {
        "a symlink",
        "not a regular file",
        "larger than 8 MiB",
        "a name that is not UTF-8",
        "more than 32 directories deep",
    }
