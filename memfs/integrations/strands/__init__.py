"""Strands agents: the names of `strands.memory`, implemented by memfs, and sessions in a vault."""

try:
    from strands.injection import InjectionConfig, InjectionTrigger
except ModuleNotFoundError as error:
    if error.name == "strands":
        raise ModuleNotFoundError("strands is missing: pip install 'memfs-vault[strands]'", name="strands") from None
    raise

from memfs.agent.distill.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
from memfs.agent.distill.strategies import EpisodeStrategy, FactStrategy, PreferenceStrategy, SummaryStrategy
from memfs.agent.injection import InjectionContext
from memfs.integrations.strands.errors import AggregateMemoryError
from memfs.integrations.strands.extraction.model_extractor import ModelExtractor
from memfs.integrations.strands.extraction.triggers import EvictionTrigger, IntervalTrigger, InvocationTrigger
from memfs.integrations.strands.extraction.types import (
    ExtractionConfig,
    ExtractionResult,
    ExtractionTrigger,
    ExtractionTriggerContext,
    Extractor,
    ExtractorContext,
    MemoryContentBlockType,
    MemoryMessageFilter,
)
from memfs.integrations.strands.memory_manager import MemoryManager
from memfs.integrations.strands.model import StrandsModel
from memfs.integrations.strands.scripted import ScriptedModel
from memfs.integrations.strands.session_manager import VaultSessionManager
from memfs.integrations.strands.session_repository import VaultSessionRepository
from memfs.integrations.strands.stores import InMemoryStore, VaultStore
from memfs.integrations.strands.types import (
    AddMessagesContext,
    InjectionFormatContext,
    InjectionQueryContext,
    MemoryAddOptions,
    MemoryAddToolConfig,
    MemoryEntry,
    MemoryInjectionConfig,
    MemoryManagerConfig,
    MemorySearchOptions,
    MemoryStore,
    MemoryStoreConfig,
    MemoryToolConfig,
    SearchOptions,
)

__all__ = [
    "AddMessagesContext", "AggregateMemoryError", "EpisodeStrategy", "EvictionTrigger", "ExtractionConfig",
    "ExtractionResult", "ExtractionTrigger", "ExtractionTriggerContext", "Extractor", "ExtractorContext",
    "FactStrategy", "InMemoryStore", "InjectionConfig", "InjectionContext", "InjectionFormatContext",
    "InjectionQueryContext", "InjectionTrigger", "IntervalTrigger", "InvocationTrigger", "MemoryAddOptions",
    "MemoryAddToolConfig", "MemoryContentBlockType", "MemoryEntry", "MemoryInjectionConfig", "MemoryManager",
    "MemoryManagerConfig", "MemoryMessageFilter", "MemorySearchOptions", "MemoryStore", "MemoryStoreConfig",
    "MemoryToolConfig", "ModelExtractor", "PersistenceMode", "PreferenceStrategy", "RetrievalConfig", "ScriptedModel",
    "SearchOptions", "StrandsModel", "SummaryStrategy", "VaultMemoryConfig", "VaultSessionManager",
    "VaultSessionRepository", "VaultStore",
]  # fmt: skip
