"""The words of `strands.memory.types`, ours behind them, and the settings a manager and a store know."""

from collections.abc import Callable, Sequence
from typing import Any, Required, TypedDict

from strands.injection import InjectionConfig
from strands.memory import MemoryStore as TheirStore

from memfs.agent.injection import FormatContext, QueryContext
from memfs.integrations.strands.extraction.types import ExtractionConfig, Metadata
from memfs.stores.agent.protocol import AddMessagesContext, Found, MemoryStore, SearchOptions, has_method

__all__ = [
    "AddMessagesContext", "AnyStore", "InjectionFormat", "InjectionFormatContext", "InjectionQuery",
    "InjectionQueryContext",
    "MemoryAddOptions", "MemoryAddToolConfig", "MemoryEntry", "MemoryInjectionConfig", "MemoryManagerConfig",
    "MemorySearchOptions", "MemoryStore", "MemoryStoreConfig", "MemoryToolConfig", "Metadata", "SearchOptions",
]  # fmt: skip

MemoryEntry = Found
InjectionQueryContext = QueryContext
InjectionFormatContext = FormatContext
InjectionQuery = Callable[[QueryContext], str | None]
InjectionFormat = Callable[[FormatContext], str]
AnyStore = MemoryStore | TheirStore
_has_method = has_method


class MemorySearchOptions(SearchOptions, total=False):
    """What `MemoryManager.search` takes besides the question; no stores at all find nothing."""

    stores: list[str]


class MemoryAddOptions(TypedDict, total=False):
    """What `MemoryManager.add` takes besides the text."""

    metadata: Metadata
    stores: list[str]


class MemoryToolConfig(TypedDict, total=False):
    """Another name or description for a tool."""

    name: str
    description: str


class MemoryAddToolConfig(MemoryToolConfig, total=False):
    """Which stores the model may add to, and whether it is answered before they have it."""

    stores: Sequence[str | AnyStore]
    wait_for_writes: bool


class MemoryInjectionConfig(InjectionConfig, total=False):
    """What is told before a model call; the last four are ours."""

    max_entries: int
    query: InjectionQuery
    format: InjectionFormat
    min_relevance: float
    max_tokens: int
    max_seconds: float
    pinned: bool


class MemoryManagerConfig(TypedDict, total=False):
    """The arguments of a MemoryManager; those below `injection` are ours."""

    stores: Required[Sequence[AnyStore]]
    search_tool_config: MemoryToolConfig | bool
    add_tool_config: MemoryAddToolConfig | bool
    injection: MemoryInjectionConfig | bool
    read_tools: Sequence[str]
    write_tools: Sequence[str]
    tools: str
    model: Any


class MemoryStoreConfig(TypedDict, total=False):
    """What every store can be told."""

    name: Required[str]
    description: str
    max_search_results: int
    writable: bool
    extraction: ExtractionConfig | bool


def _has_write_sink(store: object) -> bool:
    return has_method(store, "add") or has_method(store, "add_messages")
