"""What a command is declared with: arguments, readers of their texts, and the arguments that many commands share."""

import argparse
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

TYPES = ("fact", "preference", "summary", "episode", "reflection", "note")
STATUSES = ("draft", "stable", "deprecated")
KINDS = ("summary", "preferences", "facts", "episodes")
HIDDEN = ("archived", "expired", "deprecated", "superseded", "all")
ACTIONS = ("list", "show", "tail", "export")
AUDITED = ("secret", "contradiction", "duplicate", "stale", "unused", "long")
FORMATS = ("jsonl", "markdown")
SHELLS = ("bash", "zsh", "fish")
OPERATORS = ("EQUALS", "EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS", ">", ">=", "<", "<=")
_CONDITION = re.compile(  # what stands where an operator does is taken whole, so that `!=` is no key with a `!`
    r"(?P<key>[^\s<>=!~].*?)"
    r"(?:\s+(?P<word>(?:(?:IS|DOES|NOT)\s+)*(?:EQUALS|NOT_EXISTS|EXISTS|BEFORE|AFTER|CONTAINS))(?!\S)"
    r"|\s*(?P<sign>[!~^*$:]*[<>=]+(?:[!~](?=\s))?))"
    r"\s*(?P<value>.*)",
    re.IGNORECASE | re.DOTALL,
)


class Argument(NamedTuple):
    """An argument as argparse takes it, and what a shell completes it with."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    completes: str = ""

    @property
    def takes_value(self) -> bool:
        return self.options.get("action") != "store_true"


class Command(NamedTuple):
    """One command: `run_<name>` of the module `group`, a dash in the name being an underscore there."""

    name: str
    group: str
    summary: str
    arguments: tuple[Argument, ...]
    examples: str

    @property
    def function(self) -> str:
        return f"run_{self.name.replace('-', '_')}"


def argument(*names: str, completes: str = "", **options: Any) -> Argument:
    """Declare an argument."""
    return Argument(names, {"type": place, **options} if completes == "namespace" else options, completes)


def several(*names: str, **options: Any) -> Argument:
    """Declare an option that may be repeated."""
    return argument(*names, action="append", default=[], **options)


def flag(*names: str, help: str) -> Argument:  # noqa: A002  argparse's own word
    """Declare an option without a value."""
    return argument(*names, action="store_true", help=help)


def pair(text: str) -> tuple[str, str]:
    """Read `key=value`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def tag(text: str) -> str:
    """Read a tag; an empty one may be a shell's variable that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a tag cannot be empty")
    return text


def folder(text: str) -> str:
    """Read the name of a directory; an empty one may be a shell's variable that is not set."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a directory cannot be empty")
    return text


def place(text: str) -> str:
    """Read a namespace; an empty one may be a shell's variable that is not set, and is not the whole vault."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a namespace cannot be empty; / is the whole vault")
    return text


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers from `low` on, or to `high`."""

    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > 18 or not low <= int(text) <= (int(text) if high is None else high):
            to = "" if high is None else f" to {high}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low}{to}")
        return int(text)

    return read


positive = whole(1)


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    if not 0 <= number(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number(text)


def moment(text: str) -> date:
    """Read a day or a time."""
    from memfs.data_types import as_time

    try:
        return as_time(text)
    except (ValueError, OverflowError):
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}") from None


def instant(text: str) -> datetime:
    """Read a date or a time; without a zone it is UTC, and a date is its first moment."""
    read = moment(text)
    return read if isinstance(read, datetime) else datetime(read.year, read.month, read.day, tzinfo=UTC)


def condition(text: str) -> tuple[str, str, str | None]:
    """Read `KEY OPERATOR VALUE`, or `KEY EXISTS`; `=` is EQUALS, and operators may be in lower case."""
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY OPERATOR VALUE; operators: {' '.join(OPERATORS)}")
    operator = " ".join((found["word"] or found["sign"]).upper().split())
    operator = "EQUALS" if operator in {"=", "=="} else operator
    if operator not in OPERATORS:
        raise argparse.ArgumentTypeError(f"{text!r}: unknown operator {operator}; operators: {' '.join(OPERATORS)}")
    if operator.endswith("EXISTS") == bool(found["value"]):
        wants = "takes no value" if found["value"] else "wants a value"
        raise argparse.ArgumentTypeError(f"{text!r}: {operator} {wants}")
    return found["key"], operator, found["value"] or None


VAULT = argument(
    "--vault", metavar="DIR", type=folder, help="the vault; else MEMFS_VAULT or the nearest parent", completes="folder",
)  # fmt: skip
COMMON = (VAULT, flag("--json", help="print JSON, and errors as JSON too"))
REF = argument("ref", metavar="REF", help="a memory, by path or id", completes="ref")
REFS = argument("refs", metavar="REF", nargs="+", help="memories, by path or id", completes="ref")
TEXT = argument("text", metavar="TEXT", nargs="+", help="the text; - reads it from stdin")
WITHIN = (
    argument("namespace", metavar="NS", nargs="?", help="only what lies below it", completes="namespace"),
    argument("-n", "--namespace", dest="within", metavar="NS", help="NS as an option", completes="namespace"),
)
TYPE = several("--type", help="only this type; repeated: any of them", completes=" ".join(TYPES))
TAG = several("--tag", metavar="TAG", type=tag, help="only with this tag; repeated: all of them")
AT = argument("--at", metavar="DATE", type=instant, help="as if it were then (default: now)")
SET = several("--set", metavar="KEY=VALUE", type=pair, help="set a header key")
LIST = flag("--list", help="show the kept versions, and change nothing")
QUESTION = argument("question", metavar="QUESTION", nargs="+", help="what you want to know; - reads it from stdin")
SEMANTIC = flag("--semantic", help="by meaning too, as `retrieval: {semantic: true}` in memfs.yaml has it always")
WHERE = f"'KEY OPERATOR VALUE' on any header key, where the operator is one of {' '.join(OPERATORS)}"
FILTERS = (
    argument("-n", "--namespace", metavar="NS", help="only what lies below it", completes="namespace"),
    argument("--limit", metavar="N", type=whole(1, 1000), default=10, help="at most N hits (default: 10)"),
    argument("--offset", metavar="N", type=whole(0, 10_000), default=0, help="without the first N hits"),
    argument("--min-relevance", metavar="X", type=share, default=0.0, help="only hits at least this relevant, 0 to 1"),
    TYPE,
    TAG,
    several("--status", help="only this status; repeated: any of them", completes=" ".join(STATUSES)),
    argument("--created", metavar="SPAN", help="created then: 2026-01-01..2026-02-01, 2026-01-01.., ..2026-02-01"),
    argument("--updated", metavar="SPAN", help="updated then"),
    argument("--valid", metavar="SPAN", help="true then: a date, or a span of which some moment counts"),
    several("--where", metavar="CONDITION", type=condition, help=WHERE),
    several(
        "--include", metavar="WHAT", choices=HIDDEN, completes=" ".join(HIDDEN),
        help=f"also what is {', '.join(HIDDEN[:-1])}, or all of these",
    ),
)  # fmt: skip
