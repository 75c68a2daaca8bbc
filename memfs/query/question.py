"""Parsed questions, the weights of their terms, and the relevance of a memory to a question. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from memfs.data_types import Reason
from memfs.errors import InvalidSearchError, short_repr
from memfs.query.bm25 import bm25, has_all_phrases, idf
from memfs.query.tokens import (
    MAX_QUESTION_CHARS,
    MAX_TERMS,
    emoji_from_term,
    is_plain_question,
    normalize_text,
    split_question,
)

DEFAULT_LIMIT = 10
MAX_LIMIT = 1000
MAX_OFFSET = 10_000
MAX_PHRASES = MAX_PREFIXES = 8
RELEVANCE_EXPONENT = 1.65  # one word in four, which any long text has by chance, gives a relevance below 0.2
UNKNOWN_TERM_SHARE = 0.5  # of its weight: a single term that occurs nowhere may be a synonym of one that does
FEW_MEMORIES = 20  # with fewer memories, a term that none of them has says less about the question


class Tokenizer(Protocol):
    """Splits questions and phrases into terms."""

    def question_terms(self, question: str) -> list[str]: ...

    def phrase_terms(self, text: str) -> tuple[str, ...]: ...


NO_BOOSTS: Mapping[str, float] = MappingProxyType({})


class Question(NamedTuple):
    """A parsed question: a match has any of the terms or prefixes, and all of the phrases."""

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    prefixes: tuple[str, ...] = ()
    expansions: tuple[tuple[str, ...], ...] = ()  # per prefix, the indexed terms that start with it
    text: str = ""  # as the caller wrote it
    boosts: Mapping[str, float] = NO_BOOSTS  # factor on the index's own weight of a term

    @property
    def is_empty(self) -> bool:
        """Return whether the question has nothing to search for."""
        return not (self.terms or self.phrases or self.prefixes)

    @property
    def is_plain(self) -> bool:
        """Return whether the question has words only, none of them required."""
        return bool(self.terms) and not (self.phrases or self.prefixes)

    @property
    def all_terms(self) -> tuple[str, ...]:
        """Return every term once, including those of phrases."""
        if not self.phrases:
            return self.terms
        return tuple(dict.fromkeys((*self.terms, *(term for phrase in self.phrases for term in phrase))))

    def without_phrases(self) -> "Question":
        """Return a question for the same terms, none of them required."""
        return self._replace(terms=self.all_terms[:MAX_TERMS], phrases=())


def parse_question(text: str, tokenizer: Tokenizer) -> Question:
    """Parse a question; any text is valid. Raises InvalidSearchError for anything but a text."""
    if not isinstance(text, str):
        raise InvalidSearchError("question", f"{short_repr(text)} is not a text")
    encoded = text if text.isascii() else text.encode("utf-8", "replace").decode()
    words, quoted, raw_prefixes = (
        (encoded[:MAX_QUESTION_CHARS], (), ()) if is_plain_question(encoded) else split_question(encoded)
    )
    terms = tuple(dict.fromkeys(tokenizer.question_terms(words)))[:MAX_TERMS]
    if not quoted and not raw_prefixes:
        return Question(terms, (), (), (), text)
    phrases = tuple(filter(None, (tokenizer.phrase_terms(phrase)[:MAX_TERMS] for phrase in quoted[:MAX_PHRASES])))
    prefixes = tuple(dict.fromkeys(normalize_text(prefix, is_question=True).strip().lower() for prefix in raw_prefixes))
    return Question(terms, phrases, prefixes[:MAX_PREFIXES], text=text)


class Weights(NamedTuple):
    """The weight of each known term of a question, and the information of the whole question: the sum of its weights.

    A group is the terms that represent one word of the question; it counts by the best of them.
    """

    by_term: Mapping[str, float]
    information: float
    groups: Sequence[Sequence[str]] = ()

    def score(self, counts: Mapping[str, int], length: int, mean_length: float) -> float:
        """Return the BM25 score of a memory of `length` terms; `counts` has the number of occurrences of each."""
        return sum(self.best_term(group, counts, length, mean_length)[1] for group in self.groups)

    def best_term(
        self, group: Sequence[str], counts: Mapping[str, int], length: int, mean_length: float
    ) -> tuple[str, float]:
        """Return the term of a group that scores best in a memory, and its score: 0 if the memory has none of them."""
        found = [
            (bm25(counts[term], length, mean_length, self.by_term[term]), term)
            for term in group
            if term in counts and term in self.by_term
        ]
        score, term = max(found, default=(0.0, group[0]))
        return term, score

    def relevance(self, score: float) -> float:
        """Return the relevance of a score, 0..1: its share of the question's information, with small shares lowered."""
        return min(1.0, score / self.information) ** RELEVANCE_EXPONENT if self.information > 0 else 1.0


