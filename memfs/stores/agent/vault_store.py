"""VaultStore: a subtree of a vault as a store. The async methods are a thin shell: nothing is bound to a loop."""

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from memfs.data_types import Hit, Memory, Written, display_value
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
from memfs.format.edit import canonical_value, compose
from memfs.format.frontmatter import parse
from memfs.format.header_schema import KEY_CHECKS
from memfs.fs.files import encode_text
from memfs.namespace import ARCHIVE, Template, is_utf8_encodable
from memfs.privacy.policy import Policy
from memfs.protocols import system_clock
from memfs.storage.file_names import text_key
from memfs.stores.agent.base import Curated
from memfs.stores.agent.links import Relations
from memfs.stores.agent.protocol import Found, Metadata
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

ACTOR = "MEMFS_ACTOR"  # the environment variable
MOST_WORDS = 1500  # characters of a text that is searched for by all of its words
LONGEST = 80  # characters of a word, for longer ones are no words to the index
NEAREST = 50  # forgotten memories with the words of a text that are compared with it
_QUOTES = re.compile(r'["“”*]')
_WORD = re.compile(r"[^\W_]+")
_NO_LINK = re.compile(r"[\[\]|#]")


class VaultStore(Curated):
    """A store over a vault, or a subtree of it that neither a model nor a ref can leave."""

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
            (_name_of(namespace) if isinstance(namespace, str) else "vault") if name is None else name,
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
        self._check(_header_value("type", type) is not None and bool(type), "type", type, "a text")
        for argument, value in (("actor", actor), ("session", session)):
            self._check(value is None or (isinstance(value, str) and bool(value)), argument, value, "a text")
        self.type, self.session = type, session
        self._check(isinstance(vault, Vault | str | os.PathLike), "vault", vault, "a vault or a path")
        self._whole, self._is_owned = (vault, False) if isinstance(vault, Vault) else (Vault(vault), True)
        self.vault = self._scope(self._whole, namespace, actor)
        self.vault_root = self.vault.root
        self._relations = Relations(self.vault)
        self.redaction = redaction or Policy.of(self._whole)
        self.place = f"{self.name}:{self.vault.namespace}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.namespace!r})"

    def _scope(self, vault: Vault, namespace: str, actor: str | None) -> Vault:
        """The handle through which all goes."""
        actor = actor or vault.settings.get("actor") or os.environ.get(ACTOR)
        try:
            place = Template(namespace).render(actor=actor or "", session=self.session or "")
            self.namespace = str(place)
            self._archive = _archive_of(vault, place.path)
            return vault.scope(self.namespace) if place.segments else vault
        except MemfsError as error:
            lack = "" if actor else f"; an actor is given by actor=, by memfs.yaml or by {ACTOR}"
            raise InvalidSetupError(f"store {self.name!r}", f"namespace: {error}{lack}") from error

    async def initialize(self) -> None:
        """Open the index, so that the first turn is fast."""
        await asyncio.to_thread(self.vault.search, "", limit=1)

    def close(self) -> None:
        """Give back what a vault holds that was opened by its path; the store can still be used."""
        if self._is_owned:
            self._whole.close()

    # --- reading

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> list[Found]:
        """The memories that answer a question, best first; of a blank one the newest."""
        return await asyncio.to_thread(self._search, query, self.limit_of(options), self.min_relevance)

    def _search(self, query: str, limit: int, floor: float) -> list[Found]:
        hits = self.vault.search(query, limit=limit, min_relevance=floor)
        if query.strip():  # else it is a listing
            self.vault.usage.searched([hit.memory.id for hit in hits])
        return [self._found(hit.memory, hit if query.strip() else None) for hit in hits]

    async def get(self, ref: str) -> Found:
        """One memory, whole; a forgotten one is not there."""
        return await asyncio.to_thread(self._whole_of, ref)

    def _whole_of(self, ref: str) -> Found:
        memory = self._read(ref)
        return self._found(memory, most=len(memory.body))

    def _read(self, ref: str) -> Memory:
        if not isinstance(ref, str):
            raise MemoryNotFoundError(short_repr(ref))
        memory = self.vault.read(ref)
        if is_below(memory.path.split("/"), ARCHIVE):
            raise MemoryNotFoundError(ref)
        return memory

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[Found]:
        """What there is, the newest first."""
        return await asyncio.to_thread(self._listed, limit=limit, offset=offset)

    async def similar(self, text: str, limit: int = 10) -> Sequence[Found]:
        """The memories nearest to a text, however far; each whole, for it may be rewritten."""
        return await asyncio.to_thread(self._similar, text, limit)

    def _similar(self, text: str, limit: int) -> Sequence[Found]:
        hits = self.vault.search(_QUOTES.sub(" ", text).strip() or ".", limit=limit)
        clear = [hit for hit in hits if not hit.memory.is_encrypted]
        return [self._found(hit.memory, hit, most=len(hit.memory.body)) for hit in clear]

    async def pinned(self, limit: int = 5) -> Sequence[Found]:
        """The memories that are always told, the newest first."""
        return await asyncio.to_thread(self._listed, limit=limit, where={"pinned": True})

    def _listed(self, **choice: Any) -> Sequence[Found]:
        return [self._found(hit.memory) for hit in self.vault.search("", **choice)]

    async def graph(
        self, ref: str, *, relation: str | None = None, as_of: str | None = None, limit: int = 30
    ) -> dict[str, Any]:
        """What a memory, by id or name, says of others, and they of it; now, or as it was then."""
        return await asyncio.to_thread(self._relations.of, ref, relation=relation, as_of=as_of, limit=limit)

    async def is_forgotten(self, content: str) -> bool:
        """Tell whether this very text is in the archive of the namespace, and not because it had faded."""
        return await asyncio.to_thread(self._is_forgotten, content)

    def _is_forgotten(self, content: str) -> bool:
        words = " ".join([word[:LONGEST] for word in _QUOTES.sub(" ", content).split()])
        hits = self.vault.search(f'"{words[:MOST_WORDS]}"', self._archive, include="all", limit=NEAREST)
        if not hits and all(len(word) > LONGEST for word in _WORD.findall(content)):  # no word to be found by
            hits = self.vault.search("", self._archive, include="all", limit=1000)
        same, found = text_key(content), [hit.memory for hit in hits if PRUNED_KEY not in hit.memory.header.values]
        return any(is_below(one.path.split("/"), ARCHIVE) and text_key(one.body) == same for one in found)

    def _found(self, memory: Memory, hit: Hit | None = None, most: int = 0) -> Found:
        told: dict[str, Any] = {"id": memory.id, "path": memory.path, "date": _plain(memory.updated)}
        if hit:
            told["relevance"] = round(hit.relevance, 2)
        return Found(
            _shortened(memory, hit.snippet if hit else "", most or self.max_chars),
            metadata=told | metadata_of(memory.header.values),
            relevance=hit.relevance if hit else None,
            id=memory.id,
            seen=str(memory.stamp),
            pinned=memory.header.pinned,
        )

    # --- writing

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory; the same text twice is there once. Metadata goes into the header."""
        return await asyncio.to_thread(self._add, content, metadata)

    def _add(self, content: str, metadata: Metadata | None) -> Written:
        self.must_be_writable()
        (content, metadata), counts = self._admitted(content, metadata)
        text, header = _text(content), {"type": self.type, **header_of(metadata or {})}
        written = self.vault.add(text, header=header)
        return self._told(self._back_in_force(written) if written.outcome == "duplicate" else written, counts)

    async def update(
        self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None
    ) -> Written:
        """Put another text in the place of a memory's, and set the keys of `metadata`; the other ones stay."""
        return await asyncio.to_thread(self._update, ref, content, metadata, seen)

    def _update(self, ref: str, content: str, metadata: Metadata | None, seen: str | None) -> Written:
        self.must_be_writable()
        memory = self._read(ref)
        if memory.is_encrypted:  # who did not see it has nothing to put in its place
            raise InvalidMemoryError(memory.path, "its text is encrypted, and not replaced by another")
        (content, metadata), counts = self._admitted(content, metadata, known=memory.body)
        keys = header_changes(memory.header.values, metadata) if metadata else {}
        seen = seen or (str(memory.stamp) if metadata else None)
        return self._told(self.vault.update(ref, body=_text(content), seen=seen, header=keys), counts)

    async def supersede(self, ref: str, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory in the place of one that is no longer true, which is kept, out of the way."""
        return await asyncio.to_thread(self._supersede, ref, content, metadata)

    def _supersede(self, ref: str, content: str, metadata: Metadata | None) -> Written:
        self.must_be_writable()
        text, old = _text(content), self._read(ref)
        if text_key(text) == text_key(old.body):
            return Written(old.id, old.path, "duplicate", old.stamp)
        written = self._add(text, {"supersedes": [_link(old)], **(metadata or {})})
        links = self.vault.read(written.id).header.supersedes
        if _link(old) not in links:
            self.vault.update(written.id, supersedes=[*links, _link(old)])
        now, until = system_clock(), old.header.valid_until
        with suppress(MalformedMemoryError):  # a file that cannot be edited is out of the way by the link alone
            self.vault.update(ref, valid_until=min(until or now, now))
        return written

    def _back_in_force(self, known: Written) -> Written:
        """Have a memory found again that was superseded, and is said again."""
        memory = self.vault.read(known.id)
        link = _link(memory)
        hits = self.vault.search("", where=[("supersedes", "EQUALS", link)], limit=1000)
        for hit in hits:
            links = [other for other in hit.memory.header.supersedes if other != link]
            self.vault.update(hit.memory.path, supersedes=links or None)
        if not hits:
            return known
        written = self.vault.update(known.id, valid_until=None)
        return Written(known.id, known.path, "restored", written.stamp)

    async def forget(self, ref: str) -> Written:
        """Move a memory to the archive, where it is readable, and not extracted again."""
        return await asyncio.to_thread(self._forget, ref)

    def _forget(self, ref: str) -> Written:
        self.must_be_writable()
        self._read(ref)
        return self.vault.forget(ref)


# --- texts --------------------------------------------------------------------------------------------


def _name_of(namespace: object) -> str:
    """The name of a store by default: its namespace without placeholders."""
    plain = [re.sub(r"\{\w*\}", "", segment).strip("-_.") for segment in str(namespace).split("/")]
    return "/".join(filter(None, plain)) or "vault"


def _archive_of(vault: Vault, path: str) -> str | None:
    """The archive of a namespace; None of a handle that has a scope already, and is asked for all of it."""
    try:
        vault.scope(path)
    except InvalidNamespaceError:
        return None
    return f"/{ARCHIVE}/{path}"


def _text(content: str) -> str:
    encode_text(content, "text")
    return content.strip()


def _link(memory: Memory) -> str:
    """A link to a memory: by its path, or by its id where a path would not read back."""
    path = memory.path.removesuffix(".md")
    return f"[[{memory.id if _NO_LINK.search(path) else path}]]"


def _shortened(memory: Memory, snippet: str, most: int) -> str:
    """The text of a memory, or of a long one the piece with the snippet, and words that it is a piece."""
    text = memory.legible.strip()
    if len(text) <= most:
        return text
    words = [re.escape(word) for word in snippet.strip("…").split()[:10]]
    place = re.search(r"\s+".join(words), text) if words else None
    start = max(0, min(place.start() - most // 4, len(text) - most)) if place else 0
    piece = f"{'…' if start else ''}{text[start : start + most].strip()}{'…' if start + most < len(text) else ''}"
    return f"{piece}\n[cut: {len(text):,} characters; the whole is memory {memory.id}]"


# --- metadata and header ------------------------------------------------------------------------------

REST = "metadata"  # the key that holds, as JSON, what would not read back equal from a key of its own
OURS = frozenset({"id", "created", "updated"})  # written by memfs: no metadata, unless somebody gave it
ARGUMENTS = frozenset("self dirty text namespace ref body add_tags remove_tags seen".split())  # words of Vault's own
_ROOM = {f"room-{number}": "x" * 400 for number in range(8)}  # for what is written into a header besides


def header_of(given: Metadata) -> dict[str, Any]:
    """Metadata as header keys, such that `metadata_of` them is equal to it."""
    if not isinstance(given, Mapping):
        raise InvalidMemoryError("metadata", f"{short_repr(given)} is not a mapping")
    values = {str(key): value for key, value in given.items()}
    texts = {key: _json(value) for key, value in values.items()}
    legal = {key: found for key, value in values.items() if (found := _header_value(key, value)) is not None}
    short = [key for key in legal if key in KEY_CHECKS and len(texts[key]) < 500]
    for keys in (list(legal), [key for key in legal if key in KEY_CHECKS], short):
        header = {key: legal[key] for key in keys}
        rest = [key for key in values if key not in keys or key in OURS or _json(_plain(legal[key])) != texts[key]]
        if rest:
            header[REST] = f"{{{', '.join(f'{_json(key)}: {texts[key]}' for key in rest)}}}"
        read = parse(compose(_ROOM | header, "."))
        if not read.faults and read.values == _ROOM | header:
            return header
    raise InvalidMemoryError("metadata", "is longer than the header of a memory may be")


def metadata_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata in a header, fit for JSON; where a person changed a key since, what the person wrote."""
    told = {key: _plain(display_value(value)) for key, value in values.items() if key not in OURS and key != REST}
    for key, value in _rest(values).items():
        legal = _header_value(key, value)
        if legal is None or key not in values or legal == values[key]:
            told[key] = value
    return told


def header_changes(values: Mapping[str, Any], given: Metadata) -> dict[str, Any]:
    """The header keys to change so that it has this metadata beside what it has."""
    header = header_of(given)
    before = _rest(values)
    rest = {key: value for key, value in before.items() if key not in given} | _rest({REST: header.pop(REST, "{}")})
    gone = [key for key in given if key in values and key not in header and key not in {*OURS, *ARGUMENTS, REST}]
    changes = {**dict.fromkeys(gone), **header}
    if rest != before:
        changes[REST] = _json(rest) if rest else None
    return changes


def _header_value(key: str, value: Any) -> Any:
    """The value as it reads back from a key of its own; None if it cannot be there."""
    if key == "id" or key == REST or key in ARGUMENTS:
        return None
    try:
        return canonical_value(key, value)
    except InvalidMemoryError:
        return None


def _rest(values: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that has no key of its own."""
    held = values.get(REST)
    if isinstance(held, str) and held.startswith("{"):
        with suppress(ValueError, RecursionError):
            return dict(json.loads(held))
    return {} if held is None else {REST: _plain(held)}


def _json(value: Any) -> str:
    """A value as JSON on one line; what JSON does not know becomes text."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
        return text if is_utf8_encodable(text) else json.dumps(value, default=_plain)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidMemoryError("metadata", f"cannot be written: {error}") from None


def _plain(value: Any) -> Any:
    """A header value in the forms of JSON."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str | int | float | None) else str(value)
