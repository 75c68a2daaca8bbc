"""open_store: open a keyed store by its address. The scheme of the address selects the class; plugins add schemes."""

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

ENTRY_POINT_GROUP = "memfs.stores"  # entries: scheme = module:class
BUILT_IN_STORES = {
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
REQUIRED_EXTRAS = {  # scheme -> extra, and a package that it installs
    **dict.fromkeys(("postgres", "postgresql"), ("postgres", "psycopg")),
    **dict.fromkeys(("redis", "rediss"), ("redis", "redis")),
    "sqlite": ("sql", "sqlalchemy"),
    "vector": ("semantic", "wordllama"),
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+|[A-Za-z](?=://)):")  # not a single letter: `C:` is a Windows drive
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
log = logging.getLogger("memfs")


def open_store(url: str | os.PathLike[str], **options: Any) -> KeyedStore[str]:
    """Open the store at an address: a directory, `memory:`, `sqlite:///x.db`, `redis://...`, or one of a plugin.

    Parameters after `?` are options of the class, like `options`: `redis://host/0?ttl=60`. Raise InvalidSetupError for
    an address or an option that is not valid, UnknownStoreError for an unknown scheme.
    """
    if not isinstance(url, str | os.PathLike) or not str(url).strip():
        raise InvalidSetupError("open_store", f"{short_repr(url)} is not the address of a store")
    address = os.fspath(url)
    if not isinstance(address, str) or not _is_file_name(address):
        raise InvalidSetupError("open_store", f"{short_repr(url)} is not the address of a store")
    found = _SCHEME.match(address) if isinstance(url, str) else None
    if not found:
        return _open_directory(address, options)
    scheme = found[1].lower()
    store_type, address = store_class(scheme), scheme + address[len(scheme) :]
    rest, given = _split_options(store_type, address)
    _check_option_names(store_type, address, options)
    try:
        return store_type.from_url(rest, **{**given, **options})
    except MemfsError:
        raise
    except (TypeError, ValueError) as error:  # raised by a plugin
        raise InvalidSetupError(f"store {without_password(address)!r}", str(error)) from error


def _is_file_name(address: str) -> bool:
    """Return whether a text can be a file name: no NUL, and no surrogate that does not encode a byte."""
    try:
        return b"\0" not in os.fsencode(address)
    except UnicodeEncodeError:
        return False


def _open_directory(path: str, options: Mapping[str, Any]) -> KeyedStore[str]:
    """Open the store of the vault in a directory; raise InvalidSetupError for a file, or settings of PostgreSQL."""
    store_type: Any = store_class("file")
    if "password=" in path and not os.path.exists(path):  # do not create a directory whose name shows the password
        reason = "PostgreSQL settings are not an address; write postgresql://user@host/database"
        raise InvalidSetupError("store", reason)
    if os.path.isfile(path):
        reason = f"is a file, not a vault; for a SQLite database write sqlite:///{path}"
        raise InvalidSetupError(f"store {path!r}", reason)
    _check_option_names(store_type, path, options)
    return cast("KeyedStore[str]", store_type(path, **options))


def _check_option_names(store_type: type[KeyedStore[str]], url: str, options: Mapping[str, Any]) -> None:
    known = _option_types(store_type)
    if unknown := [name for name in options if name not in known]:
        raise _unknown_option_error(url, unknown[0], known)


def store_class(scheme: str) -> type[KeyedStore[str]]:
    """Return the class for a scheme, built-in or from a plugin; raise UnknownStoreError or StorePluginError."""
    if scheme in BUILT_IN_STORES:
        module, _, name = BUILT_IN_STORES[scheme].partition(":")
        store_type = getattr(importlib.import_module(module), name)
    else:
        store_type = _load_plugin_class(scheme)
    return cast("type[KeyedStore[str]]", store_type)


def find_plugins() -> dict[str, tuple[str, EntryPoint]]:
    """Return scheme -> (distribution, entry point) of all plugins; none replaces a built-in scheme.

    A broken distribution is logged and skipped.
    """
    known: dict[str, tuple[str, EntryPoint]] = {}
    for distribution in distributions():
        try:
            name = distribution.metadata["Name"]
            points = distribution.entry_points.select(group=ENTRY_POINT_GROUP)
        except Exception as error:
            log.warning("cannot read the entry points of a distribution: %s", error)
            continue
        for point in points:
            if point.name.lower() not in BUILT_IN_STORES:
                known.setdefault(point.name.lower(), (name, point))
    return known


def _load_plugin_class(scheme: str) -> Any:
    known = find_plugins()
    if scheme not in known:
        lacking = {one for one, (_, package) in REQUIRED_EXTRAS.items() if find_spec(package) is None}
        available = [one for one in BUILT_IN_STORES if one not in lacking]
        missing = {REQUIRED_EXTRAS[one][0] for one in lacking}
        raise UnknownStoreError(scheme, tuple(sorted((*available, *known))), tuple(sorted(missing)))
    name, point = known[scheme]
    try:
        store_type = point.load()
    except Exception as error:
        raise StorePluginError(scheme, name, f"{type(error).__name__}: {error}") from error
    if not isinstance(store_type, type) or not issubclass(store_type, KeyedStore):
        raise StorePluginError(scheme, name, f"{point.value} is not a class derived from memfs.stores.keyed.KeyedStore")
    return store_type


def _split_options(store_type: type[KeyedStore[str]], url: str) -> tuple[str, dict[str, Any]]:
    """Return an address without options, and the options. Parameters in `url_parameters` stay in the address."""
    address, mark, query = url.partition("?")
    known, options, kept = _option_types(store_type), dict[str, Any](), list[tuple[str, str]]()
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in known:
            options[name] = _convert_option(url, name, text, known[name])
        elif any(fnmatchcase(name, pattern) for pattern in store_type.url_parameters):
            kept.append((name, text))
        else:
            raise _unknown_option_error(url, name, known)
    return address + (mark + urlencode(kept, quote_via=quote) if kept else ""), options


def _option_types(store_type: type[KeyedStore[str]]) -> dict[str, set[Any]]:
    """Return the parameters of a class besides the address, each with its allowed types."""
    parameters = list(inspect.signature(store_type).parameters.values())[1:]
    try:
        hints = typing.get_type_hints(store_type.__init__)
    except NameError:  # a name that is imported only for type checkers
        hints = {}
    named = [one.name for one in parameters if one.kind in {one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD}]
    return {name: {*typing.get_args(hints.get(name, str)), hints.get(name, str)} for name in named}


def _convert_option(url: str, name: str, text: str, types: set[Any]) -> Any:
    """Return the text of an option as one of its types; raise InvalidSetupError if that is not possible."""
    try:
        if bool in types:
            return _BOOLEANS[text.lower()]
        if int in types or float in types:
            return float(text) if float in types else int(text)
        if str in types:
            return text
    except (KeyError, ValueError):
        expected = "true or false" if bool in types else "a number"
        raise InvalidSetupError(f"store {without_password(url)!r}", f"{name}: {text!r} is not {expected}") from None
    raise InvalidSetupError(f"store {without_password(url)!r}", f"{name}: cannot be given in an address")


def _unknown_option_error(url: str, name: str, known: Mapping[str, object]) -> InvalidSetupError:
    hint = f"known: {', '.join(known)}" if known else "it has none"
    label = "of that name" if "@" in name else repr(name)  # may be a part of an unencoded password
    return InvalidSetupError(f"store {without_password(url)!r}", f"no option {label}; {hint}")


def without_password(url: str) -> str:
    """Return an address without options, user and password, which may contain / and ?."""
    return re.sub(r"//.*@", "//", url, flags=re.DOTALL).partition("?")[0]
