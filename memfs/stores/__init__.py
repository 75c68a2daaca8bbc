"""Stores of memories: `agent`, which an agent searches and writes, and `keyed`, texts under keys."""

from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.stores.agent.in_memory_store import InMemoryStore
    from memfs.stores.agent.protocol import AddMessagesContext, CuratedStore, Found, MemoryStore, SearchOptions
    from memfs.stores.agent.store_tools import Tool, curation_tools
    from memfs.stores.agent.vault_store import VaultStore

__all__ = [
    "AddMessagesContext", "CuratedStore", "Found", "InMemoryStore", "MemoryStore", "SearchOptions", "Tool",
    "VaultStore", "curation_tools",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        **dict.fromkeys(
            ("AddMessagesContext", "CuratedStore", "Found", "MemoryStore", "SearchOptions"), "agent.protocol"
        ),
        "InMemoryStore": "agent.in_memory_store",
        "Tool": "agent.store_tools",
        "VaultStore": "agent.vault_store",
        "curation_tools": "agent.store_tools",
    },
)
