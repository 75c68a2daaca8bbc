"""Vectors of texts by key, kept in `.memfs/vectors`, one file per embedding model.

A record is a checksum, a key that identifies a text, and the vector as 8-bit numbers. Records are appended, or the
whole file is replaced. A damaged record only costs embedding its text again; if nothing can be written, vectors last
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
from memfs.storage.part_formats import check_format
from memfs.storage.state_dir import create_state_dir

VECTORS_DIR = "vectors"
BLOCK_RECORDS = 8192  # handled at once
MAX_ADDED_VECTORS = 4096  # held in memory; more are read from the file
LOCK_TIMEOUT_SECONDS = 2.0  # to wait for another process that writes
MAX_FILES = 3  # one per model; the ones that were written last stay
MAX_DIMENSIONS = 1 << 16
MAX_RECORDS = 1 << 24  # that are read
ABANDONED_SECONDS = 3600.0  # after which a temporary file is removed
_MASK, _ODD, _SALT = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0x6D656D6673  # with the salt, zeros are no valid record
_APPEND_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | FILE_FLAGS
Keys = NDArray[np.uint64]
Quantized = NDArray[np.int8]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
log = logging.getLogger("memfs")


def key_of(path: str, content_digest: bytes) -> int:
    """Return the key of a memory with this path and digest of its content."""
    return int.from_bytes(content_digest, "little") ^ (crc32(path.encode()) * _ODD & _MASK)


def keys_of(paths: Sequence[str], content_digests: bytes) -> Keys:
    """Return the keys of many memories, whose digests are concatenated."""
    sums = np.fromiter((crc32(path.encode()) for path in paths), np.uint64, len(paths))
    keys: Keys = np.frombuffer(content_digests, "<u8", len(paths)) ^ (sums * np.uint64(_ODD))
    return keys


def key_array(keys: Sequence[int]) -> Keys:
    """Return keys as an array."""
    return np.array(keys, np.uint64)


def file_name(model: str, size: int) -> str:
    """Return the name of the file for the vectors of a model."""
    return f"{slug(model)}-{digest(model.encode())[:8]}-{size}"


class VectorFile:
    """The vectors in one file, all with the same number of dimensions."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.version = 0  # changes when vectors may have been removed
        self.size, self._words = size, -(-size // 8)  # a word holds eight numbers
        # A checksum is a sum of odd multiples, so a change of any single word changes it.
        self._odd = (2 * np.arange(self._words + 1, dtype=np.uint64) + np.uint64(1)) * np.uint64(_ODD)
        self._added: dict[int, Quantized] = {}  # vectors of this process that were not read from the file yet
        self._stat: tuple[int, ...] | None = None  # of the file as it was last seen
        self._has_unread = False  # the file has records that were not read yet
        self._clear()

    @property
    def unread_count(self) -> int:
        """The number of vectors in memory that were added by this process and not read from the file yet."""
        return len(self._added)

    def _clear(self) -> None:
        self._table: Keys = np.empty((0, 2 + self._words), np.uint64)  # checksum, key and vector of each record
        self._is_whole: Flags = np.empty(0, np.bool_)
        self._keys: Keys = np.empty(0, np.uint64)  # of the whole records, sorted
        self._record_of: NDArray[np.int64] = np.empty(0, np.int64)  # record number of each of these keys

    @property
    def _record_bytes(self) -> int:
        return 8 * (2 + self._words)

    @property
    def records(self) -> int:
        """The number of records, including unused ones."""
        return self._stat[1] // self._record_bytes if self._stat else 0

    # --- reading

    def refresh(self, root: int) -> None:
        """Check whether others changed the file; drop its records from memory if it was removed or replaced."""
        found = self._stat_file(root)
        if found == self._stat:
            return
        is_longer = self._stat and found and found[0] == self._stat[0] and found[1] > self._stat[1]
        self._stat, self._has_unread = found, found is not None
        if not is_longer:
            self._clear()
            self.version += 1

    def _stat_file(self, root: int) -> tuple[int, ...] | None:
        try:
            status = os.stat(f"{STATE_DIR}/{VECTORS_DIR}/{self.name}", dir_fd=root, follow_symlinks=False)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _read_records(self, root: int) -> None:
        """Map the file; checks only the records that were not read before."""
        self._has_unread = False
        with suppress(OSError, MemfsError, ValueError):
            table = self._map(root)
            if len(table) > len(self._table):
                self._is_whole = np.concatenate((self._is_whole, self._checked(table[len(self._table) :])))
                self._table, records = table, np.flatnonzero(self._is_whole)
                keys = table[records, 1]
                order = np.argsort(keys, kind="stable")
                self._keys, self._record_of = keys[order], records[order]

    def _map(self, root: int) -> Keys:
        check_format(root, VECTORS_DIR)
        with open_directory(root, (STATE_DIR, VECTORS_DIR)) as parent:
            fd = os.open(self.name, READ_FLAGS, dir_fd=parent)
        try:
            status = os.fstat(fd)
            records = min(status.st_size // self._record_bytes, MAX_RECORDS) if stat.S_ISREG(status.st_mode) else 0
            data = mmap.mmap(fd, records * self._record_bytes, access=mmap.ACCESS_READ) if records else b""
        finally:
            os.close(fd)
        return np.frombuffer(data, "<u8").reshape(records, 2 + self._words)

    def _checked(self, table: Keys) -> Flags:
        """Return which records match their checksums."""
        blocks = (table[start : start + BLOCK_RECORDS] for start in range(0, len(table), BLOCK_RECORDS))
        return np.concatenate([self._checksums(block[:, 1:]) == block[:, 0] for block in blocks])

    def _checksums(self, words: Keys) -> Keys:
        sums: Keys = (words * self._odd).sum(axis=1, dtype=np.uint64) + np.uint64(_SALT)
        return sums

    def _find(self, keys: Keys) -> tuple[Flags, NDArray[np.int64]]:
        """Return which of the keys have a record, and the numbers of those records."""
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_), np.empty(0, np.int64)
        indices = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found: Flags = self._keys[indices] == keys
        return found, self._record_of[indices[found]]

    def contains(self, root: int, keys: Keys) -> Flags:
        """Return which of the keys have a vector; reads new records if some have none."""
        found = self._contains(keys)
        if self._has_unread and not found.all():
            self._read_records(root)
            found = self._contains(keys)
        return found

    def _contains(self, keys: Keys) -> Flags:
        found, _ = self._find(keys)
        for number in np.flatnonzero(~found) if self._added else ():
            found[number] = int(keys[number]) in self._added
        return found

    def take(self, keys: Keys) -> Quantized:
        """Return the vectors of keys; zero for a key without one."""
        found, records = self._find(keys)
        vectors = np.zeros((len(keys), 8 * self._words), np.int8)
        vectors[found] = np.ascontiguousarray(self._table[records, 2:]).view(np.int8)
        for number in np.flatnonzero(~found) if self._added else ():
            vectors[number] = self._added.get(int(keys[number]), 0)
        return vectors[:, : self.size]

    # --- writing

    def add(self, root: int, keys: Sequence[int], vectors: Floats) -> None:
        """Store vectors in memory, and append them to the file, for other processes, if it can be written."""
        quantized = np.zeros((len(keys), 8 * self._words), np.int8)
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
        quantized[:, : self.size] = np.rint(vectors * (127 / np.where(largest > 0, largest, 1)))
        self._added.update(zip(keys, quantized, strict=True))
        table = np.empty((len(keys), 2 + self._words), np.uint64)
        table[:, 1], table[:, 2:] = np.array(keys, np.uint64), quantized.view(np.uint64)
        table[:, 0] = self._checksums(table[:, 1:])
        try:
            with _locked_directory(root) as parent:
                self._append(root, parent, table)
        except (OSError, MemfsError) as error:
            log.info("vectors are not kept on disk: %s", error)
            return
        if len(self._added) > MAX_ADDED_VECTORS:
            self._read_records(root)
            unread = [key for key in self._added if not self._find(key_array([key]))[0][0]]
            self._added = {key: self._added[key] for key in unread}

    def _append(self, root: int, parent: int, table: Keys) -> None:
        before = self._stat_file(root)
        try:
            fd = os.open(self.name, _APPEND_FLAGS, 0o666, dir_fd=parent)
        except OSError as error:
            if error.errno not in {errno.EISDIR, errno.ELOOP, errno.ENXIO}:
                raise
            fd = -1
        try:
            status = os.fstat(fd) if fd >= 0 else None
            can_append = status and stat.S_ISREG(status.st_mode) and status.st_size % self._record_bytes == 0
            if can_append:
                write_all(fd, table.tobytes(), durable=False)
            else:  # not a file, or the last writer was killed and left a torn record
                self._replace(parent, [self._table[self._is_whole], table])
        finally:
            if fd >= 0:
                os.close(fd)
        if before is None or not can_append:
            _remove_old_files(parent, self.name)
        if can_append and before == self._stat:
            self._stat, self._has_unread = self._stat_file(root), True

    def keep_only(self, root: int, keys: Keys) -> None:
        """Remove all vectors but those of these keys."""
        self.refresh(root)
        self._read_records(root)
        _, records = self._find(np.unique(keys))
        kept = [self._table[records[start : start + BLOCK_RECORDS]] for start in range(0, len(records), BLOCK_RECORDS)]
        self._added = {key: self._added[key] for key in set(keys.tolist()) & self._added.keys()}
        with suppress(OSError, MemfsError), _locked_directory(root) as parent:
            self._replace(parent, kept)
            _remove_old_files(parent, self.name)

    def _replace(self, parent: int, tables: Iterable[Keys]) -> None:
        temporary = f".{self.name}.{secrets.token_hex(4)}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS, 0o666, dir_fd=parent)
        try:
            for table in tables:
                write_all(fd, table.tobytes(), durable=False)
            try:
                os.rename(temporary, self.name, src_dir_fd=parent, dst_dir_fd=parent)
            except IsADirectoryError:  # a directory has the name of the file: move it aside
                os.rename(self.name, f"{temporary}.aside", src_dir_fd=parent, dst_dir_fd=parent)
                os.rename(temporary, self.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise
        finally:
            os.close(fd)


def vector_files(root: int) -> list[tuple[str, int]]:
    """Return the names of the vector files, and the number of dimensions in each; none if they cannot be listed."""
    try:
        with open_directory(root, (STATE_DIR, VECTORS_DIR)) as parent:
            found = [(name, name.rpartition("-")[2]) for name in os.listdir(parent) if not name.startswith(".")]
    except (OSError, MemfsError):
        return []
    return [(name, int(size)) for name, size in found if size.isdecimal() and 0 < int(size) <= MAX_DIMENSIONS]


@contextmanager
def _locked_directory(root: int) -> Iterator[int]:
    """Yield a descriptor of the directory, locked against other writers. Raises BlockingIOError after the timeout."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    create_state_dir(root)
    check_format(root, VECTORS_DIR)
    with open_directory(root, (STATE_DIR, VECTORS_DIR), create=True) as parent:
        while not try_lock(parent):
            if time.monotonic() > deadline:
                raise BlockingIOError(errno.EAGAIN, "another process holds the lock of the vectors")
            time.sleep(0.001)
        try:
            yield parent
        finally:
            release(parent)


def _remove_old_files(parent: int, name: str) -> None:
    """Remove abandoned temporary files, and all files but `name` and the newest `MAX_FILES`."""
    files = []
    for other in os.listdir(parent):
        with suppress(OSError):
            modified = os.stat(other, dir_fd=parent, follow_symlinks=False).st_mtime
            if not other.startswith("."):
                files.append((modified, other))
            elif modified < time.time() - ABANDONED_SECONDS:
                os.unlink(other, dir_fd=parent)
    for _, other in sorted(files)[:-MAX_FILES]:
        if other != name:
            with suppress(OSError):
                os.unlink(other, dir_fd=parent)
