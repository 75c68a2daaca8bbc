"""ScriptedModel: a model for tests of Strands agents, without network, that records its calls."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strands.models.model import Model

from memfs.agent.messages import Message, transcript
from memfs.agent.models.scripted import Script


@dataclass(frozen=True)
class Call:
    """The input of one call of a scripted model."""

    messages: list[Message]
    system_prompt: str | None
    tool_specs: list[Any]

    @property
    def text(self) -> str:
        """All text of the call: the system prompt, then one line per turn."""
        return "\n".join(filter(None, [self.system_prompt, transcript(self.messages)]))


class ScriptedModel(Script[Call], Model):
    """A model of Strands that returns its replies in order, and records its input in `calls`.

    A reply is a text, a tool call `{"tool": name, "input": {...}}`, a list of both, a whole message, an exception to
    raise, or a function of the messages that returns one of these.
    """

    def __init__(self, replies: Iterable[Any] = (), **config: Any) -> None:
        super().__init__(replies)
        self._config = config

    def update_config(self, **model_config: Any) -> None:
        self._config.update(model_config)

    def get_config(self) -> dict[str, Any]:
        return self._config

    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: str | None = None,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Yield the next reply as stream events."""
        reply = await self._reply(Call(list(messages), system_prompt, list(tool_specs or ())))
        for event in _events(_blocks(reply, len(self.calls))):
            yield event

    async def structured_output(
        self, output_model: Any, prompt: Any, system_prompt: str | None = None, **options: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the next reply, an object or its JSON, as an `output_model`."""
        reply = await self._reply(Call(list(prompt), system_prompt, []))
        is_text = isinstance(reply, str)
        yield {"output": output_model.model_validate_json(reply) if is_text else output_model.model_validate(reply)}


def _blocks(reply: Any, call: int) -> list[Mapping[str, Any]]:
    """Return the content blocks of a reply."""
    if isinstance(reply, Mapping) and "content" in reply:
        return list(reply["content"])
    parts = reply if isinstance(reply, list) else [reply]
    return [_block(part, f"{call}-{number}") for number, part in enumerate(parts)]


def _block(part: Any, name: str) -> Mapping[str, Any]:
    if isinstance(part, Mapping) and "tool" in part:
        return {"toolUse": {"toolUseId": f"scripted-{name}", "name": part["tool"], "input": part.get("input", {})}}
    return part if isinstance(part, Mapping) else {"text": str(part)}


def _events(blocks: list[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield a message as the stream events of a provider."""
    yield {"messageStart": {"role": "assistant"}}
    for block in blocks:
        use = block.get("toolUse")
        start = {"toolUse": {key: use[key] for key in ("name", "toolUseId")}} if use else {}
        delta = {"toolUse": {"input": json.dumps(use["input"])}} if use else dict(block)
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
    yield {"messageStop": {"stopReason": "tool_use" if any("toolUse" in block for block in blocks) else "end_turn"}}
    usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}
