"""Memory files under the lock: read, add, rewrite, move, remove. Knows nothing of the index."""

import os
import secrets
import struct
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from memfs.errors import (
    InvalidMemoryError,
    MalformedMemoryError,
    MemoryChangedError,
    MemoryExistsError,
    MemoryNotFoundError,
    VaultNotFoundError,
)
from memfs.files import (
    MAX_FILE,
    Content,
    Dirty,
    digest,
    folder,
    in_use,
    locked,
    open_file,
    open_root,
    read,
    read_open,
    rename_new,
    spelled,
    stamp_of,
    translated,
    walk,
)
from memfs.frontmatter import Fault, canonical, compose, understand
from memfs.model import Memory, Problem, Stamp, Written
from memfs.namespace import check_name, fold, slug
from memfs.protocols import Clock
from memfs.state import State
from memfs.versions import Versions

SETTLE = 0.25  # seconds to wait for an editor that is in the middle of a save
FRESH = 2.0  # seconds for which an edit in place may go unnoticed by the search for duplicates
_UNKNOWN = ((0, 0), "")
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"

Change = Callable[[str], str]


class Hold(NamedTuple):
    """A locked namespace: open descriptors of the root, the directory and its gate, and its real segments."""

    root: int
    parent: int
    gate: int
    segments: tuple[str, ...]

    def path(self, name: str) -> str:
        return "/".join((*self.segments, name))


class Names:
    """What this process knows of the names and texts in one directory."""

    def __init__(self) -> None:
        self.mtime_ns = -1
        self.scanned = 0.0
        self.taken: dict[str, tuple[tuple[int, int], str]] = {}  # folded name -> (inode, mtime), text
        self.texts: dict[str, str] = {}  # text -> name
        self.last: dict[str, int] = {}  # slug -> number of its last use


