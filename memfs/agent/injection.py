"""Injection: memories that are added to one model call, and never become part of the conversation."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memfs.agent.echo_filter import EchoFilter
from memfs.agent.messages import Message, estimate_tokens, is_user_turn, search_query
from memfs.agent.telemetry import Telemetry, call_safely
from memfs.argument_checks import check_keys, is_int, is_number
from memfs.errors import InvalidSetupError

log = logging.getLogger("memfs.agent")
DEFAULT_MAX_ENTRIES = 5
DEFAULT_MAX_TOKENS = 1000  # of all memories of a call together
MIN_PIECE_TOKENS = 50  # the smallest share of the budget that an entry gets
DEFAULT_MIN_RELEVANCE = 0.2
DEFAULT_MAX_SECONDS = 5.0  # after this time the model is called without memories
CONFIG_KEYS = ("trigger", "max_entries", "query", "format", "min_relevance", "max_tokens", "max_seconds", "pinned")
_UNSAFE_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
Search = Callable[[str, int], Awaitable[Sequence[Any]]]


@dataclass
class InjectionContext:
    """The argument of a custom `trigger`."""

    messages: list[Message]
    state: Any = None
    agent: Any = None


@dataclass
class QueryContext:
    """The argument of a custom `query`."""

    messages: list[Message]


@dataclass
class FormatContext:
    """The argument of a custom `format`."""

    entries: list[Any]


def check_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an injection config unchanged; raise InvalidSetupError for unknown keys and wrong values."""
    check_keys("injection", config, *CONFIG_KEYS)
    for key, low in (("max_entries", 1), ("max_tokens", 1)):
        value = config.get(key, low)
        if not is_int(value, low):
            raise InvalidSetupError("injection", f"{key} must be a whole number from {low}, got {value!r}")
    seconds = config.get("max_seconds", DEFAULT_MAX_SECONDS)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds <= 0:
        raise InvalidSetupError("injection", f"max_seconds must be a number above 0, got {seconds!r}")
    relevance = config.get("min_relevance", DEFAULT_MIN_RELEVANCE)
    if not is_number(relevance, 0, 1):
        raise InvalidSetupError("injection", f"min_relevance must be from 0 to 1, got {relevance!r}")
    if not isinstance(pinned := config.get("pinned", True), bool):
        raise InvalidSetupError("injection", f"pinned must be True or False, got {pinned!r}")
    for key in ("query", "format"):
        if config.get(key) is not None and not callable(config[key]):
            raise InvalidSetupError("injection", f"{key} must be a function, got {config[key]!r}")
    trigger = config.get("trigger", "userTurn")
    if trigger not in ("userTurn", "everyTurn") and not callable(trigger):
        raise InvalidSetupError("injection", f"trigger must be 'userTurn', 'everyTurn' or a function, got {trigger!r}")
    return config


def should_inject(config: Mapping[str, Any], context: Any) -> bool:
    """Return whether memories are added to this model call; a trigger that raises counts as False."""
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
    """Searches the memories for a model call and renders them."""

    search: Search
    pinned: Callable[[int], Awaitable[Sequence[Any]]]
    echo_filter: EchoFilter
    telemetry: Telemetry

    async def provide(self, messages: Sequence[Message], config: Mapping[str, Any]) -> str | None:
        """Return the text to add to a model call, or None; a callback that raises skips the injection."""
        max_entries = config.get("max_entries") or DEFAULT_MAX_ENTRIES
        span = call_safely(self.telemetry.start, "inject", max_entries=max_entries)
        outcome = {"injected": False, "entry_count": 0, "format_error": False}
        try:
            with self.telemetry.current(span):
                return await self._provide(messages, config, max_entries, outcome)
        finally:
            call_safely(self.telemetry.end, "inject", span, **outcome)

    async def _provide(
        self, messages: Sequence[Message], config: Mapping[str, Any], max_entries: int, outcome: dict[str, Any]
    ) -> str | None:
        query = _query(messages, config)
        if query is None or not query.strip():
            return None
        # Pinned memories take at most half of the entries, so that the search has its share.
        half = (max_entries + 1) // 2 if config.get("pinned", True) else 0
        pinned, hits = await asyncio.gather(
            self.pinned(half) if half else _no_entries(), self.search(query, max_entries)
        )
        min_relevance = config.get("min_relevance", DEFAULT_MIN_RELEVANCE)
        found = select([*pinned[:half], *hits], min_relevance)[:max_entries]
        entries = fit_budget(found, config.get("max_tokens", DEFAULT_MAX_TOKENS))
        if not entries:
            return None
        try:
            custom_format = config.get("format")
            text: str = custom_format(FormatContext(entries)) if custom_format is not None else render(entries)
        except Exception as error:
            log.warning("injection format raised, skipping injection: %s", error)
            outcome["format_error"] = True
            return None
        if not text:
            return None
        self.echo_filter.record(entry.content for entry in found)
        outcome |= {"injected": True, "entry_count": len(entries)}
        return text


