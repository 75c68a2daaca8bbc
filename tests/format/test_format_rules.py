"""The rules of docs/format.md: the name of a test has the label of the rule that it checks."""

import base64
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from support.commands import Git
from support.files import Snapshot
from support.vaults import put

from memfs import Namespace, Template, Vault
from memfs.agent.sessions import SessionLog, Sessions
from memfs.errors import (
    DecryptionError,
    InvalidKeyError,
    InvalidMemoryError,
    InvalidNamespaceError,
    MalformedMemoryError,
    MemoryChangedError,
    MemoryExistsError,
    MemoryNotFoundError,
    SettingsError,
    StorageError,
)
from memfs.privacy.field_encryption import Encryption
from memfs.vault import settings as vault_settings

PAGE = (Path(__file__).parents[2] / "docs/format.md").read_text(encoding="utf-8")
LABELS = re.findall(r"\*\*F(\d+)\*\*", PAGE)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
HAND_MADE = """\
---
# what the dentist said
tags: [health]   # mine
"title": 'The ''old'' guard'
created: 2026-11-02
my-score:   0123
importance: 2  # not urgent

nested:
  deep: [1, 2]
aliases:
  - "tooth"   # short
  # between
  - zahn
status: draft
---

# Dentist

Thursday at 17:30.
"""


def with_header(*lines: str) -> str:
    return "---\n" + "".join(f"{line}\n" for line in lines) + "---\n\nBody.\n"


# --- the documentation page ------------------------------------------------------------------------------------


def test_every_rule_of_the_page_has_a_test_with_its_label() -> None:
    tests = {found[1] for name in dir(sys.modules[__name__]) if (found := re.match(r"test_f(\d+)_", name))}

    assert [int(label) for label in LABELS] == list(range(1, len(LABELS) + 1))
    assert tests == set(LABELS)


def test_the_samples_of_the_page_are_parsed_without_problems(vault: Vault) -> None:
    memories = [text for _, text in BLOCKS if text.startswith("---\n")]
    settings = [text for kind, text in BLOCKS if kind == "yaml"]

    assert len(memories) >= 1
    assert len(settings) >= 1
    assert all(put(vault, "facts/alice/sample.md", text).problems == () for text in memories)
    assert all(vault_settings.load(text)["version"] == 1 for text in settings)


def test_the_sample_memory_has_the_values_that_the_page_states(vault: Vault) -> None:
    memory = put(vault, "facts/alice/atlas-deadline.md", next(text for _, text in BLOCKS if text.startswith("---\n")))

    assert memory.id == "m-01k9zq6d0m2p3q4r5s6t7v8w9x"
    assert memory.title == "Atlas deadline"
    assert memory.description == "Project Atlas is due on 25 November 2026."
    assert memory.header.supersedes == ("[[facts/alice/atlas-deadline-october]]",)
    assert memory.created == datetime(2026, 11, 15, 10, 41, 12, tzinfo=UTC)
    assert memory.header.valid_from == datetime(2026, 11, 10, tzinfo=UTC)
    assert memory.body.startswith("# Atlas deadline\n")
    assert memory.body.endswith("- owned_by [[people/bob]]")


def test_the_settings_of_the_page_are_all_known_keys() -> None:
    with pytest.raises(SettingsError) as caught:
        vault_settings.load("nonsense: 1\n")

    known = caught.value.reason.partition("known keys: ")[2].split(", ")
    sample = next(text for kind, text in BLOCKS if kind == "yaml")
    assert set(re.findall(r"^(\w+):", sample, re.MULTILINE)) <= set(known)


def test_a_new_memory_has_flat_keys_block_lists_and_iso_times(vault: Vault) -> None:
    vault = Vault(vault.root, clock=lambda: datetime(2026, 11, 15, 10, 41, 12, 999, tzinfo=UTC))
    added = vault.add("Tea.", "n", type="fact", tags=["a", "b c"], importance=3, pinned=True, expires=date(2026, 12, 1))

    lines = (vault.root / added.path).read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"id: m-[0-9a-hjkmnp-tv-z]{26}", lines[1])
    assert lines[0] == "---"
    assert lines[2:] == [
        "type: fact",
        "tags:",
        "  - a",
        "  - b c",
        "importance: 3",
        "pinned: true",
        "expires: 2026-12-01",
        "created: 2026-11-15T10:41:12Z",
        "---",
        "",
        "Tea.",
    ]


def test_ids_are_unique_and_sort_by_time(vault: Vault) -> None:
    ids = [vault.add(f"Text {number}.", "n").id for number in range(50)]

    assert len(set(ids)) == 50
    assert [name[:12] for name in ids] == sorted(name[:12] for name in ids)


def test_missing_keys_have_the_defaults_of_the_table(vault: Vault) -> None:
    memory = put(vault, "people/bob.md", "Bob plays the cello. He is good.\n")
    written = datetime.fromtimestamp(memory.stamp.mtime_ns / 1e9, UTC)

    assert (memory.id, memory.title, memory.description) == ("people/bob", "bob", "Bob plays the cello.")
    assert memory.namespace == Namespace.parse("/people")
    header = memory.header
    assert (header.type, header.status, header.importance, header.pinned) == ("note", "stable", 1, False)
    assert (header.tags, header.aliases, header.supersedes, header.source) == ((), (), (), None)
    assert (header.expires, header.valid_from, header.valid_until) == (None, None, None)
    assert memory.created == memory.updated == written


