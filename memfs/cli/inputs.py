"""Turn the arguments of commands into values: the vault, texts, namespaces, references and header values."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from memfs.cli.output import safe_lines, safe_text
from memfs.cli.parser import usage_error
from memfs.errors import InvalidMemoryError, PlaceNotFoundError, SettingsError, VaultNotFoundError
from memfs.format.header_schema import LIST_KEYS, TEXT_KEYS, TIME_KEYS
from memfs.fs.files import open_root, spelling_on_disk
from memfs.namespace import ARCHIVE, Namespace, Template
from memfs.vault.vault import Vault

NO_SUCH_NAMESPACE = "There is no such namespace; see what there is with `memfs list`."
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17}")
_QUOTED_TEXT = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_BOOLEANS = {"true": True, "false": False}
_TEXT_ONLY_KEYS = TEXT_KEYS | LIST_KEYS | TIME_KEYS
# parameters of Vault.add and Vault.update, which cannot be header keys there
_RESERVED_KEYS = frozenset({"self", "text", "namespace", "ref", "body", "seen", "add_tags", "remove_tags"})


# --- vault and log ------------------------------------------------------------------------------------


def open_vault(vault_option: str | None, *, watch: bool = False, semantic: bool = False) -> Vault:
    """Open the vault of the option, else of MEMFS_VAULT, else the nearest parent directory that is one.

    `semantic` adds an embedder. Logging is configured first, by MEMFS_LOG.
    """
    _configure_logging(os.environ.get("MEMFS_LOG") or "warning")
    if vault_option == "":  # probably an unset shell variable: do not fall back to another vault
        raise usage_error("--vault", "is empty", "Name the directory of the vault: --vault DIR.")
    path = vault_option or os.environ.get("MEMFS_VAULT")
    embedder = None
    if semantic:
        from memfs.embedding import default_embedder

        embedder = default_embedder()
    try:
        return Vault(os.path.expanduser(path) if path else Vault.find(), watch=watch, embedder=embedder)
    except VaultNotFoundError as error:
        if path and not vault_option:
            error.with_hint("MEMFS_VAULT names it: set it to a vault, unset it, or name one with --vault DIR.")
        raise


def _configure_logging(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    handler.addFilter(DuplicateFilter())
    try:
        logging.basicConfig(level=level.upper(), handlers=[handler])
    except ValueError:
        error = SettingsError("MEMFS_LOG", f"{level!r} is not debug, info, warning or error")
        raise error.with_hint("Set it to one of these, or unset it.") from None


class LogFormatter(logging.Formatter):
    """Formats a record as one safe line; the traceback is added only at level debug."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()}: {error}" if error else record.getMessage()
        line = f"memfs: {record.levelname.lower()}: {safe_text(text)}"
        if record.exc_info and logging.getLogger().level <= logging.DEBUG:
            line += "\n" + safe_lines(self.formatException(record.exc_info))
        return line


class DuplicateFilter(logging.Filter):
    """Drops log messages that were logged before."""

    def __init__(self) -> None:
        super().__init__()
        self._seen_messages: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        is_new = record.getMessage() not in self._seen_messages
        self._seen_messages.add(record.getMessage())
        return is_new


# --- texts --------------------------------------------------------------------------------------------


def text_argument(words: Sequence[str]) -> str:
    """Return the words joined to one text; for a single `-`, stdin without its last line break."""
    if list(words) != ["-"]:
        return " ".join(words)
    try:
        return read_stdin().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidMemoryError("stdin", f"is not UTF-8 at byte {error.start}") from None


def read_stdin() -> bytes:
    """Read all of stdin; at a terminal, print how to end the input."""
    if sys.stdin is None:
        raise InvalidMemoryError("stdin", "is closed")
    if is_stdin_terminal():
        print("reading from the terminal; end with Ctrl-D on an empty line", file=sys.stderr)
    return sys.stdin.buffer.read()


def is_stdin_terminal() -> bool:
    """Return whether stdin is a terminal, where a person can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()


# --- names --------------------------------------------------------------------------------------------


def render_namespace(vault: Vault, text: str | None) -> str | None:
    """Return a namespace with its placeholders filled; None for None.

    Raise SettingsError if no actor is set, or for a placeholder other than the actor.
    """
    if text is None or "{" not in text:
        return text
    template = Template(text)
    actor = os.environ.get("MEMFS_ACTOR") or vault.settings.get("actor") or ""
    try:
        return str(template.render(actor=actor))
    except SettingsError as error:
        error.hint = "Set MEMFS_ACTOR, or `actor` in memfs.yaml; the command line fills no other placeholder."
        raise


def has_namespace(vault: Vault, namespace: str) -> bool:
    """Return whether a namespace has a directory in the vault or in its archive."""
    segments, root = Namespace.parse(namespace).segments, open_root(vault.root)
    try:
        candidates = [spelling_on_disk(root, one) for one in (segments, (ARCHIVE, *segments))]
    finally:
        os.close(root)
    return any(vault.root.joinpath(*candidate).is_dir() for candidate in candidates)


def existing_namespace(vault: Vault, text: str | None) -> str | None:
    """Return a namespace with its placeholders filled; None for None. Raise PlaceNotFoundError if it does not exist."""
    namespace = render_namespace(vault, text)
    if namespace is not None and not has_namespace(vault, namespace):
        raise PlaceNotFoundError(namespace)
    return namespace


def normalize_ref(vault: Vault, text: str) -> str:
    """Return a ref; one that is a file system path (absolute, or with ./ or ../) in the vault becomes a vault path."""
    inside = f"{vault.root}{os.sep}"
    if text.startswith(("./", "../", inside)) and os.path.abspath(text).startswith(inside):
        return os.path.relpath(os.path.abspath(text), vault.root).replace(os.sep, "/")
    return text


# --- header values ------------------------------------------------------------------------------------


def parse_header_keys(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return header values by key, parsed from texts. Raise InvalidMemoryError for a key that cannot be set so."""
    return {_settable_key(key): parse_header_value(key, text) for key, text in pairs}


def parse_header_value(key: str, text: str) -> bool | int | str:
    """Return a value as YAML 1.2 reads it: true, false, a whole number, else text; always text for a text key."""
    if key in _TEXT_ONLY_KEYS:
        return text
    return int(text) if _INTEGER.fullmatch(text) else _BOOLEANS.get(text, text)


def parse_conditions(given: Iterable[tuple[str, str, str | None]]) -> list[tuple[str, str, Any]]:
    """Return conditions with their values parsed as header values; a quoted value is text."""
    return [(key, operator, _parse_condition_value(key, text)) for key, operator, text in given]


def _parse_condition_value(key: str, text: str | None) -> bool | int | float | str | None:
    if text is None:
        return None
    if quoted := _QUOTED_TEXT.fullmatch(text):
        return quoted[2]
    return float(text) if _DECIMAL.fullmatch(text) and key not in _TEXT_ONLY_KEYS else parse_header_value(key, text)


def _settable_key(key: str) -> str:
    if key in _RESERVED_KEYS:
        raise InvalidMemoryError(key, "cannot be set as a header key by --set")
    return key
