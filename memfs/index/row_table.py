"""The rows of an index: which file, as it was, each indexed document stands for.

A row is a number. A chunk holds the rows that one publication added, in columns, so that all of them are read
in one go and one of them without the others; and the rows it put out of use.
"""

import mmap
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate, compress, pairwise
from typing import NamedTuple

from memfs.data_types import lazy

_HEAD = struct.Struct("<8s5q")  # magic, first row, number of rows, of dead rows, of runs, bytes of paths
_MAGIC = b"memfsrow"
_STAMP = struct.Struct("<4q")
_DIGEST = 8
AT_HAND = 4096  # rows whose paths and stamps are kept as they are asked for
UNREADABLE = (ValueError, IndexError, struct.error)


class IndexDamaged(Exception):  # noqa: N818  it never leaves the core: the index is rebuilt
    """The index is not there, not whole, of another kind, or tantivy failed on it."""


class IndexOfAnotherKind(IndexDamaged):
    """The index was made by another version, or for another language."""


class Row(NamedTuple):
    """A file as it was indexed."""

    path: str
    stamp: tuple[int, ...]  # what a `Stamp` is made of
    digest: bytes  # of its content
    life: int = 2  # when it was new, and how much it matters: see `retention`
    mark: int = 0  # what its id is known by: see `usage`


PlainRow = tuple[str, tuple[int, ...], bytes, int, int]  # a row is one, and one that is no Row costs less to make


class Columns:
    """Rows in the making: bytes and texts, which cost the garbage collector nothing, however many there are."""

    def __init__(self) -> None:
        self._stamps, self._digests, self._lives = bytearray(), bytearray(), array("q")  # two numbers a row, of these
        self._paths: list[str] = []
        self._runs: list[int] = []
        self._folder: str | None = None

    def append(self, row: PlainRow) -> None:
        """Add a row; a stamp of a time too far away becomes another one, which is then never taken for known."""
        path, stamp, digest, life, mark = row
        try:
            self._stamps += _STAMP.pack(*stamp)
        except struct.error:
            self._stamps += bytes(_STAMP.size)
        self._digests += digest
        self._lives.extend((life, mark))
        folder = path.rpartition("/")[0]
        if folder != self._folder:
            self._folder = folder
            self._runs.append(len(self._paths))
        self._paths.append(path)

    def chunk(self, first: int, dead: Iterable[int]) -> bytes:
        """The rows as the bytes of a chunk, with the rows that they put out of use."""
        gone = list(dead)
        paths = [path.encode() for path in self._paths]
        ends = [end - 1 for end in accumulate(len(path) + 1 for path in paths)]
        return b"".join(
            (
                _HEAD.pack(_MAGIC, first, len(paths), len(gone), len(self._runs), ends[-1] if ends else 0),
                self._stamps,
                self._digests,
                self._lives,
                struct.pack(f"<{len(ends)}q", *ends),
                struct.pack(f"<{len(gone)}q", *gone),
                struct.pack(f"<{len(self._runs)}q", *self._runs),
                b"\0".join(paths),
            )
        )


