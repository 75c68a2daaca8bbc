"""python -m benchmarks --size small|10k|100k [--only NAME] [--dir DIR] [--page FILE] [--json FILE] [--no-peers]"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import answering, indexing, injecting, parsing, reading, searching, starting, writing
from benchmarks.measure import SIZES, Row, circumstances, table
from benchmarks.page import updated
from benchmarks.place import Place

GROUPS: dict[str, Callable[[Place], list[Row]]] = {
    "indexing": indexing.rows,
    "searching": searching.rows,
    "answering": answering.rows,
    "injecting": injecting.rows,
    "writing": writing.rows,
    "reading": reading.rows,
    "starting": starting.rows,
    "parsing": parsing.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups one after the other, print one table, and write it where it is asked for."""
    options = _parser().parse_args(arguments)
    cache = options.dir.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is started finds its modules compiled, as installed ones are
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache / "pycache")
    size, rows = SIZES[options.size], []
    where = circumstances(cache)
    with tempfile.TemporaryDirectory(prefix="run-", dir=cache) as folder:
        place = Place(size, Path(folder), cache, peers=not options.no_peers)
        for name in options.only or GROUPS:
            print(f"{name} ...", file=sys.stderr)
            rows += GROUPS[name](place)
    print(f"memfs benchmarks, size {options.size}, {where}\n\n{table(rows)}")
    for note in place.notes:
        print(note)
    if options.json:
        figures = {"circumstances": where, "size": options.size, "rows": [_figures(row) for row in rows]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if options.page:
        old = options.page.read_text(encoding="utf-8") if options.page.exists() else ""
        options.page.write_text(updated(old, size.memories, where, rows, place.notes), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", choices=GROUPS, action="append", help="one group; may be given again")
    parser.add_argument("--dir", type=Path, metavar="DIR", default=".bench", help="where vaults and peers are kept")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into that page, for its size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--no-peers", action="store_true", help="nothing is installed")
    return parser


def _figures(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "unit": row.unit,
        "p50": row.times.p50,
        "floor": row.floor,
        "floor_p50": row.floor_times and row.floor_times.p50,
        "ratio": row.ratio,
        "goals": dict(row.goals),
    }


if __name__ == "__main__":
    sys.exit(main())