def test_a_list_written_as_one_text_is_split_at_commas(vault: Vault) -> None:
    memory = put(vault, "a.md", with_header("tags: a, b c ,d", "aliases: [x, 'y, z']"))

    assert memory.header.tags == ("a", "b c", "d")
    assert memory.header.aliases == ("x", "y, z")


# --- the tree -------------------------------------------------------------------------------------------


def test_f1_deleting_the_state_directory_loses_no_memory(vault: Vault) -> None:
    added = [vault.add(f"Text {number}.", "facts").id for number in range(5)]
    vault.forget(added[0])
    vault.close()
    shutil.rmtree(vault.root / ".memfs")

    again = Vault(vault.root)
    assert {memory.id for memory in again.list(archived=True)} == set(added)
    assert again.check() == []
    assert again.add("More.", "facts").outcome == "created"


def test_f2_the_state_directory_keeps_itself_out_of_git(tmp_path: Path, git: Git) -> None:
    root = tmp_path / "never-initialised"
    root.mkdir()
    git(root, "init")
    with Vault(root) as vault:
        vault.add("Tea.", "n")
        vault.update("n/tea.md", importance=2)

    assert (root / ".memfs/.gitignore").read_text() == "*\n"
    assert git(root, "status", "--porcelain", "-uall") == "?? n/tea.md\n"


def test_f3_files_that_are_no_memories_are_not_listed(vault: Vault) -> None:
    no_memories = [
        ".hidden.md", ".obsidian/x.md", "notes/.x.md", "sessions/s/x.md", "archive/x.md", "a.txt", "a.md.bak",
        "a.markdown",
        "~x.md", "#x.md", "notes/~$x.md", "notes/#x.md#", "README.md", "notes/a.md~", ".memfs/x.md", "notes/a",
        "~dir/x.md",
    ]  # fmt: skip
    memories = ["notes/README.md", "notes/sessions/x.md", "notes/archive/x.md", "x.y.md", "people/bob.md", "-x.md"]
    for path in no_memories + memories:
        (vault.root / path).parent.mkdir(parents=True, exist_ok=True)
        (vault.root / path).write_text("Text.")
    (vault.root / "notes/link.md").symlink_to("README.md")
    (vault.root / "notes/away").symlink_to(vault.root.parent)
    os.mkfifo(vault.root / "notes/pipe.md")
    os.mkdir(vault.root / "notes/directory.md")

    assert [memory.path for memory in vault.list()] == sorted(memories, key=lambda path: (path.count("/") > 0, path))
    assert "archive/x.md" in [memory.path for memory in vault.list(archived=True)]


def test_f4_a_file_over_8_mib_is_a_problem_and_is_not_read(vault: Vault) -> None:
    limit = 8 * 1024 * 1024
    (vault.root / "fits.md").write_bytes(b"x" * limit)
    (vault.root / "large.md").write_bytes(b"x" * (limit + 1))

    assert [memory.path for memory in vault.list()] == ["fits.md"]
    assert [problem.path for problem in vault.check()] == ["large.md"]
    assert "8 MiB" in vault.check()[0].reason
    with pytest.raises(MalformedMemoryError, match="8 MiB"):
        vault.read("large.md")
    with pytest.raises(MalformedMemoryError, match="8 MiB"):
        vault.update("large.md", importance=2)


# --- a memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["Plain.\n", "# Only a heading", "", "\n", "--\na: b\n--\n", " ---\na: b\n---\n", "----\n"]
)
def test_f5_a_file_without_a_header_is_a_memory_with_its_whole_text_as_body(vault: Vault, text: str) -> None:
    memory = put(vault, "a.md", text)

    assert memory.text == text
    assert memory.body == text.removesuffix("\n")
    assert memory.header.values == {}
    assert memory.problems == ()


def test_f6_unknown_keys_are_readable_and_kept(vault: Vault) -> None:
    lines = ["permalink: a/b", "read_only: true", "stale_after: 2027-01-01", "metadata:", "  name: x", "  n: [1, 2.5]"]
    memory = put(vault, "a.md", with_header(*lines))

    assert memory.header.get("permalink") == "a/b"
    assert memory.header.get("read_only") is True
    assert memory.header.get("stale_after") == "2027-01-01"
    assert memory.header.get("metadata") == {"name": "x", "n": [1, 2.5]}
    vault.update("a.md", importance=2, body="Other.")
    assert (vault.root / "a.md").read_text() == "---\n" + "\n".join(lines) + "\nimportance: 2\n---\n\nOther.\n"


