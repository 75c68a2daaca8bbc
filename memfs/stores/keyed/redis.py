"""RedisStore: a keyed store on a Redis server, with an optional time to live. The only importer of redis."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from memfs.argument_checks import is_number
from memfs.errors import InvalidSetupError, MissingExtraError, StoreDamagedError, StoreUnavailableError, short_repr
from memfs.stores.keyed import redis_scripts
from memfs.stores.keyed.base import (
    FOREIGN_DATA,
    KeyedStore,
    check_key,
    check_known,
    check_meta,
    check_page,
    check_query,
    check_top_k,
    check_value,
    read_meta,
    segment_prefix,
)
from memfs.stores.keyed.scoring import Candidate, query_terms, rank, text_terms

if TYPE_CHECKING:
    from redis import Redis

DEFAULT_URL = "redis://127.0.0.1:6379/0"
DEFAULT_PREFIX = "memfs"
DEFAULT_TIMEOUT = 5.0  # seconds to wait for a response
MAX_TTL_SECONDS = 10 * 365 * 86_400.0
PURGE_BATCH = 1000  # expired keys that are deleted in one call


_DATABASE_PATH = re.compile(r"/?\d*")  # the path of an address: the number of a database, or nothing


class RedisStore(KeyedStore[str]):
    """Texts by key on a server. Each expires `ttl` seconds after it was added or, with `refresh_on_read`, last read.

    Whether texts survive a restart is a setting of the server. Stores with different prefixes are independent.
    """

    url_parameters = ("db", "ssl_*")

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        prefix: str = DEFAULT_PREFIX,
        ttl: float | None = None,
        refresh_on_read: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        _check(isinstance(prefix, str) and prefix.isprintable() and 0 < len(prefix) <= 100, "prefix", prefix, "a name")
        _check(isinstance(refresh_on_read, bool), "refresh_on_read", refresh_on_read, "True or False")
        for name, value, maximum in (("ttl", ttl, MAX_TTL_SECONDS), ("timeout", timeout, 3600.0)):
            is_valid = is_number(value, 0.001, maximum)
            _check(is_valid or (value is None and name == "ttl"), name, value, f"seconds, up to {maximum:,.0f}")
        self.address, self._secret = _split_password(url)
        self._ttl = 0 if ttl is None else max(1, round(ttl * 1000))
        self._refresh = self._ttl if refresh_on_read else 0
        self.place = f"{self.address}#{prefix}"
        self._base = f"{{{prefix}}}"  # a hash tag: a cluster puts all keys of a store on one node
        self._client = _client(url, self.address, timeout, retries=2)
        self._add, self._read, self._purge, self._run = map(
            self._client.register_script,
            (redis_scripts.ADD, redis_scripts.READ, redis_scripts.PURGE, redis_scripts.RUN),
        )
        # not retried: a retry after a lost response would return the result of the second call
        self._client_no_retry = _client(url, self.address, timeout, retries=0)
        scripts = redis_scripts.ADD, redis_scripts.FORGET
        self._revise, self._forget = map(self._client_no_retry.register_script, scripts)

    def __repr__(self) -> str:
        return f"RedisStore({self.address!r}, prefix={self._base[1:-1]!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Store a text under a key. Its time to live begins now."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Replace a text if it is still the known one. Return whether it was."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        """Store a text; with `known` only if that is the current one. Return whether it was stored."""
        check_key(key)
        text, meta_json = check_value(value), json.dumps(check_meta(meta), ensure_ascii=False)
        terms = text_terms(text)
        counts = [part for pair in Counter(terms).items() for part in pair]
        expected = [] if known is None else [known.encode("utf-8", "surrogatepass")]
        with self._translate_errors():
            arguments = [key, text, meta_json, len(terms), self._ttl, len(expected), *expected, *counts]
            return bool((self._revise if expected else self._add)(keys=[self._base], args=arguments))

    def get(self, key: str) -> str | None:
        """Return the text at a key; None if there is none."""
        return self._read_parts("values", [check_key(key)], self._refresh)[0]

    def meta(self, key: str) -> dict[str, Any]:
        """Return a copy of the metadata at a key; {} if there is none."""
        meta_json = self._read_parts("meta", [check_key(key)], 0)[0]
        with self._translate_errors():
            return read_meta(meta_json or "{}")

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """Return the texts that have words of a query, by the inverted index on the server."""
        limit, terms = check_top_k(top_k), query_terms(check_query(query))
        if not terms:
            return []
        total, length, *postings = self._run_atomically(
            ("hlen", "values"), ("get", "length"), *(("hgetall", f"t:{term}") for term in terms)
        )
        with self._translate_errors():
            ranked = _rank_keys(terms, postings, total, max(int(length or 0), 1) / max(total, 1))[:limit]
        values = self._read_parts("values", [key for key, _ in ranked], self._refresh) if ranked else []
        return [(key, value, score) for (key, score), value in zip(ranked, values, strict=True) if value is not None]

    def forget(self, key: str) -> bool:
        """Remove a text. Return whether there was one."""
        check_key(key)
        with self._translate_errors():
            return bool(self._forget(keys=[self._base], args=[key]))

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys below a prefix, sorted."""
        prefix, after, limit = check_page(prefix, after, limit)
        lower = f"({after}" if after else "-"
        if not prefix:
            (found,) = self._run_atomically(("zrangebylex", "keys", lower, "+", "limit", 0, limit))
            return list(found)
        start = segment_prefix(prefix)
        first = lower if after >= start else f"[{start}"
        score, below = self._run_atomically(
            ("zscore", "keys", prefix),
            ("zrangebylex", "keys", first, f"({start[:-1]}0", "limit", 0, limit),  # 0 is the character after /
        )
        has_prefix_itself = score is not None and prefix > after and prefix != start
        return [*([prefix] if has_prefix_itself else []), *below][:limit]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """Return the keys below a prefix with their texts. This does not count as a read for `refresh_on_read`."""
        found = self.keys(prefix, after=after, limit=limit)
        values = self._read_parts("values", found, 0) if found else []
        pairs = [(key, value) for key, value in zip(found, values, strict=True) if value is not None]
        return pairs if pairs or not found else self.items(prefix, after=found[-1], limit=limit)

    def close(self) -> None:
        """Close the connections. The next use opens new ones."""
        with self._translate_errors():
            self._client.close()
            self._client_no_retry.close()

    # --- the server

    def _read_parts(self, part: str, keys: Sequence[str], ttl: int) -> list[str | None]:
        """Return the `values` or the `meta` of some keys, None for missing ones; with a ttl, extend their expiry."""
        with self._translate_errors():
            return list(self._read(keys=[self._base], args=[part, ttl, *keys]))

    def _run_atomically(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Delete expired entries, then run some commands atomically and return their results."""
        with self._translate_errors():
            while self._purge(keys=[self._base], args=[PURGE_BATCH]) == PURGE_BATCH:
                pass
            words = [word for command in commands for word in (len(command), *command)]
            return list(self._run(keys=[self._base], args=words))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors of the client as errors of memfs, without the password."""
        from redis.exceptions import RedisError

        try:
            yield
        except (RedisError, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if self._secret:
                reason = reason.replace(self._secret, "***")
            if "WRONGTYPE" in reason:
                raise StoreDamagedError(self.address, f"another program uses the keys {self._base}:*") from None
            raise StoreUnavailableError(self.address, reason) from None
        except ValueError as error:
            raise StoreDamagedError(self.address, FOREIGN_DATA) from error


def _rank_keys(
    terms: Sequence[str], postings: Sequence[Sequence[str]], total: int, mean_length: float
) -> list[tuple[str, float]]:
    """Return the keys that have terms of a query with their scores, best first. `postings` has one list per term."""
    counts: dict[str, dict[str, int]] = {}
    lengths: dict[str, int] = {}
    for term, keys in zip(terms, postings, strict=True):
        for key, packed in zip(keys[::2], keys[1::2], strict=True):
            count, _, size = packed.partition(" ")
            counts.setdefault(key, {})[term] = int(count)
            lengths[key] = int(size)
    frequency = {term: len(keys) // 2 for term, keys in zip(terms, postings, strict=True)}
    found = (Candidate(key, own, lengths[key]) for key, own in counts.items())
    return rank(terms, found, frequency=lambda term: frequency[term], total=total, mean_length=mean_length)


def _client(url: str, address: str, timeout: float, *, retries: int) -> "Redis":
    try:
        from redis import Redis
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry
    except ImportError:
        raise MissingExtraError("RedisStore", "redis") from None
    try:
        return Redis.from_url(
            url,
            decode_responses=True,
            protocol=2,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), retries),  # connections that the server closed
        )
    except (ValueError, TypeError):
        raise InvalidSetupError("RedisStore", f"{address}: not an address such as {DEFAULT_URL}") from None


def _split_password(url: object) -> tuple[str, str]:
    """Return an address without its password, and the password. Raise InvalidSetupError for another kind of address."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        is_socket = parts is not None and parts.scheme == "unix" and len(parts.path) > 1
        if parts and (is_socket or (parts.scheme in {"redis", "rediss"} and _DATABASE_PATH.fullmatch(parts.path))):
            _ = parts.port  # raises ValueError if it is not a number
            allowed, rest = RedisStore.url_parameters, f"{parts.path}{parts.query}{parts.fragment}"
            is_ambiguous = "#" in str(url) or "@" in rest  # probably an unencoded password
            names = [name for name, _ in parse_qsl(parts.query)]
            if not is_ambiguous and all(any(fnmatchcase(name, one) for one in allowed) for name in names):
                host = parts.netloc.rpartition("@")[2]
                return f"{parts.scheme}://{host}{parts.path}", unquote(parts.password or "")
    except ValueError:
        pass
    error = InvalidSetupError("RedisStore", f"not an address such as {DEFAULT_URL}, or unix:///path/to/socket")
    error.hint = "Write redis://:PASSWORD@HOST:PORT/0; write @ / : # ? in a password as %40 %2F %3A %23 %3F."
    raise error


def _check(is_valid: bool, name: str, value: object, allowed: str) -> None:
    if not is_valid:
        raise InvalidSetupError("RedisStore", f"{name}: {short_repr(value)} is not {allowed}")
