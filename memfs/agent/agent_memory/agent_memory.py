"""AgentMemory: working memory, long-term memory and vectors of one agent, behind the few calls that an agent makes."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from memfs.agent.agent_memory.working_memory import KEEP, WorkingMemory, check_count, check_text
from memfs.agent.models.protocol import Model
from memfs.embedding import EXTRA
from memfs.embedding import is_installed as can_embed
from memfs.errors import InvalidArgumentsError, InvalidSetupError, short_repr
from memfs.namespace import first_line, slug
from memfs.privacy.policy import DEFAULT, Policy, report
from memfs.storage.exact_duplicates import text_key
from memfs.stores.keyed.base import MAX_TOP_K, KeyedStore
from memfs.stores.keyed.in_memory_store import InMemoryKeyedStore
from memfs.vault.vault import Vault

FOLDER = "agent-memory"  # where `persistent=True` keeps memories, unless MEMFS_VAULT or `vault` says
NAMESPACE = "/experiences"
DEPTH = 50  # hits of either kind that are put together, at least
TRIES = 3  # of a recall that finds vectors which are behind
HASH = 8  # characters of a key that tell texts with the same first words apart
PAGE = 1000
Recalled = list[tuple[str, str, float]]
_log = logging.getLogger("memfs.agent")  # whose filter a logger below it would not have
_told: set[str] = set()


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, and what came of it."""

    name: str
    arguments: Mapping[str, Any]
    result: str


