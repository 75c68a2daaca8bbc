"""Connections to a PostgreSQL database: sessions, transactions, migrations. The only importer of psycopg.

Errors of psycopg are translated into those of memfs; no error and no message contains a password. A tenant is a role
of the server: statements for a tenant run in a transaction with that role, and the policies of the tables restrict it.
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
CONNECT_TIMEOUT_SECONDS = 10  # unless the URL sets it
LOCK_TIMEOUT_SECONDS = 30  # also the time after which the server ends a transaction whose client is idle
MAX_ROLE_BYTES = 63
MAX_IDLE_CONNECTIONS = 4  # kept open for the next use
MIGRATION_LOCK_ID = 0x6D656D6673  # the advisory lock that is held while tables are created
_HOST = re.compile(r"[\w.,:/%~+ \[\]-]*")
_PORT = re.compile(r"[\d,]*")
ErrorKinds = Sequence[tuple[str, type[StoreUnavailableError]]]
_CONNECT_ERRORS: ErrorKinds = (  # patterns of messages while connecting; the first match counts
    (r'database ".*" does not exist', MissingDatabaseError),
    (r"authentication|password|pg_hba|permission|role .* does not exist|not permitted", AccessRefusedError),
    (r"", ServerUnreachableError),
)
_SQLSTATE_ERRORS: ErrorKinds = (  # prefixes of SQLSTATE codes; the first match counts
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
    """Statements on one open connection to a database."""

    def __init__(self, database: "Database", connection: "Connection") -> None:
        self._database, self._connection = database, connection
        self.transaction = connection.transaction  # a context manager: its statements are committed together

    def rows(self, statement: LiteralString, *values: Any) -> Rows:
        """Run a statement and return its rows; an empty list if it is not a query."""
        cursor = self._connection.execute(statement, values or None, binary=True)
        rows = cursor.fetchall() if cursor.description else []
        self._database.statements_sent += 1
        self._database.rows_received += len(rows)
        return rows

    def run(self, statement: LiteralString, *values: Any) -> int:
        """Run a statement and return the number of rows it affected."""
        self._database.statements_sent += 1
        return self._connection.execute(statement, values or None).rowcount

    def script(self, statements: LiteralString) -> None:
        """Run statements without values, separated by semicolons."""
        self._database.statements_sent += 1
        self._connection.execute(statements)


class Database:
    """A database and a pool of a few connections, opened on first use. Thread-safe and fork-safe."""

    def __init__(self, url: str, *, tenant: str | None = None) -> None:
        self._options, self.address = _parse_url(url)
        if tenant is not None and not _is_role_name(tenant):
            raise _role_error(tenant)
        self.user = str(self._options.get("user") or "")
        self.tenant = tenant
        self.statements_sent = self.rows_received = 0  # counted since this object was created
        self._idle: list[Connection] = []
        self._inherited: list[Connection] = []  # after a fork: the parent still uses them, so they are never closed
        self._mutex = Mutex()
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"Database({self.address!r})"

    def rows(self, statement: LiteralString, *values: Any) -> Rows:
        """Run one statement in its own transaction and return its rows."""
        with self.session() as session:
            return session.rows(statement, *values)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield a session that commits each statement by itself; with a tenant, all statements together at the end."""
        with self.transaction() if self.tenant is not None else self._session() as session:
            yield session

    @contextmanager
    def transaction(self, *, as_tenant: bool = True) -> Iterator[Session]:
        """Yield a session whose statements are committed together at the end, or not at all.

        They run with the role of the tenant, if there is one and `as_tenant` is true.
        """
        with self._session() as session, session.transaction():
            session.rows(
                CONFIGURE_TRANSACTION, LOCK_TIMEOUT_SECONDS, LOCK_TIMEOUT_SECONDS, self.tenant if as_tenant else None
            )
            yield session

    def close(self) -> None:
        """Close the idle connections; the next use opens a new one."""
        with self._mutex:
            self._set_aside_inherited()
            while self._idle:
                self._idle.pop().close()

    def __del__(self) -> None:
        with suppress(Exception):  # the database was not closed explicitly
            self.close()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        import psycopg

        try:
            connection = self._take_connection()
            try:
                yield Session(self, connection)
            except psycopg.Error as error:
                raise translate_error(self.address, error) from error
            finally:
                self._return_connection(connection)
        except psycopg.Error as error:  # connecting failed
            raise translate_error(self.address, error) from error

    def _take_connection(self) -> "Connection":
        import psycopg

        with self._mutex:
            self._set_aside_inherited()
            while self._idle:
                connection = self._idle.pop()
                if not _has_unread_data(connection.fileno()):
                    return connection
                connection.close()  # a server sends unrequested data when it shuts down
        # A pooler between us and the server may not support prepared statements.
        return psycopg.connect(**self._options, autocommit=True, prepare_threshold=None)

    def _set_aside_inherited(self) -> None:
        """Stop using the connections of the parent process after a fork."""
        if self._pid != os.getpid():
            self._inherited, self._idle, self._pid = self._idle, [], os.getpid()

    def _return_connection(self, connection: "Connection") -> None:
        from psycopg.pq import TransactionStatus

        with self._mutex:
            is_reusable = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
            if is_reusable and len(self._idle) < MAX_IDLE_CONNECTIONS:
                self._idle.append(connection)
            else:
                connection.close()


