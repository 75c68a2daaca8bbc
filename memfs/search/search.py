"""Searching: match a question against the index and unpublished changes, and read each hit before it is returned."""

import os
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from memfs.data_types import Hit, Memory, Reason
from memfs.decay import DecaySettings
from memfs.freshness.freshness import Freshness
from memfs.freshness.network_mounts import is_remote
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
from memfs.search.candidates import WINDOW, Candidate, CandidateFinder, rank_matches
from memfs.search.conversation.gather import SearchRequest
from memfs.search.conversation.rerank import MIN_SIMILARITY, feature_reasons
from memfs.search.read_cache import MAX_CACHE_BYTES, CachedMemory, ReadCache, ReadResult
from memfs.search.snippets import SnippetMarker
from memfs.search.superseded_filter import is_superseded, is_withdrawn, target_of
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.recall_log import RecallLog
from memfs.storage.stat_scan import read_one

if TYPE_CHECKING:
    from memfs.search.semantic.semantic_index import SemanticIndex

ATTEMPTS = (False, False, False, False, True)  # per attempt: whether it is the last
NO_TARGETS: frozenset[str] = frozenset()
WITHDRAWN_KEYWORDS = (f"in=/{ARCHIVE}", "status=deprecated")  # memories that supersede nothing
FoundMemory = tuple[Candidate, CachedMemory]


class StaleCandidatesError(Exception):
    """Files of candidates differ from the known state, so the search is repeated; `args` are their paths."""


