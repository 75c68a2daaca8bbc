"""File events from inotify, the event queue of Linux. Without a thread: `poll` reads the queue.

The contracts of the public methods are in `event_source.EventSource`.
"""

import ctypes
import os
import select
import struct
import sys
import threading
from contextlib import nullcontext, suppress

from memfs.errors import VaultError
from memfs.freshness.file_events import (
    EVENTS_LOST,
    NO_EVENTS,
    FileEvents,
    is_memory_file,
    is_namespace,
    root_identity,
)
from memfs.fs.files import open_directory, open_root

if sys.platform != "win32":
    import fcntl
    import termios

_unpack_event = struct.Struct("iIII").unpack_from  # watch, mask, cookie, length of the name that follows
_EVENT_BYTES = 16  # without the name
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _MOVE_SELF, _OVERFLOW, _IGNORED = 0x100, 0x200, 0x800, 0x4000, 0x8000
_EXCL_UNLINK, _ISDIR = 0x4000000, 0x40000000
# events to report; also those of attributes, because an unreadable file may become readable
_WATCH_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _EXCL_UNLINK
# all other events concern one file; these concern a directory, a watch, or the queue as a whole
_NOT_A_FILE = _ISDIR | _IGNORED | _MOVE_SELF | _OVERFLOW


class InotifySource:
    """The inotify queue of one vault, with one watch per directory."""

    kind = "kernel"
    is_index_overwritten: bool  # also True if the index cannot be watched, or no longer is

    def __init__(self, root: str) -> None:
        self._fd, self._pid, self._mutex = -1, os.getpid(), threading.Lock()
        self._root, self._identity = os.path.abspath(root), root_identity(root)
        self._index_watch, self.is_index_overwritten = -1, False
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._open()

    def watch(self, directory: str) -> None:
        """Watch a directory of the vault, unless a scan does not enter it; in a forked process do nothing."""
        if self._pid == os.getpid() and is_namespace(directory):
            with self._mutex:
                self._add_watch(directory)

    def watch_index(self, directory: str) -> None:
        """Watch the directory of the open index, by its path in the file system, instead of the one watched before."""
        if self._pid != os.getpid():
            return
        with self._mutex:
            if self._fd >= 0:
                self._libc.inotify_rm_watch(self._fd, self._index_watch)
                path = os.fsencode(directory)
                self._index_watch = self._libc.inotify_add_watch(self._fd, path, _MODIFY)
                self.is_index_overwritten = self._index_watch < 0

    def poll(self) -> FileEvents:
        """Return the queued events; EVENTS_LOST if the source is dead, or the queue has overflowed."""
        if self._pid != os.getpid():
            return EVENTS_LOST
        with self._mutex:
            if root_identity(self._root) != self._identity:
                self._close()
            if self._fd < 0:
                return EVENTS_LOST
            return self._read() if self._poller.poll(0) else NO_EVENTS

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there are events; return True at once if the source is dead."""
        fd, poller = self._fd, select.poll()  # a poller of its own: two threads cannot use one at the same time
        if fd < 0 or self._pid != os.getpid():
            return True
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(max(timeout, 0) * 1000))

    def close(self) -> None:
        """Close the queue, and wake a thread in `wait`. May be called again."""
        with self._mutex if self._pid == os.getpid() else nullcontext():  # in a fork the copied mutex may be locked
            self._close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are events; -1 after `close`."""
        return self._fd

    @property
    def is_alive(self) -> bool:
        """Whether the queue is open, and this process opened it."""
        return self._fd >= 0 and self._pid == os.getpid()

    def _open(self) -> None:
        """Open a queue that watches only the root. Raises OSError if that is not possible."""
        self.is_index_overwritten |= self._index_watch >= 0  # no queue watches it from now on
        self._index_watch = -1
        self.directories: dict[int, str] = {}  # watch number -> path; the kernel keeps the watch of a moved directory
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._add_watch("")
        if not self.directories:
            self._close()
            raise OSError(f"{self._root}: cannot be watched")
        self._poller = select.poll()
        self._poller.register(self._fd, select.POLLIN)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._pid == os.getpid():  # in a forked process the watches are the parent's
                self._libc.inotify_rm_watch(
                    fd, next(iter(self.directories), -1)
                )  # the event of this removal wakes a thread in `wait`
            os.close(fd)

    def _add_watch(self, name: str) -> None:
        """Watch a directory; the empty name is the root. Close the queue if that fails for an existing directory."""
        root = -1
        try:
            root = open_root(self._root)
            with open_directory(root, tuple(filter(None, name.split("/")))) as fd:  # does not follow symlinks
                mask = _WATCH_MASK | (0 if name else _MOVE_SELF)
                watch = self._libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % fd, mask)
            if watch >= 0:
                self.directories[watch] = name
            else:  # mostly the limit fs.inotify.max_user_watches: events of this directory would be missed
                self._close()
        except (VaultError, FileNotFoundError, PermissionError):
            pass  # missing or unreadable: its parent reports when that changes; for the root `_open` raises
        except OSError:
            self._close()
        finally:
            if root >= 0:
                os.close(root)

    def _remove_watches(self, directory: str) -> None:
        """Remove the watches of a directory that was moved away, and of those below it: their paths changed."""
        below = f"{directory}/"
        for watch in [watch for watch, name in self.directories.items() if name == directory or name.startswith(below)]:
            del self.directories[watch]
            self._libc.inotify_rm_watch(self._fd, watch)

    def _read(self) -> FileEvents:
        """Read all queued events.

        A save causes several events of one file, so file events are collected in a set, and resolved to paths later:
        at the end, and before each directory event, because it may change the paths of watches.
        """
        data = os.read(self._fd, int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), sys.byteorder))
        paths, directories, files = set[str](), set[str](), set[tuple[int, bytes]]()
        end, size = 0, len(data)
        while end < size:
            watch, mask, _, length = _unpack_event(data, end)
            start = end + _EVENT_BYTES
            end = start + length
            if not mask & _NOT_A_FILE:
                files.add((watch, data[start:end]))
                continue
            self._resolve(files, paths)
            if not self._handle_directory_event(watch, mask, os.fsdecode(data[start:end].rstrip(b"\0")), directories):
                return EVENTS_LOST
        self._resolve(files, paths)
        return FileEvents(paths, directories, False)

    def _resolve(self, files: set[tuple[int, bytes]], paths: set[str]) -> None:
        """Move file events, given as watch number and padded name, to `paths` if they concern memories."""
        for watch, padded in files:
            directory, name = self.directories.get(watch), padded.rstrip(b"\0")
            self.is_index_overwritten |= watch == self._index_watch
            if directory is not None and name.endswith(b".md") and is_memory_file(directory, text := os.fsdecode(name)):
                paths.add(f"{directory}/{text}" if directory else text)
        files.clear()

    def _handle_directory_event(self, watch: int, mask: int, name: str, directories: set[str]) -> bool:
        """Update the watches after an event that is not of a file, and add the directory to `directories`.

        Return False if events were lost.
        """
        directory = self.directories.get(watch)
        if mask & _OVERFLOW or (directory == "" and mask & (_IGNORED | _MOVE_SELF)):
            self._close()
            if mask & _OVERFLOW:  # a lost event may be a move, after which paths of watches are wrong: start again
                with suppress(OSError):
                    self._open()
            return False
        if directory is None:
            return True
        if mask & _IGNORED:
            directories.add(self.directories.pop(watch))
        # an event without a name concerns the watched directory itself: except for the root, its parent reports it too
        elif (name or not directory) and is_namespace(path := f"{directory}/{name}" if directory else name):
            directories.add(path)
            if mask & _MOVED_FROM:
                self._remove_watches(path)
        return True
