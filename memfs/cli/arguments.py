"""The types Command and Argument, the parsers of argument texts, and the arguments that several commands share."""

import argparse
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

TYPES = ("fact", "preference", "summary", "episode", "reflection", "note")
STATUSES = ("draft", "stable", "deprecated")
STRATEGY_KINDS = ("summary", "preferences", "facts", "episodes")
HIDDEN_STATES = ("archived", "expired", "deprecated", "superseded", "all")
SESSION_ACTIONS = ("list", "show", "tail", "export")
AUDIT_KINDS = ("secret", "contradiction", "duplicate", "stale", "unused", "long")
EXPORT_FORMATS = ("jsonl", "markdown")
SHELLS = ("bash", "zsh", "fish")
MAX_DIGITS = 18  # of a whole number, so that it fits in 64 bits
OPERATORS = ("EQUALS", "EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS", ">", ">=", "<", "<=")
# `KEY OPERATOR VALUE`, with an operator of words or of signs. It takes everything that looks like an operator, so that
# parse_condition can refuse an unknown one: otherwise `a != 1` would be `=` on the key `a !`, and `a IS NOT EQUALS 1`
# would be EQUALS on the key `a IS NOT`.
_CONDITION = re.compile(
    r"(?P<key>[^\s<>=!~].*?)"
    r"(?:\s+(?P<word>(?:(?:IS|DOES|NOT)\s+)*(?:EQUALS|NOT_EXISTS|EXISTS|BEFORE|AFTER|CONTAINS))(?!\S)"
    r"|\s*(?P<sign>[!~^*$:]*[<>=]+(?:[!~](?=\s))?))"
    r"\s*(?P<value>.*)",
    re.IGNORECASE | re.DOTALL,
)


class Argument(NamedTuple):
    """One argument: the parameters of argparse's add_argument, and the values that a shell completes for it."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    completes: str = ""  # directory, namespace, ref or session; or else the possible values, separated by spaces

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the option; True for a positional argument too."""
        return self.options.get("action") != "store_true"


class Command(NamedTuple):
    """One command of the command line."""

    name: str
    module: str  # below memfs.cli
    summary: str
    arguments: tuple[Argument, ...]
    examples: str

    @property
    def function(self) -> str:
        """The name of the function in `module` that runs the command."""
        return f"run_{self.name.replace('-', '_')}"


def argument(*names: str, completes: str = "", **options: Any) -> Argument:
    """Declare an argument. One that completes namespaces gets `parse_namespace` as its type, unless it has a type."""
    return Argument(names, {"type": parse_namespace, **options} if completes == "namespace" else options, completes)


def repeated(*names: str, **options: Any) -> Argument:
    """Declare an option that may be repeated; its value is the list of all, by default []."""
    return argument(*names, action="append", default=[], **options)


def flag(*names: str, help: str) -> Argument:  # noqa: A002  argparse's name
    """Declare an option without a value."""
    return argument(*names, action="store_true", help=help)


def parse_key_value(text: str) -> tuple[str, str]:
    """Parse `key=value`. Only the value may be empty, or contain `=`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def parse_tag(text: str) -> str:
    """Return a tag; refuse an empty one, which may be an unset shell variable."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a tag cannot be empty")
    return text


def parse_directory(text: str) -> str:
    """Return the name of a directory; refuse an empty one, which may be an unset shell variable."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a directory cannot be empty")
    return text


def parse_namespace(text: str) -> str:
    """Return a namespace; refuse an empty one: it may be an unset shell variable, and must not mean the whole vault."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a namespace cannot be empty; / is the whole vault")
    return text


