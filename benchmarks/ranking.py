"""How often a question finds its memory first, by the weight of a memory's names relative to its body.

`python -m benchmarks.ranking` searches the example vault, and a vault of titled memories whose titles mislead. The last
lines are the results of `Vault.search` with its whole ranking, by words alone and also by meaning.
"""

import os
import random
import shutil
import tempfile
from pathlib import Path

from benchmarks.corpus import word
from memfs import Vault
from memfs.data_types import Memory
from memfs.embedding import default_embedder
from memfs.fs.files import open_root
from memfs.index.document_builder import build_document, compose_text
from memfs.index.tantivy_analyzer import Analyzer
from memfs.index.tantivy_index import TantivyIndex, index_in_memory
from memfs.protocols import Embedder
from memfs.query.keyword_terms import NoneOf
from memfs.query.question import parse_question
from memfs.storage.stat_scan import read_all, scan

EXAMPLE = Path(__file__).parent.parent / "example-vault"
QUESTIONS = {
    "what does Alice eat?": "preferences/alice/likes-tuna-sushi.md",
    "peanut allergy": "facts/bob/allergic-to-peanuts.md",
    "when is Atlas due?": "facts/alice/atlas-deadline.md",
    "where does Bob live?": "facts/bob/lives-in-croix-rousse.md",
    "which grade does Alice climb?": "facts/alice/climbs-6c.md",
    "does Bob drink coffee?": "preferences/bob/drinks-sencha.md",
    "how large may a pull request be?": "preferences/bob/small-pull-requests.md",
    "can we meet Alice at nine in the morning?": "preferences/alice/no-meetings-before-ten.md",
    "train or plane?": "preferences/alice/train-over-plane.md",
    "how does Alice want feedback?": "preferences/alice/feedback-in-writing.md",
    "until when is the passport valid?": "facts/alice/passport-valid-until-2033.md",
    "four day week": "facts/alice/may-ask-for-a-four-day-week.md",
    "which database holds the offline maps?": "facts/atlas/offline-maps-in-sqlite.md",
    "where does staging run?": "facts/atlas/staging-runs-under-bobs-desk.md",
    "code freeze": "facts/atlas/code-freeze.md",
    "who tests the beta?": "facts/atlas/beta-with-hut-wardens.md",
    "is Bob in Tokyo in December?": "facts/bob/in-tokyo-in-december.md",
    "what was decided for Atlas?": "projects/atlas/decisions.md",
    "call with Lukas": "projects/atlas/Call with Lukas 2026-10-19.md",
    "small migrations": "projects/atlas/feedback_small_migrations.md",
    "Alpenkarte app": "projects/atlas/Atlas.md",
    "climbing routes": "notes/climbing routes.md",
    "zurich trip": "notes/Zürich trip.md",
    "東京": "notes/東京 office.md",
    "dentist": "notes/dentist.md",
    "trains to zurich": "episodes/alice/s-2026-11-08/trains-to-zurich.md",
    "who is Samir?": "people/samir.md",
    "Emma's birthday": "people/emma.md",
    "who is Yuki?": "people/yuki.md",
    "persona": "system/persona.md",
}
VARIANTS = (0, 1, 2, 4)  # repetitions of title, description, aliases and tags in the text, next to body and path
Found = dict[str, str]  # question -> path of the memory it is about


def main() -> None:
    """Print a table: variant, share found first, mean reciprocal rank, for each vault."""
    with tempfile.TemporaryDirectory() as folder:
        vaults = ((EXAMPLE, QUESTIONS), (Path(folder), _titled(Path(folder))))
        print(
            f"{'names counted':>13}  {'example vault, first':>20}  {'mrr':>5}  {'titled vault, first':>19}  {'mrr':>5}"
        )
        for times in VARIANTS:
            cells = [_share(_ranks(root, questions, times)) for root, questions in vaults]
            print(_line(str(times), cells))
        print(_line("memfs", [_share(_searched(root, q)) for root, q in vaults]))
        print(_line("semantic", [_share(_searched(root, q, default_embedder())) for root, q in vaults]))


def _line(name: str, cells: list[tuple[str, str]]) -> str:
    (one, one_mrr), (two, two_mrr) = cells
    return f"{name:>13}  {one:>20}  {one_mrr:>5}  {two:>19}  {two_mrr:>5}"


def _share(ranks: list[int]) -> tuple[str, str]:
    first = sum(rank == 1 for rank in ranks) / len(ranks)
    return f"{first:.0%}", f"{sum(1 / rank for rank in ranks if rank) / len(ranks):.3f}"


def _searched(root: Path, questions: Found, embedder: Embedder | None = None) -> list[int]:
    """Return the rank of each question's memory among ten hits of a search; 0 if it is missing."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(root, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".memfs"))
        with Vault(folder, embedder=embedder) as vault:
            found = {path: [hit.memory.path for hit in vault.search(question)] for question, path in questions.items()}
    return [paths.index(path) + 1 if path in paths else 0 for path, paths in found.items()]


def _ranks(root: Path, questions: Found, times: int) -> list[int]:
    """Return the rank of each question's memory among the hits; 0 if it is not among ten."""
    index, analyzer = _index(root, times), Analyzer("english")
    ranks = []
    for question, path in questions.items():
        hits = index.find(parse_question(question, analyzer), [NoneOf(("in=/archive",))], 12)
        paths = [index.row_table.row(number).path for _, number in hits]
        paths = [found for found in paths if found not in _SUPERSEDED][:10]
        ranks.append(paths.index(path) + 1 if path in paths else 0)
    return ranks


_SUPERSEDED = {
    "facts/alice/atlas-deadline-october.md",
    "facts/alice/climbs-6b.md",
    "facts/bob/lives-in-villeurbanne.md",
}


def _index(root: Path, times: int) -> TantivyIndex:
    fd = open_root(root)
    try:
        found = [memory for _, memory in read_all(fd, sorted(scan(fd).stamps)) if isinstance(memory, Memory)]
    finally:
        os.close(fd)
    edits = (
        (
            None,
            build_document(memory)._replace(text=compose_text(memory.path, memory.header.values, memory.body, times)),
        )
        for memory in found
    )
    return index_in_memory(edits, "english")


def _titled(root: Path, number: int = 2000) -> Found:
    """Write memories with titles of common words; half of the questions have words of a title, half of a body."""
    rng, questions = random.Random(7), {}
    common = [word(rank) for rank in range(300)]
    (root / "notes").mkdir()
    for count in range(number):
        title = " ".join(rng.sample(common, 3))
        body = " ".join(rng.choices(common, k=40))
        path = f"notes/note-{count}.md"
        (root / path).write_text(f"---\ntitle: {title}\n---\n\n{body}.\n", encoding="utf-8")
        if count % 10 == 0:
            questions[" ".join(rng.sample(title.split(), 3))] = path
        elif count % 10 == 5:
            questions[" ".join(rng.sample(sorted(set(body.split())), 4))] = path
    return questions


if __name__ == "__main__":
    main()
