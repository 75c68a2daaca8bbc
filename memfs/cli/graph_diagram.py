"""A graph as text for programs that draw: Graphviz, Mermaid. Names from a vault are quoted, whatever they hold."""

from collections.abc import Iterable, Mapping

from memfs.cli.output import phrase, plain
from memfs.upkeep.link_graph import Triple
from memfs.upkeep.link_resolver import Node

Edge = tuple[str, str, str]
LONGEST = 60  # characters of a name


def dot(triples: Iterable[Triple], nodes: Mapping[str, Node]) -> str:
    """The graph for Graphviz."""
    edges = _edges(triples)
    numbers = _numbers(edges)
    lines = [
        f"  {name} [label={_dot(_cut(nodes[path].title))}, tooltip={_dot(plain(path))}];"
        for path, name in numbers.items()
    ]
    lines += [f"  {numbers[start]} -> {numbers[end]} [label={_dot(_cut(said))}];" for start, said, end in edges]
    return "\n".join(["digraph memories {", "  rankdir=LR;", "  node [shape=box];", *lines, "}"])


def mermaid(triples: Iterable[Triple], nodes: Mapping[str, Node]) -> str:
    """The graph for Mermaid, which GitHub and Obsidian show."""
    edges = _edges(triples)
    numbers = _numbers(edges)
    lines = [f"  {name}[{_mermaid(_cut(nodes[path].title))}]" for path, name in numbers.items()]
    lines += [f"  {numbers[start]} -->|{_mermaid(_cut(said))}| {numbers[end]}" for start, said, end in edges]
    return "\n".join(["graph LR", *lines])


def _edges(triples: Iterable[Triple]) -> list[Edge]:
    """What is said, each once."""
    return [*dict.fromkeys((one.subject, one.relation, one.object) for one in triples)]


def _numbers(edges: Iterable[Edge]) -> dict[str, str]:
    """A name for each memory that no path can spoil."""
    paths = dict.fromkeys(path for start, _, end in edges for path in (start, end))
    return {path: f"m{number}" for number, path in enumerate(paths, 1)}


def _cut(text: str) -> str:
    text = phrase(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _dot(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mermaid(text: str) -> str:
    """A quoted text, with what has a meaning inside of quotes as entities."""
    return '"' + "".join(f"#{ord(char)};" if char in '"#&<>\\`|;' else char for char in text) + '"'
