"""Where a memory comes from: its place in a conversation, and who said it. Pure.

A memory whose `source` names a session and a message has a place. Memories of one namespace whose places are close to
each other were said close to each other.
"""

import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from memfs.data_types import is_encrypted_value
from memfs.namespace import fold

PLACED = "%placed"  # the keyword of memories that have a place; no header key is spelled with a bare %
SAID_BY = "%by="
ASKS = "%asks"
MESSAGES = 1 << 20  # numbers of a session that are told apart
MAX_NAME = 3  # words of a speaker's name
_SOURCE = re.compile(r"session (\S.{0,200}), messages? (\d{1,6})(?!\d)")
_SPEAKER = re.compile(
    r"\s*\**([^\W\d_][\w.'’ -]{0,40}?)\**(?:, [^:\n]{1,40}(?::\d\d[^:\n]{0,40})?| ?\([^)\n]{1,40}\))?:\**\s"
)
_ASKING = re.compile(r"[?？؟][\"'”’»)*_]*\s*(?:\[[^\[\]]*\]\s*)?\Z")
_WORD = re.compile(r"[^\W_]{2,}")


def place_of(path: str, values: Mapping[str, Any]) -> int | None:
    """The place of a memory as a number: places of one session follow each other as its messages do."""
    source = values.get("source")
    found = _SOURCE.match(source) if isinstance(source, str) else None
    if found is None:
        return None
    session = f"{path.rpartition('/')[0]}\0{found[1]}"
    return crc32(session.encode("utf-8", "replace")) * MESSAGES + int(found[2])


def keywords_of(values: Mapping[str, Any], body: str) -> list[str]:
    """The keywords of a memory that has a place: who said it, and whether it is a question.

    Who said it is `speaker`, else the name that its text begins with, unless it has several paragraphs: these may be
    of several people.
    """
    speaker = values.get("speaker")
    if not isinstance(speaker, str) or is_encrypted_value(speaker):
        found = _SPEAKER.match(body, 0, 120) if "\n\n" not in body.strip() else None
        speaker = found[1] if found else ""
    asks = [ASKS] if _ASKING.search(body[-300:]) else []
    return [PLACED, *asks, *(SAID_BY + word for word in words_of(speaker)[:MAX_NAME])]


def words_of(text: str) -> list[str]:
    """The words of a text as names are compared by them."""
    return _WORD.findall(fold(text))
