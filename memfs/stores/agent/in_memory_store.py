"""InMemoryStore: the contract of a store in RAM, for tests and for what need not last."""

import copy
import itertools
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memfs.data_types import Outcome, Stamp, Written
from memfs.errors import InvalidMemoryError, InvalidSearchError, MemoryChangedError, MemoryNotFoundError, short_repr
from memfs.fs.files import encode_text
from memfs.ids import new_id
from memfs.privacy.policy import Policy
from memfs.protocols import Clock, system_clock
from memfs.query.tokens import STOP_WORDS, prepare
from memfs.storage.file_names import text_key
from memfs.stores.agent.base import MAX_RESULTS, Curated, is_count
from memfs.stores.agent.protocol import Found, Metadata

_WORD = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ies|ied|ed|es|s|y|e)$")
PREFIX = 4  # letters from which on a word may stand for one that begins so
LONGER = 3  # letters that the other may have more


@dataclass
class _Kept:
    """A memory of the store; `turn` grows with every write, and is what the newest is known by."""

    id: str
    content: str
    metadata: dict[str, Any]
    date: datetime
    turn: int
    is_forgotten: bool = False
    supersedes: set[str] = field(default_factory=set)

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.turn, 0, 0, 0)

    @property
    def is_pinned(self) -> bool:
        return self.metadata.get("pinned") is True

    def written(self, outcome: Outcome) -> Written:
        return Written(self.id, self.id, outcome, self.stamp)


