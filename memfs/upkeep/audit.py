"""Audit a vault: list memories to review, such as secrets, contradictions and duplicates. Changes nothing."""

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
from memfs.upkeep.contradictions import find_contradictions, statements
from memfs.upkeep.near_duplicates import Text, find_near_duplicates
from memfs.upkeep.pruning import faded
from memfs.upkeep.supersession_chains import SupersessionChains, are_linked
from memfs.vault.search_engine import DEFAULT_LANGUAGE
from memfs.vault.vault import Vault

KINDS = ("secret", "contradiction", "duplicate", "stale", "unused", "long")
MAX_AGENT_CHARS = 4000  # of a memory that agents receive
MAX_STATEMENTS_PER_FACT = 12  # a fact with more is several facts
UNUSED_DAYS = 30  # without a recall, before a memory is reported as unused
HISTORICAL_TYPES = frozenset({"summary", "episode", "reflection"})  # types that describe the past
CLAIM_TYPES = frozenset({"fact", "preference"})  # types that describe the present


class Finding(NamedTuple):
    """One thing to review: path, line, kind, a description, and a hint what to do."""

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
    """Return the findings of these kinds, in the order of KINDS and then by path. Unknown kinds are ignored.

    `progress` is called before each kind, with the numbers of kinds done and in total.
    """
    run = _AuditRun(vault, namespace, now or system_clock())
    checks: Mapping[str, Callable[[], Iterator[Finding]]] = {
        "secret": run.secrets, "contradiction": run.contradictions, "duplicate": run.duplicates,
        "stale": run.stale, "unused": run.unused, "long": run.too_long,
    }  # fmt: skip
    wanted = [kind for kind in KINDS if kind in set(kinds)]
    found: list[Finding] = []
    for number, kind in enumerate(wanted):
        if progress:
            progress(number, len(wanted))
        found += sorted(checks[kind]())
    return found


