"""The graph of a vault: link resolution, validity of triples, neighbours, paths, problems, and the graph tool."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from support.commands import REPOSITORY, Git
from support.files import Snapshot

from memfs import InMemoryStore, MemoryManager, Vault, VaultStore
from memfs.errors import (
    AmbiguousNameError,
    InvalidArgumentsError,
    InvalidNamespaceError,
    InvalidSetupError,
    MemoryNotFoundError,
)
from memfs.upkeep.link_graph import Graph, Triple


def write(vault: Vault, files: dict[str, str]) -> Graph:
    """Write files and return the graph of the vault."""
    for path, text in files.items():
        file = vault.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Graph.of(vault)


def arrows(triples: list[Triple]) -> set[tuple[str, str, str]]:
    return {(one.subject, one.relation, one.object) for one in triples}


def resolved(graph: Graph, path: str = "from/here.md") -> list[str]:
    return [one.object for one in graph.triples(path)]


# --- the example vault

ATLAS = "projects/atlas/Atlas.md"
DECISIONS = "projects/atlas/decisions.md"
CALL = "projects/atlas/Call with Lukas 2026-10-19.md"
DEADLINE, OCTOBER = "facts/alice/atlas-deadline.md", "facts/alice/atlas-deadline-october.md"
DRAWN = {
    ATLAS: (
        {
            ("client", "people/lukas.md"),
            ("team", "people/alice.md"),
            ("team", "people/bob.md"),
            ("team", "people/samir.md"),
            ("team", "people/yuki.md"),
            ("mentions", "facts/atlas/code-freeze.md"),
            ("mentions", DECISIONS),
            ("mentions", CALL),
            ("mentions", "projects/atlas/feedback_small_migrations.md"),
            ("mentions", "facts/atlas/offline-maps-in-sqlite.md"),
            ("embeds", DECISIONS),
        },
        {
            ("part_of", DECISIONS),
            ("part_of", "facts/atlas/beta-with-hut-wardens.md"),
            ("client_of", "people/lukas.md"),
            ("designs", "people/alice.md"),
            ("owns", "people/bob.md"),
            ("builds", "people/samir.md"),
            ("translates", "people/yuki.md"),
            ("related", "notes/Zürich trip.md"),
            ("embeds", "journal/2026-11-12.md"),
        },
    ),
    DEADLINE: (
        {("supersedes", OCTOBER), ("owned_by", "people/bob.md"), ("agreed_with", "people/lukas.md")},
        {
            ("depends_on", "facts/atlas/code-freeze.md"),
            ("leads_to", DECISIONS),
            ("mentions", "summaries/alice/s-2026-11-15/summary.md"),
        },
    ),
    DECISIONS: (
        {
            ("part_of", ATLAS),
            ("owned_by", "people/bob.md"),
            ("agreed_with", "people/lukas.md"),
            ("follows_from", CALL),
            ("leads_to", DEADLINE),
        },
        {("mentions", ATLAS), ("embeds", ATLAS), ("decided_in", "facts/atlas/offline-maps-in-sqlite.md")},
    ),
    "journal/2026-11-12.md": (
        {
            ("previous", "notes/Zürich trip.md"),
            ("embeds", ATLAS),
            ("mentions", "people/lukas.md"),
            ("mentions", "notes/dentist.md"),
            ("mentions", "people/emma.md"),
            ("mentions", "notes/climbing routes.md"),
        },
        set(),
    ),
}


@pytest.mark.parametrize("path", DRAWN)
def test_the_triples_of_the_example_vault_are_as_expected(example: Path, path: str) -> None:
    graph = Graph.of(Vault(example))
    out, into = DRAWN[path]

    assert {(one.relation, one.object) for one in graph.triples(path)} == out
    assert {(one.relation, one.subject) for one in graph.triples(object=path)} == into


def test_every_link_of_the_example_vault_is_resolved(example: Path) -> None:
    graph = Graph.of(Vault(example))

    assert len(graph.triples()) == 92
    assert graph.problems() == []
    assert graph.orphans() == []


def test_a_triple_has_a_line_and_a_note(example: Path) -> None:
    graph = Graph.of(Vault(example))

    (agreed,) = graph.triples("facts/alice/atlas-deadline", "agreed_with")
    assert (agreed.line, agreed.note, agreed.target) == (20, "in Zürich, 10 November", "people/lukas")
    assert str(agreed) == f"{DEADLINE}:20: agreed_with people/lukas.md (in Zürich, 10 November)"
    for triple in graph.triples():
        line = (example / triple.subject).read_text(encoding="utf-8").split("\n")[triple.line - 1]
        assert f"[[{triple.target}" in line


def test_subject_relation_and_object_filter_together(example: Path) -> None:
    graph = Graph.of(Vault(example))

    assert arrows(graph.triples("Bob Tanaka", "OWNS", "Project Atlas")) == {("people/bob.md", "owns", ATLAS)}
    assert graph.triples("people/bob", "owns", "people/alice") == []
    assert {one.relation for one in graph.triples(relation="team")} == {"team"}
    assert len(graph.triples(relation="team")) == 4


# --- as of a day


def test_a_triple_holds_until_its_memory_is_superseded(example: Path) -> None:
    graph = Graph.of(Vault(example))

    def owning(day: str | date) -> list[str]:
        found = graph.triples(relation="owned_by", object="people/bob", as_of=day)
        return [one.subject for one in found if one.subject.startswith("facts/")]

    assert owning("2026-03-01") == []
    assert owning("2026-03-02") == [OCTOBER]
    assert owning("2026-11-09") == [OCTOBER]
    assert owning(date(2026, 11, 10)) == [DEADLINE]
    assert owning(datetime(2026, 11, 9, 23, 59, tzinfo=UTC)) == [OCTOBER]
    assert owning("2027-01-01T00:00:00Z") == [DEADLINE]
    assert len(graph.triples(relation="owned_by", object="people/bob")) == 3


def test_expired_and_deprecated_memories_have_no_triples_as_of_a_day(example: Path) -> None:
    graph = Graph.of(Vault(example))

    def count_of(path: str, day: str) -> int:
        return len(graph.triples(path, as_of=day))

    assert [count_of("facts/alice/climbing-hall-pass", day) for day in ("2026-09-30", "2026-10-01")] == [1, 0]
    assert [count_of("facts/bob/in-tokyo-in-december", day) for day in ("2026-12-06", "2026-12-18")] == [0, 2]
    assert count_of("facts/atlas/staging-runs-under-bobs-desk", "2026-05-01") == 0
    assert len(graph.triples("facts/atlas/staging-runs-under-bobs-desk")) == 1


def test_a_superseded_memory_ends_without_valid_until(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "old.md": "- likes [[tea]]",
            "older.md": "- likes [[tea]]",
            "odd.md": '---\nsupersedes: "[[odd]]"\n---\n\n- likes [[tea]]',
            "tea.md": "Tea.",
            "new.md": '---\ncreated: 2026-05-01T12:00:00Z\nsupersedes:\n  - "[[old]]"\n---\n\n- hates [[tea]]',
            "not.md": '---\ncreated: 2026-01-01\nstatus: deprecated\nsupersedes:\n  - "[[older]]"\n---\n\nNothing.',
        },
    )

    assert [bool(graph.triples("old", as_of=time)) for time in ("2026-05-01T11:59:59Z", "2026-05-01T12:00:00Z")] == [
        True,
        False,
    ]
    assert not graph.triples("old", as_of="2026-05-01")  # a day means its end
    assert graph.triples("older", as_of="2099-01-01")
    assert graph.triples("odd", as_of="2099-01-01")


NAMED = [
    ("[[facts/tea]]", True),
    ("[[tea]]", True),
    ("facts/Tea.md", True),
    ("[[m-01k9zq6d0m2p3q4r5s6t7v8w9x|what she drank]]", True),
    ("[[Green tea]]", False),
    ("[[Sencha]]", False),
    ("[[work/facts/tea]]", False),
]


@pytest.mark.parametrize(("link", "is_named"), NAMED)
def test_graph_and_search_agree_on_superseded_memories(vault: Vault, link: str, is_named: bool) -> None:
    known = "id: m-01k9zq6d0m2p3q4r5s6t7v8w9x\ntitle: Green tea\naliases: [Sencha]"
    graph = write(
        vault,
        {
            "facts/tea.md": f"---\n{known}\n---\n\nShe drinks it.\n\n- likes [[alice]]",
            "alice.md": "Alice.",
            "new.md": f'---\nvalid_from: 2026-01-01\nsupersedes: "{link}"\n---\n\nShe gave it up.',
        },
    )

    assert bool(graph.triples("facts/tea", as_of="2026-11-17")) is not is_named
    assert bool(vault.search("drinks")) is not is_named
    assert bool(graph.problems()) is not is_named


def test_a_link_that_supersedes_nothing_is_a_problem_with_the_path_to_write(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "facts/tea.md": "# Green tea\n\nShe drinks it.",
            "new.md": '---\nsupersedes: "[[Green tea]]"\n---\n\nShe gave it up.',
            "body.md": "- supersedes [[Green tea]]",
            "not.md": '---\nstatus: deprecated\nsupersedes: "[[Green tea]]"\n---\n\nNothing.',
        },
    )

    result = "supersedes nothing by that name; write the path, [[facts/tea]], or the id"
    assert [str(one) for one in graph.problems()] == [f"new.md:2: [[Green tea]]: {result}"]


def test_all_memories_with_a_name_are_superseded(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "alice/tea.md": "She drinks it.\n\n- likes [[cup]]",
            "bob/tea.md": "He drinks it.\n\n- likes [[cup]]",
            "new/tea.md": '---\nvalid_from: 2026-01-01\nsupersedes: "[[tea]]"\n---\n\nNobody drinks it: [[cup]]',
            "cup.md": "A cup.",
        },
    )

    assert [one.subject for one in graph.triples(object="cup", as_of="2026-11-17")] == ["new/tea.md"]
    assert [hit.memory.path for hit in vault.search("drinks")] == ["new/tea.md"]


def test_the_first_and_last_possible_days_are_accepted(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "tea.md": "Tea.",
            "old.md": "---\nvalid_until: 9999-12-31\n---\n\n- likes [[tea]]",
            "new.md": '---\nvalid_from: 0001-01-01\nsupersedes: "[[old]]"\n---\n\n- hates [[tea]]',
        },
    )

    for day in ("0001-01-01", "9999-12-31"):
        assert [one.subject for one in graph.triples(object="tea", as_of=day)] == ["new.md"]


@pytest.mark.parametrize("when", ["soon", "2026-13-01", ""])
def test_an_invalid_day_is_refused(vault: Vault, when: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"as_of: .* is not a date"):
        Graph.of(vault).triples(as_of=when)


# --- paths and neighbours


def test_the_shortest_path_follows_links_in_either_direction(example: Path) -> None:
    graph = Graph.of(Vault(example))

    way = graph.path("Emma Moreau", "people/yuki")
    assert way is not None
    assert [(one.subject, one.relation, one.object) for one in way] == [
        ("people/emma.md", "sister_of", "people/alice.md"),
        ("people/alice.md", "works_with", "people/bob.md"),
        ("people/bob.md", "knows", "people/yuki.md"),
    ]
    assert graph.path("people/bob", "Bob") == []


def test_there_is_no_path_over_triples_that_did_not_hold(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "a.md": "---\nvalid_from: 2026-06-01\n---\n\n- knows [[b]]",
            "b.md": "B.",
            "c.md": "- knows [[b]]\n\nSee [[a]].",
            "alone.md": "Nobody.",
        },
    )

    assert [one.relation for one in graph.path("a", "b", as_of="2026-06-01") or ()] == ["knows"]
    assert [one.subject for one in graph.path("a", "b", as_of="2026-05-31") or ()] == ["c.md", "c.md"]
    assert graph.path("a", "b", as_of="2026-05-31", relation="knows") is None
    assert graph.path("a", "alone") is None


def test_neighbours_are_nearest_first_and_listed_once(example: Path) -> None:
    graph = Graph.of(Vault(example))

    near = graph.neighbours("facts/alice/climbs-6c", 2)
    distances = [one.distance for one in near]
    assert [one.path for one in near if one.distance == 1] == [
        "facts/alice/climbs-6b.md", "people/emma.md", "people/alice.md",
    ]  # fmt: skip
    assert distances == sorted(distances)
    assert len({one.path for one in near}) == len(near)
    assert "people/bob.md" in {one.path for one in near}
    assert "people/bob.md" not in {one.path for one in graph.neighbours("climbs-6c", 2, relation="climbs")}


@pytest.mark.parametrize("depth", [0, -1, "2"])
def test_an_invalid_depth_is_refused(vault: Vault, depth: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="depth"):
        write(vault, {"a.md": "A."}).neighbours("a", depth)


# --- resolution of links


@pytest.mark.parametrize(
    "link",
    [
        "people/bob",
        "people/bob.md",
        "/people/bob",
        "PEOPLE/Bob",
        "people/bob|him",
        "people/bob#Contact",
        "../people/bob",
        "m-01kk747r98b9z9gf9javjmdx41",
        "bob",
        "Bob Tanaka",
        "bob tanaka",
        "Bobby",
        "memory-of-bob",
        "perm/bob",
    ],
)
def test_a_link_names_a_memory_by_path_id_name_title_or_alias(vault: Vault, link: str) -> None:
    header = "id: m-01kk747r98b9z9gf9javjmdx41\naliases: [Bobby]\nname: memory-of-bob\npermalink: perm/bob"
    graph = write(vault, {"people/bob.md": f"---\n{header}\n---\n\n# Bob Tanaka\n", "from/here.md": f"Ask [[{link}]]."})

    assert resolved(graph) == ["people/bob.md"]


def test_case_and_normal_form_do_not_matter(vault: Vault) -> None:
    graph = write(vault, {"notes/Zu\u0308rich TRIP.md": "Zürich.", "from/here.md": "[[z\u00fcrich trip]]"})

    assert resolved(graph) == ["notes/Zu\u0308rich TRIP.md"]


def test_the_last_directories_of_a_path_are_enough(vault: Vault) -> None:
    graph = write(vault, {"a/b/c.md": "C.", "a/x/c.md": "Another.", "from/here.md": "[[b/c]]"})

    assert resolved(graph) == ["a/b/c.md"]


def test_a_file_name_precedes_a_title_and_a_title_an_alias(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "a/tea.md": "Tea.",
            "b/x.md": "# Tea\n",
            "c/y.md": "---\naliases: [Green, Tea]\n---\n\nY.",
            "d/z.md": "# Green\n",
            "from/here.md": "[[Tea]] [[Green]]",
        },
    )

    assert resolved(graph) == ["a/tea.md", "d/z.md"]


def test_of_several_matches_the_nearest_directory_wins(vault: Vault) -> None:
    files = dict.fromkeys(("plan.md", "work/plan.md", "work/atlas/plan.md", "home/plan.md"), "Plan.")
    files |= {f"{place}here.md": "[[plan]]" for place in ("", "work/atlas/", "work/atlas/deep/", "work/other/", "far/")}
    graph = write(vault, files)

    assert {place: resolved(graph, f"{place}here.md") for place in ("", "work/atlas/", "work/atlas/deep/", "far/")} == {
        "": ["plan.md"],
        "work/atlas/": ["work/atlas/plan.md"],
        "work/atlas/deep/": ["work/atlas/plan.md"],
        "far/": ["plan.md"],
    }
    assert resolved(graph, "work/other/here.md") == ["work/plan.md"]
    assert graph.problems() == []


def test_an_archived_memory_can_be_linked_to_and_has_no_links(vault: Vault) -> None:
    vault.add("- likes [[tea]]", title="Old")
    write(vault, {"tea.md": "Tea.", "from/here.md": "[[old]] and [[archive/old]]"})
    vault.forget("old")
    graph = Graph.of(vault)

    assert resolved(graph) == ["archive/old.md", "archive/old.md"]
    assert graph.triples(object="tea") == []
    assert graph.problems() == []
    assert graph.orphans() == ["tea.md"]


def test_a_conflict_copy_is_never_a_target(vault: Vault) -> None:
    files = {
        "tea.md": "# Green tea\n",
        "tea.conflict-20261115T103000Z.md": "# Green tea\n",
        "from/here.md": "[[green tea]]",
    }
    graph = write(vault, files)

    assert resolved(graph) == ["tea.md"]


# --- problems


def test_broken_and_ambiguous_links_are_problems_with_their_lines(vault: Vault) -> None:
    graph = write(
        vault,
        {
            "a/plan.md": "A.",
            "b/plan.md": "B.",
            "from/here.md": "---\nowner: '[[nobody]]'\n---\n\nOne.\n\n- follows [[plan]]\n- [ ] ask [[c/plan#Now]]\n",
        },
    )

    assert [str(problem) for problem in graph.problems()] == [
        "from/here.md:2: [[nobody]]: no such memory",
        "from/here.md:7: [[plan]]: ambiguous, it matches a/plan.md, b/plan.md",
        "from/here.md:8: [[c/plan]]: no such memory",
    ]
    assert [problem.key for problem in graph.problems()] == ["owner", "follows", "mentions"]
    assert graph.triples() == []
    assert [one.target for one in graph.unknown("from/here")] == ["nobody", "plan", "c/plan"]


def test_an_ambiguous_link_lists_only_some_matches(vault: Vault) -> None:
    graph = write(vault, {f"{name}/plan.md": name for name in "abcdef"} | {"z/here.md": "[[plan]]"})

    (problem,) = graph.problems()
    assert problem.reason == "[[plan]]: ambiguous, it matches a/plan.md, b/plan.md, c/plan.md and 3 more"


@pytest.mark.parametrize("link", ["../../outside", "../..", "../../vault/tea"])
def test_a_link_never_leaves_the_vault(vault: Vault, link: str) -> None:
    (vault.root.parent / "outside.md").write_text("Secret.", encoding="utf-8")
    graph = write(vault, {"tea.md": "Tea.", "from/here.md": f"[[{link}]]"})

    (problem,) = graph.problems()
    assert problem.reason == f"[[{link}]]: points outside of the vault"
    assert graph.triples() == []


@pytest.mark.parametrize(
    "link", ["/etc/passwd", "file:///etc/passwd", "https://example.org", "con", "a\u0000b", "x" * 900]
)
def test_a_link_to_no_memory_is_broken(vault: Vault, link: str) -> None:
    graph = write(vault, {"from/here.md": f"[[{link}]]"})

    assert [problem.reason for problem in graph.problems()] == [f"[[{link}]]: no such memory"]


def test_pictures_and_the_readme_are_neither_memories_nor_problems(vault: Vault) -> None:
    graph = write(vault, {"README.md": "Us.", "a.md": "![[map.png|300]] [[plan.PDF#page=2]] [[README]]"})

    assert graph.problems() == []
    assert graph.orphans() == ["a.md"]


def test_orphans_have_no_link_in_or_out(vault: Vault) -> None:
    graph = write(
        vault, {"a.md": "[[b]]", "b.md": "B.", "c.md": "C.", "d.md": "[[nowhere]]", "e.md": "[[e]]", "f/g.md": "G."}
    )

    assert graph.orphans() == ["c.md", "e.md", "f/g.md"]
    assert Graph.of(vault, "/f").orphans() == ["f/g.md"]


def test_an_unknown_or_ambiguous_name_is_an_error(example: Path) -> None:
    graph = Graph.of(Vault(example))

    with pytest.raises(MemoryNotFoundError, match="'nobody': no such memory"):
        graph.triples("nobody")
    with pytest.raises(
        AmbiguousNameError, match=r"'summary': may mean summaries/alice/s-2026-11-08/summary\.md, "
    ) as result:
        graph.neighbours("summary")
    assert result.value.hint == "Name it by its path."
    assert len(result.value.paths) == 3
    assert graph.find("[[Bob Tanaka|him]]") == "people/bob.md"


def test_an_exact_path_precedes_all_other_names(vault: Vault) -> None:
    graph = write(vault, {"tea.md": "Tea.", "Tea.md": "Twin.", "C# notes.md": "C."})

    assert [graph.find(name) for name in ("tea.md", "Tea", "C# notes")] == ["tea.md", "Tea.md", "C# notes.md"]


# --- subtrees


def test_a_graph_of_a_namespace_has_only_links_from_it(example: Path) -> None:
    graph = Graph.of(Vault(example), "/facts/atlas")

    assert {one.subject.rpartition("/")[0] for one in graph.triples()} == {"facts/atlas"}
    assert "people/lukas.md" in {one.object for one in graph.triples()}


def test_a_scope_sees_only_its_subtree(vault: Vault) -> None:
    write(
        vault,
        {
            "facts/alice/a.md": "- knows [[people/bob]]\n- follows [[b]]\n- owes [[facts/alice/gone]]\n[[Claire]]",
            "facts/alice/b.md": "B.",
            "facts/bob/b.md": "Another.",
            "people/bob.md": "- knows [[facts/alice/a]]",
        },
    )
    alice = vault.scope("/facts/alice")
    graph = Graph.of(alice)

    assert arrows(graph.triples()) == {("facts/alice/a.md", "follows", "facts/alice/b.md")}
    assert list(graph.nodes) == ["facts/alice/a.md", "facts/alice/b.md"]
    assert [problem.value for problem in graph.problems()] == ["facts/alice/gone"]
    with pytest.raises(MemoryNotFoundError):
        graph.find("people/bob")
    with pytest.raises(InvalidNamespaceError, match="outside the scope"):
        Graph.of(alice, "/people")


def test_reading_the_graph_changes_no_byte(example: Path, git: Git, snapshot: Snapshot) -> None:
    git(example, "init")
    git(example, "add", ".")
    before = snapshot(example, ".git", ".memfs")

    with Vault(example) as vault:
        graph = Graph.of(vault)
        graph.triples(as_of="2026-06-01"), graph.neighbours("Atlas", 3), graph.path("Emma Moreau", "Atlas")
        graph.problems(), graph.orphans()
    assert snapshot(example, ".git", ".memfs") == before
    assert git(example, "status", "--porcelain", "--untracked-files=no") == git(example, "status", "--porcelain")


def test_progress_counts_every_memory(example: Path) -> None:
    progress_calls: list[tuple[int, int]] = []

    Graph.of(Vault(example), progress=lambda done, total: progress_calls.append((done, total)))

    assert progress_calls[0] == (1, 43)
    assert progress_calls[-1] == (43, 43)


def test_the_benchmark_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.linking", "--memories", "60", "--calls", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert "graph of 62 memories, " in done.stdout


# --- the tool


def call(tool: Any, **arguments: Any) -> Any:
    return asyncio.run(tool(**arguments))


def graph_tool(store: VaultStore) -> Any:
    (tool,) = store.get_tools()
    return tool


def test_the_graph_tool_returns_links_in_both_directions(example: Path) -> None:
    tool = graph_tool(VaultStore(example, tools=("graph",)))

    result = call(tool, memory="Atlas deadline")
    assert tool.name == "memory_graph"
    assert not tool.writes
    assert (result["title"], result["store_name"], result["left_out"]) == ("Atlas deadline", "vault", 0)
    assert {"relation": "owned_by", "id": "m-01kk747r98b9z9gf9javjmdx41", "title": "Bob Tanaka"} in result["out"]
    assert [one["note"] for one in result["out"] if one["relation"] == "agreed_with"] == ["in Zürich, 10 November"]
    assert [one["relation"] for one in result["in"]] == ["depends_on", "leads_to", "mentions"]
    assert call(tool, memory=result["id"]) == result
    assert [one["title"] for one in call(tool, memory="Bob", relation="knows")["out"]] == ["Yuki Sato"]


def test_the_graph_tool_returns_links_that_hold_now_or_then(example: Path) -> None:
    tool = graph_tool(VaultStore(example, tools=("graph",)))

    def owned(**when: str) -> list[str]:
        return [one["title"] for one in call(tool, memory="people/bob", relation="owned_by", **when)["in"]]

    assert owned() == ["Atlas deadline", "Atlas decisions"]
    assert owned(as_of="2026-06-01") == ["Atlas deadline in October", "Atlas decisions"]


def test_the_result_of_the_graph_tool_is_limited(example: Path) -> None:
    tool = graph_tool(VaultStore(example, tools=("graph",)))

    result = call(tool, memory="people/bob", limit=2)
    whole = call(tool, memory="people/bob")
    assert (len(result["out"]), len(result["in"])) == (2, 2)
    assert result["left_out"] == len(whole["out"]) + len(whole["in"]) - 4
    for limit in (0, 101):
        with pytest.raises(InvalidArgumentsError, match="limit"):
            call(tool, memory="people/bob", limit=limit)


def test_the_graph_tool_is_limited_to_the_namespace_of_the_store(example: Path) -> None:
    tool = graph_tool(VaultStore(example, "/facts/{actorId}", actor="alice", tools=("graph",)))

    result = call(tool, memory="atlas-deadline")
    titles = {one["title"]: one["id"] for one in result["out"]}
    assert titles == {
        "Atlas deadline in October": "m-01kk74kcbgybeypbhp5crkwm0p",
        "people/bob": None,
        "people/lukas": None,
    }
    assert result["in"] == []
    for name in ("people/bob", "Bob Tanaka", "../../people/bob", "nothing", "learns-ukulele"):
        with pytest.raises(MemoryNotFoundError):
            call(tool, memory=name)


def test_an_archived_memory_is_shown_only_by_the_text_of_the_link(vault: Vault) -> None:
    write(vault, {"a.md": "- knows [[b]]", "b.md": "# The secret of B\n"})
    vault.forget("b")

    assert call(graph_tool(VaultStore(vault, tools=("graph",))), memory="a")["out"] == [
        {"relation": "knows", "id": None, "title": "b"}
    ]


def test_the_graph_tool_returns_printable_short_texts(vault: Vault) -> None:
    bad = "B \x1b[31m\u202e" + "x" * 500
    write(vault, {"a.md": f"- knows [[b]] (\x07{bad})", "b.md": f'---\ntitle: "B\\n{"y" * 500}"\n---\n\nB.'})

    (result,) = call(graph_tool(VaultStore(vault, tools=("graph",))), memory="a")["out"]
    assert all(value.isprintable() and len(value) <= 200 for value in result.values())


def test_the_graph_tool_exists_only_if_it_is_enabled(example: Path) -> None:
    store = VaultStore(example)

    assert store.get_tools() == []
    assert "memory_graph" in [tool["name"] for tool in MemoryManager([store], read_tools=["graph"]).tool_specs()]
    with pytest.raises(InvalidSetupError, match="the store does not support 'graph'"):
        InMemoryStore(tools=["graph"])


def test_of_several_stores_the_one_with_the_memory_is_used(example: Path) -> None:
    stores = [VaultStore(example, "/people"), VaultStore(example, "/facts")]

    async def ask() -> Any:
        async with MemoryManager(stores, read_tools=["graph"], tools="single") as manager:
            return await manager.call_tool("memory", {"action": "graph", "memory": "atlas-deadline"})

    assert asyncio.run(ask())["store_name"] == "facts"


# --- kept between two calls of the tool


def links_of_tea(store: VaultStore) -> list[tuple[str, str]]:
    """Return the links of `tea` from the tool: relations, and titles at the other end."""
    facts = asyncio.run(store.graph("tea"))
    return sorted((one["relation"], one["title"]) for one in (*facts["out"], *facts["in"]))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that were built, in order."""
    graphs, build = list[Graph](), Graph.from_memories

    def record(*arguments: Any, **options: Any) -> Graph:
        graphs.append(build(*arguments, **options))
        return graphs[-1]

    monkeypatch.setattr(Graph, "from_memories", record)
    return graphs


