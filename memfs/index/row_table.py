"""The rows of an index: the file that each indexed document was made from, with its stamp and digest.

A row is a number. A chunk stores the rows that one publication added, in columns, so that all of them can be read at
once, or one of them without the others. It also lists the rows that the publication replaced or removed: these are
dead.
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

_HEAD = struct.Struct("<8s5q")  # magic, first row; numbers of rows, dead rows, runs, path bytes
_MAGIC = b"memfsrow"
_STAMP = struct.Struct("<4q")
_DIGEST_BYTES = 8
CACHED_ROWS = 4096  # rows whose paths and stamps are cached
DECODE_ERRORS = (ValueError, IndexError, struct.error)


class IndexDamagedError(Exception):
    """The index is missing, incomplete or incompatible, or Tantivy failed on it. Internal: the index is rebuilt."""


class IncompatibleIndexError(IndexDamagedError):
    """The index was made by another version, or for another language."""


class Row(NamedTuple):
    """A file as it was indexed."""

    path: str
    stamp: tuple[int, ...]  # the fields of a `Stamp`
    digest: bytes  # of its content
    decay_input: int = 2  # packed by `decay`; the default is importance 1 without a time
    id_hash: int = 0  # hash of the memory's id, as `recall_log` counts by it


RowTuple = tuple[str, tuple[int, ...], bytes, int, int]  # a row as a plain tuple, which is cheaper to create


class ChunkBuilder:
    """Collects rows as bytes and texts, which cost the garbage collector nothing, and encodes them as a chunk."""

    def __init__(self) -> None:
        self._stamps, self._digests = bytearray(), bytearray()
        self._decay_fields = array("q")  # two numbers per row
        self._paths: list[str] = []
        self._runs: list[int] = []  # the first row of each run of rows in one directory
        self._directory: str | None = None

    def append(self, row: RowTuple) -> None:
        """Add a row; a stamp with a time out of range is stored as zeros, which match no file."""
        path, stamp, digest, decay_input, id_hash = row
        try:
            self._stamps += _STAMP.pack(*stamp)
        except struct.error:
            self._stamps += bytes(_STAMP.size)
        self._digests += digest
        self._decay_fields.extend((decay_input, id_hash))
        directory = path.rpartition("/")[0]
        if directory != self._directory:
            self._directory = directory
            self._runs.append(len(self._paths))
        self._paths.append(path)

    def encode(self, first: int, dead: Iterable[int]) -> bytes:
        """Return the bytes of a chunk with these rows, numbered from `first`, and the rows that became dead."""
        dead_rows = list(dead)
        paths = [path.encode() for path in self._paths]
        ends = [end - 1 for end in accumulate(len(path) + 1 for path in paths)]
        return b"".join(
            (
                _HEAD.pack(_MAGIC, first, len(paths), len(dead_rows), len(self._runs), ends[-1] if ends else 0),
                self._stamps,
                self._digests,
                self._decay_fields,
                struct.pack(f"<{len(ends)}q", *ends),
                struct.pack(f"<{len(dead_rows)}q", *dead_rows),
                struct.pack(f"<{len(self._runs)}q", *self._runs),
                b"\0".join(paths),
            )
        )


class Chunk:
    """The rows from `first` up to `first + count`, and the rows that became dead with them."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        magic, *head = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (b"", 0, 0, 0, 0, 0)
        numbers: list[int] = head
        self.first, self.count, dead, runs, length = numbers
        rows = self.count
        sizes = (_HEAD.size, _STAMP.size * rows, _DIGEST_BYTES * rows, 16 * rows, 8 * rows, 8 * dead, 8 * runs, length)
        if magic != _MAGIC or min(numbers) < 0 or len(data) != sum(sizes):
            raise ValueError("not a chunk of rows")
        self._data = data
        starts = accumulate(sizes[:-1], initial=0)
        _, self._stamps, self._digests, decay_fields, ends, dead_rows, run_rows, self._paths = starts  # offsets
        self._decay_fields = memoryview(data)[decay_fields:ends].cast("q")
        self._ends = memoryview(data)[ends:dead_rows].cast("q")
        self.dead = memoryview(data)[dead_rows:run_rows].cast("q")
        self._runs = memoryview(data)[run_rows : self._paths].cast("q")

    @classmethod
    def encode(cls, first: int, rows: Iterable[Row], dead: Iterable[int]) -> bytes:
        """Return the bytes of a chunk."""
        builder = ChunkBuilder()
        for row in rows:
            builder.append(row)
        return builder.encode(first, dead)

    def row(self, number: int) -> Row:
        """Return one row."""
        path, stamp = self.path_and_stamp(number)
        digest = self._digests + (number - self.first) * _DIGEST_BYTES
        return Row(path, stamp, self._data[digest : digest + _DIGEST_BYTES], *self.decay_fields(number))

    def decay_fields(self, number: int) -> tuple[int, int]:
        """Return the decay input and the id hash of a row."""
        index = 2 * (number - self.first)
        return self._decay_fields[index], self._decay_fields[index + 1]

    def path_and_stamp(self, number: int) -> tuple[str, tuple[int, ...]]:
        """Return the path and the stamp of one row."""
        index = number - self.first
        ends, paths = self._ends, self._paths
        start = paths + ends[index - 1] + 1 if index else paths
        stamp = _STAMP.unpack_from(self._data, self._stamps + index * 32)  # 32 is the size of a stamp
        return self._data[start : paths + ends[index]].decode(), stamp

    def paths(self) -> list[str]:
        """Return the paths of all rows."""
        return self._data[self._paths :].decode().split("\0") if self.count else []

    def digests(self) -> bytes:
        """Return the digests of all rows, concatenated."""
        return self._data[self._digests : self._digests + _DIGEST_BYTES * self.count]

    def stamps(self) -> Iterable[tuple[int, ...]]:
        """Return the stamps of all rows."""
        return _STAMP.iter_unpack(memoryview(self._data)[self._stamps : self._digests])

    def runs(self) -> Iterator[tuple[str, range]]:
        """Yield the runs of consecutive rows in one directory: the directory and the row numbers."""
        for start, end in pairwise((*self._runs, self.count)):
            first = self.first + start
            yield self.path_and_stamp(first)[0].rpartition("/")[0], range(first, self.first + end)

    def paths_in(self, rows: range) -> str:
        """Return the paths of consecutive rows, separated by NUL."""
        start, end = rows.start - self.first, rows.stop - self.first
        first = self._paths + (self._ends[start - 1] + 1 if start else 0)
        return self._data[first : self._paths + self._ends[end - 1]].decode()

    def stamps_in(self, rows: range) -> Iterable[tuple[int, ...]]:
        """Return the stamps of consecutive rows."""
        start, end = (self._stamps + (number - self.first) * _STAMP.size for number in (rows.start, rows.stop))
        return _STAMP.iter_unpack(memoryview(self._data)[start:end])


