"""Settings of a session: its actor, the namespaces to retrieve from, and the strategies. Checked on creation."""

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
from memfs.argument_checks import is_positive_int
from memfs.errors import InvalidNamespaceError, InvalidSetupError, MemfsError, short_repr
from memfs.namespace import ARCHIVE, SESSIONS, Namespace, Template, encode_segment, is_utf8_encodable
from memfs.privacy.policy import Policy
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")
MAX_RESULTS = 1000
MAX_BATCH_SIZE = 100
MAX_METADATA_KEYS = 15  # of one message
_TAG = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
Scalar = str | int | float | bool


class PersistenceMode(StrEnum):
    """Whether a session is saved: FULL, or NONE, which reads existing sessions and memories but writes nothing."""

    FULL = "FULL"
    NONE = "NONE"


@dataclass(frozen=True)
class RetrievalConfig:
    """How much of one namespace is retrieved: the best `top_k` memories with at least `relevance_score`.

    `strategy_id` limits it to memories of one type: a type, or the name of a strategy.
    """

    top_k: int = 10
    relevance_score: float = 0.2
    strategy_id: str | None = None

    def __post_init__(self) -> None:
        check = _Check("RetrievalConfig")
        check.whole("top_k", self.top_k, MAX_RESULTS)
        check.number("relevance_score", self.relevance_score, 1)
        if self.strategy_id is not None:
            check.text("strategy_id", self.strategy_id)


