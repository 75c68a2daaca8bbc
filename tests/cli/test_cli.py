"""The basic commands, run by `main` on a copy of the example vault."""

import json
import os
import re
from pathlib import Path

import pytest
from support.commands import Memfs
from support.files import Snapshot

from memfs import Vault
from memfs.cli.main import split_at_command

# --- finding the vault


def test_the_nearest_parent_is_the_vault(memfs: Memfs, example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example / "facts" / "alice")

    assert memfs("read", "people/bob", "--json").value["path"] == "people/bob.md"


def test_the_vault_option_overrides_the_environment(
    memfs: Memfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Vault.init(tmp_path / "other").add("Only here.")
    monkeypatch.setenv("MEMFS_VAULT", str(tmp_path / "example"))
    monkeypatch.chdir("/")

    assert len(memfs("list", "--json").value) == 43
    assert memfs("--vault", str(tmp_path / "other"), "list", "--paths").out == "only-here.md\n"
    assert memfs("list", f"--vault={tmp_path / 'other'}", "--paths").out == "only-here.md\n"


def test_no_vault_is_a_usage_error_that_says_how_to_make_one(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    ran = memfs("list")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: /: no vault here\nhint: Make one with `memfs init DIR`")


def test_the_error_names_memfs_vault_if_it_names_no_vault(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFS_VAULT", "/nope")

    assert memfs("list").err == (
        "memfs: /nope: no vault here\n"
        "hint: MEMFS_VAULT names it: set it to a vault, unset it, or name one with --vault DIR.\n"
    )
    assert "hint: Make one with" in memfs("list", "--vault", "/nope").err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("add", " "), "Give a text with at least one word."),
        (("scan", "--staged"), "Run it in a vault that is in a git repository, or scan without --staged."),
        (("eval", "--file", "nope.yaml"), "Check the name; a relative path starts at the current directory."),
        (("eval", "--file", "people"), "Name a file."),
        (
            ("strategies", "run", "s", "--script", "nope"),
            "Check the name; a relative path starts at the current directory.",
        ),
        (("strategies", "run", "s", "--script", "README.md"), "Write a JSON array of a model's replies, such as "),
        (
            ("strategies", "run", "s", "--model", "nope:x"),
            "Name an object of a module that Python finds here, ",
        ),
    ],
)
def test_a_hint_says_what_to_do(memfs: Memfs, words: tuple[str, ...], hint: str) -> None:
    ran = memfs(*words)

    assert ran.code in {1, 2}
    assert ran.err.splitlines()[1].startswith(f"hint: {hint}")


def test_settings_of_a_later_version_need_a_later_memfs(memfs: Memfs, example: Path) -> None:
    (example / "memfs.yaml").write_text("version: 9\n")

    assert memfs("list").err.splitlines() == [
        "memfs: memfs.yaml: version 9 was made by a newer memfs; this one knows up to 1",
        "hint: Install a later memfs: pip install --upgrade memfs-vault.",
    ]


def test_options_before_the_command_are_split_off() -> None:
    assert split_at_command(["--vault", "add", "--json", "read", "x"]) == (["--vault", "add", "--json"], "read", ["x"])
    assert split_at_command(["--json"]) == (["--json"], "", [])


# --- init


def test_init_changes_no_existing_file(memfs: Memfs, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "tea.md").write_text("Tea.\n")
    (tmp_path / "old" / ".gitignore").write_text("*.tmp\n")
    ran = memfs("init", str(tmp_path / "old"))

    assert ran.code == 0
    assert "added: memfs.yaml, .gitattributes, .memfs/\n" in ran.out
    assert ".gitignore exists and was not changed; these lines should be added:\n  .memfs/\n" in ran.out
    assert "It holds 1 memory already." in ran.out
    assert (tmp_path / "old" / ".gitignore").read_text() == "*.tmp\n"
    assert (tmp_path / "old" / "tea.md").read_text() == "Tea.\n"


def test_init_in_a_vault_reports_that_nothing_changed(memfs: Memfs) -> None:
    memfs("init")
    ran = memfs("init", "--json")

    assert ran.value == {"vault": os.getcwd(), "added": [], "lacking": {}, "memories": 43}
    assert "is a vault already; nothing changed" in memfs("init").out


