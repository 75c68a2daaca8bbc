"""Reading every memory, beside reading the bytes of files whose paths are known."""

import os

from benchmarks.measure import Row, interleaved
from benchmarks.place import Place
from memfs import Vault

GOAL = 2.0
FLOOR = "open, read, close, decode, cut off header"
LARGEST = 4096  # bytes: no text of the corpus is longer, and a larger buffer would slow the floor down


def rows(place: Place) -> list[Row]:
    """A listing, and one with every header parsed and every body taken."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(place.root / "facts") for name in names]
    vault, size = Vault(place.root), place.size

    def plain() -> list[tuple[str, str]]:
        found = []
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            data = os.read(fd, LARGEST)
            os.close(fd)
            _, header, body = data.decode().split("---\n", 2)
            found.append((header, body))
        return found

    taken = interleaved(
        {
            "list": vault.list,
            "parsed": lambda: [(memory.header.tags, memory.body) for memory in vault.list()],
            "floor": plain,
        },
        size.passes,
        block=1,
        items=size.memories,
    )
    return [
        Row("vault.list, a memory of all", taken["list"], FLOOR, taken["floor"], GOAL),
        Row("vault.list, headers parsed, bodies taken", taken["parsed"], FLOOR, taken["floor"]),
    ]
