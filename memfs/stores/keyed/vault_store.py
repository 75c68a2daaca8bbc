"""VaultKeyedStore: a keyed store in a vault. One file per key, which people may read and edit."""

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
from memfs.stores.keyed.key_paths import HASHED_DIR, is_hashed, key_to_path, path_to_key, prefix_directory
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

NAMESPACE = "/memories"
RETRY_SECONDS = 10.0  # how long `add` retries while other writers change the key
_INCLUDED = ("expired", "deprecated", "superseded")  # statuses that come from `meta` and do not hide a text here


class VaultKeyedStore(KeyedStore[str]):
    """Texts by key in a vault: `alice/allergy` is the file `memories/alice/allergy.md`, and `meta` its header.

    A vault given by its path is created if the directory does not exist. A forgotten file is moved to `archive/`, or
    deleted with `archive=False`.
    """

    def __init__(
        self, vault: Vault | str | os.PathLike[str], namespace: str = NAMESPACE, *, archive: bool = True
    ) -> None:
        if not isinstance(vault, Vault | str | os.PathLike):
            raise InvalidSetupError("VaultKeyedStore", f"vault: {short_repr(vault)} is not a vault or a path")
        self._opened_vault: Vault | None = None
        if not isinstance(vault, Vault):
            vault = self._opened_vault = Vault(vault) if os.path.isdir(vault) else Vault.init(vault)
        self.vault = self._scope(vault, namespace)
        self._prefix = f"{self.vault.namespace.path}/"
        self._is_archiving = archive
        self.place = f"{self.vault.root}:{self.vault.namespace}"

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return the store of the vault at `file:///path` or `file:path`, or the same with `vault:`."""
        parts = urlsplit(url)
        if parts.netloc not in {"", "localhost"} or not parts.path or "#" in url:  # in a path, # is written %23
            raise InvalidSetupError(
                "VaultKeyedStore", f"{short_repr(url)}: not an address such as file:///path/of/vault"
            )
        return cls(unquote(parts.path), **options)

    @staticmethod
    def _scope(vault: Vault, namespace: str) -> Vault:
        """Return a handle on the namespace; all reads and writes go through it."""
        if not isinstance(namespace, str):
            raise InvalidSetupError("VaultKeyedStore", f"namespace: {short_repr(namespace)} is not a text")
        try:
            scoped = vault.scope(namespace) if namespace.strip("/") else vault
        except MemfsError as error:
            raise InvalidSetupError("VaultKeyedStore", f"namespace: {error}") from error
        if not scoped.namespace.segments or has_first_segment(scoped.namespace.segments, SESSIONS):
            raise InvalidSetupError(
                "VaultKeyedStore",
                f"namespace: {namespace!r} must be a namespace other than / and sessions, such as {NAMESPACE!r}",
            )
        return scoped

    def __repr__(self) -> str:
        return f"VaultKeyedStore({str(self.vault.root)!r}, {str(self.vault.namespace)!r})"

    def add(self, key: str, value: str, meta: Mapping[str, Any] | None = None) -> None:
        """Store a text under a key, in a new file or in the file of the key, whose id stays."""
        path, header, text = self._prepare(key, value, meta)
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                self._write(path, header, text, self._read(path))
                return
            except (MemoryExistsError, MemoryNotFoundError, MemoryChangedError):  # by a concurrent writer
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)

    def revise(self, key: str, value: str, meta: Mapping[str, Any] | None = None, *, known: str) -> bool:
        """Replace the text of a file if it is still the known one. Return whether it was."""
        path, header, text = self._prepare(key, value, meta)
        current = self._read(path)
        if current is None or current.body != known:
            return False
        try:
            self._write(path, header, text, current)
        except (MemoryNotFoundError, MemoryChangedError):
            return False
        return True

    def _prepare(self, key: str, value: str, meta: Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any], str]:
        """Return the path, the header and the text of the file of a key."""
        path = self._prefix + key_to_path(check_key(key))
        text, given = check_value(value), check_meta(meta)
        return path, metadata_to_header({"key": key, "meta": given} if is_hashed(key_to_path(key)) else given), text

    def _write(self, path: str, header: Mapping[str, Any], text: str, current: Memory | None) -> None:
        """Create the file, or replace the current one; raise if another writer created, changed or removed it."""
        now = system_clock()
        if current is None:
            own_keys = {"id": new_id(now), "created": canonical_value("created", now)}
            self.vault.create(path, compose({**own_keys, **header}, text))
            return
        own_keys = {key: current.header.values[key] for key in ("id", "created") if key in current.header.values}
        own_keys["updated"] = canonical_value("updated", now)
        self.vault.replace(current.path, compose({**own_keys, **header}, text), seen=current.stamp)

    def get(self, key: str) -> str | None:
        """Return the text at a key as it is on disk now; None if there is none."""
        found = self._read(self._prefix + key_to_path(check_key(key)))
        return None if found is None else found.body

    def meta(self, key: str) -> dict[str, Any]:
        """Return the header of a file without the keys that memfs writes; {} if there is no file."""
        found = self._read(self._prefix + key_to_path(check_key(key)))
        return {} if found is None else self._key_and_meta(found)[1]

    def search(self, query: str, top_k: int = 5) -> list[tuple[str, str, float]]:
        """Return the texts that match a query, in the order of the vault's search. Files without a key are skipped."""
        limit, question = check_top_k(top_k), check_query(query)
        found: list[tuple[str, str, float]] = []
        offset = 0
        while question.strip() and len(found) < limit:
            hits = self.vault.search(question, limit=limit, offset=offset, include=_INCLUDED)
            for hit in hits:
                key, _ = self._key_and_meta(hit.memory)
                if key is not None:
                    found.append((key, hit.memory.body, hit.relevance))
            offset += limit
            if len(hits) < limit:
                break
        return found[:limit]

    def forget(self, key: str) -> bool:
        """Move the file of a key to the archive, or delete it. Return whether there was one."""
        path = self._path_on_disk(self._prefix + key_to_path(check_key(key)))
        try:
            if path is None:
                return False
            _ = self.vault.forget(path) if self._is_archiving else self.vault.remove(path)
        except MemoryNotFoundError:
            return False
        return True

    def keys(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[str]:
        """Return the keys below a prefix, sorted."""
        prefix, after, limit = check_page(prefix, after, limit)
        return sorted(key for key in self._keys(prefix) if is_below(key, prefix) and key > after)[:limit]

    def recalled(self, keys: Sequence[str]) -> None:
        """Count a search by an agent and the memories it returned, which slows their decay."""
        ids = []
        for key in keys:
            with suppress(MemfsError):  # a file that cannot be read any more is not counted
                found = self._read(self._prefix + key_to_path(check_key(key)))
                ids += [found.id] if found is not None else []
        self.vault.usage.searched(ids)

    def close(self) -> None:
        """Release the resources of a vault that was opened by its path. The store can still be used."""
        if self._opened_vault:
            self._opened_vault.close()

    # --- files

    def _keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the files that may be below a prefix. Only hashed files are read."""
        for path in self._paths(prefix):
            key = path_to_key(self._relative(path))
            if is_hashed(self._relative(path)):
                found = self._read(path)
                key = None if found is None else self._key_and_meta(found)[0]
            if key is not None:
                yield key

    def _paths(self, prefix: str) -> Iterator[str]:
        """Yield the paths of the files whose keys may be below a prefix, each as it is spelled on disk."""
        directory = prefix_directory(prefix) if prefix.strip("/") else None
        start = self.vault.namespace.segments
        if directory is not None and (itself := self._path_on_disk(f"{self._prefix}{directory}.md")):
            yield itself
        root = open_root(self.vault.root)
        try:
            for below in ((),) if directory is None else (tuple(directory.split("/")), (HASHED_DIR,)):
                for listing in walk(root, spelling_on_disk(root, (*start, *below))):
                    yield from (listing.prefix + name for name in listing.names if not is_conflict_copy(name))
        finally:
            os.close(root)

    def _key_and_meta(self, memory: Memory) -> tuple[str | None, dict[str, Any]]:
        """Return the key of a file, None if it is not the file of a key, and its metadata."""
        path, metadata = self._relative(memory.path), header_to_metadata(memory.header.values)
        if not is_hashed(path):
            return path_to_key(path), metadata
        key, meta = metadata.get("key"), metadata.get("meta", {})
        is_valid = isinstance(key, str) and key_to_path(key) == path
        return key if is_valid else None, meta if isinstance(meta, dict) else {}

    def _relative(self, path: str) -> str:
        """Return a path relative to the namespace, by length: people may spell the namespace in another case."""
        return path[len(self._prefix) :]

    def _read(self, path: str) -> Memory | None:
        """Read the file at a path; None if there is none."""
        real = self._path_on_disk(path)
        try:
            return self.vault.read(real) if real else None
        except MemoryNotFoundError:
            return None

    def _path_on_disk(self, path: str) -> str | None:
        """Return a path as it is spelled on disk; None if there is no such file.

        It is looked up before Vault.read, which searches all ids for a ref that is not a path.
        """
        if os.path.lexists(self.vault.root / path):
            return path
        root = open_root(self.vault.root)
        try:
            real = "/".join(spelling_on_disk(root, tuple(path.split("/"))))
        finally:
            os.close(root)
        return real if os.path.lexists(self.vault.root / real) else None