def whole_number(low: int, high: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low`, up to `high` if that is given."""

    def parse(text: str) -> int:
        is_number = text.isdecimal() and len(text) <= MAX_DIGITS
        if not is_number or int(text) < low or (high is not None and int(text) > high):
            limit = f" with at most {MAX_DIGITS} digits" if high is None else f" to {high}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low}{limit}")
        return int(text)

    return parse


parse_positive = whole_number(1)


def parse_number(text: str) -> float:
    """Parse a number, as Python's `float`: `nan` and `inf` are numbers, which the caller has to refuse."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def parse_fraction(text: str) -> float:
    """Parse a number from 0 to 1."""
    if not 0 <= parse_number(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return parse_number(text)


def parse_date_or_time(text: str) -> date:
    """Parse a date, or a time: then the result is a datetime, in UTC if the text names no zone."""
    from memfs.data_types import as_time

    try:
        return as_time(text)
    except (ValueError, OverflowError):
        allowed = "a date or a time such as 2026-11-15 or 2026-11-15T10:30:00Z"
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}") from None


def parse_time(text: str) -> datetime:
    """Parse a date or a time into a time; a date becomes its first moment in UTC."""
    parsed = parse_date_or_time(text)
    return parsed if isinstance(parsed, datetime) else datetime(parsed.year, parsed.month, parsed.day, tzinfo=UTC)


def parse_condition(text: str) -> tuple[str, str, str | None]:
    """Parse `KEY OPERATOR VALUE` into (key, operator, value); the value is None for EXISTS and NOT_EXISTS.

    Operators may be in lower case; `=` and `==` are EQUALS. Raise ArgumentTypeError for an unknown operator, a missing
    value, or a value after EXISTS or NOT_EXISTS.
    """
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY OPERATOR VALUE; operators: {' '.join(OPERATORS)}")
    operator = " ".join((found["word"] or found["sign"]).upper().split())
    operator = "EQUALS" if operator in {"=", "=="} else operator
    if operator not in OPERATORS:
        raise argparse.ArgumentTypeError(f"{text!r}: unknown operator {operator}; operators: {' '.join(OPERATORS)}")
    takes_no_value = operator in {"EXISTS", "NOT_EXISTS"}
    if takes_no_value == bool(found["value"]):
        expected = "takes no value" if found["value"] else "needs a value"
        raise argparse.ArgumentTypeError(f"{text!r}: {operator} {expected}")
    return found["key"], operator, found["value"] or None


VAULT = argument(
    "--vault", metavar="DIR", type=parse_directory, completes="directory",
    help="the vault (default: MEMFS_VAULT, else the nearest parent directory that is one)",
)  # fmt: skip
COMMON = (VAULT, flag("--json", help="print JSON, and errors as JSON too"))
REF = argument("ref", metavar="REF", help="a memory, by path or id", completes="ref")
REFS = argument("refs", metavar="REF", nargs="+", help="memories, by path or id", completes="ref")
TEXT = argument("text", metavar="TEXT", nargs="+", help="the text; - reads it from stdin")
NAMESPACE_ARGUMENTS = (  # a positional argument or an option; parse_arguments puts either in `namespace`
    argument("namespace", metavar="NS", nargs="?", help="only memories in this namespace", completes="namespace"),
    argument("-n", "--namespace", dest="within", metavar="NS", help="the same as NS", completes="namespace"),
)
TYPE = repeated("--type", help="only this type; may be repeated: any of them", completes=" ".join(TYPES))
TAG = repeated("--tag", metavar="TAG", type=parse_tag, help="only with this tag; may be repeated: all of them")
AT_DATE = argument("--at", metavar="DATE", type=parse_time, help="as if it were this date (default: now)")
SET = repeated("--set", metavar="KEY=VALUE", type=parse_key_value, help="set a header key")
LIST_VERSIONS = flag("--list", help="list the kept versions and change nothing")
QUESTION = argument("question", metavar="QUESTION", nargs="+", help="the question; - reads it from stdin")
SEMANTIC = flag("--semantic", help="search by meaning too; `retrieval: {semantic: true}` in memfs.yaml does so always")
WHERE_HELP = f"a condition 'KEY OPERATOR VALUE' on any header key; operators: {' '.join(OPERATORS)}"
SEARCH_FILTERS = (
    argument("-n", "--namespace", metavar="NS", help="only memories in this namespace", completes="namespace"),
    argument("--limit", metavar="N", type=whole_number(1, 1000), default=10, help="at most N hits (default: 10)"),
    argument("--offset", metavar="N", type=whole_number(0, 10_000), default=0, help="skip the first N hits"),
    argument("--min-relevance", metavar="X", type=parse_fraction, default=0.0,
             help="only hits with at least this relevance, 0 to 1"),
    TYPE,
    TAG,
    repeated("--status", help="only this status; may be repeated: any of them", completes=" ".join(STATUSES)),
    argument("--created", metavar="SPAN",
             help="created in this span: 2026-01-01..2026-02-01, 2026-01-01.. or ..2026-02-01"),
    argument("--updated", metavar="SPAN", help="updated in this span"),
    argument("--valid", metavar="SPAN", help="valid on this date, or at some time in this span"),
    repeated("--where", metavar="CONDITION", type=parse_condition, help=WHERE_HELP),
    repeated(
        "--include", metavar="WHAT", choices=HIDDEN_STATES, completes=" ".join(HIDDEN_STATES),
        help=f"include memories that are {', '.join(HIDDEN_STATES[:-1])}, or all of these",
    ),
)  # fmt: skip
