"""What a manager is given, checked before anything is done with it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from memfs.errors import InvalidArgumentsError, InvalidSetupError
from memfs.stores.store import MemoryStore, has_method

Toggle = Mapping[str, Any] | bool | None


def checked(stores: Sequence[MemoryStore]) -> list[MemoryStore]:
    """Stores that can be managed together."""
    if not stores:
        raise InvalidSetupError("MemoryManager", "at least one store is required")
    seen: set[str] = set()
    for store in stores:
        if store.name in seen:
            raise InvalidSetupError("MemoryManager", f"duplicate store name {store.name!r}")
        seen.add(store.name)
        if store.writable and not has_method(store, "add") and not has_method(store, "add_messages"):
            raise InvalidSetupError(f"store {store.name!r}", "is writable but has no add or add_messages method")
    return list(stores)


def toggled(given: Toggle) -> Mapping[str, Any] | None:
    """True stands for all defaults, and nothing for off."""
    return given if isinstance(given, Mapping) else {} if given else None


def known(subject: str, config: Mapping[str, Any], *keys: str) -> None:
    """Refuse a key that nobody reads."""
    if unknown := config.keys() - set(keys):
        raise InvalidSetupError(subject, f"unknown key {min(unknown)!r}; known: {', '.join(keys)}")


def options_of(subject: str, options: Mapping[str, Any] | None, *keys: str) -> Mapping[str, Any]:
    """The options of a call; one that nobody reads is refused."""
    asked = options or {}
    if unknown := asked.keys() - set(keys):
        raise InvalidArgumentsError(subject, f"unknown option {min(unknown)!r}; known: {', '.join(keys)}")
    return asked
