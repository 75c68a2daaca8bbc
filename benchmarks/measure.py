"""Interleaved timing, and the table."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

BLOCK = 10  # calls in a row, so that what a subject leaves to the disk is paid for by itself


class Size(NamedTuple):
    """How much of everything."""

    memories: int  # in the vault that is read
    passes: int  # over all of them
    writes: int  # of each kind
    crowd: int  # memories already in the crowded namespace
    starts: int  # of each command
    parses: int  # of each header


SIZES = {
    "tiny": Size(memories=20, passes=2, writes=16, crowd=10, starts=1, parses=20),
    "small": Size(memories=1_000, passes=15, writes=200, crowd=1_000, starts=9, parses=2_000),
    "10k": Size(memories=10_000, passes=9, writes=500, crowd=1_000, starts=15, parses=5_000),
    "100k": Size(memories=100_000, passes=5, writes=1_000, crowd=1_000, starts=15, parses=5_000),
}


class Times(NamedTuple):
    """The p50 of each round of one subject, in seconds an item."""

    rounds: list[float]

    @property
    def p50(self) -> float:
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a subject beside its floor."""

    name: str
    times: Times
    floor: str
    floor_times: Times
    goal: float | None = None

    @property
    def ratio(self) -> float:
        """The p50 of the ratios of the rounds: what slows a round down slows both, and drops out."""
        return median([one / other for one, other in zip(self.times.rounds, self.floor_times.rounds, strict=True)])


def joined(rows: Sequence[Row]) -> Row:
    """The same row of several trials as one."""
    times = Times([time for row in rows for time in row.times.rounds])
    floor = Times([time for row in rows for time in row.floor_times.rounds])
    return replace(rows[0], times=times, floor_times=floor)


def interleaved(
    subjects: Mapping[str, Callable[[], object]], calls: int, *, block: int = BLOCK, items: int = 1
) -> dict[str, Times]:
    """Time the subjects side by side: a block of calls of each a round, every round beginning with another."""
    times: dict[str, Times] = {name: Times([]) for name in subjects}
    names = list(subjects)
    for first in range(max(1, calls // block)):
        for name in names[first % len(names) :] + names[: first % len(names)]:
            taken = []
            for _ in range(min(block, calls)):
                start = time.perf_counter()
                subjects[name]()
                taken.append(time.perf_counter() - start)
            times[name].rounds.append(median(taken) / items)
    return times


def table(rows: Sequence[Row]) -> str:
    """The rows, aligned."""
    head = ("what", "p50", "floor", "p50", "ratio", "goal")
    cells = [
        (row.name, _time(row.times.p50), row.floor, _time(row.floor_times.p50), f"{row.ratio:.2f}x", _goal(row))
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *cells)) for column in range(len(head))]
    left = {0, 2}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, tuple("-" * width for width in widths), *cells)
    )


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    return f"{row.goal:g}x {'met' if row.ratio <= row.goal else 'MISSED'}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def circumstances(folder: Path) -> str:
    """The date, the commit and the machine, as one line each."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    now = datetime.now(UTC)
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    machine = f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, load {load}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{now:%Y-%m-%d %H:%M} UTC, commit {commit or 'unknown'}\n{machine}, {python}, {file_system(folder)}"


def file_system(folder: Path) -> str:
    """The type of the file system that holds a directory, if that can be told."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "file system unknown"
    holding = [(len(place), kind) for _, place, kind, *_ in mounts if folder.is_relative_to(place)]
    return max(holding)[1] if holding else "file system unknown"
