"""Rows of the index."""

from memfs.data_types import Stamp
from memfs.index.row_table import Row


def row(path: str, number: int = 1) -> Row:
    """Return a row of the index whose stamp is a number."""
    return Row(path, Stamp(number, number, number, number), bytes(8))
