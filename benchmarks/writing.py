"""Durable writes, compared with temp + fsync + replace + fsync of the directory."""

import os
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from pathlib import Path

from benchmarks.bench_run import BenchRun
from benchmarks.corpus import texts
from benchmarks.measure import Row, Size, interleaved, joined
from memfs import Vault

GOAL = 1.5
TRIALS = 4
BATCH = 50
BASELINE = "temp, fsync, replace, fsync directory"
BATCH_BASELINE = f"{BASELINE} once per batch"


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of add, update and append, in an empty and in a crowded namespace, and of a batch of adds.

    The cost of a new file depends on where the file system has put its directory, so several fresh vaults are
    used, and the rounds of all of them count.
    """
    size = run.size._replace(writes=run.size.writes // TRIALS or 1)
    trials = [_trial(size, run.folder / f"writing-{number}") for number in range(TRIALS)]
    return [joined(same) for same in zip(*trials, strict=True)]


def _trial(size: Size, folder: Path) -> list[Row]:
    with Vault.init(folder / "vault") as vault:
        crowd = (folder / "baseline" / "crowded", folder / "baseline" / "empty")
        for directory in crowd:
            directory.mkdir(parents=True)
        new = texts(1)
        refs = [vault.add(next(new), "/crowded").path for _ in range(size.crowd)]
        names = [f"{number}.md" for number in range(size.crowd)]
        for name in names:
            durable(crowd[0], name, next(new).encode())
        return [
            *_adds(vault, size, folder / "baseline"),
            *_changes(vault, refs, crowd[0], names, size),
            _batch(vault, folder / "baseline", size),
        ]


def durable(folder: str | Path, name: str, data: bytes, *, sync: bool = True) -> None:
    """Write a file durably and do nothing else: the baseline."""
    temporary, final = f"{folder}/.{name}.part", f"{folder}/{name}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, final)
    if sync:
        sync_folder(folder)


def sync_folder(folder: str | Path) -> None:
    """Fsync a directory."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _prepared_texts(seed: int, number: int) -> Iterator[str]:
    """Return texts generated before timing starts."""
    return iter(list(islice(texts(seed), number)))


def _adds(vault: Vault, size: Size, baseline: Path) -> list[Row]:
    new, number = _prepared_texts(2, 4 * size.writes + 1), count()
    header = len(vault.read(vault.add(next(new), "/sample").path).text) - len(vault.list("/sample")[0].body)

    def plain(directory: Path) -> Callable[[], None]:
        return lambda: durable(directory, f"new-{next(number)}.md", b"x" * header + next(new).encode())

    taken = interleaved(
        {
            "empty": lambda: vault.add(next(new), "/empty"),
            "empty baseline": plain(baseline / "empty"),
            "crowded": lambda: vault.add(next(new), "/crowded"),
            "crowded baseline": plain(baseline / "crowded"),
        },
        size.writes,
    )
    return [
        Row("vault.add, empty namespace", taken["empty"], BASELINE, taken["empty baseline"], GOAL),
        Row(f"vault.add, {size.crowd:,} in the namespace", taken["crowded"], BASELINE, taken["crowded baseline"], GOAL),
    ]


def _changes(vault: Vault, refs: list[str], baseline: Path, names: list[str], size: Size) -> list[Row]:
    ref, name, number, new = cycle(refs), cycle(names), count(), _prepared_texts(3, 2 * size.writes)
    taken = interleaved(
        {
            "key": lambda: vault.update(next(ref), step=next(number)),
            "body": lambda: vault.update(next(ref), body=next(new)),
            "append": lambda: vault.append(next(ref), f"One more line, number {next(number)}."),
            "baseline": lambda: durable(baseline, next(name), next(new).encode()),
        },
        size.writes,
    )
    return [
        Row("vault.update, one key", taken["key"], BASELINE, taken["baseline"]),
        Row("vault.update, the body", taken["body"], BASELINE, taken["baseline"]),
        Row("vault.append, one line", taken["append"], BASELINE, taken["baseline"]),
    ]


def _batch(vault: Vault, baseline: Path, size: Size) -> Row:
    number, directory = count(), baseline / "empty"
    many = min(BATCH, size.writes)
    batches = max(2, size.writes // many)
    new = _prepared_texts(4, 2 * batches * many)

    def plain() -> None:
        for _ in range(many):
            durable(directory, f"many-{next(number)}.md", next(new).encode(), sync=False)
        sync_folder(directory)

    taken = interleaved(
        {
            "many": lambda: vault.add_many({"text": next(new), "namespace": "/many"} for _ in range(many)),
            "baseline": plain,
        },
        batches,
        block=1,
        items=many,
    )
    return Row(f"vault.add_many, per item of {many}", taken["many"], BATCH_BASELINE, taken["baseline"])
