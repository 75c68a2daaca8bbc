"""The Model protocol: messages in, text or an object out."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from memfs.agent.messages import Message

Schema = Mapping[str, Any]


@runtime_checkable
class Model(Protocol):
    """A language model, as far as extraction needs one."""

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Schema | None = None
    ) -> Any:
        """Return the reply: text or, with a JSON schema, an object of that shape if the model supports it.

        A caller that passes a schema must accept text as well.
        """
        ...
