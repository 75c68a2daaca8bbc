"""InMemoryStore: a store for an agent in RAM, for tests and for memories that need not last."""

import copy
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memfs.argument_checks import is_positive_int
from memfs.data_types import Outcome, Stamp, Written
from memfs.errors import InvalidMemoryError, InvalidSearchError, MemoryChangedError, MemoryNotFoundError, short_repr
from memfs.fs.files import encode_text
from memfs.ids import new_id
from memfs.privacy.policy import Policy
from memfs.protocols import Clock, system_clock
from memfs.query.tokens import STOP_WORDS, normalize_text
from memfs.storage.exact_duplicates import text_key
from memfs.stores.agent.base import BaseStore
from memfs.stores.agent.protocol import MAX_SEARCH_RESULTS, Found, Metadata

_WORD = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ies|ied|ed|es|s|y|e)$")
MIN_PREFIX_CHARS = 4  # a word of this length also matches a longer word that begins with it
MAX_EXTRA_CHARS = 3  # by which that word may be longer


@dataclass
class _Record:
    """One memory of the store. `version` grows with every write to the store and orders memories by age."""

    id: str
    content: str
    metadata: dict[str, Any]
    date: datetime
    version: int
    is_forgotten: bool = False
    supersedes: set[str] = field(default_factory=set)

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.version, 0, 0, 0)

    @property
    def is_pinned(self) -> bool:
        return self.metadata.get("pinned") is True

    def written(self, outcome: Outcome) -> Written:
        return Written(self.id, self.id, outcome, self.stamp)


