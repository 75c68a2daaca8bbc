"""python -m benchmarks --size small|10k|100k|1M [--only NAME] [--dir DIR] [--page FILE] [--no-peers]"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    answering,
    comparing,
    filtering,
    indexing,
    injecting,
    loading,
    meaning,
    mixing,
    parsing,
    reading,
    searching,
    sessions,
    starting,
    writing,
)
from benchmarks.figures import Measured, table
from benchmarks.measure import SIZES, Row, circumstances
from benchmarks.page import keep
from benchmarks.place import Place

GROUPS: dict[str, Callable[[Place], list[Row]]] = {
    "indexing": indexing.rows,
    "searching": searching.rows,
    "mixing": mixing.rows,
    "filtering": filtering.rows,
    "meaning": meaning.rows,
    "comparing": comparing.rows,
    "answering": answering.rows,
    "injecting": injecting.rows,
    "writing": writing.rows,
    "loading": loading.rows,
    "reading": reading.rows,
    "sessions": sessions.rows,
    "starting": starting.rows,
    "parsing": parsing.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups one after the other, print one table, and write it where it is asked for."""
    options = _parser().parse_args(arguments)
    if options.page and options.only:
        _parser().error("a page is written of a whole run")
    cache = options.dir.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is started finds its modules compiled, as installed ones are
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache / "pycache")
    size, rows = SIZES[options.size], []
    where = circumstances(cache)
    with tempfile.TemporaryDirectory(prefix="run-", dir=cache) as folder:
        place = Place(size, Path(folder), cache, peers=not options.no_peers)
        for name in options.only or GROUPS:
            start = time.monotonic()
            rows += GROUPS[name](place)
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    measured = Measured(size.memories, where, tuple(row.figure for row in rows), tuple(place.notes))
    print(f"memfs benchmarks, size {options.size}, {where}\n\n{table(measured.figures)}")
    for note in measured.notes:
        print(note)
    if options.page:
        keep(options.page, measured)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", choices=GROUPS, action="append", help="one group; may be given again")
    parser.add_argument("--dir", type=Path, metavar="DIR", default=".bench", help="where vaults and peers are kept")
    parser.add_argument("--page", type=Path, metavar="FILE", help="take the figures of this size into that page")
    parser.add_argument("--no-peers", action="store_true", help="nothing is installed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
