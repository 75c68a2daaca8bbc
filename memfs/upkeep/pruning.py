"""Find faded memories and move them to the archive. Nothing is deleted."""

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
    """A memory with its retention and recalls; `spared` is the reason why `prune` keeps a faded memory, or empty."""

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
    """Return each memory with its retention."""
    rules, recalls, moment = (
        DecaySettings.from_settings(vault.settings),
        vault.usage.snapshot(),
        (now or system_clock()).timestamp(),
    )
    found = []
    for memory in memories:
        recalled = recalls.get(memory.id, NEVER_RECALLED)
        retention = memory_retention(memory, moment, recalls=recalled.times, last=recalled.last, rules=rules)
        found.append(MemoryRetention(memory, retention, recalled))
    return found


def faded(
    vault: Vault, namespace: str | None = None, *, below: float | None = None, now: datetime | None = None
) -> list[MemoryRetention]:
    """Return the memories with a retention under `below` (default: the setting `prune_below`), the lowest first.

    The result includes memories that `prune` will not move, with the reason in `spared`: files that memfs did not
    create, drafts, read-only files, and memories that supersede one that stays, which would be in force again. Raise
    SettingsError if `below` is not from 0 to 1.
    """
    limit = DecaySettings.from_settings(vault.settings).prune_below if below is None else below
    if not 0 <= limit <= 1:
        raise SettingsError("below", f"{limit!r} is not a number from 0 to 1")
    memories = vault.list()
    here = memories if namespace is None else vault.list(namespace)
    found = [one for one in retention_of(vault, here, now=now) if one.retention < limit]
    checked = [one._replace(spared=_spared_reason(one.memory)) for one in found]
    chains = SupersessionChains(memories, now or system_clock())
    return sorted(_spare_superseding(checked, chains), key=lambda one: (one.retention, one.memory.path))


def prune(vault: Vault, found: Iterable[MemoryRetention], *, now: datetime | None = None) -> list[Written | MemfsError]:
    """Move memories to `archive/`, except those that are spared; return one result or error each, not in order.

    A memory that changed since it was listed is an error. The header of a moved one gets the key `pruned`, so that the
    same fact can be remembered again.
    """
    pruned = [one.memory for one in found if not one.spared]
    mark = {PRUNED_KEY: now or system_clock()}
    marked = vault.update_many({"ref": memory.path, "seen": memory.stamp, **mark} for memory in pruned)
    paths = [written.path for written in marked if isinstance(written, Written)]
    moved = vault.forget_many(paths)
    failed = [path for path, result in zip(paths, moved, strict=True) if isinstance(result, MemfsError)]
    vault.update_many({"ref": path, PRUNED_KEY: None} for path in failed)
    return [*moved, *(error for error in marked if isinstance(error, MemfsError))]


def _spared_reason(memory: Memory) -> str:
    """Return why a faded memory is spared, judged by its own file; empty if it is not."""
    if not is_id(memory.header.get("id"), "m") or is_conflict_copy(memory.path):
        return "a file that memfs did not create"
    if memory.header.get("read_only") is True:
        return "read-only"
    return "a draft" if memory.header.status == "draft" else ""


def _spare_superseding(found: Sequence[MemoryRetention], chains: SupersessionChains) -> list[MemoryRetention]:
    """Spare each memory that supersedes one that stays, and in turn those that supersede it."""
    by_path = {one.memory.path: one for one in found}
    while True:
        pruned = {path for path, one in by_path.items() if not one.spared}
        kept_targets = {path: sorted(chains.supersedes.get(path, set()) - pruned) for path in pruned}
        newly_spared = {path: targets[0] for path, targets in kept_targets.items() if targets}
        if not newly_spared:
            return list(by_path.values())
        for path, target in newly_spared.items():
            by_path[path] = by_path[path]._replace(spared=f"it supersedes {target}, which stays")
