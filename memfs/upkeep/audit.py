"""Audit: what in a vault a person should look at, because it is there twice, out of date or unused. Changes nothing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote
from typing import NamedTuple

from memfs.data_types import Memory, lazy
from memfs.errors import short_repr
from memfs.ids import is_id
from memfs.index.tantivy_analyzer import Analyzer
from memfs.namespace import fold, is_conflict_copy
from memfs.privacy.policy import is_secret, scan_text
from memfs.protocols import system_clock
from memfs.upkeep.contradictions import clashes, statements
from memfs.upkeep.near_duplicates import Text, twins
from memfs.upkeep.pruning import faded
from memfs.upkeep.supersession_chains import SupersessionChains, are_linked
from memfs.vault.search_engine import DEFAULT_LANGUAGE
from memfs.vault.vault import Vault

KINDS = ("secret", "contradiction", "duplicate", "stale", "unused", "long")
LONGEST = 4000  # characters of a memory that agents are given
MANY = 12  # statements; a fact with more of them is several facts
UNUSED_DAYS = 30  # for which recalls must be counted before one that was not recalled is unused
TOLD = frozenset({"summary", "episode", "reflection"})  # types that tell how things were, then
CLAIMS = frozenset({"fact", "preference"})  # types that say how things are


class Finding(NamedTuple):
    """One thing to look at: where, of which kind, in words, and what can be done about it."""

    path: str
    line: int
    kind: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def audit(
    vault: Vault,
    namespace: str | None = None,
    *,
    kinds: Iterable[str] = KINDS,
    now: datetime | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Everything of these kinds that a person should look at, by kind and path; `progress` hears of kinds done."""
    seen = _Look(vault, namespace, now or system_clock())
    looks: Mapping[str, Callable[[], Iterator[Finding]]] = {
        "secret": seen.secret, "contradiction": seen.contradictory, "duplicate": seen.twice,
        "stale": seen.stale, "unused": seen.unused, "long": seen.too_long,
    }  # fmt: skip
    wanted = [kind for kind in KINDS if kind in set(kinds)]
    found: list[Finding] = []
    for number, kind in enumerate(wanted):
        if progress:
            progress(number, len(wanted))
        found += sorted(looks[kind]())
    return found


@dataclass
class _Look:
    """One look at a vault: what is read once, and asked for by several kinds."""

    vault: Vault
    namespace: str | None
    now: datetime

    @lazy
    def memories(self) -> list[Memory]:
        return [memory for memory in self.vault.list(self.namespace) if not is_conflict_copy(memory.path)]

    @lazy
    def lineage(self) -> SupersessionChains:
        return SupersessionChains(self.memories if self.namespace is None else self.vault.list(), self.now)

    @lazy
    def in_force(self) -> list[Memory]:
        return [memory for memory in self.memories if self.lineage.is_in_force(memory)]

    # --- secrets

    @lazy
    def _leaks(self) -> list[Finding]:
        hint = "Take it out of the file, and out of git's history; then change it."
        found = [
            (memory.path, one) for memory in self.memories for one in scan_text(memory.text) if is_secret(one.kind)
        ]
        return [Finding(path, one.line, "secret", f"holds what looks like: {one.kind}", hint) for path, one in found]

    def secret(self) -> Iterator[Finding]:
        """Files that hold what looks like a secret; never the secret itself."""
        yield from self._leaks

    # --- contradictions

    def contradictory(self) -> Iterator[Finding]:
        """Memories in force, in one namespace, of which one may say the opposite of another."""
        alike = {frozenset({found.path, other}) for found, other in self._twins}
        for memories in _grouped(self.in_force, lambda memory: fold(str(memory.namespace))):
            told = set(alike)
            for clash in (*self._clashing(memories), *_same_titles(memories)):
                pair = frozenset({clash.older.path, clash.newer.path})
                if pair not in told and _overlap(clash.older, clash.newer) and not are_linked(clash.older, clash.newer):
                    told.add(pair)
                    yield Finding(clash.older.path, clash.line, "contradiction", clash.text, _superseding(clash))

    def _clashing(self, memories: Sequence[Memory]) -> Iterator["_Clash"]:
        named, leaking = {memory.path: memory for memory in memories}, {leak.path for leak in self._leaks}
        claims = [memory for memory in memories if memory.header.type in CLAIMS]
        newest_first = sorted(claims, key=lambda one: (one.updated, one.path), reverse=True)
        said = [one for memory in newest_first for one in statements(memory.path, memory.body[:LONGEST])]
        for old, new, values in clashes(said):
            older, newer = named[old.name], named[new.name]
            text = f"says the opposite of {newer.path}, which is newer"
            if values and leaking.isdisjoint({old.name, new.name}):
                text = f"says {short_repr(values[0])} where {newer.path}, which is newer, says {short_repr(values[1])}"
            elif values:
                text = f"says otherwise than {newer.path}, which is newer"
            yield _Clash(older, newer, _line_at(older, old.at), text)

    # --- duplicates

    @lazy
    def _twins(self) -> list[tuple[Finding, str]]:
        """Memories in force that say nearly what another one says, and which."""
        analyzer = Analyzer(self.vault.settings.get("retrieval", {}).get("language", DEFAULT_LANGUAGE))
        found = []
        for memories in _grouped(self.in_force, lambda memory: fold(memory.path.rpartition("/")[0].rpartition("/")[2])):
            texts = [Text(one.path, one.body, analyzer.phrase_terms(one.body)) for one in memories]
            alike: dict[str, set[str]] = defaultdict(set)
            for name, leader, _ in twins([text for text in texts if text.words]):
                alike[leader] |= {name, leader}
            named, words = {one.path: one for one in memories}, {text.name: text.words for text in texts}
            for names in alike.values():
                first, *others = sorted(names, key=lambda name: _worth(named[name]))
                for name in others:
                    is_same, hint = words[name] == words[first], f"memfs forget {quote(name)}"
                    text = f"says {'' if is_same else 'nearly '}the same as {first}"
                    hint = hint if is_same else f"Take over what differs, then: {hint}"
                    found.append((Finding(name, 1, "duplicate", text, hint), first))
        return found

    def twice(self) -> Iterator[Finding]:
        """Memories that are there twice, in one namespace or in two of the same last name."""
        yield from (found for found, _ in self._twins)

    # --- what is out of date, unused, too long

    @lazy
    def _stale(self) -> list[Finding]:
        found = faded(self.vault, self.namespace, now=self.now)
        fading = {one.memory.path: one.retention for one in found if not one.spared}
        told = [(memory.path, *self._age(memory, fading)) for memory in self.memories]
        return [Finding(path, 1, "stale", text, hint) for path, text, hint in told if text]

    def _age(self, memory: Memory, fading: Mapping[str, float]) -> tuple[str, str]:
        """In what a memory is out of date, if it is, and what can be done about it."""
        header, path = memory.header, memory.path
        is_out = header.status == "deprecated" or path in self.lineage.superseded
        if header.expires and header.expires < self.now:
            return f"expired on {header.expires:%Y-%m-%d}", f"memfs forget {quote(path)}"
        if header.valid_until and header.valid_until < self.now and not is_out:
            text = f"was true until {header.valid_until:%Y-%m-%d}, and is still found"
            return text, f"memfs update {quote(path)} --set status=deprecated"
        if path in fading:
            return f"has faded: {fading[path]:.1%} is left", "memfs prune"
        return "", ""

    def stale(self) -> Iterator[Finding]:
        """Memories that are over, or that have faded and would be pruned."""
        yield from self._stale

    def unused(self) -> Iterator[Finding]:
        """Memories that no agent was given, once recalls have been counted for long enough to tell."""
        ratio, recalls = self.vault.usage.ratio(), self.vault.usage.snapshot()
        counted = (self.now - datetime.fromtimestamp(ratio.since, UTC)).days
        is_stale = {found.path for found in self._stale}
        for memory in self.in_force if ratio.searches else ():
            days = min(counted, (self.now - memory.updated).days)
            if days >= UNUSED_DAYS and not (memory.id in recalls or memory.header.pinned or memory.path in is_stale):
                yield Finding(memory.path, 1, "unused", f"no agent was given it in {days} days")

    def too_long(self) -> Iterator[Finding]:
        """Memories that agents are given only the beginning of, and facts that are many."""
        for memory in self.memories:
            body, kind = memory.body, memory.header.type
            if len(body) > LONGEST:
                text = f"{len(body):,} characters, of which agents are given {LONGEST:,}, up to here"
                yield Finding(memory.path, _line_at(memory, LONGEST), "long", text, "Make several memories of it.")
            elif kind in CLAIMS and (number := len(statements("", body))) > MANY:
                hint = "One fact a file can be found, and superseded, by itself."
                yield Finding(memory.path, 1, "long", f"about {number} statements in one {kind}", hint)


