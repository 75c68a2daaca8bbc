"""Freshness: keep the known state of the memories equal to the files.

The known state is the published index plus unpublished changes, which searches include, and which are published when
there are many. Changes are detected by events of an event source, by the journal of writers and of a watcher, and if
there is neither an event source nor a watcher, by a scan of all files.
"""

import os
import time
from collections.abc import Collection, Iterable
from datetime import datetime

from memfs.after_fork import Mutex
from memfs.data_types import IndexStatus, Problem, SyncReport
from memfs.freshness.event_source import EventSource, open_event_source
from memfs.freshness.file_events import NO_EVENTS, FileEvents
from memfs.freshness.index_status import index_status
from memfs.freshness.known_state import KnownState
from memfs.freshness.subscriptions import KnownStamps, Subscriber, Subscriptions
from memfs.freshness.watcher import watcher_of
from memfs.fs.files import STATE_DIR
from memfs.index.publisher import INDEX_DIR, PUBLISH_THRESHOLD, Progress, Publisher
from memfs.index.tantivy_analyzer import Analyzer
from memfs.index.tantivy_index import TantivyIndex
from memfs.index.unpublished_changes import UnpublishedChanges
from memfs.protocols import Clock
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.stat_scan import Changes, Scan, diff, is_memory, scan
from memfs.storage.state_dir import record_scan

MAX_UNPUBLISHED_BYTES = 1 << 26  # with more, a search publishes
MIN_UNPUBLISHED = 20  # a search publishes more changes than this if the index, whose terms rank them, is smaller
PUBLISH_ON_CLOSE = 50  # unpublished changes with which closing a vault publishes
MAX_EVENT_DIRECTORIES = 20  # with events for more directories, everything is scanned
SCAN_SECONDS = 1.0  # between two scans without an event source or a watcher; at least half of it in a watcher
BACKGROUND_SCAN_SECONDS = 30.0  # at least, between two background scans of a watcher
BACKGROUND_SCAN_FACTOR = 200.0  # and at least this many times the duration of the last scan
SOURCE_RETRY_SECONDS = 60.0  # until an event source is opened again, after one could not watch all directories
RECHECK_SECONDS = 5.0  # after a change seen before the watcher: it may be undone before the watcher sees it at all
IDLE_SECONDS_MANY, IDLE_SECONDS_FEW = 2.0, 10.0  # without a new change, until a watcher publishes many or few changes