class Searcher:
    """Searches one vault."""

    def __init__(
        self,
        files: MemoryFiles,
        freshness: Freshness,
        decay: DecaySettings,
        recall_log: RecallLog,
        semantic_index: "SemanticIndex | None" = None,
    ) -> None:
        self._files, self._freshness, self._semantic_index = files, freshness, semantic_index
        self._candidates = CandidateFinder(freshness, decay, recall_log, semantic_index)
        self._superseded: tuple[object, dict[tuple[str, ...], frozenset[str]]] = (None, {})
        cache_bytes = 0 if is_remote(files.root) else MAX_CACHE_BYTES  # a remote file system may return an old stamp
        self._read_cache = ReadCache(files.root, max_bytes=cache_bytes)
        self._stem = lru_cache(maxsize=5000)(freshness.analyzer.terms)

    def search(self, text: str, filter_: Filter, page: Page, now: datetime, *, with_reasons: bool = False) -> list[Hit]:
        """Return the hits of a question, best first, as they are on disk now. A blank question lists the newest.

        Words in quotes are required, unless no memory has them.
        """
        question = parse_question(text, self._freshness.analyzer)
        if question.is_empty and text.strip():
            return []
        hits: list[Hit] = []
        with self._freshness.lock:
            for is_last in ATTEMPTS:
                try:
                    self._freshness.refresh()
                    question = self._expanded(question) if question.prefixes else question
                    hits = self._search_once(question, filter_, page, now, with_reasons=with_reasons, is_last=is_last)
                    may_relax = not hits and question.phrases
                    if may_relax and not self._has_hits(question, filter_, page, now, is_last=is_last):
                        loose = question.without_phrases()
                        hits = self._search_once(loose, filter_, page, now, with_reasons=with_reasons, is_last=is_last)
                    break
                except StaleCandidatesError as stale:
                    self._freshness.recheck(stale.args)
                except IndexDamagedError:
                    self._freshness.rebuild()
        return hits

    def _search_once(
        self, question: Question, filter_: Filter, page: Page, now: datetime, *, with_reasons: bool, is_last: bool
    ) -> list[Hit]:
        weights = self._weigh(question)
        is_fast = not with_reasons and filter_.is_exact and self._candidates.is_single_window(question, page)
        if is_fast and (fast_hits := self._first_window(question, weights, filter_, page, now)) is not None:
            return fast_hits
        found = self._read_page(question, weights, filter_, page, now, is_last=is_last)
        marker = SnippetMarker(weights.by_term.keys(), self._stem)
        hits = []
        for (order, path, _, score, features, row), (_, memory, line) in found:
            text, marks = marker.snippet(line)
            reasons: tuple[Reason, ...] = ()
            if with_reasons:
                term_reasons = self._term_reasons(memory, question, weights)
                rank_reasons = feature_reasons(features, weights.information)
                reasons = (*term_reasons, *rank_reasons, *self._candidates.decay_reasons(path, row, now))
            hits.append(Hit(memory, weights.relevance(score), -order, text, marks, reasons))
        return hits

    def _has_hits(self, question: Question, filter_: Filter, page: Page, now: datetime, *, is_last: bool) -> bool:
        """Return whether a question whose page is empty has hits on an earlier page."""
        first = page._replace(limit=1, offset=0)
        if not page.offset:
            return False
        return bool(self._search_once(question, filter_, first, now, with_reasons=False, is_last=is_last))

    def _first_window(
        self, question: Question, weights: Weights, filter_: Filter, page: Page, now: datetime
    ) -> list[Hit] | None:
        """Return the hits of a page from the first window of the published index: the fast path of most searches.

        None if these candidates are too few, or a file differs from the known state. It is one long function because
        each call takes time.
        """
        index, cache, information = self._freshness.index, self._read_cache, weights.information or 1.0
        targets, clauses = self._superseded_targets(filter_, now), self._clauses(filter_, now)
        found = index.find(question, clauses, WINDOW)
        path_and_stamp, marker = index.row_table.path_and_stamp, SnippetMarker(weights.by_term, self._stem)
        hits, root = list[Hit](), -1
        try:
            for rank, row, score in rank_matches(found, information, self._candidates.decay_factors(index, now)):
                path, stamp = path_and_stamp(row)
                cached = cache.get(path, stamp)
                if cached is None:
                    root = open_root(self._files.root) if root < 0 else root
                    read = cache.read(root, path)
                    if not isinstance(read, CachedMemory) or read.stamp != stamp:
                        return None
                    cached = read
                _, memory, line = cached
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

    def _read_page(
        self, question: Question, weights: Weights, filter_: Filter, page: Page, now: datetime, *, is_last: bool
    ) -> list[FoundMemory]:
        """Return the candidates of a page with their memories as they are on disk now.

        Raises StaleCandidatesError if files differ from the known state. The last attempt does not: it takes those that
        still match as they are, and skips the others.
        """
        unpublished = self._freshness.unpublished.entries
        targets = self._superseded_targets(filter_, now)
        is_exact = filter_.is_exact  # then the clauses of the index decide
        found: list[FoundMemory] = []
        stale: list[str] = []
        skip = page.offset
        clauses = self._clauses(filter_, now)
        request = SearchRequest(question, weights, clauses, lambda memory: filter_.matches(memory, now))
        root = -1
        try:
            for candidate in self._candidates.find(request, page, now):
                path, stamp = candidate[1], candidate[2]
                cached: ReadResult = self._read_cache.get(path, stamp)
                if cached is None:
                    root = open_root(self._files.root) if root < 0 else root
                    cached = self._read_cache.read(root, path)
                if not isinstance(cached, CachedMemory):
                    stale += [path] if cached is None else []
                elif cached.stamp != stamp and not (is_last and self._is_match(cached.memory, question, weights)):
                    stale.append(path)
                elif (is_exact and path not in unpublished) or filter_.matches(cached.memory, now):
                    if targets and is_superseded(cached.memory, targets):
                        continue
                    if skip:
                        skip -= 1
                        continue
                    found.append((candidate, cached))
                    if len(found) == page.limit:
                        break
        finally:
            if root >= 0:
                os.close(root)
        if stale and not is_last:
            raise StaleCandidatesError(*stale)
        return found

    def _is_match(self, memory: Memory, question: Question, weights: Weights) -> bool:
        """Return whether the text that was read has a term of the question and all of its phrases."""
        terms = self._freshness.analyzer.terms(indexed_text(memory))
        return not weights.by_term.keys().isdisjoint(terms) and has_all_phrases(terms, question.phrases)

    def _term_reasons(self, memory: Memory, question: Question, weights: Weights) -> tuple[Reason, ...]:
        terms = self._freshness.analyzer.terms(indexed_text(memory))
        return tuple(explain(question, terms, weights, self._mean_length()))

    def _mean_length(self) -> float:
        return self._freshness.unpublished.combined_mean_length(self._freshness.index.mean_length)

    def _expanded(self, question: Question) -> Question:
        """Return a question with the terms that begin with its prefixes."""
        index, unpublished = self._freshness.index, self._freshness.unpublished
        groups = []
        for prefix in question.prefixes:
            found = sorted(self._freshness.analyzer.prefix_stems(prefix))
            stems = [stem for stem in found if index.document_frequency(stem) or unpublished.document_frequency(stem)]
            terms = (*index.terms_with_prefix(prefix), *unpublished.terms_with_prefix(prefix), *stems)
            groups.append(tuple(dict.fromkeys(terms)))
        return question._replace(expansions=tuple(filter(None, groups)))

    def _weigh(self, question: Question) -> Weights:
        index, unpublished = self._freshness.index, self._freshness.unpublished
        if not unpublished.entries:
            return compute_weights(term_groups(question), index.idf, index.memory_count)
        total = unpublished.combined_total(index.memory_count)
        frequency = unpublished.combined_frequency

        def idf(term: str) -> float:
            return idf_or_zero(frequency(index.document_frequency(term), term), total)

        return compute_weights(term_groups(question), idf, total)

    def _clauses(self, filter_: Filter, now: datetime) -> Sequence[Clause]:
        """Return the clauses of a filter for the index; the clause on `expires` only if some memory has the key."""
        return filter_.clauses(now) if self._freshness.index.has_expiring else filter_.lasting_clauses

    def _superseded_targets(self, filter_: Filter, now: datetime) -> frozenset[str]:
        """Return the link targets of `supersedes` in the scope; empty if superseded memories may be hits."""
        index, unpublished, scope = self._freshness.index, self._freshness.unpublished, filter_.scope
        if "superseded" in filter_.include or not (unpublished.entries or index.has_superseding):
            return NO_TARGETS
        key = (index, unpublished, unpublished.version, int(now.timestamp()) // 60)  # a memory may expire
        if self._superseded[0] != key:
            self._superseded = key, {}
        by_scope = self._superseded[1]
        if scope.segments not in by_scope:
            rows = index.rows_with_keyword("supersedes")
            paths = [index.row_table.path_and_stamp(row)[0] for row in rows]
            superseding = [path for path in paths if scope.holds(tuple(path.split("/")))]
            links = index.values("supersedes", without=WITHDRAWN_KEYWORDS) if superseding else []
            # The links in the index are complete unless a scope, cut values, expiry or unpublished changes matter.
            is_simple = not scope.segments and all(len(link) < MAX_KEYWORD_CHARS for link in links)
            can_expire = bool(set(rows) & set(index.rows_with_keyword("expires")))
            if not is_simple or can_expire or any(path in unpublished for path in paths):
                with self._files.opened() as root:
                    found = [read_one(root, path) for path in superseding if path not in unpublished]
                links = [link for one in found if isinstance(one, Memory) for link in _links(one, scope, now)]
            memories = [entry.memory for entry in unpublished.entries.values() if entry.memory]
            memories = [memory for memory in memories if b"supersedes" in memory.data]
            links += [link for memory in memories for link in _links(memory, scope, now)]
            by_scope[scope.segments] = frozenset(map(target_of, links))
        return by_scope[scope.segments]

    # --- explaining a miss

    def explain_miss(self, memory: Memory, text: str, filter_: Filter, page: Page, now: datetime) -> list[Reason]:
        """Return why a memory is not among the hits of a question, or its position among them."""
        hits = self.search(text, filter_, page, now)
        for number, hit in enumerate(hits, page.offset + 1):
            if hit.memory.path == memory.path:
                return [Reason(f"it is hit {number}, with relevance {hit.relevance:.2f}", hit.rank)]
        reasons = [Reason(miss) for miss in filter_.mismatches(memory, now)]
        question = parse_question(text, self._freshness.analyzer)
        if question.is_empty:
            return [*reasons, Reason("the question has no words to look for")]
        with self._freshness.lock:
            self._freshness.refresh()
            if is_superseded(memory, self._superseded_targets(filter_, now)):
                reasons.append(Reason("superseded: another memory names it in `supersedes`"))
            question = self._expanded(question)
            weights = self._weigh(question)
            terms = self._freshness.analyzer.terms(indexed_text(memory))
            mean_length = self._mean_length()
            similarity = None
            if self._semantic_index and question.is_plain:
                similarity = self._semantic_index.similarity(memory, question, weights)
        parts = explain(question, terms, weights, mean_length, is_scoped=bool(filter_.scope.segments))
        score = sum(part.score for part in parts)
        if similarity is not None:
            is_similar = similarity >= MIN_SIMILARITY
            note = "" if is_similar else f"; it counts from {MIN_SIMILARITY} on"
            parts.append(Reason(f"similarity: {similarity:.2f}{note}"))
            score = max(score, similarity * weights.information) if is_similar else score
        if not score:
            reasons.append(Reason("it has none of the words of the question"))
        elif weights.relevance(score) < page.min_relevance:
            reasons.append(
                Reason(f"its relevance {weights.relevance(score):.2f} is below {page.min_relevance:.2f}", score)
            )
        elif not reasons:
            all_hits = self.search(text, filter_, Page(MAX_LIMIT), now)
            numbers = [number for number, hit in enumerate(all_hits, 1) if hit.memory.path == memory.path]
            best_terms = [self._freshness.analyzer.terms(indexed_text(hit.memory)) for hit in all_hits[:1]]
            best_has_phrases = any(has_all_phrases(other, question.phrases) for other in best_terms)
            if best_has_phrases and not has_all_phrases(terms, question.phrases):
                return [Reason("a phrase of the question is not in it, but in another memory"), *parts]
            place = f"it is hit {numbers[0]}" if numbers else f"it is not among the first {MAX_LIMIT} hits"
            reasons.append(Reason(f"{place}: others have more of the question, or rarer words of it", score))
        return [*reasons, *parts]


def _links(memory: Memory, scope: Namespace, now: datetime) -> Sequence[str]:
    """Return the `supersedes` links of a memory if it is in the scope and not withdrawn."""
    is_counted = scope.holds(tuple(memory.path.split("/"))) and not is_withdrawn(memory, now)
    return memory.header.supersedes if is_counted else ()
