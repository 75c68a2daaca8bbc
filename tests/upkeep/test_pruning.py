"""Pruning: which memories have faded, which are spared, the move to the archive, and statistics."""

import asyncio
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.commands import Git, Memfs
from support.files import Snapshot

from memfs import Vault
from memfs.data_types import Written
from memfs.errors import MemoryChangedError, SettingsError
from memfs.stores import VaultStore
from memfs.upkeep.pruning import faded, prune, retention_of
from memfs.upkeep.stats import stats

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def days_ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


def paths(found: Any, *, spared: bool = False) -> list[str]:
    return [one.memory.path for one in found if bool(one.spared) == spared]


# --- faded memories


def test_memories_with_a_retention_below_the_limit_come_lowest_first(vault: Vault) -> None:
    for text, days, importance in (("Old.", 200, 1), ("Older.", 300, 1), ("Matters.", 200, 2), ("New.", 10, 1)):
        vault.add(text, created=days_ago(days), importance=importance)
    found = faded(vault, now=NOW)

    assert paths(found) == ["older.md", "old.md"]
    assert [one.retention for one in found] == [pytest.approx(2**-10), pytest.approx(2 ** (-200 / 30))]
    assert paths(faded(vault, below=0.2, now=NOW)) == ["older.md", "old.md", "matters.md"]
    assert paths(faded(vault, below=0, now=NOW)) == []
    assert paths(faded(vault, below=1, now=NOW)) == ["older.md", "old.md", "matters.md", "new.md"]


@pytest.mark.parametrize("below", [-0.1, 1.1, float("nan")])
def test_a_limit_outside_0_to_1_is_refused(vault: Vault, below: float) -> None:
    with pytest.raises(SettingsError, match=r"below: .* is not a number from 0 to 1"):
        faded(vault, below=below)


def test_recalled_memories_fade_later(vault: Vault) -> None:
    tea = vault.add("Green tea at five.", created=days_ago(150))
    vault.add("Coffee at ten.", created=days_ago(150))
    assert len(faded(vault, now=NOW)) == 2
    asyncio.run(VaultStore(vault).search("green tea"))

    (one,) = retention_of(vault, [vault.read(tea.id)], now=NOW + timedelta(days=30))
    assert paths(faded(vault, now=NOW)) == ["coffee-at-ten.md"]
    assert (one.recalls.times, one.last_used.date()) == (1, datetime.now(UTC).date())
    assert one.retention > 0.5


def test_faded_is_limited_to_a_namespace(vault: Vault) -> None:
    vault.add("Old.", "/facts/alice", created="2020-01-01")
    vault.add("Old.", "/facts/bob", created="2020-01-01")

    assert paths(faded(vault, "/facts/bob")) == ["facts/bob/old.md"]
    assert paths(faded(vault.scope("/facts/alice"))) == ["facts/alice/old.md"]


def test_settings_change_half_life_and_limit(tmp_path: Path) -> None:
    vault = Vault.init(tmp_path)
    vault.add("Tea.", created=days_ago(60))
    assert paths(faded(vault, now=NOW)) == []
    (tmp_path / "memfs.yaml").write_text("forgetting:\n  half_life_days: 20\n  prune_below: 0.2\n")
    assert paths(faded(Vault(tmp_path), now=NOW)) == ["tea.md"]
    (tmp_path / "memfs.yaml").write_text("forgetting:\n  half_life_days: 0.001\n  enabled: false\n")

    assert paths(faded(Vault(tmp_path), below=1, now=NOW)) == []


# --- spared memories


def test_pinned_memories_never_fade(vault: Vault) -> None:
    vault.add("Allergic to peanuts.", created="2000-01-01", pinned=True)

    assert faded(vault, below=1) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Written by hand.\n", "a file that memfs did not create"),
        ("---\nid: my-own\ncreated: 2000-01-01\n---\nWritten by hand.\n", "a file that memfs did not create"),
        ("---\nid: m-01k9zq6d0m2p3q4r5s6t7v8w9x\ncreated: 2000-01-01\nstatus: draft\n---\nPerhaps.\n", "a draft"),
        ("---\nid: m-01k9zq6d0m2p3q4r5s6t7v8w9x\ncreated: 2000-01-01\nread_only: true\n---\nAlways.\n", "read-only"),
    ],
)
def test_files_of_people_drafts_and_read_only_files_are_spared(vault: Vault, text: str, reason: str) -> None:
    (vault.root / "mine.md").write_text(text)
    found = faded(vault, below=1, now=datetime(2099, 1, 1, tzinfo=UTC))

    assert [(one.memory.path, one.spared) for one in found] == [("mine.md", reason)]
    assert prune(vault, found) == []
    assert (vault.root / "mine.md").read_text() == text


