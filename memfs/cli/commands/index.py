"""Commands about what memfs derives from the files: sync, watch, status, doctor."""

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Self

from memfs.cli.commands.check import checked
from memfs.cli.inputs import open_vault
from memfs.cli.output import (
    Progress,
    ago,
    count,
    paint,
    plain,
    print_json,
    print_problem,
    problem_facts,
    settle_output,
)
from memfs.cli.parser import addressed
from memfs.data_types import Change, IndexStatus, SyncReport
from memfs.errors import MemfsError
from memfs.vault.vault import Vault

BEAT = 2  # seconds of quiet after which a watch makes sure that its watcher lives
PLACES = {"disk": "on disk", "memory": "in memory", "none": "none yet; a search or `memfs sync` makes it"}
NOTICES = {
    "kernel": "told by the system",
    "watchdog": "told by the system",
    "watcher": "told by the watcher",
    "scan": "found by a scan when a search begins",
}


# --- sync ---------------------------------------------------------------------------------------------


def run_sync(args: argparse.Namespace) -> int:
    """Bring the index up to date; problems of files do not make it fail."""
    with open_vault(args.vault) as vault, Progress() as progress:
        report = vault.sync(progress)
    if args.json:
        print_json(_report_facts(report))
        return 0
    for problem in report.problems:
        print_problem(problem)
    print(summary(report))
    return 0


def summary(report: SyncReport) -> str:
    """What a sync did, in a line."""
    done = f"{report.added:,} added, {report.updated:,} updated, {report.removed:,} removed"
    return f"{count(report.memories, 'memory')}: {done} in {report.seconds:.2f} s"


def _report_facts(report: SyncReport) -> dict[str, Any]:
    numbers = {name: getattr(report, name) for name in ("memories", "added", "updated", "removed", "unchanged")}
    problems = [problem_facts(problem) for problem in report.problems]
    return numbers | {"seconds": round(report.seconds, 6), "problems": problems}


# --- watch --------------------------------------------------------------------------------------------


def run_watch(args: argparse.Namespace) -> int:
    """Print changes as they happen, until a signal, or until nobody reads them."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Feed() as feed, open_vault(args.vault, watch=True) as vault:
            vault.subscribe(feed.put)
            memories = count(vault.status().memories, "memory")
            print(f"watching {plain(vault.root)}, {memories}; Ctrl-C ends it", file=sys.stderr, flush=True)
            for change in feed.until_closed(sys.stdout.fileno(), lambda: _check_watcher(vault)):
                _print_change(vault, change, as_json=args.json)
    except (KeyboardInterrupt, BrokenPipeError):
        settle_output()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


class Feed:
    """Changes on their way from the watcher's thread to the one that prints, which sleeps until one is there."""

    def __init__(self) -> None:
        self._changes: SimpleQueue[Change] = SimpleQueue()
        self._bell, self._rope = os.pipe()
        os.set_blocking(self._rope, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._bell)
        os.close(self._rope)

    def put(self, change: Change) -> None:
        """Hand on a change, from any thread, without waiting."""
        self._changes.put(change)
        with suppress(BlockingIOError):  # so many bytes unread wake as well as one more
            os.write(self._rope, b"!")

    def until_closed(self, stream: int, when_quiet: Callable[[], None]) -> Iterator[Change]:
        """The changes, until whoever reads the stream goes away; now and then nothing happens."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(stream, 0)
        while stream not in (ready := dict(poll.poll(BEAT * 1000))):
            if not ready:
                when_quiet()
                continue
            os.read(self._bell, 4096)
            while not self._changes.empty():
                yield self._changes.get()


def _check_watcher(vault: Vault) -> None:
    if not vault.status().watcher:
        error = MemfsError(f"{vault.root}: the watcher ended")
        error.hint = "See to what it said, and start `memfs watch` again."
        raise error


def _print_change(vault: Vault, change: Change, *, as_json: bool) -> None:
    if as_json:
        print_json(_change_facts(vault, change))
    elif change.old_path:
        print(change.kind, plain(change.old_path), "->", plain(change.path))
    else:
        print(change.kind, plain(change.path))
    sys.stdout.flush()


def _change_facts(vault: Vault, change: Change) -> dict[str, Any]:
    """What there is to know of a change; of a memory that is gone, or going, there is no id."""
    found = None
    if os.path.lexists(vault.root / change.path):  # a name that no file has is looked for as an id, in every memory
        with suppress(MemfsError):
            found = vault.read(change.path).id
    facts = {"kind": change.kind, "path": change.path, "old_path": change.old_path}
    return facts | {"id": found, "time": datetime.now(UTC)}


# --- status -------------------------------------------------------------------------------------------


def run_status(args: argparse.Namespace) -> int:
    """Print how things stand with the index; builds none."""
    with open_vault(args.vault) as vault:
        root, status = vault.root, vault.status()
    if args.json:
        print_json({"root": root} | {field.name: getattr(status, field.name) for field in fields(status)})
        return 0
    print(paint(plain(root), "bold"))
    for name, text in status_rows(status, datetime.now(UTC)):
        print(f"  {name:<11}{plain(addressed(text, args.vault))}")
    return 0


def status_rows(status: IndexStatus, now: datetime) -> Iterator[tuple[str, str]]:
    """What a person wants to know of an index, and in which words."""
    yield "memories", f"{status.memories:,} in the index, archived ones too"
    where = "none" if status.where == "none" and status.trouble else PLACES.get(status.where, status.where)
    yield "index", where + (f", {status.generation}" if status.generation else "")
    yield "pending", f"{count(status.pending, 'change')}, found by searches too" if status.pending else "none"
    yield "watcher", f"process {status.watcher}" if status.watcher else "none"
    yield "changes", NOTICES.get(status.notices, status.notices)
    if status.semantic != "off":
        is_there = status.semantic != "missing"
        yield "meaning", f"by {status.semantic}" if is_there else "not installed: by words alone"
    if status.last_scan:
        yield "last scan", f"{status.last_scan:%Y-%m-%d %H:%M:%S}Z, {ago(status.last_scan, now)}"
    if status.trouble:
        yield "trouble", status.trouble


# --- doctor -------------------------------------------------------------------------------------------


def run_doctor(args: argparse.Namespace) -> int:
    """Check and mend what is derived, then tell what a person should see to; exit code 1 if anything is left."""
    with open_vault(args.vault) as vault:
        with Progress(doing="comparing the index with the files"):
            found = vault.doctor(repair=not args.check)
            left = found if args.check or not found else vault.doctor(repair=False)
        files = checked(vault)
    own = len(files.problems) + len(files.links)
    if args.json:
        told = {"found": [problem_facts(problem) for problem in found], "mended": max(len(found) - len(left), 0)}
        print_json(told | {"left": [problem_facts(problem) for problem in left], "problems": own})
    else:
        for problem in found:
            print_problem(problem)
        print(addressed(f"index: {_verdict(len(found), len(left), is_check=args.check)}", args.vault))
        wrong = count(own, "problem") if own else "no problems"
        see = addressed("; see `memfs check`", args.vault) if own else ""
        print(f"files: {wrong} in {files.looked_at}{plain(see)}")
    return 1 if left or own else 0


def _verdict(found: int, left: int, *, is_check: bool) -> str:
    if not found:
        return "no problems"
    if not left:
        return f"{count(found, 'problem')}, mended"
    return count(left, "problem") + ("; `memfs doctor` mends it" if is_check else " left")
