"""Statistics of a vault: counts, retention, and recalls by agents."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from memfs.data_types import Memory
from memfs.decay import DecaySettings
from memfs.storage.recall_log import Ratio
from memfs.upkeep.pruning import MemoryRetention, retention_of
from memfs.vault.vault import Vault

MAX_MOST_RECALLED = 5  # memories that are listed


class RetentionBin(NamedTuple):
    """The number of memories with a retention from `low` up to, but not including, `high`; the last bin includes 1."""

    low: float
    high: float
    memories: int


@dataclass(frozen=True)
class Stats:
    """The statistics of a vault, or of a namespace in it."""

    memories: int
    archived: int
    size: int  # bytes of the files, archived ones too
    types: Mapping[str, int]
    statuses: Mapping[str, int]
    namespaces: Mapping[str, int]  # by the first directory below
    oldest: Memory | None  # by `created`
    newest: Memory | None  # by `updated`
    forgetting: DecaySettings
    pinned: int
    mean_retention: float
    retention: Sequence[RetentionBin]  # pinned memories are in the last bin
    most_recalled: Sequence[MemoryRetention]
    recalled: int  # memories that were recalled
    recalls: int  # how often memories were recalled
    searches: Ratio  # of the whole vault


def stats(vault: Vault, namespace: str | None = None, *, now: datetime | None = None) -> Stats:
    """Return the statistics of a vault or a namespace; nothing is written."""
    memories = vault.list(namespace)
    archived = [memory for memory in vault.list(namespace, archived=True) if memory.path.startswith("archive/")]
    rules = DecaySettings.from_settings(vault.settings)
    retained = retention_of(vault, memories, now=now)
    used = sorted(
        (one for one in retained if one.recalls.times), key=lambda one: (-one.recalls.times, -one.recalls.last)
    )
    depth = len(vault.namespace.segments if namespace is None else [part for part in namespace.split("/") if part])
    return Stats(
        memories=len(memories),
        archived=len(archived),
        size=sum(len(memory.data) for memory in (*memories, *archived)),
        types=_count([memory.header.type for memory in memories]),
        statuses=_count([memory.header.status for memory in memories]),
        namespaces=_count(["/" + "/".join(memory.path.split("/")[:-1][: depth + 1]) for memory in memories]),
        oldest=min(memories, key=lambda memory: memory.created, default=None),
        newest=max(memories, key=lambda memory: memory.updated, default=None),
        forgetting=rules,
        pinned=sum(memory.header.pinned for memory in memories),
        mean_retention=sum(one.retention for one in retained) / max(len(retained), 1),
        retention=_retention_bins(retained, rules.prune_below),
        most_recalled=used[:MAX_MOST_RECALLED],
        recalled=len(used),
        recalls=sum(one.recalls.times for one in used),
        searches=vault.usage.ratio(),
    )


def _count(texts: Sequence[str]) -> dict[str, int]:
    """Return how often each text occurs, the most frequent first."""
    return dict(sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0])))


def _retention_bins(retained: Sequence[MemoryRetention], below: float) -> list[RetentionBin]:
    """Return the retention of memories in quarters, with one more edge at the limit of `memfs prune`."""
    edges = sorted({0.0, below, 0.25, 0.5, 0.75, 1.0})
    bins = []
    for low, high in pairwise(edges):
        inside = [one for one in retained if low <= one.retention < high or (high == 1.0 and one.retention == 1.0)]
        bins.append(RetentionBin(low, high, len(inside)))
    return bins
