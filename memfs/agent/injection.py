"""Injection: memories that are told to the model for one call, and never become part of the conversation."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memfs.agent.echo_filter import EchoFilter
from memfs.agent.messages import Message, is_user_turn, question_of, tokens
from memfs.agent.telemetry import Telemetry, quietly
from memfs.argument_checks import check_keys
from memfs.errors import InvalidSetupError

log = logging.getLogger("memfs.agent")
ENTRIES = 5
TOKENS = 1000  # that all memories of a call may take together
LEAST = 50  # tokens of a piece that is worth telling
FLOOR = 0.2
SECONDS = 5.0  # after which a model is called without
KEYS = ("trigger", "max_entries", "query", "format", "min_relevance", "max_tokens", "max_seconds", "pinned")
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
Search = Callable[[str, int], Awaitable[Sequence[Any]]]


@dataclass
class InjectionContext:
    """What a trigger of one's own looks at."""

    messages: list[Message]
    state: Any = None
    agent: Any = None


@dataclass
class QueryContext:
    """What a query of one's own is made from."""

    messages: list[Message]


@dataclass
class FormatContext:
    """What a format of one's own renders."""

    entries: list[Any]


def check(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse what injection does not know."""
    check_keys("injection", config, *KEYS)
    for key, low in (("max_entries", 1), ("max_tokens", 1)):
        value = config.get(key, low)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise InvalidSetupError("injection", f"{key} must be a whole number from {low}, got {value!r}")
    seconds = config.get("max_seconds", SECONDS)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
        raise InvalidSetupError("injection", f"max_seconds must be a number above 0, got {seconds!r}")
    floor = config.get("min_relevance", FLOOR)
    if not isinstance(floor, int | float) or isinstance(floor, bool) or not 0 <= floor <= 1:
        raise InvalidSetupError("injection", f"min_relevance must be from 0 to 1, got {floor!r}")
    if not isinstance(pinned := config.get("pinned", True), bool):
        raise InvalidSetupError("injection", f"pinned must be True or False, got {pinned!r}")
    for key in ("query", "format"):
        if config.get(key) is not None and not callable(config[key]):
            raise InvalidSetupError("injection", f"{key} must be a function, got {config[key]!r}")
    trigger = config.get("trigger", "userTurn")
    if trigger not in ("userTurn", "everyTurn") and not callable(trigger):
        raise InvalidSetupError("injection", f"trigger must be 'userTurn', 'everyTurn' or a function, got {trigger!r}")
    return config


def wants(config: Mapping[str, Any], context: Any) -> bool:
    """Tell whether memories are told before this model call; a trigger that raises says no."""
    trigger: Any = config.get("trigger") or "userTurn"
    if trigger == "userTurn":
        return is_user_turn(context.messages)
    if trigger == "everyTurn":
        return True
    try:
        return bool(trigger(context))
    except Exception as error:
        log.warning("injection trigger raised, skipping injection: %s", error)
        return False


@dataclass
class Injector:
    """Looks up what to tell, and puts it in words."""

    search: Search
    pinned: Callable[[int], Awaitable[Sequence[Any]]]
    ledger: EchoFilter
    telemetry: Telemetry

    async def provide(self, messages: Sequence[Message], config: Mapping[str, Any]) -> str | None:
        """The text to tell before a model call, or None. What a callback raises skips it."""
        most = config.get("max_entries") or ENTRIES
        span = quietly(self.telemetry.start, "inject", max_entries=most)
        outcome = {"injected": False, "entry_count": 0, "format_error": False}
        try:
            with self.telemetry.current(span):
                return await self._provide(messages, config, most, outcome)
        finally:
            quietly(self.telemetry.end, "inject", span, **outcome)

    async def _provide(
        self, messages: Sequence[Message], config: Mapping[str, Any], most: int, outcome: dict[str, Any]
    ) -> str | None:
        query = _query(messages, config)
        if query is None or not query.strip():
            return None
        half = (most + 1) // 2 if config.get("pinned", True) else 0
        pinned, hits = await asyncio.gather(self.pinned(half) if half else _nothing(), self.search(query, most))
        found = select([*pinned[:half], *hits], config.get("min_relevance", FLOOR))[:most]
        entries = within(found, config.get("max_tokens", TOKENS))
        if not entries:
            return None
        try:
            form = config.get("format")
            text: str = form(FormatContext(entries)) if form is not None else render(entries)
        except Exception as error:
            log.warning("injection format raised, skipping injection: %s", error)
            outcome["format_error"] = True
            return None
        if not text:
            return None
        self.ledger.note(entry.content for entry in found)
        outcome |= {"injected": True, "entry_count": len(entries)}
        return text


async def _nothing() -> Sequence[Any]:
    return ()


def _query(messages: Sequence[Message], config: Mapping[str, Any]) -> str | None:
    own = config.get("query")
    if own is None:
        return question_of(messages)
    try:
        query: str | None = own(QueryContext(list(messages)))
    except Exception as error:
        log.warning("injection query raised, skipping injection: %s", error)
        return None
    return query


def interleave(found: Sequence[Sequence[Any]]) -> list[Any]:
    """What several stores found, in turns: of each store's next the most relevant first."""
    merged: list[Any] = []
    for rank in range(max(map(len, found), default=0)):
        heads = [entries[rank] for entries in found if rank < len(entries)]
        merged += sorted(heads, key=lambda entry: -_relevance(entry, 1.0))
    return merged


def select(entries: Iterable[Any], floor: float) -> list[Any]:
    """The entries worth telling: above the floor, or pinned; each memory once."""
    chosen: dict[object, Any] = {}
    for entry in entries:
        if getattr(entry, "pinned", False) or _relevance(entry, 1.0) >= floor:
            chosen.setdefault(_identity(entry), entry)
    return list(chosen.values())


def _identity(entry: Any) -> object:
    """What two of the same memory have in common; other ids than ours may be those of another store too."""
    name = getattr(entry, "id", None)
    return entry.content if not name else name if name.startswith("m-") else (entry.store_name, name)


def within(entries: Sequence[Any], budget: int) -> list[Any]:
    """The entries within a budget of tokens: a long one is cut, and says so; what has no room is left out."""
    chosen = []
    for at, entry in enumerate(entries):
        share = max(budget // (len(entries) - at), min(budget, LEAST))
        is_short = len(entry.content) <= share * 4 and _size(entry.content) <= share
        content = entry.content if is_short else _cut(entry, share)
        if content:
            chosen.append(replace(entry, content=content))
            budget -= _size(content)
    return chosen


def _cut(entry: Any, share: int) -> str:
    """The beginning of an entry and a mark; nothing if there is only room for the mark."""
    name = getattr(entry, "id", None)
    mark = f" [cut: {len(entry.content):,} characters" + (f"; the whole is memory {name}]" if name else "]")
    text: str = entry.content[: share * 4]
    while text and _size(text) + _size(mark) > share:
        text = text[: int(len(text) * 0.9)]
    return text.rstrip() + mark if text.strip() else ""


def _size(text: str) -> int:
    """Tokens of a text as it is rendered."""
    return tokens(_escaped(text))


def render(entries: Iterable[Any], tag: str = "memory") -> str:
    """Entries as the model is told them. What they say is data: no mark of theirs ends the block."""
    return "\n".join([f"<{tag}>", *(_entry(entry) for entry in entries), f"</{tag}>"])


def _entry(entry: Any) -> str:
    source = f' source="{_quoted(entry.store_name)}"' if entry.store_name else ""
    name = f' id="{_quoted(entry.id)}"' if getattr(entry, "id", None) else ""
    return f"<entry{source}{name}>{_escaped(entry.content)}</entry>"


def _escaped(text: str) -> str:
    """A text that ends no tag, without signs that a model's service may refuse the call for."""
    return _UNFIT.sub("", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', "&quot;").replace("'", "&#39;")


def _relevance(entry: Any, unknown: float) -> float:
    relevance = getattr(entry, "relevance", None)
    return unknown if relevance is None else float(relevance)
