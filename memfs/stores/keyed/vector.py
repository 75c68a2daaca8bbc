"""VectorStore: values under keys, found by what they mean. What keeps the values is another store."""

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

CACHE = "text-vectors"  # in a vault; those of its own index are elsewhere, and swept by other rules
BATCH = 500  # texts that are handed to the embedder at once


class VectorStore(KeyedStore[str]):
    """Texts by key in `store` (RAM, if none is given), searched by the vectors that `embedder` makes of them.

    The embedder of the extra `semantic` is used if none is given. `cache` is a directory where vectors are kept, so
    that a text is embedded once. A lasting store may be written by others too: a search looks at all of its texts.
    """

    url_parameters = ("*",)  # of the address of the store of the texts

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
        self._embedder = _chosen(model_name, embedder)
        self.store = InMemoryKeyedStore() if store is None else store
        self._is_private = store is None
        self._cache = None if cache is None else VectorCache(cache, self._embedder.name)
        self._hashes: dict[str, bytes] = {}  # key -> hash of its text
        self._users: Counter[bytes] = Counter()  # how many keys stand for a text
        self._known: dict[bytes, Vectors] = {}
        self._matrix: tuple[list[str], Any] | None = None
        self._gone: set[bytes] = set()
        self._lock = threading.RLock()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """A new store in RAM for `vector:`; for `vector:sqlite:///x.db` one over the store of that address."""
        from memfs.stores.keyed.registry import open_store

        inner = url[len("vector:") :]
        store = open_store(inner) if inner.strip("/") else None
        if isinstance(store, VaultKeyedStore) and "cache" not in options:
            with suppress(InvalidSetupError):  # a vault that cannot be written is searched all the same
                return cls(store=store, cache=store.vault.root / STATE_DIR / CACHE, **options)
        return cls(store=store, **options)

    def __repr__(self) -> str:
        return f"VectorStore({self._embedder.name!r}, store={self.store!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key, and its vector in the place of the one that was there."""
        check_key(key), check_value(value), check_meta(meta)
        made = self._vectors_of([value])
        with self._lock:
            self.store.add(key, value, meta)
            self._known |= made
            self._point(key, content_hash(value))

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Have the store of the texts do so, and keep the vector of the text that is there then."""
        check_key(key), check_value(value), check_meta(meta)
        made = self._vectors_of([value])
        with self._lock:
            if is_done := self.store.revise(key, value, meta, known=known):
                self._known |= made
                self._point(key, content_hash(value))
            return is_done

    def get(self, key: str) -> str | None:
        """The text of a key."""
        return self.store.get(key)

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about it."""
        return self.store.meta(key)

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts whose vectors lie nearest to that of a question; the score is the cosine between them."""
        limit, question = check_top_k(top_k), check_query(query)
        if not question.strip():
            return []
        texts = {} if self._is_private else self._refresh()
        asked = self._embed([question.encode("utf-8", "replace").decode()])[0]
        with self._lock:
            hits = _nearest(*self._rows(), asked, limit)
        found = [(key, texts.get(key) or self.store.get(key), score) for key, score in hits]
        return [(key, value, score) for key, value, score in found if value is not None]

    def forget(self, key: str) -> bool:
        """Let go of a text and of its vector, which leaves the cache when the store is closed."""
        with self._lock:
            was_there = self.store.forget(key)
            self._point(key, None)
            return was_there

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        return self.store.keys(prefix, after=after, limit=limit)

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """The keys below a prefix with their texts."""
        return self.store.items(prefix, after=after, limit=limit)

    def recalled(self, keys: Sequence[str]) -> None:
        """Have the store of the texts take note."""
        self.store.recalled(keys)

    def close(self) -> None:
        """Take the vectors of forgotten texts out of the cache, and close the store of the texts."""
        with self._lock:
            if self._cache and self._gone:
                self._cache.drop(self._gone)
            self._gone = set()
        self.store.close()

    # --- vectors

    def _point(self, key: str, to: bytes | None) -> None:
        """Have a key stand for a text, or for none; a vector that nobody stands for any more goes."""
        before = self._hashes.get(key)
        if before == to:
            return
        self._matrix = None
        if to is None:
            del self._hashes[key]
        else:
            self._hashes[key] = to
            self._users[to] += 1
            self._gone.discard(to)
        if before is not None:
            self._users[before] -= 1
            if not self._users[before]:
                del self._users[before]
                self._known.pop(before, None)
                self._gone.add(before)

    def _refresh(self) -> dict[str, str]:
        """Look at all texts of the store, which others may have changed; answers them."""
        texts: dict[str, str] = {}
        last = ""
        while page := self.store.items(after=last):
            texts.update(page)
            last = page[-1][0]
        made = self._vectors_of(list(texts.values()))
        with self._lock:
            self._known |= made
            for key in self._hashes.keys() - texts.keys():
                self._point(key, None)
            for key, text in texts.items():
                self._point(key, content_hash(text))
        return texts

    def _vectors_of(self, texts: Sequence[str]) -> "dict[bytes, Vectors]":
        """The vectors of some texts: known, from the cache, or made."""
        hashes = {content_hash(text): text for text in texts}
        with self._lock:
            found = {one: self._known[one] for one in hashes if one in self._known}
            if self._cache and len(found) < len(hashes):
                found |= self._cache.find(hashes.keys() - found.keys())
        wanted = [one for one in hashes if one not in found]
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            made = dict(zip(some, self._embed([hashes[one] for one in some]), strict=True))
            if self._cache:
                with self._lock:
                    self._cache.keep(made)
            found |= made
        return found

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np

        vectors = np.asarray(self._embedder.embed(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            said = f"made an array of shape {vectors.shape} of {len(texts)} texts, or one with what is no number in it"
            raise InvalidSetupError(f"embedder {self._embedder.name!r}", said)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        made: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return made

    def _rows(self) -> tuple[list[str], Any]:
        """The keys, and their vectors as the rows of a matrix."""
        import numpy as np

        if self._matrix is None:
            rows = [self._known[made] for made in self._hashes.values()]
            self._matrix = [*self._hashes], np.stack(rows) if rows else None
        return self._matrix


def _nearest(keys: Sequence[str], matrix: Any, asked: "Vectors", limit: int) -> list[tuple[str, float]]:
    """The keys of the rows that lie nearest to a vector, best first, with the cosine; of equal ones by key."""
    import numpy as np

    if not keys:
        return []
    nearness = matrix @ asked
    least = np.partition(nearness, -limit)[-limit] if limit < len(keys) else 0.0
    near = [
        (-min(1.0, float(nearness[row])), keys[row]) for row in np.flatnonzero(nearness >= max(least, 1e-9)).tolist()
    ]
    return [(key, -score) for score, key in sorted(near)[:limit]]


def _chosen(model_name: str | None, embedder: Embedder | None) -> Embedder:
    if embedder is None:
        embedder = default_embedder()
    elif not callable(getattr(embedder, "embed", None)) or not isinstance(getattr(embedder, "name", None), str):
        raise InvalidSetupError("VectorStore", f"embedder: {short_repr(embedder)} has no name, or no embed(texts)")
    if find_spec("numpy") is None:
        raise MissingExtraError("VectorStore", "semantic")
    if model_name is not None and model_name not in {embedder.name, embedder.name.rpartition("/")[2]}:
        here = f"this is {embedder.name!r}; another one is handed over by embedder="
        raise InvalidSetupError("VectorStore", f"model_name: {short_repr(model_name)} is not at hand: {here}")
    return embedder
