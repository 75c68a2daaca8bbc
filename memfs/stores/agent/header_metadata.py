"""Metadata of a memory as header keys, and back: any JSON value that a caller gives is read back equal.

A key whose value would not read back equal from the header is kept as JSON under the key `metadata`.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Any

from memfs.data_types import display_value
from memfs.errors import InvalidMemoryError, short_repr
from memfs.format.edit import canonical_value, compose
from memfs.format.frontmatter import parse
from memfs.format.header_schema import KEY_CHECKS
from memfs.namespace import is_utf8_encodable
from memfs.stores.agent.protocol import Metadata

JSON_KEY = "metadata"  # holds, as JSON, the values that would not read back equal from a key of their own
MEMFS_KEYS = frozenset({"id", "created", "updated"})  # written by memfs: metadata only if the caller gave them
RESERVED_KEYS = frozenset("self dirty text namespace ref body add_tags remove_tags seen".split())  # parameters of Vault
# added to a header when its length is tested, so that keys can be added to it later
_PADDING = {f"room-{number}": "x" * 400 for number in range(8)}


def metadata_to_header(metadata: Metadata) -> dict[str, Any]:
    """Return metadata as header keys, such that `header_to_metadata` of them equals it.

    Raise InvalidMemoryError if it is not a mapping, cannot be written as JSON, or is too long for a header.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidMemoryError("metadata", f"{short_repr(metadata)} is not a mapping")
    values = {str(key): value for key, value in metadata.items()}
    texts = {key: _to_json(value) for key, value in values.items()}
    legal = {key: found for key, value in values.items() if (found := header_value(key, value)) is not None}
    short = [key for key in legal if key in KEY_CHECKS and len(texts[key]) < 500]
    # Write as many keys as possible as keys of their own: all, else those of the header schema, else the short ones.
    for keys in (list(legal), [key for key in legal if key in KEY_CHECKS], short):
        header = {key: legal[key] for key in keys}
        equal = {key for key in keys if key not in MEMFS_KEYS and _to_json(json_value(legal[key])) == texts[key]}
        rest = [key for key in values if key not in equal]
        if rest:
            header[JSON_KEY] = f"{{{', '.join(f'{_to_json(key)}: {texts[key]}' for key in rest)}}}"
        read = parse(compose(_PADDING | header, "."))
        if not read.faults and read.values == _PADDING | header:
            return header
    raise InvalidMemoryError("metadata", "is longer than the header of a memory may be")


def header_to_metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata in a header as JSON values, without the keys that memfs writes.

    A value that is in the header also as JSON is taken from the JSON, unless someone edited the key in the file.
    """
    metadata = {
        key: json_value(display_value(value))
        for key, value in values.items()
        if key not in MEMFS_KEYS and key != JSON_KEY
    }
    for key, value in _json_metadata(values).items():
        legal = header_value(key, value)
        if legal is None or key not in values or legal == values[key]:
            metadata[key] = value
    return metadata


def header_changes(values: Mapping[str, Any], metadata: Metadata) -> dict[str, Any]:
    """Return the header keys to set (None: to remove) so that a header has this metadata besides its own."""
    header = metadata_to_header(metadata)
    before = _json_metadata(values)
    added = _json_metadata({JSON_KEY: header.pop(JSON_KEY, "{}")})
    rest = {key: value for key, value in before.items() if key not in metadata} | added
    fixed = {*MEMFS_KEYS, *RESERVED_KEYS, JSON_KEY}
    removed = [key for key in metadata if key in values and key not in header and key not in fixed]
    changes = {**dict.fromkeys(removed), **header}
    if rest != before:
        changes[JSON_KEY] = _to_json(rest) if rest else None
    return changes


def header_value(key: str, value: Any) -> Any:
    """Return a value as it reads back from a header key of its own; None if the key cannot hold it."""
    if key == "id" or key == JSON_KEY or key in RESERVED_KEYS:
        return None
    try:
        return canonical_value(key, value)
    except InvalidMemoryError:
        return None


def _json_metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that a header has as JSON under JSON_KEY. A value there that is not JSON is metadata."""
    value = values.get(JSON_KEY)
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError, RecursionError):
            return dict(json.loads(value))
    return {} if value is None else {JSON_KEY: json_value(value)}


def _to_json(value: Any) -> str:
    """Return a value as JSON on one line. Types that JSON lacks become text."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=json_value)
        return text if is_utf8_encodable(text) else json.dumps(value, default=json_value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidMemoryError("metadata", f"cannot be written: {error}") from None


def json_value(value: Any) -> Any:
    """Return a header value as the types of JSON; a date and any other type becomes text."""
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str | int | float | None) else str(value)
