"""Vault: the entry point of the core. Each method checks its arguments and passes the work to storage or search."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from memfs.data_types import (
    Change,
    Hit,
    IndexStatus,
    Memory,
    Problem,
    Reason,
    Stamp,
    SyncReport,
    Version,
    Written,
    lazy,
)
from memfs.decay import PRUNED_KEY
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    MemfsError,
    MemoryNotFoundError,
    VersionNotFoundError,
)
from memfs.format.edit import canonical_value, changed_tags, edit_and_touch
from memfs.format.frontmatter import parse
from memfs.fs.files import DirectorySync, digest, encode_text
from memfs.fs.gc_pause import gc_paused
from memfs.namespace import ARCHIVE, Namespace, check_file_name, fold
from memfs.protocols import Clock, Embedder, system_clock
from memfs.query.filters import SearchFilters
from memfs.query.question import check_page
from memfs.storage.crash_recovery import late_saves
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.recall_log import RecallLog
from memfs.vault.batch import check_item, write_batch
from memfs.vault.problems import find_problems
from memfs.vault.scope import Scope, has_first_segment
from memfs.vault.search_engine import SearchEngine
from memfs.vault.vault_directory import check_root, create_vault, find_vault, read_settings
from memfs.vault.write_arguments import merge_header, parse_seen

LOCK_TIMEOUT = 10.0  # seconds to wait for other writers of a directory
RETRY_DELAY = 0.02  # seconds until a file that vanished during a write is looked up once more
Memories = list[Memory]  # the class has a method `list`, so its annotations cannot use the built-in
Problems = list[Problem]
Versions = list[Version]
Results = list[Written | MemfsError]
Hits = list[Hit]
Paths = list[str]
Reasons = list[Reason]
HeaderKeys = Mapping[str, Any] | None


class Vault:
    """A directory of memories. Opening one touches nothing; the first write or search creates `.memfs/`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        watch: bool = False,
        lock_timeout: float = LOCK_TIMEOUT,
        clock: Clock = system_clock,
        embedder: Embedder | None = None,
    ) -> None:
        self.root = check_root(root)
        self._files = MemoryFiles(self.root, clock=clock, lock_timeout=lock_timeout)
        self._clock = clock
        self.usage = RecallLog(self.root, clock)  # how often memories are recalled, and searches
        self._engine = SearchEngine(
            self._files, str(self.root), self.usage, clock=clock, settings=self.settings, watch=watch, embedder=embedder
        )
        self._scope = Scope(self._files, self._engine)

    def __repr__(self) -> str:
        return f"Vault({str(self.root)!r})" + (f".scope({str(self.namespace)!r})" if self.namespace.segments else "")

    @classmethod
    def init(cls, root: str | os.PathLike[str]) -> Self:
        """Turn a new or existing directory into a vault: add the missing files, and change no existing one."""
        create_vault(root)
        return cls(root)

    @classmethod
    def find(cls, start: str | os.PathLike[str] = ".") -> Path:
        """Return the nearest vault directory from `start` upwards. Raises VaultNotFoundError if there is none."""
        return find_vault(start)

    def __enter__(self) -> Self:
        self._engine.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the watcher and release the resources of writing and searching; the vault can still be used."""
        self._engine.close()
        self._files.close()
        self.usage.close()

    @lazy
    def settings(self) -> Mapping[str, Any]:
        """Return the settings in `memfs.yaml`."""
        return read_settings(self.root)

    @property
    def namespace(self) -> Namespace:
        """The subtree that this handle can reach."""
        return self._scope.namespace

    def scope(self, namespace: str) -> "Vault":
        """Return a handle on one subtree, whose methods refuse or do not find anything outside it."""
        handle = object.__new__(type(self))
        handle.__dict__.update(self.__dict__)
        handle._scope = self._scope.narrowed(namespace)
        return handle

    # --- reading

    def read(self, ref: str) -> Memory:
        """Read a memory by its id or its path. Raises MemoryNotFoundError."""
        return self._files.read(self._scope.resolve(ref))

    def list(self, namespace: str | None = None, *, archived: bool = False) -> Memories:
        """Return the memories below a namespace, sorted by path; with `archived`, the forgotten memories too."""
        with gc_paused():
            return [found for found in self.walk(namespace, archived=archived) if isinstance(found, Memory)]

    def walk(self, namespace: str | None = None, *, archived: bool = False) -> Iterator[Memory | Problem]:
        """Yield the memories of `list` one by one, and a problem for each unreadable file and directory."""
        return self._scope.walk(namespace, archived=archived)

    def check(self, namespace: str | None = None) -> Problems:
        """Return unreadable files and values and conflicts below a namespace, and the late saves of the whole scope."""
        with self._files.opened() as root:
            late = [path for _, path, _ in late_saves(root) if self._scope.sees(path.split("/"))]
        return find_problems(self.walk(namespace, archived=True), late)

    def versions(self, ref: str) -> Versions:
        """Return the kept versions of a memory, newest first; a deleted memory is found by its path."""
        return self._files.kept_versions(self._scope.resolve(ref, allow_deleted=True))

    # --- searching

    def search(
        self,
        question: str,
        namespace: str | None = None,
        *,
        limit: int | None = 10,
        offset: int = 0,
        min_relevance: float = 0.0,
        explain: bool = False,
        **filters: Unpack[SearchFilters],
    ) -> Hits:
        """Return the memories that match a question best; any text is a question, and a blank one lists the newest."""
        page = check_page(limit, offset, min_relevance)
        return self._engine.search(question, self._scope.make_filter(namespace, filters), page, explain=explain)

    def explain_miss(
        self,
        ref: str,
        question: str,
        *,
        namespace: str | None = None,
        limit: int | None = 10,
        offset: int = 0,
        min_relevance: float = 0.0,
        **filters: Unpack[SearchFilters],
    ) -> Reasons:
        """Return why a memory is not among the hits of such a search, or its position among them."""
        page = check_page(limit, offset, min_relevance)
        return self._engine.explain_miss(self.read(ref), question, self._scope.make_filter(namespace, filters), page)

    def sync(self, progress: Callable[[int, int], None] | None = None) -> SyncReport:
        """Make the index equal the files, as a search does by itself; calls `progress(done, total)`."""
        report = self._engine.sync(progress)
        return replace(report, problems=tuple(self._scope.visible(report.problems)))

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` with each change from now on; return a function that ends the subscription.

        A vault with `watch=True` reports changes within a second, any other when it is searched or synced.
        """
        return self._engine.subscribe(self._scope.namespace, callback)

    def status(self) -> IndexStatus:
        """Return the state of the index; builds nothing."""
        return self._engine.status()

    def doctor(self, *, repair: bool = True) -> Problems:
        """Return every difference between the derived data and the files; `repair` rebuilds the derived data."""
        return self._scope.visible(self._engine.doctor(repair=repair))

    # --- writing

    def add(self, text: str, namespace: str | None = None, *, header: HeaderKeys = None, **keys: Any) -> Written:
        """Add a memory. A text that its namespace already has is not added again: outcome "duplicate".

        Header keys are given as keyword arguments or in `header`, which takes any key, even one such as `namespace`.
        """
        return self._add(DirectorySync(), text, namespace, header=header, **keys)

    def create(self, path: str, text: str | bytes) -> Written:
        """Write a whole file, header included, at a path that ends in `.md`; MemoryExistsError if the name is taken."""
        directory, _, name = path.removeprefix("/").rpartition("/")
        check_file_name(name)
        namespace = self._scope.parse_namespace(directory)
        if has_first_segment((*namespace.segments, name), ARCHIVE, "readme.md"):
            raise InvalidNamespaceError(path, "no new memory can be created there")
        data = text if isinstance(text, bytes) else encode_text(text, "text")
        return self._files.create("/".join((*namespace.segments, name)), data, outcome="created")

    def update(
        self,
        ref: str,
        *,
        body: str | None = None,
        add_tags: Iterable[str] = (),
        remove_tags: Iterable[str] = (),
        seen: Stamp | str | None = None,
        header: HeaderKeys = None,
        **keys: Any,
    ) -> Written:
        """Set header keys (None removes one), tags, or the body; nothing else in the file changes.

        Header keys are given as keyword arguments or in `header`, which takes any key, even one such as `seen`.
        With `seen`, the stamp of the memory when it was read, raises MemoryChangedError if the file changed since.
        """
        return self._update(
            DirectorySync(),
            ref,
            body=body,
            add_tags=add_tags,
            remove_tags=remove_tags,
            seen=seen,
            header=header,
            **keys,
        )

    def append(self, ref: str, text: str) -> Written:
        """Add lines to the end of a memory's body."""
        encode_text(text, "text")

        def change(old: str) -> str:
            body = parse(old).parts.body
            return edit_and_touch(old, {}, body + ("" if not body or body.endswith("\n") else "\n") + text, self._clock)

        return self._rewrite(ref, change, DirectorySync())

    def replace(self, ref: str, text: str, *, seen: Stamp | str) -> Written:
        """Replace a whole file, as an editor does. Raises MemoryChangedError if it changed since `seen`, its stamp."""
        return self._rewrite(ref, lambda _: text, DirectorySync(), seen=parse_seen(seen))

    def forget(self, ref: str, *, seen: Stamp | str | None = None) -> Written:
        """Move a memory to `archive/`, where it stays readable. `seen` as in `update`."""
        written = self._forget(DirectorySync(), ref, parse_seen(seen))
        with suppress(MemfsError):  # raised for a malformed file, which memfs does not rewrite
            if written.outcome == "archived" and PRUNED_KEY in self.read(written.path).header.values:
                # Remove the mark of an earlier pruning: agents may learn a pruned memory again, not a forgotten one.
                written = replace(written, stamp=self.update(written.path, pruned=None).stamp)
        return written

    def remove(self, ref: str, *, seen: Stamp | str | None = None) -> Written:
        """Delete a memory and its kept versions; its words leave the index on `close`. `seen` as in `update`."""
        written = self._files.remove(self._scope.resolve(ref), DirectorySync(), seen=parse_seen(seen))
        self._engine.purge(written.path)
        return written

    def purge(self, change: Callable[[str, bytes], bytes | None], *, purge_index: bool = True) -> Paths:
        """Replace the data of each kept version by `change(path, data)`; None drops the version.

        With `purge_index`, all former texts leave the index when the vault is closed. Returns the paths of memories
        whose previous file another program still has open: its text is deleted once the program has closed it.
        """
        return self._scope.purge(change, purge_index=purge_index)

    def move(self, ref: str, to: str, *, seen: Stamp | str | None = None) -> Written:
        """Move a memory to a namespace, or to a path that ends in `.md`; its id stays. `seen` as in `update`."""
        path = self._scope.resolve(ref)
        name = path.rpartition("/")[2]
        if to.endswith(".md"):
            to, _, name = to.rpartition("/")
        target = self._scope.parse_namespace(to)
        if not target.segments and fold(name) == "readme.md":
            raise InvalidNamespaceError(name, "the README of a vault is no memory")
        return self._files.move(
            path, target.segments, name, outcome="moved", dirty=DirectorySync(), seen=parse_seen(seen)
        )

    def restore(self, ref: str, version: str | None = None) -> Written:
        """Restore a kept version: the newest whose hash starts with `version`, by default the newest unlike the file.

        A deleted memory is found by its path. Raises VersionNotFoundError if no kept version matches.
        """
        path = self._scope.resolve(ref, allow_deleted=True)
        try:
            current: str | None = digest(self._files.read(path).data)
        except MemoryNotFoundError:
            current = None
        for kept in self._files.kept_versions(path):
            if kept.hash.startswith(version) if version else kept.hash != current:
                return self._restore(path, self._files.version_data(path, kept), is_deleted=current is None)
        raise VersionNotFoundError(path, version or "")

    def _restore(self, path: str, data: bytes, *, is_deleted: bool) -> Written:
        if is_deleted:
            return self._files.create(path, data, outcome="restored")
        written = self._files.rewrite(path, lambda _: data.decode(), DirectorySync())
        return Written(written.id, path, "restored", written.stamp)

    # --- batches: each directory is fsynced once per batch, and each item has its own result

    def add_many(self, items: Iterable[Mapping[str, Any]]) -> Results:
        """Add memories: each item has `text`, and optionally the other arguments of `add`."""
        return write_batch(items, lambda sync, item: self._add(sync, **check_item(item, "text")))

    def update_many(self, items: Iterable[Mapping[str, Any]]) -> Results:
        """Update memories: each item has `ref`, and optionally the other arguments of `update`."""
        return write_batch(items, lambda sync, item: self._update(sync, **check_item(item, "ref")))

    def forget_many(self, refs: Iterable[str]) -> Results:
        """Move memories to `archive/`."""
        return write_batch(refs, self._forget)

    def _add(
        self, sync: DirectorySync, /, text: str, namespace: str | None = None, *, header: HeaderKeys = None, **keys: Any
    ) -> Written:
        if header is not None:
            keys = merge_header(header, keys)
        if "id" in keys:
            raise InvalidMemoryError("id", "memfs chooses it")
        target = self._scope.parse_namespace(namespace)
        if has_first_segment(target.segments, ARCHIVE):
            raise InvalidNamespaceError(str(target), "the archive takes forgotten memories, not new ones")
        written = self._files.add(target.segments, text, keys, sync)
        self._scope.cache_path(written.id, written.path)
        return written

    def _update(
        self,
        sync: DirectorySync,
        /,
        ref: str,
        *,
        body: str | None = None,
        add_tags: Iterable[str] = (),
        remove_tags: Iterable[str] = (),
        seen: Stamp | str | None = None,
        header: HeaderKeys = None,
        **keys: Any,
    ) -> Written:
        if header is not None:
            keys = merge_header(header, keys)
        if "id" in keys:
            raise InvalidMemoryError("id", "stays as it is")
        if body is not None:
            encode_text(body, "text")
        added, dropped = canonical_value("tags", [*add_tags]), canonical_value("tags", [*remove_tags])

        def change(old: str) -> str:
            tags = {"tags": changed_tags(old, keys, added, dropped)} if added or dropped else {}
            return edit_and_touch(old, {**keys, **tags}, body, self._clock)

        return self._rewrite(ref, change, sync, seen=parse_seen(seen))

    def _rewrite(
        self, ref: str, change: Callable[[str], str], sync: DirectorySync, *, seen: Stamp | None = None
    ) -> Written:
        """Rewrite a memory; retry once, because it may be moved meanwhile, or an editor may be replacing its file."""
        with suppress(MemoryNotFoundError):
            return self._files.rewrite(self._scope.resolve(ref), change, sync, seen=seen)
        time.sleep(RETRY_DELAY)
        return self._files.rewrite(self._scope.resolve(ref), change, sync, seen=seen)

    def _forget(self, sync: DirectorySync, ref: str, seen: Stamp | None = None) -> Written:
        path = self._scope.resolve(ref)
        *segments, name = path.split("/")
        if has_first_segment(segments, ARCHIVE):
            return Written(self._files.read(path).id, path, "unchanged")
        return self._files.move(path, (ARCHIVE, *segments), name, outcome="archived", dirty=sync, seen=seen)
