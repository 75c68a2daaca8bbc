"""AgentMemory: the conversation, the long-term memories and the vectors of one agent behind one object."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from memfs.agent.agent_memory.working_memory import DEFAULT_KEEP, WorkingMemory, check_count, check_text
from memfs.agent.models.protocol import Model
from memfs.embedding import EXTRA
from memfs.embedding import is_installed as can_embed
from memfs.errors import InvalidArgumentsError, InvalidSetupError, short_repr
from memfs.namespace import first_line, slug
from memfs.privacy.policy import DEFAULT_POLICY, Policy, log_redactions
from memfs.storage.exact_duplicates import text_key
from memfs.stores.keyed.base import MAX_TOP_K, KeyedStore
from memfs.stores.keyed.in_memory_store import InMemoryKeyedStore
from memfs.vault.vault import Vault

DEFAULT_VAULT = "agent-memory"  # the directory of `persistent=True` without MEMFS_VAULT and `vault`
NAMESPACE = "/experiences"
MIN_CANDIDATES = 50  # hits by words and by meaning that are fused, at least
MAX_RECALL_ATTEMPTS = 3  # searches of one recall, each after stale vectors were updated
KEY_HASH_CHARS = 8  # of the hash that distinguishes the keys of texts with the same first words
PAGE_SIZE = 1000  # items per page when a whole store is read
Recalled = list[tuple[str, str, float]]  # key, text and score, best first
_log = logging.getLogger("memfs.agent")  # a child logger would not have its redacting filter
_warned_extras: set[str] = set()


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool and its result."""

    name: str
    arguments: Mapping[str, Any]
    result: str


