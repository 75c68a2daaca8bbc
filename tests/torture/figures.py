"""Figures that tests record during a run, and the tables of docs/reliability.md that a run updates.

A row of the page belongs to the test file that measured it; a run of some files replaces only their rows.
"""

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

FIGURES_VARIABLE = "MEMFS_FIGURES"  # environment variable: the file that a run records its figures in
BROKEN = "DOES NOT HOLD"
GUARANTEES = (  # in the order of the page
    BROKEN,
    "an acknowledged write is never lost",
    "no lost update",
    "no process is blocked",
    "power loss",
    "a person's save is never lost",
    "never torn",
    "a search is up to date",
    "the index is a cache",
    "disk full, read-only, unreadable",
    "hostile files",
    "hostile names",
    "nothing outside the vault is touched",
    "any question is a valid query",
    "every text is read back exactly",
    "reading changes nothing",
    "small diffs",
    "outside changes are noticed",
    "git never loses a memory",
    "nothing is lost between vaults",
    "stored text is data",
    "forget and remove are complete",
    "secrets stay secret",
    "clock jumps are harmless",
    "nothing left behind",
    "idle costs nothing",
    "any sequence of steps",
)
COMPARISON = "comparison"  # the guarantee of figures that have a table of their own
REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reliability.md"
COLUMNS = {
    "figures": ("guarantee", "figure", "test", "measured"),
    COMPARISON: ("task", "program", "figure", "measured"),
}


class Row(NamedTuple):
    """One row of a table: the guarantee and its case, the figure, the test file, and the date and commit."""

    guarantee: str
    figure: str
    test: str
    measured: str = ""

    @property
    def head(self) -> str:
        return self.guarantee.partition(":")[0]


def figure(guarantee: str, text: str) -> None:
    """Print a figure and record it for the page. A guarantee may name a case: `no lost update: 8 processes`."""
    assert guarantee.partition(":")[0] in {*GUARANTEES, COMPARISON}, f"{guarantee!r} is not a guarantee of the page"
    print(f"\n{guarantee} | {text}")
    note(Row(guarantee, text, current_test_file()))


def note(row: Row) -> None:
    """Append a row to the file of this run, if there is one; the rows of a killed run are kept."""
    if FIGURES_VARIABLE in os.environ:
        with open(os.environ[FIGURES_VARIABLE], "a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)


def current_test_file() -> str:
    """Return the name of the running test file."""
    return Path(os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]).name


def read_figures(file: Path) -> list[Row]:
    """Return the rows that a run recorded, with the day and the commit."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    when = f"{datetime.now(UTC):%Y-%m-%d} {_commit()}"
    return [Row(*map(_cell, json.loads(line)))._replace(measured=when) for line in lines]


def _cell(text: str) -> str:
    """Return a text that fits into one cell of a table."""
    return re.sub(r"\s+", " ", text.replace("|", "/")).strip()


# --- the page


def update_page(page: str, rows: Sequence[Row], files: Iterable[str], where: str) -> str:
    """Return the page with all rows of some test files replaced by new ones."""
    ran = set(files)
    for name, columns in COLUMNS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        old, _, after = rest.partition(end)
        kept = [row for row in _rows(old, name) if row.test not in ran]
        new = [row for row in rows if (row.head == COMPARISON) == (name == COMPARISON)]
        lines = [columns, ("---",) * len(columns), *(_cells(row, name) for row in sorted([*kept, *new], key=_sort_key))]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        last_run = f"Last run: {where}.\n\n" if name != COMPARISON else ""
        page = f"{before}{begin}{last_run}{table}\n{end}{after}"
    return page


def _rows(table: str, name: str) -> list[Row]:
    """Return the rows of a table of the page."""
    lines = [line.strip().strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in lines[2:]]
    if name == COMPARISON:
        return [
            Row(f"{COMPARISON}: {task}: {program}", text, "test_peers.py", when) for task, program, text, when in cells
        ]
    return [Row(guarantee, text, test.strip("`"), when) for guarantee, text, test, when in cells]


def _cells(row: Row, name: str) -> tuple[str, ...]:
    if name == COMPARISON:
        _, task, program = row.guarantee.split(": ")
        return task, program, row.figure, row.measured
    return row.guarantee, row.figure, f"`{row.test}`", row.measured


def _sort_key(row: Row) -> tuple[int, str]:
    """Order by the list of guarantees, and rows of the comparison by their task."""
    is_guarantee = row.head in GUARANTEES
    return (GUARANTEES.index(row.head), "") if is_guarantee else (len(GUARANTEES), row.guarantee.split(": ")[1])


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text for a terminal."""
    ordered = sorted(rows, key=_sort_key)
    width = max((len(row.guarantee) for row in ordered), default=0)
    return "\n".join(f"{row.guarantee.ljust(width)}  {row.figure}" for row in ordered)


def machine(folder: Path) -> str:
    """Describe the machine and the file system of a run."""
    mounts = [line.split()[:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    kind = max((len(mount), kind) for _, mount, kind in mounts if folder.is_relative_to(mount))[1]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{platform.system()} {platform.release().partition('-')[0]}, {kind}, {os.cpu_count()} cores, {python}"


def _commit() -> str:
    """Return the commit, followed by + if memfs has uncommitted changes."""
    return _git("rev-parse", "--short", "HEAD") + "+" * bool(_git("status", "--porcelain", "--", "memfs"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()
