"""A PostgreSQL database by its URL: sessions, transactions, migrations. The only importer of psycopg.

Its errors become ours, and none of them, nor any message, holds a password. A tenant is a role of the server: what is
done for one is done by a transaction in that role, and the policies of the tables do the rest.
"""

import os
import re
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, LiteralString

from memfs.after_fork import Mutex
from memfs.errors import (
    AccessRefusedError,
    MissingDatabaseError,
    MissingExtensionError,
    MissingExtraError,
    MissingTablesError,
    NewerSchemaError,
    ServerUnreachableError,
    SettingsError,
    StoreLockedError,
    StoreUnavailableError,
    short_repr,
)

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

Rows = list[tuple[Any, ...]]
SCHEMES = ("postgresql://", "postgres://")
CONNECT_TIMEOUT_SECONDS = 10  # seconds to wait for a connection, where the URL says nothing else
LOCK_TIMEOUT_SECONDS = (
    30  # seconds to wait for another session's lock, and for a client that went away in a transaction
)
MAX_ROLE_BYTES = 63  # bytes
MAX_IDLE_CONNECTIONS = 4  # connections that are kept for the next use
MIGRATION_LOCK_ID = 0x6D656D6673  # the advisory lock under which tables are made
_HOST = re.compile(r"[\w.,:/%~+ \[\]-]*")
_PORT = re.compile(r"[\d,]*")
_CONNECT_ERRORS: Sequence[
    tuple[str, type[StoreUnavailableError]]
] = (  # of what a server says before there is a session
    (r'database ".*" does not exist', MissingDatabaseError),
    (r"authentication|password|pg_hba|permission|role .* does not exist|not permitted", AccessRefusedError),
    (r"", ServerUnreachableError),
)
_SQLSTATE_ERRORS: Sequence[tuple[str, type[StoreUnavailableError]]] = (  # of what it says in one: the code begins so
    ("42501", AccessRefusedError),
    ("3D000", MissingDatabaseError),
    ("42P01", MissingTablesError),
    ("3F000", MissingTablesError),
    ("55P03", StoreLockedError),
    ("08", ServerUnreachableError),
    ("57P", ServerUnreachableError),
    ("", StoreUnavailableError),
)
_UNKNOWN_ROLE = re.compile(r'role ".*" does not exist')
_UNKNOWN_EXTENSION = re.compile(
    r"extension .* (is not available|does not exist)|create extension|type .*vector.* does not"
)
CONFIGURE_TRANSACTION: LiteralString = """\
SELECT set_config('lock_timeout', %s || 's', true), set_config('idle_in_transaction_session_timeout', %s || 's', true),
set_config('role', coalesce(%s, current_setting('role')), true)
"""
CREATE_VERSION_TABLE: LiteralString = """\
CREATE SCHEMA IF NOT EXISTS memfs;
CREATE TABLE IF NOT EXISTS memfs.schema_versions (part text PRIMARY KEY, version integer NOT NULL);
GRANT SELECT ON memfs.schema_versions TO PUBLIC;
"""


class Session:
    """What can be asked of a database while a connection to it is held."""

    def __init__(self, database: "Database", connection: "Connection") -> None:
        self._database, self._connection = database, connection
        self.transaction = connection.transaction

    def rows(self, statement: LiteralString, *values: Any) -> Rows:
        """The rows that a statement answers with; none if it answers nothing."""
        cursor = self._connection.execute(statement, values or None, binary=True)
        found = cursor.fetchall() if cursor.description else []
        self._database.statements_sent += 1
        self._database.rows_received += len(found)
        return found

    def run(self, statement: LiteralString, *values: Any) -> int:
        """How many rows a statement concerned."""
        self._database.statements_sent += 1
        return self._connection.execute(statement, values or None).rowcount

    def script(self, statements: LiteralString) -> None:
        """Run statements without values, separated by semicolons."""
        self._database.statements_sent += 1
        self._connection.execute(statements)


class Database:
    """A database, and a few connections to it; the first use opens one. Thread-safe, and may be forked."""

    def __init__(self, url: str, *, tenant: str | None = None) -> None:
        self._options, self.address = _parse_url(url)
        if tenant is not None and not _is_role_name(tenant):
            raise _role_error(tenant)
        self.user = str(self._options.get("user") or "")
        self.tenant = tenant
        self.statements_sent = self.rows_received = 0
        self._free: list[Connection] = []
        self._inherited: list[Connection] = []  # of a forked process: its parent goes on with them
        self._mutex = Mutex()
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"Database({self.address!r})"

    def rows(self, statement: LiteralString, *values: Any) -> Rows:
        """The rows of one statement, in a transaction of its own."""
        with self.session() as session:
            return session.rows(statement, *values)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session in which each statement is done by itself; where there is a tenant, a transaction."""
        with self.transaction() if self.tenant is not None else self._session() as session:
            yield session

    @contextmanager
    def transaction(self, *, as_tenant: bool = True) -> Iterator[Session]:
        """A session whose statements are all done at the end, or none of them."""
        with self._session() as session, session.transaction():
            session.rows(
                CONFIGURE_TRANSACTION, LOCK_TIMEOUT_SECONDS, LOCK_TIMEOUT_SECONDS, self.tenant if as_tenant else None
            )
            yield session

    def close(self) -> None:
        """Close what is open; the next use opens it again."""
        with self._mutex:
            self._know_process()
            while self._free:
                self._free.pop().close()

    def __del__(self) -> None:
        with suppress(Exception):  # of one that nobody closed
            self.close()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        import psycopg

        try:
            connection = self._take()
            try:
                yield Session(self, connection)
            except psycopg.Error as error:
                raise translate_error(self.address, error) from error
            finally:
                self._give_back(connection)
        except psycopg.Error as error:
            raise translate_error(self.address, error) from error

    def _take(self) -> "Connection":
        import psycopg

        with self._mutex:
            self._know_process()
            while self._free:
                connection = self._free.pop()
                if not _has_unread_data(connection.fileno()):
                    return connection
                connection.close()  # what a server says unasked is that it goes
        return psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)  # a pooler may be between

    def _know_process(self) -> None:
        if self._pid != os.getpid():
            self._inherited, self._free, self._pid = self._free, [], os.getpid()

    def _give_back(self, connection: "Connection") -> None:
        from psycopg.pq import TransactionStatus

        with self._mutex:
            is_whole = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
            if is_whole and len(self._free) < MAX_IDLE_CONNECTIONS:
                self._free.append(connection)
            else:
                connection.close()


def _has_unread_data(fd: int) -> bool:
    """Tell whether there is something to be read from a socket, whatever its number is."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(0))


