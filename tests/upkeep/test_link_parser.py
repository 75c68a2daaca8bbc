"""Parsing of links: relations, notes, lines, code and headers."""

import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs import Memory
from memfs.format.frontmatter import parse_file
from memfs.upkeep.link_parser import Link, links_of

HERE = os.stat(__file__)
MEGABYTE_CHARS = 1_000_000


def links(text: str | bytes) -> list[Link]:
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    return links_of(Memory("a.md", data, HERE, parse_file))


def parsed_links(text: str) -> list[tuple[str, str]]:
    return [(link.relation, link.target) for link in links(text)]


# --- the body


@pytest.mark.parametrize(
    ("line", "relation", "note"),
    [
        ("- owned_by [[people/bob]]", "owned_by", ""),
        ("* owned_by [[people/bob]]", "owned_by", ""),
        ("    + owned_by [[people/bob]] ", "owned_by", ""),
        ("- owned_by [[people/bob|Bob]] (since May)", "owned_by", "since May"),
        ("- owned_by [[people/bob#Contact]] (since (about) May)\r", "owned_by", "since (about) May"),
        ("- owned_by:: [[people/bob]]", "owned_by", ""),
        ("- Eigentümer: [[people/bob]]", "Eigentümer", ""),
        ("- 担当者 [[people/bob]]", "担当者", ""),
        ("- स्वामी [[people/bob]]", "स्वामी", ""),
        ('- "looked after by" [[people/bob]]', "looked after by", ""),
        ("- 'looked after by' [[people/bob]]", "looked after by", ""),
    ],
)
def test_a_list_item_of_a_word_and_a_link_is_a_relation(line: str, relation: str, note: str) -> None:
    assert links(f"Text.\n\n{line}\n") == [Link(3, relation, "people/bob", note)]


@pytest.mark.parametrize(
    "line",
    [
        "Ask [[people/bob]].",
        "- [[people/bob]] what he decided",
        "- [[people/bob]]",
        "- owned by [[people/bob]]",
        "- owned_by [[people/bob]] since May",
        "- owned_by [[people/bob]] (since May) and after",
        "- owned, [[people/bob]]",
        "- 25 [[people/bob]]",
        "- [ ] ring [[people/bob]]",
        "- [x] [[people/bob]]",
        "- [decision] agreed with [[people/bob]] #deadline",
        "- [decision] [[people/bob]]",
        "owned_by [[people/bob]]",
        "> - owned_by [[people/bob]]",
        "| Bob | [[people/bob\\|Bob]] |",
        f"- {'x' * 90} [[people/bob]]",
    ],
)
def test_any_other_link_is_a_mention(line: str) -> None:
    assert links(line) == [Link(1, "mentions", "people/bob")]


def test_a_relation_may_have_several_targets_and_a_link_in_its_note() -> None:
    assert parsed_links("- works_with [[a]], [[b]] (see [[c]])") == [
        ("works_with", "a"),
        ("works_with", "b"),
        ("mentions", "c"),
    ]
    assert parsed_links("- works_with [[a]] and [[b]]") == [("mentions", "a"), ("mentions", "b")]


def test_an_embed_has_the_relation_embeds() -> None:
    assert parsed_links("![[pictures of atlas#Dates|big]] and - x ![[b]]") == [
        ("embeds", "pictures of atlas"),
        ("embeds", "b"),
    ]
    assert parsed_links("- shows ![[b]]") == [("embeds", "b")]


@pytest.mark.parametrize(
    "text", ["[[]]", "[[#Heading]]", "[[|label]]", "[[ ]]", r"\[[a]]", "[[a\nb]]", "[a](b.md)", "[[1, 2], [3, 4]]"]
)
def test_other_brackets_are_no_link(text: str) -> None:
    assert links(text) == []


# --- code


@pytest.mark.parametrize(
    "code",
    [
        "```\n[[a]]\n```",
        "```python\n[[a]]\n````",
        "~~~\n[[a]]\n```\n[[b]]\n~~~",
        "````\n```\n[[a]]\n```\n````",
        "   ```\n[[a]]\n   ```",
        "```\n    ```\n[[a]]\n```",
        "```\n- ```\n[[a]]\n```",
        "```\n> ```\n[[a]]\n```",
        "- ```\n  [[a]]\n  ```",
        "1. ~~~\n   [[a]]\n   ~~~",
        "> ```\n> [[a]]\n> ```",
        "    ```\n    [[a]]\n    ```",
        "`[[a]]`",
        "``[[a]] ` [[b]]``",
        "`over\ntwo [[a]] lines`",
        r"`[[a]]\`",
        "```[[a]]```",
    ],
)
def test_links_in_code_are_ignored(code: str) -> None:
    assert parsed_links(f"{code}\n\n- is [[true]]\n") == [("is", "true")]


@pytest.mark.parametrize(
    "text",
    [
        "a ` b [[a]]",
        "`` [[a]] `",
        r"\`[[a]]`",
        "one ` here\n\n[[a]] there `",
        "- one ` here\n- [[a]] there `",
        "# one ` here\n[[a]] there",
        "> ```\n> code\n\n[[a]]",
        "``` `` [[a]]",
    ],
)
def test_unclosed_backticks_are_no_code(text: str) -> None:
    assert parsed_links(text) == [("mentions", "a")]


