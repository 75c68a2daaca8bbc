"""Locks on open directories, and leases that tell who else has a file open. The only importer of filelock."""

import errno
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import lock_descriptor, unlock_descriptor

from memfs.errors import LockTimeoutError

if sys.platform != "win32":
    import fcntl

POLL = 0.001  # seconds between two tries for a lock


@contextmanager
def locked(fd: int, gate: int, what: str, timeout: float, deadline: float) -> Iterator[None]:
    """Hold the lock on an open directory; LockTimeoutError if it is not to be had by the deadline.

    Whoever waits for it stands at the gate, so that the one who just let go queues up again behind them.
    """
    _acquire(gate, what, timeout, deadline)
    try:
        _acquire(fd, what, timeout, deadline)
    finally:
        unlock_descriptor(gate)
    try:
        yield
    finally:
        unlock_descriptor(fd)


def _acquire(fd: int, what: str, timeout: float, deadline: float) -> None:
    while not lock_descriptor(fd, blocking=False):
        if time.monotonic() > deadline:
            raise LockTimeoutError(what, timeout)
        time.sleep(POLL)


def try_lock(fd: int) -> bool:
    """Take a lock if it is free; it is held until the descriptor is closed."""
    return lock_descriptor(fd, blocking=False)


def in_use(fd: int, *, by_writers: bool = False) -> bool | None:
    """Tell whether somebody else has the open file open (for writing); None where nobody can tell.

    A lease is granted only when nobody has. It is given back at once; an open that comes between is held
    up for that moment, and its signal is one that is ignored by default.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK if by_writers else fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (OSError, AttributeError, NameError) as error:
        return True if getattr(error, "errno", 0) == errno.EAGAIN else None
    return False
