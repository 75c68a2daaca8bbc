"""Decides what a push or a pull does. Three versions of each memory in, decisions out. No disk, no server, no clock."""

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
BOTH = "changed here and on the hub"
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
    """One memory in the vault. `data` holds its bytes where they are to be sent, and is empty elsewhere.

    The stamp of a file that is not settled may stay the same when the file changes once more.
    """

    path: str
    hash: bytes
    id: str
    stamp: Stamp
    data: bytes = b""
    is_settled: bool = False

    def synced(self) -> SyncedFile:
        """Return the sync state of the file once both sides have it."""
        return SyncedFile(self.path, self.hash, self.id, self.stamp if self.is_settled else None)


def compare(synced: bytes | None, local: bytes | None, remote: bytes | None) -> Comparison:
    """Compare the hashes of the last synced, the local and the remote version; None: the memory does not exist."""
    if local == remote:
        return Comparison.SAME
    if local == synced:
        return Comparison.REMOTE
    return Comparison.LOCAL if remote == synced else Comparison.CONFLICT


def match_moves(gone: Mapping[str, SyncedFile], new: Mapping[str, LocalFile | RemoteFile]) -> dict[str, str]:
    """Return old key -> new key for memories that were moved: same id, or same bytes. Each new one is used once."""
    ids = {one.id: key for key, one in sorted(new.items(), reverse=True) if one.id}
    hashes = {one.hash: key for key, one in sorted(new.items(), reverse=True)}
    found: dict[str, str] = {}
    used: set[str] = set()
    for key, old in gone.items():
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
    """A memory that may have to be sent: the local file (None: it is gone), and its key before a move."""

    key: str
    file: LocalFile | None
    old_key: str | None = None


