"""Commands about what agents have yet to save: retry."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from memfs.agent.extraction_queue.pending_log import Failure, Waiting, drop, failures, retry, waiting
from memfs.agent.messages import text_of
from memfs.cli.inputs import open_vault
from memfs.cli.output import count, plain, print_json, print_table
from memfs.cli.parser import addressed, usage
from memfs.errors import MemoryNotFoundError

Kept = TypeVar("Kept", bound=Failure | Waiting)
_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def run_retry(args: argparse.Namespace) -> int:
    """Show the batches that no model made facts of, and what is pending; have some tried again, or give them up."""
    if args.drop and not args.all and not args.batches:
        raise usage("retry", "--drop gives up what is named: a BATCH, or --all")
    with open_vault(args.vault) as vault:
        failed, pending = failures(vault.root), waiting(vault.root)
        chosen: list[Failure | Waiting] = []
        if args.drop:
            chosen += failed if args.all else _named([*failed, *pending], args.batches)
            for kept in chosen:
                drop(vault.root, kept)
        else:
            again = failed if args.all else _named(failed, args.batches)
            for failure in again:
                retry(vault.root, failure)
            chosen += again
    if args.json:
        print_json(_listed(chosen if args.all or args.batches else [*failed, *pending]))
    elif chosen:
        done = "dropped" if args.drop else "put back: the next agent on this vault takes them up"
        print(f"{count(len(chosen), 'batch')} {done}")
    else:
        if args.all and pending:
            print(f"No batch failed: nothing was {'dropped' if args.drop else 'put back'}. What is pending:")
        _show(failed, pending, args.vault)
    return 0


def _named(kept: Sequence[Kept], names: Sequence[str]) -> list[Kept]:
    """What is named, each by the start of its name."""
    chosen = {}
    for name in names:
        found = [one for one in kept if name and one.name.startswith(name)]
        found = [one for one in found if one.name.removesuffix(".json") == name] or found
        if len(found) != 1:
            error = MemoryNotFoundError(name)
            error.template = "{0!r}: more than one batch begins so" if found else "{0!r}: no such batch"
            error.hint = "See which there are with `memfs retry`; what is pending needs no retry, and can be dropped."
            raise error
        chosen[found[0].name] = found[0]
    return list(chosen.values())


def _show(failed: Sequence[Failure], pending: Sequence[Waiting], named: str | None) -> None:
    if not failed and not pending:
        print("nothing to try again")
    if failed:
        rows = [
            [
                failure.name.removesuffix(".json"),
                _when(failure),
                plain(failure.store),
                count(len(failure.messages), "message"),
                plain(failure.reason),
            ]
            for failure in failed
        ]
        print_table(["batch", "time", "store", "size", "reason"], rows)
        way = "`memfs retry BATCH` has one tried again by the next agent on this vault, `memfs retry --all` all."
        print(plain(addressed(way, named)))
    if failed and pending:
        print()
    if pending:
        rows = [
            [
                plain(one.name),
                _when(one),
                f"{count(one.turns, 'turn')}, {count(one.facts, 'fact')}",
                plain(", ".join(one.stores)) or "unknown",
            ]
            for one in pending
        ]
        print_table(["pending", "time", "size", "stores"], rows)
        way = "The next agent with these stores takes them up by itself; `memfs retry --drop PENDING` gives one up."
        print(plain(addressed(way, named)))


def _listed(kept: Sequence[Failure | Waiting]) -> dict[str, Any]:
    return {
        "failed": [_failed_facts(one) for one in kept if isinstance(one, Failure)],
        "pending": [_pending_facts(one) for one in kept if isinstance(one, Waiting)],
    }


def _failed_facts(failure: Failure) -> dict[str, Any]:
    texts = [{"role": message.get("role"), "text": text_of(message)} for message in failure.messages]
    return {
        "name": failure.name, "time": _time(failure), "store": failure.store, "reason": failure.reason,
        "messages": texts,
    }  # fmt: skip


def _pending_facts(one: Waiting) -> dict[str, Any]:
    return {"name": one.name, "time": _time(one), "stores": one.stores, "turns": one.turns, "facts": one.facts}


def _when(kept: Failure | Waiting) -> str:
    return f"{_time(kept):%Y-%m-%d %H:%M:%S}Z"


def _time(kept: Failure | Waiting) -> datetime:
    """When it was kept, to the second; a time that no calendar has is its first or its last."""
    return datetime.fromtimestamp(int(min(max(0.0, kept.time), _LAST)), UTC)
