"""The ledger: what the agent was told of its own memory, so that it is not remembered once more. Pure."""

import re
from collections import deque
from collections.abc import Iterable

KEPT = 500  # texts that were told last
_BETWEEN = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_MARKS = ".,;:!?…。！？\"'“”‘’()[]"

Sentence = tuple[str, ...]


class EchoFilter:
    """The texts that were told last. A fact that is made of sentences of one of them is an echo.

    The same words in another order, or fewer of them, may well say the opposite: that is a correction.
    """

    def __init__(self) -> None:
        self._told: deque[frozenset[Sentence]] = deque(maxlen=KEPT)

    def note(self, texts: Iterable[str]) -> None:
        for text in texts:
            sentences = _sentences(text)
            if sentences and sentences not in self._told:
                self._told.append(sentences)

    def is_echo(self, text: str) -> bool:
        """Tell whether every sentence of a text was in one text that was told."""
        sentences = _sentences(text)
        return bool(sentences) and any(sentences <= told for told in list(self._told))


def _sentences(text: str) -> frozenset[Sentence]:
    """The sentences of a text as words, without case and marks around them."""
    words = ((word.strip(_MARKS) for word in one.split()) for one in _BETWEEN.split(text.casefold()))
    return frozenset(filter(None, (tuple(filter(None, sentence)) for sentence in words)))
