"""The messages of events, and their text for people: terminal lines and markdown pages. Pure."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from memfs.agent.messages import Block, Message, blocks_of, kind_of
from memfs.agent.sessions.events import Event

MAX_TOOL_RESULT_CHARS = 2_000
MAX_RECORD_CHARS = 200  # of an event that is not a message


def format_timestamp(time: datetime) -> str:
    """Return a time to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S}Z"


def messages_in(event: Event) -> list[Message]:
    """Return the messages of an event: its own, or those of a payload in AgentCore's form; empty for other kinds."""
    if event.kind == "message":
        return [event.message]
    payload = event.record.get("payload")
    parts = payload if isinstance(payload, list) else []
    return [message for part in parts if isinstance(part, dict) and (message := agentcore_message(part))]


def agentcore_message(part: Mapping[str, Any]) -> Message | None:
    """Return the message in one part of an AgentCore event, or None; a Strands message in JSON is decoded."""
    inner = part.get("conversational")
    content = inner.get("content") if isinstance(inner, Mapping) else None
    text = content.get("text") if isinstance(content, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(text, str):
        return None
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        message = json.loads(text)["message"]
        if (
            isinstance(message, dict)
            and isinstance(message.get("role"), str)
            and is_message_content(message.get("content"))
        ):
            return message
    return {"role": str(inner.get("role", "OTHER")).lower(), "content": text}


def is_message_content(value: object) -> bool:
    """Return whether a value can be the content of a message: a text, or a list of blocks."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(block, dict) for block in value))


def event_text(event: Event) -> str:
    """Return an event as text; messages of several roles start with their role."""
    messages = messages_in(event)
    if not messages:
        return f"[{event.kind}] {_shorten(_json(event.record.get(event.kind)), MAX_RECORD_CHARS)}"
    texts = [message_text(message) for message in messages]
    if event.role:
        return "\n".join(texts)
    return "\n".join(f"{message.get('role')}: {text}" for message, text in zip(messages, texts, strict=True))


def message_text(message: Message) -> str:
    """Return the text of a message, with its other blocks in brackets."""
    parts = [_block_text(block) for block in blocks_of(message)]
    return "\n".join(part for part in parts if part)


def render_markdown(title: str, turns: Iterable[tuple[str, Event]]) -> str:
    """Return a session as a markdown page: one heading per event, with the text of the event below it."""
    parts = [f"# {title}"]
    for heading, event in turns:
        parts += [f"## {heading}", event_text(event)]
    return "\n\n".join(parts) + "\n"


def _block_text(block: Block) -> str:
    kind = kind_of(block)
    inner = block.get(kind)
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else block
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "toolUse":
        arguments = fields.get("input", fields.get("arguments", {}))
        return f"[tool {fields.get('name', '?')} {_json(arguments)}]"
    if kind == "toolResult":
        return f"[result {_result_text(fields.get('content', fields.get('text', fields.get('output', ''))))}]"
    if kind == "reasoningContent":
        return "[reasoning]"
    return f"[{kind}]" if kind else ""


def _result_text(content: Any) -> str:
    """Return the result of a tool as text, shortened to MAX_TOOL_RESULT_CHARS."""
    items = content if isinstance(content, list) else [content]
    texts = []
    for item in items:
        if not isinstance(item, Mapping):
            texts.append(str(item))
        elif kind_of(item) == "text":
            texts.append(str(item.get("text", "")))
        else:
            texts.append(_json(item["json"]) if "json" in item else f"[{kind_of(item)}]")
    return _shorten(" ".join(texts), MAX_TOOL_RESULT_CHARS)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=lambda other: f"({type(other).__name__})")
