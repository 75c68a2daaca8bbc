"""Memories that were read, at hand: one whose file is as it was is not read again."""

import os
import sys
import time
from typing import NamedTuple

from memfs.data_types import Memory, Problem
from memfs.search.snippets import Line
from memfs.storage.stat_scan import Marks, is_settled, read_one, stamp_of

ROOM = 32 << 20  # bytes that all on a shelf take, which are about five times those of the files
EACH = 2500  # bytes that one takes beside its text, with a short header
SHORT, RICH = 200, 24  # characters of such a header, and bytes that each one more takes when it is understood


class CachedMemory(NamedTuple):
    """A memory as it was read, and its body on one line."""

    stamp: Marks
    memory: Memory
    line: Line


Read = CachedMemory | Problem | None


class ReadCache:
    """Memories of one vault by path. When there is no room for one more, all others go."""

    def __init__(self, root: str, *, room: int = ROOM) -> None:
        self._start = f"{root}/"
        self._kept: dict[str, CachedMemory] = {}
        self._room = self._free = room

    def get(self, path: str, stamp: Marks) -> CachedMemory | None:
        """A memory that is known by a stamp; None if it is not here, or its file has another stamp."""
        kept = self._kept.get(path)
        try:
            if kept and kept[0] == stamp == stamp_of(os.lstat(self._start + path)):
                return kept
        except OSError:
            pass  # whoever reads it tells why
        return None

    def read(self, root: int, path: str) -> Read:
        """Read a memory, and keep it; None if there is none."""
        began = time.time_ns()
        memory = read_one(root, path)
        return self.put(memory, began) if isinstance(memory, Memory) else memory

    def put(self, memory: Memory, began: int) -> CachedMemory:
        """Keep a memory whose reading began at a time, unless its file may have changed since with the same stamp."""
        stamp = stamp_of(memory.status)
        kept, body, data = CachedMemory(stamp, memory, Line.of(memory.legible)), memory.body, memory.data
        size = EACH + len(data) + 4 * sys.getsizeof(body)  # the text, the body, and its line twice
        if (header := len(data if body.isascii() else memory.text) - len(body)) > SHORT:
            size += RICH * (header - SHORT)
        if size < self._room and is_settled(memory.status, began, time.time_ns()):
            if size > self._free:
                self._kept, self._free = {}, self._room
            self._kept[memory.path] = kept
            self._free -= size
        return kept
