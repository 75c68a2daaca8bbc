"""The page of figures, and a run that leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .figures import BROKEN, PAGE, PEERS, PROMISES, Row, noted, updated
from .run import MARK, _folder
from .support import LIMIT

EMPTY = (
    f"Before.\n<!-- figures -->\n<!-- end of figures -->\nBetween.\n<!-- {PEERS} -->\n<!-- end of {PEERS} -->\nAfter.\n"
)
KILL = Row(PROMISES[1], "8 of 8 there", "test_kill.py", "today abc")
APPEND = Row(f"{PROMISES[2]}: 2 processes", "2 of 2 there", "test_append.py", "today abc")
PEER = Row(f"{PEERS}: lost lines: one 1.0", "3 lost", "test_peers.py", "today abc")


def test_a_run_replaces_the_rows_of_its_files_alone() -> None:
    page = updated(EMPTY, [APPEND, PEER, KILL], {"test_kill.py", "test_append.py", "test_peers.py"}, "here")
    other = updated(page, [KILL._replace(figure="9 of 9 there", measured="now def")], {"test_kill.py"}, "there")

    assert "| no lost update: 2 processes | 2 of 2 there | `test_append.py` | today abc |" in other
    assert "| lost lines | one 1.0 | 3 lost | today abc |" in other
    assert "9 of 9 there" in other
    assert "8 of 8 there" not in other
    assert other.index("9 of 9") < other.index("2 of 2"), "not in the order of the promises"
    assert updated(other, [], set(), "there") == other
    assert [part in other for part in ("Before.", "Between.", "After.")] == [True] * 3


def test_what_does_not_hold_comes_first() -> None:
    page = updated(EMPTY, [KILL, Row(f"{BROKEN}: it", "why", "test_stop.py", "now")], {"test_kill.py"}, "here")

    assert page.index(BROKEN) < page.index(KILL.promise)


def test_a_figure_fits_into_a_line_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from .figures import NOTED, figure

    monkeypatch.setenv(NOTED, str(tmp_path / "figures"))
    figure(PROMISES[1], "a | b\nc")

    (row,) = noted(tmp_path / "figures")
    assert (row.figure, row.test) == ("a / b c", "test_figures.py")


def test_the_page_holds_rows_of_known_promises_alone() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert updated(page, [], set(), _where(page)) == page


def _where(page: str) -> str:
    return page.partition("Last run: ")[2].partition(".\n")[0]


def test_nothing_is_left_of_a_run_that_is_killed() -> None:
    with _folder() as folder:
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

    orphan.communicate(timeout=LIMIT)
    assert orphan.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
