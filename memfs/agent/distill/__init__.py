"""Distil sessions into long-term memories, and retrieve them for the next turn."""

from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.agent.distill.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
    from memfs.agent.distill.distiller import StrategyContext
    from memfs.agent.distill.long_term import LongTerm
    from memfs.agent.distill.retrieval import Retriever
    from memfs.agent.distill.strategies import (
        EpisodeStrategy,
        FactStrategy,
        PreferenceStrategy,
        ReflectionStrategy,
        Strategy,
        SummaryStrategy,
    )

__all__ = [
    "EpisodeStrategy", "FactStrategy", "LongTerm", "PersistenceMode", "PreferenceStrategy", "ReflectionStrategy",
    "RetrievalConfig", "Retriever", "Strategy", "StrategyContext", "SummaryStrategy", "VaultMemoryConfig",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "LongTerm": "long_term",
        "Retriever": "retrieval",
        "StrategyContext": "distiller",
        **dict.fromkeys(("PersistenceMode", "RetrievalConfig", "VaultMemoryConfig"), "config"),
        **dict.fromkeys(("EpisodeStrategy", "FactStrategy", "PreferenceStrategy"), "strategies"),
        **dict.fromkeys(("ReflectionStrategy", "Strategy", "SummaryStrategy"), "strategies"),
    },
)
