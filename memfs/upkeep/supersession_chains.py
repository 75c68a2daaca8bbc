"""Find which memories supersede which, and which are therefore in force. Pure."""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from memfs.data_types import Memory
from memfs.search.superseded_filter import is_withdrawn, names_of, target_of

_LINK = re.compile(r"\[\[([^\[\]|#]+)")


class SupersessionChains:
    """The `supersedes` relation between the memories of a vault at one moment. `superseded` has paths."""

    def __init__(self, memories: Sequence[Memory], now: datetime) -> None:
        self._now = now
        by_name: dict[str, set[str]] = defaultdict(set)
        for memory in memories:
            for name in names_of(memory):
                by_name[name].add(memory.path)
        self.supersedes: dict[str, set[str]] = {}  # path -> the paths of the memories that it supersedes
        for memory in memories:
            if memory.header.supersedes and not is_withdrawn(memory, now):
                targets = (by_name.get(target_of(link), set()) for link in memory.header.supersedes)
                self.supersedes[memory.path] = set().union(*targets) - {memory.path}
        self.superseded = set().union(*self.supersedes.values())

    def is_in_force(self, memory: Memory) -> bool:
        """Return whether searches find a memory by default and it is still valid."""
        until = memory.header.valid_until
        is_over = until is not None and until < self._now
        return not (is_over or is_withdrawn(memory, self._now) or memory.path in self.superseded)


def superseded_since(memories: Sequence[Memory]) -> dict[str, datetime]:
    """Return when memories were superseded: path -> the start of the first other memory that supersedes it.

    Names are matched as in a search.
    """
    by_name: dict[str, set[tuple[datetime, str]]] = defaultdict(set)
    for memory in memories:
        if b"supersedes" in memory.data and memory.header.status != "deprecated":
            start = memory.header.valid_from or memory.created
            for link in memory.header.supersedes:
                by_name[target_of(link)].add((start, memory.path))
    # two, because the first may be the memory itself, which does not supersede itself
    earliest = {name: sorted(found)[:2] for name, found in by_name.items()}
    since = {}
    for memory in memories if earliest else ():
        found = [start for name in names_of(memory) for start, path in earliest.get(name, ()) if path != memory.path]
        if found:
            since[memory.path] = min(found)
    return since


def are_linked(one: Memory, other: Memory) -> bool:
    """Return whether one of two memories links to the other."""
    return any(
        not names_of(target).isdisjoint({target_of(link) for link in _LINK.findall(source.text)})
        for source, target in ((one, other), (other, one))
    )