def test_f7_a_time_without_a_zone_is_utc_and_an_end_date_includes_its_day(vault: Vault) -> None:
    header = put(
        vault,
        "a.md",
        with_header(
            "created: 2026-11-15 10:30", "updated: 2026-11-15T12:30:00+02:00", "valid_from: 2026-11-10",
            "valid_until: 2026-11-20", "expires: 2026-12-31",
        ),
    ).header  # fmt: skip

    assert header.created == header.updated == datetime(2026, 11, 15, 10, 30, tzinfo=UTC)
    assert header.valid_from == datetime(2026, 11, 10, tzinfo=UTC)
    assert header.valid_until == datetime(2026, 11, 20, 23, 59, 59, 999999, tzinfo=UTC)
    assert header.expires == datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31"])
def test_f7_the_first_and_the_last_day_of_the_calendar_are_valid(vault: Vault, text: str) -> None:
    header = put(vault, "a.md", with_header(f"created: {text}", f"expires: {text}")).header

    assert header.created is not None
    assert header.expires is not None
    assert header.created <= header.expires


def test_f8_memfs_adds_no_id_and_no_time_to_a_file_it_did_not_create(vault: Vault) -> None:
    put(vault, "plain.md", "Plain.\n")
    put(vault, "header.md", with_header("tags: [a]"))
    for path in ("plain.md", "header.md"):
        vault.update(path, importance=2)
        vault.append(path, "More.")
        vault.update(path, body="Other.")
        vault.forget(path)

    assert (vault.root / "archive/plain.md").read_text() == "---\nimportance: 2\n---\n\nOther.\n"
    assert (vault.root / "archive/header.md").read_text() == "---\ntags: [a]\nimportance: 2\n---\n\nOther.\n"


@pytest.mark.parametrize("line", ["id: mine", "updated: 2026-01-01"])
def test_f8_a_changed_body_sets_updated_if_the_header_has_id_or_updated(vault: Vault, line: str) -> None:
    now = datetime(2026, 11, 15, 10, 30, tzinfo=UTC)
    vault = Vault(vault.root, clock=lambda: now)
    before = put(vault, "a.md", with_header(line)).updated

    vault.update("a.md", importance=2)
    assert vault.read("a.md").header.get("updated") == put(vault, "b.md", with_header(line)).header.get("updated")
    vault.append("a.md", "More.")
    assert vault.read("a.md").updated == now != before
    vault.update("a.md", body="Other.", updated=date(2026, 1, 2))
    assert vault.read("a.md").updated == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "---\nid: x\n---\n\nbody",
        "---\n",
        "\ufeff---\na: b\n---\n",
        "a\r\nb\r",
        "\n\nx\n\n",
        "<<<<<<< a\n>>>>>>> b\n",
        "\x00\x85",
    ],
)
def test_f9_an_added_text_is_read_back_exactly(vault: Vault, text: str) -> None:
    added = vault.add(text, "n")

    assert vault.read(added.id).body == text
    vault.update(added.id, body=text + text)
    assert vault.read(added.id).body == text + text


@pytest.mark.parametrize("text", ["\ud800", "x" * 8 * 1024 * 1024], ids=["surrogate", "8 MiB"])
def test_f9_a_text_that_cannot_be_stored_is_refused_before_anything_is_written(
    tmp_path: Path, snapshot: Snapshot, text: str
) -> None:
    vault = Vault(tmp_path)

    with pytest.raises(InvalidMemoryError):
        vault.add(text, "n")
    assert snapshot(tmp_path) == {}


# --- reading tolerates faults -------------------------------------------------------------------------------

BAD_HEADERS = {
    "bad YAML": ["a: [", "b: c"],
    "bad YAML: tab": ["a:", "\tb: c"],
    "not a mapping": ["- a", "- b"],
    "not a mapping: text": ["just text"],
    "duplicate": ["a: 1", "a: 2"],
    "duplicate: nested": ["a:", "  b: 1", "  b: 2"],
    "anchors": ["a: &x 1"],
    "aliases": ["a: *x"],
    "merge": ["a: &x {b: 1}", "c:", "  <<: *x"],
    "tag": ["a: !!python/object/apply:os.system [id]"],
    "tag: own": ["a: !x y"],
    "nested deeper": ["a: " + "[" * 13 + "]" * 13],
    "longer": ["a: " + "x" * 65536],
    "too many": [f"k{number}: 1" for number in range(2000)],
    "document": ["a: 1", "...", "b: 2"],
    "key is not a text": ["[a, b]: c"],
    "NUL": ["a: \0"],
}


@pytest.mark.parametrize("kind", BAD_HEADERS)
def test_f10_no_content_stops_a_listing(vault: Vault, kind: str) -> None:
    put(vault, "a-good.md", "Good.")
    put(vault, "bad.md", with_header(*BAD_HEADERS[kind]))
    put(vault, "z-good.md", "Good.")

    assert [memory.path for memory in vault.list()] == ["a-good.md", "bad.md", "z-good.md"]
    assert [problem.path for problem in vault.check()] == ["bad.md"]


def test_f10_a_problem_has_path_line_key_value_and_reason(vault: Vault) -> None:
    put(vault, "notes/a.md", with_header("tags: [a]", "# a comment", "importance: high"))
    (problem,) = vault.check()

    assert (problem.path, problem.line, problem.key, problem.value) == ("notes/a.md", 4, "importance", "high")
    assert problem.reason == "importance: 'high' is not a whole number from 1 to 10"
    assert str(problem) == "notes/a.md:4: importance: 'high' is not a whole number from 1 to 10"


