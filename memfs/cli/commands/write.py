"""The commands that change memories: `add`, `append`, `update`, `move`, `forget`, `remove` and `restore`."""

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from memfs.cli.inputs import (
    is_stdin_terminal,
    normalize_ref,
    open_vault,
    parse_header_keys,
    render_namespace,
    text_argument,
)
from memfs.cli.output import (
    Progress,
    count,
    flush_stdout,
    is_stderr_terminal,
    label,
    print_json,
    print_written,
    safe_text,
)
from memfs.cli.parser import usage_error
from memfs.data_types import Memory, Written
from memfs.errors import AggregateMemoryError, MemfsError
from memfs.format.edit import distinct_tags
from memfs.json_output import written_json
from memfs.namespace import fold
from memfs.vault.vault import Vault

T = TypeVar("T")
FILE_EXTENSIONS = frozenset("csv doc docx htm html json markdown mdx odt org pdf rst text txt yaml yml".split())


def run_add(args: argparse.Namespace) -> int:
    """Add a memory."""
    keys = parse_header_keys(args.set)
    options = {"type": args.type, "tags": distinct_tags(args.tag), "title": args.title, "importance": args.importance}
    keys |= {key: value for key, value in options.items() if value}
    with open_vault(args.vault) as vault:
        namespace = render_namespace(vault, args.namespace)
        written = vault.add(text_argument(args.text), namespace, header=keys)
        print_written(written, as_json=args.json)
        if written.outcome == "duplicate" and not args.json:
            _print_unchanged_keys(vault.read(written.path), keys)
    return 0


def _print_unchanged_keys(memory: Memory, keys: Mapping[str, Any]) -> None:
    """Print which of the given keys were not set, because a memory with other values already has the text."""
    unchanged = sorted(key for key, value in keys.items() if not _has(memory, key, value))
    if unchanged:
        verb, them = ("was", "it") if len(unchanged) == 1 else ("were", "them")
        flush_stdout()
        hint = f"`memfs update {shlex.quote(memory.path)}` changes {them}"
        print(f"note: its {safe_text(' and '.join(unchanged))} {verb} not changed; {safe_text(hint)}", file=sys.stderr)


def _has(memory: Memory, key: str, value: Any) -> bool:
    """Return whether a header key has a value; for tags, whether all of them are there."""
    if key == "tags":
        return {fold(tag) for tag in value} <= {fold(tag) for tag in memory.header.tags}
    return bool(memory.header.get(key, getattr(memory.header, key, None)) == value)


def run_append(args: argparse.Namespace) -> int:
    """Add lines to a memory."""
    with open_vault(args.vault) as vault:
        print_written(vault.append(normalize_ref(vault, args.ref), text_argument(args.text)), as_json=args.json)
    return 0


def run_update(args: argparse.Namespace) -> int:
    """Change a memory's header keys, tags or body."""
    keys = parse_header_keys(args.set) | dict.fromkeys(parse_header_keys((key, "") for key in args.unset))
    if not (keys or args.tag or args.untag) and args.body is None:
        raise usage_error("update", "nothing to change: give --set, --unset, --tag, --untag or --body")
    body = None if args.body is None else text_argument([args.body])
    with open_vault(args.vault) as vault:
        ref = normalize_ref(vault, args.ref)
        written = vault.update(ref, body=body, add_tags=args.tag, remove_tags=args.untag, seen=args.seen, header=keys)
        print_written(written, as_json=args.json)
    return 0


def run_move(args: argparse.Namespace) -> int:
    """Move a memory."""
    with open_vault(args.vault) as vault:
        to = render_namespace(vault, args.to) or "/"
        _refuse_file_name(vault, to)
        before = vault.read(normalize_ref(vault, args.ref))
        written = vault.move(before.path, to)
        print_written(written, as_json=args.json)
        if is_stderr_terminal() and not args.json and written.path != before.path:
            _print_stale_links(vault, before.path)
    return 0


