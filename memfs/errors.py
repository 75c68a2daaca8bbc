"""Every error memfs raises on purpose.

MemfsError
├── VaultError
│   ├── VaultNotFoundError        no vault at this directory, or above it
│   ├── MemoryNotFoundError       no memory with this id or path
│   │   └── VersionNotFoundError  no kept version that could be brought back
│   ├── PlaceNotFoundError        no namespace, or no file, of this name in the vault
│   ├── AmbiguousNameError        a name that several memories have
│   ├── SessionNotFoundError      no session, log, branch or event of this name
│   ├── OtherActorError           the log of somebody else's conversation
│   ├── MemoryExistsError         the name is taken
│   ├── MemoryChangedError        the file changed since it was read
│   ├── MalformedMemoryError      the file cannot be edited without touching more than asked
│   ├── InvalidMemoryError        a text or header value that cannot be stored
│   │   └── SecretRefusedError    an agent's text that holds a secret (a ValueError too)
│   ├── DecryptionError           an encrypted text, and not the key it was encrypted with
│   ├── InvalidNamespaceError     a name that is not allowed, or leaves the tree or the scope
│   ├── LockTimeoutError          another writer held the namespace for too long
│   └── StorageError              the operating system refused
│       ├── ReadOnlyError         the vault cannot be written
│       └── NoSpaceError          the disk is full
├── StoreError                    the backend of a store
│   ├── StoreUnavailableError     it cannot be reached, opened or written
│   │   ├── StoreLockedError      another writer held it for too long
│   │   ├── ServerUnreachableError    nobody answers at the address
│   │   ├── AccessRefusedError    a wrong password, or something that this user may not do
│   │   ├── MissingDatabaseError  the server has no database of this name
│   │   ├── MissingTablesError    the database holds nothing of memfs
│   │   └── MissingExtensionError  the server lacks an extension
│   ├── StoreDamagedError         what it keeps cannot be read
│   └── NewerSchemaError          it was written by a later memfs
├── SearchError
│   └── InvalidSearchError        a limit or a filter that cannot be
├── SettingsError                 memfs.yaml or an argument is wrong
│   ├── InvalidQueriesError       queries.yaml is wrong, at a line of it
│   ├── InvalidKeyError           a key for encryption that is not set, or is none
│   ├── InvalidSetupError         a manager, a store or a tool that cannot be set up so (a ValueError too)
│   ├── MissingExtraError         something that wants a package which is not installed
│   ├── UnknownStoreError         an address that nothing which is installed understands
│   └── StorePluginError          the plugin for an address cannot be loaded
├── InvalidArgumentsError         a tool was called in a way it does not know (a ValueError too)
├── ExtractionError               a model's answer held no facts that could be read
└── AggregateMemoryError          several errors of one call

Each carries its facts as attributes, words itself, and knows the way on (`hint`) and the exit code of the
command line.
"""

from collections.abc import Sequence
from typing import Self


class MemfsError(Exception):
    """The root of the tree: facts in, one line of words out."""

    hint = ""
    exit_code = 1
    template = "{0}"

    def __init__(self, *facts: object) -> None:
        super().__init__(*facts)

    def __str__(self) -> str:
        return self.template.format(*self.args)

    def with_hint(self, hint: str) -> Self:
        """The error, with another way on than those of its kind have."""
        self.hint = hint
        return self


class VaultError(MemfsError):
    """Something about a vault or a memory in it."""


class VaultNotFoundError(VaultError):
    """No vault here."""

    template = "{0}: no vault here"
    hint = "Make one with `memfs init DIR`, or name one with --vault DIR or MEMFS_VAULT."
    exit_code = 2

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


class MemoryNotFoundError(VaultError):
    """No memory has this id or path."""

    template = "{0!r}: no such memory"
    hint = "See what there is with `memfs list`."

    def __init__(self, ref: str) -> None:
        self.ref = ref
        super().__init__(ref)


class VersionNotFoundError(MemoryNotFoundError):
    """No kept version of a memory differs from its file, or none has such a hash."""

    hint = "See which there are with `memfs versions`; memfs keeps one when it writes."

    def __init__(self, ref: str, version: str = "") -> None:
        self.ref, self.version = ref, version
        VaultError.__init__(self, ref, version)

    def __str__(self) -> str:
        which = f"begins with {self.version!r}" if self.version else "differs from the file"
        return f"{self.ref}: no kept version {which}"


class PlaceNotFoundError(VaultError):
    """No namespace, or no file, of the vault has this name."""

    template = "{0!r}: no such {1} in this vault"
    hint = "See what there is with `memfs list`."

    def __init__(self, name: str, kind: str = "namespace") -> None:
        self.name, self.kind = name, kind
        super().__init__(name, kind)


class AmbiguousNameError(VaultError):
    """Several memories have this name."""

    template = "{0!r}: may mean {1}"
    hint = "Name it by its path."
    exit_code = 2

    def __init__(self, name: str, paths: Sequence[str]) -> None:
        self.name, self.paths = name, tuple(paths)
        super().__init__(name, self.paths)

    def __str__(self) -> str:
        more = f" and {len(self.paths) - 5:,} more" if len(self.paths) > 5 else ""
        return self.template.format(self.name, ", ".join(self.paths[:5]) + more)


