"""Which memory files there are, and their stamps: one look at every file, without reading any."""

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

Marks = tuple[int, ...]  # a stamp as a plain tuple, of which 100,000 are made in a scan
stamp_of: Callable[[os.stat_result], Marks] = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")
_MILLISECOND = 1_000_000  # in nanoseconds
SETTLED = 100 * _MILLISECOND  # longer than a clock takes to tick, also one that is late
COARSE = 2000 * _MILLISECOND  # the same where a file system keeps whole seconds, or pairs of them
UNSETTLED: Marks = (0, 0, 0, 0)  # unlike any: of a file that may have changed again, and have the same stamp
_NOT_NAMES = ".~#"
_KIND = 0o170000  # of a mode
_NO_MEMORY = {errno.ELOOP, errno.ENOTDIR, errno.EINVAL, errno.EFBIG, errno.ENAMETOOLONG, errno.EXDEV}


class Known(Protocol):
    """What is known of the files of one directory."""

    def __len__(self) -> int: ...

    def matches(self, names: Sequence[str], stamps: Sequence[Marks]) -> bool:
        """Tell whether it is just these files, sorted by name, as they are."""


class Scan(NamedTuple):
    """The memories below a directory; what could not be looked at is not known to be gone."""

    stamps: dict[str, Marks]
    problems: list[Problem]
    unreadable: list[str]
    same: dict[str, int]  # directories that are as they are known, and how many memories they hold; not in `stamps`

    @property
    def memories(self) -> int:
        return len(self.stamps) + sum(self.same.values())

    def hides(self, path: str) -> bool:
        """Tell whether a memory that was not seen may still be there."""
        return any(path == hidden or path.startswith(f"{hidden}/" if hidden else "") for hidden in self.unreadable)

    def refuse(self, path: str, error: OSError) -> None:
        """Note what could not be looked at."""
        self.problems.append(Problem(path, 1, f"{error.strerror}: not read"))
        self.unreadable.append(path)


class Changes(NamedTuple):
    """Paths that differ between the files and what is known of them."""

    added: list[str]
    modified: list[str]
    removed: list[str]

    @property
    def paths(self) -> list[str]:
        return [*self.added, *self.modified, *self.removed]


def is_memory(path: str) -> bool:
    """Tell whether a memory may have this path; what a journal says may be anything."""
    segments = split_path(path)
    if not segments or not path.endswith(".md") or path[0] == "/" or any(name[0] in _NOT_NAMES for name in segments):
        return False
    return fold(segments[0]) != SESSIONS if len(segments) > 1 else fold(path) != "readme.md"


def is_settled(status: os.stat_result, began: int, now: int) -> bool:
    """Tell whether a file that was read between these times, in nanoseconds, has another stamp if it changes again."""
    changed = status.st_ctime_ns  # nobody can set it
    return not began - (SETTLED if changed % _MILLISECOND else COARSE) <= changed <= now


def diff(on_disk: Mapping[str, Marks], indexed: Mapping[str, Marks]) -> Changes:
    """Compare what is on disk with what is indexed. No disk, no clock."""
    if on_disk == indexed:
        return Changes([], [], [])
    added = [path for path in on_disk if path not in indexed]
    modified = [path for path, stamp in on_disk.items() if path in indexed and indexed[path] != stamp]
    return Changes(added, modified, [path for path in indexed if path not in on_disk])


def scan(
    root: int,
    start: str = "",
    before: Callable[[str], None] | None = None,
    *,
    names_only: bool = False,
    known: Callable[[str], Known] | None = None,
) -> Scan:
    """Look at every memory below a directory; `before` is called with each directory before it is listed.

    With `names_only` stamps are empty: for memories that are read anyway. With `known`, which tells what is known of
    a directory, those that are as known are only counted.
    """
    found = Scan({}, [], [], {})
    waiting = [tuple(start.split("/")) if start else ()]
    while waiting:
        segments = waiting.pop()
        place = "/".join(segments)
        if len(segments) > MAX_DEPTH + (fold(segments[0]) == ARCHIVE if segments else 0):
            found.problems.append(Problem(place, 1, f"more than {MAX_DEPTH} directories deep: not read"))
            continue
        if before:
            before(place)
        try:
            fd = _open(root, place, segments)
            try:
                prefix = f"{place}/" if place else ""
                if names_only:
                    below = _look_at_names(fd, prefix, found)
                elif known:
                    below = _compare(fd, place, found, known(place))
                else:
                    below = _look(fd, prefix, found, os.listdir(fd))
            finally:
                os.close(fd)
        except (FileNotFoundError, InvalidNamespaceError):
            continue
        except OSError as error:
            found.refuse(place, error)
            continue
        if not segments:
            below = [name for name in below if fold(name) != SESSIONS]
        waiting += [(*segments, name) for name in below]
    return found


