"""A hub: memories that several vaults share through a PostgreSQL database. See docs/hub.md."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.hub.pull import pull
    from memfs.hub.push import push
    from memfs.hub.remote import Hub
    from memfs.hub.report import Conflict, HubReport

__all__ = ["Conflict", "Hub", "HubReport", "pull", "push"]

_HOMES = {"Conflict": "report", "Hub": "remote", "HubReport": "report", "pull": "pull", "push": "push"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memfs.hub' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"memfs.hub.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
