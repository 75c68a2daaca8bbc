"""`memfs graph`, and the links in `memfs check` and `memfs doctor`."""

import re
import subprocess
from pathlib import Path

import pytest
from support.commands import Memfs

from memfs import Vault

# --- the whole graph


def test_the_overview_shows_counts_and_the_most_linked_memories(memfs: Memfs) -> None:
    shown = memfs("graph")

    assert shown.code == 0
    assert shown.out.startswith("43 memories, 92 links, 42 relations\n\nmost linked ")
    assert re.search(r"^people/bob\.md +14 +9 +Bob Tanaka$", shown.out, re.MULTILINE)
    assert "\n   19  mentions\n    7  works_with\n" in shown.out
    assert shown.out.endswith("… and 22 more\n")


def test_the_overview_as_json(memfs: Memfs) -> None:
    value = memfs("graph", "--json").value

    assert list(value) == ["memories", "links", "relations", "most_linked", "orphans", "problems"]
    assert (value["memories"], value["links"], value["orphans"], value["problems"]) == (43, 92, 0, 0)
    assert value["relations"]["supersedes"] == 3
    assert value["most_linked"][0] == {
        "path": "people/bob.md", "id": "m-01kk747r98b9z9gf9javjmdx41", "title": "Bob Tanaka", "in": 14, "out": 9,
    }  # fmt: skip
    assert memfs("graph", "--format", "json").value == value
    assert memfs("graph", "--json", "--as-of", "2026-01-01").value["links"] < 92


def test_one_relation_is_listed_by_line(memfs: Memfs) -> None:
    assert memfs("graph", "--relation", "Agreed_With").out == (
        "facts/alice/atlas-deadline.md:20: agreed_with (in Zürich, 10 November) people/lukas.md\n"
        "projects/atlas/decisions.md:31: agreed_with people/lukas.md\n"
    )
    assert [one["line"] for one in memfs("graph", "--relation", "owns", "--json").value["triples"]] == [24]
    assert memfs("graph", "--relation", "eats") == (1, "", "no links with the relation 'eats'\n")


def test_a_vault_without_links_is_reported(memfs: Memfs, tmp_path: Path) -> None:
    Vault.init(tmp_path / "bare").add("Nothing here.")

    shown = memfs("graph", "--vault", str(tmp_path / "bare"))
    assert shown.code == 1
    see = f"see `memfs --vault {tmp_path / 'bare'} graph --orphans`"
    assert shown.out == f"1 memory, 0 links, 0 relations\n\n1 memory has no links; {see}\n"
    assert shown.err == "no links\n"
    assert memfs("check", "--vault", str(tmp_path / "bare")).out == "no problems in 1 memory\n"


def test_orphans_are_listed(memfs: Memfs, example: Path) -> None:
    assert memfs("graph", "--orphans") == (1, "", "every memory has a link\n")
    (example / "notes/pass.md").write_text("# Rail pass\n\nRuns out in May.\n", encoding="utf-8")

    assert memfs("graph", "--orphans") == (0, "notes/pass.md\n", "")
    assert memfs("graph", "--orphans", "--json").value == [
        {"path": "notes/pass.md", "id": "notes/pass", "title": "Rail pass"}
    ]
    assert "1 memory has no links; see `memfs graph --orphans`\n" in memfs("graph").out


# --- one memory


def test_the_links_of_a_memory_are_shown_as_a_tree(memfs: Memfs) -> None:
    assert memfs("graph", "atlas-deadline") == (
        0,
        """\
facts/alice/atlas-deadline.md  Atlas deadline
├── → supersedes   facts/alice/atlas-deadline-october.md    Atlas deadline in October
├── → owned_by     people/bob.md                            Bob Tanaka
├── → agreed_with  people/lukas.md                          Lukas Brunner (in Zürich, 10 November)
├── ← depends_on   facts/atlas/code-freeze.md               Code freeze for Atlas is on Friday 20 November 2026 at 18:00.
├── ← leads_to     projects/atlas/decisions.md              Atlas decisions
└── ← mentions     summaries/alice/s-2026-11-15/summary.md  Sunday planning, 15 November 2026

3 links out, 3 in
""",  # noqa: E501  as it is printed
        "",
    )


def test_invalid_links_are_marked_and_as_of_leaves_them_out(memfs: Memfs) -> None:
    whole = memfs("graph", "people/bob").out
    june = memfs("graph", "people/bob", "--as-of", "2026-06-01").out

    assert re.search(r"atlas-deadline-october\.md .*\[until 2026-11-09\]$", whole, re.MULTILINE)
    assert re.search(r"staging-runs-under-bobs-desk\.md .*\[deprecated\]$", whole, re.MULTILINE)
    assert "atlas-deadline-october.md" in june
    assert not re.search(r"atlas-deadline\.md|staging|until", june.replace("until 2025", ""))


