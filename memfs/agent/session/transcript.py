"""A session as text that people read: a turn at a time. Pure."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memfs.agent.messages import Block, Message, blocks_of, kind_of
from memfs.agent.session.events import Event

LONG = 2_000  # characters of what a tool said that are shown


def stamp_of(time: datetime) -> str:
    """A time, to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S}Z"


def text_of(event: Event) -> str:
    """What an event says, in words."""
    if event.kind == "message":
        return message_text(event.message)
    return f"[{event.kind}] {_json(event.record.get(event.kind))}"


def message_text(message: Message) -> str:
    """The words of a message, and in brackets what else is in it."""
    parts = [_block(block) for block in blocks_of(message)]
    return "\n".join(part for part in parts if part)


def markdown(title: str, events: Iterable[Event]) -> str:
    """A session as a markdown page."""
    parts = [f"# {title}"]
    for event in events:
        parts.append(f"## {event.role or event.kind}, {stamp_of(event.time)}")
        parts.append(text_of(event))
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    kind = kind_of(block)
    inner = block.get(kind)
    held: Mapping[str, Any] = inner if isinstance(inner, Mapping) else block
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "toolUse":
        asked = held.get("input", held.get("arguments", {}))
        return f"[tool {held.get('name', '?')} {_json(asked)}]"
    if kind == "toolResult":
        return f"[result {_result(held.get('content', held.get('text', held.get('output', ''))))}]"
    if kind == "reasoningContent":
        return "[reasoning]"
    return f"[{kind}]" if kind else ""


def _result(content: Any) -> str:
    """What a tool said, cut where it is long."""
    items = content if isinstance(content, list) else [content]
    texts = []
    for item in items:
        if not isinstance(item, Mapping):
            texts.append(str(item))
        elif kind_of(item) == "text":
            texts.append(str(item.get("text", "")))
        else:
            texts.append(_json(item["json"]) if "json" in item else f"[{kind_of(item)}]")
    text = " ".join(texts)
    return text if len(text) <= LONG else f"{text[:LONG]}... ({len(text):,} characters)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=lambda other: f"({type(other).__name__})")
