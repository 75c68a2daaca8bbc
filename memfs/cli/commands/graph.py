"""The command `graph`: the links between memories."""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from memfs.cli.inputs import normalize_ref, open_vault
from memfs.cli.output import (
    Progress,
    count,
    display_width,
    label,
    one_line,
    pad,
    paint,
    print_json,
    print_table,
    safe_text,
    terminal_width,
    truncate,
)
from memfs.cli.parser import usage_error, with_vault_option
from memfs.errors import MemfsError
from memfs.json_output import triple_json
from memfs.upkeep.link_graph import GENERIC_RELATIONS, Graph, Triple
from memfs.vault.vault import Vault

MAX_LINKS_SHOWN = 40  # below one memory
MAX_MOST_LINKED = 10
MAX_RELATIONS = 20
Link = tuple[str, Triple, str]  # an arrow, the triple, the memory at the other end
Row = tuple[str, bool, list[int], Link | str]  # indent, whether it is the last sibling, widths, the link or a text


def run_graph(args: argparse.Namespace) -> int:
    """Show the whole graph, the links of one memory, or the path to another one; the exit code is 1 if it is empty."""
    form = "json" if args.json else args.format
    if args.to and not args.ref:
        raise usage_error("graph", "--to needs a memory to start from")
    if args.orphans and (args.ref or form in ("dot", "mermaid")):
        raise usage_error("graph", "--orphans takes no memory and no diagram format")
    with open_vault(args.vault) as vault:
        with Progress("looked for links in", activity="reading memories") as progress:
            graph = Graph.of(vault, progress=progress)
        if args.orphans:
            return _print_orphans(graph, form)
        ref, goal = (found and graph.find(normalize_ref(vault, found)) for found in (args.ref, args.to))
        if goal:
            return _print_path(vault, graph, args, form, ref, goal)
        if ref:
            return _print_links(vault, graph, args, form, ref)
        return _print_graph(vault, graph, args, form)


# --- the whole graph ----------------------------------------------------------------------------------


def _print_graph(vault: Vault, graph: Graph, args: argparse.Namespace, form: str) -> int:
    """Print counts, the most linked memories and the relations; for one relation, all its triples."""
    triples = graph.triples(relation=args.relation, as_of=args.as_of)
    if form in ("dot", "mermaid"):
        _print_diagram(triples, graph, form)
    elif args.relation is not None:
        if form == "json":
            print_json({"triples": [triple_json(one) for one in triples]})
        for triple in triples if form == "text" else ():
            location = safe_text(f"{triple.subject}:{triple.line}:")
            print(f"{location} {_relation_text(triple)} {safe_text(triple.object)}")
    else:
        _print_overview(vault, graph, triples, form, args.vault)
    if not triples and form == "text":
        relation = "" if args.relation is None else f" with the relation {safe_text(args.relation)!r}"
        print(f"no links{relation}", file=sys.stderr)
    return 0 if triples else 1


def _print_overview(vault: Vault, graph: Graph, triples: Sequence[Triple], form: str, vault_option: str | None) -> None:
    memories = sum(not node.is_archived for node in graph.nodes.values())
    relations = Counter(one.relation for one in triples)
    incoming, outgoing = Counter(one.object for one in triples), Counter(one.subject for one in triples)
    total = incoming + outgoing
    top = sorted(total, key=lambda path: (-total[path], path))[:MAX_MOST_LINKED]
    broken, orphans = len(graph.problems()), len(graph.orphans())
    if form == "json":
        linked = [{**_node_json(graph, path), "in": incoming[path], "out": outgoing[path]} for path in top]
        counts = {"memories": memories, "links": len(triples), "relations": dict(relations.most_common())}
        print_json({**counts, "most_linked": linked, "orphans": orphans, "problems": broken})
        return
    print(f"{count(memories, 'memory')}, {count(len(triples), 'link')}, {count(len(relations), 'relation')}")
    if top:
        print()
        rows = [[safe_text(path), str(incoming[path]), str(outgoing[path]), _label(vault, path)] for path in top]
        print_table(("most linked", "in", "out", "title"), rows)
        print(f"\n{paint('relations', 'dim')}")
        for relation, number in relations.most_common(MAX_RELATIONS):
            print(f"{number:>5,}  {one_line(relation)}")
        if len(relations) > MAX_RELATIONS:
            print(paint(f"       … and {len(relations) - MAX_RELATIONS:,} more", "dim"))
    if broken or orphans:
        print()
    if broken:
        text = f"{count(broken, 'broken or ambiguous link')}; see `memfs check`"
        print(safe_text(with_vault_option(text, vault_option)))
    if orphans:
        have = "has" if orphans == 1 else "have"
        text = f"{count(orphans, 'memory')} {have} no links; see `memfs graph --orphans`"
        print(safe_text(with_vault_option(text, vault_option)))


