"""Connections to PostgreSQL, on a real server."""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.postgres_server import PASSWORD, Server

from memfs.errors import (
    AccessRefusedError,
    MissingDatabaseError,
    MissingExtensionError,
    MissingTablesError,
    NewerSchemaError,
    ServerUnreachableError,
    SettingsError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
)
from memfs.postgres_connection import Database, migrate

STEPS = ("CREATE TABLE memfs.things (name text PRIMARY KEY)", "ALTER TABLE memfs.things ADD COLUMN size integer")


@pytest.fixture
def database(postgres_url: str) -> Database:
    return Database(postgres_url)


# --- addresses


def test_creating_a_database_object_does_not_connect() -> None:
    assert repr(Database("postgresql://nobody@127.0.0.1:1/nothing")) == "Database('postgresql://127.0.0.1:1/nothing')"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://alice:hunter2@db/memories",
        "alice:hunter2@db/memories",
        "postgresql://alice:hunter2@d b/memories",
        "postgresql://alice:x@hunter2@db/memories",
        "postgresql://alice:hunter2@db:hunter2/memories",
        "postgresql://alice:hunter2@db/memories?hunter2=1",
        "postgresql://alice:hunter2@db/memories?options=%zz",
        "postgresql://alice:1/hunter2@db/memories",
        "postgresql://alice:1/2?dbname=hunter2@db/memories",
        "postgresql://alice@work:1/hunter2@db/memories",
    ],
)
def test_the_error_for_a_wrong_url_quotes_no_part_of_it(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Database(url)

    assert "hunter2" not in f"{caught.value!r}{caught.value}{caught.value.hint}{caught.value.__cause__}"
    assert caught.value.exit_code == 2
    assert "postgresql://USER:PASSWORD@HOST/DATABASE" in caught.value.hint


def refused(url: str) -> StoreUnavailableError:
    with pytest.raises(StoreUnavailableError) as caught:
        Database(url).rows("SELECT 1")
    assert PASSWORD not in f"{caught.value!r}{caught.value}{caught.value.hint}"
    return caught.value


def test_an_at_sign_outside_the_password_is_accepted() -> None:
    assert Database("postgresql://alice:x@db/memories?application_name=a@b").address == "postgresql://db/memories"
    assert Database("postgresql://alice:1%2F2@db/a%40b").address == "postgresql://db/a@b"
    assert Database("postgresql://db/memories?user=a%40b").address == "postgresql://db/memories"


def test_an_unreachable_server_is_reported_with_its_address() -> None:
    error = refused(f"postgresql://postgres:{PASSWORD}@127.0.0.1:1/memories")

    assert isinstance(error, ServerUnreachableError)
    assert str(error) == "postgresql://127.0.0.1:1/memories: connection refused"


def test_an_unknown_host_is_reported() -> None:
    assert isinstance(refused("postgresql://no-such-host.invalid/memories"), ServerUnreachableError)


def test_a_wrong_password_is_reported(postgres: Server) -> None:
    error = refused(postgres.loopback(password=PASSWORD[::-1]))

    assert isinstance(error, AccessRefusedError)
    assert str(error).endswith('/postgres: password authentication failed for user "postgres"')


def test_an_unknown_user_is_reported(postgres: Server) -> None:
    assert isinstance(refused(postgres.url(user="nobody at all")), AccessRefusedError)


def test_a_missing_database_is_reported(postgres: Server) -> None:
    error = refused(postgres.loopback(database="nothing"))

    assert isinstance(error, MissingDatabaseError)
    assert str(error).endswith('/nothing: database "nothing" does not exist')
    assert "createdb" in error.hint


def test_a_password_in_the_url_is_used(postgres: Server) -> None:
    assert Database(postgres.loopback()).rows("SELECT 1 + %s", 1) == [(2,)]


# --- statements


def test_an_error_does_not_contain_the_values_of_the_statement(database: Database) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        database.rows("SELECT %s::jsonb", "a secret text")

    assert "secret" not in str(caught.value)


def test_a_lock_of_another_session_is_reported_as_locked(database: Database) -> None:
    migrate(database, "things", STEPS)
    with database.transaction() as holder:
        holder.run("LOCK TABLE memfs.things")
        with pytest.raises(StoreLockedError, match="could not obtain lock") as caught, database.transaction() as other:
            other.run("LOCK TABLE memfs.things NOWAIT")

    assert caught.value.exit_code == 4


def test_a_missing_table_is_reported(database: Database) -> None:
    with pytest.raises(MissingTablesError):
        database.rows("SELECT * FROM memfs.things")


def test_a_missing_permission_is_reported(postgres: Server, postgres_url: str) -> None:
    with postgres.roles("guest") as [url]:
        guest = Database(url)

        with pytest.raises(AccessRefusedError, match="permission denied for database"):
            migrate(guest, "things", STEPS)
        with pytest.raises(MissingExtensionError, match="permission denied to create extension"):
            guest.rows("CREATE EXTENSION vector")
        guest.close()


def test_a_missing_extension_is_reported(database: Database) -> None:
    with pytest.raises(MissingExtensionError, match='extension "no_such_thing" is not available') as caught:
        database.rows("CREATE EXTENSION no_such_thing")

    assert "CREATE EXTENSION vector" in caught.value.hint


def test_a_transaction_is_committed_as_a_whole_or_not_at_all(database: Database) -> None:
    migrate(database, "things", STEPS)

    def fail() -> None:
        with database.transaction() as session:
            session.run("INSERT INTO memfs.things VALUES (%s)", "one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert database.rows("SELECT * FROM memfs.things") == []
    with database.transaction() as session:
        assert session.run("INSERT INTO memfs.things VALUES (%s)", "two") == 1
    assert database.rows("SELECT name FROM memfs.things") == [("two",)]


def test_a_connection_that_the_server_closed_is_replaced(database: Database, postgres: Server) -> None:
    [(backend,)] = database.rows("SELECT pg_backend_pid()")
    postgres.run(f"SELECT pg_terminate_backend({backend}, 10000)")

    assert database.rows("SELECT 1") == [(1,)]


def test_a_connection_that_breaks_in_a_transaction_is_reported(database: Database) -> None:
    with pytest.raises(ServerUnreachableError), database.transaction() as session:
        session.rows("SELECT pg_terminate_backend(pg_backend_pid())")

    assert database.rows("SELECT 1") == [(1,)]


def test_each_thread_has_its_own_connection(database: Database) -> None:
    found, together = set(), threading.Barrier(4)

    def query() -> None:
        with database.transaction() as session:
            together.wait(30)
            found.add(session.rows("SELECT pg_backend_pid()")[0][0])

    run_together([query] * 4)
    assert len(found) == 4


def test_a_forked_process_opens_its_own_connections(database: Database) -> None:
    [(before,)] = database.rows("SELECT pg_backend_pid()")
    child = os.fork()
    if not child:
        is_other = database.rows("SELECT pg_backend_pid()") != [(before,)]
        database.close()
        os._exit(0 if is_other else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert database.rows("SELECT pg_backend_pid()") == [(before,)]


def test_a_tenant_is_a_role_that_the_user_is_a_member_of(postgres: Server, postgres_url: str) -> None:
    with postgres.roles("acme", "bob") as [_, url]:
        bobs = Database(url, tenant="acme")

        with pytest.raises(AccessRefusedError, match='permission denied to set role "acme"'):
            bobs.rows("SELECT current_user::text")
        postgres.run("GRANT acme TO bob")
        assert bobs.rows("SELECT current_user::text") == [("acme",)]
        assert Database(url).rows("SELECT current_user::text") == [("bob",)]
        bobs.close()


@pytest.mark.parametrize("tenant", ["", "none", "x" * 64, "é" * 32, "a\0b", "\ud800", "a\nb", 5, b"acme"])
def test_a_tenant_that_cannot_be_the_name_of_a_role_is_refused(tenant: Any) -> None:
    """PostgreSQL reads `none` as the user itself, and cuts a longer name to 63 bytes."""
    with pytest.raises(SettingsError, match=r"tenant: .* is not the name of a role") as caught:
        Database("postgresql://nobody@127.0.0.1:1/nothing", tenant=tenant)
    assert "up to 63 bytes" in caught.value.hint


def test_a_missing_role_is_reported_with_a_hint_to_the_documentation(postgres_url: str) -> None:
    with pytest.raises(AccessRefusedError, match='role "acme" does not exist') as caught:
        Database(postgres_url, tenant="acme").rows("SELECT 1")
    assert "docs/hub.md" in caught.value.hint


def test_a_process_with_many_open_files_can_use_the_database(database: Database) -> None:
    """The descriptor of a socket may be above 1,023, which `select` does not support."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert database.rows("SELECT 1") == database.rows("SELECT 1") == [(1,)]
    finally:
        for fd in held:
            os.close(fd)
        database.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# --- migrations


def version(database: Database) -> int:
    return int(database.rows("SELECT version FROM memfs.schema_versions WHERE part = 'things'")[0][0])


def test_migrations_run_only_the_missing_steps(database: Database) -> None:
    migrate(database, "things", STEPS[:1])
    database.rows("INSERT INTO memfs.things VALUES ('kept')")
    assert version(database) == 1

    migrate(database, "things", STEPS)
    assert version(database) == 2
    assert database.rows("SELECT name, size FROM memfs.things") == [("kept", None)]


def test_checking_up_to_date_tables_takes_one_statement(database: Database) -> None:
    migrate(database, "things", STEPS)
    before = database.statements_sent
    migrate(database, "things", STEPS)

    assert database.statements_sent == before + 1


def test_a_failed_migration_leaves_no_tables(database: Database) -> None:
    with pytest.raises(StoreUnavailableError, match="division by zero"):
        migrate(database, "things", (*STEPS, "SELECT 1 / 0"))

    with pytest.raises(MissingTablesError):
        database.rows("SELECT * FROM memfs.things")
    migrate(database, "things", STEPS)
    assert version(database) == 2


def test_tables_of_a_newer_memfs_are_refused(database: Database) -> None:
    migrate(database, "things", STEPS)

    message = "has schema version 2, but this memfs supports versions up to 1"
    with pytest.raises(NewerSchemaError, match=message) as caught:
        migrate(database, "things", STEPS[:1])
    assert "upgrade" in caught.value.hint


def test_concurrent_migrations_run_each_step_once(postgres_url: str) -> None:
    together = threading.Barrier(6)

    def migrate_things() -> None:
        database = Database(postgres_url)
        together.wait(30)
        migrate(database, "things", STEPS)
        database.close()

    run_together([migrate_things] * 6)
    assert version(Database(postgres_url)) == 2


def run_together(functions: list[Callable[[], None]]) -> None:
    """Run each function in its own thread, and raise the first error."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


# --- without the extra


def test_a_missing_psycopg_is_reported_with_the_extra_to_install() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from memfs.errors import MissingExtraError
from memfs.postgres_connection import Database
try:
    Database("postgresql://localhost/memories")
except MissingExtraError as error:
    print(error, "|", error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stdout == (
        "PostgreSQL: needs the extra 'postgres', which is not installed | "
        "Install it: pip install 'memfs-vault[postgres]'.\n"
    )


def test_importing_the_module_does_not_import_psycopg() -> None:
    code = "import sys, memfs.postgres_connection, memfs.hub.push, memfs.hub.pull; print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stdout == "False\n"


def test_every_error_of_a_server_is_a_store_error() -> None:
    kinds = {AccessRefusedError, MissingDatabaseError, MissingExtensionError, MissingTablesError, NewerSchemaError}

    assert all(issubclass(kind, StoreError) for kind in kinds)
