"""Memory files under the lock: read, add, rewrite, move, remove. Knows nothing of the index."""

import errno
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
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.file_names import Names, text_key
from memfs.storage.state_dir import State, settled
from memfs.storage.versions import Versions

PERMISSIONS = "Check the permissions of the file, and of the directories above it."
Change = Callable[[str], str]
Segments = tuple[str, ...]
Seen = Stamp | None


class LockedDirectory(NamedTuple):
    """A locked namespace: open descriptors of the root, the directory and its gate, and its real segments."""

    root: int
    parent: int
    gate: int
    segments: tuple[str, ...]

    def path(self, name: str) -> str:
        return "/".join((*self.segments, name))


class _NamespaceGoneError(MemoryNotFoundError):
    """The directory was deleted while its lock was held."""


class MemoryFiles:
    """The memory files of one vault. Thread-safe; every method is one whole operation."""

    def __init__(self, root: Path, *, clock: Clock, lock_timeout: float) -> None:
        self.root, self._clock, self._timeout = str(root), clock, lock_timeout
        self.state = State()
        self.versions = Versions(str(root), lock_timeout=lock_timeout)
        self.journal = ChangeJournal()
        self._names: dict[tuple[str, ...], Names] = {}
        self._mutex = Mutex()
        self._busy = 0
        self._closing = False

    @contextmanager
    def opened(self) -> Iterator[int]:
        """The root's descriptor; while one is out, nothing that is held open is closed."""
        root = self._enter()
        try:
            yield root
        finally:
            self._leave(root)

    def _enter(self) -> int:
        root = open_root(self.root)
        with self._mutex:
            self._busy += 1
        return root

    def _leave(self, root: int) -> None:
        with self._mutex:
            self._busy -= 1
            if self._closing and not self._busy:
                self._closing = False
                self.state.close(root)
                self.versions.close()
                self.journal.close()
        os.close(root)

    # --- reading

    def read(self, path: str) -> Memory:
        """Read one memory."""
        with self.opened() as root:
            segments = tuple(path.split("/"))
            try:
                return _read(root, segments)
            except FileNotFoundError:
                if (real := spelling_on_disk(root, segments)) == segments:
                    raise MemoryNotFoundError(path) from None
                return self.read("/".join(real))
            except OSError as error:
                if error.errno in {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR}:
                    raise MemoryNotFoundError(path) from None
                refused = MalformedMemoryError(path, 1, f"cannot be read: {error.strerror}")
                raise (refused.with_hint(PERMISSIONS) if isinstance(error, PermissionError) else refused) from error

    def walk(self, segments: tuple[str, ...] = (), *, archived: bool = False) -> Iterator[Memory | Problem]:
        """Every memory below a namespace; a file that cannot be read is a problem."""
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

    def kept(self, path: str) -> list[Version]:
        """The kept versions of a memory, newest first."""
        with self.opened() as root:
            return self.versions.of(root, path)

    def kept_data(self, path: str, version: Version) -> bytes:
        """The content of a kept version."""
        with self.opened() as root:
            return self.versions.read(root, path, version)

    # --- writing

    def add(self, segments: tuple[str, ...], text: str, values: Mapping[str, Any], dirty: DirectorySync) -> Written:
        """Add a memory, unless the same text is in the namespace."""
        keys = {key: canonical_value(key, value) for key, value in values.items() if value is not None}
        encode_text(text, "text")
        return self._while_there(lambda: self._add(segments, text, keys, dirty))

    def _add(self, segments: tuple[str, ...], text: str, keys: Mapping[str, Any], dirty: DirectorySync) -> Written:
        same = text_key(text)
        with self.hold(segments, create=True) as hold:
            with self._mutex:
                names = self._names.setdefault(hold.segments, Names())
            names.refresh(hold.parent, hold.gate)
            if found := self._duplicate(hold, names, same):
                return Written(found.id, found.path, "duplicate", found.stamp)
            now = self._clock()
            header = {"id": new_id(now), "type": "note", **keys}
            header.setdefault("created", canonical_value("created", now))
            data = encode_text(compose(header, text), "text")
            free = names.free(slug(str(keys.get("title") or first_line(text))))
            with _in_a_namespace_that_is_there(hold.parent):
                name, stamp = self.state.create(hold.root, hold.parent, data, free)
            dirty.sync(hold.parent)
            path = hold.path(name)
            self.versions.keep(hold.root, path, data)
            self.journal.note(hold.root, (path,))
            names.note(hold.parent, hold.gate, name, stamp, same)
            return Written(header["id"], path, "created", stamp)

    def rewrite(self, path: str, change: Change, dirty: DirectorySync, *, seen: Stamp | None = None) -> Written:
        """Apply `change` to a memory's text. A save that comes in between is kept, and `change` applied to it,
        unless `seen` names the file to change."""
        segments = tuple(path.split("/"))
        with self.hold(segments[:-1]) as hold:
            self._rescue(hold.root)
            keep = partial(self.versions.keep_once, hold.root)
            deadline = time.monotonic() + self._timeout
            while True:
                try:
                    with _readable(path), settled(hold.parent, segments[-1]) as old:
                        memory = Memory(path, *old.content, parse_file)
                        if seen is not None and seen != memory.stamp:
                            raise MemoryChangedError(path)
                        data = _changed(memory, change)
                        if data == memory.data:
                            return Written(memory.id, path, "unchanged", memory.stamp)
                        stamp = self.state.replace(hold.root, hold.parent, path, old, data, keep)
                        break
                except MemoryChangedError:
                    if seen is not None or time.monotonic() > deadline:
                        raise
            dirty.sync(hold.parent)
            self.versions.keep(hold.root, path, data)
            self.journal.note(hold.root, (path,))
            return Written(Memory(path, data, memory.status, parse_file).id, path, "updated", stamp)

    def create(self, path: str, data: bytes, *, outcome: Outcome) -> Written:
        """Write a whole file under a name that nobody has, also in another case or normal form."""
        return self._while_there(lambda: self._create(tuple(path.split("/")), data, outcome))

    def _create(self, segments: tuple[str, ...], data: bytes, outcome: Outcome) -> Written:
        name = segments[-1]
        with self.hold(segments[:-1], create=True) as hold:
            path = hold.path(name)
            with self._mutex:
                names = self._names.setdefault(hold.segments, Names())
            names.refresh(hold.parent, hold.gate)
            try:
                if names.has(name):
                    raise FileExistsError
                with _in_a_namespace_that_is_there(hold.parent):
                    _, stamp = self.state.create(hold.root, hold.parent, data, (name,))
            except FileExistsError:
                raise MemoryExistsError(path) from None
            os.fsync(hold.parent)
            self.versions.keep(hold.root, path, data)
            self.journal.note(hold.root, (path,))
            memory = _read(hold.root, tuple(path.split("/")))
            names.note(hold.parent, hold.gate, name, stamp, text_key(memory.body))
            return Written(memory.id, path, outcome, stamp)

    def move(
        self, path: str, to: Segments, name: str, *, outcome: Outcome, dirty: DirectorySync, seen: Seen = None
    ) -> Written:
        """Move a memory; the new name must be free, or is numbered when it is archived."""
        if name != path.rpartition("/")[2]:
            check_file_name(name)
        return self._while_there(lambda: self._move(path, to, name, outcome, dirty, seen))

    def _move(self, path: str, to: Segments, name: str, outcome: Outcome, dirty: DirectorySync, seen: Seen) -> Written:
        segments = tuple(path.split("/"))
        with self.hold(segments[:-1]) as hold:
            with _readable(path):
                memory = _read(hold.root, segments)
            if seen is not None and seen != memory.stamp:
                raise MemoryChangedError(path)
            to = spelling_on_disk(hold.root, to)
            with open_directory(hold.root, to, create=True) as parent:
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
                    with _in_a_namespace_that_is_there(parent):
                        rename_without_replacing(hold.parent, segments[-1], parent, free)
                except FileExistsError:
                    raise MemoryExistsError("/".join((*to, free))) from None
                dirty.sync(parent)
            dirty.sync(hold.parent)
            new = "/".join((*to, free))
            self.versions.move(hold.root, path, new)
            self.journal.note(hold.root, (path, new))
            moved = _read(hold.root, (*to, free))
            return Written(moved.id, new, outcome, moved.stamp)

    def remove(self, path: str, dirty: DirectorySync, *, seen: Stamp | None = None) -> Written:
        """Delete a memory and its kept versions."""
        segments = tuple(path.split("/"))
        with self.hold(segments[:-1]) as hold:
            with _readable(path):
                memory = _read(hold.root, segments)
            if seen is not None and seen != memory.stamp:
                raise MemoryChangedError(path)
            os.unlink(segments[-1], dir_fd=hold.parent)
            dirty.sync(hold.parent)
            self.versions.purge(hold.root, path)
            self.journal.begin_anew(hold.root)  # its name may say what it said
            return Written(memory.id, path, "removed")

    def close(self) -> None:
        """Turn late saves into conflict copies, and give back what is held, once nobody is writing."""
        with suppress(OSError, VaultError), self.opened() as root:
            if self.state.is_made:
                self._rescue(root)
            self._closing = True

    def _while_there(self, write: Callable[[], Written]) -> Written:
        """Write again if git removed the empty directory under our hands."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return write()
            except _NamespaceGoneError:
                if time.monotonic() > deadline:
                    raise

    # --- the lock

    @contextmanager
    def hold(self, segments: tuple[str, ...], *, create: bool = False) -> Iterator[LockedDirectory]:
        """Lock a namespace, in the directory that has its name once the lock is held."""
        label = "/" + "/".join(segments)
        deadline = time.monotonic() + self._timeout
        root, parent = self._enter(), -1
        try:
            if not self.state.is_made:
                self._begin(root)
            gate = self.state.gate(root, fold(label))
            while parent < 0:
                parent, segments = self._open_namespace(root, segments, create=create)
                acquire(parent, gate, label, self._timeout, deadline)
                if not is_directory_at(root, segments, parent):
                    os.close(parent)
                    parent = -1
            yield LockedDirectory(root, parent, gate, segments)
        except OSError as error:
            raise translate_os_error(label, error) from error
        finally:
            if parent >= 0:
                release(parent)
                os.close(parent)
            self._leave(root)

    def _begin(self, root: int) -> None:
        """Before the first write: make the state directory, and clear what killed writers left."""
        self.state.make(root)
        self.state.sweep(root, partial(self.versions.keep_once, root))
        self._rescue(root)

    def _open_namespace(self, root: int, segments: tuple[str, ...], *, create: bool) -> tuple[int, tuple[str, ...]]:
        """Open a directory, and tell how it is spelled on disk."""
        try:
            return open_directory_fd(root, segments), segments
        except FileNotFoundError:
            segments = spelling_on_disk(root, segments)
        try:
            return open_directory_fd(root, segments, create=create), segments
        except FileNotFoundError:
            raise MemoryNotFoundError("/".join(segments)) from None

    def _rescue(self, root: int) -> None:
        """Give every save that came too late a file of its own."""

        def save(path: str, data: bytes) -> None:
            segments = tuple(path.split("/"))
            stem = f"{segments[-1].removesuffix('.md')}.conflict-{self._clock():%Y%m%dT%H%M%SZ}"
            with open_directory(root, spelling_on_disk(root, segments[:-1]), create=True) as parent:
                name, _ = self.state.create(root, parent, data, Names().free(stem))
                os.fsync(parent)
            self.journal.note(root, ("/".join((*segments[:-1], name)),))

        self.state.rescue(root, save)

    def _duplicate(self, hold: LockedDirectory, names: Names, same: str) -> Memory | None:
        """The memory in a namespace that has this text now."""
        name = names.with_text(same)
        with suppress(OSError):
            memory = _read(hold.root, (*hold.segments, name)) if name else None
            if memory and text_key(memory.body) == same:
                return memory
        return None


def _read(root: int, segments: tuple[str, ...]) -> Memory:
    path = "/".join(segments)
    return Memory(path, *read_path(root, path), parse_file)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Word what is wrong with a file that is to be read and changed."""
    try:
        yield
    except FileNotFoundError:
        raise MemoryNotFoundError(path) from None
    except OSError as error:
        if error.errno in {errno.EFBIG, errno.EINVAL, errno.ELOOP}:
            raise MalformedMemoryError(path, 1, f"cannot be changed: {error.strerror}") from error
        raise


@contextmanager
def _in_a_namespace_that_is_there(parent: int) -> Iterator[None]:
    try:
        yield
    except OSError:
        if not os.fstat(parent).st_nlink:
            raise _NamespaceGoneError("the namespace") from None
        raise


def _changed(memory: Memory, change: Change) -> bytes:
    """The bytes of a memory after a change."""
    try:
        text = memory.data.decode()
    except UnicodeDecodeError:
        raise MalformedMemoryError(memory.path, 1, "not UTF-8, so it is never rewritten") from None
    try:
        return encode_text(change(text), memory.path)
    except Fault as fault:
        raise MalformedMemoryError(memory.path, fault.line, fault.reason) from None
