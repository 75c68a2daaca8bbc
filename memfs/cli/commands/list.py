"""Listing memories: list, as a tree, a table or paths."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby

from memfs.cli.inputs import NOWHERE, is_there, namespace_of, open_vault
from memfs.cli.output import (
    Progress,
    columns,
    count,
    cut,
    label,
    memory_facts,
    pad,
    paint,
    plain,
    print_json,
    print_table,
    width,
)
from memfs.cli.parser import addressed, usage
from memfs.data_types import Memory
from memfs.namespace import ARCHIVE, Namespace
from memfs.protocols import system_clock
from memfs.query.filters import Filter

Placed = tuple[tuple[str, ...], Memory]


def run_list(args: argparse.Namespace) -> int:
    """List memories by path; nothing found is exit code 1."""
    if args.tree + args.table + args.paths > 1:
        raise usage("list", "--tree, --table and --paths exclude each other")
    with open_vault(args.vault) as vault:
        where = namespace_of(vault, args.namespace)
        with Progress(doing="reading memories"):
            found = vault.list(where, archived=args.archived)
            if args.type or args.tag:
                chosen = Filter.make(None, scope=Namespace(), type=args.type, tags=args.tag, include="all")
                found = [memory for memory in found if chosen.matches(memory, system_clock())]
        is_nowhere = not found and not is_there(vault, where or "/")
    if args.json:
        print_json([memory_facts(memory) for memory in found[: args.limit]])
    elif not found:
        print(f"no memories in {plain(where or '/')}", file=sys.stderr)
        if is_nowhere:
            print(f"hint: {addressed(NOWHERE, args.vault)}", file=sys.stderr)
        elif args.type or args.tag:
            print("hint: Leave out --type or --tag.", file=sys.stderr)
    else:
        _print(args, found, where or "/")
    return 0 if found else 1


def _print(args: argparse.Namespace, found: Sequence[Memory], where: str) -> None:
    shown = found[: args.limit]
    if args.paths:
        print(*(plain(memory.path) for memory in shown), sep="\n")
        return
    if args.table:
        print_table(("path", "type", "updated", "importance", "title"), [_row(memory) for memory in shown])
    else:
        _print_tree(shown, found, where)
    left_out = len(found) - len(shown)
    print("\n" + paint(count(len(found), "memory") + (f", {left_out:,} not shown" if left_out else ""), "dim"))


def _row(memory: Memory) -> list[str]:
    header = memory.header
    return [plain(memory.path), plain(header.type), f"{memory.updated:%Y-%m-%d}", str(header.importance), label(memory)]


def _print_tree(memories: Sequence[Memory], found: Sequence[Memory], where: str) -> None:
    """Print namespaces with the number of memories found in them, and memories with their titles."""
    depth = len(Namespace.parse(where).segments)
    placed = [(tuple(memory.path.split("/")), memory) for memory in memories]
    if any(segments[0] == ARCHIVE for segments, _ in placed) and Namespace.parse(where).segments[:1] != (ARCHIVE,):
        depth = 0
    top = placed[0][0][:depth]
    print(_namespace("/" + "/".join(top), len(found)))
    totals = Counter(above for memory in found for above in accumulate(memory.path.split("/")[:-1], "{}/{}".format))
    _print_branches([(segments[depth:], memory) for segments, memory in placed], "", top, totals)


def _print_branches(placed: Sequence[Placed], indent: str, above: tuple[str, ...], totals: Mapping[str, int]) -> None:
    """Print the memories of a namespace, then the namespaces in it."""
    leaves = [(segments[0], memory) for segments, memory in placed if len(segments) == 1]
    below = [item for item in placed if len(item[0]) > 1]
    branches = [(name, list(items)) for name, items in groupby(below, key=lambda item: item[0][0])]
    room = max((width(plain(name)) for name, _ in leaves), default=0)
    for number, (name, memory) in enumerate(leaves, 1):
        print(_leaf(indent + _branch(is_last=number == len(leaves) and not branches), plain(name), label(memory), room))
    for number, (name, items) in enumerate(branches, 1):
        is_last = number == len(branches)
        here = (*above, name)
        print(indent + _branch(is_last=is_last) + _namespace(name, totals["/".join(here)]))
        further = indent + ("    " if is_last else "│   ")
        _print_branches([(segments[1:], memory) for segments, memory in items], further, here, totals)


def _branch(*, is_last: bool) -> str:
    return "└── " if is_last else "├── "


def _namespace(name: str, number: int) -> str:
    return f"{paint(plain(name), 'blue')} ({number:,})"


def _leaf(start: str, name: str, title: str, room: int) -> str:
    """One memory's line, cut to the terminal."""
    total = columns()
    left = None if total is None else total - len(start) - room - 2
    if left is not None and left < 8:
        return start + cut(name, total and total - len(start))
    return f"{start}{pad(name, room)}  {paint(cut(title, left), 'dim')}".rstrip()
