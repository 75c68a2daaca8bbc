"""PostgresStore: values under keys in a PostgreSQL database, found by words and, with an embedder, by meaning."""

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
    FOREIGN,
    KeyedStore,
    check_key,
    check_known,
    check_meta,
    check_page,
    check_query,
    check_top_k,
    check_value,
    folder_of,
    is_storable,
    read_meta,
)
from memfs.stores.keyed.scoring import Candidate, asked_terms, rank, terms_of
from memfs.stores.keyed.vector_cache import content_hash

NAME = "memories"
MAX_NAME = 100
CANDIDATES = 200  # texts with words of a question that are scored
MAX_COUNT = 255  # how often a word of a text is counted: PostgreSQL keeps no more
MAX_WORDS = 700_000  # bytes of a text's words that are searched: PostgreSQL keeps a megabyte
SMALL = 10_000  # texts that are counted for every search
STALE = 60.0  # seconds for which a larger count holds
BATCH = 200  # texts that are embedded at once
Scores = dict[str, float]


class PostgresStore(KeyedStore[str]):
    """Texts by key in a database, for many processes and machines. It connects when it is used, and makes its tables.

    Each role of the server has its own, which no other sees; `tenant` is another role that the user is a member of.
    Stores of different names know nothing of each other. With an `embedder`, texts are found by meaning as well.
    """

    url_parameters = (
        "application_name", "channel_binding", "connect_timeout", "dbname", "gss*", "host", "hostaddr", "keepalives*",
        "load_balance_hosts", "options", "passfile", "password", "port", "require_auth", "service", "ssl*",
        "target_session_attrs", "tcp_user_timeout", "user",
    )  # fmt: skip

    def __init__(
        self, url: str, *, name: str = NAME, tenant: str | None = None, embedder: Embedder | None = None
    ) -> None:
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.encode()) <= MAX_NAME:
            raise InvalidSetupError(
                "PostgresStore", f"name: {short_repr(name)} is not a name of up to {MAX_NAME} bytes"
            )
        if embedder is not None and not (callable(getattr(embedder, "embed", None)) and _model(embedder)):
            raise InvalidSetupError(
                "PostgresStore", f"embedder: {short_repr(embedder)} has no name, or no embed(texts)"
            )
        self._database = Database(url, tenant=tenant)
        self.address = self._database.address
        self.place = f"{self.address}#{tenant or self._database.user}/{name}"
        self._name, self._embedder = name, embedder
        self._is_made = False
        self._counted: tuple[float, int, float] | None = None  # when, how many texts, how many words

    def __repr__(self) -> str:
        return f"PostgresStore({self.address!r}, name={self._name!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key; it is on the server when this returns."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Keep another text under a key, unless somebody was faster."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        check_key(key)
        text, about = check_value(value), json.dumps(check_meta(meta), ensure_ascii=False)
        terms, vectors = terms_of(text), self._vectors([text])
        with self._session(is_whole=self._embedder is not None) as session:
            values = (text, about, content_hash(text), len(terms), _as_tsvector(terms))
            if known is None:
                session.run(postgres_sql.ADD, self._name, key, *values)
            elif not (is_storable(known) and session.run(postgres_sql.REVISE, *values, self._name, key, known)):
                return False
            self._keep(session, [key], [content_hash(text)], vectors)
        return True

    def get(self, key: str) -> str | None:
        """The text of a key."""
        with self._session() as session:
            return next((str(row[0]) for row in session.rows(postgres_sql.GET, self._name, check_key(key))), None)

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about it."""
        with self._session() as session:
            rows = session.rows(postgres_sql.META, self._name, check_key(key))
        try:
            return read_meta(rows[0][0]) if rows else {}
        except ValueError as error:
            raise StoreDamagedError(self.address, FOREIGN) from error

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts that have words of a question, scored as in a vault, or that lie near to it in meaning."""
        limit, question = check_top_k(top_k), check_query(query)
        asked = asked_terms(question)
        if not question.strip() or not (asked or self._embedder):
            return []
        with self._session() as session:
            scores = self._by_words(session, asked, limit)
            if self._embedder:
                scores = self._by_meaning(session, question, scores, limit)
            best = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:limit]
            rows = session.rows(postgres_sql.GET_MANY, self._name, [key for key, _ in best]) if best else []
        values: dict[str, str] = dict(rows)
        return [(key, values[key], score) for key, score in best if key in values]

    def forget(self, key: str) -> bool:
        """Let go of a text."""
        with self._session() as session:
            return bool(session.rows(postgres_sql.FORGET, self._name, check_key(key)))

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        return [key for key, _ in self._page(prefix, after, limit, with_values=False)]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """The keys below a prefix with their texts."""
        return self._page(prefix, after, limit, with_values=True)

    def _page(self, prefix: str, after: str, limit: int, *, with_values: bool) -> list[tuple[str, Any]]:
        prefix, after, most = check_page(prefix, after, limit)
        start = folder_of(prefix)
        end = start[:-1] + chr(ord("/") + 1)
        with self._session() as session:
            rows = session.rows(
                postgres_sql.PAGE, with_values, self._name, not prefix, prefix, start, end, after, most
            )  # fmt: skip
        return [(key, value) for key, value in rows]

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        self._database.close()

    # --- the database

    @contextmanager
    def _session(self, *, is_whole: bool = False) -> Iterator[Session]:
        """The tables, made or brought up to date by the first use; with `is_whole` all is done, or nothing."""
        if not self._is_made:
            migrate(self._database, "store", postgres_sql.STEPS)
            if self._embedder:
                migrate(self._database, "vectors", postgres_sql.VECTOR_STEPS)
            self._is_made = True
        with self._database.transaction() if is_whole else self._database.session() as session:
            yield session

    # --- words

    def _by_words(self, session: Session, asked: Sequence[str], limit: int) -> Scores:
        if not asked:
            return {}
        total, length = self._totals(session)
        quoted = [_quoted(term) for term in asked]
        terms = list(asked)
        rows = session.rows(
            postgres_sql.FIND, terms, quoted, self._name, " | ".join(quoted), total, max(CANDIDATES, 4 * limit), terms
        )  # fmt: skip
        frequency: dict[str, int] = json.loads(rows[0][3]) if rows else {}
        found = [Candidate(key, json.loads(counts), length) for key, length, counts, _ in rows]
        return dict(
            rank(
                asked,
                found,
                frequency=lambda term: frequency.get(term, 0),
                total=total,
                mean_length=length / max(total, 1),
            )
        )

    def _totals(self, session: Session) -> tuple[int, float]:
        """How many texts and words there are; where there are many, as of a while ago."""
        if self._counted and monotonic() - self._counted[0] < STALE:
            return self._counted[1:]
        [(total, length)] = session.rows(postgres_sql.TOTALS, self._name, SMALL + 1)
        if total > SMALL:
            [(total, length)] = session.rows(postgres_sql.TOTALS, self._name, None)
            self._counted = monotonic(), total, length
        return total, length

    # --- meaning

    def _by_meaning(self, session: Session, question: str, scores: Scores, limit: int) -> Scores:
        """The scores with what lies near: what both words and meaning speak for comes first."""
        assert self._embedder
        while lacking := session.rows(postgres_sql.LACKING, self._embedder.name, self._name, BATCH):  # added without
            keys, texts, hashes = (list(column) for column in zip(*lacking, strict=True))
            self._keep(session, keys, hashes, self._vectors(texts))
        [vector] = self._vectors([question.encode("utf-8", "replace").decode()])
        if vector is None:
            return scores
        near = session.rows(postgres_sql.NEAREST, vector, self._name, self._embedder.name, max(limit, 1), list(scores))
        cosines = {key: min(max(float(cosine), 0.0), 1.0) for key, cosine in near if not math.isnan(cosine)}
        both = {key: 1 - (1 - scores.get(key, 0.0)) * (1 - cosines.get(key, 0.0)) for key in {*scores, *cosines}}
        return {key: score for key, score in both.items() if score > 0}

    def _vectors(self, texts: Sequence[str]) -> list[str | None]:
        """The vectors of texts as the server takes them; None for a text without a direction."""
        if self._embedder is None:
            return []
        made = [[float(number) for number in vector] for vector in self._embedder.embed(texts)]
        if len(made) != len(texts) or not all(math.isfinite(number) for vector in made for number in vector):
            said = f"made {len(made)} vectors of {len(texts)} texts, or one with what is no number in it"
            raise InvalidSetupError(f"embedder {self._embedder.name!r}", said)
        return [f"[{','.join(map(repr, vector))}]" if any(vector) else None for vector in made]

    def _keep(self, session: Session, keys: list[str], hashes: list[bytes], vectors: list[str | None]) -> None:
        if self._embedder:
            session.run(postgres_sql.PUT_VECTORS, self._embedder.name, keys, hashes, vectors, self._name)


def _model(embedder: Embedder) -> bool:
    name = getattr(embedder, "name", None)
    return isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= MAX_NAME


def _quoted(term: str) -> str:
    """A term as PostgreSQL reads it, whatever is in it."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _as_tsvector(terms: Sequence[str]) -> str:
    """The words of a text, each as often as it occurs: where they stand does not matter."""
    parts: list[str] = []
    size = 0
    for term, count in Counter(terms).items():
        times = min(count, MAX_COUNT)
        size += len(term.encode()) + 2 * times + 8
        if size > MAX_WORDS:
            break
        parts.append(f"{_quoted(term)}:{','.join(map(str, range(1, times + 1)))}")
    return " ".join(parts)
