"""push: what changed in a vault, sent to a hub."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from memfs.data_types import Problem
from memfs.errors import MissingTablesError
from memfs.hub.local_files import Survey, is_there, opened, prefix_of, read, survey, within
from memfs.hub.plan import HANDFUL, Here, Sending, Sent, batches, decide_push, losses, missed, moves
from memfs.hub.remote import Hub, Writing
from memfs.hub.report import HubReport, Progress, Tally
from memfs.hub.sync_state import Ancestor, Shared, remembered
from memfs.namespace import ARCHIVE, Namespace
from memfs.vault.vault import Vault


class Wanted(NamedTuple):
    """A memory that has to be looked at: its path, or nothing if it is gone, and the key that it had before a move."""

    key: str
    path: str | None
    old: str | None
    size: int


def push(
    vault: Vault,
    hub: str | Hub,
    *,
    namespace: str | None = None,
    tenant: str | None = None,
    dry_run: bool = False,
    all_removals: bool = False,
    progress: Progress | None = None,
) -> HubReport:
    """Send what changed below a namespace to a hub, by its URL. What changed there too is not overwritten.

    Where more than three are gone that were not forgotten, and these are more than half of all, or all of a namespace,
    their removal is sent only with `all_removals`.
    """
    began, where, tally = time.monotonic(), within(vault, namespace), Tally()
    with ExitStack() as stack:
        target = hub if isinstance(hub, Hub) else stack.enter_context(Hub(hub, tenant=tenant))
        root = stack.enter_context(opened(vault))
        name = _hub_name(target, dry_run=dry_run)
        known = stack.enter_context(remembered(root, name)) if name else None
        seen = survey(root, where)
        tally.problems += seen.problems
        wanted = _wanted(root, where, seen, known, tally, all_removals=all_removals)
        tally.unchanged = len(seen.paths) - sum(one.path is not None for one in wanted)
        done = 0
        for batch in batches(wanted, lambda one: one.size):
            sendings = _read_batch(root, batch, known, tally)
            if sendings:
                _send(target, name, known, sendings, tally, dry_run=dry_run)
            done += len(batch)
            if progress:
                progress(done, len(wanted))
    return tally.report("push", target.address, str(where), seconds=time.monotonic() - began, dry_run=dry_run)


def _hub_name(hub: Hub, *, dry_run: bool) -> str:
    """The name of the hub, which is made if there is none; empty if it would be."""
    if not dry_run:
        return hub.make().hub
    try:
        return hub.status().hub
    except MissingTablesError:
        return ""


def _wanted(
    root: int, where: Namespace, seen: Survey, known: Ancestor | None, tally: Tally, *, all_removals: bool
) -> list[Wanted]:
    """What differs from what is remembered, those that are gone last."""
    prefix = prefix_of(where)
    shared = {key: one for key, one in (known.entries if known else {}).items() if key.startswith(prefix)}
    changed = {
        key: path
        for key, path in seen.paths.items()
        if not (one := shared.get(key)) or one.path != path or one.stamp != seen.stamps[path]
    }
    gone = {key: one for key, one in shared.items() if key not in seen.paths and seen.is_gone(one.path)}
    new = {path: key for key, path in changed.items() if key not in shared}
    looked_at = read(root, new if gone else ())
    moved = moves(gone, {new[path]: here._replace(data=b"") for path, here in looked_at if isinstance(here, Here)})
    came_from = {to: old for old, to in moved.items()}
    removed = [key for key in gone if key not in moved]
    held: set[str] = set()
    for loss in [] if all_removals else losses(_lost(root, shared, removed), shared, str(where)):
        tally.held_back(loss.namespace, len(loss.lost), loss.total)
        held |= loss.lost
    sizes = seen.stamps
    found = [Wanted(key, path, came_from.get(key), sizes[path][2]) for key, path in sorted(changed.items())]
    return found + [Wanted(key, None, None, 0) for key in sorted(removed) if key not in held]


def _lost(root: int, shared: Mapping[str, Shared], removed: Sequence[str]) -> list[str]:
    """Those of a handful or more that were not forgotten, and so may have gone by accident."""
    if len(removed) <= HANDFUL:
        return []
    return [key for key in removed if not is_there(root, f"{ARCHIVE}/{shared[key].path}")]


def _read_batch(root: int, batch: list[Wanted], known: Ancestor | None, tally: Tally) -> list[Sending]:
    """The memories of a batch that differ, with their bytes; what went away meanwhile is left for the next push."""
    shared = known.entries if known else {}
    by_path = {one.path: one for one in batch if one.path is not None}
    sendings = [Sending(one.key, None) for one in batch if one.path is None]
    touched: list[tuple[str, Shared]] = []
    for path, here in read(root, by_path):
        if isinstance(here, Problem):
            tally.problems.append(here)
        elif here:
            one = by_path[path]
            if (before := shared.get(one.key)) and before.hash == here.hash:
                touched.append((one.key, here.shared()))
            else:
                sendings.append(Sending(one.key, here, one.old))
    if known:
        known.note(touched)
    tally.unchanged += len(touched)
    return sendings


def _send(
    hub: Hub, name: str, known: Ancestor | None, sendings: list[Sending], tally: Tally, *, dry_run: bool
) -> None:  # fmt: skip
    """Decide about a batch while nobody else writes to the hub, and send it in one transaction."""
    keys = [key for one in sendings for key in (one.key, one.old) if key is not None]
    shared = known.entries if known else {}

    def decide(where: Hub | Writing) -> list[Sent]:
        there = where.at(keys)
        living = where.living(missed(sendings, shared, there))
        return [decide_push(one, shared, there, living) for one in sendings]

    if not name or known is None:
        sents = [decide_push(one, shared, {}) for one in sendings]
    elif dry_run:
        sents = decide(hub)
    else:
        with hub.writing(name) as writing:
            before = writing.seq
            sents = decide(writing)
            writing.put([put for sent in sents for put in sent.puts])
        known.note(note for sent in sents for note in sent.notes)
        known.advance(before, writing.seq)
    for one, sent in zip(sendings, sents, strict=True):
        _tell(one, sent, tally)


def _tell(one: Sending, sent: Sent, tally: Tally) -> None:
    if sent.conflict:
        tally.conflict(sent.path, sent.conflict)
    if sent.kind == "moved":
        tally.moved.append((sent.old_path, sent.path))
    elif sent.kind:
        getattr(tally, sent.kind).append(sent.path)
    elif not sent.conflict and one.here:
        tally.unchanged += 1
