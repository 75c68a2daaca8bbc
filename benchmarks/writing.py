"""Durable writes, beside temp + fsync + replace + fsync of the directory."""

import os
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from pathlib import Path

from benchmarks.corpus import texts
from benchmarks.measure import Row, Size, interleaved, joined
from benchmarks.place import Place
from memfs import Vault

GOAL = 1.5
TRIALS = 4
BATCH = 50
FLOOR = "temp, fsync, replace, fsync directory"
BATCH_FLOOR = f"{FLOOR} once a batch"


def rows(place: Place) -> list[Row]:
    """add, update and append, in an empty and in a crowded namespace; a batch of adds.

    What a new file costs depends on where the file system has put its directory, so this is done in several
    fresh vaults, and the rounds of all of them count.
    """
    size = place.size._replace(writes=place.size.writes // TRIALS or 1)
    trials = [_trial(size, place.folder / f"writing-{number}") for number in range(TRIALS)]
    return [joined(same) for same in zip(*trials, strict=True)]


def _trial(size: Size, folder: Path) -> list[Row]:
    with Vault.init(folder / "vault") as vault:
        crowd = (folder / "floor" / "crowded", folder / "floor" / "empty")
        for place in crowd:
            place.mkdir(parents=True)
        new = texts(1)
        refs = [vault.add(next(new), "/crowded").path for _ in range(size.crowd)]
        names = [f"{number}.md" for number in range(size.crowd)]
        for name in names:
            durable(crowd[0], name, next(new).encode())
        return [
            *_adds(vault, size, folder / "floor"),
            *_changes(vault, refs, crowd[0], names, size),
            _batch(vault, folder / "floor", size),
        ]


def durable(folder: str | Path, name: str, data: bytes, *, sync: bool = True) -> None:
    """The floor: what a durable write of a file costs when nothing else is done."""
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
    """Make the names in a directory durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _ready(seed: int, number: int) -> Iterator[str]:
    """Texts made before the clock starts."""
    return iter(list(islice(texts(seed), number)))


def _adds(vault: Vault, size: Size, floor: Path) -> list[Row]:
    new, number = _ready(2, 4 * size.writes + 1), count()
    header = len(vault.read(vault.add(next(new), "/sample").path).text) - len(vault.list("/sample")[0].body)

    def plain(place: Path) -> Callable[[], None]:
        return lambda: durable(place, f"new-{next(number)}.md", b"x" * header + next(new).encode())

    taken = interleaved(
        {
            "empty": lambda: vault.add(next(new), "/empty"),
            "empty floor": plain(floor / "empty"),
            "crowded": lambda: vault.add(next(new), "/crowded"),
            "crowded floor": plain(floor / "crowded"),
        },
        size.writes,
    )
    return [
        Row("vault.add, empty namespace", taken["empty"], FLOOR, taken["empty floor"], GOAL),
        Row(f"vault.add, {size.crowd:,} there", taken["crowded"], FLOOR, taken["crowded floor"], GOAL),
    ]


def _changes(vault: Vault, refs: list[str], floor: Path, names: list[str], size: Size) -> list[Row]:
    ref, name, number, new = cycle(refs), cycle(names), count(), _ready(3, 2 * size.writes)
    taken = interleaved(
        {
            "key": lambda: vault.update(next(ref), step=next(number)),
            "body": lambda: vault.update(next(ref), body=next(new)),
            "append": lambda: vault.append(next(ref), f"One more line, number {next(number)}."),
            "floor": lambda: durable(floor, next(name), next(new).encode()),
        },
        size.writes,
    )
    return [
        Row("vault.update, one key", taken["key"], FLOOR, taken["floor"]),
        Row("vault.update, the body", taken["body"], FLOOR, taken["floor"]),
        Row("vault.append, one line", taken["append"], FLOOR, taken["floor"]),
    ]


def _batch(vault: Vault, floor: Path, size: Size) -> Row:
    number, place = count(), floor / "empty"
    many = min(BATCH, size.writes)
    batches = max(2, size.writes // many)
    new = _ready(4, 2 * batches * many)

    def plain() -> None:
        for _ in range(many):
            durable(place, f"many-{next(number)}.md", next(new).encode(), sync=False)
        sync_folder(place)

    taken = interleaved(
        {
            "many": lambda: vault.add_many({"text": next(new), "namespace": "/many"} for _ in range(many)),
            "floor": plain,
        },
        batches,
        block=1,
        items=many,
    )
    return Row(f"vault.add_many, an item of {many}", taken["many"], BATCH_FLOOR, taken["floor"])