def migrate(database: Database, part: str, steps: Sequence[LiteralString]) -> None:
    """Bring the tables of a part up to date: numbered steps, forward only, all of them in one transaction."""
    if _schema_version(database, part) == len(steps):
        return
    with database.transaction(as_tenant=False) as session:
        session.rows("SELECT pg_advisory_xact_lock(%s)", MIGRATION_LOCK_ID)
        if not session.rows("SELECT to_regclass('memfs.schema_versions') IS NOT NULL AS made")[0][0]:
            session.script(CREATE_VERSION_TABLE)
        found = session.rows("SELECT version FROM memfs.schema_versions WHERE part = %s", part)
        version = found[0][0] if found else 0
        check_version(database.address, version, len(steps))
        for step in steps[version:]:
            session.script(step)
        session.run(
            "INSERT INTO memfs.schema_versions VALUES (%s, %s) ON CONFLICT (part) DO UPDATE SET version = %s",
            part, len(steps), len(steps),
        )  # fmt: skip


def _schema_version(database: Database, part: str) -> int:
    """The version of the tables of a part; 0 where there are none."""
    try:
        found = database.rows("SELECT version FROM memfs.schema_versions WHERE part = %s", part)
    except MissingTablesError:
        return 0
    return int(found[0][0]) if found else 0


def check_version(address: str, found: int, known: int) -> None:
    """Refuse tables that a newer memfs made."""
    if found > known:
        raise NewerSchemaError(address, found, known)


# --- words --------------------------------------------------------------------------------------------


def _parse_url(url: str) -> tuple[dict[str, Any], str]:
    """What psycopg takes, and the address as it may be shown. No part of a wrong URL is: it may hold a password."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtraError("PostgreSQL", "postgres") from None
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        raise _url_error(f"does not begin with {SCHEMES[0]}")
    if _has_unescaped_password(url.partition("://")[2]):
        raise _url_error("has an @ behind the host: a password with a / in it, it seems")
    try:
        options = dict(conninfo_to_dict(url))
    except ProgrammingError:
        raise _url_error("cannot be understood") from None
    host, port = str(options.get("host") or ""), str(options.get("port") or "")
    if not _HOST.fullmatch(host) or not _PORT.fullmatch(port):
        raise _url_error("has a host or a port that cannot be")
    options.setdefault("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    options.setdefault("application_name", "memfs")
    place = f"{host or 'localhost'}:{port}" if port else host or "localhost"
    return options, f"postgresql://{place}/{options.get('dbname') or ''}"


def _is_role_name(tenant: object) -> bool:
    """Tell whether a role may be called so: PostgreSQL cuts a longer name, and `none` is nobody's."""
    is_name = isinstance(tenant, str) and tenant.isprintable() and tenant != "none"
    return is_name and 0 < len(str(tenant).encode()) <= MAX_ROLE_BYTES


def _role_error(tenant: object) -> SettingsError:
    error = SettingsError("tenant", f"{short_repr(tenant)} is not the name of a role")
    error.hint = f"Name a role of the server, of up to {MAX_ROLE_BYTES} bytes, that the user is a member of."
    return error


def _has_unescaped_password(rest: str) -> bool:
    """Tell whether a part of what seems to be a password would be taken for the name of a database."""
    who, _, what = rest.partition("/")
    return "@" in what.partition("?")[0] or ("@" in what and "@" not in who)


def _url_error(reason: str) -> SettingsError:
    error = SettingsError("the URL of the database", reason)
    error.hint = "Write postgresql://USER:PASSWORD@HOST/DATABASE; signs such as @ / : in a password as %40 %2F %3A."
    return error


def translate_error(address: str, error: "psycopg.Error") -> StoreUnavailableError:
    """An error of psycopg in our words: what the server says in one line, without the values of a statement."""
    if error.sqlstate is None:
        said = str(error).partition("\n")[0]
        said = said.rpartition(" failed: ")[2].removeprefix("FATAL: ").strip()
        kind = next(kind for pattern, kind in _CONNECT_ERRORS if re.search(pattern, said))
    else:
        said = error.diag.message_primary or type(error).__name__
        kind = next(kind for code, kind in _SQLSTATE_ERRORS if error.sqlstate.startswith(code))
        if _UNKNOWN_EXTENSION.search(said):
            kind = MissingExtensionError
    is_name = said[1:].partition(" ")[0] != said[1:].partition(" ")[0].lower()
    made = kind(address, (said if is_name else said[:1].lower() + said[1:]) or "no answer")
    if error.sqlstate and _UNKNOWN_ROLE.search(said):
        made = AccessRefusedError(made.place, made.reason)
        made.hint = "Check the name of the tenant: it is a role of the server, see docs/hub.md."
    return made
