"""InMemoryStore: values under keys in RAM, for what need not last."""

import copy
import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from memfs.stores.keyed.seam import MemoryStore, check_key, check_limit, check_query, check_top_k, check_value, is_below
from memfs.stores.memory import share, stems


class InMemoryStore(MemoryStore[str]):
    """Texts by key that last as long as their process."""

    def __init__(self) -> None:
        self._data: dict[str, str] = {}
        self._meta: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key."""
        check_key(key)
        with self._lock:
            self._data[key] = check_value(value)
            self._meta[key] = copy.deepcopy(dict(meta or {}))

    def get(self, key: str) -> str | None:
        """The text of a key."""
        return self._data.get(key)

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about it."""
        with self._lock:
            return copy.deepcopy(self._meta.get(key, {}))

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts that share words with a question; those that have the question as it is come first."""
        limit, asked = check_top_k(top_k), check_query(query)
        with self._lock:
            texts = dict(self._data)
        return nearest(asked, texts.items(), limit)

    def forget(self, key: str) -> bool:
        """Let go of a text."""
        with self._lock:
            self._meta.pop(key, None)
            return self._data.pop(key, None) is not None

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        most = check_limit(limit)
        with self._lock:
            found = sorted(key for key in self._data if is_below(key, prefix))
        start = bisect_right(found, after) if after else 0
        return found[start : start + most]


def nearest(query: str, texts: Iterable[tuple[str, str]], limit: int) -> list[tuple[str, str, float]]:
    """The texts that share words with a question, best first, by the share of its words that they have."""
    asked, plain = stems(query, is_question=True), query.strip().lower()
    found = []
    for key, text in texts:
        score = 1.0 if plain and plain in text.lower() else share(asked, stems(text))
        if score > 0:
            found.append((key, text, score))
    found.sort(key=lambda hit: -hit[2])
    return found[:limit]
