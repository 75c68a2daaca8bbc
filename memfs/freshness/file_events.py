"""File events as every event source reports them, and which paths they concern."""

import os
from collections.abc import Set
from typing import NamedTuple

from memfs.namespace import SESSIONS, fold, is_utf8_encodable


class FileEvents(NamedTuple):
    """The paths to check again, relative to the root."""

    paths: Set[str]  # memory files that may have been changed, created or removed
    directories: Set[str]  # directories ("" is the root) that were created, removed or moved: check all below them
    is_incomplete: bool  # events may have been lost: check everything


NO_EVENTS = FileEvents(frozenset(), frozenset(), False)
EVENTS_LOST = FileEvents(frozenset(), frozenset(), True)


def is_namespace(path: str) -> bool:
    """Return whether a scan of the vault enters a directory with this path."""
    names = path.split("/")
    return fold(names[0]) != SESSIONS and all(
        name[:1] not in {".", "~", "#"} and is_utf8_encodable(name) for name in names
    )


def is_memory_file(directory: str, name: str) -> bool:
    """Return whether a scan takes a file with this name for a memory, in a directory that `is_namespace` accepts."""
    return (
        name.endswith(".md")
        and name[0] not in ".~#"
        and is_utf8_encodable(name)
        and bool(directory or fold(name) != "readme.md")
    )


def root_identity(root: str) -> tuple[int, int] | None:
    """Return device and inode of the root directory; None if it does not exist or cannot be reached."""
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino
