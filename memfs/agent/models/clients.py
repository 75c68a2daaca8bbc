"""Models, known by their shape: clients and functions that answer, and a scripted one for tests.

No client library is imported here. Whatever shape messages have, a client is sent role and text.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memfs.agent.messages import Message, text_of, transcript
from memfs.agent.models.protocol import Model
from memfs.agent.models.scripted import Script
from memfs.agent.run_sync import in_own_thread
from memfs.errors import InvalidSetupError

Schema = Mapping[str, Any]
Turn = dict[str, Any]

ANSWER = "answer"  # what an answer with a schema is called on the wire
_ASSISTANTS = {"assistant", "model", "ai"}
_SYSTEMS = {"system", "developer"}
_SHAPE = (
    "Give OpenAIModel, AnthropicModel, a function of messages, "
    "or an object with `async complete(messages, *, system, schema)`."
)


def as_model(thing: object) -> Model:
    """A model as it is, or a function that answers messages as one; a client alone does not say which model."""
    name = getattr(thing, "__name__", type(thing).__name__)
    if isinstance(thing, type):
        raise _setup_error(name, "is a class, not a model", f"Make one: {name}(...).")
    if isinstance(thing, Model):
        if _takes(thing.complete, "schema"):
            return thing
        raise _setup_error(name, "has a complete method that takes no schema", _SHAPE)
    if hasattr(thing, "chat") and not callable(thing.chat):
        raise _setup_error(name, "is a client, which does not say the model", 'Say which: OpenAIModel(client, "NAME").')
    if hasattr(thing, "messages") and hasattr(thing.messages, "create"):
        raise _setup_error(
            name, "is a client, which does not say the model", 'Say which: AnthropicModel(client, "NAME").'
        )
    if callable(thing):
        return FunctionModel(thing)
    if hasattr(thing, "structured_output"):
        hint = "Make it one: StrandsModel(...) of memfs.integrations.strands."
        raise _setup_error(name, "is a model of Strands", hint)
    raise _setup_error(name, "is not a model", _SHAPE)


def name_of(model: object) -> str:
    """What to call a model in messages: its own name, or its class."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) and name else type(model).__name__


class FunctionModel:
    """A function `f(messages)`, sync or async, that may take `system` and `schema` by keyword too.

    One that takes no `system` finds it as the first message. One that is not async runs in a thread.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._function = function

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        given = {"system": system, "schema": schema}
        taken = {key: value for key, value in given.items() if _takes(self._function, key)}
        return await call(self._function, _turns(messages, None if "system" in taken else system), **taken)


class OpenAIModel:
    """A model behind `client.chat.completions`; options go along with each call, None leaves one of ours out.

    A synchronous client serves any event loop; an asynchronous one belongs to the loop it was first used in.
    """

    def __init__(self, client: Any, model: str, **options: Any) -> None:
        self.name = model
        self._client, self._options = client, options

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        request: dict[str, Any] = {"model": self.name, "messages": _turns(messages, system)}
        if schema is not None:
            shape = {"name": ANSWER, "schema": dict(schema), "strict": _is_closed(schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
        response = await call(self._client.chat.completions.create, **_set({**request, **self._options}))
        if not response.choices:
            return ""
        message = response.choices[0].message
        text = message.content or getattr(message, "refusal", None) or ""
        return text if schema is None else _parsed(text)


class AnthropicModel:
    """A model behind `client.messages`; options go along with each call, None leaves one of ours out.

    What is longer than `max_tokens` is cut, and then cannot be read. As for clients, see OpenAIModel.
    """

    def __init__(self, client: Any, model: str, max_tokens: int = 4096, **options: Any) -> None:
        self.name = model
        self._client, self._options = client, {"max_tokens": max_tokens, **options}

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        turns = _turns(messages, system)
        said = [turn["content"] for turn in turns if turn["role"] == "system"]
        request: dict[str, Any] = {
            "model": self.name,
            "messages": [turn for turn in turns if turn["role"] != "system"],
            "system": "\n\n".join(said) or None,
        }
        if schema is not None:
            tool = {"name": ANSWER, "description": "Give the answer.", "input_schema": dict(schema)}
            request |= {"tools": [tool], "tool_choice": {"type": "tool", "name": ANSWER}}
        response = await call(self._client.messages.create, **_set({**request, **self._options}))
        for block in response.content:
            if schema is not None and block.type == "tool_use" and block.name == ANSWER:
                return block.input
        return "".join(block.text for block in response.content if block.type == "text")


@dataclass(frozen=True)
class Call:
    """What a scripted model was asked once."""

    messages: list[Message]
    system: str | None
    schema: Schema | None

    @property
    def text(self) -> str:
        """All its words: the system prompt, then a line a turn."""
        return "\n".join(filter(None, [self.system, transcript(self.messages)]))


class ScriptedModel(Script[Call]):
    """A model for tests, which gives its replies in their order and keeps what it was asked in `calls`.

    A reply is a text, an object, an exception to raise, or a function of the messages that returns one of these.
    """

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        """Answer with the next reply."""
        return await self._reply(Call(list(messages), system, schema))


def _setup_error(name: str, reason: str, hint: str) -> InvalidSetupError:
    error = InvalidSetupError(name, reason)
    error.hint = hint
    return error


def _turns(messages: Iterable[Message], system: str | None) -> list[Turn]:
    """Messages as role and text, those without words left out, the system prompt first."""
    first = [{"role": "system", "content": system}] if system else []
    texts = ((_role(message), text_of(message)) for message in messages)
    return first + [{"role": role, "content": text} for role, text in texts if text]


def _role(message: Message) -> str:
    role = message.get("role")
    return "assistant" if role in _ASSISTANTS else "system" if role in _SYSTEMS else "user"


async def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Await an async function; run any other in a thread, and await what it gives if that is awaitable."""
    if _is_async(function):
        return await function(*arguments, **named)
    answer = await in_own_thread(function, *arguments, **named)
    return await answer if inspect.isawaitable(answer) else answer


def _is_async(function: Callable[..., Any]) -> bool:
    plain = inspect.unwrap(function)  # clients wrap their methods in functions that are not async
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(getattr(plain, "__call__", None))  # noqa: B004


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Tell whether a function takes an argument by this name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in ones do not tell
        return False
    found = parameters.get(name)
    named = found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)
    return named or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _set(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if value is not None}


def _is_closed(schema: object) -> bool:
    """Tell whether every object in a schema names all its keys and needs each: what OpenAI calls strict."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    keys = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(keys)
    ):
        return False
    return all(map(_is_closed, [*keys.values(), *(value for key, value in schema.items() if key != "properties")]))


def _parsed(text: str) -> Any:
    """The object that a text is in JSON, or the text."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