def _print_orphans(graph: Graph, form: str) -> int:
    found = graph.orphans()
    if form == "json":
        print_json([_node_json(graph, path) for path in found])
    elif found:
        print(*(safe_text(path) for path in found), sep="\n")
    else:
        print("every memory has a link", file=sys.stderr)
    return 0 if found else 1


# --- one memory ---------------------------------------------------------------------------------------


def _print_links(vault: Vault, graph: Graph, args: argparse.Namespace, form: str, ref: str) -> int:
    """Print the links of a memory in both directions; with a larger depth, also one link to each further memory."""
    near = graph.neighbours(ref, args.depth, as_of=args.as_of, relation=args.relation)
    outgoing = graph.triples(ref, args.relation, as_of=args.as_of)
    incoming = graph.triples(None, args.relation, ref, as_of=args.as_of)
    further = [one.via for one in near if one.distance > 1]
    if form == "json":
        memories = [{**_node_json(graph, one.path), "distance": one.distance} for one in near]
        triples = [triple_json(one) for one in (*outgoing, *incoming, *further)]
        unknown = [triple_json(one) for one in graph.unknown(ref, args.relation, as_of=args.as_of)]
        print_json({**_node_json(graph, ref), "triples": triples, "unknown": unknown, "memories": memories})
    elif form != "text":
        _print_diagram([*outgoing, *incoming, *further], graph, form)
    else:
        children: dict[str, list[Link]] = defaultdict(list)
        children[ref] = [*_links(outgoing, ref), *_links(incoming, ref)]
        children[ref].sort(key=lambda link: (link[1].relation in GENERIC_RELATIONS, link[0] == "←"))
        for one in near:
            if one.distance > 1:
                parent = one.via.other(one.path)
                children[parent] += _links([one.via], parent)
        _print_tree(vault, ref, children, None if args.as_of else datetime.now(UTC))
        links = f"{count(len(outgoing), 'link')} out, {len(incoming):,} in"
        more = f"; {count(len(near), 'memory')} up to {args.depth} links away" if args.depth > 1 else ""
        print("\n" + paint(links + more, "dim"))
    return 0 if outgoing or incoming else 1


def _links(triples: Iterable[Triple], here: str) -> Iterator[Link]:
    """Yield each distinct triple once, as a link seen from the memory `here`."""
    distinct: dict[tuple[str, str, str], Triple] = {}
    for triple in triples:
        distinct.setdefault((triple.subject, triple.relation, triple.object), triple)
    for triple in distinct.values():
        yield "→" if triple.subject == here else "←", triple, triple.other(here)


def _print_tree(vault: Vault, root: str, children: Mapping[str, list[Link]], now: datetime | None) -> None:
    """Print a tree of links; without recursion, as a chain of memories may be long."""
    print(f"{paint(safe_text(root), 'bold')}  {_label(vault, root)}")
    printed, stack = {root}, _rows(children.get(root, []), "")
    while stack:
        indent, is_last, widths, link = stack.pop()
        start = indent + ("└── " if is_last else "├── ")
        if isinstance(link, str):
            print(paint(start + link, "dim"))
            continue
        print(_format_link(vault, start, link, widths, now))
        if link[2] not in printed:
            printed.add(link[2])
            stack += _rows(children.get(link[2], []), indent + ("    " if is_last else "│   "))


