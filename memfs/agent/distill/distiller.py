"""From the turns of a session to what a strategy is short_repr, and from what it says to memories with a source."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memfs.agent.extraction.config import CONTEXT, ExtractorContext, Fact
from memfs.agent.messages import Message, blocks_of, kind_of, text_of
from memfs.agent.models.clients import call
from memfs.errors import InvalidSetupError, short_repr
from memfs.query.tokens import STOP_WORDS
from memfs.stores.agent.vault_store import VaultStore

if TYPE_CHECKING:
    from memfs.agent.distill.strategies import Strategy

CONVERSATION_ROLES = frozenset({"user", "assistant"})
LONGEST = 2_000  # characters of what a tool was told, or answered
_WORD = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?<=\w{3})(?:s|ed|ing)$")


@dataclass
class StrategyContext(ExtractorContext):
    """What a strategy may look at besides the turns; `store` is where its memories go."""

    store: VaultStore | None = None


def with_position(message: Message, session: str, number: int, agent: str = "") -> Message:
    """A message as it is taken down for strategies: it knows its session, its agent, and its number there."""
    return {**message, "session": session, "number": number, **({"agent": agent} if agent else {})}


class Distiller:
    """A strategy as an extractor of the turns that one store gets."""

    def __init__(self, strategy: "Strategy", store: VaultStore) -> None:
        self.strategy, self._store = strategy, store
        self.context_messages = int(getattr(strategy, "context_messages", CONTEXT))
        self._reads_all = getattr(strategy, "reads", "talk") == "all"

    async def extract(self, messages: Sequence[Message], context: Any = None) -> list[Fact]:
        """What the strategy says of the turns, each with the message it comes from."""
        turns = self._shown(messages)
        if not turns:
            return []
        facts = await call(self.strategy.extract, turns, self._context(context))
        if odd := [fact for fact in facts if not isinstance(fact, Fact)]:
            raise InvalidSetupError(f"strategy {self.strategy.name}", f"extract: {short_repr(odd[0])} is not a Fact")
        return [with_source(fact, turns) for fact in facts]

    def _context(self, given: Any) -> StrategyContext:
        known = given if isinstance(given, ExtractorContext) else ExtractorContext()
        return StrategyContext(
            known.default_model, self._shown(known.previous), known.similar, known.is_strict, store=self._store
        )

    def _shown(self, messages: Sequence[Message]) -> list[Message]:
        """The turns that the strategy reads, in words; those without a word are left out."""
        texts = (
            (message, full_text(message) if self._reads_all else conversation_text(message)) for message in messages
        )
        return [_worded(message, text) for message, text in texts if text]


def conversation_text(message: Message) -> str:
    """What a person or the agent said; nothing of what tools were told and answered."""
    return text_of(message) if message.get("role") in CONVERSATION_ROLES else ""


def full_text(message: Message) -> str:
    """All of a message in words, also what tools were told and answered."""
    return "\n".join(filter(None, map(_words_of, blocks_of(message)))).strip()


def _words_of(block: Mapping[str, Any]) -> str:
    match kind_of(block):
        case "text":
            return str(block.get("text") or "")
        case "toolUse":
            call = block.get("toolUse") or block
            return f"[calls {call.get('name', 'a tool')} with {_short(call.get('input'))}]" if call.get("name") else ""
        case "toolResult":
            result = block.get("toolResult") or block
            return f"[the tool answers {_short(_answer(result))}]"
    return ""


def _answer(result: Mapping[str, Any]) -> object:
    content = result.get("content", result.get("text"))
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text", part.get("json")) if isinstance(part, Mapping) else part for part in parts]
    return texts[0] if len(texts) == 1 else texts


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=lambda _: "...")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _worded(message: Message, text: str) -> Message:
    where = {key: message[key] for key in ("session", "number") if key in message}
    return {"role": message.get("role", "unknown"), "content": text, **where}


def with_source(fact: Fact, turns: Sequence[Message]) -> Fact:
    """A fact with the message it comes from, unless it names a source itself."""
    source = find_source(fact.content, turns)
    if source is None or (fact.metadata and "source" in fact.metadata):
        return fact
    return replace(fact, metadata={**(fact.metadata or {}), "source": source})


def find_source(text: str, turns: Sequence[Message]) -> str | None:
    """The turn that has most of a text's words, the earliest of several; without a common word the last of a person."""
    known = [turn for turn in turns if isinstance(turn.get("session"), str) and isinstance(turn.get("number"), int)]
    if not known:
        return None
    words = _words(text)
    best = max(known, key=lambda turn: len(words & _words(turn["content"])))
    if not words & _words(best["content"]):
        best = next((turn for turn in reversed(known) if turn["role"] == "user"), known[-1])
    return f"session {best['session']}, message {best['number']}"


def _words(text: str) -> frozenset[str]:
    """What a text is compared by: its words, about as their stems."""
    return frozenset(_ENDING.sub("", word) for word in _WORD.findall(text.casefold()) if word not in STOP_WORDS)
