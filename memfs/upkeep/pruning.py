"""Forgetting: the memories that have faded, and moving them to the archive. Nothing is deleted."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from memfs.data_types import Memory, Written
from memfs.decay import PRUNED_KEY, DecaySettings, memory_retention
from memfs.errors import MemfsError, SettingsError
from memfs.ids import is_id
from memfs.namespace import is_conflict_copy
from memfs.protocols import system_clock
from memfs.storage.recall_log import NEVER_RECALLED, Recalls
from memfs.upkeep.supersession_chains import SupersessionChains
from memfs.vault.vault import Vault


class MemoryRetention(NamedTuple):
    """A memory of which little is left; `spared` says why it stays nevertheless, or is empty."""

    memory: Memory
    retention: float
    recalls: Recalls
    spared: str = ""

    @property
    def last_used(self) -> datetime:
        """The latest of when it was created, updated and recalled."""
        recalled = datetime.fromtimestamp(self.recalls.last, UTC)
        return max(self.memory.created, self.memory.updated, recalled)


def retention_of(vault: Vault, memories: Iterable[Memory], *, now: datetime | None = None) -> list[MemoryRetention]:
    """How much is left of each memory."""
    rules, recalls, moment = (
        DecaySettings.from_settings(vault.settings),
        vault.usage.snapshot(),
        (now or system_clock()).timestamp(),
    )
    found = []
    for memory in memories:
        known = recalls.get(memory.id, NEVER_RECALLED)
        left = memory_retention(memory, moment, recalls=known.times, last=known.last, rules=rules)
        found.append(MemoryRetention(memory, left, known))
    return found


def faded(
    vault: Vault, namespace: str | None = None, *, below: float | None = None, now: datetime | None = None
) -> list[MemoryRetention]:
    """The memories of which less than `below` is left (`prune_below` of the settings), the most faded first.

    What a person must not lose silently is spared: files that memfs did not create, drafts, read-only files, and what
    supersedes a memory that stays, which would be in force again.
    """
    limit = DecaySettings.from_settings(vault.settings).prune_below if below is None else below
    if not 0 <= limit <= 1:
        raise SettingsError("below", f"{limit!r} is not a number from 0 to 1")
    memories = vault.list()
    here = memories if namespace is None else vault.list(namespace)
    found = [one for one in retention_of(vault, here, now=now) if one.retention < limit]
    told = [one._replace(spared=_reason(one.memory)) for one in found]
    spared = _with_what_they_replaced(told, SupersessionChains(memories, now or system_clock()))
    return sorted(spared, key=lambda one: (one.retention, one.memory.path))


def prune(vault: Vault, found: Iterable[MemoryRetention], *, now: datetime | None = None) -> list[Written | MemfsError]:
    """Move memories to `archive/`, but for those that are spared, or that changed since; each has its own result.

    Their header then says `pruned`, so that what is said again is remembered again.
    """
    going = [one.memory for one in found if not one.spared]
    mark = {PRUNED_KEY: now or system_clock()}
    marked = vault.update_many({"ref": memory.path, "seen": memory.stamp, **mark} for memory in going)
    paths = [written.path for written in marked if isinstance(written, Written)]
    moved = vault.forget_many(paths)
    stayed = [path for path, result in zip(paths, moved, strict=True) if isinstance(result, MemfsError)]
    vault.update_many({"ref": path, PRUNED_KEY: None} for path in stayed)
    return [*moved, *(error for error in marked if isinstance(error, MemfsError))]


def _reason(memory: Memory) -> str:
    """Why a faded memory stays, as far as its own file tells."""
    if not is_id(memory.header.get("id"), "m") or is_conflict_copy(memory.path):
        return "a file that memfs did not create"
    if memory.header.get("read_only") is True:
        return "read-only"
    return "a draft" if memory.header.status == "draft" else ""


def _with_what_they_replaced(found: Sequence[MemoryRetention], lineage: SupersessionChains) -> list[MemoryRetention]:
    """Spare what supersedes a memory that stays, and what supersedes that, and so on."""
    told = {one.memory.path: one for one in found}
    while True:
        going = {path for path, one in told.items() if not one.spared}
        kept = {path: sorted(lineage.replaced.get(path, set()) - going) for path in going}
        bound = {path: stays[0] for path, stays in kept.items() if stays}
        if not bound:
            return list(told.values())
        for path, stays in bound.items():
            told[path] = told[path]._replace(spared=f"it supersedes {stays}, which stays")
