"""What commands take: the vault, texts, namespaces, references, header values."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from memfs.cli.output import plain, plain_lines
from memfs.cli.parser import usage
from memfs.errors import InvalidMemoryError, PlaceNotFoundError, SettingsError, VaultNotFoundError
from memfs.format.header_schema import LIST_KEYS, TEXT_KEYS, TIME_KEYS
from memfs.fs.files import open_root, spelling_on_disk
from memfs.namespace import ARCHIVE, Namespace, Template
from memfs.vault.vault import Vault

NOWHERE = "There is no such namespace; see what there is with `memfs list`."
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17}")
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_FLAGS = {"true": True, "false": False}
_AS_TEXT = TEXT_KEYS | LIST_KEYS | TIME_KEYS
_PARAMETERS = frozenset({"self", "text", "namespace", "ref", "body", "seen", "add_tags", "remove_tags"})


def open_vault(named: str | None, *, watch: bool = False, semantic: bool = False) -> Vault:
    """The vault that is named, by option or environment, or the nearest above; searched by meaning if that is asked."""
    _set_up_log(os.environ.get("MEMFS_LOG") or "warning")
    if named == "":  # a variable of a shell that is not set: another vault is not what was meant
        raise usage("--vault", "is empty", "Name the directory of the vault: --vault DIR.")
    where = named or os.environ.get("MEMFS_VAULT")
    embedder = None
    if semantic:
        from memfs.embedding import default_embedder

        embedder = default_embedder()
    try:
        return Vault(os.path.expanduser(where) if where else Vault.find(), watch=watch, embedder=embedder)
    except VaultNotFoundError as error:
        if where and not named:
            error.with_hint("MEMFS_VAULT names it: set it to a vault, unset it, or name one with --vault DIR.")
        raise


def _set_up_log(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LogLine())
    handler.addFilter(Once())
    try:
        logging.basicConfig(level=level.upper(), handlers=[handler])
    except ValueError:
        error = SettingsError("MEMFS_LOG", f"{level!r} is not debug, info, warning or error")
        raise error.with_hint("Set it to one of these, or unset it.") from None


class LogLine(logging.Formatter):
    """One harmless line a message; how an error came about is for those who ask for debug."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()}: {error}" if error else record.getMessage()
        line = f"memfs: {record.levelname.lower()}: {plain(text)}"
        if record.exc_info and logging.getLogger().level <= logging.DEBUG:
            line += "\n" + plain_lines(self.formatException(record.exc_info))
        return line


class Once(logging.Filter):
    """Lets a message through once."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        is_new = record.getMessage() not in self._told
        self._told.add(record.getMessage())
        return is_new


def text_of(words: Sequence[str]) -> str:
    """The words as one text; a lone `-` is stdin, less one line end at its end."""
    if list(words) != ["-"]:
        return " ".join(words)
    try:
        return read_stdin().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidMemoryError("stdin", f"is not UTF-8 at byte {error.start}") from None


def read_stdin() -> bytes:
    """All that stdin holds; who types it is told how to end it."""
    if sys.stdin is None:
        raise InvalidMemoryError("stdin", "is closed")
    if at_terminal():
        print("reading from the terminal; end with Ctrl-D on a line of its own", file=sys.stderr)
    return sys.stdin.buffer.read()


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


def is_there(vault: Vault, namespace: str) -> bool:
    """Tell whether there is a directory for a namespace, or for what was forgotten from it."""
    segments, root = Namespace.parse(namespace).segments, open_root(vault.root)
    try:
        places = [spelling_on_disk(root, one) for one in (segments, (ARCHIVE, *segments))]
    finally:
        os.close(root)
    return any(vault.root.joinpath(*place).is_dir() for place in places)


def known_namespace(vault: Vault, text: str | None) -> str | None:
    """A namespace as `namespace_of` has it; one that is not there is an error."""
    where = namespace_of(vault, text)
    if where is not None and not is_there(vault, where):
        raise PlaceNotFoundError(where)
    return where


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


def conditions(given: Iterable[tuple[str, str, str | None]]) -> list[tuple[str, str, Any]]:
    """Conditions on header keys, their values read as those of a header; one in quotes is text."""
    return [(key, operator, _compared(key, text)) for key, operator, text in given]


def _compared(key: str, text: str | None) -> bool | int | float | str | None:
    if text is None:
        return None
    if quoted := _QUOTED.fullmatch(text):
        return quoted[2]
    return float(text) if _FRACTION.fullmatch(text) and key not in _AS_TEXT else header_value(key, text)


def _free(key: str) -> str:
    if key in _PARAMETERS:
        raise InvalidMemoryError(key, "cannot be set as a header key by --set")
    return key
