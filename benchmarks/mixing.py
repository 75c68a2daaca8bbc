"""Questions of other kinds, each beside tantivy by itself that is asked the same."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.corpus import STOP, sample, word
from benchmarks.floors import Raw
from benchmarks.measure import Row, interleaved
from benchmarks.place import Place
from benchmarks.searching import FLOOR, asked, taken
from benchmarks.serving import LIMIT
from memfs import Vault

LONG = 60  # words
COMMON = 40  # words, the most frequent ones but for stop words
UNKNOWN = 5_000_000  # the number of a word that no memory has


class Kind(NamedTuple):
    """A kind of question: its text for a memory of that number, how memfs is asked for it, and tantivy."""

    name: str
    text: Callable[[int, int], str]
    ask: Callable[[Raw, str], object]
    form: str = "{}"


def rare(number: int, _: int) -> str:
    """A word that three memories have at most."""
    return word(300_000 + number // 3)


def common(number: int, _: int) -> str:
    """Four words that many memories have."""
    return " ".join(word((number + 7 * step) % COMMON) for step in range(4))


def phrase(number: int, memories: int) -> str:
    """Three words that stand side by side in a memory."""
    return " ".join(_words(number, memories)[1:4])


def prefix(number: int, memories: int) -> str:
    """How a word of a memory begins."""
    return next(text for text in _words(number, memories)[1:] if text not in STOP and len(text) > 4)[:4]


def unknown(number: int, _: int) -> str:
    """A question with words that no memory has."""
    return "what is the {} of {} in the {}?".format(*(word(UNKNOWN + 3 * number + step) for step in range(3)))


def long(number: int, memories: int) -> str:
    """As many words as an agent may ask with, all of them from memories."""
    words: list[str] = []
    while len(words) < LONG:
        words += _words(number % memories, memories)
        number += 1
    return " ".join(words[:LONG])


def _words(number: int, memories: int) -> list[str]:
    return sample(number, memories).body.lower().replace(".", "").split()


KINDS = (
    Kind("one rare word", rare, Raw.ask),
    Kind("four common words", common, Raw.ask),
    Kind("a phrase of three words", phrase, Raw.phrase, '"{}"'),
    Kind("a prefix of four letters", prefix, Raw.prefix, "{}*"),
    Kind("three words that no memory has", unknown, Raw.ask),
    Kind(f"{LONG} words", long, Raw.ask),
)


def rows(place: Place) -> list[Row]:
    """A row for each kind of question."""
    raw = Raw(place.raw)
    with Vault(place.indexed) as vault:
        return [_row(place, vault, raw, kind) for kind in KINDS]


def _row(place: Place, vault: Vault, raw: Raw, kind: Kind) -> Row:
    many, memories = place.size.questions, place.size.memories
    texts = [kind.text(number * memories // many, memories) for number in range(many)]
    times = interleaved(
        {
            "ours": asked(texts, lambda text: taken(vault.search(kind.form.format(text), limit=LIMIT))),
            "floor": asked(texts, lambda text: kind.ask(raw, text)),
        },
        many,
    )
    return Row(f"question: {kind.name}", times["ours"], FLOOR, times["floor"])