def _rows(links: Sequence[Link], indent: str) -> list[Row]:
    """Return the rows below one memory, the last first: they are popped from the end of a stack."""
    widths = _column_widths(links[:MAX_LINKS_SHOWN])
    rows: list[Row] = [(indent, link is links[-1], widths, link) for link in links[:MAX_LINKS_SHOWN]]
    if hidden := len(links) - len(rows):
        rows.append((indent, True, widths, f"… and {hidden:,} more; --json has all"))
    return rows[::-1]


def _column_widths(links: Sequence[Link]) -> list[int]:
    """Return the widths of the columns of relations and paths."""
    columns = [one_line(link[1].relation) for link in links], [safe_text(link[2]) for link in links]
    return [max(map(display_width, texts), default=0) for texts in columns]


def _format_link(vault: Vault, start: str, link: Link, widths: Sequence[int], now: datetime | None) -> str:
    """Return the line of one link, cut to the width of the terminal."""
    arrow, triple, path = link
    relation, name = pad(one_line(triple.relation), widths[0]), pad(safe_text(path), widths[1])
    note = f" ({one_line(triple.note)})" if triple.note else ""
    when = f" [{text}]" if now and (text := validity_text(triple, now)) else ""
    total = terminal_width()
    head = f"{start}{arrow} {relation}  {name}"
    remaining = None if total is None else total - display_width(head) - 2
    if remaining is not None and remaining < 8:
        return truncate(f"{start}{arrow} {relation}  {safe_text(path)}", total)
    rest = truncate(f"{_label(vault, path)}{note}{when}", remaining)
    return f"{start}{arrow} {paint(relation, 'magenta')}  {name}  {paint(rest, 'dim')}".rstrip()


def validity_text(triple: Triple, now: datetime) -> str:
    """Return why a link is not valid now: `deprecated`, `until DATE` or `from DATE`; empty if it is valid."""
    if not triple.in_force:
        return "deprecated"
    if triple.until and triple.until < now:
        return f"until {triple.until:%Y-%m-%d}"
    return f"from {triple.since:%Y-%m-%d}" if triple.since and triple.since > now else ""


# --- from one memory to another -----------------------------------------------------------------------


def _print_path(vault: Vault, graph: Graph, args: argparse.Namespace, form: str, start: str, end: str) -> int:
    path = graph.path(start, end, as_of=args.as_of, relation=args.relation)
    if form == "json":
        triples = None if path is None else [triple_json(one) for one in path]
        distance = None if path is None else len(path)
        print_json({"from": start, "to": end, "distance": distance, "triples": triples})
    elif form != "text":
        _print_diagram(path or [], graph, form)
    elif path is None:
        print(f"no path from {safe_text(start)} to {safe_text(end)}", file=sys.stderr)
    else:
        print(f"{paint(safe_text(start), 'bold')}  {_label(vault, start)}")
        links: list[Link] = []
        here = start
        for triple in path:
            links += _links([triple], here)
            here = triple.other(here)
        widths = _column_widths(links)
        for link in links:
            print(_format_link(vault, "  ", link, widths, None if args.as_of else datetime.now(UTC)))
        print("\n" + paint(count(len(path), "link"), "dim"))
    return 1 if path is None else 0


# --- shared -------------------------------------------------------------------------------------------


def _node_json(graph: Graph, path: str) -> dict[str, str]:
    return graph.nodes[path]._asdict()


def _label(vault: Vault, path: str) -> str:
    """Return the label of a memory; empty if its file cannot be read any more."""
    try:
        return label(vault.read(path))
    except MemfsError:
        return ""


def _relation_text(triple: Triple) -> str:
    return one_line(f"{triple.relation} ({triple.note})" if triple.note else triple.relation)


def _print_diagram(triples: Sequence[Triple], graph: Graph, form: str) -> None:
    from memfs.cli import graph_diagram

    print((graph_diagram.dot if form == "dot" else graph_diagram.mermaid)(triples, graph.nodes))