class Tree:
    """The memory files of one vault. Thread-safe; every method is one whole operation."""

    def __init__(self, root: Path, *, clock: Clock, lock_timeout: float) -> None:
        self.root, self._clock, self._timeout = root, clock, lock_timeout
        self.state = State()
        self.versions = Versions(str(root))
        self._names: dict[tuple[str, ...], Names] = {}
        self._mutex = threading.Lock()
        self._secret = secrets.token_bytes(8)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """The root's descriptor."""
        root = open_root(self.root)
        try:
            yield root
        finally:
            os.close(root)

    # --- reading

    def read(self, path: str) -> Memory:
        """Read one memory."""
        with self.opened() as root:
            segments = tuple(path.split("/"))
            try:
                return _read(root, segments)
            except FileNotFoundError:
                if (real := spelled(root, segments)) == segments:
                    raise MemoryNotFoundError(path) from None
                return self.read("/".join(real))
            except OSError as error:
                raise MalformedMemoryError(path, 1, f"cannot be read: {error.strerror}") from error

    def walk(self, segments: tuple[str, ...] = (), *, archived: bool = False) -> Iterator[Memory | Problem]:
        """Every memory below a namespace; a file that cannot be read is a problem."""
        with self.opened() as root:
            try:
                with folder(root, segments):
                    pass
            except FileNotFoundError:
                segments = spelled(root, segments)
            for found in walk(root, segments, archived=archived):
                if found.reason:
                    yield Problem(found.path, 1, f"{found.reason}: not read")
                    continue
                try:
                    content = read(found.folder, found.name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    yield Problem(found.path, 1, f"{error.strerror}: not read")
                else:
                    yield Memory(found.path, content.data, content.stamp, understand)

    # --- writing

    def add(self, segments: tuple[str, ...], text: str, values: Mapping[str, Any], dirty: Dirty) -> Written:
        """Add a memory, unless the same text is in the namespace."""
        keys = {key: canonical(key, value) for key, value in values.items() if value is not None}
        encode(text, "text")
        same = _text_key(text)
        with self._hold(segments, create=True) as hold:
            names = self._refreshed(hold)
            if found := self._duplicate(hold, names, same):
                return Written(found.id, found.path, "duplicate", found.stamp)
            now = self._clock()
            header = {"id": new_id(now), "type": keys.pop("type", "note"), **keys}
            header.setdefault("created", canonical("created", now))
            data = encode(compose(header, text), "text")
            name = self._place(hold, names, slug(str(keys.get("title") or _first_line(text))), data)
            dirty.sync(hold.parent)
            path = hold.path(name)
            self.versions.keep(path, data)
            stamp = stamp_of(os.stat(name, dir_fd=hold.parent, follow_symlinks=False))
            self._noted(hold, names, name, stamp, same)
            return Written(header["id"], path, "created", stamp)

    def rewrite(self, path: str, change: Change, dirty: Dirty, *, seen: Stamp | None = None) -> Written:
        """Apply `change` to a memory's text. A save that comes in between is kept, and `change` applied to it,
        unless `seen` names the file to change."""
        segments = tuple(path.split("/"))
        with self._hold(segments[:-1]) as hold:
            self._rescue(hold.root)
            deadline = time.monotonic() + self._timeout
            while True:
                old = self._settled(hold, segments[-1])
                if seen is not None and seen != old.stamp:
                    raise MemoryChangedError(path)
                memory = Memory(path, old.data, old.stamp, understand)
                data = _changed(memory, change)
                if data == old.data:
                    return Written(memory.id, path, "unchanged", old.stamp)
                try:
                    self.state.replace(hold.root, hold.parent, path, old, data, self.versions.keep_once)
                    break
                except MemoryChangedError:
                    if seen is not None or time.monotonic() > deadline:
                        raise
                except FileNotFoundError:
                    raise MemoryNotFoundError(path) from None
            dirty.sync(hold.parent)
            self.versions.keep(path, data)
            self.versions.prune(path)
            stamp = stamp_of(os.stat(segments[-1], dir_fd=hold.parent, follow_symlinks=False))
            return Written(Memory(path, data, stamp, understand).id, path, "updated", stamp)

    def revive(self, path: str, data: bytes) -> Written:
        """Write a memory that is gone again, under its old name."""
        segments = tuple(path.split("/"))
        with self._hold(segments[:-1], create=True) as hold:
            self._place(hold, self._refreshed(hold), segments[-1].removesuffix(".md"), data, exact=True)
            os.fsync(hold.parent)
            memory = _read(hold.root, segments)
            return Written(memory.id, path, "restored", memory.stamp)

    def move(self, path: str, to: tuple[str, ...], name: str, *, outcome: str, dirty: Dirty) -> Written:
        """Move a memory; the new name must be free, or is numbered when it is archived."""
        check_name(name)
        segments = tuple(path.split("/"))
        with self._hold(segments[:-1]) as hold:
            memory = self._there(hold.root, segments)
            to = spelled(hold.root, to)
            with folder(hold.root, to, create=True) as parent:
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
                    rename_new(hold.parent, segments[-1], parent, free)
                except FileExistsError:
                    raise MemoryExistsError("/".join((*to, free))) from None
                dirty.sync(parent)
            dirty.sync(hold.parent)
            new = "/".join((*to, free))
            self.versions.move(path, new)
            moved = _read(hold.root, (*to, free))
            return Written(moved.id if moved.header.get("id") else memory.id, new, outcome, moved.stamp)

    def remove(self, path: str, dirty: Dirty, *, seen: Stamp | None = None) -> Written:
        """Delete a memory and its kept versions."""
        segments = tuple(path.split("/"))
        with self._hold(segments[:-1]) as hold:
            memory = self._there(hold.root, segments)
            if seen is not None and seen != memory.stamp:
                raise MemoryChangedError(path)
            os.unlink(segments[-1], dir_fd=hold.parent)
            dirty.sync(hold.parent)
            self.versions.purge(path)
            return Written(memory.id, path, "removed")

    def close(self) -> None:
        """Turn late saves into conflict copies, and give back what the writer holds."""
        with suppress(OSError, VaultNotFoundError), self.opened() as root:
            if not self.state.is_new:
                self._rescue(root)
            self.state.close(root)

    # --- the lock

    @contextmanager
    def _hold(self, segments: tuple[str, ...], *, create: bool = False) -> Iterator[Hold]:
        """Lock a namespace, in the directory that has its name once the lock is held."""
        label = "/" + "/".join(segments)
        deadline = time.monotonic() + self._timeout
        with translated(label), ExitStack() as stack:
            root = stack.enter_context(self.opened())
            if self.state.is_new:
                self.state.sweep(root, self.versions.keep_once)
            gate = self.state.gate(root, fold(label))
            stack.callback(os.close, gate)
            while True:
                with ExitStack() as attempt:
                    try:
                        parent = attempt.enter_context(folder(root, segments))
                    except FileNotFoundError:
                        if not create and spelled(root, segments) == segments:
                            raise MemoryNotFoundError(label) from None
                        segments = spelled(root, segments)
                        parent = attempt.enter_context(folder(root, segments, create=create))
                    left = max(0.0, deadline - time.monotonic())
                    attempt.enter_context(locked(parent, gate, label, left))
                    if _is_at(root, segments, parent):
                        stack.enter_context(attempt.pop_all())
                        break
            yield Hold(root, parent, gate, segments)

    def _rescue(self, root: int) -> None:
        """Give every save that came too late a file of its own."""

        def save(path: str, data: bytes) -> None:
            segments = tuple(path.split("/"))
            stem = f"{segments[-1].removesuffix('.md')}.conflict-{self._clock():%Y%m%dT%H%M%SZ}"
            with folder(root, spelled(root, segments[:-1]), create=True) as parent:
                self._place(Hold(root, parent, -1, segments[:-1]), Names(), stem, data)
                os.fsync(parent)

        self.state.rescue(root, save)

    def _settled(self, hold: Hold, name: str) -> Content:
        """Read a file that nobody is in the middle of writing, as far as that can be told."""
        deadline = time.monotonic() + SETTLE
        try:
            while True:
                with open_file(hold.parent, name) as fd:
                    if not in_use(fd, by_writers=True) or time.monotonic() > deadline:
                        return read_open(fd)
                time.sleep(0.002)
        except FileNotFoundError:
            raise MemoryNotFoundError(hold.path(name)) from None
        except OSError as error:
            raise MalformedMemoryError(hold.path(name), 1, f"cannot be read: {error.strerror}") from error

    def _there(self, root: int, segments: tuple[str, ...]) -> Memory:
        try:
            return _read(root, segments)
        except FileNotFoundError:
            raise MemoryNotFoundError("/".join(segments)) from None

    # --- names and duplicates

    def _place(self, hold: Hold, names: Names, stem: str, data: bytes, *, exact: bool = False) -> str:
        """Write a new file under the first free name of `stem`, `stem-2`, ..."""
        staged = self.state.stage(hold.root, data)
        try:
            number = names.last.get(stem, 0)
            while True:
                number += 1
                name = f"{stem}-{number}.md" if number > 1 else f"{stem}.md"
                with suppress(FileExistsError):
                    if fold(name) in names.taken:
                        raise FileExistsError
                    self.state.place(hold.root, staged, hold.parent, name)
                    names.last[stem] = number
                    return name
                if exact:
                    raise MemoryExistsError(hold.path(name))
        except BaseException:
            self.state.unstage(hold.root, staged)
            raise

    def _duplicate(self, hold: Hold, names: Names, same: str) -> Memory | None:
        if name := names.texts.get(same):
            with suppress(OSError):
                content = read(hold.parent, name)
                memory = Memory(hold.path(name), content.data, content.stamp, understand)
                if _text_key(memory.body) == same:
                    return memory
        return None

    def _refreshed(self, hold: Hold) -> Names:
        """The names and texts of a locked directory: remembered, if nobody else wrote since, or read."""
        with self._mutex:
            names = self._names.setdefault(hold.segments, Names())
        mtime_ns, now = os.fstat(hold.parent).st_mtime_ns, time.monotonic()
        deep = now - names.scanned > FRESH
        if not deep and names.mtime_ns == mtime_ns and os.pread(hold.gate, 12, 0) == self._token():
            return names
        taken: dict[str, tuple[tuple[int, int], str]] = {}
        texts: dict[str, str] = {}
        with os.scandir(hold.parent) as entries:
            for entry in entries:
                key = fold(entry.name)
                if not entry.name.endswith(".md") or not entry.is_file(follow_symlinks=False):
                    taken[key] = _UNKNOWN
                    continue
                known = names.taken.get(key, _UNKNOWN)
                identity = entry.inode(), entry.stat(follow_symlinks=False).st_mtime_ns if deep else known[0][1]
                if known[0] != identity:
                    known = identity, _text_key_of(hold.parent, entry.name)
                taken[key] = known
                if known[1]:
                    texts[known[1]] = entry.name
        names.taken, names.texts, names.last = taken, texts, {}
        names.mtime_ns, names.scanned = mtime_ns, now if deep else names.scanned
        return names

    def _noted(self, hold: Hold, names: Names, name: str, stamp: Stamp, same: str) -> None:
        """Remember a file of our own."""
        names.taken[fold(name)] = ((stamp.inode, stamp.mtime_ns), same)
        names.texts[same] = name
        names.mtime_ns = os.fstat(hold.parent).st_mtime_ns
        os.pwrite(hold.gate, self._token(), 0)

    def _token(self) -> bytes:
        return self._secret + struct.pack("<I", os.getpid())


def _read(root: int, segments: tuple[str, ...]) -> Memory:
    with folder(root, segments[:-1]) as parent:
        content = read(parent, segments[-1])
    return Memory("/".join(segments), content.data, content.stamp, understand)


def _is_at(root: int, segments: tuple[str, ...], fd: int) -> bool:
    """Tell whether an open directory is still the one with this name."""
    try:
        with folder(root, segments) as other:
            return os.path.samestat(os.fstat(other), os.fstat(fd))
    except FileNotFoundError:
        return False


def _changed(memory: Memory, change: Change) -> bytes:
    """The bytes of a memory after a change."""
    try:
        text = memory.data.decode()
    except UnicodeDecodeError:
        raise MalformedMemoryError(memory.path, 1, "not UTF-8, so it is never rewritten") from None
    try:
        return encode(change(text), memory.path)
    except Fault as fault:
        raise MalformedMemoryError(memory.path, fault.line, fault.reason) from None


def encode(text: str, subject: str) -> bytes:
    """Text as bytes; refused before the disk is touched if it cannot be stored."""
    if not text.strip() and subject == "text":
        raise InvalidMemoryError(subject, "is empty")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMemoryError(subject, f"holds a lone surrogate at character {error.start}") from None
    if len(data) > MAX_FILE - 64 * 1024:
        raise InvalidMemoryError(subject, f"is larger than {MAX_FILE // (1024 * 1024)} MiB")
    return data


def _text_key(text: str) -> str:
    """Equal for texts that differ only in white space and normal form."""
    return digest(" ".join(unicodedata.normalize("NFC", text).split()).encode())


def _text_key_of(parent: int, name: str) -> str:
    try:
        return _text_key(understand(name, read(parent, name).data).body)
    except OSError:
        return ""


def _first_line(text: str) -> str:
    return next((line.lstrip("# ") for line in text[:1000].splitlines() if line.strip("#- \t")), "")


def new_id(now: datetime) -> str:
    """`m-` and a ULID: 48 bits of milliseconds, 80 of chance, in lower-case base32."""
    number = int(now.timestamp() * 1000) << 80 | secrets.randbits(80)
    return "m-" + "".join(_BASE32[number >> shift & 31] for shift in range(125, -1, -5))
