"""Names of sessions and their logs in a vault, and which files may be read as one."""

import errno
import os
import stat
from urllib.parse import unquote

from memfs.errors import InvalidNamespaceError
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, encode_segment, fold, is_utf8_encodable

LOG = ".agent.jsonl"
MULTI = ".multi.jsonl"  # the state of several agents that work together
SESSION = "session.jsonl"  # of a session itself, which some frameworks make before any of its agents
LARGEST = 256 * 1024 * 1024  # bytes of a log that is read


def place_of(*, archived: bool = False) -> tuple[str, ...]:
    """The directory of all sessions, or of those that expired."""
    return (ARCHIVE, SESSIONS) if archived else (SESSIONS,)


def segments_of(session: str, *, archived: bool = False) -> tuple[str, ...]:
    """The directory of a session."""
    return (*place_of(archived=archived), _segment(session, "a session"))


def file_of(agent: str, suffix: str = LOG) -> str:
    """The file of an agent's log, or of the session's own."""
    return suffix if suffix == SESSION else _segment(agent, "an agent") + suffix


def parts_of(file: str) -> tuple[str, str] | None:
    """Agent and suffix of the file of a log; None if it is none that memfs makes."""
    if file == SESSION:
        return "", SESSION
    for suffix in (LOG, MULTI):
        if file.endswith(suffix) and (agent := name_of(file.removesuffix(suffix))):
            return agent, suffix
    return None


def name_of(segment: str) -> str | None:
    """The name that has this segment; None if it is not one that memfs makes."""
    name = unquote(segment, errors="surrogateescape")
    return name if name.strip() and is_utf8_encodable(name) and encode_segment(name) == segment else None


def is_of(owner: str, actor: str) -> bool:
    """Tell whether the log of an owner is an actor's; a name in another case is the same, as in a namespace."""
    return owner in ("", actor) or fold(owner) == fold(actor)


def _segment(name: str, what: str) -> str:
    if not isinstance(name, str) or not name.strip() or not is_utf8_encodable(name):
        raise InvalidNamespaceError(str(name)[:100], f"cannot name {what}")
    (segment,) = Namespace.parse(encode_segment(name)).segments
    return segment


def check_file(status: os.stat_result, path: str) -> None:
    """Refuse what is not a regular file, or beyond all measure."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST // (1024 * 1024)} MiB", path)
