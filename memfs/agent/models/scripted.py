"""Scripted models for tests: they return prepared replies in order and record their calls. No network."""

import inspect
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from memfs.agent.messages import Message, transcript
from memfs.agent.models.protocol import Schema
from memfs.errors import InvalidSetupError

_EXHAUSTED = object()


class RecordedCall(Protocol):
    """One call of a scripted model."""

    @property
    def messages(self) -> list[Message]: ...

    @property
    def text(self) -> str: ...


C = TypeVar("C", bound=RecordedCall)


class Script(Generic[C]):
    """Replies in order, each returned once; `calls` records the calls. Thread-safe."""

    def __init__(self, replies: Iterable[Any] = ()) -> None:
        if isinstance(replies, str | bytes | Mapping) or not isinstance(replies, Iterable):
            raise InvalidSetupError(type(self).__name__, f"replies is a {type(replies).__name__}, not a list of them")
        self.calls: list[C] = []
        self._replies = iter(replies)
        self._lock = threading.Lock()

    @property
    def last_prompt(self) -> str:
        """The text of the last call; empty before the first one."""
        return self.calls[-1].text if self.calls else ""

    asked = last_prompt  # an alias

    async def _reply(self, call: C) -> Any:
        """Record a call and return the next reply. An exception is raised, a function is called with the messages."""
        with self._lock:
            self.calls.append(call)
            reply = next(self._replies, _EXHAUSTED)
            count = len(self.calls)
        if reply is _EXHAUSTED:
            error = InvalidSetupError(
                type(self).__name__, f"no reply left for call {count}, replies given: {count - 1}"
            )
            error.hint = "Script one reply per call; `calls` has the calls so far."
            raise error
        if callable(reply) and not isinstance(reply, type):
            reply = reply(call.messages)
            reply = await reply if inspect.isawaitable(reply) else reply
        if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
            raise reply
        return reply


@dataclass(frozen=True)
class Call:
    """The arguments of one call of a ScriptedModel."""

    messages: list[Message]
    system: str | None
    schema: Schema | None

    @property
    def text(self) -> str:
        """The system prompt, then one line per turn."""
        return "\n".join(filter(None, [self.system, transcript(self.messages)]))


class ScriptedModel(Script[Call]):
    """A model for tests that returns its replies in order and records each call in `calls`.

    A reply is a text, an object, an exception to raise, or a function of the messages that returns one of these.
    """

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        """Return the next reply."""
        return await self._reply(Call(list(messages), system, schema))
