"""Vectors in `.memfs/vectors`: they are read back, and damage only costs embedding some texts again."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from memfs.fs.files import STATE_DIR, open_root
from memfs.search.semantic.nearest_vectors import NearestVectors, blend, unit_vectors
from memfs.search.semantic.vector_file import (
    MAX_FILES,
    VECTORS_DIR,
    Floats,
    VectorFile,
    file_name,
    key_array,
    key_of,
    keys_of,
    vector_files,
)

SIZE = 20  # not a multiple of eight
NAME = file_name("a/model", SIZE)
WIDTH = 8 * (2 + 3)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = open_root(tmp_path)
    yield fd
    os.close(fd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / STATE_DIR / VECTORS_DIR / NAME


def random_vectors(number: int, seed: int = 1) -> Floats:
    return unit_vectors(np.random.default_rng(seed).standard_normal((number, SIZE)))


def opened(root: int) -> VectorFile:
    vectors = VectorFile(NAME, SIZE)
    vectors.refresh(root)
    return vectors


def whole_records(root: int, wanted: Floats) -> list[int]:
    """Return the keys from 1 on that have a vector, after a check that it is the wanted one."""
    vectors, keys = opened(root), key_array(range(1, len(wanted) + 1))
    there = vectors.contains(root, keys)
    taken = unit_vectors(vectors.take(keys))
    assert np.all(np.vecdot(taken, wanted)[there] > 0.999)
    assert np.all(taken[~there] == 0)
    return [int(key) for key in keys[there]]


# --- keeping vectors


def test_vectors_are_read_by_every_process(root: int) -> None:
    wanted = random_vectors(5)
    first = opened(root)
    first.add(root, [1, 2, 3], wanted[:3])
    first.add(root, [4, 5], wanted[3:])

    assert whole_records(root, wanted) == [1, 2, 3, 4, 5]
    assert unit_vectors(first.take(key_array([4])))[0] @ wanted[3] > 0.999
    assert first.records == 5


def test_a_key_without_a_vector_has_none(root: int) -> None:
    vectors = opened(root)
    vectors.add(root, [7], random_vectors(1))

    assert vectors.contains(root, key_array([6, 7, 8])).tolist() == [False, True, False]
    assert not vectors.take(key_array([6])).any()
    assert vectors.contains(root, key_array([])).tolist() == []


def test_a_text_without_words_has_a_zero_vector(root: int) -> None:
    vectors = opened(root)
    vectors.add(root, [1], np.zeros((1, SIZE), np.float32))

    assert opened(root).contains(root, key_array([1])).all()
    assert not opened(root).take(key_array([1])).any()


def test_vectors_that_another_process_appends_are_found(root: int) -> None:
    wanted = random_vectors(4)
    first, second = opened(root), opened(root)
    first.add(root, [1, 2], wanted[:2])
    second.refresh(root)
    assert second.contains(root, key_array([1, 2])).all()
    version = second.version
    first.add(root, [3, 4], wanted[2:])
    second.refresh(root)

    assert second.contains(root, key_array([1, 2, 3, 4])).all()
    assert second.version == version
    assert np.all(np.vecdot(unit_vectors(second.take(key_array([1, 2, 3, 4]))), wanted) > 0.999)


def test_many_processes_add_vectors_at_once(tmp_path: Path, root: int) -> None:
    code = (
        "import sys, numpy as np; from memfs.fs.files import open_root\n"
        "from memfs.search.semantic.vector_file import VectorFile\n"
        "root, first = open_root(sys.argv[1]), int(sys.argv[2])\n"
        f"vectors = VectorFile({NAME!r}, {SIZE}); vectors.refresh(root)\n"
        "for number in range(first, first + 40):\n"
        f"    vectors.add(root, [number], np.eye({SIZE}, dtype=np.float32)[[number % {SIZE}]])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(first)]) for first in (1, 41, 81, 121)]
    assert [one.wait(timeout=60) for one in running] == [0, 0, 0, 0]

    keys = key_array(range(1, 161))
    vectors = opened(root)
    assert vectors.contains(root, keys).all()
    assert vectors.take(keys).argmax(axis=1).tolist() == [key % SIZE for key in range(1, 161)]


def test_many_added_vectors_are_read_from_the_file_and_not_held_in_memory(root: int) -> None:
    wanted = random_vectors(9000)
    vectors = opened(root)
    for start in range(0, 9000, 3000):
        vectors.add(root, range(start + 1, start + 3001), wanted[start : start + 3000])

    assert vectors.unread_count < 5000
    assert vectors.contains(root, key_array(range(1, 9001))).all()
    assert whole_records(root, wanted) == list(range(1, 9001))


def test_keys_computed_in_bulk_equal_single_keys() -> None:
    paths, contents = ["a.md", "facts/ü.md"], [b"12345678", b"\xff" * 8]

    keys = [key_of(path, content) for path, content in zip(paths, contents, strict=True)]
    assert keys_of(paths, b"".join(contents)).tolist() == keys
    assert keys_of([], b"").tolist() == []
    assert len({*keys, key_of("b.md", contents[0])}) == 3


# --- removing vectors


def test_keep_only_drops_all_other_vectors(root: int, file: Path) -> None:
    wanted = random_vectors(100)
    vectors = opened(root)
    vectors.add(root, range(1, 101), wanted)
    vectors.add(root, range(1, 51), wanted[:50])  # duplicates
    other = opened(root)
    assert other.contains(root, key_array([77])).all()

    vectors.keep_only(root, key_array([3, 1, 2, 4000]))
    assert file.stat().st_size == 3 * WIDTH
    assert whole_records(root, wanted) == [1, 2, 3]
    assert other.contains(root, key_array([77])).all()  # the file that it mapped stays as it was
    other.refresh(root)
    assert not other.contains(root, key_array([77])).any()
    assert os.listdir(file.parent) == [NAME]


def test_files_of_models_that_were_not_used_lately_are_removed(root: int, file: Path) -> None:
    for number in range(MAX_FILES + 2):
        name = file_name(f"model {number}", SIZE)
        VectorFile(name, SIZE).add(root, [1], random_vectors(1))
        os.utime(file.parent / name, (1000 + number, 1000 + number))
    abandoned, unfinished = file.parent / ".x.1", file.parent / ".x.2"
    abandoned.write_bytes(b"")
    os.utime(abandoned, (1000, 1000))
    unfinished.write_bytes(b"")
    opened(root).add(root, [1], random_vectors(1))

    remaining = sorted(path.name for path in file.parent.iterdir())
    assert remaining == sorted([".x.2", NAME, *(file_name(f"model {number}", SIZE) for number in (3, 4))])
    assert sorted(vector_files(root)) == [(name, SIZE) for name in remaining[1:]]


# --- damage


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0x41
    file.write_bytes(data)


def in_place(file: Path, data: bytes, at: int = 0) -> None:
    with file.open("r+b") as target:
        target.seek(at)
        target.write(data)


def instead(file: Path, make: Callable[[Path], object]) -> None:
    file.unlink()
    make(file)


DAMAGES: dict[str, tuple[Callable[[Path], object], int]] = {
    "gone": (lambda file: file.unlink(), 0),
    "empty": (lambda file: file.write_bytes(b""), 0),
    "halved": (lambda file: os.truncate(file, 5 * WIDTH + 7), 5),
    "a checksum flipped": (lambda file: flip(file, 3 * WIDTH), 9),
    "a key flipped": (lambda file: flip(file, 3 * WIDTH + 9), 9),
    "a number flipped": (lambda file: flip(file, 3 * WIDTH + 20), 9),
    "the last byte flipped": (lambda file: flip(file, -1), 9),
    "two records exchanged in part": (lambda file: in_place(file, file.read_bytes()[WIDTH + 16 : 2 * WIDTH], 16), 9),
    "zeroed in place": (lambda file: in_place(file, bytes(10 * WIDTH)), 0),
    "noise": (lambda file: file.write_bytes(os.urandom(10 * WIDTH)), 0),
    "torn at its end": (lambda file: file.write_bytes(file.read_bytes() + b"\1\2\3"), 10),
    "a directory": (lambda file: instead(file, Path.mkdir), 0),
    "a full directory": (lambda file: instead(file, lambda path: (path / "x").mkdir(parents=True)), 0),
    "a symlink": (lambda file: instead(file, lambda path: path.symlink_to("/etc/hostname")), 0),
    "a pipe": (lambda file: instead(file, os.mkfifo), 0),
    "no directory at all": (lambda file: shutil.rmtree(file.parent), 0),
}


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "opened afterwards"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_missing_and_can_be_readded(root: int, file: Path, damage: str, *, is_open: bool) -> None:
    wanted, keys = random_vectors(10), key_array(range(1, 11))
    opened(root).add(root, range(1, 11), wanted)
    vectors = opened(root) if is_open else VectorFile(NAME, SIZE)
    if is_open:
        assert vectors.contains(root, keys).all()
    do, left = DAMAGES[damage]
    do(file)

    vectors.refresh(root)
    there = vectors.contains(root, keys)
    assert there.sum() == left
    assert np.all(np.vecdot(unit_vectors(vectors.take(keys)), wanted)[there] > 0.999)
    vectors.add(root, keys[~there].tolist() or [11], wanted[~there] if left < 10 else random_vectors(1))
    assert vectors.contains(root, keys).all()
    assert whole_records(root, wanted) == list(range(1, 11))


def test_vectors_that_cannot_be_written_last_as_long_as_the_process(tmp_path: Path, root: int) -> None:
    (tmp_path / STATE_DIR).mkdir()
    (tmp_path / STATE_DIR / VECTORS_DIR).write_text("a file of somebody")
    vectors = opened(root)
    vectors.add(root, [1, 2], random_vectors(2))
    vectors.refresh(root)
    vectors.keep_only(root, key_array([2]))

    assert vectors.contains(root, key_array([1, 2])).tolist() == [False, True]
    assert not opened(root).contains(root, key_array([2])).any()
    assert vector_files(root) == []


def test_nothing_is_written_through_a_symlink(tmp_path: Path, root: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / STATE_DIR).mkdir()
    (tmp_path / STATE_DIR / VECTORS_DIR).symlink_to(outside)
    opened(root).add(root, [1], random_vectors(1))

    assert list(outside.iterdir()) == []


def test_a_writer_that_is_killed_leaves_whole_vectors(tmp_path: Path, root: int) -> None:
    code = (
        "import sys, numpy as np; from memfs.fs.files import open_root\n"
        "from memfs.search.semantic.vector_file import VectorFile\n"
        f"root = open_root(sys.argv[1]); vectors = VectorFile({NAME!r}, {SIZE}); number = 0\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    number += 1\n"
        f"    vectors.add(root, [number], np.eye({SIZE}, dtype=np.float32)[[number % {SIZE}]])\n"
        "    vectors.keep(root, np.arange(max(1, number - 5), number + 1, dtype=np.uint64)) if number % 7 == 0 else 0\n"
    )
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.readline()
            deadline = time.monotonic() + 30
            while not opened(root).records and time.monotonic() < deadline:
                pass
            running.kill()
        opened(root).add(root, [10**9], random_vectors(1))

    keys = key_array([10**9])
    assert opened(root).contains(root, keys).all()


# --- nearest neighbours


def index_of_random_vectors(root: int, number: int, *, exact: int) -> tuple[NearestVectors, Floats]:
    wanted, vectors = random_vectors(number), opened(root)
    vectors.add(root, range(1, number + 1), wanted)
    return NearestVectors(vectors, np.arange(number) * 2, key_array(range(1, number + 1)), exact=exact), wanted


@pytest.mark.parametrize("exact", [0, 1000], ids=["by signs", "all compared"])
def test_the_nearest_rows_come_first(root: int, exact: int) -> None:
    near, wanted = index_of_random_vectors(root, 300, exact=exact)
    question = random_vectors(1, seed=2)[0]
    order = np.argsort(-(wanted @ question))

    assert near.nearest(question, 5, -1.0) == (order[:5] * 2).tolist()
    found = {row // 2 for row in near.nearest(question, 500, 0.2)}
    assert set(np.flatnonzero(wanted @ question >= 0.21)) <= found <= set(np.flatnonzero(wanted @ question >= 0.19))
    assert near.nearest(wanted[7], 1, 0.9) == [14]


@pytest.mark.parametrize("exact", [0, 1000], ids=["by signs", "all compared"])
def test_only_the_given_rows_are_compared(root: int, exact: int) -> None:
    near, wanted = index_of_random_vectors(root, 300, exact=exact)
    question = wanted[7]

    assert near.nearest(question, 1, 0.9, [0, 14, 16]) == [14]
    assert near.nearest(question, 1, 0.9, [0, 13, 16, 9999]) == []
    assert near.nearest(question, 5, -1.0, []) == []


def test_signs_find_nearly_all_nearest_rows(root: int) -> None:
    near, wanted = index_of_random_vectors(root, 6000, exact=0)
    found = []
    for question in random_vectors(20, seed=3):
        right = set((np.argsort(-(wanted @ question))[:10] * 2).tolist())
        found.append(len(right & set(near.nearest(question, 10, -1.0))))

    assert sum(found) >= 0.95 * 200


def test_rows_without_a_vector_have_a_zero_vector(root: int) -> None:
    near, wanted = index_of_random_vectors(root, 10, exact=1000)
    found = near.vectors_of([2, 3, 18, -1])

    assert found[0] @ wanted[1] > 0.999
    assert found[2] @ wanted[9] > 0.999
    assert not found[[1, 3]].any()
    assert not NearestVectors(opened(root), np.empty(0, np.int64), key_array([])).vectors_of([1]).any()
    assert NearestVectors(opened(root), np.empty(0, np.int64), key_array([])).nearest(wanted[0], 3, 0.0) == []


def test_nan_and_infinity_count_as_zero() -> None:
    units = unit_vectors([[3.0, 4.0], [float("nan"), 0.0], [float("inf"), 1.0]])

    assert units.tolist() == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]))
    assert unit_vectors([1.0, 0.0]).shape == (1, 2)


def test_a_blend_adds_shares_of_other_vectors() -> None:
    vectors = unit_vectors([[1.0, 0.0], [0.0, 1.0]])
    found = blend(vectors, [(0.5, [1, -1]), (0.25, [-1, -1])])

    assert found == pytest.approx(unit_vectors([[1.0, 0.5], [0.0, 1.0]]))