class SessionNotFoundError(VaultError):
    """No session, log, branch or event has this name."""

    template = "{0!r}: no such session, log, branch or event"
    hint = "See which there are with `memfs sessions list`."

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


class OtherActorError(VaultError):
    """The log is of a conversation with another actor; nothing of it was read or written."""

    template = "{0}: the log of actor {1!r}, not of {2!r}"
    hint = "Choose another session or agent id, one for each actor."
    exit_code = 2

    def __init__(self, path: str, actor: str, wanted: str) -> None:
        self.path, self.actor, self.wanted = path, actor, wanted
        super().__init__(path, actor, wanted)


class MemoryExistsError(VaultError):
    """The name is taken by another memory."""

    template = "{0}: already exists"
    hint = "Choose another name, or remove the memory that has it."
    exit_code = 3

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


class MemoryChangedError(VaultError):
    """The file is not the one that was read; nothing was written."""

    template = "{0}: changed on disk since it was read"
    hint = "Read it again and repeat the change."
    exit_code = 3

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


class MalformedMemoryError(VaultError):
    """The file cannot be edited without touching more than was asked for; nothing was written."""

    template = "{0}:{1}: {2}"
    hint = "Mend the file in an editor; `memfs check` shows what is wrong with it."

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(path, line, reason)


