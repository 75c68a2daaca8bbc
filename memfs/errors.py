"""All errors that memfs raises on purpose.

MemfsError
├── VaultError
│   ├── VaultNotFoundError        no vault in this directory or above it
│   ├── MemoryNotFoundError       no memory has this id or path
│   │   └── VersionNotFoundError  no kept version matches
│   ├── PlaceNotFoundError        the vault has no namespace or file of this name
│   ├── AmbiguousNameError        several memories have this name
│   ├── SessionNotFoundError      no session, log, branch or event has this name
│   ├── OtherActorError           the session log belongs to another actor
│   ├── MemoryExistsError         the name is taken
│   ├── MemoryChangedError        the file changed since it was read
│   ├── MalformedMemoryError      the file cannot be edited without changing unrelated parts of it
│   ├── InvalidMemoryError        a text or header value cannot be stored
│   │   └── SecretRefusedError    an agent's text contains a secret (also a ValueError)
│   ├── DecryptionError           an encrypted text cannot be decrypted with the given key
│   ├── InvalidNamespaceError     a name is not allowed, or leaves the vault or the scope
│   ├── LockTimeoutError          another writer held the namespace for too long
│   └── StorageError              the operating system refused
│       ├── ReadOnlyError         the vault is not writable
│       └── NoSpaceError          the disk is full
├── StoreError                    the backend of a store
│   ├── StoreUnavailableError     it cannot be reached, opened or written
│   │   ├── StoreLockedError      another writer held it for too long
│   │   ├── ServerUnreachableError    the server does not respond
│   │   ├── AccessRefusedError    wrong password, or missing permission
│   │   ├── MissingDatabaseError  the server has no database of this name
│   │   ├── MissingTablesError    the database has no tables of memfs
│   │   └── MissingExtensionError  the server lacks an extension
│   ├── StoreDamagedError         its data cannot be read
│   └── NewerSchemaError          it was written by a later version of memfs
├── SearchError
│   └── InvalidSearchError        a limit or a filter is not valid
├── SettingsError                 memfs.yaml or an argument is wrong
│   ├── InvalidQueriesError       a line of queries.yaml is wrong
│   ├── InvalidKeyError           an encryption key is missing or malformed
│   ├── InvalidSetupError         a manager, store or tool was configured wrongly (also a ValueError)
│   ├── MissingExtraError         an optional dependency is not installed
│   ├── UnknownStoreError         no installed store handles this address
│   └── StorePluginError          the plugin for an address cannot be loaded
├── InvalidArgumentsError         a tool was called with wrong arguments (also a ValueError)
├── ExtractionError               a model's reply contained no facts that could be parsed
└── AggregateMemoryError          several errors of one call

An error class declares its fields as annotations; they are the constructor's arguments and the instance's attributes.
`template` formats the message from them, `hint` is advice for the user, `exit_code` is that of the command line.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self, dataclass_transform


def short_repr(value: object) -> str:
    """Return `repr(value)` for a message, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


class _SignatureOfFields:
    """The `__signature__` of an error class, built on demand because `inspect` is slow to import."""

    def __get__(self, error: object, cls: "type[MemfsError]") -> Any:
        if not cls._fields:
            return None
        from inspect import Parameter, Signature

        kind, defaults = Parameter.POSITIONAL_OR_KEYWORD, cls._defaults
        return Signature([Parameter(name, kind, default=defaults.get(name, Parameter.empty)) for name in cls._fields])


