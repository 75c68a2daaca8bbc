"""Cache of memories that were read: a memory is read again only if the stamp of its file changed."""

import os
import sys
import time
from typing import NamedTuple

from memfs.data_types import Memory, Problem
from memfs.search.snippets import Line
from memfs.storage.stat_scan import StampTuple, is_racy, read_one, stamp_of

MAX_CACHE_BYTES = 32 << 20  # of memory for all entries, about five times the bytes of their files
ENTRY_BYTES = 2500  # of memory for one entry with a short header, beside its text
SHORT_HEADER_CHARS, BYTES_PER_HEADER_CHAR = 200, 24  # a parsed header takes so much for each character beyond that


class CachedMemory(NamedTuple):
    """A memory as it was read, and its body on one line."""

    stamp: StampTuple
    memory: Memory
    line: Line


ReadResult = CachedMemory | Problem | None


class ReadCache:
    """The cached memories of one vault, by path. When an entry does not fit, all others are dropped."""

    def __init__(self, root: str, *, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._prefix = f"{root}/"
        self._entries: dict[str, CachedMemory] = {}
        self._max_bytes = self._free_bytes = max_bytes

    def get(self, path: str, stamp: StampTuple) -> CachedMemory | None:
        """Return the cached memory with this stamp; None if there is none, or its file has another stamp now."""
        entry = self._entries.get(path)
        try:
            if entry and entry[0] == stamp == stamp_of(os.lstat(self._prefix + path)):
                return entry
        except OSError:
            pass  # reading the file reports the error
        return None

    def read(self, root: int, path: str) -> ReadResult:
        """Read a memory and cache it; a Problem if it is unreadable, None if there is none."""
        began = time.time_ns()
        memory = read_one(root, path)
        return self.put(memory, began) if isinstance(memory, Memory) else memory

    def put(self, memory: Memory, began: int) -> CachedMemory:
        """Return a memory whose reading began at this time as an entry.

        It is cached unless it is too large, or its file may have changed since with the same stamp.
        """
        stamp = stamp_of(memory.status)
        entry, body, data = CachedMemory(stamp, memory, Line.from_body(memory.legible)), memory.body, memory.data
        size = ENTRY_BYTES + len(data) + 4 * sys.getsizeof(body)  # the data, the text, the body, and its line twice
        if (header := len(data if body.isascii() else memory.text) - len(body)) > SHORT_HEADER_CHARS:
            size += BYTES_PER_HEADER_CHAR * (header - SHORT_HEADER_CHARS)
        if size < self._max_bytes and not is_racy(memory.status, began, time.time_ns()):
            if size > self._free_bytes:
                self._entries, self._free_bytes = {}, self._max_bytes
            self._entries[memory.path] = entry
            self._free_bytes -= size
        return entry