class _Clash(NamedTuple):
    """Two memories that may contradict each other."""

    older: Memory
    newer: Memory
    line: int  # of the older
    text: str


def _same_titles(memories: Sequence[Memory]) -> Iterator[_Clash]:
    """Memories with a title of their own that a newer one has, too."""
    titled = [memory for memory in memories if memory.header.type not in TOLD and _title(memory)]
    for alike in _grouped(titled, _title):
        *older, newest = sorted(alike, key=lambda memory: (memory.updated, memory.path))
        for memory in older:
            yield _Clash(memory, newest, 1, f"has the title of {newest.path}, which is newer")


def _title(memory: Memory) -> str:
    """The title that a memory was given; none if it is only the name of its file."""
    title = fold(" ".join(memory.title.split()))
    return "" if title == fold(memory.path.rpartition("/")[2].removesuffix(".md")) else title


def _superseding(clash: _Clash) -> str:
    """How to say that the newer of two memories holds."""
    link, newer = f"[[{clash.older.path.removesuffix('.md')}]]", quote(clash.newer.path)
    if clash.newer.header.supersedes:
        return f"If only the newer one holds, add {link} to supersedes in {clash.newer.path}."
    return f"If only the newer one holds: memfs update {newer} --set {quote(f'supersedes={link}')}"


def _worth(memory: Memory) -> tuple[object, ...]:
    """The order of memories that say the same: what is pinned, what a person wrote, what matters, what was first."""
    is_ours = is_id(memory.header.get("id"), "m")
    return not memory.header.pinned, is_ours, -memory.header.importance, memory.created, memory.path


def _overlap(one: Memory, other: Memory) -> bool:
    """Tell whether two memories are true at the same time, as far as they say when they are."""
    for first, second in ((one.header, other.header), (other.header, one.header)):
        if first.valid_until and second.valid_from and first.valid_until < second.valid_from:
            return False
    return True


def _line_at(memory: Memory, place: int) -> int:
    """The line in the file of a place in its body."""
    return memory.text.count("\n", 0, memory.text.rfind(memory.body) + place) + 1


def _grouped(memories: Iterable[Memory], key: Callable[[Memory], str]) -> Iterable[list[Memory]]:
    """The memories that have a key in common, if they are several."""
    groups: dict[str, list[Memory]] = defaultdict(list)
    for memory in memories:
        groups[key(memory)].append(memory)
    return [group for group in groups.values() if len(group) > 1]