async def _no_entries() -> Sequence[Any]:
    return ()


def _query(messages: Sequence[Message], config: Mapping[str, Any]) -> str | None:
    custom_query = config.get("query")
    if custom_query is None:
        return search_query(messages)
    try:
        query: str | None = custom_query(QueryContext(list(messages)))
    except Exception as error:
        log.warning("injection query raised, skipping injection: %s", error)
        return None
    return query


def interleave(found: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the entries of several stores by rank: the first of each store, then the second of each, and so on.

    Of the same rank the most relevant is first; an entry without a relevance counts as fully relevant.
    """
    merged: list[Any] = []
    for rank in range(max(map(len, found), default=0)):
        heads = [entries[rank] for entries in found if rank < len(entries)]
        merged += sorted(heads, key=lambda entry: -_relevance(entry, 1.0))
    return merged


def select(entries: Iterable[Any], min_relevance: float) -> list[Any]:
    """Return the entries that are relevant enough, pinned, or without a relevance; each memory once."""
    chosen: dict[object, Any] = {}
    for entry in entries:
        if getattr(entry, "pinned", False) or _relevance(entry, 1.0) >= min_relevance:
            chosen.setdefault(_identity(entry), entry)
    return list(chosen.values())


def _identity(entry: Any) -> object:
    """Return a key that two entries of one memory share; an id that memfs did not make is unique in its store only."""
    entry_id = getattr(entry, "id", None)
    if not entry_id:
        return entry.content
    return entry_id if entry_id.startswith("m-") else (entry.store_name, entry_id)


def fit_budget(entries: Sequence[Any], budget: int) -> list[Any]:
    """Return the entries within a budget of tokens, of which each entry gets an equal share of what remains.

    A longer entry is cut and marked, and left out if only the mark would fit.
    """
    chosen = []
    for position, entry in enumerate(entries):
        share = max(budget // (len(entries) - position), min(budget, MIN_PIECE_TOKENS))
        is_short = len(entry.content) <= share * 4 and _rendered_tokens(entry.content) <= share
        content = entry.content if is_short else _cut(entry, share)
        if content:
            chosen.append(replace(entry, content=content))
            budget -= _rendered_tokens(content)
    return chosen


def _cut(entry: Any, share: int) -> str:
    """Return the beginning of an entry and a mark; an empty text if only the mark fits."""
    entry_id = getattr(entry, "id", None)
    mark = f" [cut: {len(entry.content):,} characters" + (f"; the whole is memory {entry_id}]" if entry_id else "]")
    text: str = entry.content[: share * 4]
    while text and _rendered_tokens(text) + _rendered_tokens(mark) > share:
        text = text[: int(len(text) * 0.9)]
    return text.rstrip() + mark if text.strip() else ""


def _rendered_tokens(text: str) -> int:
    """Return the estimated tokens of a text as it is rendered."""
    return estimate_tokens(_escape(text))


def render(entries: Iterable[Any], tag: str = "memory") -> str:
    """Return entries as the text for the model, between tags. Contents are escaped: none can end the block."""
    return "\n".join([f"<{tag}>", *(_render_entry(entry) for entry in entries), f"</{tag}>"])


def _render_entry(entry: Any) -> str:
    source = f' source="{_escape_attribute(entry.store_name)}"' if entry.store_name else ""
    id_ = f' id="{_escape_attribute(entry.id)}"' if getattr(entry, "id", None) else ""
    return f"<entry{source}{id_}>{_escape(entry.content)}</entry>"


def _escape(text: str) -> str:
    """Return a text with escaped tags, and without characters for which a model's service may refuse the call."""
    return _UNSAFE_CHARACTERS.sub("", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_attribute(text: str) -> str:
    return _escape(text).replace('"', "&quot;").replace("'", "&#39;")


def _relevance(entry: Any, default: float) -> float:
    relevance = getattr(entry, "relevance", None)
    return default if relevance is None else float(relevance)
