"""The read cache: a memory is served from memory until its file changes, and never after that."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.searching import wait_for

from memfs import Memory, Vault
from memfs.format.frontmatter import parse_file
from memfs.search.read_cache import ENTRY_BYTES, MAX_CACHE_BYTES, ReadCache
from memfs.storage.stat_scan import COARSE_RACY_NS, RACY_NS, stamp_of

OLD, NEW = "Alice drinks oolong.", "Alice grows oolongs."
PATH = "facts/tea.md"
TESTS = 14  # that each use a vault of their own


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Vaults whose files have not changed for a while."""
    roots = [tmp_path_factory.mktemp("settled") / "vault" for _ in range(TESTS)]
    for root in roots:
        Vault.init(root).create(PATH, f"{OLD}\n")
    changed = (roots[-1] / PATH).stat().st_ctime_ns
    wait_for(lambda: time.time_ns() > changed + COARSE_RACY_NS)
    return iter(roots)


@pytest.fixture
def root(settled: Iterator[Path]) -> Path:
    return next(settled)


@pytest.fixture
def vault(root: Path) -> Vault:
    """A vault whose memory is cached, and that is notified of changes by the kernel."""
    vault = Vault(root)
    for _ in range(3):
        assert found_text(vault) == OLD
    return vault


def found_text(vault: Vault) -> str | None:
    """Return the snippet of the memory; None if it is not found."""
    hits = vault.search("oolong")
    assert all(hit.memory.body.strip() == hit.snippet for hit in hits)
    return hits[0].snippet if hits else None


def test_a_memory_that_was_read_is_cached(vault: Vault) -> None:
    first, second = (vault.search("oolong")[0].memory for _ in range(2))
    assert first is second


def test_a_file_that_changed_a_moment_ago_is_read_each_time(tmp_path: Path) -> None:
    vault = Vault.init(tmp_path / "vault")
    path = vault.add(OLD, "/facts").path

    def read_twice() -> bool:
        """Search twice right after a change; return False if the searches came too late."""
        changed = os.stat(vault.root / vault.update(path, step=str(time.time_ns())).path).st_ctime_ns
        first, second = (vault.search("oolong")[0].memory for _ in range(2))
        if time.time_ns() > changed + RACY_NS:
            return False
        assert first == second
        assert first is not second
        return True

    wait_for(read_twice)


def in_place(root: Path) -> None:
    (root / PATH).write_text(f"{NEW}\n")


def in_place_with_the_time_restored(root: Path) -> None:
    before = (root / PATH).stat()
    in_place(root)
    os.utime(root / PATH, ns=(before.st_atime_ns, before.st_mtime_ns))


def renamed_over(root: Path) -> None:
    before, new = (root / PATH).stat(), root / "facts/.new"
    new.write_text(f"{NEW}\n")
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(root / PATH)


def through_another_link(root: Path) -> None:
    link = root.with_name("link.md")
    os.link(root / PATH, link)
    link.write_text(f"{NEW}\n")


def by_another_directory(root: Path) -> None:
    (root / "facts").rename(root.with_name("away"))
    (root / "facts").mkdir()
    in_place(root)


@pytest.mark.parametrize(
    "change", [in_place, in_place_with_the_time_restored, renamed_over, through_another_link, by_another_directory]
)
def test_a_cached_memory_is_not_returned_after_its_file_changed(
    root: Path, vault: Vault, change: Callable[[Path], None]
) -> None:
    change(root)
    assert found_text(vault) == NEW


def removed(root: Path) -> None:
    (root / PATH).unlink()


def moved_out(root: Path) -> None:
    (root / "facts").rename(root.with_name("away"))


def replaced_by_a_symlink(root: Path) -> None:
    moved_out(root)
    (root / "facts").symlink_to(root.with_name("away"))


@pytest.mark.parametrize("change", [removed, moved_out, replaced_by_a_symlink])
def test_a_cached_memory_is_not_returned_after_its_file_left_the_vault(
    root: Path, vault: Vault, change: Callable[[Path], None]
) -> None:
    change(root)
    assert found_text(vault) is None


def test_a_change_to_a_header_value_does_not_reach_the_cached_memory(tmp_path: Path) -> None:
    path = tmp_path / "tea.md"
    path.write_text("---\npeople: [Alice]\nplace: {city: [Taipei]}\ntags: [tea]\n---\n\nOolong.\n")
    memory = Memory(PATH, path.read_bytes(), path.stat(), parse_file)
    memory.header.values["people"].append("Mallory")
    memory.header.get("place")["city"].clear()
    assert memory.header.values == {"people": ["Alice"], "place": {"city": ["Taipei"]}, "tags": ("tea",)}


def test_the_cache_is_bounded_and_keeps_the_last_entry(root: Path) -> None:
    cache = ReadCache(str(root))
    status = (root / PATH).stat()
    half = b"x" * (MAX_CACHE_BYTES // 10 - ENTRY_BYTES)
    cache.put(Memory(PATH, half, status, parse_file), time.time_ns())
    cache.put(Memory("facts/other.md", half, status, parse_file), time.time_ns())
    assert cache.get(PATH, stamp_of(status)) is not None
    cache.put(Memory("facts/third.md", b"x" * 5 * ENTRY_BYTES, status, parse_file), time.time_ns())
    assert cache.get(PATH, stamp_of(status)) is None
    cache.put(Memory(PATH, b"x" * MAX_CACHE_BYTES, status, parse_file), time.time_ns())
    assert cache.get(PATH, stamp_of(status)) is None


RICH = "---\nx:\n" + "- a\n" * 1900 + "---\n\nTea.\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("x", MAX_CACHE_BYTES // ENTRY_BYTES),
        ("🍵" + "x" * 9999, MAX_CACHE_BYTES // 160_000),
        (RICH, MAX_CACHE_BYTES // 120_000),
    ],
)
def test_the_bound_counts_memory_and_not_file_sizes(root: Path, text: str, number: int) -> None:
    cache = ReadCache(str(root))
    status = (root / PATH).stat()
    for path in (PATH, *(f"facts/{one}.md" for one in range(number))):
        cache.put(Memory(path, text.encode(), status, parse_file), time.time_ns())
    assert cache.get(PATH, stamp_of(status)) is None


def test_a_cache_without_space_keeps_nothing(root: Path) -> None:
    cache = ReadCache(str(root), max_bytes=0)
    status = (root / PATH).stat()
    cache.put(Memory(PATH, b"x", status, parse_file), time.time_ns())
    assert cache.get(PATH, stamp_of(status)) is None
