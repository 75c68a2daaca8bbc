"""Namespaces, namespace templates, paths and file names: parse and check them, so that none leaves the vault. Pure."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self
from urllib.parse import quote

from memfs.errors import InvalidNamespaceError, SettingsError

ARCHIVE = "archive"
SESSIONS = "sessions"
MAX_DEPTH = 32
_FORBIDDEN_CHARS = frozenset('<>:"|?*\\/{}')
_WINDOWS_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[1-9¹²³]|lpt[1-9¹²³])(?:\..*)?", re.IGNORECASE)
_PLACEHOLDERS = {  # name in a template -> parameter of `Template.render`
    "actorId": "actor", "actor_id": "actor",
    "sessionId": "session", "session_id": "session",
    "memoryStrategyId": "strategy", "memory_strategy_id": "strategy",
}  # fmt: skip
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_CONFLICT_COPY = re.compile(r"\.conflict-\d{8}T\d{6}Z(-\d+)?\.md$")
_WORD = re.compile(r"[^\x00-/:-`{-\x7f]+")  # digits, lower-case ASCII letters, and all other characters


def fold(name: str) -> str:
    """Return the case-folded NFC form of a name; it is equal for all spellings of the name."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def is_utf8_encodable(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8, that is, has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _name_fault(segment: str) -> str | None:
    """Return the reason why `segment` may not be the name of a directory or a file; None if it may."""
    if not segment:
        return "an empty name"
    if len(segment) > 100 or len(segment.encode("utf-8", "surrogatepass")) > 240:
        return "a name longer than 100 characters or 240 bytes"
    if segment in {".", ".."}:
        return "a name that leaves the tree"
    if segment[-3:].lower() == ".md":
        return "a name that ends in '.md', as a memory's does"
    if segment[0] in ".-~# " or segment[-1] in ". ":
        return f"a name that begins or ends with {segment[0] if segment[0] in '.-~# ' else segment[-1]!r}"
    if len(segment) > 4 and _PLAIN_NAME.fullmatch(segment):
        return None  # the fast path: longer than the names that Windows reserves
    for char in segment:
        if char in _FORBIDDEN_CHARS:
            return f"the character {char!r} in a name"
        if unicodedata.category(char)[0] == "C":
            return f"the unprintable character {char!r} in a name"
    if _WINDOWS_DEVICE.fullmatch(segment):
        return "a name that Windows reserves"
    return None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A directory of the vault as a tuple of segments; `/` has none. `parse` checks them, the constructor does not."""

    segments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text such as `/facts/alice`; the outer slashes are optional. Raises InvalidNamespaceError."""
        return cls(_parse_segments(text))

    @property
    def path(self) -> str:
        """The path relative to the vault, without outer slashes; empty for `/`."""
        return "/".join(self.segments)

    def __str__(self) -> str:
        return "/" + self.path

    def holds(self, segments: tuple[str, ...]) -> bool:
        """Return whether a path of these segments is this namespace or below it; case is ignored."""
        return tuple(map(fold, segments[: len(self.segments)])) == tuple(map(fold, self.segments))


@lru_cache(maxsize=1024)
def _parse_segments(text: str) -> tuple[str, ...]:
    stripped = unicodedata.normalize("NFC", text).removeprefix("/").removesuffix("/")
    segments = tuple(stripped.split("/")) if stripped else ()
    if len(segments) > MAX_DEPTH:
        raise InvalidNamespaceError(text[:100], f"more than {MAX_DEPTH} names deep")
    for segment in segments:
        if reason := _name_fault(segment):
            raise InvalidNamespaceError(text, reason)
    return segments


@dataclass(frozen=True, slots=True)
class Template:
    """A namespace with placeholders. A wrong text raises SettingsError or InvalidNamespaceError at creation."""

    text: str

    def __post_init__(self) -> None:
        filled = re.sub(r"\{(\w+)\}", self._sample_value, self.text)
        if "{" in filled or "}" in filled:
            raise SettingsError(f"template {self.text!r}", "a brace that is not part of a placeholder")
        Namespace.parse(filled)

    def _sample_value(self, match: re.Match[str]) -> str:
        if match[1] not in _PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise SettingsError(f"template {self.text!r}", f"unknown placeholder {match[0]}; known: {known}")
        return "x"

    def render(self, *, actor: str = "", session: str = "", strategy: str = "") -> Namespace:
        """Replace each placeholder by its value, encoded as one segment; braces in a value are not replaced again.

        Raises SettingsError if a placeholder has no value.
        """
        values: Mapping[str, str] = {"actor": actor, "session": session, "strategy": strategy}

        def fill(match: re.Match[str]) -> str:
            value = values[_PLACEHOLDERS[match[1]]]
            if not value:
                raise SettingsError(f"template {self.text!r}", f"no value for {match[0]}")
            return encode_segment(value)

        return Namespace.parse(re.sub(r"\{(\w+)\}", fill, self.text))


def encode_segment(value: str) -> str:
    """Percent-encode a text so that it is one valid segment; an empty or too long text stays invalid."""
    value = unicodedata.normalize("NFC", value)
    segment = "".join(
        char if _is_kept_unencoded(char) else quote(char, safe="", errors="surrogatepass") for char in value
    )
    if segment[:1] in {".", "-", "~", "#"}:
        segment = f"%{ord(segment[0]):02X}" + segment[1:]
    if segment[-1:] == ".":
        segment = segment[:-1] + "%2E"
    if segment[-3:].lower() == ".md":
        segment = segment[:-3] + "%2E" + segment[-2:]
    if _WINDOWS_DEVICE.fullmatch(segment):
        segment = f"%{ord(segment[0]):02X}" + segment[1:]
    return segment


def _is_kept_unencoded(char: str) -> bool:
    return char not in _FORBIDDEN_CHARS and char not in "% " and unicodedata.category(char)[0] not in "CZ"


def split_path(ref: str) -> tuple[str, ...] | None:
    """Split a vault-relative path into segments; None if no file of the vault can have this path."""
    segments = tuple(ref.removeprefix("/").split("/"))
    try:
        if len(segments) > MAX_DEPTH + 2:  # with `archive` and the file name
            return None
        if any(not part or part[0] == "." or "\0" in part or len(part.encode()) > 255 for part in segments):
            return None
    except UnicodeEncodeError:
        return None
    return segments


def check_file_name(name: str) -> None:
    """Raise InvalidNamespaceError if memfs may not create a memory file of this name."""
    reason = _name_fault(name[:-3]) if name.endswith(".md") else "a memory's name ends in '.md'"
    if reason:
        raise InvalidNamespaceError(name, reason)


def is_conflict_copy(path: str) -> bool:
    """Return whether this is the path of a conflict copy: a late save, kept beside the memory with the same id."""
    return _CONFLICT_COPY.search(path) is not None


def slug(text: str) -> str:
    """Return the words of `text` as a file name without suffix, of up to 60 characters, cut between words.

    A result that is not a valid name, such as an empty one, gets `memory` in front.
    """
    text = unicodedata.normalize("NFKC", text[:150]).lower().replace("'", "").replace("’", "")
    if not text.isascii():
        text = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in text)
    name = ""
    for word in _WORD.findall(text):
        if len(name) + len(word) >= 60:
            name = name or word[:60]
            break
        name = f"{name}-{word}" if name else word
    return f"memory-{name}".removesuffix("-") if _name_fault(name) else name


def first_line(text: str) -> str:
    """Return the first line that is not blank or only markup, without leading `#`; empty if there is none."""
    return next((line.lstrip("# ") for line in text[:1000].splitlines() if line.strip("#- \t")), "")
