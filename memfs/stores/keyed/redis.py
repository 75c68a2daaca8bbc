"""RedisStore: values under keys on a Redis server, for as long as they are wanted. The only importer of redis."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from memfs.errors import InvalidSetupError, MissingExtraError, StoreDamagedError, StoreUnavailableError, short_repr
from memfs.stores.keyed import redis_scripts
from memfs.stores.keyed.base import (
    FOREIGN,
    KeyedStore,
    check_key,
    check_known,
    check_meta,
    check_page,
    check_query,
    check_top_k,
    check_value,
    folder_of,
    read_meta,
)
from memfs.stores.keyed.scoring import Candidate, asked_terms, rank, terms_of

if TYPE_CHECKING:
    from redis import Redis

URL = "redis://127.0.0.1:6379/0"
PREFIX = "memfs"
TIMEOUT = 5.0  # seconds for an answer
MAX_TTL = 10 * 365 * 86_400.0
OVER = 1000  # expired keys that are taken away in one step


_DATABASE = re.compile(r"/?\d*")


class RedisStore(KeyedStore[str]):
    """Texts by key on a server; each for `ttl` seconds after it was added, or, with `refresh_on_read`, last read.

    What a server keeps over a restart is set there. Stores with different prefixes know nothing of each other.
    """

    url_parameters = ("db", "ssl_*")

    def __init__(
        self,
        url: str = URL,
        *,
        prefix: str = PREFIX,
        ttl: float | None = None,
        refresh_on_read: bool = False,
        timeout: float = TIMEOUT,
    ) -> None:
        _check(isinstance(prefix, str) and prefix.isprintable() and 0 < len(prefix) <= 100, "prefix", prefix, "a name")
        _check(isinstance(refresh_on_read, bool), "refresh_on_read", refresh_on_read, "True or False")
        for name, value, most in (("ttl", ttl, MAX_TTL), ("timeout", timeout, 3600.0)):
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0.001 <= value <= most
            _check(is_number or (value is None and name == "ttl"), name, value, f"seconds, up to {most:,.0f}")
        self.address, self._secret = _public(url)
        self._ttl = 0 if ttl is None else max(1, round(ttl * 1000))
        self._refresh = self._ttl if refresh_on_read else 0
        self.place = f"{self.address}#{prefix}"
        self._base = f"{{{prefix}}}"  # in braces: all keys of a store are on one node of a cluster
        self._client = _client(url, self.address, timeout, tries=2)
        self._add, self._read, self._purge, self._ask = map(
            self._client.register_script,
            (redis_scripts.ADD, redis_scripts.READ, redis_scripts.PURGE, redis_scripts.ASK),
        )
        self._once = _client(url, self.address, timeout, tries=0)  # done twice, these would answer for the second time
        self._revise, self._forget = map(self._once.register_script, (redis_scripts.ADD, redis_scripts.FORGET))

    def __repr__(self) -> str:
        return f"RedisStore({self.address!r}, prefix={self._base[1:-1]!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key, from now on for the time to live."""
        self._put(key, value, meta)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Keep another text under a key, unless somebody was faster."""
        return self._put(key, value, meta, check_known(known))

    def _put(self, key: str, value: str, meta: Mapping[str, Any] | None, known: str | None = None) -> bool:
        check_key(key)
        text, about = check_value(value), json.dumps(check_meta(meta), ensure_ascii=False)
        terms = terms_of(text)
        counts = [part for pair in Counter(terms).items() for part in pair]
        expected = [] if known is None else [known.encode("utf-8", "surrogatepass")]
        with self._worded():
            given = [key, text, about, len(terms), self._ttl, len(expected), *expected, *counts]
            return bool((self._revise if expected else self._add)(keys=[self._base], args=given))

    def get(self, key: str) -> str | None:
        """The text of a key."""
        return self._parts("values", [check_key(key)], self._refresh)[0]

    def meta(self, key: str) -> dict[str, Any]:
        """What was said about it."""
        kept = self._parts("meta", [check_key(key)], 0)[0]
        with self._worded():
            return read_meta(kept or "{}")

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts that have words of a question, by an index that the server keeps."""
        limit, asked = check_top_k(top_k), asked_terms(check_query(query))
        if not asked:
            return []
        total, length, *having = self._now(
            ("hlen", "values"), ("get", "length"), *(("hgetall", f"t:{term}") for term in asked)
        )
        with self._worded():
            ranked = _ranked(asked, having, total, max(int(length or 0), 1) / max(total, 1))[:limit]
        values = self._parts("values", [key for key, _ in ranked], self._refresh) if ranked else []
        return [(key, value, score) for (key, score), value in zip(ranked, values, strict=True) if value is not None]

    def forget(self, key: str) -> bool:
        """Let go of a text."""
        check_key(key)
        with self._worded():
            return bool(self._forget(keys=[self._base], args=[key]))

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        prefix, after, most = check_page(prefix, after, limit)
        past = f"({after}" if after else "-"
        if not prefix:
            (found,) = self._now(("zrangebylex", "keys", past, "+", "limit", 0, most))
            return list(found)
        start = folder_of(prefix)
        first = past if after >= start else f"[{start}"
        itself, below = self._now(
            ("zscore", "keys", prefix),
            ("zrangebylex", "keys", first, f"({start[:-1]}0", "limit", 0, most),
        )
        is_asked = itself is not None and prefix > after and prefix != start
        return [*([prefix] if is_asked else []), *below][:most]

    def items(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[tuple[str, str]]:
        """The keys below a prefix with their texts; that is no reading which puts off their end."""
        found = self.keys(prefix, after=after, limit=limit)
        values = self._parts("values", found, 0) if found else []
        pairs = [(key, value) for key, value in zip(found, values, strict=True) if value is not None]
        return pairs if pairs or not found else self.items(prefix, after=found[-1], limit=limit)

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._worded():
            self._client.close()
            self._once.close()

    # --- the server

    def _parts(self, part: str, keys: Sequence[str], ttl: int) -> list[str | None]:
        with self._worded():
            return list(self._read(keys=[self._base], args=[part, ttl, *keys]))

    def _now(self, *commands: tuple[Any, ...]) -> list[Any]:
        """What the server answers to some commands at one moment, once all that is over is away."""
        with self._worded():
            while self._purge(keys=[self._base], args=[OVER]) == OVER:
                pass
            words = [word for command in commands for word in (len(command), *command)]
            return list(self._ask(keys=[self._base], args=words))

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """Whatever the client says, in our words, without the password."""
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
            raise StoreDamagedError(self.address, FOREIGN) from error


def _ranked(
    asked: Sequence[str], having: Sequence[Sequence[str]], total: int, mean_length: float
) -> list[tuple[str, float]]:
    """The keys that have terms of a question, best first, by what the server knows of each term."""
    counts: dict[str, dict[str, int]] = {}
    lengths: dict[str, int] = {}
    for term, keys in zip(asked, having, strict=True):
        for key, packed in zip(keys[::2], keys[1::2], strict=True):
            count, _, size = packed.partition(" ")
            counts.setdefault(key, {})[term] = int(count)
            lengths[key] = int(size)
    frequency = {term: len(keys) // 2 for term, keys in zip(asked, having, strict=True)}
    found = (Candidate(key, terms, lengths[key]) for key, terms in counts.items())
    return rank(asked, found, frequency=lambda term: frequency[term], total=total, mean_length=mean_length)


def _client(url: str, address: str, timeout: float, *, tries: int) -> "Redis":
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
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), tries),  # of one that the server closed
        )
    except (ValueError, TypeError):
        raise InvalidSetupError("RedisStore", f"{address}: not an address such as {URL}") from None