def test_an_unclosed_fence_extends_to_the_end() -> None:
    assert links("[[a]]\n```\n[[b]]\n\n[[c]]") == [Link(1, "mentions", "a")]


# --- the header


def test_a_link_in_a_header_value_has_the_key_as_relation() -> None:
    text = """---
# [[people/lukas]] in a comment
client: "[[people/lukas]]"
teams: 2
team:
  - "[[people/alice|Alice]]"
  - Somebody
  - '[[people/bob]]'
both: "[[a]], [[b]]"
source: "a talk with [[people/emma]]"
---

[[c]]
"""

    assert links(text) == [
        Link(3, "client", "people/lukas"),
        Link(6, "team", "people/alice"),
        Link(8, "team", "people/bob"),
        Link(9, "both", "a"),
        Link(9, "both", "b"),
        Link(10, "mentions", "people/emma"),
        Link(13, "mentions", "c"),
    ]


def test_an_unquoted_link_in_a_header_is_read_from_the_nested_list() -> None:
    text = (
        "---\nup: [[people/lukas]]\nteam:\n  - [[people/alice|Alice]]\n  - [[people/bob]]\nsize: [[1]]\n---\n\nText.\n"
    )

    assert links(text) == [
        Link(2, "up", "people/lukas"),
        Link(4, "team", "people/alice"),
        Link(5, "team", "people/bob"),
    ]


def test_the_relation_of_a_nested_key_has_both_keys() -> None:
    assert links('---\nabout:\n  person: "[[people/bob]]"\n---\n\nText.\n') == [Link(3, "about.person", "people/bob")]


def test_keys_that_name_the_memory_are_not_links() -> None:
    assert links('---\ntitle: "[[a]]"\naliases: ["[[b]]"]\ntags: ["[[c]]"]\nid: "[[d]]"\n---\n\nText.\n') == []


def test_json_in_a_header_is_no_link() -> None:
    assert links("---\nmetadata: '{\"matrix\": [[1]]}'\n---\n\nText.\n") == []


@pytest.mark.parametrize("start", ["\ufeff---\r\nx: 1\r\n---\r\n\r\n", "---\nx: 1\n---\n", "---\nnot closed\n\n", ""])
def test_lines_are_those_of_the_file(start: str) -> None:
    text = f"{start}One.\n\n- is [[a]]\n"

    (link,) = links(text)
    assert text.split("\n")[link.line - 1] == "- is [[a]]"


def test_invalid_utf8_is_read_as_elsewhere() -> None:
    assert links("- is [[café]]".encode("latin-1")) == [Link(1, "is", "café")]


# --- any text

WORDS = st.text(st.sampled_from("ab[]`~!|#()->\n \t\\:\"'{"), max_size=60)
NAMES = st.text(string.ascii_letters, min_size=1, max_size=8)


@given(
    st.one_of(st.binary(max_size=200), WORDS.map(str.encode), WORDS.map(lambda text: f"---\nx: {text}\n---\n".encode()))
)
def test_no_text_raises_and_every_link_is_on_its_line(data: bytes) -> None:
    lines = Memory("a.md", data, HERE, parse_file).text.split("\n")

    for link in links(data):
        assert link.target
        assert link.target in lines[link.line - 1].replace("''", "'")


@given(WORDS, st.sampled_from(["```", "~~~", "````", "~~~~~"]), NAMES)
def test_links_in_any_fence_are_ignored(code: str, fence: str, name: str) -> None:
    inside = "\n".join(line for line in code.split("\n") if not line.strip().startswith(fence[0] * 3))

    assert parsed_links(f"{fence}\n{inside}[[code]]\n{fence}\n\n- is [[{name}]]") == [("is", name)]


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3)), max_size=8))
def test_relations_are_found_on_the_lines_they_were_written_on(written: list[tuple[str, str, int]]) -> None:
    lines = ["Text."]
    expected = []
    for relation, target, space in written:
        lines += ["", "```", "- x [[y]]", "```"][:space] if space != 2 else ["`- x [[y]]`"]
        lines += ["```"] * (space == 3)
        lines.append(f"- {relation} [[{target}]]")
        expected.append(Link(len(lines), relation, target))

    assert links("\n".join(lines)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[" * MEGABYTE_CHARS,
        "[[" * (MEGABYTE_CHARS // 2),
        "[[a" * (MEGABYTE_CHARS // 3),
        "[[" + "a" * MEGABYTE_CHARS,
        "[[x]]" + "` " * (MEGABYTE_CHARS // 2),
        "[[x]]" + "\\`" * (MEGABYTE_CHARS // 2),
        "[[x]]" + " ".join("`" * number for number in range(1, 1400)),
        "[[x]]`" + "\\" * MEGABYTE_CHARS + "`",
        "[[x]]\n" + "```\n" * (MEGABYTE_CHARS // 4),
        "- a [[x]]" + " " * MEGABYTE_CHARS + "b",
        "- a [[x]] " + "(" * MEGABYTE_CHARS,
        "- a" + " [[x]]" * (MEGABYTE_CHARS // 6),
    ],
    ids=lambda text: text[:12],
)
def test_a_megabyte_of_brackets_or_backticks_is_parsed_in_linear_time(text: str) -> None:
    assert len(links(text)) <= MEGABYTE_CHARS // 6  # a quadratic parser would take hours here
