"""Translate the OS errors of memory files into errors of memfs."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from memfs.errors import MalformedMemoryError, MemoryNotFoundError

PERMISSIONS = "Check the permissions of the file, and of the directories above it."


class NamespaceGoneError(MemoryNotFoundError):
    """The directory of a namespace was deleted while memfs had it locked."""


def read_error(path: str, error: OSError) -> MemoryNotFoundError | MalformedMemoryError:
    """Return the error to raise for a memory that cannot be read; MemoryNotFoundError if none can have the path."""
    if error.errno in {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR}:
        return MemoryNotFoundError(path)
    unreadable = MalformedMemoryError(path, 1, f"cannot be read: {error.strerror}")
    return unreadable.with_hint(PERMISSIONS) if isinstance(error, PermissionError) else unreadable


@contextmanager
def reading_to_change(path: str) -> Iterator[None]:
    """Translate the errors of reading a memory in order to change it: missing, too large, or not a regular file."""
    try:
        yield
    except FileNotFoundError:
        raise MemoryNotFoundError(path) from None
    except OSError as error:
        if error.errno in {errno.EFBIG, errno.EINVAL, errno.ELOOP}:
            raise MalformedMemoryError(path, 1, f"cannot be changed: {error.strerror}") from error
        raise


@contextmanager
def writing_into(parent: int) -> Iterator[None]:
    """Raise NamespaceGoneError instead of an OSError of the block if the directory `parent` was deleted."""
    try:
        yield
    except OSError:
        if not os.fstat(parent).st_nlink:
            raise NamespaceGoneError("the namespace") from None
        raise
