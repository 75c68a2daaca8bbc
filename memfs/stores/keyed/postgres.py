"""PostgresStore: a keyed store in a PostgreSQL database, searched by words and, with an embedder, by vectors."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from memfs.errors import InvalidSetupError, StoreDamagedError, short_repr
from memfs.postgres_connection import Database, Session, migrate
from memfs.protocols import Embedder
from memfs.stores.keyed import postgres_sql
from memfs.stores.keyed.base import (
    FOREIGN_DATA,
    KeyedStore,
    check_key,
    check_known,
    check_meta,
    check_page,
    check_query,
    check_top_k,
    check_value,
    is_storable,
    read_meta,
    segment_prefix,
)
from memfs.stores.keyed.scoring import Candidate, query_terms, rank, text_terms
from memfs.stores.keyed.vector_cache import content_hash

DEFAULT_NAME = "memories"
MAX_NAME_BYTES = 100
MAX_CANDIDATES = 200  # texts with terms of a query that are scored
MAX_TERM_COUNT = 255  # of one term in a text: PostgreSQL stores no more positions
MAX_TSVECTOR_BYTES = 700_000  # estimate for one text: PostgreSQL limits a tsvector to a megabyte
MAX_UNCACHED_COUNT = 10_000  # with at most so many texts, totals are counted for every search
COUNT_CACHE_SECONDS = 60.0  # how long the totals of a larger store are reused
EMBED_BATCH = 200  # texts per call of the embedder
Scores = dict[str, float]


class PostgresStore(KeyedStore[str]):
    """Texts by key in a database, for many processes and machines. The first use connects and creates the tables.

    Each role of the server sees only its own rows; `tenant` is another role that the user is a member of. Stores with
    different names are independent. With an `embedder`, texts are also found by meaning.
    """

    url_parameters = (
        "application_name", "channel_binding", "connect_timeout", "dbname", "gss*", "host", "hostaddr", "keepalives*",
        "load_balance_hosts", "options", "passfile", "password", "port", "require_auth", "service", "ssl*",
        "target_session_attrs", "tcp_user_timeout", "user",
    )  # fmt: skip

    def __init__(
        self, url: str, *, name: str = DEFAULT_NAME, tenant: str | None = None, embedder: Embedder | None = None
    ) -> None:
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise InvalidSetupError(
                "PostgresStore", f"name: {short_repr(name)} is not a name of up to {MAX_NAME_BYTES} bytes"
            )
        if embedder is not None and not (callable(getattr(embedder, "embed", None)) and _has_valid_name(embedder)):
            raise InvalidSetupError(
                "PostgresStore", f"embedder: {short_repr(embedder)} has no name, or no embed(texts)"
            )
        self._database = Database(url, tenant=tenant)
        self.address = self._database.address
        self.place = f"{self.address}#{tenant or self._database.user}/{name}"
        self._name, self._embedder = name, embedder
        self._is_migrated = False
        self._cached_totals: tuple[float, int, float] | None = None  # time, number of texts, number of words

    def __repr__(self) -> str:
        return f"PostgresStore({self.address!r}, name={self._name!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Store a text under a key. It is on the server when this returns."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Replace a text if it is still the known one. Return whether it was."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        """Store a text and its vector; with `known` only if that is the current one. Return whether it was stored."""
        check_key(key)
        text, meta_json = check_value(value), json.dumps(check_meta(meta), ensure_ascii=False)
        terms, vectors = text_terms(text), self._vectors([text])
        with self._session(is_atomic=self._embedder is not None) as session:
            values = (text, meta_json, content_hash(text), len(terms), _to_tsvector(terms))
            if known is None:
                session.run(postgres_sql.ADD, self._name, key, *values)
            elif not (is_storable(known) and session.run(postgres_sql.REVISE, *values, self._name, key, known)):
                return False
            self._store_vectors(session, [key], [content_hash(text)], vectors)
        return True

    def get(self, key: str) -> str | None:
        """Return the text at a key; None if there is none."""
        with self._session() as session:
            return next((str(row[0]) for row in session.rows(postgres_sql.GET, self._name, check_key(key))), None)

    def meta(self, key: str) -> dict[str, Any]:
        """Return a copy of the metadata at a key; {} if there is none."""
        with self._session() as session:
            rows = session.rows(postgres_sql.META, self._name, check_key(key))
        try:
            return read_meta(rows[0][0]) if rows else {}
        except ValueError as error:
            raise StoreDamagedError(self.address, FOREIGN_DATA) from error

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """Return the texts that have words of a query, scored as in a vault, or that are near to it in meaning."""
        limit, question = check_top_k(top_k), check_query(query)
        terms = query_terms(question)
        if not question.strip() or not (terms or self._embedder):
            return []
        with self._session() as session:
            scores = self._score_by_words(session, terms, limit)
            if self._embedder:
                scores = self._score_by_meaning(session, question, scores, limit)
            best = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
            rows = session.rows(postgres_sql.GET_MANY, self._name, [key for key, _ in best]) if best else []
        values: dict[str, str] = dict(rows)
        return [(key, values[key], score) for key, score in best if key in values]

    def forget(self, key: str) -> bool:
        """Remove a text. Return whether there was one."""
        with self._session() as session:
            return bool(session.rows(postgres_sql.FORGET, self._name, check_key(key)))

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys below a prefix, sorted."""
        return [key for key, _ in self._page(prefix, after, limit, with_values=False)]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """Return the keys below a prefix with their texts, sorted by key."""
        return self._page(prefix, after, limit, with_values=True)

    def _page(self, prefix: str, after: str, limit: int, *, with_values: bool) -> list[tuple[str, Any]]:
        prefix, after, limit = check_page(prefix, after, limit)
        start = segment_prefix(prefix)
        end = start[:-1] + chr(ord("/") + 1)  # sorts after all keys below the prefix
        with self._session() as session:
            rows = session.rows(
                postgres_sql.PAGE, with_values, self._name, not prefix, prefix, start, end, after, limit
            )  # fmt: skip
        return [(key, value) for key, value in rows]

    @property
    def statements_sent(self) -> int:
        """The number of statements that this store sent to the server."""
        return self._database.statements_sent

    def close(self) -> None:
        """Close the connections. The next use opens new ones."""
        self._database.close()

    # --- the database

    @contextmanager
    def _session(self, *, is_atomic: bool = False) -> Iterator[Session]:
        """Yield a session, with the tables migrated on first use. With `is_atomic` it is one transaction."""
        if not self._is_migrated:
            migrate(self._database, "store", postgres_sql.MIGRATIONS)
            if self._embedder:
                migrate(self._database, "vectors", postgres_sql.VECTOR_MIGRATIONS)
            self._is_migrated = True
        with self._database.transaction() if is_atomic else self._database.session() as session:
            yield session

    # --- words

    def _score_by_words(self, session: Session, terms: list[str], limit: int) -> Scores:
        """Return the scores of the texts that have one of the terms, by key."""
        if not terms:
            return {}
        total, total_length = self._totals(session)
        quoted = [_quote_lexeme(term) for term in terms]
        max_candidates = max(MAX_CANDIDATES, 4 * limit)
        rows = session.rows(
            postgres_sql.SEARCH_WORDS, terms, quoted, self._name, " | ".join(quoted), total, max_candidates, terms
        )  # fmt: skip
        frequency: dict[str, int] = json.loads(rows[0][3]) if rows else {}
        found = [Candidate(key, json.loads(counts), length) for key, length, counts, _ in rows]
        return dict(
            rank(
                terms,
                found,
                frequency=lambda term: frequency.get(term, 0),
                total=total,
                mean_length=total_length / max(total, 1),
            )
        )

    def _totals(self, session: Session) -> tuple[int, float]:
        """Return the number of texts and of words; for a large store from a cache."""
        if self._cached_totals and monotonic() - self._cached_totals[0] < COUNT_CACHE_SECONDS:
            return self._cached_totals[1:]
        [(total, length)] = session.rows(postgres_sql.TOTALS, self._name, MAX_UNCACHED_COUNT + 1)
        if total > MAX_UNCACHED_COUNT:
            [(total, length)] = session.rows(postgres_sql.TOTALS, self._name, None)
            self._cached_totals = monotonic(), total, length
        return total, length

    # --- meaning

    def _score_by_meaning(self, session: Session, question: str, scores: Scores, limit: int) -> Scores:
        """Return the scores by words combined with the cosines, so that texts that match both ways come first.

        Texts without a vector of this model are embedded first.
        """
        assert self._embedder
        while missing := session.rows(postgres_sql.MISSING_VECTORS, self._embedder.name, self._name, EMBED_BATCH):
            keys, texts, hashes = (list(column) for column in zip(*missing, strict=True))
            self._store_vectors(session, keys, hashes, self._vectors(texts))
        [vector] = self._vectors([question.encode("utf-8", "replace").decode()])
        if vector is None:
            return scores
        model = self._embedder.name
        near = session.rows(postgres_sql.SEARCH_VECTORS, vector, self._name, model, max(limit, 1), list(scores))
        cosines = {key: min(max(float(cosine), 0.0), 1.0) for key, cosine in near if not math.isnan(cosine)}
        both = {key: 1 - (1 - scores.get(key, 0.0)) * (1 - cosines.get(key, 0.0)) for key in {*scores, *cosines}}
        return {key: score for key, score in both.items() if score > 0}

    def _vectors(self, texts: Sequence[str]) -> list[str | None]:
        """Return the vectors of texts in the format of pgvector; None for a zero vector, which has no direction.

        Without an embedder, return [].
        """
        if self._embedder is None:
            return []
        made = [[float(number) for number in vector] for vector in self._embedder.embed(texts)]
        if len(made) != len(texts) or not all(math.isfinite(number) for vector in made for number in vector):
            reason = f"returned {len(made)} vectors for {len(texts)} texts, or one with NaN or infinity"
            raise InvalidSetupError(f"embedder {self._embedder.name!r}", reason)
        return [f"[{','.join(map(repr, vector))}]" if any(vector) else None for vector in made]

    def _store_vectors(self, session: Session, keys: list[str], hashes: list[bytes], vectors: list[str | None]) -> None:
        if self._embedder:
            session.run(postgres_sql.PUT_VECTORS, self._embedder.name, keys, hashes, vectors, self._name)


def _has_valid_name(embedder: Embedder) -> bool:
    name = getattr(embedder, "name", None)
    return isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= MAX_NAME_BYTES


def _quote_lexeme(term: str) -> str:
    """Return a term as a quoted lexeme, with quotes and backslashes escaped."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _to_tsvector(terms: Sequence[str]) -> str:
    """Return the terms of a text as a tsvector, cut at its maximal size. Positions only encode the count of a term."""
    parts: list[str] = []
    size = 0
    for term, count in Counter(terms).items():
        times = min(count, MAX_TERM_COUNT)
        size += len(term.encode()) + 2 * times + 8
        if size > MAX_TSVECTOR_BYTES:
            break
        parts.append(f"{_quote_lexeme(term)}:{','.join(map(str, range(1, times + 1)))}")
    return " ".join(parts)
