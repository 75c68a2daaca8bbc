"""The behaviour of each method of Vault, on real directories, mounts and git repositories."""

import gc
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.commands import Git, Script
from support.files import Snapshot

from memfs import MemfsError, Stamp, Vault, Written
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    MemoryChangedError,
    MemoryExistsError,
    MemoryNotFoundError,
    NoSpaceError,
    ReadOnlyError,
    VaultNotFoundError,
)


def paths(vault: Vault, namespace: str | None = None, *, archived: bool = False) -> list[str]:
    return [memory.path for memory in vault.list(namespace, archived=archived)]


# --- a vault ------------------------------------------------------------------------------------------


def test_init_turns_a_directory_into_a_vault(tmp_path: Path) -> None:
    vault = Vault.init(tmp_path / "deep/new")

    assert {path.name for path in vault.root.iterdir()} == {"memfs.yaml", ".gitignore", ".gitattributes", ".memfs"}
    assert (vault.root / ".gitignore").read_text() == ".memfs/\n"
    assert vault.settings == {"version": 1}


def test_init_of_an_existing_directory_changes_no_file_in_it(example: Path, snapshot: Snapshot) -> None:
    (example / ".gitignore").write_text("mine\n")
    (example / "memfs.yaml").unlink()
    before = snapshot(example)

    Vault.init(example)
    Vault.init(example)

    after = snapshot(example, ".memfs")
    assert {path: state for path, state in after.items() if path in before} == before
    assert set(after) - set(before) == {"memfs.yaml"}


def test_opening_and_reading_a_directory_changes_nothing(tmp_path: Path, snapshot: Snapshot) -> None:
    (tmp_path / "a.md").write_text("Text.")
    before = snapshot(tmp_path)
    with Vault(tmp_path) as vault:
        vault.list()
        vault.check()
        vault.read("a")
        vault.versions("a")

    assert snapshot(tmp_path) == before


def test_a_missing_directory_is_not_a_vault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("Text.")

    for path in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(VaultNotFoundError, match="no vault here"):
            Vault(path)
    with pytest.raises(MemfsError):
        Vault.init(tmp_path / "file")


def test_the_nearest_vault_upwards_is_found(tmp_path: Path) -> None:
    Vault.init(tmp_path / "vault")
    (tmp_path / "vault/a/b").mkdir(parents=True)
    (tmp_path / "by-state/.memfs").mkdir(parents=True)

    assert Vault.find(tmp_path / "vault/a/b") == tmp_path / "vault"
    assert Vault.find(tmp_path / "by-state") == tmp_path / "by-state"
    with pytest.raises(VaultNotFoundError):
        Vault.find("/")


def test_a_vault_that_is_closed_can_still_be_used_and_leaves_no_temporary_file(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    vault.update(added.id, importance=2)
    vault.close()
    vault.close()
    vault.update(added.id, importance=3)
    vault.close()

    assert vault.read(added.id).header.importance == 3
    assert os.listdir(vault.root / ".memfs/tmp") == []
    assert os.listdir(vault.root / ".memfs/late") == []


def test_a_vault_holds_no_descriptor_when_it_is_closed(tmp_path: Path) -> None:
    gc.collect()  # closes the descriptors that other tests left open
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        with Vault(tmp_path) as vault:
            vault.update(vault.add("Tea.", "n").id, importance=3)
            vault.remove("n/tea.md")
            vault.add_many([{"text": f"Text {number}.", "namespace": f"n{number}"} for number in range(3)])
            vault.forget_many(["n0/text-0", "n1/text-1", "nothing"])
            vault.check()
    with Vault(tmp_path) as vault, pytest.raises(MemfsError):
        vault.add("Text.", "..")

    assert len(os.listdir("/proc/self/fd")) == open_before


# --- add ----------------------------------------------------------------------------------------------


def test_add_returns_what_is_on_disk(vault: Vault) -> None:
    added = vault.add("Alice likes tuna.", "/preferences/alice", type="preference", tags=["food"], importance=3)

    assert (added.outcome, added.path) == ("created", "preferences/alice/alice-likes-tuna.md")
    memory = Vault(vault.root).read(added.id)
    assert (memory.id, memory.path, memory.stamp) == (added.id, added.path, added.stamp)
    assert (memory.header.type, memory.header.tags, memory.header.importance) == ("preference", ("food",), 3)
    assert memory.body == "Alice likes tuna."


def test_add_without_a_namespace_writes_at_the_root(vault: Vault) -> None:
    assert vault.add("Tea.").path == "tea.md"
    assert vault.add("Tea.", "/").outcome == "duplicate"
    assert vault.add("Read me.", title="README").path != "README.md"


def test_the_same_text_is_added_once_per_namespace(vault: Vault) -> None:
    first = vault.add("Tea at five.\nAlways.", "n", importance=3)

    for text in ("Tea at five.\nAlways.", "Tea at five.\nAlways.\n", "Tea at five.\r\nAlways."):
        again = Vault(vault.root).add(text, "n", importance=9)
        assert (again.outcome, again.id, again.path, again.stamp) == ("duplicate", first.id, first.path, first.stamp)
    assert vault.add("Tea at five.\nAlways.", "m").outcome == "created"
    assert vault.add("Tea at six.\nAlways.", "n").outcome == "created"
    assert vault.read(first.id).header.importance == 3


def test_duplicates_are_found_among_the_files_as_they_are_now(vault: Vault) -> None:
    (vault.root / "n").mkdir()
    (vault.root / "n/mine.md").write_text("---\ntags: [a]\n---\nTea.\n")

    assert vault.add("Tea.", "n").path == "n/mine.md"
    (vault.root / "n/mine.md").write_text("Coffee.\n")
    assert vault.add("Tea.", "n").outcome == "created"
    (vault.root / "n/tea.md").unlink()
    assert vault.add("Tea.", "n").outcome == "created"


def test_two_vaults_of_one_process_see_each_other_s_texts_and_names(tmp_path: Path) -> None:
    one, other = Vault(tmp_path), Vault(tmp_path)
    for number in range(200):
        outcomes = [vault.add(f"Text {number}.", "n").outcome for vault in (one, other)]

        assert outcomes == ["created", "duplicate"]
    assert len(one.list("n")) == 200


def test_taken_file_names_are_numbered(vault: Vault) -> None:
    written = [vault.add(f"Tea\n\n{number}", "n").path for number in range(4)]

    assert written == ["n/tea.md", "n/tea-2.md", "n/tea-3.md", "n/tea-4.md"]
    vault.remove("n/tea-2.md")
    assert vault.add("Tea\n\nagain", "n").path not in written[:1] + written[2:]
    assert len(vault.list("n")) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("importance", 0), ("importance", 11), ("importance", True), ("importance", "3"), ("pinned", "yes"),
        ("type", 3),
        ("created", "soon"), ("expires", 7), ("tags", [1]), ("tags", {"a": 1}), ("x", {"a": 1}), ("x", object()),
        ("x", float("nan")), ("x", float("inf")), ("x", [["a"]]), ("x", b"bytes"), ("x", "\ud800"), ("id", "mine"),
        ("a: b\n---\nx", "y"), ("", "y"), ("1", "y"), ("a b", "y"), ("#a", "y"), ("a:", "y"), ("k" * 200, "y"),
    ],
)  # fmt: skip
def test_a_key_or_value_that_cannot_be_stored_is_refused_before_anything_is_written(
    vault: Vault, snapshot: Snapshot, key: str, value: Any
) -> None:
    known = vault.add("Tea.", "n")
    before = snapshot(vault.root)

    with pytest.raises(InvalidMemoryError):
        vault.add("Coffee.", "m", **{key: value})
    with pytest.raises(InvalidMemoryError):
        vault.update(known.id, **{key: value})
    assert snapshot(vault.root, ".memfs") == {path: state for path, state in before.items() if ".memfs" not in path}