@dataclass
class _AuditRun:
    """One audit of a vault. Data that several checks need is computed once."""

    vault: Vault
    namespace: str | None
    now: datetime

    @lazy
    def memories(self) -> list[Memory]:
        """Read the memories of the namespace, without archived ones and conflict copies."""
        return [memory for memory in self.vault.list(self.namespace) if not is_conflict_copy(memory.path)]

    @lazy
    def chains(self) -> SupersessionChains:
        """Return the chains of the whole vault: a memory elsewhere may supersede one of the namespace."""
        return SupersessionChains(self.memories if self.namespace is None else self.vault.list(), self.now)

    @lazy
    def in_force(self) -> list[Memory]:
        """Return the memories of the namespace that are valid and not superseded."""
        return [memory for memory in self.memories if self.chains.is_in_force(memory)]

    # --- secrets

    @lazy
    def _secret_findings(self) -> list[Finding]:
        hint = "Remove it from the file and from the history of git; then replace it where it is used."
        found = [
            (memory.path, one) for memory in self.memories for one in scan_text(memory.text) if is_secret(one.kind)
        ]
        return [Finding(path, one.line, "secret", f"looks like it contains: {one.kind}", hint) for path, one in found]

    def secrets(self) -> Iterator[Finding]:
        """Yield the files that contain what looks like a secret; never the secret itself."""
        yield from self._secret_findings

    # --- contradictions

    def contradictions(self) -> Iterator[Finding]:
        """Yield the memories in force that a newer one in the same namespace may contradict."""
        duplicates = {frozenset({found.path, other}) for found, other in self._near_duplicates}
        for memories in _groups(self.in_force, lambda memory: fold(str(memory.namespace))):
            reported = set(duplicates)
            for conflict in (*self._conflicting(memories), *_same_titles(memories)):
                older, newer = conflict.older, conflict.newer
                pair = frozenset({older.path, newer.path})
                if pair not in reported and _validity_overlaps(older, newer) and not are_linked(older, newer):
                    reported.add(pair)
                    yield Finding(older.path, conflict.line, "contradiction", conflict.text, _supersede_hint(conflict))

    def _conflicting(self, memories: Sequence[Memory]) -> Iterator["_Conflict"]:
        """Yield the memories whose statements may contradict; values are not shown if a memory contains a secret."""
        by_path = {memory.path: memory for memory in memories}
        with_secret = {found.path for found in self._secret_findings}
        claims = [memory for memory in memories if memory.header.type in CLAIM_TYPES]
        newest_first = sorted(claims, key=lambda one: (one.updated, one.path), reverse=True)
        found = [one for memory in newest_first for one in statements(memory.path, memory.body[:MAX_AGENT_CHARS])]
        for old, new, values in find_contradictions(found):
            older, newer = by_path[old.name], by_path[new.name]
            text = f"says the opposite of {newer.path}, which is newer"
            if values and with_secret.isdisjoint({old.name, new.name}):
                text = f"says {short_repr(values[0])} where {newer.path}, which is newer, says {short_repr(values[1])}"
            elif values:
                text = f"differs from {newer.path}, which is newer"
            yield _Conflict(older, newer, _line_at(older, old.offset), text)

    # --- duplicates

    @lazy
    def _near_duplicates(self) -> list[tuple[Finding, str]]:
        """Return findings for memories in force that repeat another one, each with the path of the other."""
        analyzer = Analyzer(self.vault.settings.get("retrieval", {}).get("language", DEFAULT_LANGUAGE))
        found = []
        for memories in _groups(self.in_force, lambda memory: fold(memory.path.rpartition("/")[0].rpartition("/")[2])):
            texts = [Text(one.path, one.body, analyzer.phrase_terms(one.body)) for one in memories]
            groups: dict[str, set[str]] = defaultdict(set)
            for name, original, _ in find_near_duplicates([text for text in texts if text.words]):
                groups[original] |= {name, original}
            by_path, words = {one.path: one for one in memories}, {text.name: text.words for text in texts}
            for names in groups.values():
                first, *others = sorted(names, key=lambda name: _keep_order(by_path[name]))
                for name in others:
                    is_same, hint = words[name] == words[first], f"memfs forget {quote(name)}"
                    text = f"says {'' if is_same else 'nearly '}the same as {first}"
                    hint = hint if is_same else f"Copy the differences, then: {hint}"
                    found.append((Finding(name, 1, "duplicate", text, hint), first))
        return found

    def duplicates(self) -> Iterator[Finding]:
        """Yield duplicate memories, in one namespace or in two namespaces with the same last segment."""
        yield from (found for found, _ in self._near_duplicates)

    # --- stale, unused and long memories

    @lazy
    def _stale_findings(self) -> list[Finding]:
        found = faded(self.vault, self.namespace, now=self.now)
        fading = {one.memory.path: one.retention for one in found if not one.spared}
        checked = [(memory.path, *self._staleness(memory, fading)) for memory in self.memories]
        return [Finding(path, 1, "stale", text, hint) for path, text, hint in checked if text]

    def _staleness(self, memory: Memory, fading: Mapping[str, float]) -> tuple[str, str]:
        """Return why a memory is out of date and a hint; empty if it is not."""
        header, path = memory.header, memory.path
        is_replaced = header.status == "deprecated" or path in self.chains.superseded
        if header.expires and header.expires < self.now:
            return f"expired on {header.expires:%Y-%m-%d}", f"memfs forget {quote(path)}"
        if header.valid_until and header.valid_until < self.now and not is_replaced:
            text = f"was valid until {header.valid_until:%Y-%m-%d}, and searches still find it"
            return text, f"memfs update {quote(path)} --set status=deprecated"
        if path in fading:
            return f"has faded to a retention of {fading[path]:.1%}", "memfs prune"
        return "", ""

    def stale(self) -> Iterator[Finding]:
        """Yield the memories that are no longer valid, or that have faded and would be pruned."""
        yield from self._stale_findings

    def unused(self) -> Iterator[Finding]:
        """Yield the memories that no agent has received, once recalls have been counted for long enough."""
        ratio, recalls = self.vault.usage.ratio(), self.vault.usage.snapshot()
        counted = (self.now - datetime.fromtimestamp(ratio.since, UTC)).days
        stale_paths = {found.path for found in self._stale_findings}
        for memory in self.in_force if ratio.searches else ():
            days = min(counted, (self.now - memory.updated).days)
            if days >= UNUSED_DAYS and not (memory.id in recalls or memory.header.pinned or memory.path in stale_paths):
                yield Finding(memory.path, 1, "unused", f"no agent has received it in {days} days")

    def too_long(self) -> Iterator[Finding]:
        """Yield the memories of which agents receive only the beginning, and facts that are several facts."""
        for memory in self.memories:
            body, kind = memory.body, memory.header.type
            if len(body) > MAX_AGENT_CHARS:
                text = f"{len(body):,} characters, of which agents receive {MAX_AGENT_CHARS:,}, up to here"
                yield Finding(
                    memory.path, _line_at(memory, MAX_AGENT_CHARS), "long", text, "Split it into several memories."
                )
            elif kind in CLAIM_TYPES and (number := len(statements("", body))) > MAX_STATEMENTS_PER_FACT:
                hint = "With one fact per file, each can be found and superseded separately."
                yield Finding(memory.path, 1, "long", f"about {number} statements in one {kind}", hint)