class Chunk:
    """Rows `first` up to `first + count`, and the rows that are dead since."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        magic, *head = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0, 0, 0, 0, 0)
        numbers: list[int] = head
        self.first, self.count, dead, runs, length = numbers
        rows = self.count
        sizes = (_HEAD.size, _STAMP.size * rows, _DIGEST * rows, 16 * rows, 8 * rows, 8 * dead, 8 * runs, length)
        if magic != _MAGIC or min(numbers) < 0 or len(data) != sum(sizes):
            raise ValueError("not a chunk of rows")
        self._data = data
        starts = accumulate(sizes[:-1], initial=0)
        _, self._stamps, self._digests, lives, ends, dead_rows, run_rows, self._paths = starts
        self._lives = memoryview(data)[lives:ends].cast("q")
        self._ends = memoryview(data)[ends:dead_rows].cast("q")
        self.dead = memoryview(data)[dead_rows:run_rows].cast("q")
        self._runs = memoryview(data)[run_rows : self._paths].cast("q")

    @classmethod
    def make(cls, first: int, rows: Iterable[Row], dead: Iterable[int]) -> bytes:
        """The bytes of a chunk."""
        columns = Columns()
        for row in rows:
            columns.append(row)
        return columns.chunk(first, dead)

    def row(self, number: int) -> Row:
        """One row."""
        path, stamp = self.known(number)
        digest = self._digests + (number - self.first) * _DIGEST
        return Row(path, stamp, self._data[digest : digest + _DIGEST], *self.life(number))

    def life(self, number: int) -> tuple[int, int]:
        """When the memory of a row was new and how much it matters, and the mark of its id."""
        at = 2 * (number - self.first)
        return self._lives[at], self._lives[at + 1]

    def known(self, number: int) -> tuple[str, tuple[int, ...]]:
        """The path and the stamp of one row."""
        at = number - self.first
        ends, paths = self._ends, self._paths
        start = paths + ends[at - 1] + 1 if at else paths
        return self._data[start : paths + ends[at]].decode(), _STAMP.unpack_from(self._data, self._stamps + at * 32)

    def paths(self) -> list[str]:
        """The paths of all rows."""
        return self._data[self._paths :].decode().split("\0") if self.count else []

    def digests(self) -> bytes:
        """The digests of all rows, side by side."""
        return self._data[self._digests : self._digests + _DIGEST * self.count]

    def stamps(self) -> Iterable[tuple[int, ...]]:
        """The stamps of all rows."""
        return _STAMP.iter_unpack(memoryview(self._data)[self._stamps : self._digests])

    def runs(self) -> Iterator[tuple[str, range]]:
        """Which rows follow each other in one directory."""
        for start, end in pairwise((*self._runs, self.count)):
            yield self.known(self.first + start)[0].rpartition("/")[0], range(self.first + start, self.first + end)

    def paths_of(self, rows: range) -> str:
        """The paths of rows that follow each other, with a NUL between two."""
        start, end = rows.start - self.first, rows.stop - self.first
        first = self._paths + (self._ends[start - 1] + 1 if start else 0)
        return self._data[first : self._paths + self._ends[end - 1]].decode()

    def stamps_of(self, rows: range) -> Iterable[tuple[int, ...]]:
        """The stamps of rows that follow each other."""
        start, end = (self._stamps + (number - self.first) * _STAMP.size for number in (rows.start, rows.stop))
        return _STAMP.iter_unpack(memoryview(self._data)[start:end])


class Directory:
    """The rows of one directory that are alive."""

    def __init__(self, place: str, runs: Sequence[tuple[Chunk, range]], dead: Sequence[int]) -> None:
        self._prefix, self._runs = f"{place}/" if place else "", runs
        self._gone = [dead[bisect_left(dead, rows.start) : bisect_left(dead, rows.stop)] for _, rows in runs]

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._runs) - sum(map(len, self._gone))

    def holds(self, names: Sequence[str], stamps: Sequence[tuple[int, ...]]) -> bool:
        """Tell whether these, sorted by name, are the files of the rows, all of them and as they were."""
        try:
            return self._is_one_run_of(names, stamps) or self.stamps() == {
                self._prefix + name: stamp for name, stamp in zip(names, stamps, strict=True)
            }
        except UNREADABLE as error:
            raise IndexDamaged("its rows cannot be read") from error

    def _is_one_run_of(self, names: Sequence[str], stamps: Sequence[tuple[int, ...]]) -> bool:
        """Tell the same where it takes the least: the rows of an index that was built at once are sorted, too."""
        if len(self._runs) != 1 or self._gone[0]:
            return False
        chunk, rows = self._runs[0]
        paths = self._prefix + f"\0{self._prefix}".join(names)
        return chunk.paths_of(rows) == paths and [*chunk.stamps_of(rows)] == stamps

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """The stamp of every path."""
        stamps: dict[str, tuple[int, ...]] = {}
        try:
            for (chunk, rows), gone in zip(self._runs, self._gone, strict=True):
                known = zip(chunk.paths_of(rows).split("\0"), chunk.stamps_of(rows), strict=True)
                stamps.update(known if not gone else compress(known, [number not in gone for number in rows]))
        except UNREADABLE as error:
            raise IndexDamaged("its rows cannot be read") from error
        return stamps


class RowTable:
    """All rows of an index."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = tuple(chunks)
        self._firsts = [chunk.first for chunk in chunks]
        self.known = lru_cache(maxsize=AT_HAND)(partial(_known, self.chunks, self._firsts))
        if any(left.first + left.count != right.first for left, right in pairwise(chunks)) or self._firsts[:1] != [0]:
            raise ValueError("rows are missing")

    @property
    def next_row(self) -> int:
        return self.chunks[-1].first + self.chunks[-1].count

    @property
    def dead(self) -> int:
        return sum(len(chunk.dead) for chunk in self.chunks)

    @property
    def alive(self) -> int:
        return self.next_row - self.dead

    def life(self, number: int) -> tuple[int, int]:
        """When the memory of a row was new and how much it matters, and the mark of its id."""
        return self.chunks[bisect_right(self._firsts, number) - 1].life(number)

    def row(self, number: int) -> Row:
        """One row."""
        self.known(number)
        return self.chunks[bisect_right(self._firsts, number) - 1].row(number)

    def mentions(self, path: str) -> bool:
        """Tell whether a path has a row, dead or alive."""
        return any(path in _paths(chunk) for chunk in self.chunks)

    def rows(self) -> dict[str, int]:
        """The living row of every path."""
        found: dict[str, int] = {}
        for chunk in self.chunks:
            found.update(zip(_paths(chunk), range(chunk.first, chunk.first + chunk.count), strict=True))
        for chunk in self.chunks:
            for number in chunk.dead:
                path = self.row(number).path
                if found.get(path) == number:
                    del found[path]
        return found

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """The stamp of every path that has a living row."""
        stamps: dict[str, tuple[int, ...]] = {}
        for chunk in self.chunks:
            stamps.update(zip(_paths(chunk), chunk.stamps(), strict=True))
        if self.dead:
            living = self.rows()
            return {path: stamp for path, stamp in stamps.items() if path in living}
        return stamps

    def contents(self) -> Iterator[tuple[int, list[str], bytes]]:
        """The rows in runs: the first one, the paths, and the digests of contents side by side; dead ones too."""
        for chunk in self.chunks:
            yield chunk.first, _paths(chunk), chunk.digests()

    @lazy
    def _folders(self) -> dict[str, list[tuple[Chunk, range]]]:
        found: dict[str, list[tuple[Chunk, range]]] = {}
        for chunk in self.chunks:
            for folder, rows in chunk.runs():
                found.setdefault(folder, []).append((chunk, rows))
        return found

    @lazy
    def dead_rows(self) -> list[int]:
        """The rows out of use, sorted."""
        return sorted(number for chunk in self.chunks for number in chunk.dead)

    def folders(self) -> Collection[str]:
        """The directories that memories with a row lie, or lay, in."""
        try:
            return self._folders.keys()
        except UNREADABLE as error:
            raise IndexDamaged("its rows cannot be read") from error

    def directory(self, place: str) -> Directory:
        """The rows of the files that lie in a directory, not below it."""
        try:
            return Directory(place, self._folders.get(place, ()), self.dead_rows)
        except UNREADABLE as error:
            raise IndexDamaged("its rows cannot be read") from error

    def merged(self) -> bytes:
        """All rows as one chunk, dead ones included, for rows keep their numbers."""
        rows = (chunk.row(number) for chunk in self.chunks for number in range(chunk.first, chunk.first + chunk.count))
        return Chunk.make(0, rows, [number for chunk in self.chunks for number in chunk.dead])


def _known(chunks: Sequence[Chunk], firsts: Sequence[int], number: int) -> tuple[str, tuple[int, ...]]:
    """The path and the stamp of one row."""
    try:
        path, stamp = chunks[bisect_right(firsts, number) - 1].known(number)
    except UNREADABLE as error:
        raise IndexDamaged("a row cannot be read") from error
    if "\0" in path:
        raise IndexDamaged("a row cannot be read")
    return path, stamp


def _paths(chunk: Chunk) -> list[str]:
    """The paths of a chunk, as many as it has rows."""
    try:
        paths = chunk.paths()
    except UNREADABLE as error:
        raise IndexDamaged("its rows cannot be read") from error
    if len(paths) != chunk.count:
        raise IndexDamaged("its rows cannot be read")
    return paths
