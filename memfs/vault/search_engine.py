"""The search engine of a vault: index, freshness, semantic index and watcher, each created at its first use."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memfs.after_fork import Mutex
from memfs.data_types import Change, Hit, IndexStatus, Memory, Problem, Reason, SyncReport
from memfs.decay import DecaySettings
from memfs.freshness.watcher import Watcher
from memfs.fs.files import STATE_DIR
from memfs.namespace import Namespace, fold
from memfs.protocols import Clock, Embedder
from memfs.query.filters import Filter
from memfs.query.question import Page
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.recall_log import RecallLog

if TYPE_CHECKING:
    from memfs.freshness.freshness import Freshness
    from memfs.index.publisher import Progress
    from memfs.index.tantivy_index import TantivyIndex
    from memfs.search.search import Searcher
    from memfs.search.semantic.semantic_index import SemanticIndex

DEFAULT_LANGUAGE = "english"
VECTORS_DIR = "vectors"  # as in `vector_file`, which imports numpy
PUBLISHED_INDEX = f"{STATE_DIR}/index/current"
WATCHER_ENDED = "the watcher ended; searches still find what changes"
log = logging.getLogger("memfs")


class SearchEngine:
    """The parts of one vault that search it. Creating one opens nothing."""

    def __init__(
        self,
        files: MemoryFiles,
        root: str,
        recall_log: RecallLog,
        *,
        clock: Clock,
        settings: Mapping[str, Any],
        watch: bool,
        embedder: Embedder | None = None,
    ) -> None:
        self._files, self._root, self._clock, self._wants_watcher = files, root, clock, watch
        self._decay, self._recall_log = DecaySettings.from_settings(settings), recall_log
        retrieval = settings.get("retrieval", {})
        self._language = retrieval.get("language", DEFAULT_LANGUAGE)
        self._embedder, self._is_semantic = embedder, embedder is not None or retrieval.get("semantic", False)
        self._mutex = Mutex()
        self._watcher: Watcher | None = None
        self._freshness: Freshness | None = None
        self._searchers: tuple[Searcher, SemanticIndex | None] | None = None

    @property
    def freshness(self) -> "Freshness":
        """The known state of the vault, created once, even if several threads need it at the same time."""
        if self._freshness is None:
            from memfs.freshness.freshness import Freshness

            with self._mutex:
                if self._freshness is None:
                    self._freshness = Freshness(self._files, self._root, language=self._language, clock=self._clock)
        return self._freshness

    @property
    def searchers(self) -> tuple["Searcher", "SemanticIndex | None"]:
        """The searcher, and the semantic index: None if it is off or not installed. Created once."""
        if self._searchers is None:
            from memfs.search.search import Searcher

            with self._mutex:
                if self._searchers is None:
                    freshness, semantic = self.freshness, self._make_semantic_index() if self._is_semantic else None
                    searcher = Searcher(self._files, freshness, self._decay, self._recall_log, semantic)
                    self._searchers = searcher, semantic
        return self._searchers

    def _make_semantic_index(self) -> "SemanticIndex | None":
        """Return the semantic index; None, and a warning, if its packages are not installed."""
        from memfs.embedding import MISSING_EXTRA_MESSAGE, default_embedder, is_installed

        if (embedder := self._embedder) is None and not is_installed():
            log.warning("%s", MISSING_EXTRA_MESSAGE)
            return None
        from memfs.search.semantic.semantic_index import SemanticIndex

        return SemanticIndex(self._files, self.freshness, default_embedder if embedder is None else lambda: embedder)

    def search(self, question: str, filter_: Filter, page: Page, *, explain: bool) -> list[Hit]:
        """Return the hits of a question; with `explain` each has its reasons."""
        search = self.searchers[0].search
        if not log.isEnabledFor(logging.DEBUG):
            return search(question, filter_, page, self._clock(), with_reasons=explain)
        began = time.perf_counter()
        hits = search(question, filter_, page, self._clock(), with_reasons=explain)
        milliseconds, now = 1000 * (time.perf_counter() - began), self.status()
        message = "search: %d hits in %.2f ms, %d memories known, index %s"
        log.debug(message, len(hits), milliseconds, now.memories, now.where)
        return hits

    def explain_miss(self, memory: Memory, question: str, filter_: Filter, page: Page) -> list[Reason]:
        """Return why a memory is not among the hits, or its position among them."""
        return self.searchers[0].explain_miss(memory, question, filter_, page, self._clock())

    def sync(self, progress: "Progress | None" = None) -> SyncReport:
        """Update the index and the vectors from the files."""
        with self.freshness.lock:
            report, started = self.freshness.sync(progress), time.monotonic()
            semantic = self.searchers[1] if self._is_semantic else None
            if semantic is None:
                return report
            semantic.sync(progress)
            trouble = [Problem(f"{STATE_DIR}/{VECTORS_DIR}", 1, semantic.trouble)] if semantic.trouble else []
            seconds = report.seconds + time.monotonic() - started
            return replace(report, seconds=seconds, problems=(*report.problems, *trouble))

    def status(self) -> IndexStatus:
        """Return the state of the index, the watcher and the semantic index."""
        watcher = self._watcher
        is_alive = watcher is not None and watcher.is_alive
        with self.freshness.lock:
            status = self.freshness.status(
                watcher.trouble if watcher and is_alive else WATCHER_ENDED if watcher else ""
            )
        own_pid = str(os.getpid()) if is_alive else ""
        status = replace(status, watcher=status.watcher or own_pid)
        return self._with_semantic_status(status) if self._is_semantic else status

    def _with_semantic_status(self, status: IndexStatus) -> IndexStatus:
        from memfs.embedding import MISSING_EXTRA_MESSAGE, WordEmbedder, is_installed

        if self._embedder is None and not is_installed():
            return replace(status, semantic="missing", trouble=status.trouble or MISSING_EXTRA_MESSAGE)
        trouble = self._searchers[1].trouble if self._searchers and self._searchers[1] else ""
        name = self._embedder.name if self._embedder else WordEmbedder.name
        return replace(status, semantic=name, trouble=status.trouble or trouble)

    def doctor(self, *, repair: bool) -> list[Problem]:
        """Return the differences between the derived data and the files; `repair` rebuilds the derived data."""
        from memfs.freshness.index_doctor import examine

        with self.freshness.lock:
            return examine(self.freshness, self._files, repair=repair)

    def path_of(self, memory_id: str) -> str | None:
        """Return the path of the memory with this id according to the published index; None if it is not there."""
        if not self._may_have_index():
            return None
        with self.freshness.lock:
            return self.freshness.path_of(memory_id)

    def purge(self, path: str | None) -> None:
        """Request that all traces of a memory (None: of all former texts) leave the index when the vault is closed."""
        if self._may_have_index() or (path is None and self._has_index_files()):
            with self.freshness.lock:
                self.freshness.purge(path)
                if path is None and self.freshness.published.index is None:  # the files cannot be opened as an index
                    self.freshness.rebuild()

    def _may_have_index(self) -> bool:
        """Return whether an index may be open or published, without opening one."""
        return self._freshness is not None or os.path.exists(os.path.join(self._root, PUBLISHED_INDEX))

    def _has_index_files(self) -> bool:
        """Return whether the index directory has any files, such as those of an unfinished index."""
        try:
            return bool(os.listdir(os.path.dirname(os.path.join(self._root, PUBLISHED_INDEX))))
        except OSError:
            return False

    def subscribe(self, scope: Namespace, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` with each change in a scope from now on; return a function that ends the subscription."""

        def on_change(change: Change) -> None:
            if visible := _change_in_scope(scope, change):
                callback(visible)

        freshness = self.freshness
        with freshness.lock:
            freshness.subscribe(on_change)
        return lambda: freshness.unsubscribe(on_change)

    # --- the watcher

    def start(self) -> None:
        """Start the watcher if the vault was opened with `watch=True`."""
        with self._mutex:
            if self._wants_watcher and self._watcher is None:
                self.freshness.use_event_source()
                self.freshness.is_watching = True
                watcher = Watcher(self._root, wait=self.freshness.wait, refresh=self._check_for_changes)
                watcher.start()
                self._watcher = watcher

    def _check_for_changes(self) -> bool:
        """Refresh the known state, publish it when no more changes come, and return whether the journal has them."""
        with self.freshness.lock:
            self.freshness.refresh()
            self.freshness.publish_when_idle()
        self.freshness.scan_in_background()
        return self.freshness.is_journal_writable

    def close(self) -> None:
        """Stop the watcher, publish unpublished changes if there are enough, and release all resources."""
        with self._mutex:
            if self._watcher:
                self._watcher.stop()
                self._watcher = None
                self.freshness.is_watching = False
        if freshness := self._freshness:
            with freshness.lock:
                is_purge_requested = freshness.published.is_purge_requested()
                freshness.close()
                if is_purge_requested and freshness.published.index and not freshness.published.is_purge_requested():
                    self._purge_vectors(freshness.index)  # closing has built an index without the purged texts

    def _purge_vectors(self, index: "TantivyIndex") -> None:
        """Remove the vectors of memories that are not in the index; all vectors if numpy is not installed."""
        directory = os.path.join(self._root, STATE_DIR, VECTORS_DIR)
        if not os.path.lexists(directory):
            return
        try:
            from memfs.search.semantic.nearest_vectors import prune_vector_files
        except ImportError:
            shutil.rmtree(directory, ignore_errors=True)
            return
        with self._files.opened() as root:
            prune_vector_files(root, index.row_table)


def _change_in_scope(scope: Namespace, change: Change) -> Change | None:
    """Return a change as a scope sees it: a move into it is a creation, a move out of it a removal."""
    is_inside = scope.holds(_segments(change.path))
    if change.old_path is None:
        return change if is_inside else None
    was_inside = scope.holds(_segments(change.old_path))
    if is_inside:
        return change if was_inside else Change("created", change.path)
    return Change("removed", change.old_path) if was_inside else None


def _segments(path: str) -> tuple[str, ...]:
    """Return the segments of a path, without a leading `archive`."""
    segments = tuple(path.split("/"))
    return segments[1:] if fold(segments[0]) == "archive" else segments
