"""The vectors of the rows of an index, and the rows nearest to a question.

Up to `EXACT_MAX_ROWS` rows, all vectors are compared. Beyond that, one bit per dimension is held in memory, whether the
number is above the mean; only the rows whose bits differ least from the question's are compared exactly.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memfs.index.row_table import RowTable
from memfs.search.semantic.vector_file import BLOCK_RECORDS, Flags, Floats, Keys, VectorFile, keys_of, vector_files

EXACT_MAX_ROWS = 20_000  # `benchmarks.semantic` measures the cost of both ways
# Rows with the most similar signs that are compared exactly: a minimum, a divisor of all rows, a multiple of the limit.
MIN_COMPARED, COMPARED_DIVISOR, COMPARED_PER_RESULT = 2_000, 50, 16
Rows = NDArray[np.int64]


def unit_vectors(vectors: Any) -> Floats:
    """Return vectors scaled to length one; NaN and infinite numbers count as 0."""
    units = np.array(vectors, dtype=np.float32, ndmin=2)
    units[~np.isfinite(units)] = 0
    lengths = np.linalg.norm(units, axis=1, keepdims=True)
    np.divide(units, lengths, out=units, where=lengths > 0)
    return units


def cosines(units: Floats, question: Floats) -> Floats:
    """Return the cosines of unit vectors with a question's. A matrix product would start threads, which is slower."""
    found: Floats = np.vecdot(units, question)
    return found


def blend(vectors: Floats, shares: Iterable[tuple[float, Sequence[int]]]) -> Floats:
    """Add shares of other vectors to each vector, and scale the sums to length one.

    `shares` has pairs of a share and, for each vector, the number of the other vector; -1 for none.
    """
    padded, sums = np.concatenate((vectors, np.zeros_like(vectors[:1]))), vectors.copy()
    for share, others in shares:
        sums += share * padded[others]
    return unit_vectors(sums)


def live_rows(table: RowTable) -> tuple[Rows, Keys]:
    """Return the live rows of an index, ascending, and the keys of their vectors."""
    keys = np.concatenate([keys_of(paths, digests) for _, paths, digests in table.paths_and_digests()])
    rows = np.delete(np.arange(len(keys)), table.dead_rows)
    return rows, keys[rows]


def prune_vector_files(root: int, table: RowTable) -> None:
    """Remove all vectors from the files but those of memories in the index."""
    _, keys = live_rows(table)
    for name, size in vector_files(root):
        VectorFile(name, size).keep_only(root, keys)


class NearestVectors:
    """The rows of an index that have a vector, in ascending order, for nearest-neighbour search."""

    def __init__(self, vectors: VectorFile, rows: Rows, keys: Keys, *, exact: int = EXACT_MAX_ROWS) -> None:
        self._vectors, self._rows, self._keys = vectors, rows, keys
        self._units: Floats | None = None
        if len(rows) <= exact:
            self._units = unit_vectors(vectors.take(keys)) if len(rows) else None
        else:
            self._mean = unit_vectors(vectors.take(keys[:: -(-len(keys) // BLOCK_RECORDS)])).mean(axis=0)
            starts = range(0, len(keys), BLOCK_RECORDS)
            units = (unit_vectors(vectors.take(keys[start : start + BLOCK_RECORDS])) for start in starts)
            signs = np.concatenate([_pack_signs(block - self._mean) for block in units])
            self._signs = np.ascontiguousarray(signs.T)  # one line per word of all rows: a comparison reads whole lines

    def __len__(self) -> int:
        return len(self._rows)

    def nearest(self, question: Floats, limit: int, min_cosine: float, among: Sequence[int] | None = None) -> list[int]:
        """Return the rows, of all or of some, nearest to a question, nearest first; none below `min_cosine`."""
        if not len(self._rows):
            return []
        indices = np.arange(len(self._rows)) if among is None else self._indices_of(among)[1]
        if self._units is None:
            compared = max(MIN_COMPARED, len(indices) // COMPARED_DIVISOR, COMPARED_PER_RESULT * limit)
            indices = self._most_similar_signs(question, indices, compared)
        found = cosines(self._units_at(indices), question)
        best = np.argpartition(-found, limit)[:limit] if limit < len(found) else np.arange(len(found))
        best = best[found[best] >= min_cosine]
        rows: list[int] = self._rows[indices[best[np.lexsort((indices[best], -found[best]))]]].tolist()
        return rows

    def vectors_of(self, rows: Sequence[int]) -> Floats:
        """Return the unit vectors of rows; zero for a row without one."""
        found = np.zeros((len(rows), self._vectors.size), np.float32)
        if len(self._rows):
            has_vector, indices = self._indices_of(rows)
            found[has_vector] = self._units_at(indices)
        return found

    def _indices_of(self, rows: Sequence[int]) -> tuple[Flags, Rows]:
        """Return which rows have a vector, and the indices of those in `_rows`."""
        wanted = np.array(rows, np.int64)
        indices = np.minimum(np.searchsorted(self._rows, wanted), len(self._rows) - 1)
        has_vector: Flags = self._rows[indices] == wanted
        return has_vector, indices[has_vector]

    def _units_at(self, indices: Rows) -> Floats:
        if self._units is None:
            return unit_vectors(self._vectors.take(self._keys[indices]))
        return self._units if len(indices) == len(self._units) else self._units[indices]

    def _most_similar_signs(self, question: Floats, indices: Rows, limit: int) -> Rows:
        """Return the indices whose signs differ least from those of a question."""
        if limit >= len(indices):
            return indices
        distances = np.zeros(len(self._rows), np.uint16)
        for line, word in zip(self._signs, _pack_signs((question - self._mean)[None])[0], strict=True):
            distances += np.bitwise_count(line ^ word)
        return indices[np.argpartition(distances[indices], limit)[:limit]]


def _pack_signs(vectors: Floats) -> Keys:
    """Return the signs of numbers, one bit each, in words of 64 bits."""
    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64)
