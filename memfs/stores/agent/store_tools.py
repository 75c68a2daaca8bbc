"""Tools for a model: class Tool, and `curation_tools`, the tools that read and change the memories of stores."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from memfs.argument_checks import is_positive_int
from memfs.errors import InvalidArgumentsError, InvalidSetupError, MemoryNotFoundError, short_repr
from memfs.stores.agent.protocol import (
    MAX_SEARCH_RESULTS,
    CuratedStore,
    Found,
    LinkedStore,
    MemoryStore,
    has_method,
)

MAX_LISTED = 100  # memories, or links of each direction, in one result
LISTED_CHARS = 300  # of each memory in a list
WRITE_TOOL_NAMES = ("update", "forget")
TOOL_NAMES = ("get", "list", "graph", *WRITE_TOOL_NAMES)
JSON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True)
class Tool:
    """A function that a model may call, with its name, its description and the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., Awaitable[Any]]
    writes: bool = False

    async def __call__(self, **arguments: Any) -> Any:
        """Call the function with a model's arguments, without those that are None.

        Raise InvalidArgumentsError if they do not fit the schema.
        """
        check_arguments(self.name, self.parameters, arguments)
        result = self.run(**{name: value for name, value in arguments.items() if value is not None})
        return await result if inspect.isawaitable(result) else result

    def spec(self, shape: str = "json") -> dict[str, Any]:
        """Return the description as plain JSON schema, or in the shape of `strands`, `openai` or `anthropic`."""
        head = {"name": self.name, "description": self.description}
        schema = dict(self.parameters)
        match shape:
            case "json":
                return {**head, "parameters": schema}
            case "strands":
                return {**head, "inputSchema": {"json": schema}}
            case "openai":
                return {"type": "function", "function": {**head, "parameters": schema}}
            case "anthropic":
                return {**head, "input_schema": schema}
        raise InvalidArgumentsError("shape", f"{shape!r} is not one of json, strands, openai, anthropic")


