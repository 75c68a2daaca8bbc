"""The known state of the memories: the published index plus unpublished changes, compared with the files."""

import time
from collections.abc import Collection, Mapping

from memfs.data_types import Memory, Problem
from memfs.index.document_builder import conversation_fields, indexed_text
from memfs.index.publisher import Publisher
from memfs.index.tantivy_analyzer import Analyzer
from memfs.index.unpublished_changes import UnpublishedChange, UnpublishedChanges
from memfs.storage.stat_scan import Changes, Scan, StampTuple, diff, is_memory, is_racy, read_all

MASS_REMOVAL = 20  # if more memories than this, and more than half, are missing, the vault may be incomplete


class KnownState:
    """The known memories of one vault, by path. Not thread-safe: the caller holds the lock of Freshness."""

    def __init__(self, published: Publisher, analyzer: Analyzer) -> None:
        self.published, self._analyzer = published, analyzer
        self.unpublished = UnpublishedChanges()
        self.follows_watcher = False  # whether the watcher of another process reports all changes
        self.unreadable: set[str] = set()  # memories to read again
        self.racy: set[str] = set()  # unpublished memories that may have changed again with the same stamp

    def stamp(self, path: str) -> StampTuple | None:
        """Return the known stamp of a memory; None if no memory is known there, () if that is not looked up."""
        if pending := self.unpublished.entries.get(path):
            return pending.memory.stamp if pending.memory else None
        if self.follows_watcher and not self.published.has_loaded_stamps:
            return ()  # equal to no stamp: what a watcher reports counts as changed, without reading the whole index
        return self.published.stamps().get(path)

    def stamps(self) -> Mapping[str, StampTuple]:
        """Return the stamps of all known memories."""
        return self.unpublished.combined_stamps(self.published.stamps())

    def changes_in(self, found: Scan) -> Changes:
        """Return the changes from the known state to a scan; an unreadable memory does not count as removed."""
        changes = diff(found.stamps, self.unpublished.combined_stamps(self.published.stamps_outside(found.unchanged)))
        return changes._replace(removed=[path for path in changes.removed if not found.is_unreadable(path)])

    def paths_below(self, directory: str) -> set[str]:
        """Return the paths of known memories below a directory, including unpublished removals."""
        prefix = f"{directory}/" if directory else ""
        known = (self.published.stamps(), self.unpublished.entries)
        return {path for paths in known for path in paths if path.startswith(prefix)}

    def removed_count(self) -> int:
        """Return how many fewer memories there are than in the published index."""
        return self.unpublished.count_lost(self.published.stamps()) if self.unpublished else 0

    def is_mass_removal(self, removed: int) -> bool:
        """Return whether so many memories are missing that the vault may be incomplete: only `sync` publishes that."""
        return self.published.index is not None and removed > max(MASS_REMOVAL, self.published.index.memory_count // 2)

    def other_links(self, linked: Mapping[int, StampTuple]) -> list[str]:
        """Return the paths of the files in `linked` (inode -> current stamp) that are known with another stamp."""
        return [path for path, stamp in self.stamps().items() if linked.get(stamp[3], stamp) != stamp]

    def recheck(self, root: int, paths: Collection[str]) -> tuple[list[str], Mapping[int, StampTuple]]:
        """Read some memories, and those that were unreadable before, and add the changes to the unpublished ones.

        Return the changed paths, and the stamps of changed files with several hard links, by inode.
        """
        changed: list[str] = []
        linked: dict[int, StampTuple] = {}
        paths, self.unreadable = {*paths, *self.unreadable}, set()
        began = time.time_ns()
        self.racy -= paths
        for path, found in read_all(root, sorted(filter(is_memory, paths))):
            if isinstance(found, Problem):  # unreadable does not mean removed: it is read again later
                self.unreadable.add(path)
                continue
            if found and is_racy(found.status, began, time.time_ns()):
                self.racy.add(path)
            if self._is_changed(path, found):
                self.unpublished.put(path, self._pending(path, found))
                changed.append(path)
                if found and found.status.st_nlink > 1:
                    linked[found.status.st_ino] = found.stamp
        return changed, linked

    def drop_published(self, root: int) -> list[str]:
        """Drop the unpublished changes that the index now has, and return the paths that turned out to be changed.

        Another process may have published later versions of them, so the files are read again.
        """
        stamps, changed = self.published.stamps(), list[str]()
        now = dict(read_all(root, sorted(self.unpublished.entries)))
        for path, found in now.items():
            if isinstance(found, Problem):
                continue
            stamp = found.stamp if found else None
            if is_changed := self._is_changed(path, found):
                changed.append(path)
            if stamps.get(path) == stamp:
                self.unpublished.drop(path)
            elif is_changed:
                self.unpublished.put(path, self._pending(path, found))
        return changed

    def _pending(self, path: str, memory: Memory | None) -> UnpublishedChange:
        """Return a memory as an unpublished change; None is a removal."""
        if memory is None:
            return UnpublishedChange(None)
        is_new = not self.published.has_loaded_stamps or path not in self.published.stamps()
        return UnpublishedChange(
            memory, self._analyzer.terms(indexed_text(memory)), *conversation_fields(memory), is_new
        )

    def _is_changed(self, path: str, found: Memory | None) -> bool:
        """Return whether a memory differs from the known one. Stamps alone may not show it if timestamps are coarse."""
        pending = self.unpublished.entries.get(path)
        if pending and pending.memory and found and pending.memory.data != found.data:
            return True
        return (found.stamp if found else None) != self.stamp(path)
