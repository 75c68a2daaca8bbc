"""SqliteStore: values under keys in one file of SQLite, for many processes. The only importer of sqlalchemy."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar

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
    read_meta,
)
from memfs.stores.keyed.scoring import Candidate, asked_terms, rank, terms_of
from memfs.stores.keyed.sqlite_readonly import PATIENCE, Run, is_locked, look, unreadable, unwritable
from memfs.stores.keyed.sqlite_schema import STEPS, VERSION

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

APPLICATION = 0x6D656D66  # "memf": by which the file is known for ours
TIMEOUT = 30.0  # seconds that another writer is waited for
PAUSE = 0.01  # seconds between two tries to read where nothing can be written
CANDIDATES = 200  # texts that SQLite finds best, among which ours are chosen
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}  # ERROR: a table is not as we made it


_VALUE = "SELECT value FROM entries WHERE key = ?"
_BEST = """SELECT entries.key, words.terms FROM words JOIN entries ON entries.id = words.rowid
    WHERE words MATCH ? ORDER BY words.rank LIMIT ?"""
_COUNT = "SELECT doc FROM vocabulary WHERE term = ?"
T = TypeVar("T")


class SqliteStore(KeyedStore[str]):
    """Texts by key in a file, made when it is not there. Safe with many processes and threads at once.

    Where nothing can be written, it can be read.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = TIMEOUT) -> None:
        if not isinstance(path, str | os.PathLike) or not str(path) or ":memory:" in str(path):
            raise InvalidSetupError("SqliteStore", f"{short_repr(path)} is not the path of a file")
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 <= timeout <= 3600:
            raise InvalidSetupError(
                "SqliteStore", f"timeout: {short_repr(timeout)} is not a number of seconds, 0 to 3600"
            )
        self.path = Path(os.path.abspath(path))
        self.place = str(self.path)
        self._timeout = float(timeout)
        self._engine, self._process = _engine(self.path, self._timeout), os.getpid()
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """The store in the file of `sqlite:///x.db`; as SQLAlchemy has it, `sqlite:////x.db` begins at the root."""
        start = url[len("sqlite:") :]
        if start.startswith("//") and not start.startswith("///"):
            raise InvalidSetupError("SqliteStore", f"{short_repr(url)}: not an address such as sqlite:///memories.db")
        return cls(start.removeprefix("///"), **options)

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key; it is on disk when this returns."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Keep another text under a key, unless somebody was faster."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        check_key(key)
        text, about = check_value(value), json.dumps(check_meta(meta), ensure_ascii=False)
        terms = terms_of(text)
        with self._writing() as run:
            row = run("SELECT id, value FROM entries WHERE key = ?", key)
            if known is not None and [value for _, value in row] != [known]:
                return False
            if row:
                number = row[0][0]
                run("UPDATE entries SET value = ?, meta = ?, length = ? WHERE id = ?", text, about, len(terms), number)
                run("DELETE FROM words WHERE rowid = ?", number)
            else:
                run("INSERT INTO entries (key, value, meta, length) VALUES (?, ?, ?, ?)", key, text, about, len(terms))
                number = run("SELECT id FROM entries WHERE key = ?", key)[0][0]
            run("INSERT INTO words (rowid, terms) VALUES (?, ?)", number, " ".join(terms))
            return True

    def get(self, key: str) -> str | None:
        """The text of a key."""
        return next((str(row[0]) for row in self._read(_VALUE, check_key(key))), None)

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about it."""
        rows = self._read("SELECT meta FROM entries WHERE key = ?", check_key(key))
        with _worded(self.path):
            return read_meta(rows[0][0]) if rows else {}

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts that have words of a question: SQLite finds them, and they are scored as in a vault."""
        limit, asked = check_top_k(top_k), asked_terms(check_query(query))
        if not asked:
            return []
        wanted = " OR ".join(f'"{term}"' for term in asked)  # terms are letters and digits, and quoted

        def best(run: Run) -> list[tuple[str, str, float]]:
            found = [(key, terms.split()) for key, terms in run(_BEST, wanted, max(CANDIDATES, 4 * limit))]
            ((total, length),) = run("SELECT entries, length FROM totals")
            counted = {term: rows[0][0] for term in asked if (rows := run(_COUNT, term))}
            ranked = rank(
                asked,
                (Candidate(key, Counter(terms), len(terms)) for key, terms in found),
                frequency=lambda term: counted.get(term, 0),
                total=total,
                mean_length=length / max(total, 1),
            )
            return [(key, run(_VALUE, key)[0][0], score) for key, score in ranked[:limit]]

        return self._look(best)

    def forget(self, key: str) -> bool:
        """Let go of a text."""
        check_key(key)
        with self._writing() as run:
            return bool(run("DELETE FROM entries WHERE key = ? RETURNING id", key))

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        return [row[0] for row in self._page("key", prefix, after, limit)]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """The keys below a prefix with their texts."""
        return [(key, value) for key, value in self._page("key, value", prefix, after, limit)]

    def _page(self, columns: str, prefix: str, after: str, limit: int) -> list[tuple[Any, ...]]:
        prefix, after, most = check_page(prefix, after, limit)
        chosen = f"SELECT {columns} FROM entries WHERE"  # noqa: S608  columns of ours
        if not prefix:
            return self._read(f"{chosen} key > ? ORDER BY key LIMIT ?", after, most)
        start = folder_of(prefix)
        end = start[:-1] + chr(ord("/") + 1)
        below = f"{chosen} (key = ? OR key >= ? AND key < ?) AND key > ? ORDER BY key LIMIT ?"
        return self._read(below, prefix, start, end, after, most)

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        self._engine.dispose()

    # --- connections

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._look(lambda run: run(statement, *values))

    def _look(self, ask: Callable[[Run], T]) -> T:
        """What is asked of one state of the file, by several statements."""
        deadline = monotonic() + PATIENCE
        while True:
            with _worded(self.path):
                answer = look(self.path, ask)
            if answer is not None:
                return answer
            try:
                with self._connected() as connection:
                    connection.exec_driver_sql("BEGIN")
                    return ask(_runner(connection))
            except StoreUnavailableError as error:
                if not is_locked(self.path):
                    raise
                if monotonic() > deadline:
                    raise (unreadable(self.path) or error) from error
            sleep(PAUSE)  # whoever has it open is just coming, or going

    @contextmanager
    def _writing(self) -> Iterator[Run]:
        """The file to ourselves; all of it is written, or nothing."""
        try:
            with self._connected() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield _runner(connection)
                connection.exec_driver_sql("COMMIT")
        except StoreUnavailableError as error:
            if is_locked(self.path):
                raise unwritable(self.path) from error
            raise

    @contextmanager
    def _connected(self) -> Iterator["Connection"]:
        if self._process != os.getpid():  # a connection must not be used, or closed, on both sides of a fork
            self._inherited = self._engine
            self._engine, self._process = _engine(self.path, self._timeout), os.getpid()
        with _worded(self.path):
            connection = self._engine.connect()
            try:
                yield connection
            finally:
                connection.close()  # rolls back what is not committed

    # --- the schema

    def _migrate(self) -> None:
        """Bring the file to the schema of this version, in one transaction; a later one is left alone."""
        version = self._version()
        if version > VERSION:
            raise NewerSchemaError(str(self.path), version, VERSION)
        if version == VERSION:
            return
        with self._writing() as run:
            for step in STEPS[self._checked(run) :]:  # another process may have been faster
                for statement in step.statements:
                    run(statement)
                if step.indexes:
                    _index_all(run)
            run(f"PRAGMA user_version = {VERSION}")
            run(f"PRAGMA application_id = {APPLICATION}")

    def _version(self) -> int:
        return self._look(self._checked)

    def _checked(self, run: Run) -> int:
        """The version of the schema; 0 of a new file."""
        if not _is_ours(run):
            raise InvalidSetupError(f"SqliteStore {str(self.path)!r}", "the file is a database of another program")
        return int(run("PRAGMA user_version")[0][0])