def object_schema(required: str = "", **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties. `required` has the mandatory ones, by spaces."""
    return {
        "type": "object",
        "properties": {name: dict(form) for name, form in properties.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


def check_arguments(tool: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentsError unless the arguments have the names and types of a schema and none is missing."""
    properties: Mapping[str, Any] = parameters["properties"]
    if unknown := arguments.keys() - properties.keys():
        raise InvalidArgumentsError(tool, f"unknown argument {min(unknown)!r}; known: {', '.join(properties)}")
    for name in parameters["required"]:
        if arguments.get(name) is None:
            raise InvalidArgumentsError(tool, f"{name!r} is missing")
    for name, value in arguments.items():
        if value is not None and (fault := _schema_fault(properties[name], value)):
            raise InvalidArgumentsError(tool, f"{name!r} {fault}")


def _schema_fault(schema: Mapping[str, Any], value: object) -> str | None:
    """Return why a value does not fit a schema; None if it does."""
    kind = JSON_TYPES[schema["type"]]
    if not isinstance(value, kind) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return f"is not of type {schema['type']}"
    if schema.get("minLength") and not str(value).strip():
        return "is blank"
    if "enum" in schema and value not in schema["enum"]:
        return f"is not one of {', '.join(schema['enum'])}"
    if isinstance(value, list):
        faults = (_schema_fault(schema["items"], item) for item in value)
        return next((f"has an item that {fault}" for fault in faults if fault), None)
    return None


# --- tools over stores --------------------------------------------------------------------------------


def curation_tools(stores: Iterable[MemoryStore], names: Iterable[str]) -> list[Tool]:
    """Return the named tools (some of get, list, graph, update, forget), each over all stores that support it.

    Raise InvalidSetupError for an unknown name, or a tool that no store supports.
    """
    all_stores, unique_names = tuple(stores), tuple(dict.fromkeys(names))
    label = ", ".join(repr(store.name) for store in all_stores)
    tools = []
    for name in unique_names:
        if name not in TOOL_NAMES:
            raise InvalidSetupError(f"store {label}", f"tools: {short_repr(name)} is none of {', '.join(TOOL_NAMES)}")
        able = [store for store in all_stores if has_method(store, "get") and has_method(store, name)]
        if name in WRITE_TOOL_NAMES and not any(store.writable for store in able):
            raise InvalidSetupError(f"store {label}", f"tools: {name!r} writes, and the store is read-only")
        if not able:
            raise InvalidSetupError(f"store {label}", f"tools: the store does not support {name!r}")
        tools.append(_make_tool(name, _ToolFunctions(cast("tuple[CuratedStore, ...]", tuple(able)))))
    return tools


_ID = {"type": "string", "description": "The id of the memory, as a search or a list returns it."}
_SEEN = {"type": "string", "description": "The `seen` of get_memory: a memory that changed since is refused."}
_LIMIT = {"type": "integer", "description": f"How many, 1 to {MAX_LISTED}; 20 if it is left out."}
_OFFSET = {"type": "integer", "description": "How many of the newest to leave out."}
_NAME = {"type": "string", "minLength": 1, "description": "A memory, by its id, title or other name."}
_RELATION = {"type": "string", "description": "Only links with this relation, such as owned_by or mentions."}
_AS_OF = {"type": "string", "description": "A date such as 2026-11-15: as it was then, not as it is now."}
_LINKS = {"type": "integer", "description": f"How many of each direction, 1 to {MAX_LISTED}; 30 if it is left out."}
_TEXT = {"type": "string", "description": "The whole new text of the memory."}


def _make_tool(name: str, functions: "_ToolFunctions") -> Tool:
    match name:
        case "get":
            description = "Read one memory of long-term memory as a whole, by its id."
            return Tool("get_memory", description, object_schema("memory_id", memory_id=_ID), functions.get)
        case "list":
            description = "List what is in long-term memory, the newest first; long memories are shortened."
            return Tool("list_memories", description, object_schema(limit=_LIMIT, offset=_OFFSET), functions.list)
        case "graph":
            description = "Show how a memory of long-term memory is linked: its links to others, and their links to it."
            schema = object_schema("memory", memory=_NAME, relation=_RELATION, as_of=_AS_OF, limit=_LINKS)
            return Tool("memory_graph", description, schema, functions.graph)
        case "update":
            description = "Correct a memory of long-term memory: replace its text by a new one."
            schema = object_schema("memory_id content", memory_id=_ID, content=_TEXT, seen=_SEEN)
            return Tool("update_memory", description, schema, functions.update, writes=True)
    description = "Forget a memory of long-term memory, when the user asks for it or it should not have been kept."
    schema = object_schema("memory_id", memory_id=_ID)
    return Tool("forget_memory", description, schema, functions.forget, writes=True)


@dataclass(frozen=True)
class _ToolFunctions:
    """The functions behind the tools, over several stores. They raise MemoryNotFoundError if none has the memory."""

    stores: tuple[CuratedStore, ...]

    async def get(self, memory_id: str) -> dict[str, Any]:
        store, found = await _find(self.stores, memory_id)
        return {**_found_fields(store, found), "seen": found.seen}

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[dict[str, Any]]:
        if not is_positive_int(limit, MAX_LISTED):
            raise InvalidArgumentsError("list_memories", f"limit: {limit} is not from 1 to {MAX_LISTED}")
        max_offset = MAX_SEARCH_RESULTS - limit
        if not 0 <= offset <= max_offset:
            raise InvalidArgumentsError("list_memories", f"offset: {offset} is not from 0 to {max_offset}")
        listed = [
            _found_fields(store, found, LISTED_CHARS)
            for store in self.stores
            for found in await store.list(limit + offset)
        ]
        if len(self.stores) > 1:
            listed.sort(key=lambda fields: str(fields["metadata"].get("date", "")), reverse=True)
        return listed[offset : offset + limit]

    async def graph(
        self, memory: str, relation: str | None = None, as_of: str | None = None, limit: int = 30
    ) -> dict[str, Any]:
        if not is_positive_int(limit, MAX_LISTED):
            raise InvalidArgumentsError("memory_graph", f"limit: {limit} is not from 1 to {MAX_LISTED}")
        for store in cast("tuple[LinkedStore, ...]", self.stores):
            with suppress(MemoryNotFoundError):
                links = await store.graph(memory, relation=relation, as_of=as_of, limit=limit)
                return {**links, "store_name": store.name}
        raise MemoryNotFoundError(memory)

    async def update(self, memory_id: str, content: str, seen: str | None = None) -> dict[str, Any]:
        store, found = await self._find_writable(memory_id, "update_memory")
        if seen is None and len(found.content) > getattr(store, "max_chars", len(found.content)):
            reason = f"{memory_id!r} is longer than what a search shows of it: read it with get_memory, and give `seen`"
            raise InvalidArgumentsError("update_memory", reason)
        written = await store.update(memory_id, content, seen=seen or found.seen)
        return _written_fields(store, written, memory_id)

    async def forget(self, memory_id: str) -> dict[str, Any]:
        store, _ = await self._find_writable(memory_id, "forget_memory")
        written = await store.forget(memory_id)
        return _written_fields(store, written, memory_id)

    async def _find_writable(self, ref: str, tool: str) -> tuple[CuratedStore, Found]:
        """Return a memory and its store. Raise InvalidArgumentsError if only read-only stores have it."""
        writable_first = sorted(self.stores, key=lambda store: not store.writable)
        store, found = await _find(writable_first, ref)
        if not store.writable:
            raise InvalidArgumentsError(tool, f"{ref!r} is in the store {store.name!r}, which is read-only")
        return store, found


async def _find(stores: Iterable[CuratedStore], ref: str) -> tuple[CuratedStore, Found]:
    for store in stores:
        try:
            return store, await store.get(ref)
        except MemoryNotFoundError:
            continue
    raise MemoryNotFoundError(ref)


def _found_fields(store: CuratedStore, found: Found, max_chars: int = 0) -> dict[str, Any]:
    content = found.content
    if max_chars and len(content) > max_chars:
        content = f"{content[:max_chars]}… [{len(found.content):,} characters]"
    return {"id": found.id, "store_name": store.name, "content": content, "metadata": found.metadata or {}}


def _written_fields(store: CuratedStore, written: Any, ref: str) -> dict[str, Any]:
    outcome = getattr(written, "outcome", "done")
    fields = {"id": getattr(written, "id", ref), "store_name": store.name, "outcome": outcome}
    redacted = getattr(written, "redacted", None)
    return {**fields, "redacted": dict(redacted)} if redacted else fields