def _refuse_file_name(vault: Vault, to: str) -> None:
    """Raise a usage error for a target that looks like a file of another kind, unless it is a namespace."""
    name, dot, extension = to.rpartition("/")[2].rpartition(".")
    if dot and extension.lower() in FILE_EXTENSIONS and not (vault.root / to.strip("/")).is_dir():
        hint = f"Name it {name}.md; for a namespace, write {name}.{extension}/ with a slash."
        raise usage_error("move", f"{to!r}: the name of a memory ends in .md", hint)


def _print_stale_links(vault: Vault, old_path: str) -> None:
    """Print how many links still have the old path of a moved memory; slow, so only at a terminal."""
    from memfs.upkeep.link_graph import Graph

    with Progress("looked for links in", activity="reading memories") as progress:
        problems = Graph.of(vault, progress=progress).problems()
    old_name = fold(old_path.removesuffix(".md"))
    if number := sum(fold(problem.value.removesuffix(".md")) == old_name for problem in problems):
        verb, them = ("has", "it") if number == 1 else ("have", "them")
        flush_stdout()
        print(f"note: {count(number, 'link')} {verb} the old path; `memfs check` shows {them}", file=sys.stderr)


def run_restore(args: argparse.Namespace) -> int:
    """Restore a kept version, or list the kept versions."""
    if args.list:
        from memfs.cli.commands.read import run_versions

        return run_versions(args)
    with open_vault(args.vault) as vault:
        print_written(vault.restore(normalize_ref(vault, args.ref), args.version), as_json=args.json)
    return 0


def run_forget(args: argparse.Namespace) -> int:
    """Move memories to the archive."""
    with open_vault(args.vault) as vault:
        return _run_each([normalize_ref(vault, ref) for ref in args.refs], vault.forget, as_json=args.json)


def run_remove(args: argparse.Namespace) -> int:
    """Delete memories; without --yes, show them and ask first."""
    with open_vault(args.vault) as vault:
        refs = [normalize_ref(vault, ref) for ref in args.refs]
        if args.yes:
            return _run_each(refs, vault.remove, as_json=args.json)
        if not is_stdin_terminal():
            raise usage_error(
                "remove", "deletes for good, and there is no terminal to confirm at", "Repeat with --yes."
            )
        memories, unreadable = _try_each(refs, vault.read)
        if memories and not _is_confirmed(memories):
            print("nothing was removed", file=sys.stderr)
            return 1
        seen = {memory.path: memory.stamp for memory in memories}
        done, failed = _try_each(list(seen), lambda path: vault.remove(path, seen=seen[path]))
        return _print_results(done, [*unreadable, *failed], as_json=args.json)


def _is_confirmed(memories: Sequence[Memory]) -> bool:
    """Print the memories to delete, ask at the terminal, and return whether the answer is yes."""
    for memory in memories:
        print(f"{safe_text(memory.path)}  {label(memory)}", file=sys.stderr)
    memories_text = count(len(memories), "memory")
    try:
        print(f"Delete {memories_text} with all kept versions? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    except KeyboardInterrupt:
        print(file=sys.stderr)  # so that the prompt of the shell starts a new line
        raise


def _run_each(refs: Sequence[str], action: Callable[[str], Written], *, as_json: bool) -> int:
    """Run an action on each ref, also after a failure; print the results, then raise the errors together."""
    return _print_results(*_try_each(refs, action), as_json=as_json)


def _try_each(refs: Sequence[str], action: Callable[[str], T]) -> tuple[list[T], list[MemfsError]]:
    """Return the results of an action on each distinct ref, and the errors of those that failed."""
    done: list[T] = []
    errors: list[MemfsError] = []
    for ref in dict.fromkeys(refs):
        try:
            done.append(action(ref))
        except MemfsError as error:
            errors.append(error)
    return done, errors


def _print_results(done: Sequence[Written], errors: Sequence[MemfsError], *, as_json: bool) -> int:
    """Print the results, then raise the errors together; return 0 if there are none."""
    if as_json:
        print_json([written_json(written) for written in done])
    else:
        for written in done:
            print_written(written, as_json=False)
    if errors:
        raise AggregateMemoryError(f"{len(errors)} of {len(done) + len(errors)} failed", errors)
    return 0
