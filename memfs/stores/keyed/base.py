"""KeyedStore: values kept under keys. What every backend is, whatever it keeps them in."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from memfs.errors import InvalidArgumentsError, short_repr
from memfs.namespace import is_utf8_encodable

T = TypeVar("T")
MAX_TOP_K = 1000
MAX_KEY = 500  # characters
MAX_VALUE = 4 * 1024 * 1024  # bytes
MAX_META = 10_000  # characters, as JSON
FOREIGN = "holds what memfs did not write"


class KeyedStore(ABC, Generic[T]):
    """Values by key, and a search over them. Thread-safe; a key that is added again has its value replaced.

    The four abstract methods are those of the guide; `memfs.testing.StoreContract` says what all of them do.
    A key is a text of 1 to 500 printable characters, compared as it is: `Tea` and `tea` are two keys. What is no key,
    no value or no number of hits is a ValueError, and nothing was done.
    """

    place: str | None = None  # what tells it from all others, also in a later process; None of one that does not last
    url_parameters: ClassVar[tuple[str, ...]] = ()  # patterns of what behind `?` is no option, but part of the address

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open a store by its address; `options` are what the constructor takes beside it."""
        made: Any = cls
        return cast("Self", made(url, **options))

    @abstractmethod
    def add(self, key: str, value: T, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a value under a key, in the place of the one that was there, and of what was said about it."""

    def revise(self, key: str, value: T, meta: Mapping[str, Any] | None = None, *, known: T) -> bool:
        """Add to a key whose value is still the one that is `known`; tells whether it was.

        All of ours look and write in one step, so that nothing is written over that somebody added meanwhile.
        """
        if self.get(key) != known:
            return False
        self.add(key, value, meta)
        return True

    @abstractmethod
    def get(self, key: str) -> T | None:
        """The value of a key; None if there is none."""

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about a value when it was added; nothing if there is none."""
        return {}

    @abstractmethod
    def search(self, query: str, top_k: int = 5) -> list[tuple[str, T, float]]:
        """The values nearest to a question, best first: key, value, and a score from 0 to 1.

        Any text is a question; one without words finds nothing. The score tells how near a value is. A store may go by
        more than that, as a vault does, which puts first what matters more: scores need not fall from hit to hit.
        """

    @abstractmethod
    def forget(self, key: str) -> bool:
        """Let go of a value; tells whether there was one."""

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix of whole segments (`a/b` holds `a/b` and `a/b/c`, not `a/bc`), in order.

        `after` is the last key of the page before; a page has at most 1,000.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement keys.")

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, T]]:
        """The keys below a prefix with their values, in pages as those of `keys`.

        A page that is empty is the last; one may be short, where values were forgotten meanwhile.
        """
        found = self.keys(prefix, after=after, limit=limit)
        pairs = [(key, value) for key in found if (value := self.get(key)) is not None]
        return pairs if pairs or not found else self.items(prefix, after=found[-1], limit=limit)

    def recalled(self, keys: Sequence[str]) -> None:
        """Take note of a search of an agent, which was given these values, or none. Most stores count nothing."""

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
        raise InvalidArgumentsError("key", f"{short_repr(key)} is not a text of 1 to {MAX_KEY} printable characters")
    return key


def check_value(value: object) -> str:
    """A text to keep, or a ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentsError("value", f"{short_repr(value)} is not a text with words in it")
    _check_storable("value", value)
    if len(value) * 4 > MAX_VALUE and len(value.encode()) > MAX_VALUE:
        raise InvalidArgumentsError("value", f"is larger than {MAX_VALUE >> 20} MiB")
    return value


def check_known(value: object) -> str:
    """A text that somebody read, or a ValueError; any text may be, but some never are there."""
    if not isinstance(value, str):
        raise InvalidArgumentsError("known", f"{short_repr(value)} is not a text")
    return value


def check_meta(meta: object) -> dict[str, Any]:
    """What is said about a value, as a copy that equals its JSON, or a ValueError."""
    if meta is None:
        return {}
    if not isinstance(meta, Mapping):
        raise InvalidArgumentsError("meta", f"{short_repr(meta)} is not a mapping")
    try:
        text = json.dumps({**meta}, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError("meta", f"cannot be written as JSON: {error}") from None
    _check_storable("meta", text)
    if "\\u0000" in text and "\0" in _texts(json.loads(text)):
        raise InvalidArgumentsError("meta", "holds a NUL character")
    if len(text) > MAX_META:
        raise InvalidArgumentsError("meta", f"is longer than {MAX_META:,} characters of JSON")
    copy: dict[str, Any] = json.loads(text)
    if len(copy) < len(meta) or any(not isinstance(key, str) for key in meta):
        raise InvalidArgumentsError("meta", "has a key that is not a text")
    return copy


def read_meta(text: str) -> dict[str, Any]:
    """What is kept about a value, of its JSON; a ValueError if it is not what memfs wrote."""
    kept = json.loads(text)
    if not isinstance(kept, dict):
        raise ValueError("not a mapping")
    return kept


def _check_storable(subject: str, text: str) -> None:
    """Refuse what some backend cannot keep."""
    if not is_utf8_encodable(text):
        raise InvalidArgumentsError(subject, "holds a lone surrogate")
    if "\0" in text:
        raise InvalidArgumentsError(subject, "holds a NUL character")


def is_storable(text: str) -> bool:
    """Tell whether every backend could keep a text, as far as its characters go."""
    return is_utf8_encodable(text) and "\0" not in text


def _texts(value: Any) -> str:
    """All texts within a value of JSON, in one."""
    if isinstance(value, dict):
        return "".join(key + _texts(item) for key, item in value.items())
    if isinstance(value, list):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""


def check_top_k(top_k: object) -> int:
    """How many are wanted, at most 1,000, or a ValueError."""
    return _check_count("top_k", top_k)


def check_limit(limit: object) -> int:
    """How many keys are wanted, at most 1,000, or a ValueError."""
    return _check_count("limit", limit)


def _check_count(subject: str, count: object) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidArgumentsError(subject, f"{short_repr(count)} is not a whole number from 1")
    return min(count, MAX_TOP_K)


def check_query(query: object) -> str:
    """A question, or a ValueError."""
    if not isinstance(query, str):
        raise InvalidArgumentsError("query", f"{short_repr(query)} is not a text")
    return query


def check_page(prefix: object, after: object, limit: object) -> tuple[str, str, int]:
    """Which keys are wanted, or a ValueError."""
    for subject, text in (("prefix", prefix), ("after", after)):
        if not isinstance(text, str) or not is_utf8_encodable(text) or "\0" in text:
            raise InvalidArgumentsError(subject, f"{short_repr(text)} is not a text that a key can hold")
    return str(prefix), str(after), check_limit(limit)


def is_below(key: str, prefix: str) -> bool:
    """Tell whether a key is the prefix, or lies below it by whole segments; all keys lie below none."""
    return not prefix or key == prefix or key.startswith(folder_of(prefix))


def folder_of(prefix: str) -> str:
    """What the keys below a prefix begin with."""
    return prefix if prefix.endswith("/") else f"{prefix}/"
