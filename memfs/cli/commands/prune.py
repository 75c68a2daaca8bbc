"""Commands about what fades: stats, prune."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from memfs.cli.inputs import known_namespace, open_vault
from memfs.cli.output import (
    Progress,
    ago,
    count,
    iso,
    label,
    listed,
    memory_facts,
    paint,
    plain,
    print_json,
    print_table,
)
from memfs.cli.parser import addressed
from memfs.data_types import Memory, Written
from memfs.decay import DecaySettings
from memfs.errors import AggregateMemoryError, MemfsError
from memfs.storage.recall_log import Ratio
from memfs.upkeep.pruning import Faded, faded, prune
from memfs.upkeep.stats import Bin, Stats, stats

SHOWN = 20  # memories that are told one by one, unless all are asked for
BAR = 24  # columns of the longest bar
_SIZES = ("B", "KB", "MB", "GB")


# --- prune --------------------------------------------------------------------------------------------


def run_prune(args: argparse.Namespace) -> int:
    """Tell what has faded; with --yes, move it to the archive."""
    with open_vault(args.vault) as vault, Progress(doing="reading memories") as progress:
        rules = DecaySettings.from_settings(vault.settings)
        below = rules.prune_below if args.below is None else args.below
        found = faded(vault, known_namespace(vault, args.namespace), below=below, now=args.at)
        if args.yes:
            progress.step("moving memories to archive/")
        results = prune(vault, found) if args.yes else []
    moved = [result for result in results if isinstance(result, Written)]
    errors = [result for result in results if isinstance(result, MemfsError)]
    if args.json:
        print_json(_prune_facts(found, below, moved, is_done=args.yes))
    elif not rules.enabled:
        print("nothing fades here: memfs.yaml says `enabled: false` below `forgetting`")
    elif args.yes:
        _print_moved(moved, args)
    else:
        _print_faded(found, below, args)
    if errors:
        raise AggregateMemoryError(f"{len(errors)} of {len(results)} failed", errors)
    return 0


def _most(args: argparse.Namespace) -> int:
    """How many memories are told one by one."""
    return sys.maxsize if args.all else SHOWN


def _print_rest(total: int, most: int) -> None:
    if total > most:
        print(paint(f"{total - most:,} more; --all shows them", "dim"))


def _print_moved(moved: Sequence[Written], args: argparse.Namespace) -> None:
    most = _most(args)
    for written in moved[:most]:
        print(f"archived as {plain(written.path)}")
    _print_rest(len(moved), most)
    where = "; `memfs move` brings one back" if moved else ""
    print(addressed(f"{count(len(moved), 'memory')} moved to archive/{where}", args.vault))


def _print_faded(found: Sequence[Faded], below: float, args: argparse.Namespace) -> None:
    """What would go, and how to have it go; and how much stays, and why."""
    going = [one for one in found if not one.spared]
    if going:
        print_table(("path", "left", "last used", "recalls", "title"), [_row(one) for one in going[: _most(args)]])
        _print_rest(len(going), _most(args))
        print()
    done = f"`{_again(args)}` moves {'it' if len(going) == 1 else 'them'} to archive/" if going else ""
    verb = "has" if len(going) == 1 else "have"
    print(f"{count(len(going), 'memory')} {verb} faded below {below:.0%}" + (f"; {done}" if done else ""))
    spared = [one.spared.partition(" supersedes ")[0] for one in found if one.spared]
    reasons = Counter("it supersedes one that stays" if reason == "it" else reason for reason in spared)
    for reason, number in sorted(reasons.items()):
        print(paint(f"{number:,} more {'stays' if number == 1 else 'stay'}: {reason}", "dim"))


def _again(args: argparse.Namespace) -> str:
    """The same command, with --yes."""
    place = [] if args.namespace is None else [args.namespace]
    below = [] if args.below is None else ["--below", f"{args.below:g}"]
    at = [] if args.at is None else ["--at", iso(args.at).removesuffix("T00:00:00Z")]
    return plain(addressed(shlex.join(["memfs", "prune", *place, *below, *at, "--yes"]), args.vault))


def _row(one: Faded) -> list[str]:
    left = f"{one.retention:.1%}"
    return [plain(one.memory.path), left, f"{one.last_used:%Y-%m-%d}", f"{one.recalls.times:,}", label(one.memory)]


def _prune_facts(found: Sequence[Faded], below: float, moved: Sequence[Written], *, is_done: bool) -> dict[str, Any]:
    archived = {written.id: written.path for written in moved}
    memories = [_faded_facts(one) | {"spared": one.spared, "archived": archived.get(one.memory.id)} for one in found]
    return {"below": below, "moved": bool(is_done), "memories": memories}


def _faded_facts(one: Faded) -> dict[str, Any]:
    """What there is to know of how a memory fades."""
    last = datetime.fromtimestamp(one.recalls.last, UTC) if one.recalls.times else None
    told = {"retention": one.retention, "recalls": one.recalls.times, "last_recall": last}
    return memory_facts(one.memory) | told


# --- stats --------------------------------------------------------------------------------------------


def run_stats(args: argparse.Namespace) -> int:
    """Print figures of a vault; nothing is written."""
    with open_vault(args.vault) as vault, Progress(doing="reading memories"):
        where = known_namespace(vault, args.namespace)
        told, root = stats(vault, where, now=args.at), str(vault.root)
    if args.json:
        print_json({"root": root, "namespace": where or "/"} | _stats_facts(told))
        return 0
    print(paint(plain(f"{root}, {where}" if where else root), "bold"))
    for name, text in _rows(told, args.at or datetime.now(UTC)):
        print(addressed(f"  {name:<11}{text}".rstrip(), args.vault))
    return 0


def _rows(told: Stats, now: datetime) -> Iterator[tuple[str, str]]:
    """What a person wants to know, in a line each."""
    archived = f", {told.archived:,} more in archive/" if told.archived else ""
    yield "memories", f"{told.memories:,}{archived}; {_size(told.size)}"
    if told.oldest and told.newest:
        yield "in", listed(told.namespaces)
        yield "types", listed(told.types)
        yield "status", listed(told.statuses)
        yield "oldest", f"{told.oldest.created:%Y-%m-%d}  {plain(told.oldest.path)}"
        yield "newest", f"{told.newest.updated:%Y-%m-%d}  {plain(told.newest.path)}"
        yield from _retention_rows(told)
    yield "searches", _searches(told.searches)
    if told.recalls:
        never = told.memories - told.recalled
        yield "recalled", f"{told.recalled:,} of {count(told.memories, 'memory')}, {never:,} never; most often:"
        for one in told.most_recalled:
            last = ago(datetime.fromtimestamp(one.recalls.last, UTC), now)
            yield "", f"{one.recalls.times:>6,}  {plain(one.memory.path)}, last {last}"


def _retention_rows(told: Stats) -> Iterator[tuple[str, str]]:
    """How many memories are left how much of, as bars."""
    if not told.forgetting.enabled:
        yield "retention", "nothing fades here: memfs.yaml says `enabled: false` below `forgetting`"
        return
    pinned = f", {told.pinned:,} pinned" if told.pinned else ""
    yield "retention", f"{told.mean_retention:.0%} on average{pinned}"
    longest = max(one.memories for one in told.retention) or 1
    for one in reversed(told.retention):
        note = "  see `memfs prune`" if one.memories and one.high <= told.forgetting.prune_below else ""
        bar = "█" * max(round(BAR * one.memories / longest), bool(one.memories))
        yield "", f"{_span(one):>8}  {bar}{' ' if bar else ''}{one.memories:,}{paint(note, 'dim')}"


def _span(one: Bin) -> str:
    return f"{one.low * 100:g}-{one.high * 100:g}%"


def _searches(ratio: Ratio) -> str:
    if ratio.share is None:
        return "none by agents yet"
    since = datetime.fromtimestamp(ratio.since, UTC)
    return f"{ratio.searches:,} by agents since {since:%Y-%m-%d}, {ratio.found:,} found something ({ratio.share:.0%})"


def _size(number: float) -> str:
    """Bytes, in a unit that leaves few digits."""
    for unit in _SIZES[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.0f} {_SIZES[-1]}"


def _stats_facts(told: Stats) -> dict[str, Any]:
    ratio, rules = told.searches, told.forgetting
    return {
        "memories": told.memories, "archived": told.archived, "bytes": told.size,
        "namespaces": told.namespaces, "types": told.types, "statuses": told.statuses,
        "oldest": _when(told.oldest, "created"), "newest": _when(told.newest, "updated"),
        "retention": {
            "enabled": rules.enabled, "half_life_days": rules.half_life_days, "prune_below": rules.prune_below,
            "mean": told.mean_retention, "pinned": told.pinned, "bins": [one._asdict() for one in told.retention],
        },
        "recalls": {
            "memories": told.recalled, "never": told.memories - told.recalled, "times": told.recalls,
            "most": [_faded_facts(one) for one in told.most_recalled],
        },
        "searches": {
            "total": ratio.searches, "found": ratio.found, "ratio": ratio.share,
            "since": datetime.fromtimestamp(ratio.since, UTC) if ratio.searches else None,
        },
    }  # fmt: skip


def _when(memory: Memory | None, key: str) -> dict[str, Any] | None:
    return {"path": memory.path, key: getattr(memory, key)} if memory else None
