"""Search by meaning, beside the same search by words alone; and the nearest vectors, by signs and all compared."""

import json
import os
import shutil
from collections.abc import Callable
from statistics import mean

from benchmarks.corpus import Question
from benchmarks.measure import Row, Times, interleaved
from benchmarks.place import STATE, Place, bytes_below
from benchmarks.processes import CHILD, spent
from benchmarks.searching import asked, taken
from benchmarks.serving import LIMIT
from memfs import Vault
from memfs.embedding import default_embedder
from memfs.fs.files import open_root
from memfs.search.semantic.nearest_vectors import NearestVectors, live_rows
from memfs.search.semantic.vector_file import VECTORS_DIR, Floats, VectorFile, vector_files

WORDS = "the same by words alone"
EMBEDDING, AT_MOST = 10.0, 10_000  # seconds of CPU for so many memories
QUESTIONS = 20  # asked before memory is looked at
NEAREST = 30


def rows(place: Place) -> list[Row]:
    """All memories embedded; a question; the room it takes; the nearest vectors."""
    return [*_embedding(place), *_questions(place), *_room(place), *_nearest(place)]


def _embedding(place: Place) -> list[Row]:
    """In processes of their own, the index being there; the model is loaded before."""
    done: list[dict[str, float]] = []
    for _ in range(place.size.builds):
        shutil.rmtree(place.indexed / STATE / VECTORS_DIR, ignore_errors=True)
        done.append(json.loads(spent([*CHILD, "embed", str(place.indexed)]).output))
    limit = EMBEDDING if place.size.memories <= AT_MOST else None
    return [
        Row("all memories embedded, CPU", Times([one["cpu"] for one in done]), limit=limit),
        Row("all memories embedded, wall", Times([one["wall"] for one in done])),
    ]


def _questions(place: Place) -> list[Row]:
    found = []
    with Vault(place.indexed) as words, Vault(place.indexed, embedder=default_embedder()) as meaning:
        for name, narrowed in (("", False), (" in a namespace", True)):
            times = interleaved(
                {
                    "ours": asked(place.questions, _search(meaning, narrowed=narrowed)),
                    "floor": asked(place.questions, _search(words, narrowed=narrowed)),
                },
                place.size.questions,
            )
            found.append(Row(f"question by meaning{name}", times["ours"], WORDS, times["floor"]))
    return found


def _search(vault: Vault, *, narrowed: bool) -> Callable[[Question], object]:
    return lambda q: taken(vault.search(q.text, q.namespace if narrowed else None, limit=LIMIT))


def _best(nearest: NearestVectors) -> Callable[[Floats], list[int]]:
    return lambda question: nearest.nearest(question, NEAREST, -1.0)


def _room(place: Place) -> list[Row]:
    questions = [question.text for question in place.questions[:QUESTIONS]]
    held = [
        Times([float(spent([*CHILD, action, str(place.indexed), *questions]).output)])
        for action in ("hold_meaning", "hold")
    ]
    disk = [
        Times([bytes_below(place.root / STATE / folder) / place.size.memories]) for folder in (VECTORS_DIR, "index")
    ]
    return [
        Row("memory of a process that has searched by meaning", held[0], WORDS, held[1], unit="bytes"),
        Row("vectors on disk, a memory", disk[0], "index on disk, a memory", disk[1], unit="bytes"),
    ]


def _nearest(place: Place) -> list[Row]:
    """Both ways over the vectors of all memories, and how many of the nearest the signs find."""
    questions = list(default_embedder().embed([question.text for question in place.questions]))
    root = open_root(place.root)
    try:
        with Vault(place.root) as vault:
            vault.search("anything")
            all_rows, keys = live_rows(vault._engine.freshness.index.row_table)  # noqa: SLF001  as a search has them
        [(name, size)] = vector_files(root)
        vectors = VectorFile(name, size)
        vectors.refresh(root)
        assert vectors.contains(root, keys).all()
        ways = {
            "ours": NearestVectors(vectors, all_rows, keys, exact=0),
            "floor": NearestVectors(vectors, all_rows, keys, exact=len(keys)),
        }
        found = {key: [set(_best(way)(one)) for one in questions] for key, way in ways.items()}
        times = interleaved({key: asked(questions, _best(way)) for key, way in ways.items()}, place.size.questions)
    finally:
        os.close(root)
    shares = [len(one & other) / len(other) for one, other in zip(found["ours"], found["floor"], strict=True)]
    beside = f"{NEAREST} nearest, all compared"
    return [
        Row(f"{NEAREST} nearest vectors, by signs", times["ours"], beside, times["floor"]),
        Row("of these found by signs", Times([mean(shares)]), beside, Times([1.0]), unit="share"),
    ]
