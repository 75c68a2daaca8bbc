"""Mistakes on the command line: each gets a clear message and a hint that helps."""

import json
import re
import shlex
from pathlib import Path

import pytest
from support.commands import Memfs
from support.files import Snapshot

from memfs import Vault
from memfs.cli.parser import COMMANDS_BY_NAME, SYNONYMS, with_vault_option

# --- empty texts


@pytest.mark.parametrize("body", ["", "  "])
def test_an_empty_body_is_refused_like_an_empty_text(memfs: Memfs, example: Path, body: str) -> None:
    before = (example / "people/bob.md").read_bytes()
    ran = memfs("update", "people/bob", "--body", body, "--tag", "x")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: text: is empty\n")
    assert ran.err == memfs("append", "people/bob", body).err
    assert (example / "people/bob.md").read_bytes() == before


# --- missing versions


def test_restore_without_a_matching_version_is_an_error_with_a_hint(memfs: Memfs) -> None:
    hint = "hint: List the kept versions with `memfs versions`; memfs keeps one when it writes.\n"

    assert memfs("restore", "people/alice") == (
        1, "", f"memfs: people/alice.md: no kept version differs from the file\n{hint}"
    )  # fmt: skip
    assert memfs("restore", "people/alice", "--version", "3f9a") == (
        1, "", f"memfs: people/alice.md: no kept version begins with '3f9a'\n{hint}"
    )  # fmt: skip


# --- conditions


def test_an_unknown_key_of_sessions_is_refused_with_the_known_keys(memfs: Memfs) -> None:
    ran = memfs("sessions", "--where", "foo = 1")
    keys = "session, actor, agents, messages, created, updated, path, actors"

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"memfs: sessions: --where: 'foo' is no key of a session; keys: {keys}\n")
    assert memfs("sessions", "--where", "actor = alice").code == 0
    assert memfs("sessions", "show", "s-2026-11-15", "--where", "foo = 1").code != 2


# --- commands and options


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("get", "read"), ("cat", "read"), ("show", "read"), ("find", "search"), ("rm", "remove"), ("Delete", "remove"),
        ("new", "add"), ("SEARCH", "search"), ("Lsit", "list"), ("mv", "move"), ("expalin-miss", "explain-miss"),
    ],
)  # fmt: skip
def test_a_command_name_of_another_program_or_in_capitals_gets_a_suggestion(
    memfs: Memfs, word: str, command: str
) -> None:
    ran = memfs(word, "people/bob")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"memfs: {word!r}: no such command\nhint: Did you mean `memfs {command}`?\n"


def test_synonyms_name_commands_and_are_none_themselves() -> None:
    assert COMMANDS_BY_NAME.keys() >= set(SYNONYMS.values())
    assert COMMANDS_BY_NAME.keys().isdisjoint(SYNONYMS)


@pytest.mark.parametrize(
    ("words", "wrong", "right"),
    [
        (("list", "--limt", "3"), "--limt", "--limit"), (("search", "tea", "--limt=3"), "--limt", "--limit"),
        (("list", "--Tabel"), "--Tabel", "--table"), (("--jsn", "list"), "--jsn", "--json"),
        (("add", "tea", "--importence", "3"), "--importence", "--importance"),
    ],
)  # fmt: skip
def test_a_misspelled_option_gets_a_suggestion(memfs: Memfs, words: tuple[str, ...], wrong: str, right: str) -> None:
    ran = memfs(*words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(f": no such option: {wrong}\nhint: Did you mean `{right}`?\n")


def test_an_option_similar_to_none_gets_no_suggestion(memfs: Memfs) -> None:
    assert memfs("list", "--qq").err == "memfs: list: no such option: --qq\nhint: See `memfs list --help`.\n"
    assert memfs("list", "-q").err == "memfs: list: no such option: -q\nhint: See `memfs list --help`.\n"
    assert memfs("list", "a", "b", "--", "--c").err.startswith("memfs: list: unexpected arguments: b --c\n")


@pytest.mark.parametrize("line", ["--vault", "list --vault", "--vault '' list", "--vault= list"])
def test_an_empty_vault_option_is_a_usage_error(memfs: Memfs, line: str) -> None:
    ran = memfs(*shlex.split(line))

    assert (ran.code, ran.out) == (2, "")
    assert "--vault: " in ran.err
    assert ran.err.count("\n") == 2


def test_a_command_read_as_the_vault_is_explained(memfs: Memfs) -> None:
    assert memfs("--vault", "list").err == (
        "memfs: --vault: no command: 'list' was read as the directory\n"
        "hint: Name the vault before the command: `memfs --vault DIR list`.\n"
    )


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--limit", "0", "a whole number from 1 to 1000"), ("--limit", "5000", "a whole number from 1 to 1000"),
        ("--limit", "9" * 5000, "a whole number from 1 to 1000"), ("--offset", "-1", "a whole number from 0 to 10000"),
        ("--offset", "10001", "a whole number from 0 to 10000"), ("--min-relevance", "7", "a number from 0 to 1"),
    ],
)  # fmt: skip
def test_numbers_out_of_range_all_get_the_same_message(memfs: Memfs, option: str, value: str, allowed: str) -> None:
    ran = memfs("search", "tea", option, value)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"memfs: search: argument {option}: {value!r} is not {allowed}\nhint: See `memfs search --help`.\n"
    )


