"""SqliteStore: a keyed store in one SQLite file, for many processes. The only importer of sqlalchemy."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar

from memfs.argument_checks import is_number
from memfs.errors import (
    InvalidSetupError,
    MemfsError,
    MissingExtraError,
    NewerSchemaError,
    StoreDamagedError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
    short_repr,
)
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
    read_meta,
    segment_prefix,
)
from memfs.stores.keyed.scoring import Candidate, query_terms, rank, text_terms
from memfs.stores.keyed.sqlite_readonly import (
    READ_TIMEOUT,
    Run,
    is_read_only,
    read_immutable,
    unreadable_error,
    unwritable_error,
)
from memfs.stores.keyed.sqlite_schema import MIGRATIONS, VERSION

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

APPLICATION_ID = 0x6D656D66  # "memf" in the file header: marks a file of memfs
WRITE_TIMEOUT = 30.0  # seconds to wait for another writer
READ_RETRY_SECONDS = 0.01  # between two reads of a read-only file
MAX_CANDIDATES = 200  # best texts by SQLite's rank, which are then scored by memfs
# SQLITE_ERROR: a table is missing or has another schema
_DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


_SELECT_VALUE = "SELECT value FROM entries WHERE key = ?"
_SELECT_CANDIDATES = """SELECT entries.key, words.terms FROM words JOIN entries ON entries.id = words.rowid
    WHERE words MATCH ? ORDER BY words.rank LIMIT ?"""
_SELECT_TERM_COUNT = "SELECT doc FROM vocabulary WHERE term = ?"
T = TypeVar("T")


class SqliteStore(KeyedStore[str]):
    """Texts by key in a file, which is created if it does not exist. Safe for many processes and threads.

    A read-only file can be read.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = WRITE_TIMEOUT) -> None:
        if not isinstance(path, str | os.PathLike) or not str(path) or ":memory:" in str(path):
            raise InvalidSetupError("SqliteStore", f"{short_repr(path)} is not the path of a file")
        if not is_number(timeout, 0, 3600):
            raise InvalidSetupError(
                "SqliteStore", f"timeout: {short_repr(timeout)} is not a number of seconds, 0 to 3600"
            )
        self.path = Path(os.path.abspath(path))
        self.place = str(self.path)
        self._timeout = float(timeout)
        self._engine, self._pid = _engine(self.path, self._timeout), os.getpid()
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return the store in the file of `sqlite:///x.db`. As in SQLAlchemy, `sqlite:////x.db` is an absolute path."""
        start = url[len("sqlite:") :]
        if start.startswith("//") and not start.startswith("///"):
            raise InvalidSetupError("SqliteStore", f"{short_repr(url)}: not an address such as sqlite:///memories.db")
        return cls(start.removeprefix("///"), **options)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Store a text under a key. It is on disk when this returns."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Replace a text if it is still the known one. Return whether it was."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        """Store a text; with `known` only if that is the current one. Return whether it was stored."""
        check_key(key)
        text, meta_text = check_value(value), json.dumps(check_meta(meta), ensure_ascii=False)
        terms = text_terms(text)
        entry = text, meta_text, len(terms)
        with self._write_transaction() as run:
            row = run("SELECT id, value FROM entries WHERE key = ?", key)
            if known is not None and [value for _, value in row] != [known]:
                return False
            if row:
                number = row[0][0]
                run("UPDATE entries SET value = ?, meta = ?, length = ? WHERE id = ?", *entry, number)
                run("DELETE FROM words WHERE rowid = ?", number)
            else:
                run("INSERT INTO entries (key, value, meta, length) VALUES (?, ?, ?, ?)", key, *entry)
                number = run("SELECT id FROM entries WHERE key = ?", key)[0][0]
            run("INSERT INTO words (rowid, terms) VALUES (?, ?)", number, " ".join(terms))
            return True

    def get(self, key: str) -> str | None:
        """Return the text at a key; None if there is none."""
        return next((str(row[0]) for row in self._read(_SELECT_VALUE, check_key(key))), None)

    def meta(self, key: str) -> dict[str, Any]:
        """Return a copy of the metadata at a key; {} if there is none."""
        rows = self._read("SELECT meta FROM entries WHERE key = ?", check_key(key))
        with _translate_errors(self.path):
            return read_meta(rows[0][0]) if rows else {}

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """Return the texts that have words of a query, found by SQLite and scored as in a vault."""
        limit, terms = check_top_k(top_k), query_terms(check_query(query))
        if not terms:
            return []
        match = " OR ".join(f'"{term}"' for term in terms)  # terms hold only letters and digits

        def search(run: Run) -> list[tuple[str, str, float]]:
            rows = run(_SELECT_CANDIDATES, match, max(MAX_CANDIDATES, 4 * limit))
            found = [(key, text.split()) for key, text in rows]
            ((total, length),) = run("SELECT entries, length FROM totals")
            frequencies = {term: row[0][0] for term in terms if (row := run(_SELECT_TERM_COUNT, term))}
            ranked = rank(
                terms,
                (Candidate(key, Counter(text), len(text)) for key, text in found),
                frequency=lambda term: frequencies.get(term, 0),
                total=total,
                mean_length=length / max(total, 1),
            )
            return [(key, run(_SELECT_VALUE, key)[0][0], score) for key, score in ranked[:limit]]

        return self._query(search)

    def forget(self, key: str) -> bool:
        """Remove a text. Return whether there was one."""
        check_key(key)
        with self._write_transaction() as run:
            return bool(run("DELETE FROM entries WHERE key = ? RETURNING id", key))

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys below a prefix, sorted."""
        return [row[0] for row in self._page("key", prefix, after, limit)]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """Return the keys below a prefix with their texts, sorted by key."""
        return [(key, value) for key, value in self._page("key, value", prefix, after, limit)]

    def _page(self, columns: str, prefix: str, after: str, limit: int) -> list[tuple[Any, ...]]:
        prefix, after, limit = check_page(prefix, after, limit)
        select = f"SELECT {columns} FROM entries WHERE"  # noqa: S608  constants
        if not prefix:
            return self._read(f"{select} key > ? ORDER BY key LIMIT ?", after, limit)
        start = segment_prefix(prefix)
        end = start[:-1] + chr(ord("/") + 1)  # sorts after all keys below the prefix
        below = f"{select} (key = ? OR key >= ? AND key < ?) AND key > ? ORDER BY key LIMIT ?"
        return self._read(below, prefix, start, end, after, limit)

    def close(self) -> None:
        """Close the connections. The next use opens new ones."""
        self._engine.dispose()

    # --- connections

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._query(lambda run: run(statement, *values))

    def _query(self, query: Callable[[Run], T]) -> T:
        """Run several statements on one state of the file. Retry while other users change a read-only file."""
        deadline = monotonic() + READ_TIMEOUT
        while True:
            with _translate_errors(self.path):
                result = read_immutable(self.path, query)
            if result is not None:
                return result
            try:
                with self._connect() as connection:
                    connection.exec_driver_sql("BEGIN")
                    return query(_runner(connection))
            except StoreUnavailableError as error:
                if not is_read_only(self.path):
                    raise
                if monotonic() > deadline:
                    raise (unreadable_error(self.path) or error) from error
            sleep(READ_RETRY_SECONDS)  # another process is opening or closing it

    @contextmanager
    def _write_transaction(self) -> Iterator[Run]:
        """Yield a runner of statements in one exclusive write transaction."""
        try:
            with self._connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield _runner(connection)
                connection.exec_driver_sql("COMMIT")
        except StoreUnavailableError as error:
            if is_read_only(self.path):
                raise unwritable_error(self.path) from error
            raise

    @contextmanager
    def _connect(self) -> Iterator["Connection"]:
        if self._pid != os.getpid():  # a connection must not be used or closed on both sides of a fork
            self._inherited = self._engine  # a reference, so that no destructor closes its connections here
            self._engine, self._pid = _engine(self.path, self._timeout), os.getpid()
        with _translate_errors(self.path):
            connection = self._engine.connect()
            try:
                yield connection
            finally:
                connection.close()  # rolls back what is not committed

    # --- the schema

    def _migrate(self) -> None:
        """Migrate the file to the current schema in one transaction. Raise NewerSchemaError for a later schema."""
        version = self._version()
        if version > VERSION:
            raise NewerSchemaError(str(self.path), version, VERSION)
        if version == VERSION:
            return
        with self._write_transaction() as run:
            for migration in MIGRATIONS[self._check_version(run) :]:  # another process may have migrated it meanwhile
                for statement in migration.statements:
                    run(statement)
                if migration.reindexes:
                    _index_all(run)
            run(f"PRAGMA user_version = {VERSION}")
            run(f"PRAGMA application_id = {APPLICATION_ID}")

    def _version(self) -> int:
        return self._query(self._check_version)

    def _check_version(self, run: Run) -> int:
        """Return the schema version; 0 for a new file. Raise InvalidSetupError for a file of another program."""
        if not _is_memfs_file(run):
            raise InvalidSetupError(f"SqliteStore {str(self.path)!r}", "the file is a database of another program")
        return int(run("PRAGMA user_version")[0][0])


