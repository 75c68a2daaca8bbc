"""Settings of a session: whose it is, what is looked up and what is distilled. Checked when they are made."""

import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from memfs.agent.distill.strategies import Strategy, check_strategy
from memfs.errors import InvalidNamespaceError, InvalidSetupError, MemfsError, short_repr
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, Template, encode_segment, is_utf8_encodable
from memfs.privacy.policy import Policy
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")
MOST_RESULTS = 1000
LARGEST_BATCH = 100
MOST_METADATA = 15  # keys of one message
_TAG = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
Scalar = str | int | float | bool


class PersistenceMode(StrEnum):
    """Whether a session is written down: FULL, or NONE, which reads what is there and writes nothing."""

    FULL = "FULL"
    NONE = "NONE"


@dataclass(frozen=True)
class RetrievalConfig:
    """How much of one namespace is told: the best `top_k` whose relevance is `relevance_score` or more.

    `strategy_id` lets only memories of one type through: a type, or the name of a strategy.
    """

    top_k: int = 10
    relevance_score: float = 0.2
    strategy_id: str | None = None

    def __post_init__(self) -> None:
        check = _Check("RetrievalConfig")
        check.whole("top_k", self.top_k, MOST_RESULTS)
        check.number("relevance_score", self.relevance_score, 1)
        if self.strategy_id is not None:
            check.text("strategy_id", self.strategy_id)


@dataclass(frozen=True)
class VaultMemoryConfig:
    """The memory of one session in a vault: a Vault, or the path of one.

    `retrieval_config` says what of which namespaces is told on a user turn; `strategies` what is distilled from the
    session. Up to `batch_size` messages wait in memory for one write, no longer than `flush_interval_seconds`.
    """

    vault: Vault | str | os.PathLike[str]
    session_id: str
    actor_id: str
    retrieval_config: Mapping[str, RetrievalConfig] | None = None
    batch_size: int = 1
    flush_interval_seconds: float | None = None
    context_tag: str = "user_context"
    filter_restored_tool_context: bool = False
    default_metadata: Mapping[str, Scalar] | None = None
    metadata_provider: Callable[[], Mapping[str, Scalar]] | None = None
    persistence_mode: PersistenceMode = PersistenceMode.FULL
    strategies: Sequence[Strategy] = field(default=())
    redaction: Policy | None = None  # what memfs.yaml says, unless one is given

    def __post_init__(self) -> None:
        check = _Check("VaultMemoryConfig")
        is_place = isinstance(self.vault, Vault | os.PathLike) or (isinstance(self.vault, str) and self.vault.strip())
        check.that(bool(is_place), "vault", self.vault, "a vault or a path")
        is_whole = not isinstance(self.vault, Vault) or not self.vault.namespace.segments
        check.that(is_whole, "vault", self.vault, "a whole vault: sessions lie outside of a scope")
        check.name("session_id", self.session_id)
        check.name("actor_id", self.actor_id)
        check.whole("batch_size", self.batch_size, LARGEST_BATCH)
        if self.flush_interval_seconds is not None:
            check.number("flush_interval_seconds", self.flush_interval_seconds, math.inf, above=True)
        is_tag = isinstance(self.context_tag, str) and _TAG.fullmatch(self.context_tag) is not None
        check.that(is_tag, "context_tag", self.context_tag, "a name such as user_context")
        is_flag = isinstance(self.filter_restored_tool_context, bool)
        check.that(is_flag, "filter_restored_tool_context", self.filter_restored_tool_context, "True or False")
        check.metadata("default_metadata", self.default_metadata)
        is_function = self.metadata_provider is None or callable(self.metadata_provider)
        check.that(is_function, "metadata_provider", self.metadata_provider, "a function")
        is_policy = self.redaction is None or isinstance(self.redaction, Policy)
        check.that(is_policy, "redaction", self.redaction, "a policy such as Policy({'email': 'redact'})")
        self._set("persistence_mode", check.mode(self.persistence_mode))
        self._set("strategies", self._checked_strategies(check))
        self._set("retrieval_config", self._checked_retrieval(check))

    def namespace_of(self, template: str, strategy: str = "") -> str:
        """A template filled for this session."""
        return str(Template(template).render(actor=self.actor_id, session=self.session_id, strategy=strategy))

    def lookups(self) -> list[tuple[str, RetrievalConfig]]:
        """The namespaces that are searched, in their order, each with what of it is told."""
        types = {strategy.name: getattr(strategy, "type", "fact") for strategy in self.strategies}
        found = []
        for template, how in (self.retrieval_config or {}).items():
            named = how.strategy_id
            kind = RetrievalConfig(how.top_k, how.relevance_score, types.get(named, named) if named else None)
            found.append((self.namespace_of(template, named or ""), kind))
        return found

    def metadata(self) -> dict[str, Scalar]:
        """What goes along with a message that is written now; a provider that fails adds nothing."""
        told = dict(self.default_metadata or {})
        if self.metadata_provider is not None:
            try:
                given = self.metadata_provider()
                _Check("VaultMemoryConfig").metadata("metadata_provider", {**told, **given})
                told |= given
            except Exception as error:
                log.warning("a message goes without the metadata of its provider: %s", error)
        return told

    def _checked_strategies(self, check: "_Check") -> tuple[Strategy, ...]:
        given = self.strategies
        is_list = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
        check.that(is_list, "strategies", given, "a list such as [FactStrategy()]")
        chosen = tuple(given)
        for at, strategy in enumerate(chosen):
            where = f"strategies[{at}]"
            check_strategy(f"{check.subject}: {where}", strategy)
            self._checked_template(check, where, strategy.namespace, strategy.name)
        names = [strategy.name for strategy in chosen]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise check.error("strategies", f"two have the name {twice[0]!r}")
        return chosen

    def _checked_retrieval(self, check: "_Check") -> Mapping[str, RetrievalConfig] | None:
        given = self.retrieval_config
        if given is None:
            return None
        is_right = isinstance(given, Mapping)
        check.that(is_right, "retrieval_config", given, "a mapping such as {'/facts/{actorId}': RetrievalConfig()}")
        for template, how in given.items():
            where = f"retrieval_config[{short_repr(template)}]"
            check.that(isinstance(template, str), "retrieval_config", template, "a template such as '/facts/{actorId}'")
            check.that(isinstance(how, RetrievalConfig), where, how, "a RetrievalConfig")
            self._checked_template(check, where, template, how.strategy_id or "")
        return MappingProxyType(dict(given))

    def _checked_template(self, check: "_Check", where: str, template: str, strategy: str) -> None:
        try:
            namespace = Namespace.parse(self.namespace_of(template, strategy))
        except MemfsError as error:
            raise check.error(where, str(error)) from error
        if is_below(namespace.segments, ARCHIVE, SESSIONS):
            raise check.error(where, f"{namespace.segments[0]}/ is not for memories in force")

    def _set(self, name: str, value: Any) -> None:
        """Keep what was given in the form it was checked in."""
        object.__setattr__(self, name, value)


