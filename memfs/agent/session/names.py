"""Names of sessions and their logs in a vault, and which files may be read as one."""

import errno
import os
import stat
from urllib.parse import unquote

from memfs.errors import InvalidNamespaceError
from memfs.namespace import SESSIONS, Namespace, encode, is_text

LOG = ".agent.jsonl"
MULTI = ".multi.jsonl"  # the state of several agents that work together
SESSION = "session.jsonl"  # of a session that a framework made before any of its agents
LARGEST = 256 * 1024 * 1024  # bytes of a log that is read


def segments_of(session: str) -> tuple[str, ...]:
    """The directory of a session."""
    return (SESSIONS, segment_of(session, "a session"))


def file_of(agent: str, suffix: str = LOG) -> str:
    """The file of an agent's log."""
    return segment_of(agent, "an agent") + suffix if agent or suffix == LOG else suffix.removeprefix(".")


def segment_of(name: str, what: str) -> str:
    """Any name as one segment of a path; InvalidNamespaceError if it is none, or too long for one."""
    if not isinstance(name, str) or not name.strip() or not is_text(name):
        raise InvalidNamespaceError(
            str(name)[:100], f"not the name of {'an agent' if what == 'agent' else 'a session'}"
        )
    (segment,) = Namespace.parse(encode(name)).segments
    return segment


def name_of(segment: str) -> str | None:
    """The name that has this segment; None if it is not one that memfs makes."""
    name = unquote(segment, errors="surrogateescape")
    return name if name and is_text(name) and encode(name) == segment else None


def check_file(status: os.stat_result, path: str) -> None:
    """Refuse what is not a regular file, or beyond all measure."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST // (1024 * 1024)} MiB", path)
