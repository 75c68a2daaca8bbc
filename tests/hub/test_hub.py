"""Two vaults and a hub: changes of one reach the other, and nothing is lost."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from support.commands import Git, Script
from support.files import Snapshot
from support.postgres_server import Server
from support.vaults import data_by_path

from memfs import Vault
from memfs.errors import (
    InvalidNamespaceError,
    MissingTablesError,
    NewerSchemaError,
    ReadOnlyError,
    StoreUnavailableError,
)
from memfs.hub import Conflict, Hub, HubReport, pull, push
from memfs.hub.local_files import open_vault_root
from memfs.hub.sync_state import SyncedFile, open_sync_state
from memfs.namespace import is_conflict_copy
from memfs.storage.stat_scan import COARSE_RACY_NS


@pytest.fixture
def hub(postgres_url: str) -> Iterator[Hub]:
    with Hub(postgres_url) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Vault]:
    with Vault.init(tmp_path / "desk") as made:
        yield made


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Vault]:
    with Vault.init(tmp_path / "laptop") as made:
        yield made


def save(vault: Vault, path: str, text: str | bytes) -> None:
    """Write a file as an editor does."""
    target = vault.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text if isinstance(text, bytes) else text.encode())


def texts(vault: Vault) -> dict[str, str]:
    return {path: data.decode() for path, data in data_by_path(vault).items()}


def changes_in(report: HubReport) -> dict[str, object]:
    """Return the non-empty lists of a report."""
    names = ("created", "updated", "moved", "removed", "conflicts")
    return {name: list(value) for name in names if (value := getattr(report, name))}


def age(vault: Vault) -> None:
    """Set the times of every file far into the past, so that its stamp is reliable."""
    for path in vault.root.rglob("*.md"):
        os.utime(path, ns=(1_700_000_000_000_000_000 + hash(path.name) % 10**9,) * 2)


@pytest.fixture
def shared(hub: Hub, desk: Vault, laptop: Vault) -> None:
    """Put three memories into both vaults and the hub."""
    save(desk, "facts/tea.md", "Alice drinks tea.\n")
    save(desk, "facts/sushi.md", "Alice eats sushi.\n")
    save(desk, "people/bob.md", "---\nid: m-bob\ntitle: Bob\n---\n\nBob climbs.\n")
    push(desk, hub)
    pull(laptop, hub)


# --- changes


def test_files_are_pushed_and_pulled_byte_for_byte(hub: Hub, desk: Vault, laptop: Vault) -> None:
    contents = {
        "facts/plain.md": b"No header.\n", "facts/crlf.md": b"---\r\ntitle: x\r\n---\r\n\r\nLine.\r\n",
        "facts/bom.md": b"\xef\xbb\xbfMark.\n", "facts/latin.md": b"caf\xe9 au lait\n", "facts/zero.md": b"a\0b\n",
        "facts/broken.md": b"---\ntitle: [unclosed\n---\n\nBody.\n", "facts/open.md": b"---\nid: m-1\nno end\n",
        "facts/empty.md": b"", "facts/no-newline.md": b"End", "deep/a/b/c/d/e.md": b"Deep.\n",
        "notizen/Müller & Söhne.md": "Grüße, 日本\n".encode(), "facts/marks.md": b"<<<<<<< a\n=======\n>>>>>>> b\n",
        "secret.md": b"---\nid: m-2\n---\n\nenc:v1:AAAA\n",
    }  # fmt: skip
    for path, data in contents.items():
        save(desk, path, data)
    sent = push(desk, hub)
    received = pull(laptop, hub)

    assert sent.created == received.created == tuple(sorted(contents))
    assert data_by_path(laptop) == data_by_path(desk) == contents
    assert not sent.problems + received.problems


def test_a_sync_without_changes_writes_nothing(
    hub: Hub, desk: Vault, laptop: Vault, shared: None, snapshot: Snapshot
) -> None:
    before = snapshot(laptop.root)

    assert (
        changes_in(push(desk, hub))
        == changes_in(push(laptop, hub))
        == changes_in(pull(desk, hub))
        == changes_in(pull(laptop, hub))
        == {}
    )
    assert snapshot(laptop.root, ".memfs") == {path: of for path, of in before.items() if ".memfs" not in path}


def test_a_change_on_one_side_reaches_the_other(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    save(laptop, "facts/tea.md", "Alice drinks sencha.\n")
    laptop.add("Alice sings.", "/facts")
    sent, received = push(laptop, hub), pull(desk, hub)

    assert (
        changes_in(sent) == changes_in(received) == {"created": ["facts/alice-sings.md"], "updated": ["facts/tea.md"]}
    )
    assert data_by_path(desk) == data_by_path(laptop)


def test_the_same_change_on_both_sides_is_no_conflict(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    for vault in (desk, laptop):
        save(vault, "facts/tea.md", "Alice drinks sencha.\n")
        save(vault, "facts/new.md", "Both found it.\n")
    push(desk, hub)

    assert changes_in(pull(laptop, hub)) == changes_in(push(laptop, hub)) == {}


def test_a_pulled_memory_is_found_at_once(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    assert [hit.memory.path for hit in laptop.search("who climbs?")] == ["people/bob.md"]
    save(desk, "facts/ski.md", "Carol skis.\n")
    push(desk, hub)
    pull(laptop, hub)

    assert [hit.memory.path for hit in laptop.search("who skis?")] == ["facts/ski.md"]


def test_with_a_namespace_only_its_memories_are_mirrored(hub: Hub, desk: Vault, laptop: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")
    save(desk, "factsheets/x.md", "No.\n")
    save(desk, "people/bob.md", "Bob.\n")
    push(desk, hub, namespace="/facts")
    assert pull(laptop, hub).created == ("facts/tea.md",)
    push(desk, hub)

    assert pull(laptop, hub, namespace="/people").created == ("people/bob.md",)
    assert pull(laptop, hub, namespace="/facts").created == ()
    assert pull(laptop, hub).created == ("factsheets/x.md",)


def test_a_pull_of_a_larger_namespace_covers_a_smaller_one(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    before = hub.database.rows_received

    assert pull(laptop, hub, namespace="/facts").unchanged == 0
    assert hub.database.rows_received == before + 1


def test_a_scope_mirrors_only_its_subtree(hub: Hub, desk: Vault, laptop: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")
    save(desk, "people/bob.md", "Bob.\n")

    assert push(desk.scope("/facts"), hub).created == ("facts/tea.md",)
    with pytest.raises(InvalidNamespaceError, match="outside the scope"):
        push(desk.scope("/facts"), hub, namespace="/people")
    with pytest.raises(InvalidNamespaceError, match="is not mirrored"):
        pull(desk, hub, namespace="/archive")


def test_a_path_too_long_for_the_hub_is_reported_and_blocks_no_other(hub: Hub, desk: Vault) -> None:
    names = [sha256(bytes([number])).hexdigest() + "-" * 26 for number in range(30)]  # 90 characters each
    deep, deeper = ("/".join((*names[:depth], "tea.md")) for depth in (20, 30))
    for path in ("tea.md", deep, deeper):
        save(desk, path, "Tea.\n")

    report = push(desk, hub)
    assert set(report.created) == {"tea.md", deep}
    assert [(one.path, one.reason) for one in report.problems] == [
        (deeper, "not mirrored: its path is longer than 2,500 bytes")
    ]
    assert changes_in(push(desk, hub)) == {}


def test_files_that_are_not_memories_are_not_sent(hub: Hub, desk: Vault) -> None:
    for path in ("README.md", "notes.txt", "sessions/s/x.md", "archive/facts/old.md", ".obsidian/x.md", "facts/~x.md"):
        save(desk, path, "No.\n")
    (desk.root / "facts" / "link.md").symlink_to("/etc/passwd")
    report = push(desk, hub)

    assert report.created == ()
    assert [problem.path for problem in report.problems] == ["facts/link.md"]


def test_a_push_adds_no_visible_files_to_a_plain_directory(hub: Hub, tmp_path: Path, git: Git) -> None:
    (tmp_path / "notes").mkdir()
    git(tmp_path / "notes", "init")
    with Vault(tmp_path / "notes") as vault:
        save(vault, "tea.md", "Tea.\n")
        push(vault, hub)

    assert git(tmp_path / "notes", "status", "--porcelain", "--untracked-files=all") == "?? tea.md\n"


def test_an_idle_pull_opens_no_memory_and_lists_no_namespace(
    desk: Vault, laptop: Vault, shared: None, run_script: Script, postgres_url: str
) -> None:
    code = """
