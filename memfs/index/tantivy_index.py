"""The full-text index on Tantivy: searching, opening and publishing. Tantivy's types and errors stay in this package.

A process that is killed while it publishes leaves the published index as it was, and a reader keeps the index that it
has open. Any difference from the published state raises IndexDamagedError, and the index is rebuilt.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any

import tantivy
from tantivy import Occur, Query

from memfs.data_types import lazy
from memfs.fs.gc_pause import gc_paused
from memfs.index.conversation_position import HAS_POSITION
from memfs.index.document_builder import Document
from memfs.index.generations import Draft, Generation
from memfs.index.row_table import Chunk, ChunkBuilder, IncompatibleIndexError, IndexDamagedError, RowTable
from memfs.index.tantivy_analyzer import TOKENIZER, Analyzer, text_analyzer
from memfs.query.bm25 import idf_or_zero
from memfs.query.keyword_terms import AnyOf, Between, Clause, MatchingValue, NoneOf, escape_keyword, unescape_keyword
from memfs.query.question import Question
from memfs.query.tokens import MAX_TERMS, normalize_text

SCHEMA_VERSION = 6
MAX_PREFIX_TERMS = 200  # terms that a prefix expands to
MAX_POSITION_HITS = 500  # memories returned for positions in conversations
CACHED_TERMS = 4096  # terms whose frequencies are cached
HEAP_BYTES, MIN_HEAP_BYTES = 128_000_000, 15_000_000  # of a writer, for many and for few documents
SHOULD = Occur.Should
_REQUIRED_TIMES = ("created", "updated")  # every document has them
_TIMES = (*_REQUIRED_TIMES, "expires", "valid_from", "valid_until")

Edit = tuple[int | None, Document | None]  # the row to delete, the document to add
Matches = list[tuple[float, int]]  # score and row
PositionMatches = list[tuple[float, int, int | None]]  # score, row and position in a conversation


class TantivyIndex:
    """One index, open for searching."""

    def __init__(
        self, index: tantivy.Index, row_table: RowTable, analyzer: Analyzer, generation: Generation | None
    ) -> None:
        self._index, self.row_table, self.analyzer = index, row_table, analyzer
        self.generation = generation  # None for an index in memory
        with _translating_errors():
            analyzer.register(index)
            index.config_reader("manual")
            index.reload()
            self._schema, self._searcher = index.schema, index.searcher()
            self.memory_count = self._searcher.num_docs
        self._frequency = lru_cache(maxsize=CACHED_TERMS)(self._searcher.doc_freq)
        self.idf = lru_cache(maxsize=CACHED_TERMS)(partial(_idf, self._frequency, self.memory_count))
        self._last_clauses: tuple[Sequence[Clause], list[tuple[Occur, Query]]] = ((), [])  # with their query parts

    def document_frequency(self, term: str) -> int:
        """Return the number of memories that have a term."""
        try:
            return self._frequency("text", term)
        except BaseException as error:  # not `_translating_errors`, which costs more than the call
            raise _translated(error) from error

    def terms_with_prefix(self, prefix: str) -> list[str]:
        """Return the terms that start with a prefix, the most frequent ones first."""
        with _translating_errors():
            found = self._searcher.terms_with_prefix("text", prefix, limit=10 * MAX_PREFIX_TERMS)
            return [term for term, _ in sorted(found, key=lambda item: -item[1])[:MAX_PREFIX_TERMS]]

    def values(self, key: str, without: Sequence[str] = ()) -> list[str]:
        """Return the indexed values of a header key, among the memories that have none of the keywords `without`."""
        start = f"{escape_keyword(key)}="
        with _translating_errors():
            among = self._restrict(Query.all_query(), [NoneOf(tuple(without))]) if without else None
            found = self._searcher.terms_with_prefix("keys", start, among)
            return [unescape_keyword(term[len(start) :]) for term, _ in found]

    @lazy
    def mean_length(self) -> float:
        """Return the mean number of terms of a memory, from Tantivy's explanation of a score; 0 without memories."""
        with _translating_errors():
            some = self._searcher.terms_with_prefix("text", "", limit=1)
            query = self._term("text", some[0][0]) if some else Query.empty_query()
            hits = self._searcher.search(query, 1, count=False).hits
            explanation = query.explain(self._searcher, hits[0][1]).to_json() if hits else ""
            return _explained_value(json.loads(explanation), "avgdl") if explanation else 0.0

    def find(self, question: Question, clauses: Sequence[Clause], limit: int, among: Sequence[int] = ()) -> Matches:
        """Return the best matches as (score, row), best first; with `among`, only of these rows."""
        try:
            text = self._text(question)
            if text and among:
                text = Query.boolean_query([(Occur.Must, text), self._among((), among)])
            return self._run(self._restrict(text, clauses), limit) if text else []
        except BaseException as error:
            raise _translated(error) from error

    @lazy
    def has_expiring(self) -> bool:
        """Return whether some memory has an expiry time."""
        return self.has_keyword("expires")

    @lazy
    def has_superseding(self) -> bool:
        """Return whether some memory supersedes others."""
        return self.has_keyword("supersedes")

    @lazy
    def has_positions(self) -> bool:
        """Return whether some memory has a position in a conversation."""
        return self.has_keyword(HAS_POSITION)

    def has_keyword(self, keyword: str) -> bool:
        """Return whether some memory has a keyword."""
        with _translating_errors():
            return self._frequency("keys", escape_keyword(keyword)) > 0

    def find_with_positions(self, question: Question, clauses: Sequence[Clause], limit: int) -> PositionMatches:
        """Return the best matches as (score, row, position in a conversation), best first."""
        with _translating_errors():
            text = self._text(question)
            return self._run_with_positions(self._restrict(text, clauses), limit) if text else []

    def find_at_positions(
        self,
        terms: Sequence[str],
        keywords: Sequence[str],
        *,
        positions: Iterable[int],
        rows: Iterable[int],
        clauses: Sequence[Clause],
    ) -> list[tuple[int, int, int | None]]:
        """Return the memories at these positions or with these rows, as (bits, row, position).

        The bits show which of the terms, then of the keywords, a memory has.
        """
        with _translating_errors():
            features = [*(self._term("text", term) for term in terms), *map(self._keyword, keywords)]
            query = Query.boolean_query(
                [
                    self._among(positions, rows),
                    *((SHOULD, Query.const_score_query(one, float(1 << bit))) for bit, one in enumerate(features)),
                ]
            )
            found = self._run_with_positions(self._restrict(query, clauses), MAX_POSITION_HITS)
            return [(int(score), row, position) for score, row, position in found]

    def _run_with_positions(self, query: Query, limit: int) -> PositionMatches:
        hits = self._searcher.search(query, max(1, min(limit, self.memory_count)), count=False).hits
        if not hits:
            return []
        addresses = [address for _, address in hits]
        rows = self._searcher.fast_field_values("row", addresses)
        positions = self._searcher.fast_field_values("place", addresses)
        return [
            (score, int(row), None if position is None else int(position))
            for (score, _), row, position in zip(hits, rows, positions, strict=True)
            if row is not None
        ]

    def _among(self, positions: Iterable[int], rows: Iterable[int]) -> tuple[Occur, Query]:
        """Return a query part that requires one of the positions or rows, and adds no score."""
        parts = [(SHOULD, self._number("place", position)) for position in positions]
        parts += [(SHOULD, self._number("row", row)) for row in rows]
        return Occur.Must, Query.const_score_query(Query.boolean_query(parts), 0.0)

    def _number(self, field: str, number: int) -> Query:
        return Query.term_query(self._schema, field, number, "basic")

    def newest(self, clauses: Sequence[Clause], limit: int) -> list[tuple[float, int]]:
        """Return the most recently updated memories as (moment, row), newest first."""
        with _translating_errors():
            return self._run(self._restrict(Query.all_query(), clauses), limit, by="updated")

    def rows_with_keyword(self, keyword: str) -> list[int]:
        """Return the rows of the memories that have a keyword."""
        with _translating_errors():
            return [row for _, row in self._run(self._keyword(keyword), self.memory_count)]

    def all_rows(self, clauses: Sequence[Clause] = ()) -> list[int]:
        """Return the row of every document that passes the clauses."""
        with _translating_errors():
            return [row for _, row in self._run(self._restrict(Query.all_query(), clauses), max(self.memory_count, 1))]

    def _run(self, query: Query, limit: int, *, by: str | None = None) -> Matches:
        limit = min(limit, self.memory_count) or 1  # tantivy panics for a limit of 0
        hits = self._searcher.search(query, limit, count=False, order_by_field=by).hits
        rows: list[Any] = self._searcher.fast_field_values("row", [address for _, address in hits])
        if None in rows:
            raise IndexDamagedError("a document has no row")
        return [(score, row) for (score, _), row in zip(hits, rows, strict=True)]

    def _term(self, field: str, term: str) -> Query:
        return Query.term_query(self._schema, field, term, "freq")

    def _keyword(self, keyword: str) -> Query:
        return self._term("keys", escape_keyword(keyword))

    def _text(self, question: Question) -> Query | None:
        boosts, schema, term_query = question.boosts, self._schema, Query.term_query
        if question.is_plain and not boosts:  # most are, and one call per term is the fastest way
            parts = [(SHOULD, term_query(schema, "text", term, "freq")) for term in question.terms]
        else:
            parts = [(SHOULD, self._word(term, boosts)) for term in question.terms]
            groups = [[self._word(term, boosts) for term in group] for group in question.expansions]
            parts += [(SHOULD, Query.disjunction_max_query(group)) for group in groups]
            parts += [(Occur.Must, self._phrase(phrase, boosts)) for phrase in question.phrases]
        if len(parts) == 1:
            return parts[0][1]
        return Query.boolean_query(parts) if parts else None

    def _word(self, term: str, boosts: Mapping[str, float]) -> Query:
        query = self._term("text", term)
        return Query.boost_query(query, boosts[term]) if term in boosts else query

    def _phrase(self, phrase: tuple[str, ...], boosts: Mapping[str, float]) -> Query:
        if len(phrase) == 1:
            return self._word(phrase[0], boosts)
        query = Query.phrase_query(self._schema, "text", list(phrase))
        factors = [boosts[term] for term in phrase if term in boosts]
        return Query.boost_query(query, sum(factors) / len(factors)) if factors else query

    def _restrict(self, query: Query, clauses: Sequence[Clause]) -> Query:
        last, parts = self._last_clauses
        if clauses is not last:
            parts = [part for clause in clauses for part in self._clause(clause)]
            self._last_clauses = clauses, parts
        return Query.boolean_query([(Occur.Must, query), *parts]) if parts else query

    def _clause(self, clause: Clause) -> list[tuple[Occur, Query]]:
        """Return a clause as query parts that add no score; none if every memory passes it."""
        if isinstance(clause, Between):
            return self._between(clause)
        if isinstance(clause, NoneOf):
            return self._none_of(clause.terms)
        terms: Sequence[str] = clause.terms if isinstance(clause, AnyOf) else ()
        if isinstance(clause, MatchingValue):
            terms = [f"{clause.key}={value}" for value in self.values(clause.key) if clause.accepts(value)]
        return [(Occur.Must, Query.const_score_query(self._any_of(terms), 0.0))]

    def _none_of(self, terms: tuple[str, ...]) -> list[tuple[Occur, Query]]:
        """Return query parts that exclude keywords; none for keywords that no memory has."""
        known = [term for term in terms if self._frequency("keys", escape_keyword(term))]
        return [(Occur.MustNot, self._keyword(term)) for term in known]

    def _any_of(self, terms: Sequence[str]) -> Query:
        """Return a query for any of the keywords; a term set costs more to set up, and less per term."""
        if len(terms) == 1:
            return self._keyword(terms[0])
        if len(terms) > MAX_TERMS:
            return Query.term_set_query(self._schema, "keys", [escape_keyword(term) for term in terms])
        return Query.boolean_query([(SHOULD, self._keyword(term)) for term in terms])

    def _between(self, clause: Between) -> list[tuple[Occur, Query]]:
        """Return query parts for a range of moments; a memory without the field passes."""
        schema, field, kind = self._schema, clause.field, tantivy.FieldType.Integer
        if field in _REQUIRED_TIMES:
            within = Query.range_query(schema, field, kind, clause.low, clause.high)
            return [(Occur.Must, Query.const_score_query(within, 0.0))]
        if not self._frequency("keys", field):
            return []
        outside = []
        if clause.low is not None:
            outside.append(Query.range_query(schema, field, kind, None, clause.low - 1))
        if clause.high is not None:
            outside.append(Query.range_query(schema, field, kind, clause.high + 1, None))
        return [(Occur.MustNot, query) for query in outside]


