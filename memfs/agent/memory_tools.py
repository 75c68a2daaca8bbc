"""The tools of a MemoryManager: search, add, and one tool that combines several."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memfs.agent.echo_filter import EchoFilter
from memfs.errors import AggregateMemoryError, InvalidArgumentsError, InvalidSetupError
from memfs.stores.agent.protocol import MemoryStore
from memfs.stores.agent.store_tools import Tool, object_schema

if TYPE_CHECKING:
    from memfs.agent.manager import MemoryManager

log = logging.getLogger("memfs.agent")
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TEXTS = {"type": "array", "items": {"type": "string"}}
SEARCH_DESCRIPTION = (
    "Look up what is remembered from earlier conversations: facts, preferences, decisions. Use it when the answer may "
    "depend on something that was said or learned before."
)
ADD_DESCRIPTION = (
    "Remember something for later conversations: a fact, a preference, a decision. Use it when the user says "
    "something worth knowing next time. One entry is one fact that can be understood on its own."
)


def search_tool(manager: "MemoryManager", config: Mapping[str, Any], stores: Sequence[MemoryStore]) -> Tool:
    """Return the tool that searches the stores."""
    names = [store.name for store in stores]

    async def search_memory(
        query: str, max_search_results: int | None = None, stores: list[str] | None = None
    ) -> list[dict[str, Any]]:
        options: dict[str, Any] = {"stores": allowed_stores(names, stores)}
        if max_search_results is not None:
            options["max_search_results"] = max_search_results
        found = await manager.search(query, options)
        manager.echo_filter.record(entry.content for entry in found)
        return [entry_as_json(entry) for entry in found]

    parameters = object_schema(
        "query",
        query={**TEXT, "description": "What to look for."},
        max_search_results={**NUMBER, "description": "The most results that each store gives."},
        stores={**TEXTS, "description": "Names of the stores to search; leave it out for all."},
    )
    text = _with_store_list(
        config.get("description") or SEARCH_DESCRIPTION,
        "Available memory stores",
        "You can target one or more memory stores by name, or leave out stores to search all.",
        stores,
    )
    return Tool(config.get("name") or "search_memory", text, parameters, search_memory)


def add_tool(manager: "MemoryManager", config: Mapping[str, Any], stores: Sequence[MemoryStore]) -> Tool:
    """Return the tool that adds memories; with `wait_for_writes=False` it returns before they are written."""
    names = [store.name for store in stores]

    async def add_memory(entries: list[str], stores: list[str] | None = None) -> dict[str, int]:
        if not entries:
            raise InvalidArgumentsError("add_memory", "requires at least one entry")
        chosen = allowed_stores(names, stores)
        if not config.get("wait_for_writes", True):
            await manager.accept(entries, chosen)
            return {"accepted": len(entries)}
        outcomes = await asyncio.gather(
            *(manager.add(entry, {"stores": chosen}) for entry in entries), return_exceptions=True
        )
        if failures := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
            reasons = flatten_errors(failures)
            raise manager.aggregate(f"MemoryManager: failed to add {len(failures)} of {len(entries)} entries", reasons)
        return {"stored": len(entries)}

    parameters = object_schema(
        "entries",
        entries={
            "type": "array",
            "items": {**TEXT, "minLength": 1},
            "description": "What to remember, one fact per entry.",
        },
        stores={**TEXTS, "description": "Names of the stores to add to; leave it out for all."},
    )
    text = _with_store_list(
        config.get("description") or ADD_DESCRIPTION,
        "Available writable stores",
        "You can target a specific store by name, or leave out stores to add to all.",
        stores,
    )
    return Tool(config.get("name") or "add_memory", text, parameters, add_memory, writes=True)


def with_echo_filter(tool: Tool, echo_filter: EchoFilter) -> Tool:
    """Return a tool whose results are recorded in the echo filter, so that they are not extracted again."""

    async def run(**arguments: Any) -> Any:
        result = await tool.run(**arguments)
        entries = result if isinstance(result, list) else [result]
        echo_filter.record(entry["content"] for entry in entries if "content" in entry)
        return result

    return replace(tool, run=run)


def single_tool(tools: Sequence[Tool], name: str = "memory") -> Tool:
    """Return one tool that combines several; an action is the first word of a tool's name, without "memory_"."""
    actions = {tool.name.removeprefix("memory_").partition("_")[0]: tool for tool in tools}
    if len(actions) < len(tools):
        raise InvalidSetupError("tools", f"two tools of one action: {', '.join(tool.name for tool in tools)}")

    async def memory(action: str, **arguments: Any) -> Any:
        return await actions[action](**arguments)

    properties: dict[str, Any] = {"action": {**TEXT, "enum": list(actions)}}
    for tool in tools:
        properties |= {key: form for key, form in tool.parameters["properties"].items() if key not in properties}
    lines = [
        f"- {action}({', '.join(tool.parameters['required'])}): {tool.description}" for action, tool in actions.items()
    ]
    text = "Long-term memory. Actions, and what each needs:\n" + "\n".join(lines)
    return Tool(name, text, object_schema("action", **properties), memory, writes=any(tool.writes for tool in tools))


def tool_name(tool: Any) -> str:
    """Return the name of a tool of memfs or of a framework."""
    return tool.name if isinstance(tool, Tool) else str(getattr(tool, "tool_name", tool))


def tool_spec(tool: Any, shape: str) -> dict[str, Any]:
    """Return the description of a tool of memfs or of Strands in the shape of a framework."""
    if hasattr(tool, "spec"):
        return dict(tool.spec(shape))
    spec = tool.tool_spec
    return Tool(spec["name"], spec["description"], spec["inputSchema"]["json"], tool).spec(shape)


def check_unique_names(names: Sequence[str]) -> None:
    """Raise InvalidSetupError if two tools have the same name."""
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidSetupError("tools", f"two tools have the name {duplicates[0]!r}")


def allowed_stores(scope: Sequence[str], requested: Sequence[str] | None) -> list[str]:
    """Return the requested stores that a tool may use, all if None; others are left out with a warning.

    InvalidArgumentsError if none is left.
    """
    if requested is None:
        return list(scope)
    if not requested:
        raise InvalidArgumentsError("stores", "is empty; name a store, or leave it out for all")
    inside = [name for name in requested if name in scope]
    outside = [name for name in requested if name not in scope]
    if not inside:
        raise InvalidArgumentsError(
            f"stores {', '.join(requested)}",
            f"none of the requested memory stores are available; there are: {', '.join(scope)}",
        )
    if outside:
        log.warning("stores outside of the tool's scope are left out: %s", ", ".join(outside))
    return inside


def entry_as_json(entry: Any) -> dict[str, Any]:
    """Return an entry as a JSON object for the model."""
    value: dict[str, Any] = {"content": entry.content}
    if entry.store_name:
        value["store_name"] = entry.store_name
    if entry.metadata:
        value["metadata"] = entry.metadata
    return value


def flatten_errors(errors: Sequence[BaseException]) -> list[BaseException]:
    """Return the errors, with the inner errors in place of each AggregateMemoryError."""
    inner = (flatten_errors(error.errors) if isinstance(error, AggregateMemoryError) else [error] for error in errors)
    return [error for several in inner for error in several]


def _with_store_list(text: str, heading: str, advice: str, stores: Sequence[MemoryStore]) -> str:
    lines = [f"- {store.name}: {store.description}" for store in stores if store.description]
    return "\n\n".join([text, f"{heading}:\n" + "\n".join(lines), advice]) if lines else text
