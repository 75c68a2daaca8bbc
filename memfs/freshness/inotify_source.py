"""Which files of a vault may have changed, as the system tells it. The only importer of watchdog.

A notice is a hint where to look, never a fact about a file. On Linux it is in the kernel's queue before the call
that changed the file returns, and whoever asks reads the queue; elsewhere threads of watchdog bring it a little
later. Not noticed: what is written through a hard link elsewhere, or through a memory map whose file is closed, and
what is mounted into the vault.
"""

import ctypes
import os
import re
import select
import struct
import sys
import threading
from collections.abc import Iterable, Set
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memfs.errors import VaultError
from memfs.fs.files import open_directory, open_root
from memfs.namespace import SESSIONS, fold, is_utf8_encodable

if sys.platform != "win32":
    import fcntl
    import termios
if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

_REMOTE = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|drvfs|fakeowner|fuse|fuse\..*|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|"
    r"panfs|prl_fs|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
)
_WANTED = re.compile("File(Created|Modified|Closed|Attrib|Moved|Deleted)Event|Dir(Created|Attrib|Moved|Deleted)Event")
_EVENT = struct.Struct("iIII").unpack_from  # watch, mask, cookie, length of the name that follows
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _MOVE_SELF, _OVERFLOW, _IGNORED = 0x100, 0x200, 0x800, 0x4000, 0x8000
_EXCL_UNLINK, _ISDIR = 0x4000000, 0x40000000
# attributes too: what could not be read may be readable now
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _EXCL_UNLINK
_NOT_OF_A_FILE = _ISDIR | _IGNORED | _MOVE_SELF | _OVERFLOW


class Noticed(NamedTuple):
    """Where to look again."""

    paths: Set[str]  # memory files that may have changed, come or gone
    folders: Set[str]  # directories ("" is the root) that came, went or moved: look at all below them
    lost: bool  # something may have been missed: look at everything


NOTHING, EVERYTHING = Noticed(frozenset(), frozenset(), False), Noticed(frozenset(), frozenset(), True)


class EventSource(Protocol):
    """A source of notices. Thread-safe; a copy of it in a forked process is dead."""

    kind: str
    is_spoiled: bool

    def watch(self, folder: str) -> None:
        """Watch a directory; to be called each time before it is listed."""

    def guard(self, folder: str) -> None:
        """From now on, notice when a file in this directory is written: `is_spoiled` tells after a poll."""

    def poll(self) -> Noticed:
        """What was noticed since the last poll, without waiting; a dead source has always lost something."""

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds for something to poll; True if there may be, at once if the source is dead."""

    def close(self) -> None:
        """Give back what the source holds; it is dead then."""

    @property
    def is_alive(self) -> bool: ...


def notices(root: str) -> EventSource | None:
    """The source for a vault; None where none can be trusted, or none is to be had."""
    with suppress(OSError, RuntimeError):
        if not is_remote(root):
            return InotifySource(root) if sys.platform == "linux" else WatchdogSource(root)
    return None


def is_remote(root: str) -> bool:
    """Tell whether files of the vault may change without this system's knowledge; True where nobody can tell."""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as mounts:
        return has_remote_mount(map(os.fsdecode, mounts), os.path.realpath(root))
    return sys.platform == "linux"


def has_remote_mount(mountinfo: Iterable[str], root: str) -> bool:
    """Tell whether a file system that others write on holds the root, or is mounted below it."""
    kinds = {}
    for line in mountinfo:
        mount, kind = line.split(" - ", 1)
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount.split(" ")[4])
        kinds[point.rstrip("/") + "/"] = kind.split(" ", 1)[0]  # the last one on a point hides the others
    inside = root.rstrip("/") + "/"
    holder = max((point for point in kinds if inside.startswith(point)), key=len, default=inside)
    return any(_REMOTE.fullmatch(kinds[point]) for point in kinds if point == holder or point.startswith(inside))


def _is_namespace(path: str) -> bool:
    """Tell whether a walk through the vault goes into a directory of this path."""
    names = path.split("/")
    return fold(names[0]) != SESSIONS and all(
        name[:1] not in {".", "~", "#"} and is_utf8_encodable(name) for name in names
    )


