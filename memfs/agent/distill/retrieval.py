"""Retrieval: what of a vault is told on a user turn. It never becomes part of the session."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memfs.agent.distill.config import RetrievalConfig
from memfs.agent.injection import render, within
from memfs.agent.messages import Message, appended, blocks_of, is_user_turn, kind_of, plain, text_of
from memfs.data_types import Hit
from memfs.errors import MemfsError
from memfs.stores.agent.protocol import Found
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")
SECONDS = 5.0  # after which a model is called without
TOKENS = 25_000  # that all memories of a call may take together
LONGEST = 4_000  # characters of one memory
DRAFT = "draft"  # the status of a memory that waits for a person's look
_OPERATORS = re.compile(r'["“”*]')  # of a question; in talk they are just signs


@dataclass
class Retriever:
    """Looks up the namespaces of a session; `told` hears what was found, so that it is not remembered once more."""

    vault: Vault
    lookups: Sequence[tuple[str, RetrievalConfig]]
    tag: str = "user_context"
    told: Callable[[Iterable[str]], None] = lambda _: None
    _turn: tuple[object, str] | None = field(default=None, init=False, repr=False)  # the last that was told something
    _text: str = field(default="", init=False, repr=False)

    async def inject(self, messages: Sequence[Message]) -> list[Message]:
        """The conversation as the model should see it for this call; the one that was given stays as it is.

        All calls of a turn are told the same, also those that answer a tool.
        """
        at = find_user_turn(messages)
        text = "" if at is None else await self._told_on(at, plain(messages[at]))
        if at is None or not text:
            return list(messages)
        return [*appended(messages[: at + 1], text), *messages[at + 1 :]]

    async def _told_on(self, at: int, message: Message) -> str:
        """What is told on a turn; nothing if it cannot be looked up."""
        turn = (message.get("tracking_id", at), text_of(message))
        if turn == self._turn:
            return self._text
        try:
            async with asyncio.timeout(SECONDS):
                self._text = await asyncio.to_thread(self.text, turn[1])
        except Exception as error:
            log.warning("nothing is retrieved: %s", str(error) or type(error).__name__)
            return ""
        self._turn = turn
        return self._text

    def text(self, question: str) -> str:
        """What is told on a question: escaped, between tags; empty if nothing is."""
        hits = self.search(question)
        if question.strip() and self.lookups:
            self.vault.usage.searched([hit.memory.id for hit in hits])
        found = within([_entry(hit) for hit in hits], TOKENS)
        self.told(entry.content for entry in found)
        return render(found, self.tag) if found else ""

    def search(self, question: str) -> list[Hit]:
        """The memories of all namespaces in their order, the more relevant first, each once."""
        words = _OPERATORS.sub(" ", question).strip()
        hits: dict[str, Hit] = {}
        for namespace, how in self.lookups if words else ():
            for hit in self._found(words, namespace, how):
                hits.setdefault(hit.memory.path, hit)
        return list(hits.values())

    def _found(self, words: str, namespace: str, how: RetrievalConfig) -> list[Hit]:
        """The hits of one namespace; one that cannot be searched has none."""
        kind: dict[str, Any] = {} if how.strategy_id is None else {"type": how.strategy_id}
        try:
            hits = self.vault.search(
                words, namespace, limit=how.top_k, min_relevance=how.relevance_score, not_status=DRAFT, **kind
            )
        except MemfsError as error:
            log.warning("namespace %s: nothing is retrieved: %s", namespace, error)
            return []
        return sorted(hits, key=lambda hit: -hit.relevance)


def find_user_turn(messages: Sequence[Message]) -> int | None:
    """Where a person spoke last; None if that turn is over, or nobody did."""
    for at in range(len(messages) - 1, -1, -1):
        message = plain(messages[at])
        if is_user_turn([message]):
            return at
        if message.get("role") == "assistant" and all(kind_of(block) != "toolUse" for block in blocks_of(message)):
            return None
    return None


def _entry(hit: Hit) -> Found:
    memory = hit.memory
    text = memory.legible.strip()
    cut = f"{text[:LONGEST]} [cut: {len(text):,} characters; the whole is memory {memory.id}]"
    content = text if len(text) <= LONGEST else cut
    return Found(content, store_name=str(memory.namespace), relevance=hit.relevance, id=memory.id)
