"""The redaction policy for everything that an agent writes. It is never applied to files that a person saves.

A policy maps each kind of secret and personal data to an action: `off` leaves it, `redact` replaces it, `reject`
refuses the text. Findings are reported by kind, line and count, never with their text.
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
from memfs.privacy.detectors import Detector, Finding, FindSpans, build_prefilter, find_all
from memfs.privacy.pii_patterns import PII_DETECTORS
from memfs.privacy.secret_patterns import SECRET_DETECTORS, secret_kind_by_name
from memfs.vault.settings import ACTIONS, PERSONAL_KINDS, SECRET_KINDS, Action

if TYPE_CHECKING:
    from memfs.vault.vault import Vault

log = logging.getLogger("memfs.redaction")
T = TypeVar("T")
DETECTORS = (*SECRET_DETECTORS, *PII_DETECTORS)
DEFAULT_ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        **dict.fromkeys(PERSONAL_KINDS, "off"),
        "card": "redact",
        "iban": "redact",
        **dict.fromkeys(SECRET_KINDS, "reject"),
    }
)
MAX_ROUNDS = 8  # over one text: a replacement may uncover another finding
MIN_FINDING_CHARS = 6  # length of the shortest finding of the built-in detectors
MIN_CARD_INTEGER = 10**12  # a smaller whole number is not a card number
_SKIPPED_TYPES = (bool, float, date, type(None))  # never contain a finding
_BYTES = (bytes, bytearray)  # of a picture, for example; a store would write them as text
_WRAPPER_KEYS = frozenset({"value", "stringvalue"})  # keys that do not name their value: see _value_name


def scan_text(text: str) -> list[Finding]:
    """Return the findings of all built-in detectors, in order, whatever the policy."""
    return find_all(DETECTORS, text)


def is_secret(kind: str) -> bool:
    """Return whether a kind is a secret: a key, a token or a password."""
    return kind in SECRET_KINDS


def marker(kind: str) -> str:
    """Return the replacement for a finding."""
    return f"[redacted: {kind}]"


class Redacted(NamedTuple, Generic[T]):
    """A redacted value, and the number of replaced findings by kind."""

    value: T
    counts: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Policy:
    """The action for each kind; `actions` override the defaults, by kind or by `secrets` for all secrets."""

    actions: Mapping[str, str] = field(default_factory=dict)
    custom_detectors: tuple[Detector, ...] = ()
    _actions: Mapping[str, str] = field(init=False, repr=False, compare=False)
    _active: tuple[Detector, ...] = field(init=False, repr=False, compare=False)
    may_find: Callable[[str], bool] = field(init=False, repr=False, compare=False)
    """Returns, in microseconds, whether a text, or a value encoded as JSON, may contain a finding."""

    def __post_init__(self) -> None:
        actions = _resolve_actions(self.actions, [detector.kind for detector in self.custom_detectors])
        active = tuple(one for one in (*DETECTORS, *self.custom_detectors) if actions[one.kind] != "off")
        for name, value in (("_actions", actions), ("_active", active), ("may_find", build_prefilter(active))):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, vault: "Vault") -> "Policy":
        """Return the policy in `memfs.yaml` of a vault; the default policy if it sets none."""
        return _cached_policy(tuple((vault.settings.get("redaction") or {}).items()))

    def with_detector(self, kind: str, find: FindSpans, action: Action = "redact") -> "Policy":
        """Return the policy with a custom detector: a function that returns the start and end of each match.

        Raise InvalidSetupError for a kind that exists already, or an unknown action.
        """
        if not callable(find) or not isinstance(kind, str) or not kind.strip() or kind in (*DEFAULT_ACTIONS, "secrets"):
            raise InvalidSetupError("redaction", f"{short_repr(kind)}: a detector needs a new name and a function")
        return replace(
            self,
            actions={**self.actions, kind: action},
            custom_detectors=(*self.custom_detectors, Detector(kind, find)),
        )

    @property
    def min_text_chars(self) -> int:
        """The length below which a text has no findings."""
        return 0 if self.custom_detectors else MIN_FINDING_CHARS

    def action(self, kind: str) -> str:
        """Return the action for a kind: off, redact or reject. Raise KeyError for an unknown kind."""
        return self._actions[kind]

    def findings(self, text: str) -> list[Finding]:
        """Return the findings in a text whose action is not `off`."""
        return find_all(self._active, text)

    def admit(self, value: T, subject: str = "text", *, known: str = "") -> Redacted[T]:
        """Return a text, or any JSON value, redacted; raise SecretRefusedError if it contains a rejected kind.

        `known` is the text that the new one replaces: findings that it has too are neither redacted nor refused.
        `subject` names the value in the error.
        """
        return self._apply(value, _Redactor(self, subject=subject, known=known))

    def redact(self, value: T, *, known: str = "") -> Redacted[T]:
        """Return a text, or any JSON value, with rejected kinds redacted too, for data that cannot be refused."""
        return self._apply(value, _Redactor(self, known=known))

    def _apply(self, value: T, redactor: "_Redactor") -> Redacted[T]:
        if isinstance(value, str):
            return Redacted(redactor.redact_text(value), redactor.counts) if self.may_find(value) else Redacted(value)
        if not self.may_find("\n".join(_texts(value, reads_bytes=redactor.reads_bytes))):
            return Redacted(value)
        return Redacted(redactor.redact_value(value), redactor.counts)


@cache
def _cached_policy(actions: tuple[tuple[str, str], ...]) -> Policy:
    return Policy(dict(actions))


class _Redactor:
    """Redacts one value and counts the findings. With a `subject`, rejected kinds raise SecretRefusedError."""

    def __init__(self, policy: Policy, *, subject: str = "", known: str = "") -> None:
        self._policy, self._subject, self._known_text = policy, subject, known
        self.counts: Counter[str] = Counter()

    @property
    def reads_bytes(self) -> bool:
        """Whether bytes are scanned: only for stores, which write them as text."""
        return bool(self._subject)

    def redact_text(self, text: str) -> Any:
        """Return a text with a marker in place of each finding."""
        for _ in range(MAX_ROUNDS if len(text) >= self._policy.min_text_chars else 0):
            found = self._policy.findings(text)
            if found and self._known_text:
                found = [one for one in found if text[one.start : one.end] not in self._known_findings]
            if not found:
                break
            pieces, at = [], 0
            for one in found:
                pieces += [text[at : one.start], self._replacement(one.kind, one.line)]
                at = one.end
            text = "".join([*pieces, text[at:]])
        return text

    @lazy
    def _known_findings(self) -> set[str]:
        """Return the findings in the known text, which are not redacted."""
        known = self._known_text
        return {known[one.start : one.end] for one in self._policy.findings(known)}

    def _replacement(self, kind: str, line: int) -> str:
        if self._subject and self._policy.action(kind) == "reject":
            raise SecretRefusedError(self._subject, kind, line)
        self.counts[kind] += 1
        return marker(kind)

    def redact_value(self, value: Any) -> Any:
        """Return a copy of a value with its texts redacted, keys included; a key may also make its value a secret.

        It does not recurse, because a value may be deeply nested.
        """
        top = [value]
        pending: list[tuple[Any, Any, str]] = [(top, 0, "")]
        copies: dict[int, Any] = {}  # by id of the original, which may be shared or recursive
        while pending:
            parent, key, name = pending.pop()
            item = parent[key]
            if id(item) in copies:
                parent[key] = copies[id(item)]
            elif isinstance(item, Mapping):
                parent[key] = copies[id(item)] = copy = self._redact_keys(item)
                pending += [(copy, new, _value_name(item, old, name)) for new, old in zip(copy, item, strict=True)]
            elif isinstance(item, list | tuple):
                parent[key] = copies[id(item)] = items = list(item)
                pending += [(items, at, name) for at in range(len(items))]
            else:
                parent[key] = self._redact_leaf(item, name)
        return top[0]

    def _redact_keys(self, item: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return a mapping with its keys redacted and still distinct."""
        copy: dict[Any, Any] = {}
        for key, value in item.items():
            new = self.redact_text(key) if isinstance(key, str) else key
            while new in copy:
                new = f"{new} "
            copy[new] = value
        return copy

    def _redact_leaf(self, item: Any, name: str) -> Any:
        """Return a scalar redacted, by its text and by its name."""
        if (text := _text(item, reads_bytes=self.reads_bytes)) is None:
            return item
        redacted = self.redact_text(text)
        kind = secret_kind_by_name(name, redacted) if name and redacted.strip() else None
        if kind and self._policy.action(kind) != "off":
            return self._replacement(kind, 1)
        return item if redacted == text else redacted


