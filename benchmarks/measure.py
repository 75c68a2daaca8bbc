"""How much is measured, and interleaved timing."""

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

from benchmarks.figures import Figure, Unit, shown

BLOCK = 10  # calls in a row, so that what a subject leaves to the disk is paid for by itself


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


class Taken(float):
    """Seconds that a subject has measured itself, where not all of a call is what is asked for."""


class Times(NamedTuple):
    """The p50 of each round of one subject: seconds an item, or what the row measures instead."""

    rounds: list[float]

    @property
    def p50(self) -> float:
        return median(self.rounds)


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured for one line of the table: a subject, beside its floor if it has one."""

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
    def figure(self) -> Figure:
        """The line itself."""
        beside = self.floor_times.p50 if self.floor_times else None
        return Figure(self.name, self.unit, self.times.p50, self.floor, beside, self.ratio, self._goals)

    @property
    def _goals(self) -> dict[str, bool]:
        """The goals in words, and whether each is met."""
        found = {}
        if self.goal is not None:
            found[f"{self.goal:g}x"] = (self.ratio or 0) <= self.goal
        if self.least is not None:
            found[f">= {self.least:,g}x"] = (self.ratio or 0) >= self.least
        if self.limit is not None:
            found[shown(self.limit, self.unit)] = self.times.p50 <= self.limit
        return found


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

    Of a subject that is `slow` a block is one call. One that answers with `Taken` is believed.
    """
    times: dict[str, Times] = {name: Times([]) for name in subjects}
    names = list(subjects)
    for first in range(max(1, calls // block)):
        for name in names[first % len(names) :] + names[: first % len(names)]:
            taken = []
            for _ in range(1 if name in slow else min(block, calls)):
                start = time.perf_counter()
                answer = subjects[name]()
                taken.append(answer if isinstance(answer, Taken) else time.perf_counter() - start)
                del answer  # within no subject's time
            times[name].rounds.append(median(taken) / items)
    return times


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
