"""The graph of a vault: its memories, and what their links say, as triples. A value: it is as the files were."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, Self

from memfs.data_types import Memory, Problem
from memfs.errors import (
    AmbiguousNameError,
    InvalidArgumentsError,
    InvalidNamespaceError,
    MemoryNotFoundError,
    short_repr,
)
from memfs.namespace import Namespace, fold, is_conflict_copy
from memfs.query.dates import EPOCH, moment_range
from memfs.upkeep.link_parser import EMBEDS, MENTIONS, links_of, target_of
from memfs.upkeep.link_resolver import Node, Targets, is_archived, is_attachment, leaves
from memfs.upkeep.supersession_chains import superseded_since
from memfs.vault.vault import Vault

SHOWN = 3  # of the memories that an ambiguous link may mean
GENERIC_RELATIONS = (MENTIONS, EMBEDS)  # what a link says that says nothing else
When = str | date | None
Progress = Callable[[int, int], None]
_MOMENT = timedelta(microseconds=1)
_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Triple:
    """What one memory says of another: path, relation, path; on which line, and when it holds.

    `target` is the other one as the link calls it. `since` and `until` are those of the memory that says it, which ends
    where another one supersedes it; what is deprecated is not `in_force` at any time.
    """

    subject: str
    relation: str
    object: str
    line: int
    note: str = ""
    target: str = ""
    since: datetime | None = None
    until: datetime | None = None
    in_force: bool = True

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.subject}:{self.line}: {self.relation} {self.object or self.target}{note}"

    def holds(self, moment: datetime) -> bool:
        """Tell whether this is so at a moment."""
        has_begun = self.since is None or self.since <= moment
        return self.in_force and has_begun and (self.until is None or moment <= self.until)

    def other(self, path: str) -> str:
        """The memory at the other end."""
        return self.object if path == self.subject else self.subject


class Near(NamedTuple):
    """A memory that is so many links away, and the last of them."""

    path: str
    distance: int
    via: Triple


class Graph:
    """What the memories of a vault say of each other."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        targets: Targets,
        triples: Sequence[Triple],
        unknown: Sequence[Triple] = (),
        problems: Sequence[Problem] = (),
        orphans: Sequence[str] = (),
    ) -> None:
        self.nodes, self._targets, self._triples, self._unknown = nodes, targets, triples, unknown
        self._problems, self._orphans = problems, orphans
        self._out: dict[str, list[Triple]] = defaultdict(list)
        self._in: dict[str, list[Triple]] = defaultdict(list)
        for triple in triples:
            self._out[triple.subject].append(triple)
            self._in[triple.object].append(triple)

    @classmethod
    def of(cls, vault: Vault, namespace: str | None = None, *, progress: Progress | None = None) -> Self:
        """What the memories below a namespace say of each other, and of all that the handle can reach.

        What is forgotten says nothing, and can be spoken of. `progress` hears how many memories of how many were read.
        """
        place = vault.namespace if namespace is None else Namespace.parse(namespace)
        if not vault.namespace.holds(place.segments):
            raise InvalidNamespaceError(str(place), f"outside the scope {vault.namespace}")
        return cls.from_memories(vault.list(archived=True), vault.namespace, place, progress=progress)

    @classmethod
    def from_memories(
        cls, listed: Iterable[Memory], scope: Namespace, place: Namespace, *, progress: Progress | None = None
    ) -> Self:
        """The graph of these memories, all that a handle can reach, as far as those below `place` say something."""
        memories = [one for one in listed if not is_conflict_copy(one.path)]
        nodes = {one.path: Node(one.path, one.id, one.title) for one in memories}
        targets = Targets()
        for memory in memories:
            targets.add(memory, nodes[memory.path])
        speaking = [memory for memory in memories if not nodes[memory.path].is_archived]
        reader = _Reader(targets, scope, superseded_since(speaking))
        for number, memory in enumerate(speaking, 1):
            reader.read(memory)
            if progress:
                progress(number, len(speaking))
        within = {memory.path for memory in speaking if place.holds(tuple(memory.path.split("/")))}
        return cls(
            nodes,
            targets,
            [triple for triple in reader.triples if triple.subject in within],
            [triple for triple in reader.unknown if triple.subject in within],
            [problem for problem in reader.problems if problem.path in within],
            sorted(within - reader.linked),
        )

    def find(self, ref: str) -> str:
        """The path of a memory, by path, id, file name, title or alias."""
        for path in (ref, f"{ref}.md"):
            if path in self.nodes:
                return path
        name = target_of(ref.strip().removeprefix("[[").removesuffix("]]"))
        paths = self._targets.resolve(name) if name else []
        if not paths:
            raise MemoryNotFoundError(ref)
        if len(paths) > 1:
            raise AmbiguousNameError(ref, paths)
        return paths[0]

    def triples(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,  # noqa: A002  the word for it
        *,
        as_of: When = None,
    ) -> list[Triple]:
        """What is said by `subject`, of `object`, by `relation`; with `as_of`, what held then: a day at its end."""
        source, goal = (None if ref is None else self.find(ref) for ref in (subject, object))
        found = self._triples if source is None else self._out.get(source, ())
        if goal is not None:
            found = self._in.get(goal, ()) if source is None else [one for one in found if one.object == goal]
        return [*_chosen(found, relation, moment_of(as_of))]

    def unknown(self, subject: str, relation: str | None = None, *, as_of: When = None) -> list[Triple]:
        """What a memory says of what is no memory, or none that this handle can reach: triples without an object."""
        source = self.find(subject)
        said = [one for one in self._unknown if one.subject == source]
        return [*_chosen(said, relation, moment_of(as_of))]

    def neighbours(self, ref: str, depth: int = 1, *, as_of: When = None, relation: str | None = None) -> list[Near]:
        """The memories up to so many links away, in either direction, the nearest first; each once."""
        if not isinstance(depth, int) or depth < 1:
            raise InvalidArgumentsError("depth", f"{short_repr(depth)} is not a whole number from 1")
        return [*self._spread(self.find(ref), depth, relation, moment_of(as_of))]

    def path(self, start: str, end: str, *, as_of: When = None, relation: str | None = None) -> list[Triple] | None:
        """The fewest triples that lead from one memory to another, in either direction; None if none do."""
        first, last = self.find(start), self.find(end)
        if first == last:
            return []
        steps: dict[str, Triple] = {}
        for near in self._spread(first, len(self.nodes), relation, moment_of(as_of)):
            steps[near.path] = near.via
            if near.path == last:
                break
        if last not in steps:
            return None
        way: list[Triple] = []
        while last != first:
            way.append(steps[last])
            last = steps[last].other(last)
        return way[::-1]

    def _spread(self, start: str, depth: int, relation: str | None, moment: datetime | None) -> Iterator[Near]:
        seen, waiting = {start}, deque([(start, 0)])
        while waiting:
            here, distance = waiting.popleft()
            if distance == depth:
                return
            around = _chosen((*self._out.get(here, ()), *self._in.get(here, ())), relation, moment)
            for triple in sorted(around, key=lambda one: one.relation in GENERIC_RELATIONS):
                there = triple.other(here)
                if there not in seen:
                    seen.add(there)
                    waiting.append((there, distance + 1))
                    yield Near(there, distance + 1, triple)

    def problems(self) -> list[Problem]:
        """The links that lead nowhere, that may mean several memories, or that supersede none, by path."""
        return [*self._problems]

    def orphans(self) -> list[str]:
        """The paths of memories without a link in or out."""
        return [*self._orphans]


