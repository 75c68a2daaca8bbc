"""Any question is a valid query, at full scale; small in tests/search/test_search.py."""

import random
from pathlib import Path

import pytest
from test_search import HUGE, ODD, PIECES, crowd, paths, slowest_answer

from memfs import Vault

from .figures import figure

QUESTIONS, SEED, NOISES = 20_000, 7, 25
LONG = 10_000

pytestmark = pytest.mark.torture


def test_no_question_raises_and_the_right_memory_stays_first(tmp_path: Path) -> None:
    pick, signs = random.Random(SEED), [piece for piece in PIECES if len(piece) == 1 and not piece.isalnum()]
    with Vault(crowd(tmp_path / "vault")) as vault:
        slowest = slowest_answer(vault, QUESTIONS, SEED)
        for question in HUGE:
            vault.search(question)
        wrong, asked = [], 0
        for number, question in enumerate(ODD):
            for size in [*[12] * NOISES, LONG]:
                noise = "".join(pick.choice(signs) for _ in range(size)).replace('"', "").replace("*", "")
                asked += 1
                if paths(vault, f"{question} {noise}", limit=3)[:1] != [f"odd/memory-{number}.md"]:
                    wrong.append((question, noise[:40]))

    assert wrong == []
    figure(
        "any question is a valid query",
        f"{QUESTIONS} fuzzed questions and {len(HUGE)} of up to 1,000,000 characters: 0 exceptions, slowest "
        f"{slowest * 1000:.0f} ms; {asked} odd questions with up to {LONG:,} signs behind them: the right memory first "
        f"in {asked - len(wrong)}",
    )
