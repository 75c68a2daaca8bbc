"""as_agent_store: a keyed store as a store for an agent. The async methods run sync code in threads."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from memfs.data_types import Written
from memfs.errors import (
    InvalidArgumentsError,
    InvalidMemoryError,
    InvalidSetupError,
    MemoryChangedError,
    MemoryNotFoundError,
    short_repr,
)
from memfs.namespace import first_line, slug
from memfs.privacy.policy import Policy
from memfs.storage.exact_duplicates import text_key
from memfs.stores.agent.base import BaseStore
from memfs.stores.agent.protocol import Found, Metadata
from memfs.stores.keyed.base import MAX_TOP_K, KeyedStore
from memfs.stores.keyed.registry import open_store
from memfs.vault.vault import Vault

T = TypeVar("T")
MIN_TOP_K = 20  # hits requested from the keyed store, at least


class KeyedAgentStore(BaseStore):
    """An adapter: a keyed store as a store for an agent. The id of a memory is its key."""

    def __init__(self, store: KeyedStore[str], *, owns: bool, prefix: str, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._check(isinstance(prefix, str), "prefix", prefix, "a text")
        self.store, self._prefix, self._owns = store, f"{prefix.strip('/')}/" if prefix.strip("/") else "", owns
        if store.place is not None:
            self.place = f"{name}:{store.place}"

    def close(self) -> None:
        """Close the keyed store if it was opened by its address."""
        if self._owns:
            self.store.close()

    # --- reading

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> list[Found]:
        """Return the memories that match a query, best first; none for a blank query."""
        return await asyncio.to_thread(self._search_and_count, query, self.search_limit(options))

    def _search_and_count(self, query: str, limit: int) -> list[Found]:
        found = self._nearest(query, limit, self.min_relevance)
        if query.strip():
            self.store.recalled([one.id for one in found if one.id])
        return found

    async def similar(self, text: str, limit: int = 10) -> list[Found]:
        """Return the memories nearest to a text, with no threshold."""
        return await asyncio.to_thread(self._nearest, text, limit, 0.0)

    def _nearest(self, query: str, limit: int, min_relevance: float) -> list[Found]:
        """Return the hits below the prefix, at least as relevant as given.

        The store does not search by prefix, so more and more hits are requested until enough are below it.
        """
        top_k, seen = max(limit, MIN_TOP_K), 0
        while True:
            hits = self.store.search(query, top_k=top_k)
            found = [hit for hit in hits if hit[0].startswith(self._prefix) and hit[2] >= min_relevance]
            # stop when a whole page is below the threshold; one hit is not enough: a vault does not sort by score alone
            is_rest_irrelevant = all(score < min_relevance for _, _, score in hits[seen:])
            if len(found) >= limit or len(hits) < top_k or is_rest_irrelevant or top_k >= MAX_TOP_K:
                return [self._as_found(key, value, score) for key, value, score in found[:limit]]
            top_k, seen = top_k * 4, len(hits)

    async def get(self, ref: str) -> Found:
        """Return one memory, uncut. Raise MemoryNotFoundError if there is none, or it is not below the prefix."""
        return await asyncio.to_thread(self._get, ref)

    def _get(self, ref: str) -> Found:
        value = self._translate_errors(lambda: self.store.get(ref)) if str(ref).startswith(self._prefix) else None
        if value is None:
            raise MemoryNotFoundError(ref if isinstance(ref, str) else short_repr(ref))
        return self._as_found(ref, value, max_chars=len(value))

    def _as_found(self, key: str, value: str, score: float | None = None, max_chars: int = 0) -> Found:
        meta = self.store.meta(key)
        fields: dict[str, Any] = {"id": key} | ({} if score is None else {"relevance": round(score, 2)})
        content, max_chars = value, max_chars or self.max_chars
        if len(content) > max_chars:
            content = f"{content[:max_chars]}…\n[cut: {len(value):,} characters; the whole is memory {key}]"
        is_pinned = meta.get("pinned") is True
        return Found(
            content, metadata=fields | meta, relevance=score, id=key, seen=_checksum(value, meta), pinned=is_pinned
        )

    # --- writing

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory under a key made of its first words and a hash. Adding the same text twice stores it once."""
        return await asyncio.to_thread(self._add, content, metadata)

    def _add(self, content: str, metadata: Metadata | None) -> Written:
        self.check_writable()
        (content, metadata), counts = self._apply_policy(content, metadata)
        text, meta = _check_text(content), _json_copy(metadata)
        normalized = text_key(text)
        stem = f"{self._prefix}{slug(first_line(text))}-{sha256(normalized.encode()).hexdigest()[:12]}"
        key, number = stem, 1
        while (current := self.store.get(key)) is not None:
            if text_key(current) == normalized:
                return Written(key, key, "duplicate")
            number += 1  # the text of the key was replaced since it was added
            key = f"{stem}-{number}"
        self._translate_errors(lambda: self.store.add(key, text, meta))
        return self._with_redactions(Written(key, key, "created"), counts)

    async def update(
        self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None
    ) -> Written:
        """Replace the text of a memory, and set the keys of `metadata`. Other keys stay.

        Raise MemoryChangedError if `seen` is given and the memory changed since it was read.
        """
        return await asyncio.to_thread(self._update, ref, content, metadata, seen)

    def _update(self, ref: str, content: str, metadata: Metadata | None, seen: str | None) -> Written:
        self.check_writable()
        found = self._get(ref)
        (content, metadata), counts = self._apply_policy(content, metadata, known=found.content)
        text, changes = _check_text(content), _json_copy(metadata)
        if seen is not None and seen != found.seen:
            raise MemoryChangedError(ref)
        meta = self.store.meta(ref) | changes
        if seen is None:
            self._translate_errors(lambda: self.store.add(ref, text, meta))
        elif not self._translate_errors(lambda: self.store.revise(ref, text, meta, known=found.content)):
            raise MemoryChangedError(ref)
        return self._with_redactions(Written(ref, ref, "updated"), counts)

    async def forget(self, ref: str) -> Written:
        """Remove a memory for good: a keyed store may have no archive. The text may be extracted again."""
        return await asyncio.to_thread(self._forget, ref)

    def _forget(self, ref: str) -> Written:
        self.check_writable()
        self._get(ref)
        self.store.forget(ref)
        return Written(ref, ref, "removed")

    @staticmethod
    def _translate_errors(call: Callable[[], T]) -> T:
        """Call a keyed store. Raise its ValueErrors as InvalidMemoryError, which extraction does not retry."""
        try:
            return call()
        except InvalidArgumentsError as error:
            raise InvalidMemoryError(error.tool, error.reason) from error


