"""The hub in its database: whole files by path, their removals, and the feed of changes.

A row is a memory as it is: bytes, hash, id, and the number of the change that made it so. A removal is a row without
bytes. The numbers of a tenant come from one row, which a writer holds locked until it commits: whoever is given
a number has all lower ones committed before, so a reader that goes on behind the last number it saw misses nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import LiteralString, NamedTuple, Self

from memfs.errors import MissingTablesError, StoreUnavailableError
from memfs.postgres_connection import Database, Session, check_version, migrate

PART = "hub"
MINE: LiteralString = "tenant = current_user::text"  # also asked of those whom no policy binds
STEPS: tuple[LiteralString, ...] = (
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


_HUB = re.compile("[0-9a-f-]{36}")


class There(NamedTuple):
    """A memory on the hub, without its bytes; one without a hash was removed."""

    key: str
    path: str
    seq: int
    hash: bytes | None
    id: str
    changed: datetime
    size: int


class Put(NamedTuple):
    """A memory on its way to the hub; without bytes, the removal of one."""

    key: str
    path: str
    hash: bytes | None
    id: str
    data: bytes | None


class Status(NamedTuple):
    """Which hub it is, and the number of its last change."""

    hub: str
    seq: int


COLUMNS: LiteralString = "key, path, seq, hash, id, changed, coalesce(octet_length(data), 0)"


class Hub:
    """The hub of a tenant in a database."""

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
        """Close the connection; the next use opens one."""
        self.database.close()

    def status(self) -> Status:
        """How things stand; MissingTablesError if nothing was ever pushed."""
        found = self.database.rows(
            "SELECT version, hub::text, seq FROM memfs.schema_versions "  # noqa: S608  texts of ours
            f"LEFT JOIN memfs.hubs ON {MINE} WHERE part = %s",
            PART,
        )
        version, hub, seq = found[0] if found else (0, None, 0)
        check_version(self.address, version, len(STEPS))
        if version < len(STEPS) or hub is None:
            raise MissingTablesError(self.address, "holds no hub yet")
        if not _HUB.fullmatch(hub):  # it becomes the name of a file
            raise StoreUnavailableError(self.address, "what it says is not what memfs wrote")
        return Status(hub, seq)

    def make(self) -> Status:
        """How things stand, with all that is missing made."""
        try:
            return self.status()
        except MissingTablesError:
            self._check_encoding()
            migrate(self.database, PART, STEPS)
        with self.database.transaction() as session:
            session.run("INSERT INTO memfs.hubs DEFAULT VALUES ON CONFLICT DO NOTHING")
        return self.status()

    def _check_encoding(self) -> None:
        """Refuse a database that cannot hold every name."""
        [(encoding,)] = self.database.rows("SHOW server_encoding")
        if encoding != "UTF8":
            error = StoreUnavailableError(self.address, f"its texts are {encoding}, not UTF8")
            error.hint = "Make another database: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0."
            raise error

    # --- reading

    def changes(self, prefix: str, after: int, until: int, also: Sequence[str] = ()) -> Iterator[There]:
        """What changed below a prefix of keys behind a number, in the order in which it did, and some keys anyway."""
        found = self.database.rows(
            f"SELECT {COLUMNS} FROM memfs.files WHERE {MINE} AND seq <= %s "  # noqa: S608  texts of ours
            "AND (seq > %s OR key = ANY(%s)) AND starts_with(key, %s) ORDER BY seq",
            until, after, list(also), prefix,
        )  # fmt: skip
        return map(There._make, found)

    def at(self, keys: Sequence[str]) -> dict[str, There]:
        """What the hub has under some keys."""
        return _at(self.database, keys)

    def living(self, ids: Sequence[str]) -> set[str]:
        """Which of some ids memories on the hub have."""
        return _living(self.database, ids)

    def fetch(self, wanted: Iterable[There]) -> dict[str, bytes]:
        """The bytes of memories, by key; without those that changed since."""
        numbers = {one.key: one.seq for one in wanted}
        found = self.database.rows(
            f"SELECT key, seq, data FROM memfs.files WHERE {MINE} AND key = ANY(%s)",  # noqa: S608
            list(numbers),
        )
        return {key: data for key, seq, data in found if data is not None and numbers[key] == seq}

    # --- writing

    @contextmanager
    def writing(self, hub: str) -> Iterator["Writing"]:
        """A transaction that nobody else writes to this hub in; another one than was seen is refused."""
        with self.database.transaction() as session:
            found = session.rows(f"SELECT hub::text, seq FROM memfs.hubs WHERE {MINE} FOR UPDATE")  # noqa: S608
            if not found or found[0][0] != hub:
                raise StoreUnavailableError(self.address, "another hub took the place of the one that was read")
            yield Writing(session, found[0][1])


class Writing:
    """What is written in one transaction; `seq` is the number of the last change."""

    def __init__(self, session: Session, seq: int) -> None:
        self._session, self.seq = session, seq

    def at(self, keys: Sequence[str]) -> dict[str, There]:
        """What the hub has under some keys, which nobody changes until the end."""
        return _at(self._session, keys)

    def living(self, ids: Sequence[str]) -> set[str]:
        """Which of some ids memories on the hub have."""
        return _living(self._session, ids)

    def put(self, puts: Sequence[Put]) -> None:
        """Write memories and removals."""
        if not puts:
            return
        numbers = list(range(self.seq + 1, self.seq + len(puts) + 1))
        self.seq += len(puts)
        keys, paths, hashes, ids, data = (list(column) for column in zip(*puts, strict=True))
        self._session.run(
            "INSERT INTO memfs.files (key, path, hash, id, data, seq) "
            "SELECT * FROM unnest(%s::text[], %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::bigint[]) "
            "ON CONFLICT (tenant, key) DO UPDATE SET path = excluded.path, hash = excluded.hash, id = excluded.id, "
            "data = excluded.data, seq = excluded.seq, changed = now()",
            keys, paths, hashes, ids, data, numbers,
        )  # fmt: skip
        self._session.run(f"UPDATE memfs.hubs SET seq = %s WHERE {MINE}", self.seq)  # noqa: S608


def _at(where: Database | Session, keys: Sequence[str]) -> dict[str, There]:
    found = where.rows(f"SELECT {COLUMNS} FROM memfs.files WHERE {MINE} AND key = ANY(%s)", list(keys))  # noqa: S608
    return {row[0]: There._make(row) for row in found}


def _living(where: Database | Session, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    found = where.rows(
        f"SELECT id FROM memfs.files WHERE {MINE} AND id = ANY(%s) AND hash IS NOT NULL AND id <> ''",  # noqa: S608
        list(ids),
    )
    return {row[0] for row in found}
