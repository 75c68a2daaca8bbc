"""Hub: the database side of push and pull. It stores whole files by key (the folded path), and numbers every change.

A row of `files` is the current version of a memory: bytes, hash, id, and the number of its last change (`seq`). A
removal is a row without bytes and hash. The last number of a tenant is in its row of `hubs`, which a writer keeps
locked until it commits. So a number is assigned only after all lower ones are committed, and a reader that continues
after the last number it saw misses nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import LiteralString, NamedTuple, Self

from memfs.errors import MissingTablesError, StoreUnavailableError
from memfs.postgres_connection import Database, Session, check_version, migrate

SCHEMA_PART = "hub"
TENANT_FILTER: LiteralString = "tenant = current_user::text"  # needed for roles that bypass row-level security
MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE TABLE memfs.hubs (
        tenant text COLLATE "C" PRIMARY KEY DEFAULT current_user,
        hub uuid NOT NULL DEFAULT gen_random_uuid(),
        seq bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE memfs.files (
        tenant text COLLATE "C" NOT NULL DEFAULT current_user,
        key text COLLATE "C" NOT NULL,
        path text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        hash bytea,
        id text NOT NULL DEFAULT '',
        data bytea,
        changed timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant, key),
        UNIQUE (tenant, seq),
        CHECK ((hash IS NULL) = (data IS NULL))
    );
    CREATE INDEX files_ids ON memfs.files (tenant, id) WHERE hash IS NOT NULL AND id <> '';
    ALTER TABLE memfs.hubs ENABLE ROW LEVEL SECURITY;
    ALTER TABLE memfs.hubs FORCE ROW LEVEL SECURITY;
    ALTER TABLE memfs.files ENABLE ROW LEVEL SECURITY;
    ALTER TABLE memfs.files FORCE ROW LEVEL SECURITY;
    CREATE POLICY tenants ON memfs.hubs USING (tenant = current_user::text) WITH CHECK (tenant = current_user::text);
    CREATE POLICY tenants ON memfs.files USING (tenant = current_user::text) WITH CHECK (tenant = current_user::text);
    """,
)

_HUB_NAME = re.compile("[0-9a-f-]{36}")


class RemoteFile(NamedTuple):
    """One memory on the hub, without its bytes. It was removed if `hash` is None."""

    key: str
    path: str
    seq: int
    hash: bytes | None
    id: str
    changed: datetime
    size: int


class Upload(NamedTuple):
    """One memory to write to the hub; a removal if `hash` and `data` are None."""

    key: str
    path: str
    hash: bytes | None
    id: str
    data: bytes | None


class HubStatus(NamedTuple):
    """The name of a hub (a UUID), and the number of its last change."""

    hub: str
    seq: int


FILE_COLUMNS: LiteralString = "key, path, seq, hash, id, changed, coalesce(octet_length(data), 0)"


