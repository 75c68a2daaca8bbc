"""Models: real clients over HTTP on loopback, functions, and the scripted model."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
import pytest

from memfs.agent.messages import Message
from memfs.agent.models.clients import AnthropicModel, FunctionModel, OpenAIModel, as_model, model_name
from memfs.agent.models.protocol import Model
from memfs.agent.models.scripted import ScriptedModel
from memfs.errors import InvalidSetupError

HELLO: list[Message] = [{"role": "user", "content": "Hello"}]
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}, "required": ["a"]}
SHAPES: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"text": "in Strands' shape"}, {"toolResult": {"content": [{"text": "hidden"}]}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "in Anthropic's"}, {"type": "tool_use", "name": "x"}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "hidden"},
    {"role": "user", "content": "in OpenAI's"},
]


class Service:
    """An HTTP server on loopback that answers every request with `reply` and records the requests."""

    def __init__(self) -> None:
        self.reply: Any = {}
        self.status = 200
        self.requests: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append({"path": self.path, **body})
                answer = json.dumps(service.reply).encode()
                self.send_response(service.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def openai_response(content: str | None, **more: Any) -> dict[str, Any]:
    """Return a response of OpenAI's chat completions."""
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def anthropic_response(*blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a response of Anthropic's messages."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "m1", "type": "message", "role": "assistant", "model": "m", "content": list(blocks),
        "stop_reason": "end_turn", "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def ask_openai(service: Service, *, is_async: bool = False, messages: Any = HELLO, **given: Any) -> Any:
    """Return the reply of an OpenAIModel on a real client; `options` are the model's, the rest goes to the call."""
    options = given.pop("options", {})

    async def ask() -> Any:
        settings: dict[str, Any] = {"api_key": "k", "base_url": f"{service.url}/v1", "max_retries": 0}
        if is_async:
            async with openai.AsyncOpenAI(**settings) as client:
                return await OpenAIModel(client, "gpt", **options).complete(messages, **given)
        with openai.OpenAI(**settings) as client:
            return await OpenAIModel(client, "gpt", **options).complete(messages, **given)

    return asyncio.run(ask())


def ask_anthropic(service: Service, *, is_async: bool = False, messages: Any = HELLO, **given: Any) -> Any:
    """Return the reply of an AnthropicModel on a real client."""
    options = given.pop("options", {})

    async def ask() -> Any:
        settings: dict[str, Any] = {"api_key": "k", "base_url": service.url, "max_retries": 0}
        if is_async:
            async with anthropic.AsyncAnthropic(**settings) as client:
                return await AnthropicModel(client, "claude", **options).complete(messages, **given)
        with anthropic.Anthropic(**settings) as client:
            return await AnthropicModel(client, "claude", **options).complete(messages, **given)

    return asyncio.run(ask())


both = pytest.mark.parametrize("is_async", [False, True], ids=["sync client", "async client"])


@both
def test_openai_returns_text(service: Service, is_async: bool) -> None:
    service.reply = openai_response("Hi!")

    assert ask_openai(service, is_async=is_async, system="Be kind.", options={"temperature": 0}) == "Hi!"
    assert service.requests == [
        {
            "path": "/v1/chat/completions",
            "model": "gpt",
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
            "temperature": 0,
        }
    ]


@both
def test_openai_returns_an_object_for_a_schema(service: Service, is_async: bool) -> None:
    service.reply = openai_response('{"a": "x"}')

    assert ask_openai(service, is_async=is_async, schema=CLOSED) == {"a": "x"}
    assert service.requests[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": CLOSED, "strict": True},
    }


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        (CLOSED, True),
        (OPEN, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": OPEN}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": OPEN}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
    ],
)
def test_openai_gets_strict_only_for_a_schema_that_allows_it(
    service: Service, schema: dict[str, Any], is_strict: bool
) -> None:
    service.reply = openai_response("{}")

    ask_openai(service, schema=schema)
    assert service.requests[0]["response_format"]["json_schema"]["strict"] is is_strict


@pytest.mark.parametrize("text", ["no JSON", '{"a": ', '{"a": NaN}', "[" * 5_000, "7", ""])
def test_openai_returns_the_text_if_it_is_not_an_object(service: Service, text: str) -> None:
    service.reply = openai_response(text)

    assert ask_openai(service, schema=CLOSED) == text


def test_openai_returns_json_as_text_without_a_schema(service: Service) -> None:
    service.reply = openai_response('{"a": "x"}')

    assert ask_openai(service) == '{"a": "x"}'


def test_openai_returns_the_text_of_a_refusal(service: Service) -> None:
    service.reply = openai_response(None, refusal="I cannot do that.")

    assert ask_openai(service, schema=CLOSED) == "I cannot do that."


def test_openai_without_a_choice_is_an_empty_text(service: Service) -> None:
    service.reply = {**openai_response(None), "choices": []}

    assert ask_openai(service) == ""


