"""The links that a memory holds, in header and body, and what each says. Pure; linear in the length of the text.

A link is `[[Target]]`, `[[Target|label]]`, `[[Target#Heading]]` or `![[Target]]`, outside of code.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

from memfs.data_types import Memory
from memfs.format.frontmatter import split

MENTIONS, EMBEDS = "mentions", "embeds"
MAX_RELATION = 80  # characters
NAMING = frozenset({"id", "title", "aliases", "tags", "permalink", "name"})  # keys that name a memory link to nothing
_LINK = re.compile(r"(?<!\\)(!?)\[\[([^\[\]\n]++)\]\]")
_BULLET = re.compile(r"[ \t]*[-*+][ \t]+")
_WORD = re.compile(r"([^\W\d_][^\s\[\]()\"`<>|]*?):{0,2}")
_QUOTED = re.compile(r"([\"'])([^\"']+)\1:{0,2}")
_BETWEEN = re.compile(r"[ \t]*+[,;]?+[ \t]*+")
_FENCE = re.compile(r"([ \t>]*+)([-*+][ \t]++|\d{1,9}[.)][ \t]++)?(`{3,}+|~{3,}+)(.*)")
_BLOCK = re.compile(r"[ \t>]*(?:\r?$|[-*+][ \t]|\d{1,9}[.)][ \t]|#|\|)")  # where inline code of the line before ends
_TICKS = re.compile(r"`+")
_TEXT = re.compile(r"[^\n]")


class Link(NamedTuple):
    """One link: the line of the file, what it says, where to, and what is said in parentheses behind it."""

    line: int
    relation: str
    target: str  # without label and heading; never empty
    note: str = ""


def links_of(memory: Memory) -> list[Link]:
    """Every link of a memory, by line. Never raises."""
    if b"[[" not in memory.data:
        return []
    text = memory.text
    parts = split(text)
    start = sum(map(len, (parts.bom, parts.opening, parts.header, parts.closing, parts.lead)))
    found = _header_links(parts.header, memory.header.values) if "[[" in parts.header else []
    return [*found, *_body_links(parts.body, text.count("\n", 0, start) + 1)]


def target_of(inner: str) -> str:
    """What a link points to, of the text between its brackets; empty where it is a heading of the same file."""
    return inner.partition("|")[0].removesuffix("\\").partition("#")[0].strip()


# --- body ---------------------------------------------------------------------------------------------


def _body_links(body: str, first: int) -> list[Link]:
    """The links of a body whose first line is that line of the file."""
    if "[[" not in body:
        return []
    links: list[Link] = []
    for number, line in enumerate(without_code(body).split("\n"), first):
        if "[[" in line:
            links += _line_links(line, number)
    return links


def _line_links(line: str, number: int) -> Iterator[Link]:
    found = list(_LINK.finditer(line))
    if not found:
        return
    relation, related, note = _relation(line, found)
    for place, match in enumerate(found):
        if not (target := target_of(match[2])):
            continue
        if place < related:
            yield Link(number, relation, target, note)
        else:
            yield Link(number, EMBEDS if match[1] else MENTIONS, target)


def _relation(line: str, found: list[re.Match[str]]) -> tuple[str, int, str]:
    """What `- relation [[A]], [[B]] (note)` says, and how many of its links are meant; none of any other line."""
    none = ("", 0, "")
    bullet = _BULLET.match(line)
    if not bullet or found[0][1]:
        return none
    said = line[bullet.end() : found[0].start()].strip()
    word = (_WORD.fullmatch(said) or _QUOTED.fullmatch(said)) if len(said) <= MAX_RELATION else None
    if not word or said[-1] in ",;.!?":
        return none
    related = 1
    while related < len(found) and _BETWEEN.fullmatch(line, found[related - 1].end(), found[related].start()):
        if found[related][1]:
            break
        related += 1
    rest = line[found[related - 1].end() :].strip()
    if rest and not _is_one_group(rest):
        return none
    return word[word.re.groups].strip(), related, rest[1:-1].strip()


def _is_one_group(text: str) -> bool:
    """Tell whether a text is one pair of parentheses and what they hold."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth <= 0:
            return place == len(text) - 1 and place > 0
    return False


# --- code ---------------------------------------------------------------------------------------------