@pytest.mark.parametrize("text", ["---\na: b\n", "---\na: b\n--- x\n", "---\na: b\n ---\n", "---\n", "\ufeff---\nx\n"])
def test_f11_a_header_that_is_not_closed_leaves_the_whole_text_as_body(vault: Vault, text: str) -> None:
    memory = put(vault, "a.md", text)

    assert memory.body == text.removeprefix("\ufeff").removesuffix("\n")
    assert memory.header.values == {}
    assert ["not closed" in problem.reason for problem in memory.problems] == [True]


@pytest.mark.parametrize("kind", BAD_HEADERS)
def test_f11_a_bad_header_has_default_values_and_does_not_affect_the_body(vault: Vault, kind: str) -> None:
    memory = put(vault, "a.md", with_header(*BAD_HEADERS[kind]))

    assert memory.body == "Body."
    assert memory.header.values == {}
    assert len(memory.problems) == 1
    assert memory.problems[0].line >= 1


def test_f11_the_limits_are_those_of_the_page(vault: Vault) -> None:
    fits = put(vault, "fits.md", with_header("a: " + "[" * 11 + "]" * 11, "b: " + "x" * 60_000))

    assert fits.problems == ()
    assert put(vault, "deep.md", with_header("a: " + "[" * 12 + "]" * 12)).problems != ()


@pytest.mark.parametrize(
    ("line", "default"),
    [
        ("importance: high", 1),
        ("importance: 11", 1),
        ("importance: true", 1),
        ("importance: 2.5", 1),
        ("pinned: yes", False),
        ("created: 2026-13-45", None),
        ("expires: soon", None),
        ("tags: {a: b}", ()),
        ("title: [a]", None),
        ("type: {}", "note"),
    ],
)
def test_f12_a_value_of_the_wrong_type_affects_only_its_key(vault: Vault, line: str, default: object) -> None:
    key = line.partition(":")[0]
    memory = put(vault, "a.md", with_header("source: kept", line, "zip: 0123", "status: draft"))

    assert [(problem.key, problem.line) for problem in memory.problems] == [(key, 3)]
    assert getattr(memory.header, key, None) == default
    assert key not in memory.header.values
    assert memory.header.values == {"source": "kept", "zip": "0123", "status": "draft"}


def test_f13_yaml_is_read_as_yaml_1_2(vault: Vault) -> None:
    plain = ["NO", "yes", "on", "12:30", "0123", "1_000", "0o17", "0x1f", "1e3", "2026-11-15", "=", ".5", "+1"]
    memory = put(vault, "a.md", with_header(*(f"k{number}: {text}" for number, text in enumerate(plain))))
    typed = put(vault, "b.md", with_header("a: true", "b: null", "c: -12", "d: 2.5", "e: ~", "f: False", "g: '1'"))

    assert list(memory.header.values.values()) == plain
    assert dict(typed.header.values) == {"a": True, "c": -12, "d": 2.5, "f": False, "g": "1"}


def test_f13_both_parsers_agree_on_texts(vault: Vault) -> None:
    """A header with a comment is parsed by the YAML parser."""
    lines = [
        f"k{number}: {text}" for number, text in enumerate(["NO", "12:30", "0123", "1.5", "7", "true", "~", "a b"])
    ]

    fast, slow = put(vault, "a.md", with_header(*lines)), put(vault, "b.md", with_header("# slow", *lines))
    assert repr(fast.header.values) == repr(slow.header.values)


def test_f14_bytes_that_are_not_utf_8_are_read_reported_and_never_rewritten(vault: Vault) -> None:
    data = "---\ntitle: Zürich\n---\n\nCafé.\n".encode("latin-1")
    memory = put(vault, "a.md", data)

    assert (memory.title, memory.body) == ("Zürich", "Café.")
    assert ["not UTF-8" in problem.reason for problem in vault.check()] == [True]
    tries: list[Callable[[], object]] = [
        lambda: vault.update("a.md", importance=2),
        lambda: vault.append("a.md", "More."),
        lambda: vault.replace("a.md", "Other.", seen=vault.read("a.md").stamp),
    ]
    for attempt in tries:
        with pytest.raises(MalformedMemoryError, match="not UTF-8"):
            attempt()
    assert (vault.root / "a.md").read_bytes() == data
    vault.move("a.md", "/notes")
    vault.forget("notes/a.md")
    assert (vault.root / "archive/notes/a.md").read_bytes() == data


def test_f15_conflict_markers_are_reported_and_the_memory_stays_readable(vault: Vault) -> None:
    body = "Before.\n<<<<<<< HEAD\nOurs.\n=======\nTheirs.\n>>>>>>> branch\nAfter."
    memory = put(vault, "a.md", f"---\ntags: [a]\n---\n\n{body}\n")
    (problem,) = vault.check()

    assert memory.body == body
    assert memory.header.tags == ("a",)
    assert (problem.line, problem.reason) == (6, "git conflict markers")


