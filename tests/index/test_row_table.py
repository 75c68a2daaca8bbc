"""Rows of an index: chunks, live and dead rows, directories."""

import pytest
from support.index_rows import row

from memfs import Stamp
from memfs.index.row_table import Chunk, IndexDamagedError, Row, RowTable


def row_table(*chunks: tuple[list[Row], list[int]]) -> RowTable:
    made, first = [], 0
    for rows, dead in chunks:
        made.append(Chunk(Chunk.encode(first, rows, dead)))
        first += len(rows)
    return RowTable(made)


def test_a_row_table_returns_the_live_row_of_each_path() -> None:
    rows = row_table(([row("a.md", 1), row("b.md", 2)], []), ([row("a.md", 3)], [0]), ([], [1]))

    assert rows.rows_by_path() == {"a.md": 2}
    assert rows.stamps() == {"a.md": (3, 3, 3, 3)}
    assert (rows.live_count, rows.dead_count, rows.next_row) == (1, 2, 3)
    assert rows.row(1) == row("b.md", 2)
    assert rows.has_path("b.md")


def test_a_row_table_returns_the_live_rows_of_each_directory() -> None:
    first = [row("a.md", 1), row("n/a.md", 2), row("n/b.md", 3), row("n/m/x.md", 4), row("n/z.md", 5)]
    rows = row_table((first, []), ([row("n/b.md", 6), row("日/x.md", 7)], [2, 3]), ([], [0]))

    known = {folder: rows.directory(folder).stamps() for folder in rows.directories()}

    assert {folder: [*paths] for folder, paths in known.items()} == {
        "": [],
        "n": ["n/a.md", "n/z.md", "n/b.md"],
        "n/m": [],
        "日": ["日/x.md"],
    }
    assert {path: stamp for paths in known.values() for path, stamp in paths.items()} == rows.stamps()
    assert rows.directory("elsewhere").stamps() == {}


@pytest.mark.parametrize(
    ("chunks", "is_all"),
    [
        ([(["n/a.md", "n/b.md", "n/c.md"], [])], True),
        ([(["n/c.md", "n/a.md", "n/b.md"], [])], True),
        ([(["n/a.md", "n/c.md"], []), (["n/b.md"], [])], True),
        ([(["n/a.md", "n/x.md", "n/b.md", "n/c.md"], [1])], True),
        ([(["n/a.md", "n/b.md", "n/c.md"], [1])], False),
        ([(["n/a.md", "n/b.md"], [])], False),
        ([(["n/a.md", "n/b.md", "n/d.md"], [])], False),
        ([(["n/a.md", "n/b.md", "m/c.md"], [])], False),
    ],
    ids=["sorted", "unsorted", "two chunks", "with a dead row", "one dead", "one missing", "another", "elsewhere"],
)
def test_directory_rows_match_exactly_the_indexed_files(
    chunks: list[tuple[list[str], list[int]]], is_all: bool
) -> None:
    known = row_table(*[([row(path, 7) for path in paths], dead) for paths, dead in chunks]).directory("n")
    names, stamps = ["a.md", "b.md", "c.md"], [(7, 7, 7, 7)] * 3

    assert known.matches(names, stamps) == is_all
    assert not known.matches(names, [*stamps[:2], (7, 8, 7, 7)])
    assert len(known) == len(known.stamps())


def test_merged_rows_keep_their_numbers() -> None:
    rows = row_table(([row("ä.md", 1)], []), ([row("b/日.md", 2)], [0]))

    merged = RowTable([Chunk(rows.merge())])

    assert [merged.row(number) for number in range(2)] == [row("ä.md", 1), row("b/日.md", 2)]
    assert merged.rows_by_path() == {"b/日.md": 1}


def test_a_time_out_of_range_is_stored_as_zeros() -> None:
    far = Row("a.md", Stamp(1 << 70, 1, 1, 1), bytes(8))

    assert row_table(([far], [])).stamps() == {"a.md": (0, 0, 0, 0)}


@pytest.mark.parametrize("data", [b"", b"memfsrow", bytes(100), Chunk.encode(0, [row("a.md")], [])[:-1]])
def test_bytes_that_are_not_a_chunk_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a chunk of rows"):
        Chunk(data)


def test_rows_that_cannot_be_read_raise_index_damaged() -> None:
    data = Chunk.encode(0, [row("aaaa.md"), row("b.md")], [])
    rows = RowTable([Chunk(data.replace(b"aaaa", b"a\xff\xfea"))])

    for read in (
        rows.rows_by_path,
        rows.stamps,
        rows.directories,
        lambda: rows.row(0),
        lambda: rows.directory("").stamps(),
    ):
        with pytest.raises(IndexDamagedError):
            read()
    with pytest.raises(IndexDamagedError):
        RowTable([Chunk(data.replace(b"aaaa", b"a\0aa"))]).rows_by_path()
    with pytest.raises(ValueError, match="rows are missing"):
        RowTable([Chunk(Chunk.encode(5, [], []))])
