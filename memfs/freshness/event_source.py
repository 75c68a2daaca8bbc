"""Event sources, which report the files of a vault that may have changed: their interface, and the choice of one.

An event is a hint where to look, never a fact about a file. On Linux it is in the kernel's queue before the call that
changed the file returns (inotify_source); elsewhere threads of watchdog deliver it a little later (watchdog_source).
No event comes for a write through a hard link outside of the vault, for a write through a memory map whose file is
closed, and for changes on a file system that is mounted into the vault.
"""

import sys
from contextlib import suppress
from typing import Protocol

from memfs.freshness.file_events import FileEvents
from memfs.freshness.inotify_source import InotifySource
from memfs.freshness.network_mounts import is_remote
from memfs.freshness.watchdog_source import WatchdogSource


class EventSource(Protocol):
    """A source of file events. Thread-safe; a copy of it in a forked process is dead."""

    kind: str
    is_index_overwritten: bool

    def watch(self, directory: str) -> None:
        """Watch a directory. Must be called each time before the directory is listed."""

    def watch_index(self, directory: str) -> None:
        """Watch the directory of the open index; after a write into it, a poll sets `is_index_overwritten`."""

    def poll(self) -> FileEvents:
        """Return the events since the last poll, without waiting; those of a dead source are incomplete."""

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds. Return whether there may be events; True at once if the source is dead."""

    def close(self) -> None:
        """Release the resources of the source, which is dead from then on."""

    @property
    def is_alive(self) -> bool: ...


def open_event_source(root: str) -> EventSource | None:
    """Return an event source for a vault; None if none is available, or none reports all changes."""
    with suppress(OSError, RuntimeError):
        if not is_remote(root):
            return InotifySource(root) if sys.platform == "linux" else WatchdogSource(root)
    return None
