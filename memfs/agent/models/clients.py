"""Models made from clients and functions, which are recognised by their attributes. No client library is imported.

Messages may have any shape; a client is sent only role and text.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from memfs.agent.messages import Message, text_of
from memfs.agent.models.protocol import Model, Schema
from memfs.agent.run_sync import run_in_thread
from memfs.errors import InvalidSetupError

Turn = dict[str, Any]

RESPONSE_NAME = "answer"  # the name of the schema or tool in a request for a structured response
_ASSISTANT_ROLES = {"assistant", "model", "ai"}
_SYSTEM_ROLES = {"system", "developer"}
_MODEL_HINT = (
    "Give OpenAIModel, AnthropicModel, a function of messages, "
    "or an object with `async complete(messages, *, system, schema)`."
)


def as_model(value: object) -> Model:
    """Return a model unchanged, and a function as a FunctionModel.

    Raises InvalidSetupError for anything else, also for a client, because a client does not name the model to use.
    """
    name = getattr(value, "__name__", type(value).__name__)
    if isinstance(value, type):
        raise _setup_error(name, "is a class, not a model", f"Make one: {name}(...).")
    if isinstance(value, Model):
        if _accepts_keyword(value.complete, "schema"):
            return value
        raise _setup_error(name, "has a complete method that takes no schema", _MODEL_HINT)
    if hasattr(value, "chat") and not callable(value.chat):
        raise _setup_error(name, "is a client, which does not name the model", 'Name it: OpenAIModel(client, "NAME").')
    if hasattr(value, "messages") and hasattr(value.messages, "create"):
        raise _setup_error(
            name, "is a client, which does not name the model", 'Name it: AnthropicModel(client, "NAME").'
        )
    if callable(value):
        return FunctionModel(value)
    if hasattr(value, "structured_output"):
        hint = "Wrap it: StrandsModel(...) of memfs.integrations.strands."
        raise _setup_error(name, "is a model of Strands", hint)
    raise _setup_error(name, "is not a model", _MODEL_HINT)


def model_name(model: object) -> str:
    """Return the name of a model for messages: its `name`, or the name of its class."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) and name else type(model).__name__


class FunctionModel:
    """A function `f(messages)`, sync or async, which may also take `system` and `schema` as keywords.

    If it takes no `system`, the system prompt is its first message. A synchronous function runs in a thread.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._function = function

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        """Return the result of the function."""
        given = {"system": system, "schema": schema}
        accepted = {key: value for key, value in given.items() if _accepts_keyword(self._function, key)}
        turns = _to_turns(messages, None if "system" in accepted else system)
        return await call_sync_or_async(self._function, turns, **accepted)


class OpenAIModel:
    """A model behind `client.chat.completions`. `options` are sent with each call; None removes a default option.

    A synchronous client works in any event loop; an asynchronous one belongs to the loop of its first call.
    """

    def __init__(self, client: Any, model: str, **options: Any) -> None:
        self.name = model
        self._client, self._options = client, options

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        """Return the reply, see Model; a refusal is returned as text, and an empty text if there is no choice."""
        request: dict[str, Any] = {"model": self.name, "messages": _to_turns(messages, system)}
        if schema is not None:
            shape = {"name": RESPONSE_NAME, "schema": dict(schema), "strict": _is_strict(schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
        create = self._client.chat.completions.create
        response = await call_sync_or_async(create, **_without_none({**request, **self._options}))
        if not response.choices:
            return ""
        message = response.choices[0].message
        text = message.content or getattr(message, "refusal", None) or ""
        return text if schema is None else _parse_json(text)


class AnthropicModel:
    """A model behind `client.messages`. `options` are sent with each call; None removes a default option.

    A reply longer than `max_tokens` is cut off and cannot be parsed. As for event loops, see OpenAIModel.
    """

    def __init__(self, client: Any, model: str, max_tokens: int = 4096, **options: Any) -> None:
        self.name = model
        self._client, self._options = client, {"max_tokens": max_tokens, **options}

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        """Return the reply, see Model; with a schema, the input of a forced tool call."""
        turns = _to_turns(messages, system)
        system_texts = [turn["content"] for turn in turns if turn["role"] == "system"]
        request: dict[str, Any] = {
            "model": self.name,
            "messages": [turn for turn in turns if turn["role"] != "system"],
            "system": "\n\n".join(system_texts) or None,
        }
        if schema is not None:
            tool = {"name": RESPONSE_NAME, "description": "Give the answer.", "input_schema": dict(schema)}
            request |= {"tools": [tool], "tool_choice": {"type": "tool", "name": RESPONSE_NAME}}
        create = self._client.messages.create
        response = await call_sync_or_async(create, **_without_none({**request, **self._options}))
        for block in response.content:
            if schema is not None and block.type == "tool_use" and block.name == RESPONSE_NAME:
                return block.input
        return "".join(block.text for block in response.content if block.type == "text")


def _setup_error(name: str, reason: str, hint: str) -> InvalidSetupError:
    error = InvalidSetupError(name, reason)
    error.hint = hint
    return error


def _to_turns(messages: Iterable[Message], system: str | None) -> list[Turn]:
    """Return messages as role and text, with the system prompt first. Messages without text are left out."""
    first = [{"role": "system", "content": system}] if system else []
    texts = ((_role(message), text_of(message)) for message in messages)
    return first + [{"role": role, "content": text} for role, text in texts if text]


def _role(message: Message) -> str:
    """Return the role of a message as clients name it; an unknown role becomes user."""
    role = message.get("role")
    return "assistant" if role in _ASSISTANT_ROLES else "system" if role in _SYSTEM_ROLES else "user"


async def call_sync_or_async(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Await an async function; run any other in a thread, and await its result if that is awaitable."""
    if _is_async(function):
        return await function(*arguments, **named)
    result = await run_in_thread(function, *arguments, **named)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    inner = inspect.unwrap(function)  # clients wrap their async methods in functions that are not async
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _accepts_keyword(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function accepts a keyword argument of this name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    found = parameters.get(name)
    is_named = found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)
    return is_named or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _without_none(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if value is not None}


def _is_strict(schema: object) -> bool:
    """Return whether a schema is strict in OpenAI's sense: every object lists all its keys and requires each."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    keys = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(keys)
    ):
        return False
    return all(map(_is_strict, [*keys.values(), *(value for key, value in schema.items() if key != "properties")]))


def _parse_json(text: str) -> Any:
    """Return the object or list that a text holds as JSON; any other text is returned unchanged."""
    try:
        value = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
