"""The graph of a vault: its memories and their links, as triples. A snapshot of the files."""

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
from memfs.upkeep.link_resolver import LinkResolver, Node, is_archived, is_attachment, is_outside_vault
from memfs.upkeep.supersession_chains import superseded_since
from memfs.vault.vault import Vault

MAX_SHOWN_CANDIDATES = 3  # memories that the problem of an ambiguous link lists
GENERIC_RELATIONS = (MENTIONS, EMBEDS)  # of links without a named relation
When = str | date | None  # a date or a time, as a text or a value; None is any time
Progress = Callable[[int, int], None]
_MICROSECOND = timedelta(microseconds=1)
_MIN_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Triple:
    """A link between two memories: subject path, relation, object path; its line, and when it holds.

    `target` is the text of the link. `since` and `until` are the validity of the memory with the link, which ends when
    another memory supersedes it; a triple of a deprecated memory is never `in_force`.
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
        """Return whether the triple holds at a moment."""
        has_begun = self.since is None or self.since <= moment
        return self.in_force and has_begun and (self.until is None or moment <= self.until)

    def other(self, path: str) -> str:
        """Return the path of the memory at the other end."""
        return self.object if path == self.subject else self.subject


class Neighbour(NamedTuple):
    """A memory that is `distance` links away, and the last of these links."""

    path: str
    distance: int
    via: Triple


class Graph:
    """The links between the memories of a vault. `unknown` are links to no memory or several, without an object.

    Methods that take a `ref` find it as `find` does, and raise the same errors.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        resolver: LinkResolver,
        triples: Sequence[Triple],
        unknown: Sequence[Triple] = (),
        problems: Sequence[Problem] = (),
        orphans: Sequence[str] = (),
    ) -> None:
        self.nodes, self._resolver, self._triples, self._unknown = nodes, resolver, triples, unknown
        self._problems, self._orphans = problems, orphans
        self._out: dict[str, list[Triple]] = defaultdict(list)
        self._in: dict[str, list[Triple]] = defaultdict(list)
        for triple in triples:
            self._out[triple.subject].append(triple)
            self._in[triple.object].append(triple)

    @classmethod
    def of(cls, vault: Vault, namespace: str | None = None, *, progress: Progress | None = None) -> Self:
        """Return the links of the memories below a namespace to all memories that the handle can reach.

        Archived memories have no links of their own, but can be linked to. `progress` is called with the number of
        memories read and the total.
        """
        subtree = vault.namespace if namespace is None else Namespace.parse(namespace)
        if not vault.namespace.holds(subtree.segments):
            raise InvalidNamespaceError(str(subtree), f"outside the scope {vault.namespace}")
        return cls.from_memories(vault.list(archived=True), vault.namespace, subtree, progress=progress)

    @classmethod
    def from_memories(
        cls, listed: Iterable[Memory], scope: Namespace, subtree: Namespace, *, progress: Progress | None = None
    ) -> Self:
        """Return the graph of the links in memories below `subtree`.

        `listed` has all memories that a handle with this `scope` can reach, archived ones too.
        """
        memories = [one for one in listed if not is_conflict_copy(one.path)]
        nodes = {one.path: Node(one.path, one.id, one.title) for one in memories}
        resolver = LinkResolver()
        for memory in memories:
            resolver.add(memory, nodes[memory.path])
        live = [memory for memory in memories if not nodes[memory.path].is_archived]
        builder = _TripleBuilder(resolver, scope, superseded_since(live))
        for number, memory in enumerate(live, 1):
            builder.add_links(memory)
            if progress:
                progress(number, len(live))
        within = {memory.path for memory in live if subtree.holds(tuple(memory.path.split("/")))}
        return cls(
            nodes,
            resolver,
            [triple for triple in builder.triples if triple.subject in within],
            [triple for triple in builder.unknown if triple.subject in within],
            [problem for problem in builder.problems if problem.path in within],
            sorted(within - builder.linked),
        )

    def find(self, ref: str) -> str:
        """Return the path of a memory by path, id, file name, title or alias.

        Raise MemoryNotFoundError if none matches, AmbiguousNameError if several do.
        """
        for path in (ref, f"{ref}.md"):
            if path in self.nodes:
                return path
        name = target_of(ref.strip().removeprefix("[[").removesuffix("]]"))
        paths = self._resolver.resolve(name) if name else []
        if not paths:
            raise MemoryNotFoundError(ref)
        if len(paths) > 1:
            raise AmbiguousNameError(ref, paths)
        return paths[0]

    def triples(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,  # noqa: A002  the usual term for a triple
        *,
        as_of: When = None,
    ) -> list[Triple]:
        """Return the triples with these parts; with `as_of`, those that held at that time (of a day: at its end)."""
        source, goal = (None if ref is None else self.find(ref) for ref in (subject, object))
        found = self._triples if source is None else self._out.get(source, ())
        if goal is not None:
            found = self._in.get(goal, ()) if source is None else [one for one in found if one.object == goal]
        return [*_matching(found, relation, moment_of(as_of))]

    def unknown(self, subject: str, relation: str | None = None, *, as_of: When = None) -> list[Triple]:
        """Return the links of a memory that lead to no memory this handle can reach, or to several: they are triples
        without an object."""
        source = self.find(subject)
        found = [one for one in self._unknown if one.subject == source]
        return [*_matching(found, relation, moment_of(as_of))]

    def neighbours(
        self, ref: str, depth: int = 1, *, as_of: When = None, relation: str | None = None
    ) -> list[Neighbour]:
        """Return the memories up to `depth` links away, in either direction, the nearest first; each once."""
        if not isinstance(depth, int) or depth < 1:
            raise InvalidArgumentsError("depth", f"{short_repr(depth)} is not a whole number from 1")
        return [*self._breadth_first(self.find(ref), depth, relation, moment_of(as_of))]

    def path(self, start: str, end: str, *, as_of: When = None, relation: str | None = None) -> list[Triple] | None:
        """Return a shortest list of triples that connects two memories, whatever the direction of each link.

        It is [] for twice the same memory, and None if they are not connected.
        """
        first, last = self.find(start), self.find(end)
        if first == last:
            return []
        steps: dict[str, Triple] = {}
        for neighbour in self._breadth_first(first, len(self.nodes), relation, moment_of(as_of)):
            steps[neighbour.path] = neighbour.via
            if neighbour.path == last:
                break
        if last not in steps:
            return None
        route: list[Triple] = []
        while last != first:
            route.append(steps[last])
            last = steps[last].other(last)
        return route[::-1]

    def _breadth_first(
        self, start: str, depth: int, relation: str | None, moment: datetime | None
    ) -> Iterator[Neighbour]:
        """Yield the memories up to `depth` links away, the nearest first; named relations before generic ones."""
        seen, queue = {start}, deque([(start, 0)])
        while queue:
            here, distance = queue.popleft()
            if distance == depth:
                return
            adjacent = _matching((*self._out.get(here, ()), *self._in.get(here, ())), relation, moment)
            for triple in sorted(adjacent, key=lambda one: one.relation in GENERIC_RELATIONS):
                there = triple.other(here)
                if there not in seen:
                    seen.add(there)
                    queue.append((there, distance + 1))
                    yield Neighbour(there, distance + 1, triple)

    def problems(self) -> list[Problem]:
        """Return the links to no memory, the ambiguous links, and those that supersede nothing, by path."""
        return [*self._problems]

    def orphans(self) -> list[str]:
        """Return the paths of memories without a link in either direction."""
        return [*self._orphans]


