"""The command `prune`: list faded memories, or archive them."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence

from memfs.cli.inputs import existing_namespace, open_vault
from memfs.cli.output import Progress, count, label, paint, print_json, print_table, safe_text
from memfs.cli.parser import with_vault_option
from memfs.data_types import Written
from memfs.decay import DecaySettings
from memfs.errors import AggregateMemoryError, MemfsError
from memfs.json_output import format_time, prune_json
from memfs.upkeep.pruning import MemoryRetention, faded, prune

MAX_SHOWN = 20  # memories, unless --all is given


def run_prune(args: argparse.Namespace) -> int:
    """Print the faded memories; with --yes, move them to the archive."""
    with open_vault(args.vault) as vault, Progress(activity="reading memories") as progress:
        rules = DecaySettings.from_settings(vault.settings)
        below = rules.prune_below if args.below is None else args.below
        found = faded(vault, existing_namespace(vault, args.namespace), below=below, now=args.at)
        if args.yes:
            progress.set_activity("moving memories to archive/")
        results = prune(vault, found) if args.yes else []
    moved = [result for result in results if isinstance(result, Written)]
    errors = [result for result in results if isinstance(result, MemfsError)]
    if args.json:
        archived = {written.id: written.path for written in moved}
        print_json(prune_json(found, below, archived, moved=bool(args.yes)))
    elif not rules.enabled:
        print("nothing fades here: memfs.yaml says `enabled: false` below `forgetting`")
    elif args.yes:
        _print_moved(moved, args)
    else:
        _print_faded(found, below, args)
    if errors:
        raise AggregateMemoryError(f"{len(errors)} of {len(results)} failed", errors)
    return 0


def _max_shown(args: argparse.Namespace) -> int:
    return sys.maxsize if args.all else MAX_SHOWN


def _print_hidden(total: int, max_shown: int) -> None:
    if total > max_shown:
        print(paint(f"{total - max_shown:,} more; --all shows them", "dim"))


def _print_moved(moved: Sequence[Written], args: argparse.Namespace) -> None:
    max_shown = _max_shown(args)
    for written in moved[:max_shown]:
        print(f"archived as {safe_text(written.path)}")
    _print_hidden(len(moved), max_shown)
    undo = "; `memfs move` brings one back" if moved else ""
    print(with_vault_option(f"{count(len(moved), 'memory')} moved to archive/{undo}", args.vault))


def _print_faded(found: Sequence[MemoryRetention], below: float, args: argparse.Namespace) -> None:
    """Print the memories that --yes would move, the command for that, and how many stay for which reason."""
    prunable = [one for one in found if not one.spared]
    if prunable:
        rows = [_row(one) for one in prunable[: _max_shown(args)]]
        print_table(("path", "left", "last used", "recalls", "title"), rows)
        _print_hidden(len(prunable), _max_shown(args))
        print()
    them = "it" if len(prunable) == 1 else "them"
    command = f"; `{_command_with_yes(args)}` moves {them} to archive/" if prunable else ""
    verb = "has" if len(prunable) == 1 else "have"
    print(f"{count(len(prunable), 'memory')} {verb} faded below {below:.0%}{command}")
    # `it supersedes PATH, which stays` is a different reason for each memory: count all of them as one reason
    spared = [one.spared.partition(" supersedes ")[0] for one in found if one.spared]
    reasons = Counter("it supersedes one that stays" if reason == "it" else reason for reason in spared)
    for reason, number in sorted(reasons.items()):
        print(paint(f"{number:,} more {'stays' if number == 1 else 'stay'}: {reason}", "dim"))


def _command_with_yes(args: argparse.Namespace) -> str:
    """Return the same command with --yes."""
    namespace = [] if args.namespace is None else [args.namespace]
    below = [] if args.below is None else ["--below", f"{args.below:g}"]
    at = [] if args.at is None else ["--at", format_time(args.at).removesuffix("T00:00:00Z")]
    return safe_text(with_vault_option(shlex.join(["memfs", "prune", *namespace, *below, *at, "--yes"]), args.vault))


def _row(one: MemoryRetention) -> list[str]:
    path, left = safe_text(one.memory.path), f"{one.retention:.1%}"
    return [path, left, f"{one.last_used:%Y-%m-%d}", f"{one.recalls.times:,}", label(one.memory)]
