"""An audit reports duplicates, stale, unused and long memories, contradictions and secrets, and changes nothing."""

import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import Git, Memfs
from support.files import Snapshot
from support.people import facts

from memfs import Vault
from memfs.cli.arguments import AUDIT_KINDS
from memfs.cli.main import main
from memfs.storage.recall_log import RecallLog
from memfs.upkeep.audit import KINDS, MAX_AGENT_CHARS, Finding, audit
from memfs.upkeep.contradictions import find_contradictions, statements
from memfs.upkeep.near_duplicates import MIN_SHARED_WORDS, Text, find_near_duplicates

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def terms(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def are_near_duplicates(*texts: str) -> bool:
    return bool([*find_near_duplicates([Text(str(number), text, terms(text)) for number, text in enumerate(texts)])])


def contradicting_values(*texts: str) -> list[tuple[str, str] | None]:
    found = [one for number, text in enumerate(texts) for one in statements(str(number), text)]
    return [contradiction.values for contradiction in find_contradictions(found)]


def texts_of_kind(found: Iterable[Finding], kind: str) -> dict[str, str]:
    return {one.path: one.text for one in found if one.kind == kind}


# --- near-duplicates


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice likes sushi with tuna.", "alice likes sushi with tuna"),
        ("Alice likes sushi with tuna.", "Alice likes sushi with\n\ntuna!!"),
        ("Alice likes sushi with tuna, most on Fridays.", "Alice likes sushi with tuna, too, most on Fridays."),
        (
            "Bob prefers pull requests under 200 lines, one purpose each, and reviews them the same day.",
            "Bob prefers pull requests under 200 lines, with one purpose each, and he reviews them the same day.",
        ),
        (
            "When a meeting in another city gets a date, propose train tickets in the same conversation, at once.",
            "When a meeting in another town gets a date, propose train tickets in the same conversation, at once.",
        ),
    ],
)  # fmt: skip
def test_texts_with_nearly_the_same_words_are_near_duplicates(one: str, other: str) -> None:
    assert are_near_duplicates(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice likes sushi with tuna.", "Alice likes sushi with salmon."),
        ("Alice likes sushi with tuna.", "Bob drinks sencha in the morning."),
        ("Alice beats Bob at chess every Sunday.", "Bob beats Alice at chess every Sunday."),
        ("She wants a meeting at ten in the small room.", "She never wants a meeting at ten in the small room."),
        (
            "Emma Smith lives in Oslo and works as a nurse in the big hospital behind the old station.",
            "Emma Brown lives in Oslo and works as a nurse in the big hospital behind the old station.",
        ),
        (
            "The invoice of the month was paid by the bank on the second day, 300 euros in all.",
            "The invoice of the month was paid by the bank on the second day, 450 euros in all.",
        ),
    ],
)  # fmt: skip
def test_texts_with_another_meaning_are_not_near_duplicates(one: str, other: str) -> None:
    assert not are_near_duplicates(one, other)


def test_no_near_duplicate_among_many_texts_is_missed() -> None:
    """Comparing texts that share a rare word is enough to find every near-duplicate."""
    made = [text.rpartition(" Card ")[0] for _, text in facts(400)]
    texts = [
        Text(str(number), text, terms(text)) for number, text in enumerate([*made, *(f"{text} Yes." for text in made)])
    ]

    found = {frozenset((one.name, one.original)) for one in find_near_duplicates(texts)}
    assert {name for pair in found for name in pair} >= {str(number) for number in range(400, 800)}


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12), max_size=12))
def test_near_duplicates_share_words_and_originals_are_not_reported(bags: list[list[str]]) -> None:
    texts = [Text(str(number), " ".join(words), tuple(words)) for number, words in enumerate(bags)]
    found = [*find_near_duplicates(texts)]
    words = {text.name: set(text.words) for text in texts}

    assert len({one.name for one in found}) == len(found)
    assert not {one.name for one in found} & {one.original for one in found}
    for one in found:
        ours, theirs = words[one.name], words[one.original]
        assert len(ours & theirs) / len(ours | theirs) == pytest.approx(one.share)
        assert one.share >= MIN_SHARED_WORDS


# --- statements that contradict each other


