"""Finder: searching a vault, put together when it is first asked for something."""

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
    from memfs.search.search import Search
    from memfs.search.semantic.semantic_index import SemanticIndex

LANGUAGE, VECTORS = "english", "vectors"
log = logging.getLogger("memfs")
ENDED = "the watcher ended; searches still find what changes"
PUBLISHED = f"{STATE_DIR}/index/current"


class SearchEngine:
    """Index, freshness and watcher of one vault. Making one opens nothing."""

    def __init__(
        self,
        tree: MemoryFiles,
        root: str,
        usage: RecallLog,
        *,
        clock: Clock,
        settings: Mapping[str, Any],
        watch: bool,
        embedder: Embedder | None = None,
    ) -> None:
        self._files, self._root, self._clock, self._wants_watcher = tree, root, clock, watch
        self._forgetting, self._usage = DecaySettings.from_settings(settings), usage
        retrieval = settings.get("retrieval", {})
        self._language = retrieval.get("language", LANGUAGE)
        self._embedder, self._is_semantic = embedder, embedder is not None or retrieval.get("semantic", False)
        self._mutex = Mutex()
        self._watcher: Watcher | None = None
        self._made: Freshness | None = None
        self._searching: tuple[Search, SemanticIndex | None] | None = None

    @property
    def fresh(self) -> "Freshness":
        """What is known, made once, also by threads that ask at the same time."""
        if self._made is None:
            from memfs.freshness.freshness import Freshness

            with self._mutex:
                if self._made is None:
                    self._made = Freshness(self._files, self._root, language=self._language, clock=self._clock)
        return self._made

    @property
    def _parts(self) -> tuple["Search", "SemanticIndex | None"]:
        """What searches, made once as well."""
        if self._searching is None:
            from memfs.search.search import Search

            with self._mutex:
                if self._searching is None:
                    fresh, meaning = self.fresh, self._meaning() if self._is_semantic else None
                    self._searching = Search(self._files, fresh, self._forgetting, self._usage, meaning), meaning
        return self._searching

    def _meaning(self) -> "SemanticIndex | None":
        """What searches by meaning; where that cannot be had, it is said, and words alone are searched."""
        from memfs.embedding import MISSING_EXTRA_MESSAGE, default_embedder, is_installed

        if (embedder := self._embedder) is None and not is_installed():
            log.warning("%s", MISSING_EXTRA_MESSAGE)
            return None
        from memfs.search.semantic.semantic_index import SemanticIndex

        return SemanticIndex(self._files, self.fresh, default_embedder if embedder is None else lambda: embedder)

    def search(self, question: str, choose: Filter, page: Page, *, explain: bool) -> list[Hit]:
        """The hits of a question."""
        search = self._parts[0].search
        if not log.isEnabledFor(logging.DEBUG):
            return search(question, choose, page, self._clock(), why=explain)
        began = time.perf_counter()
        hits = search(question, choose, page, self._clock(), why=explain)
        taken, now = 1000 * (time.perf_counter() - began), self.status()
        log.debug("search: %d hits in %.2f ms, %d memories known, index %s", len(hits), taken, now.memories, now.where)
        return hits

    def explain_miss(self, memory: Memory, question: str, choose: Filter, page: Page) -> list[Reason]:
        """Why a memory is not among the hits."""
        return self._parts[0].explain_miss(memory, question, choose, page, self._clock())

    def sync(self, progress: "Progress | None" = None) -> SyncReport:
        """Make the index equal the files."""
        with self.fresh.lock:
            report, started = self.fresh.sync(progress), time.monotonic()
            meaning = self._parts[1] if self._is_semantic else None
            if meaning is None:
                return report
            meaning.sync(progress)
            trouble = [Problem(f"{STATE_DIR}/{VECTORS}", 1, meaning.trouble)] if meaning.trouble else []
            seconds = report.seconds + time.monotonic() - started
            return replace(report, seconds=seconds, problems=(*report.problems, *trouble))

    def status(self) -> IndexStatus:
        """How things stand."""
        watcher = self._watcher
        is_alive = watcher is not None and watcher.is_alive
        with self.fresh.lock:
            status = self.fresh.status(watcher.trouble if watcher and is_alive else ENDED if watcher else "")
        ours = str(os.getpid()) if is_alive else ""
        status = replace(status, watcher=status.watcher or ours)
        return self._with_meaning(status) if self._is_semantic else status

    def _with_meaning(self, status: IndexStatus) -> IndexStatus:
        from memfs.embedding import MISSING_EXTRA_MESSAGE, WordEmbedder, is_installed

        if self._embedder is None and not is_installed():
            return replace(status, semantic="missing", trouble=status.trouble or MISSING_EXTRA_MESSAGE)
        trouble = self._searching[1].trouble if self._searching and self._searching[1] else ""
        name = self._embedder.name if self._embedder else WordEmbedder.name
        return replace(status, semantic=name, trouble=status.trouble or trouble)

    def doctor(self, *, repair: bool) -> list[Problem]:
        """Compare what is derived with the files."""
        from memfs.freshness.index_doctor import examine

        with self.fresh.lock:
            return examine(self.fresh, self._files, repair=repair)

    def path_of(self, name: str) -> str | None:
        """The path of a memory with this id, as far as a published index knows."""
        if not self._is_published():
            return None
        with self.fresh.lock:
            return self.fresh.path_of(name)

    def purge(self, path: str | None) -> None:
        """Have no trace of a memory, or of any former text, left in the index once the vault is closed."""
        if self._is_published() or (path is None and self._has_remains()):
            with self.fresh.lock:
                self.fresh.purge(path)
                if path is None and self.fresh.published.index is None:  # what lies there cannot be opened
                    self.fresh.rebuild()

    def _is_published(self) -> bool:
        return self._made is not None or os.path.exists(os.path.join(self._root, PUBLISHED))

    def _has_remains(self) -> bool:
        """Tell whether something lies where indexes do, such as a half-made one."""
        try:
            return bool(os.listdir(os.path.dirname(os.path.join(self._root, PUBLISHED))))
        except OSError:
            return False

    def subscribe(self, scope: Namespace, tell: Callable[[Change], None]) -> Callable[[], None]:
        """Have changes told from now on; calling the answer ends it."""

        def told(change: Change) -> None:
            if seen := _seen_from(scope, change):
                tell(seen)

        fresh = self.fresh
        with fresh.lock:
            fresh.subscribe(told)
        return lambda: fresh.unsubscribe(told)

    # --- the watcher

    def start(self) -> None:
        """Start the watcher, where one is wanted."""
        with self._mutex:
            if self._wants_watcher and self._watcher is None:
                self.fresh.expect_changes()
                self.fresh.is_watching = True
                watcher = Watcher(self._root, wait=self.fresh.wait, look=self._look)
                watcher.start()
                self._watcher = watcher

    def _look(self) -> bool:
        with self.fresh.lock:
            self.fresh.refresh()
            self.fresh.publish_when_calm()
        self.fresh.look_at_all()
        return self.fresh.is_heard

    def close(self) -> None:
        """Stop the watcher, publish what is worth it, and give back what is held."""
        with self._mutex:
            if self._watcher:
                self._watcher.stop()
                self._watcher = None
                self.fresh.is_watching = False
        if fresh := self._made:
            with fresh.lock:
                is_purge_requested = fresh.published.is_purge_requested()
                fresh.close()
                if is_purge_requested and fresh.published.index and not fresh.published.is_purge_requested():
                    self._purge_vectors(fresh.index)

    def _purge_vectors(self, index: "TantivyIndex") -> None:
        """Have no vector left of what is gone; where they cannot be read, have none left at all."""
        folder = os.path.join(self._root, STATE_DIR, VECTORS)
        if not os.path.lexists(folder):
            return
        try:
            from memfs.search.semantic.nearest_vectors import prune
        except ImportError:
            shutil.rmtree(folder, ignore_errors=True)
            return
        with self._files.opened() as root:
            prune(root, index.row_table)


def _seen_from(scope: Namespace, change: Change) -> Change | None:
    """A change as a scope may see it: what comes from outside was created, what goes there was removed."""
    is_here = scope.holds(_place(change.path))
    if change.old_path is None:
        return change if is_here else None
    was_here = scope.holds(_place(change.old_path))
    if is_here:
        return change if was_here else Change("created", change.path)
    return Change("removed", change.old_path) if was_here else None


def _place(path: str) -> tuple[str, ...]:
    """The segments of a path; a forgotten memory lies where it was."""
    segments = tuple(path.split("/"))
    return segments[1:] if fold(segments[0]) == "archive" else segments
