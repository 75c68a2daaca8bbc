"""Retrieval quality on questions with known answers: `python -m benchmarks.locomo DATA`.

DATA is a file in the form of LoCoMo: conversations with questions, and the turns that answer them. Each turn becomes a
memory, with speaker and date in its text, session and message number in `source`. Recall of the answering turns at 5
and 10 hits, and the mean reciprocal rank of the first, are compared with SQLite FTS5, the keyword search of
strands-agents, and memfs without `source`, so that the neighbouring turns of a memory are unknown. Questions of
category 5, which have no answer, are counted separately.

Then the same questions are asked of other memories: facts that people extracted from the turns, and ten turns per
memory. `--fit` fits the weights of the ranking, each time without one conversation, and scores them on that one.
"""

import argparse
import asyncio
import json
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from memfs import Vault
from memfs.embedding import default_embedder
from memfs.query.tokens import STOP_WORDS

MAX_HITS = 10
UNANSWERED = 5  # category of questions without an answer
TURNS_PER_LONG_MEMORY = 10
_SESSION = re.compile(r"session_(\d+)")
_TURN = re.compile(r"D\d+:\d+")
_WORD = re.compile(r"\w+")
Ask = Callable[[str], Sequence[str]]  # question -> names of texts, the best first
Sample = Mapping[str, Any]


@dataclass(frozen=True)
class Text:
    """A turn, or a fact from turns; `turns` are the ids of the turns it represents."""

    name: str
    session: int
    number: int
    text: str
    turns: frozenset[str]
    namespace: str


@dataclass(frozen=True)
class Question:
    """A question, and the texts that answer it."""

    text: str
    category: int
    answers: frozenset[str]


@dataclass
class Score:
    """Sums of the measures over some questions."""

    questions: int = 0
    at_5: float = 0.0
    at_10: float = 0.0
    reciprocal: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def add(self, question: Question, found: Sequence[str], seconds: float = 0.0) -> None:
        """Count one question."""
        first = next((rank for rank, name in enumerate(found, 1) if name in question.answers), 0)
        self.questions += 1
        self.at_5 += len(question.answers & set(found[:5])) / len(question.answers)
        self.at_10 += len(question.answers & set(found[:MAX_HITS])) / len(question.answers)
        self.reciprocal += 1 / first if first else 0.0
        self.seconds.append(seconds)

    def row(self) -> str:
        shares = (self.at_5, self.at_10, self.reciprocal)
        figures = "  ".join(f"{share / self.questions:9.3f}" for share in shares)
        return f"{self.questions:>9}  {figures}  {median(self.seconds) * 1000:6.2f} ms"


@dataclass
class Scores:
    """The scores of one way to search: all questions with an answer, and by category."""

    all: Score = field(default_factory=Score)
    by_category: dict[int, Score] = field(default_factory=dict)

    def add(self, question: Question, found: Sequence[str], seconds: float = 0.0) -> None:
        self.by_category.setdefault(question.category, Score()).add(question, found, seconds)
        if question.category != UNANSWERED:
            self.all.add(question, found, seconds)


# --- texts and questions


def turns_of(sample: Sample) -> Iterator[Text]:
    """Yield the turns of a conversation, in order, with speaker and date."""
    conversation = sample["conversation"]
    for key, turns in conversation.items():
        found = _SESSION.fullmatch(key)
        for one in turns if found and isinstance(turns, list) else ():
            words = one["text"] + (f" [{one['blip_caption']}]" if one.get("blip_caption") else "")
            number, session = int(one["dia_id"].partition(":")[2]), int(found[1]) if found else 0
            text = f"{one['speaker']}, {conversation.get(f'{key}_date_time', '')}: {words}"
            namespace = f"/chat/session-{session:02d}"
            yield Text(one["dia_id"], session, number, text, frozenset({one["dia_id"]}), namespace)


def facts_of(sample: Sample) -> Iterator[Text]:
    """Yield the facts that people extracted from the turns, each with its turns."""
    for people in sample.get("observation", {}).values():
        for person, facts in people.items():
            for fact, named in facts:
                if turns := _TURN.findall(str(named)):
                    session, number = map(int, turns[0][1:].split(":"))
                    namespace = f"/facts/{person.lower()}"
                    yield Text(f"{turns[0]} {fact}", session, number, fact, frozenset(turns), namespace)


def long_of(sample: Sample) -> Iterator[Text]:
    """Yield memories of ten turns."""
    sessions: dict[int, list[Text]] = {}
    for turn in turns_of(sample):
        sessions.setdefault(turn.session, []).append(turn)
    for session, turns in sessions.items():
        for number, start in enumerate(range(0, len(turns), TURNS_PER_LONG_MEMORY)):
            part = turns[start : start + TURNS_PER_LONG_MEMORY]
            text = "\n\n".join(turn.text for turn in part)
            yield Text(part[0].name, session, number, text, frozenset(turn.name for turn in part), part[0].namespace)


def questions_of(sample: Sample, texts: Iterable[Text]) -> Iterator[Question]:
    """Yield the questions that some of the texts answer."""
    texts = list(texts)
    for one in sample["qa"]:
        turns = set(_TURN.findall(" ".join(one.get("evidence") or ())))
        if answers := frozenset(text.name for text in texts if text.turns & turns):
            yield Question(one["question"], one["category"], answers)


# --- ways to search


