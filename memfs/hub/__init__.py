"""Mirror the memories of several vaults through one PostgreSQL database. See docs/hub.md."""

from memfs.hub.pull import pull
from memfs.hub.push import push
from memfs.hub.remote import Hub
from memfs.hub.report import Conflict, HubReport

__all__ = ["Conflict", "Hub", "HubReport", "pull", "push"]
