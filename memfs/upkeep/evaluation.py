"""Evaluation: questions whose answers are known, asked of a vault; what is found at which place, and why what is not.

`queries.yaml` at the root of a vault holds them. Asking writes nothing but the index.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from memfs.argument_checks import is_positive_int
from memfs.data_types import Hit, Memory, Problem, Reason
from memfs.errors import InvalidQueriesError, MemfsError, MemoryNotFoundError, SettingsError, StorageError, short_repr
from memfs.format.frontmatter import Fault, ListItem, YamlLimits, scan_list
from memfs.fs.files import open_root, read
from memfs.query.filters import FILTER_NAMES
from memfs.query.question import MAX_LIMIT
from memfs.vault.vault import Vault

NAME = "queries.yaml"
DEFAULT_K = 5
BOUNDS = YamlLimits("the file", size=512 * 1024, events=50_000, is_file=True)
KEYS = frozenset({"question", "expected", "k", "namespace", "min_relevance", *FILTER_NAMES})


@dataclass(frozen=True)
class Query:
    """A question, and the memories, by path or id, that should be among its first `k` hits."""

    question: str
    expected: tuple[str, ...]
    k: int = DEFAULT_K
    options: Mapping[str, Any] = field(default_factory=dict)  # what else a search takes: a namespace, filters
    path: str = NAME
    line: int = 1  # where the question stands in the file
    lines: tuple[int, ...] = ()  # and each of the expected


@dataclass(frozen=True)
class Answer:
    """An expected memory: its place among the hits, from 1; 0 and the reasons if it is not among them."""

    ref: str
    path: str
    place: int = 0
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a question found."""

    query: Query
    hits: tuple[Hit, ...]
    answers: tuple[Answer, ...]
    seconds: float

    @property
    def recall(self) -> float:
        """The share of the expected memories that are among the hits."""
        return sum(answer.place > 0 for answer in self.answers) / len(self.answers)

    @property
    def reciprocal_rank(self) -> float:
        """One by the place of the first expected memory; 0 if there is none."""
        return max((1 / answer.place for answer in self.answers if answer.place), default=0.0)


@dataclass(frozen=True)
class Evaluation:
    """What questions found, in their order; the figures are means over the questions."""

    outcomes: tuple[Outcome, ...]
    problems: tuple[Problem, ...] = ()  # expected memories that are not there

    @property
    def recall(self) -> float:
        """recall@k: the share of the expected memories that were found, a question counting as much as another."""
        return _mean([outcome.recall for outcome in self.outcomes])

    @property
    def mrr(self) -> float:
        """The mean of one by the place of the first expected memory."""
        return _mean([outcome.reciprocal_rank for outcome in self.outcomes])

    @property
    def hit_ratio(self) -> float:
        """The share of questions that found one expected memory at least."""
        return _mean([float(outcome.recall > 0) for outcome in self.outcomes])

    @property
    def p50(self) -> float:
        """Seconds that half of the searches took at most."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """Seconds that 95 of a hundred searches took at most."""
        return self.percentile(95)

    def percentile(self, percent: int) -> float:
        """Seconds that so many of a hundred searches took at most."""
        taken = sorted(outcome.seconds for outcome in self.outcomes)
        return taken[-(-len(taken) * percent // 100) - 1] if taken else 0.0


def evaluate(
    vault: Vault,
    queries: Iterable[Query],
    *,
    k: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    timer: Callable[[], float] = time.perf_counter,
) -> Evaluation:
    """Ask every question of a vault; `k` counts in the place of each question's own. Changes no memory."""
    asked = [*queries]
    vault.sync()  # so that what a search takes is what a search takes
    outcomes: list[Outcome] = []
    problems: list[Problem] = []
    for number, query in enumerate(asked, 1):
        outcome, lacking = _ask(vault, query, query.k if k is None else k, timer)
        outcomes.append(outcome)
        problems += lacking
        if progress:
            progress(number, len(asked))
    return Evaluation(tuple(outcomes), tuple(problems))


