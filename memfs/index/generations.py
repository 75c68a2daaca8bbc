"""Generations: the directories of published indexes, and the file `current` that names the one that counts.

A generation is never changed once it is named: the next one links the files it takes over. Each file is known by
size, times and inode, and where these differ, as in a copy of the vault, by its checksum.
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
from memfs.index.row_table import Chunk, Columns, IndexDamaged, RowTable

CURRENT = "current"
PURGE = "purge"
MAX_CHUNKS = 16
LOCKS = (".tantivy-meta.lock", ".tantivy-writer.lock")  # which tantivy opens, and would wait at a pipe for ever
MAX_SIZE = 1 << 40
DESCRIPTORS = "/proc/self/fd"
_NAME = re.compile(r"\.?[\w-][\w.-]*", re.ASCII)
Marks = tuple[int, int, int, int]
Files = dict[str, tuple[Marks, int]]  # name -> size, inode, modification time, time of any change; checksum


class Generation(NamedTuple):
    """A published index, as `current` describes it."""

    folder: str
    name: str
    kind: str  # of the index
    journal: str  # how far the journal is in it
    files: Files

    @classmethod
    def read(cls, folder: str) -> Self:
        """The generation that counts; IndexDamaged if none is named."""
        try:
            seal, _, text = _read(os.path.join(folder, CURRENT)).partition(b"\n")
            if int(seal) != zlib.crc32(text):
                raise ValueError("not sealed")
            name, kind, journal, files = json.loads(text)
            found = cls(folder, str(name), str(kind), str(journal), {})
            for file, ((size, inode, mtime_ns, ctime_ns), checksum) in files.items():
                found.files[file] = (int(size), int(inode), int(mtime_ns), int(ctime_ns)), int(checksum)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise IndexDamaged(f"{CURRENT} cannot be read") from error
        if not all(_NAME.fullmatch(name) for name in (found.name, *found.files)):
            raise IndexDamaged("it names files elsewhere")
        return found

    @property
    def place(self) -> str:
        return os.path.join(self.folder, self.name)

    def verify(self, *, to_the_byte: bool = False) -> None:
        """IndexDamaged if a file is not as it was published."""
        for name in LOCKS:
            path = os.path.join(self.place, name)
            if os.path.lexists(path) and not os.path.isfile(path):
                raise IndexDamaged(f"{name} is no file")
        for name, (marks, checksum) in [*self.files.items()]:
            path = os.path.join(self.place, name)
            try:
                now = _marks(path)
                if (to_the_byte or now != marks) and zlib.crc32(_read(path)) != checksum:
                    raise IndexDamaged(f"{name} was changed")
            except OSError as error:
                raise IndexDamaged(f"{name}: {error.strerror}") from error
            self.files[name] = now, checksum  # it is not read again, as long as nobody touches it

    def catalog(self) -> RowTable:
        """The rows of the index."""
        names = [name for name in self.files if name.startswith("rows-")]
        try:
            ordered = sorted(names, key=lambda name: int(name[5:]))
            return RowTable([Chunk(_mapped(os.path.join(self.place, name))) for name in ordered])
        except (OSError, ValueError, IndexError, OverflowError) as error:
            raise IndexDamaged("its rows cannot be read") from error


class Draft:
    """A generation in the making."""

    def __init__(self, folder: str, base: Generation | None) -> None:
        self._folder, self._base = folder, base
        self.name = f"g-{secrets.token_hex(6)}"
        self.place = os.path.join(folder, self.name)
        os.mkdir(self.place)

    def take_over(self) -> None:
        """Link the files of the generation that this one builds on."""
        base = self._base
        for file in base.files if base else ():
            old, new = os.path.join(base.place, file) if base else "", os.path.join(self.place, file)
            if file.endswith(".json"):  # these are rewritten
                shutil.copyfile(old, new)
            else:
                _link(old, new)

    def add_rows(self, old: Sequence[Chunk], rows: Columns, dead: Sequence[int]) -> None:
        """Add a chunk of rows; too many of them become one."""
        data = rows.chunk(old[-1].first + old[-1].count if old else 0, dead)
        if len(old) < MAX_CHUNKS:
            _replace(os.path.join(self.place, f"rows-{len(old)}"), data)
            return
        for number in range(len(old)):
            os.unlink(os.path.join(self.place, f"rows-{number}"))
        _replace(os.path.join(self.place, "rows-0"), RowTable([*old, Chunk(data)]).merged())

    def publish(self, kind: str, journal: str) -> None:
        """Make this the generation that counts, and remove all others."""
        files = self._describe()
        self._name(kind, journal, files)
        for name in os.listdir(self._folder):
            if name not in {self.name, CURRENT, PURGE}:
                _remove(os.path.join(self._folder, name))
        if self._base:  # a file that has a link less was changed then; where that cannot be told, it is read
            with suppress(OSError):
                paths = {name: os.path.join(self.place, name) for name in files}
                self._name(kind, journal, {name: (_marks(paths[name]), files[name][1]) for name in files})

    def _name(self, kind: str, journal: str, files: Files) -> None:
        text = json.dumps([self.name, kind, journal, files]).encode()
        _replace(os.path.join(self._folder, CURRENT), b"%d\n%b" % (zlib.crc32(text), text))

    def discard(self) -> None:
        """Give it up."""
        _remove(self.place)

    def _describe(self) -> Files:
        known, files = self._base.files if self._base else {}, Files()
        for name in os.listdir(self.place):
            if not name.endswith(".lock"):
                path = os.path.join(self.place, name)
                marks, old = _marks(path), known.get(name)
                is_old = old is not None and old[0][:3] == marks[:3]  # linked, which is a change as well
                files[name] = marks, old[1] if old and is_old else zlib.crc32(_read(path))
        return files


def _marks(path: str) -> Marks:
    """What tells that a file is as it was: nobody can set the time of any change."""
    status = os.stat(path, follow_symlinks=False)
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _read(path: str) -> bytes:
    fd = os.open(path, READ_FLAGS)  # a pipe in its place would have others wait for ever
    try:
        return read_fd(fd, MAX_SIZE).data
    finally:
        os.close(fd)


def _link(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(old, new)


def _mapped(path: str) -> mmap.mmap:
    """A file of rows, of which a search needs a few."""
    fd = os.open(path, READ_FLAGS)
    try:
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(fd)


def _replace(path: str, data: bytes) -> None:
    with open(path + ".new", "wb") as file:
        file.write(data)
    try:
        os.replace(path + ".new", path)
    except IsADirectoryError:
        _remove(path)
        os.replace(path + ".new", path)


def _remove(path: str) -> None:
    """Remove a file or a directory."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.unlink(path)


def _let_go() -> None:
    """Close the lock files of indexes that threads of a parent had open: a forked process would keep them locked, for
    itself as for all others."""
    with suppress(OSError):
        for fd in os.listdir(DESCRIPTORS):
            with suppress(OSError):
                file = os.readlink(f"{DESCRIPTORS}/{fd}")
                if file.endswith(LOCKS) and f"/{STATE_DIR}/" in file:
                    os.close(int(fd))


after_fork(_let_go)