def compute_weights(groups: Sequence[Sequence[str]], term_idf: Callable[[str], float], total: int) -> Weights:
    """Return the weights of a question's terms among `total` memories; `term_idf` returns 0 for an unknown term.

    A term that occurs in no memory lowers relevance by half its weight (it may be a synonym). Two or more unknown terms
    count in full: the question is probably about something else.
    """
    by_term: dict[str, float] = {}
    information, unknown = 0.0, 0
    for group in groups:
        best = 0.0
        for term in group:
            if weight := term_idf(term):
                by_term[term] = weight
                if weight > best:
                    best = weight
        information += best
        unknown += not best
    if unknown:
        share = unknown if unknown > 1 else UNKNOWN_TERM_SHARE
        information += share * min(1.0, total / FEW_MEMORIES) ** 0.75 * idf(0, total)
    return Weights(by_term, information, groups)


def term_groups(question: Question) -> list[tuple[str, ...]]:
    """Return the words of a question, each as a group of the terms that represent it."""
    groups: list[tuple[str, ...]] = [(term,) for term in question.all_terms]
    if not question.prefixes:
        return groups
    return [*groups, *(question.expansions or [(prefix,) for prefix in question.prefixes])]


def explain(
    question: Question, terms: Sequence[str], weights: Weights, mean_length: float, *, is_scoped: bool = False
) -> list[Reason]:
    """Return one reason per word and phrase of the question: its score in a memory with these terms.

    With `is_scoped`, the reasons do not reveal whether memories outside the scope contain a term.
    """
    counts, reasons = Counter(terms), []
    for group in weights.groups:
        term, score = weights.best_term(group, counts, len(terms), mean_length)
        if score:
            detail = f"{counts[term]} of {len(terms)} words, weight {weights.by_term[term]:.2f}"
            reasons.append(Reason(f"{emoji_from_term(term) or term}: {detail}", score))
        else:
            is_known = is_scoped or any(term in weights.by_term for term in group)
            detail = "not in it" if is_known else "in no memory"
            reasons.append(Reason(f"{emoji_from_term(group[0]) or group[0]}: {detail}"))
    for phrase in question.phrases:
        detail = "in it" if has_all_phrases(terms, [phrase]) else "not in it"
        reasons.append(Reason(f'"{" ".join(phrase)}": {detail}'))
    return reasons


class Page(NamedTuple):
    """The part of the hits that a search returns."""

    limit: int
    offset: int = 0
    min_relevance: float = 0.0


def check_page(limit: int | None, offset: int, min_relevance: float) -> Page:
    """Return the page with these bounds; None is the default limit. Raises InvalidSearchError for wrong bounds."""
    limit = DEFAULT_LIMIT if limit is None else limit
    if not _is_whole(limit) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidSearchError("limit", f"{short_repr(limit)} is not a whole number from 1 to {MAX_LIMIT}")
    if not _is_whole(offset) or not 0 <= offset <= MAX_OFFSET:
        raise InvalidSearchError("offset", f"{short_repr(offset)} is not a whole number from 0 to {MAX_OFFSET}")
    if not isinstance(min_relevance, (int, float)) or isinstance(min_relevance, bool) or not 0 <= min_relevance <= 1:
        raise InvalidSearchError("min_relevance", f"{short_repr(min_relevance)} is not a number from 0 to 1")
    return Page(limit, offset, min_relevance)


def _is_whole(value: object) -> bool:
    return type(value) is int or (isinstance(value, int) and not isinstance(value, bool))
