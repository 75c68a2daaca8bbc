"""Lineage: which memories supersede which, and so which of them are in force. Pure."""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from memfs.data_types import Memory
from memfs.search.superseded_filter import is_withdrawn, names_of, target_of

_LINK = re.compile(r"\[\[([^\[\]|#]+)")


class SupersessionChains:
    """The memories of a vault, and how their `supersedes` relates them."""

    def __init__(self, memories: Sequence[Memory], now: datetime) -> None:
        self._now = now
        named: dict[str, set[str]] = defaultdict(set)
        for memory in memories:
            for name in names_of(memory):
                named[name].add(memory.path)
        self.replaced: dict[str, set[str]] = {}  # path -> the paths of what it supersedes
        for memory in memories:
            if memory.header.supersedes and not is_withdrawn(memory, now):
                targets = (named.get(target_of(link), set()) for link in memory.header.supersedes)
                self.replaced[memory.path] = set().union(*targets) - {memory.path}
        self.superseded = set().union(*self.replaced.values())

    def is_in_force(self, memory: Memory) -> bool:
        """Tell whether a memory is found by a search, and still said to be true."""
        until = memory.header.valid_until
        is_over = until is not None and until < self._now
        return not (is_over or is_withdrawn(memory, self._now) or memory.path in self.superseded)


def superseded_since(memories: Sequence[Memory]) -> dict[str, datetime]:
    """Since when memories are superseded: path -> the first moment of another one that names it, as a search has it."""
    named: dict[str, set[tuple[datetime, str]]] = defaultdict(set)
    for memory in memories:
        if b"supersedes" in memory.data and memory.header.status != "deprecated":
            start = memory.header.valid_from or memory.created
            for link in memory.header.supersedes:
                named[target_of(link)].add((start, memory.path))
    first = {name: sorted(found)[:2] for name, found in named.items()}  # a memory does not supersede itself
    since = {}
    for memory in memories if first else ():
        found = [start for name in names_of(memory) for start, path in first.get(name, ()) if path != memory.path]
        if found:
            since[memory.path] = min(found)
    return since


def are_linked(one: Memory, other: Memory) -> bool:
    """Tell whether one of two memories names the other in a link."""
    return any(
        not names_of(target).isdisjoint({target_of(link) for link in _LINK.findall(source.text)})
        for source, target in ((one, other), (other, one))
    )
