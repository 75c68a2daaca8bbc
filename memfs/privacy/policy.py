"""Redaction: what an agent writes, without what should not be kept. Never run on what a person saved.

A policy says for each kind of thing whether it is left alone (`off`), replaced (`redact`) or refused (`reject`). What
was found is told by kind, line and number, never by its text.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from memfs.data_types import lazy
from memfs.errors import InvalidSetupError, SecretRefusedError, short_repr
from memfs.privacy.detectors import Detector, Find, Finding, first_look, found_by
from memfs.privacy.pii_patterns import PERSONAL
from memfs.privacy.secret_patterns import SECRETS, kind_of_named
from memfs.vault.settings import ACTIONS, PERSONAL_KINDS, SECRET_KINDS, Action

if TYPE_CHECKING:
    from memfs.vault.vault import Vault

log = logging.getLogger("memfs.redaction")
T = TypeVar("T")
DETECTORS = (*SECRETS, *PERSONAL)
DEFAULTS: Mapping[str, Action] = MappingProxyType(
    {
        **dict.fromkeys(PERSONAL_KINDS, "off"),
        "card": "redact",
        "iban": "redact",
        **dict.fromkeys(SECRET_KINDS, "reject"),
    }
)
ROUNDS = 8  # in which a text is looked at, for what was replaced may have kept something else from being seen
LEAST = 6  # signs of the shortest thing that a detector of memfs finds
LONG = 10**12  # a whole number from here on may be that of a card
_PLAIN = (bool, float, date, type(None))  # holds nothing that a detector reads
_BYTES = (bytes, bytearray)  # of a picture, say; a store would write them as words
_WRAPPERS = frozenset({"value", "stringvalue"})  # names of values whose own name stands beside, or above


def scan_text(text: str) -> list[Finding]:
    """Everything that the detectors know, in order, whatever a policy says of it."""
    return found_by(DETECTORS, text)


def is_secret(kind: str) -> bool:
    """Tell whether a kind is that of a key, a token or a password."""
    return kind in SECRET_KINDS


def marker(kind: str) -> str:
    """What stands in the place of a finding."""
    return f"[redacted: {kind}]"


class Redacted(NamedTuple, Generic[T]):
    """A value as it may be written, and how many things of which kind are not in it any more."""

    value: T
    counts: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Policy:
    """What is done with each kind; `actions` by kind, or by `secrets` for all secrets, change the defaults."""

    actions: Mapping[str, str] = field(default_factory=dict)
    own: tuple[Detector, ...] = ()
    _known: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _active: tuple[Detector, ...] = field(init=False, repr=False, compare=False)
    may_find: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    """Tells, in microseconds, whether a text is worth a closer look; it may also be a value spelled as JSON."""

    def __post_init__(self) -> None:
        known = _settled(self.actions, [detector.kind for detector in self.own])
        active = tuple(one for one in (*DETECTORS, *self.own) if known[one.kind] != "off")
        for name, value in (("_known", known), ("_active", active), ("may_find", first_look(active))):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, vault: "Vault") -> "Policy":
        """The policy that `memfs.yaml` of a vault sets."""
        return _made(tuple((vault.settings.get("redaction") or {}).items()))

    def with_detector(self, kind: str, find: Find, action: Action = "redact") -> "Policy":
        """The policy with a detector of one's own: a function that gives the start and end of what it finds."""
        if not callable(find) or not isinstance(kind, str) or not kind.strip() or kind in (*DEFAULTS, "secrets"):
            raise InvalidSetupError(
                "redaction", f"{short_repr(kind)}: a detector has a name of its own, and a function"
            )
        return replace(self, actions={**self.actions, kind: action}, own=(*self.own, Detector(kind, find)))

    @property
    def least(self) -> int:
        """The length below which a text holds nothing."""
        return 0 if self.own else LEAST

    def action(self, kind: str) -> str:
        """What is done with a kind: off, redact or reject."""
        return self._known[kind]

    def findings(self, text: str) -> list[Finding]:
        """What in a text is not left alone."""
        return found_by(self._active, text)

    def admit(self, value: T, subject: str = "text", *, known: str = "") -> Redacted[T]:
        """A text, or any value of JSON, as it may be written; SecretRefusedError if it holds what is rejected.

        What stands in `known` already, the text that a new one replaces, stays.
        """
        return self._cleaned(value, _Pass(self, refuses=subject, known=known))

    def redact(self, value: T, *, known: str = "") -> Redacted[T]:
        """A text, or any value of JSON, as it may be written, where nothing can be refused: what is rejected is out."""
        return self._cleaned(value, _Pass(self, known=known))

    def _cleaned(self, value: T, over: "_Pass") -> Redacted[T]:
        if isinstance(value, str):
            return Redacted(over.text(value), over.counts) if self.may_find(value) else Redacted(value)
        if not self.may_find("\n".join(_texts(value, reads_bytes=over.reads_bytes))):
            return Redacted(value)
        return Redacted(over.value(value), over.counts)


@cache
def _made(actions: tuple[tuple[str, str], ...]) -> Policy:
    return Policy(dict(actions))


