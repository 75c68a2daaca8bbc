"""InMemoryKeyedStore: a keyed store in RAM, for texts that need not last."""

import copy
import threading
from collections.abc import Mapping
from typing import Any, Self

from memfs.errors import InvalidSetupError, short_repr
from memfs.stores.keyed.base import (
    KeyedStore,
    check_key,
    check_known,
    check_meta,
    check_page,
    check_query,
    check_top_k,
    check_value,
    is_below,
)
from memfs.stores.keyed.scoring import TermIndex, query_terms, text_terms


class InMemoryKeyedStore(KeyedStore[str]):
    """Texts by key that last as long as the process."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[str, dict[str, Any]]] = {}
        self._terms = TermIndex()
        self._lock = threading.Lock()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a new store, for the address `memory:`."""
        if url.removeprefix("memory:").strip("/"):
            raise InvalidSetupError("InMemoryKeyedStore", f"{short_repr(url)}: nothing may follow memory:")
        return cls(**options)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"InMemoryKeyedStore({len(self)} keys)"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Store a text under a key."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Replace a text if it is still the known one. Return whether it was."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        """Store a text; with `known` only if that is the current one. Return whether it was stored."""
        entry = check_value(value), check_meta(meta)
        check_key(key)
        terms = text_terms(value)
        with self._lock:
            if known is not None and self._entries.get(key, (None,))[0] != known:
                return False
            self._entries[key] = entry
            self._terms.put(key, terms)
            return True

    def get(self, key: str) -> str | None:
        """Return the text at a key; None if there is none."""
        return self._entries.get(check_key(key), (None, {}))[0]

    def meta(self, key: str) -> dict[str, Any]:
        """Return a copy of the metadata at a key; {} if there is none."""
        return copy.deepcopy(self._entries.get(check_key(key), ("", {}))[1])

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """Return the texts that have words of a query, best first."""
        limit, terms = check_top_k(top_k), query_terms(check_query(query))
        with self._lock:
            return [(key, self._entries[key][0], score) for key, score in self._terms.find(terms)[:limit]]

    def forget(self, key: str) -> bool:
        """Remove a text. Return whether there was one."""
        check_key(key)
        with self._lock:
            self._terms.drop(key)
            return self._entries.pop(key, None) is not None

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys below a prefix, sorted."""
        return [key for key, _ in self.items(prefix, after=after, limit=limit)]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """Return the keys below a prefix with their texts, sorted by key."""
        prefix, after, limit = check_page(prefix, after, limit)
        with self._lock:
            found = sorted(
                (key, text) for key, (text, _) in self._entries.items() if is_below(key, prefix) and key > after
            )
        return found[:limit]
