"""Searching: a question against the index and the changes on top of it; each hit is read before it is returned."""

import os
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from memfs.data_types import Hit, Memory, Reason
from memfs.decay import DecaySettings
from memfs.freshness.freshness import Freshness
from memfs.freshness.inotify_source import is_remote
from memfs.fs.files import open_root
from memfs.index.document_builder import indexed_text
from memfs.index.row_table import IndexDamagedError
from memfs.namespace import ARCHIVE, Namespace
from memfs.query.bm25 import has_all_phrases, idf_or_zero
from memfs.query.filters import Filter
from memfs.query.keyword_terms import Clause
from memfs.query.question import (
    MAX_LIMIT,
    RELEVANCE_EXPONENT,
    Page,
    Question,
    Weights,
    compute_weights,
    explain,
    parse_question,
    term_groups,
)
from memfs.query.typed_values import MAX_KEYWORD_CHARS
from memfs.search.candidates import WINDOW, Candidate, Candidates, by_rank
from memfs.search.conversation.gather import Asked
from memfs.search.conversation.rerank import ALIKE, told
from memfs.search.read_cache import ROOM, CachedMemory, Read, ReadCache
from memfs.search.snippets import Marker
from memfs.search.superseded_filter import is_superseded, is_withdrawn, target_of
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.recall_log import RecallLog
from memfs.storage.stat_scan import read_one

if TYPE_CHECKING:
    from memfs.search.semantic.semantic_index import SemanticIndex

TRIES = (False, False, False, False, True)  # whether it is the last one
NOBODY: frozenset[str] = frozenset()
OUT_OF_FORCE = (f"in=/{ARCHIVE}", "status=deprecated")  # memories that supersede nothing


class Stale(Exception):  # noqa: N818  it never leaves this room: the search is begun again
    """Memories that are not as they are known."""


Found = tuple[Candidate, CachedMemory]


