"""Protocols of the objects that callers can plug into the core: a clock and an embedder."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol


class Clock(Protocol):
    """A function that returns the current time, in UTC."""

    def __call__(self) -> datetime: ...


def system_clock() -> datetime:
    """Return the current time of the system, in UTC."""
    return datetime.now(UTC)


class Embedder(Protocol):
    """An object that turns texts into vectors, which are close to each other if the texts have similar meanings.

    Optional attribute `span`: two cosines; up to the first, texts are unrelated, and from the second on they mean the
    same. The default is (0.0, 0.7). An embedder may also be a `WeightedEmbedder`.
    """

    @property
    def name(self) -> str:
        """The name of the model. Vectors of models with different names are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:
        """Return one vector of length one per text, as a numpy array or as sequences of numbers."""
        ...


class WeightedEmbedder(Embedder, Protocol):
    """An embedder that can weight the words of a question."""

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> Any:
        """Return one vector of length one for words with these weights."""
        ...
