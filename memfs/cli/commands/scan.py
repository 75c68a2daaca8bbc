"""The command `scan`: find secrets in the files of a vault."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator

from memfs.cli.inputs import open_vault, read_stdin, render_namespace
from memfs.cli.output import Progress, count, paint, print_json, safe_text
from memfs.cli.parser import usage_error, with_vault_option
from memfs.errors import InvalidNamespaceError, PlaceNotFoundError
from memfs.privacy.policy import Policy, is_secret
from memfs.privacy.secret_scan import (
    ScanFinding,
    ScannedFile,
    paths_below,
    read_files,
    resolve_path,
    scan_file,
    staged_files,
)
from memfs.vault.vault import Vault

REMOVE_HINT = (
    "Remove it (`memfs edit PATH`) and replace it where it is in use; "
    "kept versions and commits still contain it: see docs/safety.md."
)


def run_scan(args: argparse.Namespace) -> int:
    """Print path, line and kind of each finding, never its text; the exit code is 1 if one is a secret.

    A kind of personal data that the policy rejects counts as a secret, too.
    """
    words = [*args.paths, *args.namespace]
    if args.staged and (words or args.zero):
        raise usage_error("scan", "--staged scans all that is staged: it takes no paths")
    with open_vault(args.vault) as vault, Progress("scanned") as progress:
        policy = Policy.of(vault)
        found: list[ScanFinding] = []
        listed, skipped = _read_path_list(vault) if args.zero else ([], [])
        named = [resolve_path(vault.root, render_namespace(vault, word) or word) for word in words]
        everything = [] if words or args.zero else [""]
        files = _staged(vault) if args.staged else _files(vault, [*named, *listed, *everything])
        scanned = 0
        for scanned, (file_count, source) in enumerate(files, 1):
            found += scan_file(source, None if args.all else policy)
            skipped += [source] if source.data is None else []
            progress(scanned, file_count)
    secrets = [one for one in found if is_secret(one.kind) or policy.action(one.kind) == "reject"]
    if args.json:
        print_json(_findings_json(found, secrets, skipped, scanned))
    else:
        _print(found, secrets, skipped, scanned)
        if secrets:
            sys.stdout.flush()
            print(f"hint: {safe_text(with_vault_option(REMOVE_HINT, args.vault))}", file=sys.stderr)
    return 1 if secrets else 0


def _files(vault: Vault, starts: list[str]) -> Iterator[tuple[int, ScannedFile]]:
    """Yield the files at or below some paths, each with the number of all of them."""
    paths = list(dict.fromkeys(path for start in starts for path in paths_below(vault.root, start)))
    yield from ((len(paths), source) for source in read_files(vault.root, paths))


def _staged(vault: Vault) -> Iterator[tuple[int, ScannedFile]]:
    """Yield the staged files, each with the number of all of them."""
    sources = staged_files(vault.root)
    yield from ((len(sources), source) for source in sources)


def _read_path_list(vault: Vault) -> tuple[list[str], list[ScannedFile]]:
    """Read zero-terminated paths from stdin; return those that exist in the vault, and the others, with the reason.

    The others are no error, because git lists deleted files too.
    """
    found: list[str] = []
    missing: list[ScannedFile] = []
    for path in filter(None, read_stdin().split(b"\0")):
        try:
            found.append(resolve_path(vault.root, os.fsdecode(path)))
        except InvalidNamespaceError as error:
            missing.append(ScannedFile(os.fsdecode(path), None, error.reason))
        except PlaceNotFoundError:
            missing.append(ScannedFile(os.fsdecode(path), None, "no such file"))
    return found, missing


def _findings_json(
    found: Iterable[ScanFinding], secrets: Iterable[ScanFinding], skipped: Iterable[ScannedFile], total: int
) -> dict[str, object]:
    blocking = set(secrets)
    return {
        "files": total,
        "secrets": len(blocking),
        "findings": [{**one._asdict(), "secret": one in blocking} for one in found],
        "skipped": [{"path": one.path, "reason": one.reason} for one in skipped],
    }


def _print(found: list[ScanFinding], secrets: list[ScanFinding], skipped: list[ScannedFile], total: int) -> None:
    for one in found:
        print(paint(safe_text(f"{one.path}:{one.line}:"), "bold"), safe_text(one.kind))
    for source in skipped:
        print(f"{safe_text(source.path)}: not scanned: {safe_text(source.reason)}", file=sys.stderr)
    others = len(found) - len(secrets)
    parts = [count(len(secrets), "secret") if secrets else "no secrets"]
    if others:
        parts.append(count(others, "other finding"))
    print(f"{' and '.join(parts)} in {count(total, 'file')}")
