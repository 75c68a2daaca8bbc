"""Questions to a vault, compared with tantivy alone that fetches as much."""

from collections.abc import Callable, Sequence
from itertools import cycle, islice, pairwise
from typing import TypeVar

from benchmarks.baselines import PlainTantivy
from benchmarks.bench_run import SCRATCH, BenchRun
from benchmarks.corpus import texts
from benchmarks.measure import BLOCK, Row, Times, interleaved
from benchmarks.serving import HIT_LIMIT
from memfs import Vault
from memfs.data_types import Hit

GOAL = 1.5
BASELINE = "tantivy, 5 stored bodies and snippets"
T = TypeVar("T")


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of questions, also with changes that are not in the published index."""
    root, raw = run.indexed, PlainTantivy(run.raw)
    with Vault(root) as vault:
        first = _first(run, vault, raw)
        found = [_recall(run, vault, raw), _question(run, vault, raw), first]
        found += [_pending(run, vault, raw, *numbers) for numbers in pairwise((0, *run.size.adds))]
    run.clear_scratch()
    return found


def read_hits(hits: list[Hit]) -> list[tuple[str, str, str]]:
    """Return the parts of hits that an agent reads."""
    return [(hit.memory.body, hit.snippet, hit.title) for hit in hits]


def ask_in_turn(questions: Sequence[T], ask: Callable[[T], object]) -> Callable[[], object]:
    """Return a function that asks one question per call; the first ones are asked before, to warm the caches."""
    for question in questions[: 2 * BLOCK]:
        ask(question)
    rest = cycle(questions)
    return lambda: ask(next(rest))


def _recall(run: BenchRun, vault: Vault, raw: PlainTantivy) -> Row:
    """Return the share of questions that both answer; the comparison is valid only if they find the same."""
    found_by_memfs = [
        q.about.path in [hit.memory.path for hit in vault.search(q.text, limit=HIT_LIMIT)] for q in run.questions
    ]
    baseline = [q.about.path in [path for path, _, _ in raw.ask(q.text)] for q in run.questions]
    shares = [Times([sum(found) / len(found)]) for found in (found_by_memfs, baseline)]
    return Row(f"questions whose memory is among {HIT_LIMIT} hits", shares[0], BASELINE, shares[1], unit="share")


def _first(run: BenchRun, vault: Vault, raw: PlainTantivy) -> Row:
    """Time questions about memories most of which this vault has not read before."""
    times = _interleave(run, vault, raw)
    return Row("question, hits not read before", times["memfs"], BASELINE, times["baseline"])


def _question(run: BenchRun, vault: Vault, raw: PlainTantivy) -> Row:
    """Time questions about memories that were read before, like the bodies that tantivy stores."""
    times = _interleave(run, vault, raw)
    return Row("question", times["memfs"], BASELINE, times["baseline"], GOAL)


def _interleave(run: BenchRun, vault: Vault, raw: PlainTantivy) -> dict[str, Times]:
    return interleaved(
        {
            "memfs": ask_in_turn(run.questions, lambda q: read_hits(vault.search(q.text, limit=HIT_LIMIT))),
            "baseline": ask_in_turn(run.questions, lambda q: raw.ask(q.text)),
        },
        run.size.questions,
    )


def _pending(run: BenchRun, vault: Vault, raw: PlainTantivy, added: int, number: int) -> Row:
    """Time questions after `number` adds since the index was published, unless a search published it again."""
    new = islice(texts(6), added, number)
    vault.add_many({"text": text, "namespace": f"/{SCRATCH}"} for text in new)
    times = _interleave(run, vault, raw)
    name = f"question after {number} adds, {vault.status().pending} of them pending"
    return Row(name, times["memfs"], BASELINE, times["baseline"])
