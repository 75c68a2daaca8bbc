"""Freshness: what is known of the memories, made equal to the files. The only room that knows both.

Known is the published index, and on top of it the overlay: changes that are searched at once and published
when there are many. Changes are learned from the journal of our own writes, from the kernel or a watcher, and
where neither tells, from a look at every file.
"""

import os
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from memfs.after_fork import Mutex
from memfs.data_types import IndexStatus, Memory, Problem, SyncReport
from memfs.freshness.inotify_source import NOTHING, EventSource, Noticed, notices
from memfs.freshness.subscriptions import Known, Subscriptions, Told
from memfs.freshness.watcher import watcher_of
from memfs.fs.files import STATE_DIR
from memfs.index.document_builder import conversation_fields, indexed_text
from memfs.index.publisher import INDEX_DIR, PUBLISH_THRESHOLD, Progress, Publisher
from memfs.index.tantivy_analyzer import Analyzer
from memfs.index.tantivy_index import TantivyIndex
from memfs.index.unpublished_changes import UnpublishedChange, UnpublishedChanges
from memfs.protocols import Clock
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.stat_scan import Changes, Marks, Scan, diff, is_memory, is_settled, read_all, scan
from memfs.storage.state_dir import last_scan, note_scan

MUCH = 1 << 26  # bytes of pending memories, with which a search publishes as well
SOME = 50  # pending changes that are worth publishing when a vault is closed
FEW = 20  # memories that may go at once without a doubt
STALE = 1.0  # seconds between two looks at every file where nobody tells of changes; half of them for a watcher
PASS, SHARE = 30.0, 200.0  # seconds between two looks at every file of a watcher, and as many times what one takes
UNTOLD = 60.0  # seconds until the kernel is asked again to watch more directories than it would
AHEAD = 5.0  # seconds in which a change that was seen before a watcher told of it may be undone, and never be told
CALM, LONG = 2.0, 10.0  # seconds without a change, until many or few pending ones are published by a watcher


