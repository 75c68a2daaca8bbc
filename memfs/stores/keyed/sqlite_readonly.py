"""Read a SQLite file that this process cannot write, or that is in a directory it cannot write.

SQLite reads a file in WAL mode only if it can create files beside it. If it cannot, each read opens the file as
immutable. Other users may be able to write the file: if it changed during a read, the read is repeated.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from memfs.data_types import Stamp
from memfs.errors import StoreUnavailableError

T = TypeVar("T")
Run = Callable[..., list[tuple[Any, ...]]]  # a statement and its values -> rows
READ_TIMEOUT = 1.0  # seconds in which a read of a file that others write has to succeed
SIDE_FILE_SUFFIXES = ("-wal", "-journal")  # files with changes that are not in the main file yet


def is_read_only(path: Path) -> bool:
    """Return whether a file exists and this process cannot write it or its directory."""
    return os.path.exists(path) and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def read_immutable(path: Path, query: Callable[[Run], T]) -> T | None:
    """Return the result of a query on one state of a read-only file.

    Return None if the file is not read-only, another process has it open for writing, or it changed meanwhile.
    """
    if not is_read_only(path) or any(os.path.exists(f"{path}{suffix}") for suffix in (*SIDE_FILE_SUFFIXES, "-shm")):
        return None
    before = Stamp.from_stat(os.stat(path))
    try:
        result = _run_query(path, query)
    except sqlite3.DatabaseError:
        if Stamp.from_stat(os.stat(path)) == before:
            raise
        return None  # the file changed during the read: not damaged
    return result if Stamp.from_stat(os.stat(path)) == before else None


def _run_query(path: Path, query: Callable[[Run], T]) -> T:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        return query(lambda statement, *values: connection.execute(statement, values).fetchall())


def unwritable_error(path: Path) -> StoreUnavailableError:
    """Return the error for a write to a read-only file."""
    error = StoreUnavailableError(str(path), "cannot be written: the file or its directory is read-only")
    error.hint = "Check the permissions of the file and its directory, or work on a copy."
    return error


def unreadable_error(path: Path) -> StoreUnavailableError | None:
    """Return the error for a read-only file with changes in a side file; None if there is no side file."""
    name = next((f"{path.name}{suffix}" for suffix in SIDE_FILE_SUFFIXES if os.path.exists(f"{path}{suffix}")), "")
    if not name:
        return None
    error = StoreUnavailableError(str(path), f"cannot be read where nothing can be written: {name} holds a part")
    error.hint = f"Copy it and {name} to a directory that can be written, and open the copy."
    return error
