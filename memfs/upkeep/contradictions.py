"""Find statements that may contradict each other: the same words with another value, or with a `not`. Pure.

A statement is a clause. Its values are numbers, dates and names; the other words are its form. Two statements of the
same form whose values differ in one place may contradict each other if a thing can have only one such value: a number
or a date near the end of the clause, or a name after words such as `lives in`. A miss is better than a false alarm.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_STATEMENTS_PER_TEXT = 40
MIN_STATEMENT_WORDS = 3
MAX_WORDS_AFTER_VALUE = 3  # that may differ
CALENDAR_WORDS = frozenset(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday".split()
)
NUMBER_WORDS = frozenset("one two three four five six seven eight nine ten eleven twelve".split())
SINGLE_VALUE_PHRASES = tuple(
    tuple(words.split())
    for words in (
        "lives in", "live in", "lives at", "works at", "works for", "works as", "is married to", "was born in",
        "is called", "is named", "name is", "reports to", "is owned by", "belongs to", "is based in", "is located in",
        "moved to", "is led by", "is due on", "is due in",
    )
)  # fmt: skip
CONTINUATIONS = frozenset("since now and with near from until again".split())  # may follow the value of such a phrase
PAST_VERBS = frozenset(
    "told,went,had,met,led,took,made,saw,came,bought,got,said,found,ran,gave,held,spoke,wrote,flew,ate,won,lost,sent,"
    "left,began,slept,rode,swam,sang,drove,spent,paid,sold,kept,felt,heard".split(",")
)  # events, which may happen more than once
_CLAUSE = re.compile(r"(?<=[.!?;])\s+|\n+|,\s+|\s+[–—-]\s+|[()]")
_WORD = re.compile(r"[^\W_]+(?:[-'’./:][^\W_]+|,\d{3})*")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NOT_PROSE = re.compile(r"^\s*(?:#|>|\||[-*+]\s+\w+\s+\[\[).*$", re.MULTILINE)  # headings, quotes, tables, relations
_NO_LONGER = re.compile(r"\bno longer\b", re.IGNORECASE)
_NEGATIONS = {"not", "never"}
_HELPERS = {"do", "does", "did", "any", "more", "anymore"}  # words that come and go with a negation
_CONTRACTED = {"cannot": "can", "can't": "can", "won't": "will", "shan't": "shall"}
_VALUE = "\0"  # stands for a value in the form of a statement

Words = tuple[str, ...]


class Statement(NamedTuple):
    """A clause of a text: the name of the text, the words, and the offset in the text."""

    name: str
    words: Words
    offset: int


class Contradiction(NamedTuple):
    """Two statements of different texts that may contradict each other; without values, one negates the other."""

    statement: Statement
    earlier: Statement  # in the order in which they were given
    values: tuple[str, str] | None = None


def statements(name: str, text: str) -> list[Statement]:
    """Return the first MAX_STATEMENTS_PER_TEXT statements in the prose of a text, without code, headings and tables."""
    prose = _NOT_PROSE.sub(_blanked, _CODE.sub(_blanked, text))
    found, start = [], 0
    for gap in (*_CLAUSE.finditer(prose), None):
        end = gap.start() if gap else len(prose)
        words = tuple(_WORD.findall(prose[start:end].replace("’", "'")))
        if len(words) >= MIN_STATEMENT_WORDS:
            found.append(Statement(name, words, start + len(prose[start:end]) - len(prose[start:end].lstrip())))
        start = gap.end() if gap else end
        if len(found) == MAX_STATEMENTS_PER_TEXT:
            break
    return found


def find_contradictions(found: Sequence[Statement]) -> Iterator[Contradiction]:
    """Yield the statements that may contradict one before them in the sequence, once per pair of texts."""
    seen: set[tuple[str, str]] = set()
    for contradiction in (*_different_values(found), *_negations(found)):
        pair = (contradiction.statement.name, contradiction.earlier.name)
        if pair[0] != pair[1] and pair not in seen:
            seen.add(pair)
            yield contradiction


def _different_values(found: Iterable[Statement]) -> Iterator[Contradiction]:
    """Yield statements that differ from an earlier one in exactly one value."""
    claims: dict[object, tuple[Statement, Words]] = {}
    for one in found:
        form, values = _form_and_values(one.words)
        for number, value in enumerate(values):
            claim = _claim(form, values, number)
            if claim is None:
                continue
            first, before = claims.setdefault(claim, (one, value))
            if _folded(before) != _folded(value):
                yield Contradiction(one, first, (" ".join(value), " ".join(before)))


def _negations(found: Iterable[Statement]) -> Iterator[Contradiction]:
    """Yield statements that are the negation of an earlier one."""
    by_core: dict[Words, dict[bool, Statement]] = defaultdict(dict)
    for one in found:
        core, is_negated = _without_negation(one.words)
        if len(core) < MIN_STATEMENT_WORDS:
            continue
        both = by_core[core]
        if is_negated not in both:
            both[is_negated] = one
        if (not is_negated) in both:
            yield Contradiction(one, both[not is_negated])


def _form_and_values(words: Words) -> tuple[Words, list[Words]]:
    """Return the form of a statement, with a marker for each run of numbers or names, and these values."""
    form: list[str] = []
    values: list[Words] = []
    previous_kind = ""
    for position, word in enumerate(words):
        # the first word is capitalized in any case, so it is never taken for a name
        kind = "number" if _is_number(word) else "name" if position and word[0].isupper() else ""
        if not kind:
            form.append(word.lower())
        elif kind == previous_kind:
            values[-1] = (*values[-1], word)
        else:
            form.append(_VALUE)
            values.append((word,))
        previous_kind = kind
    return tuple(form), values


def _claim(form: Words, values: Sequence[Words], number: int) -> object:
    """Return a key for a statement without one of its values; None if a thing may have several such values.

    Two statements with the same key claim the same thing, so that different values contradict each other.
    """
    position = [index for index, word in enumerate(form) if word == _VALUE][number]
    before, after = form[:position], form[position + 1 :]
    if len(before) < 2 or before[-1] == _VALUE:
        return None
    if any(before[-len(words) :] == words for words in SINGLE_VALUE_PHRASES) and (
        not after or after[0] in CONTINUATIONS
    ):
        return before, tuple(map(_folded, values[:number]))
    is_event = any(word in PAST_VERBS or word.endswith("ed") for word in form)
    if is_event or len(after) > min(MAX_WORDS_AFTER_VALUE, len(before)) or not all(map(_is_number, values[number])):
        return None
    return form, number, tuple(map(_folded, (*values[:number], *values[number + 1 :])))


def _is_number(word: str) -> bool:
    return any(char.isdigit() for char in word) or word.lower() in CALENDAR_WORDS or word.lower() in NUMBER_WORDS


def _without_negation(words: Words) -> tuple[Words, bool]:
    """Return a statement without its negation and without verb endings, and whether it was negated."""
    text = _NO_LONGER.sub("not", " ".join(words)).lower()
    is_negated = False
    core = []
    for word in text.split():
        kept = _CONTRACTED.get(word, word[:-3] if word.endswith("n't") else "" if word in _NEGATIONS else word)
        is_negated ^= kept != word
        if kept and kept not in _HELPERS:
            core.append(kept.rstrip("s"))
    return tuple(core), is_negated


def _folded(words: Words) -> Words:
    return tuple([word.casefold() for word in words])


def _blanked(found: re.Match[str]) -> str:
    """Return one newline per character of a match, so that offsets stay valid."""
    return "\n" * len(found[0])