def short_repr(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


class InvalidMemoryError(VaultError):
    """A text or a header value that cannot be stored."""

    template = "{0}: {1}"
    hint = "Change the value; docs/format.md lists what each key allows."
    exit_code = 2

    def __init__(self, subject: str, reason: str) -> None:
        self.subject, self.reason = subject, reason
        super().__init__(subject, reason)


class SecretRefusedError(InvalidMemoryError, ValueError):
    """An agent's text that holds what the vault refuses, by kind and line, never the text; nothing was written."""

    template = "{0}: holds {1} on line {2}, which is not stored"
    hint = "Say it without the secret; `redaction` in memfs.yaml sets what is refused: docs/safety.md."

    def __init__(self, subject: str, kind: str, line: int) -> None:
        VaultError.__init__(self, subject, kind, line)
        self.subject, self.kind, self.line = subject, kind, line
        self.reason = f"holds {kind} on line {line}"


class DecryptionError(VaultError):
    """An encrypted text that cannot be decrypted; the file stays as it is."""

    template = "{0}: {1}: cannot be decrypted with the key {2!r}: {3}"
    hint = "Set the key that it was encrypted with; what was altered comes back by `memfs restore`, or from git."

    def __init__(self, path: str, field: str, key: str, reason: str) -> None:
        self.path, self.field, self.key, self.reason = path, field, key, reason
        super().__init__(path, field, key, reason)


class InvalidNamespaceError(VaultError):
    """A name that is not allowed, or that leaves the tree or the scope."""

    template = "{0!r}: {1}"
    hint = "Use a namespace such as /facts/alice: plain names between slashes."
    exit_code = 2

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(name, reason)


class LockTimeoutError(VaultError):
    """Another writer held the namespace until the deadline; nothing was written."""

    template = "{0}: still locked by another writer after {1:g} s"
    hint = "Try again; if nobody should be writing, look for a stopped memfs process."
    exit_code = 4

    def __init__(self, namespace: str, seconds: float) -> None:
        self.namespace, self.seconds = namespace, seconds
        super().__init__(namespace, seconds)


class StorageError(VaultError):
    """The operating system refused; nothing was written."""

    template = "{0}: {1}"
    hint = "See to what the system says, and repeat."

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(path, reason)


class ReadOnlyError(StorageError):
    """The vault, or a part of it, cannot be written; nothing was written."""

    template = "{0}: not writable: {1}"
    hint = "Check the permissions of the vault, or work on a copy of it."


class NoSpaceError(StorageError):
    """The disk is full; nothing was written."""

    template = "{0}: no space left: {1}"
    hint = "Free some space and repeat; what was acknowledged before is on disk."


class StoreError(MemfsError):
    """Something about the backend of a store."""

    template = "{0}: {1}"

    def __init__(self, place: str, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(place, reason)


class StoreUnavailableError(StoreError):
    """The backend cannot be reached, opened or written; what was acknowledged before is kept."""

    hint = "See to what it says, and repeat."


class StoreLockedError(StoreUnavailableError):
    """Another writer held it until the deadline; nothing was written."""

    hint = "Try again; if nobody should be writing, look for a stopped process."
    exit_code = 4


class ServerUnreachableError(StoreUnavailableError):
    """Nobody answers at the address, or the connection broke."""

    hint = "Check that the server runs, and the host and port in the URL."


class AccessRefusedError(StoreUnavailableError):
    """The server does not know the user or the password, or does not let them do this."""

    hint = "Check user and password; docs/hub.md lists what a user must be granted."


class MissingDatabaseError(StoreUnavailableError):
    """The server has no database of this name."""

    hint = "Check the name behind the last slash of the URL, or make the database with `createdb`."


class MissingTablesError(StoreUnavailableError):
    """The database holds nothing of memfs yet."""

    hint = "Push to it first, or check the name of the database."


class MissingExtensionError(StoreUnavailableError):
    """The server lacks an extension that is wanted."""

    hint = "Have an administrator install pgvector and run `CREATE EXTENSION vector`, or go without an embedder."


class StoreDamagedError(StoreError):
    """What the backend keeps cannot be read; nothing was changed in it."""

    hint = "Bring it back from a copy, or move it away to begin anew."


class NewerSchemaError(StoreError):
    """The backend was written by a later memfs; nothing was changed in it."""

    template = "{0}: has schema version {1}, and this memfs knows versions up to {2}"
    hint = "Install a later memfs: pip install --upgrade memfs-vault."
    exit_code = 2

    def __init__(self, place: str, found: int, known: int) -> None:
        self.place, self.found, self.known = place, found, known
        MemfsError.__init__(self, place, found, known)


class SearchError(MemfsError):
    """Something about a search."""


class InvalidSearchError(SearchError):
    """A limit or a filter that cannot be."""

    template = "{0}: {1}"
    hint = "docs/search.md lists what a search takes."
    exit_code = 2

    def __init__(self, subject: str, reason: str) -> None:
        self.subject, self.reason = subject, reason
        super().__init__(subject, reason)


class SettingsError(MemfsError):
    """memfs.yaml, or an argument, is wrong."""

    template = "{0}: {1}"
    hint = "docs/format.md lists the settings."
    exit_code = 2

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(where, reason)


class InvalidQueriesError(SettingsError):
    """The questions of an evaluation cannot be asked so; none was."""

    template = "{0}:{1}: {2}"
    hint = "docs/evaluation.md shows what a question may hold."

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line = path, line
        self.where, self.reason = f"{path}:{line}", reason
        MemfsError.__init__(self, path, line, reason)


class InvalidKeyError(SettingsError):
    """A key for encryption that is not set, or is none; nothing was written."""

    hint = "Set the variable to the key, in base64 or hex; `memfs keygen` makes a new one."


class InvalidSetupError(SettingsError, ValueError):
    """A manager, a store or a tool that cannot be set up so."""

    hint = "docs/agents.md and docs/stores.md list what each takes."


class MissingExtraError(SettingsError):
    """Something that wants a package which is not installed."""

    template = "{0}: wants the extra {1!r}, which is not installed"

    def __init__(self, subject: str, extra: str) -> None:
        self.subject, self.extra = subject, extra
        MemfsError.__init__(self, subject, extra)
        self.hint = f"Install it: pip install 'memfs-vault[{extra}]'."


class UnknownStoreError(SettingsError):
    """An address that nothing which is installed understands."""

    template = "{0}: no store has such addresses; there are {1}"

    def __init__(self, scheme: str, installed: tuple[str, ...], extras: tuple[str, ...]) -> None:
        self.scheme, self.installed, self.extras = scheme, installed, extras
        MemfsError.__init__(self, scheme, installed, extras)
        install = [f"pip install 'memfs-vault[{extra}]'" for extra in extras]
        more = f" More come with {', '.join(install)}." if install else ""
        self.hint = f"Install a plugin that brings {scheme!r} as an entry point of the group memfs.stores.{more}"

    def __str__(self) -> str:
        return self.template.format(self.scheme, ", ".join(f"{one}:" for one in self.installed))


class StorePluginError(SettingsError):
    """The plugin for an address cannot be loaded."""

    template = "{0}: the plugin {1} cannot be loaded: {2}"
    hint = "Install it again, or tell those who make it."

    def __init__(self, scheme: str, plugin: str, reason: str) -> None:
        self.scheme, self.plugin, self.reason = scheme, plugin, reason
        MemfsError.__init__(self, scheme, plugin, reason)


class InvalidArgumentsError(MemfsError, ValueError):
    """A tool was called in a way it does not know; nothing was done."""

    template = "{0}: {1}"
    hint = "Call it as its description says."
    exit_code = 2

    def __init__(self, tool: str, reason: str) -> None:
        self.tool, self.reason = tool, reason
        super().__init__(tool, reason)


class ExtractionError(MemfsError):
    """A model's answer held no facts that could be read, also when it was asked again."""

    template = "{0}: {1}"
    hint = "The turns are kept; see `memfs retry`."

    def __init__(self, model: str, reason: str) -> None:
        self.model, self.reason = model, reason
        super().__init__(model, reason)


class AggregateMemoryError(MemfsError):
    """Several errors of one call; what did not fail was done."""

    template = "{0}: {1}"
    hint = "Each error is in `errors`; repeat what failed."

    def __init__(self, message: str, errors: Sequence[BaseException]) -> None:
        self.message, self.errors = message, tuple(errors)
        super().__init__(message, self.errors)

    def __str__(self) -> str:
        return f"{self.message}: " + "; ".join(str(error) for error in self.errors)