@pytest.mark.parametrize(
    ("one", "other", "values"),
    [
        ("Project Atlas is due on 25 November 2026.", "Project Atlas is due on 30 October 2026.",
         ("30 October 2026", "25 November 2026")),
        ("Bob lives in Lyon, in a shared flat.", "Bob lives in Croix-Rousse, high up.", ("Croix-Rousse", "Lyon")),
        ("Bob lives in Lyon.", "Bob lives in Vaise since November.", ("Vaise", "Lyon")),
        ("Bob has two cats.", "Bob has three cats.", ("three", "two")),
        ("The talk starts at 9:30 in room 5.", "The talk starts at 10:30 in room 5.", ("10:30", "9:30")),
        ("# Wi-Fi\n\nThe code is 1234.", "Ask at the desk. The code is 9876.", ("9876", "1234")),
        ("Das Treffen ist um 9:30 Uhr.", "Das Treffen ist um 10:30 Uhr.", ("10:30", "9:30")),
        ("Alice likes tea.", "Alice does not like tea.", None),
        ("Alice doesn't like tea.", "Alice likes tea.", None),
        ("Alice lives in Lyon.", "Alice no longer lives in Lyon.", None),
        ("Bob can’t swim at all.", "Bob can swim at all.", None),
    ],
)  # fmt: skip
def test_statements_that_may_contradict_each_other(one: str, other: str, values: tuple[str, str] | None) -> None:
    assert contradicting_values(one, other) == [values]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Order 17 was shipped.", "Order 18 was shipped."),
        ("Card 17.", "Card 18."),
        ("Alice knows Bob.", "Alice knows Emma."),
        ("Emma lives in Oslo.", "Olga lives in Oslo."),
        ("Alice visited the dentist on 3 May.", "Alice visited the dentist on 9 June."),
        ("Bob met Emma in May.", "Bob met Emma in June."),
        ("Version 1.2 is out on 3 May.", "Version 1.3 is out on 9 June."),
        ("Project Atlas is due on 25 November 2026.", "Project Apollo is due on 30 October 2026."),
        ("Bob has two cats.", "Bob has two cats."),
        ("```\nx is 1\n```", "```\nx is 2\n```"),
        ("- owned_by [[people/bob]]", "- owned_by [[people/emma]]"),
        ("> the code is 1234", "> the code is 9876"),
        ("", "   \n"),
    ],
)
def test_statements_that_may_both_be_true(one: str, other: str) -> None:
    assert contradicting_values(one, other) == []


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_has_statements(one: str, other: str) -> None:
    for found in statements("x", one):
        assert one[found.offset :].replace("’", "'").startswith(found.words[0]) or found.words[0] in one.replace(
            "’", "'"
        )
    contradicting_values(one, other)


# --- an audit of a vault


def test_the_less_important_duplicate_is_reported(vault: Vault) -> None:
    first = vault.add("Bob is allergic to peanuts, traces included.", "/facts/bob", importance=9)
    again = vault.add("Bob is allergic to peanuts (traces included)!", "/facts/bob")
    vault.add("Bob is allergic to peanuts, traces included.", "/preferences/bob")
    vault.add("Bob is allergic to peanuts, traces included.", "/facts/carol")
    found = texts_of_kind(audit(vault), "duplicate")

    assert found == {
        again.path: f"says the same as {first.path}",
        "preferences/bob/bob-is-allergic-to-peanuts-traces-included.md": f"says the same as {first.path}",
    }


def test_a_pinned_memory_and_a_file_of_a_person_are_the_duplicates_to_keep(vault: Vault) -> None:
    ours = vault.add("Green tea is served at five o'clock sharp.", importance=10)
    (vault.root / "tea.md").write_text("Green tea is served at five o'clock, sharp.\n")
    assert texts_of_kind(audit(vault), "duplicate") == {ours.path: "says the same as tea.md"}

    vault.update(ours.id, pinned=True)

    assert texts_of_kind(audit(vault), "duplicate") == {"tea.md": f"says the same as {ours.path}"}


@pytest.mark.parametrize(
    "keys",
    [{"status": "deprecated"}, {"expires": "2020-01-01"}, {"valid_until": "2020-01-01"}, {"supersedes": ["[[old]]"]}],
)
def test_a_memory_that_is_not_in_force_is_no_duplicate(vault: Vault, keys: dict[str, Any]) -> None:
    vault.create("old.md", "Green tea is served at five.\n")
    assert texts_of_kind(audit(vault), "duplicate") == {}
    new = vault.add("Green tea is served at five!", **keys)

    assert texts_of_kind(audit(vault, now=NOW), "duplicate") == {}
    nothing: dict[str, Any] = dict.fromkeys(keys)
    vault.update(new.id, **nothing)
    assert len(texts_of_kind(audit(vault, now=NOW), "duplicate")) == 1


