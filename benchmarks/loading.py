"""A whole vault loaded by `add_many`, beside bare durable writes of the same texts, and the room that it takes."""

import os
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.corpus import Sample, samples
from benchmarks.measure import Row, Times, interleaved
from benchmarks.place import STATE, Place, bytes_below
from benchmarks.processes import FailedError
from benchmarks.writing import FLOOR, durable, sync_folder
from memfs import Vault
from memfs.data_types import Written

BATCH_FLOOR = f"{FLOOR} once"
FILES = "the files themselves"


def rows(place: Place) -> list[Row]:
    """How many memories a second come in, and what is kept beside them."""
    size, number = place.size, count()
    texts = list(samples(size.load))
    times = interleaved(
        {
            "ours": lambda: _load(place.folder / f"loaded-{next(number)}", texts),
            "floor": lambda: _write(place.folder / f"written-{next(number)}", texts),
        },
        size.loads,
        block=1,
        items=size.load,
    )
    name = f"bulk load by add_many, {size.load:,} memories"
    return [Row(name, times["ours"], BATCH_FLOOR, times["floor"], unit="rate"), *_room(place.folder / "loaded-0")]


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


def _room(root: Path) -> list[Row]:
    """What lies beside the files of a vault that memfs has written and indexed."""
    with Vault(root) as vault:
        vault.sync()
        memories = len(vault.list())
    files = Times([bytes_below(root, without=STATE) / memories])
    parts = {"whole .memfs, a memory": STATE, "log of versions, a memory": f"{STATE}/history"}
    return [
        Row(name, Times([bytes_below(root / part) / memories]), FILES, files, unit="bytes")
        for name, part in parts.items()
    ]