@dataclass(frozen=True)
class VaultMemoryConfig:
    """The settings of one session in a vault, which is a Vault or a path.

    `retrieval_config` maps namespace templates to how much of them is added to a user turn, inside the tag
    `context_tag`; `strategies` distil the session. Up to `batch_size` messages are buffered for one write, no longer
    than `flush_interval_seconds`. `filter_restored_tool_context` leaves tool calls and results out of a restored
    session. The metadata of each message is `default_metadata` and the result of `metadata_provider`.
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
    redaction: Policy | None = None  # default: the policy in memfs.yaml

    def __post_init__(self) -> None:
        check = _Check("VaultMemoryConfig")
        is_vault = isinstance(self.vault, Vault | os.PathLike) or (isinstance(self.vault, str) and self.vault.strip())
        check.that(bool(is_vault), "vault", self.vault, "a vault or a path")
        is_whole = not isinstance(self.vault, Vault) or not self.vault.namespace.segments
        check.that(is_whole, "vault", self.vault, "a whole vault: sessions are outside of a scope")
        check.name("session_id", self.session_id)
        check.name("actor_id", self.actor_id)
        check.whole("batch_size", self.batch_size, MAX_BATCH_SIZE)
        if self.flush_interval_seconds is not None:
            check.number("flush_interval_seconds", self.flush_interval_seconds, math.inf, is_positive=True)
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
        """Return the namespace of a template for this session."""
        return str(Template(template).render(actor=self.actor_id, session=self.session_id, strategy=strategy))

    def lookups(self) -> list[tuple[str, RetrievalConfig]]:
        """Return the namespaces to search, in their order, each with how much of it is retrieved."""
        types = {strategy.name: getattr(strategy, "type", "fact") for strategy in self.strategies}
        found = []
        for template, config in (self.retrieval_config or {}).items():
            strategy = config.strategy_id
            type_ = types.get(strategy, strategy) if strategy else None
            resolved = RetrievalConfig(config.top_k, config.relevance_score, type_)
            found.append((self.namespace_of(template, strategy or ""), resolved))
        return found

    def metadata(self) -> dict[str, Scalar]:
        """Return the metadata of a message that is written now; a faulty provider adds none."""
        metadata = dict(self.default_metadata or {})
        if self.metadata_provider is not None:
            try:
                given = self.metadata_provider()
                _Check("VaultMemoryConfig").metadata("metadata_provider", {**metadata, **given})
                metadata |= given
            except Exception as error:
                log.warning("metadata_provider failed, so the message has no metadata from it: %s", error)
        return metadata

    def _checked_strategies(self, check: "_Check") -> tuple[Strategy, ...]:
        given = self.strategies
        is_list = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
        check.that(is_list, "strategies", given, "a list such as [FactStrategy()]")
        strategies = tuple(given)
        for index, strategy in enumerate(strategies):
            where = f"strategies[{index}]"
            check_strategy(f"{check.subject}: {where}", strategy)
            self._check_template(check, where, strategy.namespace, strategy.name)
        names = [strategy.name for strategy in strategies]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise check.error("strategies", f"two have the name {duplicates[0]!r}")
        return strategies

    def _checked_retrieval(self, check: "_Check") -> Mapping[str, RetrievalConfig] | None:
        given = self.retrieval_config
        if given is None:
            return None
        is_mapping = isinstance(given, Mapping)
        check.that(is_mapping, "retrieval_config", given, "a mapping such as {'/facts/{actorId}': RetrievalConfig()}")
        for template, config in given.items():
            where = f"retrieval_config[{short_repr(template)}]"
            check.that(isinstance(template, str), "retrieval_config", template, "a template such as '/facts/{actorId}'")
            check.that(isinstance(config, RetrievalConfig), where, config, "a RetrievalConfig")
            self._check_template(check, where, template, config.strategy_id or "")
        return MappingProxyType(dict(given))

    def _check_template(self, check: "_Check", where: str, template: str, strategy: str) -> None:
        try:
            namespace = Namespace.parse(self.namespace_of(template, strategy))
        except MemfsError as error:
            raise check.error(where, str(error)) from error
        if has_first_segment(namespace.segments, ARCHIVE, SESSIONS):
            raise check.error(where, f"{namespace.segments[0]}/ is reserved: it is not for current memories")

    def _set(self, name: str, value: Any) -> None:
        """Set a field of the frozen dataclass to its checked value."""
        object.__setattr__(self, name, value)


@dataclass(frozen=True)
class _Check:
    """Raises InvalidSetupError for values that are not valid, with the name of their field."""

    subject: str

    def error(self, name: str, reason: str) -> InvalidSetupError:
        """Return the error for a field."""
        error = InvalidSetupError(self.subject, f"{name}: {reason}")
        error.hint = "docs/sessions.md lists the values of each field."
        return error

    def that(self, is_valid: bool, name: str, value: object, allowed: str) -> None:
        if not is_valid:
            raise self.error(name, f"{short_repr(value)} is not {allowed}")

    def text(self, name: str, value: object) -> None:
        self.that(isinstance(value, str) and bool(value.strip()) and is_utf8_encodable(value), name, value, "a text")

    def name(self, name: str, value: object) -> None:
        """Raise if the value cannot be a name in the vault."""
        self.text(name, value)
        try:
            Namespace.parse(encode_segment(str(value)))
        except InvalidNamespaceError as error:
            raise self.error(name, f"{short_repr(value)} is not usable as a name: {error.reason}") from error

    def whole(self, name: str, value: object, maximum: int) -> None:
        is_valid = is_positive_int(value, maximum)
        self.that(is_valid, name, value, f"a whole number from 1 to {maximum}")

    def number(self, name: str, value: object, maximum: float, *, is_positive: bool = False) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        is_valid = is_number and (value > 0 if is_positive else 0 <= value <= maximum)  # type: ignore[operator]
        self.that(is_valid, name, value, "a number above 0" if is_positive else f"a number from 0 to {maximum}")

    def metadata(self, name: str, value: object) -> None:
        if value is None:
            return
        self.that(isinstance(value, Mapping), name, value, "a mapping of texts to texts, numbers or flags")
        assert isinstance(value, Mapping)
        for key, item in value.items():
            self.that(isinstance(key, str) and bool(key.strip()) and is_utf8_encodable(key), name, key, "a key: a text")
            is_scalar = isinstance(item, str | int | float) and math.isfinite(0 if isinstance(item, str) else item)
            self.that(is_scalar, f"{name}[{key!r}]", item, "a text, a number or a flag")
        if len(value) > MAX_METADATA_KEYS:
            raise self.error(name, f"{len(value)} keys, and {MAX_METADATA_KEYS} is the maximum")

    def mode(self, value: object) -> PersistenceMode:
        """Return the mode that a value names; raise if there is none."""
        modes = {str(mode): mode for mode in PersistenceMode}
        is_valid = isinstance(value, str) and value in modes
        self.that(is_valid, "persistence_mode", value, f"one of {', '.join(modes)}")
        return modes[str(value)]