from memfs.hub import Hub, pull
seen = []
events = {"open", "os.listdir", "os.scandir"}
sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event in events else None)
with Vault(sys.argv[1]) as vault, Hub(sys.argv[2]) as hub:
    hub.status()
    seen.clear()
    before = hub.database.statements_sent, hub.database.rows_received
    report = pull(vault, hub)
    print(report.changes, hub.database.statements_sent - before[0], hub.database.rows_received - before[1])
    print(sorted({name for name in seen if name.endswith(".md") or name in {"facts", "people"}}))
    print(len(seen) > 0)
"""
    done = run_script(code, laptop.root, postgres_url)

    assert done.stdout.splitlines() == ["0 1 1", "[]", "True"], done.stderr


# --- removals and moves


def test_a_pulled_removal_moves_the_file_to_the_archive(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    desk.remove("facts/tea.md")
    sent, received = push(desk, hub), pull(laptop, hub)

    assert changes_in(sent) == changes_in(received) == {"removed": ["facts/tea.md"]}
    assert data_by_path(laptop, archived=True)["archive/facts/tea.md"] == b"Alice drinks tea.\n"
    assert "facts/tea.md" not in data_by_path(laptop)
    assert changes_in(push(laptop, hub)) == changes_in(pull(desk, hub)) == {}


def test_a_memory_forgotten_here_is_forgotten_on_the_other_side(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    desk.forget("facts/tea.md")
    push(desk, hub)
    pull(laptop, hub)

    assert data_by_path(laptop, archived=True) == data_by_path(desk, archived=True)


def test_a_memory_restored_from_the_archive_is_sent_again(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    desk.forget("facts/tea.md")
    push(desk, hub)
    pull(laptop, hub)
    laptop.move("archive/facts/tea.md", "/facts")

    assert changes_in(push(laptop, hub)) == changes_in(pull(desk, hub)) == {"created": ["facts/tea.md"]}
    assert data_by_path(desk)["facts/tea.md"] == b"Alice drinks tea.\n"


def test_a_move_is_a_move_on_the_other_side(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    desk.move("people/bob.md", "team/bob.md")
    desk.move("facts/tea.md", "facts/drinks.md")  # without an id: matched by its bytes
    sent, received = push(desk, hub), pull(laptop, hub)

    moved = [("facts/tea.md", "facts/drinks.md"), ("people/bob.md", "team/bob.md")]
    assert changes_in(sent) == changes_in(received) == {"moved": moved}
    assert data_by_path(laptop, archived=True) == data_by_path(desk, archived=True)
    assert len(laptop.versions("team/bob.md")) == 1, "kept versions move with the file"


def test_a_moved_and_edited_memory_is_matched_by_its_id(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    desk.move("people/bob.md", "team/bob.md")
    desk.append("team/bob.md", "And swims.")
    push(desk, hub)

    assert changes_in(pull(laptop, hub)) == {"moved": [("people/bob.md", "team/bob.md")]}
    assert data_by_path(laptop, archived=True) == data_by_path(desk, archived=True)


def test_a_move_on_the_hub_and_a_local_edit_are_both_kept(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    desk.move("people/bob.md", "team/bob.md")
    push(desk, hub)
    laptop.append("people/bob.md", "And swims.")

    assert changes_in(pull(laptop, hub)) == {"moved": [("people/bob.md", "team/bob.md")]}
    assert changes_in(push(laptop, hub)) == changes_in(pull(desk, hub)) == {"updated": ["team/bob.md"]}
    assert "And swims." in texts(desk)["team/bob.md"]
    assert data_by_path(laptop, archived=True) == data_by_path(desk, archived=True)


def test_a_local_edit_of_a_memory_moved_on_the_hub_waits_for_a_pull(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    desk.move("people/bob.md", "team/bob.md")
    push(desk, hub)
    laptop.append("people/bob.md", "And swims.")
    reason = "moved on the hub and changed here: pull first"
    for dry_run in (True, False):
        report = push(laptop, hub, dry_run=dry_run)
        assert changes_in(report) == {"conflicts": [Conflict("people/bob.md", reason)]}

    pull(laptop, hub)
    assert changes_in(push(laptop, hub)) == {"updated": ["team/bob.md"]}


def test_a_local_move_and_an_edit_on_the_hub_are_both_kept(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    desk.append("people/bob.md", "And swims.")
    push(desk, hub)
    laptop.move("people/bob.md", "team/bob.md")
    refused = push(laptop, hub)
    assert refused.conflicts == (
        Conflict("team/bob.md", "moved here and changed on the hub (people/bob.md): pull first"),
    )

    assert changes_in(pull(laptop, hub)) == {"updated": ["team/bob.md"]}
    assert changes_in(push(laptop, hub)) == changes_in(pull(desk, hub)) == {"moved": [("people/bob.md", "team/bob.md")]}
    assert "And swims." in texts(desk)["team/bob.md"]
    assert data_by_path(laptop, archived=True) == data_by_path(desk, archived=True)


def test_the_same_move_on_both_sides_is_no_conflict(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    for vault in (desk, laptop):
        vault.move("people/bob.md", "team/bob.md")
    desk.append("team/bob.md", "And swims.")
    push(desk, hub)

    assert changes_in(pull(laptop, hub)) == {"updated": ["team/bob.md"]}
    assert data_by_path(laptop, archived=True) == data_by_path(desk, archived=True)


def test_a_move_to_a_name_taken_on_the_hub_is_a_conflict(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    save(desk, "team/bob.md", "Another Bob.\n")
    push(desk, hub)
    laptop.move("people/bob.md", "team/bob.md")

    assert changes_in(push(laptop, hub)) == {
        "conflicts": [Conflict("team/bob.md", "changed here and on the hub: pull first")]
    }
    assert "people/bob.md" in pull(Vault.init(laptop.root.parent / "third"), hub).created


def test_the_removal_of_most_memories_is_not_sent(hub: Hub, desk: Vault, laptop: Vault) -> None:
    for number in range(40):
        save(desk, f"facts/{number}.md", f"Fact {number}.\n")
    push(desk, hub)
    for number in range(30):
        (desk.root / "facts" / f"{number}.md").unlink()
    report = push(desk, hub)

    assert report.removed == ()
    assert [str(problem) for problem in report.problems] == ["/: 30 of 40 memories are gone: their removal is not sent"]
    assert len(push(desk, hub, all_removals=True).removed) == 30
    assert len(pull(laptop, hub).created) == 10


def test_the_removal_of_a_whole_namespace_is_not_sent(hub: Hub, desk: Vault, laptop: Vault) -> None:
    for number in range(8):
        save(desk, f"People/work/{number}.md", f"Person {number}.\n")
    for number in range(20):
        save(desk, f"facts/{number}.md", f"Fact {number}.\n")
    push(desk, hub)
    shutil.rmtree(desk.root / "People")
    (desk.root / "facts" / "7.md").unlink()
    reports = [push(desk, hub), push(desk, hub, namespace="/People"), push(desk, hub, namespace="/people/work")]

    assert [report.removed for report in reports] == [("facts/7.md",), (), ()]
    for report, place in zip(reports, ("/People", "/People", "/people/work"), strict=True):
        [problem] = report.problems
        assert str(problem) == f"{place}: 8 of 8 memories are gone: their removal is not sent"
        assert problem.hint == "If they are meant to be, push with --all-removals."
    assert len(push(desk, hub, namespace="/People", all_removals=True).removed) == 8
    assert len(pull(laptop, hub).created) == 19


def test_the_removal_of_a_few_or_of_forgotten_memories_is_sent(hub: Hub, desk: Vault) -> None:
    for number in range(3):
        save(desk, f"facts/{number}.md", f"Fact {number}.\n")
    for number in range(5):
        save(desk, f"notes/{number}.md", f"Note {number}.\n")
    push(desk, hub)
    shutil.rmtree(desk.root / "facts")
    for number in range(5):
        desk.forget(f"notes/{number}.md")
    report = push(desk, hub)

    assert report.problems == ()
    assert len(report.removed) == 8


def test_an_unreadable_file_is_not_taken_for_removed(hub: Hub, desk: Vault, shared: None) -> None:
    """Root can read everything, so a file that is too large takes the role of an unreadable one."""
    with (desk.root / "facts" / "tea.md").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    report = push(desk, hub)

    assert changes_in(report) == {}
    assert [problem.path for problem in report.problems] == ["facts/tea.md"]


# --- conflicts


def test_two_edits_of_one_memory_both_survive(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    save(desk, "facts/tea.md", "Desk.\n")
    save(laptop, "facts/tea.md", "Laptop.\n")
    push(desk, hub)
    held_back = push(laptop, hub)
    assert changes_in(held_back) == {"conflicts": [Conflict("facts/tea.md", "changed here and on the hub: pull first")]}

    report = pull(laptop, hub)
    [conflict] = report.conflicts
    assert (conflict.path, conflict.reason) == ("facts/tea.md", "changed here and on the hub")
    assert is_conflict_copy(conflict.copy)
    assert texts(laptop) | {"facts/tea.md": "Laptop.\n", conflict.copy: "Desk.\n"} == texts(laptop)
    assert [problem.path for problem in laptop.check()] == [conflict.copy]
    assert changes_in(pull(laptop, hub)) == {}, "a conflict is reported once; from then on it is in the files"


def test_a_resolved_conflict_is_resolved_everywhere(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    save(desk, "facts/tea.md", "Desk.\n")
    save(laptop, "facts/tea.md", "Laptop.\n")
    push(desk, hub)
    copy = pull(laptop, hub).conflicts[0].copy
    save(laptop, "facts/tea.md", "Desk. Laptop.\n")
    laptop.remove(copy)

    assert changes_in(push(laptop, hub)) == changes_in(pull(desk, hub)) == {"updated": ["facts/tea.md"]}
    assert data_by_path(desk) == data_by_path(laptop)


def test_an_unresolved_conflict_loses_nothing(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    save(desk, "facts/tea.md", "Desk.\n")
    save(laptop, "facts/tea.md", "Laptop.\n")
    push(desk, hub)
    copy = pull(laptop, hub).conflicts[0].copy
    push(laptop, hub)
    pull(desk, hub)

    assert data_by_path(desk) == data_by_path(laptop)
    assert texts(desk)["facts/tea.md"] == "Laptop.\n"
    assert texts(desk)[copy] == "Desk.\n"


def test_a_memory_removed_here_and_changed_on_the_hub_is_restored(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    save(desk, "facts/tea.md", "Desk.\n")
    push(desk, hub)
    laptop.remove("facts/tea.md")
    reason = "removed here and changed on the hub"
    assert changes_in(push(laptop, hub)) == {"conflicts": [Conflict("facts/tea.md", f"{reason}: pull first")]}

    assert pull(laptop, hub).conflicts == (Conflict("facts/tea.md", f"{reason}: restored"),)
    assert texts(laptop)["facts/tea.md"] == "Desk.\n"
    assert changes_in(push(laptop, hub)) == changes_in(pull(laptop, hub)) == {}


def test_a_memory_changed_here_and_removed_on_the_hub_is_kept(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    desk.remove("facts/tea.md")
    push(desk, hub)
    save(laptop, "facts/tea.md", "Laptop.\n")
    reason = "removed on the hub and changed here"

    assert pull(laptop, hub).conflicts == (Conflict("facts/tea.md", f"{reason}: kept"),)
    assert changes_in(push(laptop, hub)) == {"created": ["facts/tea.md"]}
    pull(desk, hub)
    assert data_by_path(desk) == data_by_path(laptop)


def test_a_push_without_a_pull_sends_a_memory_removed_on_the_hub_again(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    desk.remove("facts/tea.md")
    push(desk, hub)
    save(laptop, "facts/tea.md", "Laptop.\n")
    report = push(laptop, hub)

    assert report.conflicts == (Conflict("facts/tea.md", "removed on the hub and changed here: sent again"),)
    assert report.created == ("facts/tea.md",)


def test_two_new_memories_with_the_same_name_both_survive(hub: Hub, desk: Vault, laptop: Vault) -> None:
    save(desk, "facts/tea.md", "Desk.\n")
    save(laptop, "facts/tea.md", "Laptop.\n")
    push(desk, hub)
    copy = pull(laptop, hub).conflicts[0].copy

    assert (texts(laptop)["facts/tea.md"], texts(laptop)[copy]) == ("Laptop.\n", "Desk.\n")


def test_names_that_differ_in_case_are_one_memory_and_each_vault_keeps_its_spelling(
    hub: Hub, desk: Vault, laptop: Vault
) -> None:
    save(desk, "Facts/Tea.md", "Tea.\n")
    save(laptop, "facts/tea.md", "Tea.\n")
    push(desk, hub)
    assert changes_in(pull(laptop, hub)) == changes_in(push(laptop, hub)) == {}
    save(laptop, "facts/tea.md", "More tea.\n")
    push(laptop, hub)

    assert pull(desk, hub).updated == ("Facts/Tea.md",)
    assert texts(desk) == {"Facts/Tea.md": "More tea.\n"}


def test_two_files_that_differ_in_case_are_reported_and_kept(hub: Hub, desk: Vault) -> None:
    save(desk, "facts/Tea.md", "Upper.\n")
    save(desk, "facts/tea.md", "Lower.\n")
    report = push(desk, hub)

    assert report.created == ("facts/Tea.md",)
    assert [problem.reason for problem in report.problems] == [
        "not mirrored: the same name as facts/Tea.md but for case or normal form"
    ]


# --- files that are not UTF-8, invalid names


def test_files_that_are_not_utf8_are_replaced_in_both_directions(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    save(desk, "facts/tea.md", b"caf\xe9\n")
    push(desk, hub)
    assert changes_in(pull(laptop, hub)) == {"updated": ["facts/tea.md"]}
    save(desk, "facts/tea.md", "Coffee.\n")
    push(desk, hub)
    pull(laptop, hub)

    everything = data_by_path(laptop, archived=True)
    assert everything["facts/tea.md"] == b"Coffee.\n"
    assert everything["archive/facts/tea.md"] == b"Alice drinks tea.\n", "the old file is archived"
    assert everything["archive/facts/tea-2.md"] == b"caf\xe9\n"


def test_a_file_name_that_memfs_refuses_is_reported_by_every_pull_until_it_is_renamed(
    hub: Hub, desk: Vault, laptop: Vault
) -> None:
    save(desk, "facts/why?.md", "Because.\n")
    push(desk, hub)
    for _ in range(2):
        report = pull(laptop, hub)
        assert changes_in(report) == {}
        assert [str(problem) for problem in report.problems] == [
            "facts/why?.md:1: not pulled: the character '?' in a name"
        ]
    (desk.root / "facts" / "why?.md").rename(desk.root / "facts" / "why.md")
    push(desk, hub)
    report = pull(laptop, hub)

    assert changes_in(report) == {"created": ["facts/why.md"]}
    assert report.problems == ()


def test_paths_written_into_the_database_cannot_leave_the_vault(hub: Hub, desk: Vault, laptop: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")
    push(desk, hub)
    paths = "../out.md /etc/x.md facts/../../x.md sessions/s/x.md archive/x.md .git/x.md x README.md".split()
    for number, path in enumerate(paths, 2):
        hub.database.rows(
            "INSERT INTO memfs.files (key, path, seq, hash, id, data) VALUES (%s, %s, %s, sha256('x'), '', 'x')",
            path.lower(), path, number,
        )  # fmt: skip
        hub.database.rows("UPDATE memfs.hubs SET seq = %s", number)
    before = set(laptop.root.parent.rglob("*"))
    report = pull(laptop, hub)

    assert changes_in(report) == {"created": ["facts/tea.md"]}
    assert [problem.path for problem in report.problems] == sorted(paths)
    assert {problem.reason for problem in report.problems} == {"not pulled: its path is not the path of a memory"}
    new = {path for path in set(laptop.root.parent.rglob("*")) - before if ".memfs" not in path.parts}
    assert {path.relative_to(laptop.root).as_posix() for path in new} == {"facts", "facts/tea.md"}


def test_damaged_bytes_on_the_hub_are_not_pulled(hub: Hub, desk: Vault, laptop: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")
    push(desk, hub)
    hub.database.rows("UPDATE memfs.files SET data = 'Poison.'")
    report = pull(laptop, hub)

    assert data_by_path(laptop) == {}
    assert [problem.reason for problem in report.problems] == ["not pulled: its bytes on the hub are damaged"]


def test_a_file_on_the_hub_that_is_too_large_is_not_pulled(hub: Hub, desk: Vault, laptop: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")
    push(desk, hub)
    hub.database.rows("UPDATE memfs.files SET data = convert_to(repeat('x', 9000000), 'UTF8')")
    report = pull(laptop, hub)

    assert data_by_path(laptop) == {}
    assert [problem.reason for problem in report.problems] == ["not pulled: larger than 8 MiB"]


# --- the sync state


def test_the_sync_state_does_not_grow_with_the_number_of_changes(desk: Vault) -> None:
    hub, path = "0" * 36, desk.root / ".memfs" / "hub" / ("0" * 36)
    for turn in range(5):
        with open_vault_root(desk) as root, open_sync_state(root, hub) as state:
            for number in range(400):
                state.record([("tea.md", SyncedFile("tea.md", bytes([turn, number % 256] * 16), ""))])
            state.record_pull("", turn + 1, ())

    assert path.read_bytes().count(b"\n") < 1500
    with open_vault_root(desk) as root, open_sync_state(root, hub) as state:
        assert state.last_seq("facts/") == 5
        assert state.entries == {"tea.md": SyncedFile("tea.md", bytes([4, 143] * 16), "")}


def test_without_the_sync_state_everything_is_compared_and_nothing_lost(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    for vault in (desk, laptop):
        [log] = (vault.root / ".memfs" / "hub").iterdir()
        log.unlink()
    save(desk, "facts/tea.md", "Desk.\n")
    assert changes_in(push(desk, hub)) == {
        "conflicts": [Conflict("facts/tea.md", "changed here and on the hub: pull first")]
    }
    report = pull(desk, hub)

    assert report.unchanged == 2
    assert texts(desk)[report.conflicts[0].copy] == "Alice drinks tea.\n"
    assert texts(desk)["facts/tea.md"] == "Desk.\n"
    assert pull(laptop, hub).unchanged == 3


@pytest.mark.parametrize("damage", ["empty", "zeroed", "flipped", "torn", "another file"])
def test_a_damaged_sync_state_is_treated_as_missing(
    hub: Hub, desk: Vault, laptop: Vault, shared: None, damage: str
) -> None:
    [log] = (laptop.root / ".memfs" / "hub").iterdir()
    data = log.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    log.write_bytes(
        {
            "empty": b"", "zeroed": bytes(len(data)), "flipped": flipped, "torn": data[:-20],
            "another file": b"# Notes\n\nHello.\n",
        }[damage]
    )  # fmt: skip
    desk.remove("facts/sushi.md")
    save(desk, "facts/tea.md", "Desk.\n")
    push(desk, hub)
    pull(laptop, hub)
    push(laptop, hub)
    pull(desk, hub)

    assert data_by_path(desk) == data_by_path(laptop)
    assert {"Desk.\n", "Alice drinks tea.\n"} >= {texts(desk)["facts/tea.md"]}
    assert "Desk.\n" in texts(desk).values()


def test_a_sync_state_of_a_newer_version_is_refused_and_left_alone(hub: Hub, laptop: Vault, shared: None) -> None:
    [log] = (laptop.root / ".memfs" / "hub").iterdir()
    log.write_bytes(log.read_bytes().replace(b"hub 1", b"hub 2"))
    before = log.read_bytes()

    for act in (push, pull):
        with pytest.raises(NewerSchemaError, match="has schema version 2"):
            act(laptop, hub)
    assert log.read_bytes() == before


def test_each_hub_has_its_own_sync_state(hub: Hub, desk: Vault, laptop: Vault, shared: None, postgres: Server) -> None:
    postgres.run("DROP DATABASE IF EXISTS another WITH (FORCE)", "CREATE DATABASE another")
    with Hub(postgres.url(database="another")) as other:
        assert len(push(desk, other).created) == 3
        assert changes_in(push(desk, other)) == changes_in(push(desk, hub)) == {}
    assert len(list((desk.root / ".memfs" / "hub").iterdir())) == 2


def test_a_hub_restored_from_a_backup_is_compared_again(hub: Hub, desk: Vault, laptop: Vault, shared: None) -> None:
    save(desk, "facts/new.md", "New.\n")
    push(desk, hub)
    pull(laptop, hub)
    hub.database.rows("DELETE FROM memfs.files WHERE key = 'facts/new.md'")
    hub.database.rows("UPDATE memfs.hubs SET seq = 3")
    report = pull(laptop, hub)

    assert (changes_in(report), report.unchanged) == ({}, 3)
    assert "facts/new.md" in data_by_path(laptop)


def test_a_file_that_was_touched_is_read_and_not_sent(hub: Hub, desk: Vault, shared: None) -> None:
    age(desk)
    report = push(desk, hub)

    assert (changes_in(report), report.unchanged) == ({}, 3)


def test_an_edit_during_a_push_is_seen_by_the_next_push(hub: Hub, desk: Vault) -> None:
    """A file may change again within one clock tick, with the same size and stamp."""
    save(desk, "facts/tea.md", "one\n")
    push(desk, hub)
    path = desk.root / "facts" / "tea.md"
    before = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert before.st_mtime_ns > datetime.now(UTC).timestamp() * 1e9 - 10 * COARSE_RACY_NS
    assert push(desk, hub).updated == ("facts/tea.md",)


def test_a_memory_that_changes_during_a_pull_is_left_for_the_next_pull(
    hub: Hub, desk: Vault, laptop: Vault, shared: None
) -> None:
    """The progress callback of the first batch saves the file."""
    save(desk, "bulk/large.md", "x" * 7_000_000)
    save(desk, "zoo/last.md", "Desk.\n" + "y" * 2_000_000)
    push(desk, hub)

    def save_locally(done: int, total: int) -> None:
        if done < total:
            save(laptop, "zoo/last.md", "Laptop.\n")

    report = pull(laptop, hub, progress=save_locally)
    assert [problem.path for problem in report.problems] == ["zoo/last.md"]
    assert texts(laptop)["zoo/last.md"] == "Laptop.\n"
    [conflict] = pull(laptop, hub).conflicts
    assert texts(laptop)[conflict.copy].startswith("Desk.\n")


def test_two_pushes_of_one_vault_wait_for_each_other(hub: Hub, desk: Vault, postgres_url: str) -> None:
    for number in range(3):
        save(desk, f"bulk/{number}.md", "x" * 7_000_000)
    code = """
