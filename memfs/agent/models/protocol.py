"""The model seam: messages in, text or an object out."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from memfs.agent.messages import Message


@runtime_checkable
class Model(Protocol):
    """A language model, as far as extraction needs one."""

    async def complete(
        self, messages: Sequence[Message], *, system: str | None = None, schema: Mapping[str, Any] | None = None
    ) -> Any:
        """Answer: in text, or, with a JSON schema, with an object of that shape where the model can do so.

        Whoever asks with a schema must be ready for text all the same.
        """
        ...