def test_depth_adds_memories_that_are_not_shown_yet(memfs: Memfs) -> None:
    shown = memfs("graph", "facts/alice/climbs-6c", "--depth", "2", "--relation", "climbs").out
    deep = memfs("graph", "facts/alice/climbs-6c", "--depth", "2").out

    assert shown.endswith("0 links out, 1 in; 1 memory up to 2 links away\n")
    assert re.search(r"^[│ ]   ├── → works_with +people/bob\.md +Bob Tanaka$", deep, re.MULTILINE)
    assert deep.count("people/bob.md") == 1


def test_a_long_chain_is_shown_to_its_end(memfs: Memfs, example: Path) -> None:
    for number in range(1500):
        (example / f"journal/n{number}.md").write_text(f"[[n{number + 1}]]\n", encoding="utf-8")

    shown = memfs("graph", "journal/n0", "--depth", "2000")
    assert "journal/n1499.md" in shown.out
    assert len(memfs("graph", "journal/n0", "--to", "journal/n1499", "--json").value["triples"]) == 1499


def test_a_memory_as_json(memfs: Memfs, example: Path) -> None:
    (example / "facts/alice/lost.md").write_text("- is [[nowhere]]\n- knows [[people/bob]]\n", encoding="utf-8")

    value = memfs("graph", "facts/alice/lost", "--json").value
    assert list(value) == ["path", "id", "title", "triples", "unknown", "memories"]
    assert value["triples"] == [
        {
            "subject": "facts/alice/lost.md", "relation": "knows", "object": "people/bob.md", "line": 2, "note": "",
            "target": "people/bob", "since": None, "until": None, "in_force": True,
        }
    ]  # fmt: skip
    assert [one["target"] for one in value["unknown"]] == ["nowhere"]
    assert [(one["path"], one["distance"]) for one in value["memories"]] == [("people/bob.md", 1)]


def test_a_memory_with_many_links_shows_some_and_counts_the_rest(memfs: Memfs, example: Path) -> None:
    for number in range(60):
        (example / f"notes/n{number}.md").write_text("See [[people/emma]].\n", encoding="utf-8")

    shown = memfs("graph", "people/emma").out.splitlines()
    assert len(shown) == 1 + 40 + 1 + 2
    assert shown[41] == "└── … and 25 more; --json has all"


def test_a_memory_without_links_ends_with_1(memfs: Memfs, example: Path) -> None:
    (example / "notes/pass.md").write_text("Runs out in May.\n", encoding="utf-8")

    assert memfs("graph", "notes/pass") == (1, "notes/pass.md  Runs out in May.\n\n0 links out, 0 in\n", "")


# --- from one memory to another


def test_the_shortest_path_to_another_memory_is_shown(memfs: Memfs) -> None:
    assert memfs("graph", "Emma Moreau", "--to", "people/yuki").out == (
        "people/emma.md  Emma Moreau\n"
        "  → sister_of   people/alice.md  Alice Moreau\n"
        "  → works_with  people/bob.md    Bob Tanaka\n"
        "  → knows       people/yuki.md   Yuki Sato (same team in Tokyo until 2025)\n"
        "\n3 links\n"
    )
    value = memfs("graph", "Emma Moreau", "--to", "people/yuki", "--json").value
    assert (value["from"], value["to"], value["distance"]) == ("people/emma.md", "people/yuki.md", 3)


def test_without_a_path_the_exit_code_is_1(memfs: Memfs, example: Path) -> None:
    (example / "notes/pass.md").write_text("Runs out in May.\n", encoding="utf-8")

    assert memfs("graph", "people/bob", "--to", "notes/pass") == (
        1,
        "",
        "no path from people/bob.md to notes/pass.md\n",
    )
    assert memfs("graph", "people/bob", "--to", "notes/pass", "--json").value["distance"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nobody"], 1, "'nobody': no such memory"),
        (["summary"], 2, "'summary': may mean summaries/alice/"),
        (["--to", "people/bob"], 2, "--to needs a memory to start from"),
        (["people/bob", "--orphans"], 2, "--orphans takes no memory and no diagram format"),
        (["people/bob", "--depth", "0"], 2, "'0' is not a whole number from 1"),
        (["--as-of", "soon"], 2, "'soon' is not a date or a time such as"),
        (["--format", "png"], 2, "invalid choice"),
    ],
)
def test_wrong_arguments_of_graph_are_explained(memfs: Memfs, words: list[str], code: int, message: str) -> None:
    shown = memfs("graph", *words)

    assert shown.code == code
    assert message in shown.err
    assert "hint: " in shown.err


# --- diagrams


def test_dot_output_is_quoted_for_graphviz(memfs: Memfs, example: Path) -> None:
    (example / "notes/quote.md").write_text(
        "---\ntitle: 'A \"quoted\" \\ title'\n---\n\n[[people/bob]]\n", encoding="utf-8"
    )
    text = memfs("graph", "notes/quote", "--format", "dot").out

    assert text == (
        "digraph memories {\n  rankdir=LR;\n  node [shape=box];\n"
        '  m1 [label="A \\"quoted\\" \\\\ title", tooltip="notes/quote.md"];\n'
        '  m2 [label="Bob Tanaka", tooltip="people/bob.md"];\n'
        '  m1 -> m2 [label="mentions"];\n}\n'
    )