class _Pass:
    """One pass over a value."""

    def __init__(self, policy: Policy, *, refuses: str = "", known: str = "") -> None:
        self._policy, self._refuses, self._text_before = policy, refuses, known
        self.counts: Counter[str] = Counter()

    @property
    def reads_bytes(self) -> bool:
        """Tell whether bytes are looked at: where they become words."""
        return bool(self._refuses)

    def text(self, text: str) -> Any:
        """A text with a marker in the place of each finding."""
        for _ in range(ROUNDS if len(text) >= self._policy.least else 0):
            found = self._policy.findings(text)
            if found and self._text_before:
                found = [one for one in found if text[one.start : one.end] not in self._known]
            if not found:
                break
            pieces, at = [], 0
            for one in found:
                pieces += [text[at : one.start], self._replaced(one.kind, one.line)]
                at = one.end
            text = "".join([*pieces, text[at:]])
        return text

    @lazy
    def _known(self) -> set[str]:
        """What was there before, and stays."""
        before = self._text_before
        return {before[one.start : one.end] for one in self._policy.findings(before)}

    def _replaced(self, kind: str, line: int) -> str:
        if self._refuses and self._policy.action(kind) == "reject":
            raise SecretRefusedError(self._refuses, kind, line)
        self.counts[kind] += 1
        return marker(kind)

    def value(self, value: Any) -> Any:
        """A copy of a value, its texts cleaned; names of mappings are texts too, and tell what they are the name of."""
        top = [value]
        waiting: list[tuple[Any, Any, str]] = [(top, 0, "")]
        copies: dict[int, Any] = {}  # of what is there twice, or within itself
        while waiting:
            place, key, name = waiting.pop()
            held = place[key]
            if id(held) in copies:
                place[key] = copies[id(held)]
            elif isinstance(held, Mapping):
                place[key] = copies[id(held)] = copy = self._keys(held)
                waiting += [(copy, new, _name(held, old, name)) for new, old in zip(copy, held, strict=True)]
            elif isinstance(held, list | tuple):
                place[key] = copies[id(held)] = items = list(held)
                waiting += [(items, at, name) for at in range(len(items))]
            else:
                place[key] = self._leaf(held, name)
        return top[0]

    def _keys(self, held: Mapping[Any, Any]) -> dict[Any, Any]:
        """A mapping whose names are cleaned, each still another one."""
        copy: dict[Any, Any] = {}
        for key, value in held.items():
            new = self.text(key) if isinstance(key, str) else key
            while new in copy:
                new = f"{new} "
            copy[new] = value
        return copy

    def _leaf(self, held: Any, name: str) -> Any:
        if (text := _text(held, reads_bytes=self.reads_bytes)) is None:
            return held
        cleaned = self.text(text)
        kind = kind_of_named(name, cleaned) if name and cleaned.strip() else None
        if kind and self._policy.action(kind) != "off":
            return self._replaced(kind, 1)
        return held if cleaned == text else cleaned


def log_redactions(where: str, counts: Mapping[str, int]) -> None:
    """Tell the log how much was redacted, if anything was."""
    if counts:
        log.info("%s: redacted %s", where, ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))


def _settled(given: Mapping[str, str], own: Iterable[str]) -> Mapping[str, str]:
    """The action of every kind; InvalidSetupError for a kind, or an action, that is none."""
    allowed = [*DEFAULTS, "secrets", *own]
    for kind, action in given.items():
        if kind not in allowed:
            raise InvalidSetupError("redaction", f"unknown kind {short_repr(kind)}; known: {', '.join(allowed)}")
        if action not in ACTIONS:
            raise InvalidSetupError("redaction", f"{kind}: {short_repr(action)} is not one of {', '.join(ACTIONS)}")
    secrets = dict.fromkeys(SECRET_KINDS, given["secrets"]) if "secrets" in given else {}
    return {**DEFAULTS, **secrets, **{kind: action for kind, action in given.items() if kind != "secrets"}}


def _name(held: Mapping[Any, Any], key: object, above: str) -> str:
    """What a value in a mapping is called: by its key, or by what stands beside or above a mere `value`."""
    name = str(key)
    if name.lower() not in _WRAPPERS:
        return name
    beside = held.get("name") or held.get("key")
    return beside if isinstance(beside, str) else above or name


def _texts(value: Any, *, reads_bytes: bool) -> list[str]:
    """The texts in a value, those that name others too."""
    found: list[str] = []
    waiting, seen = [value], set()
    while waiting:
        held = waiting.pop()
        if isinstance(held, str):
            found.append(held)
        elif isinstance(held, Mapping | list | tuple):
            if id(held) not in seen:
                seen.add(id(held))
                waiting += [*held.keys(), *held.values()] if isinstance(held, Mapping) else held
        elif (text := _text(held, reads_bytes=reads_bytes)) is not None:
            found.append(text)
    return found


def _text(held: Any, *, reads_bytes: bool) -> str | None:
    """What a detector reads of a value that is no list and no mapping; None if nothing."""
    if isinstance(held, str):
        return held
    if isinstance(held, _BYTES):
        return str(bytes(held)) if reads_bytes else None
    if isinstance(held, _PLAIN) or (isinstance(held, int) and abs(held) < LONG):
        return None
    return str(held)


DEFAULT_POLICY = Policy()
