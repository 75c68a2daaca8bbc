"""The position of a memory in a conversation, and the keywords of its speaker. Pure.

A memory whose `source` names a session and a message has a position. Memories of one namespace with close positions
come from messages that were close to each other.
"""

import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from memfs.data_types import is_encrypted_value
from memfs.namespace import fold

HAS_POSITION = "%placed"  # a keyword; no header key is spelled with a bare %
SPEAKER_PREFIX = "%by="
IS_QUESTION = "%asks"
MESSAGES_PER_SESSION = 1 << 20  # distinct message numbers of a session
MAX_NAME_WORDS = 3
_SOURCE = re.compile(r"session (\S.{0,200}), messages? (\d{1,6})(?!\d)")
_SPEAKER = re.compile(  # a name before a colon, such as `Alice:`, `**Bob:**` or `Carol (Monday):`
    r"\s*\**([^\W\d_][\w.'’ -]{0,40}?)\**(?:, [^:\n]{1,40}(?::\d\d[^:\n]{0,40})?| ?\([^)\n]{1,40}\))?:\**\s"
)
# A question mark, perhaps followed by closing marks and a note in brackets.
_QUESTION_END = re.compile(r"[?？؟][\"'”’»)*_]*\s*(?:\[[^\[\]]*\]\s*)?\Z")
_WORD = re.compile(r"[^\W_]{2,}")


def conversation_position(path: str, values: Mapping[str, Any]) -> int | None:
    """Return the position of a memory as a number: messages of one session have consecutive positions.

    Return None for a memory without a position.
    """
    source = values.get("source")
    found = _SOURCE.match(source) if isinstance(source, str) else None
    if found is None:
        return None
    session = f"{path.rpartition('/')[0]}\0{found[1]}"
    return crc32(session.encode("utf-8", "replace")) * MESSAGES_PER_SESSION + int(found[2])


def conversation_keywords(values: Mapping[str, Any], body: str) -> list[str]:
    """Return the keywords of a memory that has a position: its speaker, and whether it is a question.

    The speaker is the header's `speaker`, else the name that the text starts with. A text of several paragraphs may
    have several speakers, so its start is not used.
    """
    speaker = values.get("speaker")
    if not isinstance(speaker, str) or is_encrypted_value(speaker):
        found = _SPEAKER.match(body, 0, 120) if "\n\n" not in body.strip() else None
        speaker = found[1] if found else ""
    question = [IS_QUESTION] if _QUESTION_END.search(body[-300:]) else []
    return [HAS_POSITION, *question, *(SPEAKER_PREFIX + word for word in name_words(speaker)[:MAX_NAME_WORDS])]


def name_words(text: str) -> list[str]:
    """Return the words of a text, folded so that names can be compared."""
    return _WORD.findall(fold(text))
