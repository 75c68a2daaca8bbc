"""Vault: the front door of the core."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
from memfs.decay import PRUNED
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    InvalidSearchError,
    MemfsError,
    MemoryNotFoundError,
    SettingsError,
    VaultNotFoundError,
    VersionNotFoundError,
)
from memfs.format.edit import canonical, retagged, revise
from memfs.format.frontmatter import parse
from memfs.fs.files import STATE, Dirty, digest, encode, open_root, read, worded, write
from memfs.fs.gc_pause import paused
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, check_name, fold
from memfs.protocols import Clock, Embedder, system_clock
from memfs.query.filters import Filter
from memfs.query.question import check_page
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.recall_log import RecallLog
from memfs.storage.state_dir import make
from memfs.vault import settings
from memfs.vault.problems import check
from memfs.vault.scope import Scope, is_below
from memfs.vault.search_engine import SearchEngine

LOCK_TIMEOUT = 10.0
UTF8 = "Set PYTHONUTF8=1, or LC_ALL to a locale with UTF-8 such as C.UTF-8."
Memories = list[Memory]
Problems = list[Problem]
Versions = list[Version]
Results = list[Written | MemfsError]
Hits = list[Hit]
Paths = list[str]
Reasons = list[Reason]
FILTERS = {"type", "tags", "status", "not_status", "created", "updated", "valid", "where", "include"}
FILES = {
    settings.NAME: f"version: {settings.VERSION}\n",
    ".gitignore": f"{STATE}/\n",
    ".gitattributes": f"{SESSIONS}/**/*.jsonl merge=union\n*.md merge=memfs\n",
}


class Vault:
    """A directory of memories. Opening one touches nothing; the first write or search makes `.memfs/`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        watch: bool = False,
        lock_timeout: float = LOCK_TIMEOUT,
        clock: Clock = system_clock,
        embedder: Embedder | None = None,
    ) -> None:
        if (names := sys.getfilesystemencoding()) != "utf-8":  # what it cannot spell is misread, and written wrong
            raise SettingsError("the locale", f"has {names} names of files, a vault UTF-8").with_hint(UTF8)
        self.root = Path(os.path.abspath(root))
        if not self.root.is_dir():
            raise VaultNotFoundError(str(root))
        self._tree = MemoryFiles(self.root, clock=clock, lock_timeout=lock_timeout)
        self._clock = clock
        self.usage = RecallLog(self.root, clock)
        self._finder = SearchEngine(
            self._tree, str(self.root), self.usage, clock=clock, settings=self.settings, watch=watch, embedder=embedder
        )
        self._scope = Scope(self._tree, self._finder)

    def __repr__(self) -> str:
        return f"Vault({str(self.root)!r})" + (f".scope({str(self.namespace)!r})" if self.namespace.segments else "")

    @classmethod
    def init(cls, root: str | os.PathLike[str]) -> Self:
        """Make a vault of a directory, new or not. Adds what is missing, changes nothing that is there."""
        try:
            os.makedirs(root, exist_ok=True)
            fd = open_root(Path(root))
            try:
                make(fd)
                for name, text in FILES.items():
                    with suppress(FileExistsError):
                        write(fd, name, text.encode())
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise worded(str(root), error) from error
        return cls(root)

    @classmethod
    def find(cls, start: str | os.PathLike[str] = ".") -> Path:
        """The nearest directory from `start` upwards that is a vault."""
        here = Path(os.path.abspath(start))
        for folder in (here, *here.parents):
            if (folder / settings.NAME).is_file() or (folder / STATE).is_dir():
                return folder
        raise VaultNotFoundError(str(here))

    def __enter__(self) -> Self:
        self._finder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the watcher, and give back what writing and searching hold; the vault can still be used."""
        self._finder.close()
        self._tree.close()
        self.usage.close()

    @lazy
    def settings(self) -> Mapping[str, Any]:
        """What `memfs.yaml` sets."""
        fd = open_root(self.root)
        try:
            return settings.load(read(fd, settings.NAME).data.decode(errors="replace"))
        except OSError:
            return {}
        finally:
            os.close(fd)

    @property
    def namespace(self) -> Namespace:
        """The subtree that this handle can reach."""
        return self._scope.namespace

    def scope(self, namespace: str) -> "Vault":
        """A handle on one subtree, which it cannot leave."""
        handle = object.__new__(type(self))
        handle.__dict__.update(self.__dict__)
        handle._scope = self._scope.narrowed(namespace)
        return handle

    # --- reading

    def read(self, ref: str) -> Memory:
        """Read a memory by its id or its path."""
        return self._tree.read(self._scope.resolve(ref))

    def list(self, namespace: str | None = None, *, archived: bool = False) -> Memories:
        """The memories below a namespace, by path; with `archived` the forgotten ones too."""
        with paused():
            return [found for found in self.walk(namespace, archived=archived) if isinstance(found, Memory)]

    def walk(self, namespace: str | None = None, *, archived: bool = False) -> Iterator[Memory | Problem]:
        """What `list` gives, one by one, and a problem for each file and directory that cannot be read."""
        return self._scope.walk(namespace, archived=archived)

    def check(self, namespace: str | None = None) -> Problems:
        """Everything in the vault that could not be understood, or that wants a person's look."""
        with self._tree.opened() as root:
            late = [(path, data) for _, path, data in self._tree.state.late(root) if self._scope.sees(path.split("/"))]
        return check(self.walk(namespace, archived=True), late)

    def versions(self, ref: str) -> Versions:
        """The kept versions of a memory, newest first; by path also of one that is gone."""
        return self._tree.kept(self._scope.resolve(ref, gone=True))

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
        **filters: Any,
    ) -> Hits:
        """The memories that answer a question best; any text is one. `filters` are those of docs/search.md."""
        page = check_page(limit, offset, min_relevance)
        return self._finder.search(question, self._filter(namespace, filters), page, explain=explain)

    def explain_miss(
        self,
        ref: str,
        question: str,
        *,
        namespace: str | None = None,
        limit: int | None = 10,
        offset: int = 0,
        min_relevance: float = 0.0,
        **filters: Any,
    ) -> Reasons:
        """Why a memory is not among the hits of such a search, or where among them it is."""
        page = check_page(limit, offset, min_relevance)
        return self._finder.explain_miss(self.read(ref), question, self._filter(namespace, filters), page)

    def sync(self, progress: Callable[[int, int], None] | None = None) -> SyncReport:
        """Make the index equal the files; a search does so by itself. `progress` hears how many of how many."""
        report = self._finder.sync(progress)
        return replace(report, problems=tuple(self._visible(report.problems)))

    def subscribe(self, tell: Callable[[Change], None]) -> Callable[[], None]:
        """Have changes told from now on; calling the answer ends it.

        A vault with `watch=True` tells within a second; another one when it is searched or synced.
        """
        return self._finder.subscribe(self._scope.namespace, tell)

    def status(self) -> IndexStatus:
        """How things stand with the index; nothing is built for it."""
        return self._finder.status()

    def doctor(self, *, repair: bool = True) -> Problems:
        """Every difference between what is derived and the files; `repair` builds it anew."""
        return self._visible(self._finder.doctor(repair=repair))

    def _visible(self, problems: Iterable[Problem]) -> Problems:
        """The problems of the scope, and those of no memory."""
        return [one for one in problems if one.path.startswith(STATE) or self._scope.sees(one.path.split("/"))]

    def _filter(self, namespace: str | None, filters: Mapping[str, Any]) -> Filter:
        if namespace is None and not filters:
            return self._scope.everything
        place, scope = self._scope.inside(namespace), self._scope.namespace
        if unknown := filters.keys() - FILTERS:
            raise InvalidSearchError(min(unknown), f"no such filter; known: {', '.join(sorted(FILTERS))}")
        return Filter.make(place, scope=scope, **filters)

    # --- writing

    def add(self, text: str, namespace: str | None = None, **keys: Any) -> Written:
        """Add a memory. The same text in the same namespace is there once: outcome "duplicate"."""
        return self._add(Dirty(), text, namespace, **keys)

    def create(self, path: str, text: str | bytes) -> Written:
        """Write a whole file, header and all, at a path that ends in `.md`; MemoryExistsError if the name is taken."""
        folder, _, name = path.removeprefix("/").rpartition("/")
        check_name(name)
        where = self._scope.inside(folder)
        if is_below((*where.segments, name), ARCHIVE, "readme.md"):
            raise InvalidNamespaceError(path, "nothing new goes there")
        data = text if isinstance(text, bytes) else encode(text, "text")
        return self._tree.create("/".join((*where.segments, name)), data, outcome="created")

    def update(
        self,
        ref: str,
        *,
        body: str | None = None,
        add_tags: Iterable[str] = (),
        remove_tags: Iterable[str] = (),
        seen: Stamp | str | None = None,
        **keys: Any,
    ) -> Written:
        """Set header keys (None removes one), tags, or the body; nothing else in the file changes.

        With `seen`, the stamp of a memory that was read, a file that changed since is refused.
        """
        return self._update(Dirty(), ref, body=body, add_tags=add_tags, remove_tags=remove_tags, seen=seen, **keys)

    def append(self, ref: str, text: str) -> Written:
        """Add lines to the end of a memory's body."""
        encode(text, "text")

        def change(old: str) -> str:
            body = parse(old).parts.body
            return revise(old, {}, body + ("" if not body or body.endswith("\n") else "\n") + text, self._clock)

        return self._rewrite(ref, change, Dirty())

    def replace(self, ref: str, text: str, *, seen: Stamp | str) -> Written:
        """Replace a whole file, as an editor does; refused if it changed since it was `seen`."""
        return self._rewrite(ref, lambda _: text, Dirty(), seen=_stamp(seen))

    def forget(self, ref: str, *, seen: Stamp | str | None = None) -> Written:
        """Move a memory to `archive/`: readable, and out of the way; refused if it changed since it was `seen`."""
        written = self._forget(Dirty(), ref, _stamp(seen))
        with suppress(MemfsError):  # of a file that is never rewritten
            if written.outcome == "archived" and PRUNED in self.read(written.path).header.values:
                # it had come back from there; what is forgotten is not to be remembered again
                written = replace(written, stamp=self.update(written.path, pruned=None).stamp)
        return written

    def remove(self, ref: str, *, seen: Stamp | str | None = None) -> Written:
        """Delete a memory and its kept versions; the index lets go of its words when the vault is closed."""
        written = self._tree.remove(self._scope.resolve(ref), Dirty(), seen=_stamp(seen))
        self._finder.purge(written.path)
        return written

    def purge(self, change: Callable[[str, bytes], bytes | None], *, words: bool = True) -> Paths:
        """Have `change(path, data)` say what each kept version becomes; None drops it.

        With `words` the index lets go of all former texts when the vault is closed. The answer names the memories
        that a program has open as they were before the last write: that goes when they are closed.
        """
        return self._scope.purge(change, words=words)

    def move(self, ref: str, to: str, *, seen: Stamp | str | None = None) -> Written:
        """Move a memory to a namespace, or to a path that ends in `.md`; its id stays. `seen` as in `update`."""
        path = self._scope.resolve(ref)
        name = path.rpartition("/")[2]
        if to.endswith(".md"):
            to, _, name = to.rpartition("/")
        target = self._scope.inside(to)
        if not target.segments and fold(name) == "readme.md":
            raise InvalidNamespaceError(name, "the README of a vault is no memory")
        return self._tree.move(path, target.segments, name, outcome="moved", dirty=Dirty(), seen=_stamp(seen))

    def restore(self, ref: str, version: str | None = None) -> Written:
        """Bring a kept version back: by the start of its hash, or the newest that differs from the file."""
        path = self._scope.resolve(ref, gone=True)
        try:
            current: str | None = digest(self._tree.read(path).data)
        except MemoryNotFoundError:
            current = None
        for kept in self._tree.kept(path):
            if kept.hash.startswith(version) if version else kept.hash != current:
                return self._restore(path, self._tree.kept_data(path, kept), gone=current is None)
        raise VersionNotFoundError(path, version or "")

    def _restore(self, path: str, data: bytes, *, gone: bool) -> Written:
        if gone:
            return self._tree.create(path, data, outcome="restored")
        written = self._tree.rewrite(path, lambda _: data.decode(), Dirty())
        return Written(written.id, path, "restored", written.stamp)

    # --- many at once: a directory is made durable once a batch, and each item has its own result

    def add_many(self, items: Iterable[Mapping[str, Any]]) -> Results:
        """Add memories: each item holds `text`, and what else `add` takes."""
        return self._many(items, lambda dirty, item: self._add(dirty, **_arguments(item, "text")))

    def update_many(self, items: Iterable[Mapping[str, Any]]) -> Results:
        """Update memories: each item holds `ref`, and what else `update` takes."""
        return self._many(items, lambda dirty, item: self._update(dirty, **_arguments(item, "ref")))

    def forget_many(self, refs: Iterable[str]) -> Results:
        """Move memories to `archive/`."""
        return self._many(refs, self._forget)

    def _many(self, items: Iterable[Any], one: Any) -> Results:
        dirty, results = Dirty(batch=True), []
        try:
            for item in items:
                try:
                    results.append(one(dirty, item))
                except MemfsError as error:
                    results.append(error)
                except (TypeError, AttributeError) as error:  # an item of the wrong shape, from JSON perhaps
                    results.append(InvalidMemoryError("item", str(error)))
        finally:
            dirty.flush()
        return results

    def _add(self, dirty: Dirty, text: str, namespace: str | None = None, **keys: Any) -> Written:
        if "id" in keys:
            raise InvalidMemoryError("id", "memfs chooses it")
        where = self._scope.inside(namespace)
        if is_below(where.segments, ARCHIVE):
            raise InvalidNamespaceError(str(where), "the archive takes what is forgotten, nothing new")
        written = self._tree.add(where.segments, text, keys, dirty)
        self._scope.remember(written.id, written.path)
        return written

    def _update(
        self,
        dirty: Dirty,
        ref: str,
        *,
        body: str | None = None,
        add_tags: Iterable[str] = (),
        remove_tags: Iterable[str] = (),
        seen: Stamp | str | None = None,
        **keys: Any,
    ) -> Written:
        if "id" in keys:
            raise InvalidMemoryError("id", "stays as it is")
        if body is not None:
            encode(body, "text")
        added, dropped = canonical("tags", [*add_tags]), canonical("tags", [*remove_tags])

        def change(old: str) -> str:
            tags = {"tags": retagged(old, keys, added, dropped)} if added or dropped else {}
            return revise(old, {**keys, **tags}, body, self._clock)

        return self._rewrite(ref, change, dirty, seen=_stamp(seen))

    def _rewrite(self, ref: str, change: Callable[[str], str], dirty: Dirty, *, seen: Stamp | None = None) -> Written:
        """Rewrite a memory, also one that is moved meanwhile, or that an editor moves aside while it saves."""
        with suppress(MemoryNotFoundError):
            return self._tree.rewrite(self._scope.resolve(ref), change, dirty, seen=seen)
        time.sleep(0.02)
        return self._tree.rewrite(self._scope.resolve(ref), change, dirty, seen=seen)

    def _forget(self, dirty: Dirty, ref: str, seen: Stamp | None = None) -> Written:
        path = self._scope.resolve(ref)
        *segments, name = path.split("/")
        if is_below(segments, ARCHIVE):
            return Written(self._tree.read(path).id, path, "unchanged")
        return self._tree.move(path, (ARCHIVE, *segments), name, outcome="archived", dirty=dirty, seen=seen)


def _arguments(item: Mapping[str, Any], needed: str) -> Mapping[str, Any]:
    if not isinstance(item, Mapping) or needed not in item:
        raise InvalidMemoryError(needed, "is missing in an item of the batch")
    return item


def _stamp(seen: Stamp | str | None) -> Stamp | None:
    if not isinstance(seen, str):
        return seen
    try:
        return Stamp.parse(seen)
    except ValueError:
        raise InvalidMemoryError("seen", f"{seen!r} is not a stamp") from None