class AgentMemory:
    """What an agent remembers: `working`, its conversation; `long_term`, a store; `vector`, a store or None.

    `persistent=True`, or a `vault`, keeps experiences as files that people can read. Any KeyedStore, or the address of
    one, may be `long_term`. Without the extra `semantic`, `vector=True` recalls by words alone. Thread-safe.
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
            raise InvalidSetupError("AgentMemory", "vault and long_term are both given; memories go to one place")
        if vector_store is not None and not vector:
            raise InvalidSetupError("AgentMemory", "vector is False, and a vector_store is given")
        for name, store in (("long_term", long_term), ("vector_store", vector_store)):
            if not isinstance(store, KeyedStore | (str if name == "long_term" else KeyedStore) | None):
                raise InvalidSetupError("AgentMemory", f"{name}: {short_repr(store)} is not a KeyedStore")
        self._closes: list[KeyedStore[str]] = []
        self.working = WorkingMemory(model=model) if working is None else working
        self.long_term = self._place(long_term, vault, namespace, persistent=persistent)
        self.vector = vector_store if vector_store is not None else self._vectors() if vector else None
        self.redaction = redaction or _policy_of(self.long_term)
        self._calls: deque[ToolCall] = deque(maxlen=self.working.max_messages)
        self._is_fresh = False  # the vector store has what the long-term memory has, as far as we know
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.working!r}, {self.long_term!r}, {self.vector!r})"

    def _place(
        self, given: KeyedStore[str] | str | None, vault: Vault | str | os.PathLike[str] | None, namespace: str,
        *, persistent: bool,
    ) -> KeyedStore[str]:  # fmt: skip
        """The long-term memory; what is opened here is closed with the rest."""
        if isinstance(given, KeyedStore):
            return given
        store: KeyedStore[str]
        if given is not None:
            from memfs.stores.keyed.registry import open_store

            store = open_store(given)
        elif vault is not None or persistent:
            from memfs.stores.keyed.vault_store import VaultKeyedStore

            store = VaultKeyedStore(vault or os.environ.get("MEMFS_VAULT") or FOLDER, namespace)
        else:
            return InMemoryKeyedStore()
        self._closes.append(store)
        return store

    def _vectors(self) -> KeyedStore[str] | None:
        """A store of vectors, where there can be one; that there is none is said once."""
        if not can_embed():
            if EXTRA not in _told:
                _told.add(EXTRA)
                _log.warning("recalls by words alone: pip install 'memfs-vault[%s]' adds search by meaning", EXTRA)
            return None
        from memfs.stores.keyed.vector import VectorStore

        store = VectorStore()
        self._closes.append(store)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what stores hold that were opened here; a store that was given stays open."""
        for store in self._closes:
            store.close()

    # --- the conversation

    def add_message(self, role: str, content: str) -> str:
        """Keep a message of the conversation; tells its key."""
        return self.working.add(role, content)

    def get_recent_messages(self, n: int = KEEP) -> str:
        """The last messages, a line each: `role: content`."""
        return "\n".join(map(str, self.working.recent(n)))

    def summary(self) -> str:
        """What the conversation was about so far, the last messages too: a model's words, or its main sentences."""
        return self.working.overview()

    def add_tool_call(self, name: str, arguments: Mapping[str, Any] | None = None, result: object = "") -> str:
        """Keep a call of a tool, as a message too; tells the key of that."""
        if not isinstance(arguments, Mapping | None):
            raise InvalidArgumentsError("arguments", f"{short_repr(arguments)} is not a mapping")
        call = ToolCall(check_text("name", name), dict(arguments or {}), str(result))
        given = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        key = self.working.add("tool", f"{name}({given})" + (f" -> {call.result}" if call.result else ""))
        self._calls.append(call)
        return key

    @property
    def tool_call_history(self) -> tuple[ToolCall, ...]:
        """The last calls of tools, in their order; as many as the working memory holds messages."""
        return tuple(self._calls)

    # --- what is remembered

    def add_experience(self, text: str, importance: int = 1) -> str:
        """Remember a text for good; tells its key. The same text is there once, with the higher importance."""
        check_count("importance", importance, most=10)
        text, counts = self.redaction.admit(check_text("text", text))
        report("AgentMemory", counts)
        with self._lock:
            key, there = self._find(text)
            while there is not None and not self._matters(key, there, importance):  # somebody changed it meanwhile
                key, there = self._find(text)
            if there is None:
                self.long_term.add(key, text, meta={"importance": importance})
            if self.vector is not None:
                self._embed(self.vector, key, there or text)
        return key

    def recall(self, query: str, k: int = 5, *, min_score: float = 0.0) -> Recalled:
        """The memories nearest to a question, best first: key, text, and a score from 0 to 1.

        With vectors the score is the mean of what the words and what the meaning give.
        """
        count = min(check_count("k", k), MAX_TOP_K)
        if not isinstance(min_score, int | float) or not 0 <= min_score <= 1:
            raise InvalidArgumentsError("min_score", f"{short_repr(min_score)} is not a number from 0 to 1")
        vectors = self.vector
        found = self.long_term.search(query, count) if vectors is None else self._recall(vectors, query, count)
        told = [hit for hit in found if hit[2] >= min_score]
        if query.strip():
            self.long_term.recalled([key for key, _, _ in told])
        return told

    def forget(self, key: str) -> bool:
        """Let go of a memory, by words and by meaning, or of a message; tells whether there was one."""
        if self.working.forget(key):
            return True
        with self._lock:
            was_there = self.long_term.forget(key)
            return (self.vector.forget(key) if self.vector is not None else False) or was_there

    def refresh(self) -> None:
        """Take into the vector store what others changed in the long-term memory; the first recall does so."""
        if self.vector is None:
            return
        with self._lock:
            known, texts = (dict(_items(store)) for store in (self.vector, self.long_term))
            for key, text in texts.items():
                if known.get(key) != text:
                    self.vector.add(key, text)
            for key in known.keys() - texts.keys():
                self.vector.forget(key)
            self._is_fresh = True

    def _matters(self, key: str, text: str, importance: int) -> bool:
        """Have a memory that is there matter so much, at least; False where it has another text by then."""
        told = self.long_term.meta(key)
        if _importance(told) >= importance:
            return True
        return self.long_term.revise(key, text, {**told, "importance": importance}, known=text)

    def _find(self, text: str) -> tuple[str, str | None]:
        """The key of a text, and the text if it is there: first words, and a hash. What a person rewrote is theirs."""
        mark = text_key(text)
        name = key = f"{slug(first_line(text))}-{mark[:HASH]}"
        number = 1
        while (there := self.long_term.get(key)) is not None and text_key(there) != mark:
            number += 1
            key = f"{name}-{number}"
        return key, there

    def _embed(self, vectors: KeyedStore[str], key: str, text: str) -> None:
        """Add a text to the vectors; where that fails it is found by its words, and tried again."""
        try:
            if vectors.get(key) != text:
                vectors.add(key, text)
        except Exception as error:
            self._is_fresh = False
            _log.warning("%s was not taken into the vector store, and is found by words alone: %s", key, error)

    def _recall(self, vectors: KeyedStore[str], query: str, count: int) -> Recalled:
        """The best of both kinds; where the vectors are found to be behind, they are brought up first."""
        depth = min(max(4 * count, DEPTH), MAX_TOP_K)
        by_words = self.long_term.search(query, depth)
        try:
            if not self._is_fresh:
                self.refresh()
            for _ in range(TRIES):
                by_meaning = vectors.search(query, depth)
                found = fused(by_words, by_meaning)[:count]
                if not self._bring_up(vectors, found, by_words, by_meaning):
                    break
            return found
        except Exception as error:
            _log.warning("recalls by words alone, for the vector store failed: %s", error)
        return by_words[:count]

    def _bring_up(self, vectors: KeyedStore[str], found: Recalled, by_words: Recalled, by_meaning: Recalled) -> bool:
        """Make the vectors of hits equal to the memories that they are of; tells whether any was not."""
        texts, embedded = ({key: text for key, text, _ in hits} for hits in (by_words, by_meaning))
        stale = {key for key, text in embedded.items() if texts.get(key, text) != text}
        for key, text, _ in found:
            other = vectors if key in texts else self.long_term
            if not (key in texts and key in embedded) and other.get(key) != text:
                stale.add(key)
        with self._lock:
            for key in stale:
                current = self.long_term.get(key)
                _ = vectors.forget(key) if current is None else vectors.add(key, current)
        return bool(stale)


EnhancedAgentMemory = AgentMemory


def fused(by_words: Recalled, by_meaning: Recalled) -> Recalled:
    """Hits of two kinds as one list: the score is the mean of both, a kind that did not find it giving nothing."""
    texts = {key: text for key, text, _ in (*by_meaning, *by_words)}
    scores = dict.fromkeys(texts, 0.0)
    for key, _, score in (*by_words, *by_meaning):
        scores[key] += min(max(score, 0.0), 1.0) / 2
    return sorted(((key, texts[key], score) for key, score in scores.items()), key=lambda hit: (-hit[2], hit[0]))


def _policy_of(store: KeyedStore[str]) -> Policy:
    """What is kept out of a store: what its vault says, or what is kept out by default."""
    vault = getattr(store, "vault", None)
    return Policy.of(vault) if isinstance(vault, Vault) else DEFAULT


def _importance(meta: Mapping[str, Any]) -> int:
    """How important a memory is that is there; 1 where nothing is said."""
    value = meta.get("importance", 1)
    return value if isinstance(value, int) else 1


def _items(store: KeyedStore[str]) -> Iterator[tuple[str, str]]:
    """All keys of a store, and their texts."""
    after = ""
    while page := store.items(after=after, limit=PAGE):
        yield from page
        after = page[-1][0]
