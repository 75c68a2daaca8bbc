"""Encrypted values as they stand in a memory: `enc:v1:<key>:<base64url of nonce, text and tag>`.

A value can be decrypted only where it was encrypted: the id of the memory, the name of the field and that of the key
are bound to it.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from memfs.data_types import ENCRYPTED_LINE, ENCRYPTED_PREFIX, is_encrypted_value
from memfs.errors import DecryptionError, InvalidMemoryError
from memfs.format.edit import canonical_value
from memfs.format.frontmatter import ParsedText
from memfs.format.header_schema import TIME_KEYS
from memfs.privacy.aead import Cipher
from memfs.privacy.keys import Keys, find

BODY = "body"
MOST_KEYS = 10  # that a hint names
READ_BY_MEMFS = TIME_KEYS | {"id", "type", "status", "importance", "pinned", "supersedes"}
OTHER = "another key, or it was altered, or it comes from another memory or field"
_ONLY_BODY = "Its header has no key that can be encrypted; name body."
_TOKEN = re.compile(rf"{ENCRYPTED_PREFIX}([a-z][a-z0-9_]{{0,31}}):([A-Za-z0-9_-]+)")
Swap = Callable[[str], Any]  # an encrypted value -> what stands in its place


class Spot(NamedTuple):
    """Where a value belongs: the path is for people, the rest is bound to it."""

    path: str
    id: str
    field: str

    def bound(self, key: str) -> bytes:
        """What is bound to a value; only an id may hold a zero byte, so it is unambiguous."""
        return "\0".join((ENCRYPTED_PREFIX.rstrip(":"), self.id, self.field, key)).encode()


class Sealer:
    """Encrypts and decrypts values, with keys that are asked for once."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._ciphers: dict[str, Cipher] = {}

    def cipher(self, key: str) -> Cipher:
        """The cipher of a key; an error if there is no such key, or nothing to encrypt with."""
        if key not in self._ciphers:
            self._ciphers[key] = Cipher(find(self._keys, key))
        return self._ciphers[key]

    def seal(self, text: str, spot: Spot, key: str) -> str:
        """A text as an encrypted value."""
        data = self.cipher(key).encrypt(text.encode(), spot.bound(key))
        return f"{ENCRYPTED_PREFIX}{key}:{base64.urlsafe_b64encode(data).decode().rstrip('=')}"

    def open(self, sealed: str, spot: Spot) -> str:
        """The text of an encrypted value; DecryptionError if it cannot be had."""
        key, data = _taken_apart(sealed, spot)
        text = self.cipher(key).decrypt(data, spot.bound(key)) if spot.id else None
        if text is None:
            raise DecryptionError(spot.path, spot.field, key, OTHER if spot.id else "the memory has lost its id")
        return text.decode()


def _taken_apart(sealed: str, spot: Spot) -> tuple[str, bytes]:
    found = _TOKEN.fullmatch(sealed)
    if found and len(found[2]) % 4 != 1:
        data = base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
        if base64.urlsafe_b64encode(data).decode().rstrip("=") == found[2]:  # one spelling alone
            return found[1], data
    raise DecryptionError(spot.path, spot.field, key_of(sealed), "not whole")


def key_of(sealed: str) -> str:
    """The name of the key in an encrypted value."""
    return sealed.removeprefix(ENCRYPTED_PREFIX).partition(":")[0][:40]


# --- fields -------------------------------------------------------------------------------------------


def sealed_in(parsed: ParsedText, field: str) -> list[str]:
    """The encrypted values in a field."""
    if field == BODY:
        return ENCRYPTED_LINE.findall(parsed.parts.body)
    value = parsed.values.get(field)
    return [one for one in (value if isinstance(value, list | tuple) else [value]) if is_encrypted_value(one)]


def sealed_fields(parsed: ParsedText) -> Iterator[str]:
    """The fields that hold encrypted values."""
    yield from [field for field in (*parsed.values, BODY) if field != BODY and sealed_in(parsed, field)]
    if sealed_in(parsed, BODY):
        yield BODY


def is_whole(parsed: ParsedText, field: str) -> bool:
    """Tell whether nothing of a field is legible; one that is not there is not."""
    if field == BODY:
        return not ENCRYPTED_LINE.sub("", parsed.parts.body).strip()
    value = parsed.values.get(field)
    return value is None or all(
        is_encrypted_value(one) for one in (value if isinstance(value, list | tuple) else [value])
    )


def swapped(parsed: ParsedText, field: str, swap: Swap) -> Any:
    """The value of a field with something else for each encrypted value in it; of a list also several things."""
    if field == BODY:
        return ENCRYPTED_LINE.sub(lambda found: swap(found[0]), parsed.parts.body)
    value = parsed.values[field]
    if not isinstance(value, list | tuple):
        return swap(value) if is_encrypted_value(value) else value
    items: list[Any] = []
    for item in value:
        there = swap(item) if is_encrypted_value(item) else item
        items += there if isinstance(there, list) else [there]
    return items


def opened(parsed: ParsedText, field: str, sealer: Sealer, path: str) -> Any:
    """The value of a field with everything in it decrypted."""
    spot = spot_of(parsed, field, path)
    is_body = field == BODY
    return swapped(parsed, field, lambda one: sealer.open(one, spot) if is_body else json.loads(sealer.open(one, spot)))


def spot_of(parsed: ParsedText, field: str, path: str) -> Spot:
    """Where the values of a field belong."""
    return Spot(path, str(parsed.values.get("id") or ""), field)


def text_of(field: str, value: Any) -> str:
    """What is encrypted of a field: the text of a body, and of any other value its JSON."""
    return str(value) if field == BODY else json.dumps(value, ensure_ascii=False)


def check_field(field: str, values: Mapping[str, Any], path: str) -> None:
    """Refuse what cannot be encrypted, or could not be written back."""
    if field == BODY:
        return
    if field in READ_BY_MEMFS:
        raise InvalidMemoryError(f"{path}: {field}", "cannot be encrypted: memfs goes by it")
    if field not in values:
        error = InvalidMemoryError(f"{path}: {field}", "is not in the header")
        others = sorted(key for key in values if key not in READ_BY_MEMFS)
        error.hint = f"Name a key of its header ({', '.join(others[:MOST_KEYS])}), or body." if others else _ONLY_BODY
        raise error
    try:
        canonical_value(field, values[field])
    except InvalidMemoryError:
        allowed = "a text, a number, true, false, or a list of these"
        raise InvalidMemoryError(f"{path}: {field}", f"cannot be encrypted: it is not {allowed}") from None