def test_f15_markers_that_are_only_mentioned_are_no_conflict(vault: Vault) -> None:
    assert put(vault, "a.md", "Look for `<<<<<<< ` and `>>>>>>> `.\n\n<<<<<<< HEAD alone\n").problems == ()


# --- writing is minimal ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "added", "removed"),
    [
        ({"importance": 5}, ["+importance: 5  # not urgent"], ["-importance: 2  # not urgent"]),
        ({"status": "stable"}, ["+status: stable"], ["-status: draft"]),
        ({"status": None}, [], ["-status: draft"]),
        ({"pinned": True}, ["+pinned: true"], []),
        ({"created": date(2026, 11, 3)}, ["+created: 2026-11-03"], ["-created: 2026-11-02"]),
        ({"aliases": ["tooth", "zahn", "dent"]}, ["+  - dent"], []),
        ({"tags": ["health", "body"]}, ["+tags: [health, body]   # mine"], ["-tags: [health]   # mine"]),
        ({"title": "New"}, ['+"title": New'], ["-\"title\": 'The ''old'' guard'"]),
        ({"my-score": 7}, ["+my-score:   7"], ["-my-score:   0123"]),
        ({"body": "# Dentist\n\nFriday."}, ["+Friday."], ["-Thursday at 17:30."]),
    ],
)
def test_f16_a_change_of_one_key_is_one_line_of_git_diff(
    vault: Vault, git: Git, changes: dict[str, Any], added: list[str], removed: list[str]
) -> None:
    put(vault, "notes/dentist.md", HAND_MADE)
    git(vault.root, "init")
    git(vault.root, "add", "-A")
    git(vault.root, "commit", "-m", "start")

    vault.update("notes/dentist.md", **changes)

    diff = git(vault.root, "diff", "-U0", "--", "notes/dentist.md").splitlines()[4:]
    assert [line for line in diff if line.startswith("+")] == added
    assert [line for line in diff if line.startswith("-")] == removed
    assert git(vault.root, "status", "--porcelain") == " M notes/dentist.md\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_f16_line_ends_byte_order_mark_and_final_newline_are_kept(
    vault: Vault, newline: str, bom: str, end: str
) -> None:
    text = (bom + HAND_MADE.rstrip("\n") + end).replace("\n", newline)
    put(vault, "a.md", text)

    vault.update("a.md", importance=5)
    assert (vault.root / "a.md").read_bytes().decode() == text.replace("importance: 2", "importance: 5")
    vault.update("a.md", importance=2, extra=["x", "y"])
    vault.update("a.md", extra=None)
    assert (vault.root / "a.md").read_bytes().decode() == text


def test_f16_new_lines_in_a_crlf_file_end_with_crlf(vault: Vault) -> None:
    put(vault, "a.md", HAND_MADE.replace("\n", "\r\n"))
    put(vault, "plain.md", "One.\r\nTwo.\r\n")
    for path in ("a.md", "plain.md"):
        vault.update(path, extra=["x", "y"], body="One.\nTwo.\nThree.")
        vault.append(path, "Four.\nFive.")

        data = (vault.root / path).read_bytes()
        assert data.count(b"\n") == data.count(b"\r\n")
        assert data.endswith(b"\r\nOne.\r\nTwo.\r\nThree.\r\nFour.\r\nFive.\r\n")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_f16_the_file_mode_is_kept(vault: Vault, mode: int) -> None:
    put(vault, "a.md", HAND_MADE)
    (vault.root / "a.md").chmod(mode)
    vault.update("a.md", importance=5)
    vault.append("a.md", "More.")
    vault.replace("a.md", "All new.", seen=vault.read("a.md").stamp)

    assert stat.S_IMODE((vault.root / "a.md").stat().st_mode) == mode


def test_f16_a_change_that_changes_nothing_writes_nothing(vault: Vault) -> None:
    before = put(vault, "a.md", HAND_MADE)

    assert vault.update("a.md", importance=2).outcome == "unchanged"
    assert vault.update("a.md", absent=None).outcome == "unchanged"
    assert vault.update("a.md", body=before.body).outcome == "unchanged"
    assert vault.read("a.md").stamp == before.stamp


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("---\na: &x 1\nb: *x\n---\nBody.\n", {"importance": 2}),
        ("---\na: 1\na: 2\n---\nBody.\n", {"importance": 2}),
        ("---\n- a\n---\nBody.\n", {"importance": 2}),
        ("---\na: [\n---\nBody.\n", {"importance": 2}),
        ("---\nnever closed\n", {"importance": 2}),
        ("Plain.\n", {"body": "---\nid: x\n---\nlooks like a header"}),
        ("---\na: |-\n  x\nb: 1\n  # y\n---\n", {"b": None}),
    ],
)
def test_f17_an_edit_that_cannot_be_verified_is_refused(vault: Vault, text: str, changes: dict[str, Any]) -> None:
    put(vault, "a.md", text)

    with pytest.raises(MalformedMemoryError) as caught:
        vault.update("a.md", **changes)
    assert caught.value.path == "a.md"
    assert caught.value.line >= 1
    assert (vault.root / "a.md").read_text() == text


