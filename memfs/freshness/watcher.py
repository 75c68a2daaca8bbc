"""A watcher: a thread that has a vault kept fresh as its files change. It notices, and never parses.

Its sign of life is the file `.memfs/watcher`, locked as long as the thread lives and touched several times a second:
other processes then need not look at the files themselves.
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
from memfs.storage.state_dir import make

NAME = "watcher"
BEAT = 0.3  # seconds between two signs of life
SILENT = 0.9  # seconds after which a watcher that gave none is taken for stopped
SETTLE = 0.05  # seconds to let more changes come before they are looked at
log = logging.getLogger("memfs")


def watcher_of(root: int) -> str | None:
    """The process id of the live watcher of a vault."""
    try:
        fd = os.open(f"{STATE_DIR}/{NAME}", READ_FLAGS, dir_fd=root)
    except OSError:
        return None
    try:
        if abs(time.time() - os.fstat(fd).st_mtime) > SILENT or not is_locked(fd):
            return None
        return os.pread(fd, 20, 0).decode("ascii", "replace").strip() or None
    except OSError:
        return None
    finally:
        os.close(fd)


class Watcher:
    """The thread: has changes waited for and looked at by who starts it; `look` answers whether others were told."""

    def __init__(self, root: str, *, wait: Callable[[float], bool], look: Callable[[], bool]) -> None:
        self._root, self._wait, self._look = root, wait, look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memfs-watcher", daemon=True)
        self._sign, self._is_heard = -1, False
        self.trouble = ""

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread; the first look at all files is over when this returns."""
        self._is_heard = self._look()
        self._give_sign()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that stops itself, in a subscriber, ends when that returns."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._give_sign()
                self._wait_and_look()
        finally:
            if self._sign >= 0:
                os.close(self._sign)

    def _wait_and_look(self) -> None:
        """Wait, and look; a vault that cannot be looked at, as it is not mounted perhaps, is tried again."""
        try:
            if self._wait(BEAT):
                self._stop.wait(SETTLE)
            self._is_heard = self._look()
            self.trouble = ""
        except Exception as error:
            trouble = f"the vault cannot be watched: {error}"
            if trouble != self.trouble:
                log.warning("%s", trouble, exc_info=not isinstance(error, (MemfsError, OSError)))
            self.trouble, self._is_heard = trouble, False
            self._stop.wait(BEAT)

    def _give_sign(self) -> None:
        """Touch the sign of life; where there is another watcher, or no room for one, this one works unseen."""
        with suppress(OSError, MemfsError):
            if self._sign >= 0 and not (self._is_heard and os.fstat(self._sign).st_nlink):
                os.close(self._sign)
                self._sign = -1
            if self._sign < 0 and self._is_heard:
                self._sign = self._claim()
            if self._sign >= 0:
                os.utime(self._sign)

    def _claim(self) -> int:
        root = open_root(self._root)
        try:
            make(root)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            fd = os.open(f"{STATE_DIR}/{NAME}", flags, 0o666, dir_fd=root)
        finally:
            os.close(root)
        if try_lock(fd):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        os.close(fd)
        return -1
