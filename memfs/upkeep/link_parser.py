"""Parse the links in the header and body of a memory, and their relations. Pure; linear in the length of the text.

A link is `[[Target]]`, `[[Target|label]]`, `[[Target#Heading]]` or `![[Target]]`, outside of code.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

from memfs.data_types import Memory
from memfs.format.frontmatter import split

MENTIONS, EMBEDS = "mentions", "embeds"
MAX_RELATION_CHARS = 80
NAMING_KEYS = frozenset(
    {"id", "title", "aliases", "tags", "permalink", "name"}
)  # their values name the memory itself and are not links
_LINK = re.compile(r"(?<!\\)(!?)\[\[([^\[\]\n]++)\]\]")
_BULLET = re.compile(r"[ \t]*[-*+][ \t]+")
_WORD = re.compile(r"([^\W\d_][^\s\[\]()\"`<>|]*?):{0,2}")
_QUOTED = re.compile(r"([\"'])([^\"']+)\1:{0,2}")
_SEPARATOR = re.compile(r"[ \t]*+[,;]?+[ \t]*+")
_FENCE = re.compile(r"([ \t>]*+)([-*+][ \t]++|\d{1,9}[.)][ \t]++)?(`{3,}+|~{3,}+)(.*)")
_BLOCK_START = re.compile(
    r"[ \t>]*(?:\r?$|[-*+][ \t]|\d{1,9}[.)][ \t]|#|\|)"
)  # a line that ends the inline code of the line before
_TICKS = re.compile(r"`+")
_NOT_NEWLINE = re.compile(r"[^\n]")


class Link(NamedTuple):
    """One link: the line in the file, its relation, its target, and the note in parentheses after it."""

    line: int
    relation: str
    target: str  # without label and heading; never empty
    note: str = ""


def links_of(memory: Memory) -> list[Link]:
    """Return every link of a memory, by line. Never raises."""
    if b"[[" not in memory.data:
        return []
    text = memory.text
    parts = split(text)
    start = sum(map(len, (parts.bom, parts.opening, parts.header, parts.closing, parts.lead)))
    found = _header_links(parts.header, memory.header.values) if "[[" in parts.header else []
    return [*found, *_body_links(parts.body, text.count("\n", 0, start) + 1)]


def target_of(inner: str) -> str:
    """Return the target of a link from the text between its brackets; empty for a heading of the same file."""
    return inner.partition("|")[0].removesuffix("\\").partition("#")[0].strip()


# --- body ---------------------------------------------------------------------------------------------


def _body_links(body: str, first_line: int) -> list[Link]:
    """Return the links of a body; `first_line` is the line of the file on which it begins."""
    if "[[" not in body:
        return []
    links: list[Link] = []
    for number, line in enumerate(blank_code(body).split("\n"), first_line):
        if "[[" in line:
            links += _line_links(line, number)
    return links


def _line_links(line: str, number: int) -> Iterator[Link]:
    """Yield the links of a line, in which code is blanked; `number` is its line in the file."""
    found = list(_LINK.finditer(line))
    if not found:
        return
    relation, related, note = _parse_relation(line, found)
    for index, match in enumerate(found):
        if not (target := target_of(match[2])):
            continue
        if index < related:
            yield Link(number, relation, target, note)
        else:
            yield Link(number, EMBEDS if match[1] else MENTIONS, target)


def _parse_relation(line: str, found: list[re.Match[str]]) -> tuple[str, int, str]:
    """Return the relation, the number of its links and the note of `- relation [[A]], [[B]] (note)`; empty for any
    other line."""
    none = ("", 0, "")
    bullet = _BULLET.match(line)
    if not bullet or found[0][1]:
        return none
    label = line[bullet.end() : found[0].start()].strip()
    word = (_WORD.fullmatch(label) or _QUOTED.fullmatch(label)) if len(label) <= MAX_RELATION_CHARS else None
    if not word or label[-1] in ",;.!?":
        return none
    related = 1
    while related < len(found) and _SEPARATOR.fullmatch(line, found[related - 1].end(), found[related].start()):
        if found[related][1]:
            break
        related += 1
    rest = line[found[related - 1].end() :].strip()
    if rest and not _is_in_parentheses(rest):
        return none
    return word[word.re.groups].strip(), related, rest[1:-1].strip()


def _is_in_parentheses(text: str) -> bool:
    """Return whether a text is one pair of parentheses with its content."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth <= 0:
            return index == len(text) - 1 and index > 0
    return False


# --- code ---------------------------------------------------------------------------------------------


