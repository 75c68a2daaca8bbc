"""Looking a vault over: audit."""

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from memfs.cli.inputs import known_namespace, open_vault
from memfs.cli.output import Progress, count, listed, paint, plain, print_json
from memfs.cli.parser import addressed
from memfs.upkeep.audit import KINDS, Finding, audit

SHOWN = 20  # of each kind, unless all are asked for


def run_audit(args: argparse.Namespace) -> int:
    """Print what a person should look at, where an editor finds it; exit code 1 if there is anything."""
    kinds = [kind for kind in KINDS if kind in (args.kind or KINDS)]
    with open_vault(args.vault) as vault, Progress(doing="reading memories") as progress:

        def tell(number: int, total: int) -> None:
            progress.step(f"looking for {kinds[number]}, {number + 1} of {count(total, 'kind')}")

        where = known_namespace(vault, args.namespace)
        found = audit(vault, where, kinds=kinds, now=args.at, progress=tell)
        total = len(vault.list(where))
    if args.json:
        print_json({"memories": total, "findings": [one._asdict() for one in found]})
    else:
        _print(found, total, args.vault, most=len(found) if args.all else SHOWN)
    return 1 if found else 0


def _print(found: Sequence[Finding], total: int, vault: str | None, *, most: int) -> None:
    for kind, group in groupby(found, key=lambda one: one.kind):
        alike = list(group)
        for one in alike[:most]:
            print(f"{paint(plain(f'{one.path}:{one.line}:'), 'bold')} {kind}: {plain(one.text)}")
            if one.hint:
                print(paint(f"    {plain(addressed(one.hint, vault))}", "dim"))
        if len(alike) > most:
            rest = f"{len(alike) - most:,} more of this kind; `memfs audit --kind {kind} --all` shows them"
            print(paint(plain(addressed(rest, vault)), "dim"))
    kinds = f": {listed(Counter(one.kind for one in found))}" if found else ""
    print(f"{count(len(found), 'finding') if found else 'nothing to look at'} in {count(total, 'memory')}{kinds}")
