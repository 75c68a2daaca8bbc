"""Distiller: runs a strategy on the turns of a session, and adds the source message to each fact it returns."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memfs.agent.extraction.config import CONTEXT_MESSAGES, ExtractorContext, Fact
from memfs.agent.messages import Message, blocks_of, kind_of, text_of
from memfs.agent.models.clients import call_sync_or_async
from memfs.errors import InvalidSetupError, short_repr
from memfs.query.tokens import STOP_WORDS
from memfs.stores.agent.vault_store import VaultStore

if TYPE_CHECKING:
    from memfs.agent.distill.strategies import Strategy

CONVERSATION_ROLES = frozenset({"user", "assistant"})
MAX_TOOL_TEXT_CHARS = 2_000  # of the input or the result of a tool
_WORD = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?<=\w{3})(?:s|ed|ing)$")


@dataclass
class StrategyContext(ExtractorContext):
    """The context of an extraction; `store` is the store that receives the strategy's memories."""

    store: VaultStore | None = None


def with_position(message: Message, session: str, number: int, agent: str = "") -> Message:
    """Return a message with its session, its number there, and its agent, from which strategies derive sources."""
    return {**message, "session": session, "number": number, **({"agent": agent} if agent else {})}


class Distiller:
    """Adapts a strategy to the extractor interface, for the store that receives its memories."""

    def __init__(self, strategy: "Strategy", store: VaultStore) -> None:
        self.strategy, self._store = strategy, store
        self.context_messages = int(getattr(strategy, "context_messages", CONTEXT_MESSAGES))
        self._reads_all = getattr(strategy, "reads", "talk") == "all"

    async def extract(self, messages: Sequence[Message], context: Any = None) -> list[Fact]:
        """Return the facts that the strategy finds in the turns, each with its source message.

        InvalidSetupError if the strategy returns something other than a Fact.
        """
        turns = self._as_text(messages)
        if not turns:
            return []
        facts = await call_sync_or_async(self.strategy.extract, turns, self._context(context))
        if invalid := [fact for fact in facts if not isinstance(fact, Fact)]:
            raise InvalidSetupError(
                f"strategy {self.strategy.name}", f"extract: {short_repr(invalid[0])} is not a Fact"
            )
        return [with_source(fact, turns) for fact in facts]

    def _context(self, given: Any) -> StrategyContext:
        base = given if isinstance(given, ExtractorContext) else ExtractorContext()
        return StrategyContext(
            base.default_model, self._as_text(base.previous), base.similar, base.is_strict, store=self._store
        )

    def _as_text(self, messages: Sequence[Message]) -> list[Message]:
        """Return the turns that the strategy reads, as plain text; turns without text are left out."""
        texts = (
            (message, full_text(message) if self._reads_all else conversation_text(message)) for message in messages
        )
        return [_text_message(message, text) for message, text in texts if text]


def conversation_text(message: Message) -> str:
    """Return the text of a person or the agent, without tool calls and tool results."""
    return text_of(message) if message.get("role") in CONVERSATION_ROLES else ""


def full_text(message: Message) -> str:
    """Return a message as text, with tool calls and tool results; blocks of other kinds are left out."""
    return "\n".join(filter(None, map(_block_text, blocks_of(message)))).strip()


def _block_text(block: Mapping[str, Any]) -> str:
    match kind_of(block):
        case "text":
            return str(block.get("text") or "")
        case "toolUse":
            call = block.get("toolUse") or block
            return (
                f"[calls {call.get('name', 'a tool')} with {_shorten(call.get('input'))}]" if call.get("name") else ""
            )
        case "toolResult":
            result = block.get("toolResult") or block
            return f"[the tool answers {_shorten(_result_content(result))}]"
    return ""


def _result_content(result: Mapping[str, Any]) -> object:
    content = result.get("content", result.get("text"))
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text", part.get("json")) if isinstance(part, Mapping) else part for part in parts]
    return texts[0] if len(texts) == 1 else texts


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=lambda _: "...")
    return text if len(text) <= MAX_TOOL_TEXT_CHARS else f"{text[:MAX_TOOL_TEXT_CHARS]}..."


def _text_message(message: Message, text: str) -> Message:
    position = {key: message[key] for key in ("session", "number") if key in message}
    return {"role": message.get("role", "unknown"), "content": text, **position}


def with_source(fact: Fact, turns: Sequence[Message]) -> Fact:
    """Return a fact with its source message; unchanged if it already has one, or if no source is found."""
    source = find_source(fact.content, turns)
    if source is None or (fact.metadata and "source" in fact.metadata):
        return fact
    return replace(fact, metadata={**(fact.metadata or {}), "source": source})


def find_source(text: str, turns: Sequence[Message]) -> str | None:
    """Return the source of a text: the first of the turns that share the most words with it.

    If none shares a word: the last turn of a person, or the last turn if no person spoke. None if no turn has a session
    and a number.
    """
    positioned = [
        turn for turn in turns if isinstance(turn.get("session"), str) and isinstance(turn.get("number"), int)
    ]
    if not positioned:
        return None
    words = _words(text)
    best = max(positioned, key=lambda turn: len(words & _words(turn["content"])))
    if not words & _words(best["content"]):
        best = next((turn for turn in reversed(positioned) if turn["role"] == "user"), positioned[-1])
    return f"session {best['session']}, message {best['number']}"


def _words(text: str) -> frozenset[str]:
    """Return the words of a text in roughly stemmed form, without stop words, for comparison."""
    return frozenset(_ENDING.sub("", word) for word in _WORD.findall(text.casefold()) if word not in STOP_WORDS)
