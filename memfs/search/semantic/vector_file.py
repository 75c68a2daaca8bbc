"""Vectors of texts by key, kept in `.memfs/vectors`, a file a model.

A record is a checksum, a key that tells a text from others, and small whole numbers. Records are appended, or the whole
file is replaced. Whatever is wrong with a record costs making its vector anew; where the disk takes none, vectors last
as long as the process.
"""

import errno
import logging
import mmap
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from memfs.errors import MemfsError
from memfs.fs.files import FILE_FLAGS, READ_FLAGS, STATE_DIR, digest, open_directory, write_all
from memfs.fs.locks import release, try_lock
from memfs.namespace import slug
from memfs.storage.state_dir import make

FOLDER = "vectors"
BLOCK = 8192  # records that are handled at once
MANY = 4096  # vectors that are better read from the file than held beside it
PATIENCE = 2.0  # seconds to wait for another process that writes
MODELS = 3  # whose files are kept, those that were written last
MAX_SIZE = 1 << 16  # numbers of a vector
MOST = 1 << 24  # records that are looked at
LATE = 3600.0  # seconds after which a file in the making is given up
_MASK, _ODD, _SALT = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0x6D656D6673
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | FILE_FLAGS
Keys = NDArray[np.uint64]
Small = NDArray[np.int8]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
log = logging.getLogger("memfs")


def key_of(path: str, content: bytes) -> int:
    """The key of a memory with this path, whose content has this digest."""
    return int.from_bytes(content, "little") ^ (crc32(path.encode()) * _ODD & _MASK)


def keys_of(paths: Sequence[str], contents: bytes) -> Keys:
    """The keys of many, whose digests stand side by side."""
    sums = np.fromiter((crc32(path.encode()) for path in paths), np.uint64, len(paths))
    keys: Keys = np.frombuffer(contents, "<u8", len(paths)) ^ (sums * np.uint64(_ODD))
    return keys


def name_of(model: str, size: int) -> str:
    """The name of the file with the vectors of a model."""
    return f"{slug(model)}-{digest(model.encode())[:8]}-{size}"