@pytest.mark.parametrize("header", ["{a: 1, importance: 2}", "{a: 1,\n importance: 2}", "? importance\n: 2"])
def test_f17_a_header_in_an_odd_style_is_edited_correctly_or_refused(vault: Vault, header: str) -> None:
    text = f"---\n{header}\n---\n\nBody.\n"
    before = put(vault, "a.md", text)
    for changes in ({"importance": 5}, {"importance": None}, {"new": "x"}):
        (vault.root / "a.md").write_text(text)
        try:
            vault.update("a.md", **changes)
        except MalformedMemoryError:
            assert (vault.root / "a.md").read_text() == text
            continue
        values = {**before.header.values, **changes}
        assert vault.read("a.md").header.values == {key: value for key, value in values.items() if value is not None}


def test_f18_reading_listing_and_checking_change_nothing(example: Path, git: Git, snapshot: Snapshot) -> None:
    git(example, "init")
    git(example, "add", "-A")
    git(example, "commit", "-m", "start")
    before = snapshot(example)
    with Vault(example) as vault:
        for memory in vault.list(archived=True):
            assert vault.read(memory.path).body == vault.read(memory.id).body == memory.body
            assert vault.versions(memory.path) == []
        vault.check()

    assert git(example, "status", "--porcelain") == ""
    assert snapshot(example) == before


def test_f19_a_taken_name_gets_a_number(vault: Vault) -> None:
    put(vault, "n/tea.md", "Mine.")
    put(vault, "n/Tea-2.md", "Mine, too.")
    (vault.root / "n/tea-3.md").mkdir()
    (vault.root / "n/tea-4.md").symlink_to("nowhere")

    assert [vault.add(f"Tea{'!' * number}", "n").path for number in (1, 2, 3)] == [
        "n/tea-5.md",
        "n/tea-6.md",
        "n/tea-7.md",
    ]
    assert vault.read("n/tea.md").body == "Mine."
    with pytest.raises(MemoryExistsError, match=r"n/tea\.md: already exists"):
        vault.move("n/tea-5.md", "n/tea.md")
    with pytest.raises(MemoryExistsError):
        vault.move("n/tea-5.md", "n/TEA.md")


def test_f20_a_write_with_a_stale_stamp_is_refused(vault: Vault) -> None:
    seen = vault.read(vault.add("Tea.", "n").id).stamp
    put(vault, "n/tea.md", "Edited by hand.")

    with pytest.raises(MemoryChangedError, match=r"n/tea\.md: changed on disk"):
        vault.replace("n/tea.md", "Tea!", seen=seen)
    assert vault.read("n/tea.md").text == "Edited by hand."


