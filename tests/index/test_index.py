"""Parts of the index and its freshness: rows, generations, scans, the journal and the watcher."""

import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memfs import Stamp, Vault
from memfs.data_types import Memory
from memfs.format.frontmatter import parse_file
from memfs.freshness.index_doctor import _differences, _faults
from memfs.freshness.watcher import Watcher
from memfs.fs.files import MAX_FILE_BYTES, digest, open_root
from memfs.fs.handle_cache import MAX_STALE_HANDLES, HandleCache
from memfs.index.document_builder import Document, build_document
from memfs.index.generations import MAX_CHUNKS, Generation, _link
from memfs.index.row_table import Chunk, IndexDamagedError, Row, RowTable
from memfs.index.tantivy_analyzer import Analyzer
from memfs.index.tantivy_index import index_in_memory, publish
from memfs.index.unpublished_changes import UnpublishedChange, UnpublishedChanges
from memfs.query.keyword_terms import join_keywords
from memfs.query.question import Weights
from memfs.query.tokens import LANGUAGES
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.stat_scan import Changes, diff, read_one, scan


def row(path: str, number: int = 1) -> Row:
    return Row(path, Stamp(number, number, number, number), bytes(8))


def row_table(*chunks: tuple[list[Row], list[int]]) -> RowTable:
    made, first = [], 0
    for rows, dead in chunks:
        made.append(Chunk(Chunk.encode(first, rows, dead)))
        first += len(rows)
    return RowTable(made)


# --- analyzer


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_question_is_tokenized_in_every_language(language: str) -> None:
    assert Analyzer(language).question_terms("Kiwi42")


# --- keywords


@given(
    st.lists(
        st.text(st.sampled_from("ab=% \t\n\f\r\x0b\x1c\x1f\x85\xa0\u2028sné日"), min_size=1), min_size=1, unique=True
    )
)
@example(["a b", "a", "b", "a\x1fsb", "a\tb", " ", "\x1f", "\x1fs"])
def test_a_keyword_stays_one_term_with_any_white_space(texts: list[str]) -> None:
    keywords = [f"x={text}" for text in texts]
    documents = [
        Document(row(f"{at}.md"), "tea", join_keywords(["tags=tea", one]), {}) for at, one in enumerate(keywords)
    ]

    index = index_in_memory([(None, document) for document in documents], "english")

    assert [index.rows_with_keyword(one) for one in keywords] == [[at] for at in range(len(keywords))]
    assert sorted(index.values("x")) == sorted(texts)
    assert sorted(index.values("x", without=keywords[:1])) == sorted(texts[1:])


# --- rows


def test_a_row_table_returns_the_live_row_of_each_path() -> None:
    rows = row_table(([row("a.md", 1), row("b.md", 2)], []), ([row("a.md", 3)], [0]), ([], [1]))

    assert rows.rows_by_path() == {"a.md": 2}
    assert rows.stamps() == {"a.md": (3, 3, 3, 3)}
    assert (rows.live_count, rows.dead_count, rows.next_row) == (1, 2, 3)
    assert rows.row(1) == row("b.md", 2)
    assert rows.has_path("b.md")


def test_a_row_table_returns_the_live_rows_of_each_directory() -> None:
    first = [row("a.md", 1), row("n/a.md", 2), row("n/b.md", 3), row("n/m/x.md", 4), row("n/z.md", 5)]
    rows = row_table((first, []), ([row("n/b.md", 6), row("日/x.md", 7)], [2, 3]), ([], [0]))

    known = {folder: rows.directory(folder).stamps() for folder in rows.directories()}

    assert {folder: [*paths] for folder, paths in known.items()} == {
        "": [],
        "n": ["n/a.md", "n/z.md", "n/b.md"],
        "n/m": [],
        "日": ["日/x.md"],
    }
    assert {path: stamp for paths in known.values() for path, stamp in paths.items()} == rows.stamps()
    assert rows.directory("elsewhere").stamps() == {}


