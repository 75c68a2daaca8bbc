"""Keyed stores: texts under keys of the caller's choice, with search. One interface, one class per backend."""

from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.stores.keyed.agent_adapter import as_agent_store
    from memfs.stores.keyed.base import KeyedStore
    from memfs.stores.keyed.base import KeyedStore as MemoryStore
    from memfs.stores.keyed.in_memory_store import InMemoryKeyedStore
    from memfs.stores.keyed.in_memory_store import InMemoryKeyedStore as InMemoryStore
    from memfs.stores.keyed.postgres import PostgresStore
    from memfs.stores.keyed.redis import RedisStore
    from memfs.stores.keyed.registry import open_store
    from memfs.stores.keyed.sqlite import SqliteStore
    from memfs.stores.keyed.vault_store import VaultKeyedStore
    from memfs.stores.keyed.vault_store import VaultKeyedStore as VaultStore
    from memfs.stores.keyed.vector import VectorStore
    from memfs.stores.keyed.vector import VectorStore as VectorMemoryStore

__all__ = [
    "InMemoryKeyedStore", "InMemoryStore", "KeyedStore", "MemoryStore", "PostgresStore", "RedisStore", "SqliteStore",
    "VaultKeyedStore", "VaultStore", "VectorMemoryStore", "VectorStore", "as_agent_store", "open_store",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "InMemoryKeyedStore": "in_memory_store",
        "KeyedStore": "base",
        "PostgresStore": "postgres",
        "RedisStore": "redis",
        "SqliteStore": "sqlite",
        "VaultKeyedStore": "vault_store",
        "VectorStore": "vector",
        "as_agent_store": "agent_adapter",
        "open_store": "registry",
        # aliases, documented in docs/stores.md
        "InMemoryStore": "in_memory_store:InMemoryKeyedStore",
        "MemoryStore": "base:KeyedStore",
        "VaultStore": "vault_store:VaultKeyedStore",
        "VectorMemoryStore": "vector:VectorStore",
    },
)
