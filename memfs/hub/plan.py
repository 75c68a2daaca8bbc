"""What a push or a pull has to do: three versions of each memory in, steps out. No disk, no server, no clock."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from memfs.data_types import Stamp
from memfs.hub.remote import Put, There
from memfs.hub.sync_state import Shared

T = TypeVar("T")
BATCH = 500  # memories that are sent or fetched at once, at most
BATCH_BYTES = 8 * 1024 * 1024
HANDFUL = 3  # memories that may be lost at once without a doubt
BOTH = "changed here and on the hub"
REMOVED_HERE = "removed here and changed on the hub"
REMOVED_THERE = "removed on the hub and changed here"
MOVED_HERE = "moved here and changed on the hub"
MOVED_THERE = "moved on the hub and changed here"


class Verdict(Enum):
    """What follows from what both had, what is here and what is there."""

    SAME = "same"  # on both sides
    SEND = "send"  # only here it changed
    TAKE = "take"  # only there it changed
    CONFLICT = "conflict"  # on both sides, differently


class Here(NamedTuple):
    """A memory in the vault; its bytes are there where they are to be sent.

    The stamp of a file that is not settled may stay the same if it is changed once more.
    """

    path: str
    hash: bytes
    id: str
    stamp: Stamp
    data: bytes = b""
    is_settled: bool = False

    def shared(self) -> Shared:
        """What is remembered of it, once both sides have it."""
        return Shared(self.path, self.hash, self.id, self.stamp if self.is_settled else None)


def compare(shared: bytes | None, here: bytes | None, there: bytes | None) -> Verdict:
    """Compare three versions by their hashes; None is a memory that is not there."""
    if here == there:
        return Verdict.SAME
    if here == shared:
        return Verdict.TAKE
    return Verdict.SEND if there == shared else Verdict.CONFLICT


def moves(gone: Mapping[str, Shared], new: Mapping[str, Here | There]) -> dict[str, str]:
    """Which of those that are new are those that are gone: by id, or by the same bytes; each is one at most."""
    ids = {one.id: key for key, one in sorted(new.items(), reverse=True) if one.id}
    hashes = {one.hash: key for key, one in sorted(new.items(), reverse=True)}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for key, old in gone.items():
        for to in (ids.get(old.id), hashes.get(old.hash)):
            if to is not None and to not in taken:
                found[key] = to
                taken.add(to)
                break
    return found


def batches(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut into batches of so many memories or bytes, or of one that is larger."""
    batch: list[T] = []
    size = 0
    for item in items:
        if batch and (len(batch) >= BATCH or size + size_of(item) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch


# --- push ---------------------------------------------------------------------------------------------


class Sending(NamedTuple):
    """A memory that may have to be sent: as it is here (None: it is gone), and the key that it had before a move."""

    key: str
    here: Here | None
    old: str | None = None


class Sent(NamedTuple):
    """What a memory comes to: what is put on the hub, what both have then, and what is to be told.

    `kind` is created, updated, moved, removed, or empty where nothing is sent.
    """

    kind: str
    path: str
    puts: tuple[Put, ...] = ()
    notes: tuple[tuple[str, Shared | None], ...] = ()
    conflict: str = ""
    old_path: str = ""  # before a move


def decide_push(
    one: Sending, shared: Mapping[str, Shared], there: Mapping[str, There], living: Collection[str] = ()
) -> Sent:
    """What to do about one memory that changed here; `living` are ids that memories of the hub have."""
    if one.old is not None and one.here is not None:
        return _moved(one, one.here, one.old, shared, there)
    known = shared.get(one.key)
    row = there.get(one.key)
    path = one.here.path if one.here else known.path if known else one.key
    theirs, ours = row.hash if row else None, one.here.hash if one.here else None
    verdict = compare(known.hash if known else None, ours, theirs)
    if verdict is Verdict.SAME:
        return Sent("", path, notes=(_note(one.key, one.here),))
    if verdict is Verdict.TAKE:
        return Sent("", path)
    if verdict is Verdict.CONFLICT and theirs is not None:
        return Sent("", path, conflict=f"{BOTH if ours else REMOVED_HERE}: pull first")
    if verdict is Verdict.CONFLICT and known and known.id in living:
        return Sent("", path, conflict=f"{MOVED_THERE}: pull first")
    kind = "removed" if ours is None else "updated" if theirs is not None else "created"
    conflict = f"{REMOVED_THERE}: sent again" if verdict is Verdict.CONFLICT else ""
    return Sent(kind, path, (_put(one.key, path, one.here),), (_note(one.key, one.here),), conflict)


class Loss(NamedTuple):
    """So many of the memories below a namespace that are lost: more than anybody would remove without a word."""

    namespace: str
    lost: frozenset[str]
    total: int


def losses(lost: Collection[str], shared: Mapping[str, Shared], namespace: str) -> list[Loss]:
    """What may have been lost by accident, of more than a handful: most of a namespace, or whole ones below it."""
    if len(lost) <= HANDFUL:
        return []
    if len(lost) * 2 > len(shared):
        return [Loss(namespace, frozenset(lost), len(shared))]
    there = Counter(above for key in shared for above in _above(key))
    gone = Counter(above for key in lost for above in _above(key))
    whole = {above for above, number in gone.items() if number > HANDFUL and number == there[above]}
    found: dict[str, set[str]] = {}
    for key in sorted(lost):
        if above := next((above for above in _above(key) if above in whole), ""):
            found.setdefault(above, set()).add(key)
    return [Loss(_spelled(shared[min(keys)], above), frozenset(keys), len(keys)) for above, keys in found.items()]


def _above(key: str) -> list[str]:
    """The namespaces that a memory lies in, outermost first."""
    parts = key.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _spelled(one: Shared, namespace: str) -> str:
    return "/" + "/".join(one.path.split("/")[: namespace.count("/") + 1])


def missed(
    sendings: Iterable[Sending], shared: Mapping[str, Shared], there: Mapping[str, There]
) -> list[str]:  # fmt: skip
    """The ids of memories that changed here and are not where they were on the hub: perhaps they were moved there."""

    def is_gone(one: Sending) -> bool:
        row = there.get(one.key)
        return one.here is not None and (row is None or row.hash is None)

    return [shared[one.key].id for one in sendings if one.key in shared and is_gone(one) and shared[one.key].id]


def _moved(one: Sending, here: Here, old: str, shared: Mapping[str, Shared], there: Mapping[str, There]) -> Sent:
    """Send a move in one piece: the hub has the memory under either name, or neither is touched."""
    before, row, target = shared[old], there.get(old), there.get(one.key)
    is_old_there = row is not None and row.hash is not None
    if row is not None and row.hash not in {None, before.hash}:
        return Sent("", here.path, conflict=f"{MOVED_HERE} ({before.path}): pull first")
    if target is not None and target.hash not in {None, here.hash}:
        return Sent("", here.path, conflict=f"{BOTH}: pull first")
    notes = ((old, None), _note(one.key, here))
    puts = [_put(old, before.path, None)] if is_old_there else []
    if target is None or target.hash is None:
        puts.append(_put(one.key, here.path, here))
    kind = "moved" if is_old_there else "created"
    return Sent(kind if puts else "", here.path, tuple(puts), notes, old_path=before.path)


def _put(key: str, path: str, here: Here | None) -> Put:
    return Put(key, path, here.hash, here.id, here.data) if here else Put(key, path, None, "", None)


def _note(key: str, here: Here | None) -> tuple[str, Shared | None]:
    return key, here.shared() if here else None


# --- pull ---------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """What is to be done about a memory that changed on the hub.

    `kind`: note (both have it), create, replace, remove, move, copy (put the hub's version beside), drop (it is only
    here from now on), or leave. A move is followed by what `then` says: note, replace, copy or leave.
    """

    kind: str
    row: There
    here: Here | None = None
    conflict: str = ""
    then: str = ""
    old: str = ""  # the key before a move


_TAKEN = {Verdict.SAME: "note", Verdict.TAKE: "replace", Verdict.SEND: "leave", Verdict.CONFLICT: "copy"}


def plan_pull(
    rows: Sequence[There], shared: Mapping[str, Shared], here: Mapping[str, Here], strays: Mapping[str, Here]
) -> list[Step]:
    """The steps of a pull. `here` holds the memories at the keys of the rows, `strays` those that were moved here."""
    by_key = {row.key: row for row in rows}
    gone = {row.key: shared[row.key] for row in rows if row.hash is None and row.key in shared}
    new = {row.key: row for row in rows if row.hash is not None and row.key not in shared}
    steps: list[Step] = []
    done: set[str] = set()
    for old, key in moves(gone, new).items():
        before, now = here.get(old), here.get(key)
        row = by_key[key]
        if before and not now:
            then = _TAKEN[compare(shared[old].hash, before.hash, row.hash)]
            steps.append(Step("move", row, before, BOTH if then == "copy" else "", then, old))
            done |= {old, key}
        elif now and not before:  # it was moved here as well
            steps += [_single(by_key[old], None, None, None), _single(row, shared[old], now, None)]
            done |= {old, key}
    rest = (row for row in rows if row.key not in done)
    return steps + [_single(row, shared.get(row.key), here.get(row.key), strays.get(row.key)) for row in rest]


def _single(row: There, shared: Shared | None, here: Here | None, stray: Here | None) -> Step:
    verdict = compare(shared.hash if shared else None, here.hash if here else None, row.hash)
    if verdict is Verdict.TAKE:
        return Step("remove" if row.hash is None else "replace" if here else "create", row, here)
    if verdict is not Verdict.CONFLICT:
        return Step(_TAKEN[verdict], row, here)
    if row.hash is None:
        return Step("drop", row, here, f"{REMOVED_THERE}: kept")
    if here:
        return Step("copy", row, here, BOTH)
    if stray and shared:
        kind = _TAKEN[compare(shared.hash, stray.hash, row.hash)]
        return Step(kind, row, stray, BOTH if kind == "copy" else "")
    return Step("create", row, None, f"{REMOVED_HERE}: it is back")


def astray(rows: Sequence[There], shared: Mapping[str, Shared], here: Mapping[str, Here]) -> list[There]:
    """The memories that changed on the hub and are not where they were: perhaps they were moved here."""

    def is_astray(row: There) -> bool:
        known = shared.get(row.key)
        return known is not None and row.key not in here and row.hash not in {None, known.hash}

    return [row for row in rows if is_astray(row)]
