"""Looking for secrets in files that are there: scan."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator

from memfs.cli.inputs import namespace_of, open_vault, read_stdin
from memfs.cli.output import Progress, count, paint, plain, print_json
from memfs.cli.parser import addressed, usage
from memfs.errors import InvalidNamespaceError, PlaceNotFoundError
from memfs.privacy.policy import Policy, is_secret
from memfs.privacy.secret_scan import Exposed, Source, exposed, paths_below, place_of, read, staged
from memfs.vault.vault import Vault

HINT = (
    "Take it out (`memfs edit PATH`) and replace it where it is in use; "
    "kept versions and commits hold it still: docs/safety.md."
)


def run_scan(args: argparse.Namespace) -> int:
    """Print where files hold secrets; exit code 1 if any does. No file is changed, and no secret printed."""
    words = [*args.paths, *args.namespace]
    if args.staged and (words or args.zero):
        raise usage("scan", "--staged looks at all that is staged: it takes no paths")
    with open_vault(args.vault) as vault, Progress("scanned") as progress:
        policy = Policy.of(vault)
        found: list[Exposed] = []
        given, skipped = _given(vault) if args.zero else ([], [])
        named = [place_of(vault.root, namespace_of(vault, word) or word) for word in words]
        everything = [] if words or args.zero else [""]
        files = _staged(vault) if args.staged else _files(vault, [*named, *given, *everything])
        total = 0
        for total, (of, source) in enumerate(files, 1):
            found += exposed(source, None if args.all else policy)
            skipped += [source] if source.data is None else []
            progress(total, of)
    secrets = [one for one in found if is_secret(one.kind) or policy.action(one.kind) == "reject"]
    if args.json:
        print_json(_facts(found, secrets, skipped, total))
    else:
        _print(found, secrets, skipped, total)
        if secrets:
            sys.stdout.flush()
            print(f"hint: {plain(addressed(HINT, args.vault))}", file=sys.stderr)
    return 1 if secrets else 0


def _files(vault: Vault, places: list[str]) -> Iterator[tuple[int, Source]]:
    paths = list(dict.fromkeys(path for place in places for path in paths_below(vault.root, place)))
    yield from ((len(paths), source) for source in read(vault.root, paths))


def _staged(vault: Vault) -> Iterator[tuple[int, Source]]:
    sources = staged(vault.root)
    yield from ((len(sources), source) for source in sources)


def _given(vault: Vault) -> tuple[list[str], list[Source]]:
    """The places on stdin, each ended by a zero byte, and those that are passed over: git lists deleted files too."""
    places: list[str] = []
    missing: list[Source] = []
    for path in filter(None, read_stdin().split(b"\0")):
        try:
            places.append(place_of(vault.root, os.fsdecode(path)))
        except InvalidNamespaceError as error:
            missing.append(Source(os.fsdecode(path), None, error.reason))
        except PlaceNotFoundError:
            missing.append(Source(os.fsdecode(path), None, "no such file"))
    return places, missing


def _facts(
    found: Iterable[Exposed], secrets: Iterable[Exposed], skipped: Iterable[Source], total: int
) -> dict[str, object]:
    blocking = set(secrets)
    return {
        "files": total,
        "secrets": len(blocking),
        "findings": [{**one._asdict(), "secret": one in blocking} for one in found],
        "skipped": [{"path": one.path, "reason": one.reason} for one in skipped],
    }


def _print(found: list[Exposed], secrets: list[Exposed], skipped: list[Source], total: int) -> None:
    for one in found:
        print(paint(plain(f"{one.path}:{one.line}:"), "bold"), plain(one.kind))
    for source in skipped:
        print(f"{plain(source.path)}: not looked at: {plain(source.reason)}", file=sys.stderr)
    others = len(found) - len(secrets)
    told = [count(len(secrets), "secret") if secrets else "no secrets"] + [count(others, "other finding")] * bool(
        others
    )
    print(f"{' and '.join(told)} in {count(total, 'file')}")
