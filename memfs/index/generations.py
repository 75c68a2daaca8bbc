"""Generations: one directory per published index, and the file `current` that names the valid one.

A generation does not change once it is published: the next one hard-links the files that stay the same. A file is
verified by size, inode and times, and if these differ, as in a copy of the vault, by its checksum.
"""

import json
import mmap
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from memfs.after_fork import after_fork
from memfs.fs.files import READ_FLAGS, STATE_DIR, read_fd
from memfs.index.row_table import Chunk, ChunkBuilder, IndexDamagedError, RowTable

CURRENT = "current"
PURGE_MARKER = "purge"
MAX_CHUNKS = 16
TANTIVY_LOCKS = (".tantivy-meta.lock", ".tantivy-writer.lock")  # tantivy opens them; a pipe would block it
MAX_FILE_BYTES = 1 << 40
DESCRIPTORS = "/proc/self/fd"
_NAME = re.compile(r"\.?[\w-][\w.-]*", re.ASCII)
FileState = tuple[int, int, int, int]  # size, inode, mtime_ns, ctime_ns
PublishedFiles = dict[str, tuple[FileState, int]]  # name -> state and checksum


class Generation(NamedTuple):
    """A published index, as `current` describes it."""

    directory: str  # with all generations
    name: str
    index_format: str  # schema, version of tantivy and language
    journal_cursor: str  # the index has all changes up to this cursor of the journal
    files: PublishedFiles

    @classmethod
    def read(cls, directory: str) -> Self:
        """Return the current generation; raise IndexDamagedError if `current` names none."""
        try:
            expected, _, text = _read(os.path.join(directory, CURRENT)).partition(b"\n")
            if int(expected) != zlib.crc32(text):
                raise ValueError("wrong checksum")
            name, index_format, journal, files = json.loads(text)
            found = cls(directory, str(name), str(index_format), str(journal), {})
            for file, ((size, inode, mtime_ns, ctime_ns), checksum) in files.items():
                found.files[file] = (int(size), int(inode), int(mtime_ns), int(ctime_ns)), int(checksum)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise IndexDamagedError(f"{CURRENT} cannot be read") from error
        if not all(_NAME.fullmatch(name) for name in (found.name, *found.files)):
            raise IndexDamagedError("it names files in another directory")
        return found

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)

    def verify(self, *, checksums: bool = False) -> None:
        """Raise IndexDamagedError if a file is not as it was published.

        With `checksums` every file is read; else only files whose size, inode or times differ.
        """
        for name in TANTIVY_LOCKS:
            path = os.path.join(self.path, name)
            if os.path.lexists(path) and not os.path.isfile(path):
                raise IndexDamagedError(f"{name} is not a regular file")
        for name, (state, checksum) in [*self.files.items()]:
            path = os.path.join(self.path, name)
            try:
                now = _file_state(path)
                if (checksums or now != state) and zlib.crc32(_read(path)) != checksum:
                    raise IndexDamagedError(f"{name} was changed")
            except OSError as error:
                raise IndexDamagedError(f"{name}: {error.strerror}") from error
            self.files[name] = now, checksum  # not read again until its state changes

    def read_rows(self) -> RowTable:
        """Return the row table of the index; raise IndexDamagedError if it cannot be read."""
        names = [name for name in self.files if name.startswith("rows-")]
        try:
            ordered = sorted(names, key=lambda name: int(name[5:]))
            return RowTable([Chunk(_map(os.path.join(self.path, name))) for name in ordered])
        except (OSError, ValueError, IndexError, OverflowError) as error:
            raise IndexDamagedError("its rows cannot be read") from error


