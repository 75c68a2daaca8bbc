"""Locks on open files and directories, and leases that show whether another process has a file open.

The only importer of filelock. Locks are those of the kernel: taken by filelock on Windows, elsewhere by `flock`.
"""

import errno
import signal
import sys
import time

from memfs.errors import LockTimeoutError

if sys.platform == "win32":
    from filelock import lock_descriptor, unlock_descriptor

    def try_lock(fd: int) -> bool:
        """Take an exclusive lock until it is released or the descriptor closed; return False if it is not free."""
        return lock_descriptor(fd, blocking=False)

    def try_lock_shared(fd: int) -> bool:
        """Take a lock as `try_lock` does: this system has no shared locks."""
        return lock_descriptor(fd, blocking=False)

    def release(fd: int) -> None:
        """Release a lock."""
        unlock_descriptor(fd)
else:
    import fcntl

    _EXCLUSIVE, _SHARED = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH | fcntl.LOCK_NB

    def try_lock(fd: int) -> bool:
        """Take an exclusive lock until it is released or the descriptor closed; return False if it is not free."""
        try:
            fcntl.flock(fd, _EXCLUSIVE)
        except (BlockingIOError, PermissionError):  # some file systems raise the latter
            return False
        return True

    def try_lock_shared(fd: int) -> bool:
        """Take a lock that others may share; return False if another holder has it exclusively."""
        try:
            fcntl.flock(fd, _SHARED)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(fd: int) -> None:
        """Release a lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)


POLL_SECONDS = 0.001  # between two attempts to take a lock


def acquire(fd: int, queue: int, name: str, timeout: float, deadline: float) -> None:
    """Lock an open directory. Raises LockTimeoutError if the lock is not free by the deadline.

    `queue` is the lock queue: a file that a waiting writer locks first, so that a writer that just released the
    directory cannot overtake the waiting ones. `deadline` is a time of `time.monotonic`; `name` and `timeout` are for
    the error.
    """
    while not try_lock(queue):
        _wait(name, timeout, deadline)
    try:
        while not try_lock(fd):
            _wait(name, timeout, deadline)
    finally:
        release(queue)


def _wait(name: str, timeout: float, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise LockTimeoutError(name, timeout)
    time.sleep(POLL_SECONDS)


def is_locked(fd: int) -> bool:
    """Return whether a process holds the lock exclusively; True also if that cannot be checked.

    The check takes a shared lock for a moment, so concurrent checks do not interfere.
    """
    try:
        is_free = try_lock_shared(fd)
    except OSError:
        is_free = False
    if is_free:
        release(fd)
    return not is_free


class Lease:
    """A read lease on an open file: while it is held, a process that opens the file for writing waits.

    It ends when the descriptor is closed. The kernel notifies the holder by a signal, for which we choose one that is
    ignored by default. On systems without leases, writers are not detected, and none waits.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._held = False

    def take(self) -> bool:
        """Take the lease; return False if a process has the file open for writing, True on systems without leases."""
        granted = _try_lease(self._fd, "F_RDLCK")
        self._held = granted is True
        return granted is not False

    def has_waiting_writer(self) -> bool:
        """Return whether a process waits to open the file for writing."""
        return self._held and fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def is_open_elsewhere(fd: int) -> bool | None:
    """Return whether the file of a descriptor is also open elsewhere; None if the system has no leases."""
    granted = _try_lease(fd, "F_WRLCK")
    if granted:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return None if granted is None else not granted


def _try_lease(fd: int, kind: str) -> bool | None:
    """Take a lease and return whether it was granted; None if the system has no leases.

    A read lease is granted unless the file is open for writing, a write lease unless it is open elsewhere at all.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, getattr(fcntl, kind))
    except (OSError, AttributeError, NameError) as error:
        return False if getattr(error, "errno", 0) == errno.EAGAIN else None
    return True
