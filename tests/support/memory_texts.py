"""Random texts and headers, edits of them, and checks that they are read back exactly."""

import random
import re
from datetime import date
from typing import Any, NamedTuple

import yaml
from hypothesis import strategies as st

from memfs import Vault
from memfs.format.edit import edit
from memfs.format.frontmatter import Fault, parse, split
from memfs.format.header_schema import LIST_KEYS, TEXT_KEYS, TIME_KEYS

BODIES = ["Tea.\n", "Tea.", "", "\n", "Tea.\n\n", "Tea.\r\n", "a\n---\n\nb\n", "<<<<<<< a\n>>>>>>> b\n"]


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


fresh = iter(range(10**9))


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
