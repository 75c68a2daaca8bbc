"""What commands print: harmless text, colours, columns, JSON. Text from a vault is not trusted."""

import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from threading import Event, Lock, Thread
from typing import Any, Self

from memfs.data_types import Hit, Memory, Problem, Reason, Version, Written

_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HARMFUL_LINES = re.compile(r"(?![\n\t])" + _HARMFUL.pattern)
_COLOURS = {"bold": "1", "dim": "2", "blue": "34", "magenta": "35", "red": "1;31"}
_OUTCOMES = {"duplicate": "duplicate of", "moved": "moved to", "archived": "archived as"}
PATIENCE = 0.5  # seconds of silence before progress is shown
PACE = 0.1  # and between two figures of it
TICK = 1.0  # and before the time is told
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


# --- text ---------------------------------------------------------------------------------------------


def plain(text: object) -> str:
    """Text on one line that does nothing to a terminal: control and direction characters are spelled out."""
    return _HARMFUL.sub(_spelled, str(text))


def plain_lines(text: str) -> str:
    """The same for text of several lines."""
    return _HARMFUL_LINES.sub(_spelled, text.replace("\r\n", "\n"))


def phrase(text: str) -> str:
    """A title or a sentence: white space of any kind is one space."""
    return plain(" ".join(text.split()))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def label(memory: Memory) -> str:
    """What a memory is about: its title, or its first sentence where the title is only the file's name."""
    stem = memory.path.rpartition("/")[2].removesuffix(".md")
    return phrase(memory.title if memory.title != stem else memory.description or stem)


