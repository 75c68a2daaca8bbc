"""The benchmarks run, print every row, and write the page. No time is asserted, and nothing is downloaded."""

import subprocess
import sys
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import question_kinds
from benchmarks.bench_run import BenchRun
from benchmarks.comparing import peer_rows
from benchmarks.corpus import questions, samples, texts
from benchmarks.figures import Figure, Measured
from benchmarks.filter_index import FilterIndex
from benchmarks.filtering import FILTERS
from benchmarks.latency import visible_elsewhere
from benchmarks.measure import SIZES, MeasuredSeconds, Row, Times, interleaved
from benchmarks.page import read_page, update_page
from benchmarks.peers import Peer
from benchmarks.plot import PANELS, draw
from benchmarks.processes import FailedError
from memfs import Vault

CHECKOUT = Path(__file__).parents[2]
ROWS = [
    "cold build, wall",
    "cold build, CPU",
    "new Vault, sync with nothing changed",
    "warm open, new Vault and its first search",
    "index on disk, per memory",
    "memory of a process after searches",
    "questions whose memory is among 5 hits",
    "question",
    "question, hits not read before",
    "question after 2 adds, 2 of them pending",
    "question after 4 adds, 4 of them pending",
    "question: one rare word",
    "question: four common words",
    "question: a phrase of three words",
    "question: a prefix of four letters",
    "question: three words that no memory has",
    "question: 60 words",
    "question in a namespace",
    "question in a namespace and of a type",
    "question of a type and with a tag",
    "question, created within two months",
    "question, importance >= 4",
    "blank question, the newest",
    "all memories embedded, CPU",
    "all memories embedded, wall",
    "question by meaning",
    "question by meaning in a namespace",
    "memory of a process after searches by meaning",
    "vectors on disk, per memory",
    "30 nearest vectors, by sign bits",
    "share of these found by sign bits",
    "SQLite FTS5: build, wall",
    "SQLite FTS5: build, CPU",
    "SQLite FTS5: the question as typed",
    "SQLite FTS5: the question as typed, memory among 5 hits",
    "SQLite FTS5: without memfs' stop words",
    "SQLite FTS5: without memfs' stop words, memory among 5 hits",
    "SQLite FTS5: memory of a process after searches",
    "question after an idle second",
    "first search of a new process, memfs watch running",
    "vault.add, visible to another process",
    "the same, with that process's answer over a pipe",
    "watching for 0.2 s, share of a core",
    "injection of 5 memories per turn",
    "longest pause of the event loop meanwhile",
    "vault.add, empty namespace",
    "vault.add, 10 in the namespace",
    "vault.update, one key",
    "vault.update, the body",
    "vault.append, one line",
    "vault.add_many, per item of 4",
    "bulk load by add_many, 20 memories",
    "whole .memfs, per memory",
    "version log, per memory",
    "vault.list, per memory",
    "vault.list, headers and bodies parsed, per memory",
    "session append, 10 messages in the log",
    "session append, 200 messages in the log",
    "session restored, 200 messages",
    "session restored, for Strands, 200 messages",
    "python -c 'import tantivy', wall",
    "import memfs, wall",
    "import memfs; memfs.Vault, wall",
    "memfs --version, wall",
    "memfs search, wall",
    "memfs search, CPU",
    "memfs list of a namespace, wall",
    "memfs list of a namespace, CPU",
    "memfs add, wall",
    "memfs add, CPU",
    "parse, flat header",
    "parse, header with a comment",
]
GREP = """
import subprocess, sys
from benchmarks.serving import serve

def ask(word):
    found = subprocess.run(["grep", "-rliw", word, sys.argv[1]], capture_output=True, text=True).stdout.splitlines()
    return [path.removeprefix(sys.argv[1] + "/") for path in found]

serve(lambda: None, ask)
"""


@pytest.fixture
def run(tmp_path: Path) -> BenchRun:
    (tmp_path / "run").mkdir()
    return BenchRun(SIZES["tiny"], tmp_path / "run", tmp_path)