class Search:
    """Searches one vault."""

    def __init__(
        self,
        tree: MemoryFiles,
        fresh: Freshness,
        forgetting: DecaySettings,
        usage: RecallLog,
        meaning: "SemanticIndex | None" = None,
    ) -> None:
        self._files, self._fresh, self._meaning = tree, fresh, meaning
        self._candidates = Candidates(fresh, forgetting, usage, meaning)
        self._superseded: tuple[object, dict[tuple[str, ...], frozenset[str]]] = (None, {})
        self._shelf = ReadCache(tree.root, room=0 if is_remote(tree.root) else ROOM)  # there, a stamp may be an old one
        self._stem = lru_cache(maxsize=5000)(fresh.analyzer.terms)

    def search(self, text: str, choose: Filter, page: Page, now: datetime, *, why: bool = False) -> list[Hit]:
        """The hits of a question, best first, as they are on disk now. A blank question lists the newest."""
        question = parse_question(text, self._fresh.analyzer)
        if question.is_empty and text.strip():
            return []
        hits: list[Hit] = []
        with self._fresh.lock:
            for last in TRIES:
                try:
                    self._fresh.refresh()
                    question = self._expanded(question) if question.prefixes else question
                    hits = self._hits(question, choose, page, now, why=why, last=last)
                    if not hits and question.phrases and self._is_nowhere(question, choose, page, now, last=last):
                        hits = self._hits(question.without_phrases(), choose, page, now, why=why, last=last)
                    break
                except Stale as stale:
                    self._fresh.consider(stale.args)
                except IndexDamagedError:
                    self._fresh.rebuild()
        return hits

    def _hits(
        self, question: Question, choose: Filter, page: Page, now: datetime, *, why: bool, last: bool
    ) -> list[Hit]:
        weights = self._weigh(question)
        is_first = not why and choose.is_exact and self._candidates.are_first(question, page)
        if is_first and (first := self._first(question, weights, choose, page, now)) is not None:
            return first
        found = self._chosen(question, weights, choose, page, now, last=last)
        marker = Marker(weights.by_term.keys(), self._stem)
        hits = []
        for (order, path, _, score, support, row), (_, memory, line) in found:
            text, marks = marker.snippet(line)
            reasons: tuple[Reason, ...] = ()
            if why:
                words = self._reasons(memory, question, weights)
                reasons = (*words, *told(support, weights.information), *self._candidates.fading(path, row, now))
            hits.append(Hit(memory, weights.relevance(score), -order, text, marks, reasons))
        return hits

    def _is_nowhere(self, question: Question, choose: Filter, page: Page, now: datetime, *, last: bool) -> bool:
        """Tell whether a question has no hits, on a page before this empty one either."""
        first = page._replace(limit=1, offset=0)
        return not (page.offset and self._hits(question, choose, first, now, why=False, last=last))

    def _first(
        self, question: Question, weights: Weights, choose: Filter, page: Page, now: datetime
    ) -> list[Hit] | None:
        """The hits where nothing is pending, as for most questions; None if the first candidates are too few, or a file
        is not as it is known. In one piece, for each step of its own takes time."""
        index, shelf, information = self._fresh.index, self._shelf, weights.information or 1.0
        targets, found = self._targets(choose, now), index.find(question, self._clauses(choose, now), WINDOW)
        known, marker, hits, root = index.row_table.path_and_stamp, Marker(weights.by_term, self._stem), list[Hit](), -1
        try:
            for rank, row, score in by_rank(found, information, self._candidates.left(index, now)):
                path, stamp = known(row)
                kept = shelf.get(path, stamp)
                if kept is None:
                    root = open_root(self._files.root) if root < 0 else root
                    read = shelf.read(root, path)
                    if not isinstance(read, CachedMemory) or read.stamp != stamp:
                        return None
                    kept = read
                _, memory, line = kept
                if targets and is_superseded(memory, targets):
                    continue
                text, marks = marker.snippet(line)
                share = score / information
                hits.append(Hit(memory, share**RELEVANCE_EXPONENT if share < 1.0 else 1.0, rank, text, marks))
                if len(hits) == page.limit:
                    return hits
        finally:
            if root >= 0:
                os.close(root)
        return hits if len(found) < WINDOW else None

    def _chosen(
        self, question: Question, weights: Weights, choose: Filter, page: Page, now: datetime, *, last: bool
    ) -> list[Found]:
        """The candidates and memories of a page, as they are on disk now; Stale if they are not as they are known."""
        pending = self._fresh.unpublished.entries
        targets = self._targets(choose, now)
        is_exact = choose.is_exact  # what the index lets through passes
        found: list[Found] = []
        stale: list[str] = []
        skip = page.offset
        asked = Asked(question, weights, self._clauses(choose, now), lambda memory: choose.matches(memory, now))
        root = -1
        try:
            for candidate in self._candidates.find(asked, page, now):
                path, stamp = candidate[1], candidate[2]
                kept: Read = self._shelf.get(path, stamp)
                if kept is None:
                    root = open_root(self._files.root) if root < 0 else root
                    kept = self._shelf.read(root, path)
                if not isinstance(kept, CachedMemory):
                    stale += [path] if kept is None else []
                elif kept.stamp != stamp and not (last and self._answers(kept.memory, question, weights)):
                    stale.append(path)
                elif (is_exact and path not in pending) or choose.matches(kept.memory, now):
                    if targets and is_superseded(kept.memory, targets):
                        continue
                    if skip:
                        skip -= 1
                        continue
                    found.append((candidate, kept))
                    if len(found) == page.limit:
                        break
        finally:
            if root >= 0:
                os.close(root)
        if stale and not last:
            raise Stale(*stale)
        return found

    def _answers(self, memory: Memory, question: Question, weights: Weights) -> bool:
        """Tell whether a memory that changes all the time has words of the question as it was read."""
        terms = self._fresh.analyzer.terms(indexed_text(memory))
        return not weights.by_term.keys().isdisjoint(terms) and has_all_phrases(terms, question.phrases)

    def _reasons(self, memory: Memory, question: Question, weights: Weights) -> tuple[Reason, ...]:
        terms = self._fresh.analyzer.terms(indexed_text(memory))
        mean_length = self._fresh.unpublished.combined_mean_length(self._fresh.index.mean_length)
        return tuple(explain(question, terms, weights, mean_length))

    def _expanded(self, question: Question) -> Question:
        """A question with the terms that its prefixes stand for."""
        index, unpublished = self._fresh.index, self._fresh.unpublished
        groups = []
        for prefix in question.prefixes:
            known = sorted(self._fresh.analyzer.prefix_stems(prefix))
            stems = [stem for stem in known if index.document_frequency(stem) or unpublished.document_frequency(stem)]
            groups.append(
                tuple(dict.fromkeys((*index.terms_with_prefix(prefix), *unpublished.terms_with_prefix(prefix), *stems)))
            )
        return question._replace(expansions=tuple(filter(None, groups)))

    def _weigh(self, question: Question) -> Weights:
        index, unpublished = self._fresh.index, self._fresh.unpublished
        if not unpublished.entries:
            return compute_weights(term_groups(question), index.idf, index.memory_count)
        total = unpublished.combined_total(index.memory_count)
        frequency = unpublished.combined_frequency
        return compute_weights(
            term_groups(question),
            lambda term: idf_or_zero(frequency(index.document_frequency(term), term), total),
            total,
        )

    def _clauses(self, choose: Filter, now: datetime) -> Sequence[Clause]:
        """What the index is asked beside the question; of what expired only where something may have."""
        return choose.clauses(now) if self._fresh.index.has_expiring else choose.lasting_clauses

    def _targets(self, choose: Filter, now: datetime) -> frozenset[str]:
        """What memories in force supersede, as links in the scope name it; nothing where that may be a hit too."""
        index, unpublished, scope = self._fresh.index, self._fresh.unpublished, choose.scope
        if "superseded" in choose.include or not (unpublished.entries or index.has_superseding):
            return NOBODY
        key = (index, unpublished, unpublished.version, int(now.timestamp()) // 60)  # one may expire meanwhile
        if self._superseded[0] != key:
            self._superseded = key, {}
        known = self._superseded[1]
        if scope.segments not in known:
            rows = index.rows_with_keyword("supersedes")
            paths = [index.row_table.path_and_stamp(number)[0] for number in rows]
            superseding = [path for path in paths if scope.holds(tuple(path.split("/")))]
            links = index.values("supersedes", without=OUT_OF_FORCE) if superseding else []
            is_simple = not scope.segments and all(len(link) < MAX_KEYWORD_CHARS for link in links)
            if (
                not is_simple
                or any(path in unpublished for path in paths)
                or set(rows) & set(index.rows_with_keyword("expires"))
            ):
                with self._files.opened() as root:
                    found = [read_one(root, path) for path in superseding if path not in unpublished]
                links = [link for one in found if isinstance(one, Memory) for link in _links(one, scope, now)]
            pending = [entry.memory for entry in unpublished.entries.values() if entry.memory]
            links += [link for memory in pending if b"supersedes" in memory.data for link in _links(memory, scope, now)]
            known[scope.segments] = frozenset(map(target_of, links))
        return known[scope.segments]

    # --- why not

    def explain_miss(self, memory: Memory, text: str, choose: Filter, page: Page, now: datetime) -> list[Reason]:
        """Why a memory is not among the hits of a question, or where it is among them."""
        hits = self.search(text, choose, page, now)
        for number, hit in enumerate(hits, page.offset + 1):
            if hit.memory.path == memory.path:
                return [Reason(f"it is hit {number}, with relevance {hit.relevance:.2f}", hit.rank)]
        reasons = [Reason(miss) for miss in choose.mismatches(memory, now)]
        question = parse_question(text, self._fresh.analyzer)
        if question.is_empty:
            return [*reasons, Reason("the question has no words to look for")]
        with self._fresh.lock:
            self._fresh.refresh()
            if is_superseded(memory, self._targets(choose, now)):
                reasons.append(Reason("superseded: another memory names it in `supersedes`"))
            question = self._expanded(question)
            weights = self._weigh(question)
            terms = self._fresh.analyzer.terms(indexed_text(memory))
            mean_length = self._fresh.unpublished.combined_mean_length(self._fresh.index.mean_length)
            meant = self._meaning.share(memory, question, weights) if self._meaning and question.is_plain else None
        parts = explain(question, terms, weights, mean_length, is_scoped=bool(choose.scope.segments))
        score = sum(part.score for part in parts)
        if meant is not None:
            is_alike = meant >= ALIKE
            parts.append(Reason(f"means alike: {meant:.2f}" + ("" if is_alike else f"; from {ALIKE} on it counts")))
            score = max(score, meant * weights.information) if is_alike else score
        if not score:
            reasons.append(Reason("it has none of the words of the question"))
        elif weights.relevance(score) < page.min_relevance:
            reasons.append(
                Reason(f"its relevance {weights.relevance(score):.2f} is below {page.min_relevance:.2f}", score)
            )
        elif not reasons:
            everything = self.search(text, choose, Page(MAX_LIMIT), now)
            places = [number for number, hit in enumerate(everything, 1) if hit.memory.path == memory.path]
            found = [self._fresh.analyzer.terms(indexed_text(hit.memory)) for hit in everything[:1]]
            if not has_all_phrases(terms, question.phrases) and any(
                has_all_phrases(other, question.phrases) for other in found
            ):
                return [Reason("a phrase of the question is not in it, and in another memory it is"), *parts]
            place = f"it is hit {places[0]}" if places else f"it is not among the first {MAX_LIMIT} hits"
            reasons.append(Reason(f"{place}: others have more of the question, or rarer words of it", score))
        return [*reasons, *parts]


def _links(memory: Memory, scope: Namespace, now: datetime) -> Sequence[str]:
    """The links of a memory to what it supersedes, if it is in the scope, and in force itself."""
    is_in = scope.holds(tuple(memory.path.split("/"))) and not is_withdrawn(memory, now)
    return memory.header.supersedes if is_in else ()
