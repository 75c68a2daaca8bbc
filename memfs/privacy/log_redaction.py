"""Discretion: no secret goes to a log or a span, whoever worded it; and the policy that a manager's stores share."""

import logging
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from memfs.errors import MemfsError
from memfs.privacy.policy import DEFAULT, Policy, report

T = TypeVar("T")


def policy_of(stores: Iterable[Any]) -> Policy:
    """The policy for what goes to all of some stores: that of the first which is kept in a vault, or has one at all."""
    known = [store for store in stores if isinstance(getattr(store, "redaction", None), Policy)]
    lasting = [store for store in known if getattr(store, "vault_root", None) is not None]
    return next((store.redaction for store in (*lasting, *known)), DEFAULT)


def admitted(policy: Policy, store: Any, content: Any, metadata: Any) -> tuple[Any, Any]:
    """What may be written to a store: one of memfs sees to it itself, any other gets what the policy admits."""
    if isinstance(getattr(store, "redaction", None), Policy):
        return content, metadata
    return policy.admit(content).value, policy.admit(metadata, "metadata").value


def heard(policy: Policy, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message without what is not to be kept; one that was said cannot be refused."""
    kept, counts = policy.redact(message)
    report("a turn", counts)
    return kept


def discreet(said: T) -> T:
    """A text, or any value of JSON, without what the policy by default leaves out."""
    return DEFAULT.redact(said).value


def discreet_error(error: BaseException) -> BaseException:
    """An error as a span may have it: the very one, unless its words, or those of one behind it, hold a secret."""
    words = "".join(traceback.format_exception(error))
    return error if discreet(words) == words else MemfsError(f"{type(error).__name__}: {discreet(str(error))}")


def discreet_record(record: logging.LogRecord) -> bool:
    """Let a line of a log through, without secrets."""
    said = record.getMessage()
    if (kept := discreet(said)) != said:
        record.msg, record.args = kept, ()
    if record.exc_info and (error := record.exc_info[1]) and (other := discreet_error(error)) is not error:
        record.exc_info, record.exc_text = (type(other), other, None), None
    return True
