"""A model of Strands as one that extraction asks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import trace as trace_api
from strands.models.model import Model
from strands.telemetry.tracer import get_tracer

from memfs.agent.messages import Message, text_of
from memfs.agent.models.clients import ANSWER
from memfs.integrations.strands.telemetry import shown


class StrandsModel:
    """A model of Strands, asked in plain text; with `structured`, made to answer by a tool of the schema's shape.

    Not every provider can be made to, and some refuse it together with extended thinking.
    """

    def __init__(self, model: Model, *, structured: bool = False, tracer: Callable[[], Any] = get_tracer) -> None:
        self.name = type(model).__name__
        self._model, self._structured, self._tracer = model, structured, tracer

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Mapping[str, Any] | None = None
    ) -> Any:
        """Answer; with a schema and `structured`, with an object."""
        turns = [{"role": message["role"], "content": [{"text": text_of(message)}]} for message in messages]
        tracer = self._tracer()
        span = tracer.start_model_invoke_span(
            messages=_for_span(turns), model_id=_model_id(self._model), system_prompt=shown(system) or None
        )
        try:
            with trace_api.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                reason, message, usage, metrics = await self._stop(turns, system, schema)
        except BaseException as error:
            tracer.end_span_with_error(span, str(error), error)
            raise
        tracer.end_model_invoke_span(span, _for_span([message])[0], usage, metrics, reason)
        return _answer(message)

    async def _stop(self, turns: list[Any], system: str | None, schema: Mapping[str, Any] | None) -> Any:
        """Ask, and wait for the end of the answer."""
        from strands.event_loop.streaming import stream_messages

        tools: list[Any] = []
        choice: dict[str, Any] = {}
        if schema is not None and self._structured:
            tools = [{"name": ANSWER, "description": "Give the answer.", "inputSchema": {"json": dict(schema)}}]
            choice = {"tool_choice": {"tool": {"name": ANSWER}}}
        stop = None
        async for event in stream_messages(self._model, system, turns, tools, **choice):
            stop = event.get("stop", stop)
        if stop is None:
            raise RuntimeError(f"{self.name}: model returned no response")
        return stop


def _answer(message: Message) -> Any:
    for block in message["content"]:
        if block.get("toolUse", {}).get("name") == ANSWER:
            return block["toolUse"]["input"]
    return "".join(block.get("text", "") for block in message["content"]).strip()


def _for_span(messages: Sequence[Any]) -> list[Any]:
    """Messages with their texts, or with none of them."""
    return [{"role": one["role"], "content": [{"text": shown(text_of(one))}]} for one in messages]


def _model_id(model: Model) -> str | None:
    config = model.get_config()
    found = config.get("model_id") if isinstance(config, Mapping) else None
    return found if isinstance(found, str) else None