class Freshness:
    """What is known of one vault's memories. Every method but `wait` and `look_at_all` wants `lock` held."""

    def __init__(self, tree: MemoryFiles, root: str, *, language: str, clock: Clock) -> None:
        self.lock = Mutex()
        self.analyzer = Analyzer(language)
        self._news = Subscriptions()
        self.is_watching = False  # whether this process tells others
        self.is_heard = True  # whether it could
        self._tree, self._root, self._language, self._clock = tree, root, language, clock
        self._source: EventSource | None = None
        self._looks = 0
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self.published = Publisher(self._root, self._tree.journal, language=self._language)
        self.unpublished = UnpublishedChanges()
        self.last_scan: datetime | None = None
        self._is_told = False  # by the watcher of another process
        self._looks = min(self._looks, 1)  # a forked process goes on as its parent did
        self._looked = self._took = self._changed = self._untold = 0.0
        self._guarded: TantivyIndex | None = None
        self._unread: set[str] = set()
        self._young: set[str] = set()  # pending memories that may have changed again, and have the same stamp
        self._ahead: dict[str, float] = {}  # what was seen before the watcher told of it, and until when it is in doubt

    @property
    def index(self) -> TantivyIndex:
        assert self.published.index is not None
        return self.published.index

    # --- learning what changed

    def refresh(self, progress: Progress | None = None) -> None:
        """Learn what changed, so that a search is right."""
        if self._pid != os.getpid():
            self._start()
        if self.published.index is None:
            self._adopt()
        noticed, is_current = self._source.poll() if self._source else None, self.published.is_current()
        is_spoiled = is_current and (self._source.is_spoiled if self._source else self.published.is_damaged())
        if (
            not is_spoiled
            and is_current
            and noticed == NOTHING
            and not self._unread
            and not self.published.is_retry_due()
        ):
            self._tell()
            return  # the kernel tells of our own writes too
        try:
            with self._tree.opened() as root:
                if not is_spoiled or self.published.has_loaded_stamps:
                    self._learn(root, noticed, progress)  # what is known tells what changed; the index is not asked
                if is_spoiled:
                    self.published.discard()
                if not is_current:
                    self._follow(root)
                if self.published.index is None:
                    self._look(root, progress)
                few = min(PUBLISH_THRESHOLD, max(FEW, self.index.memory_count))  # with more, their words count less
                is_much = len(self.unpublished) > few or self.unpublished.total_bytes > MUCH
                if (is_much and time.monotonic() > self.published.retry_at) or self.published.is_retry_due():
                    self._publish_pending(root, progress)
            self._guard()
        except BaseException:
            self._close_source()  # what it told, and the journal, is lost: the next one looks at everything
            self._looked, self._looks, self._is_told = -STALE, max(self._looks, 1), False
            raise
        self._tell()

    def _guard(self) -> None:
        """Have the kernel tell if the open index is written into, which would pull the ground from under it."""
        index = self.published.index
        if self._source and index and index.generation and self._guarded is not index:
            self._guarded = index
            self._source.guard(index.generation.path)
            if self.published.is_damaged():
                self.published.discard()
                self.refresh()

    def _adopt(self) -> None:
        if not self.published.is_current():
            self.published.open_published()
            self._settle()

    def _follow(self, root: int) -> None:
        """Go over to what another process published; where that knows otherwise than we did, the files decide."""
        before = self.published.stamps() if self.published.has_loaded_stamps else None
        self._adopt()
        if before is not None and self.published.index:
            paths = diff(self.published.stamps(), before).paths
            self._consider(root, paths)
            self._look_again(paths)

    def _look_again(self, paths: Iterable[str]) -> None:
        """Have memories looked at for a while which this process saw change, where it relies on being told."""
        if self._is_told:
            self._ahead |= dict.fromkeys(paths, time.monotonic() + AHEAD)

    def _open(self) -> None:
        """Have the published index open, and whole."""
        self._adopt()
        if self.published.is_damaged():
            self.published.discard()

    def _settle(self) -> None:
        """Let go of pending changes that the index has; it may have later ones, so the files are asked again."""
        if self.published.index and self.unpublished:
            stamps, learned = self.published.stamps(), list[str]()
            with self._tree.opened() as root:
                now = dict(read_all(root, sorted(self.unpublished.entries)))
                for path, found in now.items():
                    if isinstance(found, Problem):
                        continue
                    stamp = found.stamp if found else None
                    if is_other := self._is_other(path, found):
                        learned.append(path)
                    if stamps.get(path) == stamp:
                        self.unpublished.drop(path)
                    elif is_other:
                        self.unpublished.put(path, self._pending(path, found))
                self._look_again(learned)
                self._hand_on(root, learned)
        self._young.intersection_update(self.unpublished.entries)

    def _pending(self, path: str, memory: Memory | None) -> UnpublishedChange:
        if memory is None:
            return UnpublishedChange(None)
        is_new = not self.published.has_loaded_stamps or path not in self.published.stamps()
        return UnpublishedChange(
            memory, self.analyzer.terms(indexed_text(memory)), *conversation_fields(memory), is_new
        )

    def _learn(self, root: int, noticed: Noticed | None, progress: Progress | None) -> None:
        index, journal = self.published.index, self._tree.journal
        if index and index.generation and not self._looks and not self._is_told and watcher_of(root):
            self._is_told = journal.start_at(root, index.generation.journal_cursor)
        lines = journal.read(root)
        heard = None if lines is None else set(lines)
        if index is None or (noticed and noticed.lost) or (noticed and len(noticed.folders) > FEW):
            self._look(root, progress)
        elif noticed:
            places = [self._below(root, place) for place in noticed.folders]
            self._take(root, set(noticed.paths).union(heard or (), *places), progress)
        elif heard is None or self._must_look(root):
            self._look(root, progress)
        else:
            now = time.monotonic()
            self._ahead = {path: end for path, end in self._ahead.items() if path not in heard and now < end}
            self._take(root, heard.union(self._ahead), progress)

    def _take(self, root: int, paths: set[str], progress: Progress | None) -> None:
        """Look at what may have changed, in the way that is short for so much of it."""
        if len(paths) > max(PUBLISH_THRESHOLD, self.index.memory_count // 2):  # so many may be gone, which a look tells
            self._look(root, progress)
        elif len(paths) > PUBLISH_THRESHOLD:
            self._take_many(root, [path for path in paths if is_memory(path)], progress)
        else:
            self._consider(root, paths)

    def _must_look(self, root: int) -> bool:
        """Tell whether to look at every file, where the kernel tells nothing."""
        if self._is_told:
            self._is_told = self._tree.journal.is_there and watcher_of(root) is not None
            return not self._is_told
        stale = max(STALE / 2, 2 * self._took) if self.is_watching else STALE
        return self._looks < 2 or time.monotonic() - self._looked >= stale

    def _look(self, root: int, progress: Progress | None = None) -> tuple[Scan, Changes]:
        """Look at every file. A process that looks twice has the kernel tell it from then on."""
        if self._looks and not (self._source and self._source.is_alive) and time.monotonic() > self._untold:
            self._close_source()
            self._source = notices(self._root)
            self._guarded = None
        is_brief = not self._looks and not self.unpublished  # who looks again keeps what is known
        is_new = self.published.index is None and not self.unpublished
        known = self.index.row_table.directory if is_brief and not is_new else None
        self._looks += 1
        began = time.monotonic()
        found = scan(root, before=self._source.watch if self._source else None, names_only=is_new, known=known)
        self._looked, self.last_scan = time.monotonic(), self._clock()
        self._took = self._looked - began
        if self._source and not self._source.is_alive:  # there are more directories than it may watch
            self._close_source()
            self._untold = self._looked + UNTOLD
        changes = self._differing(found)
        is_many = len(changes.paths) > PUBLISH_THRESHOLD and not self._is_doubtful(
            len(changes.removed) - len(changes.added)
        )
        if self.published.index is None or is_many:
            self._take_many(root, changes.paths, progress)
        else:
            self._consider(root, {*changes.paths, *self._young})
        note_scan(root, self.last_scan.timestamp())
        return found, changes

    def look_at_all(self, every: float = PASS) -> None:
        """Look at every file now and then, in the background of a watcher: of some changes nobody tells. The lock is
        taken when all is looked at, so that who searches meanwhile does not wait."""
        began = time.monotonic()
        if began - self._looked < max(every, SHARE * self._took):
            return
        with self._tree.opened() as root:
            found = scan(root)
        took = time.monotonic() - began
        with self.lock, self._tree.opened() as root:  # another vault may be in its place by now
            self._looked, self._took, self.last_scan = time.monotonic(), took, self._clock()
            paths = {*self._differing(found).paths, *self._young}
            if len(paths) > PUBLISH_THRESHOLD:
                self._look(root)
            else:
                self._consider(root, paths)
                note_scan(root, self.last_scan.timestamp())
            self._tell()

    def expect_changes(self) -> None:
        """Have the kernel tell from the first look on."""
        self._looks, self._is_told = max(self._looks, 1), False

    def _differing(self, found: Scan) -> Changes:
        changes = diff(found.stamps, self.unpublished.combined_stamps(self.published.stamps_outside(found.same)))
        return changes._replace(removed=[path for path in changes.removed if not found.hides(path)])

    def _below(self, root: int, place: str) -> set[str]:
        """The memories that are, or were, below a directory."""
        start = f"{place}/" if place else ""
        known = (self.published.stamps(), self.unpublished.entries)
        were = {path for paths in known for path in paths if path.startswith(start)}
        return were.union(scan(root, place, self._source.watch if self._source else None).stamps)

    def consider(self, paths: Collection[str]) -> None:
        """Look at some memories, which turned out to be other than they are known."""
        with self._tree.opened() as root:
            self._consider(root, paths)
        self._look_again(paths)

    def _consider(self, root: int, paths: Collection[str]) -> None:
        """Look at some memories, and take in those that are not as they are known."""
        if linked := self._take_in(root, paths):  # the kernel told of the name that was used
            known = self._stamps().items()
            self._take_in(root, [path for path, stamp in known if linked.get(stamp[3], stamp) != stamp])

    def _take_in(self, root: int, paths: Collection[str]) -> Mapping[int, Marks]:
        """The same, but for other names of a file: those files, by inode."""
        learned: list[str] = []
        linked: dict[int, Marks] = {}  # files with several names, by inode
        paths, self._unread = {*paths, *self._unread}, set()
        began = time.time_ns()
        self._young -= paths
        for path, found in read_all(root, sorted(filter(is_memory, paths))):
            if isinstance(found, Problem):  # not readable is not gone: it is tried again
                self._unread.add(path)
                continue
            if found and not is_settled(found.status, began, time.time_ns()):
                self._young.add(path)
            if self._is_other(path, found):
                self.unpublished.put(path, self._pending(path, found))
                learned.append(path)
                if found and found.status.st_nlink > 1:
                    linked[found.status.st_ino] = found.stamp
        self._hand_on(root, learned)
        return linked

    def _hand_on(self, root: int, learned: Collection[str]) -> None:
        """Have those told of changes who rely on this process."""
        if learned:
            self._changed = time.monotonic()
            if self.is_watching:  # also what it heard itself: the file may have changed once more since
                self.is_heard = self._tree.journal.note(root, learned)
            self._news.note(learned)

    def _is_other(self, path: str, found: Memory | None) -> bool:
        """Tell whether a memory is not as it is known; where times are coarse, a stamp alone does not show it."""
        pending = self.unpublished.entries.get(path)
        if pending and pending.memory and found and pending.memory.data != found.data:
            return True
        return (found.stamp if found else None) != self._stamp(path)

    def _stamp(self, path: str) -> Marks | None:
        """The stamp that a memory is known with."""
        if pending := self.unpublished.entries.get(path):
            return pending.memory.stamp if pending.memory else None
        if self._is_told and not self.published.has_loaded_stamps:
            return ()  # unlike any: what a watcher tells of is taken in without reading all of the index
        return self.published.stamps().get(path)

    def _stamps(self) -> Mapping[str, Marks]:
        """The stamps of all memories that are known."""
        return self.unpublished.combined_stamps(self.published.stamps())

    # --- publishing

    def _take_many(self, root: int, paths: Collection[str], progress: Progress | None) -> None:
        """Publish so many changes that this is the shortest way to search them."""
        is_all = self.published.index is None
        if self.published.publish(root, {*paths, *self.unpublished.entries}, progress, is_complete=is_all):
            self._settle()
            self._consider(root, self.published.racy_paths)
        else:
            self._consider(root, paths)

    def _is_doubtful(self, gone: int) -> bool:
        """Tell whether so much is gone that the vault is perhaps not all there: that is not published by itself."""
        return gone > FEW and gone > self.index.memory_count // 2

    def _lost(self) -> int:
        """How many fewer memories there are than the index has."""
        return self.unpublished.count_lost(self.published.stamps()) if self.unpublished else 0

    def _doubt(self) -> str:
        gone = self._lost()
        if not self.published.index or not self._is_doubtful(gone):
            return ""
        return f"{gone} of {self.index.memory_count} memories are gone at once; `memfs sync` if that is right"

    def _unwritable(self) -> str:
        places = (self.published.folder, os.path.join(self._root, STATE_DIR), self._root)
        place = next(filter(os.path.exists, places), self._root)
        if self.published.index or os.access(place, os.W_OK | os.X_OK):
            return ""
        where = "here" if place == self._root else f"in {os.path.relpath(place, self._root)}"
        return f"nothing can be written {where}; who searches makes an index in memory"

    def _publish_pending(self, root: int, progress: Progress | None = None, *, is_asked: bool = False) -> None:
        if is_asked or not self._is_doubtful(self._lost()):
            self.published.publish(root, [*self.unpublished.entries], progress, wait=is_asked)
            self._settle()

    def publish_when_calm(self) -> None:
        """Publish pending changes once none came for a while, in the background of a watcher."""
        now = time.monotonic()
        wait = CALM if len(self.unpublished) >= SOME else LONG
        if (self.unpublished or self.published.is_purge_requested()) and now > max(
            self._changed + wait, self.published.retry_at
        ):
            with self._tree.opened() as root:
                self._publish_pending(root)

    # --- telling

    def subscribe(self, told: Told) -> None:
        """Have one more told of what changes from now on."""
        self.expect_changes()
        self.refresh()
        self._news.subscribe(told, self._known())

    def unsubscribe(self, told: Told) -> None:
        """Tell this one no more."""
        self._news.unsubscribe(told)

    def _tell(self) -> None:
        """Tell who subscribed what is known otherwise than they were told."""
        if self._news.is_due(self.published.index):
            self._news.tell(self._known())

    def _known(self) -> Known:
        return Known(self.index, self._stamp, self._stamps)

    # --- what others ask for

    def sync(self, progress: Progress | None = None) -> SyncReport:
        """Look at every file, and publish all that changed."""
        started = time.monotonic()
        self._open()
        before = self.published.stamps() if self.unpublished else None
        with self._tree.opened() as root:
            self._tree.journal.read(root)
            found, changes = self._look(root, progress)
            added, modified, removed = changes if before is None else diff(found.stamps, before)
            if self.unpublished or self.published.is_purge_requested() or self.published.trouble:
                self._publish_pending(root, progress, is_asked=True)
        trouble = [Problem(f"{STATE_DIR}/{INDEX_DIR}", 1, self.published.trouble)] if self.published.trouble else []
        self._tell()
        counts = (len(added), len(modified), len(removed), found.memories - len(added) - len(modified))
        return SyncReport(*counts, time.monotonic() - started, (*found.problems, *trouble))

    def rebuild(self, progress: Progress | None = None) -> None:
        """Build the index anew."""
        self.unpublished = UnpublishedChanges()
        with self._tree.opened() as root:
            self._tree.journal.read(root)
            self.published.publish(root, (), progress, wait=True, rebuild=True)

    def purge(self, path: str | None) -> None:
        """Have no trace of a memory, or of any former text, left in the index once the vault is closed."""
        self._open()
        self.published.request_purge(path)

    def path_of(self, name: str) -> str | None:
        """The path of a memory by its id, as far as the published index knows; nothing is built for it."""
        self._open()
        return self.published.path_by_id(name)

    def wait(self, timeout: float) -> bool:
        """Wait until something may have changed; False if nothing was told within the time."""
        source = self._source  # without the lock, which nobody may hold for so long
        if source and source.is_alive:
            return source.wait(timeout)
        time.sleep(timeout)
        return True

    def status(self, trouble: str = "") -> IndexStatus:
        """How things stand; nothing is built or looked at for it."""
        self._open()
        with self._tree.opened() as root:
            self._hear(root)
            watcher, scanned = watcher_of(root) or "", last_scan(root)
        index = self.published.index
        told = self._source.kind if self._source and self._source.is_alive else "watcher" if watcher else "scan"
        return IndexStatus(
            generation=index.generation.name if index and index.generation else "",
            memories=index.memory_count if index else 0,
            pending=len(self.unpublished),
            where="none" if index is None else "disk" if index.generation else "memory",
            watcher=watcher,
            notices=told,
            last_scan=scanned or self.last_scan,
            trouble=trouble or self.published.trouble or self._doubt() or self._unwritable(),
        )

    def _hear(self, root: int) -> None:
        """Take in what the journal tells since the index was published, if nothing was learned yet."""
        index, journal = self.published.index, self._tree.journal
        if index and index.generation and not self._looks and journal.start_at(root, index.generation.journal_cursor):
            self._consider(root, journal.read(root) or ())

    def _close_source(self) -> None:
        if self._source:
            self._source.close()
            self._source = None

    def close(self) -> None:
        """Publish what is worth it, and give back what is held."""
        if self._pid == os.getpid() and self.published.index:
            if len(self.unpublished) >= SOME or self.published.is_purge_requested():
                with self._tree.opened() as root:
                    self._publish_pending(root)
            self._close_source()
            self._looks = 0
