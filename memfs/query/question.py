"""Questions: what to look for, what each word is worth, and how much of a question a memory answers. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from memfs.data_types import Reason
from memfs.errors import InvalidSearchError, short_repr
from memfs.query.bm25 import bm25, has_all, rarity
from memfs.query.tokens import MAX_QUESTION, MAX_TERMS, ask, emoji_of, is_loose, prepare

DEFAULT_LIMIT = 10
MAX_LIMIT = 1000
MAX_OFFSET = 10_000
STEEPNESS = 1.65  # so that one word in four, which any long text has by chance, stays below 0.2
UNSEEN = 0.5  # share of its weight that a word counts which no memory has, if it is the only one
FEW = 20  # memories; among fewer, that none has a word says less


class Cutter(Protocol):
    """Cuts the words of a question into terms, and those of a phrase."""

    def asked(self, question: str) -> list[str]: ...

    def phrase(self, text: str) -> tuple[str, ...]: ...


NO_BOOSTS: Mapping[str, float] = MappingProxyType({})


class Question(NamedTuple):
    """What is looked for: any of the terms, or of the words that begin so; all of the phrases."""

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    prefixes: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()  # the terms that each prefix stands for
    text: str = ""  # as it was asked
    boosts: Mapping[str, float] = NO_BOOSTS  # what the worth of a term to the index is multiplied by

    @property
    def is_empty(self) -> bool:
        return not (self.terms or self.phrases or self.prefixes)

    @property
    def is_plain(self) -> bool:
        """Words only, none of them required."""
        return bool(self.terms) and not (self.phrases or self.prefixes)

    @property
    def words(self) -> tuple[str, ...]:
        """Every term once, those of phrases too."""
        if not self.phrases:
            return self.terms
        return tuple(dict.fromkeys((*self.terms, *(term for phrase in self.phrases for term in phrase))))

    def without_phrases(self) -> "Question":
        """The same words, none of them required."""
        return self._replace(terms=self.words[:MAX_TERMS], phrases=())


def understand(text: str, cutter: Cutter) -> Question:
    """Read a question; any text is one."""
    if not isinstance(text, str):
        raise InvalidSearchError("question", f"{short_repr(text)} is not a text")
    encoded = text if text.isascii() else text.encode("utf-8", "replace").decode()
    loose, quoted, begun = (encoded[:MAX_QUESTION], (), ()) if is_loose(encoded) else ask(encoded)
    terms = tuple(dict.fromkeys(cutter.asked(loose)))[:MAX_TERMS]
    if not quoted and not begun:
        return Question(terms, (), (), (), text)
    phrases = tuple(filter(None, (cutter.phrase(phrase)[:MAX_TERMS] for phrase in quoted[:8])))
    prefixes = tuple(dict.fromkeys(prepare(prefix, is_question=True).strip().lower() for prefix in begun))
    return Question(terms, phrases, prefixes[:8], text=text)


class Weights(NamedTuple):
    """What each term of a question is worth, and all of them together; a group counts by the best of its terms."""

    of: Mapping[str, float]
    information: float
    groups: Sequence[Sequence[str]] = ()

    def score(self, counts: Mapping[str, int], length: int, mean_length: float) -> float:
        """The score of a memory that has the terms so many times."""
        return sum(self.score_of(group, counts, length, mean_length)[1] for group in self.groups)

    def score_of(
        self, group: Sequence[str], counts: Mapping[str, int], length: int, mean_length: float
    ) -> tuple[str, float]:
        """The term of a group that counts most in a memory, and how much."""
        found = [
            (bm25(counts[term], length, mean_length, self.of[term]), term)
            for term in group
            if term in counts and term in self.of
        ]
        score, term = max(found, default=(0.0, group[0]))
        return term, score

    def relevance(self, score: float) -> float:
        """How much of the question's information a score stands for, 0..1; a small share counts less than it is."""
        return min(1.0, score / self.information) ** STEEPNESS if self.information > 0 else 1.0


def weigh(groups: Sequence[Sequence[str]], worth: Callable[[str], float], total: int) -> Weights:
    """Weigh the terms of a question: `worth` is how rare one is, 0 if none of the `total` memories has it; a group of
    terms stands for one word of it."""
    of: dict[str, float] = {}
    information, unseen = 0.0, 0
    for group in groups:
        most = 0.0
        for term in group:
            if weight := worth(term):
                of[term] = weight
                if weight > most:
                    most = weight
        information += most
        unseen += not most
    if unseen:
        information += (unseen if unseen > 1 else UNSEEN) * min(1.0, total / FEW) ** 0.75 * rarity(0, total)
    return Weights(of, information, groups)


def groups_of(question: Question) -> list[tuple[str, ...]]:
    """The words of a question, each as the terms that stand for it."""
    words: list[tuple[str, ...]] = [(term,) for term in question.words]
    return [*words, *(question.groups or [(prefix,) for prefix in question.prefixes])] if question.prefixes else words


def explain(
    question: Question, terms: Sequence[str], weights: Weights, mean_length: float, *, is_scoped: bool = False
) -> list[Reason]:
    """What each word of the question counts in a memory of these terms; a scope hears nothing of what is outside."""
    counts, reasons = Counter(terms), []
    for group in weights.groups:
        term, score = weights.score_of(group, counts, len(terms), mean_length)
        if score:
            worth = f"{counts[term]} of {len(terms)} words, worth {weights.of[term]:.2f}"
            reasons.append(Reason(f"{emoji_of(term) or term}: {worth}", score))
        else:
            is_known = is_scoped or any(term in weights.of for term in group)
            reasons.append(Reason(f"{emoji_of(group[0]) or group[0]}: {'not in it' if is_known else 'in no memory'}"))
    for phrase in question.phrases:
        there = "in it" if has_all(terms, [phrase]) else "not in it"
        reasons.append(Reason(f'"{" ".join(phrase)}": {there}'))
    return reasons


class Page(NamedTuple):
    """Which of the hits are wanted."""

    limit: int
    offset: int = 0
    min_relevance: float = 0.0


def check_page(limit: int | None, offset: int, min_relevance: float) -> Page:
    """The bounds of a search, checked: nothing else may reach the index."""
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
