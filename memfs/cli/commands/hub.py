"""Commands that mirror a vault to a hub: push, pull."""

import argparse
import os
import sys
from typing import Any

from memfs.cli.inputs import NOWHERE, is_there, namespace_of, open_vault
from memfs.cli.output import Progress, count, paint, plain, print_json, print_problem, problem_facts, settle_output
from memfs.cli.parser import addressed, usage
from memfs.hub import HubReport, pull, push

HUB = "MEMFS_HUB"  # the environment variable
FEW = 20  # changes that are told one by one
CONFLICT = 3
_ADVICE = {
    "push": "Run `memfs pull`, see to what it says, and push again.",
    "pull": "Take over what you need, remove the copies, then run `memfs push`.",
}
_WORDS = {"push": "sent to", "pull": "received from"}
_WOULD = {"push": "would send to", "pull": "would receive from"}


def run_push(args: argparse.Namespace) -> int:
    """Send what changed."""
    url, namespace = _target("push", args)
    with open_vault(args.vault) as vault, Progress("sent") as progress:
        report = push(
            vault, url, namespace=namespace_of(vault, namespace), tenant=args.tenant,
            dry_run=args.dry_run, all_removals=args.all_removals, progress=progress,
        )  # fmt: skip
        is_nowhere = not is_there(vault, report.namespace)
    return _show(report, args, is_nowhere=is_nowhere)


def run_pull(args: argparse.Namespace) -> int:
    """Take what changed."""
    url, namespace = _target("pull", args)
    with open_vault(args.vault) as vault, Progress("received") as progress:
        report = pull(
            vault, url, namespace=namespace_of(vault, namespace), tenant=args.tenant,
            dry_run=args.dry_run, progress=progress,
        )  # fmt: skip
        is_nowhere = not is_there(vault, report.namespace)
    return _show(report, args, is_nowhere=is_nowhere)


def _target(command: str, args: argparse.Namespace) -> tuple[str, str | None]:
    """The hub and the namespace; where the environment names the hub, one word is a namespace."""
    words = [word for word in (args.url, args.namespace) if word]
    url = words.pop(0) if words and "://" in words[0] else os.environ.get(HUB, "")
    if len(words) > 1 or any(":" in word for word in words):  # no namespace has one, and a password may follow it
        raise usage(command, "a hub is named by a URL such as postgresql://USER@HOST/DATABASE")
    if not url:
        raise usage(command, "no hub is named", f"Name one: postgresql://USER@HOST/DATABASE, or set {HUB}.")
    return url, words[0] if words else None


# --- telling ------------------------------------------------------------------------------------------


def _show(report: HubReport, args: argparse.Namespace, *, is_nowhere: bool) -> int:
    """Print what was done; a namespace that is not here, and that nothing was done for, is exit code 1."""
    is_nowhere = is_nowhere and not (report.changes or report.conflicts)
    hint = _ADVICE[report.direction] if report.conflicts else NOWHERE if is_nowhere else ""
    if args.json:
        print_json(_facts(report))
    else:
        _print(report)
        settle_output()
        if hint:
            print(f"hint: {plain(addressed(hint, args.vault))}", file=sys.stderr)
    return CONFLICT if report.conflicts else 1 if report.problems or is_nowhere else 0


def _facts(report: HubReport) -> dict[str, Any]:
    return {
        "direction": report.direction, "hub": report.address, "namespace": report.namespace,
        "dry_run": report.dry_run, "created": report.created, "updated": report.updated,
        "moved": [{"from": old, "to": new} for old, new in report.moved], "removed": report.removed,
        "unchanged": report.unchanged,
        "conflicts": [{"path": one.path, "reason": one.reason, "copy": one.copy or None} for one in report.conflicts],
        "problems": [problem_facts(problem) for problem in report.problems], "seconds": round(report.seconds, 6),
    }  # fmt: skip


def _print(report: HubReport) -> None:
    if report.changes <= FEW:
        _print_changes(report)
    for conflict in report.conflicts:
        beside = f"; the hub's is beside it: {conflict.copy}" if conflict.copy else ""
        print(f"{paint('conflict', 'red')} {plain(conflict.path)}: {plain(conflict.reason)}{plain(beside)}")
    for problem in report.problems:
        print_problem(problem)
    print(summary(report))


def _print_changes(report: HubReport) -> None:
    for kind in ("created", "updated", "removed"):
        for path in getattr(report, kind):
            print(kind, plain(path))
    for old, new in report.moved:
        print("moved", plain(old), "->", plain(new))


def summary(report: HubReport) -> str:
    """What a push or a pull did, in a line."""
    kinds = {kind: len(getattr(report, kind)) for kind in ("created", "updated", "moved", "removed")}
    told = [f"{number:,} {kind}" for kind, number in kinds.items() if number] or ["nothing"]
    if report.conflicts:
        told.append(count(len(report.conflicts), "conflict"))
    words = (_WOULD if report.dry_run else _WORDS)[report.direction]
    where = "" if report.namespace == "/" else f", {report.namespace}"
    return f"{words} {plain(report.address + where)}: {', '.join(told)} in {report.seconds:.2f} s"