def test_openai_leaves_out_what_an_option_sets_to_none(service: Service) -> None:
    service.reply = openai_response("{}")

    ask_openai(service, schema=CLOSED, options={"response_format": None})
    assert "response_format" not in service.requests[0]


def test_openai_gets_messages_of_every_shape_as_role_and_text(service: Service) -> None:
    service.reply = openai_response("Hi!")

    ask_openai(service, messages=SHAPES, system="First.")
    assert service.requests[0]["messages"] == [
        {"role": "system", "content": "First."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "in Strands' shape"},
        {"role": "assistant", "content": "in Anthropic's"},
        {"role": "user", "content": "in OpenAI's"},
    ]


@both
def test_an_error_of_openai_is_raised(service: Service, is_async: bool) -> None:
    service.status, service.reply = 429, {"error": {"message": "slow down"}}

    with pytest.raises(openai.RateLimitError, match="slow down"):
        ask_openai(service, is_async=is_async)


@both
def test_anthropic_returns_text(service: Service, is_async: bool) -> None:
    service.reply = anthropic_response({"type": "text", "text": "Hi"}, {"type": "text", "text": "!"})

    assert ask_anthropic(service, is_async=is_async, system="Be kind.", options={"stop_sequences": ["x"]}) == "Hi!"
    assert service.requests == [
        {
            "path": "/v1/messages",
            "model": "claude",
            "max_tokens": 4096,
            "system": "Be kind.",
            "messages": [{"role": "user", "content": "Hello"}],
            "stop_sequences": ["x"],
        }
    ]


@both
def test_anthropic_returns_an_object_by_a_forced_tool(service: Service, is_async: bool) -> None:
    tool = {"type": "tool_use", "id": "t1", "name": "answer", "input": {"a": "x"}}
    service.reply = anthropic_response({"type": "text", "text": "Here:"}, tool)

    answer = ask_anthropic(service, is_async=is_async, schema=CLOSED, options={"max_tokens": 9})
    assert answer == {"a": "x"}
    (request,) = service.requests
    assert request["max_tokens"] == 9
    assert [(one["name"], one["input_schema"]) for one in request["tools"]] == [("answer", CLOSED)]
    assert request["tool_choice"] == {"type": "tool", "name": "answer"}
    assert "system" not in request


def test_anthropic_returns_text_if_the_tool_was_not_used(service: Service) -> None:
    service.reply = anthropic_response({"type": "text", "text": "I would rather not."})

    assert ask_anthropic(service, schema=CLOSED) == "I would rather not."


def test_anthropic_gets_system_messages_beside_the_turns(service: Service) -> None:
    service.reply = anthropic_response({"type": "text", "text": "Hi!"})

    ask_anthropic(service, messages=SHAPES, system="First.")
    assert service.requests[0]["system"] == "First.\n\nBe brief."
    assert service.requests[0]["messages"] == [
        {"role": "user", "content": "in Strands' shape"},
        {"role": "assistant", "content": "in Anthropic's"},
        {"role": "user", "content": "in OpenAI's"},
    ]


@both
def test_an_error_of_anthropic_is_raised(service: Service, is_async: bool) -> None:
    service.status, service.reply = 400, {"type": "error", "error": {"type": "invalid", "message": "too long"}}

    with pytest.raises(anthropic.BadRequestError, match="too long"):
        ask_anthropic(service, is_async=is_async)


def test_one_synchronous_client_serves_one_loop_after_another(service: Service) -> None:
    service.reply = openai_response("Hi!")

    with openai.OpenAI(api_key="k", base_url=f"{service.url}/v1", max_retries=0) as client:
        model = OpenAIModel(client, "gpt")
        answers = [asyncio.run(model.complete(HELLO)) for _ in range(3)]
    assert answers == ["Hi!"] * 3


def test_a_model_is_returned_unchanged() -> None:
    model = ScriptedModel([])

    assert as_model(model) is model
    assert isinstance(model, Model)


def test_a_client_is_not_enough() -> None:
    with openai.OpenAI(api_key="k") as client, pytest.raises(InvalidSetupError, match="OpenAI: is a client") as caught:
        as_model(client)

    assert "OpenAIModel(client" in caught.value.hint


def test_a_client_of_anthropic_is_not_enough() -> None:
    with (
        anthropic.Anthropic(api_key="k") as client,
        pytest.raises(InvalidSetupError, match="Anthropic: is a client") as caught,
    ):
        as_model(client)

    assert "AnthropicModel(client" in caught.value.hint


class Foreign:
    """An object of another framework with a `complete` method."""

    def complete(self, prompt: str) -> str:
        return prompt


@pytest.mark.parametrize("value", [None, 7, "gpt", object(), OpenAIModel, Foreign(), {"model": "gpt"}])
def test_an_object_that_is_no_model_is_refused_with_a_hint(value: object) -> None:
    with pytest.raises(InvalidSetupError) as caught:
        as_model(value)

    assert caught.value.hint.startswith(("Give ", "Make "))


