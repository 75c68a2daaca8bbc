"""The MemoryStore seam and its backends."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.stores.agent.base import curation_tools
    from memfs.stores.agent.in_memory_store import InMemoryStore
    from memfs.stores.agent.protocol import AddMessagesContext, CuratedStore, Found, MemoryStore, SearchOptions
    from memfs.stores.agent.store_tools import Tool
    from memfs.stores.agent.vault_store import VaultStore

__all__ = [
    "AddMessagesContext", "CuratedStore", "Found", "InMemoryStore", "MemoryStore", "SearchOptions", "Tool",
    "VaultStore", "curation_tools",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("AddMessagesContext", "CuratedStore", "Found", "MemoryStore", "SearchOptions"), "agent.protocol"),
    "InMemoryStore": "agent.in_memory_store",
    "Tool": "agent.store_tools",
    "VaultStore": "agent.vault_store",
    "curation_tools": "agent.base",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memfs.stores' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"memfs.stores.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