def test_every_row_is_printed_and_written_to_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--size", "tiny", "--no-peers", "--dir", str(tmp_path)]
    command += ["--page", str(tmp_path / "page.md")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert "commit" in printed[0]
    assert [name for name in ROWS if not any(line.startswith(f"{name}  ") for line in printed)] == []
    assert [figure.name for figure in read_page(tmp_path / "page.md")[20].figures] == ROWS
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert [name for name in ROWS if f"| {name} |" not in page] == []
    assert "(page.svg)" in page
    names = {line.name for panel in PANELS for line in panel.lines}
    assert names <= _texts((tmp_path / "page.svg").read_text(encoding="utf-8"))


def test_a_page_needs_a_run_of_all_groups(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--size", "tiny", "--only", "parsing", "--dir", str(tmp_path)]
    done = subprocess.run([*command, "--page", "page.md"], cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "--page needs a run of all groups" in done.stderr


def test_the_corpus_is_the_same_every_time() -> None:
    assert list(samples(50)) == list(samples(50))
    assert len({sample.path for sample in samples(200)}) == 200
    assert questions(50, 7) == questions(50, 7)
    assert len(set(islice(texts(1), 100))) == 100


def test_a_question_is_about_words_of_its_memory() -> None:
    for question in questions(1_000, 50):
        body = question.about.body.lower().replace(".", "").split()

        assert sum(word.lower() in body for word in question.words) >= min(2, len(question.words))


def test_the_kinds_of_questions_match_their_names() -> None:
    bodies = [" ".join(sample.body.lower().replace(".", "").split()) for sample in samples(200)]
    words = [body.split() for body in bodies]

    for number in range(0, 200, 7):
        assert sum(question_kinds.rare(number, 200) in text for text in words) <= 3
        assert question_kinds.phrase(number, 200) in bodies[number]
        assert any(word.startswith(question_kinds.prefix(number, 200)) for word in words[number])
        assert len(question_kinds.long(number, 200).split()) == 60
        assert not {word for text in words for word in text} & set(
            question_kinds.unknown(number, 200).rstrip("?").split()[-1:]
        )
        for word in question_kinds.common(number, 200).split():
            assert sum(word in text for text in words) > 5


def test_filters_and_their_floor_find_the_same(run: BenchRun) -> None:
    filter_index = FilterIndex(run.filter_index)
    with Vault(run.indexed) as vault:
        for way in FILTERS:
            for question in run.questions:
                query = question._replace(text="" if way.is_blank else question.about.body)  # all have one of its words
                hits = {hit.memory.path for hit in vault.search(query.text, limit=5, **way.filters(query))}
                baseline = {path for path, _, _ in way.ask(filter_index, query)}

                assert len(hits) == len(baseline), way.name
                assert (question.about.path in hits) == (question.about.path in baseline), way.name
                assert hits == baseline or not way.is_blank


def test_a_memory_that_another_process_does_not_find_ends_the_benchmark(run: BenchRun) -> None:
    other = [sys.executable, "-uc", "import sys\nfor line in sys.stdin: print('scratch/another.md')"]

    with pytest.raises(FailedError, match=r"was added, scratch/another\.md was found"):
        visible_elsewhere(run, other)


def test_a_peer_is_asked_in_its_own_process(run: BenchRun) -> None:
    peer = Peer(
        "grep",
        lambda run, _: [sys.executable, "-c", GREP, f"{run.root}/facts"],
        {"last": lambda q: q.words[-1]},
        50,
    )

    rows = peer_rows(run, peer)

    assert [row.name for row in rows] == [
        "grep: build, wall",
        "grep: build, CPU",
        "grep: last",
        "grep: last, memory among 5 hits",
    ]
    assert rows[-1].times.p50 == 1
    assert run.notes == []


def test_an_unavailable_peer_is_left_out_with_one_note(run: BenchRun) -> None:
    gone = Peer("gone", lambda *_: ["/no/such/program"], {}, 50)
    dumb = Peer("dumb", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"], {}, 50)
    slow = Peer("slow", lambda *_: [], {}, 10)

    assert [peer_rows(run, peer) for peer in (gone, dumb, slow)] == [[], [], []]
    assert [note.partition(":")[0] for note in run.notes] == ["gone", "dumb", "slow"]
    assert "exit 3" in run.notes[1]
    assert "left out above 10 memories" in run.notes[2]


def test_a_subject_may_measure_its_own_time() -> None:
    times = interleaved({"own": lambda: MeasuredSeconds(7.0)}, 20)

    assert times["own"].rounds == [7.0, 7.0]


def test_goals_are_shown_as_met_or_missed() -> None:
    times, baseline = Times([0.002, 0.004, 0.003]), Times([0.001, 0.001, 0.001])

    assert Row("a", times, "b", baseline, 3.0).figure.cells == ("a", "3 ms", "b", "1 ms", "3.00x", "3x met")
    assert Row("a", times, "b", baseline, least=10).figure.cells[-1] == ">= 10x MISSED"
    assert Row("a", times, limit=0.01).figure.cells == ("a", "3 ms", "", "", "", "10 ms met")
    assert Row("a", Times([3e8]), limit=2e8, unit="bytes").figure.cells[1:] == ("300 MB", "", "", "", "200 MB MISSED")


def test_a_rate_is_shown_per_second_and_compared_by_time() -> None:
    row = Row("load", Times([0.002]), "bare", Times([0.001]), unit="rate")

    assert row.figure.cells == ("load", "500/s", "bare", "1,000/s", "2.00x", "")


def test_the_page_keeps_the_figures_of_other_sizes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    figure = Figure("question", "time", 0.001, "tantivy", 0.0005, 2.0, {"1.5x": False})
    for memories, machine in ((100_000, "a large machine"), (1_000, "a small one"), (1_000, "another one")):
        update_page(page, Measured(memories, machine, (figure,), ("peer: left out",)))

    text = page.read_text(encoding="utf-8")
    assert text.index("## 1,000 memories") < text.index("another one") < text.index("## 100,000 memories")
    assert "a small one" not in text
    assert "- peer: left out" in text
    assert "| question | tantivy | 1 ms, 2.00x, MISSED | 1 ms, 2.00x, MISSED | 1.5x |" in text
    assert read_page(page)[1_000].figures == (figure,)


def test_the_curves_rise_with_the_figures_and_their_names_stay_apart() -> None:
    def at(value: float) -> Figure:
        return Figure("question", "time", value, "tantivy", value * 0.99, 1.0)

    picture = draw([Measured(1_000, "", (at(0.001),)), Measured(10_000, "", (at(0.004),))])

    lines = [node for node in ElementTree.fromstring(picture).iter() if node.tag.endswith("polyline")]
    assert len(lines) == 2
    for line in lines:
        (x, y), (x_later, y_later) = (point.split(",") for point in line.attrib["points"].split())
        assert float(x) < float(x_later)
        assert float(y) > float(y_later)
    names = [node for node in ElementTree.fromstring(picture).iter() if node.text in {"memfs", "tantivy"}]
    heights = sorted(float(node.attrib["y"]) for node in names)
    assert heights[1] - heights[0] >= 12
    assert "prefers-color-scheme: dark" in picture


def _texts(picture: str) -> set[str]:
    return {node.text or "" for node in ElementTree.fromstring(picture).iter() if node.tag.endswith("text")}
