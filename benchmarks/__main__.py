"""python -m benchmarks --size small|10k|100k [--only NAME] [--json FILE] [--dir DIR]"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import parsing, reading, starting, writing
from benchmarks.measure import SIZES, Row, Size, circumstances, table

GROUPS: dict[str, Callable[[Size, Path], list[Row]]] = {
    "writing": writing.rows,
    "reading": reading.rows,
    "starting": starting.rows,
    "parsing": parsing.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups one after the other and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only", choices=GROUPS, action="append", help="one group; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="make the vaults on the disk of this directory")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="memfs-bench-", dir=options.dir) as place:
        folder = Path(place).resolve()
        where = circumstances(folder)
        rows = []
        for name in options.only or GROUPS:
            (folder / name).mkdir()
            rows += GROUPS[name](SIZES[options.size], folder / name)
    print(f"memfs benchmarks, size {options.size}, {where}\n\n{table(rows)}")
    if options.json:
        figures = [
            {
                "name": row.name,
                "p50": row.times.p50,
                "floor": row.floor,
                "floor_p50": row.floor_times.p50,
                "ratio": row.ratio,
                "goal": row.goal,
            }
            for row in rows
        ]
        text = json.dumps({"circumstances": where, "size": options.size, "rows": figures}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
