"""Reading every memory, compared with reading the bytes of files whose paths are known."""

import os

from benchmarks.bench_run import BenchRun
from benchmarks.measure import Row, interleaved
from memfs import Vault

GOAL = 2.0
BASELINE = "open, read, close, decode, cut off header"
BUFFER_BYTES = 4096  # no text of the corpus is longer, and a larger buffer would slow the baseline down


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of a listing, and of one with every header and body parsed."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(run.root / "facts") for name in names]
    vault, size = Vault(run.root), run.size

    def plain() -> list[tuple[str, str]]:
        found = []
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            data = os.read(fd, BUFFER_BYTES)
            os.close(fd)
            _, header, body = data.decode().split("---\n", 2)
            found.append((header, body))
        return found

    taken = interleaved(
        {
            "list": vault.list,
            "parsed": lambda: [(memory.header.tags, memory.body) for memory in vault.list()],
            "baseline": plain,
        },
        size.passes,
        block=1,
        items=size.memories,
    )
    return [
        Row("vault.list, per memory", taken["list"], BASELINE, taken["baseline"], GOAL),
        Row("vault.list, headers and bodies parsed, per memory", taken["parsed"], BASELINE, taken["baseline"]),
    ]
