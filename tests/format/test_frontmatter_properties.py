"""Properties of the text of a memory: both parsers agree, an edit changes only its key, texts are read back exactly."""

import gc
import os
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from memfs import Vault
from memfs.data_types import Memory
from memfs.decay import pack_decay_inputs
from memfs.errors import InvalidMemoryError, MalformedMemoryError
from memfs.format.edit import compose, edit
from memfs.format.fast_header import parse_flat_header
from memfs.format.frontmatter import Fault, _read_yaml_header, parse, parse_canonical_layout, parse_file, split
from memfs.format.header_schema import LIST_KEYS, TEXT_KEYS, TIME_KEYS
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
    values, faults = _read_yaml_header(header)
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
BODIES = ["Tea.\n", "Tea.", "", "\n", "Tea.\n\n", "Tea.\r\n", "a\n---\n\nb\n", "<<<<<<< a\n>>>>>>> b\n"]


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


class Piece(NamedTuple):
    """Some lines of a header that belong together: one key with its value, or a comment, or a blank line."""

    key: str
    lines: tuple[str, ...]
    comment: str = ""  # after a value of one line


class Sample(NamedTuple):
    """A generated memory with the known location of each key."""

    start: str
    pieces: tuple[Piece, ...]
    end: str
    newline: str

    def text(self, first: int = 0, last: int | None = None) -> str:
        """Return the lines of some pieces."""
        return "".join(line + self.newline for piece in self.pieces[first:last] for line in piece.lines)


PLAIN = [
    "fact", "Alice likes tuna", "12:30", "NO", "yes", "0123", "3", "10", "-1", "2.5", "true", "False", "~", "null",
    "2026-11-15", "2026-11-15T10:30:00Z", "2026-11-15 10:30", "2026-13-45", "a:b", "http://x.y/z?q=1#part", "it's",
    "C#", "50 %", "é", "日本語", "😀 party", "e\u0301", "x, y", "a [b] {c}", "high", "stable", "a  b", 'say "hi"',
    "1_000", "0x1f", ".5", "\xa0", "a\u3000b",
]  # fmt: skip
QUOTED = [
    '"a"', '""', "''", "'it''s'", '"a: b # c"', '"[[people/bob]]"', '"\\u00e9\\n\\t\\"x\\" \\\\"',
    "'# not a comment'",
    '"12"', "'true'", '"---"', "' padded '", '"a\\\\"', "'\"'", '"\'"', '"日本 😀"', '"{a}"',
]  # fmt: skip
COMMENTS = [
    "# a comment",
    "#",
    "#no space",
    "# key: value",
    "# - item",
    '# "quoted',
    "# é 日本",
    "  # indented",
    "# ---",
]
BODIES = [
    "", "\nText.\n", "Text.", "\n# Heading\n\n- a\n- b\n", "\n---\nnot: a header\n---\n", "\n\n\nfar\n\n\n",
    "\r\nx\r\n", "\n<<<<<<< ours\nx\n>>>>>>> theirs\n", "\nkey: value\n", "\n\tfoo\x0b\x0c\x85\u2028bar\n", "---\n",
    "\n```\n---\n```\n",
]  # fmt: skip
NAMES = [
    "id", "type", "title", "description", "tags", "aliases", "created", "updated", "importance", "pinned", "expires",
    "valid_from", "supersedes", "source", "status", "cssclasses", "my-key", "Ärger", "x_1", "permalink", "日本", "true",
    "metadata", "y", "no", "UPPER",
]  # fmt: skip


def scalar_of(pick: random.Random) -> str:
    return pick.choice(pick.choice([PLAIN, PLAIN, QUOTED]))


def block_scalar(pick: random.Random) -> tuple[str, ...]:
    lines = [pick.choice(["text", "# no comment", "key: value", "- item", "  deeper", '"quoted', "", "---", "é"])]
    lines += [pick.choice(["more", "", "   deeper still", "a: b", "# x"]) for _ in range(pick.randrange(3))]
    lines.insert(0, "first")
    mark = pick.choice(["|", ">", "|-", ">-", "|+", "|2", "|  # why"])
    lines = [f"  {line}" if line else "" for line in lines]
    if not lines[-1]:
        lines.append("  last")
    return f" {mark}", *lines


def block_list(pick: random.Random) -> tuple[str, ...]:
    indent = pick.choice(["", "  ", "  ", "  ", "    "])
    dash = pick.choice(["- ", "- ", "- ", "-   "])
    lines = []
    for _ in range(pick.randint(1, 4)):
        if pick.random() < 0.15:
            lines.append(pick.choice([f"{indent}# between", "", "# at the margin"]))
        item = scalar_of(pick)
        if pick.random() < 0.1:
            item = pick.choice(["a: 1", "[a, b]", "- nested", "{a: b}", "|\n" + indent + "    block"])
        comment = " # why" if pick.random() < 0.1 and "\n" not in item else ""
        lines += f"{indent}{dash}{item}{comment}".split("\n")
    return ("", *lines) if pick.random() < 0.9 else (" # why", *lines)


