"""The decay of memories: half-life, retention, and their effect on a search."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import REPOSITORY

from memfs import Vault
from memfs.decay import (
    DAY,
    DecaySettings,
    factor,
    half_life,
    memory_retention,
    packed_factor,
    packed_retention,
    retention,
)

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TODAY = NOW.timestamp()


@pytest.mark.parametrize(
    ("importance", "recalls", "days"),
    [(1, 0, 30.0), (5, 0, 150.0), (10, 0, 300.0), (1, 3, 71.5888), (5, 3, 357.944), (10, 3, 715.888), (1, 1, 50.7944)],
)
def test_the_half_life_grows_with_importance_and_recalls(importance: int, recalls: int, days: float) -> None:
    assert half_life(importance, recalls) == pytest.approx(days, abs=1e-3)
    assert half_life(importance, recalls, days=10) == pytest.approx(days / 3, abs=1e-3)


@pytest.mark.parametrize(
    ("importance", "recalls", "after"),
    [
        (1, 0, {7: 0.8507, 30: 0.5000, 90: 0.1250}),
        (5, 0, {7: 0.9682, 30: 0.8706, 90: 0.6598}),
        (10, 0, {7: 0.9840, 30: 0.9330, 90: 0.8123}),
        (1, 3, {7: 0.9345, 30: 0.7479, 90: 0.4184}),
        (5, 3, {7: 0.9865, 30: 0.9436, 90: 0.8401}),
        (10, 3, {7: 0.9932, 30: 0.9714, 90: 0.9166}),
    ],
)
def test_retention_falls_with_the_days(importance: int, recalls: int, after: dict[int, float]) -> None:
    for days, expected in after.items():
        assert retention(TODAY - days * DAY, importance, TODAY, recalls=recalls) == pytest.approx(expected, abs=1e-4)


def test_retention_is_one_half_after_a_half_life() -> None:
    for importance in (1, 4, 10):
        for recalls in (0, 1, 20):
            age = half_life(importance, recalls, days=12.5) * DAY
            assert retention(TODAY - age, importance, TODAY, recalls=recalls, days=12.5) == pytest.approx(0.5)


def test_a_pinned_memory_does_not_decay() -> None:
    assert retention(0.0, 1, TODAY, pinned=True) == 1.0


def test_a_memory_from_the_future_has_full_retention() -> None:
    assert retention(TODAY + 400 * DAY, 1, TODAY) == 1.0
    assert retention(TODAY, 1, TODAY) == 1.0


def test_an_extreme_age_gives_zero_retention_without_an_error() -> None:
    assert retention(-1e18, 1, TODAY) == 0.0
    assert retention(0.0, 1, TODAY, days=1e-300) == 0.0


@pytest.mark.parametrize(
    ("retained", "importance", "expected"),
    [(0.0, 1, 0.7), (1.0, 1, 0.9), (0.0, 10, 0.8), (1.0, 10, 1.0), (0.5, 1, 0.8), (0.5, 4, 0.8333), (0.125, 10, 0.825)],
)
def test_the_rank_factor_depends_on_retention_and_importance(retained: float, importance: int, expected: float) -> None:
    assert factor(retained, importance) == pytest.approx(expected, abs=1e-4)


@given(
    age=st.floats(0, 1e12),
    importance=st.integers(1, 10),
    recalls=st.integers(0, 10**9),
    days=st.floats(1e-3, 1e6),
    pinned=st.booleans(),
)
def test_retention_and_factor_stay_in_their_ranges_for_any_numbers(
    age: float, importance: int, recalls: int, days: float, pinned: bool
) -> None:
    retained = retention(TODAY - age, importance, TODAY, recalls=recalls, days=days, pinned=pinned)

    assert 0.0 <= retained <= 1.0
    assert 0.7 <= factor(retained, importance) <= 1.0
    assert retained <= retention(TODAY - age, importance, TODAY, recalls=recalls + 1, days=days, pinned=pinned)
    assert retained >= retention(TODAY - age - DAY, importance, TODAY, recalls=recalls, days=days, pinned=pinned)


@given(
    age=st.integers(-(10**6), 10**12),
    importance=st.integers(1, 10),
    pinned=st.booleans(),
    recalls=st.integers(0, 10**9),
    last=st.floats(0, 2 * TODAY),
    days=st.floats(1e-3, 1e6),
)
def test_packed_decay_inputs_give_the_same_factor(
    age: int, importance: int, pinned: bool, recalls: int, last: float, days: float
) -> None:
    packed = int(TODAY - age) << 5 | importance << 1 | pinned

    retained = packed_retention(packed, TODAY, days, recalls, last)
    assert packed_factor(packed, TODAY, days, recalls, last) == pytest.approx(factor(retained, importance))


def test_the_age_is_counted_from_the_latest_of_created_updated_and_last_recall(vault: Vault) -> None:
    created = vault.add("Tea.", created=(NOW - timedelta(days=90)).isoformat())
    updated = vault.add("Coffee.", created="2020-01-01", updated=(NOW - timedelta(days=30)).isoformat())
    recalled = (NOW - timedelta(days=7)).timestamp()

    assert memory_retention(vault.read(created.id), TODAY) == pytest.approx(0.125)
    assert memory_retention(vault.read(updated.id), TODAY) == pytest.approx(0.5)
    assert memory_retention(vault.read(updated.id), TODAY, last=recalled) == pytest.approx(2 ** (-7 / 30))
    assert memory_retention(vault.read(updated.id), TODAY, recalls=3, last=recalled) == pytest.approx(0.9345, abs=1e-4)
    assert memory_retention(vault.read(updated.id), TODAY, last=1.0) == pytest.approx(0.5)


def test_a_file_without_times_is_as_old_as_its_last_modification(vault: Vault) -> None:
    (vault.root / "tea.md").write_text("Tea.\n")

    assert memory_retention(vault.read("tea"), vault.read("tea").status.st_mtime + 30 * DAY) == pytest.approx(
        0.5, abs=1e-6
    )


def test_nothing_decays_if_it_is_pinned_or_forgetting_is_disabled(vault: Vault) -> None:
    pinned = vault.add("Allergic to peanuts.", created="2000-01-01", pinned=True)
    old = vault.add("Tea.", created="2000-01-01")

    assert memory_retention(vault.read(pinned.id), TODAY) == 1.0
    assert memory_retention(vault.read(old.id), TODAY) < 1e-90
    assert memory_retention(vault.read(old.id), TODAY, rules=DecaySettings(enabled=False)) == 1.0


def test_the_decay_settings_come_from_the_settings_of_the_vault(tmp_path: Path) -> None:
    (tmp_path / "memfs.yaml").write_text("forgetting:\n  half_life_days: 10\n")
    vault = Vault(tmp_path)
    memory = vault.read(vault.add("Tea.", created=(NOW - timedelta(days=10)).isoformat()).id)
    rules = DecaySettings.from_settings(vault.settings)

    assert rules == (True, 10.0, 0.05)
    assert memory_retention(memory, TODAY, rules=rules) == pytest.approx(0.5)
    assert DecaySettings.from_settings({}) == (True, 30.0, 0.05)


def test_the_table_in_the_documentation_matches_the_computed_retention() -> None:
    page = (REPOSITORY / "docs" / "forgetting.md").read_text(encoding="utf-8")
    row = r"^\| (\d+) \| (\d+) \| (\d+) \| (\S+) \| (\S+) \| (\S+) \| ([\d,]+) days \|$"
    rows = re.findall(row, page, re.MULTILINE)

    assert len(rows) == 5
    for importance, recalls, half, *retained, last in rows:

        def after(days: int, importance: int = int(importance), recalls: int = int(recalls)) -> float:
            return retention(0.0, importance, days * DAY, recalls=recalls)

        assert half == f"{half_life(int(importance), int(recalls)):.0f}"
        assert retained == [f"{after(days) + 1e-9:.2f}" for days in (7, 30, 90)]
        days = int(last.replace(",", ""))
        assert after(days) < 0.05 < after(days - 1)


# --- in a search ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
def test_of_equally_relevant_memories_the_older_one_comes_later(tmp_path: Path, published: bool) -> None:
    Vault.init(tmp_path)
    vault = Vault(tmp_path, clock=lambda: NOW)
    for name, created in (("a-old", "2025-01-01"), ("b-new", "2026-11-16"), ("c-older", "2024-01-01")):
        (tmp_path / f"{name}.md").write_text(f"---\nid: {name}\ncreated: {created}\n---\n\nTea is in the kitchen.\n")
    if published:
        vault.sync()

    hits = vault.search("tea in the kitchen", explain=True)
    assert hits[0].memory.id == "b-new"
    assert len({round(hit.relevance, 3) for hit in hits}) == 1
    for hit in hits:
        share = factor(memory_retention(hit.memory, TODAY), 1)
        assert hit.why[-1].text.endswith(f"rank x {share:.2f}")


@pytest.mark.parametrize("published", [False, True])
def test_important_pinned_and_recalled_memories_come_first(tmp_path: Path, published: bool) -> None:
    Vault.init(tmp_path)
    vault = Vault(tmp_path, clock=lambda: NOW)
    for name, line in (("a", "importance: 1"), ("b", "importance: 8"), ("c", "pinned: true"), ("d", "importance: 1")):
        text = f"---\nid: {name}\ncreated: 2025-01-01\n{line}\n---\n\nTea is in the kitchen.\n"
        (tmp_path / f"{name}.md").write_text(text)
    if published:
        vault.sync()
    vault.usage.recalled(["d"] * 3)

    hits = vault.search("tea in the kitchen", explain=True)
    assert [hit.memory.id for hit in hits] == ["c", "d", "b", "a"]
    assert "recalled 3 times" in hits[1].why[-1].text


def test_nothing_decays_if_the_settings_disable_forgetting(tmp_path: Path) -> None:
    Vault.init(tmp_path)
    (tmp_path / "memfs.yaml").write_text("version: 1\nforgetting:\n  enabled: false\n")
    for name, created in (("a", "2025-01-01"), ("b", "2026-11-16")):
        (tmp_path / f"{name}.md").write_text(f"---\ncreated: {created}\n---\n\nTea is in the kitchen.\n")

    hits = Vault(tmp_path).search("tea in the kitchen")
    assert [hit.memory.path for hit in hits] == ["a.md", "b.md"]
    assert hits[0].rank == pytest.approx(hits[1].rank)
