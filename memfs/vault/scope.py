"""Scope: what a handle on a vault may reach, and how its memories are named there."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from memfs.data_types import Memory, Problem
from memfs.errors import InvalidNamespaceError, MemfsError, MemoryNotFoundError, shown
from memfs.fs.files import STATE, worded
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, fold, is_conflict_copy, split_path
from memfs.query.filters import Filter
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.versions import Revise
from memfs.vault.search_engine import SearchEngine

_ID = re.compile(r"m-[0-9a-z]{26}")


class Scope:
    """A subtree that cannot be left, and the memories in it by id or path."""

    def __init__(self, tree: MemoryFiles, finder: SearchEngine, namespace: Namespace = Namespace()) -> None:  # noqa: B008  frozen
        self._tree, self._finder, self.namespace = tree, finder, namespace
        self._paths: dict[str, str] = {}
        self.everything = Filter.make(None, scope=namespace)

    def narrowed(self, namespace: str) -> "Scope":
        """A subtree of this one."""
        inner = self.inside(namespace)
        if is_below(inner.segments, ARCHIVE):
            raise InvalidNamespaceError(namespace, "a scope has the archive of its subtree already")
        return Scope(self._tree, self._finder, inner)

    def inside(self, text: str | None) -> Namespace:
        """A namespace that memories may live in; the scope itself if none is named."""
        if text is not None and not isinstance(text, str):
            raise InvalidNamespaceError(shown(text), "not a text")
        namespace = self.namespace if text is None else Namespace.parse(text)
        if is_below(namespace.segments, SESSIONS):
            raise InvalidNamespaceError(str(namespace), f"{SESSIONS}/ holds no memories")
        if not self.sees(namespace.segments):
            raise InvalidNamespaceError(str(namespace), f"outside the scope {self.namespace}")
        return namespace

    def sees(self, segments: Sequence[str]) -> bool:
        """Tell whether a path lies in the scope, or did before it was forgotten."""
        return self.namespace.holds(tuple(segments[1:] if is_below(segments, ARCHIVE) else segments))

    def walk(self, namespace: str | None = None, *, archived: bool) -> Iterator[Memory | Problem]:
        """Every memory below a namespace; with `archived` the forgotten ones too."""
        segments = self.inside(namespace).segments
        yield from self._tree.walk(segments, archived=archived)
        if archived and segments and not is_below(segments, ARCHIVE):
            yield from self._tree.walk((ARCHIVE, *segments))

    def remember(self, name: str, path: str) -> None:
        """Remember where a memory is."""
        self._paths[name] = path

    def resolve(self, ref: str, *, gone: bool = False) -> str:
        """The path of a memory, by its path (with or without `.md`) or its id."""
        if _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        segments = split_path(ref)
        for path in (ref, f"{ref}.md") if segments else ():
            parts = tuple(path.removeprefix("/").split("/"))
            if not path.endswith(".md") or not self.sees(parts) or is_below(parts, SESSIONS, "readme.md"):
                continue
            with suppress(MemoryNotFoundError, InvalidNamespaceError):
                return self._tree.read("/".join(parts)).path
            if gone and self._tree.kept("/".join(parts)):
                return "/".join(parts)
        if not _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        raise MemoryNotFoundError(ref)

    def purge(self, change: Revise, *, words: bool) -> list[str]:
        """Change or drop kept versions of the scope; the paths of files that a program has open as they were."""

        def revise(path: str, data: bytes) -> bytes | None:
            return change(path, data) if self.sees(path.split("/")) else data

        opened = [path for path in _revise(self._tree, revise) if self.sees(path.split("/"))]
        if words:
            self._finder.purge(None)
        return opened

    def _by_id(self, ref: str) -> str | None:
        for find in (self._paths.get, self._finder.path_of):
            if (known := find(ref)) and self.sees(known.split("/")):
                with suppress(MemfsError):
                    if self._tree.read(known).id == ref:
                        self._paths[ref] = known
                        return known
        needle = ref.encode(errors="replace")
        for found in self.walk(archived=True):
            if not isinstance(found, Memory) or not (needle in found.data or b"\\" in found.data):
                continue
            if found.header.get("id") == ref and not is_conflict_copy(found.path):
                self._paths[ref] = found.path
                return found.path
        return None


def _revise(tree: MemoryFiles, change: Revise) -> list[str]:
    """Change or drop kept versions, with what killed writers left; the paths of files that are open as they were."""
    try:
        with tree.opened() as root:
            tree.state.make(root)
            tree.state.sweep(root, partial(tree.versions.keep_once, root))
            tree.versions.revise(root, change)
            tree.journal.begin_anew(root)  # a name may say what a text said
            return tree.state.aside(root)
    except OSError as error:
        raise worded(STATE, error) from error


def is_below(segments: Sequence[str], *names: str) -> bool:
    """Tell whether a path lies below one of these names at the root."""
    return bool(segments) and fold(segments[0]) in names
