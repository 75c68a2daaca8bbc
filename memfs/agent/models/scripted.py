"""Scripts: replies in their order, for models that tests are made with."""

import inspect
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from memfs.agent.messages import Message
from memfs.errors import InvalidSetupError

_NOTHING = object()


class Asked(Protocol):
    """What a model was asked once."""

    @property
    def messages(self) -> list[Message]: ...

    @property
    def text(self) -> str: ...


C = TypeVar("C", bound=Asked)


class Script(Generic[C]):
    """Replies, each given once, and what was asked for them in `calls`. Thread-safe."""

    def __init__(self, replies: Iterable[Any] = ()) -> None:
        if isinstance(replies, str | bytes | Mapping) or not isinstance(replies, Iterable):
            raise InvalidSetupError(type(self).__name__, f"replies is a {type(replies).__name__}, not a list of them")
        self.calls: list[C] = []
        self._replies = iter(replies)
        self._lock = threading.Lock()

    @property
    def asked(self) -> str:
        """The words of the last call; none yet: an empty text."""
        return self.calls[-1].text if self.calls else ""

    async def _reply(self, call: C) -> Any:
        """The next reply: as it is, raised if it is an exception, and made from the messages if it is a function."""
        with self._lock:
            self.calls.append(call)
            reply = next(self._replies, _NOTHING)
            count = len(self.calls)
        if reply is _NOTHING:
            error = InvalidSetupError(
                type(self).__name__, f"no reply left for call {count}, replies given: {count - 1}"
            )
            error.hint = "Script a reply for each call; see `calls` for what was asked."
            raise error
        if callable(reply) and not isinstance(reply, type):
            reply = reply(call.messages)
            reply = await reply if inspect.isawaitable(reply) else reply
        if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
            raise reply
        return reply