def test_a_conflict_copy_is_spared(vault: Vault) -> None:
    tea = vault.add("Tea.", created="2000-01-01")
    copy = "tea.conflict-20261117T120000Z.md"
    (vault.root / copy).write_bytes((vault.root / tea.path).read_bytes())

    assert paths(faded(vault)) == [tea.path]
    assert paths(faded(vault), spared=True) == [copy]


def test_a_memory_that_supersedes_one_that_stays_is_spared(vault: Vault) -> None:
    """Otherwise the superseded one would be in force again."""
    first = vault.add("Bob lives in Lyon.", created="2000-01-01", pinned=True)
    second = vault.add("Bob lives in Nice.", created="2001-01-01", supersedes=[f"[[{first.path[:-3]}]]"])
    third = vault.add("Bob lives in Paris.", created="2002-01-01", supersedes=[f"[[{second.id}]]"])
    found = faded(vault)

    assert paths(found) == []
    assert {one.memory.id: one.spared for one in found} == {
        second.id: f"it supersedes {first.path}, which stays",
        third.id: f"it supersedes {second.path}, which stays",
    }
    vault.update(first.id, pinned=None)
    assert sorted(paths(faded(vault))) == sorted([first.path, second.path, third.path])
    prune(vault, faded(vault))
    assert vault.search("Where does Bob live?") == []


def test_a_superseding_memory_is_spared_across_namespaces(vault: Vault) -> None:
    old = vault.add("Bob lives in Lyon.", "/facts", created=days_ago(1))
    vault.add("Bob lives in Nice.", "/notes", created="2001-01-01", supersedes=[f"[[{old.id}]]"])

    assert paths(faded(vault, "/notes", now=NOW)) == []


# --- pruning


def test_prune_moves_to_the_archive_and_move_restores(vault: Vault) -> None:
    tea = vault.add("Tea at five.", "/facts", created="2020-01-01")
    vault.update(tea.id, importance=2)
    new = vault.add("Coffee at ten.", "/facts")
    (written,) = prune(vault, faded(vault))

    assert isinstance(written, Written)
    assert (written.outcome, written.path) == ("archived", f"archive/{tea.path}")
    assert vault.read(tea.id).body == "Tea at five."
    assert [memory.id for memory in vault.list()] == [new.id]
    assert vault.search("tea") == []
    assert "pruned" in vault.read(tea.id).header.values
    assert len(vault.versions(tea.id)) == 3
    vault.restore(tea.id, vault.versions(tea.id)[-1].hash)
    assert vault.read(tea.id).header.importance == 1
    vault.move(tea.id, "/facts")
    assert vault.search("tea")[0].memory.id == tea.id


def test_a_memory_that_changed_meanwhile_is_not_moved(vault: Vault) -> None:
    tea = vault.add("Tea.", created="2020-01-01")
    gone = vault.add("Gone.", created="2020-01-01")
    other = vault.add("Other.", created="2020-01-01")
    found = faded(vault)
    (vault.root / tea.path).write_text("Changed by hand.\n")
    (vault.root / gone.path).unlink()
    results = prune(vault, found)

    assert [type(result).__name__ for result in results] == ["Written", "MemoryNotFoundError", "MemoryChangedError"]
    assert (vault.root / tea.path).read_text() == "Changed by hand.\n"
    assert (vault.root / "archive" / other.path).is_file()
    assert any(isinstance(result, MemoryChangedError) for result in results)


def test_a_pruned_fact_is_stored_again_when_it_comes_up_again(vault: Vault) -> None:
    """Unlike a fact that a person forgot."""
    vault.add("Bob likes licorice.", "/facts", created="2020-01-01")
    forgotten = vault.add("Bob likes aniseed.", "/facts", created="2020-01-01")
    vault.forget(forgotten.id)
    prune(vault, faded(vault))
    store = VaultStore(vault, "/facts")

    assert not asyncio.run(store.is_forgotten("Bob likes licorice."))
    assert asyncio.run(store.is_forgotten("Bob likes aniseed."))
    asyncio.run(store.add("Bob likes licorice."))
    assert len(vault.search("licorice")) == 1


