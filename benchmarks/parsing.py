"""Parsing of a header on the fast path, compared with YAML."""

import yaml

from benchmarks.bench_run import BenchRun
from benchmarks.corpus import sample
from benchmarks.measure import Row, interleaved
from memfs.format.frontmatter import parse

BASELINE = "yaml.CSafeLoader, header alone"


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of the layout of memfs, and of a header with a comment, which only YAML can parse."""
    flat = sample(1, 1).text
    other = flat.replace("\ntags:", "  # as far as we know\ntags:")
    header = sample(1, 1).header
    taken = interleaved(
        {
            "flat": lambda: parse(flat),
            "yaml": lambda: parse(other),
            "baseline": lambda: yaml.load(header, Loader=yaml.CSafeLoader),
        },
        run.size.parses,
    )
    return [
        Row("parse, flat header", taken["flat"], BASELINE, taken["baseline"]),
        Row("parse, header with a comment", taken["yaml"], BASELINE, taken["baseline"]),
    ]
