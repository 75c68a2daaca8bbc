"""Search by meaning, compared with search by words; nearest vectors by sign bits, compared with an exact scan."""

import json
import os
import shutil
from collections.abc import Callable
from statistics import mean

from benchmarks.bench_run import STATE, BenchRun, bytes_below
from benchmarks.corpus import Question
from benchmarks.measure import Row, Times, interleaved
from benchmarks.processes import CHILD, run_measured
from benchmarks.searching import ask_in_turn, read_hits
from benchmarks.serving import HIT_LIMIT
from memfs import Vault
from memfs.embedding import default_embedder
from memfs.fs.files import open_root
from memfs.search.semantic.nearest_vectors import NearestVectors, live_rows
from memfs.search.semantic.vector_file import VECTORS_DIR, Floats, VectorFile, vector_files

BY_WORDS = "the same by words alone"
EMBEDDING_CPU_SECONDS, EMBEDDING_MAX_MEMORIES = 10.0, 10_000  # the goal, and the largest size it applies to
QUESTIONS = 20  # before memory is measured
NEAREST = 30


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of embedding, questions, memory and disk space, and nearest vectors."""
    return [*_embedding(run), *_questions(run), *_space(run), *_nearest(run)]


def _embedding(run: BenchRun) -> list[Row]:
    """Embed in new processes; index and model are loaded before."""
    done: list[dict[str, float]] = []
    for _ in range(run.size.builds):
        shutil.rmtree(run.indexed / STATE / VECTORS_DIR, ignore_errors=True)
        done.append(json.loads(run_measured([*CHILD, "embed", str(run.indexed)]).output))
    limit = EMBEDDING_CPU_SECONDS if run.size.memories <= EMBEDDING_MAX_MEMORIES else None
    return [
        Row("all memories embedded, CPU", Times([one["cpu"] for one in done]), limit=limit),
        Row("all memories embedded, wall", Times([one["wall"] for one in done])),
    ]


def _questions(run: BenchRun) -> list[Row]:
    found = []
    with Vault(run.indexed) as words, Vault(run.indexed, embedder=default_embedder()) as meaning:
        for name, narrowed in (("", False), (" in a namespace", True)):
            times = interleaved(
                {
                    "memfs": ask_in_turn(run.questions, _search(meaning, narrowed=narrowed)),
                    "baseline": ask_in_turn(run.questions, _search(words, narrowed=narrowed)),
                },
                run.size.questions,
            )
            found.append(Row(f"question by meaning{name}", times["memfs"], BY_WORDS, times["baseline"]))
    return found


def _search(vault: Vault, *, narrowed: bool) -> Callable[[Question], object]:
    return lambda q: read_hits(vault.search(q.text, q.namespace if narrowed else None, limit=HIT_LIMIT))


def _best(nearest: NearestVectors) -> Callable[[Floats], list[int]]:
    return lambda question: nearest.nearest(question, NEAREST, -1.0)


def _space(run: BenchRun) -> list[Row]:
    questions = [question.text for question in run.questions[:QUESTIONS]]
    memory = [
        Times([float(run_measured([*CHILD, action, str(run.indexed), *questions]).output)])
        for action in ("hold_semantic", "hold")
    ]
    disk = [Times([bytes_below(run.root / STATE / folder) / run.size.memories]) for folder in (VECTORS_DIR, "index")]
    return [
        Row("memory of a process after searches by meaning", memory[0], BY_WORDS, memory[1], unit="bytes"),
        Row("vectors on disk, per memory", disk[0], "index on disk, per memory", disk[1], unit="bytes"),
    ]


def _nearest(run: BenchRun) -> list[Row]:
    """Time both ways over the vectors of all memories, and return the share of the nearest that sign bits find."""
    questions = list(default_embedder().embed([question.text for question in run.questions]))
    root = open_root(run.root)
    try:
        with Vault(run.root) as vault:
            vault.search("anything")
            all_rows, keys = live_rows(vault._engine.freshness.index.row_table)  # noqa: SLF001  as a search uses them
        [(name, size)] = vector_files(root)
        vectors = VectorFile(name, size)
        vectors.refresh(root)
        assert vectors.contains(root, keys).all()
        ways = {
            "memfs": NearestVectors(vectors, all_rows, keys, exact=0),
            "baseline": NearestVectors(vectors, all_rows, keys, exact=len(keys)),
        }
        found = {key: [set(_best(way)(one)) for one in questions] for key, way in ways.items()}
        times = interleaved({key: ask_in_turn(questions, _best(way)) for key, way in ways.items()}, run.size.questions)
    finally:
        os.close(root)
    shares = [len(one & other) / len(other) for one, other in zip(found["memfs"], found["baseline"], strict=True)]
    exact = f"{NEAREST} nearest, all compared"
    return [
        Row(f"{NEAREST} nearest vectors, by sign bits", times["memfs"], exact, times["baseline"]),
        Row("share of these found by sign bits", Times([mean(shares)]), exact, Times([1.0]), unit="share"),
    ]