class AgentMemory:
    """The memory of an agent: `working`, its conversation; `long_term`, a store; `vector`, a store or None.

    With `persistent=True`, or a `vault`, experiences are files that people can read. `long_term` may be any KeyedStore
    or the address of one. Without the extra `semantic`, `vector=True` recalls by words only. Thread-safe.
    """

    def __init__(
        self,
        persistent: bool = False,
        vector: bool = True,
        *,
        vault: Vault | str | os.PathLike[str] | None = None,
        namespace: str = NAMESPACE,
        working: WorkingMemory | None = None,
        long_term: KeyedStore[str] | str | None = None,
        vector_store: KeyedStore[str] | None = None,
        model: Model | Callable[..., Any] | None = None,
        redaction: Policy | None = None,
    ) -> None:
        if vault is not None and long_term is not None:
            raise InvalidSetupError("AgentMemory", "vault and long_term are both given; memories go to one of them")
        if vector_store is not None and not vector:
            raise InvalidSetupError("AgentMemory", "vector is False, and a vector_store is given")
        for name, store in (("long_term", long_term), ("vector_store", vector_store)):
            if not isinstance(store, KeyedStore | (str if name == "long_term" else KeyedStore) | None):
                raise InvalidSetupError("AgentMemory", f"{name}: {short_repr(store)} is not a KeyedStore")
        self._owned_stores: list[KeyedStore[str]] = []
        self.working = WorkingMemory(model=model) if working is None else working
        self.long_term = self._open_long_term(long_term, vault, namespace, persistent=persistent)
        self.vector = vector_store if vector_store is not None else self._open_vectors() if vector else None
        self.redaction = redaction or _policy_of(self.long_term)
        self._calls: deque[ToolCall] = deque(maxlen=self.working.max_messages)
        self._is_fresh = False  # False: texts of the long-term memory may be missing in the vector store
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.working!r}, {self.long_term!r}, {self.vector!r})"

    def _open_long_term(
        self, given: KeyedStore[str] | str | None, vault: Vault | str | os.PathLike[str] | None, namespace: str,
        *, persistent: bool,
    ) -> KeyedStore[str]:  # fmt: skip
        """Return the long-term store; one that is opened here is closed by `close`."""
        if isinstance(given, KeyedStore):
            return given
        store: KeyedStore[str]
        if given is not None:
            from memfs.stores.keyed.registry import open_store

            store = open_store(given)
        elif vault is not None or persistent:
            from memfs.stores.keyed.vault_store import VaultKeyedStore

            store = VaultKeyedStore(vault or os.environ.get("MEMFS_VAULT") or DEFAULT_VAULT, namespace)
        else:
            return InMemoryKeyedStore()
        self._owned_stores.append(store)
        return store

    def _open_vectors(self) -> KeyedStore[str] | None:
        """Return a vector store; None, with one warning per process, if the extra for embeddings is not installed."""
        if not can_embed():
            if EXTRA not in _warned_extras:
                _warned_extras.add(EXTRA)
                _log.warning("recall uses words only: pip install 'memfs-vault[%s]' adds search by meaning", EXTRA)
            return None
        from memfs.stores.keyed.vector import VectorStore

        store = VectorStore()
        self._owned_stores.append(store)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the stores that were opened here; a store that was passed in stays open."""
        for store in self._owned_stores:
            store.close()

    # --- the conversation

    def add_message(self, role: str, content: str) -> str:
        """Add a message to the conversation and return its key."""
        return self.working.add(role, content)

    def get_recent_messages(self, n: int = DEFAULT_KEEP) -> str:
        """Return the last messages as text, each as `role: content`."""
        return "\n".join(map(str, self.working.recent(n)))

    def summary(self) -> str:
        """Return a summary of the whole conversation: by the model or, without one, its main sentences."""
        return self.working.overview()

    def add_tool_call(self, name: str, arguments: Mapping[str, Any] | None = None, result: object = "") -> str:
        """Record a call of a tool, also as a message, and return the key of the message."""
        if not isinstance(arguments, Mapping | None):
            raise InvalidArgumentsError("arguments", f"{short_repr(arguments)} is not a mapping")
        call = ToolCall(check_text("name", name), dict(arguments or {}), str(result))
        given = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        key = self.working.add("tool", f"{name}({given})" + (f" -> {call.result}" if call.result else ""))
        self._calls.append(call)
        return key

    @property
    def tool_call_history(self) -> tuple[ToolCall, ...]:
        """The last tool calls in order, at most as many as the working memory holds messages."""
        return tuple(self._calls)

    # --- long-term memory

    def add_experience(self, text: str, importance: int = 1) -> str:
        """Store a text for the long term and return its key; a text is stored once, with its highest importance.

        Raises SecretRefusedError if the redaction policy rejects the text.
        """
        check_count("importance", importance, most=10)
        text, counts = self.redaction.admit(check_text("text", text))
        log_redactions("AgentMemory", counts)
        with self._lock:
            key, stored = self._find_key(text)
            while stored is not None and not self._raise_importance(key, stored, importance):  # changed meanwhile
                key, stored = self._find_key(text)
            if stored is None:
                self.long_term.add(key, text, meta={"importance": importance})
            if self.vector is not None:
                self._embed(self.vector, key, stored or text)
        return key

    def recall(self, query: str, k: int = 5, *, min_score: float = 0.0) -> Recalled:
        """Return the memories nearest to a query, best first: key, text, and a score from 0 to 1.

        With vectors the score is the mean of the score by words and the score by meaning.
        """
        count = min(check_count("k", k), MAX_TOP_K)
        if not isinstance(min_score, int | float) or not 0 <= min_score <= 1:
            raise InvalidArgumentsError("min_score", f"{short_repr(min_score)} is not a number from 0 to 1")
        vectors = self.vector
        found = self.long_term.search(query, count) if vectors is None else self._recall(vectors, query, count)
        returned = [hit for hit in found if hit[2] >= min_score]
        if query.strip():
            self.long_term.recalled([key for key, _, _ in returned])
        return returned

    def forget(self, key: str) -> bool:
        """Delete a message, or a memory and its vector; return whether there was one."""
        if self.working.forget(key):
            return True
        with self._lock:
            was_there = self.long_term.forget(key)
            return (self.vector.forget(key) if self.vector is not None else False) or was_there

    def refresh(self) -> None:
        """Update the vector store with others' changes of the long-term memory; the first recall does it too."""
        if self.vector is None:
            return
        with self._lock:
            embedded, texts = (dict(_all_items(store)) for store in (self.vector, self.long_term))
            for key, text in texts.items():
                if embedded.get(key) != text:
                    self.vector.add(key, text)
            for key in embedded.keys() - texts.keys():
                self.vector.forget(key)
            self._is_fresh = True

    def _raise_importance(self, key: str, text: str, importance: int) -> bool:
        """Raise the importance of a stored memory to at least this; return False if its text is not `text` any more."""
        meta = self.long_term.meta(key)
        if _importance(meta) >= importance:
            return True
        return self.long_term.revise(key, text, {**meta, "importance": importance}, known=text)

    def _find_key(self, text: str) -> tuple[str, str | None]:
        """Return the key of a text, made of its first words and a hash, and the text stored under it, or None.

        A key whose text somebody rewrote is skipped, so that the rewritten text is not replaced.
        """
        digest = text_key(text)
        name = key = f"{slug(first_line(text))}-{digest[:KEY_HASH_CHARS]}"
        number = 1
        while (stored := self.long_term.get(key)) is not None and text_key(stored) != digest:
            number += 1
            key = f"{name}-{number}"
        return key, stored

    def _embed(self, vectors: KeyedStore[str], key: str, text: str) -> None:
        """Add a text to the vector store; if that fails, the next refresh adds it; until then only words find it."""
        try:
            if vectors.get(key) != text:
                vectors.add(key, text)
        except Exception as error:
            self._is_fresh = False
            _log.warning("%s was not added to the vector store and is found by words only: %s", key, error)

    def _recall(self, vectors: KeyedStore[str], query: str, count: int) -> Recalled:
        """Return the best hits by words and by meaning; stale vectors that turn up are updated first."""
        candidates = min(max(4 * count, MIN_CANDIDATES), MAX_TOP_K)
        by_words = self.long_term.search(query, candidates)
        try:
            if not self._is_fresh:
                self.refresh()
            for _ in range(MAX_RECALL_ATTEMPTS):
                by_meaning = vectors.search(query, candidates)
                found = fuse(by_words, by_meaning)[:count]
                if not self._fix_stale(vectors, found, by_words, by_meaning):
                    break
            return found
        except Exception as error:
            _log.warning("recall uses words only, because the vector store failed: %s", error)
        return by_words[:count]

    def _fix_stale(self, vectors: KeyedStore[str], found: Recalled, by_words: Recalled, by_meaning: Recalled) -> bool:
        """Update the vectors of hits whose texts differ from their memories; return whether there were any."""
        texts, embedded = ({key: text for key, text, _ in hits} for hits in (by_words, by_meaning))
        stale = {key for key, text in embedded.items() if texts.get(key, text) != text}
        # A hit of only one of the two searches: compare it with the text in the other store.
        for key, text, _ in found:
            other = vectors if key in texts else self.long_term
            if not (key in texts and key in embedded) and other.get(key) != text:
                stale.add(key)
        with self._lock:
            for key in stale:
                current = self.long_term.get(key)
                _ = vectors.forget(key) if current is None else vectors.add(key, current)
        return bool(stale)


