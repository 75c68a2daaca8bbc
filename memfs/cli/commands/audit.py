"""The command `audit`: memories that a person should review."""

import argparse
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from memfs.cli.inputs import existing_namespace, open_vault
from memfs.cli.output import Progress, count, format_counts, paint, print_json, safe_text
from memfs.cli.parser import with_vault_option
from memfs.upkeep.audit import KINDS, Finding, audit

MAX_SHOWN_PER_KIND = 20  # unless --all is given


def run_audit(args: argparse.Namespace) -> int:
    """Print the findings, each with path and line; the exit code is 1 if there are any."""
    kinds = [kind for kind in KINDS if kind in (args.kind or KINDS)]
    with open_vault(args.vault) as vault, Progress(activity="reading memories") as progress:

        def show_kind(number: int, total: int) -> None:
            progress.set_activity(f"looking for {kinds[number]}, {number + 1} of {count(total, 'kind')}")

        namespace = existing_namespace(vault, args.namespace)
        found = audit(vault, namespace, kinds=kinds, now=args.at, progress=show_kind)
        total = len(vault.list(namespace))
    if args.json:
        print_json({"memories": total, "findings": [one._asdict() for one in found]})
    else:
        _print(found, total, args.vault, max_shown=len(found) if args.all else MAX_SHOWN_PER_KIND)
    return 1 if found else 0


def _print(found: Sequence[Finding], total: int, vault: str | None, *, max_shown: int) -> None:
    for kind, group in groupby(found, key=lambda one: one.kind):
        findings = list(group)
        for one in findings[:max_shown]:
            print(f"{paint(safe_text(f'{one.path}:{one.line}:'), 'bold')} {kind}: {safe_text(one.text)}")
            if one.hint:
                print(paint(f"    {safe_text(with_vault_option(one.hint, vault))}", "dim"))
        if len(findings) > max_shown:
            rest = f"{len(findings) - max_shown:,} more of this kind; `memfs audit --kind {kind} --all` shows them"
            print(paint(safe_text(with_vault_option(rest, vault)), "dim"))
    kinds = f": {format_counts(Counter(one.kind for one in found))}" if found else ""
    print(f"{count(len(found), 'finding') if found else 'no findings'} in {count(total, 'memory')}{kinds}")
