"""Batching: what waits in memory to be written, in its order."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from memfs.after_fork import after_fork

T = TypeVar("T")

log = logging.getLogger("memfs.agent")
_buffers: "WeakSet[Buffer[Any]]" = WeakSet()  # of this process


def _forked() -> None:
    """Have nothing wait in a child: its parent writes what waited."""
    for buffer in list(_buffers):
        buffer.begin()


after_fork(_forked)


class Buffer(Generic[T]):
    """Things on their way to `write`, which is given all that wait, writes some from the front and tells how many.

    It is flushed when `size` of those that count wait, and `interval` seconds after the first of them; what a flush
    that fails did not write stays at the front. No thread runs while nothing waits. Thread-safe; a forked child begins
    with nothing that waits.
    """

    def __init__(self, write: Callable[[Sequence[T]], int], size: int, interval: float | None = None) -> None:
        self._write, self._size = write, size
        self._interval = None if interval is None else min(interval, threading.TIMEOUT_MAX)
        self.begin()
        _buffers.add(self)

    def begin(self) -> None:
        """Have nothing wait, and no lock be held."""
        self._waiting: deque[tuple[T, bool]] = deque()
        self._lock = threading.Lock()  # of what waits
        self._writing = threading.RLock()  # one flush at a time, so that none overtakes another
        self._timer: threading.Timer | None = None

    @property
    def count(self) -> int:
        """How many of those that count wait."""
        with self._lock:
            return sum(counts for _, counts in self._waiting)

    def add(self, thing: T, *, counts: bool = True, instead_of: Callable[[T], bool] = lambda _: False) -> None:
        """Have a thing written, and those that wait and that it is instead of not; what a full batch raises is raised.

        The thing waits all the same.
        """
        with self._writing, self._lock:
            kept = [(one, counted) for one, counted in self._waiting if not instead_of(one)]
            self._waiting = deque([*kept, (thing, counts)])
        if self._size == 1 or self.count >= self._size:
            self.flush()
        else:
            self._arm()

    def change(self, change: Callable[[T], T]) -> bool:
        """Put others in the place of things that wait; tell whether any is another now."""
        with self._writing, self._lock:
            before = list(self._waiting)
            self._waiting = deque((change(thing), counts) for thing, counts in before)
            return any(new[0] is not old[0] for new, old in zip(self._waiting, before, strict=True))

    def flush(self) -> None:
        """Write all that waits."""
        with self._writing:
            self._disarm()
            while batch := self._batch():
                done = self._write(batch)
                with self._lock:
                    for _ in batch[:done]:
                        self._waiting.popleft()

    def close(self) -> None:
        """Write all that waits, and wait for nothing more; also where that fails, no thread is left."""
        try:
            self.flush()
        finally:
            self._disarm()

    def _batch(self) -> list[T]:
        with self._lock:
            return [thing for thing, _ in self._waiting]

    def _arm(self) -> None:
        """Have what waits written after a while."""
        with self._lock:
            if self._interval is None or self._timer is not None or not self._waiting:
                return
            self._timer = threading.Timer(self._interval, self._elapsed)
            self._timer.name, self._timer.daemon = "memfs-flush", True
            self._timer.start()

    def _disarm(self) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _elapsed(self) -> None:
        """Flush in the background; what fails is tried again after another while."""
        try:
            self.flush()
        except Exception as error:
            log.error("messages of a session are not written yet: %s", error)
            self._arm()
