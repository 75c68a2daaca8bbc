"""Decides what a push or a pull does with each memory. Pure: no disk, no server, no clock.

A decision compares three versions of a memory: the one in the vault, the one on the hub, and the one that both had at
the last sync. Paths are spelled as on disk. A key is the folded path, which is equal for all spellings of it; the
versions of a memory are matched by key.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from memfs.data_types import Stamp
from memfs.hub.remote import RemoteFile, Upload
from memfs.hub.sync_state import SyncedFile

T = TypeVar("T")
BATCH_FILES = 500  # memories that are sent or fetched at once, at most
BATCH_BYTES = 8 * 1024 * 1024
MAX_UNCHECKED_REMOVALS = 3  # more removals at once than this may be an accident
CHANGED_ON_BOTH_SIDES = "changed here and on the hub"
REMOVED_HERE = "removed here and changed on the hub"
REMOVED_THERE = "removed on the hub and changed here"
MOVED_HERE = "moved here and changed on the hub"
MOVED_THERE = "moved on the hub and changed here"


class Comparison(Enum):
    """Where a memory changed since the last sync: the result of a three-way comparison."""

    SAME = "same"  # both sides are equal
    LOCAL = "local"  # only here
    REMOTE = "remote"  # only on the hub
    CONFLICT = "conflict"  # on both sides, differently


class LocalFile(NamedTuple):
    """One memory in the vault. `data` holds its bytes only if they may have to be sent.

    The stamp is not reliable if the file changed just before it was read: it may stay the same when the file changes
    once more.
    """

    path: str
    hash: bytes
    id: str
    stamp: Stamp
    data: bytes = b""
    is_stamp_reliable: bool = False

    def as_synced(self) -> SyncedFile:
        """Return the sync state of the file once both sides have it."""
        return SyncedFile(self.path, self.hash, self.id, self.stamp if self.is_stamp_reliable else None)


def compare(synced: bytes | None, local: bytes | None, remote: bytes | None) -> Comparison:
    """Compare the hashes of the last synced, the local and the remote version; None: the memory does not exist."""
    if local == remote:
        return Comparison.SAME
    if local == synced:
        return Comparison.REMOTE
    return Comparison.LOCAL if remote == synced else Comparison.CONFLICT


def match_moves(missing: Mapping[str, SyncedFile], new: Mapping[str, LocalFile | RemoteFile]) -> dict[str, str]:
    """Return old key -> new key for the missing memories that were moved: a new memory has the same id or bytes.

    If several new memories have the same id or the same bytes, only the first of them by key can be matched, and only
    once.
    """
    ids = {one.id: key for key, one in sorted(new.items(), reverse=True) if one.id}
    hashes = {one.hash: key for key, one in sorted(new.items(), reverse=True)}
    found: dict[str, str] = {}
    used: set[str] = set()
    for key, old in missing.items():
        for to in (ids.get(old.id), hashes.get(old.hash)):
            if to is not None and to not in used:
                found[key] = to
                used.add(to)
                break
    return found


def batches(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield batches of at most BATCH_FILES items and BATCH_BYTES bytes; a larger item is a batch of its own."""
    batch: list[T] = []
    size = 0
    for item in items:
        if batch and (len(batch) >= BATCH_FILES or size + size_of(item) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch


# --- push ---------------------------------------------------------------------------------------------


class LocalChange(NamedTuple):
    """A memory that may have to be sent. `file` is None if it was removed; `old_key` is its key before a move."""

    key: str
    file: LocalFile | None
    old_key: str | None = None


class PushDecision(NamedTuple):
    """What a push does about one memory: the uploads, the sync state after them, and the entry of the report.

    `kind` is created, updated, moved or removed; it is empty if nothing is sent. `conflict` is the text for the report
    if both sides changed the memory. A decision can have both: a memory that was removed on the hub is sent again.
    """

    kind: str
    path: str
    uploads: tuple[Upload, ...] = ()
    synced: tuple[tuple[str, SyncedFile | None], ...] = ()
    conflict: str = ""
    old_path: str = ""  # before a move


def decide_push(
    change: LocalChange,
    synced: Mapping[str, SyncedFile],
    remote: Mapping[str, RemoteFile],
    remote_ids: Collection[str] = (),
) -> PushDecision:
    """Decide about one memory that changed here.

    `synced` and `remote` are by key. `remote_ids` are the ids from `possibly_moved_ids` that memories on the hub have.
    """
    if change.old_key is not None and change.file is not None:
        return _decide_move(change, change.file, change.old_key, synced, remote)
    known = synced.get(change.key)
    row = remote.get(change.key)
    path = change.file.path if change.file else known.path if known else change.key
    remote_hash, local_hash = row.hash if row else None, change.file.hash if change.file else None
    comparison = compare(known.hash if known else None, local_hash, remote_hash)
    if comparison is Comparison.SAME:
        return PushDecision("", path, synced=(_synced_item(change.key, change.file),))
    if comparison is Comparison.REMOTE:
        return PushDecision("", path)
    if comparison is Comparison.CONFLICT and remote_hash is not None:
        return PushDecision("", path, conflict=f"{CHANGED_ON_BOTH_SIDES if local_hash else REMOVED_HERE}: pull first")
    if comparison is Comparison.CONFLICT and known and known.id in remote_ids:
        return PushDecision("", path, conflict=f"{MOVED_THERE}: pull first")
    kind = "removed" if local_hash is None else "updated" if remote_hash is not None else "created"
    conflict = f"{REMOVED_THERE}: sent again" if comparison is Comparison.CONFLICT else ""
    uploads, items = (_upload(change.key, path, change.file),), (_synced_item(change.key, change.file),)
    return PushDecision(kind, path, uploads, items, conflict)


class MassRemoval(NamedTuple):
    """So many missing memories below a namespace that they may have been lost by accident."""

    namespace: str
    keys: frozenset[str]  # of the missing memories
    total: int  # memories that the namespace had at the last sync


def find_mass_removals(missing: Collection[str], synced: Mapping[str, SyncedFile], namespace: str) -> list[MassRemoval]:
    """Return the removals that may be an accident, out of the keys of memories that are missing in the vault.

    `synced` has the memories that `namespace`, the one that is pushed, had at the last sync. If more than half of them
    are missing, the result is one removal of all that are missing. Otherwise there is one for each namespace of which
    all memories are missing (the outermost, if it contains others). MAX_UNCHECKED_REMOVALS or fewer are never reported.
    """
    if len(missing) <= MAX_UNCHECKED_REMOVALS:
        return []
    if len(missing) * 2 > len(synced):
        return [MassRemoval(namespace, frozenset(missing), len(synced))]
    totals = Counter(parent for key in synced for parent in _parents(key))
    missing_counts = Counter(parent for key in missing for parent in _parents(key))
    emptied = {
        parent
        for parent, number in missing_counts.items()
        if number > MAX_UNCHECKED_REMOVALS and number == totals[parent]
    }
    found: dict[str, set[str]] = {}
    for key in sorted(missing):
        if outermost := next((parent for parent in _parents(key) if parent in emptied), ""):
            found.setdefault(outermost, set()).add(key)
    return [
        MassRemoval(_spell_namespace(parent, synced[min(keys)]), frozenset(keys), len(keys))
        for parent, keys in found.items()
    ]


def _parents(key: str) -> list[str]:
    """Return the namespaces that contain a key, outermost first."""
    parts = key.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _spell_namespace(folded: str, file: SyncedFile) -> str:
    """Return a folded namespace as the path of a file in it spells it."""
    return "/" + "/".join(file.path.split("/")[: folded.count("/") + 1])


def possibly_moved_ids(
    changes: Iterable[LocalChange], synced: Mapping[str, SyncedFile], remote: Mapping[str, RemoteFile]
) -> list[str]:
    """Return the ids of memories that changed here and have no file on the hub any more.

    Such a memory was removed on the hub, or moved there if the hub has its id under another key.
    """

    def is_missing_on_hub(change: LocalChange) -> bool:
        row = remote.get(change.key)
        return change.file is not None and (row is None or row.hash is None)

    known = [synced[change.key] for change in changes if change.key in synced and is_missing_on_hub(change)]
    return [file.id for file in known if file.id]


def _decide_move(
    change: LocalChange,
    file: LocalFile,
    old_key: str,
    synced: Mapping[str, SyncedFile],
    remote: Mapping[str, RemoteFile],
) -> PushDecision:
    """Decide about a move: nothing is sent on a conflict, otherwise the removal and the new file in one transaction.

    Either of them is left out if the hub has it already.
    """
    before, row, target = synced[old_key], remote.get(old_key), remote.get(change.key)
    has_old = row is not None and row.hash is not None
    if row is not None and row.hash not in {None, before.hash}:
        return PushDecision("", file.path, conflict=f"{MOVED_HERE} ({before.path}): pull first")
    if target is not None and target.hash not in {None, file.hash}:
        return PushDecision("", file.path, conflict=f"{CHANGED_ON_BOTH_SIDES}: pull first")
    items = ((old_key, None), _synced_item(change.key, file))
    uploads = [_upload(old_key, before.path, None)] if has_old else []
    if target is None or target.hash is None:
        uploads.append(_upload(change.key, file.path, file))
    kind = "moved" if has_old else "created"
    return PushDecision(kind if uploads else "", file.path, tuple(uploads), items, old_path=before.path)


def _upload(key: str, path: str, file: LocalFile | None) -> Upload:
    return Upload(key, path, file.hash, file.id, file.data) if file else Upload(key, path, None, "", None)


def _synced_item(key: str, file: LocalFile | None) -> tuple[str, SyncedFile | None]:
    return key, file.as_synced() if file else None


# --- pull ---------------------------------------------------------------------------------------------


class PullStep(NamedTuple):
    """What a pull does about one memory that changed on the hub.

    `kind` is one of these, and a move continues with one of record, replace, copy or leave in `then`:

    - record: both sides are equal already; only the sync state changes
    - create, replace, remove, move: do to the file what was done on the hub
    - copy: both sides changed; write the hub's version beside the file
    - untrack: the hub removed what changed here; keep the file, and drop its sync state
    - leave: only this side changed; do nothing
    """

    kind: str
    row: RemoteFile
    file: LocalFile | None = None
    conflict: str = ""  # text for the report if both sides changed the memory
    then: str = ""
    old_key: str = ""  # before a move


_PULL_KINDS = {
    Comparison.SAME: "record",
    Comparison.REMOTE: "replace",
    Comparison.LOCAL: "leave",
    Comparison.CONFLICT: "copy",
}


def plan_pull(
    rows: Sequence[RemoteFile],
    synced: Mapping[str, SyncedFile],
    local: Mapping[str, LocalFile],
    moved_here: Mapping[str, LocalFile],
) -> list[PullStep]:
    """Return the steps of a pull for the rows that changed on the hub.

    All mappings are by key. `local` has the files in the vault at the keys of the rows. `moved_here` has, by its old
    key, each file that was moved in the vault since the last sync, of the rows in `possibly_moved_rows`.
    """
    by_key = {row.key: row for row in rows}
    removed = {row.key: synced[row.key] for row in rows if row.hash is None and row.key in synced}
    new = {row.key: row for row in rows if row.hash is not None and row.key not in synced}
    steps: list[PullStep] = []
    done: set[str] = set()
    for old_key, key in match_moves(removed, new).items():
        at_old_key, at_new_key = local.get(old_key), local.get(key)
        row = by_key[key]
        if at_old_key and not at_new_key:
            then = _PULL_KINDS[compare(synced[old_key].hash, at_old_key.hash, row.hash)]
            conflict = CHANGED_ON_BOTH_SIDES if then == "copy" else ""
            steps.append(PullStep("move", row, at_old_key, conflict, then, old_key))
            done |= {old_key, key}
        elif at_new_key and not at_old_key:  # it was moved here as well: record that, and compare with the old version
            steps += [_plan_row(by_key[old_key], None, None, None), _plan_row(row, synced[old_key], at_new_key, None)]
            done |= {old_key, key}
        # With a file at both keys, or at neither, the two rows are planned as a removal and a new memory.
    rest = (row for row in rows if row.key not in done)
    return steps + [_plan_row(row, synced.get(row.key), local.get(row.key), moved_here.get(row.key)) for row in rest]


def _plan_row(
    row: RemoteFile, synced: SyncedFile | None, file: LocalFile | None, moved_here: LocalFile | None
) -> PullStep:
    """Return the step for one row, without regard to moves on the hub."""
    comparison = compare(synced.hash if synced else None, file.hash if file else None, row.hash)
    if comparison is Comparison.REMOTE:
        return PullStep("remove" if row.hash is None else "replace" if file else "create", row, file)
    if comparison is not Comparison.CONFLICT:
        return PullStep(_PULL_KINDS[comparison], row, file)
    if row.hash is None:
        return PullStep("untrack", row, file, f"{REMOVED_THERE}: kept")
    if file:
        return PullStep("copy", row, file, CHANGED_ON_BOTH_SIDES)
    if moved_here and synced:
        kind = _PULL_KINDS[compare(synced.hash, moved_here.hash, row.hash)]
        return PullStep(kind, row, moved_here, CHANGED_ON_BOTH_SIDES if kind == "copy" else "")
    return PullStep("create", row, None, f"{REMOVED_HERE}: restored")


def possibly_moved_rows(
    rows: Sequence[RemoteFile], synced: Mapping[str, SyncedFile], local: Mapping[str, LocalFile]
) -> list[RemoteFile]:
    """Return the rows with a new version on the hub whose file is missing here: it may have been moved in the vault."""

    def is_missing_here(row: RemoteFile) -> bool:
        known = synced.get(row.key)
        return known is not None and row.key not in local and row.hash not in {None, known.hash}

    return [row for row in rows if is_missing_here(row)]
