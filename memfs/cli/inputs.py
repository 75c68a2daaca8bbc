"""What commands take: the vault, texts, namespaces, references, header values."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from memfs.errors import InvalidMemoryError, SettingsError
from memfs.model import LIST_KEYS, TEXT_KEYS, TIME_KEYS
from memfs.namespace import Template
from memfs.vault import Vault

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FLAGS = {"true": True, "false": False}
_AS_TEXT = TEXT_KEYS | LIST_KEYS | TIME_KEYS
_PARAMETERS = frozenset({"self", "text", "namespace", "ref", "body", "seen", "add_tags", "remove_tags"})


def open_vault(named: str | None) -> Vault:
    """The vault that is named, by option or environment, or the nearest above."""
    _set_up_log(os.environ.get("MEMFS_LOG") or "warning")
    where = named or os.environ.get("MEMFS_VAULT")
    return Vault(os.path.expanduser(where) if where else Vault.find())


def _set_up_log(level: str) -> None:
    try:
        logging.basicConfig(level=level.upper(), format="memfs: %(message)s")
    except ValueError:
        raise SettingsError("MEMFS_LOG", f"{level!r} is not debug, info, warning or error") from None


def text_of(words: Sequence[str]) -> str:
    """The words as one text; a lone `-` is stdin, less one line end at its end."""
    if list(words) != ["-"]:
        return " ".join(words)
    if sys.stdin is None:
        raise InvalidMemoryError("stdin", "is closed")
    if at_terminal():
        print("reading from the terminal; end with Ctrl-D on a line of its own", file=sys.stderr)
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidMemoryError("stdin", f"is not UTF-8 at byte {error.start}") from None


def at_terminal() -> bool:
    """Tell whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def namespace_of(vault: Vault, text: str | None) -> str | None:
    """A namespace, with its placeholders filled if it is a template."""
    if text is None or "{" not in text:
        return text
    template = Template(text)
    actor = os.environ.get("MEMFS_ACTOR") or vault.settings.get("actor") or ""
    try:
        return str(template.render(actor=actor))
    except SettingsError as error:
        error.hint = "Set MEMFS_ACTOR, or `actor` in memfs.yaml; the command line fills no other placeholder."
        raise


def reference(vault: Vault, text: str) -> str:
    """A memory's name as the vault takes it: a path of the file system becomes one of the vault."""
    inside = f"{vault.root}{os.sep}"
    if text.startswith(("./", "../", inside)) and os.path.abspath(text).startswith(inside):
        return os.path.relpath(os.path.abspath(text), vault.root).replace(os.sep, "/")
    return text


def header_keys(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Header values from the texts that were given."""
    return {_free(key): header_value(key, text) for key, text in pairs}


def header_value(key: str, text: str) -> bool | int | str:
    """Read a value as YAML 1.2 does: true, false, a whole number, else text."""
    if key in _AS_TEXT:
        return text
    return int(text) if _INTEGER.fullmatch(text) else _FLAGS.get(text, text)


def _free(key: str) -> str:
    if key in _PARAMETERS:
        raise InvalidMemoryError(key, "cannot be set as a header key by --set")
    return key
