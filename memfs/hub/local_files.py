"""Lists and reads the memories of a vault for push and pull: by key (the folded path), with hash and stamp."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from memfs.data_types import Memory, Problem, Stamp
from memfs.errors import InvalidNamespaceError
from memfs.fs.files import open_root, spelling_on_disk
from memfs.hub.plan import LocalFile
from memfs.hub.sync_state import SyncedFile
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, fold
from memfs.storage.stat_scan import Scan, StampTuple, is_racy, read_all, scan
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

MAX_SINGLE_LOOKUPS = 20  # names that are looked up one by one; for more, the whole tree is listed
MAX_ID_CHARS = 200
MAX_KEY_BYTES = 2500  # an index of PostgreSQL takes at most 2,704


class FileListing(NamedTuple):
    """The memories below a namespace without archived ones: their paths by key, and the stamps of all files by path.

    Of paths with the same key, only the first is in `paths`; the others are in `problems`.
    """

    paths: dict[str, str]
    stamps: Mapping[str, StampTuple]
    scan: Scan
    problems: list[Problem]

    def is_missing(self, path: str) -> bool:
        """Return whether a memory that was not listed does not exist; False if it may exist but could not be read."""
        return not self.scan.is_unreadable(path) and all(problem.path != path for problem in self.scan.problems)


@contextmanager
def open_vault_root(vault: Vault) -> Iterator[int]:
    """Yield a descriptor of a vault's root directory."""
    root = open_root(vault.root)
    try:
        yield root
    finally:
        os.close(root)


def mirrored_namespace(vault: Vault, namespace: str | None) -> Namespace:
    """Return the namespace to mirror: the given one, or that of the vault's handle for None.

    Raise InvalidNamespaceError if it is outside of the handle's scope, or in the archive or the sessions.
    """
    wanted = vault.namespace if namespace is None else Namespace.parse(namespace)
    if not vault.namespace.holds(wanted.segments):
        raise InvalidNamespaceError(str(wanted), f"outside the scope {vault.namespace}")
    if has_first_segment(wanted.segments, ARCHIVE, SESSIONS):
        raise InvalidNamespaceError(str(wanted), "is not mirrored")
    return wanted


def key_prefix(namespace: Namespace) -> str:
    """Return the prefix of all keys below a namespace, with a slash at its end; "" for the whole vault."""
    return "".join(f"{fold(segment)}/" for segment in namespace.segments)


def content_hash(data: bytes) -> bytes:
    """Return the SHA-256 of a file's bytes, which identifies a version."""
    return hashlib.sha256(data).digest()


def list_files(root: int, namespace: Namespace) -> FileListing:
    """List the memories below a namespace by stat, without reading any."""
    start = "/".join(spelling_on_disk(root, namespace.segments))
    found = scan(root, start)
    paths: dict[str, str] = {}
    problems = list(found.problems)
    for path in sorted(found.stamps):
        if not has_first_segment(path.split("/"), ARCHIVE):
            key = fold(path)
            if len(key.encode()) > MAX_KEY_BYTES:
                problems.append(Problem(path, 1, f"not mirrored: its path is longer than {MAX_KEY_BYTES:,} bytes"))
                continue
            other = paths.setdefault(key, path)
            if other != path:
                problems.append(Problem(path, 1, f"not mirrored: the same name as {other} but for case or normal form"))
    problems = [problem for problem in problems if not has_first_segment(problem.path.split("/"), ARCHIVE)]
    return FileListing(paths, found.stamps, found, problems)


def read_files(root: int, paths: Iterable[str]) -> Iterator[tuple[str, LocalFile | Problem | None]]:
    """Yield each path with its memory, in sorted order: a Problem if it cannot be read, None if it does not exist."""
    began = time.time_ns()
    for path, found in read_all(root, sorted(paths)):
        yield path, _local_file(found, began) if isinstance(found, Memory) else found


def _local_file(memory: Memory, began: int) -> LocalFile:
    """Return a memory that was read after `began` (ns). An id that a person wrote and that is unusable becomes ""."""
    given = memory.header.get("id")
    id_ = given if isinstance(given, str) and given.isprintable() and len(given) <= MAX_ID_CHARS else ""
    is_stamp_reliable = not is_racy(memory.status, began, time.time_ns())
    return LocalFile(memory.path, content_hash(memory.data), id_, memory.stamp, memory.data, is_stamp_reliable)


def find_files(
    root: int, expected: Mapping[str, str], synced: Mapping[str, SyncedFile]
) -> dict[str, LocalFile | Problem]:
    """Return the memories that exist at some keys, without their bytes. `expected` has the path on the hub by key.

    A file may be spelled differently on disk. One whose stamp is unchanged since the last sync is not read.
    """
    likely = {key: known.path if (known := synced.get(key)) else path for key, path in expected.items()}
    missing = {key: path for key, path in likely.items() if not exists(root, path)}
    if len(missing) > MAX_SINGLE_LOOKUPS:
        names = {fold(path): path for path in scan(root, names_only=True).stamps}
        on_disk = {key: names.get(key) for key in missing}
    else:
        on_disk = {key: _path_on_disk(root, path) for key, path in missing.items()}
    found: dict[str, LocalFile | Problem] = {}
    to_read: dict[str, str] = {}
    for key, path in {**likely, **on_disk}.items():
        known = synced.get(key)
        if path is None:
            continue
        if known and known.stamp is not None and known.stamp == _stamp(root, path):
            found[key] = LocalFile(path, known.hash, known.id, known.stamp, is_stamp_reliable=True)
        else:
            to_read[path] = key
    for path, file in read_files(root, to_read):
        if file is not None:
            found[to_read[path]] = file._replace(data=b"") if isinstance(file, LocalFile) else file
    return found


def exists(root: int, path: str) -> bool:
    """Return whether anything exists at a path, as spelled; False if it cannot be accessed."""
    return _stamp(root, path) is not None


def _stamp(root: int, path: str) -> Stamp | None:
    """Return the stamp of a path without opening it; None if nothing exists there or it cannot be accessed."""
    try:
        return Stamp.from_stat(os.stat(path, dir_fd=root, follow_symlinks=False))
    except OSError:
        return None


def _path_on_disk(root: int, path: str) -> str | None:
    """Return a path as it is spelled on disk; None if nothing exists there."""
    try:
        real = "/".join(spelling_on_disk(root, tuple(path.split("/"))))
    except OSError:  # a directory that cannot be listed; a later write to it raises the error
        return None
    return real if exists(root, real) else None
