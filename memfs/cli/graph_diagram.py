"""Write a link graph as Graphviz or Mermaid text. All names from the vault are quoted and escaped."""

from collections.abc import Iterable, Mapping

from memfs.cli.output import one_line, safe_text
from memfs.upkeep.link_graph import Triple
from memfs.upkeep.link_resolver import Node

Edge = tuple[str, str, str]  # path, relation, path
MAX_LABEL_CHARACTERS = 60


def dot(triples: Iterable[Triple], nodes: Mapping[str, Node]) -> str:
    """Return the graph as Graphviz text."""
    edges = _edges(triples)
    names = _node_names(edges)
    lines = [
        f"  {name} [label={_quote_dot(_label(nodes[path].title))}, tooltip={_quote_dot(safe_text(path))}];"
        for path, name in names.items()
    ]
    lines += [f"  {names[start]} -> {names[end]} [label={_quote_dot(_label(text))}];" for start, text, end in edges]
    return "\n".join(["digraph memories {", "  rankdir=LR;", "  node [shape=box];", *lines, "}"])


def mermaid(triples: Iterable[Triple], nodes: Mapping[str, Node]) -> str:
    """Return the graph as Mermaid text, which GitHub and Obsidian render."""
    edges = _edges(triples)
    names = _node_names(edges)
    lines = [f"  {name}[{_quote_mermaid(_label(nodes[path].title))}]" for path, name in names.items()]
    lines += [f"  {names[start]} -->|{_quote_mermaid(_label(text))}| {names[end]}" for start, text, end in edges]
    return "\n".join(["graph LR", *lines])


def _edges(triples: Iterable[Triple]) -> list[Edge]:
    """Return each distinct edge once."""
    return [*dict.fromkeys((one.subject, one.relation, one.object) for one in triples)]


def _node_names(edges: Iterable[Edge]) -> dict[str, str]:
    """Return a generated name for each path, such as `m1`, so that no path needs escaping as the name of a node."""
    paths = dict.fromkeys(path for start, _, end in edges for path in (start, end))
    return {path: f"m{number}" for number, path in enumerate(paths, 1)}


def _label(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= MAX_LABEL_CHARACTERS else f"{text[: MAX_LABEL_CHARACTERS - 1]}…"


def _quote_dot(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quote_mermaid(text: str) -> str:
    """Return a quoted text in which Mermaid's special characters are entities."""
    return '"' + "".join(f"#{ord(char)};" if char in '"#&<>\\`|;' else char for char in text) + '"'
