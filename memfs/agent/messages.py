"""Messages of a conversation, in the shapes agents have them. Pure.

A message is a mapping with `role` and `content`; content is text or a list of blocks. A block is known by its
`type` (OpenAI, Anthropic) or by its one key (Strands). Nothing here changes a message: what is cut is a copy.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
Block = Mapping[str, Any]

_KINDS = {  # the words of other frameworks for what Strands calls so
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
_WIDE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


def kind_of(block: Block | str) -> str:
    """What a block is: text, toolUse, toolResult, image and so on."""
    if not isinstance(block, Mapping):
        return "text"
    named = block.get("type")
    if isinstance(named, str):
        ending = re.search("tool_(?:use|result)$", named)  # of tools that a vendor runs itself there are many
        return _KINDS.get(ending[0] if ending else named, named)
    return next(iter(block), "")


def plain(thing: Any) -> Any:
    """A message, or a block, as mappings all through: the clients of models have objects for them."""
    known = thing.model_dump(exclude_none=True) if hasattr(thing, "model_dump") else thing
    content = known.get("content") if isinstance(known, Mapping) else None
    if isinstance(content, list) and any(hasattr(block, "model_dump") for block in content):
        return {**known, "content": [plain(block) for block in content]}
    return known


def copied(message: Message) -> Message:
    """A message that stays as it is, whatever becomes of the one that was given and of its blocks."""
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return dict(message)
    return {**message, "content": [dict(block) if isinstance(block, Mapping) else block for block in content]}


def blocks_of(message: Message) -> Sequence[Block]:
    """The blocks of a message; a text is one block."""
    content = message.get("content")
    given = content if isinstance(content, list | tuple) else [content] if content else ()
    blocks: list[Block] = [block if isinstance(block, Mapping) else {"text": str(block)} for block in given]
    if message.get("role") in {"tool", "function"}:
        blocks = [{**block, "type": "tool_result"} for block in blocks]
    calls = message.get("tool_calls")
    return [*blocks, *({"type": "tool_use"} for _ in (calls if isinstance(calls, list | tuple) else ()))]


def text_of(message: Message) -> str:
    """The words of a message, without what tools said and were told."""
    texts = (block.get("text") for block in blocks_of(message) if kind_of(block) == "text")
    return "\n".join(text for text in texts if isinstance(text, str) and text).strip()


def without(message: Message, kinds: Iterable[str]) -> Message | None:
    """A message without blocks of these kinds; None if nothing is left of it."""
    left_out = frozenset(kinds)
    content = message.get("content")
    blocks = blocks_of(message)
    kept = [block for block in blocks if kind_of(block) not in left_out]
    if not kept:
        return None
    if len(kept) == len(blocks):
        return message
    if isinstance(content, str):
        return {"role": message["role"], "content": content}
    shown = [
        block for block in (content if isinstance(content, list | tuple) else ()) if kind_of(block) not in left_out
    ]
    cut: dict[str, Any] = {"role": message["role"], "content": shown}
    if message.get("metadata") is not None:
        cut["metadata"] = message["metadata"]
    return cut


def is_user_turn(messages: Sequence[Message]) -> bool:
    """Tell whether the last message is a person's, and not the answer of a tool."""
    if not messages or messages[-1].get("role") != "user":
        return False
    return all(kind_of(block) != "toolResult" for block in blocks_of(messages[-1]))


def question_of(messages: Sequence[Message]) -> str | None:
    """What to look up for the next model call: the person's last words, or the agent's own on a turn without one."""
    role = "user" if is_user_turn(messages) else "assistant"
    for message in reversed(messages):
        if message.get("role") == role:
            return text_of(message) or None
    return None


def transcript(messages: Iterable[Message]) -> str:
    """A conversation as text, a line a turn."""
    return "\n".join(f"{message.get('role', 'unknown')}: {text_of(message)}" for message in messages)


def appended(messages: Sequence[Message], text: str) -> list[Message]:
    """The conversation with a text after the last words of the user; the one that was given stays as it is."""
    for at in range(len(messages) - 1, -1, -1):
        if (message := plain(messages[at])).get("role") == "user":
            return [*messages[:at], _with_text(message, text), *messages[at + 1 :]]
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


def tokens(text: str) -> int:
    """About how many tokens a text is: four letters each, or one sign of a script without spaces."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + (len(text) - wide + 3) // 4
