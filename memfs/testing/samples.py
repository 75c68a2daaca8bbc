"""Test data of StoreContract: plain facts, and unusual or invalid keys, values, metas and queries."""

import random
from typing import Any

PEOPLE = {
    "alice/allergy": "Alice is allergic to peanuts and carries an injector.",
    "alice/city": "Alice lives in Lisbon, near the river.",
    "bob/car": "Bob drives a red truck to the quarry.",
    "bob/music": "Bob plays the cello in an orchestra on Fridays.",
    "carol/garden": "Carol grows tomatoes and beans on her balcony.",
}
UNUSUAL_KEYS = (
    "a", "0", "a/b/c", "/a", "a/", "a//b", "/", "//", ".", "..", "../x", "../../etc/passwd",
    "a/../b", "%2e%2e/x", "%", "%%",
    "%2e", "a_b", "a%b", "with space", " leading", "trailing ", "Tea", "tea", "TEA", "caf\u00e9",
    "cafe\u0301", "ﬁ", "ß", "ss",
    "İ", "i̇", "東京", "😀", "👩", "quote'", 'double"', "back\\slash", "a:b", "a|b", "<a>", "*", "?", "#x", "~x", "-x",
    ".x", "x.md", "x.md/y", "con", "NUL", "readme", "archive", "sessions", "{actorId}", "[x]",
    "a;b--", "'; DROP TABLE entries; --",
    "-1", "null", "true", "[[x]]", "$x", "`x`", "x" * 500, "é" * 500, "/".join("ab" * 125)[:499],
    "東" * 500, "😀" * 250,
    "n.", "n", "x\u0307", "ẋ", "memory:1", "memory:2",
)  # fmt: skip
UNUSUAL_VALUES = {
    "emoji": "🙂 👩‍👩‍👧 🇵🇹",
    "lines": "one\ntwo\r\nthree\rfour\n\n\n",
    "around": "\n\n  words with space around them \t\n",
    "header": "---\nid: m-1\ntype: x\n---\n\nbody",
    "half-header": "---\nid: [",
    "fence": "---",
    "yaml": "key: value\n- [x, {y: !!python/object 1}]\n&a *a",
    "sql": "Robert'); DROP TABLE entries; --",
    "like": "100%_ of 50% \\% _",
    "json": '{"a": [1, null]}',
    "template": "{actorId} {0.__class__} %s %(x)s ${HOME}",
    "controls": "a\x01b\x1b[31mc\x7f\x0b\x0c\u2028\u2029\x85d",
    "bom": "\ufeffbom",
    "edges": "\ufffe\uffff\ufffd",
    "forms": "caf\u00e9 cafe\u0301 ﬁ",
    "right-to-left": "שלום \u202eabc",
    "redis": "*3\r\n$3\r\nSET\r\n",
    "long-word": "x" * 5000,
    "unspaced": "東京都に住んでいます",
    "spaces": "a  b   c\t\td",
    "one": "x",
    "number": "0",
}
METAS: tuple[dict[str, Any], ...] = (
    {"importance": 3, "tags": ["food", "health"], "source": "chat"},
    {"n": None, "yes": True, "no": False, "zero": 0, "one": 1, "float": 1.5, "small": 1e-9, "big": 10**15, "minus": -1},
    {"deep": {"a": [1, [2, {"b": "c"}]], "empty": {}}, "list": [], "text": "", "mixed": [1, "1", True, None, 1.0]},
    {"id": "mine", "created": "2026-03-01", "updated": "yesterday", "type": 5, "title": "a\nb", "namespace": "/x"},
    {"status": "deprecated", "expires": "2020-01-01", "valid_until": "2020-01-01T00:00:00Z", "pinned": "no"},
    {
        "text": "t",
        "key": "k",
        "value": "v",
        "body": "b",
        "meta": {"meta": 1},
        "metadata": "m",
        "ref": "r",
        "score": "s",
    },
    {"odd key": 1, "ünï": "東京 😀", "": "blank", "a.b": 1, "a/b": 2, "'": '"', "-": "---", "yes": "no", "1": 2},
    {"supersedes": ["[[x]]"], "aliases": ["y"], "long": "z" * 5000},
)
QUERY_SYNTAX = (
    "AND", "OR NOT", "NEAR(", "a AND", '"', '"unbalanced', "'", "''", "(", ")", "((((", "a:b",
    "key:peanuts", "*", "peanut*",
    "^peanuts", "-peanuts", "+peanuts", "a NEAR/2 b", "{x}", "[1 TO 2]", "\\", "%", "_", "%_%",
    "a & b | !c", "<->", ":*", "~",
    "`", "?", "!", "10:30", "C++", "C#", "@x", "$1", "$$", "/*", "--", ";", "\x00", "\n", "\t",
    "\x1b", "\ud800", "\ufffe",
    "Who's there?", "select * from entries", "東京", "🙂", "é", "e\u0301", "the", "who are you", "a", "",  " ",
)  # fmt: skip
INVALID_KEYS = ("", " ", "\t", "a\nb", "a\0b", "\ud800", "x" * 501, None, 5, b"x", ["x"])
INVALID_VALUES = ("", " \n\t", "a\0b", "\ud800", None, 5, b"x", ["x"], "é" * (1 << 22))
INVALID_METAS: tuple[Any, ...] = (
    [("a", 1)],
    "a",
    {1: 2},
    {"a": object()},
    {"a": float("nan")},
    {"a": "\0"},
    {"\ud800": 1},
    {"a": "z" * 20_000},
)


def questions() -> list[str]:
    """Return texts that may break a query parser; every call returns the same texts."""
    generator = random.Random(7)  # noqa: S311
    alphabet = "abc peanuts \"'()*:^-+&|!~<>{}[]\\%_;\n\0é東🙂\u0301\ud800"
    random_queries = ["".join(generator.choices(alphabet, k=generator.randint(1, 60))) for _ in range(300)]
    queries = [*QUERY_SYNTAX, *(f"peanuts {operator}" for operator in QUERY_SYNTAX)]
    return [*queries, "x " * 5000, "(" * 3000, "NOT " * 2500, *random_queries]