def _is_memory(folder: str, name: str) -> bool:
    """Tell whether a walk takes a file of this name, in a directory it goes into, for a memory."""
    return (
        name.endswith(".md")
        and name[0] not in ".~#"
        and is_utf8_encodable(name)
        and bool(folder or fold(name) != "readme.md")
    )


def _identity(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class InotifySource:
    """The kernel's queue, inotify: nothing runs until somebody asks."""

    kind = "kernel"

    def __init__(self, root: str) -> None:
        self._fd, self._pid, self._mutex = -1, os.getpid(), threading.Lock()
        self._root, self._identity = os.path.abspath(root), _identity(root)
        self._guarded, self.is_spoiled = -1, False
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._begin()

    def watch(self, folder: str) -> None:
        if self._pid == os.getpid() and _is_namespace(folder):
            with self._mutex:
                self._add(folder)

    def guard(self, folder: str) -> None:
        if self._pid != os.getpid():
            return
        with self._mutex:
            if self._fd >= 0:
                self._libc.inotify_rm_watch(self._fd, self._guarded)
                path = os.fsencode(folder)
                self._guarded = self._libc.inotify_add_watch(self._fd, path, _MODIFY)
                self.is_spoiled = self._guarded < 0

    def poll(self) -> Noticed:
        if self._pid != os.getpid():
            return EVERYTHING
        with self._mutex:
            if _identity(self._root) != self._identity:
                self._end()
            if self._fd < 0:
                return EVERYTHING
            return self._read() if self._poller.poll(0) else NOTHING

    def wait(self, timeout: float) -> bool:
        fd, poller = self._fd, select.poll()  # its own poller: no two threads may use one at a time
        if fd < 0 or self._pid != os.getpid():
            return True
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(max(timeout, 0) * 1000))

    def close(self) -> None:
        with self._mutex if self._pid == os.getpid() else nullcontext():  # a fork may copy a mutex that is held
            self._end()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    @property
    def is_alive(self) -> bool:
        return self._fd >= 0 and self._pid == os.getpid()

    def _begin(self) -> None:
        """Take a new queue, which watches the root alone."""
        self.is_spoiled |= self._guarded >= 0  # nobody guards it any more
        self._guarded = -1
        self._folders: dict[int, str] = {}  # by the number of the watch, which stays with a directory that is moved
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._add("")
        if not self._folders:
            self._end()
            raise OSError(f"{self._root}: cannot be watched")
        self._poller = select.poll()
        self._poller.register(self._fd, select.POLLIN)

    def _end(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._pid == os.getpid():  # in a forked process the watches are the parent's
                self._libc.inotify_rm_watch(fd, next(iter(self._folders), -1))  # wakes whoever waits
            os.close(fd)

    def _add(self, name: str) -> None:
        root = -1
        try:
            root = open_root(self._root)
            with open_directory(
                root, tuple(filter(None, name.split("/")))
            ) as fd:  # a symlink on the way is not followed
                mask = _MASK | (0 if name else _MOVE_SELF)
                watch = self._libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % fd, mask)
            if watch >= 0:
                self._folders[watch] = name
            else:  # there are no more, mostly: what happens here would be missed
                self._end()
        except (VaultError, FileNotFoundError, PermissionError):
            pass  # it is gone; or unreadable, and the directory above tells when it no longer is
        except OSError:
            self._end()
        finally:
            if root >= 0:
                os.close(root)

    def _drop(self, folder: str) -> None:
        """Forget a directory that was moved away, and all below it: what happens there has another name now."""
        below = f"{folder}/"
        for watch in [watch for watch, name in self._folders.items() if name == folder or name.startswith(below)]:
            del self._folders[watch]
            self._libc.inotify_rm_watch(self._fd, watch)

    def _read(self) -> Noticed:
        """Read all that is queued. A save is several events, so files wait to be named until a directory changes."""
        data = os.read(self._fd, int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), sys.byteorder))
        paths, folders, files = set[str](), set[str](), set[tuple[int, bytes]]()
        end, size = 0, len(data)
        while end < size:
            watch, mask, _, length = _EVENT(data, end)
            start = end + 16
            end = start + length
            if not mask & _NOT_OF_A_FILE:
                files.add((watch, data[start:end]))
                continue
            self._name(files, paths)
            if not self._follow(watch, mask, os.fsdecode(data[start:end].rstrip(b"\0")), folders):
                return EVERYTHING
        self._name(files, paths)
        return Noticed(paths, folders, False)

    def _name(self, files: set[tuple[int, bytes]], paths: set[str]) -> None:
        for watch, padded in files:
            folder, name = self._folders.get(watch), padded.rstrip(b"\0")
            self.is_spoiled |= watch == self._guarded
            if folder is not None and name.endswith(b".md") and _is_memory(folder, text := os.fsdecode(name)):
                paths.add(f"{folder}/{text}" if folder else text)
        files.clear()

    def _follow(self, watch: int, mask: int, name: str, folders: set[str]) -> bool:
        """Take in what happened to a directory; False if something was missed."""
        folder = self._folders.get(watch)
        if mask & _OVERFLOW or (folder == "" and mask & (_IGNORED | _MOVE_SELF)):
            self._end()
            if mask & _OVERFLOW:  # moves were missed as well, so that no name of a directory is sure
                with suppress(OSError):
                    self._begin()
            return False
        if folder is None:
            return True
        if mask & _IGNORED:
            folders.add(self._folders.pop(watch))
        elif (name or not folder) and _is_namespace(path := f"{folder}/{name}" if folder else name):
            folders.add(path)
            if mask & _MOVED_FROM:
                self._drop(path)
        return True


