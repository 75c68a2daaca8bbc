"""The store seam: what an agent searches and adds to. A class needs the right methods, not a base class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

from memfs.errors import InvalidSetupError, short_repr

Metadata = Mapping[str, Any]


@dataclass
class Found:
    """What a store found: a memory as an agent sees it."""

    content: str
    store_name: str | None = None  # set by the manager
    metadata: dict[str, Any] | None = None
    relevance: float | None = field(default=None, kw_only=True)  # 0..1; None where a store cannot tell
    id: str | None = field(default=None, kw_only=True)
    seen: str | None = field(default=None, kw_only=True, repr=False)  # the stamp of the file it was read from
    pinned: bool = field(default=False, kw_only=True)


class SearchOptions(TypedDict, total=False):
    """What a store's search takes besides the question."""

    max_search_results: int


@dataclass
class AddMessagesContext:
    """What comes with a batch of messages: a number for each, the same on a retry, with gaps where one was left out."""

    sequence_numbers: list[int] | None = None


class MemoryStore(Protocol):
    """What every store has; the methods below `search` are there or not, see `has_method`.

    `writable` stores have `add`, `add_messages` or both. `extraction` says whether and how conversations are
    distilled into the store: False, True, or a mapping with `trigger`, `extractor` and `filter`.
    """

    name: str
    description: str | None
    max_search_results: int | None
    writable: bool
    extraction: Any

    async def search(self, query: str, options: Any = None) -> Sequence[Any]:
        """The memories that answer a question, best first."""
        ...

    async def add(self, content: str, metadata: Metadata | None = None) -> Any:
        """Add a memory; the same text twice is there once."""
        raise missing(self, "add")

    async def add_messages(self, messages: Any, context: AddMessagesContext | None = None) -> Any:
        """Take the turns of a conversation as they are."""
        raise missing(self, "add_messages")

    async def initialize(self) -> None:
        """Get ready; what raises here stops the agent from being made."""
        return None  # noqa: RET501  a body, so that a type checker does not take it for abstract

    def get_tools(self) -> list[Any]:
        """Tools of the store's own."""
        return []


class CuratedStore(MemoryStore, Protocol):
    """A store whose memories can be looked at and changed one by one: what extraction and the tools use."""

    async def get(self, ref: str) -> Found:
        """One memory, whole."""
        raise missing(self, "get")

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[Found]:
        """What there is, the newest first."""
        raise missing(self, "list")

    async def update(self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None) -> Any:
        """Put another text in the place of a memory's; one that changed since it was `seen` is refused."""
        raise missing(self, "update")

    async def supersede(self, ref: str, content: str, metadata: Metadata | None = None) -> Any:
        """Add a memory in the place of one that is no longer true, which is kept, out of the way."""
        raise missing(self, "supersede")

    async def forget(self, ref: str) -> Any:
        """Put a memory out of the way, so that it is not extracted again either."""
        raise missing(self, "forget")

    async def is_forgotten(self, content: str) -> bool:
        """Tell whether this very text was forgotten."""
        raise missing(self, "is_forgotten")

    async def similar(self, text: str, limit: int = 10) -> Sequence[Found]:
        """The memories nearest to a text, however far."""
        raise missing(self, "similar")

    async def pinned(self, limit: int = 5) -> Sequence[Found]:
        """The memories that are always told."""
        raise missing(self, "pinned")


class LinkedStore(CuratedStore, Protocol):
    """A curated store that knows how its memories are linked."""

    async def graph(
        self, ref: str, *, relation: str | None = None, as_of: str | None = None, limit: int = 30
    ) -> dict[str, Any]:
        """What a memory says of others, and they of it."""
        raise missing(self, "graph")


def missing(store: object, method: str) -> NotImplementedError:
    """The error of a method that a store inherits and does not have."""
    return NotImplementedError(f"{type(store).__name__} does not implement {method}.")


def has_method(store: object, name: str) -> bool:
    """Tell whether a store has a method of its own, by its type; one inherited from a protocol is none."""
    home = next((kind for kind in type(store).__mro__ if name in vars(kind)), object)
    return callable(getattr(type(store), name, None)) and not vars(home).get("_is_protocol", False)


def place_of(store: MemoryStore, root: Path) -> str | None:
    """What tells a store from all others, as seen from a vault; None of one that says not where its memories are.

    Only what is meant for such a store can be handed on to a later process: by its name alone, a store may be that of
    another person.
    """
    place = getattr(store, "place", None)
    home = getattr(store, "vault_root", root)
    return None if place is None else str(place) if home == root else f"{home}:{place}"


def check_stores(given: Iterable[Any]) -> list[MemoryStore]:
    """Return the stores as a list, or raise InvalidSetupError if a manager cannot use them together."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidSetupError("MemoryManager", f"stores: {short_repr(given)} is not a list; give [store]")
    stores = list(given)
    if not stores:
        raise InvalidSetupError("MemoryManager", "at least one store is required")
    seen: set[str] = set()
    for store in stores:
        if isinstance(store, type) or not isinstance(getattr(store, "name", None), str):
            reason = f"{short_repr(store)} is not a store; VaultStore(vault, namespace) makes one"
            raise InvalidSetupError("MemoryManager", reason)
        if store.name in seen:
            raise InvalidSetupError("MemoryManager", f"duplicate store name {store.name!r}")
        seen.add(store.name)
        if store.writable and not has_method(store, "add") and not has_method(store, "add_messages"):
            raise InvalidSetupError(f"store {store.name!r}", "is writable but has no add or add_messages method")
    return stores
