"""Tenants of one database: roles of the server that cannot read or write each other's rows."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.postgres_server import Server

from memfs import Vault
from memfs.errors import AccessRefusedError, MissingTablesError
from memfs.hub import Hub, pull, push

GRANTS = (
    "GRANT USAGE ON SCHEMA memfs TO {0}",
    "GRANT SELECT, INSERT, UPDATE ON memfs.hubs, memfs.files TO {0}",
)


@pytest.fixture
def tenants(postgres: Server, postgres_url: str) -> Iterator[dict[str, str]]:
    """Yield the addresses of roles that may use the tables but do not own them, by name."""
    names = ("acme", "globex", "carol")
    with postgres.roles(*names) as urls:
        with Hub(postgres_url) as hub:
            hub.create()
        postgres.run(*(grant.format(name) for name in names for grant in GRANTS))
        yield dict(zip(names, urls, strict=True))


@pytest.fixture
def vaults(tmp_path: Path) -> Iterator[list[Vault]]:
    made = [Vault.init(tmp_path / name) for name in "abc"]
    for number, vault in enumerate(made[:2]):
        vault.create("facts/secret.md", f"Secret {number}.\n")
    yield made
    for vault in made:
        vault.close()


def test_tenants_of_one_database_are_separate(tenants: dict[str, str], vaults: list[Vault]) -> None:
    acme, globex, empty = vaults
    assert push(acme, tenants["acme"]).created == push(globex, tenants["globex"]).created == ("facts/secret.md",)
    assert pull(empty, tenants["globex"]).created == ("facts/secret.md",)

    assert empty.read("facts/secret.md").body == "Secret 1."
    assert not pull(acme, tenants["acme"]).conflicts
    with pytest.raises(MissingTablesError, match="holds no hub yet"):
        pull(empty, tenants["carol"])


def test_a_tenant_cannot_read_or_write_the_rows_of_another(
    tenants: dict[str, str], vaults: list[Vault], postgres: Server
) -> None:
    push(vaults[0], tenants["acme"])
    push(vaults[1], tenants["globex"])
    with psycopg.connect(tenants["acme"], autocommit=True) as thief:
        for table in ("files", "hubs"):
            assert thief.execute(f"SELECT DISTINCT tenant FROM memfs.{table}".encode()).fetchall() == [("acme",)]
            assert thief.execute(f"SELECT * FROM memfs.{table} WHERE tenant = 'globex'".encode()).fetchall() == []
            changed = thief.execute(f"UPDATE memfs.{table} SET seq = 99 WHERE tenant = 'globex'".encode())
            assert changed.rowcount == 0
            columns, values = (", key, path, seq", ", 'x', 'x', 9") if table == "files" else ("", "")
            for statement in (
                f"INSERT INTO memfs.{table} (tenant{columns}) VALUES ('globex'{values})",
                f"UPDATE memfs.{table} SET tenant = 'globex'",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                    thief.execute(statement.encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                thief.execute(f"DELETE FROM memfs.{table}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            thief.execute("SET ROLE globex")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            thief.execute("ALTER TABLE memfs.files DISABLE ROW LEVEL SECURITY")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            thief.execute("UPDATE memfs.schema_versions SET version = 99")

    assert postgres.run("SELECT tenant, data FROM memfs.files ORDER BY tenant") == [
        ("acme", b"Secret 0.\n"), ("globex", b"Secret 1.\n"),
    ]  # fmt: skip


def test_the_policy_binds_the_owner_of_the_tables_too(postgres: Server, tmp_path: Path, vaults: list[Vault]) -> None:
    """Without `FORCE ROW LEVEL SECURITY` the role that created the tables could read all rows."""
    with postgres.roles("keeper", "guest") as [keeper, guest]:
        postgres.run("GRANT CREATE ON DATABASE postgres TO keeper")
        push(vaults[0], keeper)
        postgres.run(*(grant.format("guest") for grant in GRANTS))
        push(vaults[1], guest)

        assert postgres.run("SELECT tenant FROM memfs.files", user="keeper") == [("keeper",)]
        assert pull(vaults[2], keeper).created == ("facts/secret.md",)
        assert vaults[2].read("facts/secret.md").body == "Secret 0."


def test_an_administrator_mirrors_only_its_own_rows(
    tenants: dict[str, str], vaults: list[Vault], postgres_url: str
) -> None:
    """An administrator can see all rows, but mirrors only its own."""
    push(vaults[0], tenants["acme"])
    push(vaults[1], postgres_url)

    assert pull(vaults[2], postgres_url).created == ("facts/secret.md",)
    assert vaults[2].read("facts/secret.md").body == "Secret 1."


def test_members_of_a_role_share_it_as_a_tenant(tenants: dict[str, str], vaults: list[Vault], postgres: Server) -> None:
    with pytest.raises(AccessRefusedError, match='permission denied to set role "acme"'):
        push(vaults[0], tenants["carol"], tenant="acme")
    postgres.run("GRANT acme TO carol")
    push(vaults[0], tenants["carol"], tenant="acme")

    assert pull(vaults[2], tenants["acme"]).created == ("facts/secret.md",)
    assert postgres.run("SELECT tenant FROM memfs.files") == [("acme",)]


def test_a_role_without_grants_gets_a_hint_to_the_docs(
    tenants: dict[str, str], vaults: list[Vault], postgres: Server
) -> None:
    postgres.run("REVOKE ALL ON SCHEMA memfs FROM carol")

    for act in (push, pull):
        with pytest.raises(AccessRefusedError, match="permission denied for schema memfs") as caught:
            act(vaults[0], tenants["carol"])
        assert "docs/hub.md" in caught.value.hint
