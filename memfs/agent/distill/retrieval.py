"""Retriever: adds memories of a vault to a user turn. They never become part of the session."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memfs.agent.distill.config import RetrievalConfig
from memfs.agent.injection import fit_budget, render
from memfs.agent.messages import Message, append_text, as_mappings, blocks_of, is_user_turn, kind_of, text_of
from memfs.data_types import Hit
from memfs.errors import MemfsError
from memfs.stores.agent.protocol import Found
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")
RETRIEVAL_TIMEOUT_SECONDS = 5.0  # after that the model is called without memories
MAX_CONTEXT_TOKENS = 25_000  # of all memories in one call together
MAX_MEMORY_CHARS = 4_000  # of one memory
DRAFT_STATUS = "draft"  # of a memory that waits for a person's review
_QUERY_OPERATORS = re.compile(r'["“”*]')  # in a conversation they are plain characters


@dataclass
class Retriever:
    """Searches the namespaces of a session, given as `lookups`, and adds the result to the current user turn.

    `on_retrieved` is called with the added texts, so that extraction can ignore their echo.
    """

    vault: Vault
    lookups: Sequence[tuple[str, RetrievalConfig]]
    tag: str = "user_context"
    on_retrieved: Callable[[Iterable[str]], None] = lambda _: None
    _turn: tuple[object, str] | None = field(default=None, init=False, repr=False)  # the turn of `_text`
    _text: str = field(default="", init=False, repr=False)

    async def inject(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation for one model call with memories added; the given list is not changed.

        All calls of a turn get the same memories, also those that follow a tool result.
        """
        index = find_user_turn(messages)
        text = "" if index is None else await self._text_for(index, as_mappings(messages[index]))
        if index is None or not text:
            return list(messages)
        return [*append_text(messages[: index + 1], text), *messages[index + 1 :]]

    async def _text_for(self, index: int, message: Message) -> str:
        """Return the text to add to a turn, cached for its other calls; empty if the search fails or takes too long."""
        turn = (message.get("tracking_id", index), text_of(message))
        if turn == self._turn:
            return self._text
        try:
            async with asyncio.timeout(RETRIEVAL_TIMEOUT_SECONDS):
                self._text = await asyncio.to_thread(self.text, turn[1])
        except Exception as error:
            log.warning("nothing is retrieved: %s", str(error) or type(error).__name__)
            return ""
        self._turn = turn
        return self._text

    def text(self, question: str) -> str:
        """Return the memories for a question as escaped text between tags, and record their use; empty if none."""
        hits = self.search(question)
        if question.strip() and self.lookups:
            self.vault.usage.searched([hit.memory.id for hit in hits])
        found = fit_budget([_entry(hit) for hit in hits], MAX_CONTEXT_TOKENS)
        self.on_retrieved(entry.content for entry in found)
        return render(found, self.tag) if found else ""

    def search(self, question: str) -> list[Hit]:
        """Return the hits of one namespace after the other, each with its most relevant first; each memory once."""
        words = _QUERY_OPERATORS.sub(" ", question).strip()
        hits: dict[str, Hit] = {}
        for namespace, config in self.lookups if words else ():
            for hit in self._search_namespace(words, namespace, config):
                hits.setdefault(hit.memory.path, hit)
        return list(hits.values())

    def _search_namespace(self, words: str, namespace: str, config: RetrievalConfig) -> list[Hit]:
        """Return the hits of one namespace, most relevant first; none, with a warning, if it cannot be searched."""
        kind: dict[str, Any] = {} if config.strategy_id is None else {"type": config.strategy_id}
        try:
            hits = self.vault.search(
                words,
                namespace,
                limit=config.top_k,
                min_relevance=config.relevance_score,
                not_status=DRAFT_STATUS,
                **kind,
            )
        except MemfsError as error:
            log.warning("namespace %s: nothing is retrieved: %s", namespace, error)
            return []
        return sorted(hits, key=lambda hit: -hit.relevance)


def find_user_turn(messages: Sequence[Message]) -> int | None:
    """Return the index of the last message of a person; None if there is none, or the agent has replied to it."""
    for index in range(len(messages) - 1, -1, -1):
        message = as_mappings(messages[index])
        if is_user_turn([message]):
            return index
        # A message that calls a tool is not the reply yet.
        if message.get("role") == "assistant" and all(kind_of(block) != "toolUse" for block in blocks_of(message)):
            return None
    return None


def _entry(hit: Hit) -> Found:
    memory = hit.memory
    text = memory.legible.strip()
    shortened = f"{text[:MAX_MEMORY_CHARS]} [cut: {len(text):,} characters; the whole is memory {memory.id}]"
    content = text if len(text) <= MAX_MEMORY_CHARS else shortened
    return Found(content, store_name=str(memory.namespace), relevance=hit.relevance, id=memory.id)
