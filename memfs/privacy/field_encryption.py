"""Encryption: fields and bodies of memories, encrypted and decrypted where they stand, and keys changed for new ones.

What is encrypted leaves nothing legible in what memfs derives: kept versions that show it go, and the index lets go of
its words when the vault is closed. A change names the stamp of the file that was read, so no save is overwritten.
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
    Sealer,
    Spot,
    check_field,
    is_whole,
    key_of,
    opened,
    sealed_fields,
    sealed_in,
    spot_of,
    swapped,
    text_of,
)
from memfs.privacy.keys import DEFAULT, Keys, from_environment
from memfs.protocols import system_clock
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

TRIES = 5  # times that a memory is read anew which changes all the time
TELLING = 4  # letters of a word that says something
NAMED = "its name has words of what was encrypted"
OPEN = "a program has the file open as it was"
IN_GIT = "git keeps what was committed"
KEEP = "Keep the old key until it can be read, and rotate again: it may be encrypted with it."
_ID = re.compile(rb"^id: *[\"']?([^\s\"']+)", re.MULTILINE)
Progress = Callable[[int, int], None]
Fields = Iterable[str]


@dataclass(frozen=True, slots=True)
class Encrypted(Written):
    """The answer to an encryption: `outcome` is encrypted or unchanged, `left` where the text may be legible still."""

    left: tuple[str, ...] = ()


Results = list[Encrypted | MemfsError]


class Encryption:
    """Encrypts what is in a vault, with keys by their names: those of the environment, or those that `keys` gives."""

    def __init__(self, vault: Vault, keys: Keys = from_environment) -> None:
        self._vault, self._sealer = vault, Sealer(keys)

    # --- encrypting

    def encrypt(self, ref: str, *, fields: Fields = (BODY,), key: str = DEFAULT, rename: bool = False) -> Encrypted:
        """Encrypt fields of a memory; with `rename` its id becomes its name, for a name may say what a text said.

        A memory without an id gets one, for what is encrypted is bound to it.
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
        key: str = DEFAULT,
        rename: bool = False,
        progress: Progress | None = None,
    ) -> Results:
        """Encrypt fields of memories, each with its own result; what fails stops no other."""
        wanted, results, former = _named(fields), Results(), _Former(self._vault.root)
        self._sealer.cipher(key)
        try:
            for number, ref in enumerate(refs):
                try:
                    results.append(self._encrypt(ref, wanted, key, former, rename=rename))
                except MemfsError as error:
                    results.append(error)
                if progress:
                    progress(number + 1, len(refs))
        finally:
            in_use = self._vault.purge(lambda path, data: former.left_of(path, data, wanted)) if former.ids else []
        return [_told(result, in_use) for result in results]

    def _encrypt(self, ref: str, fields: tuple[str, ...], key: str, former: "_Former", *, rename: bool) -> Encrypted:
        said: dict[str, str] = {}
        name = new_id(system_clock())

        def change(memory: Memory, parsed: ParsedText) -> str:
            said.clear()
            values: dict[str, Any] = {} if "id" in parsed.values else {"id": name}
            if rename:
                check_file_name(f"{parsed.values.get('id', name)}.md")
            for field in fields:
                check_field(field, parsed.values, memory.path)
                said[field] = text_of(field, opened(parsed, field, self._sealer, memory.path))
                if not said[field].strip():
                    raise InvalidMemoryError(f"{memory.path}: {field}", "is empty")
                keys = {key_of(sealed) for sealed in sealed_in(parsed, field)}
                if keys != {key} or not is_whole(parsed, field):
                    spot = spot_of(parsed, field, memory.path)._replace(id=str(parsed.values.get("id", name)))
                    values[field] = self._sealer.seal(said[field], spot, key)
            return _edited(memory.path, memory.text, values) if values.keys() - {"id"} else memory.text

        written = self._rewrite(ref, change, "encrypted")
        former.note(written, said.get(BODY, ""))
        if rename and written.path.rpartition("/")[2] != f"{written.id}.md":
            folder = written.path.rpartition("/")[0]
            moved = self._vault.move(written.path, f"{folder}/{written.id}.md")
            written = Written(moved.id, moved.path, "encrypted", moved.stamp)
        left = self._left(written.path, said)
        return Encrypted(written.id, written.path, written.outcome, written.stamp, left=left)

    def _left(self, path: str, said: Mapping[str, str]) -> tuple[str, ...]:
        """Where a text may be legible still, beyond what memfs derives."""
        words = {word for text in said.values() for word in name_words(text) if len(word) >= TELLING}
        is_named = not words.isdisjoint(name_words(path.rpartition("/")[2].removesuffix(".md")))
        is_in_git = any((folder / ".git").exists() for folder in (self._vault.root, *self._vault.root.parents))
        return (*([NAMED] if is_named else []), *([IN_GIT] if is_in_git else []))

    # --- decrypting

    def decrypt(self, ref: str, *, fields: Fields | None = None) -> Written:
        """Decrypt fields of a memory, by default all, and write them back."""
        wanted = None if fields is None else _named(fields)
        return self._rewrite(ref, lambda memory, _: self.reveal(memory, fields=wanted).text, "decrypted")

    def reveal(self, memory: Memory, *, fields: Fields | None = None) -> Memory:
        """The memory as it would be if its fields were decrypted; nothing is written."""
        parsed = parse(memory.text)
        wanted = [*sealed_fields(parsed)] if fields is None else _named(fields)
        for field in wanted if fields is not None else ():
            check_field(field, parsed.values, memory.path)
        sealed = [field for field in wanted if sealed_in(parsed, field)]
        values = {field: opened(parsed, field, self._sealer, memory.path) for field in sealed}
        data = _edited(memory.path, memory.text, values).encode() if values else memory.data
        return Memory(memory.path, data, memory.status, memory.reader)

    # --- changing keys

    def rotate(
        self, old: str, new: str, namespace: str | None = None, *, progress: Progress | None = None
    ) -> Sequence[Written | MemfsError]:
        """Encrypt with the key `new` what is encrypted with `old`, forgotten memories and kept versions too.

        Each memory is changed in one step. Whoever is killed in the middle runs it again, and it goes on. What cannot
        be read is an error among the results, for it may need the old key still.
        """
        if old == new:
            error = InvalidKeyError(f"key {new!r}", "is the old one and the new one")
            error.hint = "Name another key as the new one; `memfs keygen` makes one."
            raise error
        for name in (old, new):
            self._sealer.cipher(name)
        mark, place = f"{ENCRYPTED_PREFIX}{old}:".encode(), Namespace.parse(namespace or "/")
        paths: list[str] = []
        results: list[Written | MemfsError] = []
        for found in self._vault.walk(namespace, archived=True):
            if isinstance(found, Problem):
                results.append(StorageError(found.path, found.reason).with_hint(KEEP))
            elif mark in found.data:
                paths.append(found.path)

        def change(memory: Memory, _: ParsedText) -> str:
            return self._rotated(memory.path, memory.text, old, new)

        def change_version(path: str, data: bytes) -> bytes:
            is_one = mark in data and _is_below(place, path)
            return self._rotated_version(path, data, old, new) if is_one else data

        for number, path in enumerate(paths):
            try:
                results.append(self._rewrite(path, change, "rotated"))
            except MemfsError as error:
                results.append(error)
            if progress:
                progress(number + 1, len(paths))
        self._vault.purge(change_version, purge_index=False)
        return results

    def _rotated(self, path: str, text: str, old: str, new: str) -> str:
        """A memory with the key `new` for `old`; what else is in its fields stays as it is."""
        parsed, values = parse(text), {}

        def swap(sealed: str, spot: Spot) -> str:
            return self._sealer.seal(self._sealer.open(sealed, spot), spot, new) if key_of(sealed) == old else sealed

        for field in sealed_fields(parsed):
            if any(key_of(sealed) == old for sealed in sealed_in(parsed, field)):
                values[field] = swapped(parsed, field, partial(swap, spot=spot_of(parsed, field, path)))
        if not values and parsed.faults:  # its header cannot be read, and may hold some
            raise MalformedMemoryError(path, parsed.faults[0].line, parsed.faults[0].reason)
        return _edited(path, text, values) if values else text

    def _rotated_version(self, path: str, data: bytes, old: str, new: str) -> bytes:
        """A kept version with the key `new` for `old`; one that cannot be decrypted stays as it is."""
        try:
            return self._rotated(path, data.decode(), old, new).encode()
        except (MemfsError, UnicodeDecodeError):
            return data

    # --- writing

    def _rewrite(self, ref: str, change: Callable[[Memory, ParsedText], str], outcome: Outcome) -> Written:
        """Change a memory, read anew if somebody saved it meanwhile."""
        tries = TRIES
        while True:
            memory = self._vault.read(ref)
            text = change(memory, parse(memory.text))
            if text == memory.text:
                return Written(memory.id, memory.path, "unchanged", memory.stamp)
            try:
                written = self._vault.replace(memory.path, text, seen=memory.stamp)
            except MemoryChangedError:
                tries -= 1
                if not tries:
                    raise
            else:
                return Written(written.id, written.path, outcome, written.stamp)


