"""AggregateMemoryError, a subclass of both memfs's and Strands' own, so that code for either catches it."""

from collections.abc import Sequence
from typing import Any

from strands.types.exceptions import AggregateMemoryError as StrandsAggregateError

from memfs.errors import AggregateMemoryError as MemfsAggregateError


class AggregateMemoryError(MemfsAggregateError, StrandsAggregateError):
    """Several errors of one call; the parts that did not fail were carried out."""

    errors: Any

    def __init__(self, message: str, errors: Sequence[BaseException]) -> None:
        super().__init__(message, errors)
        self.args = (message, self.errors)