def value_of(pick: random.Random) -> tuple[tuple[str, ...], str]:
    """Return the lines after `key:`, and the comment on the first one."""
    space = pick.choice([" ", " ", " ", " ", "  ", "   "])
    comment = pick.choice(["", "", "", "", " # why", "  #why", " # a: b"])
    kind = pick.random()
    if kind < 0.45:
        return (space + scalar_of(pick) + (comment or pick.choice(["", "", "", " ", "  "])),), comment
    if kind < 0.50:
        return ((comment or pick.choice(["", " "])),), comment
    if kind < 0.60:
        return block_scalar(pick), ""
    if kind < 0.78:
        return block_list(pick), ""
    if kind < 0.88:
        flow = pick.choice(["[a, b]", "[]", "[ 'a', \"b\" ]", "[a, b,]", "[[people/bob]]", "{a: 1, b: [x]}", "{}"])
        return (space + flow + comment,), comment
    if kind < 0.91:
        return pick.choice([(" [a,", "  b,", "  c]"), (" [", "  a # why", "  ]"), (" {a: 1,", "  b: 2}")]), ""
    if kind < 0.95:
        return pick.choice([("", "  a: 1", "  b:", "    - x", "    - y"), ("", "  # why", "  a:", "    b: c")]), ""
    return pick.choice([(" long text", "  that goes on"), (' "quoted', '  and on"'), (" 'a", "", "  b'")]), ""


def between(pick: random.Random, pieces: list[Piece]) -> Piece:
    """Return a line that belongs to no key; after a block scalar it is not indented, or it would be part of it."""
    above = next((piece.lines[0] for piece in reversed(pieces) if piece.key), "")
    lines = [line for line in COMMENTS if line[0] == "#"] if re.search(r": [|>]", above) else [*COMMENTS, "  "]
    return Piece("", (pick.choice([*lines, "", ""]),))


def random_sample(pick: random.Random) -> Sample:
    newline = pick.choice(["\n", "\n", "\r\n"])
    margin = pick.choice(["", "", "", "", "  ", " "])
    pieces: list[Piece] = []
    for name in pick.sample(NAMES, pick.randint(0, 7)):
        while pick.random() < 0.25:
            pieces.append(between(pick, pieces))
        spelled = pick.choice([name, name, name, name, name, f'"{name}"', f"'{name}'"])
        (first, *more), comment = value_of(pick)
        lines = (f"{spelled}{pick.choice(['', '', '', '', ' '])}:{first}", *more)
        pieces.append(Piece(name, tuple(margin + line if line else "" for line in lines), comment))
    while pick.random() < 0.25:
        pieces.append(between(pick, pieces))
    body = pick.choice(BODIES).replace("\n", newline)
    if pick.random() < 0.3:
        body = body.rstrip("\r\n")
    fence = "---" + pick.choice(["", "", "", "", " ", "\t"])
    start = pick.choice(["", "", "", "\ufeff"]) + fence + newline
    return Sample(start, tuple(pieces), f"---{newline}{body}", newline)


def random_value(pick: random.Random, key: str, old: Any) -> Any:
    """Return a value of a type that the key allows."""
    if pick.random() < 0.2:
        return None
    texts = [
        "plain",
        "two words",
        "a: b # c",
        "é 日本 😀",
        "",
        'it\'s "x"',
        "true",
        "12",
        "- x",
        "a\nb\t\\",
        " pad ",
        "#",
    ]
    if key in LIST_KEYS or (key not in TEXT_KEYS | TIME_KEYS | {"pinned", "importance"} and pick.random() < 0.3):
        old = [item for item in old if isinstance(item, str)] if isinstance(old, list | tuple) else []
        kept = [item for item in old if pick.random() < 0.7]
        return kept + [text for text in pick.sample(texts, pick.randrange(3)) if text.strip() and text not in kept]
    if key in TIME_KEYS:
        return date(2026, 11, pick.randint(1, 30))
    if key == "pinned":
        return pick.random() < 0.5
    if key == "importance":
        return pick.randint(1, 10)
    if key in TEXT_KEYS:
        return pick.choice([text for text in texts if text])
    return pick.choice([*texts, 7, -2.5, True, False])


