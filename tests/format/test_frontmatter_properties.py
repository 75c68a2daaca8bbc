"""Properties of the text of a memory: both parsers agree, an edit changes only its key, texts are read back exactly."""

import gc
import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from support.memory_texts import (
    BODIES,
    LARGE,
    assert_large_read_back,
    assert_read_back,
    edit_random_sample,
    texts,
)

from memfs import Vault
from memfs.data_types import Memory
from memfs.decay import pack_decay_inputs
from memfs.errors import InvalidMemoryError, MalformedMemoryError
from memfs.format.edit import compose, edit
from memfs.format.fast_header import parse_flat_header
from memfs.format.frontmatter import Fault, parse, parse_canonical_layout, parse_file, read_yaml_header, split
from memfs.fs.files import raw_digest
from memfs.fs.gc_pause import gc_paused
from memfs.index.document_builder import build_document, conversation_fields, indexed_text
from memfs.query.keyword_terms import join_keywords, memory_keywords, memory_moments
from memfs.storage.recall_log import id_hash

FULL = settings().max_examples
EXAMPLES = sorted(Path(__file__).parents[2].glob("example-vault/**/*.md"))

# --- the fast parser agrees with the YAML parser --------------------------------------------------------

KEYS = [
    "id", "type", "title", "tags", "aliases", "supersedes", "created", "expires", "importance", "pinned", "x", "a-b",
    "_x", "Key", "null", "true", "yes", "on", "y", "k" * 100, "k" * 101, "1", "é", "a b", '"q"', "'q'", "-a", "?",
]  # fmt: skip
TOKENS = [
    "a", "Alice", " ", "  ", ":", ": ", " :", "::", "#", " #", "# ", '"', "'", '""', '"a"', "'a'", "\\", "\\n", "-",
    "- ", " - ", "--", "null", "~", "Null", "true", "False", "TRUE", "yes", "NO", "on", "0", "1", "7", "10", "11",
    "-1", "+1", "0123", "0x1f", "0o7", "1_000", "12:30", "1.", ".5", "1.5", "1e3", "1.0e5", "-0", "-0.0", ".inf",
    ".nan", "9" * 18, "9" * 19, "2026-11-15", "2026-13-45", "2026-11-15T10:30:00Z", "2026-11-15 10:30:00", "é", "日",
    "٣", "²", "\x85", "\u2028", "\u2029", "\xa0", "\u3000", "\u200b", "\ufeff", "\t", "\x00", "\x07", "\x7f", "\x1b",
    "\r", "[", "]", "{", "}", ",", "&a", "*a", "!t", "!", "|", ">", "|-", "%", "@", "`", "?", "? ", "=", "<<",
    "<<: a",
    "m-", "m-01k9", "m-0é",
    "😀", "\ud800", "\udfff", "\ufffe", "\uffff", "\U0001fffe", "---", "...", "--- ", "_", "$", "(", ")", "/", "+",
    ".",
    "[[link]]", "it's", "http://a.b/c#d", "C#", "e\u0301", "\u0301", "key: value",
]  # fmt: skip


def almost_flat_lines() -> st.SearchStrategy[str]:
    values = st.one_of(
        st.sampled_from(TOKENS),
        st.lists(st.sampled_from(TOKENS), max_size=4).map("".join),
        st.text(max_size=6).map(lambda text: text.replace("\n", " ")),
    )
    keyed = st.tuples(st.sampled_from(KEYS), st.sampled_from([": ", ": ", ": ", ":", ":  ", " : ", ":\t"]), values)
    items = st.tuples(st.sampled_from(["  - ", "  - ", "  -", "- ", "    - ", "  -  ", " - ", "  -\t"]), values)
    other = st.sampled_from(["", " ", "# comment", "  # comment", "  a: b", "\t", "...", "--- a", "a", "- a", "{a: b}"])
    line = st.one_of(keyed.map("".join), items.map("".join), keyed.map("".join), other)
    blanks = st.sampled_from(["", "", "", "", " ", "\t", "\r"])
    ends = st.sampled_from(["\n", "\n", "\n", "\n", "\r\n"])
    return st.tuples(line, blanks, ends).map("".join)


@given(st.lists(almost_flat_lines(), min_size=1, max_size=4).map("".join))
@settings(max_examples=10 * FULL)
def test_the_fast_parser_agrees_with_the_yaml_parser(header: str) -> None:
    event(f"fast: {agree(header)}")


