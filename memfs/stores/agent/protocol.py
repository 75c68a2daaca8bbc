"""The interface between an agent and a store. A store needs the right methods, not a base class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

from memfs.errors import InvalidSetupError, short_repr

MAX_SEARCH_RESULTS = 1000
Metadata = Mapping[str, Any]


@dataclass
class Found:
    """One memory as a search returns it to an agent."""

    content: str
    store_name: str | None = None  # set by the manager
    metadata: dict[str, Any] | None = None
    relevance: float | None = field(default=None, kw_only=True)  # 0 to 1; None if the store computes none
    id: str | None = field(default=None, kw_only=True)
    seen: str | None = field(default=None, kw_only=True, repr=False)  # the stamp of the file it was read from
    pinned: bool = field(default=False, kw_only=True)


class SearchOptions(TypedDict, total=False):
    """Options of a store's search besides the query."""

    max_search_results: int


@dataclass
class AddMessagesContext:
    """Context of a batch of messages: one sequence number per message.

    A message has the same number on a retry. The numbers of messages that were filtered out are missing.
    """

    sequence_numbers: list[int] | None = None


class MemoryStore(Protocol):
    """A store that an agent can search. The methods below `search` are optional, see `has_method`.

    `writable` stores have `add`, `add_messages` or both. `extraction` says whether and how conversations are
    distilled into the store: False, True, or a mapping with `trigger`, `extractor` and `filter`.
    """

    name: str
    description: str | None
    max_search_results: int | None
    writable: bool
    extraction: Any

    async def search(self, query: str, options: Any = None) -> Sequence[Any]:
        """Return the memories that match a query, best first."""
        ...

    async def add(self, content: str, metadata: Metadata | None = None) -> Any:
        """Add a memory. Adding the same text twice stores it once."""
        raise not_implemented(self, "add")

    async def add_messages(self, messages: Any, context: AddMessagesContext | None = None) -> Any:
        """Store the turns of a conversation as they are."""
        raise not_implemented(self, "add_messages")

    async def initialize(self) -> None:
        """Prepare the store. An exception raised here stops the agent from being created."""
        return None  # noqa: RET501  a body, so that a type checker does not take it for abstract

    def get_tools(self) -> list[Any]:
        """Return the tools that the store itself offers to the model."""
        return []


class CuratedStore(MemoryStore, Protocol):
    """A store whose memories can be read and changed one by one. Extraction and the tools use these methods."""

    async def get(self, ref: str) -> Found:
        """Return one memory, uncut. Raise MemoryNotFoundError if there is none or it is forgotten."""
        raise not_implemented(self, "get")

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[Found]:
        """Return memories, newest first."""
        raise not_implemented(self, "list")

    async def update(self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None) -> Any:
        """Replace the text of a memory. Raise MemoryChangedError if it changed since `seen`, the stamp of Found."""
        raise not_implemented(self, "update")

    async def supersede(self, ref: str, content: str, metadata: Metadata | None = None) -> Any:
        """Add a memory that replaces an outdated one. The outdated one is kept, but searches skip it."""
        raise not_implemented(self, "supersede")

    async def forget(self, ref: str) -> Any:
        """Archive a memory, and keep its text from being extracted again."""
        raise not_implemented(self, "forget")

    async def is_forgotten(self, content: str) -> bool:
        """Return whether exactly this text was forgotten."""
        raise not_implemented(self, "is_forgotten")

    async def similar(self, text: str, limit: int = 10) -> Sequence[Found]:
        """Return the memories nearest to a text, with no relevance threshold."""
        raise not_implemented(self, "similar")

    async def pinned(self, limit: int = 5) -> Sequence[Found]:
        """Return the pinned memories, which are injected into every turn."""
        raise not_implemented(self, "pinned")


class LinkedStore(CuratedStore, Protocol):
    """A curated store that can return the links between its memories."""

    async def graph(
        self, ref: str, *, relation: str | None = None, as_of: str | None = None, limit: int = 30
    ) -> dict[str, Any]:
        """Return the links from a memory to others, and from others to it."""
        raise not_implemented(self, "graph")


def not_implemented(store: object, method: str) -> NotImplementedError:
    """Return the error for a method that a store inherits from a protocol and does not implement."""
    return NotImplementedError(f"{type(store).__name__} does not implement {method}.")


def has_method(store: object, name: str) -> bool:
    """Return whether the type of a store implements a method. A method inherited from a protocol does not count."""
    owner = next((kind for kind in type(store).__mro__ if name in vars(kind)), object)
    return callable(getattr(type(store), name, None)) and not vars(owner).get("_is_protocol", False)


def store_place(store: MemoryStore, root: Path) -> str | None:
    """Return the text that identifies a store to later processes of the vault at `root`; None if it has no `place`.

    A later process saves the pending turns of a store only if this text is the same: a store of the same name may
    belong to another person.
    """
    place = getattr(store, "place", None)
    store_root = getattr(store, "vault_root", root)
    return None if place is None else str(place) if store_root == root else f"{store_root}:{place}"


def check_stores(given: Iterable[Any]) -> list[MemoryStore]:
    """Return the stores as a list, or raise InvalidSetupError if a manager cannot use them together."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidSetupError("MemoryManager", f"stores: {short_repr(given)} is not a list; give [store]")
    stores = list(given)
    if not stores:
        raise InvalidSetupError("MemoryManager", "at least one store is required")
    names: set[str] = set()
    for store in stores:
        if isinstance(store, type) or not isinstance(getattr(store, "name", None), str):
            reason = f"{short_repr(store)} is not a store; VaultStore(vault, namespace) makes one"
            raise InvalidSetupError("MemoryManager", reason)
        if store.name in names:
            raise InvalidSetupError("MemoryManager", f"duplicate store name {store.name!r}")
        names.add(store.name)
        if store.writable and not has_method(store, "add") and not has_method(store, "add_messages"):
            raise InvalidSetupError(f"store {store.name!r}", "is writable but has no add or add_messages method")
    return stores
