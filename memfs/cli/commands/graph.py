"""graph: what the memories of a vault say of each other."""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memfs.cli.inputs import open_vault, reference
from memfs.cli.output import (
    Progress,
    columns,
    count,
    cut,
    label,
    pad,
    paint,
    phrase,
    plain,
    print_json,
    print_table,
    width,
)
from memfs.cli.parser import addressed, usage
from memfs.errors import MemfsError
from memfs.upkeep.link_graph import LOOSE, Graph, Triple
from memfs.vault.vault import Vault

MOST = 40  # lines below one memory
TOP = 10  # of the memories that are linked most
RELATIONS = 20
FACTS = ("subject", "relation", "object", "line", "note", "target", "since", "until", "in_force")
Line = tuple[str, Triple, str]  # an arrow, what is said, the memory at the other end
Row = tuple[str, bool, list[int], Line | str]  # how far in, whether it is the last there, widths, and what is printed


def run_graph(args: argparse.Namespace) -> int:
    """Show the whole graph, what is around a memory, or the way to another one."""
    form = "json" if args.json else args.format
    if args.to and not args.ref:
        raise usage("graph", "--to wants a memory to start from")
    if args.orphans and (args.ref or form in ("dot", "mermaid")):
        raise usage("graph", "--orphans is a list of its own")
    with open_vault(args.vault) as vault:
        with Progress("looked for links in", doing="reading memories") as progress:
            graph = Graph.of(vault, progress=progress)
        if args.orphans:
            return _orphans(graph, form)
        ref, goal = (found and graph.find(reference(vault, found)) for found in (args.ref, args.to))
        if goal:
            return _way(vault, graph, args, form, ref, goal)
        if ref:
            return _around(vault, graph, args, form, ref)
        return _overview(vault, graph, args, form)


# --- all of it ----------------------------------------------------------------------------------------


def _overview(vault: Vault, graph: Graph, args: argparse.Namespace, form: str) -> int:
    """Counts, the memories that are linked most, and the relations; of one relation every triple."""
    triples = graph.triples(relation=args.relation, as_of=args.as_of)
    if form in ("dot", "mermaid"):
        _draw(triples, graph, form)
    elif args.relation is not None:
        if form == "json":
            print_json({"triples": [triple_facts(one) for one in triples]})
        for triple in triples if form == "text" else ():
            print(f"{plain(f'{triple.subject}:{triple.line}:')} {_said(triple)} {plain(triple.object)}")
    else:
        _print_overview(vault, graph, triples, form, args.vault)
    if not triples and form == "text":
        print("no links" if args.relation is None else f"no link says {plain(args.relation)!r}", file=sys.stderr)
    return 0 if triples else 1


def _print_overview(vault: Vault, graph: Graph, triples: Sequence[Triple], form: str, named: str | None) -> None:
    memories = sum(not node.is_archived for node in graph.nodes.values())
    relations = Counter(one.relation for one in triples)
    into, out = Counter(one.object for one in triples), Counter(one.subject for one in triples)
    top = sorted(into | out, key=lambda path: (-into[path] - out[path], path))[:TOP]
    lost, alone = len(graph.problems()), len(graph.orphans())
    if form == "json":
        linked = [{**_node(graph, path), "in": into[path], "out": out[path]} for path in top]
        facts = {"memories": memories, "links": len(triples), "relations": dict(relations.most_common())}
        print_json({**facts, "most_linked": linked, "orphans": alone, "problems": lost})
        return
    print(f"{count(memories, 'memory')}, {count(len(triples), 'link')}, {count(len(relations), 'relation')}")
    if top:
        print()
        rows = [[plain(path), str(into[path]), str(out[path]), _label(vault, path)] for path in top]
        print_table(("most linked", "in", "out", "title"), rows)
        print(f"\n{paint('relations', 'dim')}")
        for relation, number in relations.most_common(RELATIONS):
            print(f"{number:>5,}  {phrase(relation)}")
        if len(relations) > RELATIONS:
            print(paint(f"       … and {len(relations) - RELATIONS:,} more", "dim"))
    if lost or alone:
        print()
    if lost:
        lead = "leads" if lost == 1 else "lead"
        print(plain(addressed(f"{count(lost, 'link')} {lead} nowhere, or to several; see `memfs check`", named)))
    if alone:
        have = "has" if alone == 1 else "have"
        print(plain(addressed(f"{count(alone, 'memory')} {have} no links; see `memfs graph --orphans`", named)))


def _orphans(graph: Graph, form: str) -> int:
    found = graph.orphans()
    if form == "json":
        print_json([_node(graph, path) for path in found])
    elif found:
        print(*(plain(path) for path in found), sep="\n")
    else:
        print("every memory has a link", file=sys.stderr)
    return 0 if found else 1


# --- around one memory --------------------------------------------------------------------------------


def _around(vault: Vault, graph: Graph, args: argparse.Namespace, form: str, ref: str) -> int:
    """What a memory says, and what is said of it; further away a line a memory."""
    near = graph.neighbours(ref, args.depth, as_of=args.as_of, relation=args.relation)
    out = graph.triples(ref, args.relation, as_of=args.as_of)
    into = graph.triples(None, args.relation, ref, as_of=args.as_of)
    further = [one.via for one in near if one.distance > 1]
    if form == "json":
        memories = [{**_node(graph, one.path), "distance": one.distance} for one in near]
        triples = [triple_facts(one) for one in (*out, *into, *further)]
        unknown = [triple_facts(one) for one in graph.unknown(ref, args.relation, as_of=args.as_of)]
        print_json({**_node(graph, ref), "triples": triples, "unknown": unknown, "memories": memories})
    elif form != "text":
        _draw([*out, *into, *further], graph, form)
    else:
        below: dict[str, list[Line]] = defaultdict(list)
        below[ref] = [*_lines(out, ref), *_lines(into, ref)]
        below[ref].sort(key=lambda line: (line[1].relation in LOOSE, line[0] == "←"))
        for one in near:
            if one.distance > 1:
                below[one.via.other(one.path)] += _lines([one.via], one.via.other(one.path))
        _print_tree(vault, ref, below, None if args.as_of else datetime.now(UTC))
        links = f"{count(len(out), 'link')} out, {len(into):,} in"
        more = f"; {count(len(near), 'memory')} up to {args.depth} links away" if args.depth > 1 else ""
        print("\n" + paint(links + more, "dim"))
    return 0 if out or into else 1


