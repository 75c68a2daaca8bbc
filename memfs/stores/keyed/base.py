"""KeyedStore: the interface of every keyed store, and the argument checks that its backends share."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from memfs.argument_checks import is_positive_int
from memfs.errors import InvalidArgumentsError, short_repr
from memfs.namespace import is_utf8_encodable

T = TypeVar("T")
MAX_TOP_K = 1000
MAX_KEY_CHARS = 500
MAX_VALUE_BYTES = 4 * 1024 * 1024
MAX_META_CHARS = 10_000  # as JSON
FOREIGN_DATA = "holds data that memfs did not write"  # reason of a StoreDamagedError


class KeyedStore(ABC, Generic[T]):
    """Values by key, with search. Thread-safe. Adding to an existing key replaces its value.

    The four abstract methods are those of the advanced-memory guide; `memfs.testing.StoreContract` tests all methods.
    A key is a text of 1 to 500 printable characters, compared exactly: `Tea` and `tea` are two keys. An invalid key,
    value or number of hits raises ValueError before anything is written.
    """

    place: str | None = None  # identifies the store, also in later processes; None if it is not persistent
    # patterns of URL parameters that `from_url` gets as part of the address, not as options
    url_parameters: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open a store by its address. `options` are the other parameters of the constructor."""
        constructor: Any = cls
        return cast("Self", constructor(url, **options))

    @abstractmethod
    def add(self, key: str, value: T, meta: Mapping[str, Any] | None = None) -> None:
        """Store a value under a key, replacing the value and the metadata that the key had."""

    def revise(self, key: str, value: T, meta: Mapping[str, Any] | None = None, *, known: T) -> bool:
        """Replace the value of a key if it is still the `known` one. Return whether it was replaced.

        All backends of memfs compare and write atomically, so that no concurrent write is lost. This default does not.
        """
        if self.get(key) != known:
            return False
        self.add(key, value, meta)
        return True

    @abstractmethod
    def get(self, key: str) -> T | None:
        """Return the value at a key; None if there is none."""

    def meta(self, key: str) -> dict[str, Any]:
        """Return the metadata that a value was added with; {} if there is no such key or it has none."""
        return {}

    @abstractmethod
    def search(self, query: str, top_k: int = 5) -> list[tuple[str, T, float]]:
        """Return the values nearest to a query, best first: key, value, and a score from 0 to 1.

        Any text is a query; one without words has no hits. The score is the relevance of a value. A store may order by
        more than that (a vault also by importance and decay), so scores need not decrease from hit to hit.
        """

    @abstractmethod
    def forget(self, key: str) -> bool:
        """Remove a value. Return whether there was one."""

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return one page of the keys below a prefix, sorted. A page has at most 1,000 keys.

        A prefix is of whole segments: `a/b` contains `a/b` and `a/b/c`, not `a/bc`. `after` is the last key of the
        previous page.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement keys.")

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, T]]:
        """Return the keys below a prefix with their values, in the same pages as `keys`.

        An empty page is the last one. A page may be shorter if values were forgotten meanwhile.
        """
        found = self.keys(prefix, after=after, limit=limit)
        pairs = [(key, value) for key in found if (value := self.get(key)) is not None]
        return pairs if pairs or not found else self.items(prefix, after=found[-1], limit=limit)

    def recalled(self, keys: Sequence[str]) -> None:
        """Count a search by an agent that returned these keys, possibly none. Most stores count nothing."""

    def close(self) -> None:
        """Release the resources of the store. It can still be used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_key(key: object) -> str:
    """Return a key, or raise ValueError with the reason."""
    if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY_CHARS or not key.isprintable():
        reason = f"{short_repr(key)} is not a text of 1 to {MAX_KEY_CHARS} printable characters"
        raise InvalidArgumentsError("key", reason)
    return key


def check_value(value: object) -> str:
    """Return a text that can be stored, or raise ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentsError("value", f"{short_repr(value)} is not a text with words in it")
    _check_storable("value", value)
    if len(value) * 4 > MAX_VALUE_BYTES and len(value.encode()) > MAX_VALUE_BYTES:
        raise InvalidArgumentsError("value", f"is larger than {MAX_VALUE_BYTES >> 20} MiB")
    return value


