"""One header on the fast path, beside the same one through YAML."""

from pathlib import Path

import yaml

from benchmarks.corpus import HEADER, memory
from benchmarks.measure import Row, Size, interleaved
from memfs.frontmatter import parse

FLOOR = "yaml.CSafeLoader, header alone"


def rows(size: Size, folder: Path) -> list[Row]:
    """The layout memfs writes, and one that only YAML can read: a comment makes the difference."""
    flat = memory(1, "Alice likes sushi, with tuna most of all.")
    other = flat.replace("type: fact\n", "type: fact  # as far as we know\n")
    header = HEADER.format(number=1)
    taken = interleaved(
        {
            "flat": lambda: parse(flat),
            "yaml": lambda: parse(other),
            "floor": lambda: yaml.load(header, Loader=yaml.CSafeLoader),
        },
        size.parses,
    )
    return [
        Row("parse, flat header", taken["flat"], FLOOR, taken["floor"]),
        Row("parse, header with a comment", taken["yaml"], FLOOR, taken["floor"]),
    ]
