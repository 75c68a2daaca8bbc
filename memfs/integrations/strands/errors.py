"""The error of several stores, which code written for Strands catches too."""

from collections.abc import Sequence
from typing import Any

from strands.types.exceptions import AggregateMemoryError as Theirs

from memfs.errors import AggregateMemoryError as Ours


class AggregateMemoryError(Ours, Theirs):
    """Several errors of one call; what did not fail was done."""

    errors: Any

    def __init__(self, message: str, errors: Sequence[BaseException]) -> None:
        super().__init__(message, errors)
        self.args = (message, self.errors)
