"""Random walks of operations at full scale."""

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from support.walking import Tally, walk

from .figures import figure

SEQUENCES, STEPS = 500, 25
PARTS = 10

pytestmark = pytest.mark.torture


def test_after_every_step_the_model_the_files_and_the_index_agree(tmp_path: Path) -> None:
    """Each part has its own seed, so that a failing part can be repeated alone."""
    began = time.monotonic()
    start = int(os.environ.get("MEMFS_SEED", "1"))
    folders = [tmp_path / str(number) for number in range(start, start + PARTS)]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(walk_part, folders))

    assert sum(part.sequences for part in parts) >= SEQUENCES
    figure(
        "any sequence of steps",
        f"{sum(part.sequences for part in parts)} walks of {sum(part.steps for part in parts)} steps (writes of 4 "
        "processes, editors, git, moved directories, damage, "
        f"{sum(part.kills for part in parts)} kills in mid-write), seeds {start} to {start + PARTS - 1}: "
        f"{sum(part.comparisons for part in parts)} comparisons, 0 disagreements; "
        f"{sum(part.acknowledged for part in parts)} acknowledged writes, 0 lost; followers of a watcher were up to "
        f"date within {max(part.slowest for part in parts):.2f} s ({time.monotonic() - began:.0f} s)",
    )


def walk_part(folder: Path) -> Tally:
    """Walk one part; its seed is the name of its directory."""
    folder.mkdir()
    tally = Tally()
    walk(folder, SEQUENCES // PARTS, STEPS, start=int(folder.name), tally=tally)
    return tally
