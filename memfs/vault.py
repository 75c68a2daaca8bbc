"""Vault: the front door of the core."""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from memfs import config
from memfs.checks import check
from memfs.edit import canonical, edit
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    MemfsError,
    MemoryNotFoundError,
    VaultNotFoundError,
)
from memfs.files import STATE, Dirty, digest, open_root, read, worded, write
from memfs.frontmatter import parse
from memfs.model import Memory, Problem, Stamp, Version, Written
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, fold, is_conflict_copy, split_path
from memfs.protocols import Clock, system_clock
from memfs.state import make
from memfs.tree import Change, Tree, encode

LOCK_TIMEOUT = 10.0
_ID = re.compile(r"m-[0-9a-z]{26}")
Memories = list[Memory]
Problems = list[Problem]
Versions = list[Version]
Results = list[Written | MemfsError]
FILES = {
    config.NAME: f"version: {config.VERSION}\n",
    ".gitignore": f"{STATE}/\n",
    ".gitattributes": f"{SESSIONS}/**/*.jsonl merge=union\n*.md merge=memfs\n",
}


class Vault:
    """A directory of memories. Opening one touches nothing; the first write makes `.memfs/`."""

    def __init__(
        self, root: str | os.PathLike[str], *, lock_timeout: float = LOCK_TIMEOUT, clock: Clock = system_clock
    ) -> None:
        self.root = Path(os.path.abspath(root))
        if not self.root.is_dir():
            raise VaultNotFoundError(str(root))
        self._scope = Namespace()
        self._tree = Tree(self.root, clock=clock, lock_timeout=lock_timeout)
        self._clock = clock
        self._paths: dict[str, str] = {}
        _ = self.settings

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
            if (folder / config.NAME).is_file() or (folder / STATE).is_dir():
                return folder
        raise VaultNotFoundError(str(here))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what writing holds; the vault can still be used."""
        self._tree.close()

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What `memfs.yaml` sets."""
        fd = open_root(self.root)
        try:
            return config.load(read(fd, config.NAME).data.decode(errors="replace"))
        except OSError:
            return {}
        finally:
            os.close(fd)

    def scope(self, namespace: str) -> "Vault":
        """A handle on one subtree, which it cannot leave."""
        handle = object.__new__(type(self))
        handle.__dict__.update(self.__dict__)
        handle._scope = self._inside(Namespace.parse(namespace))
        if _is(handle._scope.segments, ARCHIVE):
            raise InvalidNamespaceError(namespace, "a scope has the archive of its subtree already")
        return handle

    # --- reading

    def read(self, ref: str) -> Memory:
        """Read a memory by its id or its path."""
        return self._tree.read(self._resolve(ref))

    def list(self, namespace: str | None = None, *, archived: bool = False) -> Memories:
        """The memories below a namespace, by path; with `archived` the forgotten ones too."""
        return [found for found in self._walk(namespace, archived=archived) if isinstance(found, Memory)]

    def check(self, namespace: str | None = None) -> Problems:
        """Everything in the vault that could not be understood, or that wants a person's look."""
        with self._tree.opened() as root:
            late = [(path, data) for _, path, data in self._tree.state.late(root) if self._sees(path.split("/"))]
        return check(self._walk(namespace, archived=True), late)

    def versions(self, ref: str) -> Versions:
        """The kept versions of a memory, newest first; by path also of one that is gone."""
        return self._tree.kept(self._resolve(ref, gone=True))

    def _walk(self, namespace: str | None, *, archived: bool) -> Iterable[Memory | Problem]:
        segments = self._namespace(namespace).segments
        found = self._tree.walk(segments, archived=archived)
        if archived and segments and not _is(segments, ARCHIVE):
            return chain(found, self._tree.walk((ARCHIVE, *segments)))
        return found

    # --- writing

    def add(self, text: str, namespace: str | None = None, **keys: Any) -> Written:
        """Add a memory. The same text in the same namespace is there once: outcome "duplicate"."""
        return self._add(Dirty(), text, namespace, **keys)

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
            return self._edit(old, {}, body + ("" if not body or body.endswith("\n") else "\n") + text)

        return self._rewrite(ref, change, Dirty())

    def replace(self, ref: str, text: str, *, seen: Stamp | str) -> Written:
        """Replace a whole file, as an editor does; refused if it changed since it was `seen`."""
        return self._rewrite(ref, lambda _: text, Dirty(), seen=_stamp(seen))

    def forget(self, ref: str) -> Written:
        """Move a memory to `archive/`: readable, and out of the way."""
        return self._forget(Dirty(), ref)

    def remove(self, ref: str, *, seen: Stamp | str | None = None) -> Written:
        """Delete a memory and its kept versions."""
        return self._tree.remove(self._resolve(ref), Dirty(), seen=_stamp(seen))

    def move(self, ref: str, to: str) -> Written:
        """Move a memory to a namespace, or to a path that ends in `.md`. Its id stays."""
        path = self._resolve(ref)
        name = path.rpartition("/")[2]
        if to.endswith(".md"):
            to, _, name = to.rpartition("/")
        target = self._namespace(to)
        if not target.segments and fold(name) == "readme.md":
            raise InvalidNamespaceError(name, "the README of a vault is no memory")
        return self._tree.move(path, target.segments, name, outcome="moved", dirty=Dirty())

    def restore(self, ref: str, version: str | None = None) -> Written:
        """Bring a kept version back: by the start of its hash, or the newest that differs from the file."""
        path = self._resolve(ref, gone=True)
        try:
            current: str | None = digest(self._tree.read(path).data)
        except MemoryNotFoundError:
            current = None
        for kept in self._tree.kept(path):
            if kept.hash.startswith(version) if version else kept.hash != current:
                return self._restore(path, self._tree.kept_data(path, kept), gone=current is None)
        raise MemoryNotFoundError(f"{path}@{version}" if version else f"another version of {path}")

    def _restore(self, path: str, data: bytes, *, gone: bool) -> Written:
        if gone:
            return self._tree.revive(path, data)
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
        where = self._namespace(namespace)
        if _is(where.segments, ARCHIVE):
            raise InvalidNamespaceError(str(where), "the archive takes what is forgotten, nothing new")
        written = self._tree.add(where.segments, text, keys, dirty)
        self._paths[written.id] = written.path
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
        added, dropped = canonical("tags", [*add_tags]), canonical("tags", [*remove_tags])

        def change(old: str) -> str:
            changes = dict(keys)
            if added or dropped:
                values, faults = parse(old)[1:]
                if "tags" not in keys and (bad := [fault for fault in faults if fault.key == "tags"]):
                    raise bad[0]
                tags = canonical("tags", keys.get("tags", values.get("tags", ())) or ())
                kept = [tag for tag in tags if tag not in dropped]
                changes["tags"] = kept + [tag for tag in dict.fromkeys(added) if tag not in kept]
            return self._edit(old, changes, body)

        return self._rewrite(ref, change, dirty, seen=_stamp(seen))

    def _rewrite(self, ref: str, change: Change, dirty: Dirty, *, seen: Stamp | None = None) -> Written:
        """Rewrite a memory, also one that is moved meanwhile, or that an editor moves aside while it saves."""
        with suppress(MemoryNotFoundError):
            return self._tree.rewrite(self._resolve(ref), change, dirty, seen=seen)
        time.sleep(0.02)
        return self._tree.rewrite(self._resolve(ref), change, dirty, seen=seen)

    def _edit(self, old: str, changes: dict[str, Any], body: str | None) -> str:
        """Edit a text; a changed body moves `updated`, where memfs may write that."""
        values = parse(old).values
        new = edit(old, changes, body)
        if body is not None and new != old and values.keys() & {"id", "updated"} and "updated" not in changes:
            return edit(old, {**changes, "updated": self._clock()}, body)
        return new

    def _forget(self, dirty: Dirty, ref: str) -> Written:
        path = self._resolve(ref)
        *segments, name = path.split("/")
        if _is(segments, ARCHIVE):
            return Written(self._tree.read(path).id, path, "unchanged")
        return self._tree.move(path, (ARCHIVE, *segments), name, outcome="archived", dirty=dirty)

    # --- names

    def _namespace(self, text: str | None) -> Namespace:
        """A namespace that memories may live in, inside the scope."""
        return self._scope if text is None else self._inside(Namespace.parse(text))

    def _inside(self, namespace: Namespace) -> Namespace:
        if _is(namespace.segments, SESSIONS):
            raise InvalidNamespaceError(str(namespace), f"{SESSIONS}/ holds no memories")
        if not self._sees(namespace.segments):
            raise InvalidNamespaceError(str(namespace), f"outside the scope {self._scope}")
        return namespace

    def _sees(self, segments: Sequence[str]) -> bool:
        return self._scope.holds(tuple(segments[1:] if _is(segments, ARCHIVE) else segments))

    def _resolve(self, ref: str, *, gone: bool = False) -> str:
        """The path of a memory, by its path (with or without `.md`) or its id."""
        if _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        segments = split_path(ref)
        for path in (ref, f"{ref}.md") if segments else ():
            parts = tuple(path.removeprefix("/").split("/"))
            if not path.endswith(".md") or not self._sees(parts) or _is(parts, SESSIONS) or _is(parts, "readme.md"):
                continue
            with suppress(MemoryNotFoundError, InvalidNamespaceError):
                return self._tree.read("/".join(parts)).path
            if gone and self._tree.kept("/".join(parts)):
                return "/".join(parts)
        if not _ID.fullmatch(ref) and (found := self._by_id(ref)):
            return found
        raise MemoryNotFoundError(ref)

    def _by_id(self, ref: str) -> str | None:
        known = self._paths.get(ref)
        if known and self._sees(known.split("/")):
            with suppress(MemfsError):
                if self._tree.read(known).id == ref:
                    return known
        needle = ref.encode(errors="replace")
        for found in self._walk(None, archived=True):
            if not isinstance(found, Memory) or not (needle in found.data or b"\\" in found.data):
                continue
            if found.header.get("id") == ref and not is_conflict_copy(found.path):
                self._paths[ref] = found.path
                return found.path
        return None


def _is(segments: Sequence[str], name: str) -> bool:
    """Tell whether a path lies below this directory of the root."""
    return bool(segments) and fold(segments[0]) == name


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