class Freshness:
    """The known state of one vault's memories. Every method but `wait` and `scan_in_background` requires `lock`."""

    def __init__(self, files: MemoryFiles, root: str, *, language: str, clock: Clock) -> None:
        self.lock = Mutex()
        self.analyzer = Analyzer(language)
        self._subscriptions = Subscriptions()
        self.is_watching = False  # whether this process is a watcher, which reports changes to others in the journal
        self.is_journal_writable = True
        self._files, self._root, self._language, self._clock = files, root, language, clock
        self.source: EventSource | None = None  # in use; None without one, or before the second scan
        self._scan_count = 0
        self._start()

    def _start(self) -> None:
        """Start without any known state; also in a forked process."""
        self._pid = os.getpid()
        self.published = Publisher(self._root, self._files.journal, language=self._language)
        self._known = KnownState(self.published, self.analyzer)
        self.unpublished = self._known.unpublished
        self.last_scan: datetime | None = None
        self._scan_count = min(self._scan_count, 1)  # a forked process continues like its parent
        self.scanned_at = self.scan_seconds = 0.0  # monotonic time and duration of the last scan
        self._changed_at = self._source_retry_at = 0.0
        self._watched_index: TantivyIndex | None = None
        self._recheck_until: dict[str, float] = {}  # path -> end; of changes seen before the watcher reported them

    @property
    def index(self) -> TantivyIndex:
        """The open index; there is one after `refresh`."""
        assert self.published.index is not None
        return self.published.index

    # --- detecting changes

    def refresh(self, progress: Progress | None = None) -> None:
        """Detect changes, so that a search sees the current files; publish many changes, and call subscribers."""
        if self._pid != os.getpid():
            self._start()
        if self.published.index is None:
            self._open_current()
        events, is_current = self.source.poll() if self.source else None, self.published.is_current()
        is_damaged = is_current and (self.source.is_index_overwritten if self.source else self.published.is_damaged())
        is_quiet = events == NO_EVENTS and not self._known.unreadable and not self.published.is_retry_due()
        if is_quiet and is_current and not is_damaged:
            self._notify()
            return  # the journal is not read: an event source reports the writes of memfs too
        try:
            with self._files.opened() as root:
                if not is_damaged or self.published.has_loaded_stamps:
                    self._detect_changes(root, events, progress)  # compares known stamps, without reading the index
                if is_damaged:
                    self.published.discard()
                if not is_current:
                    self._switch_index(root)
                if self.published.index is None:
                    self._scan(root, progress)
                limit = min(PUBLISH_THRESHOLD, max(MIN_UNPUBLISHED, self.index.memory_count))
                is_much = len(self.unpublished) > limit or self.unpublished.total_bytes > MAX_UNPUBLISHED_BYTES
                if (is_much and time.monotonic() > self.published.retry_at) or self.published.is_retry_due():
                    self._publish_unpublished(root, progress)
            self._watch_open_index()
        except BaseException:
            self._close_source()  # events and journal lines that were read are lost: the next refresh scans everything
            self.scanned_at, self._scan_count = -SCAN_SECONDS, max(self._scan_count, 1)
            self._known.follows_watcher = False
            raise
        self._notify()

    def _watch_open_index(self) -> None:
        """Watch the directory of the open index: a write of another program would corrupt our memory map."""
        index = self.published.index
        if self.source and index and index.generation and self._watched_index is not index:
            self._watched_index = index
            self.source.watch_index(index.generation.path)
            if self.published.is_damaged():
                self.published.discard()
                self.refresh()

    def _open_current(self) -> None:
        """Open the published index if it is not the one that is open."""
        if not self.published.is_current():
            self.published.open_published()
            self._drop_published()

    def _open_intact(self) -> None:
        """Open the published index; discard it if it is damaged."""
        self._open_current()
        if self.published.is_damaged():
            self.published.discard()

    def _switch_index(self, root: int) -> None:
        """Open an index that another process published, and read the files of memories for which it differs."""
        before = self.published.stamps() if self.published.has_loaded_stamps else None
        self._open_current()
        if before is not None and self.published.index:
            paths = diff(self.published.stamps(), before).paths
            self._recheck(root, paths)
            self._recheck_later(paths)

    def _recheck_later(self, paths: Iterable[str]) -> None:
        """If this process relies on a watcher, recheck memories that it saw change for RECHECK_SECONDS."""
        if self._known.follows_watcher:
            self._recheck_until |= dict.fromkeys(paths, time.monotonic() + RECHECK_SECONDS)

    def _drop_published(self) -> None:
        """Drop unpublished changes that the index now has."""
        if self.published.index and self.unpublished:
            with self._files.opened() as root:
                changed = self._known.drop_published(root)
                self._recheck_later(changed)
                self._report_changes(root, changed)
        self._known.racy.intersection_update(self.unpublished.entries)

    def _detect_changes(self, root: int, events: FileEvents | None, progress: Progress | None) -> None:
        index, journal, known = self.published.index, self._files.journal, self._known
        if index and index.generation and not self._scan_count and not known.follows_watcher and watcher_of(root):
            known.follows_watcher = journal.start_at(root, index.generation.journal_cursor)
        lines = journal.read(root)
        journaled = None if lines is None else set(lines)
        if index is None or (events and (events.is_incomplete or len(events.directories) > MAX_EVENT_DIRECTORIES)):
            self._scan(root, progress)
        elif events:
            below = [self._paths_below(root, directory) for directory in events.directories]
            self._check(root, set(events.paths).union(journaled or (), *below), progress)
        elif journaled is None or self._is_scan_due(root):
            self._scan(root, progress)
        else:
            now = time.monotonic()
            pending = self._recheck_until.items()
            self._recheck_until = {path: end for path, end in pending if path not in journaled and now < end}
            self._check(root, journaled.union(self._recheck_until), progress)

    def _check(self, root: int, paths: set[str], progress: Progress | None) -> None:
        """Apply the changes of some memories, in the way that is fastest for their number."""
        if len(paths) > max(PUBLISH_THRESHOLD, self.index.memory_count // 2):  # a scan detects a mass removal
            self._scan(root, progress)
        elif len(paths) > PUBLISH_THRESHOLD:
            self._publish_changes(root, [path for path in paths if is_memory(path)], progress)
        else:
            self._recheck(root, paths)

    def _is_scan_due(self, root: int) -> bool:
        """Return whether to scan all files, if there is no event source; a live watcher makes that unnecessary."""
        if self._known.follows_watcher:
            self._known.follows_watcher = self._files.journal.is_present and watcher_of(root) is not None
            return not self._known.follows_watcher
        interval = max(SCAN_SECONDS / 2, 2 * self.scan_seconds) if self.is_watching else SCAN_SECONDS
        return self._scan_count < 2 or time.monotonic() - self.scanned_at >= interval

    def _scan(self, root: int, progress: Progress | None = None) -> tuple[Scan, Changes]:
        """Scan all files and apply the changes. From the second scan on, this process tries to use an event source."""
        is_source_usable = self.source is not None and self.source.is_alive
        if self._scan_count and not is_source_usable and time.monotonic() > self._source_retry_at:
            self._close_source()
            self.source = open_event_source(self._root)
            self._watched_index = None
        is_first = not self._scan_count and not self.unpublished  # later scans compare with the stamps kept in memory
        is_new = self.published.index is None and not self.unpublished
        known = self.index.row_table.directory if is_first and not is_new else None
        self._scan_count += 1
        began = time.monotonic()
        found = scan(root, before_listing=self.source.watch if self.source else None, names_only=is_new, known=known)
        self.scanned_at, self.last_scan = time.monotonic(), self._clock()
        self.scan_seconds = self.scanned_at - began
        if self.source and not self.source.is_alive:  # there are more directories than it can watch
            self._close_source()
            self._source_retry_at = self.scanned_at + SOURCE_RETRY_SECONDS
        changes = self._known.changes_in(found)
        is_many = len(changes.paths) > PUBLISH_THRESHOLD and not self._known.is_mass_removal(
            len(changes.removed) - len(changes.added)
        )
        if self.published.index is None or is_many:
            self._publish_changes(root, changes.paths, progress)
        else:
            self._recheck(root, {*changes.paths, *self._known.racy})
        record_scan(root, self.last_scan.timestamp())
        return found, changes

    def scan_in_background(self, every: float = BACKGROUND_SCAN_SECONDS) -> None:
        """Scan all files if the last scan is long ago, in a watcher: for some changes there is no event.

        The lock is taken after the scan, so that searches do not wait for it.
        """
        began = time.monotonic()
        if began - self.scanned_at < max(every, BACKGROUND_SCAN_FACTOR * self.scan_seconds):
            return
        with self._files.opened() as root:
            found = scan(root)
        took = time.monotonic() - began
        with self.lock, self._files.opened() as root:  # opened again: another vault may be at this path by now
            self.scanned_at, self.scan_seconds, self.last_scan = time.monotonic(), took, self._clock()
            paths = {*self._known.changes_in(found).paths, *self._known.racy}
            if len(paths) > PUBLISH_THRESHOLD:
                self._scan(root)
            else:
                self._recheck(root, paths)
                record_scan(root, self.last_scan.timestamp())
            self._notify()

    def use_event_source(self) -> None:
        """Use an event source from the next scan on, instead of a watcher."""
        self._scan_count, self._known.follows_watcher = max(self._scan_count, 1), False

    def _paths_below(self, root: int, directory: str) -> set[str]:
        """Return the paths of the memories below a directory that are known or exist."""
        present = scan(root, directory, self.source.watch if self.source else None).stamps
        return self._known.paths_below(directory).union(present)

    def recheck(self, paths: Collection[str]) -> None:
        """Read memories again that a search found to differ from the known state."""
        with self._files.opened() as root:
            self._recheck(root, paths)
        self._recheck_later(paths)

    def _recheck(self, root: int, paths: Collection[str]) -> None:
        changed, linked = self._known.recheck(root, paths)
        self._report_changes(root, changed)
        if linked:  # an event has only one of the names of a hard-linked file
            changed, _ = self._known.recheck(root, self._known.other_links(linked))
            self._report_changes(root, changed)

    def _report_changes(self, root: int, changed: Collection[str]) -> None:
        """Record changes for subscribers and, in a watcher, for other processes."""
        if changed:
            self._changed_at = time.monotonic()
            if self.is_watching:  # also paths read from the journal: the file may have changed again since
                self.is_journal_writable = self._files.journal.append(root, changed)
            self._subscriptions.record(changed)

    # --- publishing

    def _publish_changes(self, root: int, paths: Collection[str], progress: Progress | None) -> None:
        """Publish changes that are too many to be searched unpublished."""
        is_all = self.published.index is None
        if self.published.publish(root, {*paths, *self.unpublished.entries}, progress, is_complete=is_all):
            self._drop_published()
            self._recheck(root, self.published.racy_paths)
        else:
            self._recheck(root, paths)

    def _publish_unpublished(self, root: int, progress: Progress | None = None, *, is_requested: bool = False) -> None:
        """Publish the unpublished changes; a mass removal only if it `is_requested`."""
        if is_requested or not self._known.is_mass_removal(self._known.removed_count()):
            self.published.publish(root, [*self.unpublished.entries], progress, wait=is_requested)
            self._drop_published()

    def publish_when_idle(self) -> None:
        """Publish unpublished changes, in a watcher, if no new change came for a while."""
        idle = IDLE_SECONDS_MANY if len(self.unpublished) >= PUBLISH_ON_CLOSE else IDLE_SECONDS_FEW
        due = max(self._changed_at + idle, self.published.retry_at)
        if (self.unpublished or self.published.is_purge_requested()) and time.monotonic() > due:
            with self._files.opened() as root:
                self._publish_unpublished(root)

    # --- subscriptions

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every change that is detected from now on."""
        self.use_event_source()
        self.refresh()
        self._subscriptions.subscribe(subscriber, self._known_stamps())

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop calling a subscriber."""
        self._subscriptions.unsubscribe(subscriber)

    def _notify(self) -> None:
        """Call the subscribers with the changes since the last call."""
        if self._subscriptions.is_due(self.published.index):
            self._subscriptions.notify(self._known_stamps())

    def _known_stamps(self) -> KnownStamps:
        return KnownStamps(self.index, self._known.stamp, self._known.stamps)

    # --- requests of the vault

    def sync(self, progress: Progress | None = None) -> SyncReport:
        """Scan all files, and publish all changes."""
        started = time.monotonic()
        self._open_intact()
        before = self.published.stamps() if self.unpublished else None
        with self._files.opened() as root:
            self._files.journal.read(root)
            found, changes = self._scan(root, progress)
            added, modified, removed = changes if before is None else diff(found.stamps, before)
            if self.unpublished or self.published.is_purge_requested() or self.published.trouble:
                self._publish_unpublished(root, progress, is_requested=True)
        trouble = [Problem(f"{STATE_DIR}/{INDEX_DIR}", 1, self.published.trouble)] if self.published.trouble else []
        self._notify()
        counts = (len(added), len(modified), len(removed), found.memories - len(added) - len(modified))
        return SyncReport(*counts, time.monotonic() - started, (*found.problems, *trouble))

    def rebuild(self, progress: Progress | None = None) -> None:
        """Build a new index from the files."""
        self.unpublished = self._known.unpublished = UnpublishedChanges()
        with self._files.opened() as root:
            self._files.journal.read(root)
            self.published.publish(root, (), progress, wait=True, rebuild=True)

    def purge(self, path: str | None) -> None:
        """Remove all traces of a memory, or of all earlier texts, from the index by the time the vault is closed."""
        self._open_intact()
        self.published.request_purge(path)

    def path_of(self, name: str) -> str | None:
        """Return the path of the memory with this id in the published index; None if it or the index does not exist."""
        self._open_intact()
        return self.published.path_by_id(name)

    def wait(self, timeout: float) -> bool:
        """Wait until there are events; return False if none came in time. Without a source, sleep and return True."""
        source = self.source  # without the lock, which must not be held for so long: another thread may replace it
        if source and source.is_alive:
            return source.wait(timeout)
        time.sleep(timeout)
        return True

    def status(self, trouble: str = "") -> IndexStatus:
        """Return the state of the index; nothing is built or scanned for it."""
        self._open_intact()
        with self._files.opened() as root:
            self._read_journal(root)
            source = self.source.kind if self.source and self.source.is_alive else ""
            return index_status(root, self._root, self._known, source, last_scan=self.last_scan, trouble=trouble)

    def _read_journal(self, root: int) -> None:
        """Apply the changes in the journal since the index was published, if no changes were detected yet."""
        index, journal = self.published.index, self._files.journal
        if (
            index
            and index.generation
            and not self._scan_count
            and journal.start_at(root, index.generation.journal_cursor)
        ):
            self._recheck(root, journal.read(root) or ())

    def _close_source(self) -> None:
        if self.source:
            self.source.close()
            self.source = None

    def close(self) -> None:
        """Publish if there are enough changes or a purge is requested, and close the event source; not in a fork."""
        if self._pid == os.getpid() and self.published.index:
            if len(self.unpublished) >= PUBLISH_ON_CLOSE or self.published.is_purge_requested():
                with self._files.opened() as root:
                    self._publish_unpublished(root)
            self._close_source()
            self._scan_count = 0
