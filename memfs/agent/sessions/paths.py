"""Names of session directories and log files in a vault, and the check of a file before it is read as a log."""

import errno
import os
import stat
from urllib.parse import unquote

from memfs.errors import InvalidNamespaceError
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, encode_segment, fold, is_utf8_encodable

AGENT_LOG = ".agent.jsonl"
MULTI_AGENT_LOG = ".multi.jsonl"  # the state of several agents that work together
SESSION_LOG = "session.jsonl"  # of the session itself, which some frameworks create before any of its agents
MAX_LOG_BYTES = 256 * 1024 * 1024


def sessions_directory(*, archived: bool = False) -> tuple[str, ...]:
    """Return the directory of all sessions, or of the expired ones."""
    return (ARCHIVE, SESSIONS) if archived else (SESSIONS,)


def session_segments(session: str, *, archived: bool = False) -> tuple[str, ...]:
    """Return the directory of a session; InvalidNamespaceError if its name is not valid."""
    return (*sessions_directory(archived=archived), _segment(session, "a session"))


def log_file_name(agent: str, suffix: str = AGENT_LOG) -> str:
    """Return the file name of an agent's log, or of the session's own log."""
    return suffix if suffix == SESSION_LOG else _segment(agent, "an agent") + suffix


def parse_log_file_name(file: str) -> tuple[str, str] | None:
    """Return the agent and the suffix of a log's file name; None if memfs would not create such a name."""
    if file == SESSION_LOG:
        return "", SESSION_LOG
    for suffix in (AGENT_LOG, MULTI_AGENT_LOG):
        if file.endswith(suffix) and (agent := decode_segment(file.removesuffix(suffix))):
            return agent, suffix
    return None


def decode_segment(segment: str) -> str | None:
    """Return the name of a session or agent from its path segment; None if memfs would not create such a segment."""
    name = unquote(segment, errors="surrogateescape")
    return name if name.strip() and is_utf8_encodable(name) and encode_segment(name) == segment else None


def is_owned_by(owner: str, actor: str) -> bool:
    """Return whether an actor may use a log of this owner, which may be empty; case is ignored, as in a namespace."""
    return owner in ("", actor) or fold(owner) == fold(actor)


def _segment(name: str, what: str) -> str:
    if not isinstance(name, str) or not name.strip() or not is_utf8_encodable(name):
        raise InvalidNamespaceError(str(name)[:100], f"cannot name {what}")
    (segment,) = Namespace.parse(encode_segment(name)).segments
    return segment


def check_log_file(status: os.stat_result, path: str) -> None:
    """Raise OSError if a file is not a regular file, or is too large to be read."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > MAX_LOG_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_LOG_BYTES // (1024 * 1024)} MiB", path)