def _is_ours(run: Run) -> bool:
    """Tell whether a file is new, or was made by memfs."""
    ((version,),), ((application,),) = run("PRAGMA user_version"), run("PRAGMA application_id")
    return application == APPLICATION or not (version or run("SELECT 1 FROM sqlite_schema LIMIT 1"))


def _index_all(run: Run) -> None:
    """Cut every value into words."""
    after = 0
    while rows := run("SELECT id, value FROM entries WHERE id > ? ORDER BY id LIMIT 500", after):
        for after, value in rows:
            terms = terms_of(value)
            run("UPDATE entries SET length = ? WHERE id = ?", len(terms), after)
            run("INSERT INTO words (rowid, terms) VALUES (?, ?)", after, " ".join(terms))


def _runner(connection: "Connection") -> Run:
    def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        result = connection.exec_driver_sql(statement, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return run


def _engine(path: Path, timeout: float) -> "Engine":
    try:
        from sqlalchemy import URL, create_engine, event
    except ImportError:
        raise MissingExtraError("SqliteStore", "sql") from None
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": timeout, "isolation_level": None, "check_same_thread": False},
        isolation_level="AUTOCOMMIT",  # transactions are begun here, for a writer has to say so at once
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        if _is_ours(lambda statement: connection.execute(statement).fetchall()):  # it is written into the file
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # what is acknowledged survives a power cut

    return engine


@contextmanager
def _worded(path: Path) -> Iterator[None]:
    """Whatever SQLite says, in our words."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except MemfsError:
        raise
    except DBAPIError as error:
        raise _translated(path, error.orig) from error
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise _translated(path, error) from error
    except (ValueError, TypeError, ZeroDivisionError) as error:  # of what was read
        raise StoreDamagedError(str(path), FOREIGN) from error


def _translated(path: Path, error: BaseException | None) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_damaged = code in _DAMAGED and "no such module" not in str(error)  # SQLite may be built without full text
    is_locked = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    kind = StoreDamagedError if is_damaged else StoreLockedError if is_locked else StoreUnavailableError
    return kind(str(path), str(error))
