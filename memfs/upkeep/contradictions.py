"""Statements that may contradict each other: the same words with another value, or with a `not`. Pure.

A statement is a clause. Its values are numbers, dates and names; what is left is its form. Two statements of one form,
with the same values but for one, may contradict each other, if that one is a value which a thing has once: a number or
a date near the end of the clause, or a name behind words such as `lives in`. Better to miss one than to cry wolf.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MOST = 40  # statements of one text
LEAST = 3  # words of a statement
BEHIND = 3  # words at most behind a value that may differ
CALENDAR = frozenset(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday".split()
)
NUMBERS = frozenset("one two three four five six seven eight nine ten eleven twelve".split())
ONCE = tuple(
    tuple(words.split())
    for words in (
        "lives in", "live in", "lives at", "works at", "works for", "works as", "is married to", "was born in",
        "is called", "is named", "name is", "reports to", "is owned by", "belongs to", "is based in", "is located in",
        "moved to", "is led by", "is due on", "is due in",
    )
)  # fmt: skip
BESIDES = frozenset("since now and with near from until again".split())  # begin what is said beside such a value
PAST = frozenset(
    "told went had met led took made saw came bought got said found ran gave held spoke wrote flew ate won lost sent "
    "left began slept rode swam sang drove spent paid sold kept felt heard".split()
)  # verbs of what happened, which may happen again
_CLAUSE = re.compile(r"(?<=[.!?;])\s+|\n+|,\s+|\s+[–—-]\s+|[()]")
_WORD = re.compile(r"[^\W_]+(?:[-'’./:][^\W_]+|,\d{3})*")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_NO_STATEMENT = re.compile(r"^\s*(?:#|>|\||[-*+]\s+\w+\s+\[\[).*$", re.MULTILINE)  # headings, quotes, tables, relations
_NO_LONGER = re.compile(r"\bno longer\b", re.IGNORECASE)
_NEGATIONS = {"not", "never"}
_HELPERS = {"do", "does", "did", "any", "more", "anymore"}
_CONTRACTED = {"cannot": "can", "can't": "can", "won't": "will", "shan't": "shall"}
_VALUE = "\0"

Words = tuple[str, ...]


class Said(NamedTuple):
    """A statement, and whose it is."""

    name: str
    words: Words
    at: int  # where its text begins


class Clash(NamedTuple):
    """Two statements of different texts that may contradict each other; without values one denies the other."""

    one: Said
    other: Said
    values: tuple[str, str] | None = None


def statements(name: str, text: str) -> list[Said]:
    """The statements of a text, as far as it is prose."""
    prose = _NO_STATEMENT.sub(_blanked, _CODE.sub(_blanked, text))
    found, start = [], 0
    for gap in (*_CLAUSE.finditer(prose), None):
        end = gap.start() if gap else len(prose)
        words = tuple(_WORD.findall(prose[start:end].replace("’", "'")))
        if len(words) >= LEAST:
            found.append(Said(name, words, start + len(prose[start:end]) - len(prose[start:end].lstrip())))
        start = gap.end() if gap else end
        if len(found) == MOST:
            break
    return found


def clashes(said: Sequence[Said]) -> Iterator[Clash]:
    """The statements that may contradict one said before, each pair of texts once."""
    told: set[tuple[str, str]] = set()
    for clash in (*_other_values(said), *_opposites(said)):
        pair = (clash.one.name, clash.other.name)
        if clash.one.name != clash.other.name and pair not in told:
            told.add(pair)
            yield clash


def _other_values(said: Iterable[Said]) -> Iterator[Clash]:
    """Statements that differ in one value alone."""
    known: dict[object, tuple[Said, Words]] = {}
    for one in said:
        form, values = _cut(one.words)
        for number, value in enumerate(values):
            claim = _claim(form, values, number)
            if claim is None:
                continue
            first, before = known.setdefault(claim, (one, value))
            if _folded(before) != _folded(value):
                yield Clash(one, first, (" ".join(value), " ".join(before)))


def _opposites(said: Iterable[Said]) -> Iterator[Clash]:
    """Statements that one says, and another denies."""
    known: dict[Words, dict[bool, Said]] = defaultdict(dict)
    for one in said:
        core, is_denied = _affirmed(one.words)
        if len(core) < LEAST:
            continue
        both = known[core]
        if is_denied not in both:
            both[is_denied] = one
        if (not is_denied) in both:
            yield Clash(one, both[not is_denied])


def _cut(words: Words) -> tuple[Words, list[Words]]:
    """The form of a statement, with a mark for each run of numbers or of names, and these values."""
    form: list[str] = []
    values: list[Words] = []
    before = ""
    for place, word in enumerate(words):
        kind = "number" if _is_number(word) else "name" if place and word[0].isupper() else ""
        if not kind:
            form.append(word.lower())
        elif kind == before:
            values[-1] = (*values[-1], word)
        else:
            form.append(_VALUE)
            values.append((word,))
        before = kind
    return tuple(form), values


def _claim(form: Words, values: Sequence[Words], number: int) -> object:
    """What a statement says of a thing but for one value, if that is one which a thing has once; else None."""
    place = [at for at, word in enumerate(form) if word == _VALUE][number]
    before, behind = form[:place], form[place + 1 :]
    if len(before) < 2 or before[-1] == _VALUE:
        return None
    if any(before[-len(words) :] == words for words in ONCE) and (not behind or behind[0] in BESIDES):
        return before, tuple(map(_folded, values[:number]))
    is_event = any(word in PAST or word.endswith("ed") for word in form)
    if is_event or len(behind) > min(BEHIND, len(before)) or not all(map(_is_number, values[number])):
        return None
    return form, number, tuple(map(_folded, (*values[:number], *values[number + 1 :])))


def _is_number(word: str) -> bool:
    return any(char.isdigit() for char in word) or word.lower() in CALENDAR or word.lower() in NUMBERS


def _affirmed(words: Words) -> tuple[Words, bool]:
    """A statement without its negation, and whether it had one; endings of verbs do not count."""
    text = _NO_LONGER.sub("not", " ".join(words)).lower()
    is_denied = False
    core = []
    for word in text.split():
        kept = _CONTRACTED.get(word, word[:-3] if word.endswith("n't") else "" if word in _NEGATIONS else word)
        is_denied ^= kept != word
        if kept and kept not in _HELPERS:
            core.append(kept.rstrip("s"))
    return tuple(core), is_denied


def _folded(words: Words) -> Words:
    return tuple([word.casefold() for word in words])


def _blanked(found: re.Match[str]) -> str:
    """As many characters that say nothing, so that places stay."""
    return "\n" * len(found[0])
