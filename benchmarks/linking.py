"""The link graph of a vault, compared with reading all of its files: `python -m benchmarks.linking [--memories N]`.

Every third memory of the corpus has links: to another one by its path, to a person by title and by alias; some
supersede the previous one. Nothing is cached: each call reads the files again.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.corpus import actors, samples, word
from benchmarks.figures import table
from benchmarks.measure import Row, describe_run, interleaved
from memfs import Vault
from memfs.upkeep.link_graph import Graph

PERSON = "---\naliases:\n  - {name}\n---\n\n# {name} of the {number}\n\nSomebody whom others know.\n"
LINKS = """
- follows [[{before}]]
- concerns [[{name} of the {number}]] (as reported on a Friday)

Asked [[{name}]] about it, see [[{after}|this]] and `not [[this]]`.
"""


def fill(root: Path, memories: int) -> None:
    """Write a vault of that many memories, and people, without fsync."""
    made = list(samples(memories))
    for number in range(actors(memories)):
        name = word(200_000 + number).title()
        _write(root / "people" / f"{number}.md", PERSON.format(name=name, number=number))
    for number, sample in enumerate(made):
        before, after = (made[(number + step) % memories].path.removesuffix(".md") for step in (-7, 5))
        actor = number * actors(memories) // memories
        text = sample.text
        if number % 3 == 0:
            text += LINKS.format(before=before, after=after, name=sample.name, number=actor)
        if number % 30 == 0:
            text = text.replace("importance:", f'supersedes:\n  - "[[{before}]]"\nimportance:', 1)
        _write(root / sample.path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def rows(vault: Vault, calls: int) -> list[Row]:
    """Return the rows of building and querying the graph."""
    graph = Graph.of(vault)
    assert not graph.problems()
    start, *_, end = graph.nodes
    reading = partial(vault.list, archived=True)
    taken = interleaved({"build": lambda: Graph.of(vault), "reading": reading}, calls, block=1)
    queries = interleaved(
        {
            "near": lambda: graph.neighbours(start, 2),
            "path": lambda: graph.path(start, end),
            "as of": lambda: graph.triples(as_of="2026-06-01"),
        },
        calls,
        block=1,
    )
    size = f"{len(graph.nodes):,} memories, {len(graph.triples()):,} triples"
    return [
        Row(f"graph of {size}", taken["build"], "vault.list, files read", taken["reading"]),
        Row("memories two links away", queries["near"]),
        Row("path from the first to the last", queries["path"]),
        Row("triples that held on a day", queries["as of"]),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linking", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--memories", type=int, default=10_000, metavar="N")
    parser.add_argument("--calls", type=int, default=9, metavar="N", help="calls of each operation")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="memfs-linking-") as folder:
        fill(Path(folder), options.memories)
        print(describe_run(Path(folder)))
        print(table([row.figure for row in rows(Vault(folder), options.calls)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