def as_base_yaml(value: Any) -> Any:
    """Return a value as the YAML base loader reads it, where every scalar is a text."""
    if isinstance(value, list | tuple):
        return [as_base_yaml(item) for item in value]
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def edit_random_sample(pick: random.Random) -> str:
    """Edit one key of one sample, check the lines of the result, and return `edited` or `refused`."""
    sample = random_sample(pick)
    text = sample.start + sample.text() + sample.end
    header = yaml.load(sample.text() or "{}", yaml.CBaseLoader) or {}
    named = [number for number, piece in enumerate(sample.pieces) if piece.key]
    key, at = "brand-new", len(sample.pieces)
    if named and pick.random() < 0.8:
        at = pick.choice(named)
        key = sample.pieces[at].key
    value = random_value(pick, key, parse(text).values.get(key))
    try:
        result = edit(text, {key: value})
    except Fault:
        return "refused"

    before, after = sample.start + sample.text(last=at), sample.text(at + 1) + sample.end
    assert result.startswith(before), (text, key, value, result)
    assert result.endswith(after), (text, key, value, result)
    assert len(result) >= len(before) + len(after), (text, key, value, result)
    middle = result[len(before) : len(result) - len(after)]
    check_new_lines(sample, at, value, middle)
    expected = {name: loaded for name, loaded in header.items() if name != key}
    loaded = yaml.load(split(result).header or "{}", yaml.CBaseLoader) or {}
    if value is not None:
        shown = loaded[key].lower() if isinstance(value, bool) else loaded[key]  # an existing `True` may stay
        assert shown == as_base_yaml(value), (text, key, value, result)
    assert [(name, value) for name, value in loaded.items() if name != key] == list(expected.items())
    return "edited"


def check_new_lines(sample: Sample, at: int, value: Any, middle: str) -> None:
    """Assert that a removed key has no lines, a one-line value stays one line, and line ends are those of the file."""
    lines = middle.split(sample.newline)
    assert lines.pop() == ""
    assert not any("\n" in line or "\r" in line for line in lines)
    if value is None:
        assert lines == []
    elif at < len(sample.pieces) and len(sample.pieces[at].lines) == 1 and not isinstance(value, list):
        assert len(lines) == 1
        assert lines[0].endswith(sample.pieces[at].comment)


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

ODD_TEXTS = [
    "---\nid: x\n---\n\nbody", "---\n", "---", "--- \n---\n", "---\r\na: b\r\n---\r\n", "\ufeff---\na: b\n---\n",
    "\ufeff",     "...\n", "key: value", "- item", "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n",
    "{{mustache}} {0.__class__} ${x} %s",
    "\n\nleading", "trailing\n\n\n", "\r", "a\rb", "a\r\nb", "\r\nx\r\n", "x\r",
    "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g",
    "\x00", "nul\x00inside", " ", "  indented\n\ttab  ", "# heading", "<!-- html -->", "```\n---\n```",
    "a\n---\nb\n---\n",    "&a *a !!python/object:os.system", "\u202eRTL", "e\u0301", "😀" * 50, "\ufffe\uffff",
    "x\n---", "---\n---\n---\n",
]  # fmt: skip
texts = st.one_of(
    st.text(max_size=300),
    st.sampled_from(ODD_TEXTS),
    st.lists(st.sampled_from([*ODD_TEXTS, "\n", "\r\n", "\r", "---", " "]), max_size=5).map("".join),
)


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


fresh = iter(range(10**9))


@given(text=texts.filter(str.strip), more=texts.filter(str.strip))
@settings(max_examples=FULL)
def test_a_vault_returns_added_appended_and_updated_texts_exactly(wide: Vault, text: str, more: str) -> None:
    assert_read_back(wide, text, more)


def assert_read_back(vault: Vault, text: str, more: str) -> None:
    """Assert that two texts are read back exactly after each way of writing them."""
    added = vault.add(text, f"n{next(fresh)}")
    assert added.outcome == "created"
    assert vault.read(added.path).body == text
    vault.append(added.path, more)
    assert vault.read(added.path).body == text + ("" if text.endswith("\n") else "\n") + more
    vault.update(added.path, body=more)
    assert vault.read(added.path).body == more
    vault.update(added.path, body=text, description=more)
    assert vault.read(added.path).body == text
    assert vault.read(added.path).header.description == more
    assert vault.read(added.path).id == added.id


PICK = random.Random(1)
LARGE = {
    "unicode": "".join(chr(PICK.choice([10, 32, 65, 233, 0x65E5, 0x1F600, 0x85, 0x2028])) for _ in range(400_000)),
    "fences": "---\n" * 250_000,
    "one-line": "x" * 1_000_000,
    "line-ends": "a\r\n\r\n\n\r" * 160_000,
    "conflict-markers": "<<<<<<< x\n" * 100_000,
    "heading": "# a" + "#" * 1_000_000 + "x",
    "spaces": "x" + " " * 1_000_000,
    "header": "---\n" + "key: value\n" * 90_000 + "---\n",
    "deep": "---\na: " + "[" * 500_000,
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_text_is_read_back_exactly(vault: Vault, kind: str) -> None:
    assert_large_read_back(vault, kind, LARGE[kind])


def assert_large_read_back(vault: Vault, namespace: str, text: str) -> None:
    """Assert that a text of a megabyte is read back exactly, and has a title."""
    added = vault.add(text, namespace)
    memory = vault.read(added.id)
    assert memory.body == text
    assert memory.title
    assert isinstance(memory.description, str)
    vault.append(added.id, text)
    assert vault.read(added.id).body == text + ("" if text.endswith("\n") else "\n") + text
    vault.update(added.id, body=text)
    assert vault.read(added.id).body == text


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
