"""VectorStore: a keyed store that is searched by embeddings. Another keyed store holds the texts."""

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from memfs.embedding import default_embedder
from memfs.errors import InvalidSetupError, MissingExtraError, short_repr
from memfs.fs.files import STATE_DIR
from memfs.protocols import Embedder
from memfs.stores.keyed.base import KeyedStore, check_key, check_meta, check_query, check_top_k, check_value
from memfs.stores.keyed.in_memory_store import InMemoryKeyedStore
from memfs.stores.keyed.vault_store import VaultKeyedStore
from memfs.stores.keyed.vector_cache import VectorCache, content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

CACHE_DIR = "text-vectors"  # in .memfs of a vault, apart from the vectors of the vault's own semantic index
EMBED_BATCH = 500  # texts per call of the embedder


class VectorStore(KeyedStore[str]):
    """Texts by key in `store` (by default in RAM), searched by the vectors of `embedder`.

    The default embedder is that of the extra `semantic`. `cache` is a directory for vectors, so that a text is embedded
    once. Others may write to a persistent store, so each search reads all of its texts.
    """

    url_parameters = ("*",)  # belong to the address of the inner store

    def __init__(
        self,
        model_name: str | None = None,
        *,
        store: KeyedStore[str] | None = None,
        embedder: Embedder | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(store, KeyedStore | None):
            raise InvalidSetupError("VectorStore", f"store: {short_repr(store)} is not a KeyedStore")
        self.place = None if store is None else store.place
        self._embedder = _choose_embedder(model_name, embedder)
        self.store = InMemoryKeyedStore() if store is None else store
        self._is_sole_writer = store is None
        self._cache = None if cache is None else VectorCache(cache, self._embedder.name)
        self._hashes: dict[str, bytes] = {}  # key -> hash of its text
        self._key_counts: Counter[bytes] = Counter()  # how many keys have a text
        self._vectors: dict[bytes, Vectors] = {}  # by hash of the text
        self._matrix: tuple[list[str], Any] | None = None  # cached result of _build_matrix
        self._unused: set[bytes] = set()  # hashes of texts that no key has any more, to remove from the cache
        self._lock = threading.RLock()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a store in RAM for `vector:`, and one over the store at `sqlite:///x.db` for `vector:sqlite:///x.db`."""
        from memfs.stores.keyed.registry import open_store

        inner = url[len("vector:") :]
        store = open_store(inner) if inner.strip("/") else None
        if isinstance(store, VaultKeyedStore) and "cache" not in options:
            with suppress(InvalidSetupError):  # a read-only vault is searched without a cache
                return cls(store=store, cache=store.vault.root / STATE_DIR / CACHE_DIR, **options)
        return cls(store=store, **options)

    def __repr__(self) -> str:
        return f"VectorStore({self._embedder.name!r}, store={self.store!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Store a text under a key, and its vector."""
        check_key(key), check_value(value), check_meta(meta)
        vectors = self._get_vectors([value])
        with self._lock:
            self.store.add(key, value, meta)
            self._vectors |= vectors
            self._set_hash(key, content_hash(value))

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Replace a text and its vector if the text is still the known one. Return whether it was."""
        check_key(key), check_value(value), check_meta(meta)
        vectors = self._get_vectors([value])
        with self._lock:
            if is_replaced := self.store.revise(key, value, meta, known=known):
                self._vectors |= vectors
                self._set_hash(key, content_hash(value))
            return is_replaced

    def get(self, key: str) -> str | None:
        """Return the text at a key; None if there is none."""
        return self.store.get(key)

    def meta(self, key: str) -> dict[str, Any]:
        """Return a copy of the metadata at a key; {} if there is none."""
        return self.store.meta(key)

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """Return the texts whose vectors are nearest to that of a query. The score is the cosine, above 0."""
        limit, text = check_top_k(top_k), check_query(query)
        if not text.strip():
            return []
        texts = {} if self._is_sole_writer else self._refresh()
        query_vector = self._embed([text.encode("utf-8", "replace").decode()])[0]
        with self._lock:
            hits = _rank_nearest(*self._build_matrix(), query_vector, limit)
        found = [(key, texts.get(key) or self.store.get(key), score) for key, score in hits]
        return [(key, value, score) for key, value, score in found if value is not None]

    def forget(self, key: str) -> bool:
        """Remove a text and its vector. The cache drops the vector when the store is closed."""
        with self._lock:
            is_removed = self.store.forget(key)
            self._set_hash(key, None)
            return is_removed

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys below a prefix, sorted."""
        return self.store.keys(prefix, after=after, limit=limit)

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """Return the keys below a prefix with their texts, sorted by key."""
        return self.store.items(prefix, after=after, limit=limit)

    def recalled(self, keys: Sequence[str]) -> None:
        """Pass the recalled keys to the store of the texts."""
        self.store.recalled(keys)

    def close(self) -> None:
        """Remove the vectors of forgotten texts from the cache, and close the store of the texts."""
        with self._lock:
            if self._cache and self._unused:
                self._cache.remove(self._unused)
            self._unused = set()
        self.store.close()

    # --- vectors

    def _set_hash(self, key: str, new: bytes | None) -> None:
        """Set or remove the hash of the text of a key. Drop the vector of the old text if no other key has it."""
        before = self._hashes.get(key)
        if before == new:
            return
        self._matrix = None
        if new is None:
            del self._hashes[key]
        else:
            self._hashes[key] = new
            self._key_counts[new] += 1
            self._unused.discard(new)
        if before is not None:
            self._key_counts[before] -= 1
            if not self._key_counts[before]:
                del self._key_counts[before]
                self._vectors.pop(before, None)
                self._unused.add(before)

    def _refresh(self) -> dict[str, str]:
        """Read all texts of the store, which others may have changed, and embed the new ones. Return them by key."""
        texts: dict[str, str] = {}
        last = ""
        while page := self.store.items(after=last):
            texts.update(page)
            last = page[-1][0]
        vectors = self._get_vectors(list(texts.values()))
        with self._lock:
            self._vectors |= vectors
            for key in self._hashes.keys() - texts.keys():
                self._set_hash(key, None)
            for key, text in texts.items():
                self._set_hash(key, content_hash(text))
        return texts

    def _get_vectors(self, texts: Sequence[str]) -> "dict[bytes, Vectors]":
        """Return the vectors of some texts by hash: from RAM, from the cache, or from the embedder."""
        hashes = {content_hash(text): text for text in texts}
        with self._lock:
            found = {one: self._vectors[one] for one in hashes if one in self._vectors}
            if self._cache and len(found) < len(hashes):
                found |= self._cache.find(hashes.keys() - found.keys())
        missing = [one for one in hashes if one not in found]
        for start in range(0, len(missing), EMBED_BATCH):
            batch = missing[start : start + EMBED_BATCH]
            made = dict(zip(batch, self._embed([hashes[one] for one in batch]), strict=True))
            if self._cache:
                with self._lock:
                    self._cache.append(made)
            found |= made
        return found

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        """Return the vectors of texts as rows of length 1, or 0; raise InvalidSetupError if the embedder is faulty."""
        import numpy as np

        vectors = np.asarray(self._embedder.embed(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            reason = f"returned an array of shape {vectors.shape} for {len(texts)} texts, or one with NaN or infinity"
            raise InvalidSetupError(f"embedder {self._embedder.name!r}", reason)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return unit

    def _build_matrix(self) -> tuple[list[str], Any]:
        """Return the keys, and their vectors as the rows of a matrix; None instead of that if there are no keys."""
        import numpy as np

        if self._matrix is None:
            rows = [self._vectors[one] for one in self._hashes.values()]
            self._matrix = [*self._hashes], np.stack(rows) if rows else None
        return self._matrix


def _rank_nearest(keys: Sequence[str], matrix: Any, query_vector: "Vectors", limit: int) -> list[tuple[str, float]]:
    """Return the keys of the rows nearest to a vector with their cosines, best first; equal ones are sorted by key."""
    import numpy as np

    if not keys:
        return []
    scores = matrix @ query_vector
    threshold = np.partition(scores, -limit)[-limit] if limit < len(keys) else 0.0
    near = [
        (-min(1.0, float(scores[row])), keys[row]) for row in np.flatnonzero(scores >= max(threshold, 1e-9)).tolist()
    ]
    return [(key, -score) for score, key in sorted(near)[:limit]]


def _choose_embedder(model_name: str | None, embedder: Embedder | None) -> Embedder:
    """Return the embedder, else the default one; raise InvalidSetupError if it is not the model of this name."""
    if embedder is None:
        embedder = default_embedder()
    elif not callable(getattr(embedder, "embed", None)) or not isinstance(getattr(embedder, "name", None), str):
        raise InvalidSetupError("VectorStore", f"embedder: {short_repr(embedder)} has no name, or no embed(texts)")
    if find_spec("numpy") is None:
        raise MissingExtraError("VectorStore", "semantic")
    if model_name is not None and model_name not in {embedder.name, embedder.name.rpartition("/")[2]}:
        advice = f"the embedder is {embedder.name!r}; pass another one as embedder="
        raise InvalidSetupError("VectorStore", f"model_name: {short_repr(model_name)} is not available: {advice}")
    return embedder
