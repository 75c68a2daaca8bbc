"""The state directory `.memfs/`: its subdirectories, the lock queue files and the time of the last scan."""

import os
from contextlib import suppress
from datetime import datetime

from memfs.data_types import modification_time
from memfs.errors import VaultError
from memfs.fs.files import FILE_FLAGS, STATE_DIR, digest, open_directory, write
from memfs.fs.handle_cache import MAX_STALE_HANDLES, HandleCache
from memfs.storage.part_formats import record_formats

LAST_SCAN_FILE = "scanned"  # empty; its modification time is the time of the last scan
_SUBDIRECTORIES = ("tmp", "locks", "late", "history", "index")
_TOUCH_FLAGS = os.O_WRONLY | os.O_CREAT | FILE_FLAGS


class StateDir:
    """The state directory as one writer uses it: created by the first write, with cached lock queue files."""

    def __init__(self) -> None:
        self._lock_queues = HandleCache(STATE_DIR, "locks", max_stale=MAX_STALE_HANDLES)
        self.is_created = False

    def create(self, root: int) -> None:
        """Create the missing parts of the state directory. Raise VaultError if a part of it is a symlink."""
        create_state_dir(root)
        self.is_created = True

    def lock_queue(self, root: int, namespace: str) -> int:
        """Return a descriptor of the lock queue file of a namespace, created if missing. The cache owns it.

        There are 256 such files: several namespaces may share one.
        """
        return self._lock_queues.open(root, digest(namespace.encode())[:2], os.O_RDWR | os.O_CREAT)

    def close(self) -> None:
        """Close the cached descriptors; a later write opens them again."""
        self._lock_queues.close()


def create_state_dir(root: int) -> None:
    """Create the missing parts of the state directory: subdirectories, format numbers, a .gitignore for all of it."""
    with open_directory(root, (STATE_DIR,), create=True) as state:
        for name in _SUBDIRECTORIES:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=state)
            with open_directory(state, (name,)):  # raises if it is a symlink
                pass
        with suppress(FileExistsError):
            write(state, ".gitignore", b"*\n", durable=False)
        record_formats(state)


def record_scan(root: int, moment: float) -> None:
    """Record for all processes when all files were last scanned, in seconds since 1970. Errors are ignored."""
    with suppress(OSError, VaultError), open_directory(root, (STATE_DIR,)) as state:
        fd = os.open(LAST_SCAN_FILE, _TOUCH_FLAGS, 0o666, dir_fd=state)
        try:
            os.utime(fd, (moment, moment))
        finally:
            os.close(fd)


def last_scan(root: int) -> datetime | None:
    """Return when a process last scanned all files; None if no process has recorded that."""
    try:
        return modification_time(os.stat(f"{STATE_DIR}/{LAST_SCAN_FILE}", dir_fd=root, follow_symlinks=False))
    except OSError:
        return None