@pytest.mark.parametrize(
    ("chunks", "is_all"),
    [
        ([(["n/a.md", "n/b.md", "n/c.md"], [])], True),
        ([(["n/c.md", "n/a.md", "n/b.md"], [])], True),
        ([(["n/a.md", "n/c.md"], []), (["n/b.md"], [])], True),
        ([(["n/a.md", "n/x.md", "n/b.md", "n/c.md"], [1])], True),
        ([(["n/a.md", "n/b.md", "n/c.md"], [1])], False),
        ([(["n/a.md", "n/b.md"], [])], False),
        ([(["n/a.md", "n/b.md", "n/d.md"], [])], False),
        ([(["n/a.md", "n/b.md", "m/c.md"], [])], False),
    ],
    ids=["sorted", "unsorted", "two chunks", "with a dead row", "one dead", "one missing", "another", "elsewhere"],
)
def test_directory_rows_match_exactly_the_indexed_files(
    chunks: list[tuple[list[str], list[int]]], is_all: bool
) -> None:
    known = row_table(*[([row(path, 7) for path in paths], dead) for paths, dead in chunks]).directory("n")
    names, stamps = ["a.md", "b.md", "c.md"], [(7, 7, 7, 7)] * 3

    assert known.matches(names, stamps) == is_all
    assert not known.matches(names, [*stamps[:2], (7, 8, 7, 7)])
    assert len(known) == len(known.stamps())


def test_merged_rows_keep_their_numbers() -> None:
    rows = row_table(([row("ä.md", 1)], []), ([row("b/日.md", 2)], [0]))

    merged = RowTable([Chunk(rows.merge())])

    assert [merged.row(number) for number in range(2)] == [row("ä.md", 1), row("b/日.md", 2)]
    assert merged.rows_by_path() == {"b/日.md": 1}


def test_a_time_out_of_range_is_stored_as_zeros() -> None:
    far = Row("a.md", Stamp(1 << 70, 1, 1, 1), bytes(8))

    assert row_table(([far], [])).stamps() == {"a.md": (0, 0, 0, 0)}


@pytest.mark.parametrize("data", [b"", b"memfsrow", bytes(100), Chunk.encode(0, [row("a.md")], [])[:-1]])
def test_bytes_that_are_not_a_chunk_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a chunk of rows"):
        Chunk(data)


def test_rows_that_cannot_be_read_raise_index_damaged() -> None:
    data = Chunk.encode(0, [row("aaaa.md"), row("b.md")], [])
    rows = RowTable([Chunk(data.replace(b"aaaa", b"a\xff\xfea"))])

    for read in (
        rows.rows_by_path,
        rows.stamps,
        rows.directories,
        lambda: rows.row(0),
        lambda: rows.directory("").stamps(),
    ):
        with pytest.raises(IndexDamagedError):
            read()
    with pytest.raises(IndexDamagedError):
        RowTable([Chunk(data.replace(b"aaaa", b"a\0aa"))]).rows_by_path()
    with pytest.raises(ValueError, match="rows are missing"):
        RowTable([Chunk(Chunk.encode(5, [], []))])


# --- generations


def test_chunks_of_many_publications_are_merged(vault: Vault) -> None:
    for number in range(MAX_CHUNKS + 3):
        vault.add(f"Number {number} is here.", "n")
        vault.sync()

    generation = Generation.read(str(vault.root / ".memfs/index"))
    assert len(generation.read_rows().chunks) < MAX_CHUNKS
    assert len(vault.search("number", limit=100)) == MAX_CHUNKS + 3
    assert vault.doctor() == []


@pytest.mark.parametrize("text", [b"", b"x", b"0\n[]", b'1\n["../..", "k", "", {}]'])
def test_an_invalid_current_file_raises_index_damaged(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "current").write_bytes(text)

    with pytest.raises(IndexDamagedError):
        Generation.read(str(tmp_path))


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    other = Path("/dev/shm") / f"memfs-test-{os.getpid()}"
    try:
        _link(str(tmp_path / "a"), str(other))  # another file system
        assert other.read_text() == "x"
    finally:
        other.unlink()
    with pytest.raises(FileNotFoundError):
        _link(str(tmp_path / "none"), str(tmp_path / "b"))


# --- the doctor


def test_the_doctor_finds_differences_between_index_and_files(vault: Vault) -> None:
    kept, other = vault.add("Tea.", "n"), vault.add("Coffee.", "n")
    vault.sync()
    engine = vault._engine
    index = engine.freshness.index
    with vault._files.opened() as root:
        memory = read_one(root, kept.path)
    assert memory is not None
    wrong = build_document(memory)._replace(row=Row(kept.path, memory.stamp, bytes(8)))  # type: ignore[arg-type, union-attr]
    gone = build_document(memory)._replace(row=Row("n/gone.md", memory.stamp, bytes(8)))  # type: ignore[arg-type, union-attr]
    rows = index.row_table.rows_by_path()
    edits = [(rows[kept.path], wrong), (rows[other.path], None), (None, gone)]
    folder = engine.freshness.published.folder
    damaged = publish(folder, index, edits, language="english", journal="", is_large=False)

    differences = set(_differences(damaged, damaged.row_table.rows_by_path(), vault._files, is_synced=True))
    faults = list(_faults(engine.freshness, vault._files, is_synced=False))

    assert differences == {
        (kept.path, "indexed with another text"),
        (other.path, "not indexed"),
        ("n/gone.md", "indexed and not there"),
    }
    assert faults == [(kept.path, "indexed with another text")]
    assert [problem.path for problem in vault.doctor()] == [kept.path]
    assert vault.doctor() == []
    assert len(vault.search("tea coffee")) == 2