def _open(root: int, place: str, segments: tuple[str, ...]) -> int:
    """Open a directory, in one call where the system has it."""
    with suppress(OSError):  # which part of the way is in the way is told by those who go it step by step
        if place and (fd := open_beneath(root, place, DIRECTORY_FLAGS)) is not None:
            return fd
    return open_directory_fd(root, segments)


def _look(fd: int, prefix: str, found: Scan, names: list[str]) -> list[str]:
    """Stamp the memories among some names of one directory; the names of the directories among them."""
    below, stamps, look = [], found.stamps, os.lstat
    for name in names:
        if name[0] in _NOT_NAMES:
            continue
        try:
            status = look(name, dir_fd=fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            found.refuse(prefix + name, error)
            continue
        mode, size = status.st_mode & _KIND, status.st_size
        if mode == stat.S_IFREG and name[-3:] == ".md" and name.isascii() and size <= MAX_FILE_BYTES and prefix:
            stamps[prefix + name] = (status.st_mtime_ns, status.st_ctime_ns, size, status.st_ino)
        elif mode == stat.S_IFDIR and is_utf8_encodable(name):
            below.append(name)
        elif fault := _fault(name, mode, size):
            if name[-3:] == ".md" or mode == stat.S_IFDIR:
                found.problems.append(Problem(prefix + name, 1, f"{fault}: not read"))
        elif name[-3:] == ".md" and (prefix or fold(name) != "readme.md"):
            stamps[prefix + name] = (status.st_mtime_ns, status.st_ctime_ns, size, status.st_ino)
    return below


def _compare(fd: int, place: str, found: Scan, known: Known) -> list[str]:
    """As `_look`, unless a directory holds what is known of it, and nothing else."""
    names = os.listdir(fd)
    if len(names) == len(known):
        names.sort()
        look, stamp = os.lstat, stamp_of  # not looked up for every file
        with suppress(OSError):
            if known.matches(names, [stamp(look(name, dir_fd=fd)) for name in names]):
                found.same[place] = len(names)
                return []
    return _look(fd, f"{place}/" if place else "", found, names)


def _look_at_names(fd: int, prefix: str, found: Scan) -> list[str]:
    """As `_look`, but what is plainly a memory file by its name and kind gets no stamp."""
    others, stamps = [], found.stamps
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name
            plain = name[-3:] == ".md" and prefix and name.isascii() and name[0] not in _NOT_NAMES
            if plain and entry.is_file(follow_symlinks=False):
                stamps[prefix + name] = ()
            else:
                others.append(name)
    return _look(fd, prefix, found, others)


def _fault(name: str, mode: int, size: int) -> str | None:
    """Why a file is no memory, whatever its name ends in."""
    if not is_utf8_encodable(name):
        return "a name that is not UTF-8"
    if mode != stat.S_IFREG:
        return "a symlink" if mode == stat.S_IFLNK else "not a regular file"
    return f"larger than {MAX_FILE_BYTES >> 20} MiB" if size > MAX_FILE_BYTES else None


def read_one(root: int, path: str) -> Memory | Problem | None:
    """Read a memory; None if it is not there."""
    try:
        data, status = read_path(root, path)
        return Memory(path, data, status, parse_file)
    except (FileNotFoundError, InvalidNamespaceError):
        return None
    except OSError as error:
        return None if error.errno in _NO_MEMORY else Problem(path, 1, f"{error.strerror}: not read")


def read_all(root: int, paths: Iterable[str]) -> Iterator[tuple[str, Memory | Problem | None]]:
    """Read memories, best sorted by path; None for one that is not there."""
    place, fd = None, -1
    try:
        for path in paths:
            where, _, name = path.rpartition("/")
            try:
                if where != place:
                    if fd >= 0:
                        os.close(fd)
                    place, fd = None, -1
                    fd = open_directory_fd(root, tuple(where.split("/")) if where else ())
                    place = where
                yield path, Memory(path, *read_as_tuple(fd, name), parse_file)
            except (FileNotFoundError, InvalidNamespaceError):
                yield path, None
            except OSError as error:
                yield path, None if error.errno in _NO_MEMORY else Problem(path, 1, f"{error.strerror}: not read")
    finally:
        if fd >= 0:
            os.close(fd)