@dataclass_transform(eq_default=False)
class MemfsError(Exception):
    """The base class of all errors of memfs.

    As in a dataclass, the annotations of a subclass are its fields, unless it has a constructor of its own.
    Fields are also the `args` of the exception, so errors can be pickled and copied.
    """

    template = "{0}"
    hint = ""
    exit_code = 1
    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    __signature__ = _SignatureOfFields()

    def __init_subclass__(cls) -> None:
        has_constructor = "__init__" in vars(cls)
        cls._fields = () if has_constructor else tuple(dict.fromkeys((*cls._fields, *cls.__annotations__)))
        cls._defaults = {name: getattr(cls, name) for name in cls._fields if hasattr(cls, name)}

    def __init__(self, *values: object, **named: object) -> None:
        if fields := self._fields:
            given = dict(zip(fields, values, strict=False)) | named
            by_name = self._defaults | given
            if len(given) < len(values) + len(named) or by_name.keys() != set(fields):
                raise TypeError(f"{type(self).__name__} takes the arguments {', '.join(fields)}")
            values = tuple(by_name[name] for name in fields)
            vars(self).update(by_name)
        super().__init__(*values)

    def __str__(self) -> str:
        return self.template.format(*self.args, **vars(self))

    def with_hint(self, hint: str) -> Self:
        """Set another hint than that of the class, and return the error."""
        self.hint = hint
        return self


# The classes are laid out as a table: no blank lines inside a declaration.
# fmt: off

class VaultError(MemfsError):
    """An error about a vault or a memory in it."""

class VaultNotFoundError(VaultError):
    """There is no vault in the directory."""
    template = "{path}: no vault here"
    exit_code, hint = 2, "Make one with `memfs init DIR`, or name one with --vault DIR or MEMFS_VAULT."
    path: str

class MemoryNotFoundError(VaultError):
    """No memory has this id or path."""
    template = "{ref!r}: no such memory"
    hint = "See what there is with `memfs list`."
    ref: str

class VersionNotFoundError(MemoryNotFoundError):
    """No kept version of a memory differs from its file, or none has a hash that begins with `version`."""
    hint = "List the kept versions with `memfs versions`; memfs keeps one when it writes."
    version: str = ""

    def __str__(self) -> str:
        which = f"begins with {self.version!r}" if self.version else "differs from the file"
        return f"{self.ref}: no kept version {which}"

class PlaceNotFoundError(VaultError):
    """The vault has no namespace, or no file, of this name."""
    template = "{name!r}: no such {kind} in this vault"
    hint = "See what there is with `memfs list`."
    name: str
    kind: str = "namespace"

class AmbiguousNameError(VaultError):
    """Several memories have this name."""
    exit_code, hint = 2, "Name it by its path."

    def __init__(self, name: str, paths: Sequence[str]) -> None:
        self.name, self.paths = name, tuple(paths)
        super().__init__(name, self.paths)

    def __str__(self) -> str:
        more = f" and {len(self.paths) - 5:,} more" if len(self.paths) > 5 else ""
        return f"{self.name!r}: may mean {', '.join(self.paths[:5])}{more}"

class SessionNotFoundError(VaultError):
    """No session, log, branch or event has this name."""
    template = "{name!r}: no such session, log, branch or event"
    hint = "List the sessions with `memfs sessions list`."
    name: str

class OtherActorError(VaultError):
    """The log belongs to a conversation with another actor; nothing of it was read or written."""
    template = "{path}: belongs to actor {actor!r}, not to {wanted!r}"
    exit_code, hint = 2, "Choose another session or agent id, one for each actor."
    path: str
    actor: str
    wanted: str

class MemoryExistsError(VaultError):
    """Another memory has this name."""
    template = "{path}: already exists"
    exit_code, hint = 3, "Choose another name, or remove the memory that has it."
    path: str

class MemoryChangedError(VaultError):
    """The file changed since it was read; nothing was written."""
    template = "{path}: changed on disk since it was read"
    exit_code, hint = 3, "Read it again and repeat the change."
    path: str

class MalformedMemoryError(VaultError):
    """The file cannot be edited without changing unrelated parts of it; nothing was written."""
    template = "{path}:{line}: {reason}"
    hint = "Repair the file in an editor; `memfs check` lists its problems."
    path: str
    line: int
    reason: str

class InvalidMemoryError(VaultError):
    """A text or a header value cannot be stored."""
    template = "{subject}: {reason}"
    exit_code, hint = 2, "Change the value; docs/format.md lists what each key allows."
    subject: str
    reason: str

