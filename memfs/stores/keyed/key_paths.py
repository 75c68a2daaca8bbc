"""Keys of a VaultKeyedStore as file paths, and back. Pure. No path leaves the namespace; no two keys share a file.

Segments of a key are segments of its path. Characters that a file system or memfs would refuse or fold are
percent-encoded. A key that is too long or too deep for a path is named by its hash, in the directory `%long`.
"""

import re
import unicodedata
from hashlib import sha256
from urllib.parse import unquote

from memfs.namespace import encode_segment, fold

EMPTY_SEGMENT = "%"  # the name of an empty segment, as in `a//b`
HASHED_DIR = "%long"
MAX_NAME_CHARS = 90  # of a segment
MAX_NAME_BYTES = 200
MAX_SEGMENTS = 16
_SUFFIX = ".md"
_UNENCODED_CHAR = re.compile(r"[a-z0-9_]")
_PLAIN_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{4,80}")  # needs no encoding; device names such as `con` are shorter


def key_to_path(key: str) -> str:
    """Return the path of a key, relative to the namespace of its store."""
    names = [_encode_name(segment) for segment in key.split("/")]
    is_long = any(len(name) > MAX_NAME_CHARS or len(name.encode()) > MAX_NAME_BYTES for name in names)
    if is_long or len(names) > MAX_SEGMENTS:
        return f"{HASHED_DIR}/{sha256(key.encode()).hexdigest()[:40]}{_SUFFIX}"
    return "/".join(names) + _SUFFIX


def path_to_key(path: str) -> str | None:
    """Return the key of a path; None if no key has it, or if the path is a hash (then the header has the key)."""
    names = fold(path.removesuffix(_SUFFIX)).split("/")
    if len(names) <= MAX_SEGMENTS and all(map(_PLAIN_NAME.fullmatch, names)):
        return "/".join(names)
    try:
        key = "/".join("" if name == EMPTY_SEGMENT else unquote(name, errors="strict") for name in names)
    except UnicodeDecodeError:
        return None
    return key if key and fold(key_to_path(key)) == fold(path) else None


def prefix_directory(prefix: str) -> str | None:
    """Return the directory of the keys below a prefix, except hashed ones; None if the prefix itself is hashed."""
    path = key_to_path(prefix.removesuffix("/"))
    return None if is_hashed(path) else path.removesuffix(_SUFFIX)


def is_hashed(path: str) -> bool:
    """Return whether a path is that of a key named by its hash."""
    return path.startswith(f"{HASHED_DIR}/")


def _encode_name(segment: str) -> str:
    """Return a segment of a key as a legal file name."""
    if not segment or _PLAIN_NAME.fullmatch(segment):
        return segment or EMPTY_SEGMENT
    name = encode_segment(segment)
    if fold(segment) == segment and unicodedata.normalize("NFC", name) == name and unquote(name) == segment:
        return name
    return "".join(char if _UNENCODED_CHAR.match(char) else _percent_encode(char) for char in segment)


def _percent_encode(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())
