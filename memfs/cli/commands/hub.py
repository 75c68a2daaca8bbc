"""The commands `push` and `pull`: exchange memories with a hub."""

import argparse
import os
import sys
from typing import Any

from memfs.cli.inputs import NO_SUCH_NAMESPACE, has_namespace, open_vault, render_namespace
from memfs.cli.output import Progress, count, flush_stdout, paint, print_json, print_problem, safe_text
from memfs.cli.parser import usage_error, with_vault_option
from memfs.hub import HubReport, pull, push
from memfs.json_output import problems_json

HUB_VARIABLE = "MEMFS_HUB"  # the environment variable
MAX_LISTED = 20  # more changes than this are only counted
EXIT_CONFLICT = 3
_CONFLICT_HINTS = {
    "push": "Run `memfs pull`, resolve the conflicts, and push again.",
    "pull": "Merge what you need from the copies, remove them, then run `memfs push`.",
}
_VERBS = {"push": "sent to", "pull": "received from"}
_DRY_RUN_VERBS = {"push": "would send to", "pull": "would receive from"}


def run_push(args: argparse.Namespace) -> int:
    """Send changes to the hub."""
    url, namespace = _target("push", args)
    with open_vault(args.vault) as vault, Progress("sent") as progress:
        report = push(
            vault, url, namespace=render_namespace(vault, namespace), tenant=args.tenant,
            dry_run=args.dry_run, all_removals=args.all_removals, progress=progress,
        )  # fmt: skip
        is_missing = not has_namespace(vault, report.namespace)
    return _show(report, args, is_missing=is_missing)


def run_pull(args: argparse.Namespace) -> int:
    """Receive changes from the hub."""
    url, namespace = _target("pull", args)
    with open_vault(args.vault) as vault, Progress("received") as progress:
        report = pull(
            vault, url, namespace=render_namespace(vault, namespace), tenant=args.tenant,
            dry_run=args.dry_run, progress=progress,
        )  # fmt: skip
        is_missing = not has_namespace(vault, report.namespace)
    return _show(report, args, is_missing=is_missing)


def _target(command: str, args: argparse.Namespace) -> tuple[str, str | None]:
    """Return the URL of the hub and the namespace. If the first word is not a URL, it is the namespace, and the URL is
    that of MEMFS_HUB."""
    words = [word for word in (args.url, args.namespace) if word]
    url = words.pop(0) if words and "://" in words[0] else os.environ.get(HUB_VARIABLE, "")
    if len(words) > 1 or any(":" in word for word in words):  # a mistyped URL: not printed, it may have a password
        raise usage_error(command, "a hub is named by a URL such as postgresql://USER@HOST/DATABASE")
    if not url:
        raise usage_error(command, "no hub given", f"Name one: postgresql://USER@HOST/DATABASE, or set {HUB_VARIABLE}.")
    return url, words[0] if words else None


# --- output -------------------------------------------------------------------------------------------


def _show(report: HubReport, args: argparse.Namespace, *, is_missing: bool) -> int:
    """Print the report and return the exit code: 3 for conflicts, 1 for problems, else 0.

    A namespace that does not exist here (`is_missing`) and for which the hub had nothing either counts as a problem.
    """
    is_missing = is_missing and not (report.changes or report.conflicts)
    hint = _CONFLICT_HINTS[report.direction] if report.conflicts else NO_SUCH_NAMESPACE if is_missing else ""
    if args.json:
        print_json(_report_json(report))
    else:
        _print(report)
        flush_stdout()
        if hint:
            print(f"hint: {safe_text(with_vault_option(hint, args.vault))}", file=sys.stderr)
    return EXIT_CONFLICT if report.conflicts else 1 if report.problems or is_missing else 0


def _report_json(report: HubReport) -> dict[str, Any]:
    return {
        "direction": report.direction, "hub": report.address, "namespace": report.namespace,
        "dry_run": report.dry_run, "created": report.created, "updated": report.updated,
        "moved": [{"from": old, "to": new} for old, new in report.moved], "removed": report.removed,
        "unchanged": report.unchanged,
        "conflicts": [{"path": one.path, "reason": one.reason, "copy": one.copy or None} for one in report.conflicts],
        "problems": problems_json(report.problems), "seconds": round(report.seconds, 6),
    }  # fmt: skip


def _print(report: HubReport) -> None:
    if report.changes <= MAX_LISTED:
        _print_changes(report)
    for conflict in report.conflicts:
        copy = f"; the hub's version is in {conflict.copy}" if conflict.copy else ""
        print(f"{paint('conflict', 'red')} {safe_text(conflict.path)}: {safe_text(conflict.reason)}{safe_text(copy)}")
    for problem in report.problems:
        print_problem(problem)
    print(summary(report))


def _print_changes(report: HubReport) -> None:
    for kind in ("created", "updated", "removed"):
        for path in getattr(report, kind):
            print(kind, safe_text(path))
    for old, new in report.moved:
        print("moved", safe_text(old), "->", safe_text(new))


def summary(report: HubReport) -> str:
    """Return what a push or a pull did, on one line."""
    kinds = {kind: len(getattr(report, kind)) for kind in ("created", "updated", "moved", "removed")}
    parts = [f"{number:,} {kind}" for kind, number in kinds.items() if number] or ["nothing"]
    if report.conflicts:
        parts.append(count(len(report.conflicts), "conflict"))
    verb = (_DRY_RUN_VERBS if report.dry_run else _VERBS)[report.direction]
    namespace = "" if report.namespace == "/" else f", {report.namespace}"
    return f"{verb} {safe_text(report.address + namespace)}: {', '.join(parts)} in {report.seconds:.2f} s"