class Fence(NamedTuple):
    """An open fence: its ticks or tildes, how far in a closing one may stand, and whether it is in a quotation."""

    marks: str
    room: int
    is_quoted: bool

    @classmethod
    def opened_by(cls, line: str) -> Self | None:
        """The fence that a line opens."""
        found = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if not found or (found[3][0] == "`" and "`" in found[4]):
            return None
        before = found[1].rpartition(">")[2] + " " * len(found[2] or "")
        inset = len(before.expandtabs(4))
        return cls(found[3], inset + 3 if inset > 3 or found[2] else 3, ">" in found[1])

    def is_closed_by(self, line: str) -> bool:
        """Tell whether a line is the closing fence."""
        inner = line.rstrip(" \t\r")
        marks = inner.lstrip(" \t>" if self.is_quoted else " \t")
        inset = len(inner[: len(inner) - len(marks)].rpartition(">")[2].expandtabs(4))
        return marks.startswith(self.marks) and not marks.strip(self.marks[0]) and inset <= self.room

    def is_left_by(self, line: str) -> bool:
        """Tell whether a line is behind the quotation that the fence was in."""
        return self.is_quoted and not line.lstrip(" \t").startswith(">")


def without_code(text: str) -> str:
    """The text with blanks in the place of code, fenced or inline; every line stays where it is."""
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
        if fence or _BLOCK.match(line):
            pieces += _without_inline(block)
            block = []
        if fence:
            pieces.append("")
        else:
            block.append(line)
    return "\n".join([*pieces, *_without_inline(block)])


def _without_inline(lines: list[str]) -> list[str]:
    """Lines of one block with blanks in the place of inline code: a run of ticks ends at the next one of its length."""
    text = "\n".join(lines)
    if "`" not in text:
        return lines
    runs = [found.span() for found in _TICKS.finditer(text)]
    later: dict[int, list[int]] = defaultdict(list)
    for place in range(len(runs) - 1, -1, -1):
        later[runs[place][1] - runs[place][0]].append(place)
    pieces, done, past = [], 0, -1
    for place, (start, end) in enumerate(runs):
        if place <= past:
            continue
        closing = later[end - start - _is_escaped(text, start)]
        while closing and closing[-1] <= place:
            closing.pop()
        if closing:
            past = closing[-1]
            stop = runs[past][1]
            pieces += [text[done:start], _TEXT.sub(" ", text[start:stop])]
            done = stop
    return ("".join(pieces) + text[done:]).split("\n")


def _is_escaped(text: str, place: int) -> bool:
    """Tell whether an odd number of backslashes stands before a place."""
    start = place
    while start and text[start - 1] == "\\":
        start -= 1
    return (place - start) % 2 == 1


# --- header -------------------------------------------------------------------------------------------


def _header_links(header: str, values: Mapping[str, object]) -> list[Link]:
    """The links among the values of a header, whose key is what they say."""
    links: list[Link] = []
    place = 0  # keys and links come in the order in which they stand in the header
    for key, value in values.items():
        texts = list(_texts(key, value)) if key not in NAMING else []
        place = _find_key(header, key, place) if texts else place
        for name, text in texts:
            is_alone = not _LINK.sub("", text).strip(" \t\n,;")
            for match in _LINK.finditer(text):
                place = max(place, header.find(f"[[{match[2]}]]", place))
                if target := target_of(match[2]):
                    line = header.count("\n", 0, place) + 2
                    links.append(Link(line, name if is_alone else EMBEDS if match[1] else MENTIONS, target))
                place += 1
    return sorted(links, key=lambda link: link.line)


def _find_key(header: str, key: str, place: int) -> int:
    """Where a key stands in a header from a place on; the place itself where that cannot be told."""
    spellings = (key, f'"{key}', f"'{key}")
    if header.startswith(spellings, place):
        return place
    found = [header.find(f"\n{spelling}", place) + 1 for spelling in spellings]
    return min(filter(None, found), default=place)


def _texts(name: str, value: object) -> Iterator[tuple[str, str]]:
    """The texts of a value that hold links; `[[x]]` without quotes, which YAML takes for a list in a list, too."""
    if isinstance(value, str):
        if "[[" in value and not value.startswith("{"):  # JSON, which stores keep in a header
            yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple):
        if isinstance(text := _only(_only(value)), str):
            yield name, f"[[{text}]]"
            return
        for item in value:
            yield from _texts(name, item)


def _only(value: object) -> object:
    """The one item of a list; None of anything else."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else None
