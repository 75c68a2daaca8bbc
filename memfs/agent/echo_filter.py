"""EchoFilter: recognises facts that only repeat memories the agent was given, so they are not stored again. Pure."""

import re
from collections import deque
from collections.abc import Iterable

MAX_TEXTS = 500  # the last texts that are compared with
_SENTENCE_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_PUNCTUATION = ".,;:!?…。！？\"'“”‘’()[]"

Sentence = tuple[str, ...]


class EchoFilter:
    """The texts that the agent was given last. A fact is an echo if all its sentences are in one of them.

    The same words in another order, or fewer of them, can mean the opposite: that is a correction, not an echo.
    """

    def __init__(self) -> None:
        self._recent: deque[frozenset[Sentence]] = deque(maxlen=MAX_TEXTS)

    def record(self, texts: Iterable[str]) -> None:
        """Record texts that the agent was given."""
        for text in texts:
            sentences = _split_sentences(text)
            if sentences and sentences not in self._recent:
                self._recent.append(sentences)

    def is_echo(self, text: str) -> bool:
        """Return whether every sentence of a text is in one of the recorded texts."""
        sentences = _split_sentences(text)
        return bool(sentences) and any(sentences <= recorded for recorded in list(self._recent))


def _split_sentences(text: str) -> frozenset[Sentence]:
    """Return the sentences of a text as tuples of case-folded words without punctuation around them."""
    words = ((word.strip(_PUNCTUATION) for word in part.split()) for part in _SENTENCE_BOUNDARY.split(text.casefold()))
    return frozenset(filter(None, (tuple(filter(None, sentence)) for sentence in words)))
