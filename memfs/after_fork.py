"""Reset state in a forked child: hooks, and a mutex that a fork never leaves locked."""

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

_RLock: Any = type(threading.RLock())


def after_fork(hook: Callable[[], None]) -> Callable[[], None]:
    """Call `hook` in every child that this process forks (never on systems without fork). Usable as a decorator."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=hook)
    return hook


class Mutex(_RLock):  # type: ignore[misc]  # the C implementation: session logs take it once per message
    """A reentrant lock of one process's threads. A forked child has it unlocked unless the forking thread held it."""

    def __init__(self) -> None:
        _mutexes.add(self)

    def free(self) -> None:
        """Unlock it unless this thread, the only one in a forked child, holds it and will release it."""
        if not self._is_owned():
            self._at_fork_reinit()


_mutexes: "WeakSet[Mutex]" = WeakSet()


@after_fork
def _free_mutexes() -> None:
    """Unlock in a child: the threads that held the locks exist only in the parent."""
    for mutex in list(_mutexes):
        mutex.free()
