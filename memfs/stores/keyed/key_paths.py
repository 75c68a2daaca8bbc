"""Keys as paths of files, and back. Pure: nothing here leaves a namespace, and no two keys have one file.

Segments of a key are segments of its path. What a file system, or memfs, would not take as it is, or would take for
another name, is percent-encoded; what is too long or too deep for a path is named by its hash, in a directory of its
own.
"""

import re
import unicodedata
from hashlib import sha256
from urllib.parse import unquote

from memfs.namespace import encode_segment, fold

EMPTY = "%"  # the name of a segment without characters, as in `a//b`
LONG = "%long"
MAX_NAME = 90  # characters of a segment
MAX_BYTES = 200
MAX_SEGMENTS = 16
_SUFFIX = ".md"
_SAFE = re.compile(r"[a-z0-9_]")
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_-]{4,80}")  # a name that stays as it is; those of devices are shorter


def path_of(key: str) -> str:
    """The path of a key below the namespace of its store."""
    names = [_name(segment) for segment in key.split("/")]
    if len(names) > MAX_SEGMENTS or any(len(name) > MAX_NAME or len(name.encode()) > MAX_BYTES for name in names):
        return f"{LONG}/{sha256(key.encode()).hexdigest()[:40]}{_SUFFIX}"
    return "/".join(names) + _SUFFIX


def key_of(path: str) -> str | None:
    """The key whose file a path is; None of a file of no key, and of one whose key only the file can tell."""
    names = fold(path.removesuffix(_SUFFIX)).split("/")
    if len(names) <= MAX_SEGMENTS and all(map(_PLAIN.fullmatch, names)):
        return "/".join(names)
    try:
        key = "/".join("" if name == EMPTY else unquote(name, errors="strict") for name in names)
    except UnicodeDecodeError:
        return None
    return key if key and fold(path_of(key)) == fold(path) else None


def folder_of(prefix: str) -> str | None:
    """The directory of the keys below a prefix, but for those that are named by a hash; None if it has no path."""
    path = path_of(prefix.removesuffix("/"))
    return None if is_long(path) else path.removesuffix(_SUFFIX)


def is_long(path: str) -> bool:
    """Tell whether this is the file of a key that is named by its hash."""
    return path.startswith(f"{LONG}/")


def _name(segment: str) -> str:
    """A segment of a key as one legal name."""
    if not segment or _PLAIN.fullmatch(segment):
        return segment or EMPTY
    name = encode_segment(segment)
    if fold(segment) == segment and unicodedata.normalize("NFC", name) == name and unquote(name) == segment:
        return name
    return "".join(char if _SAFE.match(char) else "".join(f"%{byte:02X}" for byte in char.encode()) for char in segment)