def test_a_pruned_and_restored_memory_can_be_forgotten(vault: Vault) -> None:
    licorice = vault.add("Bob likes licorice.", "/facts", created="2020-01-01")
    prune(vault, faded(vault))
    vault.move(licorice.id, "/facts")

    written = vault.forget(licorice.id)

    assert asyncio.run(VaultStore(vault, "/facts").is_forgotten("Bob likes licorice."))
    memory = vault.read(licorice.id)
    assert (memory.path, memory.stamp) == (written.path, written.stamp)


def test_a_memory_that_could_not_be_moved_is_unchanged(vault: Vault) -> None:
    tea = vault.add("Tea.", "/facts", created="2020-01-01")
    before = (vault.root / tea.path).read_bytes()
    (vault.root / "archive").write_text("a file in the place of a directory")
    (error,) = prune(vault, faded(vault))

    assert not isinstance(error, Written)
    assert (vault.root / tea.path).read_bytes() == before


# --- the command


def test_prune_is_a_dry_run_by_default(memfs: Memfs, example: Path, snapshot: Snapshot) -> None:
    before = snapshot(example, ".memfs")
    ran = memfs("prune", "--at", "2027-08-01")

    assert ran.code == 0
    assert "preferences/bob/drinks-sencha.md             0.5%  2026-04-23  0        Bob drinks sencha" in ran.out
    assert "5 memories have faded below 5%; `memfs prune --at 2027-08-01 --yes` moves them to archive/\n" in ran.out
    assert "more stay: a file that memfs did not create\n" in ran.out
    assert "people/" not in ran.out
    assert snapshot(example, ".memfs") == before


def test_prune_shows_the_first_twenty_unless_all_is_given(vault: Vault, memfs: Memfs) -> None:
    for number in range(25):
        vault.add(f"Tea number {number}.", "/t", created="2020-01-01")
    words = ("prune", "--vault", str(vault.root))
    ran, all_of_them = memfs(*words), memfs(*words, "--all")

    assert (ran.out.count("Tea number"), all_of_them.out.count("Tea number")) == (20, 25)
    assert "\n5 more; --all shows them\n\n25 memories have faded below 5%; " in ran.out
    assert "more" not in all_of_them.out
    assert len(memfs(*words, "--json").value["memories"]) == 25
    moved = memfs(*words, "--yes").out
    assert moved.count("archived as") == 20
    back = f"`memfs --vault {vault.root} move` brings one back"
    assert moved.endswith(f"5 more; --all shows them\n25 memories moved to archive/; {back}\n")


def test_prune_with_yes_moves_and_reading_and_restoring_still_work(memfs: Memfs, example: Path) -> None:
    memfs("update", "facts/atlas/staging-runs-under-bobs-desk", "--set", "importance=1")
    ran = memfs("prune", "/facts/atlas", "--at", "2027-08-01", "--yes")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "archived as archive/facts/atlas/staging-runs-under-bobs-desk.md\n"
        "1 memory moved to archive/; `memfs move` brings one back\n"
    )
    assert not (example / "facts" / "atlas" / "staging-runs-under-bobs-desk.md").exists()
    assert memfs("read", "m-01kpwp91cgkhc0pbmhce5qcb19", "--body").code == 0
    assert memfs("restore", "archive/facts/atlas/staging-runs-under-bobs-desk").out.startswith("restored archive/facts")
    assert memfs("move", "m-01kpwp91cgkhc0pbmhce5qcb19", "/facts/atlas").code == 0
    header = memfs("read", "facts/atlas/staging-runs-under-bobs-desk", "--json").value["header"]
    assert (header["importance"], "pruned" in header) == (1, False)


def test_prune_prints_json(memfs: Memfs) -> None:
    result = memfs("prune", "/facts/bob", "--at", "2027-08-01", "--json").value
    (one,) = [one for one in result["memories"] if not one["spared"]]

    assert (result["below"], result["moved"]) == (0.05, False)
    assert one["path"] == "facts/bob/lives-in-villeurbanne.md"
    assert one["retention"] == pytest.approx(0.0214, abs=1e-4)
    assert (one["recalls"], one["last_recall"], one["archived"]) == (0, None, None)
    done = memfs("prune", "/facts/bob", "--at", "2027-08-01", "--json", "--yes").value
    assert done["moved"] is True
    assert done["memories"][0]["archived"] == "archive/facts/bob/lives-in-villeurbanne.md"


