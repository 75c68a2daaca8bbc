"""VaultKeyedStore: a file for each key, below a namespace of a vault, that a person may read and edit."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from memfs.data_types import Memory
from memfs.errors import (
    InvalidSetupError,
    MemfsError,
    MemoryChangedError,
    MemoryExistsError,
    MemoryNotFoundError,
    short_repr,
)
from memfs.format.edit import canonical_value, compose
from memfs.fs.files import open_root, spelling_on_disk, walk
from memfs.ids import new_id
from memfs.namespace import SESSIONS, is_conflict_copy
from memfs.protocols import system_clock
from memfs.stores.agent.header_metadata import header_to_metadata, metadata_to_header
from memfs.stores.keyed.base import (
    KeyedStore,
    check_key,
    check_meta,
    check_page,
    check_query,
    check_top_k,
    check_value,
    is_below,
)
from memfs.stores.keyed.key_paths import LONG, folder_of, is_long, key_of, path_of
from memfs.vault.scope import is_below as is_inside
from memfs.vault.vault import Vault

NAMESPACE = "/memories"
PATIENCE = 10.0  # seconds that others may keep on changing a key before us
_OUT_OF_FORCE = ("expired", "deprecated", "superseded")  # by what `meta` says, which is no reason here


class VaultKeyedStore(KeyedStore[str]):
    """Texts by key in a vault: `alice/allergy` is the file `memories/alice/allergy.md`, and `meta` its header.

    A vault that is given by its path is made if there is no such directory. What is forgotten goes to `archive/`, or
    is deleted with `archive=False`.
    """

    def __init__(
        self, vault: Vault | str | os.PathLike[str], namespace: str = NAMESPACE, *, archive: bool = True
    ) -> None:
        if not isinstance(vault, Vault | str | os.PathLike):
            raise InvalidSetupError("VaultKeyedStore", f"vault: {short_repr(vault)} is not a vault or a path")
        self._owned: Vault | None = None
        if not isinstance(vault, Vault):
            vault = self._owned = Vault(vault) if os.path.isdir(vault) else Vault.init(vault)
        self.vault = self._scope(vault, namespace)
        self._prefix = f"{self.vault.namespace.path}/"
        self._archives = archive
        self.place = f"{self.vault.root}:{self.vault.namespace}"

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """The store of the vault at `file:///path`, `file:path`, or the same with `vault:`."""
        parts = urlsplit(url)
        if parts.netloc not in {"", "localhost"} or not parts.path or "#" in url:  # a part of the path, as %23
            raise InvalidSetupError(
                "VaultKeyedStore", f"{short_repr(url)}: not an address such as file:///path/of/vault"
            )
        return cls(unquote(parts.path), **options)

    @staticmethod
    def _scope(vault: Vault, namespace: str) -> Vault:
        """The handle through which all goes."""
        if not isinstance(namespace, str):
            raise InvalidSetupError("VaultKeyedStore", f"namespace: {short_repr(namespace)} is not a text")
        try:
            scoped = vault.scope(namespace) if namespace.strip("/") else vault
        except MemfsError as error:
            raise InvalidSetupError("VaultKeyedStore", f"namespace: {error}") from error
        if not scoped.namespace.segments or is_inside(scoped.namespace.segments, SESSIONS):
            raise InvalidSetupError(
                "VaultKeyedStore", f"namespace: {namespace!r} is not one of its own, as {NAMESPACE!r} is"
            )
        return scoped

    def __repr__(self) -> str:
        return f"VaultKeyedStore({str(self.vault.root)!r}, {str(self.vault.namespace)!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Keep a text under a key: a new file, or the file of the key written anew, whose id stays."""
        path, header, text = self._checked(key, value, meta)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._write(path, header, text, self._read(path))
                return
            except (MemoryExistsError, MemoryNotFoundError, MemoryChangedError):  # somebody was faster
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Write the file of a key anew, unless somebody changed it."""
        path, header, text = self._checked(key, value, meta)
        there = self._read(path)
        if there is None or there.body != known:
            return False
        try:
            self._write(path, header, text, there)
        except (MemoryNotFoundError, MemoryChangedError):
            return False
        return True

    def _checked(self, key: str, value: str, meta: Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any], str]:
        """The path of a key, and the header and the text of its file."""
        path = self._prefix + path_of(check_key(key))
        text, given = check_value(value), check_meta(meta)
        return path, metadata_to_header({"key": key, "meta": given} if is_long(path_of(key)) else given), text

    def _write(self, path: str, header: Mapping[str, Any], text: str, there: Memory | None) -> None:
        now = system_clock()
        if there is None:
            ours = {"id": new_id(now), "created": canonical_value("created", now)}
            self.vault.create(path, compose({**ours, **header}, text))
            return
        ours = {key: there.header.values[key] for key in ("id", "created") if key in there.header.values}
        ours["updated"] = canonical_value("updated", now)
        self.vault.replace(there.path, compose({**ours, **header}, text), seen=there.stamp)

    def get(self, key: str) -> str | None:
        """The text of a key, as it is on disk now."""
        found = self._read(self._prefix + path_of(check_key(key)))
        return None if found is None else found.body

    def meta(self, key: str) -> dict[str, Any]:
        """What its header says beside what memfs writes there."""
        found = self._read(self._prefix + path_of(check_key(key)))
        return {} if found is None else self._told(found)[1]

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """The texts that answer a question, as the vault finds them."""
        limit, question = check_top_k(top_k), check_query(query)
        found: list[tuple[str, str, float]] = []
        offset = 0
        while question.strip() and len(found) < limit:
            hits = self.vault.search(question, limit=limit, offset=offset, include=_OUT_OF_FORCE)
            for hit in hits:
                key, _ = self._told(hit.memory)
                if key is not None:
                    found.append((key, hit.memory.body, hit.relevance))
            offset += limit
            if len(hits) < limit:
                break
        return found[:limit]

    def forget(self, key: str) -> bool:
        """Put the file of a key into the archive, or delete it."""
        path = self._real(self._prefix + path_of(check_key(key)))
        try:
            if path is None:
                return False
            _ = self.vault.forget(path) if self._archives else self.vault.remove(path)
        except MemoryNotFoundError:
            return False
        return True

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """The keys below a prefix, in order."""
        prefix, after, most = check_page(prefix, after, limit)
        return sorted(key for key in self._keys(prefix) if is_below(key, prefix) and key > after)[:most]

    def recalled(self, keys: Sequence[str]) -> None:
        """Count a search of an agent, and the memories that it was given: they fade slower."""
        ids = []
        for key in keys:
            with suppress(MemfsError):  # what became unreadable since costs its count, not the answer
                found = self._read(self._prefix + path_of(check_key(key)))
                ids += [found.id] if found is not None else []
        self.vault.usage.searched(ids)

    def close(self) -> None:
        """Give back what a vault holds that was opened by its path."""
        if self._owned:
            self._owned.close()

    # --- files

    def _keys(self, prefix: str) -> Iterator[str]:
        """The key of each file that may be below a prefix; only those that are named by a hash are read."""
        for path in self._paths(prefix):
            key = key_of(self._below(path))
            if is_long(self._below(path)):
                found = self._read(path)
                key = None if found is None else self._told(found)[0]
            if key is not None:
                yield key

    def _paths(self, prefix: str) -> Iterator[str]:
        below = folder_of(prefix) if prefix.strip("/") else None
        start = self.vault.namespace.segments
        if below is not None and (itself := self._real(f"{self._prefix}{below}.md")):
            yield itself
        root = open_root(self.vault.root)
        try:
            for place in ((),) if below is None else (tuple(below.split("/")), (LONG,)):
                for listing in walk(root, spelling_on_disk(root, (*start, *place))):
                    yield from (listing.prefix + name for name in listing.names if not is_conflict_copy(name))
        finally:
            os.close(root)

    def _told(self, memory: Memory) -> tuple[str | None, dict[str, Any]]:
        """The key of a file, and what it says about its text."""
        path, told = self._below(memory.path), header_to_metadata(memory.header.values)
        if not is_long(path):
            return key_of(path), told
        key, meta = told.get("key"), told.get("meta", {})
        is_its = isinstance(key, str) and path_of(key) == path
        return key if is_its else None, meta if isinstance(meta, dict) else {}

    def _below(self, path: str) -> str:
        """A path as seen from the namespace, which a person may spell in another case."""
        return path[len(self._prefix) :]

    def _read(self, path: str) -> Memory | None:
        """The file at a path; None if there is none."""
        real = self._real(path)
        try:
            return self.vault.read(real) if real else None
        except MemoryNotFoundError:
            return None

    def _real(self, path: str) -> str | None:
        """The path as it is spelled on disk; looked up first, since a vault looks for what is no path among all ids."""
        if os.path.lexists(self.vault.root / path):
            return path
        root = open_root(self.vault.root)
        try:
            real = "/".join(spelling_on_disk(root, tuple(path.split("/"))))
        finally:
            os.close(root)
        return real if os.path.lexists(self.vault.root / real) else None
