"""push: send the changes of a vault to a hub."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from memfs.data_types import Problem
from memfs.errors import MissingTablesError
from memfs.hub.local_files import (
    FileListing,
    exists,
    key_prefix,
    list_files,
    mirrored_namespace,
    open_vault_root,
    read_files,
)
from memfs.hub.plan import (
    MAX_UNCHECKED_REMOVALS,
    LocalChange,
    LocalFile,
    PushDecision,
    batches,
    decide_push,
    find_mass_removals,
    match_moves,
    possibly_moved_ids,
)
from memfs.hub.remote import Hub, HubTransaction
from memfs.hub.report import HubReport, Progress, ReportBuilder
from memfs.hub.sync_state import SyncedFile, SyncState, open_sync_state
from memfs.namespace import ARCHIVE, Namespace
from memfs.vault.vault import Vault


class ChangedPath(NamedTuple):
    """A memory that differs from the sync state by its stamp. `path` is None if it was removed."""

    key: str
    path: str | None
    old_key: str | None  # its key before a move
    size: int  # bytes


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
    """Send the changes of a vault below a namespace to a hub. A memory that changed on the hub too is not overwritten.

    `tenant` is used only if `hub` is a URL. If more than three memories are missing that were not forgotten, and they
    are more than half of all memories or all of a namespace, their removal is sent only with `all_removals`. `progress`
    is called with the numbers of changed memories done and in total.
    """
    began, scope, builder = time.monotonic(), mirrored_namespace(vault, namespace), ReportBuilder()
    with ExitStack() as stack:
        target = hub if isinstance(hub, Hub) else stack.enter_context(Hub(hub, tenant=tenant))
        root = stack.enter_context(open_vault_root(vault))
        name = _hub_name(target, dry_run=dry_run)
        state = stack.enter_context(open_sync_state(root, name)) if name else None
        listing = list_files(root, scope)
        builder.problems += listing.problems
        changed = _find_changes(root, scope, listing, state, builder, all_removals=all_removals)
        builder.unchanged = len(listing.paths) - sum(one.path is not None for one in changed)
        done = 0
        for batch in batches(changed, lambda one: one.size):
            changes = _read_batch(root, batch, state, builder)
            if changes:
                _send_batch(target, name, state, changes, builder, dry_run=dry_run)
            done += len(batch)
            if progress:
                progress(done, len(changed))
    return builder.build("push", target.address, str(scope), seconds=time.monotonic() - began, dry_run=dry_run)


def _hub_name(hub: Hub, *, dry_run: bool) -> str:
    """Return the name of the hub. If there is none, create it, or return "" in a dry run."""
    if not dry_run:
        return hub.create().hub
    try:
        return hub.status().hub
    except MissingTablesError:
        return ""


def _find_changes(
    root: int,
    scope: Namespace,
    listing: FileListing,
    state: SyncState | None,
    builder: ReportBuilder,
    *,
    all_removals: bool,
) -> list[ChangedPath]:
    """Return the memories whose stamps differ from the sync state, removed ones last.

    Removals that may be an accident are left out and reported.
    """
    prefix = key_prefix(scope)
    synced = {key: one for key, one in (state.entries if state else {}).items() if key.startswith(prefix)}
    changed = {
        key: path
        for key, path in listing.paths.items()
        if not (one := synced.get(key)) or one.path != path or one.stamp != listing.stamps[path]
    }
    missing = {key: one for key, one in synced.items() if key not in listing.paths and listing.is_missing(one.path)}
    new = {path: key for key, path in changed.items() if key not in synced}
    new_files = read_files(root, new if missing else ())  # a move needs a missing memory; else they are read in batches
    candidates = {new[path]: file._replace(data=b"") for path, file in new_files if isinstance(file, LocalFile)}
    moved = match_moves(missing, candidates)
    old_keys = {to: old for old, to in moved.items()}
    removed = [key for key in missing if key not in moved]
    unsent: set[str] = set()
    suspicious = [] if all_removals else find_mass_removals(_not_archived(root, synced, removed), synced, str(scope))
    for removal in suspicious:
        builder.add_unsent_removals(removal.namespace, len(removal.keys), removal.total)
        unsent |= removal.keys
    sizes = {path: listing.stamps[path][2] for path in changed.values()}
    found = [ChangedPath(key, path, old_keys.get(key), sizes[path]) for key, path in sorted(changed.items())]
    return found + [ChangedPath(key, None, None, 0) for key in sorted(removed) if key not in unsent]


def _not_archived(root: int, synced: Mapping[str, SyncedFile], removed: Sequence[str]) -> list[str]:
    """Return the removed memories that `forget` did not archive, so that they may be lost by accident.

    If few were removed, the result is [] without a look at the archive: so few are never suspicious.
    """
    if len(removed) <= MAX_UNCHECKED_REMOVALS:
        return []
    return [key for key in removed if not exists(root, f"{ARCHIVE}/{synced[key].path}")]


def _read_batch(
    root: int, batch: list[ChangedPath], state: SyncState | None, builder: ReportBuilder
) -> list[LocalChange]:
    """Return the memories of a batch whose bytes differ from the sync state, and the removed ones.

    For a file with a new stamp and the same bytes, only the sync state is updated. A file that disappears before it is
    read is left for the next push.
    """
    synced = state.entries if state else {}
    by_path = {one.path: one for one in batch if one.path is not None}
    changes = [LocalChange(one.key, None) for one in batch if one.path is None]
    touched: list[tuple[str, SyncedFile]] = []  # new stamp, same bytes
    for path, file in read_files(root, by_path):
        if isinstance(file, Problem):
            builder.problems.append(file)
        elif file:
            one = by_path[path]
            if (before := synced.get(one.key)) and before.hash == file.hash:
                touched.append((one.key, file.as_synced()))
            else:
                changes.append(LocalChange(one.key, file, one.old_key))
    if state:
        state.record(touched)
    builder.unchanged += len(touched)
    return changes


def _send_batch(
    hub: Hub, name: str, state: SyncState | None, changes: list[LocalChange], builder: ReportBuilder, *, dry_run: bool
) -> None:  # fmt: skip
    """Decide about a batch and send it in one transaction, during which no other writer changes the hub.

    A dry run sends nothing. It has no `state` if the hub does not exist yet.
    """
    keys = [key for one in changes for key in (one.key, one.old_key) if key is not None]
    synced = state.entries if state else {}

    def decide(source: Hub | HubTransaction) -> list[PushDecision]:
        remote = source.files(keys)
        remote_ids = source.existing_ids(possibly_moved_ids(changes, synced, remote))
        return [decide_push(one, synced, remote, remote_ids) for one in changes]

    if not name or state is None:
        decisions = [decide_push(one, synced, {}) for one in changes]
    elif dry_run:
        decisions = decide(hub)
    else:
        with hub.transaction(name) as transaction:
            before = transaction.seq
            decisions = decide(transaction)
            transaction.upload([upload for decision in decisions for upload in decision.uploads])
        state.record(item for decision in decisions for item in decision.synced)
        state.record_push(before, transaction.seq)
    for change, decision in zip(changes, decisions, strict=True):
        _report_decision(change, decision, builder)


def _report_decision(change: LocalChange, decision: PushDecision, builder: ReportBuilder) -> None:
    if decision.conflict:
        builder.add_conflict(decision.path, decision.conflict)
    if decision.kind == "moved":
        builder.moved.append((decision.old_path, decision.path))
    elif decision.kind:
        getattr(builder, decision.kind).append(decision.path)
    elif not decision.conflict and change.file:
        builder.unchanged += 1
