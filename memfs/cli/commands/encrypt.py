"""The commands `encrypt`, `decrypt`, `rotate` and `keygen`: encrypted memories and their keys."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from memfs.cli.inputs import existing_namespace, normalize_ref, open_vault
from memfs.cli.output import Progress, count, print_json, print_written, safe_text
from memfs.data_types import Written
from memfs.errors import AggregateMemoryError, MemfsError
from memfs.json_output import written_json
from memfs.privacy.field_encryption import LEFT_IN_FILE_NAME, LEFT_IN_GIT, LEFT_IN_OPEN_FILE, Encrypted, Encryption
from memfs.privacy.keys import new_key, variable_name

REMEDIES = {  # for each place where plain text may remain
    LEFT_IN_FILE_NAME: "--rename names the file by its id",
    LEFT_IN_GIT: "docs/encryption.md shows how to rewrite its history",
    LEFT_IN_OPEN_FILE: "memfs removes the text that it keeps of it with the next write after that program closes it",
}


def run_encrypt(args: argparse.Namespace) -> int:
    """Encrypt memories, and print where their plain text may remain."""
    with open_vault(args.vault) as vault, Progress("encrypted") as progress:
        refs = [*dict.fromkeys(normalize_ref(vault, ref) for ref in args.refs)]
        results = Encryption(vault).encrypt_many(
            refs, fields=args.field or ["body"], key=args.key, rename=args.rename, progress=progress
        )
    done = [result for result in results if isinstance(result, Encrypted)]
    _print(done, as_json=args.json)
    sys.stdout.flush()
    if not args.json:
        for note in dict.fromkeys(note for one in done for note in _notes(one)):
            print(f"note: {note}", file=sys.stderr)
    _raise_failures(results)
    return 0


def _notes(result: Encrypted) -> list[str]:
    """Return where plain text of a memory may remain, and what to do about it."""
    return [
        f"{safe_text(result.path)}: {place}; {REMEDIES[place]}" for place in result.left if place != LEFT_IN_GIT
    ] + [f"{place}; {REMEDIES[place]}" for place in result.left if place == LEFT_IN_GIT]


def run_decrypt(args: argparse.Namespace) -> int:
    """Decrypt memories, also those after one that fails; raise the errors together at the end."""
    results: list[Written | MemfsError] = []
    with open_vault(args.vault) as vault:
        encryption = Encryption(vault)
        for ref in dict.fromkeys(normalize_ref(vault, ref) for ref in args.refs):
            try:
                results.append(encryption.decrypt(ref, fields=args.field or None))
            except MemfsError as error:
                results.append(error)
    _print([result for result in results if isinstance(result, Written)], as_json=args.json)
    _raise_failures(results)
    return 0


def run_rotate(args: argparse.Namespace) -> int:
    """Decrypt with the old key and encrypt with the new one."""
    with open_vault(args.vault) as vault, Progress("rotated") as progress:
        namespace = existing_namespace(vault, args.namespace)
        results = Encryption(vault).rotate(args.old, args.new, namespace, progress=progress)
    done = [written for written in results if isinstance(written, Written)]
    if args.json:
        print_json({"from": args.old, "to": args.new, "rotated": [written_json(written) for written in done]})
    else:
        print(f"rotated {count(len(done), 'memory')} from the key {safe_text(args.old)} to {safe_text(args.new)}")
    _raise_failures(results)
    return 0


def run_keygen(args: argparse.Namespace) -> int:
    """Print a new key, which memfs does not store."""
    name, key = variable_name(args.key), new_key()
    if args.json:
        print_json({"key": key, "name": args.key, "variable": name})
        return 0
    print(key, flush=True)
    print(f"Set it with: export {name}=...", file=sys.stderr)
    print("Keep a copy outside the vault: without the key, encrypted memories are lost.", file=sys.stderr)
    return 0


def _print(done: Sequence[Written], *, as_json: bool) -> None:
    if as_json:
        print_json([_encrypted_json(written) for written in done])
    else:
        for written in done:
            print_written(written, as_json=False)


def _encrypted_json(written: Written) -> dict[str, Any]:
    result = written_json(written)
    return result | {"left": written.left} if isinstance(written, Encrypted) else result


def _raise_failures(results: Sequence[Written | MemfsError]) -> None:
    errors = [result for result in results if isinstance(result, MemfsError)]
    if errors:
        raise AggregateMemoryError(f"{len(errors)} of {len(results)} failed", errors)
