"""Kinds of questions, each compared with the same query to tantivy alone."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.baselines import PlainTantivy
from benchmarks.bench_run import BenchRun
from benchmarks.corpus import STOP, sample, word
from benchmarks.measure import Row, interleaved
from benchmarks.searching import BASELINE, ask_in_turn, read_hits
from benchmarks.serving import HIT_LIMIT
from memfs import Vault

LONG_QUESTION_WORDS = 60
COMMON_WORDS = 40  # the most frequent content words
FIRST_UNKNOWN_WORD = 5_000_000  # number of a word that no memory contains


class Kind(NamedTuple):
    """A kind of question: its text for a memory, the query of tantivy, and the format of the memfs question."""

    name: str
    text: Callable[[int, int], str]
    ask: Callable[[PlainTantivy, str], object]
    form: str = "{}"


def rare(number: int, _: int) -> str:
    """Return a word that at most three memories contain."""
    return word(300_000 + number // 3)


def common(number: int, _: int) -> str:
    """Return four words that many memories contain."""
    return " ".join(word((number + 7 * step) % COMMON_WORDS) for step in range(4))


def phrase(number: int, memories: int) -> str:
    """Return three adjacent words of a memory."""
    return " ".join(_words(number, memories)[1:4])


def prefix(number: int, memories: int) -> str:
    """Return the first four letters of a word of a memory."""
    return next(text for text in _words(number, memories)[1:] if text not in STOP and len(text) > 4)[:4]


def unknown(number: int, _: int) -> str:
    """Return a question with words that no memory contains."""
    return "what is the {} of {} in the {}?".format(
        *(word(FIRST_UNKNOWN_WORD + 3 * number + step) for step in range(3))
    )


def long(number: int, memories: int) -> str:
    """Return a long question of words from memories."""
    words: list[str] = []
    while len(words) < LONG_QUESTION_WORDS:
        words += _words(number % memories, memories)
        number += 1
    return " ".join(words[:LONG_QUESTION_WORDS])


def _words(number: int, memories: int) -> list[str]:
    return sample(number, memories).body.lower().replace(".", "").split()


KINDS = (
    Kind("one rare word", rare, PlainTantivy.ask),
    Kind("four common words", common, PlainTantivy.ask),
    Kind("a phrase of three words", phrase, PlainTantivy.phrase, '"{}"'),
    Kind("a prefix of four letters", prefix, PlainTantivy.prefix, "{}*"),
    Kind("three words that no memory has", unknown, PlainTantivy.ask),
    Kind(f"{LONG_QUESTION_WORDS} words", long, PlainTantivy.ask),
)


def rows(run: BenchRun) -> list[Row]:
    """Return one row per kind of question."""
    raw = PlainTantivy(run.raw)
    with Vault(run.indexed) as vault:
        return [_row(run, vault, raw, kind) for kind in KINDS]


def _row(run: BenchRun, vault: Vault, raw: PlainTantivy, kind: Kind) -> Row:
    number_of_questions, memories = run.size.questions, run.size.memories
    texts = [kind.text(number * memories // number_of_questions, memories) for number in range(number_of_questions)]
    times = interleaved(
        {
            "memfs": ask_in_turn(texts, lambda text: read_hits(vault.search(kind.form.format(text), limit=HIT_LIMIT))),
            "baseline": ask_in_turn(texts, lambda text: kind.ask(raw, text)),
        },
        number_of_questions,
    )
    return Row(f"question: {kind.name}", times["memfs"], BASELINE, times["baseline"])
