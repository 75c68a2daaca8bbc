"""The summary of a session: one file, a `##` a topic, updated in place. What a person wrote in it stays.

The header key `sections` holds a mark of each topic as memfs wrote it. A topic that is not as it was written is a
person's: it is added to, never replaced; one that is gone was removed by a person, and does not come back.
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
from memfs.storage.file_names import text_key
from memfs.stores.agent.protocol import Found, Metadata
from memfs.stores.agent.vault_store import VaultStore

HEADING = "# Summary"  # from which the file gets its name
NAME = "summary.md"
KEY = "sections"
HIGHLIGHTS = "Highlights"
LINES = 8  # of an extractive summary
LONGEST = 300  # characters of a line of it
TRIES = 20  # of a write that others are in the way of
_TITLE = re.compile(r"## +(\S.*?)[ #]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HIGHER = re.compile(r"^#{1,2}(?= )", re.MULTILINE)
_BETWEEN = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Section:
    """A topic and what is said of it; `raw` is all of it as it stands in the file, its heading too."""

    title: str
    text: str
    raw: str = ""

    @property
    def mark(self) -> str:
        """A digest of the text, and the title: another one, when either is changed."""
        return f"{text_key(self.text)[:12]} {self.title}"


def section(title: str, text: str) -> Section:
    """A topic as memfs writes it: a title of one line, and a text that begins no other topic and swallows none."""
    line = " ".join(title.replace("#", " ").split())[:100] or "Notes"
    body = _HIGHER.sub("###", text.strip())
    if body and (fence := _fenced(body.splitlines())[-1]):
        body += f"\n{fence}"
    return Section(line, body, f"## {line}\n\n{body}\n")


def parse(body: str) -> tuple[str, list[Section]]:
    """What stands before the first topic, and the topics; headings in fenced code are none."""
    chunks: list[list[str]] = [[]]
    lines = body.splitlines(keepends=True)
    for line, fence in zip(lines, _fenced(lines), strict=True):
        if not fence and _TITLE.match(line.rstrip()):
            chunks.append([])
        chunks[-1].append(line)
    return "".join(chunks[0]), [_read(chunk) for chunk in chunks[1:]]


def _fenced(lines: Iterable[str]) -> list[str]:
    """For each line the fence of the code that goes on behind it, or nothing."""
    fences, fence = [], ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark and (not fence or fence == mark[1]):
            fence = "" if fence else mark[1]
        fences.append(fence)
    return fences


def _read(lines: Sequence[str]) -> Section:
    title = _TITLE.match(lines[0].rstrip())
    return Section(title[1] if title else "", "".join(lines[1:]).strip(), "".join(lines))


def merge_sections(body: str, news: Iterable[Section], ours: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A summary with topics put in, and the marks of what is memfs's own in it; `ours` are those so far."""
    head, parts = parse(body)
    marks = dict(ours)
    for new in news:
        key = fold(new.title)
        at = next((at for at, part in enumerate(parts) if fold(part.title) == key), None)
        if at is None and key in marks:
            continue  # a person removed it
        if at is None:
            parts.append(new)
        elif parts[at].mark == marks.get(key):
            parts[at] = replace(new, raw=new.raw.rstrip() + _end(parts[at].raw))
        else:
            parts[at] = replace(parts[at], raw=_with_lines(parts[at], new))
            continue
        marks[key] = new.mark
    raws = [head, *(part.raw for part in parts)]
    return "".join([*map(_parted, raws[:-1]), raws[-1]]), marks


def _end(raw: str) -> str:
    """The white space that a topic ends with."""
    return raw[len(raw.rstrip()) :]


def _parted(part: str) -> str:
    """A part with an empty line behind it."""
    return part if not part.strip() or part.endswith(("\n\n", "\r\n\r\n")) else part.rstrip("\n") + "\n\n"


def _with_lines(present: Section, new: Section) -> str:
    """A topic as a person left it, and the lines of the new one that it does not have."""
    known = {_plain(line) for line in present.text.splitlines()}
    added = [line for line in new.text.splitlines() if line.strip() and _plain(line) not in known]
    if not added:
        return present.raw
    body = present.raw.rstrip()
    is_list = added[0].startswith("- ") and body.rpartition("\n")[2].startswith("- ")
    return body + ("\n" if is_list else "\n\n") + "\n".join(added) + _end(present.raw)