class InMemoryStore(BaseStore):
    """A store that lasts as long as its process. Thread-safe, and bound to no event loop."""

    def __init__(
        self,
        name: str = "memory",
        *,
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        min_relevance: float = 0.2,
        tools: Sequence[str] = (),
        max_chars: int = 4000,
        clock: Clock = system_clock,
        redaction: Policy | None = None,
    ) -> None:
        super().__init__(
            name,
            description=description,
            max_search_results=max_search_results,
            writable=writable,
            extraction=extraction,
            min_relevance=min_relevance,
            tools=tools,
            max_chars=max_chars,
            redaction=redaction,
        )
        self._records: dict[str, _Record] = {}
        self._lock, self._versions, self._clock = threading.Lock(), itertools.count(1), clock

    @property
    def memories(self) -> Sequence[Found]:
        """The memories that are neither forgotten nor superseded, in the order they were added; for tests."""
        with self._lock:
            return [self._as_found(record) for record in self._current()]

    # --- reading

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> Sequence[Found]:
        """Return the memories that share words with a query, best first; the newest for a blank query."""
        limit = self.search_limit(options)
        if not isinstance(query, str):
            raise InvalidSearchError("question", f"{short_repr(query)} is not a text")
        return self._nearest(query, limit, self.min_relevance) if query.strip() else self._newest(limit)

    async def get(self, ref: str) -> Found:
        """Return one memory, uncut. Raise MemoryNotFoundError if it is forgotten."""
        with self._lock:
            record = self._get(ref)
            return self._as_found(record, max_chars=len(record.content))

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[Found]:
        """Return memories, the last written first."""
        return self._newest(limit, offset)

    async def similar(self, text: str, limit: int = 10) -> Sequence[Found]:
        """Return the memories that share words with a text, best first, with no relevance threshold."""
        return self._nearest(text, limit, 0.0)

    async def pinned(self, limit: int = 5) -> Sequence[Found]:
        """Return the pinned memories, newest first."""
        return self._newest(limit, is_wanted=lambda record: record.is_pinned)

    async def is_forgotten(self, content: str) -> bool:
        """Return whether exactly this text was forgotten."""
        key = text_key(content)
        with self._lock:
            return any(record.is_forgotten and text_key(record.content) == key for record in self._records.values())

    def _newest(
        self, limit: int, offset: int = 0, is_wanted: Callable[[_Record], bool] = lambda _: True
    ) -> Sequence[Found]:
        _check_limit(limit)
        with self._lock:
            found = sorted(filter(is_wanted, self._current()), key=lambda record: -record.version)
            return [self._as_found(record) for record in found[offset : offset + limit]]

    def _nearest(self, text: str, limit: int, min_relevance: float) -> Sequence[Found]:
        _check_limit(limit)
        query_words = stems(text, is_question=True)
        with self._lock:
            scored = [(matched_fraction(query_words, stems(record.content)), record) for record in self._current()]
            scored = [(score, record) for score, record in scored if score and score >= min_relevance]
            scored.sort(key=lambda pair: (-pair[0], -pair[1].version))
            return [self._as_found(record, score) for score, record in scored[:limit]]

    def _current(self) -> Sequence[_Record]:
        """Return the memories that are neither forgotten nor superseded. The caller holds the lock."""
        remembered = [record for record in self._records.values() if not record.is_forgotten]
        superseded = {old for record in remembered for old in record.supersedes}
        return [record for record in remembered if record.id not in superseded]

    def _get(self, ref: str) -> _Record:
        """Return a memory by id, also a superseded one. Raise MemoryNotFoundError if it is forgotten."""
        record = self._records.get(ref) if isinstance(ref, str) else None
        if record is None or record.is_forgotten:
            raise MemoryNotFoundError(ref if isinstance(ref, str) else short_repr(ref))
        return record

    def _as_found(self, record: _Record, relevance: float | None = None, max_chars: int = 0) -> Found:
        fields: dict[str, Any] = {"id": record.id, "path": record.id, "date": _iso(record.date)}
        if relevance is not None:
            fields["relevance"] = round(relevance, 2)
        content, max_chars = record.content, max_chars or self.max_chars
        if len(content) > max_chars:
            content = f"{content[:max_chars]}…\n[cut: {len(content):,} characters; the whole is memory {record.id}]"
        return Found(
            content,
            metadata=fields | copy.deepcopy(record.metadata),
            relevance=relevance,
            id=record.id,
            seen=str(record.stamp),
            pinned=record.is_pinned,
        )

    # --- writing

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory. Adding the same text twice stores it once."""
        with self._lock:
            return self._add(content, metadata)

    def _add(self, content: str, metadata: Metadata | None) -> Written:
        text, given, counts = self._checked(content, metadata)
        key = text_key(text)
        for record in self._records.values():
            if not record.is_forgotten and text_key(record.content) == key:
                return self._with_redactions(self._restore_superseded(record), counts)
        now = self._clock()
        record = _Record(new_id(now), text, given, now, next(self._versions))
        self._records[record.id] = record
        return self._with_redactions(record.written("created"), counts)

    def _restore_superseded(self, record: _Record) -> Written:
        """Remove the links that supersede a memory: its text was added again, so it is current again."""
        remembered = [other for other in self._records.values() if not other.is_forgotten]
        successors = [other for other in remembered if record.id in other.supersedes]
        for other in successors:
            other.supersedes.discard(record.id)
        if successors:
            record.metadata.pop("valid_until", None)
        return record.written("restored" if successors else "duplicate")

    async def update(
        self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None
    ) -> Written:
        """Replace the text of a memory, and set the keys of `metadata`. Other keys stay.

        Raise MemoryChangedError if `seen` is given and the memory changed since it was read.
        """
        with self._lock:
            self.check_writable()
            record = self._get(ref)
            text, given, counts = self._checked(content, metadata, known=record.content)
            if seen is not None and seen != str(record.stamp):
                raise MemoryChangedError(record.id)
            if (text, record.metadata | given) == (record.content, record.metadata):
                return record.written("unchanged")
            record.content, record.metadata = text, record.metadata | given
            record.date, record.version = self._clock(), next(self._versions)
            return self._with_redactions(record.written("updated"), counts)

    async def supersede(self, ref: str, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory that replaces an outdated one. The outdated one is kept, but searches skip it."""
        with self._lock:
            text, *_ = self._checked(content, metadata)
            old = self._get(ref)
            if text_key(text) == text_key(old.content):
                return old.written("duplicate")
            written = self._add(content, metadata)
            new = self._records[written.id]
            new.supersedes.add(old.id)
            new.metadata.setdefault("supersedes", [f"[[{old.id}]]"])
            old.metadata["valid_until"] = _iso(self._clock())
            return written

    async def forget(self, ref: str) -> Written:
        """Archive a memory, and keep its text from being extracted again."""
        self.check_writable()
        with self._lock:
            record = self._get(ref)
            record.is_forgotten = True
            return record.written("archived")

    def _checked(
        self, content: str, metadata: Metadata | None, *, known: str = ""
    ) -> tuple[str, dict[str, Any], Mapping[str, int]]:
        """Return text and metadata, checked, redacted and copied, and the counts of redacted findings."""
        self.check_writable()
        (content, metadata), counts = self._apply_policy(content, metadata, known=known)
        encode_text(content, "text")
        if not isinstance(metadata, Mapping | None):
            raise InvalidMemoryError("metadata", f"{short_repr(metadata)} is not a mapping")
        return content.strip(), copy.deepcopy(dict(metadata or {})), counts


def _check_limit(limit: int) -> None:
    if not is_positive_int(limit, MAX_SEARCH_RESULTS):
        raise InvalidSearchError("limit", f"{short_repr(limit)} is not a whole number from 1 to {MAX_SEARCH_RESULTS}")


def _iso(when: datetime) -> str:
    return when.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def stems(text: str, *, is_question: bool = False) -> set[str]:
    """Return the distinct words of a text in lower case, without stop words and endings."""
    words = set(_WORD.findall(normalize_text(text, is_question=is_question).lower()))
    return {_ENDING.sub("", word) for word in words - STOP_WORDS}


def matched_fraction(query_words: Iterable[str], text_words: set[str]) -> float:
    """Return the fraction of the query words that a text has, 0 to 1; 0 for no words."""
    words = [*query_words]
    return sum(any(_is_match(word, other) for other in text_words) for word in words) / len(words) if words else 0.0


def _is_match(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    is_near = len(short) >= MIN_PREFIX_CHARS and len(long) - len(short) <= MAX_EXTRA_CHARS
    return one == other or (is_near and short.isalpha() and long.startswith(short))