class SecretRefusedError(InvalidMemoryError, ValueError):
    """An agent's text contains a secret that the vault refuses; nothing was written.

    The error has the kind and the line of the secret, never its text.
    """
    template = "{subject}: holds {kind} on line {line}, which is not stored"
    hint = "Leave the secret out; `redaction` in memfs.yaml sets what is refused: docs/safety.md."

    def __init__(self, subject: str, kind: str, line: int) -> None:
        self.subject, self.kind, self.line = subject, kind, line
        self.reason = f"holds {kind} on line {line}"
        MemfsError.__init__(self, subject, kind, line)

class DecryptionError(VaultError):
    """An encrypted text cannot be decrypted; the file stays as it is."""
    template = "{path}: {field}: cannot be decrypted with the key {key!r}: {reason}"
    hint = "Set the key that it was encrypted with; restore an altered text with `memfs restore` or from git."
    path: str
    field: str
    key: str
    reason: str

class InvalidNamespaceError(VaultError):
    """A name is not allowed, or leaves the vault or the scope."""
    template = "{name!r}: {reason}"
    exit_code, hint = 2, "Use a namespace such as /facts/alice: plain names between slashes."
    name: str
    reason: str

class LockTimeoutError(VaultError):
    """Another writer held the namespace until the deadline; nothing was written."""
    template = "{namespace}: still locked by another writer after {seconds:g} s"
    exit_code, hint = 4, "Try again; if nobody should be writing, look for a stopped memfs process."
    namespace: str
    seconds: float

class StorageError(VaultError):
    """The operating system refused; nothing was written."""
    template = "{path}: {reason}"
    hint = "Fix the reported cause and repeat."
    path: str
    reason: str

class ReadOnlyError(StorageError):
    """The vault, or a part of it, is not writable; nothing was written."""
    template = "{path}: not writable: {reason}"
    hint = "Check the permissions of the vault, or work on a copy of it."

class NoSpaceError(StorageError):
    """The disk is full; nothing was written."""
    template = "{path}: no space left: {reason}"
    hint = "Free some space and repeat; writes that were acknowledged before are on disk."

class StoreError(MemfsError):
    """An error about the backend of a store."""
    template = "{place}: {reason}"
    place: str
    reason: str

class StoreUnavailableError(StoreError):
    """The backend cannot be reached, opened or written; writes that were acknowledged before are kept."""
    hint = "Fix the reported cause and repeat."

class StoreLockedError(StoreUnavailableError):
    """Another writer held the store until the deadline; nothing was written."""
    exit_code, hint = 4, "Try again; if nobody should be writing, look for a stopped process."

class ServerUnreachableError(StoreUnavailableError):
    """The server does not respond, or the connection broke."""
    hint = "Check that the server runs, and the host and port in the URL."

class AccessRefusedError(StoreUnavailableError):
    """The server does not accept the user or the password, or does not permit the operation."""
    hint = "Check user and password; docs/hub.md lists what a user must be granted."

class MissingDatabaseError(StoreUnavailableError):
    """The server has no database of this name."""
    hint = "Check the name after the last slash of the URL, or create the database with `createdb`."

class MissingTablesError(StoreUnavailableError):
    """The database has no tables of memfs yet."""
    hint = "Push to it first, or check the name of the database."

class MissingExtensionError(StoreUnavailableError):
    """The server lacks an extension that is needed."""
    hint = "Ask an administrator to install pgvector and run `CREATE EXTENSION vector`, or use no embedder."

class StoreDamagedError(StoreError):
    """The data of the backend cannot be read; nothing in it was changed."""
    hint = "Restore it from a copy, or move it away to start with an empty store."

