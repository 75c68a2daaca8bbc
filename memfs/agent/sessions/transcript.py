"""What was said in a session, and as text that people read: a turn at a time. Pure."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from memfs.agent.messages import Block, Message, blocks_of, kind_of
from memfs.agent.sessions.events import Event

LONG = 2_000  # characters of what a tool said that are shown
SHORT = 200  # of what is no message


def stamp_of(time: datetime) -> str:
    """A time, to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S}Z"


def said_in(event: Event) -> list[Message]:
    """The messages of an event: its own, or those of a payload in the form of AgentCore."""
    if event.kind == "message":
        return [event.message]
    payload = event.record.get("payload")
    parts = payload if isinstance(payload, list) else []
    return [message for part in parts if isinstance(part, dict) and (message := conversational(part))]


def conversational(part: Mapping[str, Any]) -> Message | None:
    """What was said in a part of an AgentCore event, as a message: that of Strands, where it is one in JSON."""
    said = part.get("conversational")
    content = said.get("content") if isinstance(said, Mapping) else None
    text = content.get("text") if isinstance(content, Mapping) else None
    if not isinstance(said, Mapping) or not isinstance(text, str):
        return None
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        message = json.loads(text)["message"]
        if isinstance(message, dict) and isinstance(message.get("role"), str) and is_content(message.get("content")):
            return message
    return {"role": str(said.get("role", "OTHER")).lower(), "content": text}


def is_content(value: object) -> bool:
    """Tell whether it can be what a message says."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(block, dict) for block in value))


def text_of(event: Event) -> str:
    """What an event says, in words."""
    messages = said_in(event)
    if not messages:
        return f"[{event.kind}] {_cut(_json(event.record.get(event.kind)), SHORT)}"
    told = [message_text(message) for message in messages]
    if event.role:
        return "\n".join(told)
    return "\n".join(f"{message.get('role')}: {text}" for message, text in zip(messages, told, strict=True))


def message_text(message: Message) -> str:
    """The words of a message, and in brackets what else is in it."""
    parts = [_block(block) for block in blocks_of(message)]
    return "\n".join(part for part in parts if part)


def markdown(title: str, turns: Iterable[tuple[str, Event]]) -> str:
    """A session as a markdown page, an event below its heading each."""
    parts = [f"# {title}"]
    for heading, event in turns:
        parts += [f"## {heading}", text_of(event)]
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
    return _cut(" ".join(texts), LONG)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=lambda other: f"({type(other).__name__})")