class DirectoryRows:
    """The live rows of one directory."""

    def __init__(self, directory: str, runs: Sequence[tuple[Chunk, range]], dead: Sequence[int]) -> None:
        self._prefix, self._runs = f"{directory}/" if directory else "", runs
        self._dead = [dead[bisect_left(dead, rows.start) : bisect_left(dead, rows.stop)] for _, rows in runs]

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._runs) - sum(map(len, self._dead))

    def matches(self, names: Sequence[str], stamps: Sequence[tuple[int, ...]]) -> bool:
        """Return whether the rows are of exactly these files, which are sorted by name, with these stamps."""
        try:
            return self._is_single_run(names, stamps) or self.stamps() == {
                self._prefix + name: stamp for name, stamp in zip(names, stamps, strict=True)
            }
        except DECODE_ERRORS as error:
            raise IndexDamagedError("its rows cannot be read") from error

    def _is_single_run(self, names: Sequence[str], stamps: Sequence[tuple[int, ...]]) -> bool:
        """Return whether the rows match as one sorted run, as in an index that was built at once: the fastest check."""
        if len(self._runs) != 1 or self._dead[0]:
            return False
        chunk, rows = self._runs[0]
        paths = self._prefix + f"\0{self._prefix}".join(names)
        return chunk.paths_in(rows) == paths and [*chunk.stamps_in(rows)] == stamps

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """Return the stamp of every path."""
        stamps: dict[str, tuple[int, ...]] = {}
        try:
            for (chunk, rows), dead in zip(self._runs, self._dead, strict=True):
                pairs = zip(chunk.paths_in(rows).split("\0"), chunk.stamps_in(rows), strict=True)
                stamps.update(pairs if not dead else compress(pairs, [number not in dead for number in rows]))
        except DECODE_ERRORS as error:
            raise IndexDamagedError("its rows cannot be read") from error
        return stamps


