"""Any question is a valid query, at full scale. The small scale is in tests/search/test_search.py."""

import random
from pathlib import Path

import pytest
from support.questions import HUGE, ODD, PIECES, crowd, slowest_answer
from support.vaults import paths

from memfs import Vault

from .figures import figure

QUESTIONS, SEED, NOISE_SAMPLES = 20_000, 7, 25
LONG_NOISE = 10_000

pytestmark = pytest.mark.torture


def test_no_question_raises_and_the_right_memory_stays_first(tmp_path: Path) -> None:
    rng, symbols = random.Random(SEED), [piece for piece in PIECES if len(piece) == 1 and not piece.isalnum()]
    with Vault(crowd(tmp_path / "vault")) as vault:
        slowest = slowest_answer(vault, QUESTIONS, SEED)
        for question in HUGE:
            vault.search(question)
        wrong, searches = [], 0
        for number, question in enumerate(ODD):
            for size in [*[12] * NOISE_SAMPLES, LONG_NOISE]:
                noise = "".join(rng.choice(symbols) for _ in range(size)).replace('"', "").replace("*", "")
                searches += 1
                if paths(vault, f"{question} {noise}", limit=3)[:1] != [f"odd/memory-{number}.md"]:
                    wrong.append((question, noise[:40]))

    assert wrong == []
    figure(
        "any question is a valid query",
        f"{QUESTIONS} fuzzed questions and {len(HUGE)} of up to 1,000,000 characters: 0 exceptions, slowest "
        f"{slowest * 1000:.0f} ms; {searches} odd questions with up to {LONG_NOISE:,} symbols after them: the right "
        f"memory first in {searches - len(wrong)}",
    )
