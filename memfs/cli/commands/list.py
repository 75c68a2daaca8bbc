"""The command `list`: memories as a tree, a table or paths."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby

from memfs.cli.inputs import NO_SUCH_NAMESPACE, has_namespace, open_vault, render_namespace
from memfs.cli.output import (
    Progress,
    count,
    display_width,
    label,
    pad,
    paint,
    print_json,
    print_table,
    safe_text,
    terminal_width,
    truncate,
)
from memfs.cli.parser import usage_error, with_vault_option
from memfs.data_types import Memory
from memfs.json_output import memory_json
from memfs.namespace import ARCHIVE, Namespace
from memfs.protocols import system_clock
from memfs.query.filters import Filter

Entry = tuple[tuple[str, ...], Memory]  # the segments of the path below the printed namespace


def run_list(args: argparse.Namespace) -> int:
    """List memories by path; the exit code is 1 if there are none."""
    if args.tree + args.table + args.paths > 1:
        raise usage_error("list", "--tree, --table and --paths exclude each other")
    with open_vault(args.vault) as vault:
        namespace = render_namespace(vault, args.namespace)
        with Progress(activity="reading memories"):
            found = vault.list(namespace, archived=args.archived)
            if args.type or args.tag:
                filters = Filter.make(None, scope=Namespace(), type=args.type, tags=args.tag, include="all")
                found = [memory for memory in found if filters.matches(memory, system_clock())]
        is_missing = not found and not has_namespace(vault, namespace or "/")
    if args.json:
        print_json([memory_json(memory) for memory in found[: args.limit]])
    elif not found:
        print(f"no memories in {safe_text(namespace or '/')}", file=sys.stderr)
        if is_missing:
            print(f"hint: {with_vault_option(NO_SUCH_NAMESPACE, args.vault)}", file=sys.stderr)
        elif args.type or args.tag:
            print("hint: Leave out --type or --tag.", file=sys.stderr)
    else:
        _print(args, found, namespace or "/")
    return 0 if found else 1


def _print(args: argparse.Namespace, found: Sequence[Memory], namespace: str) -> None:
    shown = found[: args.limit]
    if args.paths:
        print(*(safe_text(memory.path) for memory in shown), sep="\n")
        return
    if args.table:
        print_table(("path", "type", "updated", "importance", "title"), [_row(memory) for memory in shown])
    else:
        _print_tree(shown, found, namespace)
    hidden = len(found) - len(shown)
    print("\n" + paint(count(len(found), "memory") + (f", {hidden:,} not shown" if hidden else ""), "dim"))


def _row(memory: Memory) -> list[str]:
    header = memory.header
    return [
        safe_text(memory.path),
        safe_text(header.type),
        f"{memory.updated:%Y-%m-%d}",
        str(header.importance),
        label(memory),
    ]


def _print_tree(shown: Sequence[Memory], found: Sequence[Memory], namespace: str) -> None:
    """Print namespaces with the number of memories found in them, and the shown memories with their titles."""
    depth = len(Namespace.parse(namespace).segments)
    entries = [(tuple(memory.path.split("/")), memory) for memory in shown]
    if any(segments[0] == ARCHIVE for segments, _ in entries) and Namespace.parse(namespace).segments[:1] != (ARCHIVE,):
        depth = 0  # archived memories of the namespace are in another branch: print the tree of the whole vault
    top = entries[0][0][:depth]
    print(_namespace("/" + "/".join(top), len(found)))
    totals = Counter(parent for memory in found for parent in accumulate(memory.path.split("/")[:-1], "{}/{}".format))
    _print_branches([(segments[depth:], memory) for segments, memory in entries], "", top, totals)


def _print_branches(entries: Sequence[Entry], indent: str, parents: tuple[str, ...], totals: Mapping[str, int]) -> None:
    """Print the memories of a namespace, then its child namespaces."""
    leaves = [(segments[0], memory) for segments, memory in entries if len(segments) == 1]
    deeper = [item for item in entries if len(item[0]) > 1]
    branches = [(name, list(items)) for name, items in groupby(deeper, key=lambda item: item[0][0])]
    name_width = max((display_width(safe_text(name)) for name, _ in leaves), default=0)
    for number, (name, memory) in enumerate(leaves, 1):
        print(
            _leaf(
                indent + _connector(is_last=number == len(leaves) and not branches),
                safe_text(name),
                label(memory),
                name_width,
            )
        )
    for number, (name, items) in enumerate(branches, 1):
        is_last = number == len(branches)
        here = (*parents, name)
        print(indent + _connector(is_last=is_last) + _namespace(name, totals["/".join(here)]))
        child_indent = indent + ("    " if is_last else "│   ")
        _print_branches([(segments[1:], memory) for segments, memory in items], child_indent, here, totals)


def _connector(*, is_last: bool) -> str:
    return "└── " if is_last else "├── "


def _namespace(name: str, number: int) -> str:
    return f"{paint(safe_text(name), 'blue')} ({number:,})"


def _leaf(start: str, name: str, title: str, name_width: int) -> str:
    """Return the line of one memory, cut to the width of the terminal."""
    total = terminal_width()
    remaining = None if total is None else total - len(start) - name_width - 2
    if remaining is not None and remaining < 8:
        return start + truncate(name, total and total - len(start))
    return f"{start}{pad(name, name_width)}  {paint(truncate(title, remaining), 'dim')}".rstrip()
