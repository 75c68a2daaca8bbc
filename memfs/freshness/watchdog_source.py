"""File events from the threads of watchdog, for systems without inotify. The only module that imports watchdog.

The contracts of the public methods are in `event_source.EventSource`.
"""

import os
import re
import threading
from typing import TYPE_CHECKING

from memfs.freshness.file_events import EVENTS_LOST, FileEvents, is_memory_file, is_namespace, root_identity

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

_EVENT_CLASSES = re.compile(
    "File(Created|Modified|Closed|Attrib|Moved|Deleted)Event|Dir(Created|Attrib|Moved|Deleted)Event"
)


class WatchdogSource:
    """The events that threads of watchdog collect. They watch the whole tree, but not the index."""

    kind = "watchdog"
    is_index_overwritten = False  # the index is not watched

    def __init__(self, root: str) -> None:
        from watchdog import events
        from watchdog.observers import Observer

        class Handler(events.FileSystemEventHandler):
            def on_any_event(_, event: "FileSystemEvent") -> None:  # noqa: N805
                self._add(event)

        self._pid, self._mutex, self._has_events = os.getpid(), threading.Lock(), threading.Event()
        self._root, self._identity = os.path.abspath(root), root_identity(root)
        self._real_root, self._is_replaced = os.path.realpath(root), False
        self._paths, self._directories = set[str](), set[str]()
        event_filter = [kind for name, kind in vars(events).items() if _EVENT_CLASSES.fullmatch(name)]
        self._observer = Observer()
        try:
            self._observer.schedule(Handler(), self._real_root, recursive=True, event_filter=event_filter)
            self._observer.start()
        except BaseException:
            self._observer.stop()
            raise

    def watch(self, directory: str) -> None:
        """Do nothing: the whole tree is watched."""

    def watch_index(self, directory: str) -> None:
        """Do nothing: the index is not watched."""

    def poll(self) -> FileEvents:
        """Return the events since the last poll; they are incomplete if the source is dead."""
        if self._pid != os.getpid():
            return EVENTS_LOST
        with self._mutex:
            self._is_replaced |= root_identity(self._root) != self._identity
            paths, directories = self._paths, self._directories
            self._paths, self._directories = set(), set()
            self._has_events.clear()
        return FileEvents(paths, directories, not self.is_alive)

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there are events; return True at once if the source is dead."""
        return not self.is_alive or self._has_events.wait(timeout)

    def close(self) -> None:
        """Stop the threads, and wake a thread in `wait`; in a forked process, which has none of them, do nothing."""
        if self._pid == os.getpid():
            self._observer.stop()
            self._observer.join()
            self._has_events.set()

    @property
    def is_alive(self) -> bool:
        """Whether all threads run in this process, and the root is still the same directory."""
        threads = [*self._observer.emitters, self._observer]
        is_usable = self._pid == os.getpid() and not self._is_replaced
        return is_usable and len(threads) > 1 and all(thread.is_alive() for thread in threads)

    def _add(self, event: "FileSystemEvent") -> None:
        """Record the paths of an event; called in a thread of watchdog."""
        for changed in (event.src_path, event.dest_path or event.src_path):
            path = os.fsdecode(changed)[len(self._real_root) :].replace(os.sep, "/").lstrip("/")
            if path.startswith(".memfs/"):
                continue
            directory, _, name = path.rpartition("/")
            with self._mutex:
                if event.is_directory and is_namespace(path):
                    self._directories.add(path)
                elif not event.is_directory and is_memory_file(directory, name) and is_namespace(directory):
                    self._paths.add(path)
                else:
                    continue
                self._has_events.set()
