"""Sizes of the benchmarks, rows, and interleaved timing."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Figure, Unit, format_value

BLOCK = 10  # calls in a row, so that each subject pays for its own writes to the disk


class Size(NamedTuple):
    """Numbers of memories, calls and rounds."""

    memories: int  # in the vault that is read and searched
    passes: int  # over all memories
    writes: int  # of each kind of write
    crowd: int  # memories in the crowded namespace before
    starts: int  # of each command
    parses: int  # of each header
    questions: int
    adds: tuple[int, ...]  # steps of adds since the index was published
    builds: int  # of a whole index
    waits: int  # questions after a pause
    idle: float  # seconds of watching without changes
    load: int  # memories of a bulk load
    loads: int


_TINY = Size(
    memories=20, passes=2, writes=16, crowd=10, starts=1, parses=20, questions=10, adds=(2, 4), builds=1, waits=1,
    idle=0.2, load=20, loads=1,
)  # fmt: skip
_SMALL = Size(
    memories=1_000, passes=15, writes=200, crowd=1_000, starts=9, parses=2_000, questions=200, adds=(100, 250, 500),
    builds=5, waits=5, idle=3, load=1_000, loads=3,
)  # fmt: skip
_LARGE = _SMALL._replace(starts=15, parses=5_000, questions=400, waits=9, load=10_000, loads=2)
SIZES = {
    "tiny": _TINY,
    "small": _SMALL,
    "10k": _LARGE._replace(memories=10_000, passes=9, writes=500, idle=20),
    "100k": _LARGE._replace(memories=100_000, passes=5, writes=1_000, builds=3, idle=60),
    "1M": _SMALL._replace(memories=1_000_000, passes=1, starts=5, questions=100, builds=1, idle=20),
}


class MeasuredSeconds(float):
    """Seconds that a subject has measured itself, where only a part of the call counts."""


class Times(NamedTuple):
    """The p50 of each round of one subject: seconds per item, or the unit of the row."""

    rounds: list[float]

    @property
    def p50(self) -> float:
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements of one row: an operation, with its baseline if it has one."""

    name: str
    times: Times
    baseline: str = ""
    baseline_times: Times | None = None
    goal: float | None = None  # maximal ratio
    least: float | None = None  # minimal ratio: how much slower a peer is
    limit: float | None = None  # maximal p50
    unit: Unit = "time"

    @property
    def ratio(self) -> float | None:
        """Return the p50 of the ratios of the rounds; noise that slows a round slows both, and cancels."""
        if self.baseline_times is None:
            return None
        pairs = zip(self.times.rounds, self.baseline_times.rounds, strict=True)
        return median([one / other if other else 0.0 for one, other in pairs])

    @property
    def figure(self) -> Figure:
        """Return the row as a figure."""
        baseline = self.baseline_times.p50 if self.baseline_times else None
        return Figure(self.name, self.unit, self.times.p50, self.baseline, baseline, self.ratio, self._goals)

    @property
    def _goals(self) -> dict[str, bool]:
        """Return the text of each goal, and whether it is met."""
        found = {}
        if self.goal is not None:
            found[f"{self.goal:g}x"] = (self.ratio or 0) <= self.goal
        if self.least is not None:
            found[f">= {self.least:,g}x"] = (self.ratio or 0) >= self.least
        if self.limit is not None:
            found[format_value(self.limit, self.unit)] = self.times.p50 <= self.limit
        return found


def joined(rows: Sequence[Row]) -> Row:
    """Return one row of the same rows of several trials."""
    times = Times([time for row in rows for time in row.times.rounds])
    baseline = Times([time for row in rows if row.baseline_times for time in row.baseline_times.rounds])
    return replace(rows[0], times=times, baseline_times=baseline if baseline.rounds else None)


def interleaved(
    subjects: Mapping[str, Callable[[], object]],
    calls: int,
    *,
    block: int = BLOCK,
    items: int = 1,
    slow: Collection[str] = (),
) -> dict[str, Times]:
    """Time the subjects in rounds: each round runs one block of calls of each, starting with a different subject.

    A block of a subject in `slow` is one call. A subject that returns `MeasuredSeconds` has timed itself.
    """
    times: dict[str, Times] = {name: Times([]) for name in subjects}
    names = list(subjects)
    for first in range(max(1, calls // block)):
        for name in names[first % len(names) :] + names[: first % len(names)]:
            taken = []
            for _ in range(1 if name in slow else min(block, calls)):
                start = time.perf_counter()
                result = subjects[name]()
                taken.append(result if isinstance(result, MeasuredSeconds) else time.perf_counter() - start)
                del result  # outside the timed section
            times[name].rounds.append(median(taken) / items)
    return times


def describe_run(folder: Path) -> str:
    """Return the date and commit, and the machine, in two lines."""
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
    """Return the type of the file system of a directory, if it can be determined."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "file system unknown"
    holding = [(len(mount), kind) for _, mount, kind, *_ in mounts if folder.is_relative_to(mount)]
    return max(holding)[1] if holding else "file system unknown"