class VectorFile:
    """The vectors in one file, all of one size."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.version = 0  # another one once vectors that were there may not be there any more
        self.size, self._words = size, -(-size // 8)  # a word is eight numbers
        # A checksum is a sum of odd multiples, which no change of a single word leaves as it is.
        self._odd = (2 * np.arange(self._words + 1, dtype=np.uint64) + np.uint64(1)) * np.uint64(_ODD)
        self._extra: dict[int, Small] = {}  # vectors beside those that were read
        self._seen: tuple[int, ...] | None = None
        self._is_behind = False
        self._clear()

    def _clear(self) -> None:
        self._table: Keys = np.empty((0, 2 + self._words), np.uint64)  # checksum, key and vector of each record
        self._is_whole: Flags = np.empty(0, np.bool_)
        self._keys: Keys = np.empty(0, np.uint64)  # of the records that are whole, sorted
        self._places: NDArray[np.int64] = np.empty(0, np.int64)  # where these are

    @property
    def _width(self) -> int:
        return 8 * (2 + self._words)

    @property
    def records(self) -> int:
        """The number of records, those out of use too."""
        return self._seen[1] // self._width if self._seen else 0

    # --- reading

    def refresh(self, root: int) -> None:
        """See what others wrote; a file that is gone, or not as it was, is let go of."""
        seen = self._look(root)
        if seen == self._seen:
            return
        is_longer = self._seen and seen and seen[0] == self._seen[0] and seen[1] > self._seen[1]
        self._seen, self._is_behind = seen, seen is not None
        if not is_longer:
            self._clear()
            self.version += 1

    def _look(self, root: int) -> tuple[int, ...] | None:
        try:
            status = os.stat(f"{STATE_DIR}/{FOLDER}/{self.name}", dir_fd=root, follow_symlinks=False)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _catch_up(self, root: int) -> None:
        """Read the file; records that were looked at before are not looked at again."""
        self._is_behind = False
        with suppress(OSError, MemfsError, ValueError):
            table = self._map(root)
            if len(table) > len(self._table):
                self._is_whole = np.concatenate((self._is_whole, self._checked(table[len(self._table) :])))
                self._table, places = table, np.flatnonzero(self._is_whole)
                keys = table[places, 1]
                order = np.argsort(keys, kind="stable")
                self._keys, self._places = keys[order], places[order]

    def _map(self, root: int) -> Keys:
        with open_directory(root, (STATE_DIR, FOLDER)) as parent:
            fd = os.open(self.name, READ_FLAGS, dir_fd=parent)
        try:
            status = os.fstat(fd)
            rows = min(status.st_size // self._width, MOST) if stat.S_ISREG(status.st_mode) else 0
            data = mmap.mmap(fd, rows * self._width, access=mmap.ACCESS_READ) if rows else b""
        finally:
            os.close(fd)
        return np.frombuffer(data, "<u8").reshape(rows, 2 + self._words)

    def _checked(self, table: Keys) -> Flags:
        """Which records are whole."""
        blocks = (table[at : at + BLOCK] for at in range(0, len(table), BLOCK))
        return np.concatenate([self._sums(block[:, 1:]) == block[:, 0] for block in blocks])

    def _sums(self, words: Keys) -> Keys:
        sums: Keys = (words * self._odd).sum(axis=1, dtype=np.uint64) + np.uint64(_SALT)
        return sums

    def _find(self, keys: Keys) -> tuple[Flags, NDArray[np.int64]]:
        """Which of the keys have a record, and where those are."""
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_), np.empty(0, np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found: Flags = self._keys[at] == keys
        return found, self._places[at[found]]

    def have(self, root: int, keys: Keys) -> Flags:
        """Which of the keys have a vector."""
        found = self._have(keys)
        if self._is_behind and not found.all():
            self._catch_up(root)
            found = self._have(keys)
        return found

    def _have(self, keys: Keys) -> Flags:
        found, _ = self._find(keys)
        for number in np.flatnonzero(~found) if self._extra else ():
            found[number] = int(keys[number]) in self._extra
        return found

    def take(self, keys: Keys) -> Small:
        """The vectors of keys; zero where there is none."""
        found, places = self._find(keys)
        vectors = np.zeros((len(keys), 8 * self._words), np.int8)
        vectors[found] = np.ascontiguousarray(self._table[places, 2:]).view(np.int8)
        for number in np.flatnonzero(~found) if self._extra else ():
            vectors[number] = self._extra.get(int(keys[number]), 0)
        return vectors[:, : self.size]

    # --- writing

    def add(self, root: int, keys: Sequence[int], vectors: Floats) -> None:
        """Keep vectors, for other processes too if the disk takes them."""
        small = np.zeros((len(keys), 8 * self._words), np.int8)
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
        small[:, : self.size] = np.rint(vectors * (127 / np.where(largest > 0, largest, 1)))
        self._extra.update(zip(keys, small, strict=True))
        table = np.empty((len(keys), 2 + self._words), np.uint64)
        table[:, 1], table[:, 2:] = np.array(keys, np.uint64), small.view(np.uint64)
        table[:, 0] = self._sums(table[:, 1:])
        try:
            with _locked(root) as parent:
                self._append(root, parent, table)
        except (OSError, MemfsError) as error:
            log.info("vectors are not kept on disk: %s", error)
            return
        if len(self._extra) > MANY:
            self._catch_up(root)
            self._extra = {key: vector for key, vector in self._extra.items() if not self._find(array_of([key]))[0][0]}

    def _append(self, root: int, parent: int, table: Keys) -> None:
        seen = self._look(root)
        try:
            fd = os.open(self.name, _APPEND, 0o666, dir_fd=parent)
        except OSError as error:
            if error.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
                raise
            fd = -1
        try:
            is_ours = fd >= 0 and stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size % self._width == 0
            if is_ours:
                write_all(fd, table.tobytes(), durable=False)
            else:  # something else stands there, or whoever wrote last was killed
                self._replace(parent, [self._table[self._is_whole], table])
        finally:
            if fd >= 0:
                os.close(fd)
        if seen is None or not is_ours:
            _sweep(parent, self.name)
        if is_ours and seen == self._seen:
            self._seen, self._is_behind = self._look(root), True

    def keep(self, root: int, keys: Keys) -> None:
        """Have the file hold no vectors but those of some keys."""
        self.refresh(root)
        self._catch_up(root)
        _, places = self._find(np.unique(keys))
        kept = [self._table[places[at : at + BLOCK]] for at in range(0, len(places), BLOCK)]
        beside = set(keys.tolist()) & self._extra.keys()
        self._extra = {key: self._extra[key] for key in beside}
        with suppress(OSError, MemfsError), _locked(root) as parent:
            self._replace(parent, kept)
            _sweep(parent, self.name)

    def _replace(self, parent: int, parts: Iterable[Keys]) -> None:
        name = f".{self.name}.{secrets.token_hex(4)}"
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS, 0o666, dir_fd=parent)
        try:
            for part in parts:
                write_all(fd, part.tobytes(), durable=False)
            try:
                os.rename(name, self.name, src_dir_fd=parent, dst_dir_fd=parent)
            except IsADirectoryError:
                os.rename(self.name, f"{name}.aside", src_dir_fd=parent, dst_dir_fd=parent)
                os.rename(name, self.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(name, dir_fd=parent)
            raise
        finally:
            os.close(fd)


def names(root: int) -> list[tuple[str, int]]:
    """The files there are, and the size of the vectors in each."""
    try:
        with open_directory(root, (STATE_DIR, FOLDER)) as parent:
            found = [(name, name.rpartition("-")[2]) for name in os.listdir(parent) if not name.startswith(".")]
    except (OSError, MemfsError):
        return []
    return [(name, int(size)) for name, size in found if size.isdecimal() and 0 < int(size) <= MAX_SIZE]


@contextmanager
def _locked(root: int) -> Iterator[int]:
    """Have the directory open, with no other process writing there."""
    deadline = time.monotonic() + PATIENCE
    make(root)
    with open_directory(root, (STATE_DIR, FOLDER), create=True) as parent:
        while not try_lock(parent):
            if time.monotonic() > deadline:
                raise BlockingIOError(errno.EAGAIN, "another process is at it")
            time.sleep(0.001)
        try:
            yield parent
        finally:
            release(parent)


def _sweep(parent: int, name: str) -> None:
    """Remove what was given up in the making, and the files of models that were not used for longest."""
    others = []
    for other in os.listdir(parent):
        with suppress(OSError):
            when = os.stat(other, dir_fd=parent, follow_symlinks=False).st_mtime
            if not other.startswith("."):
                others.append((when, other))
            elif when < time.time() - LATE:
                os.unlink(other, dir_fd=parent)
    for _, other in sorted(others)[:-MODELS]:
        if other != name:
            with suppress(OSError):
                os.unlink(other, dir_fd=parent)


def array_of(keys: Sequence[int]) -> Keys:
    """Keys as one array."""
    return np.array(keys, np.uint64)
