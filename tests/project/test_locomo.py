"""The benchmark of retrieval quality: its texts, its measures, and that it distinguishes ways to search."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fitting import Case, fit, fused, score
from benchmarks.locomo import WAYS, Question, Score, facts_of, long_of, main, measure, questions_of, turns_of

TOPICS = ["sushi", "marathon", "violin", "camping", "pottery", "chess", "sailing", "gardening", "baking", "yoga"]


@pytest.fixture
def sample() -> dict[str, Any]:
    """Return a conversation of two sessions, and questions about it."""
    turns = [{"speaker": "Ada", "text": f"I love {topic} on weekends."} for topic in TOPICS]
    turns += [{"speaker": "Bob", "text": "Me too, of course!", "blip_caption": "a photo of a lighthouse"}]
    sessions = {
        f"session_{number}": [{**one, "dia_id": f"D{number}:{at}"} for at, one in enumerate(turns, 1)]
        for number in (1, 2)
    }
    questions = [
        {"question": f"Who loves {topic}?", "category": 4, "evidence": [f"D1:{at}", f"D2:{at}"]}
        for at, topic in enumerate(TOPICS, 1)
    ]
    questions += [
        {"question": "Who saw a lighthouse?", "category": 1, "evidence": ["D1:11; D2:11"]},
        {"question": "Who plays the banjo?", "category": 5, "evidence": ["D1:3"]},
        {"question": "Nobody knows.", "category": 3, "evidence": []},
    ]
    dates = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_2_date_time": "2 June, 2023"}
    return {"conversation": {"speaker_a": "Ada", **dates, **sessions}, "qa": questions}


def test_turns_have_speaker_date_and_picture_caption(sample: dict[str, Any]) -> None:
    turns = list(turns_of(sample))

    assert [turn.name for turn in turns[:2]] == ["D1:1", "D1:2"]
    assert turns[0].text == "Ada, 1:56 pm on 8 May, 2023: I love sushi on weekends."
    assert turns[10].text.endswith("Me too, of course! [a photo of a lighthouse]")
    assert (turns[-1].session, turns[-1].number) == (2, 11)


def test_only_questions_with_evidence_count(sample: dict[str, Any]) -> None:
    questions = list(questions_of(sample, turns_of(sample)))

    assert len(questions) == 12
    assert questions[10].answers == {"D1:11", "D2:11"}


def test_a_score_is_the_share_of_the_answers_and_the_rank_of_the_first() -> None:
    score = Score()
    score.add(Question("?", 1, frozenset({"D1:1", "D1:2"})), ["D9:9", "D1:2", "D9:8", "D9:7", "D9:6", "D1:1"])

    assert (score.at_5, score.at_10, score.reciprocal) == (0.5, 1.0, 0.5)


def test_every_way_gets_every_question_and_unanswerable_ones_count_separately(sample: dict[str, Any]) -> None:
    scores = measure([sample], tuple(WAYS))

    assert list(scores) == [
        "memfs", "memfs without source", "semantic", "semantic without source", "SQLite FTS5", "strands keywords",
    ]  # fmt: skip
    for found in scores.values():
        assert found.all.questions == 11
        assert found.by_category[5].questions == 1
    assert scores["memfs"].all.at_5 == scores["SQLite FTS5"].all.at_5 == 11


def test_the_table_is_printed(sample: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.json"
    data.write_text(json.dumps([sample]))

    assert main([str(data), "--only", "memfs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:5] == ["memfs", "11", "1.000", "1.000", "1.000"]
    assert [line.split(",")[1].split()[1] for line in lines[2:]] == ["1", "4", "5"]


def test_facts_and_long_memories_represent_their_turns(sample: dict[str, Any]) -> None:
    sample["observation"] = {"session_1_observation": {"Ada": [["Ada sails.", "D1:7"], ["Ada reads.", "nothing"]]}}
    facts, long = list(facts_of(sample)), list(long_of(sample))

    assert [(fact.text, fact.turns, fact.namespace) for fact in facts] == [
        ("Ada sails.", frozenset({"D1:7"}), "/facts/ada")
    ]
    assert [len(text.turns) for text in long] == [10, 1, 10, 1]
    assert next(iter(questions_of(sample, long))).answers == {"D1:1", "D2:1"}


def test_the_feature_that_distinguishes_answers_gets_the_weight() -> None:
    cases = [
        Case(
            [(0.5, 0.0, 0.0, 0.0, 0.0), (0.4, 0.0, 0.5, 0.0, 0.0), (0.45, 0.0, 0.0, 0.5, 0.0)], [False, True, False], 1
        )
    ] * 5
    weights = fit(cases)

    assert weights[2] > weights[3]
    assert score(cases, (1.0, 0.0, 0.0, 0.0, 0.0)) == (1.0, 1.0)
    assert score([Case([(0.5,), (0.4,)], [False, True], 2)], (1.0,)) == (0.5, 0.5)


def test_orders_are_fused_by_position() -> None:
    words, meaning = (0.9, *[0.0] * 4, 0.1, 0.0), (0.0, *[0.0] * 4, 0.9, 0.0)
    between = [(0.5, *[0.0] * 4, 0.5, 0.0)] * 6

    assert fused([Case([words, meaning, *between], [True, True, *[False] * 6], 2)]) == (1.0, 1.0)


def test_the_fit_is_scored_on_unseen_conversations(
    sample: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.json"
    data.write_text(json.dumps([sample, sample]))

    assert main([str(data), "--only", "memfs", "--fit"]) == 0
    out = capsys.readouterr().out
    assert "weights of the others, no. 2" in out
    assert "semantic, of the others, no. 2" in out
    assert out.count("fitted to all: score 1.00") == 2
    assert "semantic, rank fusion" in out
