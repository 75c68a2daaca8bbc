"""Changes: what was learned of memories, in the words of who subscribed."""

import logging
from collections.abc import Callable, Collection, Iterable

from memfs.model import Change, Memory
from memfs.scan import Marks

log = logging.getLogger("memfs")
Learned = tuple[str, Marks | None, Memory | None]  # a path, how it was known, what it is now


def changes_of(learned: Collection[Learned]) -> list[Change]:
    """What happened, in words; a memory that went, and came elsewhere as it was, was moved."""
    went = {_identity(old): path for path, old, found in learned if found is None and old}
    changes, moved = [], set()
    for path, old, found in learned:
        if found and old is None:
            source = went.get(_identity(found.stamp))
            moved.add(source)
            changes.append(Change("moved", path, source) if source else Change("created", path))
        elif found:
            changes.append(Change("updated", path))
    removed = [Change("removed", path) for path, old, found in learned if found is None and path not in moved]
    return [*changes, *removed]


def _identity(stamp: Marks) -> Marks:
    """What a move leaves as it is: modification time, size, inode."""
    mtime_ns, _, size, inode = stamp
    return mtime_ns, size, inode


def tell(subscribers: Iterable[Callable[[Change], None]], learned: Collection[Learned]) -> None:
    """Tell who subscribed; one that fails costs the others nothing."""
    told = [*subscribers]
    for change in changes_of(learned) if told else ():
        for subscriber in told:
            try:
                subscriber(change)
            except Exception:
                log.exception("%s: a subscriber failed", change.path)
