"""The stores of memfs, with tools that Strands' own manager accepts too, and types that fit its protocol."""

from typing import TYPE_CHECKING, Any

from memfs.integrations.strands.tool import as_strands_tool
from memfs.stores.agent.in_memory_store import InMemoryStore as PlainInMemoryStore
from memfs.stores.agent.vault_store import VaultStore as PlainVaultStore


class VaultStore(PlainVaultStore):
    """A store over a vault, or over a subtree of it; then no call of a model reaches memories outside of it."""

    if TYPE_CHECKING:

        async def search(self, query: str, options: Any = None) -> list[Any]: ...

        async def add_messages(self, messages: Any, context: Any = None) -> Any: ...

    def get_tools(self) -> list[Any]:
        """Return the tools that the store was configured with."""
        return [as_strands_tool(tool) for tool in super().get_tools()]


class InMemoryStore(PlainInMemoryStore):
    """A store in memory, which lasts as long as its process."""

    if TYPE_CHECKING:

        async def search(self, query: str, options: Any = None) -> list[Any]: ...

    def get_tools(self) -> list[Any]:
        """Return the tools that the store was configured with."""
        return [as_strands_tool(tool) for tool in super().get_tools()]