class InMemoryStore(Curated):
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
        self._kept: dict[str, _Kept] = {}
        self._lock, self._turns, self._clock = threading.Lock(), itertools.count(1), clock

    @property
    def memories(self) -> Sequence[Found]:
        """What there is, as it was added: for a test to look at."""
        with self._lock:
            return [self._found(kept) for kept in self._living()]

    # --- reading

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> Sequence[Found]:
        """The memories that share words with a question, best first; of a blank one the newest."""
        limit = self.limit_of(options)
        if not isinstance(query, str):
            raise InvalidSearchError("question", f"{short_repr(query)} is not a text")
        return self._nearest(query, limit, self.min_relevance) if query.strip() else self._newest(limit)

    async def get(self, ref: str) -> Found:
        """One memory, whole; a forgotten one is not there."""
        with self._lock:
            kept = self._one(ref)
            return self._found(kept, most=len(kept.content))

    async def list(self, limit: int = 20, offset: int = 0) -> Sequence[Found]:
        """What there is, the newest first."""
        return self._newest(limit, offset)

    async def similar(self, text: str, limit: int = 10) -> Sequence[Found]:
        """The memories nearest to a text, however far."""
        return self._nearest(text, limit, 0.0)

    async def pinned(self, limit: int = 5) -> Sequence[Found]:
        """The memories that are always told, the newest first."""
        return self._newest(limit, chosen=lambda kept: kept.is_pinned)

    async def is_forgotten(self, content: str) -> bool:
        """Tell whether this very text was forgotten."""
        same = text_key(content)
        with self._lock:
            return any(kept.is_forgotten and text_key(kept.content) == same for kept in self._kept.values())

    def _newest(self, limit: int, offset: int = 0, chosen: Callable[[_Kept], bool] = lambda _: True) -> Sequence[Found]:
        _check_limit(limit)
        with self._lock:
            found = sorted(filter(chosen, self._living()), key=lambda kept: -kept.turn)
            return [self._found(kept) for kept in found[offset : offset + limit]]

    def _nearest(self, text: str, limit: int, floor: float) -> Sequence[Found]:
        _check_limit(limit)
        asked = stems(text, is_question=True)
        with self._lock:
            scored = [(share(asked, stems(kept.content)), kept) for kept in self._living()]
            scored = [(score, kept) for score, kept in scored if score and score >= floor]
            scored.sort(key=lambda pair: (-pair[0], -pair[1].turn))
            return [self._found(kept, share) for share, kept in scored[:limit]]

    def _living(self) -> Sequence[_Kept]:
        there = [kept for kept in self._kept.values() if not kept.is_forgotten]
        superseded = {old for kept in there for old in kept.supersedes}
        return [kept for kept in there if kept.id not in superseded]

    def _one(self, ref: str) -> _Kept:
        kept = self._kept.get(ref) if isinstance(ref, str) else None
        if kept is None or kept.is_forgotten:
            raise MemoryNotFoundError(ref if isinstance(ref, str) else short_repr(ref))
        return kept

    def _found(self, kept: _Kept, relevance: float | None = None, most: int = 0) -> Found:
        told: dict[str, Any] = {"id": kept.id, "path": kept.id, "date": _iso(kept.date)}
        if relevance is not None:
            told["relevance"] = round(relevance, 2)
        content, most = kept.content, most or self.max_chars
        if len(content) > most:
            content = f"{content[:most]}…\n[cut: {len(content):,} characters; the whole is memory {kept.id}]"
        return Found(
            content,
            metadata=told | copy.deepcopy(kept.metadata),
            relevance=relevance,
            id=kept.id,
            seen=str(kept.stamp),
            pinned=kept.is_pinned,
        )

    # --- writing

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory; the same text twice is there once."""
        with self._lock:
            return self._add(content, metadata)

    def _add(self, content: str, metadata: Metadata | None) -> Written:
        text, given, counts = self._checked(content, metadata)
        same = text_key(text)
        for kept in self._kept.values():
            if not kept.is_forgotten and text_key(kept.content) == same:
                return self._told(self._back_in_force(kept), counts)
        now = self._clock()
        kept = _Kept(new_id(now), text, given, now, next(self._turns))
        self._kept[kept.id] = kept
        return self._told(kept.written("created"), counts)

    def _back_in_force(self, kept: _Kept) -> Written:
        """Have a memory found again that was superseded, and is said again."""
        over = [other for other in self._kept.values() if kept.id in other.supersedes and not other.is_forgotten]
        for other in over:
            other.supersedes.discard(kept.id)
        if over:
            kept.metadata.pop("valid_until", None)
        return kept.written("restored" if over else "duplicate")

    async def update(
        self, ref: str, content: str, metadata: Metadata | None = None, *, seen: str | None = None
    ) -> Written:
        """Put another text in the place of a memory's, and set the keys of `metadata`; the other ones stay."""
        with self._lock:
            self.must_be_writable()
            kept = self._one(ref)
            text, given, counts = self._checked(content, metadata, known=kept.content)
            if seen is not None and seen != str(kept.stamp):
                raise MemoryChangedError(kept.id)
            if (text, kept.metadata | given) == (kept.content, kept.metadata):
                return kept.written("unchanged")
            kept.content, kept.metadata = text, kept.metadata | given
            kept.date, kept.turn = self._clock(), next(self._turns)
            return self._told(kept.written("updated"), counts)

    async def supersede(self, ref: str, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory in the place of one that is no longer true, which is kept, out of the way."""
        with self._lock:
            text, *_ = self._checked(content, metadata)
            old = self._one(ref)
            if text_key(text) == text_key(old.content):
                return old.written("duplicate")
            written = self._add(content, metadata)
            new = self._kept[written.id]
            new.supersedes.add(old.id)
            new.metadata.setdefault("supersedes", [f"[[{old.id}]]"])
            old.metadata["valid_until"] = _iso(self._clock())
            return written

    async def forget(self, ref: str) -> Written:
        """Put a memory out of the way, so that it is not extracted again either."""
        self.must_be_writable()
        with self._lock:
            kept = self._one(ref)
            kept.is_forgotten = True
            return kept.written("archived")

    def _checked(
        self, content: str, metadata: Metadata | None, *, known: str = ""
    ) -> tuple[str, dict[str, Any], Mapping[str, int]]:
        self.must_be_writable()
        (content, metadata), counts = self._admitted(content, metadata, known=known)
        encode_text(content, "text")
        if not isinstance(metadata, Mapping | None):
            raise InvalidMemoryError("metadata", f"{short_repr(metadata)} is not a mapping")
        return content.strip(), copy.deepcopy(dict(metadata or {})), counts


def _check_limit(limit: int) -> None:
    if not is_count(limit, MAX_RESULTS):
        raise InvalidSearchError("limit", f"{short_repr(limit)} is not a whole number from 1 to {MAX_RESULTS}")


def _iso(when: datetime) -> str:
    return when.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def stems(text: str, *, is_question: bool = False) -> set[str]:
    """The words of a text that say something, without their endings."""
    words = set(_WORD.findall(prepare(text, is_question=is_question).lower()))
    return {_ENDING.sub("", word) for word in words - STOP_WORDS}


def share(asked: Iterable[str], there: set[str]) -> float:
    """How many of the words asked for are there, 0..1."""
    words = [*asked]
    return sum(any(_alike(word, other) for other in there) for word in words) / len(words) if words else 0.0


def _alike(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (
        len(short) >= PREFIX and len(long) - len(short) <= LONGER and short.isalpha() and long.startswith(short)
    )
