"""Figures: taken by tests, noted as they come, and written into docs/reliability.md when a run is over.

A row of the page belongs to the test file that took it; a run of some files replaces their rows alone.
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

NOTED = "MEMFS_FIGURES"  # names the file that a run notes its figures in
BROKEN = "DOES NOT HOLD"
PROMISES = (  # as the page has them, one after the other
    BROKEN,
    "an acknowledged write is never lost",
    "no lost update",
    "nobody is blocked",
    "power loss",
    "a person's save is never lost",
    "never torn",
    "a search is right at once",
    "the index is a cache",
    "disk full, read-only, unreadable",
    "hostile files",
    "hostile names",
    "nothing outside is touched",
    "any question is a valid query",
    "every text comes back exactly",
    "a read dirties nothing",
    "small diffs",
    "watching heals",
    "git never loses a memory",
    "nothing is lost between vaults",
    "stored text is data",
    "forget means it",
    "a secret stays one",
    "a clock may jump",
    "nothing left behind",
    "idle costs nothing",
    "any sequence of steps",
)
PEERS = "beside others"  # the promise of figures that stand in a table of their own
REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reliability.md"
HEADS = {"figures": ("promise", "figure", "test", "measured"), PEERS: ("what", "whom", "figure", "measured")}


class Row(NamedTuple):
    """A line of a table: the promise and its case, what was measured, the test file, and when."""

    promise: str
    figure: str
    test: str
    measured: str = ""

    @property
    def head(self) -> str:
        return self.promise.partition(":")[0]


def figure(promise: str, text: str) -> None:
    """Print a figure and note it for the page. A promise may name a case: `no lost update: 8 processes`."""
    assert promise.partition(":")[0] in {*PROMISES, PEERS}, f"{promise!r} is no promise of the page"
    print(f"\n{promise} | {text}")
    note(Row(promise, text, current()))


def note(row: Row) -> None:
    """Append a row to the file of this run, if there is one: a run that is killed has noted what it took."""
    if NOTED in os.environ:
        with open(os.environ[NOTED], "a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)


def current() -> str:
    """The name of the test file that runs."""
    return Path(os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]).name


def noted(file: Path) -> list[Row]:
    """What a run has noted, with the day and the commit."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    when = f"{datetime.now(UTC):%Y-%m-%d} {_commit()}"
    return [Row(*map(_cell, json.loads(line)))._replace(measured=when) for line in lines]


def _cell(text: str) -> str:
    """A text that fits into a table."""
    return re.sub(r"\s+", " ", text.replace("|", "/")).strip()


# --- the page


def updated(page: str, rows: Sequence[Row], files: Iterable[str], where: str) -> str:
    """The page with new rows in the place of all rows of some test files."""
    ran = set(files)
    for name, head in HEADS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        old, _, after = rest.partition(end)
        kept = [row for row in _rows(old, name) if row.test not in ran]
        mine = [row for row in rows if (row.head == PEERS) == (name == PEERS)]
        lines = [head, ("---",) * len(head), *(_cells(row, name) for row in sorted([*kept, *mine], key=_place))]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        said = f"Last run: {where}.\n\n" if name != PEERS else ""
        page = f"{before}{begin}{said}{table}\n{end}{after}"
    return page


def _rows(table: str, name: str) -> list[Row]:
    """The rows of a table of the page."""
    lines = [line.strip().strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in lines[2:]]
    if name == PEERS:
        return [Row(f"{PEERS}: {what}: {whom}", text, "test_peers.py", when) for what, whom, text, when in cells]
    return [Row(promise, text, test.strip("`"), when) for promise, text, test, when in cells]


def _cells(row: Row, name: str) -> tuple[str, ...]:
    if name == PEERS:
        _, what, whom = row.promise.split(": ")
        return what, whom, row.figure, row.measured
    return row.promise, row.figure, f"`{row.test}`", row.measured


def _place(row: Row) -> tuple[int, str]:
    """Promises as they are listed; what stands beside others by what was done."""
    is_ours = row.head in PROMISES
    return (PROMISES.index(row.head), "") if is_ours else (len(PROMISES), row.promise.split(": ")[1])


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    ordered = sorted(rows, key=_place)
    width = max((len(row.promise) for row in ordered), default=0)
    return "\n".join(f"{row.promise.ljust(width)}  {row.figure}" for row in ordered)


def machine(folder: Path) -> str:
    """Where a run happens."""
    mounts = [line.split()[:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    kind = max((len(place), kind) for _, place, kind in mounts if folder.is_relative_to(place))[1]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{platform.system()} {platform.release().partition('-')[0]}, {kind}, {os.cpu_count()} cores, {python}"


def _commit() -> str:
    """The commit, with a mark where memfs differs from it."""
    return _git("rev-parse", "--short", "HEAD") + "+" * bool(_git("status", "--porcelain", "--", "memfs"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()