# --- opening and publishing ---------------------------------------------------------------------------


def open_index(directory: str, language: str) -> TantivyIndex:
    """Open the published index; raise IndexDamagedError if it is missing, damaged or of another format."""
    generation = Generation.read(directory)
    if generation.index_format != _index_format(language):
        raise IncompatibleIndexError(generation.index_format)
    generation.verify()
    with _translating_errors():
        index = TantivyIndex(
            tantivy.Index.open(generation.path), generation.read_rows(), Analyzer(language), generation
        )
    if index.memory_count != index.row_table.live_count:
        raise IndexDamagedError("documents are missing")
    return index


def publish(
    directory: str, base: TantivyIndex | None, edits: Iterable[Edit], *, language: str, journal: str, is_large: bool
) -> TantivyIndex:
    """Publish an index: `base` with the edits applied. The caller holds the lock of publishing.

    If it raises OSError or IndexDamagedError, the previous index stays published.
    """
    draft = Draft(directory, base.generation if base else None)
    chunks = base.row_table.chunks if base else ()
    rows = ChunkBuilder()
    try:
        draft.link_base_files()
        with _translating_errors():
            index = tantivy.Index.open(draft.path) if base else tantivy.Index(_schema(), draft.path)
            index.register_tokenizer(TOKENIZER, text_analyzer(language))
            with gc_paused() if is_large else nullcontext():
                dead = _write(index, base.row_table.next_row if base else 0, edits, rows, is_large=is_large)
        draft.add_rows(chunks, rows, dead)
        draft.publish(_index_format(language), journal)
    except BaseException:
        draft.discard()
        raise
    return open_index(directory, language)


