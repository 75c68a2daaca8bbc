"""Session logs: one append-only JSONL file per agent of a session."""

from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.agent.sessions.branches import Branch
    from memfs.agent.sessions.events import Event
    from memfs.agent.sessions.session_log import SessionLog
    from memfs.agent.sessions.vault_sessions import Actor, Session, Sessions

__all__ = ["Actor", "Branch", "Event", "Session", "SessionLog", "Sessions"]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "Branch": "branches",
        "Event": "events",
        "SessionLog": "session_log",
        **dict.fromkeys(("Actor", "Session", "Sessions"), "vault_sessions"),
    },
)