def check_known(value: object) -> str:
    """Return the `known` text of a revision, or raise ValueError if it is not a text.

    Any text is valid, because a text that cannot be stored only means that nothing is replaced.
    """
    if not isinstance(value, str):
        raise InvalidArgumentsError("known", f"{short_repr(value)} is not a text")
    return value


def check_meta(meta: object) -> dict[str, Any]:
    """Return metadata as a copy that went through JSON, or raise ValueError."""
    if meta is None:
        return {}
    if not isinstance(meta, Mapping):
        raise InvalidArgumentsError("meta", f"{short_repr(meta)} is not a mapping")
    try:
        text = json.dumps({**meta}, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError("meta", f"cannot be written as JSON: {error}") from None
    _check_storable("meta", text)
    if "\\u0000" in text and "\0" in _joined_strings(json.loads(text)):
        raise InvalidArgumentsError("meta", "holds a NUL character")
    if len(text) > MAX_META_CHARS:
        raise InvalidArgumentsError("meta", f"is longer than {MAX_META_CHARS:,} characters of JSON")
    copy: dict[str, Any] = json.loads(text)
    if len(copy) < len(meta) or any(not isinstance(key, str) for key in meta):
        raise InvalidArgumentsError("meta", "has a key that is not a text")
    return copy


def read_meta(text: str) -> dict[str, Any]:
    """Parse stored metadata. Raise ValueError if it is not a JSON object."""
    meta = json.loads(text)
    if not isinstance(meta, dict):
        raise ValueError("not a mapping")
    return meta


def _check_storable(subject: str, text: str) -> None:
    """Raise ValueError for characters that some backend cannot store."""
    if not is_utf8_encodable(text):
        raise InvalidArgumentsError(subject, "holds a lone surrogate")
    if "\0" in text:
        raise InvalidArgumentsError(subject, "holds a NUL character")


def is_storable(text: str) -> bool:
    """Return whether every backend can store the characters of a text."""
    return is_utf8_encodable(text) and "\0" not in text


def _joined_strings(value: Any) -> str:
    """Return all strings within a JSON value, joined."""
    if isinstance(value, dict):
        return "".join(key + _joined_strings(item) for key, item in value.items())
    if isinstance(value, list):
        return "".join(map(_joined_strings, value))
    return value if isinstance(value, str) else ""


def check_top_k(top_k: object) -> int:
    """Return a number of hits, capped at 1,000, or raise ValueError."""
    return _check_count("top_k", top_k)


def check_limit(limit: object) -> int:
    """Return a number of keys, capped at 1,000, or raise ValueError."""
    return _check_count("limit", limit)


def _check_count(subject: str, count: object) -> int:
    if not is_positive_int(count):
        raise InvalidArgumentsError(subject, f"{short_repr(count)} is not a whole number from 1")
    return min(count, MAX_TOP_K)


def check_query(query: object) -> str:
    """Return a query, or raise ValueError."""
    if not isinstance(query, str):
        raise InvalidArgumentsError("query", f"{short_repr(query)} is not a text")
    return query


def check_page(prefix: object, after: object, limit: object) -> tuple[str, str, int]:
    """Return prefix, after and limit of a page, or raise ValueError."""
    for subject, text in (("prefix", prefix), ("after", after)):
        if not isinstance(text, str) or not is_utf8_encodable(text) or "\0" in text:
            raise InvalidArgumentsError(subject, f"{short_repr(text)} is not a text that a key can hold")
    return str(prefix), str(after), check_limit(limit)


def is_below(key: str, prefix: str) -> bool:
    """Return whether a key is the prefix, or below it by whole segments. All keys are below an empty prefix."""
    return not prefix or key == prefix or key.startswith(segment_prefix(prefix))


def segment_prefix(prefix: str) -> str:
    """Return the prefix with a slash at its end: the start of all keys below it."""
    return prefix if prefix.endswith("/") else f"{prefix}/"