def index_in_memory(edits: Iterable[Edit], language: str) -> TantivyIndex:
    """Return an index in memory, for a vault in which no index can be written."""
    analyzer = Analyzer(language)
    rows = ChunkBuilder()
    with _translating_errors():
        index = tantivy.Index(_schema())
        analyzer.register(index)
        _write(index, 0, edits, rows, is_large=True)
        return TantivyIndex(index, RowTable([Chunk(rows.encode(0, ()))]), analyzer, None)


def _write(index: tantivy.Index, first: int, edits: Iterable[Edit], rows: ChunkBuilder, *, is_large: bool) -> list[int]:
    """Write edits, append new rows to `rows`, numbered from `first`, and return the rows that became dead."""
    writer = index.writer(HEAP_BYTES if is_large else MIN_HEAP_BYTES, 0 if is_large else 1)
    number, dead = first, []
    for old, document in edits:
        if old is not None:
            writer.delete_documents_by_term("row", old)
            dead.append(old)
        if document:
            writer.add_document(_fields(number, document))
            rows.append(document.row)
            number += 1
    writer.commit()
    writer.wait_merging_threads()
    return dead


def _fields(number: int, document: Document) -> tantivy.Document:
    """Return a Tantivy document, filled one field at a time: given several at once, Tantivy guesses their types."""
    fields = tantivy.Document()
    fields.add_text("text", normalize_text(document.text))
    fields.add_text("keys", document.keys)
    fields.add_integer("row", number)
    for name, value in document.numbers.items():
        fields.add_integer(name, value)
    return fields


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name=TOKENIZER)
    builder.add_text_field("keys", tokenizer_name="whitespace", index_option="basic")
    builder.add_integer_field("row", indexed=True, fast=True)
    builder.add_integer_field("place", indexed=True, fast=True)  # the position in a conversation
    for name in _TIMES:
        builder.add_integer_field(name, fast=True)
    return builder.build()


