"""What a model is told of how a memory is linked with others: plain values, few of them."""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from memfs.data_types import Memory
from memfs.errors import MemoryNotFoundError
from memfs.protocols import system_clock
from memfs.upkeep.link_graph import LOOSE, Graph, Triple, When
from memfs.vault.vault import Vault

LONGEST = 200  # characters of a title or a note


class Relations:
    """How the memories of a vault are linked. The graph is kept, and made anew when any byte or stamp differs."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._kept: tuple[bytes, Graph] | None = None

    def of(self, ref: str, *, relation: str | None, as_of: When, limit: int) -> dict[str, Any]:
        """What a memory says of others, and they of it, as of now or then; of what is forgotten the link alone."""
        return _relations(self._graph(), ref, relation, as_of, limit)

    def _graph(self) -> Graph:
        memories = self._vault.list(archived=True)
        content, known = _content(memories), self._kept
        if known is None or known[0] != content:
            scope = self._vault.namespace
            known = self._kept = content, Graph.made_of(memories, scope, scope)
        return known[1]


def _content(memories: Iterable[Memory]) -> bytes:
    """What differs when anything does that a graph is made of."""
    seen = blake2b(digest_size=32)
    for memory in memories:
        path = os.fsencode(memory.path)
        seen.update(f"{len(path)} {len(memory.data)} {memory.stamp} ".encode())
        seen.update(path)
        seen.update(memory.data)
    return seen.digest()


def _relations(graph: Graph, ref: str, relation: str | None, as_of: When, limit: int) -> dict[str, Any]:
    path = graph.find(ref)
    if graph.nodes[path].is_archived:
        raise MemoryNotFoundError(ref)
    when = system_clock() if as_of is None else as_of
    out = [*graph.triples(path, relation, as_of=when), *graph.unknown(path, relation, as_of=when)]
    into = graph.triples(None, relation, path, as_of=when)
    told = [_told(graph, one, one.object) for one in _first(out)]
    heard = [_told(graph, one, one.subject) for one in _first(into)]
    left_out = max(len(told) - limit, 0) + max(len(heard) - limit, 0)
    memory = {"id": graph.nodes[path].id, "title": plain(graph.nodes[path].title)}
    return {**memory, "out": told[:limit], "in": heard[:limit], "left_out": left_out}


def _first(triples: Iterable[Triple]) -> Sequence[Triple]:
    """Each thing that is said once, what says most first."""
    once = {(one.relation, one.subject, one.object or one.target): one for one in reversed([*triples])}
    return sorted(once.values(), key=lambda one: (one.relation in LOOSE, one.subject, one.line))


def _told(graph: Graph, triple: Triple, path: str) -> dict[str, Any]:
    node = graph.nodes.get(path)
    facts: dict[str, Any] = {"relation": plain(triple.relation), "id": None, "title": plain(triple.target)}
    if node and not node.is_archived:
        facts |= {"id": node.id, "title": plain(node.title)}
    return facts | ({"note": plain(triple.note)} if triple.note else {})


def plain(text: str) -> str:
    """A text on one line, not too long, without characters that do not show."""
    line = " ".join(text[: 10 * LONGEST].split())
    line = "".join(char for char in line if char == " " or char.isprintable())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
