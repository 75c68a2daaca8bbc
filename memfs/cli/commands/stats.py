"""The command `stats`: figures of a vault."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from memfs.cli.inputs import existing_namespace, open_vault
from memfs.cli.output import Progress, count, format_counts, paint, print_json, safe_text, time_ago
from memfs.cli.parser import with_vault_option
from memfs.json_output import stats_json
from memfs.storage.recall_log import Ratio
from memfs.upkeep.stats import RetentionBin, Stats, stats

MAX_BAR_WIDTH = 24  # columns of the longest bar
_SIZE_UNITS = ("B", "KB", "MB", "GB")


def run_stats(args: argparse.Namespace) -> int:
    """Print figures of a vault; nothing is written."""
    with open_vault(args.vault) as vault, Progress(activity="reading memories"):
        namespace = existing_namespace(vault, args.namespace)
        figures, root = stats(vault, namespace, now=args.at), str(vault.root)
    if args.json:
        print_json(stats_json(root, namespace or "/", figures))
        return 0
    print(paint(safe_text(f"{root}, {namespace}" if namespace else root), "bold"))
    for name, text in _rows(figures, args.at or datetime.now(UTC)):
        print(with_vault_option(f"  {name:<11}{text}".rstrip(), args.vault))
    return 0


def _rows(figures: Stats, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the figures as pairs of a name and a text for people."""
    archived = f", {figures.archived:,} more in archive/" if figures.archived else ""
    yield "memories", f"{figures.memories:,}{archived}; {_format_size(figures.size)}"
    if figures.oldest and figures.newest:
        yield "in", format_counts(figures.namespaces)
        yield "types", format_counts(figures.types)
        yield "status", format_counts(figures.statuses)
        yield "oldest", f"{figures.oldest.created:%Y-%m-%d}  {safe_text(figures.oldest.path)}"
        yield "newest", f"{figures.newest.updated:%Y-%m-%d}  {safe_text(figures.newest.path)}"
        yield from _retention_rows(figures)
    yield "searches", _format_searches(figures.searches)
    if figures.recalls:
        never = figures.memories - figures.recalled
        yield "recalled", f"{figures.recalled:,} of {count(figures.memories, 'memory')}, {never:,} never; most often:"
        for one in figures.most_recalled:
            last = time_ago(datetime.fromtimestamp(one.recalls.last, UTC), now)
            yield "", f"{one.recalls.times:>6,}  {safe_text(one.memory.path)}, last {last}"


def _retention_rows(figures: Stats) -> Iterator[tuple[str, str]]:
    """Yield a bar chart of the memories by retention."""
    if not figures.forgetting.enabled:
        yield "retention", "nothing fades here: memfs.yaml says `enabled: false` below `forgetting`"
        return
    pinned = f", {figures.pinned:,} pinned" if figures.pinned else ""
    yield "retention", f"{figures.mean_retention:.0%} on average{pinned}"
    largest = max(one.memories for one in figures.retention) or 1
    for one in reversed(figures.retention):
        note = "  see `memfs prune`" if one.memories and one.high <= figures.forgetting.prune_below else ""
        bar = "█" * max(round(MAX_BAR_WIDTH * one.memories / largest), bool(one.memories))
        yield "", f"{_format_range(one):>8}  {bar}{' ' if bar else ''}{one.memories:,}{paint(note, 'dim')}"


def _format_range(one: RetentionBin) -> str:
    return f"{one.low * 100:g}-{one.high * 100:g}%"


def _format_searches(ratio: Ratio) -> str:
    if ratio.share is None:
        return "none by agents yet"
    since = datetime.fromtimestamp(ratio.since, UTC)
    return f"{ratio.searches:,} by agents since {since:%Y-%m-%d}, {ratio.found:,} found something ({ratio.share:.0%})"


def _format_size(size: float) -> str:
    """Return a number of bytes in the smallest unit that leaves fewer than four digits, else in GB."""
    for unit in _SIZE_UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.0f} {_SIZE_UNITS[-1]}"
