"""Bulk load by `add_many`, compared with durable writes of the same texts, and the disk space it takes."""

import os
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.bench_run import STATE, BenchRun, bytes_below
from benchmarks.corpus import Sample, samples
from benchmarks.measure import Row, Times, interleaved
from benchmarks.processes import FailedError
from benchmarks.writing import BASELINE, durable, sync_folder
from memfs import Vault
from memfs.data_types import Written

BATCH_BASELINE = f"{BASELINE} once"
FILES = "the files themselves"


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of the load rate, and of the size of `.memfs`."""
    size, number = run.size, count()
    texts = list(samples(size.load))
    times = interleaved(
        {
            "memfs": lambda: _load(run.folder / f"loaded-{next(number)}", texts),
            "baseline": lambda: _write(run.folder / f"written-{next(number)}", texts),
        },
        size.loads,
        block=1,
        items=size.load,
    )
    name = f"bulk load by add_many, {size.load:,} memories"
    return [Row(name, times["memfs"], BATCH_BASELINE, times["baseline"], unit="rate"), *_space(run.folder / "loaded-0")]


def _load(root: Path, texts: list[Sample]) -> None:
    with Vault.init(root) as vault:
        results = vault.add_many(map(_item, texts))
    if not all(isinstance(result, Written) and result.outcome == "created" for result in results):
        raise FailedError("bulk load: not every memory was added")


def _item(sample: Sample) -> dict[str, Any]:
    namespace = sample.path.rpartition("/")[0]
    return {"text": sample.body, "namespace": namespace, "type": sample.type, "tags": sample.tags}


def _write(root: Path, texts: list[Sample]) -> None:
    folders = set()
    for sample in texts:
        folder, _, name = f"{root}/{sample.path}".rpartition("/")
        if folder not in folders:
            os.makedirs(folder)
            folders.add(folder)
        durable(folder, name, sample.text.encode(), sync=False)
    for folder in folders:
        sync_folder(folder)


def _space(root: Path) -> list[Row]:
    """Return the sizes of `.memfs` and of its version log in a vault that memfs has written and indexed."""
    with Vault(root) as vault:
        vault.sync()
        memories = len(vault.list())
    files = Times([bytes_below(root, without=STATE) / memories])
    parts = {"whole .memfs, per memory": STATE, "version log, per memory": f"{STATE}/history"}
    return [
        Row(name, Times([bytes_below(root / part) / memories]), FILES, files, unit="bytes")
        for name, part in parts.items()
    ]
