"""Locks on open directories, and leases that tell who else has a file open. The only importer of filelock."""

import errno
import os
import signal
import sys
import threading
import time

from filelock import lock_descriptor, unlock_descriptor

from memfs.errors import LockTimeoutError

if sys.platform != "win32":
    import fcntl

POLL = 0.001  # seconds between two tries for a lock


class Mutex:
    """A lock among the threads of a process that a thread may take again; a forked child begins with it free."""

    def __init__(self) -> None:
        self._lock, self._pid = threading.RLock(), os.getpid()

    def __enter__(self) -> None:
        if self._pid != os.getpid():  # whoever held it is not here
            self._lock, self._pid = threading.RLock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def acquire(fd: int, gate: int, what: str, timeout: float, deadline: float) -> None:
    """Lock an open directory; LockTimeoutError if that is not to be had by the deadline.

    Whoever waits for it stands at the gate, so that the one who just let go queues up again behind them.
    """
    _wait(gate, what, timeout, deadline)
    try:
        _wait(fd, what, timeout, deadline)
    finally:
        unlock_descriptor(gate)


def release(fd: int) -> None:
    """Let the lock on an open directory go."""
    unlock_descriptor(fd)


def _wait(fd: int, what: str, timeout: float, deadline: float) -> None:
    while not lock_descriptor(fd, blocking=False):
        if time.monotonic() > deadline:
            raise LockTimeoutError(what, timeout)
        time.sleep(POLL)


def try_lock(fd: int) -> bool:
    """Take a lock if it is free; it is held until the descriptor is closed."""
    return lock_descriptor(fd, blocking=False)


def try_share(fd: int) -> bool:
    """Take a lock together with all who share it, if nobody has it alone; where there is no sharing, alone."""
    if sys.platform == "win32":
        return lock_descriptor(fd, blocking=False)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(fd: int) -> bool:
    """Tell whether somebody holds the lock; who asks holds up nobody else who asks."""
    try:
        taken = try_share(fd)
    except OSError:
        taken = False
    if taken:
        unlock_descriptor(fd)
    return not taken


class Lease:
    """A hold on an open file: while it lasts, whoever opens the file for writing waits.

    The kernel tells the holder by a signal, which is one that is ignored by default. Where there are no
    leases, nobody is known to write, and nobody waits.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._held = False

    def take(self) -> bool:
        """Take the lease; False while somebody has the file open for writing."""
        answer = _lease(self._fd, "F_RDLCK")
        self._held = answer is True
        return answer is not False

    def is_wanted(self) -> bool:
        """Tell whether somebody waits."""
        return self._held and fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def in_use(fd: int, *, by_writers: bool = False) -> bool | None:
    """Tell whether somebody else has the open file open (for writing); None where nobody can tell."""
    answer = _lease(fd, "F_RDLCK" if by_writers else "F_WRLCK")
    if answer:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return None if answer is None else not answer


def _lease(fd: int, kind: str) -> bool | None:
    """Take a lease, which is granted when nobody else has the file open; None where there are none."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, getattr(fcntl, kind))
    except (OSError, AttributeError, NameError) as error:
        return False if getattr(error, "errno", 0) == errno.EAGAIN else None
    return True