class WatchdogSource:
    """Threads of watchdog, which collect; directories need not be watched one by one."""

    kind = "watchdog"
    is_spoiled = False

    def __init__(self, root: str) -> None:
        from watchdog import events
        from watchdog.observers import Observer

        class Handler(events.FileSystemEventHandler):
            def on_any_event(_, event: "FileSystemEvent") -> None:  # noqa: N805
                self._take(event)

        self._pid, self._mutex, self._told = os.getpid(), threading.Lock(), threading.Event()
        self._root, self._identity = os.path.abspath(root), _identity(root)
        self._real, self._is_replaced = os.path.realpath(root), False
        self._paths, self._folders = set[str](), set[str]()
        wanted = [kind for name, kind in vars(events).items() if _WANTED.fullmatch(name)]
        self._observer = Observer()
        try:
            self._observer.schedule(Handler(), self._real, recursive=True, event_filter=wanted)
            self._observer.start()
        except BaseException:
            self._observer.stop()
            raise

    def watch(self, folder: str) -> None:
        pass

    def guard(self, folder: str) -> None:
        pass

    def poll(self) -> Noticed:
        if self._pid != os.getpid():
            return EVERYTHING
        with self._mutex:
            self._is_replaced |= _identity(self._root) != self._identity
            paths, folders = self._paths, self._folders
            self._paths, self._folders = set(), set()
            self._told.clear()
        return Noticed(paths, folders, not self.is_alive)

    def wait(self, timeout: float) -> bool:
        return not self.is_alive or self._told.wait(timeout)

    def close(self) -> None:
        if self._pid == os.getpid():
            self._observer.stop()
            self._observer.join()
            self._told.set()

    @property
    def is_alive(self) -> bool:
        threads = [*self._observer.emitters, self._observer]
        is_ours = self._pid == os.getpid() and not self._is_replaced
        return is_ours and len(threads) > 1 and all(thread.is_alive() for thread in threads)

    def _take(self, event: "FileSystemEvent") -> None:
        for where in (event.src_path, event.dest_path or event.src_path):
            path = os.fsdecode(where)[len(self._real) :].replace(os.sep, "/").lstrip("/")
            if path.startswith(".memfs/"):
                continue
            folder, _, name = path.rpartition("/")
            with self._mutex:
                if event.is_directory and _is_namespace(path):
                    self._folders.add(path)
                elif not event.is_directory and _is_memory(folder, name) and _is_namespace(folder):
                    self._paths.add(path)
                else:
                    continue
                self._told.set()
