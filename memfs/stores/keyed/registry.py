"""open_store: a store by its address. The part before the colon says which class; plugins bring more of them."""

import importlib
import inspect
import logging
import os
import re
import typing
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import parse_qsl, quote, urlencode

from memfs.errors import InvalidSetupError, MemfsError, StorePluginError, UnknownStoreError, short_repr
from memfs.stores.keyed.base import KeyedStore

GROUP = "memfs.stores"  # of entry points: scheme = module:class
OURS = {
    "file": "memfs.stores.keyed.vault_store:VaultKeyedStore",
    "memory": "memfs.stores.keyed.in_memory_store:InMemoryKeyedStore",
    "postgres": "memfs.stores.keyed.postgres:PostgresStore",
    "postgresql": "memfs.stores.keyed.postgres:PostgresStore",
    "redis": "memfs.stores.keyed.redis:RedisStore",
    "rediss": "memfs.stores.keyed.redis:RedisStore",
    "sqlite": "memfs.stores.keyed.sqlite:SqliteStore",
    "vault": "memfs.stores.keyed.vault_store:VaultKeyedStore",
    "vector": "memfs.stores.keyed.vector:VectorStore",
}
EXTRAS = {  # scheme -> extra, and what it installs
    **dict.fromkeys(("postgres", "postgresql"), ("postgres", "psycopg")),
    **dict.fromkeys(("redis", "rediss"), ("redis", "redis")),
    "sqlite": ("sql", "sqlalchemy"),
    "vector": ("semantic", "wordllama"),
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+|[A-Za-z](?=://)):")  # `C:` is a drive
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
log = logging.getLogger("memfs")


def open_store(url: str | os.PathLike[str], **options: Any) -> KeyedStore[str]:
    """The store at an address: a directory, `memory:`, `sqlite:///x.db`, `redis://...`, or what a plugin knows.

    What stands behind `?` are options of the class, as `options` are: `redis://host/0?ttl=60`.
    """
    if not isinstance(url, str | os.PathLike) or not str(url).strip():
        raise InvalidSetupError("open_store", f"{short_repr(url)} is not the address of a store")
    address = os.fspath(url)
    if not isinstance(address, str) or not _is_a_name(address):
        raise InvalidSetupError("open_store", f"{short_repr(url)} is not the address of a store")
    found = _SCHEME.match(address) if isinstance(url, str) else None
    if not found:
        return _at_path(address, options)
    scheme = found[1].lower()
    kind, address = store_class(scheme), scheme + address[len(scheme) :]
    rest, given = _asked(kind, address)
    _check_names(kind, address, options)
    try:
        return kind.from_url(rest, **{**given, **options})
    except MemfsError:
        raise
    except (TypeError, ValueError) as error:  # of a plugin
        raise InvalidSetupError(f"store {public(address)!r}", str(error)) from error


def _is_a_name(address: str) -> bool:
    """Tell whether a text can be the name of a file: it has no NUL, and no surrogate that stands for no byte."""
    try:
        return b"\0" not in os.fsencode(address)
    except UnicodeEncodeError:
        return False


def _at_path(path: str, options: Mapping[str, Any]) -> KeyedStore[str]:
    kind: Any = store_class("file")
    if "password=" in path and not os.path.exists(path):  # a folder of that name would tell it
        raise InvalidSetupError("store", "settings of PostgreSQL are no address; write postgresql://user@host/database")
    if os.path.isfile(path):
        raise InvalidSetupError(f"store {path!r}", f"is a file, no vault; if it is one of SQLite: sqlite:///{path}")
    _check_names(kind, path, options)
    return cast("KeyedStore[str]", kind(path, **options))


def _check_names(kind: type[KeyedStore[str]], url: str, options: Mapping[str, Any]) -> None:
    known = _options(kind)
    if unknown := [name for name in options if name not in known]:
        raise _unknown(url, unknown[0], known)


def store_class(scheme: str) -> type[KeyedStore[str]]:
    """The class for a scheme: ours, else that of a plugin."""
    if scheme in OURS:
        module, _, name = OURS[scheme].partition(":")
        kind = getattr(importlib.import_module(module), name)
    else:
        kind = _of_plugin(scheme)
    return cast("type[KeyedStore[str]]", kind)


def plugins() -> dict[str, tuple[str, EntryPoint]]:
    """The schemes that other distributions bring, each with the one that does; one that is broken hides no other."""
    known: dict[str, tuple[str, EntryPoint]] = {}
    for distribution in distributions():
        try:
            name = distribution.metadata["Name"]
            points = distribution.entry_points.select(group=GROUP)
        except Exception as error:
            log.warning("a distribution whose entry points cannot be read: %s", error)
            continue
        for point in points:
            if point.name.lower() not in OURS:
                known.setdefault(point.name.lower(), (name, point))
    return known


def _of_plugin(scheme: str) -> Any:
    known = plugins()
    if scheme not in known:
        at_hand = [one for one in OURS if one not in EXTRAS or find_spec(EXTRAS[one][1]) is not None]
        lacking = {extra for one, (extra, _) in EXTRAS.items() if one not in at_hand}
        raise UnknownStoreError(scheme, tuple(sorted((*at_hand, *known))), tuple(sorted(lacking)))
    name, point = known[scheme]
    try:
        kind = point.load()
    except Exception as error:
        raise StorePluginError(scheme, name, f"{type(error).__name__}: {error}") from error
    if not isinstance(kind, type) or not issubclass(kind, KeyedStore):
        raise StorePluginError(scheme, name, f"{point.value} is no class derived from memfs.stores.keyed.KeyedStore")
    return kind


def _asked(kind: type[KeyedStore[str]], url: str) -> tuple[str, dict[str, Any]]:
    """An address without the options in it, and those; what is a part of the address for its class stays there."""
    address, mark, query = url.partition("?")
    known, given, stays = _options(kind), dict[str, Any](), list[tuple[str, str]]()
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in known:
            given[name] = _converted(url, name, text, known[name])
        elif any(fnmatchcase(name, pattern) for pattern in kind.url_parameters):
            stays.append((name, text))
        else:
            raise _unknown(url, name, known)
    return address + (mark + urlencode(stays, quote_via=quote) if stays else ""), given


def _options(kind: type[KeyedStore[str]]) -> dict[str, set[Any]]:
    """What a class takes beside its address, each with the types that it may have."""
    parameters = list(inspect.signature(kind).parameters.values())[1:]
    try:
        hints = typing.get_type_hints(kind.__init__)
    except NameError:  # a name that is imported for type checkers only
        hints = {}
    named = [one.name for one in parameters if one.kind in {one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD}]
    return {name: {*typing.get_args(hints.get(name, str)), hints.get(name, str)} for name in named}


def _converted(url: str, name: str, text: str, types: set[Any]) -> Any:
    try:
        if bool in types:
            return _TRUTH[text.lower()]
        if int in types or float in types:
            return float(text) if float in types else int(text)
        if str in types:
            return text
    except (KeyError, ValueError):
        wanted = "true or false" if bool in types else "a number"
        raise InvalidSetupError(f"store {public(url)!r}", f"{name}: {text!r} is not {wanted}") from None
    raise InvalidSetupError(f"store {public(url)!r}", f"{name}: cannot be given in an address")


def _unknown(url: str, name: str, known: Mapping[str, object]) -> InvalidSetupError:
    there = f"known: {', '.join(known)}" if known else "it has none"
    asked = "of that name" if "@" in name else repr(name)  # a part of a password that was not encoded
    return InvalidSetupError(f"store {public(url)!r}", f"no option {asked}; {there}")


def public(url: str) -> str:
    """An address as it may be shown: without options, who asks, and his password, which may hold / and ?."""
    return re.sub(r"//.*@", "//", url, flags=re.DOTALL).partition("?")[0]
