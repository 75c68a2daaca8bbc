"""Sessions: short-term memory, an append-only log a conversation."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.agent.session.events import Event
    from memfs.agent.session.history import Branch
    from memfs.agent.session.log import SessionLog
    from memfs.agent.session.sessions import Actor, Session, Sessions

__all__ = ["Actor", "Branch", "Event", "Session", "SessionLog", "Sessions"]

_HOMES = {
    "Branch": "history",
    "Event": "events",
    "SessionLog": "log",
    **dict.fromkeys(("Actor", "Session", "Sessions"), "sessions"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memfs.agent.session' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"memfs.agent.session.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
