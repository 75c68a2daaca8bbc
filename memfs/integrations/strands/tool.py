"""StrandsTool: adapts a tool of memfs to Strands' AgentTool."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from strands.types.tools import AgentTool, ToolSpec, ToolUse

from memfs.integrations.strands.version_differences import ToolResultEvent
from memfs.stores.agent.store_tools import Tool


class StrandsTool(AgentTool):
    """A tool of memfs for Strands agents; as in Strands, an empty list of stores means all."""

    def __init__(self, tool: Tool) -> None:
        super().__init__()
        self.tool = tool

    @property
    def name(self) -> str:
        return self.tool.name

    def spec(self, shape: str = "json") -> dict[str, Any]:
        """Return the description in the format of a framework, see Tool."""
        return self.tool.spec(shape)

    @property
    def tool_name(self) -> str:
        return self.tool.name

    @property
    def tool_spec(self) -> ToolSpec:
        spec: Any = self.tool.spec("strands")
        return spec  # type: ignore[no-any-return]

    @property
    def tool_type(self) -> str:
        return "function"

    async def __call__(self, **arguments: Any) -> Any:
        """Call the tool; an empty `stores` is left out."""
        return await self.tool(**{key: value for key, value in arguments.items() if key != "stores" or value})

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        """Call the tool with the model's input; an error is returned to the model as an error result."""
        try:
            result = await self(**(tool_use.get("input") or {}))
        except Exception as error:
            yield _result(tool_use, "error", f"Error: {error}", error)
        else:
            yield _result(tool_use, "success", json.dumps(result, ensure_ascii=False, default=str))


def as_strands_tool(tool: Any) -> Any:
    """Return a tool of memfs as a StrandsTool, and any other object unchanged."""
    return StrandsTool(tool) if isinstance(tool, Tool) else tool


def _result(tool_use: ToolUse, status: Any, text: str, error: Exception | None = None) -> Any:
    return ToolResultEvent(
        {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": text}]}, exception=error
    )
