"""Values kept under keys: the MemoryStore of the advanced-memory guide, and its backends."""

from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.stores.keyed.agent_adapter import as_agent_store
    from memfs.stores.keyed.base import MemoryStore
    from memfs.stores.keyed.in_memory_store import InMemoryStore
    from memfs.stores.keyed.postgres import PostgresStore
    from memfs.stores.keyed.redis import RedisStore
    from memfs.stores.keyed.registry import open_store
    from memfs.stores.keyed.sqlite import SqliteStore
    from memfs.stores.keyed.vault_store import VaultStore
    from memfs.stores.keyed.vector import VectorMemoryStore

__all__ = [
    "InMemoryStore", "MemoryStore", "PostgresStore", "RedisStore", "SqliteStore", "VaultStore", "VectorMemoryStore",
    "as_agent_store", "open_store",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "InMemoryStore": "in_memory_store",
        "MemoryStore": "base",
        "PostgresStore": "postgres",
        "RedisStore": "redis",
        "SqliteStore": "sqlite",
        "VaultStore": "vault_store",
        "VectorMemoryStore": "vector",
        "as_agent_store": "agent_adapter",
        "open_store": "registry",
    },
)
