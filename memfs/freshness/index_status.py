"""Report the state of the index, for `memfs status` and `Vault.status`."""

import os
from datetime import datetime

from memfs.data_types import IndexStatus
from memfs.freshness.known_state import KnownState
from memfs.freshness.watcher import watcher_of
from memfs.fs.files import STATE_DIR
from memfs.index.publisher import Publisher
from memfs.storage.state_dir import last_scan as recorded_scan


def index_status(
    root: int, path: str, known: KnownState, source: str, *, last_scan: datetime | None, trouble: str
) -> IndexStatus:
    """Return the status of the index of the vault at `path`.

    `source` is the kind of this process's event source, or empty; `last_scan` is used if no process recorded a scan.
    """
    published, index = known.published, known.published.index
    watcher = watcher_of(root) or ""
    return IndexStatus(
        generation=index.generation.name if index and index.generation else "",
        memories=index.memory_count if index else 0,
        pending=len(known.unpublished),
        where="none" if index is None else "disk" if index.generation else "memory",
        watcher=watcher,
        notices=source or ("watcher" if watcher else "scan"),
        last_scan=recorded_scan(root) or last_scan,
        trouble=trouble or published.trouble or _mass_removal_warning(known) or _unwritable_warning(published, path),
    )


def _mass_removal_warning(known: KnownState) -> str:
    """Return a warning if so many memories are missing that they stay in the index; else an empty text."""
    removed, index = known.removed_count(), known.published.index
    if not index or not known.is_mass_removal(removed):
        return ""
    return f"{removed} of {index.memory_count} memories were removed at once; run `memfs sync` if that is right"


def _unwritable_warning(published: Publisher, path: str) -> str:
    """Return a warning if there is no index, and none can be written; else an empty text."""
    directories = (published.directory, os.path.join(path, STATE_DIR), path)
    directory = next(filter(os.path.exists, directories), path)
    if published.index or os.access(directory, os.W_OK | os.X_OK):
        return ""
    name = "the vault" if directory == path else os.path.relpath(directory, path)
    return f"{name} is not writable: each process builds its index in memory"
