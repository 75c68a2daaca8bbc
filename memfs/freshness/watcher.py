"""A watcher: a thread that refreshes a vault whenever its files change.

Its heartbeat is the file `.memfs/watcher`, locked as long as the thread lives and touched several times per second.
While its heartbeat is recent, other processes read changes from the journal and need not scan the files.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from memfs.errors import MemfsError
from memfs.fs.files import READ_FLAGS, STATE_DIR, open_root
from memfs.fs.locks import is_locked, try_lock
from memfs.storage.state_dir import create_state_dir

HEARTBEAT_FILE = "watcher"
HEARTBEAT_SECONDS = 0.3  # to wait for changes between two heartbeats
HEARTBEAT_TIMEOUT = 0.9  # seconds without a heartbeat, after which a watcher counts as stopped
BATCH_SECONDS = 0.05  # to wait for more changes after the first
log = logging.getLogger("memfs")


def watcher_of(root: int) -> str | None:
    """Return the process id of the watcher of a vault; None if no live watcher writes to the journal."""
    try:
        fd = os.open(f"{STATE_DIR}/{HEARTBEAT_FILE}", READ_FLAGS, dir_fd=root)
    except OSError:
        return None
    try:
        if abs(time.time() - os.fstat(fd).st_mtime) > HEARTBEAT_TIMEOUT or not is_locked(fd):
            return None
        return os.pread(fd, 20, 0).decode("ascii", "replace").strip() or None
    except OSError:
        return None
    finally:
        os.close(fd)


class Watcher:
    """The thread of a watcher.

    `wait` waits up to some seconds, and returns whether there may be changes. `refresh` applies them, and returns
    whether the journal has them: otherwise there is no heartbeat, so that other processes do not rely on this watcher.
    """

    def __init__(self, root: str, *, wait: Callable[[float], bool], refresh: Callable[[], bool]) -> None:
        self._root, self._wait, self._refresh = root, wait, refresh
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memfs-watcher", daemon=True)
        self._heartbeat_fd, self._is_journaled = -1, False
        self.trouble = ""  # why the last refresh failed

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, after a first refresh."""
        self._is_journaled = self._refresh()
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end; in the thread itself, called by a subscriber, do not wait."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._beat()
                self._wait_and_refresh()
        finally:
            if self._heartbeat_fd >= 0:
                os.close(self._heartbeat_fd)

    def _wait_and_refresh(self) -> None:
        """Wait for changes and refresh. Log an error and try again later: the vault may just not be mounted."""
        try:
            if self._wait(HEARTBEAT_SECONDS):
                self._stop.wait(BATCH_SECONDS)
            self._is_journaled = self._refresh()
            self.trouble = ""
        except Exception as error:
            trouble = f"the vault cannot be watched: {error}"
            if trouble != self.trouble:
                log.warning("%s", trouble, exc_info=not isinstance(error, (MemfsError, OSError)))
            self.trouble, self._is_journaled = trouble, False
            self._stop.wait(HEARTBEAT_SECONDS)

    def _beat(self) -> None:
        """Touch the heartbeat file, or close it if changes are not in the journal.

        If another watcher has locked it, or it cannot be written, this watcher works without it.
        """
        with suppress(OSError, MemfsError):
            if self._heartbeat_fd >= 0 and not (self._is_journaled and os.fstat(self._heartbeat_fd).st_nlink):
                os.close(self._heartbeat_fd)
                self._heartbeat_fd = -1
            if self._heartbeat_fd < 0 and self._is_journaled:
                self._heartbeat_fd = self._open_heartbeat()
            if self._heartbeat_fd >= 0:
                os.utime(self._heartbeat_fd)

    def _open_heartbeat(self) -> int:
        """Lock the heartbeat file and return its descriptor; -1 if another watcher has locked it."""
        root = open_root(self._root)
        try:
            create_state_dir(root)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            fd = os.open(f"{STATE_DIR}/{HEARTBEAT_FILE}", flags, 0o666, dir_fd=root)
        finally:
            os.close(root)
        if try_lock(fd):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        os.close(fd)
        return -1
