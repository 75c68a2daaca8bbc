"""python -m benchmarks --size small|10k|100k|1M [--only NAME] [--dir DIR] [--page FILE] [--no-peers]"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    comparing,
    filtering,
    indexing,
    injecting,
    latency,
    loading,
    parsing,
    question_kinds,
    reading,
    searching,
    semantic,
    sessions,
    starting,
    writing,
)
from benchmarks.bench_run import BenchRun
from benchmarks.figures import Measured, table
from benchmarks.measure import SIZES, Row, describe_run
from benchmarks.page import update_page

GROUPS: dict[str, Callable[[BenchRun], list[Row]]] = {
    "indexing": indexing.rows,
    "searching": searching.rows,
    "question_kinds": question_kinds.rows,
    "filtering": filtering.rows,
    "semantic": semantic.rows,
    "comparing": comparing.rows,
    "latency": latency.rows,
    "injecting": injecting.rows,
    "writing": writing.rows,
    "loading": loading.rows,
    "reading": reading.rows,
    "sessions": sessions.rows,
    "starting": starting.rows,
    "parsing": parsing.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups in order, print one table, and update the page if one is given."""
    options = _parser().parse_args(arguments)
    if options.page and options.only:
        _parser().error("--page needs a run of all groups")
    cache = options.dir.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # child processes find compiled modules, like installed ones
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache / "pycache")
    size, rows = SIZES[options.size], []
    where = describe_run(cache)
    with tempfile.TemporaryDirectory(prefix="run-", dir=cache) as folder:
        run = BenchRun(size, Path(folder), cache, peers=not options.no_peers)
        for name in options.only or GROUPS:
            start = time.monotonic()
            rows += GROUPS[name](run)
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    measured = Measured(size.memories, where, tuple(row.figure for row in rows), tuple(run.notes))
    print(f"memfs benchmarks, size {options.size}, {where}\n\n{table(measured.figures)}")
    for note in measured.notes:
        print(note)
    if options.page:
        update_page(options.page, measured)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", choices=GROUPS, action="append", help="one group; may be repeated")
    parser.add_argument("--dir", type=Path, metavar="DIR", default=".bench", help="cache of vaults and peers")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the figures of this size into that page")
    parser.add_argument("--no-peers", action="store_true", help="skip other programs; install nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