def _ask(vault: Vault, query: Query, k: int, timer: Callable[[], float]) -> tuple[Outcome, list[Problem]]:
    begun = timer()
    try:
        hits = vault.search(query.question, limit=k, **query.options)
    except MemfsError as error:
        raise InvalidQueriesError(query.path, query.line, str(error)) from error
    taken = timer() - begun
    places = {hit.memory.path: place for place, hit in enumerate(hits, 1)}
    answers: dict[str, Answer] = {}
    problems = []
    for number, ref in enumerate(query.expected):
        memory = _memory(vault, ref)
        if isinstance(memory, MemfsError):
            answer, problem = _lacking(query, number, memory)
            answers.setdefault(ref, answer)
            problems.append(problem)
        elif place := places.get(memory.path):
            answers.setdefault(memory.path, Answer(ref, memory.path, place))
        else:
            why = vault.explain_miss(memory.path, query.question, limit=k, **query.options)
            answers.setdefault(memory.path, Answer(ref, memory.path, reasons=tuple(why)))
    return Outcome(query, tuple(hits), tuple(answers.values()), taken), problems


def _memory(vault: Vault, ref: str) -> Memory | MemfsError:
    try:
        return vault.read(ref)
    except MemfsError as error:
        return error


def _lacking(query: Query, number: int, error: MemfsError) -> tuple[Answer, Problem]:
    """What to say of an expected memory that is not there, or cannot be read."""
    ref, line = query.expected[number], query.lines[number] if query.lines else query.line
    reason, why, hint = str(error), "", error.hint
    if isinstance(error, MemoryNotFoundError):
        reason, why = "no such memory", ": it was renamed without an id, removed, or never there"
        hint = "Name it by a path of the vault, or by its id, which survives a move."
    problem = Problem(query.path, line, f"expected {short_repr(ref)}: {reason}", "expected", ref, hint)
    return Answer(ref, "", reasons=(Reason(reason + why),)), problem


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# --- queries.yaml -------------------------------------------------------------------------------------


def queries_of(vault: Vault) -> tuple[Query, ...]:
    """The questions of a vault's `queries.yaml`."""
    fd = open_root(vault.root)
    try:
        data = read(fd, NAME).data
    except FileNotFoundError:
        error = SettingsError(NAME, "this vault has none")
        error.hint = "Write one, a question an item: docs/evaluation.md shows how."
        raise error from None
    except OSError as failure:
        raise StorageError(NAME, failure.strerror or str(failure)) from failure
    finally:
        os.close(fd)
    return read_queries(data)


def read_queries(data: bytes, name: str = NAME) -> tuple[Query, ...]:
    """Read questions; InvalidQueriesError at the first thing that cannot be."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidQueriesError(name, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None
    try:
        items = scan_list(text, BOUNDS)
        queries = tuple(_query(item, name) for item in items)
    except Fault as fault:
        raise InvalidQueriesError(name, fault.line, fault.reason) from None
    if not queries:
        raise InvalidQueriesError(name, 1, "no questions in it")
    return queries


def _query(item: ListItem, name: str) -> Query:
    """One question, checked; raises Fault."""
    for key, line in item.keys.items():
        if key not in KEYS:
            raise Fault(line, f"unknown key {short_repr(key)}; known keys: {', '.join(sorted(KEYS))}")
    for key in ("question", "expected"):
        if item.values.get(key) is None:
            raise Fault(item.line, f"{key} is missing")
    question, k = item.values["question"], item.values.get("k", DEFAULT_K)
    if not isinstance(question, str) or not question.strip():
        raise Fault(item.keys["question"], f"question: {short_repr(question)} is not a text; put it in quotes")
    if not is_positive_int(k, MAX_LIMIT):
        raise Fault(item.keys["k"], f"k: {short_repr(k)} is not a whole number from 1 to {MAX_LIMIT}")
    if not isinstance(item.values.get("namespace"), str | None):
        raise Fault(item.keys["namespace"], f"namespace: {short_repr(item.values['namespace'])} is not a text")
    expected, lines = _expected(item)
    options = {key: value for key, value in item.values.items() if key not in {"question", "expected", "k"}}
    given = {key: value for key, value in options.items() if value is not None}
    return Query(question, expected, k, MappingProxyType(given), name, item.line, lines)


def _expected(item: ListItem) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The expected memories, and the line of each."""
    given, line = item.values["expected"], item.keys["expected"]
    refs = [given] if isinstance(given, str) else given
    if not isinstance(refs, list) or not refs or not all(isinstance(ref, str) and ref.strip() for ref in refs):
        raise Fault(line, f"expected: {short_repr(given)} is not a list of paths or ids")
    return tuple(refs), item.items["expected"] or (line,)
