"""Evaluation: metrics, reasons of misses, the queries file, and that an evaluation changes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands import Git
from support.files import Snapshot

from memfs import Vault
from memfs.errors import InvalidQueriesError, SettingsError, StorageError
from memfs.upkeep.evaluation import Query, evaluate, queries_of, read_queries


def memfs(where: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "memfs", *words]
    return subprocess.run(command, cwd=where, env=env, input=given, capture_output=True, text=True, timeout=60)


def eval_json(where: Path, *words: str, given: str = "") -> dict[str, Any]:
    value: dict[str, Any] = json.loads(memfs(where, "eval", "--json", *words, given=given).stdout)
    return value


@pytest.fixture
def teas(vault: Vault) -> Vault:
    """Return a vault with three memories that share words."""
    vault.add("Green tea is best at five.", "teas", title="green")
    vault.add("Black tea wants milk.", "teas", title="black")
    vault.add("Coffee wants milk, too.", "coffee", title="coffee")
    return vault


# --- the metrics ----------------------------------------------------------------------------------------


def test_the_figures_are_means_over_the_questions(teas: Vault) -> None:
    first, second = [hit.memory.path for hit in teas.search("milk tea")][:2]
    ticks = iter([0.0, 0.010, 1.0, 1.002, 2.0, 2.001, 3.0, 3.003])
    queries = [
        Query("milk tea", (first,)),
        Query("milk tea", (second,)),
        Query("milk tea", (first, "coffee/coffee.md"), k=1),
        Query("lemonade", (first,)),
    ]

    result = evaluate(teas, queries, timer=lambda: next(ticks))

    assert [outcome.recall for outcome in result.outcomes] == [1.0, 1.0, 0.5, 0.0]
    assert [outcome.reciprocal_rank for outcome in result.outcomes] == [1.0, 0.5, 1.0, 0.0]
    assert (result.recall, result.mrr, result.hit_ratio) == (0.625, 0.625, 0.75)
    assert [round(value, 4) for value in (result.p50, result.p95)] == [0.002, 0.01]
    assert result.problems == ()


def test_k_overrides_that_of_all_questions(teas: Vault) -> None:
    first, second = [hit.memory.path for hit in teas.search("milk tea")][:2]
    queries = [Query("milk tea", (first,)), Query("milk tea", (second,))]

    assert (evaluate(teas, queries, k=1).recall, evaluate(teas, queries, k=2).recall) == (0.5, 1.0)


def test_a_question_takes_the_filters_of_a_search(teas: Vault) -> None:
    text = (
        "- question: milk\n  expected: coffee/coffee.md\n  namespace: /coffee\n  k: 1\n"
        "- question: milk\n  expected: teas/black.md\n  where: {title: black}\n"
        "- question: milk\n  expected: teas/black.md\n  where: [[title, CONTAINS, lac]]\n  type: note\n"
    )

    result = evaluate(teas, read_queries(text.encode()))

    assert [[hit.memory.path for hit in outcome.hits] for outcome in result.outcomes] == [
        ["coffee/coffee.md"],
        ["teas/black.md"],
        ["teas/black.md"],
    ]


def test_a_memory_expected_by_id_may_move(teas: Vault) -> None:
    known = teas.read("teas/black").id
    teas.move(known, "/cupboard")

    result = evaluate(teas, [Query("black", (known, "cupboard/black.md", "cupboard/black"))])

    [answer] = result.outcomes[0].answers
    assert (answer.path, answer.place) == ("cupboard/black.md", 1)


def test_a_miss_has_reasons(teas: Vault) -> None:
    teas.forget("teas/green")

    result = evaluate(teas, [Query("green", ("archive/teas/green.md",)), Query("sugar", ("teas/black.md",))])

    reasons = [outcome.answers[0].reasons[0].text for outcome in result.outcomes]
    assert reasons == ["forgotten: it is in archive/", "it has none of the words of the question"]


def test_a_missing_expected_memory_is_a_problem_and_a_miss(teas: Vault) -> None:
    text = "- question: milk\n  expected:\n    - teas/black.md\n    - teas/white.md\n"

    result = evaluate(teas, read_queries(text.encode()))

    assert result.recall == 0.5
    assert [str(problem) for problem in result.problems] == ["queries.yaml:4: expected 'teas/white.md': no such memory"]


def test_an_evaluation_without_questions_has_zero_metrics(teas: Vault) -> None:
    result = evaluate(teas, [])

    assert (result.recall, result.mrr, result.hit_ratio, result.p50, result.p95) == (0, 0, 0, 0, 0)


# --- the file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question: a\n", "1: the file is not a list"),
        ("- a\n", "1: an item is not a mapping of keys to values"),
        ("", "1: contains no questions"),
        ("- question: a\n  expected: b\n- question: c\n  answer: d\n", "4: unknown key 'answer'; known keys: created,"),
        ("\n- question: a\n", "2: expected is missing"),
        ("- expected: a\n", "1: question is missing"),
        ("- question: 2026\n  expected: a\n", "1: question: 2026 is not a text; put it in quotes"),
        ("- question: ' '\n  expected: a\n", "1: question: ' ' is not a text"),
        ("- question: a\n  expected: []\n", "2: expected: [] is not a list of paths or ids"),
        ("- question: a\n  expected: [1]\n", "2: expected: [1] is not"),
        ("- question: a\n  expected: b\n  k: 0\n", "3: k: 0 is not a whole number from 1 to 1000"),
        ("- question: a\n  expected: b\n  k: true\n", "3: k: True is not"),
        ("- question: a\n  expected: b\n  namespace: 5\n", "3: namespace: 5 is not a text"),
        ("- question: a\n  question: b\n", "2: duplicate key 'question'"),
        ("- question: &a b\n  expected: *a\n", "1: anchors and aliases are not allowed"),
        ("- question: !!python/name:os.system b\n", "1: the tag"),
        ("- question: a\n  expected: [b\n", "3: bad YAML: "),
        ("- question: a\n  expected: b\n---\n- question: c\n", "3: the file is more than one document"),
        ("- " * 20 + "a\n", "1: an item is not a mapping"),
        ("- question: a\n  expected: " + "[" * 20 + "b" + "]" * 20, "2: the file is nested deeper than 12"),
        ("- question: " + "a" * 600_000, "1: the file is longer than 524288 characters"),
        ("- question: a\n  expected: [" + "b," * 60_000 + "]\n", "2: the file has too many values"),
    ],
)
def test_invalid_queries_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(InvalidQueriesError) as caught:
        read_queries(text.encode())

    assert str(caught.value).startswith(f"queries.yaml:{message}")
    assert (caught.value.exit_code, caught.value.path) == (2, "queries.yaml")


def test_an_invalid_filter_is_refused_with_the_line_of_its_question(teas: Vault) -> None:
    text = "- question: milk\n  expected: a\n\n- question: milk\n  expected: a\n  where: [a, LIKE, b]\n"

    with pytest.raises(InvalidQueriesError, match=r"^queries\.yaml:4: where: unknown operator 'LIKE'"):
        evaluate(teas, read_queries(text.encode()))


def test_a_file_in_another_encoding_is_refused() -> None:
    with pytest.raises(InvalidQueriesError, match=r"^queries\.yaml:2: not UTF-8$"):
        read_queries(b"- question: a\n  expected: caf\xe9\n")


def test_a_byte_order_mark_and_a_document_start_are_accepted() -> None:
    [query] = read_queries("\ufeff---\n- question: a\n  expected: b\n".encode())

    assert (query.question, query.expected, query.k, query.line, query.lines) == ("a", ("b",), 5, 2, (3,))


def test_three_thousand_questions_are_read() -> None:
    text = "".join(f"- question: what is {number}?\n  expected: [facts/{number}.md]\n" for number in range(3000))

    queries = read_queries(text.encode())

    assert (len(queries), queries[-1].line, queries[-1].expected) == (3000, 5999, ("facts/2999.md",))


def test_a_vault_without_queries_gets_a_hint(vault: Vault) -> None:
    with pytest.raises(SettingsError, match=r"^queries\.yaml: this vault has none$") as caught:
        queries_of(vault)

    assert "docs/evaluation.md" in caught.value.hint


def test_a_symlink_as_queries_file_is_not_followed(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("- question: secret\n  expected: x\n")
    (vault.root / "queries.yaml").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match=r"^queries\.yaml: "):
        queries_of(vault)


# --- the example vault, and the command -----------------------------------------------------------------


def test_the_example_vault_answers_its_questions(example: Path) -> None:
    result = eval_json(example)

    assert result["questions"] >= 25
    assert (result["recall"], result["passed"], result["problems"]) == (1.0, True, [])
    assert {one["k"] for one in result["results"]} == {5}
    assert memfs(example, "eval").returncode == 0


def test_the_queries_file_is_no_memory_and_no_problem(example: Path) -> None:
    with Vault(example) as vault:
        assert "queries.yaml" not in {memory.path for memory in vault.list(archived=True)}
        assert {problem.path for problem in vault.check()} == {"notes/dentist.md"}
        assert [hit for hit in vault.search("queries.yaml") if "queries" in hit.memory.path] == []


def test_an_evaluation_changes_no_tracked_byte(example: Path, git: Git, snapshot: Snapshot) -> None:
    git(example, "init", "--quiet")
    git(example, "add", ".")
    git(example, "commit", "--quiet", "-m", "all")
    before = snapshot(example, ".memfs", ".git")

    assert memfs(example, "eval").returncode == 0

    assert snapshot(example, ".memfs", ".git") == before
    assert git(example, "status", "--porcelain") == ""


def test_a_memory_that_searches_no_longer_find_fails_the_evaluation(example: Path) -> None:
    file = example / "facts/bob/allergic-to-peanuts.md"
    file.write_text(file.read_text().replace("pinned: true", "status: deprecated"))

    done = memfs(example, "eval")

    assert done.returncode == 1
    assert done.stdout.startswith("missed: What is Bob allergic to?  (queries.yaml:5)\n")
    assert "its status is deprecated" in done.stdout
    assert "29 questions: recall@5 0.97" in done.stdout
    assert done.stderr == "recall is below --min-recall 1\n"
    assert memfs(example, "eval", "--min-recall", "0.9").returncode == 0


def test_a_missing_memory_fails_the_evaluation_with_any_min_recall(example: Path) -> None:
    (example / "people/yuki.md").unlink()

    done = memfs(example, "eval", "--min-recall", "0")

    assert done.returncode == 1
    assert done.stdout.startswith("queries.yaml:20: expected 'people/yuki.md': no such memory\n    Name it by a path")


def test_questions_come_from_another_file_or_from_stdin(example: Path, tmp_path: Path) -> None:
    queries = "- question: sencha\n  expected: preferences/bob/drinks-sencha.md\n"
    (tmp_path / "mine.yaml").write_text(queries)

    assert eval_json(example, "--file", "../mine.yaml")["questions"] == 1
    assert eval_json(example, "--file", "-", given=queries)["recall"] == 1.0
    assert memfs(example, "eval", "--file", "-", given="- question: x\n").stderr.startswith(
        "memfs: stdin:1: expected is missing\nhint: "
    )
    assert memfs(example, "eval", "--file", "none.yaml").stderr.startswith(
        "memfs: none.yaml: no such file or directory\nhint: Check the name"
    )


def test_the_json_has_the_place_of_each_expected_memory(example: Path) -> None:
    queries = "- question: Emma's birthday\n  expected: [people/emma.md, people/bob.md]\n  k: 2\n"

    result = eval_json(example, "--file", "-", given=queries)

    [one] = result.pop("results")
    assert set(result) == {
        "questions", "recall", "mrr", "hit_ratio", "p50", "p95", "min_recall", "passed", "problems",
    }  # fmt: skip
    assert (result["recall"], result["mrr"], result["hit_ratio"], result["passed"]) == (0.5, 1.0, 1.0, False)
    assert [(answer["path"], answer["place"]) for answer in one["expected"]] == [
        ("people/emma.md", 1),
        ("people/bob.md", None),
    ]
    assert one["expected"][1]["reasons"][0]["text"] == "it has none of the words of the question"
    assert one["found"][0]["path"] == "people/emma.md"
    assert len(one["found"]) == one["k"] == 2


def test_of_many_found_memories_those_at_the_last_places_are_listed(example: Path) -> None:
    queries = "- question: sencha\n  expected: preferences/bob/drinks-sencha.md\n" * 60
    queries += "- question: Bob Tanaka sencha\n  expected: preferences/bob/drinks-sencha.md\n"

    lines = memfs(example, "eval", "--file", "-", given=queries).stdout.splitlines()

    assert lines[1].split(maxsplit=2)[1:] == ["2", "Bob Tanaka sencha"]
    assert lines[51:53] == ["and 11 more, at the same place or before", ""]
    assert len(lines) == 55


def test_an_invalid_min_recall_is_a_usage_error(example: Path) -> None:
    done = memfs(example, "eval", "--min-recall", "2")

    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "memfs: eval: argument --min-recall: '2' is not a number from 0 to 1",
    )


def test_control_characters_are_escaped_on_the_terminal(example: Path) -> None:
    queries = '- question: "sencha \\e[31m"\n  expected: [people/bob.md, people/emma.md]\n'

    done = memfs(example, "eval", "--file", "-", given=queries)

    assert "\x1b" not in done.stdout
    assert done.stdout.count("sencha \\x1b[31m") == 2  # as missed, and as found