class Hub:
    """The hub of one tenant in a PostgreSQL database. `tenant` is a database role; by default that of the URL."""

    def __init__(self, url: str, *, tenant: str | None = None) -> None:
        self.database = Database(url, tenant=tenant)
        self.address = self.database.address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens a new one."""
        self.database.close()

    def status(self) -> HubStatus:
        """Return the name and last change of the hub. Raise MissingTablesError if this tenant has no hub yet."""
        found = self.database.rows(
            "SELECT version, hub::text, seq FROM memfs.schema_versions "  # noqa: S608  constants
            f"LEFT JOIN memfs.hubs ON {TENANT_FILTER} WHERE part = %s",
            SCHEMA_PART,
        )
        version, hub, seq = found[0] if found else (0, None, 0)
        check_version(self.address, version, len(MIGRATIONS))
        if version < len(MIGRATIONS) or hub is None:
            raise MissingTablesError(self.address, "holds no hub yet")
        if not _HUB_NAME.fullmatch(hub):  # it becomes a file name
            raise StoreUnavailableError(self.address, "its hub name was not written by memfs")
        return HubStatus(hub, seq)

    def create(self) -> HubStatus:
        """Create the tables and the hub if they are missing. Return its name and last change."""
        try:
            return self.status()
        except MissingTablesError:
            self._check_encoding()
            migrate(self.database, SCHEMA_PART, MIGRATIONS)
        with self.database.transaction() as session:
            session.run("INSERT INTO memfs.hubs DEFAULT VALUES ON CONFLICT DO NOTHING")
        return self.status()

    def _check_encoding(self) -> None:
        """Raise StoreUnavailableError if the database cannot hold every file name."""
        [(encoding,)] = self.database.rows("SHOW server_encoding")
        if encoding != "UTF8":
            error = StoreUnavailableError(self.address, f"its encoding is {encoding}, not UTF8")
            error.hint = "Create another database: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0."
            raise error

    # --- reading

    def changes(self, prefix: str, after: int, until: int, also: Sequence[str] = ()) -> Iterator[RemoteFile]:
        """Return the files below a key prefix whose last change is after one number and not after another.

        They are sorted by that change, oldest first. Keys in `also` are included even if they did not change.
        """
        found = self.database.rows(
            f"SELECT {FILE_COLUMNS} FROM memfs.files WHERE {TENANT_FILTER} AND seq <= %s "  # noqa: S608  constants
            "AND (seq > %s OR key = ANY(%s)) AND starts_with(key, %s) ORDER BY seq",
            until, after, list(also), prefix,
        )  # fmt: skip
        return map(RemoteFile._make, found)

    def files(self, keys: Sequence[str]) -> dict[str, RemoteFile]:
        """Return the files at some keys, by key; removals too. A key that the hub never had is missing."""
        return _files(self.database, keys)

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return the ids, out of some, that memories on the hub have."""
        return _existing_ids(self.database, ids)

    def fetch(self, wanted: Iterable[RemoteFile]) -> dict[str, bytes]:
        """Return the bytes of some files by key. A file that changed since its row was read is left out."""
        numbers = {one.key: one.seq for one in wanted}
        found = self.database.rows(
            f"SELECT key, seq, data FROM memfs.files WHERE {TENANT_FILTER} AND key = ANY(%s)",  # noqa: S608
            list(numbers),
        )
        return {key: data for key, seq, data in found if data is not None and numbers[key] == seq}

    # --- writing

    @contextmanager
    def transaction(self, hub: str) -> Iterator["HubTransaction"]:
        """Open a transaction that locks out other writers of the hub with this name.

        Raise StoreUnavailableError if the tenant's hub has another name by now.
        """
        with self.database.transaction() as session:
            found = session.rows(f"SELECT hub::text, seq FROM memfs.hubs WHERE {TENANT_FILTER} FOR UPDATE")  # noqa: S608
            if not found or found[0][0] != hub:
                raise StoreUnavailableError(self.address, "another hub replaced the one that was read")
            yield HubTransaction(session, found[0][1])

    at, living, make, writing = files, existing_ids, create, transaction  # aliases: the names of version 0.9


class HubTransaction:
    """A write transaction on a hub. `seq` is the number of the last change, including those of this transaction."""

    def __init__(self, session: Session, seq: int) -> None:
        self._session, self.seq = session, seq

    def files(self, keys: Sequence[str]) -> dict[str, RemoteFile]:
        """Return the files at some keys, as Hub.files. No other writer changes them until the transaction ends."""
        return _files(self._session, keys)

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return the ids, out of some, that memories on the hub have."""
        return _existing_ids(self._session, ids)

    def upload(self, uploads: Sequence[Upload]) -> None:
        """Write memories and removals, each with the next number."""
        if not uploads:
            return
        numbers = list(range(self.seq + 1, self.seq + len(uploads) + 1))
        self.seq += len(uploads)
        keys, paths, hashes, ids, data = (list(column) for column in zip(*uploads, strict=True))
        self._session.run(
            "INSERT INTO memfs.files (key, path, hash, id, data, seq) "
            "SELECT * FROM unnest(%s::text[], %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::bigint[]) "
            "ON CONFLICT (tenant, key) DO UPDATE SET path = excluded.path, hash = excluded.hash, id = excluded.id, "
            "data = excluded.data, seq = excluded.seq, changed = now()",
            keys, paths, hashes, ids, data, numbers,
        )  # fmt: skip
        self._session.run(f"UPDATE memfs.hubs SET seq = %s WHERE {TENANT_FILTER}", self.seq)  # noqa: S608


def _files(source: Database | Session, keys: Sequence[str]) -> dict[str, RemoteFile]:
    found = source.rows(f"SELECT {FILE_COLUMNS} FROM memfs.files WHERE {TENANT_FILTER} AND key = ANY(%s)", list(keys))  # noqa: S608
    return {row[0]: RemoteFile._make(row) for row in found}


def _existing_ids(source: Database | Session, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    found = source.rows(
        f"SELECT id FROM memfs.files WHERE {TENANT_FILTER} AND id = ANY(%s) AND hash IS NOT NULL AND id <> ''",  # noqa: S608
        list(ids),
    )
    return {row[0] for row in found}
