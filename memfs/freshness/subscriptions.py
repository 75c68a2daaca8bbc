"""Changes: what is known otherwise than it was told, in the words of who subscribed."""

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from memfs.data_types import Change
from memfs.storage.stat_scan import Marks, diff

log = logging.getLogger("memfs")
Told = Callable[[Change], None]
Learned = tuple[str, Marks | None, Marks | None]  # a path, its stamp as it was told, and as it is known


class Known(NamedTuple):
    """What is known of the memories: the index, one stamp, or all of them."""

    basis: object
    stamp: Callable[[str], Marks | None]
    all: Callable[[], Mapping[str, Marks]]


class Subscriptions:
    """Who subscribed, and what they know. Each change is told once, whichever process learned of it or published it."""

    def __init__(self) -> None:
        self.subscribers: list[Told] = []
        self._told: dict[str, Marks] = {}
        self._basis: object = None  # the index that was known when all of it was told
        self._paths: set[str] = set()  # what may be known otherwise since
        self._waiting: deque[tuple[Told, Change]] = deque()  # what is to be said, and to whom
        self._speaker = 0  # the process that is saying it

    def subscribe(self, told: Told, known: Known) -> None:
        """Have one more told of what changes from now on; who subscribed before is told of all until now."""
        if self.subscribers:
            self._learn(known)
        else:
            self._told, self._basis, self._paths = dict(known.all()), known.basis, set()
        self.subscribers.append(told)

    def unsubscribe(self, told: Told) -> None:
        """Tell this one no more; from any thread, also while changes are told."""
        with suppress(ValueError):
            self.subscribers.remove(told)

    def note(self, paths: Collection[str]) -> None:
        """Have these memories looked at when changes are told next."""
        if self.subscribers:
            self._paths.update(paths)
        else:
            self._told = {}

    def is_due(self, basis: object) -> bool:
        """Tell whether there may be something to tell."""
        return bool(self.subscribers) and (basis is not self._basis or bool(self._paths) or bool(self._waiting))

    def tell(self, known: Known) -> None:
        """Tell what changed: of all that is known if the index is another one, else of the paths that were noted."""
        self._learn(known)
        if self._speaker != os.getpid():  # else a subscriber searched, who is told the rest first
            self._speaker = os.getpid()
            try:
                self._say()
            finally:
                self._speaker = 0

    def _learn(self, known: Known) -> None:
        if known.basis is self._basis:
            learned = [(path, self._told.get(path), known.stamp(path)) for path in self._paths]
        else:
            now, before = known.all(), self._told
            learned = [(path, before.get(path), now.get(path)) for path in diff(now, before).paths]
        learned = sorted(one for one in learned if one[1] != one[2])
        for path, _, new in learned:
            if new is None:
                del self._told[path]
            else:
                self._told[path] = new
        self._basis, self._paths = known.basis, set()
        self._waiting += [(subscriber, change) for change in changes_of(learned) for subscriber in self.subscribers]

    def _say(self) -> None:
        while self._waiting:
            subscriber, change = self._waiting.popleft()
            try:
                if subscriber in self.subscribers:
                    subscriber(change)
            except Exception:  # costs the others nothing
                log.exception("%s: a subscriber failed", change.path)


def changes_of(learned: Collection[Learned]) -> list[Change]:
    """What happened, in words; a memory that went, and came elsewhere as it was, was moved."""
    went = {_identity(old): path for path, old, new in learned if old and new is None}
    changes, moved = [], set()
    for path, old, new in learned:
        if new and old is None:
            source = went.pop(_identity(new), None)  # of two links to one file each goes one way
            moved.add(source)
            changes.append(Change("moved", path, source) if source else Change("created", path))
        elif new:
            changes.append(Change("updated", path))
    removed = [Change("removed", path) for path, _, new in learned if new is None and path not in moved]
    return [*changes, *removed]


def _identity(stamp: Marks) -> Marks:
    """What a move leaves as it is: modification time, size, inode."""
    mtime_ns, _, size, inode = stamp
    return mtime_ns, size, inode
