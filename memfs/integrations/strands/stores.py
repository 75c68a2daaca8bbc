"""Our stores, with tools that Strands' own manager takes too, and with types that fit its protocol."""

from typing import TYPE_CHECKING, Any

from memfs.integrations.strands.tool import presented
from memfs.stores.agent.in_memory_store import InMemoryStore as PlainInMemoryStore
from memfs.stores.agent.vault_store import VaultStore as PlainVaultStore


class VaultStore(PlainVaultStore):
    """A store over a vault, or a subtree of it that neither a model nor a ref can leave."""

    if TYPE_CHECKING:

        async def search(self, query: str, options: Any = None) -> list[Any]: ...

        async def add_messages(self, messages: Any, context: Any = None) -> Any: ...

    def get_tools(self) -> list[Any]:
        """The tools that the store was asked for."""
        return [presented(tool) for tool in super().get_tools()]


class InMemoryStore(PlainInMemoryStore):
    """A store that lasts as long as its process."""

    if TYPE_CHECKING:

        async def search(self, query: str, options: Any = None) -> list[Any]: ...

    def get_tools(self) -> list[Any]:
        """The tools that the store was asked for."""
        return [presented(tool) for tool in super().get_tools()]
