"""`memfs search` and `memfs explain-miss`: parsing, output and exit codes."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli_process import TIMEOUT_SECONDS, on_terminal, run
from support.commands import Memfs

from memfs import Vault
from memfs.cli import arguments, parser
from memfs.cli.commands.search import distinct_title, hit_block, hit_line, no_hits_hint, snippet_cells, wrap_cells
from memfs.cli.inputs import parse_conditions
from memfs.data_types import Hit, Memory, Reason
from memfs.format.frontmatter import parse_file
from memfs.json_output import hit_json
from memfs.query.filter_operators import OPERATORS


def hit(path: str, text: str, pattern: str = "(?!)", *, why: tuple[Reason, ...] = ()) -> Hit:
    """Return a hit whose snippet is the whole body; the matches of the pattern are its marks."""
    memory = Memory(path, text.encode(), os.stat(__file__), parse_file)
    marks = tuple(found.span() for found in re.finditer(pattern, memory.body))
    return Hit(memory, 0.931, 0.8, memory.body, marks, why)


def parsed(*words: str) -> argparse.Namespace:
    return parser.parse_arguments(parser.find_command(words[0]), words[1:])


TEA = "---\ncreated: 2026-03-04\n---\n"


# --- the command line of a search


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("importance >= 5", ("importance", ">=", 5)),
        ("importance>=5", ("importance", ">=", 5)),
        ("size < -1.5", ("size", "<", -1.5)),
        ("project EQUALS atlas", ("project", "EQUALS", "atlas")),
        ("project equals  the atlas ", ("project", "EQUALS", "the atlas")),
        ("project=atlas", ("project", "EQUALS", "atlas")),
        ("project == 'atlas'", ("project", "EQUALS", "atlas")),
        ("due date BEFORE 2026-12-01", ("due date", "BEFORE", "2026-12-01")),
        ("pinned EQUALS true", ("pinned", "EQUALS", True)),
        ('room EQUALS "5"', ("room", "EQUALS", "5")),
        ('room EQUALS ""', ("room", "EQUALS", "")),
        ("room EQUALS 007", ("room", "EQUALS", "007")),
        ("title EQUALS 2026", ("title", "EQUALS", "2026")),
        ("tags CONTAINS 1.5", ("tags", "CONTAINS", "1.5")),
        ("source EXISTS", ("source", "EXISTS", None)),
        ("source not_exists", ("source", "NOT_EXISTS", None)),
        ("exists EXISTS", ("exists", "EXISTS", None)),
        ("source=~/notes", ("source", "EQUALS", "~/notes")),
        ("source = '> 3'", ("source", "EQUALS", "> 3")),
        ("note CONTAINS != 3", ("note", "CONTAINS", "!= 3")),
        ("does it EXISTS", ("does it", "EXISTS", None)),
    ],
)
def test_conditions_are_parsed(text: str, parsed: tuple[str, str, object]) -> None:
    [found] = parse_conditions([arguments.parse_condition(text)])

    assert found == parsed
    assert type(found[2]) is type(parsed[2])


@pytest.mark.parametrize(
    "text",
    [
        "", "importance", "EXISTS", ">= 5", "a b", "a EQUALS", "a >", "a EXISTS b", "a LIKE b",
        "a != 3", "a!=3", "a >> 3", "a => 3", "a <> 3", "a =! 3", "a === 3", "a ~= b", "a =~ b", "a := b", "!= 3",
        "a NOT EXISTS", "a is not equals b", "a does not contains b",
    ],
)  # fmt: skip
def test_an_invalid_condition_is_refused(memfs: Memfs, text: str) -> None:
    ran = memfs("search", "tea", "--where", text)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"memfs: search: argument --where: {text!r}")
    assert "needs a value" in ran.err or "takes no value" in ran.err or ran.err.count(" ".join(OPERATORS)) == 1


def test_the_operators_of_the_command_line_are_those_of_the_search() -> None:
    assert arguments.OPERATORS == OPERATORS


def test_options_may_come_between_the_words() -> None:
    args = parsed("search", "what", "-n", "/facts", "does", "--type", "fact", "Bob", "eat", "--type", "note")

    assert (args.question, args.namespace, args.type) == (["what", "does", "Bob", "eat"], "/facts", ["fact", "note"])


def test_after_two_dashes_every_word_is_part_of_the_question() -> None:
    assert parsed("search", "--", "-n", "--json").question == ["-n", "--json"]
    assert parsed("search", "a", "--explain", "--", "--", "b").question == ["a", "--", "b"]
    assert parsed("explain-miss", "--", "-ref", "-1").ref == "-ref"
    assert parsed("completion", "--", "bash").shell == "bash"


@pytest.mark.parametrize(
    "words",
    [
        (), ("tea", "--limit", "0"), ("tea", "--limit", "x"), ("tea", "--offset", "-1"), ("tea", "--offset", "x"),
        ("tea", "--min-relevance", "much"), ("tea", "--include", "nothing"), ("tea", "--paths", "--explain"),
        ("-tea",), ("tea", "--nonsense"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_usage_error(memfs: Memfs, words: tuple[str, ...]) -> None:
    ran = memfs("search", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: search: ")
    assert "hint: See `memfs search --help`.\n" in ran.err


def test_completion_offers_search_options_and_values(memfs: Memfs) -> None:
    def offered(*words: str) -> list[str]:
        return [line.partition("\t")[0] for line in memfs("__complete", *words).out.splitlines()]

    assert offered("expl") == ["explain-miss"]
    assert offered("explain-miss", "people/al") == ["people/alice.md"]
    assert offered("explain-miss", "people/alice", "peop") == []
    assert offered("search", "x", "--include", "") == ["archived", "expired", "deprecated", "superseded", "all"]
    assert offered("search", "x", "-n", "/fac") == ["/facts/"]
    assert offered("search", "x", "--status", "d") == ["draft", "deprecated"]
    assert offered("doctor", "--c") == ["--check"]


# --- the output of a hit


def test_a_hit_line_has_path_relevance_date_title_and_snippet() -> None:
    named = replace(hit("people/tea.md", f"{TEA}# All of tea\n\nGreen.\n"), snippet="# All of tea Green.\n  Black.")
    plain = hit("people/tea.md", f"{TEA}Green.")

    assert hit_line(named) == "people/tea.md:0.93:2026-03-04: All of tea: Green. Black."
    assert hit_line(plain) == "people/tea.md:0.93:2026-03-04: Green."


def test_a_title_that_repeats_the_file_name_is_left_out() -> None:
    def title(path: str, text: str) -> str:
        return distinct_title(hit(path, text).memory)

    assert title("a/climbing routes.md", "# Climbing Routes") == ""
    assert title("a/climbing-routes.md", "# Climbing routes!") == ""
    assert title("a/Züri.md", "x") == ""
    assert title("a/alice.md", "# Alice  Moreau") == "Alice Moreau"


def test_a_hit_block_fits_the_width_of_the_terminal() -> None:
    found = hit("notes/tea.md", f"{TEA}# 東京のお茶\n\n" + "green tea 緑茶 " * 9 + "x" * 99, "tea|茶")
    for width in (120, 80, 50, 30):
        head, *rest = hit_block(found, width)
        assert head.startswith("notes/tea.md  0.93  2026-03-04")
        assert len(rest) > 1
        assert all(
            row.startswith("    ") and sum(2 if ord(char) > 0x3000 else 1 for char in row) <= width for row in rest
        )
    assert next(hit_block(found, 80)).endswith("  東京のお茶")


def test_rows_break_at_spaces_and_lose_nothing() -> None:
    text = [(char, False) for char in "ab cdefghij k"]

    assert ["".join(char for char, _ in row) for row in wrap_cells(text, 5)] == ["ab", "cdefg", "hij k"]
    assert ["".join(char for char, _ in row) for row in wrap_cells(text, 2)] == ["ab", "cd", "ef", "gh", "ij", "k"]
    assert list(wrap_cells([], 5)) == []


def test_marks_stay_on_their_words_when_characters_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    found = hit("a.md", "\x1b[2J\n\n  tea\x07 and \u202etea", "tea")
    shown = list(snippet_cells(found))

    assert "".join(text for text, _ in shown) == "\\x1b[2J tea\\x07 and \\u202etea"
    assert "".join(text for text, marked in shown if marked) == "teatea"
    assert list(snippet_cells(Hit(found.memory, 1, 1, "ab", ((1, 9), (0, 0))))) == [("a", False), ("b", True)]


def test_the_json_of_a_hit_extends_that_of_a_listing() -> None:
    found = hit("a.md", f"{TEA}Tea.", "Tea", why=(Reason("tea: once", 0.9),))
    facts = hit_json(found, why=True)

    assert list(facts) == [
        "id", "path", "namespace", "type", "title", "tags", "importance", "created", "updated", "stamp",
        "date", "relevance", "rank", "snippet", "marks", "why",
    ]  # fmt: skip
    assert facts["marks"] == ((0, 3),)
    assert facts["why"] == [{"text": "tea: once", "score": 0.9}]
    assert "why" not in hit_json(found, why=False)


def test_the_hint_names_the_filters_of_the_search() -> None:
    assert no_hits_hint(parsed("search", "x")).startswith("Try other words, or --include all ")
    assert no_hits_hint(parsed("search", "x", "--include", "all")) == "Try other words."
    assert no_hits_hint(parsed("search", "x", "-n", "/a")) == "Leave out --namespace, or try other words."
    assert no_hits_hint(parsed("search", "x", "-n", "/a", "--tag", "b", "--min-relevance", "0.5")) == (
        "Leave out --namespace, --tag or --min-relevance, or try other words."
    )


# --- search in the example vault


def test_search_prints_one_line_per_hit_without_a_terminal(memfs: Memfs) -> None:
    ran = memfs("search", "what", "is", "Bob", "allergic", "to", "--limit", "3")
    lines = ran.out.splitlines()

    assert (ran.code, ran.err, len(lines)) == (0, "", 3)
    assert re.fullmatch(
        r"facts/bob/allergic-to-peanuts\.md:[01]\.\d\d:2026-03-19: Bob is allergic to peanuts, .*", lines[0]
    )


def test_search_takes_every_filter(memfs: Memfs) -> None:
    def found(*words: str) -> list[str]:
        return memfs("search", "--paths", "--limit", "50", *words).out.splitlines()

    everything = found("Alice")

    assert found("Alice", "--limit", "2") == everything[:2]
    assert found("Alice", "--limit", "2", "--offset", "2") == everything[2:4]
    assert set(found("Alice", "-n", "/people")) == {path for path in everything if path.startswith("people/")}
    assert found("Alice", "--type", "preference", "--type", "person")[0].startswith(("people/", "preferences/"))
    assert found("peanuts", "--tag", "food", "--tag", "allergy") == ["facts/bob/allergic-to-peanuts.md"]
    assert found("peanuts", "--tag", "food", "--tag", "climbing") == []
    assert found("Bob", "--where", "importance >= 10") == ["facts/bob/allergic-to-peanuts.md"]
    assert found("Bob", "--where", "role EXISTS", "--where", "city = Lyon", "-n", "/people")[0] == "people/bob.md"
    assert found("Bob", "--created", "2026-03-19..2026-03-19", "-n", "/facts") == ["facts/bob/allergic-to-peanuts.md"]
    assert found("Atlas deadline", "--updated", "..2020-01-01") == []
    assert "facts/bob/lives-in-villeurbanne.md" in found(
        "where does Bob live", "--valid", "2026-01-15", "--include", "all"
    )
    assert found("ukulele") == []
    assert found("ukulele", "--include", "archived") == ["archive/facts/alice/learns-ukulele.md"]
    assert found("sushi", "--min-relevance", "1") == found("sushi", "--min-relevance", "0.99")


def test_search_fills_a_namespace_template_with_the_actor(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFS_ACTOR", "bob")

    assert (
        memfs("search", "sencha", "-n", "/preferences/{actorId}", "--paths").out == "preferences/bob/drinks-sencha.md\n"
    )


def test_search_json_has_stable_keys(memfs: Memfs) -> None:
    [found] = memfs("search", "peanut", "allergic", "--limit", "1", "--json").value
    [explained] = memfs("search", "peanut", "allergic", "--limit", "1", "--json", "--explain").value

    assert {"path", "id", "title", "type", "tags", "date", "created", "relevance", "rank", "snippet", "marks"} < {
        *found
    }
    assert {*explained} - {*found} == {"why"}
    assert [list(reason) for reason in explained["why"]] == [["text", "score"]] * len(explained["why"])
    assert {found["snippet"][start:end] for start, end in found["marks"]} == {"allergic", "peanuts"}


def test_explain_prints_reasons_below_each_hit(memfs: Memfs) -> None:
    lines = memfs("search", "sencha", "--explain", "--limit", "1").out.splitlines()

    assert lines[0].startswith("preferences/bob/drinks-sencha.md:")
    assert len(lines) > 1
    assert all(line.startswith("    ") for line in lines[1:])
    assert any("sencha" in line for line in lines[1:])


def test_no_hits_are_exit_code_1_with_a_hint(memfs: Memfs) -> None:
    plain = memfs("search", "zebra", "crossing")
    narrow = memfs("search", "zebra", "-n", "/facts", "--type", "fact")
    nowhere = memfs("search", "sushi", "-n", "/fatcs")

    assert (plain.code, plain.out) == (1, "")
    assert plain.err.startswith("nothing found for 'zebra crossing'\nhint: Try other words, or --include all ")
    assert narrow.err == (
        "nothing found for 'zebra' in /facts\nhint: Leave out --namespace or --type, or try other words.\n"
    )
    assert "hint: There is no such namespace;" in nowhere.err
    assert "hint: The question has no letters, digits or emoji to search for" in memfs("search", "?!").err
    assert "hint: Try other words" in memfs("search", "🪗", "?!").err
    assert memfs("search", "zebra", "--json") == (1, "[]\n", "")
    assert memfs("search", "zebra", "--paths").out == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--limit", "100000"), ("--min-relevance", "2"), ("--min-relevance", "nan"), ("--created", "yesterday"),
        ("--created", ""), ("--valid", "2026-02-01..2026-01-01"), ("--where", "created BEFORE noon"),
        ("--where", "importance > high"), ("--where", "updated >= noon"),
        ("-n", "/../facts"),
    ],
)  # fmt: skip
def test_an_invalid_filter_is_exit_code_2(memfs: Memfs, words: tuple[str, ...]) -> None:
    ran = memfs("search", "tea", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: ")
    assert "\nhint: " in ran.err
    assert list(json.loads(memfs("search", "tea", *words, "--json").err)) == ["error", "hint", "exit_code"]


def test_explain_miss_prints_the_reasons(memfs: Memfs) -> None:
    found = memfs("explain-miss", "facts/bob/allergic-to-peanuts", "peanuts")
    other = memfs("explain-miss", "people/yuki", "peanuts")
    hidden = memfs("explain-miss", "archive/facts/alice/learns-ukulele", "ukulele", "--json")

    assert found.code == other.code == hidden.code == 0
    assert found.out.startswith("facts/bob/allergic-to-peanuts.md\n    ")
    assert "hit 1" in found.out
    assert "hit 1" not in other.out
    assert list(hidden.value) == ["id", "path", "question", "reasons"]
    assert hidden.value["reasons"]
    assert memfs("explain-miss", "people/nobody", "peanuts").code == 1


def test_a_question_can_be_read_from_stdin(example: Path) -> None:
    assert run(example, "search", "-", "--paths", "--limit", "1", stdin=b"sencha\n").stdout == (
        b"preferences/bob/drinks-sencha.md\n"
    )


# --- search at a terminal


def test_words_of_the_question_are_coloured_at_a_terminal(example: Path) -> None:
    code, seen = on_terminal(example, "search", "allergic to peanuts", "--limit", "1")

    assert code == 0
    assert seen.startswith("\x1b[35mfacts/bob/allergic-to-peanuts.md\x1b[0m  \x1b[2m")
    assert "is \x1b[1;31mallergic\x1b[0m to \x1b[1;31mpeanuts\x1b[0m, traces" in seen
    assert "\x1b[" not in on_terminal(example, "search", "peanuts", NO_COLOR="1")[1]
    assert b"\x1b[" not in run(example, "search", "peanuts").stdout


def test_hits_fit_the_terminal_and_name_the_option_for_more(example: Path) -> None:
    for columns in (100, 60):
        _, seen = on_terminal(example, "search", "Atlas", "--limit", "4", columns=columns, NO_COLOR="1")
        blocks = seen.split("\n\n")
        assert len(blocks) == 5
        assert blocks[-1] == "the best 4; --offset 4 shows more\n"
        assert all(len(line) <= columns for block in blocks for line in block.splitlines()[1:])


def test_the_last_page_does_not_offer_more(example: Path) -> None:
    total = len(run(example, "search", "Atlas", "--limit", "50", "--paths").stdout.splitlines())
    last, before, page = (
        on_terminal(example, "search", "Atlas", "--limit", limit, "--offset", offset, NO_COLOR="1")[1]
        for limit, offset in ((str(total), "0"), (str(total - 1), "0"), ("2", str(total - 2)))
    )

    assert "shows more" not in last + page
    assert f"the best {total - 1}; --offset {total - 1} shows more" in before


def test_control_characters_of_a_vault_never_reach_the_terminal(vault: Vault) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202egpj.exe\r"
    vault.add(f"{evil}\ntea {evil} tea", namespace="/a", title=f"A{evil}\n\tB", tags=["x"])
    (vault.root / "a/\x1b[2Jtea\nx.md").write_text(f"# {evil}\ntea")
    name = next(path.name for path in (vault.root / "a").iterdir() if path.name[0] == "\x1b")
    shown = [
        ("search", "tea"),
        ("search", "tea", "--paths"),
        ("search", "tea", "--json"),
        ("search", "tea", "--explain"),
    ]
    shown += [("explain-miss", f"a/{name}", "tea"), ("sync",), ("doctor",), ("search", f"q{evil}")]
    for words in shown:
        _, seen = on_terminal(vault.root, *words, columns=300, NO_COLOR="1")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", seen), words


# --- search as a process


def test_search_imports_nothing_heavy(example: Path) -> None:
    code = "import sys; from memfs.cli.main import main; main(['search', 'x']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=example, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    imported = set(done.stderr.split())
    groups = {name.removeprefix("memfs.cli.") for name in imported if name.startswith("memfs.cli.")}

    assert groups == {"main", "parser", "arguments", "command_table", "commands", "commands.search", "inputs", "output"}
    assert not imported & {
        "numpy",
        "sqlalchemy",
        "psycopg",
        "redis",
        "cryptography",
        "pydantic",
        "watchdog",
        "asyncio",
        "socket",
        "rich",
        "typer",
        "unittest",
    }


def test_a_read_only_vault_is_searched_with_a_warning(example: Path, mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=3m")
    shutil.copytree(example, disk / "vault")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    found = run(disk / "vault", "search", "sencha", "--paths", "--limit", "1")
    nothing = run(disk / "vault", "search", "zebra")
    synced = run(disk / "vault", "sync")

    assert (found.returncode, found.stdout) == (0, b"preferences/bob/drinks-sencha.md\n")
    assert nothing.returncode == 1
    assert nothing.stderr.count(b"memfs: warning: ") == 1
    assert b"nothing found for 'zebra'\nhint: " in nothing.stderr
    assert synced.returncode == 0
    assert b"45 memories: " in synced.stdout
    assert run(disk / "vault", "status").returncode == 0