class _Former:
    """What was legible of memories until they were encrypted."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.ids: set[str] = set()
        self._paths: set[str] = set()
        self._bodies: set[str] = set()

    def note(self, written: Written, body: str) -> None:
        self.ids.add(written.id)
        self._paths.add(written.path)
        self._bodies |= {body.strip()} - {""}

    def left_of(self, path: str, data: bytes, fields: Sequence[str]) -> bytes | None:
        """A kept version, unless it is one of these memories and shows what was encrypted."""
        named = _ID.search(data)
        if path not in self._paths and named and named[1].decode(errors="replace") not in self.ids:
            return data  # most are not, and a header takes a while to read
        parts, values, faults = parsed = parse(data.decode("utf-8", "replace"))
        name = values.get("id")
        is_one = name is None and (path in self._paths or self._was(path, parts.body.strip()))
        if name not in self.ids and not is_one:
            return data
        is_clear = any(not fault.key or fault.key in fields for fault in faults)  # as far as one can tell
        return None if is_clear or not all(is_whole(parsed, field) for field in fields) else data

    def _was(self, path: str, body: str) -> bool:
        """Tell whether a version without an id is of one that was moved by hand: its file is gone, it said the same."""
        is_same = any(body and (body in other or other in body) for other in self._bodies)
        return is_same and not os.path.lexists(self._root / path)


def _named(fields: Fields) -> tuple[str, ...]:
    """Names of fields, each once; a lone text is one."""
    return (fields,) if isinstance(fields, str) else tuple(dict.fromkeys(fields))


def _told(result: Encrypted | MemfsError, in_use: Sequence[str]) -> Encrypted | MemfsError:
    """A result that tells of a program which has the file open."""
    if isinstance(result, MemfsError) or result.path not in in_use:
        return result
    return replace(result, left=(*result.left, OPEN))


def _edited(path: str, text: str, values: Mapping[str, Any]) -> str:
    """A memory with other values in some fields, and no other byte changed; `updated` stays: it says the same."""
    try:
        keys = {field: value for field, value in values.items() if field != BODY}
        return edit(text, keys, values.get(BODY), is_exact=True)
    except Fault as fault:
        raise MalformedMemoryError(path, fault.line, fault.reason) from None


def _is_below(place: Namespace, path: str) -> bool:
    """Tell whether a path lies in a namespace, or was forgotten from it."""
    segments = tuple(path.split("/"))
    return place.holds(segments) or (is_below(segments, ARCHIVE) and place.holds(segments[1:]))
