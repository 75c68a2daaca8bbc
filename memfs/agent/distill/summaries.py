"""The summary of a session: one file with one `##` section per topic, updated in place. Edits of people are kept.

The header key `sections` holds a mark of each section as memfs wrote it. A section whose text does not match its mark
was edited by a person: it is only added to, never replaced. A section that has a mark but is not in the file any more
was removed by a person, and is not added again.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memfs.agent.messages import Message
from memfs.data_types import Memory, Written
from memfs.errors import LockTimeoutError, MemoryChangedError, MemoryNotFoundError
from memfs.namespace import fold
from memfs.query.tokens import STOP_WORDS, UNSPACED
from memfs.storage.exact_duplicates import text_key
from memfs.stores.agent.protocol import Found, Metadata
from memfs.stores.agent.vault_store import VaultStore

HEADING = "# Summary"  # the file name is derived from it
FILE_NAME = "summary.md"
MARKS_KEY = "sections"
HIGHLIGHTS = "Highlights"
MAX_HIGHLIGHTS = 8  # lines of an extractive summary
MAX_HIGHLIGHT_CHARS = 300
WRITE_ATTEMPTS = 20  # before a write gives up against concurrent writers
_TITLE = re.compile(r"## +(\S.*?)[ #]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_TOP_HEADING = re.compile(r"^#{1,2}(?= )", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Section:
    """A topic of a summary: its title, its text, and `raw`, the whole section as in the file with its heading."""

    title: str
    text: str
    raw: str = ""

    @property
    def mark(self) -> str:
        """A digest of the text, and the title; it changes if either of them does."""
        return f"{text_key(self.text)[:12]} {self.title}"


def make_section(title: str, text: str) -> Section:
    """Return a section as memfs writes it: a one-line title, and a text without `##` headings or an open code fence."""
    line = " ".join(title.replace("#", " ").split())[:100] or "Notes"
    body = _TOP_HEADING.sub("###", text.strip())
    if body and (fence := _open_fences(body.splitlines())[-1]):
        body += f"\n{fence}"
    return Section(line, body, f"## {line}\n\n{body}\n")


def parse_sections(body: str) -> tuple[str, list[Section]]:
    """Return the text before the first section, and the sections; headings in fenced code do not count."""
    chunks: list[list[str]] = [[]]
    lines = body.splitlines(keepends=True)
    for line, fence in zip(lines, _open_fences(lines), strict=True):
        if not fence and _TITLE.match(line.rstrip()):
            chunks.append([])
        chunks[-1].append(line)
    return "".join(chunks[0]), [_parse_section(chunk) for chunk in chunks[1:]]


def _open_fences(lines: Iterable[str]) -> list[str]:
    """Return for each line the code fence that is open after it, or an empty text."""
    fences, fence = [], ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark and (not fence or fence == mark[1]):
            fence = "" if fence else mark[1]
        fences.append(fence)
    return fences


def _parse_section(lines: Sequence[str]) -> Section:
    title = _TITLE.match(lines[0].rstrip())
    return Section(title[1] if title else "", "".join(lines[1:]).strip(), "".join(lines))


def merge_sections(
    body: str, new_sections: Iterable[Section], old_marks: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return a summary with new sections merged in, and the marks of the sections that memfs wrote.

    A section that memfs wrote is replaced, and one that a person edited gets additional lines only.
    """
    intro, parts = parse_sections(body)
    marks = dict(old_marks)
    for new in new_sections:
        key = fold(new.title)
        index = next((index for index, part in enumerate(parts) if fold(part.title) == key), None)
        if index is None and key in marks:
            continue  # a person removed it
        if index is None:
            parts.append(new)
        elif parts[index].mark == marks.get(key):
            parts[index] = replace(new, raw=new.raw.rstrip() + _trailing_space(parts[index].raw))
        else:
            parts[index] = replace(parts[index], raw=_with_added_lines(parts[index], new))
            continue  # its mark must not match: a section with a person's words is never replaced
        marks[key] = new.mark
    raws = [intro, *(part.raw for part in parts)]
    return "".join([*map(_with_blank_line, raws[:-1]), raws[-1]]), marks


def _trailing_space(raw: str) -> str:
    """Return the white space at the end of a section."""
    return raw[len(raw.rstrip()) :]


def _with_blank_line(part: str) -> str:
    """Return a part that ends with a blank line."""
    return part if not part.strip() or part.endswith(("\n\n", "\r\n\r\n")) else part.rstrip("\n") + "\n\n"


def _with_added_lines(current: Section, new: Section) -> str:
    """Return an edited section with those lines of the new one that it does not contain."""
    existing = {_normalized(line) for line in current.text.splitlines()}
    added = [line for line in new.text.splitlines() if line.strip() and _normalized(line) not in existing]
    if not added:
        return current.raw
    body = current.raw.rstrip()
    is_list = added[0].startswith("- ") and body.rpartition("\n")[2].startswith("- ")
    return body + ("\n" if is_list else "\n\n") + "\n".join(added) + _trailing_space(current.raw)


