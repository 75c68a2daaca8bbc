"""The vectors of an index's rows, and those of them that are nearest to a question.

Up to some ten thousand rows all are compared. Of more, it is held in memory whether each number is above the mean, a
bit each, and the rows are compared that differ least in that.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memfs.index.row_table import RowTable
from memfs.search.semantic.vector_file import BLOCK, Flags, Floats, Keys, VectorFile, keys_of, names

EXACT = 20_000  # rows, up to which all are compared: `benchmarks.meaning` tells what either way costs
RERANK, SHARE, TIMES = 2_000, 50, 16  # of more, so many rows, one of so many, or times those that are asked for
Rows = NDArray[np.int64]


def units_of(vectors: Any) -> Floats:
    """Vectors made as long as one; what is no number counts as nothing."""
    units = np.array(vectors, dtype=np.float32, ndmin=2)
    units[~np.isfinite(units)] = 0
    lengths = np.linalg.norm(units, axis=1, keepdims=True)
    np.divide(units, lengths, out=units, where=lengths > 0)
    return units


def cosines_of(units: Floats, question: Floats) -> Floats:
    """The cosines of vectors and a question, all of length one; without the threads that a product of matrices takes,
    for which so little is not worth waiting."""
    cosines: Floats = np.vecdot(units, question)
    return cosines


def blended(vectors: Floats, shares: Iterable[tuple[float, Sequence[int]]]) -> Floats:
    """Each vector with a share of another: which one it is, or -1, for each share."""
    padded, sums = np.concatenate((vectors, np.zeros_like(vectors[:1]))), vectors.copy()
    for share, others in shares:
        sums += share * padded[others]
    return units_of(sums)


def living(row_table: RowTable) -> tuple[Rows, Keys]:
    """The rows of an index that are in use, ascending, and the keys of their vectors."""
    keys = np.concatenate([keys_of(paths, digests) for _, paths, digests in row_table.paths_and_digests()])
    rows = np.delete(np.arange(len(keys)), row_table.dead_rows)
    return rows, keys[rows]


def prune(root: int, row_table: RowTable) -> None:
    """Have files hold no vectors but those of the memories in an index."""
    _, keys = living(row_table)
    for name, size in names(root):
        VectorFile(name, size).keep(root, keys)


class NearestVectors:
    """The rows that have a vector, in ascending order."""

    def __init__(self, vectors: VectorFile, rows: Rows, keys: Keys, *, exact: int = EXACT) -> None:
        self._vectors, self._rows, self._keys = vectors, rows, keys
        self._units: Floats | None = None
        if len(rows) <= exact:
            self._units = units_of(vectors.take(keys)) if len(rows) else None
        else:
            self._mean = units_of(vectors.take(keys[:: -(-len(keys) // BLOCK)])).mean(axis=0)
            units = (units_of(vectors.take(keys[at : at + BLOCK])) for at in range(0, len(keys), BLOCK))
            signs = np.concatenate([_signs(block - self._mean) for block in units])
            self._signs = np.ascontiguousarray(signs.T)  # a line a word: each is gone through at once

    def __len__(self) -> int:
        return len(self._rows)

    def best(self, question: Floats, limit: int, least: float, among: Sequence[int] | None = None) -> list[int]:
        """The rows, all or some, that are nearest to a question, the nearest first; none whose cosine is too small."""
        if not len(self._rows):
            return []
        at = np.arange(len(self._rows)) if among is None else self._at(among)[1]
        if self._units is None:
            at = self._alike(question, at, max(RERANK, len(at) // SHARE, TIMES * limit))
        cosines = cosines_of(self._units_at(at), question)
        best = np.argpartition(-cosines, limit)[:limit] if limit < len(cosines) else np.arange(len(cosines))
        best = best[cosines[best] >= least]
        found: list[int] = self._rows[at[best[np.lexsort((at[best], -cosines[best]))]]].tolist()
        return found

    def of(self, rows: Sequence[int]) -> Floats:
        """The vectors of rows, as long as one; zero of a row that has none."""
        found = np.zeros((len(rows), self._vectors.size), np.float32)
        if len(self._rows):
            is_there, at = self._at(rows)
            found[is_there] = self._units_at(at)
        return found

    def _at(self, rows: Sequence[int]) -> tuple[Flags, Rows]:
        """Which rows have a vector, and where those stand among all that have one."""
        wanted = np.array(rows, np.int64)
        at = np.minimum(np.searchsorted(self._rows, wanted), len(self._rows) - 1)
        is_there: Flags = self._rows[at] == wanted
        return is_there, at[is_there]

    def _units_at(self, at: Rows) -> Floats:
        if self._units is None:
            return units_of(self._vectors.take(self._keys[at]))
        return self._units if len(at) == len(self._units) else self._units[at]

    def _alike(self, question: Floats, at: Rows, limit: int) -> Rows:
        """Of the rows that stand at some places, where those do whose signs differ least from a question's."""
        if limit >= len(at):
            return at
        differ = np.zeros(len(self._rows), np.uint16)
        for line, signs in zip(self._signs, _signs((question - self._mean)[None])[0], strict=True):
            differ += np.bitwise_count(line ^ signs)
        return at[np.argpartition(differ[at], limit)[:limit]]


def _signs(vectors: Floats) -> Keys:
    """The signs of numbers, a bit each, in words of 64."""
    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64)