@dataclass(frozen=True)
class _Check:
    """Refuses values, each by the name of its field."""

    subject: str

    def error(self, name: str, reason: str) -> InvalidSetupError:
        error = InvalidSetupError(self.subject, f"{name}: {reason}")
        error.hint = "docs/sessions.md lists what each takes."
        return error

    def that(self, is_right: bool, name: str, value: object, allowed: str) -> None:
        if not is_right:
            raise self.error(name, f"{short_repr(value)} is not {allowed}")

    def text(self, name: str, value: object) -> None:
        self.that(isinstance(value, str) and bool(value.strip()) and is_utf8_encodable(value), name, value, "a text")

    def name(self, name: str, value: object) -> None:
        """Refuse what cannot be one name in the vault."""
        self.text(name, value)
        try:
            Namespace.parse(encode_segment(str(value)))
        except InvalidNamespaceError as error:
            raise self.error(name, f"{short_repr(value)} makes {error.reason}") from error

    def whole(self, name: str, value: object, most: int) -> None:
        is_right = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
        self.that(is_right, name, value, f"a whole number from 1 to {most}")

    def number(self, name: str, value: object, most: float, *, above: bool = False) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        is_right = is_number and (value > 0 if above else 0 <= value <= most)  # type: ignore[operator]
        self.that(is_right, name, value, "a number above 0" if above else f"a number from 0 to {most}")

    def metadata(self, name: str, value: object) -> None:
        if value is None:
            return
        self.that(isinstance(value, Mapping), name, value, "a mapping of texts to texts, numbers or flags")
        assert isinstance(value, Mapping)
        for key, one in value.items():
            self.that(isinstance(key, str) and bool(key.strip()) and is_utf8_encodable(key), name, key, "a key: a text")
            is_scalar = isinstance(one, str | int | float) and math.isfinite(0 if isinstance(one, str) else one)
            self.that(is_scalar, f"{name}[{key!r}]", one, "a text, a number or a flag")
        if len(value) > MOST_METADATA:
            raise self.error(name, f"{len(value)} keys, and {MOST_METADATA} are the most")

    def mode(self, value: object) -> PersistenceMode:
        modes = {str(mode): mode for mode in PersistenceMode}
        is_right = isinstance(value, str) and value in modes
        self.that(is_right, "persistence_mode", value, f"one of {', '.join(modes)}")
        return modes[str(value)]
