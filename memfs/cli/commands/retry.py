"""The command `retry`: turns that agents have not saved yet, failed or pending."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from memfs.agent.extraction_queue.failed_batches import FailedBatch, drop, list_failed, retry
from memfs.agent.extraction_queue.pending_log import PendingSummary, list_pending
from memfs.agent.messages import text_of
from memfs.cli.inputs import open_vault
from memfs.cli.output import count, print_json, print_table, safe_text
from memfs.cli.parser import usage_error, with_vault_option
from memfs.errors import MemoryNotFoundError

Entry = TypeVar("Entry", bound=FailedBatch | PendingSummary)
_MAX_TIMESTAMP = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def run_retry(args: argparse.Namespace) -> int:
    """List failed batches and pending logs; retry failed batches, or drop either."""
    if args.drop and not args.all and not args.batches:
        raise usage_error("retry", "--drop needs a BATCH, or --all")
    with open_vault(args.vault) as vault:
        failed, pending = list_failed(vault.root), list_pending(vault.root)
        chosen: list[FailedBatch | PendingSummary] = []
        if args.drop:
            chosen += failed if args.all else _select([*failed, *pending], args.batches)
            for entry in chosen:
                drop(vault.root, entry)
        else:
            again = failed if args.all else _select(failed, args.batches)
            for failure in again:
                retry(vault.root, failure)
            chosen += again
    if args.json:
        print_json(_entries_json(chosen if args.all or args.batches else [*failed, *pending]))
    elif chosen:
        done = "dropped" if args.drop else "put back: the next agent on this vault retries them"
        print(f"{count(len(chosen), 'batch')} {done}")
    else:
        if args.all and pending:
            print(f"No batch failed: nothing was {'dropped' if args.drop else 'put back'}. Pending:")
        _show(failed, pending, args.vault)
    return 0


def _select(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    """Return the entries of these names; the start of a name is enough if it is unique."""
    chosen = {}
    for name in names:
        found = [one for one in entries if name and one.name.startswith(name)]
        found = [one for one in found if one.name.removesuffix(".json") == name] or found
        if len(found) != 1:
            error = MemoryNotFoundError(name)
            error.template = "{0!r}: more than one batch begins with this" if found else "{0!r}: no such batch"
            error.hint = "See which there are with `memfs retry`; a pending log needs no retry, and can be dropped."
            raise error
        chosen[found[0].name] = found[0]
    return list(chosen.values())


def _show(failed: Sequence[FailedBatch], pending: Sequence[PendingSummary], vault_option: str | None) -> None:
    if not failed and not pending:
        print("nothing to retry")
    if failed:
        rows = [
            [
                failure.name.removesuffix(".json"),
                _time_text(failure),
                safe_text(failure.store),
                count(len(failure.messages), "message"),
                safe_text(failure.reason),
            ]
            for failure in failed
        ]
        print_table(["batch", "time", "store", "size", "reason"], rows)
        hint = "`memfs retry BATCH` lets the next agent on this vault retry one, `memfs retry --all` all."
        print(safe_text(with_vault_option(hint, vault_option)))
    if failed and pending:
        print()
    if pending:
        rows = [
            [
                safe_text(one.name),
                _time_text(one),
                f"{count(one.turns, 'turn')}, {count(one.facts, 'fact')}",
                safe_text(", ".join(one.stores)) or "unknown",
            ]
            for one in pending
        ]
        print_table(["pending", "time", "size", "stores"], rows)
        hint = "The next agent with these stores saves them; `memfs retry --drop PENDING` drops one."
        print(safe_text(with_vault_option(hint, vault_option)))


def _entries_json(entries: Sequence[FailedBatch | PendingSummary]) -> dict[str, Any]:
    return {
        "failed": [_failed_json(one) for one in entries if isinstance(one, FailedBatch)],
        "pending": [_pending_json(one) for one in entries if isinstance(one, PendingSummary)],
    }


def _failed_json(failure: FailedBatch) -> dict[str, Any]:
    texts = [{"role": message.get("role"), "text": text_of(message)} for message in failure.messages]
    return {
        "name": failure.name, "time": _time(failure), "store": failure.store, "reason": failure.reason,
        "messages": texts,
    }  # fmt: skip


def _pending_json(one: PendingSummary) -> dict[str, Any]:
    return {"name": one.name, "time": _time(one), "stores": one.stores, "turns": one.turns, "facts": one.facts}


def _time_text(entry: FailedBatch | PendingSummary) -> str:
    return f"{_time(entry):%Y-%m-%d %H:%M:%S}Z"


def _time(entry: FailedBatch | PendingSummary) -> datetime:
    """Return the time of an entry to the second; a time out of range becomes the first or the last possible one."""
    return datetime.fromtimestamp(int(min(max(0.0, entry.time), _MAX_TIMESTAMP)), UTC)
