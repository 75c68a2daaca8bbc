"""One step of a pull, done to the files of a vault. Thread-safe: steps of different namespaces go side by side."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memfs.data_types import Stamp
from memfs.errors import (
    InvalidNamespaceError,
    MalformedMemoryError,
    MemoryChangedError,
    MemoryExistsError,
    MemoryNotFoundError,
    VaultError,
)
from memfs.hub.local_files import digest
from memfs.hub.plan import Here, Step
from memfs.hub.remote import There
from memfs.hub.sync_state import Shared
from memfs.namespace import fold
from memfs.vault.vault import Vault

MAX_STEM = 60  # characters of a name, before what says that it is a copy
MAX_STEM_BYTES = 180
COPIES = 100  # of one version that is put beside, whose name is taken
_WANTS_BYTES = {"create", "replace", "copy"}
Notes = dict[str, Shared | None]


class Taken(NamedTuple):
    """What became of a step: what both sides have had from now on, the path of a copy; or why it was not done."""

    step: Step
    notes: Mapping[str, Shared | None]
    copy: str = ""
    fault: str = ""
    is_late: bool = False  # the memory changed on the hub since, and comes with that change


def wants_bytes(step: Step) -> bool:
    """Tell whether the bytes of the hub's version are needed."""
    return not _WANTS_BYTES.isdisjoint((step.kind, step.then))


def foretold(step: Step) -> Taken:
    """What a step would come to."""
    return Taken(step, {}, next(_copy_names(step)))


def take(vault: Vault, step: Step, content: bytes | None, shared: Mapping[str, Shared]) -> Taken:
    """Do one step; what cannot be done to this memory is told, and no reason to stop."""
    notes: Notes = {}
    if wants_bytes(step):
        if content is None:
            return Taken(step, notes, is_late=True)
        if digest(content) != step.row.hash:
            return Taken(step, notes, fault="its bytes on the hub are damaged")
    try:
        return Taken(step, notes, _apply(vault, step, content or b"", shared, notes))
    except (InvalidNamespaceError, MalformedMemoryError) as error:
        return Taken(step, notes, fault=error.reason)
    except (MemoryChangedError, MemoryNotFoundError):
        return Taken(step, notes, fault="it changed here meanwhile; the next pull looks again")
    except MemoryExistsError:
        return Taken(step, notes, fault="its name is taken here")


def _apply(vault: Vault, step: Step, content: bytes, shared: Mapping[str, Shared], notes: Notes) -> str:
    """Do a step to the files, and note what both sides have then; the path of a copy that was put beside."""
    row, here, kind, copy = step.row, step.here, step.kind, ""
    if kind == "move" and here:
        here, kind = _move(vault, step, here, shared[step.old], notes), step.then
    if kind == "remove" and here:
        vault.forget(here.path, seen=here.stamp)
    elif kind == "create":
        vault.create(row.path, content)
    elif kind == "replace" and here:
        _replace(vault, here.path, content, here.stamp)
    elif kind == "copy" and here:
        copy = _put_beside(vault, step._replace(here=here), content)
    if kind in {"remove", "drop"}:
        notes[row.key] = None
    elif kind != "leave" or step.kind == "move":
        notes[row.key] = _shared(row, here, is_as_noted=kind == "note")
    return copy


def _move(vault: Vault, step: Step, here: Here, before: Shared, notes: Notes) -> Here:
    """Move a file; what was common to both goes with it, whatever becomes of the rest."""
    written = vault.move(here.path, step.row.path, seen=here.stamp)
    notes[step.old] = None
    notes[step.row.key] = Shared(written.path, before.hash, before.id)
    return here._replace(path=written.path, stamp=written.stamp or here.stamp, is_settled=False)


def _replace(vault: Vault, path: str, content: bytes, seen: Stamp) -> None:
    """Have other bytes in a file; where either are no text, by way of `archive/`."""
    try:
        vault.replace(path, content.decode(), seen=seen)
    except (UnicodeDecodeError, MalformedMemoryError):
        vault.forget(path, seen=seen)
        vault.create(path, content)


def _put_beside(vault: Vault, step: Step, content: bytes) -> str:
    """Write the hub's version beside the file; a pull that was killed may have done so already."""
    for path in _copy_names(step):
        try:
            return vault.create(path, content).path
        except MemoryExistsError:
            if _has(vault, path, content):
                return path
    raise MemoryExistsError(step.row.path)


def _has(vault: Vault, path: str, content: bytes) -> bool:
    try:
        return vault.read(path).data == content
    except VaultError:
        return False


def _shared(row: There, here: Here | None, *, is_as_noted: bool) -> Shared | None:
    """What both sides have had, once a row is taken; a memory that was moved here is known by its path there."""
    if row.hash is None:
        return None
    if here is None or fold(here.path) != row.key:
        return Shared(row.path, row.hash, row.id)
    return Shared(here.path, row.hash, row.id, here.stamp if is_as_noted and here.is_settled else None)


def _copy_names(step: Step) -> Iterator[str]:
    """Where the hub's version may be put: told by the time of its change, so that it is always the same."""
    path = step.here.path if step.here and step.kind != "move" else step.row.path
    folder, slash, name = path.rpartition("/")
    stem = name.removesuffix(".md")[:MAX_STEM].encode()[:MAX_STEM_BYTES].decode(errors="ignore").rstrip(" .")
    start = f"{folder}{slash}{stem}.conflict-{step.row.changed:%Y%m%dT%H%M%SZ}"
    yield f"{start}.md"
    yield from (f"{start}-{number}.md" for number in range(2, COPIES))