def log_redactions(where: str, counts: Mapping[str, int]) -> None:
    """Log the number of redacted findings by kind, if there are any."""
    if counts:
        log.info("%s: redacted %s", where, ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))


def _resolve_actions(given: Mapping[str, str], custom_kinds: Iterable[str]) -> Mapping[str, str]:
    """Return the action for every kind; raise InvalidSetupError for an unknown kind or action."""
    allowed = [*DEFAULT_ACTIONS, "secrets", *custom_kinds]
    for kind, action in given.items():
        if kind not in allowed:
            raise InvalidSetupError("redaction", f"unknown kind {short_repr(kind)}; known: {', '.join(allowed)}")
        if action not in ACTIONS:
            raise InvalidSetupError("redaction", f"{kind}: {short_repr(action)} is not one of {', '.join(ACTIONS)}")
    secrets = dict.fromkeys(SECRET_KINDS, given["secrets"]) if "secrets" in given else {}
    return {**DEFAULT_ACTIONS, **secrets, **{kind: action for kind, action in given.items() if kind != "secrets"}}


def _value_name(item: Mapping[Any, Any], key: object, parent_name: str) -> str:
    """Return the name of a value in a mapping: its key, but in `{name: password, value: x}` the text of `name` (or of
    `key`), and in `{password: {value: x}}` the key of the outer mapping."""
    name = str(key)
    if name.lower() not in _WRAPPER_KEYS:
        return name
    sibling = item.get("name") or item.get("key")
    return sibling if isinstance(sibling, str) else parent_name or name


def _texts(value: Any, *, reads_bytes: bool) -> list[str]:
    """Return the texts in a value, keys included."""
    found: list[str] = []
    pending, seen = [value], set()
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping | list | tuple):
            if id(item) not in seen:
                seen.add(id(item))
                pending += [*item.keys(), *item.values()] if isinstance(item, Mapping) else item
        elif (text := _text(item, reads_bytes=reads_bytes)) is not None:
            found.append(text)
    return found


def _text(item: Any, *, reads_bytes: bool) -> str | None:
    """Return the text of a scalar for the detectors; None if it contains nothing for them."""
    if isinstance(item, str):
        return item
    if isinstance(item, _BYTES):
        return str(bytes(item)) if reads_bytes else None
    if isinstance(item, _SKIPPED_TYPES) or (isinstance(item, int) and abs(item) < MIN_CARD_INTEGER):
        return None
    return str(item)


DEFAULT_POLICY = Policy()
