"""Keys by their names: from the environment, never from a vault, whose settings may be anybody's."""

import base64
import binascii
import os
import re
import secrets
from collections.abc import Callable

from memfs.errors import InvalidKeyError, short_repr
from memfs.privacy.aead import KEY

DEFAULT = "default"
VARIABLE = "MEMFS_KEY"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_HEX = re.compile(rf"[0-9a-fA-F]{{{2 * KEY}}}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{43}=?")
Keys = Callable[[str], bytes | None]
"""Gives the 32 bytes of a key by its name; None if there is no such key."""


def variable(name: str) -> str:
    """The environment variable that holds a key."""
    return VARIABLE if name == DEFAULT else f"{VARIABLE}_{check_name(name).upper()}"


def check_name(name: str) -> str:
    """The name, if a key can have it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        error = InvalidKeyError(f"key {short_repr(name)}", "a name is a small letter and up to 31 of a-z, 0-9 and _")
        error.hint = "Choose another name, such as team_2026."
        raise error
    return name


def from_environment(name: str) -> bytes | None:
    """The key in `MEMFS_KEY`, or in `MEMFS_KEY_<NAME>` if its name is not default."""
    text = os.environ.get(variable(name), "").strip()
    return read(text, variable(name)) if text else None


def read(text: str, where: str) -> bytes:
    """The 32 bytes of a key, written in base64 or hex."""
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        try:
            return base64.b64decode(text.replace("-", "+").replace("_", "/")[:43] + "=", validate=True)
        except binascii.Error:
            pass
    raise InvalidKeyError(where, f"not {KEY} bytes in base64 or hex")


def find(keys: Keys, name: str) -> bytes:
    """The key of a name; InvalidKeyError if there is none, or it is not one."""
    key = keys(check_name(name))
    if key is None and keys is from_environment:
        raise InvalidKeyError(variable(name), f"not set; it holds the key {name!r}")
    if not isinstance(key, bytes) or len(key) != KEY:
        raise InvalidKeyError(f"key {name!r}", "no such key" if key is None else f"not {KEY} bytes")
    return key


def new_key() -> str:
    """A new key of chance, in base64."""
    return base64.b64encode(secrets.token_bytes(KEY)).decode()
