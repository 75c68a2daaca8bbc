"""Subscriptions: compare the known state with the state last reported to subscribers, and call them with changes."""

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from memfs.data_types import Change
from memfs.storage.stat_scan import StampTuple, diff

log = logging.getLogger("memfs")
Subscriber = Callable[[Change], None]
StampChange = tuple[str, StampTuple | None, StampTuple | None]  # a path, the reported stamp and the known one


class KnownStamps(NamedTuple):
    """The known stamps of the memories: the index they are based on, and functions for one stamp and for all."""

    basis: object  # the index; only its identity is compared
    stamp: Callable[[str], StampTuple | None]
    all: Callable[[], Mapping[str, StampTuple]]


class Subscriptions:
    """The subscribers, and the stamps reported to them.

    Each change is reported once, no matter which process detected or published it.
    """

    def __init__(self) -> None:
        self.subscribers: list[Subscriber] = []
        self._reported: dict[str, StampTuple] = {}
        self._index: object = None  # the basis of the stamps that were reported last
        self._paths: set[str] = set()  # memories that may have changed since the last report
        self._queue: deque[tuple[Subscriber, Change]] = deque()  # calls to make
        self._delivering_pid = 0  # the process that is making them; 0 if none is

    def subscribe(self, subscriber: Subscriber, known: KnownStamps) -> None:
        """Report changes from now on to one more subscriber; changes until now go only to the other subscribers."""
        if self.subscribers:
            self._enqueue_changes(known)
        else:
            self._reported, self._index, self._paths = dict(known.all()), known.basis, set()
        self.subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Remove a subscriber; from any thread, also while changes are delivered."""
        with suppress(ValueError):
            self.subscribers.remove(subscriber)

    def record(self, paths: Collection[str]) -> None:
        """Compare these memories at the next `notify`."""
        if self.subscribers:
            self._paths.update(paths)
        else:
            self._reported = {}  # free the memory: the next subscriber starts with the stamps of that time

    def is_due(self, index: object) -> bool:
        """Return whether there may be changes to report."""
        return bool(self.subscribers) and (index is not self._index or bool(self._paths) or bool(self._queue))

    def notify(self, known: KnownStamps) -> None:
        """Report the changes: of all memories if the index is another one, else of the recorded paths."""
        self._enqueue_changes(known)
        if self._delivering_pid != os.getpid():  # else a subscriber caused this call: the delivery in progress goes on
            self._delivering_pid = os.getpid()
            try:
                self._deliver()
            finally:
                self._delivering_pid = 0

    def _enqueue_changes(self, known: KnownStamps) -> None:
        """Compare the known stamps with the reported ones, and queue a call for each change and subscriber."""
        if known.basis is self._index:
            changed = [(path, self._reported.get(path), known.stamp(path)) for path in self._paths]
        else:
            now, before = known.all(), self._reported
            changed = [(path, before.get(path), now.get(path)) for path in diff(now, before).paths]
        changed = sorted((path, old, new) for path, old, new in changed if old != new)
        for path, _, new in changed:
            if new is None:
                del self._reported[path]
            else:
                self._reported[path] = new
        self._index, self._paths = known.basis, set()
        self._queue += [(subscriber, change) for change in change_events(changed) for subscriber in self.subscribers]

    def _deliver(self) -> None:
        while self._queue:
            subscriber, change = self._queue.popleft()
            try:
                if subscriber in self.subscribers:
                    subscriber(change)
            except Exception:  # the other subscribers are still called
                log.exception("%s: a subscriber failed", change.path)


def change_events(changed: Collection[StampChange]) -> list[Change]:
    """Return the events for changed stamps. A file that is removed at one path and created at another was moved."""
    removed_files = {_file_identity(old): path for path, old, new in changed if old and new is None}
    events, moved = [], set()
    for path, old, new in changed:
        if new and old is None:
            source = removed_files.pop(
                _file_identity(new), None
            )  # pop: of two new hard links, only one was moved from there
            moved.add(source)
            events.append(Change("moved", path, source) if source else Change("created", path))
        elif new:
            events.append(Change("updated", path))
    removed = [Change("removed", path) for path, _, new in changed if new is None and path not in moved]
    return [*events, *removed]


def _file_identity(stamp: StampTuple) -> StampTuple:
    """Return the parts of a stamp that a move does not change: modification time, size, inode."""
    mtime_ns, _, size, inode = stamp
    return mtime_ns, size, inode