EnhancedAgentMemory = AgentMemory  # an alias


def fuse(by_words: Recalled, by_meaning: Recalled) -> Recalled:
    """Merge two lists of hits, best first: a score is the mean of both, where a list without the hit counts as 0."""
    texts = {key: text for key, text, _ in (*by_meaning, *by_words)}
    scores = dict.fromkeys(texts, 0.0)
    for key, _, score in (*by_words, *by_meaning):
        scores[key] += min(max(score, 0.0), 1.0) / 2
    return sorted(((key, texts[key], score) for key, score in scores.items()), key=lambda hit: (-hit[2], hit[0]))


def _policy_of(store: KeyedStore[str]) -> Policy:
    """Return the redaction policy of a store: that of its vault, or the default."""
    vault = getattr(store, "vault", None)
    return Policy.of(vault) if isinstance(vault, Vault) else DEFAULT_POLICY


def _importance(meta: Mapping[str, Any]) -> int:
    """Return the importance of a stored memory; 1 if it has none."""
    value = meta.get("importance", 1)
    return value if isinstance(value, int) else 1


def _all_items(store: KeyedStore[str]) -> Iterator[tuple[str, str]]:
    """Yield all keys of a store and their texts."""
    after = ""
    while page := store.items(after=after, limit=PAGE_SIZE):
        yield from page
        after = page[-1][0]