def _is_memfs_file(run: Run) -> bool:
    """Return whether a database is empty or was created by memfs."""
    ((version,),), ((application,),) = run("PRAGMA user_version"), run("PRAGMA application_id")
    return application == APPLICATION_ID or not (version or run("SELECT 1 FROM sqlite_schema LIMIT 1"))


def _index_all(run: Run) -> None:
    """Write the terms of every value to the full-text index."""
    after = 0
    while rows := run("SELECT id, value FROM entries WHERE id > ? ORDER BY id LIMIT 500", after):
        for after, value in rows:
            terms = text_terms(value)
            run("UPDATE entries SET length = ? WHERE id = ?", len(terms), after)
            run("INSERT INTO words (rowid, terms) VALUES (?, ?)", after, " ".join(terms))


def _runner(connection: "Connection") -> Run:
    """Return the function that runs statements on a connection."""

    def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        result = connection.exec_driver_sql(statement, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return run


def _engine(path: Path, timeout: float) -> "Engine":
    """Return a pool of connections to a file; raise MissingExtraError if sqlalchemy is not installed."""
    try:
        from sqlalchemy import URL, create_engine, event
    except ImportError:
        raise MissingExtraError("SqliteStore", "sql") from None
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": timeout, "isolation_level": None, "check_same_thread": False},
        isolation_level="AUTOCOMMIT",  # the store begins transactions itself: a writer needs BEGIN IMMEDIATE
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        if _is_memfs_file(lambda statement: connection.execute(statement).fetchall()):  # the pragma changes the file
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged write survives a power cut

    return engine


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and SQLAlchemy as errors of memfs."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except MemfsError:
        raise
    except DBAPIError as error:
        raise _store_error(path, error.orig) from error
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise _store_error(path, error) from error
    except (ValueError, TypeError, ZeroDivisionError) as error:  # the stored data is not valid
        raise StoreDamagedError(str(path), FOREIGN_DATA) from error


def _store_error(path: Path, error: BaseException | None) -> StoreError:
    """Return the error of memfs for an error of SQLite: damaged, locked or unavailable."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_damaged = code in _DAMAGE_CODES and "no such module" not in str(error)  # SQLite may be built without FTS5
    is_locked = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    kind = StoreDamagedError if is_damaged else StoreLockedError if is_locked else StoreUnavailableError
    return kind(str(path), str(error))
