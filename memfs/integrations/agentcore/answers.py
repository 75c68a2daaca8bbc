"""Answers in the manner of the service: its errors, its pages."""

from collections.abc import Callable, Sequence
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
)

PAGE = 20  # answers at once, where nobody says how many
LARGEST = 100
P = ParamSpec("P")
T = TypeVar("T")
Answer = dict[str, Any]
_CODES: Sequence[tuple[tuple[type[MemfsError], ...], str, int]] = (
    ((MemoryNotFoundError, SessionNotFoundError), "ResourceNotFoundException", 404),
    ((InvalidMemoryError, InvalidNamespaceError, InvalidSearchError, SettingsError), "ValidationException", 400),
    ((MemfsError,), "ServiceException", 500),
)


def code_of(error: MemfsError) -> tuple[str, int]:
    """What the service calls such an error, and its number."""
    return next((name, number) for kinds, name, number in _CODES if isinstance(error, kinds))


def answering(call: Callable[P, T]) -> Callable[P, T]:
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


def page(key: str, found: Sequence[Any], limit: int | None, token: str | None) -> Answer:
    """Some of what was found, and the token for the next."""
    start = offset_of(token)
    most = LARGEST if limit is None else limit
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise InvalidSearchError("maxResults", f"{most!r} is not a whole number from 1")
    end = start + min(most, LARGEST)
    return {key: list(found[start:end]), **({"nextToken": str(end)} if end < len(found) else {})}


def offset_of(token: str | None) -> int:
    """How far a token has come."""
    if token is None:
        return 0
    if not isinstance(token, str) or not token.isdecimal():
        raise InvalidSearchError("nextToken", f"{token!r} is no token of an answer")
    return int(token)
