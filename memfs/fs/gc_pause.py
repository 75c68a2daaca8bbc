"""Pause: the garbage collector stands still while a great many values are made that all stay, or go by themselves.

It would look at them, and at all else that the process holds, again and again, and find nothing.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memfs.after_fork import after_fork

_pausing_threads: set[int] = set()  # threads that found the collector running, and stopped it


@contextmanager
def gc_paused() -> Iterator[None]:
    """Have no collection in the block; at its end, the collector runs if it did at its beginning.

    Of several threads whoever is first to end lets it run: the others are slower then, and nothing else.
    """
    if not gc.isenabled():
        yield
        return
    thread = threading.get_ident()
    _pausing_threads.add(thread)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _pausing_threads.discard(thread)


def _resume_in_child() -> None:
    """Have it run in a child where the thread that would let it is not there."""
    if _pausing_threads:
        _pausing_threads.clear()
        gc.enable()


after_fork(_resume_in_child)
