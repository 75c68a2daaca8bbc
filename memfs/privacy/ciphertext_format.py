"""The format of encrypted values in a memory file: `enc:v1:<key name>:<base64url of nonce, ciphertext and tag>`.

A value can be decrypted only in the place where it was encrypted: the id of the memory, the name of the field and the
name of the key are its associated data.
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
from memfs.privacy.keys import Keys, find_key

BODY = "body"
MAX_HINT_KEYS = 10  # keys of a header that a hint lists
# header keys that cannot be encrypted, because memfs reads their values
READ_BY_MEMFS = TIME_KEYS | {"id", "type", "status", "importance", "pinned", "supersedes"}
WRONG_KEY_OR_PLACE = "another key, or it was altered, or it comes from another memory or field"
_ONLY_BODY = "Its header has no key that can be encrypted; name body."
_TOKEN = re.compile(rf"{ENCRYPTED_PREFIX}([a-z][a-z0-9_]{{0,31}}):([A-Za-z0-9_-]+)")
Replace = Callable[[str], Any]  # an encrypted value -> its replacement


class FieldLocation(NamedTuple):
    """The field of a memory that a value belongs to; the path is only for messages."""

    path: str
    id: str
    field: str

    def associated_data(self, key: str) -> bytes:
        """Return the data that a value is bound to. Of its parts only the id may contain the zero byte that separates
        them, so no two locations have the same data."""
        return "\0".join((ENCRYPTED_PREFIX.rstrip(":"), self.id, self.field, key)).encode()


class FieldCipher:
    """Encrypts and decrypts values of fields; each key is looked up once."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._ciphers: dict[str, Cipher] = {}

    def cipher(self, key: str) -> Cipher:
        """Return the cipher of a key; raise if there is no such key or `cryptography` is not installed."""
        if key not in self._ciphers:
            self._ciphers[key] = Cipher(find_key(self._keys, key))
        return self._ciphers[key]

    def encrypt(self, text: str, location: FieldLocation, key: str) -> str:
        """Return a text as an encrypted value."""
        data = self.cipher(key).encrypt(text.encode(), location.associated_data(key))
        return f"{ENCRYPTED_PREFIX}{key}:{base64.urlsafe_b64encode(data).decode().rstrip('=')}"

    def decrypt(self, encrypted: str, location: FieldLocation) -> str:
        """Return the text of an encrypted value. Raise DecryptionError if it cannot be decrypted here.

        Raise InvalidKeyError if there is no such key.
        """
        key, data = _parse_token(encrypted, location)
        text = self.cipher(key).decrypt(data, location.associated_data(key)) if location.id else None
        if text is None:
            reason = WRONG_KEY_OR_PLACE if location.id else "the memory has lost its id"
            raise DecryptionError(location.path, location.field, key, reason)
        return text.decode()


def _parse_token(encrypted: str, location: FieldLocation) -> tuple[str, bytes]:
    """Return the key name and the data of an encrypted value; raise DecryptionError if its format is wrong."""
    found = _TOKEN.fullmatch(encrypted)
    if found and len(found[2]) % 4 != 1:
        data = base64.urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
        if base64.urlsafe_b64encode(data).decode().rstrip("=") == found[2]:  # accept only the canonical base64
            return found[1], data
    raise DecryptionError(location.path, location.field, key_name_of(encrypted), "not whole")


def key_name_of(encrypted: str) -> str:
    """Return the name of the key in an encrypted value, unchecked, and cut because it may be damaged."""
    return encrypted.removeprefix(ENCRYPTED_PREFIX).partition(":")[0][:40]


# --- fields -------------------------------------------------------------------------------------------


def encrypted_values(parsed: ParsedText, field: str) -> list[str]:
    """Return the encrypted values in a field."""
    if field == BODY:
        return ENCRYPTED_LINE.findall(parsed.parts.body)
    value = parsed.values.get(field)
    return [one for one in (value if isinstance(value, list | tuple) else [value]) if is_encrypted_value(one)]


def encrypted_fields(parsed: ParsedText) -> Iterator[str]:
    """Yield the fields that contain encrypted values, the body last. A header key named `body` is not a field."""
    yield from [field for field in (*parsed.values, BODY) if field != BODY and encrypted_values(parsed, field)]
    if encrypted_values(parsed, BODY):
        yield BODY


def is_fully_encrypted(parsed: ParsedText, field: str) -> bool:
    """Return whether a field contains no plain text; true for a field that is missing."""
    if field == BODY:
        return not ENCRYPTED_LINE.sub("", parsed.parts.body).strip()
    value = parsed.values.get(field)
    return value is None or all(
        is_encrypted_value(one) for one in (value if isinstance(value, list | tuple) else [value])
    )


def replace_encrypted_values(parsed: ParsedText, field: str, replace: Replace) -> Any:
    """Return the value of a field with each encrypted value replaced; in a list, a returned list is spliced in."""
    if field == BODY:
        return ENCRYPTED_LINE.sub(lambda found: replace(found[0]), parsed.parts.body)
    value = parsed.values[field]
    if not isinstance(value, list | tuple):
        return replace(value) if is_encrypted_value(value) else value
    items: list[Any] = []
    for item in value:
        replacement = replace(item) if is_encrypted_value(item) else item
        items += replacement if isinstance(replacement, list) else [replacement]
    return items


def decrypt_field(parsed: ParsedText, field: str, cipher: FieldCipher, path: str) -> Any:
    """Return the value of a field with its encrypted values decrypted; raise DecryptionError if one cannot be."""
    location = field_location(parsed, field, path)

    def decrypt(encrypted: str) -> Any:
        text = cipher.decrypt(encrypted, location)
        return text if field == BODY else json.loads(text)

    return replace_encrypted_values(parsed, field, decrypt)


def field_location(parsed: ParsedText, field: str, path: str) -> FieldLocation:
    """Return the location of a field; its id is empty if the memory has none."""
    return FieldLocation(path, str(parsed.values.get("id") or ""), field)


def plaintext_of(field: str, value: Any) -> str:
    """Return the plain text to encrypt for a field: the text of a body, the JSON of any other value."""
    return str(value) if field == BODY else json.dumps(value, ensure_ascii=False)


def check_field(field: str, values: Mapping[str, Any], path: str) -> None:
    """Raise InvalidMemoryError for a field that cannot be encrypted, or could not be written back."""
    if field == BODY:
        return
    if field in READ_BY_MEMFS:
        raise InvalidMemoryError(f"{path}: {field}", "cannot be encrypted: memfs needs to read it")
    if field not in values:
        error = InvalidMemoryError(f"{path}: {field}", "is not in the header")
        others = sorted(key for key in values if key not in READ_BY_MEMFS)
        listed = ", ".join(others[:MAX_HINT_KEYS])
        error.hint = f"Name a key of its header ({listed}), or body." if others else _ONLY_BODY
        raise error
    try:
        canonical_value(field, values[field])
    except InvalidMemoryError:
        allowed = "a text, a number, true, false, or a list of these"
        raise InvalidMemoryError(f"{path}: {field}", f"cannot be encrypted: it is not {allowed}") from None
