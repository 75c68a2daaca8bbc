"""Encryption keys by name. They come from the environment, never from a vault: anyone may have written its settings."""

import base64
import binascii
import os
import re
import secrets
from collections.abc import Callable

from memfs.errors import InvalidKeyError, short_repr
from memfs.privacy.aead import KEY_BYTES

DEFAULT_KEY = "default"
ENV_VARIABLE = "MEMFS_KEY"
_KEY_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_HEX = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{43}=?")
Keys = Callable[[str], bytes | None]
"""Returns the 32 bytes of a key by its name; None if there is no such key."""


def variable_name(name: str) -> str:
    """Return the name of the environment variable that holds a key."""
    return ENV_VARIABLE if name == DEFAULT_KEY else f"{ENV_VARIABLE}_{check_name(name).upper()}"


def check_name(name: str) -> str:
    """Return the name of a key; raise InvalidKeyError if it is not allowed."""
    if not isinstance(name, str) or not _KEY_NAME.fullmatch(name):
        error = InvalidKeyError(
            f"key {short_repr(name)}", "a name is a lower-case letter followed by up to 31 of a-z, 0-9 and _"
        )
        error.hint = "Choose another name, such as team_2026."
        raise error
    return name


def from_environment(name: str) -> bytes | None:
    """Return the key in `MEMFS_KEY`, or in `MEMFS_KEY_<NAME>` if its name is not default; None if it is not set."""
    text = os.environ.get(variable_name(name), "").strip()
    return parse_key(text, variable_name(name)) if text else None


def parse_key(text: str, where: str) -> bytes:
    """Return the 32 bytes of a key in base64 or hex; raise InvalidKeyError, which names `where`, for any other text."""
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        try:
            return base64.b64decode(text.replace("-", "+").replace("_", "/")[:43] + "=", validate=True)
        except binascii.Error:
            pass
    raise InvalidKeyError(where, f"not {KEY_BYTES} bytes in base64 or hex")


def find_key(keys: Keys, name: str) -> bytes:
    """Return the key with a name; raise InvalidKeyError if it is missing or does not have 32 bytes."""
    key = keys(check_name(name))
    if key is None and keys is from_environment:
        raise InvalidKeyError(variable_name(name), f"not set; it holds the key {name!r}")
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InvalidKeyError(f"key {name!r}", "no such key" if key is None else f"not {KEY_BYTES} bytes")
    return key


def new_key() -> str:
    """Return a new random key in base64."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
