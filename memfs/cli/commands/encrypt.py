"""Commands for what only some may read: encrypt, decrypt, rotate, keygen."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from memfs.cli.inputs import known_namespace, open_vault, reference
from memfs.cli.output import Progress, count, plain, print_json, print_written, written_facts
from memfs.data_types import Written
from memfs.errors import AggregateMemoryError, MemfsError
from memfs.privacy.field_encryption import IN_GIT, NAMED, OPEN, Encrypted, Encryption
from memfs.privacy.keys import new_key, variable

WAYS = {  # what a person can do about what is left
    NAMED: "with --rename it is called by its id",
    IN_GIT: "docs/encryption.md tells how to rewrite its history",
    OPEN: "what memfs keeps of it goes at the next write after it is closed",
}


def run_encrypt(args: argparse.Namespace) -> int:
    """Encrypt memories, and tell where their texts may be legible still."""
    with open_vault(args.vault) as vault, Progress("encrypted") as progress:
        refs = [*dict.fromkeys(reference(vault, ref) for ref in args.refs)]
        results = Encryption(vault).encrypt_many(
            refs, fields=args.field or ["body"], key=args.key, rename=args.rename, progress=progress
        )
    done = [result for result in results if isinstance(result, Encrypted)]
    _print(done, as_json=args.json)
    sys.stdout.flush()
    if not args.json:
        for note in dict.fromkeys(note for one in done for note in _notes(one)):
            print(f"note: {note}", file=sys.stderr)
    _raise_what_failed(results)
    return 0


def _notes(result: Encrypted) -> list[str]:
    """What is left to do about a memory, in words."""
    return [f"{plain(result.path)}: {left}; {WAYS[left]}" for left in result.left if left != IN_GIT] + [
        f"{left}; {WAYS[left]}" for left in result.left if left == IN_GIT
    ]


def run_decrypt(args: argparse.Namespace) -> int:
    """Decrypt memories; what fails stops no other."""
    results: list[Written | MemfsError] = []
    with open_vault(args.vault) as vault:
        encryption = Encryption(vault)
        for ref in dict.fromkeys(reference(vault, ref) for ref in args.refs):
            try:
                results.append(encryption.decrypt(ref, fields=args.field or None))
            except MemfsError as error:
                results.append(error)
    _print([result for result in results if isinstance(result, Written)], as_json=args.json)
    _raise_what_failed(results)
    return 0


def run_rotate(args: argparse.Namespace) -> int:
    """Encrypt anew, with another key."""
    with open_vault(args.vault) as vault, Progress("rotated") as progress:
        where = known_namespace(vault, args.namespace)
        results = Encryption(vault).rotate(args.old, args.new, where, progress=progress)
    done = [written for written in results if isinstance(written, Written)]
    if args.json:
        print_json({"from": args.old, "to": args.new, "rotated": [written_facts(written) for written in done]})
    else:
        print(f"rotated {count(len(done), 'memory')} from the key {plain(args.old)} to {plain(args.new)}")
    _raise_what_failed(results)
    return 0


def run_keygen(args: argparse.Namespace) -> int:
    """Print a new key, which is kept nowhere."""
    name, key = variable(args.key), new_key()
    if args.json:
        print_json({"key": key, "name": args.key, "variable": name})
        return 0
    print(key, flush=True)
    print(f"Set it with: export {name}=...", file=sys.stderr)
    print("Keep a copy outside the vault: without it, what is encrypted never comes back.", file=sys.stderr)
    return 0


def _print(done: Sequence[Written], *, as_json: bool) -> None:
    if as_json:
        print_json([_facts(written) for written in done])
    else:
        for written in done:
            print_written(written, as_json=False)


def _facts(written: Written) -> dict[str, Any]:
    facts = written_facts(written)
    return facts | {"left": written.left} if isinstance(written, Encrypted) else facts


def _raise_what_failed(results: Sequence[Written | MemfsError]) -> None:
    errors = [result for result in results if isinstance(result, MemfsError)]
    if errors:
        raise AggregateMemoryError(f"{len(errors)} of {len(results)} failed", errors)
