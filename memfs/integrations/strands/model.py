"""StrandsModel: adapts a model of Strands to the Model protocol of memfs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import trace as trace_api
from strands.models.model import Model
from strands.telemetry.tracer import get_tracer

from memfs.agent.messages import Message, text_of
from memfs.agent.models.clients import RESPONSE_NAME
from memfs.integrations.strands.telemetry import span_text


class StrandsModel:
    """A model of Strands, called with plain text; `structured` forces it to reply by a tool call that fits the schema.

    Not every provider supports forced tool calls, and some reject them together with extended thinking.
    """

    def __init__(self, model: Model, *, structured: bool = False, tracer: Callable[[], Any] = get_tracer) -> None:
        self.name = type(model).__name__
        self._model, self._structured, self._tracer = model, structured, tracer

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the reply as text; with a schema and `structured`, as an object."""
        turns = [{"role": message["role"], "content": [{"text": text_of(message)}]} for message in messages]
        tracer = self._tracer()
        span = tracer.start_model_invoke_span(
            messages=_for_span(turns), model_id=_model_id(self._model), system_prompt=span_text(system) or None
        )
        try:
            with trace_api.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
                reason, message, usage, metrics = await self._call_model(turns, system, schema)
        except BaseException as error:
            tracer.end_span_with_error(span, str(error), error)
            raise
        tracer.end_model_invoke_span(span, _for_span([message])[0], usage, metrics, reason)
        return _reply(message)

    async def _call_model(self, turns: list[Any], system: str | None, schema: Mapping[str, Any] | None) -> Any:
        """Call the model and return the last `stop` event of its stream; RuntimeError if there is none."""
        from strands.event_loop.streaming import stream_messages

        tools: list[Any] = []
        choice: dict[str, Any] = {}
        if schema is not None and self._structured:
            tools = [{"name": RESPONSE_NAME, "description": "Give the answer.", "inputSchema": {"json": dict(schema)}}]
            choice = {"tool_choice": {"tool": {"name": RESPONSE_NAME}}}
        stop = None
        async for event in stream_messages(self._model, system, turns, tools, **choice):
            stop = event.get("stop", stop)
        if stop is None:
            raise RuntimeError(f"{self.name}: model returned no response")
        return stop


def _reply(message: Message) -> Any:
    """Return the input of the forced tool call, or else the text of a message."""
    for block in message["content"]:
        if block.get("toolUse", {}).get("name") == RESPONSE_NAME:
            return block["toolUse"]["input"]
    return "".join(block.get("text", "") for block in message["content"]).strip()


def _for_span(messages: Sequence[Any]) -> list[Any]:
    """Return messages for a span: with their texts, or with empty ones if content is not captured."""
    return [{"role": message["role"], "content": [{"text": span_text(text_of(message))}]} for message in messages]


def _model_id(model: Model) -> str | None:
    config = model.get_config()
    found = config.get("model_id") if isinstance(config, Mapping) else None
    return found if isinstance(found, str) else None
