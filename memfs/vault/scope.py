"""The subtree that a handle on a vault can reach: path checks, lookup of memories by id or path, and filters."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from memfs.data_types import Memory, Problem
from memfs.errors import InvalidNamespaceError, InvalidSearchError, MemfsError, MemoryNotFoundError, short_repr
from memfs.fs.files import STATE_DIR, translate_os_error
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, fold, is_conflict_copy, split_path
from memfs.query.filters import FILTER_NAMES, Filter, SearchFilters
from memfs.storage.crash_recovery import displaced_paths, sweep_temporary_files
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.versions import Revise
from memfs.vault.search_engine import SearchEngine

_ID = re.compile(r"m-[0-9a-z]{26}")


class Scope:
    """One subtree of a vault; namespaces and memories outside it are refused or not found."""

    def __init__(self, files: MemoryFiles, engine: SearchEngine, namespace: Namespace = Namespace()) -> None:  # noqa: B008  immutable
        self._files, self._engine, self.namespace = files, engine, namespace
        self._paths: dict[str, str] = {}  # cache: id -> path at which the memory was last found
        self._no_filter = Filter.make(None, scope=namespace)

    def narrowed(self, namespace: str) -> "Scope":
        """Return the scope of a subtree of this one. Raises InvalidNamespaceError as `parse_namespace` does."""
        inner = self.parse_namespace(namespace)
        if has_first_segment(inner.segments, ARCHIVE):
            raise InvalidNamespaceError(namespace, "a scope already includes the archive of its subtree")
        return Scope(self._files, self._engine, inner)

    def parse_namespace(self, text: str | None) -> Namespace:
        """Parse the text of a namespace that may contain memories; None is the namespace of the scope itself.

        Raises InvalidNamespaceError if it is not valid, in `sessions/`, or outside the scope.
        """
        if text is not None and not isinstance(text, str):
            raise InvalidNamespaceError(short_repr(text), "not a text")
        namespace = self.namespace if text is None else Namespace.parse(text)
        if has_first_segment(namespace.segments, SESSIONS):
            raise InvalidNamespaceError(str(namespace), f"{SESSIONS}/ holds no memories")
        if not self.sees(namespace.segments):
            raise InvalidNamespaceError(str(namespace), f"outside the scope {self.namespace}")
        return namespace

    def sees(self, segments: Sequence[str]) -> bool:
        """Return whether a path is in the scope; a leading `archive/` is ignored, so archived memories stay visible."""
        return self.namespace.holds(tuple(segments[1:] if has_first_segment(segments, ARCHIVE) else segments))

    def visible(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return the problems in the scope, and those in `.memfs/`, which belong to no memory."""
        return [item for item in problems if item.path.startswith(STATE_DIR) or self.sees(item.path.split("/"))]

    def make_filter(self, namespace: str | None, filters: SearchFilters) -> Filter:
        """Return the filter of a search in this scope. Raises InvalidSearchError for an unknown or wrong filter."""
        if namespace is None and not filters:
            return self._no_filter
        subtree = self.parse_namespace(namespace)
        if unknown := filters.keys() - FILTER_NAMES:
            raise InvalidSearchError(min(unknown), f"no such filter; known: {', '.join(sorted(FILTER_NAMES))}")
        return Filter.make(subtree, scope=self.namespace, **filters)

    def walk(self, namespace: str | None = None, *, archived: bool) -> Iterator[Memory | Problem]:
        """Yield the memories below a namespace, with `archived` also those in the archive; a Problem if unreadable."""
        segments = self.parse_namespace(namespace).segments
        yield from self._files.walk(segments, archived=archived)
        if archived and segments and not has_first_segment(segments, ARCHIVE):
            yield from self._files.walk((ARCHIVE, *segments))  # a walk from the root includes it

    def cache_path(self, memory_id: str, path: str) -> None:
        """Cache the path of a memory, so that its id is resolved without a search."""
        self._paths[memory_id] = path

    def resolve(self, ref: str, *, allow_deleted: bool = False) -> str:
        """Return the path of a memory, found by its path (with or without `.md`) or its id.

        With `allow_deleted`, a deleted memory is found too, but only by its path and if it has kept versions. Raises
        MemoryNotFoundError.
        """
        # A text in the form of an id is looked up as an id first. Other texts are rarely ids: they are looked up as ids
        # last, because the lookup of an unknown id reads all files.
        if _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        segments = split_path(ref)
        for path in (ref, f"{ref}.md") if segments else ():
            parts = tuple(path.removeprefix("/").split("/"))
            if not path.endswith(".md") or not self.sees(parts) or has_first_segment(parts, SESSIONS, "readme.md"):
                continue  # session logs, and the README of the vault, are not memories
            with suppress(MemoryNotFoundError, InvalidNamespaceError):
                return self._files.read("/".join(parts)).path
            if allow_deleted and self._files.kept_versions("/".join(parts)):
                return "/".join(parts)
        if not _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        raise MemoryNotFoundError(ref)

    def purge(self, change: Revise, *, purge_index: bool) -> list[str]:
        """Replace the data of each kept version in the scope by `change(path, data)`; None drops the version.

        With `purge_index`, all former texts leave the index when the vault is closed. Returns the paths of memories in
        the scope whose previous file another program still has open.
        """

        def revise(path: str, data: bytes) -> bytes | None:
            return change(path, data) if self.sees(path.split("/")) else data

        still_open = [path for path in _revise_versions(self._files, revise) if self.sees(path.split("/"))]
        if purge_index:
            self._engine.purge(None)
        return still_open

    def _by_id(self, ref: str) -> str | None:
        """Return the path of the memory with this id, by the cache, the index or the files; None if there is none."""
        for find in (self._paths.get, self._engine.path_of):
            if (path := find(ref)) and self.sees(path.split("/")):
                with suppress(MemfsError):
                    if self._files.read(path).id == ref:
                        self._paths[ref] = path
                        return path
        needle = ref.encode(errors="replace")
        for found in self.walk(archived=True):
            if not isinstance(found, Memory) or not (needle in found.data or b"\\" in found.data):
                continue  # parsing a header is slow; without escapes (backslashes), an id is in the bytes
            if found.header.get("id") == ref and not is_conflict_copy(found.path):
                self._paths[ref] = found.path
                return found.path
        return None


def _revise_versions(files: MemoryFiles, change: Revise) -> list[str]:
    """Pass each kept version, including those in temporary files of killed writers, to `change`, and store the result.

    Returns the paths of memories whose previous file another program still has open.
    """
    try:
        with files.opened() as root:
            files.state.create(root)
            sweep_temporary_files(root, partial(files.versions.keep_once, root))
            files.versions.revise(root, change)
            files.journal.restart(root)  # the file names in it may repeat words of a purged text
            return displaced_paths(root)
    except OSError as error:
        raise translate_os_error(STATE_DIR, error) from error


def has_first_segment(segments: Sequence[str], *names: str) -> bool:
    """Return whether the first segment of a path, in any case, is one of these names, which are in folded form."""
    return bool(segments) and fold(segments[0]) in names
