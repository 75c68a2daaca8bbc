"""Applies the steps of a pull to the files of a vault. Thread-safe: steps of different namespaces run in parallel."""

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
from memfs.hub.local_files import content_hash
from memfs.hub.plan import LocalFile, PullStep
from memfs.hub.remote import RemoteFile
from memfs.hub.sync_state import SyncedFile
from memfs.namespace import fold
from memfs.vault.vault import Vault

MAX_STEM_CHARS = 60  # of a file name, before the suffix of a conflict copy
MAX_STEM_BYTES = 180
MAX_COPY_NAMES = 100  # names that are tried for one conflict copy
_KINDS_WITH_CONTENT = {"create", "replace", "copy"}
SyncedFiles = dict[str, SyncedFile | None]  # by key; None for a memory that neither side has


class StepResult(NamedTuple):
    """The result of a step: the new sync state by key, the path of a conflict copy, and why it failed, if it did.

    A step that failed after its move still has the sync state of the move.
    """

    step: PullStep
    synced: Mapping[str, SyncedFile | None]
    copy: str = ""
    fault: str = ""
    is_outdated: bool = False  # it changed again on the hub; the next pull brings that change


def needs_content(step: PullStep) -> bool:
    """Return whether a step needs the bytes of the hub's version."""
    return not _KINDS_WITH_CONTENT.isdisjoint((step.kind, step.then))


def preview_step(step: PullStep) -> StepResult:
    """Return the result for the report of a dry run; nothing changes. `copy` is set even if the step writes no copy."""
    return StepResult(step, {}, next(_copy_paths(step)))


def apply_step(
    vault: Vault, step: PullStep, content: bytes | None, synced_before: Mapping[str, SyncedFile]
) -> StepResult:
    """Apply one step. A problem with this one memory is returned as a fault, so that the pull continues.

    `content` is the hub's version, or None if the hub does not have that version any more.
    """
    synced: SyncedFiles = {}
    if needs_content(step):
        if content is None:
            return StepResult(step, synced, is_outdated=True)
        if content_hash(content) != step.row.hash:
            return StepResult(step, synced, fault="its bytes on the hub are damaged")
    try:
        return StepResult(step, synced, _apply(vault, step, content or b"", synced_before, synced))
    except (InvalidNamespaceError, MalformedMemoryError) as error:
        return StepResult(step, synced, fault=error.reason)
    except (MemoryChangedError, MemoryNotFoundError):
        return StepResult(step, synced, fault="it changed here during the pull; the next pull tries again")
    except MemoryExistsError:
        return StepResult(step, synced, fault="its name is taken here")


def _apply(
    vault: Vault, step: PullStep, content: bytes, synced_before: Mapping[str, SyncedFile], synced: SyncedFiles
) -> str:
    """Apply a step to the files, and put the new sync state into `synced`. Return the path of a conflict copy or ""."""
    row, file, kind, copy = step.row, step.file, step.kind, ""
    if kind == "move" and file:
        file, kind = _move(vault, step, file, synced_before[step.old_key], synced), step.then
    if kind == "remove" and file:
        vault.forget(file.path, seen=file.stamp)
    elif kind == "create":
        vault.create(row.path, content)
    elif kind == "replace" and file:
        _replace(vault, file.path, content, file.stamp)
    elif kind == "copy" and file:
        copy = _write_copy(vault, step._replace(file=file), content)
    if kind in {"remove", "untrack"}:
        synced[row.key] = None
    elif kind != "leave" or step.kind == "move":
        synced[row.key] = _synced_file(row, file, is_unwritten=kind == "record")
    return copy


def _move(vault: Vault, step: PullStep, file: LocalFile, before: SyncedFile, synced: SyncedFiles) -> LocalFile:
    """Move a file, and put the move into `synced`, so that it is recorded even if the rest of the step fails."""
    written = vault.move(file.path, step.row.path, seen=file.stamp)
    synced[step.old_key] = None
    synced[step.row.key] = SyncedFile(written.path, before.hash, before.id)
    return file._replace(path=written.path, stamp=written.stamp or file.stamp, is_stamp_reliable=False)


def _replace(vault: Vault, path: str, content: bytes, seen: Stamp) -> None:
    """Replace the bytes of a file. If the old or the new bytes are not UTF-8, archive the file and create a new one."""
    try:
        vault.replace(path, content.decode(), seen=seen)
    except (UnicodeDecodeError, MalformedMemoryError):
        vault.forget(path, seen=seen)
        vault.create(path, content)


def _write_copy(vault: Vault, step: PullStep, content: bytes) -> str:
    """Write the hub's version beside the file, unless an interrupted pull has done so already. Return its path."""
    for path in _copy_paths(step):
        try:
            return vault.create(path, content).path
        except MemoryExistsError:
            if _has_content(vault, path, content):
                return path
    raise MemoryExistsError(step.row.path)


def _has_content(vault: Vault, path: str, content: bytes) -> bool:
    try:
        return vault.read(path).data == content
    except VaultError:
        return False


def _synced_file(row: RemoteFile, file: LocalFile | None, *, is_unwritten: bool) -> SyncedFile | None:
    """Return the sync state of a row that was applied; None for a removal.

    A memory that was moved here gets the path on the hub, so that the next push sends the move. The stamp is known only
    if the step did not write the file.
    """
    if row.hash is None:
        return None
    if file is None or fold(file.path) != row.key:
        return SyncedFile(row.path, row.hash, row.id)
    return SyncedFile(file.path, row.hash, row.id, file.stamp if is_unwritten and file.is_stamp_reliable else None)


def _copy_paths(step: PullStep) -> Iterator[str]:
    """Yield the paths to try for a conflict copy. They contain the time of the hub's change, so that a repeated pull
    tries the same paths."""
    path = step.file.path if step.file and step.kind != "move" else step.row.path
    folder, slash, name = path.rpartition("/")
    stem = name.removesuffix(".md")[:MAX_STEM_CHARS].encode()[:MAX_STEM_BYTES].decode(errors="ignore").rstrip(" .")
    start = f"{folder}{slash}{stem}.conflict-{step.row.changed:%Y%m%dT%H%M%SZ}"
    yield f"{start}.md"
    yield from (f"{start}-{number}.md" for number in range(2, MAX_COPY_NAMES))
