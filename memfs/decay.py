"""Decay: a memory loses retention with time, slower the more important it is and the more often it is recalled. Pure.

The half-life in days is H = half_life_days x importance x (1 + ln(1 + recalls)); the retention is R = 2^(-age / H).
The age is counted from the latest of created, updated and the last recall. A pinned memory does not decay.
"""

from collections.abc import Mapping
from math import exp2, log1p
from typing import Any, NamedTuple, Self

from memfs.data_types import Memory

HALF_LIFE_DAYS = 30.0
PRUNE_BELOW = 0.05  # retention
PRUNED_KEY = "pruned"  # header key: the time at which a memory was archived because its retention was low
DAY = 86_400.0  # seconds
_FLOOR_SHARE, _RETENTION_SHARE, _IMPORTANCE_SHARE = 0.7, 0.2, 0.1  # shares of the rank factor, which add up to 1


class DecaySettings(NamedTuple):
    """The section `forgetting` of a vault's settings."""

    enabled: bool = True  # if False, nothing decays
    half_life_days: float = HALF_LIFE_DAYS
    prune_below: float = PRUNE_BELOW

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Read the section from the settings of a vault; missing keys have their defaults."""
        return cls(**settings.get("forgetting", {}))


DEFAULT_SETTINGS = DecaySettings()


def half_life(importance: int, recalls: int = 0, *, days: float = HALF_LIFE_DAYS) -> float:
    """Return the days after which the retention of a memory is one half."""
    return days * importance * (1.0 + log1p(recalls))


def retention(
    basis: float, importance: int, now: float, *, pinned: bool = False, recalls: int = 0, days: float = HALF_LIFE_DAYS
) -> float:
    """Return the retention of a memory, 0 to 1.

    `basis` is the time of its last change or recall; like `now`, it is in seconds. `days` is the half-life of a memory
    of importance 1 without recalls.
    """
    if pinned or now <= basis:
        return 1.0
    return exp2((basis - now) / (DAY * half_life(importance, recalls, days=days)))


def memory_retention(
    memory: Memory, now: float, *, recalls: int = 0, last: float = 0.0, rules: DecaySettings = DEFAULT_SETTINGS
) -> float:
    """Return the retention of a memory that was recalled `recalls` times, the last time at `last` (in seconds)."""
    header = memory.header
    if header.pinned or not rules.enabled:
        return 1.0
    basis = max(memory.created.timestamp(), memory.updated.timestamp(), last)
    return retention(basis, header.importance, now, recalls=recalls, days=rules.half_life_days)


def factor(retention: float, importance: int) -> float:
    """Return the factor for the rank of a memory: 0.7 for retention 0 and importance 1, up to 1 for 1 and 10."""
    return _FLOOR_SHARE + _RETENTION_SHARE * retention + _IMPORTANCE_SHARE * (importance - 1) / 9


def pack_decay_inputs(moments: Mapping[str, int], values: Mapping[str, Any]) -> int:
    """Pack the time of the last change (in seconds), the importance and the pinned flag of a memory into 64 bits."""
    newest = max(moments["created"], moments["updated"]) // 1_000_000
    return newest << 5 | int(values.get("importance", 1)) << 1 | (values.get("pinned") is True)


def packed_retention(packed: int, now: float, days: float, recalls: int = 0, last: float = 0.0) -> float:
    """Return the retention of a memory from its packed decay inputs; `recalls` and `last` as in `memory_retention`."""
    basis, importance = packed >> 5, packed >> 1 & 15
    return retention(max(basis, last), importance, now, pinned=packed & 1 == 1, recalls=recalls, days=days)


def packed_factor(packed: int, now: float, days: float, recalls: int = 0, last: float = 0.0) -> float:
    """Return the rank factor of a memory from its packed decay inputs.

    The same as `factor` of `packed_retention`, in one step, because every search calls it for every candidate.
    """
    importance, retained, age = packed >> 1 & 15, 1.0, now - max(packed >> 5, last)
    if age > 0.0 and not packed & 1:
        retained = exp2(-age / (DAY * days * importance * (1.0 + log1p(recalls) if recalls else 1.0)))
    return _FLOOR_SHARE + _RETENTION_SHARE * retained + _IMPORTANCE_SHARE * (importance - 1) / 9