def test_a_contradiction_is_reported_for_the_older_memory_with_line_and_command(
    vault: Vault, capsys: pytest.CaptureFixture[str]
) -> None:
    old = vault.add(
        "# Atlas\n\nIt is late. Atlas is due on 30 October 2026.", "/facts", type="fact", created="2026-01-01"
    )
    new = vault.add("Atlas is due on 25 November 2026.", "/facts", type="fact", created="2026-02-01")
    vault.add("Atlas is due on 1 May 2027.", "/dreams", type="fact")
    (found,) = [one for one in audit(vault, now=NOW) if one.kind == "contradiction"]

    text = f"says '30 October 2026' where {new.path}, which is newer, says '25 November 2026'"
    assert (found.path, found.text) == (old.path, text)
    assert (vault.root / old.path).read_text().splitlines()[
        found.line - 1
    ] == "It is late. Atlas is due on 30 October 2026."
    command = shlex.split(found.hint.partition(": ")[2])
    assert main([*command[1:], "--vault", str(vault.root)]) == 0
    assert texts_of_kind(audit(vault, now=NOW), "contradiction") == {}
    assert [hit.memory.id for hit in vault.search("Atlas due", "/facts")] == [new.id]
    assert capsys.readouterr().out == f"updated {new.path}\n"


def test_linked_memories_and_those_of_other_times_do_not_contradict(vault: Vault) -> None:
    keys: dict[str, Any] = {"namespace": "/facts", "type": "fact"}
    one = vault.add("The rent is 900 euros.", valid_until="2027-12-31", **keys)
    other = vault.add("The rent is 950 euros.", valid_from="2028-01-01", **keys)
    assert texts_of_kind(audit(vault, now=NOW), "contradiction") == {}
    vault.update(other.id, valid_from=None)
    assert len(texts_of_kind(audit(vault, now=NOW), "contradiction")) == 1

    vault.append(other.id, f"\n- follows [[{one.path.removesuffix('.md')}]]")

    assert texts_of_kind(audit(vault, now=NOW), "contradiction") == {}


def test_the_hint_keeps_what_the_newer_memory_already_supersedes(vault: Vault) -> None:
    vault.add("The rent is 900 euros.", type="fact", created="2026-01-01")
    vault.add("The rent is 950 euros.", type="fact", created="2026-02-01", supersedes=["[[the-rent-was-800]]"])
    (found,) = [one for one in audit(vault, now=NOW) if one.kind == "contradiction"]

    assert found.hint.startswith("If only the newer one holds, add [[the-rent-is-900-euros]] to supersedes in ")


def test_two_memories_with_the_same_title_may_contradict_each_other(vault: Vault) -> None:
    for name, text in (("a", "Bread and milk."), ("b", "Screws and glue.")):
        vault.create(f"notes/{name}.md", f"---\ncreated: 2026-01-0{ord(name) - 96}\n---\n\n# Shopping list\n\n{text}\n")
    vault.create("other/c.md", "# Shopping list\n\nNothing.\n")
    vault.create("notes/d.md", "---\ntype: summary\n---\n\n# Shopping list\n\nA summary of both.\n")

    assert texts_of_kind(audit(vault), "contradiction") == {
        "notes/a.md": "has the same title as notes/b.md, which is newer"
    }


def test_notes_and_episodes_do_not_contradict_each_other(vault: Vault) -> None:
    vault.add("I slept nine hours. The sea is 12 degrees.", "/journal", type="note")
    vault.add("I slept six hours. The sea is 14 degrees.", "/journal", type="note")
    vault.add("The sea is 12 degrees.", "/journal", type="summary")

    assert texts_of_kind(audit(vault), "contradiction") == {}


def test_invalid_and_faded_memories_are_stale(vault: Vault) -> None:
    keys: dict[str, Any] = {"namespace": "/facts"}
    expired = vault.add("A pass for ten visits.", expires="2026-09-30", **keys)
    over = vault.add("Bob works from Tokyo.", valid_until="2026-10-31", **keys)
    old = vault.add("The old office.", valid_until="2026-10-31", **keys)
    vault.add("The new office.", supersedes=[f"[[{old.id}]]"], **keys)
    gone = vault.add("Somebody likes licorice.", created="2025-01-01", **keys)
    vault.add("Pinned, long ago.", created="2025-01-01", pinned=True, **keys)
    (vault.root / "facts" / "mine.md").write_text("---\ncreated: 2000-01-01\n---\nWritten by hand.\n")
    vault.add("Good until the end of the year.", expires="2026-12-31", valid_until="2026-12-31", **keys)

    assert texts_of_kind(audit(vault, now=NOW), "stale") == {
        expired.path: "expired on 2026-09-30",
        over.path: "was valid until 2026-10-31, and searches still find it",
        gone.path: "has faded to a retention of 0.0%",
    }


def test_a_memory_without_recalls_is_unused_after_enough_days(vault: Vault) -> None:
    ids = [vault.add(f"Memory {word}.", created="2026-09-01", importance=5).id for word in ("one", "two")]
    vault.add("Pinned.", created="2026-09-01", pinned=True)
    vault.add("New.", created="2026-11-10")
    assert texts_of_kind(audit(vault, now=NOW), "unused") == {}
    RecallLog(vault.root, lambda: NOW - timedelta(days=20)).searched([ids[0]])
    assert texts_of_kind(audit(vault, now=NOW), "unused") == {}
    RecallLog(vault.root, lambda: NOW - timedelta(days=40)).searched([])

    assert texts_of_kind(audit(vault, now=NOW), "unused") == {"memory-two.md": "no agent has received it in 40 days"}


