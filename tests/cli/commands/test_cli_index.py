"""`memfs sync`, `memfs status` and `memfs doctor`."""

import re
from datetime import UTC, datetime
from pathlib import Path

from support.commands import Memfs

from memfs.cli.commands.index import status_rows, sync_summary
from memfs.data_types import IndexStatus, SyncReport


def test_a_sync_is_summarized_on_one_line() -> None:
    assert sync_summary(SyncReport(3, 1, 0, 999, 0.1234)) == "1,003 memories: 3 added, 1 updated, 0 removed in 0.12 s"
    assert sync_summary(SyncReport(1, 0, 2, 0, 0.0)) == "1 memory: 1 added, 0 updated, 2 removed in 0.00 s"


def test_status_rows_are_text_for_people() -> None:
    now = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
    fresh = IndexStatus("", 0, 0, "none", "", "scan", None)
    unwritable = IndexStatus("", 0, 0, "none", "", "scan", None, "nothing can be written here")
    busy = IndexStatus("g7", 1200, 2, "disk", "4711", "watcher", now, "no space left")

    assert dict(status_rows(fresh, now)) == {
        "memories": "0 in the index, archived ones too",
        "index": "none yet; a search or `memfs sync` builds it",
        "pending": "none",
        "watcher": "none",
        "changes": "found by a scan before each search",
    }
    assert dict(status_rows(unwritable, now))["index"] == "none"
    assert dict(status_rows(busy, now)) == {
        "memories": "1,200 in the index, archived ones too",
        "index": "on disk, g7",
        "pending": "2 changes, found by searches too",
        "watcher": "process 4711",
        "changes": "reported by the watcher",
        "last scan": "2026-11-16 12:00:00Z, just now",
        "trouble": "no space left",
    }


def test_sync_reports_its_changes(memfs: Memfs, example: Path) -> None:
    first = memfs("sync")
    (example / "people/emma.md").unlink()
    (example / "people/new.md").write_text("New.")
    (example / "people/yuki.md").write_text("Edited.")
    second = memfs("sync", "--json").value

    assert re.fullmatch(r"45 memories: 45 added, 0 updated, 0 removed in \d+\.\d\d s\n", first.out)
    assert list(second) == ["memories", "added", "updated", "removed", "unchanged", "seconds", "problems"]
    assert [second[name] for name in ("memories", "added", "updated", "removed", "unchanged")] == [45, 1, 1, 1, 43]


def test_status_builds_no_index(memfs: Memfs, example: Path) -> None:
    before = memfs("status")
    is_made = (example / ".memfs").exists()
    memfs("sync")
    after = memfs("status", "--json").value

    assert before.out.startswith(f"{example}\n  memories   0 in the index")
    assert "  index      none yet; a search or `memfs sync` builds it\n" in before.out
    assert not is_made
    assert list(after) == [
        "root", "generation", "memories", "pending", "where", "watcher", "notices", "last_scan", "trouble", "semantic",
    ]  # fmt: skip
    assert (after["root"], after["memories"], after["where"], after["watcher"]) == (str(example), 45, "disk", "")


def test_status_shows_the_last_scan_of_another_process(memfs: Memfs, example: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    memfs("search", "sushi")
    last_scan, shown = memfs("status", "--json").value["last_scan"], memfs("status").out

    assert before <= datetime.fromisoformat(last_scan) <= datetime.now(UTC)
    assert re.search(r"\n  last scan  \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, just now\n", shown)


def test_doctor_repairs_the_index_and_counts_problems_in_files(memfs: Memfs, example: Path) -> None:
    memfs("sync")
    for path in (example / ".memfs/index").rglob("*"):
        if path.is_file():
            path.write_text("junk")
    repaired = memfs("doctor")
    (example / "notes/dentist.md").write_text("Dr Faure, on Thursday.\n")
    healthy = memfs("doctor", "--json")

    assert repaired.code == 1
    assert re.search(
        r"index: \d problems?, repaired\nfiles: 1 problem in 45 memories, 2 of them in archive/; see `memfs check`\n$",
        repaired.out,
    )
    assert healthy.code == 0
    assert healthy.value == {"found": [], "mended": 0, "left": [], "problems": 0}
    assert memfs("doctor").out == "index: no problems\nfiles: no problems in 45 memories, 2 of them in archive/\n"


def test_doctor_check_reports_problems_with_exit_code_1(memfs: Memfs, example: Path) -> None:
    memfs("sync")
    (example / "notes/dentist.md").write_text("Dr Faure, on Thursday.\n")
    healthy = memfs("doctor", "--check")
    for path in (example / ".memfs/index").rglob("*"):
        if path.is_file():
            path.write_text("junk")
    damaged = memfs("doctor", "--check")

    assert (healthy.code, damaged.code) == (0, 1)
    assert re.search(r"index: \d problems?; `memfs doctor` repairs the index\n", damaged.out)
