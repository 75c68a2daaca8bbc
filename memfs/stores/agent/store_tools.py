"""A tool: a function that a model may call, described by a JSON schema."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memfs.errors import InvalidArgumentsError

TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True)
class Tool:
    """A name, words for the model, the schema of the arguments, and the function."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., Awaitable[Any]]
    writes: bool = False

    async def __call__(self, **arguments: Any) -> Any:
        """Call it as a model does: what the schema does not know, or knows otherwise, is refused."""
        check(self.name, self.parameters, arguments)
        answer = self.run(**{name: value for name, value in arguments.items() if value is not None})
        return await answer if inspect.isawaitable(answer) else answer

    def spec(self, shape: str = "json") -> dict[str, Any]:
        """The description as plain JSON schema, or in the shape of `strands`, `openai` or `anthropic`."""
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


def schema(required: str = "", **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these properties; `required` names those that must be there."""
    return {
        "type": "object",
        "properties": {name: dict(form) for name, form in properties.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


def check(name: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Hold arguments against a schema: names, types, and what is required."""
    properties: Mapping[str, Any] = parameters["properties"]
    if unknown := arguments.keys() - properties.keys():
        raise InvalidArgumentsError(name, f"unknown argument {min(unknown)!r}; known: {', '.join(properties)}")
    for key in parameters["required"]:
        if arguments.get(key) is None:
            raise InvalidArgumentsError(name, f"{key!r} is missing")
    for key, value in arguments.items():
        if value is not None and (fault := _fault(properties[key], value)):
            raise InvalidArgumentsError(name, f"{key!r} {fault}")


def _fault(form: Mapping[str, Any], value: object) -> str | None:
    kind = TYPES[form["type"]]
    if not isinstance(value, kind) or (isinstance(value, bool) and form["type"] != "boolean"):
        return f"is not of type {form['type']}"
    if form.get("minLength") and not str(value).strip():
        return "is blank"
    if "enum" in form and value not in form["enum"]:
        return f"is not one of {', '.join(form['enum'])}"
    if isinstance(value, list):
        return next((f"holds one that {fault}" for one in value if (fault := _fault(form["items"], one))), None)
    return None