def test_the_doctor_without_repair_changes_nothing(vault: Vault) -> None:
    (vault.root / "tea.md").write_text("Tea.")

    assert vault.doctor(repair=False) == []
    assert not (vault.root / ".memfs/index/current").exists()


def test_a_rewritten_current_of_the_same_generation_does_not_reopen_the_index(vault: Vault) -> None:
    vault.add("Alice drinks oolong.")
    vault.sync()
    index, current = vault._engine.freshness.index, vault.root / ".memfs/index/current"
    for _ in range(3):
        (vault.root / "again").write_bytes(current.read_bytes())
        (vault.root / "again").replace(current)

        assert len(vault.search("oolong")) == 1
        assert vault._engine.freshness.index is index
    current.unlink()

    assert len(vault.search("oolong")) == 1
    assert vault._engine.freshness.index is not index


# --- unpublished changes and scans


_WORDS = st.sampled_from("abcde")


@given(
    edits=st.lists(
        st.tuples(st.integers(0, 4), st.lists(_WORDS, max_size=8), st.booleans(), st.booleans()), max_size=20
    ),
    groups=st.lists(st.lists(_WORDS, min_size=1, max_size=3, unique=True), max_size=4),
)
def test_unpublished_changes_are_counted_and_scored_as_they_are_now(
    edits: list[tuple[int, list[str], bool, bool]], groups: list[list[str]]
) -> None:
    unpublished, now = UnpublishedChanges(), dict[str, UnpublishedChange]()
    for number, terms, is_new, is_published in edits:
        path = f"facts/{number}.md"
        memory = Memory(path, " ".join(terms).encode(), os.stat(__file__), parse_file)
        if is_published:
            unpublished.drop(path)
            now.pop(path, None)
        else:
            now[path] = UnpublishedChange(memory, terms, is_new=is_new) if terms else UnpublishedChange(None)
            unpublished.put(path, now[path])
    having = {word: [change for change in now.values() if word in change.terms] for word in "abcde"}
    weights = Weights({"a": 1.0, "b": 2.0, "c": 0.5, "d": 3.0}, 6.5, groups)  # no memory in the index has the term e

    assert unpublished.entries == now
    for word, those in having.items():
        assert unpublished.document_frequency(word) == len(those)
        assert unpublished.combined_frequency(0, word) == len(those)
        assert unpublished.combined_frequency(7, word) == 7 + sum(change.is_new for change in those)
    scores = unpublished.scores(weights.groups, weights.by_term, 4.0)
    whole = {path: weights.score(Counter(one.terms), len(one.terms), 4.0) for path, one in now.items()}
    assert scores == pytest.approx({path: score for path, score in whole.items() if score})


def test_a_diff_lists_added_changed_and_removed_paths() -> None:
    assert diff({"a": (1,), "b": (2,)}, {"b": (3,), "c": (4,)}) == Changes(["a"], ["b"], ["c"])
    assert diff({"a": (1,)}, {"a": (1,)}) == Changes([], [], [])


