"""Search one store of a MemoryManager: choose the limit, convert entries to Found, and log failures as warnings."""

import logging
from collections.abc import Iterable
from typing import Any

from memfs.stores.agent.protocol import Found, MemoryStore

log = logging.getLogger("memfs.agent")
DEFAULT_SEARCH_RESULTS = 3  # per store, if neither the caller nor the store sets a limit


def result_limit(requested: int | None, store: MemoryStore) -> int:
    """Return how many results a store is searched for: the requested number, the store's own, or the default."""
    if requested is not None:
        return requested
    return store.max_search_results if store.max_search_results is not None else DEFAULT_SEARCH_RESULTS


async def search_store(store: MemoryStore, query: str, limit: int) -> list[Found]:
    """Search one store; what the store raises is not caught."""
    return _as_found(store, await store.search(query, {"max_search_results": limit}))


async def search_pinned(store: Any, limit: int) -> list[Found]:
    """Return the pinned memories of a store, at most `limit`."""
    return _as_found(store, await store.pinned(limit))


def entries_or_warn(store: MemoryStore, result: list[Found] | BaseException) -> list[Found]:
    """Return the result of a store; if it failed, log a warning and return an empty list."""
    if isinstance(result, BaseException):
        log.warning("store %s: search failed: %s", store.name, result)
        return []
    return result


def _as_found(store: MemoryStore, entries: Iterable[Any]) -> list[Found]:
    """Return the entries of any store as Found, with the name of the store."""
    return [
        Found(
            content=entry.content,
            store_name=store.name,
            metadata=entry.metadata,
            relevance=getattr(entry, "relevance", None),
            id=getattr(entry, "id", None),
            seen=getattr(entry, "seen", None),
            pinned=getattr(entry, "pinned", False),
        )
        for entry in entries
    ]
