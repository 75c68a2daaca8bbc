"""Interleaved timing, and the table."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

BLOCK = 10  # calls in a row, so that what a subject leaves to the disk is paid for by itself
HEAD = ("what", "p50", "beside", "p50", "ratio", "goal")
Unit = Literal["time", "bytes", "share"]


class Size(NamedTuple):
    """How much of everything."""

    memories: int  # in the vault that is read and searched
    passes: int  # over all of them
    writes: int  # of each kind
    crowd: int  # memories already in the crowded namespace
    starts: int  # of each command
    parses: int  # of each header
    questions: int
    adds: tuple[int, ...]  # since the index was published
    builds: int  # of a whole index
    waits: int  # for a second, before a question
    idle: float  # seconds of watching where nothing happens


_TINY = Size(
    memories=20, passes=2, writes=16, crowd=10, starts=1, parses=20,
    questions=10, adds=(2, 4), builds=1, waits=1, idle=0.2,
)  # fmt: skip
_SMALL = Size(
    memories=1_000, passes=15, writes=200, crowd=1_000, starts=9, parses=2_000,
    questions=200, adds=(100, 250, 500), builds=5, waits=5, idle=3,
)  # fmt: skip
_LARGE = _SMALL._replace(starts=15, parses=5_000, questions=400, waits=9)
SIZES = {
    "tiny": _TINY,
    "small": _SMALL,
    "10k": _LARGE._replace(memories=10_000, passes=9, writes=500, idle=20),
    "100k": _LARGE._replace(memories=100_000, passes=5, writes=1_000, builds=3, idle=60),
}


class Times(NamedTuple):
    """The p50 of each round of one subject: seconds an item, or what the row measures instead."""

    rounds: list[float]

    @property
    def p50(self) -> float:
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a subject, beside its floor if it has one."""

    name: str
    times: Times
    floor: str = ""
    floor_times: Times | None = None
    goal: float | None = None  # the ratio at most
    least: float | None = None  # the ratio at least: how much slower a peer is
    limit: float | None = None  # the p50 at most
    unit: Unit = "time"

    @property
    def ratio(self) -> float | None:
        """The p50 of the ratios of the rounds: what slows a round down slows both, and drops out."""
        if self.floor_times is None:
            return None
        pairs = zip(self.times.rounds, self.floor_times.rounds, strict=True)
        return median([one / other if other else 0.0 for one, other in pairs])

    @property
    def goals(self) -> list[tuple[str, bool]]:
        """The goals in words, and whether each is met."""
        found = []
        if self.goal is not None:
            found.append((f"{self.goal:g}x", (self.ratio or 0) <= self.goal))
        if self.least is not None:
            found.append((f">= {self.least:,g}x", (self.ratio or 0) >= self.least))
        if self.limit is not None:
            found.append((shown(self.limit, self.unit), self.times.p50 <= self.limit))
        return found

    @property
    def cells(self) -> tuple[str, ...]:
        """What the columns of `HEAD` hold."""
        floor = shown(self.floor_times.p50, self.unit) if self.floor_times else ""
        ratio = "" if self.ratio is None else f"{self.ratio:,.{2 if self.ratio < 100 else 0}f}x"
        goals = ", ".join(f"{words} {'met' if met else 'MISSED'}" for words, met in self.goals)
        return self.name, shown(self.times.p50, self.unit), self.floor, floor, ratio, goals


def joined(rows: Sequence[Row]) -> Row:
    """The same row of several trials as one."""
    times = Times([time for row in rows for time in row.times.rounds])
    floor = Times([time for row in rows if row.floor_times for time in row.floor_times.rounds])
    return replace(rows[0], times=times, floor_times=floor if floor.rounds else None)


def interleaved(
    subjects: Mapping[str, Callable[[], object]],
    calls: int,
    *,
    block: int = BLOCK,
    items: int = 1,
    slow: Collection[str] = (),
) -> dict[str, Times]:
    """Time the subjects side by side: a block of calls of each a round, every round beginning with another.

    Of a subject that is `slow` a block is one call.
    """
    times: dict[str, Times] = {name: Times([]) for name in subjects}
    names = list(subjects)
    for first in range(max(1, calls // block)):
        for name in names[first % len(names) :] + names[: first % len(names)]:
            taken = []
            for _ in range(1 if name in slow else min(block, calls)):
                start = time.perf_counter()
                subjects[name]()
                taken.append(time.perf_counter() - start)
            times[name].rounds.append(median(taken) / items)
    return times


def table(rows: Sequence[Row]) -> str:
    """The rows, aligned."""
    lines = [row.cells for row in rows]
    widths = [max(len(line[column]) for line in (HEAD, *lines)) for column in range(len(HEAD))]
    left = {0, 2}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (HEAD, tuple("-" * width for width in widths), *lines)
    )


def shown(value: float, unit: Unit) -> str:
    """A figure with its unit, short."""
    if unit == "share":
        return f"{value * 100:.3g} %"
    scales = {"time": ((1, "s"), (1e-3, "ms"), (1e-6, "us")), "bytes": ((1e6, "MB"), (1, "B"))}[unit]
    scale, name = next((pair for pair in scales if value >= pair[0]), scales[-1])
    return f"{value / scale:.3g} {name}" if value / scale < 100 else f"{value / scale:,.0f} {name}"


def circumstances(folder: Path) -> str:
    """The date, the commit and the machine, as one line each."""
    commit = _git("describe", "--always") or "unknown"
    if _git("status", "--porcelain", "memfs", "benchmarks"):
        commit += "-dirty"
    now = datetime.now(UTC)
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    machine = f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, load {load}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{now:%Y-%m-%d %H:%M} UTC, commit {commit}\n{machine}, {python}, {file_system(folder)}"


def _git(*words: str) -> str:
    checkout = Path(__file__).parents[1]
    return subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=False).stdout.strip()


def file_system(folder: Path) -> str:
    """The type of the file system that holds a directory, if that can be told."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "file system unknown"
    holding = [(len(place), kind) for _, place, kind, *_ in mounts if folder.is_relative_to(place)]
    return max(holding)[1] if holding else "file system unknown"