import sys
from memfs import Vault
from memfs.hub import pull, push
print(len(push(Vault(sys.argv[1]), sys.argv[2]).created))
"""
    others: list[subprocess.Popen[str]] = []

    def start(done: int, total: int) -> None:
        if not others:
            command = [sys.executable, "-c", code, str(desk.root), postgres_url]
            others.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))

    assert len(push(desk, hub, progress=start).created) == 3
    out, _ = others[0].communicate(timeout=60)
    assert out == "0\n"


# --- dry runs and errors


def test_a_dry_run_reports_and_changes_nothing(
    hub: Hub, desk: Vault, laptop: Vault, shared: None, snapshot: Snapshot
) -> None:
    save(desk, "facts/tea.md", "Desk.\n")
    save(desk, "facts/new.md", "New.\n")
    desk.move("people/bob.md", "team/bob.md")
    desk.remove("facts/sushi.md")
    rows = hub.database.rows("SELECT * FROM memfs.files ORDER BY key")
    preview = push(desk, hub, dry_run=True)
    assert rows == hub.database.rows("SELECT * FROM memfs.files ORDER BY key")
    assert changes_in(preview) == changes_in(push(desk, hub))

    save(laptop, "facts/tea.md", "Laptop.\n")
    before = snapshot(laptop.root)
    preview = pull(laptop, hub, dry_run=True)
    assert snapshot(laptop.root) == before
    assert changes_in(preview) == changes_in(pull(laptop, hub))


def test_a_dry_run_creates_no_hub(hub: Hub, desk: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")

    assert push(desk, hub, dry_run=True).created == ("facts/tea.md",)
    with pytest.raises(MissingTablesError):
        hub.status()


def test_a_pull_from_a_database_without_a_hub_is_an_error(hub: Hub, desk: Vault) -> None:
    with pytest.raises(MissingTablesError) as caught:
        pull(desk, hub)

    assert caught.value.hint == "Push to it first, or check the name of the database."


def test_a_hub_of_a_newer_version_is_refused(hub: Hub, desk: Vault, shared: None) -> None:
    hub.database.rows("UPDATE memfs.schema_versions SET version = 99")

    for act in (push, pull):
        with pytest.raises(NewerSchemaError, match="has schema version 99"):
            act(desk, hub)


def test_a_database_with_another_encoding_is_refused(postgres: Server, desk: Vault) -> None:
    postgres.run(
        "DROP DATABASE IF EXISTS latin WITH (FORCE)",
        "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'",
    )
    with (
        Hub(postgres.url(database="latin")) as hub,
        pytest.raises(StoreUnavailableError, match="LATIN1, not UTF8") as caught,
    ):
        push(desk, hub)

    assert "ENCODING 'UTF8'" in caught.value.hint


def test_a_push_of_a_read_only_vault_is_a_clear_error(hub: Hub, desk: Vault) -> None:
    save(desk, "facts/tea.md", "Tea.\n")
    subprocess.run(["mount", "--bind", "-o", "ro", desk.root, desk.root], check=True)
    try:
        with pytest.raises(ReadOnlyError, match=r"\.memfs/hub: not writable"):
            push(desk, hub)
    finally:
        subprocess.run(["umount", desk.root], check=True)