def moment_of(when: When) -> datetime | None:
    """The moment that a date or a time means: of a day its last."""
    if when is None:
        return None
    ends = moment_range(when)
    if ends is None:
        reason = f"{short_repr(when)} is not a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidArgumentsError("as_of", reason)
    return EPOCH + timedelta(microseconds=ends[1])


def _chosen(triples: Sequence[Triple], relation: str | None, moment: datetime | None) -> Iterator[Triple]:
    wanted = None if relation is None else fold(relation)
    for triple in triples:
        if (wanted is None or fold(triple.relation) == wanted) and (moment is None or triple.holds(moment)):
            yield triple


class _Reader:
    """Makes triples of links, and problems of those that mean no memory, or several."""

    def __init__(self, targets: Targets, scope: Namespace, superseded: Mapping[str, datetime]) -> None:
        self._targets, self._scope, self._superseded = targets, scope, superseded
        self.triples: list[Triple] = []
        self.unknown: list[Triple] = []
        self.problems: list[Problem] = []
        self.linked: set[str] = set()

    def read(self, memory: Memory) -> None:
        """Take in what a memory says."""
        if not (links := links_of(memory)):
            return
        since, until = memory.header.valid_from, self._until(memory)
        in_force = memory.header.status != "deprecated"
        for line, relation, target, note in links:
            paths = self._targets.resolve(target, memory.path)
            found = paths[0] if len(paths) == 1 else ""
            if found == memory.path or (not paths and is_attachment(target)):
                continue
            self.linked.update((memory.path, found))
            triple = Triple(memory.path, relation, found, line, note, target, since, until, in_force)
            (self.triples if found else self.unknown).append(triple)
            told = self._unheard(memory, relation, target, found) if found else self._fault(target, memory.path, paths)
            if told:
                self.problems.append(Problem(memory.path, line, f"[[{target}]]: {told}", relation, target))

    def _until(self, memory: Memory) -> datetime | None:
        """The last moment at which a memory is true: unless it says so itself, the one before it was superseded."""
        header, since = memory.header, self._superseded.get(memory.path)
        ends = [header.valid_until, header.expires, since - _MOMENT if since and since > _FIRST else since]
        return min(filter(None, ends), default=None)

    def _unheard(self, memory: Memory, relation: str, target: str, found: str) -> str:
        """What is wrong with a `supersedes` of a header that calls a memory by what only other links go by."""
        if relation != "supersedes" or found in self._superseded or is_archived(found):
            return ""
        links = (link.strip().removeprefix("[[").removesuffix("]]") for link in memory.header.supersedes)
        if memory.header.status == "deprecated" or target not in map(target_of, links):
            return ""
        return f"supersedes nothing by that name; write the path, [[{found.removesuffix('.md')}]], or the id"

    def _fault(self, target: str, origin: str, paths: Sequence[str]) -> str:
        """What is wrong with a link; nothing where it may lead to what this handle cannot see."""
        if paths:
            more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
            return f"ambiguous, it may mean {', '.join(paths[:SHOWN])}{more}"
        if leaves(target, origin):
            return "leads out of the vault"
        is_inside = "/" in target and self._scope.holds(tuple(target.removeprefix("/").split("/")))
        return "no such memory" if is_inside or not self._scope.segments else ""
