"""MemoryStore: values kept under keys. What every backend is, whatever it keeps them in."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from memfs.errors import InvalidArgumentsError, shown

T = TypeVar("T")
MAX_TOP_K = 1000
MAX_KEY = 500  # characters


class MemoryStore(ABC, Generic[T]):
    """Values by key, and a search over them. Thread-safe; a key that is added again has its value replaced."""

    @abstractmethod
    def add(self, key: str, value: T, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a value under a key, in the place of the one that was there, and of what was said about it."""

    @abstractmethod
    def get(self, key: str) -> T | None:
        """The value of a key; None if there is none."""

    @abstractmethod
    def meta(self, key: str) -> dict[str, Any]:
        """What was said about a value when it was added; nothing if there is none."""

    @abstractmethod
    def search(self, query: str, top_k: int = 5) -> list[tuple[str, T, float]]:
        """The values nearest to a question, best first: key, value, and a score from 0 to 1."""

    @abstractmethod
    def forget(self, key: str) -> bool:
        """Let go of a value; tells whether there was one."""

    @abstractmethod
    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix of whole segments (`a/b` holds `a/b` and `a/b/c`, not `a/bc`), in order.

        `after` is the last key of the page before.
        """

    def close(self) -> None:
        """Give back what the store holds; it can still be used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_key(key: object) -> str:
    """A key, or a ValueError that says what is wrong with it."""
    if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY or not key.isprintable():
        raise InvalidArgumentsError("key", f"{shown(key)} is not a text of 1 to {MAX_KEY} printable characters")
    return key


def check_value(value: object) -> str:
    """A text to keep, or a ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentsError("value", f"{shown(value)} is not a text with words in it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentsError("value", "holds a lone surrogate") from None
    return value


def check_top_k(top_k: object) -> int:
    """How many are wanted, at most 1,000, or a ValueError."""
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
        raise InvalidArgumentsError("top_k", f"{shown(top_k)} is not a whole number from 1")
    return min(top_k, MAX_TOP_K)


def check_query(query: object) -> str:
    """A question, or a ValueError."""
    if not isinstance(query, str):
        raise InvalidArgumentsError("query", f"{shown(query)} is not a text")
    return query


def check_limit(limit: object) -> int:
    """How many keys are wanted, at most 1,000, or a ValueError."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidArgumentsError("limit", f"{shown(limit)} is not a whole number from 1")
    return min(limit, MAX_TOP_K)


def is_below(key: str, prefix: str) -> bool:
    """Tell whether a key is the prefix, or lies below it by whole segments; all keys lie below none."""
    return not prefix or key == prefix or key.startswith(prefix.rstrip("/") + "/")
