"""Directories in `.memfs/pending`, one per process, with its logs, locked as long as the process lives."""

import itertools
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from memfs.after_fork import Mutex, after_fork
from memfs.errors import MemfsError
from memfs.fs.files import FILE_FLAGS, STATE_DIR, open_directory, open_directory_fd, open_file, open_root, read, write
from memfs.fs.locks import is_locked, try_lock
from memfs.storage.part_formats import check_format

PENDING = "pending"
LOG_SUFFIX = ".jsonl"
NEW_PREFIX = ".new-"  # of a directory that is not locked yet, and of a log that is being rewritten
_DIRECTORY_NAME = re.compile("[0-9]+-[0-9a-f]{12}")
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | FILE_FLAGS


class ProcessDirectory:
    """The directory of this process for its logs in one vault. Thread-safe.

    It is created with the first log, again if somebody deleted it, and by a forked child for itself.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fd, self._name = -1, ""
        self._numbers = itertools.count(1)
        self._mutex = Mutex()

    def new_name(self) -> str:
        """Return a log name that is unique in this directory."""
        return f"{next(self._numbers)}{LOG_SUFFIX}"

    def open(self, name: str) -> int:
        """Open a log for appending, created as needed, and return its descriptor."""
        with self._mutex:
            if self._fd >= 0:
                with suppress(FileNotFoundError):  # deleted with the state directory
                    return os.open(name, _OPEN_FLAGS, 0o600, dir_fd=self._fd)
            self._create()
            return os.open(name, _OPEN_FLAGS, 0o600, dir_fd=self._fd)

    def sync(self, name: str) -> None:
        """Fsync a log and the directories that lead to it."""
        with ExitStack() as stack:
            with self._mutex:
                if not self._exists():
                    return
                opened = [stack.enter_context(open_file(self._fd, name))]
                opened += [stack.enter_context(open_directory(self._fd, (path,))) for path in (".", "..")]
            for fd in opened:
                os.fsync(fd)

    def take_over(self, source: int, name: str) -> str:
        """Move an orphaned log from an open directory here and return its new name.

        Raises FileNotFoundError if another process has taken it over.
        """
        with self._mutex:
            if not self._exists():
                self._create()
            new_name = self.new_name()
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=self._fd)
            return new_name

    def rewrite(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Replace the bytes of a log atomically; do nothing if there is no such log."""
        with self._mutex, suppress(FileNotFoundError):
            if not self._exists():
                return
            content, temporary = read(self._fd, name, sys.maxsize), NEW_PREFIX + name.removesuffix(LOG_SUFFIX)
            if (data := change(content.data)) != content.data:
                with suppress(FileNotFoundError):  # left by a rewrite that was killed
                    os.unlink(temporary, dir_fd=self._fd)
                write(self._fd, temporary, data, like=content)
                os.replace(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
                os.fsync(self._fd)

    def remove(self, name: str) -> None:
        """Delete a log if it exists."""
        with self._mutex, suppress(FileNotFoundError):
            if self._fd >= 0:
                os.unlink(name, dir_fd=self._fd)

    def release(self, name: str) -> None:
        """Move a log, if it exists, to `.memfs/pending` itself, where another process can take it over."""
        with self._mutex, suppress(OSError, MemfsError):
            if self._exists():
                with open_directory(self._fd, ("..",)) as parent:
                    os.rename(name, f"{_unique_name()}{LOG_SUFFIX}", src_dir_fd=self._fd, dst_dir_fd=parent)

    def remove_if_empty(self) -> None:
        """Remove the directory if it holds no log."""
        with self._mutex, suppress(OSError, MemfsError):
            if self._exists():
                with open_directory(self._fd, ("..",)) as parent:
                    os.rmdir(self._name, dir_fd=parent)
                self.close()

    def close(self) -> None:
        """Close the directory; its lock ends with the last process that has it open."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with suppress(Exception):
            self.remove_if_empty()
            self.close()

    def _exists(self) -> bool:
        return self._fd >= 0 and os.fstat(self._fd).st_nlink > 0

    def _create(self) -> None:
        """Create the directory. It gets its name after it is locked, so one with a name and no lock is orphaned."""
        self.close()
        with open_state_dir(self._root, PENDING) as parent:
            while self._fd < 0:
                name = _unique_name()
                os.mkdir(NEW_PREFIX + name, 0o700, dir_fd=parent)
                with suppress(FileNotFoundError):  # a starting agent took it for an abandoned one and removed it
                    self._fd, self._name = _lock_and_rename(parent, name), name


_directories: "WeakValueDictionary[tuple[Path, int, int], ProcessDirectory]" = (
    WeakValueDictionary()
)  # of this process, by vault
_directories_mutex = Mutex()


def close_process_directories() -> None:
    """Close the directories of this process; their logs stay, as after its end.

    A forked child does this, so that it creates directories of its own; the parent keeps these.
    """
    for directory in list(_directories.values()):
        directory.close()


after_fork(close_process_directories)


def process_directory(root: Path) -> ProcessDirectory:
    """Return the directory of this process in the vault that is at `root` now."""
    status = os.stat(root)
    with _directories_mutex:
        return _directories.setdefault((root, status.st_dev, status.st_ino), ProcessDirectory(root))


def orphan_dirs(pending: int) -> Iterator[tuple[int, str]]:
    """Yield the open directories with orphaned logs and their names.

    These are `.memfs/pending` itself, under an empty name, and the directories of processes that have ended.
    """
    yield pending, ""
    for name in filter(_DIRECTORY_NAME.fullmatch, sorted(os.listdir(pending))):
        with suppress(OSError, MemfsError), open_directory(pending, (name,)) as directory:
            if not is_locked(directory):
                yield directory, name


def remove_dir_if_empty(pending: int, name: str) -> None:
    """Remove a process directory if it is empty; `.memfs/pending` itself, whose name is empty here, stays."""
    with suppress(OSError):
        os.rmdir(name, dir_fd=pending)


@contextmanager
def open_state_dir(root: Path, name: str, *, create: bool = True) -> Iterator[int]:
    """Open a directory in `.memfs` and yield its descriptor.

    FileNotFoundError if it is missing and `create` is False; NewerSchemaError if a later memfs wrote it.
    """
    top = open_root(root)
    try:
        check_format(top, name)
        with open_directory(top, (STATE_DIR, name), create=create) as directory:
            yield directory
    finally:
        os.close(top)


def _unique_name() -> str:
    return f"{os.getpid()}-{secrets.token_hex(6)}"


def _lock_and_rename(parent: int, name: str) -> int:
    """Open and lock a new directory, give it its final name, and return its descriptor."""
    fd = open_directory_fd(parent, (NEW_PREFIX + name,))
    try:
        try_lock(fd)
        os.rename(NEW_PREFIX + name, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.close(fd)
        raise
    return fd
