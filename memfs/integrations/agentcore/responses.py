"""Responses in the format of the service: its errors, its pages, its filters."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import ClientError

from memfs.argument_checks import is_positive_int
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

PAGE_SIZE = 20  # results per page by default
MAX_PAGE_SIZE = 100
P = ParamSpec("P")
T = TypeVar("T")
Response = dict[str, Any]
_ERROR_CODES: Sequence[tuple[tuple[type[MemfsError], ...], str, int]] = (
    ((MemoryNotFoundError, SessionNotFoundError), "ResourceNotFoundException", 404),
    ((InvalidMemoryError, InvalidNamespaceError, InvalidSearchError, SettingsError), "ValidationException", 400),
    ((MemfsError,), "ServiceException", 500),
)


def error_code(error: MemfsError) -> tuple[str, int]:
    """Return the name and the HTTP status that the service has for an error."""
    return next((name, number) for kinds, name, number in _ERROR_CODES if isinstance(error, kinds))


def service_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Decorate an operation so that it raises the ClientError of a boto3 client instead of a MemfsError."""
    operation = "".join(word.capitalize() for word in call.__name__.split("_"))

    @wraps(call)
    def wrapped(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return call(*arguments, **named)
        except MemfsError as error:
            response: Any = {"Error": {"Code": error_code(error)[0], "Message": str(error)}}
            raise ClientError(response, operation) from error

    return wrapped


def page(key: str, found: Sequence[tuple[str, Any]], limit: int | None, token: str | None) -> Response:
    """Return one page of named items, and the token of the next page, which is the name of the last item.

    An item that is None is left out, but its name is a valid token. Because the token is a name, no item is returned
    twice if others are added or removed between two pages.
    """
    size = MAX_PAGE_SIZE if limit is None else limit
    if not is_positive_int(size):
        raise InvalidSearchError("maxResults", f"{size!r} is not a whole number from 1")
    rest = [(name, item) for name, item in found[_start([name for name, _ in found], token) :] if item is not None]
    items = rest[: min(size, MAX_PAGE_SIZE)]
    more = {"nextToken": items[-1][0]} if len(rest) > len(items) else {}
    return {key: [item for _, item in items], **more}


def _start(names: Sequence[str], token: str | None) -> int:
    """Return the index of the first item after a token; InvalidSearchError if the token is unknown."""
    if token is None:
        return 0
    if token not in names:
        raise InvalidSearchError("nextToken", f"{short_repr(token)} is not a token of an earlier page")
    return names.index(token) + 1


def parse_filter(subject: str, given: Any, operators: Collection[str]) -> tuple[str, str, Any]:
    """Return key, operator and value of a filter of the service; the value is None if there is none.

    InvalidSearchError if the filter is not valid.
    """
    if not isinstance(given, Mapping) or given.get("operator") not in operators:
        operator = given.get("operator") if isinstance(given, Mapping) else given
        raise InvalidSearchError(subject, f"unknown operator {short_repr(operator)}; known: {', '.join(operators)}")
    left, right = given.get("left"), given.get("right")
    key = left.get("metadataKey") if isinstance(left, Mapping) else None
    if not isinstance(key, str) or not key:
        raise InvalidSearchError(subject, f"{short_repr(left)} is not a left side with a metadataKey")
    if right is not None and not (isinstance(right, Mapping) and "metadataValue" in right):
        raise InvalidSearchError(subject, f"{short_repr(right)} is not a right side with a metadataValue")
    return key, str(given["operator"]), None if right is None else right["metadataValue"]
