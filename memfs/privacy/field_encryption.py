"""Encrypt and decrypt fields and bodies of memories in place, and rotate keys.

No plain text of an encrypted field remains in the data that memfs derives: kept versions that contain it are dropped,
and the index is purged of its words when the vault is closed. Every write names the stamp of the file that was read,
so it never overwrites a concurrent save.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from memfs.data_types import ENCRYPTED_PREFIX, Memory, Outcome, Problem, Written
from memfs.errors import (
    InvalidKeyError,
    InvalidMemoryError,
    MalformedMemoryError,
    MemfsError,
    MemoryChangedError,
    StorageError,
)
from memfs.format.edit import edit
from memfs.format.frontmatter import Fault, ParsedText, parse
from memfs.ids import new_id
from memfs.index.conversation_position import name_words
from memfs.namespace import ARCHIVE, Namespace, check_file_name
from memfs.privacy.ciphertext_format import (
    BODY,
    FieldCipher,
    FieldLocation,
    check_field,
    decrypt_field,
    encrypted_fields,
    encrypted_values,
    field_location,
    is_fully_encrypted,
    key_name_of,
    plaintext_of,
    replace_encrypted_values,
)
from memfs.privacy.keys import DEFAULT_KEY, Keys, from_environment
from memfs.protocols import system_clock
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

MAX_WRITE_ATTEMPTS = 5  # on a memory that others save at the same time
MIN_WORD_LETTERS = 4  # shorter words in a file name do not reveal the text
LEFT_IN_FILE_NAME = "its file name contains words of the encrypted text"
LEFT_IN_OPEN_FILE = "a program has the unencrypted file open"
LEFT_IN_GIT = "git keeps the committed versions"
KEEP_OLD_KEY = "Keep the old key until this file can be read, then rotate again: it may be encrypted with that key."
_ID_LINE = re.compile(rb"^id: *[\"']?([^\s\"']+)", re.MULTILINE)
Progress = Callable[[int, int], None]
Fields = Iterable[str]


@dataclass(frozen=True, slots=True)
class Encrypted(Written):
    """The result of an encryption: `outcome` is encrypted or unchanged; `left` lists where plain text may remain.

    The items of `left` are LEFT_IN_FILE_NAME, LEFT_IN_OPEN_FILE and LEFT_IN_GIT.
    """

    left: tuple[str, ...] = ()


Results = list[Encrypted | MemfsError]


class Encryption:
    """Encrypts and decrypts memories of a vault with named keys, from the environment or from the function `keys`."""

    def __init__(self, vault: Vault, keys: Keys = from_environment) -> None:
        self._vault, self._cipher = vault, FieldCipher(keys)

    # --- encrypting

    def encrypt(self, ref: str, *, fields: Fields = (BODY,), key: str = DEFAULT_KEY, rename: bool = False) -> Encrypted:
        """Encrypt fields of a memory; `rename` names the file by its id, as a file name may repeat words of the text.

        A memory without an id gets one, because encrypted values are bound to the id.
        """
        [result] = self.encrypt_many([ref], fields=fields, key=key, rename=rename)
        if isinstance(result, MemfsError):
            raise result
        return result

    def encrypt_many(
        self,
        refs: Sequence[str],
        *,
        fields: Fields = (BODY,),
        key: str = DEFAULT_KEY,
        rename: bool = False,
        progress: Progress | None = None,
    ) -> Results:
        """Encrypt fields of memories; return one result or error per memory, in order.

        Raise InvalidKeyError if there is no such key. Kept versions with plain text are dropped at the end, for the
        memories encrypted so far also if an unexpected error occurs.
        """
        wanted, results, done = _field_names(fields), Results(), _EncryptedMemories(self._vault.root)
        self._cipher.cipher(key)
        try:
            for number, ref in enumerate(refs):
                try:
                    results.append(self._encrypt(ref, wanted, key, done, rename=rename))
                except MemfsError as error:
                    results.append(error)
                if progress:
                    progress(number + 1, len(refs))
        finally:
            in_use = self._vault.purge(lambda path, data: done.purge_version(path, data, wanted)) if done.ids else []
        return [_with_open_file(result, in_use) for result in results]

    def _encrypt(
        self, ref: str, fields: tuple[str, ...], key: str, done: "_EncryptedMemories", *, rename: bool
    ) -> Encrypted:
        """Encrypt one memory, and add it to `done`. A field is left as it is if all of it is encrypted with the key."""
        plaintexts: dict[str, str] = {}
        id_if_missing = new_id(system_clock())

        def change(memory: Memory, parsed: ParsedText) -> str:
            plaintexts.clear()
            values: dict[str, Any] = {} if "id" in parsed.values else {"id": id_if_missing}
            if rename:
                check_file_name(f"{parsed.values.get('id', id_if_missing)}.md")
            for field in fields:
                check_field(field, parsed.values, memory.path)
                plaintexts[field] = plaintext_of(field, decrypt_field(parsed, field, self._cipher, memory.path))
                if not plaintexts[field].strip():
                    raise InvalidMemoryError(f"{memory.path}: {field}", "is empty")
                keys = {key_name_of(value) for value in encrypted_values(parsed, field)}
                if keys != {key} or not is_fully_encrypted(parsed, field):
                    id_ = str(parsed.values.get("id", id_if_missing))
                    location = field_location(parsed, field, memory.path)._replace(id=id_)
                    values[field] = self._cipher.encrypt(plaintexts[field], location, key)
            return _edit_fields(memory.path, memory.text, values) if values.keys() - {"id"} else memory.text

        written = self._rewrite(ref, change, "encrypted")
        done.add(written, plaintexts.get(BODY, ""))
        if rename and written.path.rpartition("/")[2] != f"{written.id}.md":
            directory = written.path.rpartition("/")[0]
            moved = self._vault.move(written.path, f"{directory}/{written.id}.md")
            written = Written(moved.id, moved.path, "encrypted", moved.stamp)
        left = self._remaining_places(written.path, plaintexts)
        return Encrypted(written.id, written.path, written.outcome, written.stamp, left=left)

    def _remaining_places(self, path: str, plaintexts: Mapping[str, str]) -> tuple[str, ...]:
        """Return where plain text may remain that memfs cannot remove: in the file name, in git."""
        words = {word for text in plaintexts.values() for word in name_words(text) if len(word) >= MIN_WORD_LETTERS}
        is_in_name = not words.isdisjoint(name_words(path.rpartition("/")[2].removesuffix(".md")))
        is_in_git = any((directory / ".git").exists() for directory in (self._vault.root, *self._vault.root.parents))
        return (*([LEFT_IN_FILE_NAME] if is_in_name else []), *([LEFT_IN_GIT] if is_in_git else []))

    # --- decrypting

    def decrypt(self, ref: str, *, fields: Fields | None = None) -> Written:
        """Decrypt fields of a memory, by default all, and write them back; the outcome is decrypted or unchanged."""
        wanted = None if fields is None else _field_names(fields)
        return self._rewrite(ref, lambda memory, _: self.reveal(memory, fields=wanted).text, "decrypted")

    def reveal(self, memory: Memory, *, fields: Fields | None = None) -> Memory:
        """Return the memory with fields decrypted, by default all; nothing is written."""
        parsed = parse(memory.text)
        wanted = [*encrypted_fields(parsed)] if fields is None else _field_names(fields)
        for field in wanted if fields is not None else ():
            check_field(field, parsed.values, memory.path)
        encrypted = [field for field in wanted if encrypted_values(parsed, field)]
        values = {field: decrypt_field(parsed, field, self._cipher, memory.path) for field in encrypted}
        data = _edit_fields(memory.path, memory.text, values).encode() if values else memory.data
        return Memory(memory.path, data, memory.status, memory.reader)

    # --- changing keys

    def rotate(
        self, old: str, new: str, namespace: str | None = None, *, progress: Progress | None = None
    ) -> Sequence[Written | MemfsError]:
        """Encrypt all values of the key `old` with the key `new`, in archived memories and kept versions too.

        Each memory is replaced atomically. After a crash, run it again: it continues with the rest. A file that cannot
        be read is an error among the results, because it may still need the old key.
        """
        if old == new:
            error = InvalidKeyError(f"key {new!r}", "is both the old and the new key")
            error.hint = "Name another key as the new one; `memfs keygen` makes one."
            raise error
        for name in (old, new):
            self._cipher.cipher(name)
        old_prefix, scope = f"{ENCRYPTED_PREFIX}{old}:".encode(), Namespace.parse(namespace or "/")
        paths: list[str] = []
        results: list[Written | MemfsError] = []
        for found in self._vault.walk(namespace, archived=True):
            if isinstance(found, Problem):
                results.append(StorageError(found.path, found.reason).with_hint(KEEP_OLD_KEY))
            elif old_prefix in found.data:
                paths.append(found.path)

        def change(memory: Memory, _: ParsedText) -> str:
            return self._rotate_text(memory.path, memory.text, old, new)

        def change_version(path: str, data: bytes) -> bytes:
            is_affected = old_prefix in data and _is_in_namespace(scope, path)
            return self._rotate_version(path, data, old, new) if is_affected else data

        for number, path in enumerate(paths):
            try:
                results.append(self._rewrite(path, change, "rotated"))
            except MemfsError as error:
                results.append(error)
            if progress:
                progress(number + 1, len(paths))
        self._vault.purge(change_version, purge_index=False)
        return results

    def _rotate_text(self, path: str, text: str, old: str, new: str) -> str:
        """Return the text of a memory with the values of the key `old` encrypted with `new`, all else unchanged."""
        parsed, values = parse(text), {}

        def rotate_value(encrypted: str, location: FieldLocation) -> str:
            if key_name_of(encrypted) != old:
                return encrypted
            return self._cipher.encrypt(self._cipher.decrypt(encrypted, location), location, new)

        for field in encrypted_fields(parsed):
            if any(key_name_of(encrypted) == old for encrypted in encrypted_values(parsed, field)):
                rotate = partial(rotate_value, location=field_location(parsed, field, path))
                values[field] = replace_encrypted_values(parsed, field, rotate)
        if not values and parsed.faults:  # the unreadable header may contain encrypted values
            raise MalformedMemoryError(path, parsed.faults[0].line, parsed.faults[0].reason)
        return _edit_fields(path, text, values) if values else text

    def _rotate_version(self, path: str, data: bytes, old: str, new: str) -> bytes:
        """Return a kept version with the key `new` for `old`; unchanged if it cannot be decrypted."""
        try:
            return self._rotate_text(path, data.decode(), old, new).encode()
        except (MemfsError, UnicodeDecodeError):
            return data

    # --- writing

    def _rewrite(self, ref: str, change: Callable[[Memory, ParsedText], str], outcome: Outcome) -> Written:
        """Write the text that `change` returns for a memory; read it again and retry if it was saved meanwhile.

        Raise MemoryChangedError after MAX_WRITE_ATTEMPTS. If the text is the same, nothing is written: unchanged.
        """
        attempts = MAX_WRITE_ATTEMPTS
        while True:
            memory = self._vault.read(ref)
            text = change(memory, parse(memory.text))
            if text == memory.text:
                return Written(memory.id, memory.path, "unchanged", memory.stamp)
            try:
                written = self._vault.replace(memory.path, text, seen=memory.stamp)
            except MemoryChangedError:
                attempts -= 1
                if not attempts:
                    raise
            else:
                return Written(written.id, written.path, outcome, written.stamp)


class _EncryptedMemories:
    """The memories that were encrypted, to recognize kept versions with their plain text."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.ids: set[str] = set()
        self._paths: set[str] = set()
        self._bodies: set[str] = set()

    def add(self, written: Written, body: str) -> None:
        self.ids.add(written.id)
        self._paths.add(written.path)
        self._bodies |= {body.strip()} - {""}

    def purge_version(self, path: str, data: bytes, fields: Sequence[str]) -> bytes | None:
        """Return the bytes of a kept version, or None (drop it) if it has plain text of a field that was encrypted."""
        id_line = _ID_LINE.search(data)
        if path not in self._paths and id_line and id_line[1].decode(errors="replace") not in self.ids:
            return data  # the version of another memory, as most are: not parsed, because parsing a header is slow
        parts, values, faults = parsed = parse(data.decode("utf-8", "replace"))
        memory_id = values.get("id")
        is_without_id = memory_id is None and (path in self._paths or self._is_moved_version(path, parts.body.strip()))
        if memory_id not in self.ids and not is_without_id:
            return data
        is_unreadable = any(not fault.key or fault.key in fields for fault in faults)  # it may contain plain text
        return None if is_unreadable or not all(is_fully_encrypted(parsed, field) for field in fields) else data

    def _is_moved_version(self, path: str, body: str) -> bool:
        """Return whether a version without an id is of a file that was moved by hand: no file has its path any more,
        and its text contains that of an encrypted memory, or is contained in it."""
        is_same = any(body and (body in other or other in body) for other in self._bodies)
        return is_same and not os.path.lexists(self._root / path)


def _field_names(fields: Fields) -> tuple[str, ...]:
    """Return the names of fields without repeats; a single string is one name."""
    return (fields,) if isinstance(fields, str) else tuple(dict.fromkeys(fields))


def _with_open_file(result: Encrypted | MemfsError, in_use: Sequence[str]) -> Encrypted | MemfsError:
    """Return a result, with LEFT_IN_OPEN_FILE added if a program has its file open."""
    if isinstance(result, MemfsError) or result.path not in in_use:
        return result
    return replace(result, left=(*result.left, LEFT_IN_OPEN_FILE))


def _edit_fields(path: str, text: str, values: Mapping[str, Any]) -> str:
    """Return the text of a memory with new values in some fields and no other byte changed: `updated` stays."""
    try:
        keys = {field: value for field, value in values.items() if field != BODY}
        return edit(text, keys, values.get(BODY), is_exact=True)
    except Fault as fault:
        raise MalformedMemoryError(path, fault.line, fault.reason) from None


def _is_in_namespace(namespace: Namespace, path: str) -> bool:
    """Return whether a path is in a namespace, or was archived from it."""
    segments = tuple(path.split("/"))
    return namespace.holds(segments) or (has_first_segment(segments, ARCHIVE) and namespace.holds(segments[1:]))
