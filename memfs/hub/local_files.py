"""The memories of a vault as a hub sees them: by key, with their hashes."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from memfs.data_types import Memory, Problem, Stamp
from memfs.errors import InvalidNamespaceError
from memfs.fs.files import open_root, spelling_on_disk
from memfs.hub.plan import Here
from memfs.hub.sync_state import Shared
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, fold
from memfs.storage.stat_scan import Marks, Scan, is_settled, read_all, scan
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

FEW = 20  # names that are looked up one by one
MAX_ID = 200
MAX_KEY = 2500  # bytes: PostgreSQL keeps no more than 2,704 in an index


class Survey(NamedTuple):
    """A look at the memories below a namespace: their paths and stamps, by key; archived ones are not among them."""

    paths: dict[str, str]
    stamps: Mapping[str, Marks]
    scan: Scan
    problems: list[Problem]

    def is_gone(self, path: str) -> bool:
        """Tell whether a memory is surely not there; what could not be looked at may be."""
        return not self.scan.hides(path) and all(problem.path != path for problem in self.scan.problems)


@contextmanager
def opened(vault: Vault) -> Iterator[int]:
    """The descriptor of a vault's root."""
    root = open_root(vault.root)
    try:
        yield root
    finally:
        os.close(root)


def within(vault: Vault, namespace: str | None) -> Namespace:
    """The namespace that is mirrored: that of the handle, or one below it."""
    wanted = vault.namespace if namespace is None else Namespace.parse(namespace)
    if not vault.namespace.holds(wanted.segments):
        raise InvalidNamespaceError(str(wanted), f"outside the scope {vault.namespace}")
    if is_below(wanted.segments, ARCHIVE, SESSIONS):
        raise InvalidNamespaceError(str(wanted), "is not mirrored")
    return wanted


def prefix_of(namespace: Namespace) -> str:
    """What the keys below a namespace begin with."""
    return "".join(f"{fold(segment)}/" for segment in namespace.segments)


def digest(data: bytes) -> bytes:
    """What tells two versions apart, for ever and against anybody."""
    return hashlib.sha256(data).digest()


def survey(root: int, namespace: Namespace) -> Survey:
    """Look at every memory below a namespace, without reading any."""
    start = "/".join(spelling_on_disk(root, namespace.segments))
    found = scan(root, start)
    paths: dict[str, str] = {}
    problems = list(found.problems)
    for path in sorted(found.stamps):
        if not is_below(path.split("/"), ARCHIVE):
            key = fold(path)
            if len(key.encode()) > MAX_KEY:
                problems.append(Problem(path, 1, f"not mirrored: its path is longer than {MAX_KEY:,} bytes"))
                continue
            other = paths.setdefault(key, path)
            if other != path:
                problems.append(Problem(path, 1, f"not mirrored: the same name as {other} but for case or normal form"))
    return Survey(paths, found.stamps, found, [one for one in problems if not is_below(one.path.split("/"), ARCHIVE)])


def read(root: int, paths: Iterable[str]) -> Iterator[tuple[str, Here | Problem | None]]:
    """Read memories, sorted by path; None for one that is not there."""
    began = time.time_ns()
    for path, found in read_all(root, sorted(paths)):
        yield path, _here(found, began) if isinstance(found, Memory) else found


def _here(memory: Memory, began: int) -> Here:
    given = memory.header.get("id")
    name = given if isinstance(given, str) and given.isprintable() and len(given) <= MAX_ID else ""
    sure = is_settled(memory.status, began, time.time_ns())
    return Here(memory.path, digest(memory.data), name, memory.stamp, memory.data, sure)


def locate(root: int, wanted: Mapping[str, str], shared: Mapping[str, Shared]) -> dict[str, Here | Problem]:
    """The memories at some keys, which are expected at these paths; of one that is as it was, the file is not read."""
    places = {key: known.path if (known := shared.get(key)) else path for key, path in wanted.items()}
    missing = {key: path for key, path in places.items() if not is_there(root, path)}
    if len(missing) > FEW:
        names = {fold(path): path for path in scan(root, names_only=True).stamps}
        real = {key: names.get(key) for key in missing}
    else:
        real = {key: _spelled(root, path) for key, path in missing.items()}
    found: dict[str, Here | Problem] = {}
    to_read: dict[str, str] = {}
    for key, path in {**places, **real}.items():
        known = shared.get(key)
        if path is None:
            continue
        if known and known.stamp is not None and known.stamp == _stamp(root, path):
            found[key] = Here(path, known.hash, known.id, known.stamp, is_settled=True)
        else:
            to_read[path] = key
    for path, here in read(root, to_read):
        if here is not None:
            found[to_read[path]] = here._replace(data=b"") if isinstance(here, Here) else here
    return found


def is_there(root: int, path: str) -> bool:
    """Tell whether there is anything at a path."""
    return _stamp(root, path) is not None


def _stamp(root: int, path: str) -> Stamp | None:
    """The stamp of what is at a path, which is not opened."""
    try:
        return Stamp.from_stat(os.stat(path, dir_fd=root, follow_symlinks=False))
    except OSError:
        return None


def _spelled(root: int, path: str) -> str | None:
    """A path as it is spelled on disk; None if nothing is there."""
    try:
        real = "/".join(spelling_on_disk(root, tuple(path.split("/"))))
    except OSError:  # a directory that cannot be looked at; whoever writes there is told
        return None
    return real if is_there(root, real) else None
