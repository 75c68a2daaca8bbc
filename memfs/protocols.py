"""The seams: what the core takes from outside, by shape alone."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol


class Clock(Protocol):
    """Tells the time, in UTC."""

    def __call__(self) -> datetime: ...


def system_clock() -> datetime:
    return datetime.now(UTC)


class Embedder(Protocol):
    """Turns texts into vectors that lie near each other where the texts mean alike.

    It may have `span`: the cosine up to which two texts have nothing to do with each other, and the one from which on
    they say the same; (0.0, 0.7) without it. It may be `Weighing`.
    """

    @property
    def name(self) -> str:
        """The model: vectors of different names are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:
        """A vector of length one for each text, as a numpy array or as sequences of numbers."""
        ...


class WeightedEmbedder(Embedder, Protocol):
    """An embedder that a question can tell how much each of its words counts."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Any:
        """One vector of length one for words of which each counts so much."""
        ...