def agree(header: str) -> bool:
    """Return whether the fast parser accepts a header; if so, assert that both parsers return the same."""
    flat = parse_flat_header(header)
    if flat is None:
        return False
    values, faults = read_yaml_header(header)
    assert faults == [], header
    assert repr(list(values.items())) == repr(list(flat.items())), header
    return True


def test_cached_entries_do_not_change_the_result_of_the_fast_parser() -> None:
    for before, header in (
        ("x:\n  - a\n", "  - a\n"),
        ("tags:\n", "tags:\n  - a\n"),
        ("x: null\n", "x: null\n  - a\n"),
    ):
        parse_flat_header(before)
        for _ in range(2):
            agree(header)


def test_each_caller_gets_its_own_list() -> None:
    read = parse_flat_header("x:\n  - a\n")
    assert read
    read["x"].append("b")

    assert parse_flat_header("x:\n  - a\n") == {"x": ["a"]}


def test_the_parsers_agree_on_many_odd_headers() -> None:
    pick, taken = random.Random(2026), 0
    for _ in range(60_000):
        header = "x:\n" + "".join(odd_line(pick) for _ in range(pick.randint(1, 3)))

        taken += agree(header)
    assert taken > 6000


def odd_line(pick: random.Random) -> str:
    start = pick.choice(["  - ", "  - ", *(f"{key}: " for key in KEYS[:18])])
    value = "".join(pick.choice(TOKENS) for _ in range(pick.choice([0, 1, 1, 2, 3])))
    return start + pick.choice([value, value, f'"{value}"']) + pick.choice(["\n", "\n", "\n", "\r\n", " \n"])


LEADS = ["", "", "", "\ufeff", "\n", "--- \n"]
FENCES = ["---\n\n", "---\n\n", "---\n", "---\n\n\n", "--- \n\n", "----\n\n", "---", "---\r\n\r\n"]


@given(
    st.sampled_from(LEADS),
    st.lists(almost_flat_lines(), max_size=3).map("".join),
    st.sampled_from(FENCES),
    st.sampled_from(BODIES),
)
@settings(max_examples=4 * FULL)
def test_a_file_in_the_canonical_layout_is_parsed_as_any_file(lead: str, header: str, fence: str, body: str) -> None:
    data = f"{lead}---\n{header}{fence}{body}".encode(errors="surrogatepass")

    canonical, parsed = parse_canonical_layout(data), parse_file("tea.md", data)

    event(f"canonical: {canonical is not None}")
    if canonical is not None:
        assert canonical == (dict(parsed.parse_header()[0].values), parsed.body)


SOURCES = ["", "source: session s-1, message 7\n", "source: session s 1, messages 7 to 9\nspeaker: Ada Lovelace\n"]
INDEXED_BODIES = [
    "Tea.\n",
    "Ada: tea?\n",
    "enc:v1:abc\nTea.\n",
    "Größe, C++ and 日本.\n",
    "a\n---\n\nb\n",
    "<<<<<<< a\n>>>>>>> b\n",
]


@given(
    st.sampled_from(["facts/tea.md", "tea.md", "facts/a b/c_d é.md"]),
    st.lists(almost_flat_lines(), max_size=4).map("".join),
    st.sampled_from(SOURCES),
    st.sampled_from(FENCES),
    st.sampled_from(INDEXED_BODIES),
)
@settings(max_examples=4 * FULL)
@example("facts/a b/c_d.md", "tags:\n  - a b\n  - enc:v1:x\nx:\n  - 1\ntitle:\n", "", "---\n\n", "Tea.\n")
@example("facts/tea.md", "id: m-01k9zq6d0m2p3q4r5s00002366\nid: a\n", "", "---\n\n", "Tea.\n")
@example(
    "facts/tea.md",
    "id: enc:v1:a\ncreated: 2026-11-15T10:30:00Z\nimportance: 7\npinned: true\n",
    "",
    "---\n\n",
    "Tea.\n",
)
def test_a_memory_is_indexed_as_it_is_parsed(path: str, header: str, source: str, fence: str, body: str) -> None:
    data = f"---\n{header}{source}{fence}{body}".encode(errors="surrogatepass")
    memory = Memory(path, data, os.stat(__file__), parse_file)
    place, spoken = conversation_fields(memory)
    numbers = memory_moments(memory) if place is None else {**memory_moments(memory), "place": place}
    terms = [*memory_keywords(memory), *spoken]
    packed, mark = pack_decay_inputs(numbers, memory.header.values), id_hash(memory.id)

    for _ in range(2):  # the second time from the caches
        row, text, keys, found = build_document(memory)

        assert row == (path, memory.stamp, raw_digest(data), packed, mark)
        assert text == indexed_text(memory)
        assert sorted(keys.split()) == sorted(join_keywords(terms).split())
        assert found == numbers