# --- namespaces


@pytest.mark.parametrize(
    "command", ["list --paths", "check", "stats --at 2026-11-17", "audit", "prune --at 2030-01-01"]
)
@pytest.mark.parametrize("option", ["-n", "--namespace"])
def test_every_command_takes_the_namespace_as_an_option(memfs: Memfs, command: str, option: str) -> None:
    ran = memfs(*command.split(), option, "/facts/bob")

    assert ran == memfs(*command.split(), "/facts/bob")
    assert ran != memfs(*command.split())
    twice = memfs(*command.split(), "/facts", option, "/facts/bob")
    assert twice.code == 2
    assert twice.err.startswith(f"memfs: {command.partition(' ')[0]}: two namespaces: '/facts' and '/facts/bob'\n")


def test_scan_takes_namespaces_as_options(memfs: Memfs) -> None:
    assert memfs("scan", "-n", "/facts/bob", "-n", "/people") == memfs("scan", "/facts/bob", "/people")


def test_list_has_the_type_and_tag_filters_of_a_search(memfs: Memfs) -> None:
    facts = memfs("list", "--type", "fact", "--paths").out.splitlines()
    both = memfs("list", "--type", "fact", "--type", "person", "--paths").out.splitlines()
    tagged = memfs("list", "-n", "/people", "--tag", "MERIDIAN", "--tag", "tokyo", "--paths").out.splitlines()

    assert "facts/bob/allergic-to-peanuts.md" in facts
    assert "facts/alice/climbing-hall-pass.md" in facts  # expired: a list hides nothing
    assert {"people/bob.md", *facts} < set(both)
    assert tagged == ["people/yuki.md"]
    assert memfs("list", "--tag", "nothing") == (1, "", "no memories in /\nhint: Leave out --type or --tag.\n")


# --- commands to copy


