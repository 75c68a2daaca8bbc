"""Questions with filters, and a blank one, compared with tantivy alone on an index that has the same fields."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from benchmarks.baselines import Found
from benchmarks.bench_run import BenchRun
from benchmarks.corpus import Question
from benchmarks.filter_index import FilterIndex
from benchmarks.measure import Row, interleaved
from benchmarks.searching import ask_in_turn, read_hits
from benchmarks.serving import HIT_LIMIT
from memfs import Vault

BASELINE = "tantivy with the same filter, 5 bodies and snippets"
START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 30, tzinfo=UTC)
IMPORTANCE = 4


class Filtered(NamedTuple):
    """A filter of a question, as arguments of memfs and as a query of tantivy."""

    name: str
    filters: Callable[[Question], dict[str, Any]]
    ask: Callable[[FilterIndex, Question], Found]
    is_blank: bool = False


FILTERS = (
    Filtered(
        "question in a namespace",
        lambda q: {"namespace": q.namespace},
        lambda filter_index, q: filter_index.ask_in(q.text, f"in={q.namespace}"),
    ),
    Filtered(
        "question in a namespace and of a type",
        lambda q: {"namespace": q.namespace, "type": q.about.type},
        lambda filter_index, q: filter_index.ask_in(q.text, f"in={q.namespace}", f"type={q.about.type}"),
    ),
    Filtered(
        "question of a type and with a tag",
        lambda q: {"type": q.about.type, "tags": q.about.tags[:1]},
        lambda filter_index, q: filter_index.ask_in(q.text, f"type={q.about.type}", f"tag={q.about.tags[0]}"),
    ),
    Filtered(
        "question, created within two months",
        lambda _: {"created": f"{START:%Y-%m-%d}..{END:%Y-%m-%d}"},
        lambda filter_index, q: filter_index.ask_between(q.text, START, END),
    ),
    Filtered(
        f"question, importance >= {IMPORTANCE}",
        lambda _: {"where": [("importance", ">=", IMPORTANCE)]},
        lambda filter_index, q: filter_index.ask_above(q.text, IMPORTANCE),
    ),
    Filtered("blank question, the newest", lambda _: {}, lambda filter_index, _: filter_index.newest(), is_blank=True),
)


def rows(run: BenchRun) -> list[Row]:
    """Return one row per filter."""
    filter_index = FilterIndex(run.filter_index)
    with Vault(run.indexed) as vault:
        return [_row(run, vault, filter_index, way) for way in FILTERS]


def _row(run: BenchRun, vault: Vault, filter_index: FilterIndex, way: Filtered) -> Row:
    def ask(question: Question) -> object:
        text = "" if way.is_blank else question.text
        return read_hits(vault.search(text, limit=HIT_LIMIT, **way.filters(question)))

    times = interleaved(
        {
            "memfs": ask_in_turn(run.questions, ask),
            "baseline": ask_in_turn(run.questions, lambda question: way.ask(filter_index, question)),
        },
        run.size.questions,
    )
    return Row(way.name, times["memfs"], BASELINE, times["baseline"])
