"""What curated stores have in common: their settings, checked, and the tools a model looks after memories with."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from memfs.data_types import Written
from memfs.errors import (
    InvalidArgumentsError,
    InvalidSearchError,
    InvalidSetupError,
    MemoryNotFoundError,
    ReadOnlyError,
    short_repr,
)
from memfs.privacy.policy import DEFAULT, Clean, Policy, report
from memfs.stores.agent.protocol import (
    AddMessagesContext,
    CuratedStore,
    Found,
    LinkedStore,
    MemoryStore,
    Metadata,
    has_method,
    missing,
)
from memfs.stores.agent.store_tools import Tool, schema

MAX_RESULTS = 1000
DEFAULT_RESULTS = 3
MAX_LISTED = 100
SHORT = 300  # characters of each memory in a list
WRITING = ("update", "forget")
NAMES = ("get", "list", "graph", *WRITING)


class Curated:
    """The settings of a store whose memories can be looked at and changed one by one."""

    wants_facts: ClassVar[bool] = True
    session: str | None = None

    def __init__(
        self,
        name: str,
        *,
        description: str | None,
        max_search_results: int | None,
        writable: bool,
        extraction: Any,
        min_relevance: float,
        tools: Sequence[str],
        max_chars: int,
        redaction: Policy | None,
    ) -> None:
        self.name, self.description, self.max_search_results = name, description, max_search_results
        self.writable, self.extraction, self.min_relevance = writable, extraction, min_relevance
        self.max_chars = max_chars
        self._check(isinstance(name, str) and bool(name), "name", name, "a text")
        self._check(description is None or isinstance(description, str), "description", description, "a text")
        self._check(isinstance(writable, bool), "writable", writable, "True or False")
        is_share = isinstance(min_relevance, int | float) and 0 <= min_relevance <= 1
        self._check(is_share, "min_relevance", min_relevance, "a number from 0 to 1")
        self._check(is_count(max_chars), "max_chars", max_chars, "a whole number from 1")
        is_limit = max_search_results is None or is_count(max_search_results, MAX_RESULTS)
        self._check(is_limit, "max_search_results", max_search_results, f"a whole number from 1 to {MAX_RESULTS}")
        is_several = isinstance(tools, Iterable) and not isinstance(tools, str)
        self._check(is_several, "tools", tools, f"some of {', '.join(NAMES)}")
        self.tools = tuple(tools)
        is_policy = redaction is None or isinstance(redaction, Policy)
        self._check(is_policy, "redaction", redaction, "a policy such as Policy({'email': 'redact'})")
        self.redaction = redaction or DEFAULT
        self.get_tools()

    def _check(self, is_right: bool, argument: str, value: object, allowed: str) -> None:
        if not is_right:
            raise InvalidSetupError(
                f"store {short_repr(self.name)}", f"{argument}: {short_repr(value)} is not {allowed}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def get_tools(self) -> list[Tool]:
        """The tools that the store was asked for."""
        return curation_tools([cast("MemoryStore", self)], self.tools)

    async def initialize(self) -> None:
        """Get ready."""

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory; the same text twice is there once."""
        raise missing(self, "add")

    async def add_messages(self, messages: Sequence[Any], context: AddMessagesContext | None = None) -> Written | None:
        """Keep turns as they are, as one memory of type "episode"; None if nobody said a word."""
        lines = [f"{message['role']}: {words}" for message in messages if (words := _words_of(message))]
        if not lines:
            self.must_be_writable()
            return None
        numbers = getattr(context, "sequence_numbers", None)
        text, counts = self.redaction.redact("\n".join(lines))  # what was said cannot be refused
        written = await self.add(text, {"type": "episode", **self._source(numbers)})
        return self._told(written, counts)

    def _admitted(self, content: str, metadata: Metadata | None, *, known: str = "") -> Clean[tuple[str, Any]]:
        """A text and its metadata as they may be written; SecretRefusedError if they may not."""
        text = self.redaction.admit(content, known=known)
        told = self.redaction.admit(metadata, "metadata") if metadata else Clean(metadata)
        return Clean((text.value, told.value), Counter(text.counts) + Counter(told.counts))

    def _told(self, written: Written, counts: Mapping[str, int]) -> Written:
        """The answer to a write, with what is not in it."""
        if not counts:
            return written
        report(f"store {self.name}", counts)
        return replace(written, redacted=Counter(written.redacted) + Counter(counts))

    def _source(self, numbers: Sequence[int] | None) -> dict[str, str]:
        parts = [f"session {self.session}"] if self.session else []
        parts += [f"messages {_ranges(numbers)}"] if numbers else []
        return {"source": ", ".join(parts)} if parts else {}

    def limit_of(self, options: Mapping[str, Any] | None) -> int:
        """How many memories a search may return: what the caller says, else the store, else 3."""
        asked = (options or {}).get("max_search_results")
        limit = asked if asked is not None else self.max_search_results or DEFAULT_RESULTS
        if not is_count(limit, MAX_RESULTS):
            reason = f"{short_repr(limit)} is not a whole number from 1 to {MAX_RESULTS}"
            raise InvalidSearchError("max_search_results", reason)
        return int(limit)

    def must_be_writable(self) -> None:
        if not self.writable:
            error = ReadOnlyError(f"store {self.name!r}", "it was set up with writable=False")
            error.hint = "Write to another store, or set this one up with writable=True."
            raise error


