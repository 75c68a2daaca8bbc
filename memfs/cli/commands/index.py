"""The commands `sync`, `status` and `doctor`: update, inspect and repair the index."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from memfs.cli.commands.check import check_files
from memfs.cli.inputs import open_vault
from memfs.cli.output import Progress, count, paint, print_json, print_problem, safe_text, time_ago
from memfs.cli.parser import with_vault_option
from memfs.data_types import IndexStatus, SyncReport
from memfs.json_output import doctor_json, status_json, sync_report_json

INDEX_LOCATIONS = {
    "disk": "on disk",
    "memory": "in memory",
    "none": "none yet; a search or `memfs sync` builds it",
}
CHANGE_SOURCES = {
    "kernel": "reported by the system",
    "watchdog": "reported by the system",
    "watcher": "reported by the watcher",
    "scan": "found by a scan before each search",
}


# --- sync ---------------------------------------------------------------------------------------------


def run_sync(args: argparse.Namespace) -> int:
    """Bring the index up to date; problems in files do not change the exit code."""
    with open_vault(args.vault) as vault, Progress() as progress:
        report = vault.sync(progress)
    if args.json:
        print_json(sync_report_json(report))
        return 0
    for problem in report.problems:
        print_problem(problem)
    print(sync_summary(report))
    return 0


def sync_summary(report: SyncReport) -> str:
    """Return what a sync did, on one line."""
    done = f"{report.added:,} added, {report.updated:,} updated, {report.removed:,} removed"
    return f"{count(report.memories, 'memory')}: {done} in {report.seconds:.2f} s"


# --- status -------------------------------------------------------------------------------------------


def run_status(args: argparse.Namespace) -> int:
    """Print the state of the index, without building or changing it."""
    with open_vault(args.vault) as vault:
        root, status = vault.root, vault.status()
    if args.json:
        print_json(status_json(root, status))
        return 0
    print(paint(safe_text(root), "bold"))
    for name, text in status_rows(status, datetime.now(UTC)):
        print(f"  {name:<11}{safe_text(with_vault_option(text, args.vault))}")
    return 0


def status_rows(status: IndexStatus, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the state of an index as pairs of a name and a text for people."""
    yield "memories", f"{status.memories:,} in the index, archived ones too"
    is_unusable = status.where == "none" and status.trouble
    location = "none" if is_unusable else INDEX_LOCATIONS.get(status.where, status.where)
    yield "index", location + (f", {status.generation}" if status.generation else "")
    yield "pending", f"{count(status.pending, 'change')}, found by searches too" if status.pending else "none"
    yield "watcher", f"process {status.watcher}" if status.watcher else "none"
    yield "changes", CHANGE_SOURCES.get(status.notices, status.notices)
    if status.semantic != "off":
        is_installed = status.semantic != "missing"
        yield "meaning", f"by {status.semantic}" if is_installed else "not installed: searches use words only"
    if status.last_scan:
        yield "last scan", f"{status.last_scan:%Y-%m-%d %H:%M:%S}Z, {time_ago(status.last_scan, now)}"
    if status.trouble:
        yield "trouble", status.trouble


# --- doctor -------------------------------------------------------------------------------------------


def run_doctor(args: argparse.Namespace) -> int:
    """Compare the index with the files and repair it, then check the files; the exit code is 1 if problems remain."""
    with open_vault(args.vault) as vault:
        with Progress(activity="comparing the index with the files"):
            found = vault.doctor(repair=not args.check)
            remaining = found if args.check or not found else vault.doctor(repair=False)
        files = check_files(vault)
    file_problems = len(files.problems) + len(files.links)
    if args.json:
        print_json(doctor_json(found, remaining, file_problems))
    else:
        for problem in found:
            print_problem(problem)
        result = _index_result(len(found), len(remaining), is_check=args.check)
        print(with_vault_option(f"index: {result}", args.vault))
        problems = count(file_problems, "problem") if file_problems else "no problems"
        see = with_vault_option("; see `memfs check`", args.vault) if file_problems else ""
        print(f"files: {problems} in {files.memories_text}{safe_text(see)}")
    return 1 if remaining or file_problems else 0


def _index_result(found: int, remaining: int, *, is_check: bool) -> str:
    if not found:
        return "no problems"
    if not remaining:
        return f"{count(found, 'problem')}, repaired"
    return count(remaining, "problem") + ("; `memfs doctor` repairs the index" if is_check else " remaining")
