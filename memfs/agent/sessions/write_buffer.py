"""WriteBuffer: items that wait in memory, in order, to be written in batches."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from memfs.after_fork import after_fork

T = TypeVar("T")

log = logging.getLogger("memfs.agent")
_buffers: "WeakSet[WriteBuffer[Any]]" = WeakSet()  # of this process


def _reset_in_child() -> None:
    """Empty the buffers of a forked child: the parent writes the buffered items."""
    for buffer in list(_buffers):
        buffer.reset()


after_fork(_reset_in_child)


class WriteBuffer(Generic[T]):
    """Items that wait to be written.

    `write` is called with all items, writes as many as it can from the front, and returns how many it wrote.
    The buffer is flushed when `size` counted items are in it, and `interval` seconds after the first item. Items that
    a failed flush did not write stay at the front. No thread runs while the buffer is empty. Thread-safe; a forked
    child starts with an empty buffer.
    """

    def __init__(self, write: Callable[[Sequence[T]], int], size: int, interval: float | None = None) -> None:
        self._write, self._size = write, size
        self._interval = None if interval is None else min(interval, threading.TIMEOUT_MAX)
        self.reset()
        _buffers.add(self)

    def reset(self) -> None:
        """Drop all items, and replace the locks by new ones."""
        self._items: deque[tuple[T, bool]] = deque()  # each with whether it counts towards `size`
        self._lock = threading.Lock()  # protects the items and the timer
        self._flushing = threading.RLock()  # one flush at a time, so that none overtakes another
        self._timer: threading.Timer | None = None

    @property
    def count(self) -> int:
        """The number of counted items in the buffer."""
        with self._lock:
            return sum(counts for _, counts in self._items)

    def add(self, item: T, *, counts: bool = True, replaces: Callable[[T], bool] = lambda _: False) -> None:
        """Add an item, drop the items that it replaces, and flush if the batch is full.

        If that flush raises, the error is raised here, and the item stays in the buffer.
        """
        with self._flushing, self._lock:
            kept = [(old, counted) for old, counted in self._items if not replaces(old)]
            self._items = deque([*kept, (item, counts)])
        if self._size == 1 or self.count >= self._size:
            self.flush()
        else:
            self._start_timer()

    def update(self, change: Callable[[T], T]) -> bool:
        """Replace each item by the result of `change`; return whether any item is a different object now."""
        with self._flushing, self._lock:
            before = list(self._items)
            self._items = deque((change(item), counts) for item, counts in before)
            return any(new[0] is not old[0] for new, old in zip(self._items, before, strict=True))

    def flush(self) -> None:
        """Write all items; if `write` raises, the items that are not written yet stay."""
        with self._flushing:
            self._cancel_timer()
            while batch := self._batch():
                written = self._write(batch)
                with self._lock:
                    for _ in batch[:written]:
                        self._items.popleft()

    def close(self) -> None:
        """Write all items and cancel the timer, also if the write fails, so that no thread is left."""
        try:
            self.flush()
        finally:
            self._cancel_timer()

    def _batch(self) -> list[T]:
        with self._lock:
            return [item for item, _ in self._items]

    def _start_timer(self) -> None:
        """Schedule a flush, unless one is scheduled or the buffer is empty."""
        with self._lock:
            if self._interval is None or self._timer is not None or not self._items:
                return
            self._timer = threading.Timer(self._interval, self._flush_in_background)
            self._timer.name, self._timer.daemon = "memfs-flush", True
            self._timer.start()

    def _cancel_timer(self) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _flush_in_background(self) -> None:
        """Flush; after a failure, try again in `interval` seconds."""
        try:
            self.flush()
        except Exception as error:
            log.error("messages of a session are not written yet: %s", error)
            self._start_timer()
