"""VaultStore: a subtree of a vault as a store for an agent. Async methods run in threads, bound to no event loop."""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from memfs.data_types import Hit, Memory, Written
from memfs.decay import PRUNED_KEY
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    InvalidSetupError,
    MalformedMemoryError,
    MemfsError,
    MemoryNotFoundError,
    short_repr,
)
from memfs.fs.files import encode_text
from memfs.namespace import ARCHIVE, Template
from memfs.privacy.policy import Policy
from memfs.protocols import system_clock
from memfs.storage.exact_duplicates import text_key
from memfs.stores.agent.base import BaseStore
from memfs.stores.agent.header_metadata import (
    header_changes,
    header_to_metadata,
    header_value,
    json_value,
    metadata_to_header,
)
from memfs.stores.agent.links import MemoryLinks
from memfs.stores.agent.protocol import Found, Metadata
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

ACTOR_VARIABLE = "MEMFS_ACTOR"  # the environment variable
MAX_PHRASE_CHARS = 1500  # of a text that is searched for as one phrase in the archive
MAX_INDEXED_WORD_CHARS = 80  # the index drops longer words
MAX_FORGOTTEN_HITS = 50  # archived memories with the phrase that are compared with the text
_QUOTES = re.compile(r'["“”*]')
_WORD = re.compile(r"[^\W_]+")
_NOT_IN_LINK = re.compile(r"[\[\]|#]")


