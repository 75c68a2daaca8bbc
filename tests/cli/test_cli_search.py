"""Search and what keeps it right, as commands: what they print, and as processes that others watch and end."""

import argparse
import json
import logging
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median
from threading import Thread

import pytest
from conftest import Memfs

from memfs import Vault
from memfs.cli import arguments, output, parser
from memfs.cli.commands.index import status_rows, sync_summary
from memfs.cli.commands.search import distinct_title, hit_block, hit_line, no_hits_hint, snippet_cells, wrap_cells
from memfs.cli.commands.watch import ChangeQueue, check_watcher
from memfs.cli.inputs import DuplicateFilter, LogFormatter, parse_conditions
from memfs.cli.output import Progress
from memfs.data_types import Change, Hit, IndexStatus, Memory, Reason, SyncReport
from memfs.errors import MemfsError
from memfs.format.frontmatter import parse_file
from memfs.json_output import hit_json
from memfs.query.filter_operators import OPERATORS

MEMFS = [sys.executable, "-m", "memfs"]
LIMIT = 30


def environment(**more: str) -> dict[str, str]:
    """A small one: nothing of the person who runs the tests."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}


def run(where: Path, *words: str, stdin: bytes = b"", **more: str) -> "subprocess.CompletedProcess[bytes]":
    command = [*MEMFS, *words]
    return subprocess.run(command, cwd=where, env=environment(**more), input=stdin, capture_output=True, timeout=LIMIT)


def on_terminal(where: Path, *words: str, columns: int = 80, **more: str) -> tuple[int, str]:
    """Run a command at a terminal; answers the exit code and what is to be seen."""
    master, slave = pty.openpty()
    env = environment(COLUMNS=str(columns), **more)
    process = subprocess.Popen([*MEMFS, *words], cwd=where, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while select.select([master], [], [], LIMIT)[0]:
        try:
            seen += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    return process.wait(LIMIT), seen.decode().replace("\r\n", "\n")


def hit(path: str, text: str, pattern: str = "(?!)", *, why: tuple[Reason, ...] = ()) -> Hit:
    """A hit whose snippet is the whole body, with what the pattern finds marked."""
    memory = Memory(path, text.encode(), os.stat(__file__), parse_file)
    marks = tuple(found.span() for found in re.finditer(pattern, memory.body))
    return Hit(memory, 0.931, 0.8, memory.body, marks, why)


def parsed(*words: str) -> argparse.Namespace:
    return parser.parse_arguments(parser.find_command(words[0]), words[1:])


TEA = "---\ncreated: 2026-03-04\n---\n"


# --- the command line of a search


@pytest.mark.parametrize(
    ("text", "read"),
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
def test_a_condition_is_read_as_a_person_writes_it(text: str, read: tuple[str, str, object]) -> None:
    [found] = parse_conditions([arguments.parse_condition(text)])

    assert found == read
    assert type(found[2]) is type(read[2])


@pytest.mark.parametrize(
    "text",
    [
        "", "importance", "EXISTS", ">= 5", "a b", "a EQUALS", "a >", "a EXISTS b", "a LIKE b",
        "a != 3", "a!=3", "a >> 3", "a => 3", "a <> 3", "a =! 3", "a === 3", "a ~= b", "a =~ b", "a := b", "!= 3",
        "a NOT EXISTS", "a is not equals b", "a does not contains b",
    ],
)  # fmt: skip
def test_a_condition_that_is_none_is_refused(memfs: Memfs, text: str) -> None:
    ran = memfs("search", "tea", "--where", text)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"memfs: search: argument --where: {text!r}")
    assert "needs a value" in ran.err or "takes no value" in ran.err or ran.err.count(" ".join(OPERATORS)) == 1


def test_the_command_line_knows_the_operators_of_a_search() -> None:
    assert arguments.OPERATORS == OPERATORS


def test_options_stand_anywhere_among_the_words() -> None:
    args = parsed("search", "what", "-n", "/facts", "does", "--type", "fact", "Bob", "eat", "--type", "note")

    assert (args.question, args.namespace, args.type) == (["what", "does", "Bob", "eat"], "/facts", ["fact", "note"])


def test_behind_two_dashes_everything_is_question() -> None:
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


def test_completion_knows_the_new_commands(memfs: Memfs) -> None:
    def offered(*words: str) -> list[str]:
        return [line.partition("\t")[0] for line in memfs("__complete", *words).out.splitlines()]

    assert offered("expl") == ["explain-miss"]
    assert offered("explain-miss", "people/al") == ["people/alice.md"]
    assert offered("explain-miss", "people/alice", "peop") == []
    assert offered("search", "x", "--include", "") == ["archived", "expired", "deprecated", "superseded", "all"]
    assert offered("search", "x", "-n", "/fac") == ["/facts/"]
    assert offered("search", "x", "--status", "d") == ["draft", "deprecated"]
    assert offered("doctor", "--c") == ["--check"]


# --- how a hit looks


def test_a_hit_on_a_line_has_path_relevance_date_title_and_snippet() -> None:
    named = replace(hit("people/tea.md", f"{TEA}# All of tea\n\nGreen.\n"), snippet="# All of tea Green.\n  Black.")
    plain = hit("people/tea.md", f"{TEA}Green.")

    assert hit_line(named) == "people/tea.md:0.93:2026-03-04: All of tea: Green. Black."
    assert hit_line(plain) == "people/tea.md:0.93:2026-03-04: Green."


def test_a_title_that_says_no_more_than_the_name_is_left_out() -> None:
    def title(path: str, text: str) -> str:
        return distinct_title(hit(path, text).memory)

    assert title("a/climbing routes.md", "# Climbing Routes") == ""
    assert title("a/climbing-routes.md", "# Climbing routes!") == ""
    assert title("a/Züri.md", "x") == ""
    assert title("a/alice.md", "# Alice  Moreau") == "Alice Moreau"


def test_a_hit_on_a_terminal_fits_its_width() -> None:
    found = hit("notes/tea.md", f"{TEA}# 東京のお茶\n\n" + "green tea 緑茶 " * 9 + "x" * 99, "tea|茶")
    for room in (120, 80, 50, 30):
        head, *rest = hit_block(found, room)
        assert head.startswith("notes/tea.md  0.93  2026-03-04")
        assert len(rest) > 1
        assert all(
            row.startswith("    ") and sum(2 if ord(char) > 0x3000 else 1 for char in row) <= room for row in rest
        )
    assert next(hit_block(found, 80)).endswith("  東京のお茶")


def test_rows_break_at_spaces_and_lose_nothing() -> None:
    text = [(char, False) for char in "ab cdefghij k"]

    assert ["".join(char for char, _ in row) for row in wrap_cells(text, 5)] == ["ab", "cdefg", "hij k"]
    assert ["".join(char for char, _ in row) for row in wrap_cells(text, 2)] == ["ab", "cd", "ef", "gh", "ij", "k"]
    assert list(wrap_cells([], 5)) == []


def test_marks_stay_on_their_words_when_the_text_is_made_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    found = hit("a.md", "\x1b[2J\n\n  tea\x07 and \u202etea", "tea")
    shown = list(snippet_cells(found))

    assert "".join(text for text, _ in shown) == "\\x1b[2J tea\\x07 and \\u202etea"
    assert "".join(text for text, marked in shown if marked) == "teatea"
    assert list(snippet_cells(Hit(found.memory, 1, 1, "ab", ((1, 9), (0, 0))))) == [("a", False), ("b", True)]


def test_the_facts_of_a_hit_extend_those_of_a_listing() -> None:
    found = hit("a.md", f"{TEA}Tea.", "Tea", why=(Reason("tea: once", 0.9),))
    facts = hit_json(found, why=True)

    assert list(facts) == [
        "id", "path", "namespace", "type", "title", "tags", "importance", "created", "updated", "stamp",
        "date", "relevance", "rank", "snippet", "marks", "why",
    ]  # fmt: skip
    assert facts["marks"] == ((0, 3),)
    assert facts["why"] == [{"text": "tea: once", "score": 0.9}]
    assert "why" not in hit_json(found, why=False)


def test_advice_names_what_narrows_the_search() -> None:
    assert no_hits_hint(parsed("search", "x")).startswith("Try other words, or --include all ")
    assert no_hits_hint(parsed("search", "x", "--include", "all")) == "Try other words."
    assert no_hits_hint(parsed("search", "x", "-n", "/a")) == "Leave out --namespace, or try other words."
    assert no_hits_hint(parsed("search", "x", "-n", "/a", "--tag", "b", "--min-relevance", "0.5")) == (
        "Leave out --namespace, --tag or --min-relevance, or try other words."
    )


# --- what keeps the index right, in words


def test_a_sync_is_told_in_a_line() -> None:
    assert sync_summary(SyncReport(3, 1, 0, 999, 0.1234)) == "1,003 memories: 3 added, 1 updated, 0 removed in 0.12 s"
    assert sync_summary(SyncReport(1, 0, 2, 0, 0.0)) == "1 memory: 1 added, 0 updated, 2 removed in 0.00 s"


def test_status_is_in_words() -> None:
    now = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
    fresh = IndexStatus("", 0, 0, "none", "", "scan", None)
    closed = IndexStatus("", 0, 0, "none", "", "scan", None, "nothing can be written here")
    busy = IndexStatus("g7", 1200, 2, "disk", "4711", "watcher", now, "no space left")

    assert dict(status_rows(fresh, now)) == {
        "memories": "0 in the index, archived ones too",
        "index": "none yet; a search or `memfs sync` builds it",
        "pending": "none",
        "watcher": "none",
        "changes": "found by a scan before each search",
    }
    assert dict(status_rows(closed, now))["index"] == "none"
    assert dict(status_rows(busy, now)) == {
        "memories": "1,200 in the index, archived ones too",
        "index": "on disk, g7",
        "pending": "2 changes, found by searches too",
        "watcher": "process 4711",
        "changes": "reported by the watcher",
        "last scan": "2026-11-16 12:00:00Z, just now",
        "trouble": "no space left",
    }


def test_progress_is_shown_on_a_terminal_once_it_takes_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", float(LIMIT))
        monkeypatch.setattr(output, "PROGRESS_INTERVAL_SECONDS", float(LIMIT))
        with Progress() as hasty:
            hasty(1, 2)
        monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", 0.0)
        with Progress() as slow:
            slow(12_000, 100_000)
            slow(12_001, 100_000)
        shown, seen = "\r\x1b[Kindexed 12,000 of 100,000\r\x1b[K", ""
        while len(seen) < len(shown):  # a terminal hands it on in pieces
            seen += os.read(master, 1000).decode()
    os.close(master)

    assert seen == shown


@pytest.mark.parametrize(
    ("words", "doing"),
    [
        (["list"], "reading memories"),
        (["check"], "reading memories"),
        (["graph"], "reading memories"),
        (["stats"], "reading memories"),
        (["prune"], "reading memories"),
        (["doctor"], "comparing the index with the files"),
        (["audit"], "looking for"),
    ],
)
def test_whoever_waits_is_told_what_for(
    memfs: Memfs, monkeypatch: pytest.MonkeyPatch, words: list[str], doing: str
) -> None:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", 0.0)
        memfs(*words)
        assert select.select([master], [], [], LIMIT)[0], "nothing was shown"
        seen = os.read(master, 4000).decode()
    os.close(master)

    assert seen.startswith("\r\x1b[K")
    assert f"\r\x1b[K{doing}" in seen


def test_progress_is_for_terminals_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", 0.0)
    with Progress() as progress:
        progress(1, 2)

    assert capsys.readouterr().err == ""


def test_a_feed_hands_on_what_other_threads_put_and_ends_with_its_reader() -> None:
    reader, writer = os.pipe()
    changes = [Change("updated", f"{number}.md") for number in range(100_000)]
    with ChangeQueue() as queue:
        thread = Thread(target=lambda: deque(map(queue.put, changes)))
        thread.start()
        received = list(islice(queue.until_closed(writer, lambda: None), len(changes)))
        thread.join(LIMIT)
        os.close(reader)
        rest = list(queue.until_closed(writer, lambda: None))
    os.close(writer)

    assert received == changes
    assert rest == []


# --- search in the example vault


def test_search_prints_a_line_a_hit_where_there_is_no_terminal(memfs: Memfs) -> None:
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


def test_a_template_is_searched_with_the_actor(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nothing_found_is_exit_code_1_and_says_what_to_try(memfs: Memfs) -> None:
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
def test_a_filter_that_cannot_be_is_exit_code_2(memfs: Memfs, words: tuple[str, ...]) -> None:
    ran = memfs("search", "tea", *words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: ")
    assert "\nhint: " in ran.err
    assert list(json.loads(memfs("search", "tea", *words, "--json").err)) == ["error", "hint", "exit_code"]


def test_explain_miss_tells_why(memfs: Memfs) -> None:
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


def test_a_question_comes_from_stdin_too(example: Path) -> None:
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


def test_hits_fit_the_terminal_and_say_how_to_go_on(example: Path) -> None:
    for columns in (100, 60):
        _, seen = on_terminal(example, "search", "Atlas", "--limit", "4", columns=columns, NO_COLOR="1")
        blocks = seen.split("\n\n")
        assert len(blocks) == 5
        assert blocks[-1] == "the best 4; --offset 4 shows more\n"
        assert all(len(line) <= columns for block in blocks for line in block.splitlines()[1:])


def test_where_nothing_follows_there_is_nothing_to_go_on_with(example: Path) -> None:
    total = len(run(example, "search", "Atlas", "--limit", "50", "--paths").stdout.splitlines())
    last, before, page = (
        on_terminal(example, "search", "Atlas", "--limit", limit, "--offset", offset, NO_COLOR="1")[1]
        for limit, offset in ((str(total), "0"), (str(total - 1), "0"), ("2", str(total - 2)))
    )

    assert "shows more" not in last + page
    assert f"the best {total - 1}; --offset {total - 1} shows more" in before


def test_nothing_of_a_vault_reaches_the_terminal_raw(vault: Vault) -> None:
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


# --- one process


def test_search_imports_nothing_heavy(example: Path) -> None:
    code = "import sys; from memfs.cli.main import main; main(['search', 'x']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=example, capture_output=True, text=True, timeout=LIMIT)
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


def test_what_the_log_says_is_one_harmless_line_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    handler.addFilter(DuplicateFilter())
    log = logging.Logger("memfs.test")
    log.addHandler(handler)
    try:
        raise ValueError("a\x1bb")
    except ValueError:
        log.exception("it\nfailed")
    log.warning("read-only")
    log.warning("read-only")

    assert capsys.readouterr().err == "memfs: error: it\\x0afailed: a\\x1bb\nmemfs: warning: read-only\n"


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


# --- sync, status, doctor


def test_sync_tells_what_it_did(memfs: Memfs, example: Path) -> None:
    first = memfs("sync")
    (example / "people/emma.md").unlink()
    (example / "people/new.md").write_text("New.")
    (example / "people/yuki.md").write_text("Edited.")
    second = memfs("sync", "--json").value

    assert re.fullmatch(r"45 memories: 45 added, 0 updated, 0 removed in \d+\.\d\d s\n", first.out)
    assert list(second) == ["memories", "added", "updated", "removed", "unchanged", "seconds", "problems"]
    assert [second[name] for name in ("memories", "added", "updated", "removed", "unchanged")] == [45, 1, 1, 1, 43]


def test_status_builds_no_index(memfs: Memfs, example: Path) -> None:
    before = memfs("status")
    is_made = (example / ".memfs").exists()
    memfs("sync")
    after = memfs("status", "--json").value

    assert before.out.startswith(f"{example}\n  memories   0 in the index")
    assert "  index      none yet; a search or `memfs sync` builds it\n" in before.out
    assert not is_made
    assert list(after) == [
        "root", "generation", "memories", "pending", "where", "watcher", "notices", "last_scan", "trouble", "semantic",
    ]  # fmt: skip
    assert (after["root"], after["memories"], after["where"], after["watcher"]) == (str(example), 45, "disk", "")


def test_status_tells_when_another_process_looked_at_every_file(memfs: Memfs, example: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    memfs("search", "sushi")
    told, shown = memfs("status", "--json").value["last_scan"], memfs("status").out

    assert before <= datetime.fromisoformat(told) <= datetime.now(UTC)
    assert re.search(r"\n  last scan  \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, just now\n", shown)


def test_doctor_mends_the_index_and_tells_what_is_left_to_a_person(memfs: Memfs, example: Path) -> None:
    memfs("sync")
    for path in (example / ".memfs/index").rglob("*"):
        if path.is_file():
            path.write_text("junk")
    mended = memfs("doctor")
    (example / "notes/dentist.md").write_text("Dr Faure, on Thursday.\n")
    well = memfs("doctor", "--json")

    assert mended.code == 1
    assert re.search(
        r"index: \d problems?, repaired\nfiles: 1 problem in 45 memories, 2 of them in archive/; see `memfs check`\n$",
        mended.out,
    )
    assert well.code == 0
    assert well.value == {"found": [], "mended": 0, "left": [], "problems": 0}
    assert memfs("doctor").out == "index: no problems\nfiles: no problems in 45 memories, 2 of them in archive/\n"


def test_doctor_check_tells_and_ends_with_1(memfs: Memfs, example: Path) -> None:
    memfs("sync")
    (example / "notes/dentist.md").write_text("Dr Faure, on Thursday.\n")
    well = memfs("doctor", "--check")
    for path in (example / ".memfs/index").rglob("*"):
        if path.is_file():
            path.write_text("junk")
    ill = memfs("doctor", "--check")

    assert (well.code, ill.code) == (0, 1)
    assert re.search(r"index: \d problems?; `memfs doctor` repairs the index\n", ill.out)


# --- watch


class Watching:
    """A `memfs watch` that runs, and says when it does."""

    def __init__(self, where: Path, *words: str) -> None:
        pipe = subprocess.PIPE
        command = [*MEMFS, "watch", *words]
        self.process = subprocess.Popen(command, cwd=where, env=environment(), stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout
        assert self.process.stderr
        self.out, self.err = self.process.stdout, self.process.stderr
        self.said = self.err.readline()

    def line(self) -> str:
        """The next line it prints."""
        assert select.select([self.out], [], [], LIMIT)[0]
        return self.out.readline()

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Send a signal; answers the exit code, and what else it said."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(LIMIT)
        rest = self.err.read()
        self.err.close()
        self.out.close()
        return code, rest


def test_watch_prints_what_happens_outside_within_a_second(example: Path) -> None:
    watching = Watching(example)
    here, there = example / "people/new.md", example / "notes/new.md"
    seen = []
    for act in (
        lambda: here.write_text("New."),
        lambda: here.write_text("Newer."),
        lambda: here.rename(there),
        there.unlink,
    ):
        started = time.monotonic()
        act()
        seen.append((watching.line(), time.monotonic() - started))

    assert watching.said == f"watching {example}, 45 memories; stop with Ctrl-C\n"
    assert [line for line, _ in seen] == [
        "created people/new.md\n",
        "updated people/new.md\n",
        "moved people/new.md -> notes/new.md\n",
        "removed notes/new.md\n",
    ]
    assert median(taken for _, taken in seen) < 1
    assert watching.end(signal.SIGINT) == (0, "")


def test_watch_prints_json_a_line_and_ends_with_sigterm(example: Path) -> None:
    watching = Watching(example, "--json")
    by_hand = example / "people/new.md"
    by_hand.write_text("New.")
    first = json.loads(watching.line())
    added = json.loads(run(example, "add", "Emma sings.", "-n", "/facts/emma", "--json").stdout)
    second = json.loads(watching.line())
    by_hand.unlink()
    third = json.loads(watching.line())

    assert list(first) == ["kind", "path", "old_path", "id", "time"]
    assert (first["kind"], first["path"], first["old_path"], first["id"]) == (
        "created", "people/new.md", None, "people/new",
    )  # fmt: skip
    assert (second["kind"], second["id"]) == ("created", added["id"])
    assert (third["kind"], third["id"]) == ("removed", None)
    assert datetime.fromisoformat(first["time"]) <= datetime.now(UTC)
    assert watching.end(signal.SIGTERM) == (0, "")


def test_watch_gives_a_memory_that_is_gone_no_id_of_another(example: Path) -> None:
    (example / "people/other.md").write_text("---\nid: people/new.md\n---\n\nOther.")
    (example / "people/new.md").write_text("New.")
    watching = Watching(example, "--json")
    (example / "people/new.md").unlink()

    told = json.loads(watching.line())

    assert (told["kind"], told["path"], told["id"]) == ("removed", "people/new.md", None)
    assert watching.end(signal.SIGTERM) == (0, "")


def test_watch_ends_when_nobody_reads_any_more(example: Path) -> None:
    quiet, busy = Watching(example), Watching(example)
    quiet.out.close()
    (example / "people/new.md").write_text("New.")
    busy.line()
    busy.out.close()

    assert quiet.end() == (0, "")
    assert busy.end() == (0, "")


def test_watch_goes_well_with_head(example: Path) -> None:
    watching = Watching(example)
    head = subprocess.Popen(["head", "-1"], stdin=watching.out, stdout=subprocess.PIPE)
    watching.out.close()
    (example / "people/new.md").write_text("New.")

    assert head.communicate(timeout=LIMIT)[0] == b"created people/new.md\n"
    assert watching.end() == (0, "")


def test_status_knows_the_watcher(example: Path) -> None:
    watching = Watching(example)
    (example / "people/new.md").write_text("New.")
    watching.line()
    status = json.loads(run(example, "status", "--json").stdout)
    watching.end(signal.SIGINT)
    later = json.loads(run(example, "status", "--json").stdout)

    assert (status["watcher"], status["notices"]) == (str(watching.process.pid), "watcher")
    assert later["watcher"] == ""


def test_watch_ends_when_the_vault_is_gone(example: Path) -> None:
    watching = Watching(example)
    example.rename(example.parent / "elsewhere")
    code, said = watching.end()

    assert code == 2
    assert f"memfs: {example}: no vault here\n" in said
    assert "Traceback" not in said


def test_watch_says_when_its_watcher_ended(vault: Vault) -> None:
    with pytest.raises(MemfsError, match="the watcher ended") as caught:
        check_watcher(vault)

    assert caught.value.hint


def test_watch_without_a_vault_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "watch")

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no vault here\nhint: Make one with" in done.stderr
