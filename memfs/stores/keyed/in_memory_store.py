"""InMemoryKeyedStore: values under keys in RAM, for what need not last."""

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
from memfs.stores.keyed.scoring import Words, asked_terms, terms_of


class InMemoryKeyedStore(KeyedStore[str]):
    """Texts by key that last as long as their process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, dict[str, Any]]] = {}
        self._words = Words()
        self._lock = threading.Lock()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """A new store, for `memory:`."""
        if url.removeprefix("memory:").strip("/"):
            raise InvalidSetupError("InMemoryKeyedStore", f"{short_repr(url)}: nothing follows after memory:")
        return cls(**options)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"InMemoryKeyedStore({len(self)} keys)"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Keep another text under a key, unless somebody was faster."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        kept = check_value(value), check_meta(meta)
        check_key(key)
        terms = terms_of(value)
        with self._lock:
            if known is not None and self._kept.get(key, (None,))[0] != known:
                return False
            self._kept[key] = kept
            self._words.put(key, terms)
            return True

    def get(self, key: str) -> str | None:
        """The text of a key."""
        return self._kept.get(check_key(key), (None, {}))[0]

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about it."""
        return copy.deepcopy(self._kept.get(check_key(key), ("", {}))[1])

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts that have words of a question."""
        limit, asked = check_top_k(top_k), asked_terms(check_query(query))
        with self._lock:
            return [(key, self._kept[key][0], score) for key, score in self._words.find(asked)[:limit]]

    def forget(self, key: str) -> bool:
        """Let go of a text."""
        check_key(key)
        with self._lock:
            self._words.drop(key)
            return self._kept.pop(key, None) is not None

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        return [key for key, _ in self.items(prefix, after=after, limit=limit)]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """The keys below a prefix with their texts."""
        prefix, after, most = check_page(prefix, after, limit)
        with self._lock:
            found = sorted(
                (key, text) for key, (text, _) in self._kept.items() if is_below(key, prefix) and key > after
            )
        return found[:most]