def _public(url: object) -> tuple[str, str]:
    """An address without its password, and the password."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        is_local = parts is not None and parts.scheme == "unix" and len(parts.path) > 1
        if parts and (is_local or (parts.scheme in {"redis", "rediss"} and _DATABASE.fullmatch(parts.path))):
            _ = parts.port  # a ValueError if it is no number
            known, behind = RedisStore.url_parameters, f"{parts.path}{parts.query}{parts.fragment}"
            is_torn = "#" in str(url) or "@" in behind  # a password with such a sign in it, it seems
            if not is_torn and all(any(fnmatchcase(name, one) for one in known) for name, _ in parse_qsl(parts.query)):
                host = parts.netloc.rpartition("@")[2]
                return f"{parts.scheme}://{host}{parts.path}", unquote(parts.password or "")
    except ValueError:
        pass
    error = InvalidSetupError("RedisStore", f"not an address such as {URL}, or unix:///path/to/socket")
    error.hint = "Write redis://:PASSWORD@HOST:PORT/0; signs such as @ / : # ? in a password as %40 %2F %3A %23 %3F."
    raise error


def _check(is_right: bool, name: str, value: object, wanted: str) -> None:
    if not is_right:
        raise InvalidSetupError("RedisStore", f"{name}: {short_repr(value)} is not {wanted}")