def _has_unread_data(fd: int) -> bool:
    """Return whether a socket has data to read. Uses poll, because select fails for descriptors above 1023."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))


def migrate(database: Database, part: str, steps: Sequence[LiteralString]) -> None:
    """Bring a set of tables up to date: run the missing steps, in order, in one transaction.

    `part` names the set, such as "store"; its schema version is the number of steps that were run.
    Raises NewerSchemaError if the tables were created by a later version of memfs.
    """
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
    """Return the schema version of a set of tables; 0 if there are none."""
    try:
        found = database.rows("SELECT version FROM memfs.schema_versions WHERE part = %s", part)
    except MissingTablesError:
        return 0
    return int(found[0][0]) if found else 0


def check_version(address: str, found: int, known: int) -> None:
    """Raise NewerSchemaError if the tables were created by a later version of memfs."""
    if found > known:
        raise NewerSchemaError(address, found, known)


# --- URLs and errors ----------------------------------------------------------------------------------


def _parse_url(url: str) -> tuple[dict[str, Any], str]:
    """Return the options for psycopg, and the address without password, for messages.

    Raises SettingsError for a wrong URL; the error quotes no part of it, because it may contain a password.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtraError("PostgreSQL", "postgres") from None
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        raise _url_error(f"does not begin with {SCHEMES[0]}")
    if _has_unescaped_slash(url.partition("://")[2]):
        raise _url_error("has an @ after the host; the password probably contains a / that is not escaped")
    try:
        options = dict(conninfo_to_dict(url))
    except ProgrammingError:
        raise _url_error("cannot be parsed") from None
    host, port = str(options.get("host") or ""), str(options.get("port") or "")
    if not _HOST.fullmatch(host) or not _PORT.fullmatch(port):
        raise _url_error("has an invalid host or port")
    options.setdefault("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    options.setdefault("application_name", "memfs")
    location = f"{host or 'localhost'}:{port}" if port else host or "localhost"
    return options, f"postgresql://{location}/{options.get('dbname') or ''}"


def _is_role_name(tenant: object) -> bool:
    """Return whether a role can have this name: PostgreSQL cuts names of more than 63 bytes, and reserves `none`."""
    is_name = isinstance(tenant, str) and tenant.isprintable() and tenant != "none"
    return is_name and 0 < len(str(tenant).encode()) <= MAX_ROLE_BYTES


def _role_error(tenant: object) -> SettingsError:
    error = SettingsError("tenant", f"{short_repr(tenant)} is not the name of a role")
    error.hint = f"Name a role of the server, of up to {MAX_ROLE_BYTES} bytes, that the user is a member of."
    return error


def _has_unescaped_slash(rest: str) -> bool:
    """Return whether the password has a `/`, after which it would be parsed as the database name. `rest` is after `://`."""
    authority, _, path = rest.partition("/")
    return "@" in path.partition("?")[0] or ("@" in path and "@" not in authority)


def _url_error(reason: str) -> SettingsError:
    error = SettingsError("the URL of the database", reason)
    error.hint = "Write postgresql://USER:PASSWORD@HOST/DATABASE; escape @ / : in a password as %40 %2F %3A."
    return error


def translate_error(address: str, error: "psycopg.Error") -> StoreUnavailableError:
    """Return the memfs error for an error of psycopg: with the message of the server, but no values of a statement."""
    if error.sqlstate is None:
        message = str(error).partition("\n")[0]
        message = message.rpartition(" failed: ")[2].removeprefix("FATAL: ").strip()
        kind = next(kind for pattern, kind in _CONNECT_ERRORS if re.search(pattern, message))
    else:
        message = error.diag.message_primary or type(error).__name__
        kind = next(kind for code, kind in _SQLSTATE_ERRORS if error.sqlstate.startswith(code))
        if _UNKNOWN_EXTENSION.search(message):
            kind = MissingExtensionError
    first_word = message[1:].partition(" ")[0]
    is_name = first_word != first_word.lower()  # such as SSL: it keeps its first letter
    translated = kind(address, (message if is_name else message[:1].lower() + message[1:]) or "no answer")
    if error.sqlstate and _UNKNOWN_ROLE.search(message):
        translated = AccessRefusedError(translated.place, translated.reason)
        translated.hint = "Check the name of the tenant: it is a role of the server, see docs/hub.md."
    return translated
