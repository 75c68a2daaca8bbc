"""Publishing: the published index that this process has open, and building the next one from it.

One process publishes at a time. If no index can be written, because the disk is full or read-only, this process keeps
an index in memory.
"""

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar

from memfs.data_types import Memory
from memfs.errors import MemfsError
from memfs.fs.files import STATE_DIR, fine_timestamp_device, open_directory
from memfs.fs.locks import release, try_lock
from memfs.index.document_builder import build_document
from memfs.index.generations import CURRENT, PURGE_MARKER, Generation
from memfs.index.row_table import IncompatibleIndexError, IndexDamagedError
from memfs.index.tantivy_index import SCHEMA_VERSION, Edit, TantivyIndex, index_in_memory, open_index, publish
from memfs.namespace import is_conflict_copy, is_utf8_encodable
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.stat_scan import RACY_STAMP, StampTuple, diff, is_racy, read_all, scan
from memfs.storage.state_dir import create_state_dir

PUBLISH_THRESHOLD = 300  # more changes than this are published rather than kept in memory
RETRY_SECONDS = 5.0  # after a failed write of the index; doubles with each failure
MAX_RETRY_SECONDS = 60 * RETRY_SECONDS
LOCK_TIMEOUT = 120.0  # seconds to wait for another process that publishes the index
STALLED_SECONDS = 10.0  # a publishing process without progress for so long counts as stopped
BATCH_SIZE = 16  # memories that are read before the first of them is indexed
PROGRESS_INTERVAL = 500  # memories between two reports of progress
INDEX_DIR = "index"
T = TypeVar("T")
Progress = Callable[[int, int], None]
_OS_ERROR = re.compile(r"([^'\"]+) \(os error \d+\)")  # the system's message inside an error of tantivy
log = logging.getLogger("memfs")


