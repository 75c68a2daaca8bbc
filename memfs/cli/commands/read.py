"""The commands `read` and `versions`: one memory and its kept versions."""

import argparse
import sys
from datetime import UTC, datetime

from memfs.cli.inputs import normalize_ref, open_vault
from memfs.cli.output import (
    print_json,
    print_table,
    safe_lines,
    safe_text,
    time_ago,
)
from memfs.data_types import Version
from memfs.errors import MemoryNotFoundError
from memfs.fs.files import digest
from memfs.json_output import memory_content_json, version_json
from memfs.vault.vault import Vault


def run_read(args: argparse.Namespace) -> int:
    """Print a memory: its bytes unchanged, or on a terminal its text with control characters escaped."""
    with open_vault(args.vault) as vault:
        memory = vault.read(normalize_ref(vault, args.ref))
        if args.reveal:
            from memfs.privacy.field_encryption import Encryption

            memory = Encryption(vault).reveal(memory)
    if args.json:
        print_json(memory_content_json(memory))
    elif sys.stdout.isatty():
        print(safe_lines(memory.body if args.body else memory.text).removesuffix("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{memory.body}\n".encode() if args.body else memory.data)
    return 0


def run_versions(args: argparse.Namespace) -> int:
    """List the kept versions of a memory."""
    with open_vault(args.vault) as vault:
        ref = normalize_ref(vault, args.ref)
        versions, current = vault.versions(ref), _current_hash(vault, ref)
    if args.json:
        print_json([version_json(version, current=version.hash == current) for version in versions])
    elif versions:
        print_table(("version", "kept", "size", ""), [_row(version, current) for version in versions])
    else:
        print(f"no kept versions of {safe_text(ref)}: memfs keeps one when it writes", file=sys.stderr)
    return 0 if versions else 1


def _current_hash(vault: Vault, ref: str) -> str:
    """Return the hash of a memory's file; empty if the file does not exist any more."""
    try:
        return digest(vault.read(ref).data)
    except MemoryNotFoundError:
        return ""


def _row(version: Version, current: str) -> list[str]:
    kept = f"{version.time:%Y-%m-%d %H:%M:%S}Z, {time_ago(version.time, datetime.now(UTC))}"
    return [version.hash, kept, f"{version.size} B", "current" if version.hash == current else ""]
