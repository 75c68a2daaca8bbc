"""Checks of arguments and configurations that callers pass in, made before anything is done with them. Pure."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from memfs.errors import InvalidArgumentsError, InvalidSetupError, short_repr

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # the tool names that all model providers allow
Toggle = Mapping[str, Any] | bool | None  # settings of a feature, True for its defaults, False or None to turn it off


def check_list(subject: str, given: Any) -> list[Any]:
    """Return the items as a list. Raises InvalidSetupError for a text, a mapping, or anything that is not iterable."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidSetupError(subject, f"{short_repr(given)} is not a list")
    return list(given)


def expand_toggle(given: Toggle) -> Mapping[str, Any] | None:
    """Return the settings of a feature: empty for True, None if it is off. Raises InvalidSetupError for a text."""
    if isinstance(given, str):
        raise InvalidSetupError("MemoryManager", f"{given!r} is not True, False or a mapping of settings")
    return given if isinstance(given, Mapping) else {} if given else None


def check_keys(subject: str, config: Mapping[str, Any], *keys: str) -> None:
    """Raise InvalidSetupError if a configuration has a key outside `keys`: a misspelled key must not be ignored."""
    if unknown := config.keys() - set(keys):
        raise InvalidSetupError(subject, f"unknown key {min(unknown)!r}; known: {', '.join(keys)}")


def check_tool_config(subject: str, config: Mapping[str, Any], *keys: str) -> None:
    """Raise InvalidSetupError if a tool's configuration has a key outside `keys`, or another value that is wrong."""
    check_keys(subject, config, *keys)
    if not isinstance(flag := config.get("wait_for_writes", True), bool):
        raise InvalidSetupError(subject, f"wait_for_writes: {short_repr(flag)} is not True or False")
    name = config.get("name")
    if name is not None and not (isinstance(name, str) and _TOOL_NAME.fullmatch(name)):
        raise InvalidSetupError(subject, f"name: {short_repr(name)} is not up to 64 letters, digits, - and _")


def parse_tool_arguments(tool: str, given: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Return the arguments of a tool call, given as a mapping or a JSON object; None and an empty text mean none.

    Raises InvalidArgumentsError for anything else.
    """
    try:
        arguments = json.loads(given or "{}") if isinstance(given, str) else given or {}
    except ValueError as error:
        raise InvalidArgumentsError(tool, f"its arguments are not JSON: {error}") from None
    if not isinstance(arguments, Mapping):
        raise InvalidArgumentsError(tool, f"its arguments are {short_repr(arguments)}, not an object")
    return arguments


def check_options(subject: str, options: Mapping[str, Any] | None, *keys: str) -> Mapping[str, Any]:
    """Return the options of a call; None means none. Raises InvalidArgumentsError for other types and other keys."""
    given = {} if options is None else options
    if not isinstance(given, Mapping):
        reason = f"options: {short_repr(given)} is not a mapping such as {{'stores': [...]}}"
        raise InvalidArgumentsError(subject, reason)
    if unknown := given.keys() - set(keys):
        raise InvalidArgumentsError(subject, f"unknown option {min(unknown)!r}; known: {', '.join(keys)}")
    return given


def is_int(value: object, minimum: float, maximum: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is an int from `minimum` to `maximum`. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum


def is_positive_int(value: object, maximum: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is an int from 1 to `maximum`. True and False are not."""
    return is_int(value, 1, maximum)


def is_number(value: object, minimum: float, maximum: float) -> TypeGuard[float]:
    """Return whether a value is an int or float from `minimum` to `maximum`. True, False and NaN are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and minimum <= value <= maximum
