"""Print text, tables, JSON and a progress line. Text from a vault is not trusted: control characters are escaped."""

import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from threading import Event, Lock, Thread
from typing import Any, Self

from memfs.data_types import Memory, Problem, Written
from memfs.json_output import UNSAFE_CHARACTERS, dump_json, written_json

_UNSAFE_IN_LINES = re.compile(r"(?![\n\t])" + UNSAFE_CHARACTERS.pattern)
_COLOURS = {"bold": "1", "dim": "2", "blue": "34", "magenta": "35", "red": "1;31"}
_OUTCOMES = {"duplicate": "duplicate of", "moved": "moved to", "archived": "archived as"}
PROGRESS_DELAY_SECONDS = 0.5  # before the first progress line is shown
PROGRESS_INTERVAL_SECONDS = 0.1  # between two updates of the counter
PROGRESS_CLOCK_SECONDS = 1.0  # between two updates of the elapsed time
_TIME_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


# --- text ---------------------------------------------------------------------------------------------


def safe_text(text: object) -> str:
    """Return a text on one line with control and direction characters escaped, so that no terminal obeys them."""
    return UNSAFE_CHARACTERS.sub(_escape, str(text))


def safe_lines(text: str) -> str:
    """Return a text with its line breaks and tabs, other control and direction characters escaped."""
    return _UNSAFE_IN_LINES.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return a title or a sentence on one safe line; each run of white space becomes one space."""
    return safe_text(" ".join(text.split()))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def label(memory: Memory) -> str:
    """Return the title of a memory, or its first sentence if the title is only the file name."""
    stem = memory.path.rpartition("/")[2].removesuffix(".md")
    return one_line(memory.title if memory.title != stem else memory.description or stem)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 memory`, `2 memories`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def format_counts(counts: Mapping[str, int], max_shown: int = 6) -> str:
    """Return names with their counts: `fact 3, note 1`; after the first few only how many more there are."""
    shown = [f"{safe_text(name)} {number:,}" for name, number in [*counts.items()][:max_shown]]
    return ", ".join(shown) + (f" and {len(counts) - max_shown:,} more" if len(counts) > max_shown else "")


def time_ago(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was, such as `2 hours ago`; its date if that is 30 days or more."""
    seconds = (now - moment).total_seconds()
    if seconds >= 30 * 86400:
        return moment.date().isoformat()
    for unit, length in _TIME_UNITS:
        if seconds >= length:
            return f"{count(int(seconds // length), unit)} ago"
    return "just now"


# --- columns and colours ------------------------------------------------------------------------------


def terminal_width() -> int | None:
    """Return the number of columns of the terminal; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def paint(text: str, colour: str) -> str:
    """Return a text in a colour; unchanged if stdout is no terminal with colours or NO_COLOR is set."""
    if not text or not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def truncate(text: str, width: int | None) -> str:
    """Return a text cut to `width` columns, with an ellipsis if it was longer; None is no limit."""
    if width is None or display_width(text) <= width:
        return text
    kept = ""
    for char in text:
        if display_width(kept + char) > width - 1:
            break
        kept += char
    return kept.rstrip() + "…" if width > 0 else ""


def truncate_start(text: str, width: int) -> str:
    """Return the end of a text in `width` columns, with an ellipsis in front if it was longer."""
    return truncate(text[::-1], width)[::-1]


def pad(text: str, width: int) -> str:
    """Return a text filled with spaces up to `width` columns."""
    return text + " " * (width - display_width(text))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; on a terminal, the first and the last column are cut so that a row fits on one line."""
    total = terminal_width()
    widths = [max(map(display_width, cells)) for cells in zip(head, *rows, strict=True)]
    if total is not None:
        rest = total - sum(widths[1:-1]) - 2 * (len(widths) - 1)
        widths[0] = min(widths[0], max(rest - widths[-1], rest * 3 // 5, 20))
        rows = [[truncate_start(first, widths[0]), *others] for first, *others in rows]
    for number, row in enumerate([list(head), *rows]):
        line = "  ".join(map(pad, row, widths)).rstrip()
        print(paint(truncate(line, total), "dim") if number == 0 else truncate(line, total))


# --- results ------------------------------------------------------------------------------------------


def json_text(value: Any) -> str:
    """Return a value as JSON in the characters that stdout can encode."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return dump_json(value, ascii_only=not is_utf8)


def print_json(value: Any) -> None:
    """Print one JSON value."""
    print(json_text(value))


def print_problem(problem: Problem) -> None:
    """Print a problem as `path:line: reason`, which editors can jump to, with its hint below."""
    print(f"{paint(safe_text(problem.place), 'bold')} {safe_text(problem.reason)}")
    if problem.hint:
        print(f"    {safe_text(problem.hint)}")


def print_written(written: Written, *, as_json: bool) -> None:
    """Print the result of a write."""
    if as_json:
        print_json(written_json(written))
    else:
        print(_OUTCOMES.get(written.outcome, written.outcome), safe_text(written.path))


# --- streams ------------------------------------------------------------------------------------------


class Progress:
    """A progress line on stderr, if that is a terminal: shown after a delay, rewritten in place, erased at the end.

    Call it with (done, total) to show a counter such as "indexed 3 of 7", where `verb` is "indexed". With an
    `activity`, such as "reading memories", a thread shows that and the elapsed time.
    """

    def __init__(self, verb: str = "indexed", *, activity: str = "") -> None:
        self._verb = verb
        self._activity = activity
        self._started = time.monotonic()
        self._next_update = self._started + PROGRESS_DELAY_SECONDS
        self._is_shown = False
        self._mutex, self._ended = Lock(), Event()
        self._clock: Thread | None = None

    def __enter__(self) -> Self:
        if self._activity and is_stderr_terminal():
            self._clock = Thread(target=self._run_clock, name="memfs-progress")
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._clock:
            self._clock.join()
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next_update and is_stderr_terminal():
            self._show(f"{self._verb} {done:,} of {total:,}", PROGRESS_INTERVAL_SECONDS)

    def set_activity(self, activity: str) -> None:
        """Change the activity; it is shown at once if the delay is over."""
        self._activity = activity
        if self._clock and (self._is_shown or time.monotonic() >= self._next_update):
            self._show_activity()

    def _run_clock(self) -> None:
        """Show the activity whenever nothing else was shown for a while, until the progress line ends."""
        is_over = False
        while not is_over:
            is_over = self._ended.wait(max(0.0, self._next_update - time.monotonic()))
            if time.monotonic() >= self._next_update:
                self._show_activity()

    def _show_activity(self) -> None:
        seconds = time.monotonic() - self._started
        self._show(self._activity + (f", {seconds:.0f} s" if seconds >= 1 else ""), PROGRESS_CLOCK_SECONDS)

    def _show(self, text: str, pause: float) -> None:
        with self._mutex, suppress(OSError, ValueError):  # the terminal may be gone
            self._next_update, self._is_shown = time.monotonic() + pause, True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def is_stderr_terminal() -> bool:
    """Return whether stderr is a terminal, where a person sees messages."""
    return sys.stderr is not None and sys.stderr.isatty()


def flush_stdout() -> None:
    """Flush stdout; if its reader is gone, point it at /dev/null, so that the interpreter's own flush cannot fail."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