def _normalized(line: str) -> str:
    return " ".join(line.casefold().split())


def edited_titles(body: str, marks: Mapping[str, str]) -> list[str]:
    """Return the titles of the sections that a person wrote or changed."""
    return [section.title for section in parse_sections(body)[1] if marks.get(fold(section.title)) != section.mark]


def section_marks(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the marks in a header, by folded title."""
    marks = values.get(MARKS_KEY)
    lines = [line for line in marks if isinstance(line, str)] if isinstance(marks, list | tuple) else []
    return {fold(line.partition(" ")[2]): line for line in lines}


# --- without a model ----------------------------------------------------------------------------------


def highlights(messages: Iterable[Message], before: str = "") -> Section:
    """Return the sentences with the most weight, of the summary `before` and of new turns, in order, as a section."""
    lines = dict.fromkeys(line for line in before.splitlines() if line.startswith("- "))
    for message in messages:
        for sentence in _SENTENCE_END.split(message["content"]):
            if len(text := " ".join(sentence.split())) > 2:
                lines.setdefault(f"- {message['role']}: {text[:MAX_HIGHLIGHT_CHARS]}")
    kept = sorted(filter(_weight, lines), key=_weight, reverse=True)[:MAX_HIGHLIGHTS]
    return make_section(HIGHLIGHTS, "\n".join(line for line in lines if line in kept))


def _weight(line: str) -> int:
    """Return the weight of a line: many different words, digits, a person's turn and no question. 0 leaves it out.

    It depends on that line only, so the best lines of all turns are the same however the turns are split into batches.
    """
    role, _, text = line.removeprefix("- ").partition(": ")
    words = {word for word in _WORD.findall(text.casefold()) if word not in STOP_WORDS and len(word) > 2}
    count = len(words) + len("".join(UNSPACED.findall(text))) // 2
    if role not in {"user", "assistant"} or text.startswith("[") or count < 2:  # [: a tool call or its result
        return 0
    weight = min(count, 12) + 2 * any(char.isdigit() for char in text) + 3 * (role == "user")
    return max(1, weight - 4 * text.rstrip().endswith(("?", "？")))


# --- the file -----------------------------------------------------------------------------------------


class SummaryStore(VaultStore):
    """The namespace of one session's summary; added text is merged into its one file."""

    def _summary_path(self) -> str:
        return f"{self.namespace.strip('/')}/{FILE_NAME}"

    def _read_summary(self) -> Memory | None:
        try:
            return self.vault.read(self._summary_path())
        except MemoryNotFoundError:
            return None

    def _similar(self, text: str, limit: int) -> Sequence[Found]:
        """Return the whole summary, for any text; empty if there is none yet."""
        memory = self._read_summary()
        return [self._as_found(memory, max_chars=len(memory.body) + 1)] if memory else []

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Merge sections into the summary; sections that a person edited are only added to.

        Raises LockTimeoutError if concurrent writers change the file before every attempt.
        """
        return await asyncio.to_thread(self._merge, content, dict(metadata or {}))

    async def is_forgotten(self, content: str) -> bool:
        """Return False: after a summary was deleted, a new one may be written, because its text differs."""
        return False

    def _merge(self, content: str, keys: dict[str, Any]) -> Written:
        self.check_writable()
        (content, keys), counts = self._apply_policy(content, keys)
        sections = parse_sections(content)[1]
        for _ in range(WRITE_ATTEMPTS):
            memory = self._read_summary()
            try:
                if memory is None:
                    written = self._create_summary(sections, keys)
                else:
                    written = self._update_summary(memory, sections, keys)
            except (MemoryChangedError, MemoryNotFoundError):
                continue
            if written is not None:
                return self._with_redactions(written, counts)
        raise LockTimeoutError(self.namespace, 0)

    def _create_summary(self, sections: Sequence[Section], keys: Mapping[str, Any]) -> Written | None:
        """Create the file; None if another process created it first."""
        body, marks = merge_sections(f"{HEADING}\n\n", sections, {})
        written = self.vault.add(body.rstrip(), **{"type": self.type, **keys, MARKS_KEY: list(marks.values())})
        if written.path == self._summary_path() or written.outcome != "created":
            return written
        self.vault.remove(written.path)  # the name was taken, so this file got another one
        return None

    def _update_summary(self, memory: Memory, sections: Sequence[Section], keys: Mapping[str, Any]) -> Written:
        before = section_marks(memory.header.values)
        body, marks = merge_sections(memory.body, sections, before)
        if body == memory.body and marks == before:
            return Written(memory.id, memory.path, "unchanged", memory.stamp)
        return self.vault.update(memory.path, body=body, seen=memory.stamp, **{**keys, MARKS_KEY: list(marks.values())})
