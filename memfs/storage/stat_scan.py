"""List the memory files of a vault with their stamps, by one stat per file and without reading any."""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple, Protocol

from memfs.data_types import Memory, Problem
from memfs.errors import InvalidNamespaceError
from memfs.format.frontmatter import parse_file
from memfs.fs.files import DIRECTORY_FLAGS, MAX_FILE_BYTES, open_directory_fd, read_as_tuple, read_path
from memfs.fs.syscalls import open_beneath
from memfs.namespace import ARCHIVE, MAX_DEPTH, SESSIONS, fold, is_utf8_encodable, split_path

StampTuple = tuple[int, ...]  # a Stamp as a plain tuple: a scan makes up to 100,000 of them
stamp_of: Callable[[os.stat_result], StampTuple] = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")
_MILLISECOND = 1_000_000  # in nanoseconds
RACY_NS = 100 * _MILLISECOND  # longer than a tick of the file system's clock, even a late one
COARSE_RACY_NS = 2000 * _MILLISECOND  # the same for file systems that store times in steps of one or two seconds
RACY_STAMP: StampTuple = (0, 0, 0, 0)  # equal to no stamp: recorded for a file if `is_racy` returns True
_IGNORED_PREFIXES = ".~#"  # of file and directory names
_FILE_TYPE_MASK = 0o170000
_NOT_A_MEMORY = {errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.EFBIG, errno.ENAMETOOLONG, errno.EXDEV}


class KnownDirectory(Protocol):
    """The files of one directory that the index knows; the length is their number."""

    def __len__(self) -> int: ...

    def matches(self, names: Sequence[str], stamps: Sequence[StampTuple]) -> bool:
        """Return whether the directory has exactly these files, sorted by name, with these stamps."""


class Scan(NamedTuple):
    """The memories below a directory. `unreadable` are paths that could not be read: memories may exist there."""

    stamps: dict[str, StampTuple]
    problems: list[Problem]
    unreadable: list[str]
    unchanged: dict[str, int]  # known directories without a change -> number of memories, which are not in `stamps`

    @property
    def memories(self) -> int:
        """The number of memories."""
        return len(self.stamps) + sum(self.unchanged.values())

    def is_unreadable(self, path: str) -> bool:
        """Return whether a path is unreadable or below an unreadable directory, so that a memory may exist there."""
        return any(path == hidden or path.startswith(f"{hidden}/" if hidden else "") for hidden in self.unreadable)

    def add_unreadable(self, path: str, error: OSError) -> None:
        """Record a path that could not be read."""
        self.problems.append(Problem(path, 1, f"{error.strerror}: not read"))
        self.unreadable.append(path)


class Changes(NamedTuple):
    """Paths that differ between the files and their known stamps."""

    added: list[str]
    modified: list[str]
    removed: list[str]

    @property
    def paths(self) -> list[str]:
        """All changed paths."""
        return [*self.added, *self.modified, *self.removed]


def is_memory(path: str) -> bool:
    """Return whether a memory may have this path, which may be any text, such as a line of the journal."""
    segments = split_path(path)
    if (
        not segments
        or not path.endswith(".md")
        or path[0] == "/"
        or any(name[0] in _IGNORED_PREFIXES for name in segments)
    ):
        return False
    return fold(segments[0]) != SESSIONS if len(segments) > 1 else fold(path) != "readme.md"


def is_racy(status: os.stat_result, began: int, now: int) -> bool:
    """Return whether a file, read between these times in nanoseconds, may change again without a new stamp."""
    changed = status.st_ctime_ns  # programs cannot set it
    return began - (RACY_NS if changed % _MILLISECOND else COARSE_RACY_NS) <= changed <= now


def diff(on_disk: Mapping[str, StampTuple], indexed: Mapping[str, StampTuple]) -> Changes:
    """Return the changes from the indexed stamps to those on disk. Pure."""
    if on_disk == indexed:
        return Changes([], [], [])
    added = [path for path in on_disk if path not in indexed]
    modified = [path for path, stamp in on_disk.items() if path in indexed and indexed[path] != stamp]
    return Changes(added, modified, [path for path in indexed if path not in on_disk])


def scan(
    root: int,
    start: str = "",
    before_listing: Callable[[str], None] | None = None,
    *,
    names_only: bool = False,
    known: Callable[[str], KnownDirectory] | None = None,
) -> Scan:
    """Stat every memory below `start`. `before_listing` is called with each directory before it is listed.

    With `names_only` stamps are empty, for memories that are read anyway. `known` returns the known files of a
    directory: the memories of an unchanged directory are only counted.
    """
    found = Scan({}, [], [], {})
    queue = [tuple(start.split("/")) if start else ()]
    while queue:
        segments = queue.pop()
        directory = "/".join(segments)
        if len(segments) > MAX_DEPTH + (fold(segments[0]) == ARCHIVE if segments else 0):
            found.problems.append(Problem(directory, 1, f"more than {MAX_DEPTH} directories deep: not read"))
            continue
        if before_listing:
            before_listing(directory)
        try:
            fd = _open(root, directory, segments)
            try:
                prefix = f"{directory}/" if directory else ""
                if names_only:
                    below = _list_names(fd, prefix, found)
                elif known:
                    below = _stat_if_changed(fd, directory, found, known(directory))
                else:
                    below = _stat_entries(fd, prefix, found, os.listdir(fd))
            finally:
                os.close(fd)
        except (FileNotFoundError, InvalidNamespaceError):
            continue
        except OSError as error:
            found.add_unreadable(directory, error)
            continue
        if not segments:
            below = [name for name in below if fold(name) != SESSIONS]
        queue += [(*segments, name) for name in below]
    return found


