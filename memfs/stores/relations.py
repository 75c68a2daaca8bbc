"""What a model is told of how a memory is linked with others: plain values, few of them."""

from collections.abc import Iterable, Sequence
from typing import Any

from memfs.errors import MemoryNotFoundError
from memfs.protocols import system_clock
from memfs.upkeep.graph import LOOSE, Graph, Triple, When
from memfs.vault import Vault

LONGEST = 200  # characters of a title or a note


def relations_of(vault: Vault, ref: str, *, relation: str | None, as_of: When, limit: int) -> dict[str, Any]:
    """What a memory says of others, and they of it, as it holds now or then; of what is forgotten the link alone."""
    graph = Graph.of(vault)
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