class Publisher:
    """The published index of a vault, open in this process."""

    def __init__(self, root: str, journal: ChangeJournal, *, language: str) -> None:
        self.directory = os.path.join(root, STATE_DIR, INDEX_DIR)
        self._current_path = os.path.join(self.directory, CURRENT)
        self.index: TantivyIndex | None = None  # the open index, on disk or in memory
        self.trouble = ""  # why the index could not be written, empty if it could
        self.retry_at = 0.0  # monotonic time from which a failed write is tried again
        self._retry_delay = RETRY_SECONDS
        self._had_index = False  # this process has opened or published an index of its own format
        self._is_incompatible = False  # the published index has another format
        self._journal, self._language = journal, language
        self.racy_paths: list[str] = []  # just published; may have changed again without a new stamp
        self._opened_current: tuple[int, ...] | None = None  # the state of `current` when the index was opened
        self._stamps: dict[str, StampTuple] | None = None

    def stamps(self) -> dict[str, StampTuple]:
        """Return the stamps of the memories in the index."""
        if self._stamps is None:
            self._stamps = self.index.row_table.stamps() if self.index else {}
        return self._stamps

    def stamps_outside(self, directories: Collection[str]) -> dict[str, StampTuple]:
        """Return the stamps of the memories that are not directly in one of these directories."""
        if not directories or self.index is None:
            return self.stamps()
        table = self.index.row_table
        others = [table.directory(path).stamps() for path in table.directories() if path not in directories]
        return {path: stamp for stamps in others for path, stamp in stamps.items()}

    @property
    def has_loaded_stamps(self) -> bool:
        """Whether the stamps are in memory; reading them is slow."""
        return self._stamps is not None

    def is_damaged(self) -> bool:
        """Return whether the files of the open index changed since it was published."""
        try:
            if self.index and self.index.generation:
                self.index.generation.verify()
        except IndexDamagedError:
            return True
        return False

    def is_current(self) -> bool:
        """Return whether an index is open, and it is the last one that was published."""
        return self.index is not None and self._stat_current() == self._opened_current

    def open_published(self) -> None:
        """Open the published index; a damaged one counts as missing."""
        current = self._stat_current() if self._is_in_vault() else None
        if current is None and self.index and not self.index.generation:
            self._opened_current = current
            return  # the index in memory is used as long as none is on disk
        if current and self._is_open():
            self._opened_current = current
            return  # `current` is rewritten once the files of the previous generation are removed
        self._set_index(None, current)
        while current and self.index is None:
            try:
                self._set_index(open_index(self.directory, self._language), current)
                self._had_index, self._is_incompatible = True, False
            except IndexDamagedError as error:
                log.info("index: %s", error)
                self._is_incompatible = isinstance(error, IncompatibleIndexError)
                current, previous = self._stat_current(), current
                if current == previous:
                    break  # else another index was published meanwhile

    def _is_open(self) -> bool:
        """Return whether the current generation is the open one."""
        with suppress(IndexDamagedError):
            generation = self.index.generation if self.index else None
            return generation is not None and Generation.read(self.directory).name == generation.name
        return False

    def _is_in_vault(self) -> bool:
        """Return whether the index is in the vault: a symlink may lead anywhere."""
        return not os.path.islink(self.directory) and not os.path.islink(os.path.dirname(self.directory))

    def discard(self) -> None:
        """Close the open index, as if none were published."""
        self._set_index(None, self._stat_current())

    def path_by_id(self, memory_id: str) -> str | None:
        """Return the path of a memory by its id, None if the index does not have it."""
        if self.index is None or not is_utf8_encodable(memory_id):
            return None
        with suppress(IndexDamagedError):
            for number in self.index.rows_with_keyword(f"id={memory_id}"):
                path, _ = self.index.row_table.path_and_stamp(number)
                if not is_conflict_copy(path):
                    return path
        return None

    # --- publishing

    def publish(
        self,
        root: int,
        paths: Collection[str],
        progress: Progress | None = None,
        *,
        is_complete: bool = False,
        wait: bool = False,
        rebuild: bool = False,
    ) -> bool:
        """Publish the index with the memories of these paths as they are now.

        With `rebuild`, or if there is no index, it is built from all memories. `is_complete` means that `paths` are all
        memories of the vault. With `wait`, or if no index is open, wait for another process that publishes.

        Return False, with the open index unchanged, if another process is still publishing, or if the index cannot be
        written. If it cannot be written and none is open, or the changes are very many, build an index in memory and
        return True. Whenever it cannot be written, `trouble` has the reason.
        """
        try:
            with self._lock(root, wait=wait or self.index is None):
                if rebuild:
                    self.discard()
                elif not self.is_current():
                    self.open_published()
                if _has_newer_index(self.directory):
                    raise OSError(errno.EEXIST, "a later memfs made it; pip install --upgrade memfs-vault")
                if self._is_incompatible and self._had_index:
                    raise OSError(errno.EEXIST, "another version of memfs, or another language, uses this index")
                self._publish(root, paths, progress, is_complete=is_complete)
        except (OSError, IndexDamagedError, MemfsError) as error:
            if isinstance(error, BlockingIOError) and self.index:
                return False
            self._record_failure(f"the index cannot be written: {_reason(error)}")
            if self.index and len(paths) < PUBLISH_THRESHOLD * 10:
                return False
            edits = self._edits(root, None, sorted(scan(root).stamps), progress)
            self._set_index(index_in_memory(edits, self._language), self._stat_current())
        return True

    def _record_failure(self, trouble: str) -> None:
        """Record why there is no index on disk; retries become less and less frequent."""
        if trouble != self.trouble:
            log.warning("%s", trouble)
            self._retry_delay = RETRY_SECONDS
        self.trouble, self.retry_at = trouble, time.monotonic() + self._retry_delay
        self._retry_delay = min(self._retry_delay * 2, MAX_RETRY_SECONDS)

    def is_retry_due(self) -> bool:
        """Return whether the index could not be written, and it is time to try again."""
        return bool(self.trouble) and time.monotonic() > self.retry_at

    def _publish(self, root: int, paths: Collection[str], progress: Progress | None, *, is_complete: bool) -> None:
        base = self._usable_base()
        is_purge = self.is_purge_requested()
        if base is None:
            with suppress(OSError):  # a memory that is removed from now on requests it again
                os.unlink(os.path.join(self.directory, PURGE_MARKER))
        if base is None and not is_complete:
            paths = scan(root).stamps
        elif base and is_complete:  # another process has built it meanwhile
            paths = diff(scan(root).stamps, self.stamps()).paths
            if not paths:
                return
        self._journal.create(root)
        cursor = "" if self._journal.is_large() or is_purge else self._journal.cursor(root)
        edits = _batched(self._edits(root, base, sorted(paths), progress))
        is_large = len(paths) > PUBLISH_THRESHOLD * 5
        try:
            index = publish(self.directory, base, edits, language=self._language, journal=cursor, is_large=is_large)
        except BaseException:
            if is_purge:
                self._write_purge_marker()
            raise
        self._set_index(index, self._stat_current())
        self.trouble, self._had_index = "", True
        if self._journal.is_large() or is_purge:  # a watcher may have logged names that must not stay
            self._journal.restart(root)

    def _usable_base(self) -> TantivyIndex | None:
        """Return the index to build on; None if none is on disk, it is damaged, or a new one is better."""
        if self.index is None or self.index.generation is None or self._needs_rebuild(self.index):
            return None
        try:
            self.index.generation.verify()
        except IndexDamagedError:
            return None
        return self.index

    def _edits(
        self, root: int, base: TantivyIndex | None, paths: list[str], progress: Progress | None
    ) -> Iterator[Edit]:
        """Yield the edits that update `base`, or fill a new index, with the memories of these paths as they are now."""
        rows, stamps = (base.row_table.rows_by_path(), base.row_table.stamps()) if base else ({}, {})
        fine_device = fine_timestamp_device(self.directory)  # of the vault; another device may be mounted in it
        began = time.time_ns()
        self.racy_paths = []
        for number, (path, found) in enumerate(_batched(read_all(root, paths))):
            if number % PROGRESS_INTERVAL == 0:
                self._report_progress(number, len(paths), progress)
            if isinstance(found, Memory):
                is_sure = found.status.st_dev == fine_device or not is_racy(found.status, began, time.time_ns())
                stamp = None if is_sure else RACY_STAMP
                if stamp:
                    self.racy_paths.append(path)
                if base is None:
                    yield None, build_document(found, stamp)
                elif stamps.get(path) != found.stamp:
                    yield rows.get(path), build_document(found, stamp)
            elif found is None and path in rows:
                yield rows[path], None
        if progress:
            progress(len(paths), len(paths))

    def _report_progress(self, done: int, total: int, progress: Progress | None) -> None:
        """Call `progress`, and touch the directory, so that processes that wait for the lock see progress."""
        with suppress(OSError):
            os.utime(self.directory)
        if progress:
            progress(done, total)

    def _set_index(self, index: TantivyIndex | None, current: tuple[int, ...] | None) -> None:
        self.index, self._opened_current, self._stamps = index, current, None

    def _stat_current(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._current_path, follow_symlinks=False)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_ino

    @contextmanager
    def _lock(self, root: int, *, wait: bool) -> Iterator[None]:
        """Hold the lock of publishing; raise BlockingIOError if another process has it (with `wait`: for too long)."""
        deadline = time.monotonic() + (LOCK_TIMEOUT if wait else 0)
        create_state_dir(root)
        with open_directory(root, (STATE_DIR, INDEX_DIR), create=True) as fd:
            while not try_lock(fd):
                if time.monotonic() >= deadline or time.time() - os.fstat(fd).st_mtime > STALLED_SECONDS:
                    raise BlockingIOError(errno.EAGAIN, "another process is publishing it")
                time.sleep(0.01)
            os.utime(fd)
            try:
                yield
            finally:
                release(fd)

    # --- removing all traces of a memory

    def request_purge(self, path: str | None) -> None:
        """Request that the next index is built from nothing if this one has a row of the path; in any case for None."""
        if self.index and self.index.generation and (path is None or self.index.row_table.has_path(path)):
            self._write_purge_marker()

    def _write_purge_marker(self) -> None:
        with suppress(OSError), open(os.path.join(self.directory, PURGE_MARKER), "wb"):
            pass

    def is_purge_requested(self) -> bool:
        """Return whether the next index must be built from nothing, by a request of any process."""
        return os.path.exists(os.path.join(self.directory, PURGE_MARKER))

    def _needs_rebuild(self, index: TantivyIndex) -> bool:
        """Return whether the index has more dead rows than live ones, or a purge is requested."""
        return index.row_table.dead_count > max(index.row_table.live_count, 1000) or self.is_purge_requested()


def _batched(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items, produced in batches: it is faster to read many and then index many than to alternate."""
    while batch := [*islice(items, BATCH_SIZE)]:
        yield from batch


def _reason(error: Exception) -> str:
    """Return why something failed, without temporary names, which differ each time."""
    found = _OS_ERROR.search(str(error))
    return getattr(error, "strerror", None) or (found[1] if found else str(error))


def _has_newer_index(directory: str) -> bool:
    """Return whether a later version of memfs published the index in this directory."""
    try:
        version = Generation.read(directory).index_format.partition("/")[0]
    except IndexDamagedError:
        return False
    return version.isdecimal() and int(version) > SCHEMA_VERSION