def test_f20_a_late_save_becomes_a_conflict_copy_that_check_reports(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    with open(vault.root / added.path, "r+b") as editor:
        vault.update(added.id, importance=5)
        editor.write(b"A person's words.")
        editor.truncate()

    assert [problem.path for problem in vault.check()] == [added.path]
    vault.update(added.id, importance=6)
    (copy,) = (vault.root / "n").glob("*.conflict-*.md")
    assert copy.read_bytes() == b"A person's words."
    assert re.fullmatch(r"tea\.conflict-\d{8}T\d{6}Z\.md", copy.name)
    assert [problem.path for problem in vault.check()] == [f"n/{copy.name}"]
    assert vault.read(added.id).header.importance == 6


# --- names ----------------------------------------------------------------------------------------------


REFUSED = [
    "", ".", "..", ".x", "-x", "~x", "#x", " x", "x.", "x ", "x" * 101, "a/b/../c", "a<", "a>", "a:", 'a"', "a|",
    "a?",
    "a*", "a\\b", "a{", "a}", "a\tb", "a\x7f", "a\u200bb", "\ud800", "\ue000", "\u0378", "con", "NUL", "com1.txt",
    "Lpt³", "bob.md", "bob.MD",
]  # fmt: skip


@pytest.mark.parametrize("segment", REFUSED)
def test_f21_an_invalid_segment_is_refused(vault: Vault, segment: str) -> None:
    with pytest.raises(InvalidNamespaceError):
        vault.add("Text.", f"/facts/{segment}/x")
    assert not (vault.root / "facts").exists()


@pytest.mark.parametrize(
    "segment", ["a", "x" * 100, "zoë", "東京", "a b", "a.b", "a-b", "a'b", "a&b", "(a)", "console", "com0"]
)
def test_f21_other_segments_are_valid_and_outer_slashes_optional(vault: Vault, segment: str) -> None:
    added = vault.add("Text.", f"facts/{segment}/")

    assert added.path == f"facts/{segment}/text.md"
    assert vault.add("Text.", f"/facts/{segment}").outcome == "duplicate"


def test_f21_a_namespace_has_at_most_32_segments_and_deeper_files_are_not_read(vault: Vault) -> None:
    deepest = vault.add("Deep.", "/".join(["x"] * 32))
    (vault.root / deepest.path).with_name("deeper").mkdir()
    (vault.root / deepest.path).with_name("deeper").joinpath("deeper.md").write_text("Deeper.")

    with pytest.raises(InvalidNamespaceError):
        vault.add("Deeper.", "/".join(["x"] * 33))
    assert [memory.id for memory in vault.list()] == [deepest.id]
    assert vault.update(deepest.id, importance=2).outcome == "updated"
    assert vault.read(deepest.path).header.importance == 2


def test_f21_existing_files_with_other_names_are_read(vault: Vault) -> None:
    put(vault, "what?/a: b <c>.md", "Text.")

    assert [memory.path for memory in vault.list()] == ["what?/a: b <c>.md"]
    assert vault.update("what?/a: b <c>.md", importance=2).outcome == "updated"
    assert vault.forget("what?/a: b <c>.md").path.startswith("archive/")


def test_f22_names_that_differ_in_case_or_normal_form_are_one_name(vault: Vault) -> None:
    first = vault.add("One.", "Facts/Zoë")
    second = vault.add("Two.", "facts/zoe\u0308")

    assert [first.path, second.path] == ["Facts/Zoë/one.md", "Facts/Zoë/two.md"]
    assert vault.read("FACTS/ZOË/ONE.md").id == first.id
    assert len(vault.list("/facts/zoë")) == 2


@pytest.mark.parametrize("name", ["Sessions", "SESSIONS", "sessions"])
def test_f22_reserved_names_are_recognised_in_any_case(vault: Vault, name: str) -> None:
    put(vault, "a.md", "Text.")
    (vault.root / "sessions/s").mkdir(parents=True)
    (vault.root / "sessions/s/log.md").write_text("Log.")
    (vault.root / "README.md").write_text("Read me.")

    tries: list[Callable[[], object]] = [
        lambda: vault.add("Text.", f"{name}/s"),
        lambda: vault.move("a.md", f"{name}/s"),
        lambda: vault.scope(f"/{name}"),
    ]
    for attempt in tries:
        with pytest.raises(InvalidNamespaceError):
            attempt()
    for path in (f"{name}/s/log.md", f"/{name}/s/log", "README.md", "readme.md", "Readme", "/README.md", "/readme"):
        with pytest.raises(MemoryNotFoundError):
            vault.read(path)


def test_f22_the_archive_is_recognised_in_any_case(vault: Vault) -> None:
    put(vault, "Archive/old.md", "Old.")
    vault.forget(vault.add("Tea.", "n").id)

    assert vault.list() == []
    assert len(vault.list(archived=True)) == 2


def test_f23_a_template_replaces_known_placeholders_by_one_encoded_segment() -> None:
    template = Template("/facts/{actorId}/{session_id}")

    assert str(template.render(actor="../a/b", session="{actorId}")) == "/facts/%2E.%2Fa%2Fb/%7BactorId%7D"
    with pytest.raises(SettingsError, match=re.escape("template '/facts/{actor}': unknown placeholder {actor}")):
        Template("/facts/{actor}")


def test_f24_a_scope_neither_reads_nor_writes_outside_its_subtree(vault: Vault) -> None:
    hers, his = vault.add("Hers.", "facts/alice"), vault.add("His.", "facts/alice2")
    alice = vault.scope("/facts/alice")

    assert [memory.id for memory in alice.list()] == [hers.id]
    for ref in (his.id, his.path, f"/{his.path}"):
        with pytest.raises(MemoryNotFoundError):
            alice.read(ref)
    with pytest.raises(InvalidNamespaceError, match="outside the scope /facts/alice"):
        alice.add("Text.", "/facts/alice2")


def test_f24_a_scope_includes_its_archive(vault: Vault) -> None:
    alice = vault.scope("/facts/alice")
    forgotten = alice.forget(alice.add("Hers.").id)
    vault.forget(vault.add("His.", "facts/alice2").id)

    assert forgotten.path == "archive/facts/alice/hers.md"
    assert alice.read(forgotten.id).path == alice.read(forgotten.path).path == forgotten.path
    assert [memory.path for memory in alice.list(archived=True)] == [forgotten.path]


def test_f25_a_vault_of_a_later_version_is_refused(vault: Vault) -> None:
    (vault.root / "memfs.yaml").write_text("version: 2\n")

    with pytest.raises(SettingsError, match="version 2 was made by a newer memfs"):
        Vault(vault.root)


def test_f25_an_unknown_setting_is_refused_with_a_list_of_the_known_ones(vault: Vault) -> None:
    (vault.root / "memfs.yaml").write_text("version: 1\nactr: alice\n")

    with pytest.raises(SettingsError, match=r"unknown key 'actr'; known keys: version, actor, namespaces"):
        Vault(vault.root)


# --- sessions -------------------------------------------------------------------------------------------


def test_f26_a_log_is_append_only_and_a_redaction_leaves_no_copy(vault: Vault) -> None:
    log = SessionLog(vault, "s-1")
    event = log.append({"role": "user", "content": "a secret"})
    file = vault.root / log.path
    before = file.read_bytes()
    file.write_bytes(before + b'{"id":"e-1","mess')
    log.append({"role": "user", "content": "more"})

    assert file.read_bytes().startswith(before + b'{"id":"e-1","mess\n{')
    log.redact(event.id, {"role": "user", "content": "-"})
    assert [message["content"] for message in log.messages()] == ["-", "more"]
    assert not [one for one in vault.root.rglob("*") if one.is_file() and b"a secret" in one.read_bytes()]


def test_f27_events_are_ordered_by_id_without_duplicates_and_a_redaction_wins(vault: Vault) -> None:
    lines = [
        '{"memfs":1,"session":"s-1","agent":"main"}',
        '{"id":"e-01m7fc42j862escqpt6bde8hag","message":{"content":"later"}}',
        '{"id":"e-01m7fc3e20hx6xv8a99hswy9bd","message":{"content":"original"}}',
        '{"id":"e-01m7fc42j862escqpt6bde8hag","message":{"content":"later"}}',
        '{"memfs":1,"session":"s-1","agent":"main","actor":"bob"}',
        '{"id":"e-01m7fc3e20hx6xv8a99hswy9bd","message":{"content":"-"},"redacted":"2026-11-15T10:30:00Z"}',
    ]
    (vault.root / "sessions/s-1").mkdir(parents=True)
    (vault.root / "sessions/s-1/main.agent.jsonl").write_text("\n".join(lines) + "\n")

    assert [message["content"] for message in SessionLog(vault, "s-1").messages()] == ["-", "later"]
    assert "sessions/**/*.jsonl merge=union\n" in (vault.root / ".gitattributes").read_text()


def test_f28_a_bad_line_is_skipped_and_an_unreadable_log_is_an_error(vault: Vault) -> None:
    log = SessionLog(vault, "s-1")
    log.append({"role": "user", "content": "good"})
    file = vault.root / log.path
    with file.open("a") as stream:
        stream.write("bad\n")

    assert len(log.messages()) == 1
    assert [str(problem) for problem in log.problems()] == [f"{log.path}:3: not JSON, or cut short: skipped"]
    for text in ('{"memfs":2}\n', None):
        file.unlink()
        if text:
            file.write_text(text)
        else:
            file.mkdir()
        with pytest.raises(StorageError):
            log.messages()


def test_f29_names_are_one_segment_and_other_files_are_no_logs(vault: Vault) -> None:
    log = SessionLog(vault, "../a/b", "x y")
    log.append({"role": "user", "content": "good"})
    (vault.root / log.path.replace(".agent", ".agent (copy)")).write_text("{}\n")

    assert log.path == "sessions/%2E.%2Fa%2Fb/x%20y.agent.jsonl"
    assert [(one.name, one.agents, one.messages) for one in Sessions(vault).list()] == [("../a/b", ("x y",), 1)]
    assert [problem.path for problem in Sessions(vault).check()] == ["sessions/%2E.%2Fa%2Fb/x%20y.agent (copy).jsonl"]


# --- encrypted values -----------------------------------------------------------------------------------


def test_f30_an_encrypted_value_has_the_documented_format(vault: Vault) -> None:
    keys = {"team": bytes(range(32))}
    added = vault.add("A quokka.", phone=["numbat", 3])
    Encryption(vault, keys.get).encrypt(added.id, fields=["body", "phone"], key="team")
    memory = vault.read(added.id)

    for field, value, plaintext in (
        ("body", memory.body, "A quokka."),
        ("phone", memory.header.get("phone"), '["numbat", 3]'),
    ):
        head, version, name, text = value.split(":")
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        bound = b"\0".join([b"enc:v1", added.id.encode(), field.encode(), b"team"])
        assert (head, version, name) == ("enc", "v1", "team")
        assert AESGCM(keys["team"]).decrypt(data[:12], data[12:], bound) == plaintext.encode()


def test_f30_an_encrypted_value_is_displayed_as_a_label_and_not_indexed(vault: Vault) -> None:
    put(vault, "tea.md", "---\nid: m-1\ntitle: enc:v1:team:abcd\n---\n\nBefore.\nenc:v1:team:efgh\nAfter.\n")

    hit = vault.search("before after")[0]
    assert (hit.title, hit.snippet) == ("[encrypted]", "Before. [encrypted] After.")
    assert [vault.search(word) for word in ("abcd", "efgh", "enc", "team")] == [[]] * 4


def test_f30_a_value_is_decrypted_only_where_it_was_encrypted(vault: Vault) -> None:
    encryption = Encryption(vault, lambda name: bytes(32))
    added = vault.add("A quokka.")
    encryption.encrypt(added.id)
    put(vault, "copy.md", vault.read(added.id).text.replace(added.id, "m-1"))
    before = vault.read("copy.md")

    with pytest.raises(DecryptionError):
        encryption.decrypt("copy.md")
    assert vault.read("copy.md") == before
    assert encryption.reveal(vault.read(added.id)).body == "A quokka."


def test_f30_a_key_is_not_read_from_a_vault(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMFS_KEY", raising=False)
    for name in (".env", "MEMFS_KEY", ".memfs/MEMFS_KEY"):
        (vault.root / name).write_text(f"MEMFS_KEY={'00' * 32}\n")

    with pytest.raises(InvalidKeyError, match="MEMFS_KEY: not set"):
        Encryption(vault).encrypt(vault.add("A quokka.").id)