def fill(texts: Iterable[Text], folder: Path, *, with_source: bool = True, semantic: bool = False) -> Vault:
    """Return a vault with one memory per text."""
    Vault.init(folder)
    vault = Vault(folder, embedder=default_embedder() if semantic else None)
    items: list[dict[str, Any]] = []
    for text in texts:
        source = {"source": f"session {text.session}, message {text.number}"} if with_source else {}
        items.append({"text": text.text, "namespace": text.namespace, "type": "message", "name": text.name, **source})
    vault.add_many(items)
    vault.sync()
    return vault


def ask_memfs(texts: Iterable[Text], folder: Path, *, with_source: bool = True, semantic: bool = False) -> Ask:
    """Return a search in a vault with one memory per text."""
    vault = fill(texts, folder, with_source=with_source, semantic=semantic)
    return lambda question: [str(hit.memory.header.get("name")) for hit in vault.search(question, limit=MAX_HITS)]


def ask_plain(texts: Iterable[Text], folder: Path) -> Ask:
    """Return a search in a vault whose memories have no `source`."""
    return ask_memfs(texts, folder, with_source=False)


def ask_meaning(texts: Iterable[Text], folder: Path) -> Ask:
    """Return a search by words and meaning."""
    return ask_memfs(texts, folder, semantic=True)


def ask_plain_meaning(texts: Iterable[Text], folder: Path) -> Ask:
    """Return a search by words and meaning in a vault whose memories have no `source`."""
    return ask_memfs(texts, folder, with_source=False, semantic=True)


def ask_fts(texts: Iterable[Text], folder: Path) -> Ask:
    """Return a search by FTS5 with its stemmer, for any of the words that are not stop words."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table turn using fts5(body, name unindexed, tokenize='porter unicode61')")
    database.executemany("insert into turn(name, body) values (?, ?)", [(text.name, text.text) for text in texts])

    def ask(question: str) -> Sequence[str]:
        words = [word for word in _WORD.findall(question.lower()) if word not in STOP_WORDS]
        sql = "select name from turn where turn match ? order by rank limit ?"
        match = " OR ".join(f'"{word}"' for word in words)
        return [row[0] for row in database.execute(sql, (match, MAX_HITS))] if words else []

    return ask


def ask_keywords(texts: Iterable[Text], folder: Path) -> Ask:
    """Return a search in the file store of strands-agents, with one file per text."""
    from strands.storage.local_file_storage import LocalFileStorage
    from strands.vended_memory_stores.file_memory_store import FileMemoryStore

    store = FileMemoryStore(name="turns", storage=LocalFileStorage(str(folder)), max_search_results=MAX_HITS)

    async def fill() -> None:
        for text in texts:
            await store.add(f"# turn {text.name.replace(':', ' ')}\n{text.text}")

    async def ask(question: str) -> Sequence[str]:
        found = [entry.content.split("\n", 1)[0].split() for entry in await store.search(question)]
        return [f"{words[-2]}:{words[-1]}" for words in found]

    asyncio.run(fill())
    return lambda question: asyncio.run(ask(question))


WAYS: Mapping[str, Callable[[Iterable[Text], Path], Ask]] = {
    "memfs": ask_memfs,
    "memfs without source": ask_plain,
    "semantic": ask_meaning,
    "semantic without source": ask_plain_meaning,
    "SQLite FTS5": ask_fts,
    "strands keywords": ask_keywords,
}
MEMFS_WAYS = ("memfs", "memfs without source", "semantic", "semantic without source")
OTHER_TEXTS: Mapping[str, Callable[[Sample], Iterable[Text]]] = {"facts": facts_of, "long": long_of}


def measure(
    samples: Iterable[Sample], ways: Sequence[str], texts_of: Callable[[Sample], Iterable[Text]] = turns_of
) -> dict[str, Scores]:
    """Ask every question of every conversation in each way, and return the scores by way."""
    scores = {way: Scores() for way in ways}
    for sample in samples:
        texts = list(texts_of(sample))
        questions = list(questions_of(sample, texts))
        for way in ways if texts else ():
            with tempfile.TemporaryDirectory() as folder:
                ask = WAYS[way](texts, Path(folder) / "texts")
                for question in questions:
                    start = time.perf_counter()
                    found = ask(question.text)
                    scores[way].add(question, found, time.perf_counter() - start)
    return scores


def table(scores: Mapping[str, Scores], *, by_category: bool = True) -> str:
    """Return one line per way, then one line per way and category."""
    lines = [f"{way:<30}{found.all.row()}" for way, found in scores.items() if found.all.questions]
    for way, found in scores.items() if by_category else ():
        for category, score in sorted(found.by_category.items()):
            lines.append(f"{f'{way}, category {category}':<30}{score.row()}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locomo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="a file in the form of LoCoMo")
    parser.add_argument("--only", choices=WAYS, action="append", help="one way to search; may be repeated")
    parser.add_argument("--fit", action="store_true", help="fit the weights of the ranking to the other conversations")
    options = parser.parse_args(arguments)
    samples = json.loads(options.data.read_text(encoding="utf-8"))
    print(f"{'':<30}{'questions':>9}  {'recall@5':>9}  {'recall@10':>9}  {'MRR':>9}  per question", flush=True)
    print(table(measure(samples, options.only or tuple(WAYS))), flush=True)
    for name, texts_of in OTHER_TEXTS.items() if not options.only else ():
        scores = measure(samples, MEMFS_WAYS, texts_of)
        print(table({f"{way}, {name}": found for way, found in scores.items()}, by_category=False), flush=True)
    if options.fit:
        from benchmarks.fitting import report

        print(report(samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