@pytest.mark.parametrize("name", ["my notes", "-x", "it's"])
def test_the_next_steps_of_init_can_be_copied(
    memfs: Memfs, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [line for line in memfs("init", "--", name).out.splitlines() if line.startswith("  memfs ")]

    assert len(steps) == 2
    for step in steps:
        assert memfs(*shlex.split(step)[1:]).code == 0
    assert [memory.path for memory in Vault(tmp_path / name).list()] == [
        "preferences/alice/alice-likes-sushi-with-tuna.md"
    ]


@pytest.mark.parametrize("name", ["my notes", "-x"])
def test_suggested_commands_contain_the_given_vault_and_can_be_copied(
    memfs: Memfs, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Vault.init(tmp_path / name)
    (tmp_path / name / "old pass.md").write_text("---\nexpires: 2020-01-02\n---\nThe pass.\n")
    Vault(tmp_path / name).add("Faded.", created="2020-01-01")

    audited = memfs(f"--vault={name}", "audit", "--kind", "stale").out.splitlines()
    forget = next(line.strip() for line in audited if " forget " in line)
    assert memfs(*shlex.split(forget)[1:]).out == "archived as archive/old pass.md\n"
    again = memfs("prune", f"--vault={name}").out.partition("`memfs ")[2].partition("`")[0]
    assert memfs(*shlex.split(again)).out.startswith("archived as archive/faded.md\n")
    missing = memfs("read", "qqq", f"--vault={name}")
    listed = missing.err.partition("`memfs ")[2].partition("`")[0]
    assert memfs(*shlex.split(listed)).err == "no memories in /\n"
    assert json.loads(memfs("read", "qqq", f"--vault={name}", "--json").err)["hint"] in missing.err


@pytest.mark.parametrize(
    "line",
    [
        "stats --at 2027-08-01", "doctor", "graph", "check", "expire 1", "prune --at 2027-08-01", "audit", "scan",
        "list /nope", "check /nope", "search tea -n /nope", "sessions show nope", "restore people/bob",
        "status",
    ],
)  # fmt: skip
def test_every_message_that_suggests_a_command_contains_the_vault(memfs: Memfs, example: Path, line: str) -> None:
    (example / "notes" / "ask.md").write_text("Ask [[nobody]]. The password for staging is hunter2-x9.\n")
    (example / "notes" / "alone.md").write_text("Alone.\n")
    without = memfs(*line.split())
    named = memfs("--vault", "../example", *line.split())

    commands = "|".join(COMMANDS_BY_NAME)
    suggested = re.findall(rf"memfs (?:{commands})\b", without.out + without.err)
    assert suggested
    assert not re.findall(rf"memfs (?:{commands})\b", named.out + named.err)
    assert len(re.findall(r"memfs --vault \.\./example [a-z]", named.out + named.err)) == len(suggested)


def test_only_commands_on_a_vault_get_the_vault_option() -> None:
    text = "`memfs init DIR`, `memfs list --help`, memfs keeps one, `memfs keygen`, `memfs --help`"

    assert with_vault_option(text, "notes") == text
    assert with_vault_option("`memfs list /a`", None) == "`memfs list /a`"
    assert (
        with_vault_option("then: memfs forget 'a b.md'", "my notes") == "then: memfs --vault 'my notes' forget 'a b.md'"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("add", "Tea.", "-n", ""), ("search", "tea", "-n", ""), ("prune", "", "--yes"), ("prune", "-n", "", "--yes"),
        ("move", "people/bob", ""), ("scan", "-n", ""), ("list", "--", ""), ("rotate", "--from=a", "--to=b", "-n", ""),
    ],
)  # fmt: skip
def test_an_empty_namespace_is_not_the_whole_vault(
    memfs: Memfs, example: Path, snapshot: Snapshot, words: tuple[str, ...]
) -> None:
    before = snapshot(example)
    ran = memfs(*words)

    assert (ran.code, ran.out) == (2, "")
    assert "the name of a namespace cannot be empty; / is the whole vault" in ran.err
    assert snapshot(example) == before


def test_arguments_after_two_dashes_are_parsed_as_before_them(memfs: Memfs, example: Path) -> None:
    assert memfs("expire", "--", "1").out == memfs("expire", "1").out
    assert memfs("list", "--", "/people").out == memfs("list", "/people").out


# --- missing memories


@pytest.mark.parametrize(
    ("ref", "hint"),
    [
        ("bob", "Did you mean people/bob.md?"), ("BOB.md", "Did you mean people/bob.md?"),
        ("Bob Tanaka", "Did you mean people/bob.md?"), ("bob tanka", "Did you mean people/bob.md?"),
        ("people/bbo", "Did you mean people/bob.md?"), ("peple/bob", "Did you mean people/bob.md?"),
        ("pepole/yuky", "Did you mean people/yuki.md?"),
        ("notes/climbing-routes", "Did you mean notes/climbing routes.md?"),
        ("learns-ukulele", "Did you mean archive/facts/alice/learns-ukulele.md?"),
        ("facts/alice/learns-ukulele",
         "It is archived: `memfs move archive/facts/alice/learns-ukulele.md /facts/alice` brings it back."),
        ("people", "It is a namespace: `memfs list /people` shows its memories."),
        ("/Facts/alice/", "It is a namespace: `memfs list /facts/alice` shows its memories."),
        *[(ref, "See what there is with `memfs list`.") for ref in ("qqq", f"m-{'0' * 26}", "../..", "a\0b", "")],
        ("x" * 5000, "See what there is with `memfs list`."), ("sessions", "See what there is with `memfs list`."),
        ("archive", "It is a namespace: `memfs list /archive` shows its memories."),
        ("Claire D.", "Did you mean people/claire.md?"), ("佐藤ゆき", "Did you mean people/yuki.md?"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["read", "forget"])
def test_a_missing_memory_gets_a_suggestion(memfs: Memfs, command: str, ref: str, hint: str) -> None:
    ran = memfs(command, ref)

    assert (ran.code, ran.out.strip("[]\n")) == (1, "")
    assert ran.err.endswith(f": no such memory\nhint: {hint}\n")


def test_the_hint_for_an_archived_memory_brings_it_back(memfs: Memfs) -> None:
    memfs("forget", "people/bob")
    messages = [memfs(command, "people/bob").err for command in ("read", "versions", "restore")]
    hint = messages[0].partition("`memfs ")[2].partition("`")[0]

    assert len(set(messages)) == 1
    assert memfs(*shlex.split(hint)).out == "moved to people/bob.md\n"


def test_invalid_aliases_do_not_crash(memfs: Memfs, example: Path) -> None:
    (example / "odd.md").write_text("---\naliases: {a: 3}\ntitle: 7\n---\nOdd.\n")
    (example / "torn.md").write_bytes(b"\xff\xfe\n---\naliases: [")

    assert memfs("read", "Alice Morau").err.endswith("hint: Did you mean people/alice.md?\n")


def test_each_of_several_missing_memories_gets_a_hint(memfs: Memfs) -> None:
    ran = memfs("forget", "people/bbo", "qqq", "people/emma")

    assert ran.out == "archived as archive/people/emma.md\n"
    assert ran.err.splitlines()[2:] == [
        "hint: Did you mean people/bob.md?", "hint: See what there is with `memfs list`.",
    ]  # fmt: skip


def test_a_file_outside_the_vault_gets_a_hint(memfs: Memfs, example: Path) -> None:
    (example.parent / "tea.md").write_text("Tea.\n")

    assert memfs("read", "../tea.md").err == (
        "memfs: '../tea.md': no such memory\n"
        f"hint: It is outside the vault: name a memory in {example}, or another vault with --vault DIR.\n"
    )


def test_control_characters_in_a_hint_are_escaped(memfs: Memfs, example: Path) -> None:
    (example / "notes" / "red\x1b[31mtea.md").write_text("Tea.\n")
    ran = memfs("read", "notes/redtea")

    assert "Did you mean notes/red\\x1b[31mtea.md?" in ran.err
    assert "\x1b" not in ran.err + memfs("read", "notes/redtea", "--json").err
