"""Growth curves as one SVG: four panels with logarithmic axes, for light and dark backgrounds."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from benchmarks.figures import Measured, Unit, format_value

WIDTH, HEIGHT = 880, 580
PLOT_SIZE = 250, 190  # of the curves of a panel
STEP = 440, 280  # from one panel to the next
LEFT, TOP = 66, 52
LABEL = 14  # height of a name in pixels
LIGHT = {"text": "#3d444d", "title": "#1f2328", "ground": "#ffffff", "grid": "#d8dee4"}
LIGHT |= {"memfs": "#0969da", "other": "#bc4c00", "fts": "#1a7f37"}
DARK = {"text": "#b1bac4", "title": "#f0f6fc", "ground": "#0d1117", "grid": "#30363d"}
DARK |= {"memfs": "#58a6ff", "other": "#f0883e", "fts": "#3fb950"}
MOST_TICKS = 7
CURVES = ("memfs", "other", "fts")


def _colour_rules(colours: Mapping[str, str]) -> str:
    plain = f"text {{ fill: {colours['text']} }} .title {{ fill: {colours['title']} }}"
    plain += f" .ground {{ fill: {colours['ground']} }} .grid {{ stroke: {colours['grid']} }}"
    curves = [f".line.{name} {{ stroke: {colours[name]} }} .ink.{name} {{ fill: {colours[name]} }}" for name in CURVES]
    return "\n".join([plain, *curves])


STYLE = f"""\
text {{ font: 12px system-ui, "DejaVu Sans", sans-serif }}
.title, .ink {{ font-weight: 600 }}
.line {{ fill: none; stroke-width: 2 }}
{_colour_rules(LIGHT)}
@media (prefers-color-scheme: dark) {{
{_colour_rules(DARK)}
}}
"""


class Line(NamedTuple):
    """One curve: its name, its colour, and the row of its figures."""

    name: str
    colour: str
    row: str
    use_baseline: bool = False  # use the baseline of the row


class Panel(NamedTuple):
    """One diagram."""

    title: str
    unit: Unit
    lines: tuple[Line, ...]
    per_memory: bool = False


BUILD, SCAN, HOLD = "cold build, wall", "new Vault, sync with nothing changed", "memory of a process after searches"
PANELS = (
    Panel(
        "a question",
        "time",
        (
            Line("memfs", "memfs", "question"),
            Line("tantivy", "other", "question", use_baseline=True),
            Line("FTS5, as typed", "fts", "SQLite FTS5: the question as typed"),
        ),
    ),
    Panel(
        "cold build, per memory",
        "time",
        (
            Line("memfs", "memfs", BUILD),
            Line("tantivy", "other", BUILD, use_baseline=True),
            Line("FTS5", "fts", "SQLite FTS5: build, wall"),
        ),
        per_memory=True,
    ),
    Panel(
        "scan of all files, nothing changed",
        "time",
        (Line("memfs", "memfs", SCAN), Line("git status", "other", SCAN, use_baseline=True)),
    ),
    Panel(
        "memory of a process after searches",
        "bytes",
        (
            Line("memfs", "memfs", HOLD),
            Line("tantivy", "other", HOLD, use_baseline=True),
            Line("FTS5", "fts", f"SQLite FTS5: {HOLD}"),
        ),
    ),
)


class Axis(NamedTuple):
    """A logarithmic axis: its ends, and its length in pixels."""

    low: float
    high: float
    length: int

    def at(self, value: float) -> float:
        """Return the position of a value in pixels."""
        return math.log(value / self.low) / math.log(self.high / self.low) * self.length


def draw(sizes: Sequence[Measured]) -> str:
    """Return the SVG."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
    ground = f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
    panels = []
    for number, panel in enumerate(PANELS):
        row, column = divmod(number, 2)
        group = f'<g transform="translate({LEFT + column * STEP[0]} {TOP + row * STEP[1]})">'
        panels += [group, *_panel(panel, sizes), "</g>"]
    return "\n".join([head, f"<style>\n{STYLE}</style>", ground, *panels, "</svg>\n"])


def _panel(panel: Panel, sizes: Sequence[Measured]) -> list[str]:
    title = f'<text class="title" x="0" y="-16">{escape(panel.title)}</text>'
    curves = {line: points for line in panel.lines if (points := _points(line, sizes, per_memory=panel.per_memory))}
    if not curves:
        return [title]
    values = [value for points in curves.values() for _, value in points]
    ticks = _ticks(min(values), max(values))
    across = Axis(sizes[0].memories, max(sizes[-1].memories, 10 * sizes[0].memories), PLOT_SIZE[0])
    up = Axis(ticks[0], ticks[-1], PLOT_SIZE[1])
    return [title, *_grid(panel.unit, ticks, sizes, across, up), *_curves(curves, across, up)]


def _points(line: Line, sizes: Sequence[Measured], *, per_memory: bool) -> list[tuple[int, float]]:
    """Return the number of memories and the figure of each measured size."""
    found = []
    for size in sizes:
        figure = size.get(line.row)
        value = figure and (figure.baseline_p50 if line.use_baseline else figure.p50)
        if value:
            found.append((size.memories, value / size.memories if per_memory else value))
    return found


def _ticks(low: float, high: float) -> list[float]:
    """Return round values around all figures; powers of ten if there would be too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    first = max(number for number, value in enumerate(fine) if value <= low * 1.001)
    last = next(number for number, value in enumerate(fine) if value >= high * 0.999 and number > first)
    ticks = fine[first : last + 1]
    return ticks if len(ticks) <= MOST_TICKS else [10.0**power for power in powers]


def _grid(unit: Unit, ticks: Sequence[float], sizes: Sequence[Measured], across: Axis, up: Axis) -> list[str]:
    found = []
    for tick in ticks:
        y = PLOT_SIZE[1] - up.at(tick)
        found.append(f'<line class="grid" x1="0" x2="{PLOT_SIZE[0]}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{format_value(tick, unit)}</text>')
    for size in sizes:
        x = across.at(size.memories)
        found.append(f'<text x="{x:.1f}" y="{PLOT_SIZE[1] + 20}" text-anchor="middle">{_short(size.memories)}</text>')
    return found


def _short(number: int) -> str:
    return (
        f"{number // 1_000_000}M" if number >= 1_000_000 else f"{number // 1_000}k" if number >= 1_000 else f"{number}"
    )


def _curves(curves: Mapping[Line, Sequence[tuple[int, float]]], across: Axis, up: Axis) -> list[str]:
    """Return the curves with their names at the end; overlapping names are moved apart."""
    found, ends = [], []
    for line, points in curves.items():
        places = [(across.at(memories), PLOT_SIZE[1] - up.at(value)) for memories, value in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        found.append(f'<polyline class="line {line.colour}" points="{path}"/>')
        found += [f'<circle class="ink {line.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
        ends.append((places[-1][1], places[-1][0], line))
    lowest = -math.inf
    for y, x, line in sorted(ends):
        lowest = max(y, lowest + LABEL)
        name = escape(line.name)
        found.append(f'<text class="ink {line.colour}" x="{x + 9:.1f}" y="{lowest + 4:.1f}">{name}</text>')
    return found
