"""Pause the garbage collector while many objects are created that all stay, or that are freed by reference counting.

Collections would scan them and everything else in the process again and again, and find nothing to free.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memfs.after_fork import after_fork

_pausing_threads: set[int] = set()  # threads that found the collector enabled, and disabled it


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the garbage collector in the block, and enable it at the end if it was enabled before.

    If several threads pause it, it is enabled when the first thread that disabled it finishes; that only makes the
    others slower.
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


@after_fork
def _resume_in_child() -> None:
    """Enable the collector in a forked child: the thread that would do so exists only in the parent."""
    if _pausing_threads:
        _pausing_threads.clear()
        gc.enable()