@pytest.mark.parametrize("text", ["", " ", "\n\t\n", "\x0b\u2003"])
def test_an_empty_text_is_refused(vault: Vault, text: str) -> None:
    with pytest.raises(InvalidMemoryError, match="text: is empty"):
        vault.add(text, "n")
    assert not (vault.root / "n").exists()


def test_any_value_comes_back_as_it_went_in(vault: Vault) -> None:
    values = {
        "title": "a: b # c", "description": 'é\n日本\t"x"', "source": "session s-1, message 4",
        "aliases": ["x, y", "- z"],
        "supersedes": ["[[facts/a]]"], "number": -7, "half": 2.5, "small": 1e-7, "big": 10**15, "flag": False,
        "words": "true",
        "digits": "0123", "empty": "", "mixed": ["a", 1, True, "true"], "none": [],
    }  # fmt: skip
    memory = vault.read(vault.add("Text.", "n", header=values).id)

    for key, value in values.items():
        got = memory.header.get(key)
        assert (list(got) if isinstance(got, tuple) else got) == value
        assert type(got) in (type(value), tuple)


# --- read ---------------------------------------------------------------------------------------------


def test_a_memory_is_read_by_id_and_by_path_with_or_without_ending(vault: Vault) -> None:
    added = vault.add("Tea.", "a/b")

    for ref in (added.id, "a/b/tea.md", "a/b/tea", "/a/b/tea.md", "/a/b/tea", "A/B/TEA.md"):
        assert vault.read(ref).id == added.id
    for ref in ("tea", "tea.md", "a/tea", "m-nothing", "", "/", "a", "a/b", added.id[:-1], "*"):
        with pytest.raises(MemoryNotFoundError):
            vault.read(ref)


@pytest.mark.parametrize("line", ['id: "caf\\u00e9"', "id: 'café'", "id: café", "id: >-\n  café"])
def test_an_id_is_found_however_it_is_written(vault: Vault, line: str) -> None:
    (vault.root / "a.md").write_text(f"---\n{line}\n---\nText.\n", encoding="utf-8")

    assert vault.read("a.md").id == "café"
    assert vault.read("café").path == "a.md"


def test_an_id_is_found_after_a_person_moved_the_file(vault: Vault) -> None:
    added = vault.add("Tea.", "a")
    (vault.root / "b").mkdir()
    (vault.root / added.path).rename(vault.root / "b/renamed.md")

    assert vault.read(added.id).path == "b/renamed.md"
    assert vault.update(added.id, importance=2).path == "b/renamed.md"
    with pytest.raises(MemoryNotFoundError):
        vault.read(added.path)


def test_two_files_with_one_id_are_a_problem(vault: Vault) -> None:
    added = vault.add("Tea.", "a")
    shutil.copy(vault.root / added.path, vault.root / "copy.md")

    (problem,) = vault.check()
    assert problem.key == "id"
    assert "the same id as" in problem.reason
    assert vault.read(added.id).body == "Tea."


