"""Event sources, which report the files of a vault that may have changed: their interface, and the choice of one.

An event only names a path to check again, never what happened to it. On Linux it is in the kernel's queue before the
call that changed the file returns (inotify_source); elsewhere threads of watchdog deliver it later (watchdog_source).
There is no event for a write through a hard link outside of the vault, for a write through a memory map whose file is
closed, or for a change on a file system that is mounted into the vault.
"""

import sys
from contextlib import suppress
from typing import Protocol

from memfs.freshness.file_events import FileEvents
from memfs.freshness.inotify_source import InotifySource
from memfs.freshness.network_mounts import is_remote
from memfs.freshness.watchdog_source import WatchdogSource


class EventSource(Protocol):
    """A source of file events. Thread-safe.

    A source that can no longer report all changes is dead: after `close`, in a forked process, if the root was
    replaced, or if there are more directories than it can watch.
    """

    kind: str  # as `memfs status` shows it
    is_index_overwritten: bool  # files of the open index may have been written to; `watch_index` resets it

    def watch(self, directory: str) -> None:
        """Watch a directory, by its path in the vault. Must be called each time before the directory is listed."""

    def watch_index(self, directory: str) -> None:
        """Watch the directory of the open index; after a write to a file in it, `poll` sets `is_index_overwritten`."""

    def poll(self) -> FileEvents:
        """Return the events since the last poll, without waiting; a dead source returns incomplete events."""

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds. Return whether there may be events; True at once if the source is dead."""

    def close(self) -> None:
        """Release the resources of the source, which is dead from then on."""

    @property
    def is_alive(self) -> bool:
        """Whether the source is not dead."""


def open_event_source(root: str) -> EventSource | None:
    """Return an event source for a vault; None if the system has none, or the vault is on a network file system."""
    with suppress(OSError, RuntimeError):
        if not is_remote(root):
            return InotifySource(root) if sys.platform == "linux" else WatchdogSource(root)
    return None
