"""Evaluate the search of a vault with questions and expected memories: the place of each, or why it was not found.

The questions are in `queries.yaml` at the root of the vault. An evaluation writes nothing but the index.
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

QUERIES_FILE = "queries.yaml"
DEFAULT_K = 5
QUERIES_LIMITS = YamlLimits("the file", size=512 * 1024, events=50_000, is_file=True)
QUERY_KEYS = frozenset({"question", "expected", "k", "namespace", "min_relevance", *FILTER_NAMES})


@dataclass(frozen=True)
class Query:
    """A question and the memories, by path or id, that are expected among its first `k` hits."""

    question: str
    expected: tuple[str, ...]
    k: int = DEFAULT_K
    options: Mapping[str, Any] = field(default_factory=dict)  # other arguments of the search: namespace, filters
    path: str = QUERIES_FILE
    line: int = 1  # of the question in the file
    lines: tuple[int, ...] = ()  # of each expected memory


@dataclass(frozen=True)
class Answer:
    """An expected memory: its place among the hits, from 1, or 0 and the reasons if it is missing."""

    ref: str
    path: str
    place: int = 0
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of one question."""

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
        """1 / the place of the first expected memory; 0 if none was found."""
        return max((1 / answer.place for answer in self.answers if answer.place), default=0.0)


@dataclass(frozen=True)
class Evaluation:
    """The results of all questions, in order; the metrics are means over the questions, 0 if there are none."""

    outcomes: tuple[Outcome, ...]
    problems: tuple[Problem, ...] = ()  # expected memories that do not exist or cannot be read

    @property
    def recall(self) -> float:
        """recall@k: the share of the expected memories that were found, as the mean over the questions."""
        return _mean([outcome.recall for outcome in self.outcomes])

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank of the first expected memory."""
        return _mean([outcome.reciprocal_rank for outcome in self.outcomes])

    @property
    def hit_ratio(self) -> float:
        """The share of questions that found at least one expected memory."""
        return _mean([float(outcome.recall > 0) for outcome in self.outcomes])

    @property
    def p50(self) -> float:
        """The median duration of a search in seconds."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """The 95th percentile of the duration of a search in seconds."""
        return self.percentile(95)

    def percentile(self, percent: int) -> float:
        """Return a percentile of the duration of a search in seconds."""
        durations = sorted(outcome.seconds for outcome in self.outcomes)
        return durations[-(-len(durations) * percent // 100) - 1] if durations else 0.0


def evaluate(
    vault: Vault,
    queries: Iterable[Query],
    *,
    k: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    timer: Callable[[], float] = time.perf_counter,
) -> Evaluation:
    """Run every question against a vault; `k` overrides that of each question. Changes no memory.

    Raise InvalidQueriesError, with the line of the question, if the search refuses its filters.
    """
    all_queries = [*queries]
    vault.sync()  # so that the durations do not include an index update
    outcomes: list[Outcome] = []
    problems: list[Problem] = []
    for number, query in enumerate(all_queries, 1):
        outcome, missing = _run_query(vault, query, query.k if k is None else k, timer)
        outcomes.append(outcome)
        problems += missing
        if progress:
            progress(number, len(all_queries))
    return Evaluation(tuple(outcomes), tuple(problems))


def _run_query(vault: Vault, query: Query, k: int, timer: Callable[[], float]) -> tuple[Outcome, list[Problem]]:
    """Return the result of a question, and a problem for each expected memory that cannot be read."""
    started = timer()
    try:
        hits = vault.search(query.question, limit=k, **query.options)
    except MemfsError as error:
        raise InvalidQueriesError(query.path, query.line, str(error)) from error
    seconds = timer() - started
    places = {hit.memory.path: place for place, hit in enumerate(hits, 1)}
    answers: dict[str, Answer] = {}
    problems = []
    for number, ref in enumerate(query.expected):
        memory = _read_or_error(vault, ref)
        if isinstance(memory, MemfsError):
            answer, problem = _missing_answer(query, number, memory)
            answers.setdefault(ref, answer)
            problems.append(problem)
        elif place := places.get(memory.path):
            answers.setdefault(memory.path, Answer(ref, memory.path, place))
        else:
            reasons = vault.explain_miss(memory.path, query.question, limit=k, **query.options)
            answers.setdefault(memory.path, Answer(ref, memory.path, reasons=tuple(reasons)))
    return Outcome(query, tuple(hits), tuple(answers.values()), seconds), problems


def _read_or_error(vault: Vault, ref: str) -> Memory | MemfsError:
    try:
        return vault.read(ref)
    except MemfsError as error:
        return error


def _missing_answer(query: Query, number: int, error: MemfsError) -> tuple[Answer, Problem]:
    """Return the answer and the problem for an expected memory that does not exist or cannot be read."""
    ref, line = query.expected[number], query.lines[number] if query.lines else query.line
    reason, cause, hint = str(error), "", error.hint
    if isinstance(error, MemoryNotFoundError):
        reason, cause = "no such memory", ": it was renamed without an id, was removed, or never existed"
        hint = "Name it by a path of the vault, or by its id, which survives a move."
    problem = Problem(query.path, line, f"expected {short_repr(ref)}: {reason}", "expected", ref, hint)
    return Answer(ref, "", reasons=(Reason(reason + cause),)), problem


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# --- queries.yaml -------------------------------------------------------------------------------------


def queries_of(vault: Vault) -> tuple[Query, ...]:
    """Return the questions in `queries.yaml` of a vault; raise SettingsError if it is missing."""
    fd = open_root(vault.root)
    try:
        data = read(fd, QUERIES_FILE).data
    except FileNotFoundError:
        error = SettingsError(QUERIES_FILE, "this vault has none")
        error.hint = "Write one with one item per question: docs/evaluation.md shows how."
        raise error from None
    except OSError as failure:
        raise StorageError(QUERIES_FILE, failure.strerror or str(failure)) from failure
    finally:
        os.close(fd)
    return read_queries(data)


def read_queries(data: bytes, name: str = QUERIES_FILE) -> tuple[Query, ...]:
    """Parse the bytes of a file of questions; raise InvalidQueriesError, with its line, for the first mistake."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidQueriesError(name, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None
    try:
        items = scan_list(text, QUERIES_LIMITS)
        queries = tuple(_query(item, name) for item in items)
    except Fault as fault:
        raise InvalidQueriesError(name, fault.line, fault.reason) from None
    if not queries:
        raise InvalidQueriesError(name, 1, "contains no questions")
    return queries


def _query(item: ListItem, name: str) -> Query:
    """Return the checked question of one item; raise Fault if it is not valid."""
    for key, line in item.keys.items():
        if key not in QUERY_KEYS:
            raise Fault(line, f"unknown key {short_repr(key)}; known keys: {', '.join(sorted(QUERY_KEYS))}")
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
    """Return the expected memories and the line of each."""
    given, line = item.values["expected"], item.keys["expected"]
    refs = [given] if isinstance(given, str) else given
    if not isinstance(refs, list) or not refs or not all(isinstance(ref, str) and ref.strip() for ref in refs):
        raise Fault(line, f"expected: {short_repr(given)} is not a list of paths or ids")
    return tuple(refs), item.items["expected"] or (line,)
