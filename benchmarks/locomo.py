"""How much of what answers a question is found: `python -m benchmarks.locomo DATA`.

DATA is a file in the form of LoCoMo: conversations with questions, and the turns that answer them. Each turn becomes a
memory, with speaker and date in its text, session and message number in `source`. The share of the answering turns
among the first 5 and 10 hits, and the mean reciprocal rank of the first, stand side by side with SQLite FTS5 and the
keyword search of strands-agents. Questions of category 5, which have no answer, are counted apart.
"""

import argparse
import asyncio
import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memfs import Vault
from memfs.words import STOP_WORDS

MOST = 10
UNANSWERED = 5  # the category of questions that nothing answers
_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D\d+:\d+")
_WORD = re.compile(r"\w+")
Ask = Callable[[str], Sequence[str]]  # question -> names of turns, the best first


@dataclass(frozen=True)
class Turn:
    """What somebody said."""

    name: str
    session: int
    number: int
    speaker: str
    date: str
    words: str

    @property
    def text(self) -> str:
        return f"{self.speaker}, {self.date}: {self.words}"


@dataclass(frozen=True)
class Question:
    """A question, and the turns that answer it."""

    text: str
    category: int
    answers: frozenset[str]


@dataclass
class Score:
    """What was found, over some questions."""

    questions: int = 0
    at_5: float = 0.0
    at_10: float = 0.0
    reciprocal: float = 0.0

    def add(self, question: Question, found: Sequence[str]) -> None:
        """Count one question."""
        first = next((rank for rank, name in enumerate(found, 1) if name in question.answers), 0)
        self.questions += 1
        self.at_5 += len(question.answers & set(found[:5])) / len(question.answers)
        self.at_10 += len(question.answers & set(found[:MOST])) / len(question.answers)
        self.reciprocal += 1 / first if first else 0.0

    def row(self) -> str:
        shares = (self.at_5, self.at_10, self.reciprocal)
        return "  ".join(f"{share / self.questions:9.3f}" for share in shares)


@dataclass
class Scores:
    """The scores of one way to search: of all questions with an answer, and by category."""

    all: Score = field(default_factory=Score)
    by_category: dict[int, Score] = field(default_factory=dict)

    def add(self, question: Question, found: Sequence[str]) -> None:
        self.by_category.setdefault(question.category, Score()).add(question, found)
        if question.category != UNANSWERED:
            self.all.add(question, found)


def turns_of(conversation: Mapping[str, Any]) -> Iterator[Turn]:
    """The turns of a conversation, in order."""
    for key, said in conversation.items():
        found = _SESSION.fullmatch(key)
        for one in said if found and isinstance(said, list) else ():
            words = one["text"] + (f" [{one['blip_caption']}]" if one.get("blip_caption") else "")
            number = int(one["dia_id"].partition(":")[2])
            session = int(found[1]) if found else 0
            yield Turn(one["dia_id"], session, number, one["speaker"], conversation.get(f"{key}_date_time", ""), words)


def questions_of(sample: Mapping[str, Any]) -> Iterator[Question]:
    """The questions that name the turns which answer them."""
    for one in sample["qa"]:
        if answers := frozenset(_TURN.findall(" ".join(one.get("evidence") or ()))):
            yield Question(one["question"], one["category"], answers)


def ask_memfs(turns: Iterable[Turn], folder: Path) -> Ask:
    """A vault with a memory a turn."""
    vault = Vault.init(folder)
    items = [
        {
            "text": turn.text,
            "namespace": f"/chat/session-{turn.session:02d}",
            "type": "message",
            "source": f"session {turn.session}, message {turn.number}",
            "turn": turn.name,
        }
        for turn in turns
    ]
    vault.add_many(items)
    return lambda question: [str(hit.memory.header.get("turn")) for hit in vault.search(question, limit=MOST)]


def ask_fts(turns: Iterable[Turn], folder: Path) -> Ask:
    """FTS5 with its stemmer; any of the words that are no stop words."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table turn using fts5(body, name unindexed, tokenize='porter unicode61')")
    database.executemany("insert into turn(name, body) values (?, ?)", [(turn.name, turn.text) for turn in turns])

    def ask(question: str) -> Sequence[str]:
        words = [word for word in _WORD.findall(question.lower()) if word not in STOP_WORDS]
        sql = "select name from turn where turn match ? order by rank limit ?"
        match = " OR ".join(f'"{word}"' for word in words)
        return [row[0] for row in database.execute(sql, (match, MOST))] if words else []

    return ask


def ask_keywords(turns: Iterable[Turn], folder: Path) -> Ask:
    """The file store of strands-agents, a file a turn."""
    from strands.storage.local_file_storage import LocalFileStorage
    from strands.vended_memory_stores.file_memory_store import FileMemoryStore

    store = FileMemoryStore(name="turns", storage=LocalFileStorage(str(folder)), max_search_results=MOST)

    async def fill() -> None:
        for turn in turns:
            await store.add(f"# turn {turn.name.replace(':', ' ')}\n{turn.text}")

    async def ask(question: str) -> Sequence[str]:
        found = [entry.content.split("\n", 1)[0].split() for entry in await store.search(question)]
        return [f"{words[-2]}:{words[-1]}" for words in found]

    asyncio.run(fill())
    return lambda question: asyncio.run(ask(question))


WAYS: Mapping[str, Callable[[Iterable[Turn], Path], Ask]] = {
    "memfs": ask_memfs,
    "SQLite FTS5": ask_fts,
    "strands keywords": ask_keywords,
}


def measure(samples: Iterable[Mapping[str, Any]], ways: Sequence[str] = tuple(WAYS)) -> dict[str, Scores]:
    """Ask every question of every conversation, each way."""
    scores = {way: Scores() for way in ways}
    for number, sample in enumerate(samples, 1):
        print(f"conversation {number} ...", file=sys.stderr)
        turns, questions = list(turns_of(sample["conversation"])), list(questions_of(sample))
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                ask = WAYS[way](turns, Path(folder) / "turns")
                for question in questions:
                    scores[way].add(question, ask(question.text))
    return scores


def table(scores: Mapping[str, Scores]) -> str:
    """The scores, a line a way, then a line a way and category."""
    lines = [f"{'':<26}{'questions':>9}  {'recall@5':>9}  {'recall@10':>9}  {'MRR':>9}"]
    for way, found in scores.items():
        if found.all.questions:
            lines.append(f"{way:<26}{found.all.questions:>9}  {found.all.row()}")
    for way, found in scores.items():
        for category, score in sorted(found.by_category.items()):
            lines.append(f"{f'{way}, category {category}':<26}{score.questions:>9}  {score.row()}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locomo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="a file in the form of LoCoMo")
    parser.add_argument("--only", choices=WAYS, action="append", help="one way to search; may be given again")
    options = parser.parse_args(arguments)
    samples = json.loads(options.data.read_text(encoding="utf-8"))
    print(table(measure(samples, options.only or tuple(WAYS))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
