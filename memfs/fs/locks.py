"""Locks on open directories, and leases that tell who else has a file open. The only importer of filelock.

A lock is the kernel's, the one that filelock takes: here by the call itself, where there is `flock`, by filelock where
there is not.
"""

import errno
import signal
import sys
import time

from memfs.errors import LockTimeoutError

if sys.platform == "win32":
    from filelock import lock_descriptor, unlock_descriptor

    def try_lock(fd: int) -> bool:
        """Take a lock if it is free; it is held until the descriptor is closed."""
        return lock_descriptor(fd, blocking=False)

    def try_lock_shared(fd: int) -> bool:
        """Take a lock if it is free: there is no sharing."""
        return lock_descriptor(fd, blocking=False)

    def release(fd: int) -> None:
        """Let a lock go."""
        unlock_descriptor(fd)
else:
    import fcntl

    _EXCLUSIVE, _SHARED = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH | fcntl.LOCK_NB

    def try_lock(fd: int) -> bool:
        """Take a lock if it is free; it is held until the descriptor is closed."""
        try:
            fcntl.flock(fd, _EXCLUSIVE)
        except (BlockingIOError, PermissionError):  # the latter on some file systems
            return False
        return True

    def try_lock_shared(fd: int) -> bool:
        """Take a lock together with all who share it, if nobody has it alone."""
        try:
            fcntl.flock(fd, _SHARED)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(fd: int) -> None:
        """Let a lock go."""
        fcntl.flock(fd, fcntl.LOCK_UN)


POLL_SECONDS = 0.001  # seconds between two tries for a lock


def acquire(fd: int, gate: int, what: str, timeout: float, deadline: float) -> None:
    """Lock an open directory; LockTimeoutError if that is not to be had by the deadline.

    Whoever waits for it stands at the gate, so that the one who just let go queues up again behind them.
    """
    while not try_lock(gate):
        _wait(what, timeout, deadline)
    try:
        while not try_lock(fd):
            _wait(what, timeout, deadline)
    finally:
        release(gate)


def _wait(what: str, timeout: float, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise LockTimeoutError(what, timeout)
    time.sleep(POLL_SECONDS)


def is_locked(fd: int) -> bool:
    """Tell whether somebody holds the lock; who asks holds up nobody else who asks."""
    try:
        taken = try_lock_shared(fd)
    except OSError:
        taken = False
    if taken:
        release(fd)
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
        answer = _try_lease(self._fd, "F_RDLCK")
        self._held = answer is True
        return answer is not False

    def has_waiting_writer(self) -> bool:
        """Tell whether somebody waits."""
        return self._held and fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def is_open_elsewhere(fd: int, *, by_writers: bool = False) -> bool | None:
    """Tell whether somebody else has the open file open (for writing); None where nobody can tell."""
    answer = _try_lease(fd, "F_RDLCK" if by_writers else "F_WRLCK")
    if answer:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return None if answer is None else not answer


def _try_lease(fd: int, kind: str) -> bool | None:
    """Take a lease, which is granted when nobody else has the file open; None where there are none."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, getattr(fcntl, kind))
    except (OSError, AttributeError, NameError) as error:
        return False if getattr(error, "errno", 0) == errno.EAGAIN else None
    return True