@pytest.mark.parametrize("header", ["importance: 99\n", "created: 2024/01/05\n", "a: 1\na: 2\n", "a: [\n", "- a\n"])
def test_a_faulty_header_leaves_no_reference_cycles(header: str) -> None:
    """The garbage collector is paused while a large index is built."""
    memory = Memory("facts/tea.md", f"---\n{header}---\n\nTea.\n".encode(), os.stat(__file__), parse_file)
    assert memory.problems
    gc.collect()
    with gc_paused():
        build_document(Memory(memory.path, memory.data, memory.status, parse_file))
        assert gc.collect() == 0


def test_the_parsers_agree_on_every_plain_value() -> None:
    """A complete grid: each token alone, doubled and next to an `a`, for keys of each kind and in lists."""
    taken = 0
    for key in ("id", "tags", "created", "pinned", "importance", "x"):
        for token in TOKENS:
            for value in (token, token + token, f"a{token}", f"{token}a", f"a {token}", f"{token} a", f'"{token}"'):
                for header in (f"{key}: {value}\n", f"{key}:\n  - {value}\n  - b\n", f"y: 1\n{key}: {value}\r\nz: 2\n"):
                    taken += agree(header)
    assert taken > 3500


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_parsers_agree_on_the_example_vault(path: Path) -> None:
    header = split(path.read_text(encoding="utf-8")).header

    agree(header)


# --- an edit changes only the lines of its key ---------------------------------------------------------


@given(st.randoms(use_true_random=False))
@settings(max_examples=4 * FULL)
def test_an_update_of_one_key_changes_only_the_lines_of_that_key(pick: random.Random) -> None:
    event(edit_random_sample(pick))


def test_hardly_any_generated_header_refuses_an_update() -> None:
    outcomes = [edit_random_sample(random.Random(seed)) for seed in range(6000)]

    assert outcomes.count("refused") < 0.01 * len(outcomes)


@pytest.mark.parametrize(
    ("items", "wanted", "expected"),
    [
        ("- a\n- |\n  block\n", ["a"], "- a\n"),
        ("- a\n- |\n  block\n", ["a", "block\n", "c"], "- a\n- |\n  block\n- c\n"),
        ("- >\n  block\n- b\n", ["b"], "- b\n"),
        ("  - a # why\n  - b\n", ["a"], "  - a # why\n"),
        (
            "  # about a\n  - a\n  # about b\n  - b\n",
            ["a", "b", "c"],
            "  # about a\n  - a\n  # about b\n  - b\n  - c\n",
        ),
        ("  - \"a\"\n  - 'b'\n", ["b"], "  - 'b'\n"),
    ],
)
def test_adding_or_removing_an_item_adds_or_removes_its_line(items: str, wanted: list[str], expected: str) -> None:
    text = "---\n# before\nx:\n{}# after\n\ny: 1 # why\n---\n\nBody.\n"

    assert edit(text.format(items), {"x": wanted}) == text.format(expected)


@pytest.mark.parametrize("wanted", [["a"], ["b"], ["b", "c"]])
def test_the_comment_of_a_kept_item_is_kept(wanted: list[str]) -> None:
    result = edit("---\nx:\n  # about a\n  - a\n  # about b\n  - b\n---\n", {"x": wanted})

    assert all(f"# about {item}" in result for item in wanted if item != "c")


# --- texts are read back exactly ------------------------------------------------------------------------------------


@given(texts, st.dictionaries(st.sampled_from(["id", "title", "source", "x", "y-z"]), texts.filter(bool), max_size=3))
@settings(max_examples=15 * FULL)
def test_any_text_and_any_header_value_are_read_back_exactly(text: str, values: dict[str, str]) -> None:
    back = parse(compose(values, text))

    assert back.parts.body == text
    assert back.values == values
    assert [fault for fault in back.faults if fault.reason != "git conflict markers"] == []
    assert yaml.load(back.parts.header or "{}", yaml.CBaseLoader) == values