def _idf(frequency: Callable[[str, str], int], total: int, term: str) -> float:
    """Return the inverse document frequency of a term in an index, 0 for an unknown term."""
    try:
        return idf_or_zero(frequency("text", term), total)
    except BaseException as error:
        raise _translated(error) from error


def _translated(error: BaseException) -> BaseException:
    """Return an error of Tantivy as IndexDamagedError, including a panic, which is no Exception; others unchanged."""
    kinds = (ValueError, TypeError, SystemError, OverflowError, AttributeError)
    if isinstance(error, kinds) or type(error).__module__ == "pyo3_runtime":
        return IndexDamagedError(str(error))
    return error


@contextmanager
def _translating_errors() -> Iterator[None]:
    """Raise errors of Tantivy as IndexDamagedError."""
    try:
        yield
    except BaseException as error:
        raise _translated(error) from error


def _index_format(language: str) -> str:
    return f"{SCHEMA_VERSION}/{getattr(tantivy, '__version__', '')}/{language}"


def _explained_value(explanation: Mapping[str, Any], name: str) -> float:
    """Return the value in a score explanation whose description starts with a name; 0 if there is none."""
    if str(explanation["description"]).startswith(name):
        return float(explanation["value"])
    return next(filter(None, (_explained_value(part, name) for part in explanation.get("details", ()))), 0.0)
