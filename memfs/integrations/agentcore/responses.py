"""Answers in the manner of the service: its errors, its pages."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import ClientError

from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    InvalidSearchError,
    MemfsError,
    MemoryNotFoundError,
    SessionNotFoundError,
    SettingsError,
    short_repr,
)

PAGE = 20  # answers at once, where nobody says how many
LARGEST = 100
P = ParamSpec("P")
T = TypeVar("T")
Response = dict[str, Any]
_CODES: Sequence[tuple[tuple[type[MemfsError], ...], str, int]] = (
    ((MemoryNotFoundError, SessionNotFoundError), "ResourceNotFoundException", 404),
    ((InvalidMemoryError, InvalidNamespaceError, InvalidSearchError, SettingsError), "ValidationException", 400),
    ((MemfsError,), "ServiceException", 500),
)


def code_of(error: MemfsError) -> tuple[str, int]:
    """What the service calls such an error, and its number."""
    return next((name, number) for kinds, name, number in _CODES if isinstance(error, kinds))


def service_errors(call: Callable[P, T]) -> Callable[P, T]:
    """A call whose errors are those of a boto3 client."""
    operation = "".join(word.capitalize() for word in call.__name__.split("_"))

    @wraps(call)
    def answer(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except MemfsError as error:
            response: Any = {"Error": {"Code": code_of(error)[0], "Message": str(error)}}
            raise ClientError(response, operation) from error

    return answer


def page(key: str, found: Sequence[tuple[str, Any]], limit: int | None, token: str | None) -> Response:
    """Some of what was found, by name, and the token for the next, the name of the last; what is None is not told.

    What is added or gone between two pages makes none be told twice.
    """
    most = LARGEST if limit is None else limit
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise InvalidSearchError("maxResults", f"{most!r} is not a whole number from 1")
    rest = [(name, one) for name, one in found[_start([name for name, _ in found], token) :] if one is not None]
    told = rest[: min(most, LARGEST)]
    more = {"nextToken": told[-1][0]} if len(rest) > len(told) else {}
    return {key: [one for _, one in told], **more}


def _start(names: Sequence[str], token: str | None) -> int:
    """Where the page behind a token begins."""
    if token is None:
        return 0
    if token not in names:
        raise InvalidSearchError("nextToken", f"{short_repr(token)} is no token of an answer")
    return names.index(token) + 1


def parts_of(subject: str, given: Any, operators: Collection[str]) -> tuple[str, str, Any]:
    """Key, operator and value of a filter of the service; the value is None if there is none."""
    if not isinstance(given, Mapping) or given.get("operator") not in operators:
        sign = given.get("operator") if isinstance(given, Mapping) else given
        raise InvalidSearchError(subject, f"unknown operator {short_repr(sign)}; known: {', '.join(operators)}")
    left, right = given.get("left"), given.get("right")
    key = left.get("metadataKey") if isinstance(left, Mapping) else None
    if not isinstance(key, str) or not key:
        raise InvalidSearchError(subject, f"{short_repr(left)} is no left side with a metadataKey")
    if right is not None and not (isinstance(right, Mapping) and "metadataValue" in right):
        raise InvalidSearchError(subject, f"{short_repr(right)} is no right side with a metadataValue")
    return key, str(given["operator"]), None if right is None else right["metadataValue"]