def count(number: int, thing: str) -> str:
    """A number of things: `1 memory`, `2 memories`."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}es" if thing.endswith("ch") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else plural}"


def listed(counts: Mapping[str, int], most: int = 6) -> str:
    """Things and how often they are there: `fact 3, note 1`; beyond the first few only how many."""
    shown = [f"{plain(name)} {number:,}" for name, number in [*counts.items()][:most]]
    return ", ".join(shown) + (f" and {len(counts) - most:,} more" if len(counts) > most else "")


def ago(moment: datetime, now: datetime) -> str:
    """How long ago that was; a date where it was long ago."""
    seconds = (now - moment).total_seconds()
    if seconds >= 30 * 86400:
        return moment.date().isoformat()
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{count(int(seconds // length), unit)} ago"
    return "just now"


# --- columns and colours ------------------------------------------------------------------------------


def columns() -> int | None:
    """The width of the terminal; None if stdout is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def paint(text: str, colour: str) -> str:
    """Colour a text, where stdout shows colours and NO_COLOR is not set."""
    if not text or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def width(text: str) -> int:
    """The columns a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, room: int | None) -> str:
    """The text in `room` columns, with an ellipsis where it was longer."""
    if room is None or width(text) <= room:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > room - 1:
            break
        kept += char
    return kept.rstrip() + "…" if room > 0 else ""


def cut_start(text: str, room: int) -> str:
    """The end of the text in `room` columns, with an ellipsis where it was longer."""
    return cut(text[::-1], room)[::-1]


def pad(text: str, room: int) -> str:
    """The text, filled up to `room` columns."""
    return text + " " * (room - width(text))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; on a terminal the first and the last share what the others leave."""
    total = columns()
    rooms = [max(map(width, cells)) for cells in zip(head, *rows, strict=True)]
    if total is not None:
        left = total - sum(rooms[1:-1]) - 2 * (len(rooms) - 1)
        rooms[0] = min(rooms[0], max(left - rooms[-1], left * 3 // 5, 20))
        rows = [[cut_start(first, rooms[0]), *rest] for first, *rest in rows]
    for number, row in enumerate([list(head), *rows]):
        line = "  ".join(map(pad, row, rooms)).rstrip()
        print(paint(cut(line, total), "dim") if number == 0 else cut(line, total))


# --- JSON ---------------------------------------------------------------------------------------------


def dumps(value: Any) -> str:
    """JSON that is readable, and harmless on a terminal."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, default=_jsonable, ensure_ascii=not is_utf8)
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: Any) -> None:
    """Print one JSON value."""
    print(dumps(value))


def iso(moment: date) -> str:
    """A date or a time as memfs writes them."""
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return moment.isoformat()


def _jsonable(value: Any) -> Any:
    if isinstance(value, date):
        return iso(value)
    return dict(value) if isinstance(value, Mapping) else str(value)


def memory_facts(memory: Memory) -> dict[str, Any]:
    """What a listing tells of a memory."""
    header = memory.header
    return {
        "id": memory.id, "path": memory.path, "namespace": str(memory.namespace), "type": header.type,
        "title": memory.title, "tags": header.tags, "importance": header.importance,
        "created": memory.created, "updated": memory.updated, "stamp": str(memory.stamp),
    }  # fmt: skip


def hit_facts(hit: Hit, *, why: bool) -> dict[str, Any]:
    """What a search tells of a hit: what a listing does, and how it was found."""
    facts = memory_facts(hit.memory) | {
        "date": hit.date, "relevance": hit.relevance, "rank": hit.rank, "snippet": hit.snippet, "marks": hit.marks,
    }  # fmt: skip
    return facts | {"why": [reason_facts(reason) for reason in hit.why]} if why else facts


def reason_facts(reason: Reason) -> dict[str, Any]:
    """What there is to know of a reason."""
    return {"text": reason.text, "score": reason.score}


def problem_facts(problem: Problem) -> dict[str, Any]:
    """What there is to know of a problem."""
    return {name: getattr(problem, name) for name in ("path", "line", "reason", "key", "value", "hint")}


def print_problem(problem: Problem) -> None:
    """Print a problem where an editor finds it."""
    print(f"{paint(plain(problem.place), 'bold')} {plain(problem.reason)}")
    if problem.hint:
        print(f"    {plain(problem.hint)}")


def version_facts(version: Version, *, current: bool) -> dict[str, Any]:
    """What there is to know of a kept version."""
    return {"hash": version.hash, "time": version.time, "size": version.size, "current": current}


def written_facts(written: Written) -> dict[str, Any]:
    """What became of a write."""
    stamp = str(written.stamp) if written.stamp else None
    return {"id": written.id, "path": written.path, "outcome": written.outcome, "stamp": stamp}


def print_written(written: Written, *, as_json: bool) -> None:
    """Print what became of a write."""
    if as_json:
        print_json(written_facts(written))
    else:
        print(_OUTCOMES.get(written.outcome, written.outcome), plain(written.path))


# --- streams ------------------------------------------------------------------------------------------


class Progress:
    """One line on a terminal behind stderr, rewritten now and then once it takes a moment, and gone at the end.

    Where it is known how many there are, it tells how many are `done`; else what it is `doing`, and for how long.
    """

    def __init__(self, done: str = "indexed", *, doing: str = "") -> None:
        self._done = done  # what is done with each
        self._doing = doing
        self._began = time.monotonic()
        self._next = self._began + PATIENCE
        self._shown = False
        self._mutex, self._ended = Lock(), Event()
        self._clock: Thread | None = None

    def __enter__(self) -> Self:
        if self._doing and is_seen():
            self._clock = Thread(target=self._tell_time, name="memfs-progress")
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._clock:
            self._clock.join()
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next and is_seen():
            self._show(f"{self._done} {done:,} of {total:,}", PACE)

    def step(self, doing: str) -> None:
        """Say what is done from here on; at once, where the line is shown already."""
        self._doing = doing
        if self._clock and (self._shown or time.monotonic() >= self._next):
            self._show_time()

    def _tell_time(self) -> None:
        """Show what is done whenever nothing else was shown for a while, until the end."""
        is_over = False
        while not is_over:
            is_over = self._ended.wait(max(0.0, self._next - time.monotonic()))
            if time.monotonic() >= self._next:
                self._show_time()

    def _show_time(self) -> None:
        seconds = time.monotonic() - self._began
        self._show(self._doing + (f", {seconds:.0f} s" if seconds >= 1 else ""), TICK)

    def _show(self, text: str, pause: float) -> None:
        with self._mutex, suppress(OSError, ValueError):  # of a terminal that is gone
            self._next, self._shown = time.monotonic() + pause, True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def is_seen() -> bool:
    """Tell whether somebody sees what is said on stderr."""
    return sys.stderr is not None and sys.stderr.isatty()


def settle_output() -> None:
    """Write what was printed, or keep the interpreter from trying again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
