"""Rows of a table of results: formatting, and reading and writing them as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

HEAD = ("operation", "p50", "baseline", "p50", "ratio", "goal")
Unit = Literal["time", "bytes", "share", "rate"]
_SCALES = {"time": ((1, "s"), (1e-3, "ms"), (1e-6, "us")), "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))}


class Figure(NamedTuple):
    """One row: an operation, with its baseline if it has one."""

    name: str
    unit: Unit
    p50: float
    baseline: str = ""
    baseline_p50: float | None = None
    ratio: float | None = None
    goals: Mapping[str, bool] = {}  # text of a goal -> whether it is met

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Figure":
        """Return the figure of a mapping made by `_asdict`."""
        if values["unit"] not in get_args(Unit):
            raise ValueError(values["unit"])
        return cls(**values)

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells for the columns of `HEAD`."""
        baseline = "" if self.baseline_p50 is None else format_value(self.baseline_p50, self.unit)
        goals = ", ".join(f"{words} {'met' if met else 'MISSED'}" for words, met in self.goals.items())
        return self.name, format_value(self.p50, self.unit), self.baseline, baseline, self.times, goals

    @property
    def times(self) -> str:
        """Return the ratio as text."""
        return "" if self.ratio is None else f"{self.ratio:,.{2 if self.ratio < 100 else 0}f}x"


class Measured(NamedTuple):
    """The results of one run for one size."""

    memories: int
    where: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, memories: str, values: Mapping[str, Any]) -> "Measured":
        """Return the results of a mapping made by `to_json`."""
        return cls(int(memories), values["where"], tuple(map(Figure.read, values["figures"])), tuple(values["notes"]))

    @property
    def to_json(self) -> dict[str, Any]:
        """Return the results, without the size, for a file."""
        return {"where": self.where, "figures": [one._asdict() for one in self.figures], "notes": self.notes}

    def get(self, name: str) -> Figure | None:
        """Return the row of that name."""
        return next((one for one in self.figures if one.name == name), None)


def table(figures: Sequence[Figure]) -> str:
    """Return the rows as an aligned table."""
    lines = [one.cells for one in figures]
    widths = [max(len(line[column]) for line in (HEAD, *lines)) for column in range(len(HEAD))]
    left = {0, 2}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (HEAD, tuple("-" * width for width in widths), *lines)
    )


def format_value(value: float, unit: Unit) -> str:
    """Return a value with its unit. A rate is stored as seconds per item."""
    if unit == "share":
        return f"{value * 100:.3g} %"
    if unit == "rate":
        return f"{1 / value:,.0f}/s"
    scales = _SCALES[unit]
    scale, name = next((pair for pair in scales if value >= pair[0]), scales[-1])
    return f"{value / scale:.3g} {name}" if value / scale < 100 else f"{value / scale:,.0f} {name}"