def moment_of(when: When) -> datetime | None:
    """Return the moment of a date or a time: for a day, its last microsecond; None for None.

    Raise InvalidArgumentsError for anything else.
    """
    if when is None:
        return None
    ends = moment_range(when)
    if ends is None:
        reason = f"{short_repr(when)} is not a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise InvalidArgumentsError("as_of", reason)
    return EPOCH + timedelta(microseconds=ends[1])


def _matching(triples: Sequence[Triple], relation: str | None, moment: datetime | None) -> Iterator[Triple]:
    """Yield the triples with a relation that hold at a moment; None for either is no condition."""
    wanted = None if relation is None else fold(relation)
    for triple in triples:
        if (wanted is None or fold(triple.relation) == wanted) and (moment is None or triple.holds(moment)):
            yield triple


class _TripleBuilder:
    """Collects the triples of links, and problems of links to no memory or to several."""

    def __init__(self, resolver: LinkResolver, scope: Namespace, superseded: Mapping[str, datetime]) -> None:
        self._resolver, self._scope, self._superseded = resolver, scope, superseded
        self.triples: list[Triple] = []
        self.unknown: list[Triple] = []
        self.problems: list[Problem] = []
        self.linked: set[str] = set()

    def add_links(self, memory: Memory) -> None:
        """Add the links of a memory."""
        if not (links := links_of(memory)):
            return
        since, until = memory.header.valid_from, self._valid_until(memory)
        in_force = memory.header.status != "deprecated"
        for line, relation, target, note in links:
            paths = self._resolver.resolve(target, memory.path)
            found = paths[0] if len(paths) == 1 else ""
            if found == memory.path or (not paths and is_attachment(target)):
                continue
            self.linked.update((memory.path, found))
            triple = Triple(memory.path, relation, found, line, note, target, since, until, in_force)
            (self.triples if found else self.unknown).append(triple)
            if found:
                reason = self._supersedes_problem(memory, relation, target, found)
            else:
                reason = self._link_problem(target, memory.path, paths)
            if reason:
                self.problems.append(Problem(memory.path, line, f"[[{target}]]: {reason}", relation, target))

    def _valid_until(self, memory: Memory) -> datetime | None:
        """Return the last moment at which a memory is valid: by its header, or just before it was superseded."""
        header, since = memory.header, self._superseded.get(memory.path)
        ends = [header.valid_until, header.expires, since - _MICROSECOND if since and since > _MIN_TIME else since]
        return min(filter(None, ends), default=None)

    def _supersedes_problem(self, memory: Memory, relation: str, target: str, found: str) -> str:
        """Return the problem of a `supersedes` in a header that uses a title or an alias, which searches ignore."""
        if relation != "supersedes" or found in self._superseded or is_archived(found):
            return ""
        links = (link.strip().removeprefix("[[").removesuffix("]]") for link in memory.header.supersedes)
        if memory.header.status == "deprecated" or target not in map(target_of, links):
            return ""
        return f"supersedes nothing by that name; write the path, [[{found.removesuffix('.md')}]], or the id"

    def _link_problem(self, target: str, origin: str, paths: Sequence[str]) -> str:
        """Return the problem of a link; empty if its target may be outside of the scope of this handle."""
        if paths:
            more = f" and {len(paths) - MAX_SHOWN_CANDIDATES:,} more" if len(paths) > MAX_SHOWN_CANDIDATES else ""
            return f"ambiguous, it matches {', '.join(paths[:MAX_SHOWN_CANDIDATES])}{more}"
        if is_outside_vault(target, origin):
            return "points outside of the vault"
        is_inside = "/" in target and self._scope.holds(tuple(target.removeprefix("/").split("/")))
        return "no such memory" if is_inside or not self._scope.segments else ""