def test_list_is_sorted_by_path_and_limited_to_a_namespace(vault: Vault) -> None:
    for namespace in ("b", "a/x", "a", "a2"):
        vault.add("Tea.", namespace)

    assert paths(vault, "a") == ["a/tea.md", "a/x/tea.md"]
    assert paths(vault, "/") == paths(vault) == ["a/tea.md", "a/x/tea.md", "a2/tea.md", "b/tea.md"]
    assert paths(vault, "nothing") == []


# --- update -------------------------------------------------------------------------------------------


def test_update_sets_keys_and_none_removes_one(vault: Vault) -> None:
    added = vault.add("Tea.", "n", importance=3, tags=["a"])

    assert vault.update(added.id, importance=None, pinned=True, mood="fine").outcome == "updated"
    memory = vault.read(added.id)
    assert "importance" not in memory.header.values
    assert (memory.header.pinned, memory.header.get("mood"), memory.header.tags) == (True, "fine", ("a",))
    assert vault.update(added.id, importance=None).outcome == "unchanged"


def test_update_returns_the_new_stamp(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    written = vault.update(added.id, importance=2)

    assert written.stamp == vault.read(added.id).stamp != added.stamp
    assert vault.update(added.id, importance=3, seen=written.stamp).outcome == "updated"


def test_tags_are_added_and_removed(vault: Vault) -> None:
    added = vault.add("Tea.", "n", tags=["a", "b"])

    vault.update(added.id, add_tags=["c", "b", "c"], remove_tags=["a"])
    assert vault.read(added.id).header.tags == ("b", "c")
    vault.update(added.id, tags=["x", "y"], add_tags=["z"])
    assert vault.read(added.id).header.tags == ("x", "y", "z")
    vault.update(added.id, tags=[], add_tags=["only"])
    assert vault.read(added.id).header.tags == ("only",)
    vault.update(added.id, tags="p, q", add_tags=["r"])
    assert vault.read(added.id).header.tags == ("p", "q", "r")
    assert vault.update(added.id, add_tags=["P", "Q"]).outcome == "unchanged"
    vault.update(added.id, add_tags=["Straße", "STRASSE"], remove_tags=["R"])
    assert vault.read(added.id).header.tags == ("p", "q", "Straße")
    vault.update(added.id, remove_tags=["p", "q", "strasse", "nothing"])
    assert vault.read(added.id).header.tags == ()
    assert vault.update(added.id, remove_tags=["nothing"]).outcome == "unchanged"


def test_a_write_with_a_stale_stamp_is_refused(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    old = vault.read(added.id).stamp
    vault.update(added.id, importance=2)

    tries: list[Callable[[], object]] = [
        lambda: vault.update(added.id, importance=3, seen=old),
        lambda: vault.update(added.id, importance=3, seen=str(old)),
        lambda: vault.replace(added.id, "All new.", seen=old),
        lambda: vault.remove(added.id, seen=old),
    ]
    for attempt in tries:
        with pytest.raises(MemoryChangedError, match=r"n/tea\.md: changed on disk since it was read"):
            attempt()
    assert vault.read(added.id).header.importance == 2
    assert vault.update(added.id, importance=3, seen=str(vault.read(added.id).stamp)).outcome == "updated"
    with pytest.raises(InvalidMemoryError, match="seen"):
        vault.update(added.id, importance=3, seen="nonsense")


def test_a_stamp_survives_conversion_to_text(vault: Vault) -> None:
    stamp = vault.read(vault.add("Tea.", "n").id).stamp

    assert Stamp.parse(str(stamp)) == stamp
    assert " " not in str(stamp)


def test_replace_writes_the_whole_file(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    written = vault.replace(added.path, "---\nx: 1\n---\nCoffee.", seen=vault.read(added.id).stamp)

    assert (vault.root / added.path).read_text() == "---\nx: 1\n---\nCoffee."
    assert written.outcome == "updated"
    assert vault.read(written.id).path == written.path == added.path


def test_append_adds_lines_to_the_end(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    vault.append(added.id, "More.\nAnd more.")
    (vault.root / "plain.md").write_text("No newline")
    (vault.root / "empty.md").write_text("")
    vault.append("plain.md", "More.")
    vault.append("empty.md", "More.")

    assert vault.read(added.id).body == "Tea.\nMore.\nAnd more."
    assert vault.read("plain.md").body == "No newline\nMore."
    assert vault.read("empty.md").body == "More."
    with pytest.raises(InvalidMemoryError):
        vault.append(added.id, " ")


@pytest.mark.parametrize("body", ["", " \n\t"])
def test_update_does_not_empty_a_memory(vault: Vault, body: str) -> None:
    added = vault.add("Tea.", "n")

    with pytest.raises(InvalidMemoryError, match="text: is empty"):
        vault.update(added.id, body=body, importance=3)
    assert [str(error) for error in vault.update_many([{"ref": added.id, "body": body}])] == ["text: is empty"]
    assert vault.read(added.id) == vault.read(added.path)
    assert (vault.read(added.id).body, vault.read(added.id).stamp) == ("Tea.", added.stamp)


def test_concurrent_appends_of_many_threads_all_arrive(vault: Vault) -> None:
    added = vault.add("Start.", "n")
    threads = [
        threading.Thread(target=lambda name=name: [vault.append(added.id, f"{name}-{n}") for n in range(10)])
        for name in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    lines = vault.read(added.id).body.splitlines()
    assert sorted(lines[1:]) == sorted(f"{name}-{n}" for name in range(6) for n in range(10))


# --- forget, remove, move -----------------------------------------------------------------------------


def test_forget_moves_to_the_archive_where_it_stays_readable(vault: Vault) -> None:
    added = vault.add("Tea.", "a/b")
    forgotten = vault.forget(added.id)

    assert (forgotten.outcome, forgotten.path, forgotten.id) == ("archived", "archive/a/b/tea.md", added.id)
    assert paths(vault) == []
    assert paths(vault, archived=True) == paths(vault, "a/b", archived=True) == ["archive/a/b/tea.md"]
    assert vault.read(added.id).path == forgotten.path
    assert vault.forget(added.id).outcome == "unchanged"
    assert vault.update(added.id, importance=2).path == forgotten.path


def test_a_name_that_is_taken_in_the_archive_is_numbered(vault: Vault) -> None:
    forgotten = [vault.forget(vault.add(f"Tea\n\n{number}", "n").id).path for number in range(3)]

    assert forgotten == ["archive/n/tea.md", "archive/n/tea-2.md", "archive/n/tea-3.md"]
    assert [vault.read(path).body[-1] for path in forgotten] == ["0", "1", "2"]


def test_remove_deletes_the_file_and_its_versions(vault: Vault) -> None:
    added = vault.add("A secret word: xyzzy.", "n")
    other = vault.add("Another.", "n")
    vault.update(added.id, body="A secret word: plugh.")
    vault.update(other.id, importance=2)
    removed = vault.remove(added.id)
    vault.close()

    assert (removed.outcome, removed.id, removed.stamp) == ("removed", added.id, None)
    for ref in (added.id, added.path):
        with pytest.raises(MemoryNotFoundError):
            vault.restore(ref)
    everything = b"".join(file.read_bytes() for file in vault.root.rglob("*") if file.is_file())
    assert b"xyzzy" not in everything
    assert b"plugh" not in everything
    assert len(vault.versions(other.id)) == 2


def test_move_to_a_namespace_or_to_a_path_keeps_the_id_and_the_versions(vault: Vault) -> None:
    added = vault.add("Tea.", "a")
    vault.update(added.id, importance=2)

    moved = vault.move(added.id, "/b/c")
    assert (moved.outcome, moved.path, moved.id) == ("moved", "b/c/tea.md", added.id)
    moved = vault.move("b/c/tea", "d/Green Tea.md")
    assert (moved.path, vault.read(added.id).path) == ("d/Green Tea.md", "d/Green Tea.md")
    assert vault.move(added.id, "top.md").path == "top.md"
    assert len(vault.versions(added.id)) == 2
    assert paths(vault) == ["top.md"]


def test_a_move_to_its_own_path_loses_nothing(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    with pytest.raises(MemoryExistsError):
        vault.move(added.id, "n")

    assert vault.read(added.id).path == "n/tea.md"
    assert vault.move(added.id, "n/TEA.md").path == "n/TEA.md"


@pytest.mark.parametrize(
    "to", ["sessions/x", "../x", "a/../b.md", ".hidden/x.md", "con.md", "a?b.md", "x/.md", "README.md", "/readme.md"]
)
def test_a_move_to_a_name_that_is_not_allowed_is_refused(vault: Vault, to: str) -> None:
    added = vault.add("Tea.", "n")

    with pytest.raises(InvalidNamespaceError):
        vault.move(added.id, to)
    assert vault.read(added.id).path == "n/tea.md"


def test_a_move_of_a_file_without_id_returns_its_new_path(vault: Vault) -> None:
    (vault.root / "bob.md").write_text("Bob.\n")

    moved = vault.move("bob", "people")
    assert vault.read(moved.id).path == moved.path == "people/bob.md"
    forgotten = vault.forget(moved.id)
    assert vault.read(forgotten.id).path == forgotten.path == "archive/people/bob.md"


@pytest.mark.parametrize("name", ["what?", "a: b", "con", "-x", "trailing ", "x" * 150, "tab\tbed"])
def test_a_file_of_any_name_can_be_forgotten_removed_and_renamed(vault: Vault, name: str) -> None:
    for verb in ("forget", "remove", "move"):
        (vault.root / f"{name}.md").write_text("Text.")

        arguments = ("good.md",) if verb == "move" else ()
        getattr(vault, verb)(f"{name}.md", *arguments)
        assert not (vault.root / f"{name}.md").exists()
    assert len(vault.list(archived=True)) == 2


# --- versions -----------------------------------------------------------------------------------------


def test_restore_brings_back_the_previous_version(vault: Vault) -> None:
    added = vault.add("One.", "n")
    vault.update(added.id, body="Two.")
    vault.update(added.id, body="Three.")
    versions = vault.versions(added.id)

    assert [version.size for version in versions] == sorted((version.size for version in versions), reverse=True)
    assert versions == sorted(versions, key=lambda version: version.time, reverse=True)
    assert vault.restore(added.id).outcome == "restored"
    assert vault.read(added.id).body == "Two."
    assert vault.restore(added.id, versions[-1].hash[:8]).outcome == "restored"
    assert vault.read(added.id).body == "One."
    with pytest.raises(MemoryNotFoundError, match="ffffffff"):
        vault.restore(added.id, "ffffffff")


def test_a_person_s_text_that_memfs_replaced_can_be_restored(vault: Vault) -> None:
    (vault.root / "mine.md").write_text("By hand.\n")
    vault.update("mine.md", body="By an agent.")

    assert vault.restore("mine.md").outcome == "restored"
    assert (vault.root / "mine.md").read_text() == "By hand.\n"


@pytest.mark.parametrize("gone", ["unlink", "rmtree"])
def test_a_deleted_memory_is_restored_by_its_path(vault: Vault, gone: str) -> None:
    added = vault.add("One.", "a/b")
    vault.update(added.id, importance=2)
    data = (vault.root / added.path).read_bytes()
    shutil.rmtree(vault.root / "a") if gone == "rmtree" else (vault.root / added.path).unlink()

    assert len(vault.versions(added.path)) == 2
    restored = vault.restore(added.path)
    assert (restored.outcome, restored.path, restored.id) == ("restored", added.path, added.id)
    assert (vault.root / added.path).read_bytes() == data


def test_restore_refuses_when_no_version_differs(vault: Vault) -> None:
    added = vault.add("One.", "n")

    with pytest.raises(MemoryNotFoundError):
        vault.restore(added.id)
    with pytest.raises(MemoryNotFoundError):
        vault.versions("nothing")


def test_twenty_versions_are_kept(vault: Vault) -> None:
    added = vault.add("Text 0.", "n")
    for number in range(1, 40):
        vault.update(added.id, body=f"Text {number}.")

    versions = vault.versions(added.id)
    assert len(versions) == 20
    vault.restore(added.id, versions[-1].hash)
    assert vault.read(added.id).body == "Text 20."


def test_the_history_of_a_memory_that_changes_often_is_bounded(vault: Vault) -> None:
    added = vault.add("x" * 100_000, "n")
    for number in range(120):
        vault.update(added.id, importance=number % 10 + 1)

    size = sum(file.stat().st_size for file in (vault.root / ".memfs").rglob("*") if file.is_file())
    assert size < 8_000_000
    assert len(vault.versions(added.id)) >= 10


# --- batches ------------------------------------------------------------------------------------------


def outcomes(results: list[Written | MemfsError]) -> list[str]:
    return [result.outcome if isinstance(result, Written) else type(result).__name__ for result in results]


def test_add_many_has_one_result_per_item(vault: Vault) -> None:
    results = vault.add_many(
        [
            {"text": "One.", "namespace": "n", "importance": 3},
            {"text": "Two.", "namespace": "../n"},
            {"text": "One.", "namespace": "n"},
            {"text": " "},
            {"namespace": "n"},
            {"text": "Three.", "importance": 99},
            {"text": "Four.", "id": "mine"},
            {"text": "Five."},
        ]
    )

    assert outcomes(results) == [
        "created", "InvalidNamespaceError", "duplicate", "InvalidMemoryError", "InvalidMemoryError",
        "InvalidMemoryError",
        "InvalidMemoryError", "created",
    ]  # fmt: skip
    assert paths(vault) == ["five.md", "n/one.md"]


def test_update_many_and_forget_many_have_one_result_per_item(vault: Vault) -> None:
    one, two = vault.add("One.", "n", tags=["a"]), vault.add("Two.", "m")
    results = vault.update_many(
        [
            {"ref": one.id, "importance": 3, "add_tags": ["b"], "remove_tags": ["a"]},
            {"ref": "nothing", "importance": 3},
            {"ref": two.id, "body": "Zwei.", "seen": two.stamp},
            {"ref": two.id, "body": "Deux.", "seen": two.stamp},
            {"importance": 3},
            {"ref": one.id, "importance": 3},
        ]
    )

    assert outcomes(results) == [
        "updated", "MemoryNotFoundError", "updated", "MemoryChangedError", "InvalidMemoryError", "unchanged",
    ]  # fmt: skip
    assert (vault.read(one.id).header.tags, vault.read(two.id).body) == (("b",), "Zwei.")
    assert outcomes(vault.forget_many([one.id, "nothing", two.id])) == ["archived", "MemoryNotFoundError", "archived"]


@pytest.mark.parametrize(
    "bad",
    [
        {"ref": None},
        {"ref": 5},
        {"add_tags": 5},
        {"remove_tags": [5]},
        {"body": 5},
        {"dirty": {}},
        {"self": {}},
        {5: 1},
        {"x": {}},
    ],
    ids=str,
)
def test_a_bad_item_only_affects_its_own_result(vault: Vault, bad: dict[Any, Any]) -> None:
    added = vault.add("One.", "n")

    results = vault.update_many([{"ref": added.id, **bad}, {"ref": added.id, "importance": 3}])
    assert outcomes(results)[1:] == ["updated"]
    assert isinstance(results[0], MemfsError)
    results = vault.add_many([{"text": "Two.", "namespace": 5, **bad}, {"text": "Three."}])
    assert outcomes(results)[1:] == ["created"]
    assert isinstance(results[0], MemfsError)
    assert outcomes(vault.forget_many([bad.get("ref", bad), added.id]))[1:] == ["archived"]


def test_a_batch_whose_source_fails_keeps_the_finished_writes(vault: Vault) -> None:
    def source() -> Iterator[dict[str, str]]:
        yield {"text": "One."}
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        vault.add_many(source())
    assert paths(vault) == ["one.md"]


def test_a_scope_has_the_same_methods(vault: Vault) -> None:
    alice = vault.scope("facts/alice/")
    added = alice.add("Tea.")

    assert added.path == "facts/alice/tea.md"
    assert alice.add("Deeper.", "/facts/alice/drinks").path == "facts/alice/drinks/deeper.md"
    assert outcomes(alice.add_many([{"text": "More."}, {"text": "Else.", "namespace": "facts/bob"}])) == [
        "created", "InvalidNamespaceError",
    ]  # fmt: skip
    assert alice.update(added.id, importance=2).outcome == "updated"
    assert len(alice.versions(added.id)) == 2
    assert alice.restore(added.id).outcome == "restored"
    assert alice.move(added.id, "facts/alice/drinks").outcome == "moved"
    assert alice.forget(added.id).outcome == "archived"
    assert alice.remove(added.id).outcome == "removed"
    assert len(alice.list()) == len(vault.list()) == 2
    with pytest.raises(InvalidNamespaceError):
        vault.scope("/archive/facts")


# --- other processes ----------------------------------------------------------------------------------


ADDS = """
vault = Vault(sys.argv[1])
for number in range(20):
    vault.add(f"Text {number}.", "n")
    vault.append("shared.md", f"{sys.argv[2]}-{number}")
"""


def test_processes_that_add_the_same_texts_write_each_once(vault: Vault, run_script: Script) -> None:
    (vault.root / "shared.md").write_text("Start.\n")
    threads = [threading.Thread(target=run_script, args=(ADDS, vault.root, name)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(memory.body for memory in vault.list("n")) == sorted(f"Text {number}." for number in range(20))
    lines = vault.read("shared.md").body.splitlines()[1:]
    assert sorted(lines) == sorted(f"{name}-{number}" for name in range(3) for number in range(20))


# --- a vault that cannot be written -------------------------------------------------------------------

WRITES = """
vault = Vault(sys.argv[1])
results = [memory.path for memory in vault.list()] + [vault.read("n/tea.md").body] + [len(vault.check())]
for attempt in [
    lambda: vault.add("Coffee.", "n"),
    lambda: vault.add("Coffee.", "new"),
    lambda: vault.update("n/tea.md", importance=2),
    lambda: vault.append("n/tea.md", "More."),
    lambda: vault.forget("n/tea.md"),
    lambda: vault.remove("n/tea.md"),
    lambda: vault.move("n/tea.md", "m"),
    lambda: Vault.init(sys.argv[1] + "/new"),
    lambda: vault.add_many([{"text": "Many.", "namespace": "n"}])[0],
    lambda: Vault.init(sys.argv[1]),
]:
    try:
        answer = attempt()
        results.append(type(answer).__name__)
    except errors.MemfsError as error:
        results.append(type(error).__name__)
vault.close()
print(json.dumps(results))
"""


@pytest.mark.parametrize("state", ["with state", "without state"])
def test_a_vault_of_another_user_can_be_read_and_is_not_written(
    public_path: Path, run_script: Script, snapshot: Snapshot, state: str
) -> None:
    root = public_path / "vault"
    with Vault.init(root) as vault:
        vault.add("Tea.", "n")
        vault.update("n/tea.md", importance=5)
    if state == "without state":
        shutil.rmtree(root / ".memfs")
    subprocess.run(["chmod", "-R", "a=rX", root], check=True)
    before = snapshot(root)

    done = run_script(WRITES, root, ordinary=True)

    assert done.returncode == 0, done.stderr[-2000:]
    init = "Vault" if state == "with state" else "ReadOnlyError"  # with state, init has nothing to write
    assert json.loads(done.stdout) == ["n/tea.md", "Tea.", 0, *["ReadOnlyError"] * 9, init]
    assert snapshot(root) == before


def test_a_vault_on_a_read_only_mount_can_be_read_and_is_not_written(
    mount_tmpfs: Callable[[str], Path], run_script: Script, snapshot: Snapshot
) -> None:
    root = mount_tmpfs("size=2m")
    with Vault.init(root) as vault:
        vault.add("Tea.", "n")
    subprocess.run(["mount", "-o", "remount,ro", root], check=True)
    before = snapshot(root)

    done = run_script(WRITES, root)

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == ["n/tea.md", "Tea.", 0, *["ReadOnlyError"] * 9, "Vault"]
    assert snapshot(root) == before
    with pytest.raises(ReadOnlyError, match="not writable"):
        Vault(root).add("Coffee.", "n")


def fill(root: Path) -> Path:
    """Fill the disk."""
    filler = root / ".filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
    assert os.statvfs(root).f_bavail == 0
    return filler


def test_a_full_disk_is_reported_loses_nothing_and_writes_resume_later(
    mount_tmpfs: Callable[[str], Path],
) -> None:
    root = mount_tmpfs("size=1m")
    with Vault.init(root) as vault:
        kept = {vault.add(f"Text {number}.", "n").id: f"Text {number}." for number in range(5)}
        filler = fill(root)
        first = next(iter(kept))
        for number in range(10):
            with pytest.raises(NoSpaceError, match="no space left"):
                vault.add(f"Text {number}. " + "x" * 5000, "n")
            with pytest.raises(NoSpaceError, match="no space left"):
                vault.update(first, description="x" * 5000)
            with pytest.raises(NoSpaceError, match="no space left"):
                vault.append(first, "x" * 9000)
            with pytest.raises(NoSpaceError, match="no space left"):
                vault.add("Elsewhere.", f"new-{number}")

        assert {memory.id: memory.body for memory in vault.list()} == kept
        assert vault.check() == []
        filler.unlink()
        assert vault.add("Text 99.", "n").outcome == "created"
        assert vault.update(first, importance=2).outcome == "updated"
    assert {memory.id for memory in Vault(root).list()} > set(kept)
    assert os.listdir(root / ".memfs/tmp") == []


def test_writes_acknowledged_while_a_disk_fills_up_are_there(mount_tmpfs: Callable[[str], Path]) -> None:
    root = mount_tmpfs("size=1m")
    acknowledged: dict[str, str] = {}
    with Vault.init(root) as vault:
        for number in range(400):
            text = f"Text {number}. " + "x" * 4000
            try:
                acknowledged[vault.add(text, "n").id] = text
            except NoSpaceError:
                break

        assert 20 < len(acknowledged) < 400
        assert {memory.id: memory.body for memory in vault.list()} == acknowledged
    assert {memory.id: memory.body for memory in Vault(root).list()} == acknowledged


def test_init_on_a_full_disk_is_refused(mount_tmpfs: Callable[[str], Path]) -> None:
    root = mount_tmpfs("size=1m,nr_inodes=4")
    (root / "a").touch()
    (root / "b").touch()
    (root / "c").touch()

    with pytest.raises(NoSpaceError):
        Vault.init(root)
    with pytest.raises(NoSpaceError):
        Vault(root).add("Text.", "n")


# --- directories that disappear -----------------------------------------------------------------------


def test_the_state_directory_may_be_deleted_between_any_two_writes(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    for step in range(1, 6):
        shutil.rmtree(vault.root / ".memfs")
        assert vault.update(added.id, importance=step + 1).outcome == "updated"
        shutil.rmtree(vault.root / ".memfs")
        assert vault.add(f"Text {step}.", "n").outcome == "created"
        shutil.rmtree(vault.root / ".memfs")
        vault.append(added.id, f"More {step}.")
        shutil.rmtree(vault.root / ".memfs/tmp")
        vault.forget(f"n/text-{step}.md")
        assert vault.check() == []

    vault.close()
    shutil.rmtree(vault.root / ".memfs")
    vault.close()
    assert vault.read(added.id).body == "Tea.\n" + "\n".join(f"More {step}." for step in range(1, 6))
    assert (vault.root / ".memfs").exists() is False
    assert len(vault.list(archived=True)) == 6


def test_a_namespace_may_be_deleted_between_any_two_writes(vault: Vault) -> None:
    for step in range(5):
        assert vault.add("Tea.", "a/b").outcome == "created", step
        shutil.rmtree(vault.root / "a")
        with pytest.raises(MemoryNotFoundError):
            vault.update("a/b/tea.md", importance=2)


def test_a_missing_vault_is_reported_and_used_again_when_it_is_back(vault: Vault) -> None:
    vault.add("Tea.", "n")
    vault.root.rename(vault.root.with_name("elsewhere"))

    tries: list[Callable[[], object]] = [
        vault.list,
        vault.check,
        lambda: vault.read("n/tea.md"),
        lambda: vault.add("Coffee.", "n"),
    ]
    for attempt in tries:
        with pytest.raises(VaultNotFoundError):
            attempt()
    vault.close()
    vault.root.with_name("elsewhere").rename(vault.root)
    assert vault.add("Coffee.", "n").outcome == "created"


# --- the clock ----------------------------------------------------------------------------------------


def test_times_come_from_the_clock_and_are_written_in_utc(tmp_path: Path) -> None:
    now = datetime(2026, 11, 15, 23, 30, 5, 123456, tzinfo=UTC)
    vault = Vault(tmp_path, clock=lambda: now)
    added = vault.add("Tea.", "n")
    fixed = vault.add("Coffee.", "n", created=date(2020, 1, 2))

    assert vault.read(added.id).created == vault.read(added.id).updated == now.replace(microsecond=0)
    assert vault.read(fixed.id).created == datetime(2020, 1, 2, tzinfo=UTC)
    now += timedelta(days=1)
    vault.append(added.id, "More.")
    assert vault.read(added.id).updated == now.replace(microsecond=0)
    assert vault.read(added.id).created == (now - timedelta(days=1)).replace(microsecond=0)


# --- the example vault --------------------------------------------------------------------------------


def test_the_example_vault_has_one_problem_and_many_memories(example: Path) -> None:
    vault = Vault(example)

    (problem,) = vault.check()
    assert (problem.path, problem.line, problem.key) == ("notes/dentist.md", 4, "importance")
    assert len(vault.list()) >= 40
    assert len(vault.list(archived=True)) > len(vault.list())
    assert all(memory.title and memory.description and memory.body for memory in vault.list())


def test_every_memory_of_the_example_vault_takes_a_one_line_update(example: Path, git: Git) -> None:
    git(example, "init")
    git(example, "add", "-A")
    git(example, "commit", "-m", "start")
    with Vault(example) as vault:
        for memory in vault.list(archived=True):
            assert vault.update(memory.path, reviewed="yes").outcome == "updated"

        stats = [line.split("\t")[:2] for line in git(example, "diff", "--numstat").splitlines()]
        assert len(stats) == len(vault.list(archived=True))
        headed = [memory for memory in vault.list(archived=True) if len(memory.header.values) > 1]
        assert stats.count(["1", "0"]) == len(headed)
        for memory in vault.list(archived=True):
            vault.update(memory.path, reviewed=None)
    assert len(git(example, "diff", "--numstat").splitlines()) == len(stats) - len(headed)


# --- git ----------------------------------------------------------------------------------------------


@pytest.fixture
def tracked(tmp_path: Path, git: Git) -> Iterator[Vault]:
    """A vault in a git repository, with one commit."""
    root = tmp_path / "tracked"
    root.mkdir()
    git(root, "init")
    with Vault.init(root) as vault:
        for name in ("alice", "bob", "carol"):
            vault.add(f"{name} likes tea.", f"facts/{name}", tags=["drinks"], importance=3)
        git(root, "add", "-A")
        git(root, "commit", "-m", "start")
        yield vault


def test_git_add_stages_only_memories_and_settings(tracked: Vault, git: Git) -> None:
    tracked.forget(tracked.add("Coffee.", "n").id)
    tracked.update("facts/bob/bob-likes-tea.md", importance=5)
    git(tracked.root, "add", "-A")

    files = git(tracked.root, "ls-files").splitlines()
    assert {Path(file).suffix or file for file in files} == {".md", ".yaml", ".gitignore", ".gitattributes"}
    assert not any(".memfs" in file for file in files)
    assert git(tracked.root, "status", "--porcelain", "--ignored").count("!!") == 1


def test_branches_that_add_and_update_different_memories_merge_clean(tracked: Vault, git: Git) -> None:
    root = tracked.root
    for branch, name in (("left", "alice"), ("right", "bob")):
        git(root, "checkout", "-q", "-b", branch, "main")
        with Vault(root) as vault:
            vault.add(f"New on {branch}.", "facts/shared")
            vault.update(f"facts/{name}/{name}-likes-tea.md", importance=5, add_tags=[branch])
            vault.append(f"facts/{name}/{name}-likes-tea.md", f"Seen on {branch}.")
        git(root, "add", "-A")
        git(root, "commit", "-m", branch)
    git(root, "merge", "-m", "both", "left")

    assert tracked.check() == []
    assert len(tracked.list("facts/shared")) == 2
    for branch, name in (("left", "alice"), ("right", "bob")):
        memory = tracked.read(f"facts/{name}/{name}-likes-tea.md")
        assert (memory.header.importance, memory.header.tags) == (5, ("drinks", branch))
        assert memory.body.endswith(f"Seen on {branch}.")


@pytest.mark.parametrize(
    "commands",
    [
        [["clean", "-q", "-fdx"]],
        [["checkout", "-q", "-f", "."]],
        [["reset", "-q", "--hard"]],
        [["stash", "-q", "-u"]],
        [["clean", "-q", "-fdx"], ["checkout", "-q", "-f", "."], ["reset", "-q", "--hard"]],
        [["checkout", "-q", "-f", "--orphan", "empty"], ["rm", "-rfq", "."], ["clean", "-q", "-fdx"]],
    ],
    ids=lambda commands: " ".join(command[0] for command in commands),
)
def test_a_memory_that_git_discarded_is_restored(tracked: Vault, git: Git, commands: list[list[str]]) -> None:
    changed = tracked.update("facts/alice/alice-likes-tea.md", body="alice likes coffee.").path
    added = tracked.add("Never committed.", "facts/new").path
    acknowledged = {path: (tracked.root / path).read_bytes() for path in (changed, added)}

    for command in commands:
        git(tracked.root, *command)
    with Vault(tracked.root) as vault:
        for path, data in acknowledged.items():
            if not (vault.root / path).exists() or (vault.root / path).read_bytes() != data:
                newest = vault.versions(path)[0]
                assert vault.restore(path, newest.hash).outcome == "restored"
            assert (vault.root / path).read_bytes() == data


def test_a_vault_keeps_working_while_git_deletes_its_state(tracked: Vault, git: Git) -> None:
    for step in range(1, 6):
        tracked.update("facts/bob/bob-likes-tea.md", importance=step)
        git(tracked.root, "clean", "-fdxq")
        git(tracked.root, "checkout", "-f", ".")
        assert tracked.add(f"Text {step}.", f"n{step}").outcome == "created"
        git(tracked.root, "add", "-A")
        git(tracked.root, "commit", "-m", f"step {step}")

    assert tracked.check() == []
    assert git(tracked.root, "status", "--porcelain") == ""
    assert len(tracked.list()) == 8


def test_a_clone_of_a_vault_is_a_vault(tracked: Vault, git: Git, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "tracked", "copy")
    with Vault(tmp_path / "copy") as copy:
        assert [memory.id for memory in copy.list()] == [memory.id for memory in tracked.list()]
        copy.update("facts/bob/bob-likes-tea.md", importance=5)

        assert git(copy.root, "status", "--porcelain") == " M facts/bob/bob-likes-tea.md\n"


def test_create_writes_a_whole_file_under_a_free_name(vault: Vault) -> None:
    written = vault.create("people/Bob.md", "---\nid: bob\n---\n\nBob builds Atlas.\n")

    assert (written.id, written.path, written.outcome) == ("bob", "people/Bob.md", "created")
    assert (vault.root / "people/Bob.md").read_text() == "---\nid: bob\n---\n\nBob builds Atlas.\n"
    assert [hit.memory.path for hit in vault.search("who builds Atlas")] == ["people/Bob.md"]
    for taken in ("people/Bob.md", "people/bob.md"):
        with pytest.raises(MemoryExistsError, match=r"people/[Bb]ob\.md: already exists"):
            vault.create(taken, "Another one.")


@pytest.mark.parametrize("path", ["bob.txt", "../bob.md", "archive/bob.md", "README.md", "sessions/bob.md", "", ".md"])
def test_create_refuses_a_path_that_cannot_hold_a_memory(vault: Vault, path: str) -> None:
    with pytest.raises(InvalidNamespaceError):
        vault.create(path, "Bob.")
