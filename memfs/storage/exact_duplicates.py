"""Find a memory that already has a given text, whatever its header."""

import unicodedata
from contextlib import suppress

from memfs.data_types import Memory
from memfs.format.frontmatter import parse_file
from memfs.fs.files import digest, read, read_path


def text_key(text: str) -> str:
    """Return a digest of a text, ignoring its Unicode normal form and the amount of white space in and around lines."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return digest("\n".join([" ".join(line.split()) for line in lines]).encode())


def file_text_key(parent: int, name: str) -> str:
    """Return the key of a memory file's body, as `text_key` returns it; empty if the file cannot be read."""
    try:
        return text_key(parse_file(name, read(parent, name).data).body)
    except OSError:
        return ""


def read_duplicate(root: int, path: str, key: str) -> Memory | None:
    """Read the memory at a path; None if it cannot be read, or its text no longer has this key."""
    with suppress(OSError):
        memory = Memory(path, *read_path(root, path), parse_file)
        if text_key(memory.body) == key:
            return memory
    return None