def _lines(triples: Iterable[Triple], here: str) -> Iterator[Line]:
    """Each thing that is said once, seen from a memory."""
    once: dict[tuple[str, str, str], Triple] = {}
    for triple in triples:
        once.setdefault((triple.subject, triple.relation, triple.object), triple)
    for triple in once.values():
        yield "→" if triple.subject == here else "←", triple, triple.other(here)


def _print_tree(vault: Vault, root: str, below: Mapping[str, list[Line]], now: datetime | None) -> None:
    """Print a memory, and below each what is below it; without recursion, for a chain of memories may be long."""
    print(f"{paint(plain(root), 'bold')}  {_label(vault, root)}")
    told, waiting = {root}, _rows(below.get(root, []), "")
    while waiting:
        indent, is_last, rooms, line = waiting.pop()
        start = indent + ("└── " if is_last else "├── ")
        if isinstance(line, str):
            print(paint(start + line, "dim"))
            continue
        print(_leaf(vault, start, line, rooms, now))
        if line[2] not in told:
            told.add(line[2])
            waiting += _rows(below.get(line[2], []), indent + ("    " if is_last else "│   "))


def _rows(lines: Sequence[Line], indent: str) -> list[Row]:
    """What is printed below one memory, the last first."""
    rooms = [max((width(text) for text in texts), default=0) for texts in _columns(lines[:MOST])]
    rows: list[Row] = [(indent, line is lines[-1], rooms, line) for line in lines[:MOST]]
    if hidden := len(lines) - len(rows):
        rows.append((indent, True, rooms, f"… and {hidden:,} more; --json has all"))
    return rows[::-1]


def _columns(lines: Sequence[Line]) -> tuple[list[str], list[str]]:
    return [phrase(line[1].relation) for line in lines], [plain(line[2]) for line in lines]


def _leaf(vault: Vault, start: str, line: Line, rooms: Sequence[int], now: datetime | None) -> str:
    """One link's line, cut to the terminal."""
    arrow, triple, path = line
    relation, name = pad(phrase(triple.relation), rooms[0]), pad(plain(path), rooms[1])
    note = f" ({phrase(triple.note)})" if triple.note else ""
    when = f" [{text}]" if now and (text := when_of(triple, now)) else ""
    total = columns()
    head = f"{start}{arrow} {relation}  {name}"
    left = None if total is None else total - width(head) - 2
    if left is not None and left < 8:
        return cut(f"{start}{arrow} {relation}  {plain(path)}", total)
    rest = cut(f"{_label(vault, path)}{note}{when}", left)
    return f"{start}{arrow} {paint(relation, 'magenta')}  {name}  {paint(rest, 'dim')}".rstrip()


def when_of(triple: Triple, now: datetime) -> str:
    """Since or until when something holds that does not hold now, in words."""
    if not triple.in_force:
        return "deprecated"
    if triple.until and triple.until < now:
        return f"until {triple.until:%Y-%m-%d}"
    return f"from {triple.since:%Y-%m-%d}" if triple.since and triple.since > now else ""


# --- from one to another ------------------------------------------------------------------------------


def _way(vault: Vault, graph: Graph, args: argparse.Namespace, form: str, start: str, end: str) -> int:
    way = graph.path(start, end, as_of=args.as_of, relation=args.relation)
    if form == "json":
        triples = None if way is None else [triple_facts(one) for one in way]
        distance = None if way is None else len(way)
        print_json({"from": start, "to": end, "distance": distance, "triples": triples})
    elif form != "text":
        _draw(way or [], graph, form)
    elif way is None:
        print(f"no way from {plain(start)} to {plain(end)}", file=sys.stderr)
    else:
        print(f"{paint(plain(start), 'bold')}  {_label(vault, start)}")
        lines: list[Line] = []
        here = start
        for triple in way:
            lines += _lines([triple], here)
            here = triple.other(here)
        rooms = [max((width(text) for text in texts), default=0) for texts in _columns(lines)]
        for line in lines:
            print(_leaf(vault, "  ", line, rooms, None if args.as_of else datetime.now(UTC)))
        print("\n" + paint(count(len(way), "link"), "dim"))
    return 1 if way is None else 0


# --- what is printed ----------------------------------------------------------------------------------


def triple_facts(triple: Triple) -> dict[str, Any]:
    """What there is to know of a triple."""
    return {name: getattr(triple, name) for name in FACTS}


def _node(graph: Graph, path: str) -> dict[str, str]:
    return graph.nodes[path]._asdict()


def _label(vault: Vault, path: str) -> str:
    """What a memory is about; nothing of one that went away meanwhile."""
    try:
        return label(vault.read(path))
    except MemfsError:
        return ""


def _said(triple: Triple) -> str:
    return phrase(f"{triple.relation} ({triple.note})" if triple.note else triple.relation)


def _draw(triples: Sequence[Triple], graph: Graph, form: str) -> None:
    from memfs.cli import graph_diagram

    print((graph_diagram.dot if form == "dot" else graph_diagram.mermaid)(triples, graph.nodes))
