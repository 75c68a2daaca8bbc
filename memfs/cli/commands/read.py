"""Commands that look: read, versions."""

import argparse
import sys
from datetime import UTC, datetime

from memfs.cli.inputs import open_vault, reference
from memfs.cli.output import (
    ago,
    plain,
    plain_lines,
    print_json,
    print_table,
    problem_facts,
    version_facts,
)
from memfs.data_types import Memory, Version
from memfs.errors import MemoryNotFoundError
from memfs.fs.files import digest
from memfs.vault.vault import Vault


def run_read(args: argparse.Namespace) -> int:
    """Print a memory: its bytes as they are, but harmless on a terminal."""
    with open_vault(args.vault) as vault:
        memory = vault.read(reference(vault, args.ref))
        if args.reveal:
            from memfs.privacy.field_encryption import Encryption

            memory = Encryption(vault).reveal(memory)
    if args.json:
        print_json(_facts(memory))
    elif sys.stdout.isatty():
        print(plain_lines(memory.body if args.body else memory.text).removesuffix("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{memory.body}\n".encode() if args.body else memory.data)
    return 0


def _facts(memory: Memory) -> dict[str, object]:
    return {
        "id": memory.id, "path": memory.path, "namespace": str(memory.namespace), "header": memory.header.values,
        "title": memory.title, "body": memory.body, "stamp": str(memory.stamp),
        "problems": [problem_facts(problem) for problem in memory.problems],
    }  # fmt: skip


def run_versions(args: argparse.Namespace) -> int:
    """List the kept versions of a memory."""
    with open_vault(args.vault) as vault:
        ref = reference(vault, args.ref)
        versions, current = vault.versions(ref), _current(vault, ref)
    if args.json:
        print_json([version_facts(version, current=version.hash == current) for version in versions])
    elif versions:
        print_table(("version", "kept", "size", ""), [_row(version, current) for version in versions])
    else:
        print(f"no kept versions of {plain(ref)}: memfs keeps one when it writes", file=sys.stderr)
    return 0 if versions else 1


def _current(vault: Vault, ref: str) -> str:
    """The hash of a memory's file as it is; empty if it is gone."""
    try:
        return digest(vault.read(ref).data)
    except MemoryNotFoundError:
        return ""


def _row(version: Version, current: str) -> list[str]:
    kept = f"{version.time:%Y-%m-%d %H:%M:%S}Z, {ago(version.time, datetime.now(UTC))}"
    return [version.hash, kept, f"{version.size} B", "current" if version.hash == current else ""]
