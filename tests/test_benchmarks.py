"""The benchmarks run, print every row, and write the page. No time is ever asserted."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

from benchmarks.corpus import questions, samples, texts
from benchmarks.measure import Row, Times
from benchmarks.page import updated

ROWS = [
    "cold build of 20 memories, wall",
    "cold build of 20 memories, CPU",
    "new Vault, sync with nothing changed",
    "new Vault, first question",
    "index on disk, a memory",
    "memory of a process that has searched",
    "questions whose memory is among 5 hits",
    "question",
    "question, type and namespace given",
    "SQLite FTS5, the same question",
    "question after 2 adds, 2 of them pending",
    "question after 4 adds, 4 of them pending",
    "question after an idle second",
    "first answer of a new process, memfs watch running",
    "vault.add, until another process finds it",
    "memfs search, CPU of the command",
    "python -c 'import tantivy', CPU",
    "watching for 0.2 s, CPU of a core",
    "a turn's injection of 5 memories",
    "longest standstill of the loop meanwhile",
    "vault.add, empty namespace",
    "vault.add, 10 there",
    "vault.update, one key",
    "vault.update, the body",
    "vault.append, one line",
    "vault.add_many, an item of 4",
    "vault.list, 20 memories",
    "vault.list, headers parsed, bodies taken",
    "import memfs",
    "import memfs; memfs.Vault",
    "memfs --version",
    "parse, flat header",
    "parse, header with a comment",
]


def test_every_row_is_printed_and_written_to_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--size", "tiny", "--no-peers", "--dir", str(tmp_path)]
    command += ["--json", str(tmp_path / "figures.json"), "--page", str(tmp_path / "page.md")]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert "commit" in printed[0]
    assert [name for name in ROWS if not any(line.startswith(f"{name}  ") for line in printed)] == []
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in figures["rows"]] == ROWS
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert [name for name in ROWS if f"| {name} |" not in page] == []


def test_the_corpus_is_the_same_every_time() -> None:
    assert list(samples(50)) == list(samples(50))
    assert len({sample.path for sample in samples(200)}) == 200
    assert questions(50, 7) == questions(50, 7)
    assert len(set(islice(texts(1), 100))) == 100


def test_a_question_is_about_words_of_its_memory() -> None:
    for question in questions(1_000, 50):
        body = question.about.body.lower().replace(".", "").split()

        assert sum(word.lower() in body for word in question.words) >= min(2, len(question.words))


def test_goals_are_said_to_be_met_or_missed() -> None:
    times, floor = Times([0.002, 0.004, 0.003]), Times([0.001, 0.001, 0.001])

    assert Row("a", times, "b", floor, 3.0).cells == ("a", "3 ms", "b", "1 ms", "3.00x", "3x met")
    assert Row("a", times, "b", floor, least=10).cells[-1] == ">= 10x MISSED"
    assert Row("a", times, limit=0.01).cells == ("a", "3 ms", "", "", "", "10 ms met")
    assert Row("a", Times([3e8]), limit=2e8, unit="bytes").cells[1:] == ("300 MB", "", "", "", "200 MB MISSED")


def test_the_page_keeps_the_figures_of_other_sizes() -> None:
    row = Row("question", Times([0.001]))
    small = updated("", 1_000, "a small machine", [row], ["peer: skipped"])
    both = updated(small, 100_000, "a large machine", [row], [])

    assert both.index("## 1,000 memories") < both.index("a small machine") < both.index("## 100,000 memories")
    assert updated(both, 1_000, "another machine", [row], []).count("memories\n") == both.count("memories\n")
    assert "- peer: skipped" in both
