"""AES-256-GCM. The only importer of cryptography, when something is encrypted or decrypted."""

import os

from memfs.errors import MissingExtraError

KEY = 32  # bytes
NONCE = 12
TAG = 16


class Cipher:
    """Encrypts and decrypts with one key; each text gets a nonce of its own, of chance."""

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingExtraError("encryption", "crypto") from None
        self._aead = AESGCM(key)

    def encrypt(self, text: bytes, bound: bytes) -> bytes:
        """The nonce and the encrypted text, which can be decrypted with the same `bound` alone."""
        nonce = os.urandom(NONCE)
        return nonce + self._aead.encrypt(nonce, text, bound)

    def decrypt(self, data: bytes, bound: bytes) -> bytes | None:
        """The text; None if this is not what was encrypted with this key and bound to this."""
        from cryptography.exceptions import InvalidTag

        if len(data) < NONCE + TAG:
            return None
        try:
            return self._aead.decrypt(data[:NONCE], data[NONCE:], bound)
        except InvalidTag:
            return None
