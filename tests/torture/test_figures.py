"""Tests of the page of figures, and of the cleanup after a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS

from .figures import BROKEN, COMPARISON, GUARANTEES, PAGE, Row, read_figures, update_page
from .run import MARK, run_directory

EMPTY = (
    "Before.\n<!-- figures -->\n<!-- end of figures -->\nBetween.\n"
    f"<!-- {COMPARISON} -->\n<!-- end of {COMPARISON} -->\nAfter.\n"
)
KILL = Row(GUARANTEES[1], "8 of 8 there", "test_kill.py", "today abc")
APPEND = Row(f"{GUARANTEES[2]}: 2 processes", "2 of 2 there", "test_append.py", "today abc")
PEER = Row(f"{COMPARISON}: lost lines: one 1.0", "3 lost", "test_peers.py", "today abc")


def test_a_run_replaces_only_the_rows_of_its_files() -> None:
    page = update_page(EMPTY, [APPEND, PEER, KILL], {"test_kill.py", "test_append.py", "test_peers.py"}, "here")
    other = update_page(page, [KILL._replace(figure="9 of 9 there", measured="now def")], {"test_kill.py"}, "there")

    assert "| no lost update: 2 processes | 2 of 2 there | `test_append.py` | today abc |" in other
    assert "| lost lines | one 1.0 | 3 lost | today abc |" in other
    assert "9 of 9 there" in other
    assert "8 of 8 there" not in other
    assert other.index("9 of 9") < other.index("2 of 2"), "not in the order of the guarantees"
    assert update_page(other, [], set(), "there") == other
    assert [part in other for part in ("Before.", "Between.", "After.")] == [True] * 3


def test_broken_guarantees_come_first() -> None:
    page = update_page(EMPTY, [KILL, Row(f"{BROKEN}: it", "why", "test_stop.py", "now")], {"test_kill.py"}, "here")

    assert page.index(BROKEN) < page.index(KILL.guarantee)


def test_a_figure_fits_into_one_row_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from .figures import FIGURES_VARIABLE, figure

    monkeypatch.setenv(FIGURES_VARIABLE, str(tmp_path / "figures"))
    figure(GUARANTEES[1], "a | b\nc")

    (row,) = read_figures(tmp_path / "figures")
    assert (row.figure, row.test) == ("a / b c", "test_figures.py")


def test_the_page_has_only_rows_of_known_guarantees() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert update_page(page, [], set(), _where(page)) == page


def _where(page: str) -> str:
    return page.partition("Last run: ")[2].partition(".\n")[0]


def test_a_killed_run_leaves_no_process_mount_or_file() -> None:
    with run_directory() as folder:
        (folder / "disk").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "memfs-test", str(folder / "disk")], check=True)
        code = f"import os; os.chdir({str(folder / 'disk')!r}); os.write(1, b'.'); import signal; signal.pause()"
        orphan = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, MARK: folder.name},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert orphan.stdout is not None
        assert orphan.stdout.read(1) == b"."

    orphan.communicate(timeout=TIMEOUT_SECONDS)
    assert orphan.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
