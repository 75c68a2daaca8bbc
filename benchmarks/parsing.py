"""One header on the fast path, beside the same one through YAML."""

import yaml

from benchmarks.corpus import sample
from benchmarks.measure import Row, interleaved
from benchmarks.place import Place
from memfs.format.frontmatter import parse

FLOOR = "yaml.CSafeLoader, header alone"


def rows(place: Place) -> list[Row]:
    """The layout memfs writes, and one that only YAML can read: a comment makes the difference."""
    flat = sample(1, 1).text
    other = flat.replace("\ntags:", "  # as far as we know\ntags:")
    header = sample(1, 1).header
    taken = interleaved(
        {
            "flat": lambda: parse(flat),
            "yaml": lambda: parse(other),
            "floor": lambda: yaml.load(header, Loader=yaml.CSafeLoader),
        },
        place.size.parses,
    )
    return [
        Row("parse, flat header", taken["flat"], FLOOR, taken["floor"]),
        Row("parse, header with a comment", taken["yaml"], FLOOR, taken["floor"]),
    ]