def test_mermaid_output_shows_the_same_graph(memfs: Memfs, example: Path) -> None:
    (example / "notes/quote.md").write_text(
        "---\ntitle: 'A \"b\" <i> #1'\n---\n\n- is [[people/bob]]\n", encoding="utf-8"
    )
    text = memfs("graph", "notes/quote", "--format", "mermaid").out

    assert text == ('graph LR\n  m1["A #34;b#34; #60;i#62; #35;1"]\n  m2["Bob Tanaka"]\n  m1 -->|"is"| m2\n')
    whole = memfs("graph", "--format", "mermaid").out
    assert len(re.findall(r"^  m\d+ -->", whole, re.MULTILINE)) == 93
    assert len(re.findall(r"^  m\d+\[", whole, re.MULTILINE)) == 44
    assert memfs("graph", "people/emma", "--to", "people/yuki", "--format", "dot").out.count(" -> ") == 3


def test_control_characters_in_links_are_escaped(memfs: Memfs, example: Path) -> None:
    bad = "\x1b[31m\u202e"
    (example / "notes/bad.md").write_text(f"- x{bad}y [[people/bob]] ({bad})\n- y [[{bad}]]\n", encoding="utf-8")

    for words in (
        ("graph", "notes/bad"), ("graph", "people/bob"), ("graph", "--format", "dot"), ("graph", "--format", "mermaid"),
        ("graph", "notes/bad", "--json"), ("graph",), ("check",), ("graph", "--relation", f"x{bad}y"),
    ):  # fmt: skip
        assert not set(bad[0] + bad[-1]) & set(memfs(*words).out)


def test_graph_and_check_change_no_tracked_file(memfs: Memfs, example: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=example, check=True)
    subprocess.run(["git", "add", "."], cwd=example, check=True)

    for words in (["graph"], ["graph", "Atlas", "--depth", "3"], ["graph", "--orphans"], ["check"]):
        memfs(*words)
    done = subprocess.run(["git", "diff"], cwd=example, capture_output=True, text=True, check=True)
    assert done.stdout == ""


# --- check and doctor


def test_check_shows_broken_and_ambiguous_links(memfs: Memfs, example: Path) -> None:
    (example / "notes/lost.md").write_text("One.\n\n- asks [[people/nobody]]\n- reads [[summary]]\n", encoding="utf-8")

    shown = memfs("check")
    assert shown.code == 1
    assert "notes/lost.md:3: [[people/nobody]]: no such memory\n" in shown.out
    assert "notes/lost.md:4: [[summary]]: ambiguous, it matches summaries/alice/s-2026-11-08/summary.md, " in shown.out
    assert shown.out.endswith("3 problems in 46 memories, 2 of them in archive/\n")
    assert [problem["line"] for problem in memfs("check", "--json").value["problems"]] == [4, 3, 4]
    assert memfs("check", "/people").code == 0
    assert memfs("check", "/archive").code == 0


def test_doctor_counts_the_same_problems(memfs: Memfs, example: Path) -> None:
    (example / "notes/lost.md").write_text("- asks [[people/nobody]]\n", encoding="utf-8")

    assert (
        "files: 2 problems in 46 memories, 2 of them in archive/; see `memfs check`\n" in memfs("doctor", "--check").out
    )


def test_orphans_are_no_problem(memfs: Memfs, example: Path) -> None:
    (example / "notes/pass.md").write_text("Runs out in May.\n", encoding="utf-8")

    assert memfs("check", "/notes").out.endswith(
        "1 problem in 5 memories\n1 memory has no links, which is no problem; `memfs graph --orphans` lists them\n"
    )
    (example / "notes/dentist.md").write_text("Dr Faure.\n", encoding="utf-8")
    assert memfs("check").code == 0
    assert memfs("check", "--json").value == {"memories": 46, "archived": 2, "problems": [], "orphans": 1}


def test_check_shows_some_of_many_broken_links_and_their_most_frequent_targets(memfs: Memfs, example: Path) -> None:
    for number in range(100):
        text = f"[[Topic]] and [[Other {number}]]" + " [[Most]]" * (number % 3)
        (example / f"journal/day-{number}.md").write_text(text, encoding="utf-8")

    lines = memfs("check").out.splitlines()
    assert len(lines) == 1 + 20 + 1 + 1
    assert lines[-2] == "… and 279 more; most often [[Topic]] (100), [[Most]] (99), [[Other 0]] (1); --all prints them"
    assert lines[-1] == "300 problems in 145 memories, 2 of them in archive/"
    assert len(memfs("check", "--all").out.splitlines()) == 300 + 1
    assert len(memfs("check", "--json").value["problems"]) == 300