class PushDecision(NamedTuple):
    """What a push does about one memory: the uploads, the sync state after them, and the entry of the report.

    `kind` is created, updated, moved, removed, or empty where nothing is sent.
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
    """Decide about one memory that changed here. `remote_ids` are ids of memories that exist on the hub."""
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
        return PushDecision("", path, conflict=f"{BOTH if local_hash else REMOVED_HERE}: pull first")
    if comparison is Comparison.CONFLICT and known and known.id in remote_ids:
        return PushDecision("", path, conflict=f"{MOVED_THERE}: pull first")
    kind = "removed" if local_hash is None else "updated" if remote_hash is not None else "created"
    conflict = f"{REMOVED_THERE}: sent again" if comparison is Comparison.CONFLICT else ""
    uploads, items = (_upload(change.key, path, change.file),), (_synced_item(change.key, change.file),)
    return PushDecision(kind, path, uploads, items, conflict)


class MassRemoval(NamedTuple):
    """So many missing memories below a namespace that they may have been lost by accident."""

    namespace: str
    keys: frozenset[str]
    total: int


def find_mass_removals(lost: Collection[str], synced: Mapping[str, SyncedFile], namespace: str) -> list[MassRemoval]:
    """Return the removals that may be an accident: more than half of all memories, or all of a namespace.

    MAX_UNCHECKED_REMOVALS or fewer are never suspicious.
    """
    if len(lost) <= MAX_UNCHECKED_REMOVALS:
        return []
    if len(lost) * 2 > len(synced):
        return [MassRemoval(namespace, frozenset(lost), len(synced))]
    totals = Counter(parent for key in synced for parent in _parents(key))
    gone = Counter(parent for key in lost for parent in _parents(key))
    emptied = {
        parent for parent, number in gone.items() if number > MAX_UNCHECKED_REMOVALS and number == totals[parent]
    }
    found: dict[str, set[str]] = {}
    for key in sorted(lost):
        if parent := next((parent for parent in _parents(key) if parent in emptied), ""):
            found.setdefault(parent, set()).add(key)
    return [
        MassRemoval(_spelled(synced[min(keys)], parent), frozenset(keys), len(keys)) for parent, keys in found.items()
    ]


def _parents(key: str) -> list[str]:
    """Return the namespaces that contain a key, outermost first."""
    parts = key.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _spelled(file: SyncedFile, namespace: str) -> str:
    return "/" + "/".join(file.path.split("/")[: namespace.count("/") + 1])


def possibly_moved_ids(
    changes: Iterable[LocalChange], synced: Mapping[str, SyncedFile], remote: Mapping[str, RemoteFile]
) -> list[str]:
    """Return the ids of memories that changed here and are gone from the hub: they may have been moved there."""

    def is_gone(change: LocalChange) -> bool:
        row = remote.get(change.key)
        return change.file is not None and (row is None or row.hash is None)

    return [synced[one.key].id for one in changes if one.key in synced and is_gone(one) and synced[one.key].id]


def _decide_move(
    change: LocalChange,
    file: LocalFile,
    old_key: str,
    synced: Mapping[str, SyncedFile],
    remote: Mapping[str, RemoteFile],
) -> PushDecision:
    """Decide about a move: the removal and the new file are sent together, or neither is."""
    before, row, target = synced[old_key], remote.get(old_key), remote.get(change.key)
    has_old = row is not None and row.hash is not None
    if row is not None and row.hash not in {None, before.hash}:
        return PushDecision("", file.path, conflict=f"{MOVED_HERE} ({before.path}): pull first")
    if target is not None and target.hash not in {None, file.hash}:
        return PushDecision("", file.path, conflict=f"{BOTH}: pull first")
    items = ((old_key, None), _synced_item(change.key, file))
    uploads = [_upload(old_key, before.path, None)] if has_old else []
    if target is None or target.hash is None:
        uploads.append(_upload(change.key, file.path, file))
    kind = "moved" if has_old else "created"
    return PushDecision(kind if uploads else "", file.path, tuple(uploads), items, old_path=before.path)


def _upload(key: str, path: str, file: LocalFile | None) -> Upload:
    return Upload(key, path, file.hash, file.id, file.data) if file else Upload(key, path, None, "", None)


def _synced_item(key: str, file: LocalFile | None) -> tuple[str, SyncedFile | None]:
    return key, file.synced() if file else None


# --- pull ---------------------------------------------------------------------------------------------


class PullStep(NamedTuple):
    """What a pull does about one memory that changed on the hub.

    `kind`: record (both sides have it), create, replace, remove, move, copy (write the hub's version beside the file),
    untrack (it exists only here from now on), or leave. A move is followed by the kind in `then`: record, replace,
    copy or leave.
    """

    kind: str
    row: RemoteFile
    file: LocalFile | None = None
    conflict: str = ""
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
    """Return the steps of a pull. `local` has the files at the keys of the rows, `moved_here` those found elsewhere."""
    by_key = {row.key: row for row in rows}
    gone = {row.key: synced[row.key] for row in rows if row.hash is None and row.key in synced}
    new = {row.key: row for row in rows if row.hash is not None and row.key not in synced}
    steps: list[PullStep] = []
    done: set[str] = set()
    for old_key, key in match_moves(gone, new).items():
        before, now = local.get(old_key), local.get(key)
        row = by_key[key]
        if before and not now:
            then = _PULL_KINDS[compare(synced[old_key].hash, before.hash, row.hash)]
            steps.append(PullStep("move", row, before, BOTH if then == "copy" else "", then, old_key))
            done |= {old_key, key}
        elif now and not before:  # it was moved here as well
            steps += [_plan_row(by_key[old_key], None, None, None), _plan_row(row, synced[old_key], now, None)]
            done |= {old_key, key}
    rest = (row for row in rows if row.key not in done)
    return steps + [_plan_row(row, synced.get(row.key), local.get(row.key), moved_here.get(row.key)) for row in rest]


def _plan_row(
    row: RemoteFile, synced: SyncedFile | None, file: LocalFile | None, moved_here: LocalFile | None
) -> PullStep:
    comparison = compare(synced.hash if synced else None, file.hash if file else None, row.hash)
    if comparison is Comparison.REMOTE:
        return PullStep("remove" if row.hash is None else "replace" if file else "create", row, file)
    if comparison is not Comparison.CONFLICT:
        return PullStep(_PULL_KINDS[comparison], row, file)
    if row.hash is None:
        return PullStep("untrack", row, file, f"{REMOVED_THERE}: kept")
    if file:
        return PullStep("copy", row, file, BOTH)
    if moved_here and synced:
        kind = _PULL_KINDS[compare(synced.hash, moved_here.hash, row.hash)]
        return PullStep(kind, row, moved_here, BOTH if kind == "copy" else "")
    return PullStep("create", row, None, f"{REMOVED_HERE}: restored")


def possibly_moved_rows(
    rows: Sequence[RemoteFile], synced: Mapping[str, SyncedFile], local: Mapping[str, LocalFile]
) -> list[RemoteFile]:
    """Return the rows that changed on the hub and whose file is gone here: it may have been moved here."""

    def is_missing(row: RemoteFile) -> bool:
        known = synced.get(row.key)
        return known is not None and row.key not in local and row.hash not in {None, known.hash}

    return [row for row in rows if is_missing(row)]