def as_agent_store(
    store: KeyedStore[str] | str,
    *,
    name: str = "memory",
    prefix: str = "",
    description: str | None = None,
    max_search_results: int | None = None,
    writable: bool = True,
    extraction: Any = None,
    min_relevance: float = 0.2,
    tools: Sequence[str] = (),
    max_chars: int = 4000,
    redaction: Policy | None = None,
) -> KeyedAgentStore:
    """Return a keyed store, or the one at an address, as a store for the MemoryManager of memfs or Strands.

    With a `prefix` the agent sees and adds only keys below it.
    """
    is_address = isinstance(store, str)
    opened = open_store(store) if isinstance(store, str) else store
    if not isinstance(opened, KeyedStore):
        raise InvalidSetupError("as_agent_store", f"{short_repr(store)} is not a KeyedStore, or the address of one")
    vault = getattr(opened, "vault", None)
    return KeyedAgentStore(
        opened,
        owns=is_address,
        prefix=prefix,
        name=name,
        description=description,
        max_search_results=max_search_results,
        writable=writable,
        extraction=extraction,
        min_relevance=min_relevance,
        tools=tools,
        max_chars=max_chars,
        redaction=redaction or (Policy.of(vault) if isinstance(vault, Vault) else None),
    )


def _checksum(value: str, meta: Mapping[str, Any]) -> str:
    """Return a checksum of a value and its metadata: the `seen` of a keyed memory."""
    return sha256(json.dumps([value, meta], sort_keys=True).encode()).hexdigest()[:32]


def _check_text(content: object) -> str:
    if not isinstance(content, str) or not content.strip():
        raise InvalidMemoryError("text", f"{short_repr(content)} is not a text with words in it")
    return content.strip()


def _json_copy(metadata: Metadata | None) -> dict[str, Any]:
    """Return metadata as JSON types. Other types become text."""
    try:
        return dict(json.loads(json.dumps(dict(metadata or {}), default=str)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMemoryError("metadata", str(error)) from None
