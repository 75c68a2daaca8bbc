"""Changes: what is known otherwise than it was told, in the words of who subscribed."""

import logging
from collections.abc import Callable, Collection, Mapping

from memfs.model import Change
from memfs.scan import Marks, diff

log = logging.getLogger("memfs")
Told = Callable[[Change], None]
Learned = tuple[str, Marks | None, Marks | None]  # a path, its stamp as it was told, and as it is known


class News:
    """Who subscribed, and what they know. Each change is told once, whichever process learned of it or published it."""

    def __init__(self) -> None:
        self.subscribers: list[Told] = []
        self._told: dict[str, Marks] = {}
        self._basis: object = None  # the index that was known when all of it was told
        self._paths: set[str] = set()  # what may be known otherwise since

    def subscribe(self, told: Told, known: Mapping[str, Marks], basis: object) -> None:
        """Have one more told of what changes from now on; who subscribed before was told of all until now."""
        self._told, self._basis, self._paths = dict(known), basis, set()
        self.subscribers.append(told)

    def unsubscribe(self, told: Told) -> None:
        """Tell this one no more."""
        if told in self.subscribers:
            self.subscribers.remove(told)
        if not self.subscribers:
            self._told = {}

    def note(self, paths: Collection[str]) -> None:
        """Have these memories looked at when changes are told next."""
        if self.subscribers:
            self._paths.update(paths)

    def is_due(self, basis: object) -> bool:
        """Tell whether there may be something to tell."""
        return bool(self.subscribers) and (basis is not self._basis or bool(self._paths))

    def tell(
        self, basis: object, stamp: Callable[[str], Marks | None], known: Callable[[], Mapping[str, Marks]]
    ) -> None:
        """Tell what changed: of all that is `known` if the index is another one, else of the paths that were noted."""
        if basis is self._basis:
            learned = [(path, self._told.get(path), stamp(path)) for path in self._paths]
        else:
            now, before = known(), self._told
            learned = [(path, before.get(path), now.get(path)) for path in diff(now, before).paths]
        learned = sorted(one for one in learned if one[1] != one[2])
        for path, _, new in learned:  # before anybody is told, who may search, and so come here again
            if new is None:
                del self._told[path]
            else:
                self._told[path] = new
        self._basis, self._paths = basis, set()
        self._say(changes_of(learned))

    def _say(self, changes: Collection[Change]) -> None:
        told = [*self.subscribers]
        for change in changes:
            for subscriber in told:
                try:
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
