"""Searching: a question against the index and the changes on top of it; each hit is read before it is returned."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from heapq import merge

from memfs.catalog import IndexDamaged
from memfs.filters import Filter
from memfs.keywords import KEYWORD_LIMIT, Clause, moments
from memfs.model import Hit, Memory, Reason
from memfs.namespace import ARCHIVE, Namespace, fold
from memfs.overlay import has_all
from memfs.publisher import text_of
from memfs.query import MAX_LIMIT, Page, Question, Weights, explain, understand, weigh
from memfs.ranking import Ranked, Support, told
from memfs.scan import Marks, read_one, stamp_of
from memfs.snippets import Marker
from memfs.sync import Freshness
from memfs.tree import Tree
from memfs.witnesses import Asked, in_order

TRIES = 4
OUT_OF_FORCE = (f"in=/{ARCHIVE}", "status=deprecated")  # memories that supersede nothing
MORE = 4  # times as many candidates are asked for when too many fell away


class Stale(Exception):  # noqa: N818  it never leaves this room: the search is begun again
    """Memories that are not as they are known."""


Candidate = tuple[float, str, Marks, float, Support | None]
"""A memory that may be a hit: negative rank, path, stamp, score, what else speaks for it; the best is the least."""
Found = tuple[Candidate, Memory]


class Search:
    """Searches one vault."""

    def __init__(self, tree: Tree, fresh: Freshness) -> None:
        self._tree, self._fresh = tree, fresh
        self._superseded: tuple[object, dict[Namespace, frozenset[str]]] = (None, {})
        self._stem = lru_cache(maxsize=5000)(fresh.analyzer.terms)

    def search(self, text: str, choose: Filter, page: Page, now: datetime, *, why: bool = False) -> list[Hit]:
        """The hits of a question, best first, as they are on disk now. A blank question lists the newest."""
        question = understand(text, self._fresh.analyzer)
        if question.is_empty and text.strip():
            return []
        hits: list[Hit] = []
        with self._fresh.lock:
            for last in (*[False] * TRIES, True):
                try:
                    self._fresh.refresh()
                    question = self._expanded(question) if question.prefixes else question
                    hits = self._hits(question, choose, page, now, why=why, last=last)
                    if not hits and question.phrases:
                        hits = self._hits(question.without_phrases(), choose, page, now, why=why, last=last)
                    break
                except Stale as stale:
                    self._fresh.consider(stale.args)
                except IndexDamaged:
                    self._fresh.rebuild()
        return hits

    def _hits(
        self, question: Question, choose: Filter, page: Page, now: datetime, *, why: bool, last: bool
    ) -> list[Hit]:
        weights = self._weigh(question)
        found = self._chosen(question, weights, choose, page, now, last=last)
        marker = Marker(weights.of.keys(), self._stem)
        hits = []
        for (order, _, _, score, support), memory in found:  # not while reading: either is faster by itself
            text, marks = marker.snippet(memory.legible)
            reasons = (*self._reasons(memory, question, weights), *told(support, weights.information)) if why else ()
            hits.append(Hit(memory, weights.relevance(score), -order, text, marks, reasons))
        return hits

    def _chosen(
        self, question: Question, weights: Weights, choose: Filter, page: Page, now: datetime, *, last: bool
    ) -> list[Found]:
        """The candidates and memories of a page, as they are on disk now; Stale if they are not as they are known."""
        pending = self._fresh.overlay.entries
        targets = () if "superseded" in choose.include else self._targets(choose.scope, now)
        is_exact = choose.exact  # what the index lets through passes
        found: list[Found] = []
        stale: list[str] = []
        skip = page.offset
        asked = Asked(question, weights, choose.clauses(now), lambda memory: choose.matches(memory, now))
        candidates = self._candidates(asked, skip + page.limit)
        with self._tree.opened() as root:
            for candidate in candidates:
                _, path, stamp, score, support = candidate
                if page.min_relevance and weights.relevance(score) < page.min_relevance:
                    if support is None:
                        break
                    continue  # those that speak for each other do not come in the order of their relevance
                memory = read_one(root, path)
                if not isinstance(memory, Memory):
                    stale += [path] if memory is None else []
                elif stamp_of(memory.status) != stamp and not (last and self._answers(memory, question, weights)):
                    stale.append(path)
                elif not (is_exact and path not in pending) and not choose.matches(memory, now):
                    continue
                elif skip or (targets and _is_superseded(memory, targets)):
                    skip -= not (targets and _is_superseded(memory, targets))
                else:
                    found.append((candidate, memory))
                    if len(found) == page.limit:
                        break
        if stale and not last:
            raise Stale(*stale)
        return found

    def _answers(self, memory: Memory, question: Question, weights: Weights) -> bool:
        """Tell whether a memory that changes all the time has words of the question as it was read."""
        terms = self._fresh.analyzer.terms(text_of(memory))
        return not weights.of.keys().isdisjoint(terms) and has_all(terms, question.phrases)

    def _reasons(self, memory: Memory, question: Question, weights: Weights) -> tuple[Reason, ...]:
        terms = self._fresh.analyzer.terms(text_of(memory))
        return tuple(explain(question, terms, weights, self._fresh.index.mean_length))

    def _expanded(self, question: Question) -> Question:
        """A question with the terms that its prefixes stand for."""
        index, overlay = self._fresh.index, self._fresh.overlay
        groups = []
        for prefix in question.prefixes:
            known = sorted(self._fresh.analyzer.stems(prefix))
            stems = [stem for stem in known if index.frequency(stem) or overlay.frequency(stem)]
            groups.append(tuple(dict.fromkeys((*index.prefixed(prefix), *overlay.prefixed(prefix), *stems))))
        return question._replace(groups=tuple(filter(None, groups)))

    def _weigh(self, question: Question) -> Weights:
        index, overlay = self._fresh.index, self._fresh.overlay
        if not overlay:
            return weigh(_groups(question), index.frequency, index.memories)
        total = max(index.memories, len(overlay))
        return weigh(_groups(question), lambda term: overlay.frequency_over(index.frequency(term), term), total)

    def _stretch(self, question: Question, weights: Weights) -> float:
        """By how much the scores of an index fall short, which knows nothing of what is pending."""
        published = weigh(_groups(question), self._fresh.index.frequency, self._fresh.index.memories)
        return weights.information / published.information if published.information > 0 else 1.0

    # --- candidates

    def _candidates(self, asked: Asked, wanted: int) -> Iterator[Candidate]:
        """Whatever may be a hit, best first."""
        (question, weights, clauses, _, _), overlay = asked, self._fresh.overlay
        if overlay and not question.is_empty:
            asked = asked._replace(stretch=self._stretch(question, weights))
        published = self._published(question, clauses, wanted, asked.stretch)
        matches = merge(published, self._pending(question, weights)) if overlay else published
        if not (self._fresh.index.has_places or overlay.places) or not question.is_plain:
            return matches
        return _led(in_order(self._fresh.index, overlay, asked), matches)

    def _published(
        self, question: Question, clauses: Sequence[Clause], wanted: int, stretch: float
    ) -> Iterator[Candidate]:
        index, pending = self._fresh.index, self._fresh.overlay.entries
        known, limit, seen = index.catalog.known, wanted + (8 if pending else 0), 0
        while True:
            found = index.newest(clauses, limit) if question.is_empty else index.find(question, clauses, limit)
            for score, number in found[seen:]:
                path, stamp = known(number)
                if path not in pending:
                    yield -score * stretch, path, stamp, score * stretch, None
            if len(found) < limit or limit >= index.memories:
                return
            seen, limit = len(found), limit * MORE

    def _pending(self, question: Question, weights: Weights) -> list[Candidate]:
        overlay = self._fresh.overlay
        if question.is_empty:
            changed = {path: pending.memory for path, pending in overlay.entries.items() if pending.memory}
            times = [(moments(memory)["updated"], path, memory.stamp) for path, memory in changed.items()]
            return sorted([(-time, path, stamp, time, None) for time, path, stamp in times])
        found: list[Candidate] = []
        mean_length = self._fresh.index.mean_length
        for path in overlay.having(weights.of):
            memory, terms, *_ = overlay.entries[path]
            if memory and has_all(terms, question.phrases):
                score = weights.score(overlay.counts(path), len(terms), mean_length)
                found.append((-score, path, memory.stamp, score, None))
        return sorted(found)

    def _targets(self, scope: Namespace, now: datetime) -> frozenset[str]:
        """What the links name by which memories of the scope that are in force supersede others."""
        index, overlay = self._fresh.index, self._fresh.overlay
        key = (index, overlay, overlay.version, int(now.timestamp()) // 60)  # one may expire meanwhile
        if self._superseded[0] != key:
            self._superseded = key, {}
        if scope not in self._superseded[1]:
            rows = index.rows_of("supersedes")
            paths = [index.catalog.known(number)[0] for number in rows]
            superseding = [path for path in paths if scope.holds(tuple(path.split("/")))]
            links = index.values("supersedes", without=OUT_OF_FORCE) if superseding else []
            is_simple = not scope.segments and all(len(link) < KEYWORD_LIMIT for link in links)
            if not is_simple or any(path in overlay for path in paths) or set(rows) & set(index.rows_of("expires")):
                with self._tree.opened() as root:
                    found = [read_one(root, path) for path in superseding if path not in overlay]
                known = [memory for memory in found if isinstance(memory, Memory)]
                links = [link for memory in known for link in _links(memory, scope, now)]
            pending = [entry.memory for entry in overlay.entries.values() if entry.memory]
            links += [link for memory in pending if b"supersedes" in memory.data for link in _links(memory, scope, now)]
            self._superseded[1][scope] = frozenset(map(_target, links))
        return self._superseded[1][scope]

    # --- why not

    def explain_miss(self, memory: Memory, text: str, choose: Filter, page: Page, now: datetime) -> list[Reason]:
        """Why a memory is not among the hits of a question, or where it is among them."""
        hits = self.search(text, choose, page, now)
        for number, hit in enumerate(hits, page.offset + 1):
            if hit.memory.path == memory.path:
                return [Reason(f"it is hit {number}, with relevance {hit.relevance:.2f}", hit.rank)]
        reasons = [Reason(miss) for miss in choose.misses(memory, now)]
        question = understand(text, self._fresh.analyzer)
        if question.is_empty:
            return [*reasons, Reason("the question has no words to look for")]
        with self._fresh.lock:
            self._fresh.refresh()
            if "superseded" not in choose.include and _is_superseded(memory, self._targets(choose.scope, now)):
                reasons.append(Reason("superseded: another memory names it in `supersedes`"))
            question = self._expanded(question)
            weights = self._weigh(question)
            terms = self._fresh.analyzer.terms(text_of(memory))
            mean_length = self._fresh.index.mean_length
        parts = explain(question, terms, weights, mean_length, is_scoped=bool(choose.scope.segments))
        score = sum(part.score for part in parts)
        if not score:
            reasons.append(Reason("it has none of the words of the question"))
        elif weights.relevance(score) < page.min_relevance:
            reasons.append(
                Reason(f"its relevance {weights.relevance(score):.2f} is below {page.min_relevance:.2f}", score)
            )
        elif not reasons:
            everything = self.search(text, choose, Page(MAX_LIMIT), now)
            places = [number for number, hit in enumerate(everything, 1) if hit.memory.path == memory.path]
            place = f"it is hit {places[0]}" if places else f"it is not among the first {MAX_LIMIT} hits"
            reasons.append(Reason(f"{place}: others have more of the question, or rarer words of it", score))
        return [*reasons, *parts]


def _led(first: Sequence[Ranked], rest: Iterable[Candidate]) -> Iterator[Candidate]:
    """Memories that are in order, and then the others."""
    for rank, score, support, witness in first:
        yield -rank, witness.path, witness.stamp, score, support
    paths = {one.witness.path for one in first}
    yield from (candidate for candidate in rest if candidate[1] not in paths)


def _names(memory: Memory, targets: Collection[str]) -> Iterator[str]:
    """What a link to a memory may say: its path, its file name, its id."""
    if targets:
        path = fold(memory.path.removesuffix(".md"))
        yield path
        yield path.rpartition("/")[2]
        if any(target.startswith("m-") for target in targets):  # a header takes a while to read
            yield fold(memory.id)


def _links(memory: Memory, scope: Namespace, now: datetime) -> tuple[str, ...]:
    """The links of a memory to what it supersedes, if it is in the scope, and in force itself."""
    expires = memory.header.expires
    is_out = memory.header.status == "deprecated" or fold(memory.path).startswith(f"{ARCHIVE}/")
    is_out |= expires is not None and expires < now
    return () if is_out or not scope.holds(tuple(memory.path.split("/"))) else memory.header.supersedes


def _target(link: str) -> str:
    """What a link such as [[facts/alice/atlas|Atlas]] points to."""
    target = link.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0]
    return fold(target.strip().removeprefix("/").removesuffix(".md"))


def _is_superseded(memory: Memory, targets: Collection[str]) -> bool:
    """Tell whether a link of another memory than itself names it."""
    if not any(name in targets for name in _names(memory, targets)):
        return False
    links = {_target(link) for link in memory.header.supersedes}
    return not any(name in links for name in _names(memory, links))


def _groups(question: Question) -> list[tuple[str, ...]]:
    """The words of a question, each as the terms that stand for it."""
    unseen = [(prefix,) for prefix in question.prefixes] if not question.groups else []
    return [*[(term,) for term in question.words], *question.groups, *unseen]
