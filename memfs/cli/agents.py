"""Commands about what agents have yet to save: retry."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memfs.agent.messages import text_of
from memfs.agent.pending import Failure, drop, failures, retry
from memfs.cli.inputs import open_vault
from memfs.cli.output import count, iso, plain, print_json, print_table
from memfs.errors import MemoryNotFoundError


def run_retry(args: argparse.Namespace) -> int:
    """Show the batches that no model made facts of, or have some tried again."""
    with open_vault(args.vault) as vault:
        kept = failures(vault.root)
        chosen = kept if args.all else [_named(kept, name) for name in args.batches]
        for failure in chosen:
            (drop if args.drop else retry)(vault.root, failure)
    if args.json:
        print_json([_facts(failure) for failure in chosen or kept])
    elif chosen:
        done = "dropped" if args.drop else "put back: the next agent on this vault takes them up"
        print(f"{count(len(chosen), 'batch')} {done}")
    else:
        _show(kept)
    return 0


def _named(kept: Sequence[Failure], name: str) -> Failure:
    for failure in kept:
        if failure.name.startswith(name):
            return failure
    error = MemoryNotFoundError(name)
    error.hint = "See which batches there are with `memfs retry`."
    raise error


def _show(kept: Sequence[Failure]) -> None:
    if not kept:
        print("nothing to try again")
        return
    rows = [
        [
            failure.name.removesuffix(".json"),
            iso(datetime.fromtimestamp(failure.time, UTC)),
            plain(failure.store),
            count(len(failure.messages), "message"),
            plain(failure.reason),
        ]
        for failure in kept
    ]
    print_table(["BATCH", "TIME", "STORE", "SIZE", "REASON"], rows)
    print("`memfs retry BATCH` has one tried again by the next agent on this vault, `memfs retry --all` all.")


def _facts(failure: Failure) -> dict[str, Any]:
    texts = [{"role": message.get("role"), "text": text_of(message)} for message in failure.messages]
    time = datetime.fromtimestamp(failure.time, UTC)
    return {"name": failure.name, "time": time, "store": failure.store, "reason": failure.reason, "messages": texts}