def test_a_scan_counts_unchanged_directories_and_lists_the_rest(tmp_path: Path) -> None:
    for path in ("same/a.md", "same/b.md", "changed/a.md", "less/a.md", "less/b.md", "mixed/a.md", "mixed/m/a.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("Tea.")
    root = open_root(tmp_path)
    try:
        before = scan(root).stamps
        (tmp_path / "changed/a.md").write_text("Sencha.")
        (tmp_path / "less/b.md").unlink()
        (tmp_path / "less/c.md").symlink_to("a.md")
        table = row_table(([Row(path, Stamp(*before[path]), bytes(8)) for path in sorted(before)], []))
        found, all_of_it = scan(root, known=table.directory), scan(root)
    finally:
        os.close(root)

    assert found.unchanged == {"same": 2, "mixed/m": 1}
    assert found.stamps == {path: all_of_it.stamps[path] for path in ("changed/a.md", "less/a.md", "mixed/a.md")}
    assert found.problems == all_of_it.problems != []
    assert (found.memories, all_of_it.memories) == (6, 6)


def test_a_scan_lists_memories_and_reports_files_that_are_not(tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n/tea.md").write_text("Tea.")
    (tmp_path / "n/é.md").write_text("Tea.")
    (tmp_path / "readme.md").write_text("no memory")
    (tmp_path / "n/link.md").symlink_to(tmp_path / "n/tea.md")
    os.mkfifo(tmp_path / "n/pipe.md")
    with (tmp_path / "n/large.md").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (tmp_path / "n" / os.fsdecode(b"\xff.md")).write_text("x")
    deep = tmp_path.joinpath(*[f"d{number}" for number in range(34)])
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("x")
    root = open_root(tmp_path)
    try:
        found, names = scan(root), scan(root, names_only=True)
        assert read_one(root, "n/link.md") is None
        assert read_one(root, "n/none.md") is None
    finally:
        os.close(root)

    assert {*found.stamps} == {"n/tea.md", "n/é.md"}
    assert {*names.stamps} == {"n/tea.md", "n/é.md", "n/large.md"}  # reading it is refused
    assert {problem.reason.partition(":")[0] for problem in found.problems} == {
        "a symlink",
        "not a regular file",
        "larger than 8 MiB",
        "a name that is not UTF-8",
        "more than 32 directories deep",
    }


# --- the journal


def test_a_journal_is_read_from_a_cursor_on(vault: Vault) -> None:
    vault.add("Tea.", "n")
    ours, theirs = ChangeJournal(), ChangeJournal()
    with vault._files.opened() as root:
        ours.create(root)
        assert theirs.read(root) is None
        ours.read(root)
        cursor = ours.cursor(root)
        assert ours.append(root, ["a.md", "new\nline%.md"])
        assert theirs.read(root) == ["a.md", "new\nline%.md"]
        assert theirs.start_at(root, cursor)
        assert theirs.read(root) == ["a.md", "new\nline%.md"]
        assert not theirs.start_at(root, "junk")
        ours.restart(root)
        assert theirs.read(root) is None
        assert not theirs.start_at(root, cursor)


def test_a_replaced_file_is_reopened_and_the_old_handle_stays_open_for_a_while(tmp_path: Path) -> None:
    handles, root = HandleCache("state", max_stale=MAX_STALE_HANDLES), open_root(tmp_path)
    first = handles.open(root, "log", os.O_RDWR | os.O_CREAT)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3 * MAX_STALE_HANDLES):
        (tmp_path / "state").rename(tmp_path / f"aside-{number}")
        now = handles.open(root, "log", os.O_RDWR | os.O_CREAT)
        os.write(now, b"new")
        if number < MAX_STALE_HANDLES:
            os.write(first, b"old")  # by another thread that has the handle

    assert (tmp_path / "state" / "log").read_bytes() == b"new"
    assert (tmp_path / "aside-0" / "log").read_bytes() == b"old" * MAX_STALE_HANDLES
    assert len(os.listdir("/proc/self/fd")) == before + MAX_STALE_HANDLES
    handles.close()
    os.close(root)
    assert len(os.listdir("/proc/self/fd")) == before - 2


def test_logs_of_removed_texts_do_not_stay_open(vault: Vault) -> None:
    for number in range(MAX_STALE_HANDLES):
        vault.remove(vault.create("facts/tea.md", f"Bob drinks tea number {number}.\n").path)
    links = [*map(os.path.realpath, Path("/proc/self/fd").iterdir())]
    gone = Counter(link for link in links if link.startswith(str(vault.root)) and link.endswith(".log (deleted)"))

    assert max(gone.values(), default=0) <= 1  # the next user closes it


# --- the watcher


def test_a_watcher_continues_after_a_failed_scan(tmp_path: Path) -> None:
    Vault.init(tmp_path / "v")
    scans: list[int] = []

    def look() -> bool:
        scans.append(1)
        if len(scans) in {2, 3}:
            raise OSError(5, "not mounted")
        return True

    watcher = Watcher(str(tmp_path / "v"), wait=lambda _: False, refresh=look)
    watcher.start()
    try:
        deadline = time.monotonic() + 30
        while len(scans) < 6:
            assert watcher.is_alive
            assert time.monotonic() < deadline
        assert watcher.trouble == ""
    finally:
        watcher.stop()
    assert not watcher.is_alive


def test_a_search_leaves_git_status_clean(vault: Vault) -> None:
    (vault.root / "tea.md").write_text("Tea.")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=vault.root, check=True)

    assert [hit.memory.path for hit in vault.search("tea")] == ["tea.md"]
    vault.sync()

    done = subprocess.run(["git", "status", "--porcelain"], cwd=vault.root, check=True, capture_output=True)
    assert done.stdout == b""
    assert digest((vault.root / "tea.md").read_bytes()) == digest(b"Tea.")
