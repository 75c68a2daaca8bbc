"""The names of `strands.memory.types`, implemented by memfs, and the settings of managers and stores."""

from collections.abc import Callable, Sequence
from typing import Any, Required, TypedDict

from strands.injection import InjectionConfig
from strands.memory import MemoryStore as StrandsStore

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
AnyStore = MemoryStore | StrandsStore
_has_method = has_method


class MemorySearchOptions(SearchOptions, total=False):
    """The options of `MemoryManager.search`; an empty list of stores finds nothing."""

    stores: list[str]


class MemoryAddOptions(TypedDict, total=False):
    """The options of `MemoryManager.add`."""

    metadata: Metadata
    stores: list[str]


class MemoryToolConfig(TypedDict, total=False):
    """A different name or description for a tool."""

    name: str
    description: str


class MemoryAddToolConfig(MemoryToolConfig, total=False):
    """The stores that the model may add to, and whether its call waits for the writes."""

    stores: Sequence[str | AnyStore]
    wait_for_writes: bool


class MemoryInjectionConfig(InjectionConfig, total=False):
    """What is injected before a model call; the last four options are memfs's own."""

    max_entries: int
    query: InjectionQuery
    format: InjectionFormat
    min_relevance: float
    max_tokens: int
    max_seconds: float
    pinned: bool


class MemoryManagerConfig(TypedDict, total=False):
    """The arguments of a MemoryManager; those after `injection` are memfs's own."""

    stores: Required[Sequence[AnyStore]]
    search_tool_config: MemoryToolConfig | bool
    add_tool_config: MemoryAddToolConfig | bool
    injection: MemoryInjectionConfig | bool
    read_tools: Sequence[str]
    write_tools: Sequence[str]
    tools: str
    model: Any


class MemoryStoreConfig(TypedDict, total=False):
    """The settings of every store."""

    name: Required[str]
    description: str
    max_search_results: int
    writable: bool
    extraction: ExtractionConfig | bool


def _has_write_sink(store: object) -> bool:
    return has_method(store, "add") or has_method(store, "add_messages")