def test_memories_that_agents_receive_in_part_are_too_long(vault: Vault) -> None:
    lines = [f"Line {number} of a long story." for number in range(300)]
    story = vault.add("\n".join(lines))
    fact = vault.add(" ".join(f"Alice owns thing number {number}." for number in range(20)), type="fact")
    vault.add(" ".join(f"Alice owns thing number {number}." for number in range(20)), "/notes")
    found = {one.path: one for one in audit(vault) if one.kind == "long"}

    assert found.keys() == {story.path, fact.path}
    size = len("\n".join(lines))
    assert found[story.path].text == f"{size:,} characters, of which agents receive {MAX_AGENT_CHARS:,}, up to here"
    shown = (vault.root / story.path).read_text().splitlines()[found[story.path].line - 1]
    assert shown in vault.read(story.id).body[MAX_AGENT_CHARS - 40 : MAX_AGENT_CHARS + 40]
    assert found[fact.path].text == "about 20 statements in one fact"


def test_secrets_are_reported_by_kind_and_line_and_never_shown(vault: Vault) -> None:
    old = vault.add("Wi-Fi.\n\nThe password is Hunter2-x9Kq.", type="fact", created="2026-01-01")
    vault.add("Wi-Fi.\n\nThe password is Hunter3-x9Kq.", type="fact", created="2026-02-01")
    found = audit(vault, now=NOW)

    assert found[0].kind == "secret"
    assert (vault.root / old.path).read_text().splitlines()[found[0].line - 1] == "The password is Hunter2-x9Kq."
    assert texts_of_kind(found, "secret")[old.path] == "looks like it contains: password"
    assert "differs from" in texts_of_kind(found, "contradiction")[old.path]
    assert "Hunter" not in "".join(map(str, found))


def test_an_audit_is_limited_to_kinds_and_namespaces(vault: Vault) -> None:
    vault.add("Green tea at five.", "/a", expires="2020-01-01")
    vault.add("Green tea at five.", "/b", expires="2020-01-01")
    steps: list[tuple[int, int]] = []

    assert [one.path for one in audit(vault, "/b")] == ["b/green-tea-at-five.md"]
    assert audit(vault, kinds=["long"]) == []
    audit(vault, progress=lambda *done: steps.append(done))
    assert steps == [(number, 6) for number in range(6)]
    assert AUDIT_KINDS == KINDS


# --- the command


def test_the_example_vault_has_one_finding(memfs: Memfs) -> None:
    ran = memfs("audit", "--at", "2026-11-17")

    assert (ran.code, ran.err) == (1, "")
    assert ran.out == (
        "facts/alice/climbing-hall-pass.md:1: stale: expired on 2026-09-30\n"
        "    memfs forget facts/alice/climbing-hall-pass.md\n"
        "1 finding in 43 memories: stale 1\n"
    )
    assert memfs("audit", "/people", "--at", "2026-11-17") == (0, "no findings in 7 memories\n", "")


def test_an_audit_changes_nothing(memfs: Memfs, example: Path, git: Git, snapshot: Snapshot) -> None:
    git(example, "init", "-q")
    git(example, "add", "-A")
    git(example, "commit", "-qm", "all")
    before = snapshot(example, ".git")
    memfs("audit")

    assert snapshot(example, ".git") == before
    assert git(example, "status", "--porcelain") == ""


def test_an_audit_prints_json(memfs: Memfs) -> None:
    ran = memfs("audit", "--json", "--at", "2026-11-17")

    assert ran.code == 1
    assert ran.value == {
        "memories": 43,
        "findings": [
            {
                "path": "facts/alice/climbing-hall-pass.md",
                "line": 1,
                "kind": "stale",
                "text": "expired on 2026-09-30",
                "hint": "memfs forget facts/alice/climbing-hall-pass.md",
            }
        ],
    }


def test_all_findings_of_a_kind_are_shown_on_request(memfs: Memfs, example: Path) -> None:
    with Vault(example) as vault:
        vault.add_many({"text": f"Pass {number}.", "expires": "2020-01-01"} for number in range(30))
    short, whole = memfs("audit", "--kind", "stale").out, memfs("audit", "--kind", "stale", "--all").out

    assert short.count(": stale: ") == 20
    assert "11 more of this kind; `memfs audit --kind stale --all` shows them\n" in short
    assert whole.count(": stale: ") == 31
    assert whole.endswith("31 findings in 73 memories: stale 31\n")
    assert memfs("audit", "--kind", "noise").code == 2