class _Conflict(NamedTuple):
    """Two memories that may contradict each other."""

    older: Memory
    newer: Memory
    line: int  # of the older
    text: str


def _same_titles(memories: Sequence[Memory]) -> Iterator[_Conflict]:
    """Yield the memories whose explicit title a newer memory has too."""
    titled = [memory for memory in memories if memory.header.type not in HISTORICAL_TYPES and _explicit_title(memory)]
    for group in _groups(titled, _explicit_title):
        *older, newest = sorted(group, key=lambda memory: (memory.updated, memory.path))
        for memory in older:
            yield _Conflict(memory, newest, 1, f"has the same title as {newest.path}, which is newer")


def _explicit_title(memory: Memory) -> str:
    """Return the folded title of a memory; empty if it is only the file name."""
    title = fold(" ".join(memory.title.split()))
    return "" if title == fold(memory.path.rpartition("/")[2].removesuffix(".md")) else title


def _supersede_hint(conflict: _Conflict) -> str:
    """Return a hint how to mark the older memory as superseded."""
    link, newer = f"[[{conflict.older.path.removesuffix('.md')}]]", quote(conflict.newer.path)
    if conflict.newer.header.supersedes:
        return f"If only the newer one holds, add {link} to supersedes in {conflict.newer.path}."
    return f"If only the newer one holds: memfs update {newer} --set {quote(f'supersedes={link}')}"


def _keep_order(memory: Memory) -> tuple[object, ...]:
    """Return the sort key that decides which duplicate to keep: pinned, written by a person, important, oldest."""
    is_generated = is_id(memory.header.get("id"), "m")
    return not memory.header.pinned, is_generated, -memory.header.importance, memory.created, memory.path


def _validity_overlaps(one: Memory, other: Memory) -> bool:
    """Return whether the validity periods of two memories overlap; without a date there is no limit."""
    for first, second in ((one.header, other.header), (other.header, one.header)):
        if first.valid_until and second.valid_from and first.valid_until < second.valid_from:
            return False
    return True


def _line_at(memory: Memory, offset: int) -> int:
    """Return the line of the file at which an offset in the body is, from 1."""
    return memory.text.count("\n", 0, memory.text.rfind(memory.body) + offset) + 1


def _groups(memories: Iterable[Memory], key: Callable[[Memory], str]) -> Iterable[list[Memory]]:
    """Return the groups of at least two memories with the same key."""
    groups: dict[str, list[Memory]] = defaultdict(list)
    for memory in memories:
        groups[key(memory)].append(memory)
    return [group for group in groups.values() if len(group) > 1]