class NewerSchemaError(StoreError):
    """The backend was written by a later version of memfs; nothing in it was changed."""
    template = "{place}: has schema version {found}, but this memfs supports versions up to {known}"
    exit_code, hint = 2, "Install a later memfs: pip install --upgrade memfs-vault."

    def __init__(self, place: str, found: int, known: int) -> None:
        self.place, self.found, self.known = place, found, known
        MemfsError.__init__(self, place, found, known)

class SearchError(MemfsError):
    """An error about a search."""

class InvalidSearchError(SearchError):
    """A limit or a filter is not valid."""
    template = "{subject}: {reason}"
    exit_code, hint = 2, "docs/search.md lists the arguments of a search."
    subject: str
    reason: str

class SettingsError(MemfsError):
    """memfs.yaml or an argument is wrong."""
    template = "{where}: {reason}"
    exit_code, hint = 2, "docs/format.md lists the settings."
    where: str
    reason: str

class InvalidQueriesError(SettingsError):
    """The queries file of an evaluation is wrong; no query was run."""
    hint = "docs/evaluation.md describes the keys of a question."

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line = path, line
        self.where, self.reason = f"{path}:{line}", reason
        MemfsError.__init__(self, path, line, reason)

class InvalidKeyError(SettingsError):
    """An encryption key is missing or malformed; nothing was written."""
    hint = "Set the variable to the key, in base64 or hex; `memfs keygen` makes a new one."

class InvalidSetupError(SettingsError, ValueError):
    """A manager, a store or a tool was configured wrongly."""
    hint = "docs/agents.md and docs/stores.md list the arguments."

class MissingExtraError(SettingsError):
    """An optional dependency is not installed."""
    template = "{subject}: needs the extra {extra!r}, which is not installed"

    def __init__(self, subject: str, extra: str) -> None:
        self.subject, self.extra = subject, extra
        self.hint = f"Install it: pip install 'memfs-vault[{extra}]'."
        MemfsError.__init__(self, subject, extra)

class UnknownStoreError(SettingsError):
    """No installed store handles addresses of this scheme."""
    def __init__(self, scheme: str, installed: tuple[str, ...], extras: tuple[str, ...]) -> None:
        self.scheme, self.installed, self.extras = scheme, installed, extras
        install = [f"pip install 'memfs-vault[{extra}]'" for extra in extras]
        more = f" More come with {', '.join(install)}." if install else ""
        self.hint = f"Install a plugin that provides {scheme!r} as an entry point of the group memfs.stores.{more}"
        MemfsError.__init__(self, scheme, installed, extras)

    def __str__(self) -> str:
        schemes = ", ".join(f"{scheme}:" for scheme in self.installed)
        return f"{self.scheme}: no store handles such addresses; there are {schemes}"

class StorePluginError(SettingsError):
    """The plugin for an address cannot be loaded."""
    template = "{scheme}: the plugin {plugin} cannot be loaded: {reason}"
    hint = "Reinstall the plugin, or report the problem to its maintainers."

    def __init__(self, scheme: str, plugin: str, reason: str) -> None:
        self.scheme, self.plugin, self.reason = scheme, plugin, reason
        MemfsError.__init__(self, scheme, plugin, reason)

class InvalidArgumentsError(MemfsError, ValueError):
    """A tool was called with wrong arguments; nothing was done."""
    template = "{tool}: {reason}"
    exit_code, hint = 2, "Call it as its description says."
    tool: str
    reason: str

class ExtractionError(MemfsError):
    """A model's reply contained no facts that could be parsed, also after a retry."""
    template = "{model}: {reason}"
    hint = "The turns are kept; see `memfs retry`."
    model: str
    reason: str

class AggregateMemoryError(MemfsError):
    """Several errors of one call; the parts of the call that did not fail were done."""
    hint = "Each error is in `errors`; repeat what failed."

    def __init__(self, message: str, errors: Sequence[BaseException]) -> None:
        self.message, self.errors = message, tuple(errors)
        super().__init__(message, self.errors)

    def __str__(self) -> str:
        return f"{self.message}: " + "; ".join(str(error) for error in self.errors)
