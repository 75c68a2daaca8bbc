"""Lineage: which memories supersede which, and so which of them are in force. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from memfs.model import Memory
from memfs.namespace import fold

_LINK = re.compile(r"\[\[([^\[\]|#]+)")


class Lineage:
    """The memories of a vault, and how their `supersedes` relates them."""

    def __init__(self, memories: Sequence[Memory], now: datetime) -> None:
        self._now = now
        named: dict[str, set[str]] = defaultdict(set)
        for memory in memories:
            for name in _names(memory):
                named[name].add(memory.path)
        self.replaced: dict[str, set[str]] = {}  # path -> the paths of what it supersedes
        for memory in memories:
            if memory.header.supersedes and not self._is_out(memory):
                targets = (named.get(name, set()) for link in memory.header.supersedes for name in _targets(link))
                self.replaced[memory.path] = set().union(*targets) - {memory.path}
        self.superseded = set().union(*self.replaced.values())

    def is_in_force(self, memory: Memory) -> bool:
        """Tell whether a memory is found by a search, and still said to be true."""
        until = memory.header.valid_until
        is_over = until is not None and until < self._now
        return not (is_over or self._is_out(memory) or memory.path in self.superseded)

    def _is_out(self, memory: Memory) -> bool:
        expires = memory.header.expires
        return memory.header.status == "deprecated" or (expires is not None and expires < self._now)


def are_linked(one: Memory, other: Memory) -> bool:
    """Tell whether one of two memories names the other in a link."""
    return any(
        not _names(target).isdisjoint({_target(link) for link in _LINK.findall(source.text)})
        for source, target in ((one, other), (other, one))
    )


def _names(memory: Memory) -> set[str]:
    """What a link to a memory may say: its path, its file name, its id."""
    path = fold(memory.path.removesuffix(".md"))
    return {path, path.rpartition("/")[2], fold(memory.id)}


def _targets(text: str) -> Iterator[str]:
    """What the value of `supersedes` points to, with brackets or without."""
    links: Iterable[str] = _LINK.findall(text) or [text.partition("|")[0].partition("#")[0]]
    yield from map(_target, links)


def _target(link: str) -> str:
    return fold(link.strip().removeprefix("/").removesuffix(".md"))