def test_prune_with_nothing_to_do_prints_a_message(memfs: Memfs) -> None:
    assert memfs("prune", "--below", "0").out == "0 memories have faded below 0%\n"
    assert memfs("prune", "--below", "0", "--yes").out == "0 memories moved to archive/\n"


@pytest.mark.parametrize("words", [["--below", "2"], ["--below", "much"], ["--at", "soon"], ["--at", "2026-13-01"]])
def test_prune_refuses_invalid_options(memfs: Memfs, words: list[str]) -> None:
    ran = memfs("prune", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: ")


def test_prune_and_stats_report_that_fading_is_off(memfs: Memfs, example: Path) -> None:
    (example / "memfs.yaml").write_text("forgetting:\n  enabled: false\n")

    assert memfs("prune", "--at", "2099-01-01").out.startswith("nothing fades here: memfs.yaml says")
    assert "  retention  nothing fades here" in memfs("stats", "--at", "2099-01-01").out


def test_a_failure_is_reported_and_does_not_stop_the_others(memfs: Memfs, example: Path) -> None:
    (example / "archive" / "facts" / "atlas").write_text("a file in the place of a directory")
    ran = memfs("prune", "--at", "2027-08-01", "--yes")

    assert ran.code != 0
    assert "archived as archive/preferences/bob/drinks-sencha.md\n" in ran.out
    assert "memfs: " in ran.err
    assert (example / "facts" / "atlas" / "staging-runs-under-bobs-desk.md").is_file()


def test_git_sees_a_pruned_memory_as_a_rename(memfs: Memfs, example: Path, git: Git) -> None:
    git(example, "init", "-q")
    git(example, "add", "-A")
    git(example, "commit", "-qm", "all")
    memfs("stats")
    memfs("prune", "--at", "2027-08-01")
    assert git(example, "status", "--porcelain") == ""
    memfs("prune", "/preferences", "--at", "2027-08-01", "--yes")

    git(example, "add", "-A")
    assert git(example, "status", "--porcelain") == (
        "R  preferences/bob/drinks-sencha.md -> archive/preferences/bob/drinks-sencha.md\n"
    )
    assert "1 insertion(+)" in git(example, "diff", "--cached", "--shortstat", "-M")


# --- stats


def test_stats_count_the_memories(example: Path) -> None:
    with Vault(example) as vault:
        result = stats(vault, "/facts", now=NOW)

    assert (result.memories, result.archived, result.pinned) == (15, 2, 1)
    assert result.namespaces == {"/facts/alice": 7, "/facts/atlas": 4, "/facts/bob": 4}
    assert result.types == {"fact": 15}
    assert result.statuses == {"stable": 13, "deprecated": 1, "draft": 1}
    assert result.oldest
    assert result.oldest.path == "facts/alice/atlas-deadline-october.md"
    assert result.newest
    assert result.newest.path == "facts/alice/may-ask-for-a-four-day-week.md"
    files = [*(example / "facts").rglob("*.md"), *(example / "archive" / "facts").rglob("*.md")]
    assert result.size == sum(path.stat().st_size for path in files)


def test_stats_have_the_retention(vault: Vault) -> None:
    for number, days in enumerate((0, 20, 40, 70, 300)):
        vault.add(f"Memory {number}.", created=days_ago(days))
    vault.add("Pinned.", created="2000-01-01", pinned=True)
    result = stats(vault, now=NOW)

    assert [(one.low, one.memories) for one in result.retention] == [(0, 1), (0.05, 1), (0.25, 1), (0.5, 1), (0.75, 2)]
    left = [1, 2 ** (-20 / 30), 2 ** (-40 / 30), 2 ** (-70 / 30), 2**-10, 1]
    assert result.mean_retention == pytest.approx(sum(left) / 6)


def test_stats_have_recalls_and_the_share_of_searches_with_hits(vault: Vault) -> None:
    tea, coffee = vault.add("Green tea at five."), vault.add("Black coffee at ten.")
    vault.add("Nobody asks for this.")
    for question in ("green tea", "black coffee", "tea", "zeppelin"):
        asyncio.run(VaultStore(vault).search(question))
    result = stats(vault)

    assert [(one.memory.id, one.recalls.times) for one in result.most_recalled] == [(tea.id, 2), (coffee.id, 1)]
    assert (result.recalled, result.recalls) == (2, 3)
    assert result.searches[:2] == (4, 3)
    assert result.searches.share == 0.75


def test_the_screen_of_stats(memfs: Memfs, example: Path) -> None:
    for question in ("what is Bob allergic to", "zeppelins"):
        asyncio.run(VaultStore(example).search(question))
    ran = memfs("stats", "/facts", "--at", "2026-11-17")

    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == f"{example}, /facts"
    assert lines[1] == "  memories   15, 2 more in archive/; 5 KB"
    assert lines[2] == "  in         /facts/alice 7, /facts/atlas 4, /facts/bob 4"
    assert "  retention  59% on average, 1 pinned" in lines
    assert "                5-25%  ████████████████ 4" in lines
    assert any(
        line.startswith("  searches   2 by agents since ") and "1 found something (50%)" in line for line in lines
    )
    assert lines[-1].endswith("facts/bob/allergic-to-peanuts.md, last just now")


def test_stats_print_json(memfs: Memfs, example: Path) -> None:
    result = memfs("stats", "--json").value

    assert result["root"] == str(example)
    assert (result["memories"], result["archived"]) == (43, 2)
    assert result["searches"] == {"total": 0, "found": 0, "ratio": None, "since": None}
    assert result["recalls"] == {"memories": 0, "never": 43, "times": 0, "most": []}
    assert set(result["retention"]) == {"enabled", "half_life_days", "prune_below", "mean", "pinned", "bins"}
    assert sum(one["memories"] for one in result["retention"]["bins"]) == 43
    asyncio.run(VaultStore(example).search("what is Bob allergic to"))
    assert memfs("stats", "--json").value["recalls"]["most"][0]["recalls"] == 1


def test_stats_of_an_empty_vault(tmp_path: Path, memfs: Memfs) -> None:
    Vault.init(tmp_path / "empty")
    ran = memfs("stats", "--vault", str(tmp_path / "empty"))

    assert (ran.code, ran.out) == (
        0,
        f"{tmp_path / 'empty'}\n  memories   0; 0 B\n  searches   none by agents yet\n",
    )
    assert memfs("stats", "--vault", str(tmp_path / "empty"), "--json").value["oldest"] is None


def test_stats_change_nothing(memfs: Memfs, example: Path, snapshot: Snapshot) -> None:
    before = snapshot(example)
    memfs("stats")
    memfs("audit")

    assert snapshot(example) == before


def test_names_are_escaped_on_the_terminal(tmp_path: Path, memfs: Memfs) -> None:
    vault = Vault.init(tmp_path / "odd")
    evil = '---\nid: m-01k9zq6d0m2p3q4r5s6t7v8w9x\ncreated: 2000-01-01\ntype: "\\e[2J"\n---\nOld \x1b[31mtext.\n'
    (vault.root / "a\x1b[2J.md").write_text(evil)
    for command in ("stats", "prune", "audit"):
        ran = memfs(command, "--vault", str(vault.root))
        assert "\x1b" not in ran.out
        assert "\\x1b[2J" in ran.out


def test_a_large_vault_of_faded_memories_is_pruned_in_one_run(vault: Vault) -> None:
    vault.add_many({"text": f"Memory {number}.", "namespace": "/old", "created": "2000-01-01"} for number in range(300))
    results = prune(vault, faded(vault))

    assert sum(isinstance(result, Written) for result in results) == 300
    assert vault.list() == []
    assert len(vault.list(archived=True)) == 300


def test_printed_commands_can_be_run(memfs: Memfs, example: Path) -> None:
    (example / "facts" / "it's mine").mkdir()
    result = memfs("prune", "/facts/it's mine", "--below", "0.5", "--at", "2027-08-01T10:00:00Z").out
    assert "0 memories have faded below 50%" in result
    Vault(example).add("Old.", "/facts/it's mine", created="2000-01-01")
    result = memfs("prune", "/facts/it's mine", "--below", "0.5", "--at", "2027-08-01T10:00:00Z").out
    command = result.partition("`")[2].partition("`")[0]
    done = subprocess.run(["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    words = done.stdout.splitlines()

    assert memfs(*words[1:]).out.startswith("archived as archive/facts/it's mine/old.md\n")
