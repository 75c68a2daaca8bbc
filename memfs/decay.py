"""How much of a memory is left: it fades with time, slower the more it matters and the more it is recalled. Pure.

Its half-life, in days, is H = half_life_days x importance x (1 + ln(1 + recalls)); what is left is R = 2^(-age / H).
The age is counted from the latest of created, updated and the last recall. What is pinned does not fade.
"""

from collections.abc import Mapping
from math import exp2, log1p
from typing import Any, NamedTuple, Self

from memfs.data_types import Memory

HALF_LIFE_DAYS = 30.0  # days
PRUNE_BELOW = 0.05
PRUNED_KEY = "pruned"  # the key of a header that says when a memory was archived because it had faded
DAY = 86_400.0  # seconds
_FLOOR_SHARE, _RETENTION_SHARE, _IMPORTANCE_SHARE = 0.7, 0.2, 0.1  # shares of the factor: they add up to 1


class DecaySettings(NamedTuple):
    """What a vault says about fading, below `forgetting` in its settings."""

    enabled: bool = True  # else nothing fades
    half_life_days: float = HALF_LIFE_DAYS
    prune_below: float = PRUNE_BELOW

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """What the settings of a vault say, and the defaults."""
        return cls(**settings.get("forgetting", {}))


DEFAULT_SETTINGS = DecaySettings()


def half_life(importance: int, recalls: int = 0, *, days: float = HALF_LIFE_DAYS) -> float:
    """The days after which half of a memory is left."""
    return days * importance * (1.0 + log1p(recalls))


def retention(
    basis: float, importance: int, now: float, *, pinned: bool = False, recalls: int = 0, days: float = HALF_LIFE_DAYS
) -> float:
    """What is left of a memory, 0 to 1; `basis` is when it was new or recalled last, in seconds as `now` is."""
    if pinned or now <= basis:
        return 1.0
    return exp2((basis - now) / (DAY * half_life(importance, recalls, days=days)))


def memory_retention(
    memory: Memory, now: float, *, recalls: int = 0, last: float = 0.0, rules: DecaySettings = DEFAULT_SETTINGS
) -> float:
    """What is left of a memory that was recalled so often, and last then."""
    header = memory.header
    if header.pinned or not rules.enabled:
        return 1.0
    basis = max(memory.created.timestamp(), memory.updated.timestamp(), last)
    return retention(basis, header.importance, now, recalls=recalls, days=rules.half_life_days)


def factor(retention: float, importance: int) -> float:
    """What the rank of a memory is multiplied by: 0.7 of one that faded and matters little, to 1."""
    return _FLOOR_SHARE + _RETENTION_SHARE * retention + _IMPORTANCE_SHARE * (importance - 1) / 9


def pack_decay_inputs(moments: Mapping[str, int], values: Mapping[str, Any]) -> int:
    """When a memory was new, in seconds, how much it matters and whether it is pinned, in one number of 64 bits."""
    newest = max(moments["created"], moments["updated"]) // 1_000_000
    return newest << 5 | int(values.get("importance", 1)) << 1 | (values.get("pinned") is True)


def packed_retention(life: int, now: float, days: float, recalls: int = 0, last: float = 0.0) -> float:
    """What is left of a memory whose life, as one number, is this."""
    basis, importance = life >> 5, life >> 1 & 15
    return retention(max(basis, last), importance, now, pinned=life & 1 == 1, recalls=recalls, days=days)


def packed_factor(life: int, now: float, days: float, recalls: int = 0, last: float = 0.0) -> float:
    """What the rank of such a memory is multiplied by: `factor` of `left_of`, in one step, for every candidate of every
    search comes by here."""
    importance, left, age = life >> 1 & 15, 1.0, now - max(life >> 5, last)
    if age > 0.0 and not life & 1:
        left = exp2(-age / (DAY * days * importance * (1.0 + log1p(recalls) if recalls else 1.0)))
    return _FLOOR_SHARE + _RETENTION_SHARE * left + _IMPORTANCE_SHARE * (importance - 1) / 9
