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

    def __init__(self, files: MemoryFiles, engine: SearchEngine, namespace: Namespace = Namespace()) -> None:  # noqa: B008  frozen
        self._files, self._engine, self.namespace = files, engine, namespace
        self._paths: dict[str, str] = {}  # id -> the path where the memory was last found
        self._no_filter = Filter.make(None, scope=namespace)

    def narrowed(self, namespace: str) -> "Scope":
        """Return the scope of a subtree of this one."""
        inner = self.inside(namespace)
        if is_below(inner.segments, ARCHIVE):
            raise InvalidNamespaceError(namespace, "a scope has the archive of its subtree already")
        return Scope(self._files, self._engine, inner)

    def inside(self, text: str | None) -> Namespace:
        """Return a namespace in which memories may be, the scope itself for None; InvalidNamespaceError if not one."""
        if text is not None and not isinstance(text, str):
            raise InvalidNamespaceError(short_repr(text), "not a text")
        namespace = self.namespace if text is None else Namespace.parse(text)
        if is_below(namespace.segments, SESSIONS):
            raise InvalidNamespaceError(str(namespace), f"{SESSIONS}/ holds no memories")
        if not self.sees(namespace.segments):
            raise InvalidNamespaceError(str(namespace), f"outside the scope {self.namespace}")
        return namespace

    def sees(self, segments: Sequence[str]) -> bool:
        """Return whether a path is in the scope; a path in `archive/` counts as the one before it was archived."""
        return self.namespace.holds(tuple(segments[1:] if is_below(segments, ARCHIVE) else segments))

    def visible(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return the problems in the scope, and those that belong to no memory."""
        return [one for one in problems if one.path.startswith(STATE_DIR) or self.sees(one.path.split("/"))]

    def make_filter(self, namespace: str | None, filters: SearchFilters) -> Filter:
        """Return the filter of a search in this scope; InvalidSearchError for an unknown filter or a bad value."""
        if namespace is None and not filters:
            return self._no_filter
        subtree = self.inside(namespace)
        if unknown := filters.keys() - FILTER_NAMES:
            raise InvalidSearchError(min(unknown), f"no such filter; known: {', '.join(sorted(FILTER_NAMES))}")
        return Filter.make(subtree, scope=self.namespace, **filters)

    def walk(self, namespace: str | None = None, *, archived: bool) -> Iterator[Memory | Problem]:
        """Yield every memory below a namespace; with `archived` the forgotten ones too."""
        segments = self.inside(namespace).segments
        yield from self._files.walk(segments, archived=archived)
        if archived and segments and not is_below(segments, ARCHIVE):
            yield from self._files.walk((ARCHIVE, *segments))

    def remember(self, memory_id: str, path: str) -> None:
        """Remember the path of a memory, so that its id is resolved without a search."""
        self._paths[memory_id] = path

    def resolve(self, ref: str, *, gone: bool = False) -> str:
        """Return the path of a memory, found by its path (with or without `.md`) or its id.

        With `gone`, a deleted memory that has kept versions is found by its path. Raises MemoryNotFoundError.
        """
        if _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        segments = split_path(ref)
        for path in (ref, f"{ref}.md") if segments else ():
            parts = tuple(path.removeprefix("/").split("/"))
            if not path.endswith(".md") or not self.sees(parts) or is_below(parts, SESSIONS, "readme.md"):
                continue
            with suppress(MemoryNotFoundError, InvalidNamespaceError):
                return self._files.read("/".join(parts)).path
            if gone and self._files.kept_versions("/".join(parts)):
                return "/".join(parts)
        if not _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        raise MemoryNotFoundError(ref)

    def purge(self, change: Revise, *, purge_index: bool) -> list[str]:
        """Change or drop kept versions in the scope; see Vault.purge."""

        def revise(path: str, data: bytes) -> bytes | None:
            return change(path, data) if self.sees(path.split("/")) else data

        still_open = [path for path in _revise_versions(self._files, revise) if self.sees(path.split("/"))]
        if purge_index:
            self._engine.purge(None)
        return still_open

    def _by_id(self, ref: str) -> str | None:
        """Return the path of the memory with an id: a remembered one, else from the index, else from the files."""
        for find in (self._paths.get, self._engine.path_of):
            if (path := find(ref)) and self.sees(path.split("/")):
                with suppress(MemfsError):
                    if self._files.read(path).id == ref:
                        self._paths[ref] = path
                        return path
        needle = ref.encode(errors="replace")
        for found in self.walk(archived=True):
            if not isinstance(found, Memory) or not (needle in found.data or b"\\" in found.data):
                continue  # parsing a header takes a while; one without escapes spells the id out
            if found.header.get("id") == ref and not is_conflict_copy(found.path):
                self._paths[ref] = found.path
                return found.path
        return None


def _revise_versions(files: MemoryFiles, change: Revise) -> list[str]:
    """Change or drop kept versions, including those in temporary files of killed writers.

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


def is_below(segments: Sequence[str], *names: str) -> bool:
    """Return whether the first segment of a path is one of these names."""
    return bool(segments) and fold(segments[0]) in names