def test_the_graph_is_cached_while_nothing_changes(vault: Vault, built: list[Graph]) -> None:
    write(vault, {"tea.md": "- from [[japan]]", "japan.md": "A country."})
    built.clear()
    store = VaultStore(vault, tools=("graph",))

    assert links_of_tea(store) == [("from", "japan")]
    assert links_of_tea(store) == [("from", "japan")]
    assert len(built) == 1


def edit_in_place(root: Path) -> None:
    """Change a file in place, with the same size and time: only its bytes differ."""
    file = root / "tea.md"
    times = file.stat()
    file.write_text(file.read_text(encoding="utf-8").replace("japan", "china"), encoding="utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], object], list[tuple[str, str]]]] = {
    "an edit in place": (edit_in_place, [("from", "china")]),
    "a new memory": (
        lambda root: (root / "cup.md").write_text("- holds [[tea]]", encoding="utf-8"),
        [("from", "japan"), ("holds", "cup")],
    ),
    "a memory that goes": (lambda root: (root / "japan.md").unlink(), [("from", "japan")]),
    "a memory that is called otherwise": (
        lambda root: (root / "japan.md").write_text("---\ntitle: Nippon\n---\n\nA country.", encoding="utf-8"),
        [("from", "Nippon")],
    ),
    "one that is in force no more": (
        lambda root: (root / "tea.md").write_text("---\nstatus: deprecated\n---\n\n- from [[japan]]", encoding="utf-8"),
        [],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_graph_is_rebuilt_after_any_change(vault: Vault, built: list[Graph], name: str) -> None:
    write(vault, {"tea.md": "- from [[japan]]", "japan.md": "A country.", "china.md": "A country."})
    built.clear()
    store = VaultStore(vault, tools=("graph",))
    change, expected = CHANGES[name]
    links_of_tea(store)

    change(vault.root)
    assert links_of_tea(store) == expected
    assert len(built) == 2
    assert links_of_tea(store) == links_of_tea(VaultStore(vault, tools=("graph",)))


def test_a_cached_graph_depends_on_the_time_of_files(vault: Vault) -> None:
    """For a file without `created` the modification time counts, and it supersedes from then on."""
    new = '---\nsupersedes: "[[tea]]"\n---\n\nNew.'
    write(vault, {"tea.md": "- from [[japan]]", "japan.md": "A country.", "new.md": new})
    store = VaultStore(vault, tools=("graph",))

    assert links_of_tea(store) == [("supersedes", "new")]
    os.utime(vault.root / "new.md", (4e9, 4e9))
    assert links_of_tea(store) == [("from", "japan"), ("supersedes", "new")]
