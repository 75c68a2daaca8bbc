"""Messages of a conversation in the shapes of several frameworks. Pure.

A message is a mapping with `role` and `content`; content is text or a list of blocks. The kind of a block is its `type`
(OpenAI, Anthropic) or its only key (Strands). No function changes a message: the results are copies.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
Block = Mapping[str, Any]

_KINDS = {  # the kinds of other frameworks, and Strands' name for them
    "input_text": "text",
    "output_text": "text",
    "tool_use": "toolUse",
    "function_call": "toolUse",
    "tool_result": "toolResult",
    "function_call_output": "toolResult",
    "image_url": "image",
    "input_image": "image",
    "thinking": "reasoningContent",
    "reasoning": "reasoningContent",
}
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


def kind_of(block: Block | str) -> str:
    """Return the kind of a block under Strands' name: text, toolUse, toolResult, image and so on."""
    if not isinstance(block, Mapping):
        return "text"
    named = block.get("type")
    if isinstance(named, str):
        ending = re.search("tool_(?:use|result)$", named)  # such as server_tool_use
        return _KINDS.get(ending[0] if ending else named, named)
    return next(iter(block), "")


def as_mappings(value: Any) -> Any:
    """Return a message or a block with mappings in place of the objects that the clients of models use."""
    message = value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, list) and any(hasattr(block, "model_dump") for block in content):
        return {**message, "content": [as_mappings(block) for block in content]}
    return message


def copy_message(message: Message) -> Message:
    """Return a copy of a message and its blocks, which later changes of the original do not affect."""
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return dict(message)
    return {**message, "content": [dict(block) if isinstance(block, Mapping) else block for block in content]}


def blocks_of(message: Message) -> Sequence[Block]:
    """Return the blocks of a message; a text is one block.

    The blocks of a tool's message are tool results, and each of the `tool_calls` of OpenAI is a block of its own.
    """
    content = message.get("content")
    given = content if isinstance(content, list | tuple) else [content] if content else ()
    blocks: list[Block] = [block if isinstance(block, Mapping) else {"text": str(block)} for block in given]
    if message.get("role") in {"tool", "function"}:
        blocks = [{**block, "type": "tool_result"} for block in blocks]
    calls = message.get("tool_calls")
    return [*blocks, *({"type": "tool_use"} for _ in (calls if isinstance(calls, list | tuple) else ()))]


def text_of(message: Message) -> str:
    """Return the text of a message, without tool calls and tool results."""
    texts = (block.get("text") for block in blocks_of(message) if kind_of(block) == "text")
    return "\n".join(text for text in texts if isinstance(text, str) and text).strip()


def without_kinds(message: Message, kinds: Iterable[str]) -> Message | None:
    """Return a message without blocks of these kinds; None if it has no other blocks.

    A message from which blocks were removed has only its role, content and metadata.
    """
    excluded = frozenset(kinds)
    content = message.get("content")
    blocks = blocks_of(message)
    kept = [block for block in blocks if kind_of(block) not in excluded]
    if not kept:
        return None
    if len(kept) == len(blocks):
        return message
    if isinstance(content, str):
        return {"role": message["role"], "content": content}
    remaining = [
        block for block in (content if isinstance(content, list | tuple) else ()) if kind_of(block) not in excluded
    ]
    cut: dict[str, Any] = {"role": message["role"], "content": remaining}
    if message.get("metadata") is not None:
        cut["metadata"] = message["metadata"]
    return cut


def is_user_turn(messages: Sequence[Message]) -> bool:
    """Return whether the last message is from the user, and not the result of a tool."""
    if not messages or messages[-1].get("role") != "user":
        return False
    return all(kind_of(block) != "toolResult" for block in blocks_of(messages[-1]))


def search_query(messages: Sequence[Message]) -> str | None:
    """Return the query for the next model call, or None if there is no text for it.

    It is the user's last text or, if the last message is not a user turn, the agent's.
    """
    role = "user" if is_user_turn(messages) else "assistant"
    for message in reversed(messages):
        if message.get("role") == role:
            return text_of(message) or None
    return None


def transcript(messages: Iterable[Message]) -> str:
    """Return a conversation as text, each turn as `role: text`."""
    return "\n".join(f"{message.get('role', 'unknown')}: {text_of(message)}" for message in messages)


def append_text(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the conversation with a text appended to the last user message; `messages` is not changed."""
    for position in range(len(messages) - 1, -1, -1):
        if (message := as_mappings(messages[position])).get("role") == "user":
            return [*messages[:position], _with_text(message, text), *messages[position + 1 :]]
    return list(messages)


def _with_text(message: Message, text: str) -> Message:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{text}" if content else text}
    blocks: Sequence[Block] = content if isinstance(content, list | tuple) else [content] if content else ()
    has_text = any(kind_of(block) == "text" for block in blocks)
    block: dict[str, Any] = {"text": f"\n\n{text}" if has_text else text}
    if any(isinstance(one, Mapping) and "type" in one for one in blocks):
        block = {"type": "text", **block}
    return {**message, "content": [*blocks, block]}


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has: one per four letters, or per character of a script without spaces."""
    unspaced = 0 if text.isascii() else len(_UNSPACED.findall(text))
    return unspaced + (len(text) - unspaced + 3) // 4
