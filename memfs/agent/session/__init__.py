"""Sessions: an append-only log a conversation, what is distilled from it, and what it is told."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.agent.session.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
    from memfs.agent.session.distilling import StrategyContext
    from memfs.agent.session.events import Event
    from memfs.agent.session.history import Branch
    from memfs.agent.session.log import SessionLog
    from memfs.agent.session.manager import LongTerm
    from memfs.agent.session.retrieval import Retriever
    from memfs.agent.session.sessions import Actor, Session, Sessions
    from memfs.agent.session.strategies import (
        EpisodeStrategy,
        FactStrategy,
        PreferenceStrategy,
        ReflectionStrategy,
        Strategy,
        SummaryStrategy,
    )

__all__ = [
    "Actor", "Branch", "EpisodeStrategy", "Event", "FactStrategy", "LongTerm", "PersistenceMode", "PreferenceStrategy",
    "ReflectionStrategy", "RetrievalConfig", "Retriever", "Session", "SessionLog", "Sessions", "Strategy",
    "StrategyContext", "SummaryStrategy", "VaultMemoryConfig",
]  # fmt: skip

_HOMES = {
    "Branch": "history",
    "Event": "events",
    "SessionLog": "log",
    "LongTerm": "manager",
    "Retriever": "retrieval",
    "StrategyContext": "distilling",
    **dict.fromkeys(("Actor", "Session", "Sessions"), "sessions"),
    **dict.fromkeys(("PersistenceMode", "RetrievalConfig", "VaultMemoryConfig"), "config"),
    **dict.fromkeys(("EpisodeStrategy", "FactStrategy", "PreferenceStrategy"), "strategies"),
    **dict.fromkeys(("ReflectionStrategy", "Strategy", "SummaryStrategy"), "strategies"),
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