def test_init_inside_a_vault_is_refused(
    memfs: Memfs, example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    before = snapshot(example)
    ran = memfs("init", "people/work")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"memfs: init: people/work is in the vault {example}",
        "hint: It is the namespace /people/work there; a separate vault must be outside.",
    ]
    monkeypatch.chdir(example / "people")
    assert memfs("init").code == 2
    assert memfs("init", "..").code == 0
    assert memfs("init", str(tmp_path / "beside")).code == 0
    assert snapshot(example, ".memfs") == {path: seen for path, seen in before.items() if not path.startswith(".memfs")}


def test_an_empty_directory_name_is_a_usage_error(
    memfs: Memfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for words in (("init", ""), ("init", "--vault", ""), ("list", "--vault", "")):
        ran = memfs(*words)
        assert (ran.code, ran.out) == (2, "")
        assert "empty" in ran.err
    assert list((tmp_path / "empty").iterdir()) == []


def test_init_on_a_file_is_an_error(memfs: Memfs) -> None:
    ran = memfs("init", "README.md")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "memfs: README.md: is a file\nhint: Name a directory, new or existing.\n"


# --- add, append, update


def test_add_prints_the_outcome_and_the_path(memfs: Memfs) -> None:
    assert memfs("add", "Emma", "sings.", "-n", "/facts/emma").out == "created facts/emma/emma-sings.md\n"
    assert memfs("add", "Emma sings.", "-n", "facts/emma").out == "duplicate of facts/emma/emma-sings.md\n"


def test_add_writes_the_given_header_keys(memfs: Memfs) -> None:
    words = ("--type", "fact", "--tag", "a", "--tag", "b", "--title", "2026", "--importance", "4")
    added = memfs("add", "x", *words, "--set", "pinned=true", "--set", "floor=4", "--set", "room=007", "--json").value
    header = memfs("read", added["id"], "--json").value["header"]

    assert list(added) == ["id", "path", "outcome", "stamp"]
    assert header.pop("created")[-1] == "Z"
    assert header == {
        "id": added["id"], "type": "fact", "tags": ["a", "b"], "title": "2026", "importance": 4,
        "pinned": True, "floor": 4, "room": "007",
    }  # fmt: skip


def test_add_of_a_duplicate_reports_the_keys_it_does_not_change(memfs: Memfs) -> None:
    words = ("add", "Tea is hot.", "--tag", "Drinks", "--importance", "3", "--type", "fact")
    memfs(*words)
    again = memfs("add", "Tea is hot.", "--tag", "drinks", "--tag", "tea", "--title", "Tea", "--importance", "3")

    assert (again.code, again.out) == (0, "duplicate of tea-is-hot.md\n")
    assert again.err == "note: its tags and title were not changed; `memfs update tea-is-hot.md` changes them\n"
    assert memfs(*words).err == ""
    assert memfs("add", "Tea is hot.", "--type", "note", "--json").err == ""


def test_a_repeated_tag_is_stored_once(memfs: Memfs) -> None:
    memfs("add", "Tea is hot.", "--tag", "Lyon", "--tag", "food", "--tag", "lyon")
    memfs("update", "tea-is-hot", "--tag", "LYON", "--untag", "FOOD", "--tag", "tea")

    assert memfs("read", "tea-is-hot", "--json").value["header"]["tags"] == ["Lyon", "tea"]


def test_an_empty_tag_is_a_usage_error(memfs: Memfs) -> None:
    for words in (("add", "Tea.", "--tag", ""), ("update", "people/bob", "--untag", " "), ("search", "x", "--tag", "")):
        ran = memfs(*words)
        assert (ran.code, ran.out) == (2, "")
        assert "a tag cannot be empty" in ran.err


def test_a_template_takes_the_actor_of_the_environment_or_the_settings(
    memfs: Memfs, example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = memfs("add", "x", "-n", "/facts/{actorId}")
    (example / "memfs.yaml").write_text("version: 1\nactor: emma\n")
    by_setting = memfs("add", "x", "-n", "/facts/{actorId}")
    monkeypatch.setenv("MEMFS_ACTOR", "yuki")
    by_environment = memfs("add", "x", "-n", "/facts/{actor_id}")

    assert (missing.code, missing.err.splitlines()[1][:21]) == (2, "hint: Set MEMFS_ACTOR")
    assert by_setting.out == "created facts/emma/x.md\n"
    assert by_environment.out == "created facts/yuki/x.md\n"


def test_append_adds_a_line(memfs: Memfs, example: Path) -> None:
    assert memfs("append", "people/emma", "Sings", "alto.").out == "updated people/emma.md\n"
    assert (example / "people/emma.md").read_text().endswith("\nSings alto.\n")


def test_update_changes_keys_tags_and_body(memfs: Memfs) -> None:
    words = ("--set", "importance=9", "--set", "aliases=Em, Emmy", "--unset", "role", "--tag", "x", "--untag", "lyon")
    assert memfs("update", "people/alice", *words, "--body", "New.").code == 0
    read = memfs("read", "people/alice", "--json").value

    assert read["body"] == "New."
    assert read["header"]["importance"] == 9
    assert read["header"]["aliases"] == ["Em", "Emmy"]
    assert read["header"]["tags"] == ["meridian", "x"]
    assert "role" not in read["header"]


def test_update_without_a_change_is_a_usage_error(memfs: Memfs) -> None:
    assert memfs("update", "people/alice").code == 2


def test_update_with_an_old_stamp_is_a_conflict(memfs: Memfs, example: Path) -> None:
    seen = memfs("read", "people/alice", "--json").value["stamp"]
    first = memfs("update", "people/alice", "--tag", "x", "--seen", seen)
    second = memfs("update", "people/alice", "--tag", "y", "--seen", seen)

    assert (first.code, second.code) == (0, 3)
    assert second.err.startswith("memfs: people/alice.md: changed on disk since it was read\nhint: ")
    assert "  - y\n" not in (example / "people/alice.md").read_text()


@pytest.mark.parametrize("key", ["body", "seen", "ref", "text", "namespace", "self", "id", "a b"])
def test_a_key_that_cannot_be_set_is_refused(memfs: Memfs, key: str) -> None:
    assert memfs("update", "people/alice", "--set", f"{key}=x").code == 2
    assert memfs("add", "x", "--set", f"{key}=x").code == 2


# --- reading


def test_read_finds_a_memory_by_path_id_and_file(memfs: Memfs, example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example / "people")
    ids = {
        memfs("read", ref, "--json").value["id"]
        for ref in (
            "people/alice",
            "/people/alice.md",
            "./alice.md",
            "../people/alice.md",
            f"{example}/people/alice.md",
        )
    }

    assert len(ids) == 1
    assert memfs("read", ids.pop(), "--json").value["path"] == "people/alice.md"


def test_read_prints_the_file_unchanged(memfs: Memfs, example: Path) -> None:
    assert memfs("read", "people/alice").out.encode() == (example / "people/alice.md").read_bytes()
    assert memfs("read", "notes/dentist", "--body").out.startswith("Dr Faure")


def test_read_json_has_stable_keys(memfs: Memfs) -> None:
    value = memfs("read", "notes/dentist", "--json").value

    assert list(value) == ["id", "path", "namespace", "header", "title", "body", "stamp", "problems"]
    assert value["header"] == {"tags": ["health"], "created": "2026-11-02"}
    assert list(value["problems"][0]) == ["path", "line", "reason", "key", "value", "hint"]


def test_read_of_a_missing_memory_is_exit_code_1(memfs: Memfs) -> None:
    ran = memfs("read", "people/nobody")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "memfs: 'people/nobody': no such memory\nhint: See what there is with `memfs list`.\n"


def test_errors_are_json_too(memfs: Memfs) -> None:
    for words in (("read", "nobody", "--json"), ("--json", "read", "nobody"), ("read", "--json"), ("--json", "nix")):
        assert list(json.loads(memfs(*words).err)) == ["error", "hint", "exit_code"]


def test_check_prints_problems_and_ends_with_1(memfs: Memfs, example: Path) -> None:
    found = memfs("check")
    slip = example / "notes/dentist.md"
    slip.write_text(slip.read_text(encoding="utf-8").replace("high", "8"), encoding="utf-8")
    clean = memfs("check")

    reason = "importance: 'high' is not a whole number from 1 to 10"
    assert found == (1, f"notes/dentist.md:4: {reason}\n1 problem in 45 memories, 2 of them in archive/\n", "")
    assert clean == (0, "no problems in 45 memories, 2 of them in archive/\n", "")
    assert memfs("check", "/people", "--json").value == {"memories": 7, "archived": 0, "problems": [], "orphans": 0}


def test_check_indents_the_hint(memfs: Memfs, example: Path) -> None:
    (example / "people/twin.md").write_bytes((example / "people/bob.md").read_bytes())

    assert (
        "people/twin.md:1: the same id as people/bob.md\n    Delete the `id` line of one of them.\n"
        in memfs("check").out
    )


# --- listing


def test_list_is_a_tree_with_counts_and_titles(memfs: Memfs) -> None:
    lines = memfs("list").out.splitlines()

    assert lines[0] == "/ (43)"
    assert "├── people (7)" in lines
    assert "│   ├── alice.md   Alice Moreau" in lines
    assert lines[-2:] == ["", "43 memories"]


def test_list_json_has_stable_keys(memfs: Memfs) -> None:
    first = memfs("list", "/people", "--json", "--limit", "1").value[0]

    assert list(first) == [
        "id", "path", "namespace", "type", "title", "tags", "importance", "created", "updated", "stamp",
    ]  # fmt: skip
    assert first["namespace"] == "/people"


def test_a_limited_tree_counts_all_memories(memfs: Memfs) -> None:
    lines = memfs("list", "--limit", "2").out.splitlines()

    assert lines[:3] == ["/ (43)", "└── episodes (2)", "    └── alice (2)"]
    assert lines[-1] == "43 memories, 41 not shown"
    cut = memfs("list", "/facts", "--limit", "1").out.splitlines()
    assert cut[:2] == ["/facts (15)", "└── alice (7)"]


def test_list_with_a_limit_reports_how_many_are_not_shown(memfs: Memfs) -> None:
    assert memfs("list", "/people", "--table", "--limit", "2").out.endswith("\n7 memories, 5 not shown\n")
    assert memfs("list", "/people", "--limit", "0").code == 2


def test_list_includes_the_archive_on_request(memfs: Memfs) -> None:
    assert "archive" not in memfs("list").out
    assert "archive/facts/alice/learns-ukulele.md" in memfs("list", "/facts", "--archived", "--paths").out
    assert memfs("list", "/facts", "--archived").out.startswith("/ (17)\n")
    assert memfs("list", "/archive").out.startswith("/archive (2)\n")


def test_list_without_results_is_exit_code_1(memfs: Memfs) -> None:
    hint = "hint: There is no such namespace; see what there is with `memfs list`.\n"
    assert memfs("list", "/nowhere") == (1, "", f"no memories in /nowhere\n{hint}")
    assert memfs("list", "/nowhere", "--json") == (1, "[]\n", "")


def test_list_of_an_empty_namespace_does_not_call_it_missing(memfs: Memfs, example: Path) -> None:
    (example / "empty").mkdir()

    assert memfs("list", "/empty") == (1, "", "no memories in /empty\n")


@pytest.mark.parametrize("command", ["stats", "audit", "prune", "check", "rotate --from a --to b"])
def test_a_missing_namespace_is_an_error(memfs: Memfs, command: str) -> None:
    ran = memfs(*command.split(), "/fatcs")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == ("memfs: '/fatcs': no such namespace in this vault\nhint: See what there is with `memfs list`.\n")
    assert memfs(*command.split(), "/fatcs", "--json").out == ""


@pytest.mark.parametrize("command", ["stats", "audit", "prune", "check"])
def test_namespaces_in_another_case_empty_or_archived_are_found(memfs: Memfs, example: Path, command: str) -> None:
    (example / "empty").mkdir()
    (example / "archive/gone").mkdir()

    for namespace in ("/Facts/ALICE", "/empty", "/gone", "/"):
        assert memfs(command, namespace).out


def test_list_takes_one_output_format(memfs: Memfs) -> None:
    assert memfs("list", "--tree", "--table").code == 2


# --- move, forget, remove, versions, restore


def test_move_takes_a_namespace_or_a_path(memfs: Memfs) -> None:
    assert memfs("move", "people/emma", "/family").out == "moved to family/emma.md\n"
    assert memfs("move", "family/emma", "people/emma-m.md").out == "moved to people/emma-m.md\n"
    assert memfs("move", "people/emma-m", "people/bob.md").code == 3


def test_move_refuses_a_target_with_another_file_extension(memfs: Memfs, example: Path) -> None:
    ran = memfs("move", "people/bob", "bob.txt")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "memfs: move: 'bob.txt': the name of a memory ends in .md",
        "hint: Name it bob.md; for a namespace, write bob.txt/ with a slash.",
    ]
    assert memfs("move", "people/bob", "bob.txt/").out == "moved to bob.txt/bob.md\n"
    assert memfs("move", "people/yuki", "/bob.txt").out == "moved to bob.txt/yuki.md\n"
    assert memfs("move", "people/emma", "/v1.2").out == "moved to v1.2/emma.md\n"


def test_forget_goes_on_after_a_failure(memfs: Memfs, example: Path) -> None:
    ran = memfs("forget", "people/nobody", "people/emma", "--json")

    assert ran.code == 1
    assert [written["path"] for written in ran.value] == ["archive/people/emma.md"]
    assert json.loads(ran.err)["error"] == "'people/nobody': no such memory"
    assert not (example / "people/emma.md").exists()


def test_remove_without_a_terminal_needs_yes(memfs: Memfs, example: Path) -> None:
    refused = memfs("remove", "people/emma")
    still_exists = (example / "people/emma.md").exists()
    done = memfs("remove", "people/emma", "people/yuki", "--yes")

    assert (refused.code, refused.out, still_exists) == (2, "", True)
    assert "hint: Repeat with --yes.\n" in refused.err
    assert done.out == "removed people/emma.md\nremoved people/yuki.md\n"


def test_versions_are_listed_and_restored(memfs: Memfs, example: Path) -> None:
    before = (example / "people/emma.md").read_text()
    memfs("append", "people/emma", "Sings alto.")
    versions = memfs("versions", "people/emma", "--json").value
    listed = memfs("restore", "people/emma", "--list").out
    (example / "people/emma.md").unlink()
    restored = memfs("restore", "people/emma", "--version", versions[1]["hash"][:6])

    assert [list(version) for version in versions] == [["hash", "time", "size", "current"]] * 2
    assert [version["current"] for version in versions] == [True, False]
    assert versions[0]["hash"] in listed
    assert "just now" in listed
    assert restored.out == "restored people/emma.md\n"
    assert (example / "people/emma.md").read_text() == before


def test_no_versions_is_exit_code_1(memfs: Memfs) -> None:
    ran = memfs("versions", "people/emma")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("no kept versions of people/emma")
    assert memfs("restore", "people/emma").code == 1


# --- usage


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",), ("--nonsense", "list"), ("list", "--nonsense"), ("list", "--tabl"), ("read",),
        ("read", "a", "b"),
        ("add", "x", "--set", "novalue"), ("add", "x", "--importance", "many"), ("add", "x", "--importance", "11"),
        ("add", "x", "-n", "/../x"), ("add", " "), ("completion", "tcsh"), ("help", "nonsense"),
    ],
)  # fmt: skip
def test_a_mistake_is_exit_code_2_without_output(memfs: Memfs, words: tuple[str, ...]) -> None:
    ran = memfs(*words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: ")
    assert "\nhint: " in ran.err


def test_a_misspelled_command_gets_a_suggestion(memfs: Memfs) -> None:
    assert memfs("lsit").err == "memfs: 'lsit': no such command\nhint: Did you mean `memfs list`?\n"


def test_every_command_has_help_with_an_example(memfs: Memfs) -> None:
    names = re.findall(r"(?m)^  (\S+)", memfs("--help").out)

    assert len(names) >= 14
    for name in names:
        ran = memfs(name, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert "\nexample:\n  " in ran.out
        assert f"memfs {name}" in ran.out.partition("\nexample:\n")[2]
        assert memfs("help", name).out == ran.out


def test_without_a_command_the_help_is_a_usage_error(memfs: Memfs) -> None:
    ran = memfs()

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == memfs("--help").out
    assert memfs("--json").code == memfs("--vault").code == memfs("--nonsense").code == 2


def test_text_after_two_dashes_may_look_like_an_option(memfs: Memfs) -> None:
    added = memfs("add", "-n", "/raw", "--", "--json", "-x")

    assert added.out == "created raw/json-x.md\n"
    assert memfs("read", "raw/json-x", "--body").out == "--json -x\n"