@given(st.lists(texts.filter(str.strip), max_size=4))
@settings(max_examples=3 * FULL)
def test_any_list_of_texts_is_read_back_exactly(items: list[str]) -> None:
    back = parse(compose({"x": items, "tags": items}, "body"))

    assert back.values["x"] == items
    assert back.values["tags"] == tuple(items)
    assert back.faults == ()


@given(
    texts, st.sampled_from(["", "---\nid: m-1\n---\n\nold\n", "old", "---\n# why\ntags: [a]\n---\nold", "\ufeffold\n"])
)
@settings(max_examples=10 * FULL)
def test_a_body_is_read_back_exactly_or_refused(body: str, text: str) -> None:
    try:
        result = edit(text, {}, body)
    except Fault:
        assert not split(text).opening, "only a file without a header may refuse a body"
        return

    assert split(result).body == body
    assert parse(result).values == parse(text).values


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """One vault for many examples, each in its own namespace."""
    with Vault.init(tmp_path_factory.mktemp("wide")) as vault:
        yield vault


@given(text=texts.filter(str.strip), more=texts.filter(str.strip))
@settings(max_examples=FULL)
def test_a_vault_returns_added_appended_and_updated_texts_exactly(wide: Vault, text: str, more: str) -> None:
    assert_read_back(wide, text, more)


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_text_is_read_back_exactly(vault: Vault, kind: str) -> None:
    assert_large_read_back(vault, kind, LARGE[kind])


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "x" * (8 * 1024 * 1024 + 1)], ids=["lead", "trail", "9 MiB"])
def test_a_text_that_cannot_be_stored_is_refused_before_anything_is_written(vault: Vault, text: str) -> None:
    known = vault.add("Known.", "n")
    before = (vault.root / known.path).read_bytes()

    tries: list[Callable[[], object]] = [
        lambda: vault.add(text, "other"),
        lambda: vault.append(known.id, text),
        lambda: vault.update(known.id, body=text),
        lambda: vault.update(known.id, description=text),
        lambda: vault.replace(known.id, text, seen=vault.read(known.id).stamp),
    ]
    for refused in tries:
        with pytest.raises((InvalidMemoryError, MalformedMemoryError)):
            refused()
    assert (vault.root / known.path).read_bytes() == before
    assert not (vault.root / "other").exists()


# --- reading never raises -------------------------------------------------------------------------------


@st.composite
def mutated_files(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(EXAMPLES)).read_text(encoding="utf-8")
    for _ in range(draw(st.integers(1, 4))):
        at, drop = draw(st.integers(0, min(len(text), 400))), draw(st.integers(0, 5))
        text = (
            text[:at]
            + draw(st.sampled_from([*TOKENS, "\n", "\n---\n", "  ", "&x ", "*x", "!!int "]))
            + text[at + drop :]
        )
    return text


@given(
    st.one_of(
        st.text(),
        st.binary().map(lambda data: data.decode("latin-1")),
        texts,
        mutated_files(),
        st.lists(almost_flat_lines()).map(lambda lines: "---\n" + "".join(lines) + "---\nbody"),
    )
)
@settings(max_examples=25 * FULL)
def test_parsing_never_raises_and_the_joined_parts_are_the_text(text: str) -> None:
    parsed = parse(text)

    assert "".join(parsed.parts) == text
    assert all(fault.reason and fault.line > 0 for fault in parsed.faults)
    assert all(fault.line <= text.count("\n") + 1 for fault in parsed.faults)


@given(
    data=st.one_of(
        st.binary(),
        texts.map(lambda text: text.encode("utf-16")),
        mutated_files().map(lambda t: t.encode("utf-8", "replace")),
    )
)
@settings(max_examples=8 * FULL)
def test_no_bytes_make_reading_a_memory_raise(wide: Vault, data: bytes) -> None:
    (wide.root / "bytes.md").write_bytes(data)
    memory = wide.read("bytes.md")

    assert data in (memory.text.encode(), memory.text.encode("latin-1", "replace"))
    assert all(isinstance(text, str) for text in (memory.id, memory.title, memory.description, memory.body))
    assert memory.created <= datetime.max.replace(tzinfo=UTC)
    header = memory.header
    assert isinstance(header.type + header.status + str(header.importance) + str(header.pinned), str)
    assert all(isinstance(tag, str) for tag in (*header.tags, *header.aliases, *header.supersedes))
    for moment in (header.created, header.updated, header.valid_from, header.valid_until, header.expires):
        assert moment is None or moment.tzinfo is not None
