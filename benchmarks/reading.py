"""Reading every memory, beside reading the bytes of files whose paths are known."""

import os
from pathlib import Path

from benchmarks.corpus import memory, texts
from benchmarks.measure import Row, Size, interleaved
from memfs import Vault

GOAL = 2.0
FLOOR = "open, read, close, decode, cut off header"
FOLDER = 250  # memories in a namespace
LARGEST = 4096  # bytes: no text of the corpus is longer, and a larger buffer would slow the floor down


def rows(size: Size, folder: Path) -> list[Row]:
    """A listing, and one with every header parsed and every body taken."""
    root = folder / "vault"
    paths = [str(path) for path in fill(root, size.memories)]
    vault = Vault(root)

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
        Row(f"vault.list, {size.memories:,} memories", taken["list"], FLOOR, taken["floor"], GOAL),
        Row("vault.list, headers parsed, bodies taken", taken["parsed"], FLOOR, taken["floor"]),
    ]


def fill(root: Path, number: int) -> list[Path]:
    """Write memories as memfs lays them out, in several namespaces, without its durability."""
    new, paths = texts(5), []
    for index in range(number):
        place = root / "facts" / f"actor-{index // FOLDER}"
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"memory-{index}.md"
        path.write_text(memory(index, next(new)), encoding="utf-8")
        paths.append(path)
    return paths