class RowTable:
    """All rows of an index."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = tuple(chunks)
        self._firsts = [chunk.first for chunk in chunks]
        self.path_and_stamp = lru_cache(maxsize=CACHED_ROWS)(partial(_path_and_stamp, self.chunks, self._firsts))
        if any(left.first + left.count != right.first for left, right in pairwise(chunks)) or self._firsts[:1] != [0]:
            raise ValueError("rows are missing")

    @property
    def next_row(self) -> int:
        """The number of the next row that is added."""
        return self.chunks[-1].first + self.chunks[-1].count

    @property
    def dead_count(self) -> int:
        return sum(len(chunk.dead) for chunk in self.chunks)

    @property
    def live_count(self) -> int:
        return self.next_row - self.dead_count

    def decay_fields(self, number: int) -> tuple[int, int]:
        """Return the decay input and the id hash of a row."""
        return self.chunks[bisect_right(self._firsts, number) - 1].decay_fields(number)

    def row(self, number: int) -> Row:
        """Return one row; raise IndexDamagedError if it cannot be read."""
        self.path_and_stamp(number)  # raises the error
        return self.chunks[bisect_right(self._firsts, number) - 1].row(number)

    def has_path(self, path: str) -> bool:
        """Return whether a path has a row, dead or live."""
        return any(path in _paths(chunk) for chunk in self.chunks)

    def rows_by_path(self) -> dict[str, int]:
        """Return the live row of every path."""
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
        """Return the stamp of every path that has a live row."""
        stamps: dict[str, tuple[int, ...]] = {}
        for chunk in self.chunks:
            stamps.update(zip(_paths(chunk), chunk.stamps(), strict=True))
        if self.dead_count:
            live = self.rows_by_path()
            return {path: stamp for path, stamp in stamps.items() if path in live}
        return stamps

    def paths_and_digests(self) -> Iterator[tuple[int, list[str], bytes]]:
        """Yield per chunk the first row, the paths, and the digests concatenated, including dead rows."""
        for chunk in self.chunks:
            yield chunk.first, _paths(chunk), chunk.digests()

    @lazy
    def _runs_by_directory(self) -> dict[str, list[tuple[Chunk, range]]]:
        found: dict[str, list[tuple[Chunk, range]]] = {}
        for chunk in self.chunks:
            for directory, rows in chunk.runs():
                found.setdefault(directory, []).append((chunk, rows))
        return found

    @lazy
    def dead_rows(self) -> list[int]:
        """Return the dead rows, sorted."""
        return sorted(number for chunk in self.chunks for number in chunk.dead)

    def directories(self) -> Collection[str]:
        """Return the directories of all rows, dead or live."""
        try:
            return self._runs_by_directory.keys()
        except DECODE_ERRORS as error:
            raise IndexDamagedError("its rows cannot be read") from error

    def directory(self, path: str) -> DirectoryRows:
        """Return the live rows of the files directly in a directory."""
        try:
            return DirectoryRows(path, self._runs_by_directory.get(path, ()), self.dead_rows)
        except DECODE_ERRORS as error:
            raise IndexDamagedError("its rows cannot be read") from error

    def merge(self) -> bytes:
        """Return all rows as the bytes of one chunk, including dead ones, since rows keep their numbers."""
        rows = (chunk.row(number) for chunk in self.chunks for number in range(chunk.first, chunk.first + chunk.count))
        return Chunk.encode(0, rows, [number for chunk in self.chunks for number in chunk.dead])


def _path_and_stamp(chunks: Sequence[Chunk], firsts: Sequence[int], number: int) -> tuple[str, tuple[int, ...]]:
    """Return the path and the stamp of one row; raise IndexDamagedError if it cannot be read."""
    try:
        path, stamp = chunks[bisect_right(firsts, number) - 1].path_and_stamp(number)
    except DECODE_ERRORS as error:
        raise IndexDamagedError("a row cannot be read") from error
    if "\0" in path:
        raise IndexDamagedError("a row cannot be read")
    return path, stamp


def _paths(chunk: Chunk) -> list[str]:
    """Return the paths of a chunk; raise IndexDamagedError unless there is one per row."""
    try:
        paths = chunk.paths()
    except DECODE_ERRORS as error:
        raise IndexDamagedError("its rows cannot be read") from error
    if len(paths) != chunk.count:
        raise IndexDamagedError("its rows cannot be read")
    return paths
