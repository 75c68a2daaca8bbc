"""The lines of a table, as they are printed, kept and read again."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

HEAD = ("what", "p50", "beside", "p50", "ratio", "goal")
Unit = Literal["time", "bytes", "share", "rate"]
_SCALES = {"time": ((1, "s"), (1e-3, "ms"), (1e-6, "us")), "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))}


class Figure(NamedTuple):
    """One line: a subject, beside its floor if it has one."""

    name: str
    unit: Unit
    p50: float
    floor: str = ""
    floor_p50: float | None = None
    ratio: float | None = None
    goals: Mapping[str, bool] = {}  # in words, and whether each is met

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Figure":
        """What `_asdict` gave, from a file."""
        if values["unit"] not in get_args(Unit):
            raise ValueError(values["unit"])
        return cls(**values)

    @property
    def cells(self) -> tuple[str, ...]:
        """What the columns of `HEAD` hold."""
        beside = "" if self.floor_p50 is None else shown(self.floor_p50, self.unit)
        goals = ", ".join(f"{words} {'met' if met else 'MISSED'}" for words, met in self.goals.items())
        return self.name, shown(self.p50, self.unit), self.floor, beside, self.times, goals

    @property
    def times(self) -> str:
        """The ratio."""
        return "" if self.ratio is None else f"{self.ratio:,.{2 if self.ratio < 100 else 0}f}x"


class Measured(NamedTuple):
    """What one run found out about one size."""

    memories: int
    where: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, memories: str, values: Mapping[str, Any]) -> "Measured":
        """What `written` gave."""
        return cls(int(memories), values["where"], tuple(map(Figure.read, values["figures"])), tuple(values["notes"]))

    @property
    def written(self) -> dict[str, Any]:
        """Itself without the size, for a file."""
        return {"where": self.where, "figures": [one._asdict() for one in self.figures], "notes": self.notes}

    def get(self, name: str) -> Figure | None:
        """The line of that name."""
        return next((one for one in self.figures if one.name == name), None)


def table(figures: Sequence[Figure]) -> str:
    """The lines, aligned."""
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


def shown(value: float, unit: Unit) -> str:
    """A figure with its unit, short. A rate is kept as the seconds that one takes."""
    if unit == "share":
        return f"{value * 100:.3g} %"
    if unit == "rate":
        return f"{1 / value:,.0f}/s"
    scales = _SCALES[unit]
    scale, name = next((pair for pair in scales if value >= pair[0]), scales[-1])
    return f"{value / scale:.3g} {name}" if value / scale < 100 else f"{value / scale:,.0f} {name}"