class Answering:
    """A callable object with an async `__call__`."""

    async def __call__(self, messages: list[dict[str, str]]) -> str:
        return f"{len(messages)} by an object"


async def slowly(messages: list[dict[str, str]], *, schema: Any) -> Any:
    return {"last": messages[-1]["content"], "schema": schema}


def test_a_function_of_messages_is_a_model() -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        return " / ".join(f"{message['role']}: {message['content']}" for message in messages)

    model = as_model(reply)

    assert asyncio.run(model.complete(HELLO, system="Be kind.", schema=CLOSED)) == "system: Be kind. / user: Hello"
    assert model_name(model) == "reply"


def test_a_function_gets_the_arguments_that_it_accepts() -> None:
    def reply(messages: list[dict[str, str]], system: str | None = None, **more: Any) -> Any:
        return [messages, system, more]

    answer = asyncio.run(as_model(reply).complete(HELLO, system="Be kind.", schema=CLOSED))
    assert answer == [[{"role": "user", "content": "Hello"}], "Be kind.", {"schema": CLOSED}]


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (slowly, {"last": "Hello", "schema": None}),
        (partial(slowly, schema=CLOSED), {"last": "Hello", "schema": None}),
        (lambda messages: slowly(messages, schema=1), {"last": "Hello", "schema": 1}),
        (Answering(), "1 by an object"),
        (len, 1),
        (max, {"role": "user", "content": "Hello"}),
    ],
    ids=["async", "partial", "gives an awaitable", "object", "built-in", "without a signature"],
)
def test_a_function_may_be_async(function: Callable[..., Any], answer: object) -> None:
    assert asyncio.run(FunctionModel(function).complete(HELLO)) == answer


def test_a_function_that_blocks_leaves_the_loop_alone() -> None:
    def reply(_: object) -> str:
        return threading.current_thread().name

    assert asyncio.run(as_model(reply).complete(HELLO)) != threading.current_thread().name


def test_an_error_of_a_function_is_raised() -> None:
    def reply(_: object) -> str:
        raise TimeoutError("too late")

    with pytest.raises(TimeoutError, match="too late"):
        asyncio.run(as_model(reply).complete(HELLO))


def test_a_scripted_model_returns_its_replies_in_order() -> None:
    async def later(messages: Sequence[Message]) -> str:
        return f"{len(messages)} later"

    replies = ["text", {"a": 1}, [1], lambda messages: messages[0]["content"], later, None]
    model = ScriptedModel(replies)

    async def ask() -> list[Any]:
        return [await model.complete(HELLO) for _ in replies]

    assert asyncio.run(ask()) == ["text", {"a": 1}, [1], "Hello", "1 later", None]


@pytest.mark.parametrize("reply", [TimeoutError("late"), TimeoutError, lambda _: TimeoutError("late")])
def test_a_scripted_model_raises_an_exception(reply: object) -> None:
    model = ScriptedModel([reply, "then"])

    with pytest.raises(TimeoutError):
        asyncio.run(model.complete(HELLO))
    assert asyncio.run(model.complete(HELLO)) == "then"


def test_a_scripted_model_records_its_calls() -> None:
    model = ScriptedModel(["one", "two"])
    messages = list(HELLO)

    assert model.last_prompt == ""
    asyncio.run(model.complete(messages, system="Be kind.", schema=CLOSED))
    messages.append({"role": "assistant", "content": "Hi!"})
    asyncio.run(model.complete(messages))
    assert [(len(call.messages), call.system, call.schema) for call in model.calls] == [
        (1, "Be kind.", CLOSED),
        (2, None, None),
    ]
    assert model.calls[0].text == "Be kind.\nuser: Hello"
    assert model.last_prompt == "user: Hello\nassistant: Hi!"


def test_a_scripted_model_raises_when_it_has_no_reply_left() -> None:
    model = ScriptedModel(["one"])
    asyncio.run(model.complete(HELLO))

    with pytest.raises(InvalidSetupError, match="no reply left for call 2, replies given: 1") as caught:
        asyncio.run(model.complete(HELLO))
    assert "calls" in caught.value.hint
    assert len(model.calls) == 2


@pytest.mark.parametrize("replies", ["text", {"a": 1}, b"x", len, 7])
def test_a_scripted_model_takes_a_list(replies: Any) -> None:
    with pytest.raises(InvalidSetupError, match="not a list of them"):
        ScriptedModel(replies)


def test_a_scripted_model_returns_each_reply_to_one_thread() -> None:
    model = ScriptedModel(range(400))
    got: list[int] = []

    def ask() -> None:
        got.extend(asyncio.run(model.complete(HELLO)) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(400))
    assert len(model.calls) == 400


def test_the_models_import_no_client_and_no_pydantic() -> None:
    program = (
        "import sys, memfs.agent.models.clients, memfs.agent.extraction.extractor\n"
        "print([name for name in ('openai', 'anthropic', 'strands', 'pydantic') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
