"""memfs: long-term memory for agents as markdown files that people can read."""

import logging

from memfs.lazy_imports import TYPE_CHECKING, lazy_attributes

if TYPE_CHECKING:
    from memfs import errors
    from memfs.agent.agent_memory.agent_memory import AgentMemory, EnhancedAgentMemory
    from memfs.agent.distill.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
    from memfs.agent.distill.strategies import (
        EpisodeStrategy,
        FactStrategy,
        PreferenceStrategy,
        Strategy,
        SummaryStrategy,
    )
    from memfs.agent.manager import MemoryManager
    from memfs.data_types import (
        Change,
        Header,
        Hit,
        IndexStatus,
        Memory,
        Problem,
        Reason,
        Stamp,
        SyncReport,
        Version,
        Written,
    )
    from memfs.errors import MemfsError
    from memfs.namespace import Namespace, Template
    from memfs.query.filters import SearchFilters
    from memfs.stores.agent.in_memory_store import InMemoryStore
    from memfs.stores.agent.vault_store import VaultStore
    from memfs.stores.keyed.agent_adapter import as_agent_store
    from memfs.stores.keyed.registry import open_store
    from memfs.vault.vault import Vault

__version__ = "0.9.0"
__all__ = [
    "AgentMemory", "Change", "EnhancedAgentMemory", "EpisodeStrategy", "FactStrategy", "Header", "Hit",
    "InMemoryStore", "IndexStatus", "MemfsError", "Memory", "MemoryManager", "Namespace", "PersistenceMode",
    "PreferenceStrategy", "Problem", "Reason", "RetrievalConfig", "SearchFilters", "Stamp", "Strategy",
    "SummaryStrategy", "SyncReport", "Template", "Vault", "VaultMemoryConfig", "VaultStore", "Version", "Written",
    "as_agent_store", "errors", "open_store",
]  # fmt: skip

logging.getLogger("memfs").addHandler(logging.NullHandler())

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "MemfsError": "errors",
        "__version__": "",  # only for dir(): it is defined above
        "errors": "",
        **dict.fromkeys(("Change", "Header", "Hit", "IndexStatus", "Memory", "Problem", "Reason"), "data_types"),
        **dict.fromkeys(("Stamp", "SyncReport", "Version", "Written"), "data_types"),
        **dict.fromkeys(("Namespace", "Template"), "namespace"),
        **dict.fromkeys(("AgentMemory", "EnhancedAgentMemory"), "agent.agent_memory.agent_memory"),
        "InMemoryStore": "stores.agent.in_memory_store",
        "MemoryManager": "agent.manager",
        **dict.fromkeys(("PersistenceMode", "RetrievalConfig", "VaultMemoryConfig"), "agent.distill.config"),
        **dict.fromkeys(("EpisodeStrategy", "FactStrategy", "PreferenceStrategy"), "agent.distill.strategies"),
        **dict.fromkeys(("Strategy", "SummaryStrategy"), "agent.distill.strategies"),
        "SearchFilters": "query.filters",
        "Vault": "vault.vault",
        "VaultStore": "stores.agent.vault_store",
        "as_agent_store": "stores.keyed.agent_adapter",
        "open_store": "stores.keyed.registry",
    },
)
