"""Values kept under keys: the MemoryStore of the advanced-memory guide, and its backends."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.stores.keyed.bridge import as_agent_store
    from memfs.stores.keyed.memory import InMemoryStore
    from memfs.stores.keyed.postgres import PostgresStore
    from memfs.stores.keyed.redis import RedisStore
    from memfs.stores.keyed.seam import MemoryStore
    from memfs.stores.keyed.sqlite import SqliteStore
    from memfs.stores.keyed.urls import open_store
    from memfs.stores.keyed.vault import VaultStore
    from memfs.stores.keyed.vector import VectorMemoryStore

__all__ = [
    "InMemoryStore", "MemoryStore", "PostgresStore", "RedisStore", "SqliteStore", "VaultStore", "VectorMemoryStore",
    "as_agent_store", "open_store",
]  # fmt: skip

_HOMES = {
    "InMemoryStore": "memory",
    "MemoryStore": "seam",
    "PostgresStore": "postgres",
    "RedisStore": "redis",
    "SqliteStore": "sqlite",
    "VaultStore": "vault",
    "VectorMemoryStore": "vector",
    "as_agent_store": "bridge",
    "open_store": "urls",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memfs.stores.keyed' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"memfs.stores.keyed.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