def _plain(line: str) -> str:
    return " ".join(line.casefold().split())


def edited_titles(body: str, ours: Mapping[str, str]) -> list[str]:
    """The titles of the topics that a person wrote, or changed."""
    return [one.title for one in parse(body)[1] if ours.get(fold(one.title)) != one.mark]


def section_marks(values: Mapping[str, Any]) -> dict[str, str]:
    """The marks in a header, by folded title."""
    held = values.get(KEY)
    lines = [line for line in held if isinstance(line, str)] if isinstance(held, list | tuple) else []
    return {fold(line.partition(" ")[2]): line for line in lines}


# --- without a model ----------------------------------------------------------------------------------


def highlights(messages: Iterable[Message], before: str = "") -> Section:
    """The sentences that say most, in their order: those of a summary so far, and of new turns."""
    lines = dict.fromkeys(line for line in before.splitlines() if line.startswith("- "))
    for message in messages:
        for sentence in _BETWEEN.split(message["content"]):
            if len(words := " ".join(sentence.split())) > 2:
                lines.setdefault(f"- {message['role']}: {words[:LONGEST]}")
    kept = sorted(filter(_weight, lines), key=_weight, reverse=True)[:LINES]
    return section(HIGHLIGHTS, "\n".join(line for line in lines if line in kept))


def _weight(line: str) -> int:
    """What a line is worth by itself, so that the best of the best are the best of all, in whatever portions."""
    role, _, text = line.removeprefix("- ").partition(": ")
    words = {word for word in _WORD.findall(text.casefold()) if word not in STOP_WORDS and len(word) > 2}
    count = len(words) + len("".join(UNSPACED.findall(text))) // 2
    if role not in {"user", "assistant"} or text.startswith("[") or count < 2:
        return 0
    told = min(count, 12) + 2 * any(char.isdigit() for char in text) + 3 * (role == "user")
    return max(1, told - 4 * text.rstrip().endswith(("?", "？")))


# --- the file -----------------------------------------------------------------------------------------


class SummaryStore(VaultStore):
    """The namespace of one session's summary; what is added goes into its one file."""

    def _expected(self) -> str:
        return f"{self.namespace.strip('/')}/{NAME}"

    def _present(self) -> Memory | None:
        try:
            return self.vault.read(self._expected())
        except MemoryNotFoundError:
            return None

    def _similar(self, text: str, limit: int) -> Sequence[Found]:
        memory = self._present()
        return [self._as_found(memory, max_chars=len(memory.body) + 1)] if memory else []

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Put topics into the summary; what is there of them already stays as it is."""
        return await asyncio.to_thread(self._merge, content, dict(metadata or {}))

    async def is_forgotten(self, content: str) -> bool:
        """A summary that was forgotten is begun anew: it is not the same text."""
        return False

    def _merge(self, content: str, keys: dict[str, Any]) -> Written:
        self.check_writable()
        (content, keys), counts = self._apply_policy(content, keys)
        news = parse(content)[1]
        for _ in range(TRIES):
            memory = self._present()
            try:
                written = self._begin(news, keys) if memory is None else self._go_on(memory, news, keys)
            except (MemoryChangedError, MemoryNotFoundError):
                continue
            if written is not None:
                return self._with_redactions(written, counts)
        raise LockTimeoutError(self.namespace, 0)

    def _begin(self, news: Sequence[Section], keys: Mapping[str, Any]) -> Written | None:
        """Make the file; None if somebody else did meanwhile."""
        body, marks = merge_sections(f"{HEADING}\n\n", news, {})
        written = self.vault.add(body.rstrip(), **{"type": self.type, **keys, KEY: list(marks.values())})
        if written.path == self._expected() or written.outcome != "created":
            return written
        self.vault.remove(written.path)
        return None

    def _go_on(self, memory: Memory, news: Sequence[Section], keys: Mapping[str, Any]) -> Written:
        before = section_marks(memory.header.values)
        body, marks = merge_sections(memory.body, news, before)
        if body == memory.body and marks == before:
            return Written(memory.id, memory.path, "unchanged", memory.stamp)
        return self.vault.update(memory.path, body=body, seen=memory.stamp, **{**keys, KEY: list(marks.values())})
