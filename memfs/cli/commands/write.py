"""Commands that change memories: add, append, update, move, forget, remove, restore."""

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from memfs.cli.inputs import at_terminal, header_keys, namespace_of, open_vault, reference, text_of
from memfs.cli.output import (
    Progress,
    count,
    is_seen,
    label,
    plain,
    print_json,
    print_written,
    settle_output,
    written_facts,
)
from memfs.cli.parser import usage
from memfs.data_types import Memory, Written
from memfs.errors import AggregateMemoryError, MemfsError
from memfs.format.edit import distinct_tags
from memfs.namespace import fold
from memfs.vault.vault import Vault

T = TypeVar("T")
DOCUMENTS = frozenset("csv doc docx htm html json markdown mdx odt org pdf rst text txt yaml yml".split())  # endings


def run_add(args: argparse.Namespace) -> int:
    """Add a memory."""
    keys = header_keys(args.set)
    given = {"type": args.type, "tags": distinct_tags(args.tag), "title": args.title, "importance": args.importance}
    keys |= {key: value for key, value in given.items() if value}
    with open_vault(args.vault) as vault:
        where = namespace_of(vault, args.namespace)
        written = vault.add(text_of(args.text), where, header=keys)
        print_written(written, as_json=args.json)
        if written.outcome == "duplicate" and not args.json:
            _print_kept(vault.read(written.path), keys)
    return 0


def _print_kept(memory: Memory, keys: Mapping[str, Any]) -> None:
    """Say which of the keys that were given with a text that is there already are not as given."""
    kept = sorted(key for key, value in keys.items() if not _has(memory, key, value))
    if kept:
        stay, them = ("stays as it is", "it") if len(kept) == 1 else ("stay as they are", "them")
        settle_output()
        way = f"`memfs update {shlex.quote(memory.path)}` changes {them}"
        print(f"note: its {plain(' and '.join(kept))} {stay}; {plain(way)}", file=sys.stderr)


def _has(memory: Memory, key: str, value: Any) -> bool:
    if key == "tags":
        return {fold(tag) for tag in value} <= {fold(tag) for tag in memory.header.tags}
    return bool(memory.header.get(key, getattr(memory.header, key, None)) == value)


def run_append(args: argparse.Namespace) -> int:
    """Add lines to a memory."""
    with open_vault(args.vault) as vault:
        print_written(vault.append(reference(vault, args.ref), text_of(args.text)), as_json=args.json)
    return 0


def run_update(args: argparse.Namespace) -> int:
    """Change a memory's header keys, tags or body."""
    keys = header_keys(args.set) | dict.fromkeys(header_keys((key, "") for key in args.unset))
    if not (keys or args.tag or args.untag) and args.body is None:
        raise usage("update", "nothing to change: give --set, --unset, --tag, --untag or --body")
    body = None if args.body is None else text_of([args.body])
    with open_vault(args.vault) as vault:
        ref = reference(vault, args.ref)
        written = vault.update(ref, body=body, add_tags=args.tag, remove_tags=args.untag, seen=args.seen, header=keys)
        print_written(written, as_json=args.json)
    return 0


def run_move(args: argparse.Namespace) -> int:
    """Move a memory."""
    with open_vault(args.vault) as vault:
        to = namespace_of(vault, args.to) or "/"
        _refuse_file_name(vault, to)
        before = vault.read(reference(vault, args.ref))
        written = vault.move(before.path, to)
        print_written(written, as_json=args.json)
        if is_seen() and not args.json and written.path != before.path:
            _print_left_behind(vault, before.path)
    return 0


def _refuse_file_name(vault: Vault, to: str) -> None:
    """What looks like a file of another kind is not taken for a namespace, unless it is one."""
    name, dot, ending = to.rpartition("/")[2].rpartition(".")
    if dot and ending.lower() in DOCUMENTS and not (vault.root / to.strip("/")).is_dir():
        hint = f"Name it {name}.md, or, if it is to be a namespace, {name}.{ending}/ with a slash."
        raise usage("move", f"{to!r}: the name of a memory ends in .md", hint)


def _print_left_behind(vault: Vault, old: str) -> None:
    """Tell a person, who can wait for it, how many links lead to where the memory was."""
    from memfs.upkeep.link_graph import Graph

    with Progress("looked for links in", doing="reading memories") as progress:
        problems = Graph.of(vault, progress=progress).problems()
    gone = fold(old.removesuffix(".md"))
    if number := sum(fold(problem.value.removesuffix(".md")) == gone for problem in problems):
        names, them = ("names", "it") if number == 1 else ("name", "them")
        settle_output()
        print(f"note: {count(number, 'link')} {names} the old path; `memfs check` shows {them}", file=sys.stderr)


def run_restore(args: argparse.Namespace) -> int:
    """Bring a kept version back."""
    if args.list:
        from memfs.cli.commands.read import run_versions

        return run_versions(args)
    with open_vault(args.vault) as vault:
        print_written(vault.restore(reference(vault, args.ref), args.version), as_json=args.json)
    return 0


def run_forget(args: argparse.Namespace) -> int:
    """Move memories to the archive."""
    with open_vault(args.vault) as vault:
        return _each([reference(vault, ref) for ref in args.refs], vault.forget, as_json=args.json)


def run_remove(args: argparse.Namespace) -> int:
    """Delete memories, once a person said yes to those that were shown."""
    with open_vault(args.vault) as vault:
        refs = [reference(vault, ref) for ref in args.refs]
        if args.yes:
            return _each(refs, vault.remove, as_json=args.json)
        if not at_terminal():
            raise usage("remove", "deletes for good, and there is no terminal to ask at", "Repeat with --yes.")
        memories, errors = _tried(refs, vault.read)
        if memories and not _confirmed(memories):
            print("nothing was removed", file=sys.stderr)
            return 1
        seen = {memory.path: memory.stamp for memory in memories}
        done, failed = _tried(list(seen), lambda path: vault.remove(path, seen=seen[path]))
        return _tell(done, [*errors, *failed], as_json=args.json)


def _confirmed(memories: Sequence[Memory]) -> bool:
    """Show what would go, and ask."""
    for memory in memories:
        print(f"{plain(memory.path)}  {label(memory)}", file=sys.stderr)
    what = count(len(memories), "memory")
    try:
        print(f"Delete {what} with all kept versions? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    except KeyboardInterrupt:
        print(file=sys.stderr)  # what the shell says next is no part of the question
        raise


def _each(refs: Sequence[str], action: Callable[[str], Written], *, as_json: bool) -> int:
    """Do every one; what fails stops no other and is told at the end."""
    return _tell(*_tried(refs, action), as_json=as_json)


def _tried(refs: Sequence[str], action: Callable[[str], T]) -> tuple[list[T], list[MemfsError]]:
    """What came of every one, and what failed."""
    done: list[T] = []
    errors: list[MemfsError] = []
    for ref in dict.fromkeys(refs):
        try:
            done.append(action(ref))
        except MemfsError as error:
            errors.append(error)
    return done, errors


def _tell(done: Sequence[Written], errors: Sequence[MemfsError], *, as_json: bool) -> int:
    if as_json:
        print_json([written_facts(written) for written in done])
    else:
        for written in done:
            print_written(written, as_json=False)
    if errors:
        raise AggregateMemoryError(f"{len(errors)} of {len(done) + len(errors)} failed", errors)
    return 0
