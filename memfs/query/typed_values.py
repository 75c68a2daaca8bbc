"""Values of header keys as text, and text as values: strings, numbers, booleans and dates. Pure."""

import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from datetime import date

from memfs.data_types import as_time
from memfs.errors import short_repr

MAX_KEYWORD_CHARS = 100  # a longer key or value is cut to this length in the index


def nfc(text: str) -> str:
    """Return a text in Unicode normal form C."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def value_text(value: str | float | date) -> str:
    """Return the text of a scalar in a keyword.

    Values that a condition treats as equal have the same text, except strings that spell times: a time has several
    spellings.
    """
    if isinstance(value, str):
        return nfc(value)[:MAX_KEYWORD_CHARS]
    if isinstance(value, date):
        return as_time(value).isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    try:
        return str(number)[:MAX_KEYWORD_CHARS]
    except ValueError:  # more digits than Python converts
        return hex(int(number))[:MAX_KEYWORD_CHARS]


def values_with_text(text: str) -> Iterator[object]:
    """Yield the values that `value_text` may have turned into this text: the string, a boolean and numbers.

    A date is not among them: a condition treats the string like the date that it spells.
    """
    yield text
    if text in ("true", "false"):
        yield text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            yield kind(text)


def shown_value(value: object) -> str:
    """Return a value as error messages show it."""
    try:
        return value.isoformat() if isinstance(value, date) else short_repr(value)
    except ValueError:  # more digits than Python converts
        return "a huge number"
