"""Questions that are narrowed, and a blank one, beside tantivy by itself with an index that can do the same."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from benchmarks.corpus import Question
from benchmarks.floors import Found
from benchmarks.keyed import Keyed
from benchmarks.measure import Row, interleaved
from benchmarks.place import Place
from benchmarks.searching import asked, taken
from benchmarks.serving import LIMIT
from memfs import Vault

FLOOR = "tantivy with the same filter, 5 bodies and snippets"
START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 30, tzinfo=UTC)
IMPORTANCE = 4


class Narrowed(NamedTuple):
    """A way to narrow a question: how memfs is told, and tantivy."""

    name: str
    filters: Callable[[Question], dict[str, Any]]
    ask: Callable[[Keyed, Question], Found]
    is_blank: bool = False


WAYS = (
    Narrowed(
        "question in a namespace",
        lambda q: {"namespace": q.namespace},
        lambda keyed, q: keyed.ask_in(q.text, f"in={q.namespace}"),
    ),
    Narrowed(
        "question in a namespace and of a type",
        lambda q: {"namespace": q.namespace, "type": q.about.type},
        lambda keyed, q: keyed.ask_in(q.text, f"in={q.namespace}", f"type={q.about.type}"),
    ),
    Narrowed(
        "question of a type and with a tag",
        lambda q: {"type": q.about.type, "tags": q.about.tags[:1]},
        lambda keyed, q: keyed.ask_in(q.text, f"type={q.about.type}", f"tag={q.about.tags[0]}"),
    ),
    Narrowed(
        "question, created within two months",
        lambda _: {"created": f"{START:%Y-%m-%d}..{END:%Y-%m-%d}"},
        lambda keyed, q: keyed.ask_between(q.text, START, END),
    ),
    Narrowed(
        f"question, importance >= {IMPORTANCE}",
        lambda _: {"where": [("importance", ">=", IMPORTANCE)]},
        lambda keyed, q: keyed.ask_above(q.text, IMPORTANCE),
    ),
    Narrowed("blank question, the newest", lambda _: {}, lambda keyed, _: keyed.newest(), is_blank=True),
)


def rows(place: Place) -> list[Row]:
    """A row for each way to narrow a question."""
    keyed = Keyed(place.keyed)
    with Vault(place.indexed) as vault:
        return [_row(place, vault, keyed, way) for way in WAYS]


def _row(place: Place, vault: Vault, keyed: Keyed, way: Narrowed) -> Row:
    def ask(question: Question) -> object:
        text = "" if way.is_blank else question.text
        return taken(vault.search(text, limit=LIMIT, **way.filters(question)))

    times = interleaved(
        {
            "ours": asked(place.questions, ask),
            "floor": asked(place.questions, lambda question: way.ask(keyed, question)),
        },
        place.size.questions,
    )
    return Row(way.name, times["ours"], FLOOR, times["floor"])
