"""MemoryLinks: the links of one memory as plain values for a model, limited in number and length."""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from memfs.data_types import Memory
from memfs.errors import MemoryNotFoundError
from memfs.protocols import system_clock
from memfs.upkeep.link_graph import GENERIC_RELATIONS, Graph, Triple, When
from memfs.vault.vault import Vault

MAX_TEXT_CHARS = 200  # of a title or a note


class MemoryLinks:
    """The links between the memories of a vault. The graph is cached until a file's bytes or stamp change."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._cached: tuple[bytes, Graph] | None = None  # checksum of the memories, and their graph

    def describe(self, ref: str, *, relation: str | None, as_of: When, limit: int) -> dict[str, Any]:
        """Return the links from and to a memory, by id or name, now or as of a date.

        A target that is forgotten or does not exist has the text of the link as its title, and no id. Raise
        MemoryNotFoundError if the memory itself is forgotten.
        """
        return _describe(self._graph(), ref, relation, as_of, limit)

    def _graph(self) -> Graph:
        memories = self._vault.list(archived=True)
        checksum, cached = _checksum(memories), self._cached
        if cached is None or cached[0] != checksum:
            scope = self._vault.namespace
            cached = self._cached = checksum, Graph.from_memories(memories, scope, scope)
        return cached[1]


def _checksum(memories: Iterable[Memory]) -> bytes:
    """Return a checksum over the path, stamp and bytes of each memory."""
    checksum = blake2b(digest_size=32)
    for memory in memories:
        path = os.fsencode(memory.path)
        checksum.update(f"{len(path)} {len(memory.data)} {memory.stamp} ".encode())
        checksum.update(path)
        checksum.update(memory.data)
    return checksum.digest()


def _describe(graph: Graph, ref: str, relation: str | None, as_of: When, limit: int) -> dict[str, Any]:
    path = graph.find(ref)
    if graph.nodes[path].is_archived:
        raise MemoryNotFoundError(ref)
    when = system_clock() if as_of is None else as_of
    outgoing = [*graph.triples(path, relation, as_of=when), *graph.unknown(path, relation, as_of=when)]
    incoming = graph.triples(None, relation, path, as_of=when)
    out_links = [_link_fields(graph, triple, triple.object) for triple in _unique(outgoing)]
    in_links = [_link_fields(graph, triple, triple.subject) for triple in _unique(incoming)]
    left_out = max(len(out_links) - limit, 0) + max(len(in_links) - limit, 0)
    memory = {"id": graph.nodes[path].id, "title": one_line(graph.nodes[path].title)}
    return {**memory, "out": out_links[:limit], "in": in_links[:limit], "left_out": left_out}


def _unique(triples: Iterable[Triple]) -> Sequence[Triple]:
    """Return the triples without duplicates, those with a specific relation first."""
    unique = {(one.relation, one.subject, one.object or one.target): one for one in reversed([*triples])}
    return sorted(unique.values(), key=lambda one: (one.relation in GENERIC_RELATIONS, one.subject, one.line))


def _link_fields(graph: Graph, triple: Triple, path: str) -> dict[str, Any]:
    node = graph.nodes.get(path)
    fields: dict[str, Any] = {"relation": one_line(triple.relation), "id": None, "title": one_line(triple.target)}
    if node and not node.is_archived:
        fields |= {"id": node.id, "title": one_line(node.title)}
    return fields | ({"note": one_line(triple.note)} if triple.note else {})


def one_line(text: str) -> str:
    """Return a text on one line, cut to MAX_TEXT_CHARS, without unprintable characters."""
    line = " ".join(text[: 10 * MAX_TEXT_CHARS].split())
    line = "".join(char for char in line if char == " " or char.isprintable())
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"
