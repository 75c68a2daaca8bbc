"""Read, add, rewrite, move and remove memory files under the lock of their namespace. Does not know the index."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from memfs.after_fork import Mutex
from memfs.data_types import Memory, Outcome, Problem, Stamp, Version, Written
from memfs.errors import (
    MalformedMemoryError,
    MemoryChangedError,
    MemoryExistsError,
    MemoryNotFoundError,
    VaultError,
)
from memfs.format.edit import canonical_value, compose
from memfs.format.frontmatter import Fault, parse_file
from memfs.fs.files import (
    DirectorySync,
    encode_text,
    is_directory_at,
    open_directory,
    open_directory_fd,
    open_root,
    read,
    read_path,
    rename_without_replacing,
    spelling_on_disk,
    translate_os_error,
    walk,
)
from memfs.fs.locks import acquire, release
from memfs.ids import new_id
from memfs.namespace import check_file_name, first_line, fold, slug
from memfs.protocols import Clock
from memfs.storage.atomic_replace import AtomicWriter, open_settled
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.crash_recovery import recover_late_saves, sweep_temporary_files
from memfs.storage.exact_duplicates import read_duplicate, text_key
from memfs.storage.file_errors import NamespaceGoneError, read_error, reading_to_change, writing_into
from memfs.storage.file_names import DirectoryNames
from memfs.storage.state_dir import StateDir
from memfs.storage.versions import Versions

Change = Callable[[str], str]  # maps the text of a memory file to its new text
Segments = tuple[str, ...]
Seen = Stamp | None  # the stamp that a memory must still have; None if any will do


class LockedDirectory(NamedTuple):
    """A locked namespace: descriptors of root, directory and lock queue file, and its segments as spelled on disk."""

    root: int
    parent: int
    lock_queue: int
    segments: tuple[str, ...]

    def path(self, name: str) -> str:
        """Return the vault path of a file in this directory."""
        return "/".join((*self.segments, name))


class MemoryFiles:
    """The memory files of one vault. Thread-safe; every public method is one whole operation.

    Writing methods sync the changed directories to disk by `dirty`. With `seen` they raise MemoryChangedError if the
    memory no longer has that stamp. They raise LockTimeoutError, and StorageError for an OSError.
    """

    def __init__(self, root: Path, *, clock: Clock, lock_timeout: float) -> None:
        self.root, self._clock, self._timeout = str(root), clock, lock_timeout
        self.state, self.writer = StateDir(), AtomicWriter()
        self.versions = Versions(str(root), lock_timeout=lock_timeout)
        self.journal = ChangeJournal()
        self._names: dict[tuple[str, ...], DirectoryNames] = {}
        self._mutex = Mutex()
        self._active = 0  # operations in progress
        self._closing = False  # close cached descriptors after the last operation in progress

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Yield a descriptor of the root; cached descriptors stay open until the last such block has ended."""
        root = self._enter()
        try:
            yield root
        finally:
            self._leave(root)

    def _enter(self) -> int:
        root = open_root(self.root)
        with self._mutex:
            self._active += 1
        return root

    def _leave(self, root: int) -> None:
        with self._mutex:
            self._active -= 1
            if self._closing and not self._active:
                self._closing = False
                self.state.close()
                self.writer.close(root)
                self.versions.close()
                self.journal.close()
        os.close(root)

    # --- reading

    def read(self, path: str) -> Memory:
        """Read one memory; the path may be in another case or normal form than on disk.

        Raise MemoryNotFoundError, or MalformedMemoryError if it cannot be read.
        """
        with self.opened() as root:
            segments = tuple(path.split("/"))
            try:
                return _read(root, segments)
            except FileNotFoundError:
                if (real := spelling_on_disk(root, segments)) == segments:
                    raise MemoryNotFoundError(path) from None
                return self.read("/".join(real))
            except OSError as error:
                raise read_error(path, error) from error

    def walk(self, segments: tuple[str, ...] = (), *, archived: bool = False) -> Iterator[Memory | Problem]:
        """Yield every memory below a namespace, and a Problem for each file that cannot be read.

        From the root, memories in the archive are yielded only if `archived`.
        """
        with self.opened() as root:
            with suppress(PermissionError):
                segments = spelling_on_disk(root, segments)
            for listing in walk(root, segments, archived=archived):
                for path, reason in listing.unreadable:
                    yield Problem(path, 1, f"{reason}: not read")
                for name in listing.names:
                    path = listing.prefix + name
                    try:
                        data, status = read(listing.fd, name)
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        yield Problem(path, 1, f"{error.strerror}: not read")
                    else:
                        yield Memory(path, data, status, parse_file)

    def kept_versions(self, path: str) -> list[Version]:
        """Return the kept versions of a memory, newest first; none if a later memfs wrote them."""
        with self.opened() as root:
            return self.versions.list_versions(root, path)

    def version_data(self, path: str, version: Version) -> bytes:
        """Return the content of a kept version. Raise VersionNotFoundError if it is not kept any more."""
        with self.opened() as root:
            return self.versions.read(root, path, version)

    # --- writing

    def add(self, segments: tuple[str, ...], text: str, values: Mapping[str, Any], dirty: DirectorySync) -> Written:
        """Add a memory. Return the existing one, as a duplicate, if the namespace already has the same text."""
        keys = {key: canonical_value(key, value) for key, value in values.items() if value is not None}
        encode_text(text, "text")
        return self._retry_if_directory_gone(lambda: self._add(segments, text, keys, dirty))

    def _add(self, segments: tuple[str, ...], text: str, keys: Mapping[str, Any], dirty: DirectorySync) -> Written:
        key = text_key(text)
        with self.locked(segments, create=True) as locked:
            with self._mutex:
                names = self._names.setdefault(locked.segments, DirectoryNames())
            names.refresh(locked.parent, locked.lock_queue)
            same = names.name_with_text(key)
            if same and (found := read_duplicate(locked.root, locked.path(same), key)):
                return Written(found.id, found.path, "duplicate", found.stamp)
            now = self._clock()
            header = {"id": new_id(now), "type": "note", **keys}
            header.setdefault("created", canonical_value("created", now))
            data = encode_text(compose(header, text), "text")
            free = names.free_names(slug(str(keys.get("title") or first_line(text))))
            with writing_into(locked.parent):
                name, stamp = self.writer.create(locked.root, locked.parent, data, free)
            dirty.sync(locked.parent)
            path = locked.path(name)
            self.versions.keep(locked.root, path, data)
            self.journal.append(locked.root, (path,))
            names.record(locked.parent, locked.lock_queue, name, stamp, key)
            return Written(header["id"], path, "created", stamp)

    def rewrite(self, path: str, change: Change, dirty: DirectorySync, *, seen: Stamp | None = None) -> Written:
        """Apply `change` to the text of a memory, and again to the new text if an editor saves in between.

        Raise MemoryChangedError if an editor saves again and again until the lock timeout, or, with `seen`, at all;
        MemoryNotFoundError, and MalformedMemoryError if the file cannot be changed.
        """
        segments = tuple(path.split("/"))
        with self.locked(segments[:-1]) as locked:
            self._recover_late_saves(locked.root)
            keep = partial(self.versions.keep_once, locked.root)
            deadline = time.monotonic() + self._timeout
            while True:
                try:
                    with reading_to_change(path), open_settled(locked.parent, segments[-1]) as old:
                        memory = Memory(path, *old.content, parse_file)
                        if seen is not None and seen != memory.stamp:
                            raise MemoryChangedError(path)
                        data = _changed(memory, change)
                        if data == memory.data:
                            return Written(memory.id, path, "unchanged", memory.stamp)
                        stamp = self.writer.replace(locked.root, locked.parent, path, old, data, keep)
                        break
                except MemoryChangedError:
                    if seen is not None or time.monotonic() > deadline:
                        raise
            dirty.sync(locked.parent)
            self.versions.keep(locked.root, path, data)
            self.journal.append(locked.root, (path,))
            return Written(Memory(path, data, memory.status, parse_file).id, path, "updated", stamp)

    def create(self, path: str, data: bytes, *, outcome: Outcome) -> Written:
        """Write a new file. Raise MemoryExistsError if the name is taken, also in another case or normal form."""
        return self._retry_if_directory_gone(lambda: self._create(tuple(path.split("/")), data, outcome))

    def _create(self, segments: tuple[str, ...], data: bytes, outcome: Outcome) -> Written:
        name = segments[-1]
        with self.locked(segments[:-1], create=True) as locked:
            path = locked.path(name)
            with self._mutex:
                names = self._names.setdefault(locked.segments, DirectoryNames())
            names.refresh(locked.parent, locked.lock_queue)
            try:
                if names.is_taken(name):
                    raise FileExistsError
                with writing_into(locked.parent):
                    _, stamp = self.writer.create(locked.root, locked.parent, data, (name,))
            except FileExistsError:
                raise MemoryExistsError(path) from None
            os.fsync(locked.parent)
            self.versions.keep(locked.root, path, data)
            self.journal.append(locked.root, (path,))
            memory = _read(locked.root, tuple(path.split("/")))
            names.record(locked.parent, locked.lock_queue, name, stamp, text_key(memory.body))
            return Written(memory.id, path, outcome, stamp)

    def move(
        self, path: str, to: Segments, name: str, *, outcome: Outcome, dirty: DirectorySync, seen: Seen = None
    ) -> Written:
        """Move a memory to the namespace `to` as `name`. Raise MemoryExistsError if the name is taken there.

        With the outcome "archived", the name gets a number instead.
        """
        if name != path.rpartition("/")[2]:
            check_file_name(name)
        return self._retry_if_directory_gone(lambda: self._move(path, to, name, outcome, dirty, seen))

    def _move(self, path: str, to: Segments, name: str, outcome: Outcome, dirty: DirectorySync, seen: Seen) -> Written:
        segments = tuple(path.split("/"))
        with self.locked(segments[:-1]) as locked:
            with reading_to_change(path):
                memory = _read(locked.root, segments)
            if seen is not None and seen != memory.stamp:
                raise MemoryChangedError(path)
            to = spelling_on_disk(locked.root, to)
            with open_directory(locked.root, to, create=True) as parent:
                taken = {fold(other) for other in os.listdir(parent)}
                if to == segments[:-1]:
                    taken.discard(fold(segments[-1]))
                number, free = 1, name
                while fold(free) in taken:
                    if outcome != "archived":
                        raise MemoryExistsError("/".join((*to, name)))
                    number += 1
                    free = f"{name[:-3]}-{number}.md"
                try:
                    with writing_into(parent):
                        rename_without_replacing(locked.parent, segments[-1], parent, free)
                except FileExistsError:
                    raise MemoryExistsError("/".join((*to, free))) from None
                dirty.sync(parent)
            dirty.sync(locked.parent)
            new = "/".join((*to, free))
            self.versions.move(locked.root, path, new)
            self.journal.append(locked.root, (path, new))
            moved = _read(locked.root, (*to, free))
            return Written(moved.id, new, outcome, moved.stamp)

    def remove(self, path: str, dirty: DirectorySync, *, seen: Stamp | None = None) -> Written:
        """Delete a memory and its kept versions. Raise NewerSchemaError if a later memfs wrote the versions."""
        segments = tuple(path.split("/"))
        with self.locked(segments[:-1]) as locked:
            with reading_to_change(path):
                memory = _read(locked.root, segments)
            if seen is not None and seen != memory.stamp:
                raise MemoryChangedError(path)
            self.versions.check_format(locked.root)  # before anything is deleted
            os.unlink(segments[-1], dir_fd=locked.parent)
            dirty.sync(locked.parent)
            self.versions.purge(locked.root, path)
            self.journal.restart(locked.root)  # a file name may reveal the deleted text
            return Written(memory.id, path, "removed")

    def close(self) -> None:
        """Save late saves as conflict copies, and close cached descriptors once no operation is in progress."""
        with suppress(OSError, VaultError), self.opened() as root:
            if self.state.is_created:
                self._recover_late_saves(root)
            self._closing = True

    def _retry_if_directory_gone(self, write: Callable[[], Written]) -> Written:
        """Call `write` again as long as git, say, removes the empty directory meanwhile; up to the lock timeout."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return write()
            except NamespaceGoneError:
                if time.monotonic() > deadline:
                    raise

    # --- the lock

    @contextmanager
    def locked(self, segments: tuple[str, ...], *, create: bool = False) -> Iterator[LockedDirectory]:
        """Lock a namespace for the block. If its directory is replaced while this waits, the new directory is locked.

        Raise MemoryNotFoundError if it does not exist and `create` is False. An OSError of the block is translated too.
        """
        label = "/" + "/".join(segments)
        deadline = time.monotonic() + self._timeout
        root, parent = self._enter(), -1
        try:
            if not self.state.is_created:
                self._prepare_first_write(root)
            lock_queue = self.state.lock_queue(root, fold(label))
            while parent < 0:
                parent, segments = self._open_namespace(root, segments, create=create)
                acquire(parent, lock_queue, label, self._timeout, deadline)
                if not is_directory_at(root, segments, parent):
                    os.close(parent)
                    parent = -1
            yield LockedDirectory(root, parent, lock_queue, segments)
        except OSError as error:
            raise translate_os_error(label, error) from error
        finally:
            if parent >= 0:
                release(parent)
                os.close(parent)
            self._leave(root)

    def _prepare_first_write(self, root: int) -> None:
        """Create the state directory, and recover the data of killed writers."""
        self.state.create(root)
        sweep_temporary_files(root, partial(self.versions.keep_once, root))
        self._recover_late_saves(root)

    def _open_namespace(self, root: int, segments: tuple[str, ...], *, create: bool) -> tuple[int, tuple[str, ...]]:
        """Open a directory. Return its descriptor, and its segments as spelled on disk. Raise MemoryNotFoundError."""
        try:
            return open_directory_fd(root, segments), segments
        except FileNotFoundError:
            segments = spelling_on_disk(root, segments)
        try:
            return open_directory_fd(root, segments, create=create), segments
        except FileNotFoundError:
            raise MemoryNotFoundError("/".join(segments)) from None

    def _recover_late_saves(self, root: int) -> None:
        """Write every late save to a conflict copy beside its memory."""

        def save(path: str, data: bytes) -> None:
            segments = tuple(path.split("/"))
            stem = f"{segments[-1].removesuffix('.md')}.conflict-{self._clock():%Y%m%dT%H%M%SZ}"
            with open_directory(root, spelling_on_disk(root, segments[:-1]), create=True) as parent:
                names = DirectoryNames().free_names(stem)  # of an empty cache: `create` skips names that are taken
                name, _ = self.writer.create(root, parent, data, names)
                os.fsync(parent)
            self.journal.append(root, ("/".join((*segments[:-1], name)),))

        recover_late_saves(root, save)


def _read(root: int, segments: tuple[str, ...]) -> Memory:
    path = "/".join(segments)
    return Memory(path, *read_path(root, path), parse_file)


def _changed(memory: Memory, change: Change) -> bytes:
    """Return the bytes of a memory after a change. Raise MalformedMemoryError if it cannot be changed."""
    try:
        text = memory.data.decode()
    except UnicodeDecodeError:
        raise MalformedMemoryError(memory.path, 1, "not UTF-8, so it is never rewritten") from None
    try:
        return encode_text(change(text), memory.path)
    except Fault as fault:
        raise MalformedMemoryError(memory.path, fault.line, fault.reason) from None