class VaultStore(BaseStore):
    """A store over a vault or a subtree of it. No ref or name that a model gives can leave the subtree."""

    def __init__(
        self,
        vault: Vault | str | os.PathLike[str],
        namespace: str = "/",
        *,
        name: str | None = None,
        actor: str | None = None,
        session: str | None = None,
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        min_relevance: float = 0.2,
        type: str = "fact",  # noqa: A002  the word of the header
        tools: Sequence[str] = (),
        max_chars: int = 4000,
        redaction: Policy | None = None,
    ) -> None:
        super().__init__(
            (_default_name(namespace) if isinstance(namespace, str) else "vault") if name is None else name,
            description=description,
            max_search_results=max_search_results,
            writable=writable,
            extraction=extraction,
            min_relevance=min_relevance,
            tools=tools,
            max_chars=max_chars,
            redaction=redaction,
        )
        self._check(isinstance(namespace, str), "namespace", namespace, "a text such as '/facts/{actorId}'")
        self._check(header_value("type", type) is not None and bool(type), "type", type, "a text")
        for argument, value in (("actor", actor), ("session", session)):
            self._check(value is None or (isinstance(value, str) and bool(value)), argument, value, "a text")
        self.type, self.session = type, session
        self._check(isinstance(vault, Vault | str | os.PathLike), "vault", vault, "a vault or a path")
        self._given_vault, self._owns_vault = (vault, False) if isinstance(vault, Vault) else (Vault(vault), True)
        self.vault = self._scope(self._given_vault, namespace, actor)
        self.vault_root = self.vault.root
        self._links = MemoryLinks(self.vault)
        self.redaction = redaction or Policy.of(self._given_vault)
        self.place = f"{self.name}:{self.vault.namespace}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.namespace!r})"

    def _scope(self, vault: Vault, namespace: str, actor: str | None) -> Vault:
        """Return a handle on the namespace, for all reads and writes, and set `namespace` and `_archive`."""
        actor = actor or vault.settings.get("actor") or os.environ.get(ACTOR_VARIABLE)
        try:
            rendered = Template(namespace).render(actor=actor or "", session=self.session or "")
            self.namespace = str(rendered)
            self._archive = _archive_path(vault, rendered.path)
            return vault.scope(self.namespace) if rendered.segments else vault
        except MemfsError as error:
            advice = "" if actor else f"; set an actor with actor=, in memfs.yaml or in {ACTOR_VARIABLE}"
            raise InvalidSetupError(f"store {self.name!r}", f"namespace: {error}{advice}") from error

    async def initialize(self) -> None:
        """Open the index, so that the first turn is fast."""
        await asyncio.to_thread(self.vault.search, "", limit=1)

    def close(self) -> None:
        """Release the resources of a vault that was opened by its path. The store can still be used."""
        if self._owns_vault:
            self._given_vault.close()

    # --- reading

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> list[Found]:
        """Return the memories that match a query, best first; the newest for a blank query."""
        return await asyncio.to_thread(self._search, query, self.search_limit(options), self.min_relevance)

    def _search(self, query: str, limit: int, min_relevance: float) -> list[Found]:
        hits = self.vault.search(query, limit=limit, min_relevance=min_relevance)
        if query.strip():  # a blank query lists memories, which is no recall
            self.vault.usage.searched([hit.memory.id for hit in hits])
        return [self._as_found(hit.memory, hit if query.strip() else None) for hit in hits]

    async def get(self, ref: str) -> Found:
        """Return one memory, uncut. Raise MemoryNotFoundError if it is forgotten."""
        return await asyncio.to_thread(self._get, ref)

    def _get(self, ref: str) -> Found:
        memory = self._read(ref)
        return self._as_found(memory, max_chars=len(memory.body))

    def _read(self, ref: str) -> Memory:
        """Read a memory. Raise MemoryNotFoundError if it is in the archive."""
        if not isinstance(ref, str):
            raise MemoryNotFoundError(short_repr(ref))
        memory = self.vault.read(ref)
        if has_first_segment(memory.path.split("/"), ARCHIVE):
            raise MemoryNotFoundError(ref)
        return memory

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[Found]:
        """Return memories, newest first."""
        return await asyncio.to_thread(self._list, limit=limit, offset=offset)

    async def similar(self, text: str, limit: int = 10) -> Sequence[Found]:
        """Return the memories nearest to a text, with no threshold, and uncut because the caller may rewrite them.

        Encrypted memories are left out.
        """
        return await asyncio.to_thread(self._similar, text, limit)

    def _similar(self, text: str, limit: int) -> Sequence[Found]:
        # "." has no words and no hits; a blank query would list the newest memories
        hits = self.vault.search(_QUOTES.sub(" ", text).strip() or ".", limit=limit)
        readable = [hit for hit in hits if not hit.memory.is_encrypted]
        return [self._as_found(hit.memory, hit, max_chars=len(hit.memory.body)) for hit in readable]

    async def pinned(self, limit: int = 5) -> Sequence[Found]:
        """Return the pinned memories, newest first."""
        return await asyncio.to_thread(self._list, limit=limit, where={"pinned": True})

    def _list(self, **filters: Any) -> Sequence[Found]:
        return [self._as_found(hit.memory) for hit in self.vault.search("", **filters)]

    async def graph(
        self, ref: str, *, relation: str | None = None, as_of: str | None = None, limit: int = 30
    ) -> dict[str, Any]:
        """Return the links from and to a memory, by id or name, now or as of a date."""
        return await asyncio.to_thread(self._links.describe, ref, relation=relation, as_of=as_of, limit=limit)

    async def is_forgotten(self, content: str) -> bool:
        """Return whether exactly this text is in the archive of the namespace. Pruned memories do not count."""
        return await asyncio.to_thread(self._is_forgotten, content)

    def _is_forgotten(self, content: str) -> bool:
        words = " ".join([word[:MAX_INDEXED_WORD_CHARS] for word in _QUOTES.sub(" ", content).split()])
        phrase = f'"{words[:MAX_PHRASE_CHARS]}"'
        hits = self.vault.search(phrase, self._archive, include="all", limit=MAX_FORGOTTEN_HITS)
        if not hits and all(len(word) > MAX_INDEXED_WORD_CHARS for word in _WORD.findall(content)):
            # the index has none of its words: compare it with all archived memories
            hits = self.vault.search("", self._archive, include="all", limit=1000)
        key, found = text_key(content), [hit.memory for hit in hits if PRUNED_KEY not in hit.memory.header.values]
        archived = [memory for memory in found if has_first_segment(memory.path.split("/"), ARCHIVE)]
        return any(text_key(memory.body) == key for memory in archived)

    def _as_found(self, memory: Memory, hit: Hit | None = None, max_chars: int = 0) -> Found:
        fields: dict[str, Any] = {"id": memory.id, "path": memory.path, "date": json_value(memory.updated)}
        if hit:
            fields["relevance"] = round(hit.relevance, 2)
        return Found(
            _excerpt(memory, hit.snippet if hit else "", max_chars or self.max_chars),
            metadata=fields | header_to_metadata(memory.header.values),
            relevance=hit.relevance if hit else None,
            id=memory.id,
            seen=str(memory.stamp),
            pinned=memory.header.pinned,
        )

    # --- writing

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory, with metadata in its header. Adding the same text twice stores it once."""
        return await asyncio.to_thread(self._add, content, metadata)

    def _add(self, content: str, metadata: Metadata | None) -> Written:
        self.check_writable()
        (content, metadata), counts = self._apply_policy(content, metadata)
        text, header = _stripped(content), {"type": self.type, **metadata_to_header(metadata or {})}
        written = self.vault.add(text, header=header)
        if written.outcome == "duplicate":
            written = self._restore_superseded(written)
        return self._with_redactions(written, counts)

    async def update(
        self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None
    ) -> Written:
        """Replace the text of a memory, and set the keys of `metadata`. Other keys stay.

        Raise MemoryChangedError if `seen` is given and the memory changed since, InvalidMemoryError if it is encrypted.
        """
        return await asyncio.to_thread(self._update, ref, content, metadata, seen)

    def _update(self, ref: str, content: str, metadata: Metadata | None, seen: str | None) -> Written:
        self.check_writable()
        memory = self._read(ref)
        if memory.is_encrypted:  # the caller has not seen the text, so its new text cannot be a correction
            raise InvalidMemoryError(memory.path, "its text is encrypted and is not replaced")
        (content, metadata), counts = self._apply_policy(content, metadata, known=memory.body)
        keys = header_changes(memory.header.values, metadata) if metadata else {}
        seen = seen or (str(memory.stamp) if metadata else None)  # `keys` depend on the header that was read
        return self._with_redactions(self.vault.update(ref, body=_stripped(content), seen=seen, header=keys), counts)

    async def supersede(self, ref: str, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory that replaces an outdated one. The outdated one is kept, but searches skip it."""
        return await asyncio.to_thread(self._supersede, ref, content, metadata)

    def _supersede(self, ref: str, content: str, metadata: Metadata | None) -> Written:
        self.check_writable()
        text, old = _stripped(content), self._read(ref)
        if text_key(text) == text_key(old.body):
            return Written(old.id, old.path, "duplicate", old.stamp)
        written = self._add(text, {"supersedes": [_link(old)], **(metadata or {})})
        links = self.vault.read(written.id).header.supersedes
        if _link(old) not in links:
            self.vault.update(written.id, supersedes=[*links, _link(old)])
        now, until = system_clock(), old.header.valid_until
        with suppress(MalformedMemoryError):  # a file that cannot be edited is superseded by the link alone
            self.vault.update(ref, valid_until=min(until or now, now))
        return written

    def _restore_superseded(self, duplicate: Written) -> Written:
        """Remove the links that supersede a memory: its text was added again, so it is current again."""
        memory = self.vault.read(duplicate.id)
        link = _link(memory)
        hits = self.vault.search("", where=[("supersedes", "EQUALS", link)], limit=1000)
        for hit in hits:
            links = [other for other in hit.memory.header.supersedes if other != link]
            self.vault.update(hit.memory.path, supersedes=links or None)
        if not hits:
            return duplicate
        written = self.vault.update(duplicate.id, valid_until=None)
        return Written(duplicate.id, duplicate.path, "restored", written.stamp)

    async def forget(self, ref: str) -> Written:
        """Move a memory to the archive, where it stays readable and is not extracted again."""
        return await asyncio.to_thread(self._forget, ref)

    def _forget(self, ref: str) -> Written:
        self.check_writable()
        self._read(ref)
        return self.vault.forget(ref)


