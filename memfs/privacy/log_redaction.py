"""Keep secrets out of logs, spans and extracted turns, and choose the policy that the stores of a manager share."""

import logging
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from memfs.errors import MemfsError
from memfs.privacy.policy import DEFAULT_POLICY, Policy, log_redactions

T = TypeVar("T")


def shared_policy(stores: Iterable[Any]) -> Policy:
    """Return the policy for data that goes to all of some stores: that of the first store in a vault, else of the
    first store that has one, else the default."""
    with_policy = [store for store in stores if isinstance(getattr(store, "redaction", None), Policy)]
    in_a_vault = [store for store in with_policy if getattr(store, "vault_root", None) is not None]
    return next((store.redaction for store in (*in_a_vault, *with_policy)), DEFAULT_POLICY)


def admit_for_store(policy: Policy, store: Any, content: Any, metadata: Any) -> tuple[Any, Any]:
    """Return the content and metadata to write to a store: unchanged for a store that enforces its own policy,
    otherwise as `policy` admits them."""
    if isinstance(getattr(store, "redaction", None), Policy):
        return content, metadata
    return policy.admit(content).value, policy.admit(metadata, "metadata").value


def redact_message(policy: Policy, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message of a conversation, redacted; it is in the past and cannot be refused."""
    redacted, counts = policy.redact(message)
    log_redactions("a turn", counts)
    return redacted


def redact_for_log(value: T) -> T:
    """Return a text, or any JSON value, redacted by the default policy."""
    return DEFAULT_POLICY.redact(value).value


def redact_error(error: BaseException) -> BaseException:
    """Return the error that a span may record: the same one, or a new one if its traceback contains a secret."""
    text = "".join(traceback.format_exception(error))
    if redact_for_log(text) == text:
        return error
    return MemfsError(f"{type(error).__name__}: {redact_for_log(str(error))}")


def redact_log_record(record: logging.LogRecord) -> bool:
    """Redact a log record in place, and return True to let it through: a filter for `logging`."""
    message = record.getMessage()
    if (redacted := redact_for_log(message)) != message:
        record.msg, record.args = redacted, ()
    if record.exc_info and (error := record.exc_info[1]) and (other := redact_error(error)) is not error:
        record.exc_info, record.exc_text = (type(other), other, None), None
    return True
