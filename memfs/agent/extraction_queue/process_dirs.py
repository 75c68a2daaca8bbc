"""Rooms: directories in `.memfs/pending`, one a process, locked as long as it lives. Logs lie in them."""

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

PENDING = "pending"
SUFFIX = ".jsonl"
NEW = ".new-"  # begins the name of a room that is not locked yet
_ROOM = re.compile("[0-9]+-[0-9a-f]{12}")
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | FILE_FLAGS


class ProcessDirectory:
    """The directory of this process for its logs in a vault. Thread-safe.

    It is made by the first line, and made anew where somebody deleted it and in a forked child.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fd, self._name = -1, ""
        self._numbers = itertools.count(1)
        self._mutex = Mutex()

    def new_name(self) -> str:
        """A name for a log that no other has here."""
        return f"{next(self._numbers)}{SUFFIX}"

    def open(self, name: str) -> int:
        """Open a log to add to it; it is made as needed."""
        with self._mutex:
            if self._fd >= 0:
                with suppress(FileNotFoundError):  # deleted with the state directory
                    return os.open(name, _FLAGS, 0o600, dir_fd=self._fd)
            self._make()
            return os.open(name, _FLAGS, 0o600, dir_fd=self._fd)

    def sync(self, name: str) -> None:
        """Have a log on the disk, and all that leads to it."""
        with ExitStack() as stack:
            with self._mutex:
                if not self._is_there():
                    return
                opened = [stack.enter_context(open_file(self._fd, name))]
                opened += [stack.enter_context(open_directory(self._fd, (way,))) for way in (".", "..")]
            for fd in opened:
                os.fsync(fd)

    def take(self, place: int, name: str) -> str:
        """Move a log that nobody holds here; its new name. FileNotFoundError if somebody else has it now."""
        with self._mutex:
            if not self._is_there():
                self._make()
            mine = self.new_name()
            os.rename(name, mine, src_dir_fd=place, dst_dir_fd=self._fd)
            return mine

    def rewrite(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Have other bytes in a log, in one step; of one that is not there, none."""
        with self._mutex, suppress(FileNotFoundError):
            if not self._is_there():
                return
            content, aside = read(self._fd, name, sys.maxsize), NEW + name.removesuffix(SUFFIX)
            if (data := change(content.data)) != content.data:
                with suppress(FileNotFoundError):  # left by one that was killed
                    os.unlink(aside, dir_fd=self._fd)
                write(self._fd, aside, data, like=content)
                os.replace(aside, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
                os.fsync(self._fd)

    def remove(self, name: str) -> None:
        """Have a log no more."""
        with self._mutex, suppress(FileNotFoundError):
            if self._fd >= 0:
                os.unlink(name, dir_fd=self._fd)

    def let_go(self, name: str) -> None:
        """Put a log, if there is one, to where nobody holds it."""
        with self._mutex, suppress(OSError, MemfsError):
            if self._is_there():
                with open_directory(self._fd, ("..",)) as place:
                    os.rename(name, f"{_unique()}{SUFFIX}", src_dir_fd=self._fd, dst_dir_fd=place)

    def tidy(self) -> None:
        """Have no directory if it is empty."""
        with self._mutex, suppress(OSError, MemfsError):
            if self._is_there():
                with open_directory(self._fd, ("..",)) as place:
                    os.rmdir(self._name, dir_fd=place)
                self.forget()

    def forget(self) -> None:
        """Have no directory any more; its lock goes with the last process that has it open."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with suppress(Exception):
            self.tidy()
            self.forget()

    def _is_there(self) -> bool:
        return self._fd >= 0 and os.fstat(self._fd).st_nlink > 0

    def _make(self) -> None:
        """Make the directory; it gets its name when it is locked, so one with a name and no lock is of the dead."""
        self.forget()
        with state_folder(self._root, PENDING) as place:
            while self._fd < 0:
                name = _unique()
                os.mkdir(NEW + name, 0o700, dir_fd=place)
                with suppress(FileNotFoundError):  # an agent that begins takes it for one that was left
                    self._fd, self._name = _locked(place, name), name


_rooms: "WeakValueDictionary[tuple[Path, int, int], ProcessDirectory]" = (
    WeakValueDictionary()
)  # of this process, by the vault
_rooms_mutex = Mutex()


def _forked() -> None:
    """Have a child make rooms of its own; its parent holds on to these."""
    for room in list(_rooms.values()):
        room.forget()


after_fork(_forked)


def room_of(root: Path) -> ProcessDirectory:
    """The room of this process in the vault that is there now."""
    status = os.stat(root)
    with _rooms_mutex:
        return _rooms.setdefault((root, status.st_dev, status.st_ino), ProcessDirectory(root))


def unheld(top: int) -> Iterator[tuple[int, str]]:
    """Where logs lie that nobody holds, open, with its name: `pending` itself, and rooms of processes that are gone."""
    yield top, ""
    for room in filter(_ROOM.fullmatch, sorted(os.listdir(top))):
        with suppress(OSError, MemfsError), open_directory(top, (room,)) as place:
            if not is_locked(place):
                yield place, room


def remove_room(top: int, room: str) -> None:
    """Remove a room if it is empty; `pending` itself, which has no name here, stays."""
    with suppress(OSError):
        os.rmdir(room, dir_fd=top)


@contextmanager
def state_folder(root: Path, name: str, *, create: bool = True) -> Iterator[int]:
    top = open_root(root)
    try:
        with open_directory(top, (STATE_DIR, name), create=create) as room:
            yield room
    finally:
        os.close(top)


def _unique() -> str:
    return f"{os.getpid()}-{secrets.token_hex(6)}"


def _locked(place: int, name: str) -> int:
    """Open and lock a new room, and give it its name."""
    fd = open_directory_fd(place, (NEW + name,))
    try:
        try_lock(fd)
        os.rename(NEW + name, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        os.close(fd)
        raise
    return fd