class Fence(NamedTuple):
    """An open code fence: its backticks or tildes, the maximal indent of its end, and whether it is in a quotation."""

    marks: str
    max_indent: int
    is_quoted: bool

    @classmethod
    def opened_by(cls, line: str) -> Self | None:
        """Return the fence that a line opens; None if it opens none."""
        found = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if not found or (found[3][0] == "`" and "`" in found[4]):
            return None
        before = found[1].rpartition(">")[2] + " " * len(found[2] or "")
        indent = len(before.expandtabs(4))
        return cls(found[3], indent + 3 if indent > 3 or found[2] else 3, ">" in found[1])

    def is_closed_by(self, line: str) -> bool:
        """Return whether a line is the closing fence."""
        inner = line.rstrip(" \t\r")
        marks = inner.lstrip(" \t>" if self.is_quoted else " \t")
        indent = len(inner[: len(inner) - len(marks)].rpartition(">")[2].expandtabs(4))
        return marks.startswith(self.marks) and not marks.strip(self.marks[0]) and indent <= self.max_indent

    def is_left_by(self, line: str) -> bool:
        """Return whether a line is after the quotation that contains the fence."""
        return self.is_quoted and not line.lstrip(" \t").startswith(">")


def blank_code(text: str) -> str:
    """Return the text with fenced and inline code replaced by blanks; the number of lines stays the same."""
    if "`" not in text and "~~~" not in text:
        return text
    pieces: list[str] = []
    block: list[str] = []  # lines that inline code may span
    fence: Fence | None = None
    for line in text.split("\n"):
        if fence and not fence.is_left_by(line):
            pieces.append("")
            fence = None if fence.is_closed_by(line) else fence
            continue
        fence = Fence.opened_by(line)
        if fence or _BLOCK_START.match(line):
            pieces += _blank_inline_code(block)
            block = []
        if fence:
            pieces.append("")
        else:
            block.append(line)
    return "\n".join([*pieces, *_blank_inline_code(block)])


def _blank_inline_code(lines: list[str]) -> list[str]:
    """Return the lines of one block with inline code blanked.

    A run of backticks opens code that ends at the next run of the same length; without one, it is plain text.
    """
    text = "\n".join(lines)
    if "`" not in text:
        return lines
    runs = [found.span() for found in _TICKS.finditer(text)]
    by_length: dict[int, list[int]] = defaultdict(list)  # length -> indexes of the runs, the last first
    for index in range(len(runs) - 1, -1, -1):
        by_length[runs[index][1] - runs[index][0]].append(index)
    pieces, done, last_closing = [], 0, -1
    for index, (start, end) in enumerate(runs):
        if index <= last_closing:
            continue
        closing = by_length[end - start - _is_escaped(text, start)]  # an escaped backtick is not part of the run
        while closing and closing[-1] <= index:
            closing.pop()
        if closing:
            last_closing = closing[-1]
            stop = runs[last_closing][1]
            pieces += [text[done:start], _NOT_NEWLINE.sub(" ", text[start:stop])]
            done = stop
    return ("".join(pieces) + text[done:]).split("\n")


def _is_escaped(text: str, offset: int) -> bool:
    """Return whether an odd number of backslashes precedes an offset."""
    start = offset
    while start and text[start - 1] == "\\":
        start -= 1
    return (offset - start) % 2 == 1


# --- header -------------------------------------------------------------------------------------------


def _header_links(header: str, values: Mapping[str, object]) -> list[Link]:
    """Return the links in the values of a header, by line.

    The relation of links that are all of a value is its key; a link within other text mentions or embeds its target.
    """
    links: list[Link] = []
    offset = 0  # in the header, which has the keys and links in the same order as `values`
    for key, value in values.items():
        texts = list(_texts(key, value)) if key not in NAMING_KEYS else []
        offset = _find_key(header, key, offset) if texts else offset
        for name, text in texts:
            is_alone = not _LINK.sub("", text).strip(" \t\n,;")
            for match in _LINK.finditer(text):
                offset = max(offset, header.find(f"[[{match[2]}]]", offset))
                if target := target_of(match[2]):
                    line = header.count("\n", 0, offset) + 2  # the first line of the file is `---`
                    links.append(Link(line, name if is_alone else EMBEDS if match[1] else MENTIONS, target))
                offset += 1
    return sorted(links, key=lambda link: link.line)


def _find_key(header: str, key: str, start: int) -> int:
    """Return the offset of a key in a header from `start` on; `start` itself if the key is not found."""
    spellings = (key, f'"{key}', f"'{key}")
    if header.startswith(spellings, start):
        return start
    found = [header.find(f"\n{spelling}", start) + 1 for spelling in spellings]
    return min(filter(None, found), default=start)


def _texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a value that contain links, each with its name: the key, or `key.inner` in a mapping.

    `[[x]]` without quotes, which is a nested list in YAML, is a link too.
    """
    if isinstance(value, str):
        if "[[" in value and not value.startswith("{"):  # not the JSON that stores write to a header
            yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple):
        if isinstance(text := _single_item(_single_item(value)), str):
            yield name, f"[[{text}]]"
            return
        for item in value:
            yield from _texts(name, item)


def _single_item(value: object) -> object:
    """Return the item of a list with one item; None for anything else."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else None