def _open(root: int, directory: str, segments: tuple[str, ...]) -> int:
    """Open a directory, by one system call if the system has one for that."""
    with suppress(OSError):  # opened step by step, it raises an error that names the faulty segment
        if directory and (fd := open_beneath(root, directory, DIRECTORY_FLAGS)) is not None:
            return fd
    return open_directory_fd(root, segments)


def _stat_entries(fd: int, prefix: str, found: Scan, names: list[str]) -> list[str]:
    """Stat entries of one directory and add the memories to `found`. Return the names of the subdirectories."""
    below, stamps, lstat = [], found.stamps, os.lstat
    for name in names:
        if name[0] in _IGNORED_PREFIXES:
            continue
        try:
            status = lstat(name, dir_fd=fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            found.add_unreadable(prefix + name, error)
            continue
        mode, size = status.st_mode & _FILE_TYPE_MASK, status.st_size
        if mode == stat.S_IFREG and name[-3:] == ".md" and name.isascii() and size <= MAX_FILE_BYTES and prefix:
            stamps[prefix + name] = (status.st_mtime_ns, status.st_ctime_ns, size, status.st_ino)
        elif mode == stat.S_IFDIR and is_utf8_encodable(name):
            below.append(name)
        elif reason := _rejection(name, mode, size):
            if name[-3:] == ".md" or mode == stat.S_IFDIR:
                found.problems.append(Problem(prefix + name, 1, f"{reason}: not read"))
        elif name[-3:] == ".md" and (prefix or fold(name) != "readme.md"):
            stamps[prefix + name] = (status.st_mtime_ns, status.st_ctime_ns, size, status.st_ino)
    return below


def _stat_if_changed(fd: int, directory: str, found: Scan, known: KnownDirectory) -> list[str]:
    """Do the same as `_stat_entries`, but only count the memories if the directory is as known.

    All entries are compared, so a directory with subdirectories or other files is never as known.
    """
    names = os.listdir(fd)
    if len(names) == len(known):
        names.sort()
        lstat, stamp = os.lstat, stamp_of  # local names: no attribute lookup per file
        with suppress(OSError):
            if known.matches(names, [stamp(lstat(name, dir_fd=fd)) for name in names]):
                found.unchanged[directory] = len(names)
                return []
    return _stat_entries(fd, f"{directory}/" if directory else "", found, names)


def _list_names(fd: int, prefix: str, found: Scan) -> list[str]:
    """Do the same as `_stat_entries`, but without stat and stamp for entries whose name and type show a memory."""
    others, stamps = [], found.stamps
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name
            plain = name[-3:] == ".md" and prefix and name.isascii() and name[0] not in _IGNORED_PREFIXES
            if plain and entry.is_file(follow_symlinks=False):
                stamps[prefix + name] = ()
            else:
                others.append(name)
    return _stat_entries(fd, prefix, found, others)


def _rejection(name: str, mode: int, size: int) -> str | None:
    """Return why an entry cannot be a memory, regardless of its extension; None if it can."""
    if not is_utf8_encodable(name):
        return "a name that is not UTF-8"
    if mode != stat.S_IFREG:
        return "a symlink" if mode == stat.S_IFLNK else "not a regular file"
    return f"larger than {MAX_FILE_BYTES >> 20} MiB" if size > MAX_FILE_BYTES else None


def read_one(root: int, path: str) -> Memory | Problem | None:
    """Read a memory. Return None if no memory is at this path, and a Problem if it cannot be read."""
    try:
        data, status = read_path(root, path)
        return Memory(path, data, status, parse_file)
    except (FileNotFoundError, InvalidNamespaceError):
        return None
    except OSError as error:
        return None if error.errno in _NOT_A_MEMORY else Problem(path, 1, f"{error.strerror}: not read")


def read_all(root: int, paths: Iterable[str]) -> Iterator[tuple[str, Memory | Problem | None]]:
    """Read memories, fastest if sorted by path. Yield None for a path without a memory, and a Problem if unreadable."""
    opened, fd = None, -1  # path and descriptor of the directory that was opened last
    try:
        for path in paths:
            directory, _, name = path.rpartition("/")
            try:
                if directory != opened:
                    if fd >= 0:
                        os.close(fd)
                    opened, fd = None, -1
                    fd = open_directory_fd(root, tuple(directory.split("/")) if directory else ())
                    opened = directory
                yield path, Memory(path, *read_as_tuple(fd, name), parse_file)
            except (FileNotFoundError, InvalidNamespaceError):
                yield path, None
            except OSError as error:
                yield path, None if error.errno in _NOT_A_MEMORY else Problem(path, 1, f"{error.strerror}: not read")
    finally:
        if fd >= 0:
            os.close(fd)
