"""Any sequence of steps, by several processes: after each one the model, the files and the index agree."""

from pathlib import Path

import pytest
from support.walking import PLANTS, Tally, walk

SEQUENCES, STEPS = 6, 20
ENOUGH = 40  # sequences within which a planted bug shows


def test_after_every_step_the_model_the_files_and_the_index_agree(tmp_path: Path) -> None:
    tally = Tally()
    walk(tmp_path, SEQUENCES, STEPS, tally=tally)

    assert tally.sequences >= SEQUENCES
    assert tally.acknowledged


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant])
def test_a_planted_bug_is_caught(tmp_path: Path, plant: str) -> None:
    tally = Tally()
    with pytest.raises(AssertionError, match="after"):
        walk(tmp_path, ENOUGH, STEPS, tally=tally, plant=plant)

    assert tally.sequences <= ENOUGH
    print(f"\n{plant}: caught after {tally.sequences} sequences, {tally.steps} steps")
