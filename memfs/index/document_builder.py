"""Index documents made from memory files: the searched text, the keywords, the moments and the row."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memfs.data_types import ENCRYPTED_PREFIX, Memory, is_encrypted_value, memory_id, replace_encrypted_lines
from memfs.decay import pack_decay_inputs
from memfs.format.frontmatter import parse_canonical_layout, split_canonical_layout
from memfs.fs.files import raw_digest
from memfs.index.conversation_position import conversation_keywords, conversation_position
from memfs.index.row_table import RowTuple
from memfs.namespace import first_line, slug
from memfs.query.keyword_terms import header_keywords, header_moments, join_keywords, parse_keywords
from memfs.storage.recall_log import id_hash
from memfs.storage.stat_scan import StampTuple, stamp_of

MAX_INDEXED_CHARS = 1 << 20  # of a body
_COUNTER = re.compile(r"-\d+\Z")  # appended to a file name that was already taken


class Document(NamedTuple):
    """A memory as the index stores it."""

    row: RowTuple
    text: str
    keys: str  # its keywords, escaped and joined with spaces
    numbers: Mapping[str, int]  # moments, and the position in a conversation


def build_document(memory: Memory, stamp: StampTuple | None = None) -> Document:
    """Return the index document of a memory; `stamp` replaces the stamp of its file."""
    path, data, status = memory.path, memory.data, memory.status
    header, body = split_canonical_layout(data)
    parsed = parse_keywords(path, header) if header else None
    if parsed is None:
        values, body = memory.header.values, memory.body
        keywords = [join_keywords(header_keywords(path, values))]
    else:
        values, keywords = parsed
    body = replace_encrypted_lines(body)
    numbers = header_moments(values, status)
    row = (
        path,
        stamp or stamp_of(status),
        raw_digest(data),
        pack_decay_inputs(numbers, values),
        id_hash(memory_id(path, values)),
    )
    if "source" in values and (position := conversation_position(path, values)) is not None:
        keywords.append(join_keywords(conversation_keywords(values, body)))
        numbers["place"] = position
    return Document(row, compose_text(path, values, body), " ".join(keywords), numbers)


def indexed_text(memory: Memory) -> str:
    """Return the text of a memory that the index searches, without encrypted parts."""
    return compose_text(memory.path, memory.header.values, replace_encrypted_lines(memory.body))


def compose_text(path: str, values: Mapping[str, Any], body: str, label_count: int = 2) -> str:
    """Return the path, the labels `label_count` times, and the body, as one text.

    `benchmarks.ranking` found two times best. The path counts once: a file is often named after the first words of its
    text, which would count three times otherwise.
    """
    words = path.removesuffix(".md").replace("_", " ")
    return "\n".join((words, *[_labels(values)] * label_count, body[:MAX_INDEXED_CHARS]))


def _labels(values: Mapping[str, Any]) -> str:
    """Return the title, description, aliases and tags of a memory, without encrypted ones."""
    labels = []
    if "title" in values:
        labels.append(str(values["title"]))
    if "description" in values:
        labels.append(str(values["description"]))
    labels += values.get("aliases", ())
    labels += values.get("tags", ())
    text = "\n".join(labels)
    return (
        text
        if ENCRYPTED_PREFIX not in text
        else "\n".join([label for label in labels if not is_encrypted_value(label)])
    )


def embedding_text(memory: Memory) -> str:
    """Return the text of a memory that is embedded: its labels and its body, without its directory.

    The file name is part of it unless it was derived from the title or the first line, and so adds nothing.
    """
    values, body = parse_canonical_layout(memory.data) or (memory.header.values, memory.body)
    body = replace_encrypted_lines(body)
    name = memory.path.rpartition("/")[2].removesuffix(".md")
    derived = slug(str(values.get("title", "")) or first_line(body))
    words = "" if derived in {name, _COUNTER.sub("", name)} else name.replace("_", " ")
    labels = _labels(values)
    return "\n".join((words, labels, body[:MAX_INDEXED_CHARS]) if labels else (words, body[:MAX_INDEXED_CHARS]))


def conversation_fields(memory: Memory) -> tuple[int | None, Sequence[str]]:
    """Return the position of a memory in a conversation, and the keywords that come with it."""
    if b"source" not in memory.data:
        return None, ()
    values = memory.header.values
    position = conversation_position(memory.path, values)
    return position, () if position is None else conversation_keywords(values, replace_encrypted_lines(memory.body))