class Draft:
    """A new generation before it is published. Creating one creates its directory."""

    def __init__(self, directory: str, base: Generation | None) -> None:
        self._directory, self._base = directory, base
        self.name = f"g-{secrets.token_hex(6)}"
        self.path = os.path.join(directory, self.name)
        os.mkdir(self.path)

    def link_base_files(self) -> None:
        """Link the files of the base generation, if there is one; copy those that Tantivy rewrites."""
        base = self._base
        for file in base.files if base else ():
            old, new = os.path.join(base.path, file) if base else "", os.path.join(self.path, file)
            if file.endswith(".json"):  # Tantivy rewrites them
                shutil.copyfile(old, new)
            else:
                link_or_copy(old, new)

    def add_rows(self, old: Sequence[Chunk], rows: ChunkBuilder, dead: Sequence[int]) -> None:
        """Write a new chunk of rows; merge all chunks into one if there are too many."""
        data = rows.encode(old[-1].first + old[-1].count if old else 0, dead)
        if len(old) < MAX_CHUNKS:
            _replace(os.path.join(self.path, f"rows-{len(old)}"), data)
            return
        for number in range(len(old)):
            os.unlink(os.path.join(self.path, f"rows-{number}"))
        _replace(os.path.join(self.path, "rows-0"), RowTable([*old, Chunk(data)]).merge())

    def publish(self, index_format: str, journal_cursor: str) -> None:
        """Make this the current generation, and remove all others."""
        files = self._describe_files()
        self._write_current(index_format, journal_cursor, files)
        for name in os.listdir(self._directory):
            if name not in {self.name, CURRENT, PURGE_MARKER}:
                _remove(os.path.join(self._directory, name))
        if self._base:  # unlinking the other names changed the ctime; if this update fails, readers use the checksums
            with suppress(OSError):
                paths = {name: os.path.join(self.path, name) for name in files}
                updated = {name: (_file_state(paths[name]), files[name][1]) for name in files}
                self._write_current(index_format, journal_cursor, updated)

    def _write_current(self, index_format: str, journal_cursor: str, files: PublishedFiles) -> None:
        text = json.dumps([self.name, index_format, journal_cursor, files]).encode()
        _replace(os.path.join(self._directory, CURRENT), b"%d\n%b" % (zlib.crc32(text), text))

    def discard(self) -> None:
        """Remove the draft."""
        _remove(self.path)

    def _describe_files(self) -> PublishedFiles:
        base_files, files = self._base.files if self._base else {}, PublishedFiles()
        for name in os.listdir(self.path):
            if not name.endswith(".lock"):
                path = os.path.join(self.path, name)
                state, old = _file_state(path), base_files.get(name)
                is_linked = old is not None and old[0][:3] == state[:3]  # without the ctime, which linking changes
                files[name] = state, old[1] if old and is_linked else zlib.crc32(_read(path))
        return files


def _file_state(path: str) -> FileState:
    """Return the values that show whether a file changed; no program can set the ctime."""
    status = os.stat(path, follow_symlinks=False)
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _read(path: str) -> bytes:
    fd = os.open(path, READ_FLAGS)  # these flags do not block on a pipe
    try:
        return read_fd(fd, MAX_FILE_BYTES).data
    finally:
        os.close(fd)


def link_or_copy(old: str, new: str) -> None:
    """Hard-link a file, or copy it if that fails."""
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        shutil.copyfile(old, new)


def _map(path: str) -> mmap.mmap:
    """Return a memory map of a file of rows: a search reads only a few rows of it."""
    fd = os.open(path, READ_FLAGS)
    try:
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(fd)


def _replace(path: str, data: bytes) -> None:
    """Replace a file or a directory atomically, without fsync: an index that is lost in a crash is rebuilt."""
    with open(path + ".new", "wb") as file:
        file.write(data)
    try:
        os.replace(path + ".new", path)
    except IsADirectoryError:
        _remove(path)
        os.replace(path + ".new", path)


def _remove(path: str) -> None:
    """Remove a file or a directory, if it exists and can be removed."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.unlink(path)


def _close_inherited_locks() -> None:
    """Close the lock files of indexes that threads of the parent had open when it forked.

    The child would keep them locked, for itself and for all other processes.
    """
    with suppress(OSError):
        for fd in os.listdir(DESCRIPTORS):
            with suppress(OSError):
                file = os.readlink(f"{DESCRIPTORS}/{fd}")
                if file.endswith(TANTIVY_LOCKS) and f"/{STATE_DIR}/" in file:
                    os.close(int(fd))


after_fork(_close_inherited_locks)