def _default_name(namespace: object) -> str:
    """Return the default name of a store: its namespace without placeholders."""
    plain = [re.sub(r"\{\w*\}", "", segment).strip("-_.") for segment in str(namespace).split("/")]
    return "/".join(filter(None, plain)) or "vault"


def _archive_path(vault: Vault, path: str) -> str | None:
    """Return the namespace of the archive of a namespace.

    It is None, for the whole scope of the handle, if the handle is already limited to the namespace: then its scope
    includes the archive, and cannot be narrowed to it.
    """
    try:
        vault.scope(path)
    except InvalidNamespaceError:
        return None
    return f"/{ARCHIVE}/{path}"


def _stripped(content: str) -> str:
    encode_text(content, "text")
    return content.strip()


def _link(memory: Memory) -> str:
    """Return a link to a memory: by its path, or by its id if the path has characters that a link cannot hold."""
    path = memory.path.removesuffix(".md")
    return f"[[{memory.id if _NOT_IN_LINK.search(path) else path}]]"


def _excerpt(memory: Memory, snippet: str, max_chars: int) -> str:
    """Return the text of a memory. If it is too long, return the part around the snippet, or the start, and a note."""
    text = memory.legible.strip()
    if len(text) <= max_chars:
        return text
    words = [re.escape(word) for word in snippet.strip("…").split()[:10]]
    match = re.search(r"\s+".join(words), text) if words else None
    start = max(0, min(match.start() - max_chars // 4, len(text) - max_chars)) if match else 0
    end = start + max_chars
    piece = f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"
    return f"{piece}\n[cut: {len(text):,} characters; the whole is memory {memory.id}]"