def _words_of(message: Mapping[str, Any]) -> str:
    """What somebody said in a message; lines after the first are set in."""
    content = message.get("content")
    blocks = [content] if isinstance(content, str) else [part.get("text") for part in content or () if part]
    text = "\n".join(block for block in blocks if isinstance(block, str))
    return "\n  ".join(line for line in text.strip().splitlines() if line.strip())


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in few words: 1-3, 7."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def is_count(value: object, most: float = float("inf")) -> bool:
    """Tell whether this is a whole number from 1 up to `most`."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def curation_tools(stores: Iterable[MemoryStore], names: Iterable[str]) -> list[Tool]:
    """The tools named by some of get, list, graph, update and forget, over all the stores that can do it."""
    given, wanted = tuple(stores), tuple(dict.fromkeys(names))
    label = ", ".join(repr(store.name) for store in given)
    tools = []
    for name in wanted:
        if name not in NAMES:
            raise InvalidSetupError(f"store {label}", f"tools: {short_repr(name)} is none of {', '.join(NAMES)}")
        able = [store for store in given if has_method(store, "get") and has_method(store, name)]
        if name in WRITING and not any(store.writable for store in able):
            raise InvalidSetupError(f"store {label}", f"tools: {name!r} writes, and the store is read-only")
        if not able:
            raise InvalidSetupError(f"store {label}", f"tools: {name!r} is nothing the store can do")
        tools.append(_make(name, _Keeper(cast("tuple[CuratedStore, ...]", tuple(able)))))
    return tools


_ID = {"type": "string", "description": "The id of the memory, as a search or a list tells it."}
_SEEN = {"type": "string", "description": "What get_memory told as `seen`: a memory that changed since is refused."}
_LIMIT = {"type": "integer", "description": f"How many, 1 to {MAX_LISTED}; 20 if it is left out."}
_OFFSET = {"type": "integer", "description": "How many of the newest to leave out."}
_NAME = {"type": "string", "minLength": 1, "description": "A memory, by its id, title or other name."}
_RELATION = {"type": "string", "description": "Only links that say this, such as owned_by or mentions."}
_AS_OF = {"type": "string", "description": "A date such as 2026-11-15: as it was then, not as it is now."}
_LINKS = {"type": "integer", "description": f"How many of each direction, 1 to {MAX_LISTED}; 30 if it is left out."}
_TEXT = {"type": "string", "description": "The whole new text of the memory."}


def _make(name: str, keeper: "_Keeper") -> Tool:
    match name:
        case "get":
            words = "Read one memory of long-term memory as a whole, by its id."
            return Tool("get_memory", words, schema("memory_id", memory_id=_ID), keeper.get)
        case "list":
            words = "List what is in long-term memory, the newest first; long memories are shortened."
            return Tool("list_memories", words, schema(limit=_LIMIT, offset=_OFFSET), keeper.list)
        case "graph":
            words = "Show how a memory of long-term memory is linked: what it says of others, and they of it."
            form = schema("memory", memory=_NAME, relation=_RELATION, as_of=_AS_OF, limit=_LINKS)
            return Tool("memory_graph", words, form, keeper.graph)
        case "update":
            words = "Correct a memory of long-term memory: put a new text in the place of its text."
            form = schema("memory_id content", memory_id=_ID, content=_TEXT, seen=_SEEN)
            return Tool("update_memory", words, form, keeper.update, writes=True)
    words = "Forget a memory of long-term memory, when the user asks for it or it should not have been kept."
    return Tool("forget_memory", words, schema("memory_id", memory_id=_ID), keeper.forget, writes=True)


@dataclass(frozen=True)
class _Keeper:
    """What the tools do, over several stores."""

    stores: tuple[CuratedStore, ...]

    async def get(self, memory_id: str) -> dict[str, Any]:
        store, found = await _find(self.stores, memory_id)
        return {**_told(store, found), "seen": found.seen}

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[dict[str, Any]]:
        if not is_count(limit, MAX_LISTED):
            raise InvalidArgumentsError("list_memories", f"limit: {limit} is not from 1 to {MAX_LISTED}")
        if not 0 <= offset <= MAX_RESULTS - limit:
            raise InvalidArgumentsError("list_memories", f"offset: {offset} is not from 0 to {MAX_RESULTS - limit}")
        found = [_told(store, one, SHORT) for store in self.stores for one in await store.list(limit + offset)]
        if len(self.stores) > 1:
            found.sort(key=lambda one: str(one["metadata"].get("date", "")), reverse=True)
        return found[offset : offset + limit]

    async def graph(
        self, memory: str, relation: str | None = None, as_of: str | None = None, limit: int = 30
    ) -> dict[str, Any]:
        if not is_count(limit, MAX_LISTED):
            raise InvalidArgumentsError("memory_graph", f"limit: {limit} is not from 1 to {MAX_LISTED}")
        for store in cast("tuple[LinkedStore, ...]", self.stores):
            with suppress(MemoryNotFoundError):
                told = await store.graph(memory, relation=relation, as_of=as_of, limit=limit)
                return {**told, "store_name": store.name}
        raise MemoryNotFoundError(memory)

    async def update(self, memory_id: str, content: str, seen: str | None = None) -> dict[str, Any]:
        store, found = await self._writable_with(memory_id, "update_memory")
        if seen is None and len(found.content) > getattr(store, "max_chars", len(found.content)):
            reason = f"{memory_id!r} is longer than what a search shows of it: read it with get_memory, and give `seen`"
            raise InvalidArgumentsError("update_memory", reason)
        written = await store.update(memory_id, content, seen=seen or found.seen)
        return _done(store, written, memory_id)

    async def forget(self, memory_id: str) -> dict[str, Any]:
        store, _ = await self._writable_with(memory_id, "forget_memory")
        written = await store.forget(memory_id)
        return _done(store, written, memory_id)

    async def _writable_with(self, ref: str, tool: str) -> tuple[CuratedStore, Found]:
        """A memory that may be changed, and its store."""
        writable_first = sorted(self.stores, key=lambda store: not store.writable)
        store, found = await _find(writable_first, ref)
        if not store.writable:
            raise InvalidArgumentsError(tool, f"{ref!r} is in the store {store.name!r}, which is read-only")
        return store, found


async def _find(stores: Iterable[CuratedStore], ref: str) -> tuple[CuratedStore, Found]:
    for store in stores:
        try:
            return store, await store.get(ref)
        except MemoryNotFoundError:
            continue
    raise MemoryNotFoundError(ref)


def _told(store: CuratedStore, found: Found, most: int = 0) -> dict[str, Any]:
    content = found.content
    if most and len(content) > most:
        content = f"{content[:most]}… [{len(found.content):,} characters]"
    return {"id": found.id, "store_name": store.name, "content": content, "metadata": found.metadata or {}}


def _done(store: CuratedStore, written: Any, ref: str) -> dict[str, Any]:
    told = {"id": getattr(written, "id", ref), "store_name": store.name, "outcome": getattr(written, "outcome", "done")}
    redacted = getattr(written, "redacted", None)
    return {**told, "redacted": dict(redacted)} if redacted else told
