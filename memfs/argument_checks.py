"""What a manager is given, checked before anything is done with it. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from memfs.errors import InvalidArgumentsError, InvalidSetupError, short_repr

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what models' makers allow as the name of a tool
Toggle = Mapping[str, Any] | bool | None


def check_list(subject: str, given: Any) -> list[Any]:
    """Several things, and not one that happens to be a text."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidSetupError(subject, f"{short_repr(given)} is not a list")
    return list(given)


def expand_toggle(given: Toggle) -> Mapping[str, Any] | None:
    """True stands for all defaults, and nothing for off."""
    if isinstance(given, str):
        raise InvalidSetupError("MemoryManager", f"{given!r} is not True, False or a mapping of settings")
    return given if isinstance(given, Mapping) else {} if given else None


def check_tool_config(subject: str, config: Mapping[str, Any], *keys: str) -> None:
    """Refuse a key that nobody reads."""
    if unknown := config.keys() - set(keys):
        raise InvalidSetupError(subject, f"unknown key {min(unknown)!r}; known: {', '.join(keys)}")
    if not isinstance(waits := config.get("wait_for_writes", True), bool):
        raise InvalidSetupError(subject, f"wait_for_writes: {short_repr(waits)} is not True or False")
    name = config.get("name")
    if name is not None and not (isinstance(name, str) and _TOOL_NAME.fullmatch(name)):
        raise InvalidSetupError(subject, f"name: {short_repr(name)} is not up to 64 letters, digits, - and _")


def parse_tool_arguments(tool: str, given: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """The arguments of a tool call, as a mapping or as JSON."""
    try:
        arguments = json.loads(given or "{}") if isinstance(given, str) else given or {}
    except ValueError as error:
        raise InvalidArgumentsError(tool, f"its arguments are not JSON: {error}") from None
    if not isinstance(arguments, Mapping):
        raise InvalidArgumentsError(tool, f"its arguments are {short_repr(arguments)}, not an object")
    return arguments


def check_options(subject: str, options: Mapping[str, Any] | None, *keys: str) -> Mapping[str, Any]:
    """The options of a call; one that nobody reads is refused."""
    asked = {} if options is None else options
    if not isinstance(asked, Mapping):
        raise InvalidArgumentsError(
            subject, f"options: {short_repr(asked)} is not a mapping such as {{'stores': [...]}}"
        )
    if unknown := asked.keys() - set(keys):
        raise InvalidArgumentsError(subject, f"unknown option {min(unknown)!r}; known: {', '.join(keys)}")
    return asked


def is_positive_int(value: object, maximum: float = float("inf")) -> bool:
    """Return whether a value is an int from 1 to `maximum`. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= maximum
