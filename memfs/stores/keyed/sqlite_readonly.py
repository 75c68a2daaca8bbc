"""A file of SQLite where nothing can be written, read as it is.

SQLite reads a file in WAL mode only where it can write beside it. Where it cannot, the file is taken for one that does
not change, for one read; if it did change meanwhile, since others may write where we may not, the read is done again.
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
PATIENCE = 1.0  # seconds in which a file of others is found still, or open
BESIDE = ("-wal", "-journal")  # files that hold what is not in the file yet


def is_locked(path: Path) -> bool:
    """Tell whether there is a file, and it or its directory cannot be written by us."""
    return os.path.exists(path) and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def look(path: Path, ask: Callable[[Run], T]) -> T | None:
    """What is asked of one state of a file that we cannot write; None where somebody has it open, or changed it."""
    if not is_locked(path) or any(os.path.exists(f"{path}{end}") for end in (*BESIDE, "-shm")):
        return None
    before = Stamp.from_stat(os.stat(path))
    try:
        answer = _answer(path, ask)
    except sqlite3.DatabaseError:
        if Stamp.from_stat(os.stat(path)) == before:
            raise
        return None  # parts of what was read are of another state
    return answer if Stamp.from_stat(os.stat(path)) == before else None


def _answer(path: Path, ask: Callable[[Run], T]) -> T:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        return ask(lambda statement, *values: connection.execute(statement, values).fetchall())


def unwritable(path: Path) -> StoreUnavailableError:
    """Why nothing is written to a file."""
    error = StoreUnavailableError(str(path), "cannot be written: the file or its directory is read-only")
    error.hint = "Check the permissions of the file and its directory, or work on a copy."
    return error


def unreadable(path: Path) -> StoreUnavailableError | None:
    """Why a file cannot be read where nothing can be written; None where nothing beside it tells."""
    name = next((f"{path.name}{end}" for end in BESIDE if os.path.exists(f"{path}{end}")), "")
    if not name:
        return None
    error = StoreUnavailableError(str(path), f"cannot be read where nothing can be written: {name} holds a part")
    error.hint = f"Copy it and {name} to a directory that can be written, and open the copy."
    return error
