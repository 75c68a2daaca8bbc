"""The full-text index. The only importer of tantivy; its types and errors do not leave this room.

Whoever is killed while publishing leaves the published one as it was, and a reader keeps what it has open. Anything
that is not as it was published is an IndexDamaged, and rebuilt.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any, NamedTuple

import tantivy
from tantivy import Filter as Step
from tantivy import Occur, Query

from memfs.data_types import lazy
from memfs.fs.gc_pause import gc_paused
from memfs.index.conversation_position import PLACED
from memfs.index.generations import Draft, Generation
from memfs.index.row_table import Chunk, Columns, IndexDamaged, IndexOfAnotherKind, PlainRow, RowTable
from memfs.query.bm25 import worth
from memfs.query.keyword_terms import AnyOf, Between, Clause, NoneOf, Value, spell, unspell
from memfs.query.question import Question
from memfs.query.tokens import ENDINGS, MAX_TERMS, STOP_WORDS, emoji, prepare

SCHEMA = 6
MAX_WORD = 80  # bytes; a longer one is not indexed
MAX_PREFIXED = 200  # words a prefix stands for
MAX_SIGHTED = 500  # memories that are looked at for what was said around others
AT_HAND = 4096  # terms that are not looked up again
HEAP, MIN_HEAP = 128_000_000, 15_000_000
SHOULD = Occur.Should
_ALWAYS = ("created", "updated")
_TIMES = (*_ALWAYS, "expires", "valid_from", "valid_until")


class Document(NamedTuple):
    """A memory as it is indexed."""

    row: PlainRow
    text: str
    keys: str  # its keywords, as `joined` has them
    numbers: Mapping[str, int]  # moments, and the place in a conversation


Edit = tuple[int | None, Document | None]  # the row that goes, the document that comes
Matches = list[tuple[float, int]]  # score and row


class Analyzer:
    """Cuts texts and questions into terms, in the same way the index does."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.plain = _analyzer(language)
        self._asking = _analyzer(language, without_stop_words=True)

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order."""
        return self.plain.analyze(prepare(text))

    def asked(self, question: str) -> list[str]:
        """The terms of a question; its emoji only if it has no words, its stop words if there is nothing else."""
        text = prepare(question, is_question=True)
        return self._asking.analyze(text) or self.plain.analyze(emoji(question) or text)

    def stems(self, prefix: str) -> set[str]:
        """The stems of words that begin so, as far as one can tell without knowing the words."""
        return {term for ending in ENDINGS for term in self.plain.analyze(prepare(prefix + ending, is_question=True))}

    def phrase(self, text: str) -> tuple[str, ...]:
        """The terms of a phrase, stop words and all."""
        return tuple(self.plain.analyze(prepare(text, is_question=True)) or self.plain.analyze(emoji(text)))


class TantivyIndex:
    """One index, open for searching."""

    def __init__(
        self, index: tantivy.Index, catalog: RowTable, analyzer: Analyzer, generation: Generation | None
    ) -> None:
        self._index, self.catalog, self.analyzer = index, catalog, analyzer
        self.generation = generation  # None of one in memory
        with _guarded():
            index.register_tokenizer("memfs", analyzer.plain)
            index.config_reader("manual")
            index.reload()
            self._schema, self._searcher = index.schema, index.searcher()
            self.memories = self._searcher.num_docs
        self._frequency = lru_cache(maxsize=AT_HAND)(self._searcher.doc_freq)
        self.worth = lru_cache(maxsize=AT_HAND)(partial(_worth, self._frequency, self.memories))
        self._parts: tuple[Sequence[Clause], list[tuple[Occur, Query]]] = ((), [])  # of the clauses asked for last

    def frequency(self, term: str) -> int:
        """The number of memories that have a term."""
        try:
            return self._frequency("text", term)
        except BaseException as error:  # without `_guarded`, which costs more than the call
            raise _translated(error) from error

    def prefixed(self, prefix: str) -> list[str]:
        """The terms that begin so, the most frequent of them."""
        with _guarded():
            found = self._searcher.terms_with_prefix("text", prefix, limit=10 * MAX_PREFIXED)
            return [term for term, _ in sorted(found, key=lambda item: -item[1])[:MAX_PREFIXED]]

    def values(self, key: str, without: Sequence[str] = ()) -> list[str]:
        """The indexed values of a header key, among the memories that have none of some keywords."""
        start = f"{spell(key)}="
        with _guarded():
            among = self._restricted(Query.all_query(), [NoneOf(tuple(without))]) if without else None
            return [unspell(term[len(start) :]) for term, _ in self._searcher.terms_with_prefix("keys", start, among)]

    @lazy
    def mean_length(self) -> float:
        """The mean number of terms of a memory, as tantivy has it; 0 if there is none."""
        with _guarded():
            some = self._searcher.terms_with_prefix("text", "", limit=1)
            query = self._term("text", some[0][0]) if some else Query.empty_query()
            hits = self._searcher.search(query, 1, count=False).hits
            told = query.explain(self._searcher, hits[0][1]).to_json() if hits else ""
            return _named(json.loads(told), "avgdl") if told else 0.0

    def find(self, question: Question, clauses: Sequence[Clause], limit: int, among: Sequence[int] = ()) -> Matches:
        """The best matches, of all or of some rows, as (score, row), best first."""
        try:
            text = self._text(question)
            if text and among:
                text = Query.boolean_query([(Occur.Must, text), self._among((), among)])
            return self._run(self._restricted(text, clauses), limit) if text else []
        except BaseException as error:
            raise _translated(error) from error

    @lazy
    def has_expiring(self) -> bool:
        """Whether some memory expires, or has."""
        return self.has_keyword("expires")

    @lazy
    def has_superseding(self) -> bool:
        """Whether some memory names others that it supersedes."""
        return self.has_keyword("supersedes")

    @lazy
    def has_places(self) -> bool:
        """Whether some memory has a place in a conversation."""
        return self.has_keyword(PLACED)

    def has_keyword(self, keyword: str) -> bool:
        """Tell whether some memory has a keyword."""
        with _guarded():
            return self._frequency("keys", spell(keyword)) > 0

    def placed(self, question: Question, clauses: Sequence[Clause], limit: int) -> list[tuple[float, int, int | None]]:
        """The best matches as (score, row, place), best first."""
        with _guarded():
            text = self._text(question)
            return self._run_placed(self._restricted(text, clauses), limit) if text else []

    def sighted(
        self,
        terms: Sequence[str],
        keywords: Sequence[str],
        *,
        places: Iterable[int],
        rows: Iterable[int],
        clauses: Sequence[Clause],
    ) -> list[tuple[int, int, int | None]]:
        """The memories at some places, and of some rows, as (bits, row, place): a bit for each term and keyword."""
        with _guarded():
            sought = [*(self._term("text", term) for term in terms), *map(self._keyword, keywords)]
            query = Query.boolean_query(
                [
                    self._among(places, rows),
                    *((Occur.Should, Query.const_score_query(one, float(1 << bit))) for bit, one in enumerate(sought)),
                ]
            )
            found = self._run_placed(self._restricted(query, clauses), MAX_SIGHTED)
            return [(int(score), row, place) for score, row, place in found]

    def _run_placed(self, query: Query, limit: int) -> list[tuple[float, int, int | None]]:
        hits = self._searcher.search(query, max(1, min(limit, self.memories)), count=False).hits
        if not hits:
            return []
        addresses = [address for _, address in hits]
        rows = self._searcher.fast_field_values("row", addresses)
        places = self._searcher.fast_field_values("place", addresses)
        found = zip(hits, rows, places, strict=True)
        return [
            (score, int(row), None if place is None else int(place))
            for (score, _), row, place in found
            if row is not None
        ]

    def _among(self, places: Iterable[int], rows: Iterable[int]) -> tuple[Occur, Query]:
        """The memories at some places, and of some rows, as a part of a query that gives no score."""
        spots = [*(self._number("place", place) for place in places), *(self._number("row", row) for row in rows)]
        among = Query.boolean_query([(Occur.Should, spot) for spot in spots])
        return Occur.Must, Query.const_score_query(among, 0.0)

    def _number(self, field: str, number: int) -> Query:
        return Query.term_query(self._schema, field, number, "basic")

    def newest(self, clauses: Sequence[Clause], limit: int) -> list[tuple[float, int]]:
        """The memories that were changed last as (time, row)."""
        with _guarded():
            return self._run(self._restricted(Query.all_query(), clauses), limit, by="updated")

    def rows_of(self, keyword: str) -> list[int]:
        """The rows that have a keyword."""
        with _guarded():
            return [row for _, row in self._run(self._keyword(keyword), self.memories)]

    def all_rows(self, clauses: Sequence[Clause] = ()) -> list[int]:
        """The row of every document that passes."""
        with _guarded():
            return [row for _, row in self._run(self._restricted(Query.all_query(), clauses), max(self.memories, 1))]

    def _run(self, query: Query, limit: int, *, by: str | None = None) -> Matches:
        limit = min(limit, self.memories) or 1  # of none, tantivy panics
        hits = self._searcher.search(query, limit, count=False, order_by_field=by).hits
        rows: list[Any] = self._searcher.fast_field_values("row", [address for _, address in hits])
        if None in rows:
            raise IndexDamaged("a document has no row")
        return [(score, row) for (score, _), row in zip(hits, rows, strict=True)]

    def _term(self, field: str, term: str) -> Query:
        return Query.term_query(self._schema, field, term, "freq")

    def _keyword(self, keyword: str) -> Query:
        return self._term("keys", spell(keyword))

    def _text(self, question: Question) -> Query | None:
        boosts, schema, term_query = question.boosts, self._schema, Query.term_query
        if question.is_plain and not boosts:  # most are, and one call a term is the shortest way
            parts = [(SHOULD, term_query(schema, "text", term, "freq")) for term in question.terms]
        else:
            parts = [(SHOULD, self._word(term, boosts)) for term in question.terms]
            groups = [[self._word(word, boosts) for word in group] for group in question.groups]
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
        known = [boosts[term] for term in phrase if term in boosts]
        return Query.boost_query(query, sum(known) / len(known)) if known else query

    def _restricted(self, query: Query, clauses: Sequence[Clause]) -> Query:
        before, parts = self._parts
        if clauses is not before:
            parts = [part for clause in clauses for part in self._clause(clause)]
            self._parts = clauses, parts
        return Query.boolean_query([(Occur.Must, query), *parts]) if parts else query

    def _clause(self, clause: Clause) -> list[tuple[Occur, Query]]:
        """A clause as parts of a query that give no score; none if nothing is left out by it."""
        if isinstance(clause, Between):
            return self._between(clause)
        if isinstance(clause, NoneOf):
            return self._without(clause.terms)
        terms: Sequence[str] = clause.terms if isinstance(clause, AnyOf) else ()
        if isinstance(clause, Value):
            terms = [f"{clause.key}={value}" for value in self.values(clause.key) if clause.accepts(value)]
        return [(Occur.Must, Query.const_score_query(self._any(terms), 0.0))]

    def _without(self, terms: tuple[str, ...]) -> list[tuple[Occur, Query]]:
        """None of some keywords, as far as there are any."""
        known = [term for term in terms if self._frequency("keys", spell(term))]
        return [(Occur.MustNot, self._keyword(term)) for term in known]

    def _any(self, terms: Sequence[str]) -> Query:
        """Any of some keywords; a set of terms costs more to begin with, and less for each."""
        if len(terms) == 1:
            return self._keyword(terms[0])
        if len(terms) > MAX_TERMS:
            return Query.term_set_query(self._schema, "keys", [spell(term) for term in terms])
        return Query.boolean_query([(Occur.Should, self._keyword(term)) for term in terms])

    def _between(self, clause: Between) -> list[tuple[Occur, Query]]:
        """A range of a time; a memory that does not have it passes."""
        schema, field, kind = self._schema, clause.field, tantivy.FieldType.Integer
        if field in _ALWAYS:
            within = Query.range_query(schema, field, kind, clause.low, clause.high)
            return [(Occur.Must, Query.const_score_query(within, 0.0))]
        if not self._frequency("keys", field):
            return []
        outside = [
            Query.range_query(schema, field, kind, low, high)
            for low, high in (
                (None, None if clause.low is None else clause.low - 1),
                (None if clause.high is None else clause.high + 1, None),
            )
            if low is not None or high is not None
        ]
        return [(Occur.MustNot, query) for query in outside]


# --- opening and publishing ---------------------------------------------------------------------------


def open_index(folder: str, language: str) -> TantivyIndex:
    """Open the published index; IndexDamaged if there is none that is whole and of this kind."""
    generation = Generation.read(folder)
    if generation.kind != _kind(language):
        raise IndexOfAnotherKind(generation.kind)
    generation.verify()
    with _guarded():
        index = TantivyIndex(tantivy.Index.open(generation.place), generation.catalog(), Analyzer(language), generation)
    if index.memories != index.catalog.alive:
        raise IndexDamaged("documents are missing")
    return index


def publish(
    folder: str, base: TantivyIndex | None, edits: Iterable[Edit], *, language: str, journal: str, is_large: bool
) -> TantivyIndex:
    """Publish an index: that of `base`, edited. OSError or IndexDamaged, and what was published stays, if that
    fails. The caller holds the lock of publishing."""
    draft = Draft(folder, base.generation if base else None)
    chunks = base.catalog.chunks if base else ()
    rows = Columns()
    try:
        draft.take_over()
        with _guarded():
            index = tantivy.Index.open(draft.place) if base else tantivy.Index(_schema(), draft.place)
            index.register_tokenizer("memfs", _analyzer(language))
            with gc_paused() if is_large else nullcontext():
                dead = _write(index, base.catalog.next_row if base else 0, edits, rows, is_large=is_large)
        draft.add_rows(chunks, rows, dead)
        draft.publish(_kind(language), journal)
    except BaseException:
        draft.discard()
        raise
    return open_index(folder, language)


def index_in_memory(edits: Iterable[Edit], language: str) -> TantivyIndex:
    """An index for a vault whose disk takes none."""
    analyzer = Analyzer(language)
    rows = Columns()
    with _guarded():
        index = tantivy.Index(_schema())
        index.register_tokenizer("memfs", analyzer.plain)
        _write(index, 0, edits, rows, is_large=True)
        return TantivyIndex(index, RowTable([Chunk(rows.chunk(0, ()))]), analyzer, None)


def _write(index: tantivy.Index, first: int, edits: Iterable[Edit], rows: Columns, *, is_large: bool) -> list[int]:
    """Write edits; new rows are appended to `rows` as they come, and those out of use returned."""
    writer = index.writer(HEAP if is_large else MIN_HEAP, 0 if is_large else 1)
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
    """A document as tantivy takes it; one field at a time, for it guesses the types of what comes together."""
    fields = tantivy.Document()
    fields.add_text("text", prepare(document.text))
    fields.add_text("keys", document.keys)
    fields.add_integer("row", number)
    for name, value in document.numbers.items():
        fields.add_integer(name, value)
    return fields


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="memfs")
    builder.add_text_field("keys", tokenizer_name="whitespace", index_option="basic")
    builder.add_integer_field("row", indexed=True, fast=True)
    builder.add_integer_field("place", indexed=True, fast=True)
    for name in _TIMES:
        builder.add_integer_field(name, fast=True)
    return builder.build()


def _analyzer(language: str, *, without_stop_words: bool = False) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(Step.remove_long(MAX_WORD)).filter(Step.lowercase())
    if without_stop_words and language == "english":
        builder = builder.filter(Step.custom_stopword(sorted(STOP_WORDS)))
    elif without_stop_words:
        try:
            builder = builder.filter(Step.stopword(language))
        except ValueError:  # there is no list for some languages; a builder that refused is spent
            return _analyzer(language)
    return builder.filter(Step.ascii_fold()).filter(Step.stemmer(language)).build()


def _worth(frequency: Callable[[str, str], int], total: int, term: str) -> float:
    """What a term is worth in an index."""
    try:
        return worth(frequency("text", term), total)
    except BaseException as error:
        raise _translated(error) from error


def _translated(error: BaseException) -> BaseException:
    """Whatever tantivy raises as IndexDamaged, a panic too, which is no Exception."""
    kinds = (ValueError, TypeError, SystemError, OverflowError, AttributeError)
    if isinstance(error, kinds) or type(error).__module__ == "pyo3_runtime":
        return IndexDamaged(str(error))
    return error


@contextmanager
def _guarded() -> Iterator[None]:
    """Have nothing of tantivy's come out but IndexDamaged."""
    try:
        yield
    except BaseException as error:
        raise _translated(error) from error


def _kind(language: str) -> str:
    return f"{SCHEMA}/{getattr(tantivy, '__version__', '')}/{language}"


def _named(explanation: Mapping[str, Any], name: str) -> float:
    """A figure of an explanation by the start of its description."""
    if str(explanation["description"]).startswith(name):
        return float(explanation["value"])
    return next(filter(None, (_named(part, name) for part in explanation.get("details", ()))), 0.0)
