"""AES-256-GCM. The only module that imports `cryptography`, and only when a value is encrypted or decrypted."""

import os

from memfs.errors import MissingExtraError

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16


class Cipher:
    """Encrypts and decrypts with one key; each plaintext gets its own random nonce."""

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingExtraError("encryption", "crypto") from None
        self._aead = AESGCM(key)

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Return the nonce and the ciphertext; decrypting them needs the same `associated_data`."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, plaintext, associated_data)

    def decrypt(self, data: bytes, associated_data: bytes) -> bytes | None:
        """Return the plaintext; None if the key, the data or the associated data is not that of the encryption."""
        from cryptography.exceptions import InvalidTag

        if len(data) < NONCE_BYTES + TAG_BYTES:
            return None
        try:
            return self._aead.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], associated_data)
        except InvalidTag:
            return None
